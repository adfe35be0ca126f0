//! Digests: the SHA-256 of exact bytes.

use std::fmt;
use std::str::FromStr;

use prowess_base::hex;

/// The SHA-256 of exact bytes.
///
/// ```
/// use prowess_catalog::Digest;
///
/// let digest = Digest::of(b"Wave.");
/// assert!(digest.to_string().starts_with("sha256:"));
/// assert_eq!(digest.to_string().parse(), Ok(digest));
/// ```
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Digest([u8; 32]);

impl Digest {
    /// The digest of `bytes`.
    pub fn of(bytes: &[u8]) -> Self {
        Self(hmac_sha256::Hash::hash(bytes))
    }

    /// A digest that was computed before, such as one that was stored.
    ///
    /// ```
    /// use prowess_catalog::Digest;
    ///
    /// let digest = Digest::of(b"Wave.");
    /// assert_eq!(Digest::from_bytes(*digest.as_bytes()), digest);
    /// ```
    pub fn from_bytes(bytes: [u8; 32]) -> Self {
        Self(bytes)
    }

    /// The bytes of the digest.
    pub fn as_bytes(&self) -> &[u8; 32] {
        &self.0
    }
}

/// Appends the digest of `bytes`, so that [`without_checksum`] notices damage.
///
/// ```
/// use prowess_catalog::digest::{with_checksum, without_checksum};
///
/// let mut stored = with_checksum(b"Wave.".to_vec());
/// assert_eq!(without_checksum(&stored), Some(&b"Wave."[..]));
/// stored[0] = b'S';
/// assert_eq!(without_checksum(&stored), None);
/// ```
pub fn with_checksum(mut bytes: Vec<u8>) -> Vec<u8> {
    let checksum = Digest::of(&bytes);
    bytes.extend_from_slice(checksum.as_bytes());
    bytes
}

/// The bytes before the checksum. `None` if they are damaged.
pub fn without_checksum(bytes: &[u8]) -> Option<&[u8]> {
    let (stored, checksum) = bytes.split_last_chunk()?;
    (Digest::of(stored).as_bytes() == checksum).then_some(stored)
}

/// Computes the [`Digest`] of bytes that arrive in pieces.
///
/// ```
/// use prowess_catalog::digest::Digester;
/// use prowess_catalog::Digest;
///
/// let mut digester = Digester::default();
/// digester.update(b"Wa");
/// digester.update(b"ve.");
/// assert_eq!(digester.digest(), Digest::of(b"Wave."));
/// ```
#[derive(Clone, Default)]
pub struct Digester(hmac_sha256::Hash);

impl Digester {
    /// Adds the next bytes.
    pub fn update(&mut self, bytes: &[u8]) {
        self.0.update(bytes);
    }

    /// The digest of all bytes.
    pub fn digest(self) -> Digest {
        Digest(self.0.finalize())
    }
}

impl fmt::Debug for Digester {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Digester")
    }
}

impl fmt::Display for Digest {
    /// `sha256:` and the digest in hexadecimal.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("sha256:")?;
        hex::write(f, &self.0)
    }
}

impl fmt::Debug for Digest {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

/// A text is not a [`Digest`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct DigestError;

impl fmt::Display for DigestError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a digest is `sha256:` and 64 lowercase hexadecimal digits")
    }
}

impl std::error::Error for DigestError {}

impl FromStr for Digest {
    type Err = DigestError;

    /// Parses exactly the text that [`Digest`] displays: a digest has one spelling.
    fn from_str(text: &str) -> Result<Self, DigestError> {
        text.strip_prefix("sha256:").and_then(hex::decode).map(Self).ok_or(DigestError)
    }
}

#[cfg(feature = "serde")]
impl<'de> serde::Deserialize<'de> for Digest {
    fn deserialize<D: serde::Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        String::deserialize(deserializer)?.parse().map_err(serde::de::Error::custom)
    }
}

#[cfg(feature = "serde")]
impl serde::Serialize for Digest {
    fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_digest_is_sha_256() {
        assert_eq!(
            Digest::of(b"abc").to_string(),
            "sha256:ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad"
        );
    }

    #[test]
    fn a_digest_is_read_back_in_its_one_spelling() {
        let digest = Digest::of(b"abc");
        let text = digest.to_string();
        assert_eq!(text.parse(), Ok(digest));
        let loud = text.to_uppercase().replace("SHA", "sha");
        for other in
            ["", "sha256:", &text[7..], &text[..70], &format!("{text}0"), &loud, &text.replace('a', "é")]
        {
            assert_eq!(other.parse::<Digest>(), Err(DigestError), "{other}");
        }
    }
}
