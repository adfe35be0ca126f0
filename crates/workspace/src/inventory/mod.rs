//! Inventories: the files of a thread at one moment, so that another machine can go on with them.
//!
//! An [`Inventory`] lists files with their paths, sizes and digests. [`Contents`] keep the bytes of files and the
//! inventories in a [`ContentStore`], each under its digest. A [`LocalTree`] is the directories of one machine:
//! [`LocalTree::capture`] stores what changed in them, and [`LocalTree::restore`] makes them equal to an inventory.
//!
//! Threads that were forked from each other are a **family**. A family shares the content of files, and nothing else
//! does: nobody learns from the store what files other people have.

#[cfg(feature = "backend")]
mod backend;
mod contents;
mod digest;
mod error;
mod in_use;
mod known;
mod left_out;
mod list;
mod local;
mod open_tree;
mod restore;
mod scan;
mod store;
mod sweep;
#[cfg(feature = "testing")]
pub(crate) mod testing;
mod transfer;

#[cfg(feature = "backend")]
pub use backend::InventoryBackend;
pub use contents::{Contents, FamilyContents};
pub use digest::ContentDigest;
pub use error::InventoryError;
pub use left_out::{LeftOut, LeftOutReason};
pub use list::{Inventory, InventoryFile};
pub use local::{Captured, LocalTree, Restored};
#[cfg(feature = "object")]
pub use store::ObjectContents;
pub use store::{ContentStore, DiskContents, MemoryContents, StoredContent};

/// The most files of an inventory.
pub const MAX_FILES: usize = 20_000;
/// The most bytes of one file.
pub const MAX_FILE_BYTES: u64 = 64 << 20;
/// The most bytes of all files together.
pub const MAX_BYTES: u64 = 512 << 20;
/// How many directories can be in each other.
pub const MAX_DEPTH: usize = 64;
/// The longest path, in bytes.
pub const MAX_PATH: usize = 1024;
/// The most bytes of all paths together, as an inventory spells them: some characters take up to six bytes.
pub const MAX_PATH_BYTES: usize = 32 << 20;
