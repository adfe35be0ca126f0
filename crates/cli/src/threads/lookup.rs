//! Finds the thread that a person names.

use std::path::Path;

use anyhow::{Result, bail};
use prowess_agent::{ThreadId, ThreadStore};

use super::{all, beginning};
use crate::terminal::printable_start;

/// The name of the last thread in the working directory.
const LAST: &str = "last";
/// How many threads are read to find the last one of a directory.
const MAX_LOOKED_AT: usize = 500;
/// How many characters of a wrong name are shown.
const MAX_SHOWN: usize = 64;

/// The result of a search for a thread.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Lookup {
    Found(ThreadId),
    /// Two or more threads match.
    Several(ThreadId, ThreadId),
    /// No thread matches.
    Nothing,
    /// The directory has no thread.
    NoLast,
}

/// Finds a thread by its name, by the start or end of the name, or the last one of a directory.
pub(crate) async fn look_for(store: &dyn ThreadStore, directory: &Path, wanted: &str) -> Result<Lookup> {
    let threads = all(store).await?;
    if wanted != LAST {
        return Ok(Lookup::among(threads.into_iter().map(|info| info.id), wanted));
    }
    for info in threads.iter().take(MAX_LOOKED_AT) {
        if beginning(store, &info.id).await.directory.as_deref() == Some(directory) {
            return Ok(Lookup::Found(info.id.clone()));
        }
    }
    Ok(Lookup::NoLast)
}

impl Lookup {
    /// Searches in a list of ids.
    pub(crate) fn among(ids: impl Iterator<Item = ThreadId>, wanted: &str) -> Self {
        let fits = |id: &ThreadId| {
            !wanted.is_empty() && (id.as_str().starts_with(wanted) || id.as_str().ends_with(wanted))
        };
        let mut fitting: Vec<ThreadId> = ids.filter(fits).collect();
        if let Some(exact) = fitting.iter().position(|id| id.as_str() == wanted) {
            return Self::Found(fitting.swap_remove(exact));
        }
        let mut fitting = fitting.into_iter();
        match (fitting.next(), fitting.next()) {
            (None, _) => Self::Nothing,
            (Some(found), None) => Self::Found(found),
            (Some(one), Some(other)) => Self::Several(one, other),
        }
    }

    /// The thread, or an error for the person who wrote `wanted`.
    pub(crate) fn found(self, wanted: &str) -> Result<ThreadId> {
        let wanted = printable_start(wanted, MAX_SHOWN);
        match self {
            Self::Found(id) => Ok(id),
            Self::Several(one, other) => {
                bail!("`{wanted}` matches {one} and {other}: write more of the name")
            }
            Self::NoLast => {
                bail!("this directory has no thread; `prowess threads list` shows all")
            }
            Self::Nothing => bail!(
                "there is no thread `{wanted}`; `prowess threads list` shows all, and `last` means the last one in this directory"
            ),
        }
    }
}
