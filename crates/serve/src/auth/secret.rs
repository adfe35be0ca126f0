//! The secrets of tokens, sessions and login links. The database has only their digests.

use std::fmt;

use hmac_sha256::Hash;
use prowess_base::hex;

/// What a token begins with, so that people and scanners of repositories recognise it.
const PREFIX: &str = "prowess_";
/// The random bytes of a secret.
const BYTES: usize = 32;

/// A secret that proves who makes a request. It is random, so its plain SHA-256 cannot be guessed.
#[derive(Clone, PartialEq, Eq)]
pub struct AccessSecret(String);

impl AccessSecret {
    /// A new secret.
    ///
    /// # Errors
    ///
    /// The system has no random numbers.
    pub fn random() -> Result<Self, getrandom::Error> {
        let mut bytes = [0; BYTES];
        getrandom::fill(&mut bytes)?;
        Ok(Self(format!("{PREFIX}{}", hex::encode(&bytes))))
    }

    /// The digest of a secret that somebody sent.
    pub fn digest_of(text: &str) -> [u8; 32] {
        Hash::hash(text.as_bytes())
    }

    /// The digest that the database has.
    pub fn digest(&self) -> [u8; 32] {
        Self::digest_of(&self.0)
    }

    /// The text, to show it once.
    pub fn expose(&self) -> &str {
        &self.0
    }
}

impl fmt::Debug for AccessSecret {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("AccessSecret(…)")
    }
}
