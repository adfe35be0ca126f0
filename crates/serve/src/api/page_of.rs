//! Lists.

use serde::{Deserialize, Serialize};
use utoipa::{IntoParams, ToSchema};

/// The most items of one answer.
const MOST: usize = 200;
/// The items of an answer, unless the request says otherwise.
const USUAL: usize = 50;

/// Which part of a list is wanted.
#[derive(Clone, Debug, Default, Deserialize, IntoParams)]
#[into_params(parameter_in = Query)]
#[serde(default)]
pub(crate) struct Page {
    /// The most items, up to 200.
    pub(crate) limit: Option<usize>,
    /// The `next` of the answer before.
    pub(crate) after: Option<String>,
}

impl Page {
    pub(crate) fn limit(&self) -> usize {
        self.limit.unwrap_or(USUAL).clamp(1, MOST)
    }
}

/// A part of a list.
#[derive(Clone, Debug, Serialize, ToSchema)]
pub(crate) struct Items<T> {
    /// The items.
    pub(crate) items: Vec<T>,
    /// The `after` of the request for the next part. `null` if there is none.
    pub(crate) next: Option<String>,
}

impl<T> From<Vec<T>> for Items<T> {
    fn from(items: Vec<T>) -> Self {
        Self { items, next: None }
    }
}
