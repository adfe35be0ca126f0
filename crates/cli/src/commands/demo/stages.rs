//! The stages of the demo.

/// A stage: its name, what it shows, and its commands with the expected exit codes.
pub(super) struct Stage {
    pub(super) name: &'static str,
    pub(super) what: &'static str,
    pub(super) commands: &'static [(&'static str, i32)],
}

pub(super) const STAGES: [Stage; 8] = [
    Stage {
        name: "Discovery",
        what: "Skills are directories with a SKILL.md. prowess found these:",
        commands: &[("prowess list", 0)],
    },
    Stage {
        name: "Overview",
        what: "The model sees only each skill's name and description, and how to load it. This is the first layer:",
        commands: &[("prowess prompt --form compact", 0)],
    },
    Stage {
        name: "Load, sandboxed run, output files, artifact",
        what: "The offline model is not a language model. It picks a skill and loads its instructions: the second layer. Then it runs a script of the skill in a sandbox: the third layer. The script's output comes back and is saved as an artifact.",
        commands: &[
            ("prowess chat --yes 'Compute the first Fibonacci numbers'", 0),
            ("prowess artifacts list", 0),
        ],
    },
    Stage {
        name: "Approval",
        what: "Running a command needs approval. Nobody is here to approve it, so the question is stored in the thread and the process ends.",
        commands: &[("prowess chat --resume last 'Check the JSON against its schema'", 1)],
    },
    Stage {
        name: "Resume",
        what: "Another process continues the thread, approves the command, and shows what fills the model's context window.",
        commands: &[("prowess chat --resume last --yes /context", 0)],
    },
    Stage {
        name: "Unload",
        what: "A skill that is no longer needed is taken out of the conversation.",
        commands: &[("prowess chat --resume last '/unload python-math'", 0)],
    },
    Stage {
        name: "Compaction",
        what: "A long conversation is summarised. The log keeps every word, and loaded skills stay loaded.",
        commands: &[("prowess chat --resume last /compact", 0)],
    },
    Stage {
        name: "After compaction",
        what: "The skill that is still needed is still loaded, also in a new process.",
        commands: &[("prowess chat --resume last /context", 0)],
    },
];

/// Splits a line into words at spaces; `'` encloses words with spaces.
pub(super) fn words(line: &str) -> Vec<String> {
    let mut words = Vec::new();
    for (number, piece) in line.split('\'').enumerate() {
        match number % 2 {
            0 => words.extend(piece.split_whitespace().map(ToOwned::to_owned)),
            _ => words.push(piece.to_owned()),
        }
    }
    words
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_may_have_blanks() {
        assert_eq!(words("prowess chat --yes 'a b' c"), ["prowess", "chat", "--yes", "a b", "c"]);
    }
}
