//! `/help`

use super::COMMANDS;
use crate::terminal::{Style, styled};

/// The commands with what they do, and the keys that work in a chat.
pub(super) fn lines() -> Vec<String> {
    let mut lines = vec!["Type what you want done, or a command:".to_owned()];
    for (command, after, what) in COMMANDS {
        let left = format!("{command} {after}");
        lines.push(format!("  {}  {what}", styled(format!("{left:<18}"), Style::Name)));
    }
    lines.push(format!(
        "  {}  start a skill yourself",
        styled(format!("{:<18}", "/SKILL [ARGUMENTS]"), Style::Name)
    ));
    lines.push("Alt-Enter, or \\ at the end of a line, starts a new line.".to_owned());
    lines.push("Lines that you type during a turn are sent when it ends. Up edits the last one.".to_owned());
    lines.push("Ctrl-C stops the turn, Ctrl-D leaves, Tab completes.".to_owned());
    lines
}
