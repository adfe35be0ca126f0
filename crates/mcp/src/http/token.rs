//! The secret token that clients send.

use std::fmt;

use hmac_sha256::Hash;
use prowess_base::hex;

/// The fewest characters that a token may have.
const MIN_CHARS: usize = 16;
/// How many bytes a random token has.
const RANDOM_BYTES: usize = 32;

/// The token that a client must send. It holds only the hash of the secret.
///
/// ```
/// use prowess_mcp::Token;
///
/// let (token, secret) = Token::random()?;
/// assert!(token.is(&secret) && !token.is("another one"));
/// assert_eq!(format!("{token:?}"), "Token");
/// assert!(Token::new("short").is_err());
/// # Ok::<(), prowess_mcp::TokenError>(())
/// ```
#[derive(Clone)]
pub struct Token([u8; 32]);

/// Why a token could not be created.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum TokenError {
    /// The token is short enough to guess.
    #[error("a token needs at least {MIN_CHARS} characters")]
    TooShort,
    /// The token has characters that a header cannot carry.
    #[error("a token may contain only letters, digits and -._~+/=")]
    OddCharacters,
    /// The system returned no random bytes.
    #[error("the system returned no random bytes: {0}")]
    NotRandom(String),
}

impl Token {
    /// The token with this secret.
    ///
    /// # Errors
    ///
    /// The secret is too short, or has characters that a header cannot carry.
    pub fn new(secret: &str) -> Result<Self, TokenError> {
        let is_usual = |c: u8| c.is_ascii_alphanumeric() || b"-._~+/=".contains(&c);
        if !secret.bytes().all(is_usual) {
            return Err(TokenError::OddCharacters);
        }
        if secret.len() < MIN_CHARS {
            return Err(TokenError::TooShort);
        }
        Ok(Self(Hash::hash(secret.as_bytes())))
    }

    /// A new random token, and its secret.
    ///
    /// # Errors
    ///
    /// The system returned no random bytes.
    pub fn random() -> Result<(Self, String), TokenError> {
        let mut bytes = [0; RANDOM_BYTES];
        getrandom::fill(&mut bytes).map_err(|error| TokenError::NotRandom(error.to_string()))?;
        let secret = hex::encode(&bytes);
        Ok((Self::new(&secret)?, secret))
    }

    /// Whether this is the secret. It compares hashes, so the time that it takes reveals nothing.
    pub fn is(&self, presented: &str) -> bool {
        let presented = Hash::hash(presented.as_bytes());
        // Compares every byte, whichever differs.
        let differs =
            self.0.iter().zip(presented).fold(0, |differs, (ours, theirs)| differs | (ours ^ theirs));
        differs == 0
    }
}

impl fmt::Debug for Token {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Token")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_token_can_be_sent_and_cannot_be_guessed() {
        for (secret, why) in [
            ("", TokenError::TooShort),
            ("123456789012345", TokenError::TooShort),
            ("1234567890 1234567890", TokenError::OddCharacters),
            ("12345678901234567890\n", TokenError::OddCharacters),
            ("1234567890123456ü", TokenError::OddCharacters),
        ] {
            assert_eq!(Token::new(secret).unwrap_err(), why, "{secret}");
        }
        let token = Token::new("0123456789abcdef").unwrap();
        for other in ["", "0123456789abcde", "0123456789abcdef0", "0123456789abcdeF"] {
            assert!(!token.is(other), "{other}");
        }
        assert_ne!(Token::random().unwrap().1, Token::random().unwrap().1);
    }
}
