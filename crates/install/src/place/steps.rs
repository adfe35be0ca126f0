//! The steps that change the disk. Tests stop at each of them, as a killed process does.

use super::PlaceError;

#[cfg(test)]
use std::{cell::Cell, rc::Rc};

/// Counts the steps in tests. Otherwise it does nothing.
#[derive(Clone, Debug, Default)]
pub(super) struct Steps {
    /// How many steps are left until the process "is killed".
    #[cfg(test)]
    pub(super) left: Option<Rc<Cell<usize>>>,
    /// Whether the file system is one that cannot exchange two entries.
    #[cfg(test)]
    pub(super) cannot_exchange: bool,
}

impl Steps {
    /// Called before each step. After an error the caller must leave the disk as it is.
    #[cfg(test)]
    pub(super) fn step(&self) -> Result<(), PlaceError> {
        let Some(left) = &self.left else { return Ok(()) };
        let now = left.get();
        left.set(now.saturating_sub(1));
        if now == 0 { Err(PlaceError::Stopped) } else { Ok(()) }
    }

    /// Called before each step.
    #[cfg(not(test))]
    #[allow(clippy::unused_self, clippy::unnecessary_wraps, reason = "tests stop here")]
    pub(super) fn step(&self) -> Result<(), PlaceError> {
        Ok(())
    }

    /// Whether to try to exchange two entries.
    pub(super) fn may_exchange(&self) -> bool {
        #[cfg(test)]
        if self.cannot_exchange {
            return false;
        }
        true
    }
}
