//! Values that a project's file can only narrow.

use super::setting::{Setting, Wrong};
use super::value::Origin;

/// A value of the user, and one of the project. Whoever uses them decides what is narrower.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Narrowed<T> {
    /// The value of the user's file, a variable or an option.
    pub(crate) own: Option<T>,
    /// The value of the project's file.
    pub(crate) project: Option<T>,
    /// Whether the own value was chosen for this command: by a variable or an option.
    pub(crate) is_for_command: bool,
}

impl<T> Default for Narrowed<T> {
    fn default() -> Self {
        Self { own: None, project: None, is_for_command: false }
    }
}

impl<T: Setting> Setting for Narrowed<T> {
    fn read(value: &serde_json::Value) -> Result<Self, Wrong> {
        T::read(value).map(|value| Self { own: Some(value), ..Self::default() })
    }

    fn absent() -> Option<Self> {
        Some(Self::default())
    }

    const NARROWS: bool = true;

    fn over(self, weaker: Option<Self>, origin: &Origin) -> Self {
        let weaker = weaker.unwrap_or_default();
        match origin {
            Origin::Project(..) => Self { project: self.own, ..weaker },
            Origin::Environment(_) | Origin::Flag(_) => {
                Self { own: self.own, is_for_command: true, ..weaker }
            }
            _ => Self { own: self.own, ..weaker },
        }
    }
}
