//! Keys that had another name. The old names still work, with a notice.

use super::environment::variable;
use super::origin::{Origin, key};
use super::tree::Node;
use crate::terminal::printable;

/// The table, the old name, the new name, and the option that sets it.
const RENAMED: [(&str, &str, &str, &str); 6] = [
    ("limits", "steps", "model_calls", "--max-model-calls"),
    ("skills", "max_loaded", "max_loaded_skills", ""),
    ("skills", "max_tokens", "max_loaded_tokens", ""),
    ("model", "window", "context_window", ""),
    ("model", "max_output", "max_output_tokens", ""),
    (PRICE, "cache_written", "cache_write", ""),
];
/// The table whose keys are below a name of the user's choice.
const PRICE: &str = "price";

/// The old names of keys that variables can set, as paths.
pub(super) fn old_keys() -> impl Iterator<Item = [&'static str; 2]> {
    RENAMED.iter().filter(|(table, ..)| *table != PRICE).map(|(table, old, ..)| [*table, *old])
}

/// Gives old keys of one source their new names. If both are set, the new one wins.
pub(super) fn rename(tree: &mut Node, notices: &mut Vec<String>) {
    for (name, old, new, option) in RENAMED {
        let Some((_, table)) = entry(tree, name) else { continue };
        if name == PRICE {
            for (model, table) in table.entries_mut().into_iter().flatten() {
                notices.extend(rename_one(&[name, model], table, [old, new, option]));
            }
        } else {
            notices.extend(rename_one(&[name], table, [old, new, option]));
        }
    }
}

/// Renames a key of the table at a path, and says so.
fn rename_one(path: &[&str], table: &mut Node, [old, new, option]: [&str; 3]) -> Option<String> {
    let is_set_too = table.get(new).is_some();
    let (name, node) = entry(table, old)?;
    let path = |last| path.iter().copied().chain([last]).collect::<Vec<_>>();
    let (before, after) = match &node.origin {
        Origin::Environment(name) => (name.clone(), variable(&path(new))),
        Origin::Flag(name) => ((*name).to_owned(), option.to_owned()),
        origin => (format!("{origin}: `{}`", key(&path(old))), format!("`{}`", key(&path(new)))),
    };
    if is_set_too {
        table.entries_mut()?.retain(|(name, _)| name != old);
        return Some(printable(&format!(
            "{before} is ignored: {after}, its new name, is set too; remove the old one"
        )));
    }
    new.clone_into(name);
    Some(printable(&format!("{before} is now called {after}; please rename it")))
}

fn entry<'a>(table: &'a mut Node, name: &str) -> Option<&'a mut (String, Node)> {
    table.entries_mut()?.iter_mut().find(|(other, _)| other == name)
}
