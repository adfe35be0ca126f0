//! The digest of a content.

use std::fmt;
use std::str::FromStr;

use prowess_base::hex;
use serde::{Deserialize, Serialize};

/// The SHA-256 of bytes, which is also their name in a store.
///
/// ```
/// use prowess_workspace::inventory::ContentDigest;
///
/// let digest = ContentDigest::of(b"low tide");
/// assert_eq!(digest.to_string().parse(), Ok(digest));
/// assert!("low tide".parse::<ContentDigest>().is_err());
/// ```
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct ContentDigest([u8; 32]);

impl ContentDigest {
    /// The digest of these bytes.
    pub fn of(bytes: &[u8]) -> Self {
        Self(hmac_sha256::Hash::hash(bytes))
    }

    pub(super) fn from_hash(hash: hmac_sha256::Hash) -> Self {
        Self(hash.finalize())
    }
}

impl fmt::Display for ContentDigest {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        hex::write(f, &self.0)
    }
}

impl fmt::Debug for ContentDigest {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

impl FromStr for ContentDigest {
    type Err = &'static str;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let is_lower = !text.bytes().any(|byte| byte.is_ascii_uppercase());
        hex::decode(text).filter(|_| is_lower).map(Self).ok_or("a digest has 64 digits, 0-9 and a-f")
    }
}

impl TryFrom<String> for ContentDigest {
    type Error = &'static str;

    fn try_from(text: String) -> Result<Self, Self::Error> {
        text.parse()
    }
}

impl From<ContentDigest> for String {
    fn from(digest: ContentDigest) -> Self {
        digest.to_string()
    }
}
