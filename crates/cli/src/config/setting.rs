//! Types of values that check themselves when they are read.

use std::borrow::Borrow;
use std::fmt;
use std::ops::Deref;
use std::path::PathBuf;
use std::str::FromStr;

use serde_json::Value as Json;

use super::read::quoted;

/// The default of a list.
pub(crate) const EMPTY: [&str; 0] = [];

/// A type of values.
pub(crate) trait Setting: Sized {
    /// What to write in a file.
    fn expected() -> String {
        "text in quotes".to_owned()
    }
    /// The value, or why it cannot be used.
    fn read(value: &Json) -> Result<Self, Wrong>;
    /// The value of a key that nobody sets and that has no default.
    fn absent() -> Option<Self> {
        None
    }
}

/// Why a value cannot be used.
pub(crate) enum Wrong {
    /// It is not what is [expected](Setting::expected).
    Form,
    /// For this reason.
    Because(String),
}

impl<T: Setting> Setting for Option<T> {
    fn expected() -> String {
        T::expected()
    }

    fn read(value: &Json) -> Result<Self, Wrong> {
        T::read(value).map(Some)
    }

    fn absent() -> Option<Self> {
        Some(None)
    }
}

impl<T: Setting> Setting for Vec<T> {
    fn expected() -> String {
        "a list of texts, such as [\"a\", \"b\"]".to_owned()
    }

    fn read(value: &Json) -> Result<Self, Wrong> {
        value.as_array().ok_or(Wrong::Form)?.iter().map(T::read).collect()
    }
}

impl Setting for String {
    fn read(value: &Json) -> Result<Self, Wrong> {
        value.as_str().map(Self::from).ok_or(Wrong::Form)
    }
}

/// Declares a type of values that are written as one of several words, or makes one of such a type.
macro_rules! words {
    ($(#[doc = $about:literal])+ enum $type:ident { $($word:literal = $value:ident),+ $(,)? }) => {
        $(#[doc = $about])+
        #[derive(Clone, Copy, Debug, PartialEq, Eq)]
        pub(crate) enum $type { $($value),+ }
        words!($type { $($word = $value),+ });
    };
    ($type:ty { $($word:literal = $value:ident),+ }) => {
        impl $crate::config::setting::Setting for $type {
            fn expected() -> String {
                $crate::config::read::alternatives(&[$($word),+])
            }
            fn read(value: &serde_json::Value) -> Result<Self, $crate::config::setting::Wrong> {
                match value.as_str() {
                    $(Some($word) => Ok(Self::$value),)+
                    _ => Err($crate::config::setting::Wrong::Form),
                }
            }
        }
    };
}
pub(crate) use words;

/// A value that is written as text: the text, and what it means.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Parsed<T> {
    text: String,
    pub(crate) value: T,
}

impl<T: FromStr> FromStr for Parsed<T> {
    type Err = T::Err;

    fn from_str(text: &str) -> Result<Self, T::Err> {
        Ok(Self { value: text.parse()?, text: text.to_owned() })
    }
}

impl<T: FromStr<Err: fmt::Display>> Setting for Parsed<T> {
    fn read(value: &Json) -> Result<Self, Wrong> {
        value.as_str().ok_or(Wrong::Form)?.parse().map_err(|error: T::Err| Wrong::Because(error.to_string()))
    }
}

impl<T> fmt::Display for Parsed<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.text)
    }
}

impl<T> Deref for Parsed<T> {
    type Target = str;

    fn deref(&self) -> &str {
        &self.text
    }
}

impl<T> Borrow<str> for Parsed<T> {
    fn borrow(&self) -> &str {
        &self.text
    }
}

/// A whole number from `LEAST` to `MOST`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Whole<const LEAST: u64 = 1, const MOST: u64 = { u64::MAX }>(pub(crate) u64);

/// A whole number that also fits into 32 bits.
pub(crate) type Whole32<const LEAST: u64 = 1> = Whole<LEAST, { u32::MAX as u64 }>;

impl<const LEAST: u64, const MOST: u64> Whole<LEAST, MOST> {
    /// The number, or the largest `usize`.
    pub(crate) fn size(self) -> usize {
        usize::try_from(self.0).unwrap_or(usize::MAX)
    }
}

