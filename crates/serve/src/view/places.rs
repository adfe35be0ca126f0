//! Real paths of the server, and what clients see instead.

/// The real paths of a thread's places, and their names in the tree. A server's own paths are nobody's business.
#[derive(Clone, Debug, Default)]
pub struct Places(Vec<(String, String)>);

impl Places {
    /// Places by their real path and their name, such as `/srv/threads/1/project` and `/project`.
    ///
    /// ```
    /// use prowess_serve::view::Places;
    ///
    /// let places = Places::new([("/srv/t/1/project".to_owned(), "/project".to_owned())]);
    /// assert_eq!(places.shown("write /srv/t/1/project/plan.md"), "write /project/plan.md");
    /// ```
    pub fn new(places: impl IntoIterator<Item = (String, String)>) -> Self {
        let mut places: Vec<_> = places.into_iter().filter(|(real, _)| real.len() > 1).collect();
        // A longer path is a place inside another one.
        places.sort_by_key(|(real, _)| std::cmp::Reverse(real.len()));
        Self(places)
    }

    /// A text in which the names replace the real paths.
    pub fn shown(&self, text: &str) -> String {
        let mut shown = text.to_owned();
        for (real, name) in &self.0 {
            if shown.contains(real.as_str()) {
                shown = shown.replace(real.as_str(), name);
            }
        }
        shown
    }

    /// A JSON value in which the names replace the real paths.
    pub(crate) fn shown_json(&self, value: &serde_json::Value) -> serde_json::Value {
        use serde_json::Value;
        match value {
            Value::String(text) => Value::String(self.shown(text)),
            Value::Array(items) => items.iter().map(|item| self.shown_json(item)).collect(),
            Value::Object(fields) => Value::Object(
                fields.iter().map(|(key, value)| (self.shown(key), self.shown_json(value))).collect(),
            ),
            other => other.clone(),
        }
    }
}
