//! Recognizes when a command asks for input.

use serde::Serialize;

/// The question that a command seems to ask, judged by its last line.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[non_exhaustive]
pub struct Prompt {
    /// The kind of input that it wants.
    pub kind: PromptKind,
    /// The line.
    pub text: String,
}

/// The kind of input that a command wants.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum PromptKind {
    /// Yes or no.
    Confirm,
    /// A secret.
    Secret,
    /// The next command of an interpreter.
    Command,
    /// Some text.
    Text,
}

impl Prompt {
    /// Parses an unfinished line as a question, if it looks like one.
    pub(super) fn read(line: &str) -> Option<Self> {
        // A program that redraws its line starts with a carriage return.
        let line = line.rsplit('\r').next().unwrap_or(line);
        let text = line.trim_end();
        let lower = text.to_lowercase();
        let ends = |with: &[&str]| with.iter().any(|end| lower.ends_with(end));
        let kind = if CONFIRM.iter().any(|sign| lower.contains(sign)) && ends(&["?", ":", "]", ")", ">"]) {
            PromptKind::Confirm
        } else if SECRET.iter().any(|sign| lower.contains(sign)) && ends(&[":", "?", ">"]) {
            PromptKind::Secret
        } else if matches!(lower.as_str(), ">>>" | "..." | "$" | "#" | ">")
            || COMMAND.iter().any(|end| line.ends_with(end))
        {
            PromptKind::Command
        } else if ends(&["?", ":", ">", "]"]) {
            PromptKind::Text
        } else {
            return None;
        };
        Some(Self { kind, text: text.to_owned() })
    }
}

const CONFIRM: [&str; 5] = ["[y/n", "(y/n", "[yes/no", "(yes/no", "y/n?"];
const SECRET: [&str; 4] = ["password", "passphrase", "secret", "token"];
const COMMAND: [&str; 5] = ["$ ", "# ", "=> ", "In [1]: ", "(gdb) "];

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn questions_are_recognised() {
        for (line, kind) in [
            ("Name? ", PromptKind::Text),
            ("Enter a number: ", PromptKind::Text),
            ("Your name [crab]", PromptKind::Text),
            ("Go on? [y/N] ", PromptKind::Confirm),
            ("Overwrite (yes/no)?", PromptKind::Confirm),
            ("Password: ", PromptKind::Secret),
            ("Enter passphrase for key:", PromptKind::Secret),
            (">>> ", PromptKind::Command),
            ("user@sandbox:~$ ", PromptKind::Command),
            ("50%\r100%\rName: ", PromptKind::Text),
        ] {
            assert_eq!(Prompt::read(line).map(|prompt| prompt.kind), Some(kind), "{line}");
        }
    }

    #[test]
    fn other_lines_are_none() {
        for line in ["", "   ", "working", "12%", "loading...", "done.", "[====      "] {
            assert_eq!(Prompt::read(line), None, "{line}");
        }
    }
}
