//! The name of a skill.

use std::borrow::Cow;
use std::fmt;

use unicode_normalization::{IsNormalized, UnicodeNormalization, is_nfkc_quick};

use crate::untrusted;

/// The most characters that the specification allows in a name.
pub const MAX_NAME_CHARS: usize = 64;

/// The most characters of a name that prowess still loads.
pub(crate) const MAX_LENIENT_NAME_CHARS: usize = 256;

/// A name that is safe to show, compare and store.
///
/// It is trimmed, NFKC-normalised, not empty and bounded, and has no control, invisible or direction-changing characters. It
/// may still violate the specification (`My_Skill`). It is a label, never a path.
///
/// ```
/// use prowess_catalog::SkillName;
///
/// let name = SkillName::parse("  python-math ").unwrap();
/// assert_eq!(name.as_str(), "python-math");
/// assert!(SkillName::parse("evil\u{202E}txt").is_err());
/// ```
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct SkillName(Box<str>);

/// Why a text cannot be a [`SkillName`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum NameError {
    /// Nothing is left after trimming.
    Empty,
    /// The name has more than 256 characters.
    TooLong,
    /// The name has a control, invisible or direction-changing character.
    Unprintable(char),
}

impl fmt::Display for NameError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Empty => f.write_str("the name is empty"),
            Self::TooLong => write!(f, "the name has more than {MAX_LENIENT_NAME_CHARS} characters"),
            Self::Unprintable(c) => {
                write!(f, "the name has the invisible or control character U+{:04X}", u32::from(*c))
            }
        }
    }
}

impl std::error::Error for NameError {}

impl SkillName {
    /// Parses a name.
    pub fn parse(text: &str) -> Result<Self, NameError> {
        let name = collapse(normalise(text));
        if name.is_empty() {
            return Err(NameError::Empty);
        }
        if let Some(c) = name.chars().find(|&c| untrusted::is_unprintable(c)) {
            return Err(NameError::Unprintable(c));
        }
        if name.chars().count() > MAX_LENIENT_NAME_CHARS {
            return Err(NameError::TooLong);
        }
        Ok(Self(name.into()))
    }

    /// `text` in the spelling that the specification requires. Empty if nothing is left.
    ///
    /// ```
    /// assert_eq!(prowess_catalog::SkillName::spelling("My Skill_2!"), "my-skill-2");
    /// ```
    pub fn spelling(text: &str) -> String {
        let words: Vec<String> = text
            .split(|c: char| !c.is_alphanumeric())
            .filter(|word| !word.is_empty())
            .map(str::to_lowercase)
            .collect();
        let name: String = words.join("-").chars().take(MAX_NAME_CHARS).collect();
        name.trim_end_matches('-').to_owned()
    }

    /// The name as text.
    pub fn as_str(&self) -> &str {
        &self.0
    }

    /// Whether a catalog has room for only one of both names: they differ in letter case at most.
    ///
    /// ```
    /// use prowess_catalog::SkillName;
    ///
    /// let [one, other] = ["pdf", "PDF"].map(|name| SkillName::parse(name).unwrap());
    /// assert!(one.collides_with(&other));
    /// ```
    pub fn collides_with(&self, other: &Self) -> bool {
        let key = |name: &Self| name.collision_key().unwrap_or_else(|| name.0.as_ref().into());
        key(self) == key(other)
    }

    /// The key that colliding names share: names that differ only in letter case. `None` if it is the name itself.
    pub(crate) fn collision_key(&self) -> Option<Box<str>> {
        let is_folded = self.0.bytes().all(|byte| byte.is_ascii() && !byte.is_ascii_uppercase());
        (!is_folded).then(|| self.0.to_lowercase().into_boxed_str())
    }
}

impl fmt::Display for SkillName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl fmt::Debug for SkillName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:?}", &self.0)
    }
}

impl AsRef<str> for SkillName {
    fn as_ref(&self) -> &str {
        &self.0
    }
}

impl PartialEq<str> for SkillName {
    fn eq(&self, other: &str) -> bool {
        &*self.0 == other
    }
}

#[cfg(feature = "serde")]
impl<'de> serde::Deserialize<'de> for SkillName {
    /// Parses the text with [`SkillName::parse`].
    fn deserialize<D: serde::Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        Self::parse(&String::deserialize(deserializer)?).map_err(serde::de::Error::custom)
    }
}

#[cfg(feature = "serde")]
impl serde::Serialize for SkillName {
    fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(&self.0)
    }
}

/// Trims and NFKC-normalises a name or a directory name for comparison.
pub(crate) fn normalise(text: &str) -> Cow<'_, str> {
    let text = text.trim();
    if text.is_ascii() || is_nfkc_quick(text.chars()) == IsNormalized::Yes {
        return Cow::Borrowed(text);
    }
    Cow::Owned(text.nfkc().collect::<String>().trim().to_owned())
}

/// Turns several blanks into one.
fn collapse(name: Cow<'_, str>) -> Cow<'_, str> {
    let mut before = ' ';
    let is_collapsed = name.chars().all(|c| {
        let ok = !c.is_whitespace() || (c == ' ' && before != ' ');
        before = c;
        ok
    });
    if is_collapsed { name } else { Cow::Owned(name.split_whitespace().collect::<Vec<_>>().join(" ")) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_trimmed_and_normalised() {
        assert_eq!(SkillName::parse("cre\u{300}me").unwrap().as_str(), "crème");
        assert_eq!(SkillName::parse(" ｆｕｌｌ ").unwrap().as_str(), "full");
    }

    #[test]
    fn names_that_cannot_be_shown_are_refused() {
        for text in ["a\0b", "a\u{200B}b", "a\u{202E}b", "a\u{7}b", "a\u{FEFF}b", "\u{E0041}x"] {
            assert!(matches!(SkillName::parse(text), Err(NameError::Unprintable(_))), "{text:?}");
        }
        assert_eq!(SkillName::parse(" \t"), Err(NameError::Empty));
        assert_eq!(SkillName::parse(&"a".repeat(257)), Err(NameError::TooLong));
    }
}
