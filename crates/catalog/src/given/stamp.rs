//! Tells versions of a supplied file apart after its bytes are gone.

use std::hash::{BuildHasher as _, RandomState};
use std::sync::LazyLock;

/// The size and a keyed hash of some bytes. Only this process has the key, so nobody can craft two files with the same stamp.
/// It is much faster than a digest. No approval depends on it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct GivenStamp {
    size: usize,
    hash: u64,
}

impl GivenStamp {
    pub(crate) fn of(bytes: &[u8]) -> Self {
        static KEY: LazyLock<RandomState> = LazyLock::new(RandomState::new);
        Self { size: bytes.len(), hash: KEY.hash_one(bytes) }
    }
}
