//! The wording: Fluent catalogues embedded in the binary, parsed on first use.

use std::sync::LazyLock;

use fluent_bundle::concurrent::FluentBundle;
use fluent_bundle::{FluentArgs, FluentResource, FluentValue};

use super::{Arg, Lang};

/// The same names in each language.
macro_rules! catalogues {
    ($folder:literal) => {
        &[
            ("common", include_str!(concat!($folder, "/common.ftl"))),
            ("env", include_str!(concat!($folder, "/env.ftl"))),
            ("estimate", include_str!(concat!($folder, "/estimate.ftl"))),
            ("failure", include_str!(concat!($folder, "/failure.ftl"))),
            ("help", include_str!(concat!($folder, "/help.ftl"))),
            ("model", include_str!(concat!($folder, "/model.ftl"))),
            ("probe", include_str!(concat!($folder, "/probe.ftl"))),
            ("recovery", include_str!(concat!($folder, "/recovery.ftl"))),
            ("verdict", include_str!(concat!($folder, "/verdict.ftl"))),
        ]
    };
}

type Sources = &'static [(&'static str, &'static str)];
const ENGLISH: Sources = catalogues!("en");
const CHINESE: Sources = catalogues!("zh");

static EN: LazyLock<FluentBundle<FluentResource>> = LazyLock::new(|| bundle(Lang::En));
static ZH: LazyLock<FluentBundle<FluentResource>> = LazyLock::new(|| bundle(Lang::Zh));

pub(super) fn sources(lang: Lang) -> Sources {
    match lang {
        Lang::En => ENGLISH,
        Lang::Zh => CHINESE,
    }
}

fn bundle(lang: Lang) -> FluentBundle<FluentResource> {
    let tag = lang.tag().parse().expect("the language tags of this file are valid");
    let mut bundle = FluentBundle::new_concurrent(vec![tag]);
    // Isolation marks are invisible in a browser but garbage in a terminal and in documents.
    bundle.set_use_isolating(false);
    for (name, source) in sources(lang) {
        // A broken line is skipped here and caught by the test below.
        let resource = match FluentResource::try_new((*source).to_owned()) {
            Ok(resource) | Err((resource, _)) => resource,
        };
        let added = bundle.add_resource(resource);
        debug_assert!(added.is_ok(), "an id of {name}.ftl is already taken: {added:?}");
    }
    bundle
}

fn of(lang: Lang) -> &'static FluentBundle<FluentResource> {
    match lang {
        Lang::En => &EN,
        Lang::Zh => &ZH,
    }
}

pub(super) fn has(lang: Lang, id: &str) -> bool {
    of(lang).has_message(id)
}

pub(super) fn say(lang: Lang, id: &str, args: &[(&'static str, Arg)]) -> String {
    let mut values = FluentArgs::new();
    for (name, arg) in args {
        let value = match arg {
            Arg::Count(n) => FluentValue::from(*n as f64),
            other => FluentValue::from(other.text(lang)),
        };
        values.set(*name, value);
    }
    worded(lang, id, &values)
}

pub(super) fn worded(lang: Lang, id: &str, values: &FluentArgs<'_>) -> String {
    let bundle = of(lang);
    let Some(pattern) = bundle.get_message(id).and_then(|message| message.value()) else {
        // Tests keep this from being reached; English, or else a bare id, still tells more than a panic.
        return if lang == Lang::En { id.to_owned() } else { worded(Lang::En, id, values) };
    };
    let mut problems = Vec::new();
    bundle.format_pattern(pattern, Some(values), &mut problems).into_owned()
}

#[cfg(test)]
mod tests {
    use super::{Lang, sources};
    use fluent_bundle::FluentResource;
    use std::collections::BTreeSet;

    #[test]
    fn every_catalogue_parses_and_no_id_is_taken_twice() {
        for lang in Lang::ALL {
            let mut seen = BTreeSet::new();
            for (name, source) in sources(lang) {
                let resource = FluentResource::try_new((*source).to_owned())
                    .unwrap_or_else(|(_, errors)| panic!("{name}.ftl: {errors:?}"));
                for line in source.lines() {
                    if let Some((id, _)) = line.split_once(" =").filter(|(id, _)| !id.starts_with([' ', '#']))
                    {
                        assert!(seen.insert(id.to_owned()), "{lang:?} {name}.ftl: `{id}` is taken twice");
                    }
                }
                drop(resource);
            }
        }
    }
}
