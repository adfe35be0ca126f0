//! The low level that the crates of prowess share.
//!
//! - `beneath` (feature `beneath`): opens files below an open directory and follows no link out of it.
//! - [`hex`]: writes bytes as lowercase hexadecimal digits and reads them.
//! - `private_files` (feature `beneath`): files that only this user can read and write, for caches.
//! - [`places`]: the names of the places that a model sees, such as `/project`.
//! - [`tokens`]: estimates how many tokens a text takes.
//! - [`text`]: shows text from strangers: escaped, cut, or so that no two texts look the same.
//! - [`sse`]: reads server-sent events from chunks of bytes.
//!
//! ```
//! use prowess_base::{hex, text, tokens};
//!
//! assert_eq!(hex::encode(&[0x0f, 0xa0]), "0fa0");
//! assert_eq!(tokens::estimate_tokens("eight ch"), 2);
//! assert_eq!(text::exact_line("a\tb"), r"a\u{9}b");
//! ```
//!
//! Except for the names in `places`, nothing here knows about skills, agents or models. Only `beneath` and `private_files` do I/O.

#[cfg(feature = "beneath")]
pub mod beneath;
pub mod hex;
pub mod places;
#[cfg(feature = "beneath")]
pub mod private_files;
pub mod sse;
pub mod text;
pub mod tokens;
