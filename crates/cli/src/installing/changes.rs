//! How a new version of a skill differs from the installed one, for the person who decides.

use std::fmt::Write as _;

use prowess_catalog::skill::MANIFEST;
use prowess_install::difference::{FileDifference, SkillDifference, TextDifference};

use crate::terminal::{Style, printable, printable_lines, printable_start, size, styled};

/// How many lines of the differences of the manifest and of each script are shown.
const MAX_LINES: usize = 400;
/// How many lines of the differences of each other file are shown.
const MAX_OTHER_LINES: usize = 20;
/// How many characters of changed hooks and tools are shown.
const MAX_LONG_FIELD: usize = 4_000;
/// How many characters of a changed field are shown.
const MAX_FIELD: usize = 200;

/// The changes of fields, tools, scripts and texts.
pub(crate) fn difference_text(difference: &SkillDifference) -> String {
    let mut text = String::new();
    // Writing to a String cannot fail.
    if difference.is_manifest_unreadable {
        let _ = writeln!(text, "    {}", styled("its SKILL.md cannot be parsed", Style::Bad));
    }
    for field in &difference.fields {
        let most = most_of(&field.name);
        let value = |value: &Option<String>| match value {
            Some(value) => printable_start(value, most),
            None => "(none)".to_owned(),
        };
        let _ =
            writeln!(text, "    {}: {} → {}", printable(&field.name), value(&field.old), value(&field.new));
    }
    for (what, names) in [("new tools", &difference.new_tools), ("new scripts", &difference.new_scripts)] {
        if !names.is_empty() {
            let names: Vec<String> = names.iter().map(|name| printable(name)).collect();
            let _ = writeln!(text, "    {}: {}", styled(what, Style::Bad), names.join(", "));
        }
    }
    // The manifest and scripts come first: a long text must not push them out of sight.
    let rank = |file: &FileDifference| match &*file.path {
        MANIFEST => 0,
        _ if file.is_script => 1,
        _ => 2,
    };
    let mut files: Vec<&FileDifference> = difference.files.iter().collect();
    files.sort_by_key(|file| rank(file));
    let changed: Vec<String> = files
        .iter()
        .filter(|file| file.old.is_some() && file.new.is_some() && rank(file) == 1)
        .map(|file| printable(&file.path))
        .collect();
    if !changed.is_empty() {
        let _ = writeln!(text, "    {}: {}", styled("changed scripts", Style::Bad), changed.join(", "));
    }
    for file in files {
        let sizes = match (&file.old, &file.new) {
            (None, Some(new)) => format!("added, {}", size(new.size)),
            (Some(old), None) => format!("removed, {}", size(old.size)),
            (Some(old), Some(new)) if old.is_executable != new.is_executable => {
                format!("changed, {} → {}, {}", size(old.size), size(new.size), executable(new.is_executable))
            }
            (Some(old), Some(new)) => format!("changed, {} → {}", size(old.size), size(new.size)),
            (None, None) => continue,
        };
        let _ = writeln!(text, "    {}: {sizes}", printable(&file.path));
        let most = if rank(file) < 2 { MAX_LINES } else { MAX_OTHER_LINES };
        match &file.text {
            TextDifference::Lines(unified) => {
                let lines = printable_lines(unified);
                for line in lines.lines().take(most) {
                    let _ = writeln!(text, "      {line}");
                }
                let more = lines.lines().count().saturating_sub(most);
                if more > 0 {
                    let _ = writeln!(text, "      … {more} more lines are not shown");
                }
            }
            TextDifference::Binary => {
                let _ = writeln!(text, "      not text, or too large to show");
            }
            TextDifference::NoRoom => {
                let _ = writeln!(
                    text,
                    "      {}",
                    styled("its differences are not shown: they are too long", Style::Bad)
                );
            }
            _ => {}
        }
    }
    text
}

/// How much of a field is shown. What a skill may do is shown as a whole.
fn most_of(field: &str) -> usize {
    if matches!(field, "hooks" | "allowed-tools") { MAX_LONG_FIELD } else { MAX_FIELD }
}

fn executable(is_executable: bool) -> &'static str {
    if is_executable { "now executable" } else { "no longer executable" }
}
