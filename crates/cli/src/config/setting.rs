//! Types of values that check themselves when they are read.

use std::borrow::Borrow;
use std::fmt;
use std::ops::Deref;
use std::path::PathBuf;
use std::str::FromStr;

use serde_json::{Map, Value as Json};

use super::read::quoted;
use super::value::Origin;
use crate::directories::home;

/// The default of a list.
pub(crate) const EMPTY: [&str; 0] = [];

/// A type of values.
pub(crate) trait Setting: Sized {
    /// The value, or why it cannot be used. No type accepts an object.
    fn read(value: &Json) -> Result<Self, Wrong>;
    /// The value of a key that nobody sets and that has no default.
    fn absent() -> Option<Self> {
        None
    }
    /// Whether a value of a project's file narrows the value of the other sources instead of replacing it.
    const NARROWS: bool = false;
    /// This value, which comes from `origin`, over the value of weaker sources.
    fn over(self, _weaker: Option<Self>, _origin: &Origin) -> Self {
        self
    }
}

/// Why a value cannot be used.
pub(crate) enum Wrong {
    /// It must be this instead.
    Form(String),
    /// For this reason.
    Because(String),
}

/// What to write in a file for a value of this type.
pub(crate) fn expected<T: Setting>() -> String {
    match T::read(&Json::Object(Map::new())) {
        Err(Wrong::Form(text) | Wrong::Because(text)) => text,
        Ok(_) => String::new(),
    }
}

/// The text that a value must be.
pub(crate) fn text_of(value: &Json) -> Result<&str, Wrong> {
    value.as_str().ok_or_else(|| Wrong::Form("text in quotes".to_owned()))
}

impl<T: Setting> Setting for Option<T> {
    fn read(value: &Json) -> Result<Self, Wrong> {
        T::read(value).map(Some)
    }

    fn absent() -> Option<Self> {
        Some(None)
    }
}

impl<T: Setting> Setting for Vec<T> {
    fn read(value: &Json) -> Result<Self, Wrong> {
        let form = || Wrong::Form("a list of texts, such as [\"a\", \"b\"]".to_owned());
        let items = value.as_array().ok_or_else(form)?.iter().map(T::read);
        items
            .map(|item| item.map_err(|wrong| if let Wrong::Form(_) = wrong { form() } else { wrong }))
            .collect()
    }
}

impl Setting for String {
    fn read(value: &Json) -> Result<Self, Wrong> {
        text_of(value).map(Self::from)
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
            fn read(value: &serde_json::Value) -> Result<Self, $crate::config::setting::Wrong> {
                match value.as_str() {
                    $(Some($word) => Ok(Self::$value),)+
                    _ => Err($crate::config::setting::Wrong::Form($crate::config::read::alternatives(&[$($word),+]))),
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
        text_of(value)?.parse().map_err(|error: T::Err| Wrong::Because(error.to_string()))
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
    fn read(value: &Json) -> Result<Self, Wrong> {
        match value.as_u64() {
            Some(number) if number > MOST => {
                Err(Wrong::Because(format!("write a whole number of {MOST} or less, not {number}")))
            }
            Some(number) if number >= LEAST => Ok(Self(number)),
            _ => Err(Wrong::Form(format!("a whole number of {LEAST} or more"))),
        }
    }
}

/// A number of 0 or more, such as an amount of dollars.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Amount(pub(crate) f64);

impl Setting for Amount {
    fn read(value: &Json) -> Result<Self, Wrong> {
        let number = value.as_f64().filter(|number| number.is_finite() && *number >= 0.0);
        number.map(Self).ok_or_else(|| Wrong::Form("a number of 0 or more".to_owned()))
    }
}

/// Declares a kind of text for [`Parsed`]: which texts it accepts, and what to say about others.
macro_rules! text {
    ($(#[doc = $about:literal])+ $name:ident: |$text:ident| $accepts:expr, $message:expr) => {
        $(#[doc = $about])+
        #[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
        pub(crate) struct $name;

        impl std::str::FromStr for $name {
            type Err = String;

            fn from_str($text: &str) -> Result<Self, String> {
                if $accepts { Ok(Self) } else { Err($message.into()) }
            }
        }
    };
}
pub(crate) use text;

// The message does not repeat the text: it may be a key.
const NO_VARIABLE: &str = "write the name of an environment variable, such as API_TOKEN, not its value";

text!(
    /// The name of an environment variable.
    Variable: |text| is_variable(text), NO_VARIABLE
);
text!(
    /// The name of an environment variable, or an empty text for none.
    VariableOrNone: |text| text.is_empty() || is_variable(text), NO_VARIABLE
);
text!(
    /// A URL with `http://` or `https://`. A wrong host shows when it is called.
    HttpUrl: |text| is_http_url(text), match text {
        // What stands before an `@` may be a password.
        text if text.contains('@') => "write a URL with http:// or https://".to_owned(),
        text => format!("write a URL with http:// or https://, not `{}`", quoted(text)),
    }
);

fn is_variable(text: &str) -> bool {
    let begins = |c: char| c.is_ascii_uppercase() || c == '_';
    text.starts_with(begins) && text.chars().all(|c| begins(c) || c.is_ascii_digit())
}

fn is_http_url(text: &str) -> bool {
    let rest = text.strip_prefix("http://").or_else(|| text.strip_prefix("https://"));
    rest.is_some_and(|rest| !rest.is_empty() && !rest.starts_with('/') && !rest.contains(char::is_whitespace))
}

/// A path that does not depend on the working directory, with `~/` expanded.
#[derive(Clone, Debug)]
pub(crate) struct FullPath(pub(crate) PathBuf);

impl FromStr for FullPath {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        match (text.strip_prefix("~/"), home()) {
            (Some(below), Some(home)) => Ok(Self(home.join(below))),
            (None, _) if !text.starts_with('/') => {
                Err(format!("write `{}` as an absolute path, or with a leading ~/", quoted(text)))
            }
            _ => Ok(Self(PathBuf::from(text))),
        }
    }
}

/// A program and its arguments. No shell reads them.
#[derive(Clone, Debug)]
pub(crate) struct CommandLine(pub(crate) Vec<String>);

impl Setting for CommandLine {
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
