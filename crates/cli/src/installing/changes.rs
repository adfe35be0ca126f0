//! How a new version of a skill differs from the installed one, for the person who decides.

use std::fmt::Write as _;

use prowess_install::difference::{SkillDifference, TextDifference};

use crate::terminal::{Style, printable, printable_lines, printable_start, size, styled};

/// How many lines of text differences are shown for one skill.
const MAX_LINES: usize = 200;
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
        let value = |value: &Option<String>| match value {
            Some(value) => printable_start(value, MAX_FIELD),
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
    let mut lines = 0;
    for file in &difference.files {
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
        if let TextDifference::Lines(unified) = &file.text {
            for line in printable_lines(unified).lines() {
                lines += 1;
                if lines <= MAX_LINES {
                    let _ = writeln!(text, "      {line}");
                }
            }
        }
    }
    if lines > MAX_LINES {
        let _ = writeln!(text, "    … {} more lines of differences", lines - MAX_LINES);
    }
    text
}

fn executable(is_executable: bool) -> &'static str {
    if is_executable { "now executable" } else { "no longer executable" }
}
