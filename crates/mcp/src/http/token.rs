//! The secret that clients have to know.

use std::fmt;

use hmac_sha256::Hash;
use prowess_base::hex;

/// The fewest characters of a token.
const MIN_CHARS: usize = 16;
/// The bytes of a random one.
const RANDOM_BYTES: usize = 32;

/// What a client has to present: of the secret itself only its hash is kept.
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

/// Why there is no token.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum TokenError {
    /// It could be guessed.
    #[error("a token has at least {MIN_CHARS} characters")]
    TooShort,
    /// It could not be sent.
    #[error("a token has only letters, digits and -._~+/=")]
    OddCharacters,
    /// The system gave no random bytes.
    #[error("the system has no random bytes: {0}")]
    NotRandom(String),
}

impl Token {
    /// The token that this secret is.
    ///
    /// # Errors
    ///
    /// It is too short, or has characters that no header has.
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

    /// A new one, and the secret that it is.
    ///
    /// # Errors
    ///
    /// The system gives no random bytes.
    pub fn random() -> Result<(Self, String), TokenError> {
        let mut bytes = [0; RANDOM_BYTES];
        getrandom::fill(&mut bytes).map_err(|error| TokenError::NotRandom(error.to_string()))?;
        let secret = hex::encode(&bytes);
        Ok((Self::new(&secret)?, secret))
    }

    /// Whether this is the secret. Hashes are compared, so how long it takes says nothing about it.
    pub fn is(&self, presented: &str) -> bool {
        let presented = Hash::hash(presented.as_bytes());
        // Every byte is looked at, whichever differs.
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
    fn a_token_is_what_can_be_sent_and_not_guessed() {
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
