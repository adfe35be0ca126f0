//! Scans files that a caller supplies, instead of a disk: their paths may be anything.
//!
//! `path` refuses paths that no skill can have, `scan` finds the skills, and `stamp` tells versions of a file apart.

mod path;
mod scan;
mod stamp;

pub(crate) use path::{RefusedPaths, TWICE, check};
pub use scan::scan_given;
pub(crate) use stamp::GivenStamp;
