//! Keys that had another name. The old names still work, with a notice.

use std::collections::btree_map::Entry;

use super::environment::variable;
use super::value::{Origin, Values, key, with_name};
use crate::terminal::printable;

/// The table, the old name, the new name, and the option that sets it.
const RENAMED: [(&str, &str, &str, &str); 6] = [
    ("limits", "steps", "model_calls", "--max-model-calls"),
    ("skills", "max_loaded", "max_loaded_skills", ""),
    ("skills", "max_tokens", "max_loaded_tokens", ""),
    ("model", "window", "context_window", ""),
    ("model", "max_output", "max_output_tokens", ""),
    ("price", "cache_written", "cache_write", ""),
];

/// The old names of keys that variables can set, such as `limits.steps`.
pub(super) fn old_keys() -> impl Iterator<Item = String> {
    new_names().map(|(old, _)| old)
}

/// The old and the new names of these keys.
pub(super) fn new_names() -> impl Iterator<Item = (String, String)> {
    let of_tables = RENAMED.iter().filter(|(table, ..)| *table != "price");
    of_tables.map(|(table, old, new, _)| (format!("{table}.{old}"), format!("{table}.{new}")))
}

/// Gives old keys of one source their new names, and says so. If both are set, the new one wins.
pub(super) fn rename(values: &mut Values) -> Vec<String> {
    let mut notices = Vec::new();
    for (table, old_name, new_name, option) in RENAMED {
        // The keys of `[price.NAME]` have a name before them.
        let length = if table == "price" { 3 } else { 2 };
        let is_old =
            |path: &[String]| path.len() == length && path[0] == table && path[length - 1] == old_name;
        let old: Vec<_> = values.extract_if(.., |path, _| is_old(path)).collect();
        for (path, mut value) in old {
            let new_path = with_name(&path, new_name);
            let (before, after) = match &value.origin {
                Origin::Environment(name) => (name.clone(), variable(&new_path.join("."))),
                Origin::Flag(name) => ((*name).to_owned(), option.to_owned()),
                origin => (format!("{origin}: `{}`", key(&path)), format!("`{}`", key(&new_path))),
            };
            value.old_name = Some(old_name);
            notices.push(printable(&match values.entry(new_path) {
                Entry::Occupied(_) => {
                    format!("{before} is ignored: {after}, its new name, is set too; remove the old one")
                }
                Entry::Vacant(place) => {
                    place.insert(value);
                    format!("{before} is now called {after}; please rename it")
                }
            }));
        }
    }
    notices
}
