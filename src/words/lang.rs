//! Which language a person reads.

/// The language of what a person reads. JSON keys and enum values never change with it.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Hash)]
pub enum Lang {
    #[default]
    En,
    Zh,
}

impl Lang {
    pub const ALL: [Lang; 2] = [Lang::En, Lang::Zh];

    /// The BCP 47 tag. With the region, browsers choose a font with the right forms of characters.
    pub fn tag(self) -> &'static str {
        match self {
            Lang::En => "en",
            Lang::Zh => "zh-CN",
        }
    }

    /// By the values of `LC_ALL`, `LC_MESSAGES` and `LANG`, in this order: the first that is set and not empty decides.
    pub fn of_locale<S: AsRef<str>>(values: impl IntoIterator<Item = Option<S>>) -> Lang {
        let set = values.into_iter().flatten().find(|value| !value.as_ref().is_empty());
        let chinese = set.is_some_and(|value| {
            let rest = value.as_ref().strip_prefix("zh");
            rest.is_some_and(|rest| !rest.starts_with(char::is_alphanumeric))
        });
        if chinese { Lang::Zh } else { Lang::En }
    }

    /// Between the parts of a list.
    pub(super) fn comma(self) -> &'static str {
        match self {
            Lang::En => ", ",
            Lang::Zh => "，",
        }
    }
}

#[cfg(test)]
mod tests {
    use super::Lang;

    #[test]
    fn the_first_variable_that_is_set_decides() {
        let of = |values: [Option<&str>; 3]| Lang::of_locale(values);
        assert_eq!(of([None, None, Some("zh_CN.UTF-8")]), Lang::Zh);
        assert_eq!(of([Some(""), None, Some("zh")]), Lang::Zh);
        assert_eq!(of([None, Some("zh-Hans"), Some("en_US.UTF-8")]), Lang::Zh);
        assert_eq!(of([Some("C.UTF-8"), None, Some("zh_CN.UTF-8")]), Lang::En);
        assert_eq!(of([None, None, Some("zhuang")]), Lang::En);
        assert_eq!(of([None, None, None]), Lang::En);
    }
}
