//! The secret of a session, from which the nonces of its frames are made.

use std::fmt;

use prowess_base::hex;

const BYTES: usize = 16;

/// The secret behind the nonces of frames. Because of it, no author of a skill can guess a nonce.
///
/// It is part of the saved state, so frames stay the same after a restore. `Debug` does not show it.
///
/// ```
/// use prowess_skills::secret::Secret;
///
/// let secret = Secret::random();
/// assert_eq!(Secret::from_bytes(*secret.as_bytes()), secret);
/// assert_ne!(Secret::random(), secret);
/// ```
#[derive(Clone, PartialEq, Eq)]
pub struct Secret([u8; BYTES]);

impl Secret {
    /// A new random secret.
    ///
    /// # Panics
    ///
    /// The system has no random numbers, without which frames are not safe.
    pub fn random() -> Self {
        let mut bytes = [0; BYTES];
        getrandom::fill(&mut bytes).expect("the system gives random numbers");
        Self(bytes)
    }

    /// A secret from bytes, for tests and for programs that derive it from a thread.
    pub fn from_bytes(bytes: [u8; BYTES]) -> Self {
        Self(bytes)
    }

    /// The bytes. Protect them like the conversation itself.
    pub fn as_bytes(&self) -> &[u8; BYTES] {
        &self.0
    }

    pub(crate) fn to_hex(&self) -> String {
        hex::encode(&self.0)
    }

    pub(crate) fn from_hex(text: &str) -> Option<Self> {
        // Capital digits are accepted too, although they are never written.
        hex::decode(&text.to_ascii_lowercase()).map(Self)
    }
}

impl fmt::Debug for Secret {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Secret")
    }
}