impl<const LEAST: u64, const MOST: u64> Setting for Whole<LEAST, MOST> {
    fn expected() -> String {
        format!("a whole number of {LEAST} or more")
    }

    fn read(value: &Json) -> Result<Self, Wrong> {
        match value.as_u64().filter(|number| *number >= LEAST).ok_or(Wrong::Form)? {
            number if number > MOST => {
                Err(Wrong::Because(format!("write a whole number of {MOST} or less, not {number}")))
            }
            number => Ok(Self(number)),
        }
    }
}

/// A number of 0 or more, such as an amount of dollars.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Amount(pub(crate) f64);

impl Setting for Amount {
    fn expected() -> String {
        "a number of 0 or more".to_owned()
    }

    fn read(value: &Json) -> Result<Self, Wrong> {
        let number = value.as_f64().filter(|number| number.is_finite() && *number >= 0.0);
        number.map(Self).ok_or(Wrong::Form)
    }
}

/// The name of an environment variable.
#[derive(Clone, Debug)]
pub(crate) struct Variable;

impl FromStr for Variable {
    type Err = &'static str;

    fn from_str(text: &str) -> Result<Self, &'static str> {
        let begins = |c: char| c.is_ascii_uppercase() || c == '_';
        let fits = |c: char| begins(c) || c.is_ascii_digit();
        // The message does not repeat the text: it may be a key.
        let is_name = text.starts_with(begins) && text.chars().all(fits);
        is_name
            .then_some(Self)
            .ok_or("write the name of an environment variable, such as API_TOKEN, not its value")
    }
}

/// The name of an environment variable, or an empty text for none.
#[derive(Clone, Debug)]
pub(crate) struct VariableOrNone;

impl FromStr for VariableOrNone {
    type Err = &'static str;

    fn from_str(text: &str) -> Result<Self, &'static str> {
        if text.is_empty() { Ok(Self) } else { text.parse::<Variable>().map(|_| Self) }
    }
}

/// A path that does not depend on the working directory, with `~/` expanded.
#[derive(Clone, Debug)]
pub(crate) struct FullPath(pub(crate) PathBuf);

impl FromStr for FullPath {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        match (text.strip_prefix("~/"), super::home()) {
            (Some(below), Some(home)) => Ok(Self(home.join(below))),
            (None, _) if !text.starts_with('/') => {
                Err(format!("write `{}` as an absolute path, or with a leading ~/", quoted(text)))
            }
            _ => Ok(Self(PathBuf::from(text))),
        }
    }
}

/// A URL with `http://` or `https://`. A wrong host shows when it is called.
#[derive(Clone, Debug)]
pub(crate) struct HttpUrl;

impl FromStr for HttpUrl {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let rest = text.strip_prefix("http://").or_else(|| text.strip_prefix("https://"));
        let is_host =
            |rest: &str| !rest.is_empty() && !rest.starts_with('/') && !rest.contains(char::is_whitespace);
        match rest {
            Some(rest) if is_host(rest) => Ok(Self),
            // What stands before an `@` may be a password.
            _ if text.contains('@') => Err("write a URL with http:// or https://".to_owned()),
            _ => Err(format!("write a URL with http:// or https://, not `{}`", quoted(text))),
        }
    }
}

/// A program and its arguments. No shell reads them.
#[derive(Clone, Debug)]
pub(crate) struct CommandLine(pub(crate) Vec<String>);

impl Setting for CommandLine {
    fn expected() -> String {
        Vec::<String>::expected()
    }

    fn read(value: &Json) -> Result<Self, Wrong> {
        let words = Vec::<String>::read(value)?;
        let because = |reason: &str| Err(Wrong::Because(reason.to_owned()));
        match words.first().map_or("", String::as_str) {
            "" => because("name a program and its arguments, such as [\"pass\", \"show\", \"openai\"]"),
            // The working directory may belong to a stranger.
            program if program.contains('/') && !program.starts_with('/') => {
                because("write the program as a bare name or as an absolute path")
            }
            _ => Ok(Self(words)),
        }
    }
}
