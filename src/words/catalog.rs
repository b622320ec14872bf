//! The wording: Fluent catalogues embedded in the binary, parsed on first use.

use std::sync::LazyLock;

use fluent_bundle::concurrent::FluentBundle;
use fluent_bundle::{FluentArgs, FluentResource, FluentValue};

use super::{Arg, Lang};

const ENGLISH: &[(&str, &str)] = &[
    ("common", include_str!("en/common.ftl")),
    ("env", include_str!("en/env.ftl")),
    ("estimate", include_str!("en/estimate.ftl")),
    ("failure", include_str!("en/failure.ftl")),
    ("model", include_str!("en/model.ftl")),
    ("probe", include_str!("en/probe.ftl")),
    ("verdict", include_str!("en/verdict.ftl")),
];

static EN: LazyLock<FluentBundle<FluentResource>> = LazyLock::new(|| bundle("en", ENGLISH));

fn bundle(tag: &str, sources: &[(&str, &str)]) -> FluentBundle<FluentResource> {
    let tag = tag.parse().expect("the language tags of this file are valid");
    let mut bundle = FluentBundle::new_concurrent(vec![tag]);
    // Isolation marks are invisible in a browser but garbage in a terminal and in documents.
    bundle.set_use_isolating(false);
    for (name, source) in sources {
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
    }
}

pub(super) fn has(lang: Lang, id: &str) -> bool {
    of(lang).has_message(id)
}

pub(super) fn say(lang: Lang, id: &str, args: &[(&'static str, Arg)]) -> String {
    let bundle = of(lang);
    let Some(pattern) = bundle.get_message(id).and_then(|message| message.value()) else {
        // Tests keep this from being reached; a bare id still tells more than a panic.
        return id.to_owned();
    };
    let mut values = FluentArgs::new();
    for (name, arg) in args {
        let value = match arg {
            Arg::Count(n) => FluentValue::from(*n as f64),
            other => FluentValue::from(other.text(lang)),
        };
        values.set(*name, value);
    }
    let mut problems = Vec::new();
    bundle.format_pattern(pattern, Some(&values), &mut problems).into_owned()
}

#[cfg(test)]
mod tests {
    use super::ENGLISH;
    use fluent_bundle::FluentResource;
    use std::collections::BTreeSet;

    #[test]
    fn every_catalogue_parses_and_no_id_is_taken_twice() {
        let mut seen = BTreeSet::new();
        for (name, source) in ENGLISH {
            let resource = FluentResource::try_new((*source).to_owned())
                .unwrap_or_else(|(_, errors)| panic!("{name}.ftl: {errors:?}"));
            for line in source.lines() {
                if let Some((id, _)) = line.split_once(" =").filter(|(id, _)| !id.starts_with([' ', '#'])) {
                    assert!(seen.insert(id.to_owned()), "{name}.ftl: `{id}` is taken twice");
                }
            }
            drop(resource);
        }
    }
}
