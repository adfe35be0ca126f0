//! What several crates of prowess need and none writes twice.
//!
//! - `beneath` (feature `beneath`): files and directories below an open directory, without following links out of it.
//! - [`hex`]: bytes as lowercase hexadecimal digits, and back.
//! - [`tokens`]: about how many tokens a text takes.
//! - [`text`]: text that strangers wrote, shown so that no two texts look the same.
//! - [`sse`]: server-sent events, from bytes that are cut anywhere.
//!
//! ```
//! use prowess_base::{hex, text, tokens};
//!
//! assert_eq!(hex::encode(&[0x0f, 0xa0]), "0fa0");
//! assert_eq!(tokens::estimate_tokens("eight ch"), 2);
//! assert_eq!(text::exact_line("a\tb"), r"a\u{9}b");
//! ```
//!
//! Every function here is small and knows nothing about skills, agents or models. Only `beneath` does I/O.

#[cfg(feature = "beneath")]
pub mod beneath;
pub mod hex;
pub mod sse;
pub mod text;
pub mod tokens;
