//! Reads a server's list page by page, within limits.

use std::collections::HashSet;
use std::time::{Duration, Instant};

use serde_json::Value;

use super::options::ServerLimits;

/// The time for all pages of a list, by default.
pub(super) const DEFAULT_LIST_TIME: Duration = Duration::from_secs(60);
/// The most pages of a list, by default.
pub(super) const DEFAULT_PAGES: usize = 100;
/// The most bytes of all entries of a list, by default.
pub(super) const DEFAULT_LIST_BYTES: usize = 16 * 1024 * 1024;
/// The most bytes of a cursor.
const MAX_CURSOR: usize = 4096;

/// The pages of one list, and how many of its limits they have used.
pub(crate) struct Pages {
    limits: ServerLimits,
    begun: Instant,
    /// How many pages were asked for.
    asked: usize,
    /// The bytes of all entries so far.
    bytes: usize,
    cursor: Option<String>,
    cursors: HashSet<String>,
    has_next: bool,
}

impl Pages {
    pub(crate) fn new(limits: ServerLimits) -> Self {
        Self {
            limits,
            begun: Instant::now(),
            asked: 0,
            bytes: 0,
            cursor: None,
            cursors: HashSet::new(),
            has_next: true,
        }
    }

    pub(crate) fn has_next(&self) -> bool {
        self.has_next
    }

    /// Whether the current page is the first.
    pub(crate) fn is_first(&self) -> bool {
        self.asked == 1
    }

    /// Begins the next page, and returns its cursor.
    ///
    /// # Errors
    ///
    /// Why no further page may be read.
    pub(crate) fn begin(&mut self) -> Result<Option<String>, String> {
        if self.asked == self.limits.pages {
            return Err(format!("it has more than {} pages", self.limits.pages));
        }
        if self.begun.elapsed() > self.limits.list {
            return Err(format!("it takes longer than {} seconds", self.limits.list.as_secs_f64()));
        }
        self.asked += 1;
        Ok(self.cursor.take())
    }

    /// Counts the bytes of an entry, and says whether the list may still have them.
    pub(crate) fn count(&mut self, bytes: usize) -> bool {
        self.bytes = self.bytes.saturating_add(bytes);
        self.bytes <= self.limits.list_bytes
    }

    /// Ends a page with the cursor of the next one, or with `null` if it was the last.
    ///
    /// # Errors
    ///
    /// The cursor cannot be used.
    pub(crate) fn end(&mut self, next: Value) -> Result<(), &'static str> {
        self.has_next = false;
        match next {
            Value::Null => Ok(()),
            Value::String(next) if next.len() > MAX_CURSOR => Err("the cursor of its next page is too long"),
            Value::String(next) if !self.cursors.insert(next.clone()) => Err("it sends the same page twice"),
            Value::String(next) => {
                (self.cursor, self.has_next) = (Some(next), true);
                Ok(())
            }
            _ => Err("the cursor of its next page is not text"),
        }
    }
}
