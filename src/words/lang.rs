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

    /// By the values of `LC_ALL`, `LC_MESSAGES` and `LANG`, in this order: the first that is set and not empty decides. A terminal of
    /// another encoding (GBK, Big5) would show our UTF-8 as rubbish: there it is English, whose letters are the same in all.
    pub fn of_locale<S: AsRef<str>>(values: impl IntoIterator<Item = Option<S>>) -> Lang {
        let set = values.into_iter().flatten().find(|value| !value.as_ref().is_empty());
        let chinese = set.is_some_and(|value| {
            let (name, encoding) = value.as_ref().split_once('.').unwrap_or((value.as_ref(), "UTF-8"));
            let encoding = encoding.split('@').next().unwrap_or_default().to_ascii_lowercase();
            let rest = name.strip_prefix("zh");
            matches!(encoding.as_str(), "utf-8" | "utf8")
                && rest.is_some_and(|rest| !rest.starts_with(char::is_alphanumeric))
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
        assert_eq!(of([None, None, Some("zh_TW.utf8@radical")]), Lang::Zh);
        assert_eq!(of([None, None, Some("zh_CN")]), Lang::Zh);
        assert_eq!(of([None, None, Some("zh_CN.GB18030")]), Lang::En);
        assert_eq!(of([None, None, None]), Lang::En);
    }
}
