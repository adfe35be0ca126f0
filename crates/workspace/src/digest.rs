//! Content digests, in hexadecimal.

use std::fmt::Write as _;

/// The SHA-256 of `bytes`.
pub(crate) fn digest(bytes: &[u8]) -> String {
    hex(&hmac_sha256::Hash::hash(bytes))
}

/// A file name for any `text`: 128 bits of its digest.
pub(crate) fn short(text: &str) -> String {
    hex(&hmac_sha256::Hash::hash(text.as_bytes())[..16])
}

/// `bytes` in hexadecimal.
pub(crate) fn hex(bytes: &[u8]) -> String {
    bytes.iter().fold(String::with_capacity(bytes.len() * 2), |mut text, byte| {
        // Writing to a string cannot fail.
        let _ = write!(text, "{byte:02x}");
        text
    })
}
