//! The secret that a session's frames are made with.

use std::fmt;

use prowess_base::hex;

const BYTES: usize = 16;

/// What makes a frame's nonce one that no author of a skill can know.
///
/// It is part of a session's saved state, so that the frames of a conversation stay the same when the
/// session is restored. It is not shown.
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
    /// A new one from the system's random numbers.
    ///
    /// # Panics
    ///
    /// When the system has none, without which nothing can be framed.
    pub fn random() -> Self {
        let mut bytes = [0; BYTES];
        getrandom::fill(&mut bytes).expect("the system gives random numbers");
        Self(bytes)
    }

    /// The secret that is these bytes: for tests, and for hosts that derive it from a thread.
    pub fn from_bytes(bytes: [u8; BYTES]) -> Self {
        Self(bytes)
    }

    /// The bytes, to be kept as carefully as the conversation itself.
    pub fn as_bytes(&self) -> &[u8; BYTES] {
        &self.0
    }

    pub(crate) fn to_hex(&self) -> String {
        hex::encode(&self.0)
    }

    pub(crate) fn from_hex(text: &str) -> Option<Self> {
        // Capital digits were never written, and have always been read.
        hex::decode(&text.to_ascii_lowercase()).map(Self)
    }
}

impl fmt::Debug for Secret {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Secret")
    }
}
