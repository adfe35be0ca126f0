//! `[run]`

use prowess_workspace::writable::WritablePath;

use super::read::section;
use super::setting::{EMPTY, Parsed};

section! {
    /// What commands of skills may do in your project.
    pub(crate) struct RunSettings {
        /// Directories below the working directory that commands in a chat may write, such as `["dist"]`. A command gets
        /// a copy of each, and prowess copies its changes back when the command has ended. See
        /// [running.md](running.md#directories-that-a-run-may-write).
        User writable: Vec<Parsed<WritablePath>> = EMPTY,
    }
}

impl RunSettings {
    /// The directories that commands may write.
    pub(crate) fn writable_paths(&self) -> Vec<WritablePath> {
        self.writable.iter().map(|path| path.value.clone()).collect()
    }
}
