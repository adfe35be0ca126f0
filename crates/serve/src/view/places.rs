//! Real paths of the server, and what clients see instead.

/// Ends a line that was cut.
const CUT: char = '…';

/// The real paths of a thread's places, and their names in the tree. A server's own paths are nobody's business.
#[derive(Clone, Debug, Default)]
pub struct Places(Vec<(String, String)>);

impl Places {
    /// What stands for a real path that has no name in the tree.
    pub const HIDDEN: &str = "…";

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
        self.replaced(text, |_| true)
    }

    /// The same for what a person approves. A path without a name of its own stays: two different commands must not look the
    /// same.
    pub fn exact(&self, text: &str) -> String {
        self.replaced(text, |name| name != Self::HIDDEN)
    }

    fn replaced(&self, text: &str, is_used: impl Fn(&str) -> bool) -> String {
        let mut shown = text.to_owned();
        for (real, name) in self.0.iter().filter(|(_, name)| is_used(name)) {
            if shown.contains(real.as_str()) {
                shown = shown.replace(real.as_str(), name);
            }
        }
        shown
    }

    /// A JSON value for a person who approves it.
    pub(crate) fn exact_json(&self, value: &serde_json::Value) -> serde_json::Value {
        json_with(value, &|text| self.exact(text))
    }

    /// Lines in which the names replace the real paths. The end of a line that was cut (`…`) can be a part of a path, and is
    /// left out then.
    pub(crate) fn shown_lines(&self, text: &str) -> String {
        let shown = self.shown(text);
        if !shown.contains(CUT) {
            return shown;
        }
        let line = |line: &str| match line.trim_end_matches('\n').strip_suffix(CUT) {
            Some(kept) => format!("{}{CUT}{}", self.without_part(kept), &line[kept.len() + CUT.len_utf8()..]),
            None => line.to_owned(),
        };
        shown.split_inclusive('\n').map(line).collect()
    }

    /// A text without the beginning of a real path at its end.
    fn without_part<'a>(&self, text: &'a str) -> &'a str {
        let part = |real: &str| {
            (2..real.len()).rev().find(|length| text.as_bytes().ends_with(&real.as_bytes()[..*length]))
        };
        let longest = self.0.iter().filter_map(|(real, _)| part(real)).max().unwrap_or(0);
        &text[..text.floor_char_boundary(text.len() - longest)]
    }

    /// A JSON value in which the names replace the real paths.
    pub(crate) fn shown_json(&self, value: &serde_json::Value) -> serde_json::Value {
        json_with(value, &|text| self.shown(text))
    }
}

fn json_with(value: &serde_json::Value, shown: &impl Fn(&str) -> String) -> serde_json::Value {
    use serde_json::Value;
    match value {
        Value::String(text) => Value::String(shown(text)),
        Value::Array(items) => items.iter().map(|item| json_with(item, shown)).collect(),
        Value::Object(fields) => {
            Value::Object(fields.iter().map(|(key, value)| (shown(key), json_with(value, shown))).collect())
        }
        other => other.clone(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_part_of_a_path_is_left_at_a_cut() {
        let places = Places::new([("/srv/t/1/project".to_owned(), "/project".to_owned())]);
        let whole = "in /srv/t/1/project";
        for length in "in /".len() + 1..whole.len() {
            let shown = places.shown_lines(&format!("{}…\nnext\n", &whole[..length]));
            assert_eq!(shown, "in …\nnext\n");
        }
        assert_eq!(
            places.shown_lines(&format!("{whole}…\n{whole}/a\né/s…")),
            "in /project…\nin /project/a\né…"
        );
        assert_eq!(places.shown_lines("a/…"), "a/…");
    }
}
