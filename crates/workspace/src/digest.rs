//! Content digests, in hexadecimal.

use prowess_base::hex::encode;

/// The SHA-256 of `bytes`.
pub(crate) fn digest(bytes: &[u8]) -> String {
    encode(&hmac_sha256::Hash::hash(bytes))
}

/// A file name for any `text`: 128 bits of its digest.
pub(crate) fn short(text: &str) -> String {
    encode(&hmac_sha256::Hash::hash(text.as_bytes())[..16])
}
