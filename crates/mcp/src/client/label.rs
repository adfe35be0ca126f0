//! The configured label of a server.

use std::fmt;
use std::str::FromStr;

/// The most characters of a label.
const MAX_LABEL: usize = 32;

/// The configured name of a server: lower-case letters, digits and dashes. It does not begin with a dash.
///
/// The label identifies the server. The name that the server reports about itself never does.
///
/// ```
/// use prowess_mcp::client::ServerLabel;
///
/// let label: ServerLabel = "team-docs".parse()?;
/// assert_eq!(label.as_str(), "team-docs");
/// assert!("Team docs".parse::<ServerLabel>().is_err());
/// # Ok::<(), prowess_mcp::client::LabelError>(())
/// ```
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ServerLabel(String);

impl ServerLabel {
    /// The label.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl fmt::Display for ServerLabel {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

/// A text is not a [`ServerLabel`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error(
    "a server's label has 1 to {MAX_LABEL} lower-case letters, digits and dashes, and does not begin with a dash"
)]
#[non_exhaustive]
pub struct LabelError;

impl FromStr for ServerLabel {
    type Err = LabelError;

    fn from_str(text: &str) -> Result<Self, LabelError> {
        let is_plain = |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit();
        let fits = (1..=MAX_LABEL).contains(&text.len());
        let begins_well = text.bytes().next().is_some_and(is_plain);
        let is_label = fits && begins_well && text.bytes().all(|byte| is_plain(byte) || byte == b'-');
        is_label.then(|| Self(text.to_owned())).ok_or(LabelError)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn labels_are_short_and_plain() {
        let longest = "a".repeat(MAX_LABEL);
        for label in ["a", "7", "team-docs", "a--b-", &longest] {
            assert_eq!(label.parse::<ServerLabel>().map(|label| label.to_string()).as_deref(), Ok(label));
        }
        for other in ["", "-a", "A", "a_b", "a:b", "a/b", "a.b", "ä", "a b", "a\n", &format!("{longest}a")] {
            assert_eq!(other.parse::<ServerLabel>(), Err(LabelError), "{other}");
        }
    }
}
