//! Gets skills from Git repositories, archives and web sites, keeps them in place, and pins them in lock files.
//!
//! The chain is *source → commit → digest*: [`source`] parses what a person typed, [`snapshot`] fetches it, [`discover`] finds
//! the skills in it, [`store`] keeps their files by digest, [`place`] puts them where agents look, and [`lock`] records it all.
//! Nothing here runs code of a skill, and nothing here decides whether a skill is trusted.

pub mod agents;
pub mod difference;
pub mod discover;
mod disk;
pub mod folder_hash;
pub mod hidden_text;
pub mod installer;
pub mod known_sources;
pub mod lock;
pub mod merge;
pub mod place;
pub mod publish;
pub mod script;
pub mod snapshot;
pub mod source;
pub mod store;
pub mod tree;
