//! Suggests threads. The database is only read.

use prowess_store::SqliteStore;

use super::Suggestion;
use crate::threads::{FILE, ago, is_of_people};

/// How many threads are read.
const MAX_SEARCHED: usize = 1_000;

/// `last`, and the threads that changed last.
pub(super) fn names() -> Option<Vec<Suggestion>> {
    let database = crate::directories::state()?.join(FILE);
    let threads = SqliteStore::list_read_only(&database, MAX_SEARCHED).ok()?;
    let mut names: Vec<Suggestion> = threads
        .iter()
        .filter(|info| is_of_people(info))
        .map(|info| (info.id.to_string(), Some(ago(info.changed))))
        .collect();
    if !names.is_empty() {
        names.push(("last".to_owned(), Some("the last one in this directory".to_owned())));
    }
    Some(names)
}
