//! What the demo plays.

/// A stage: what it is called, what there is to see, and the lines that are typed with the exit codes that they have.
pub(super) struct Stage {
    pub(super) name: &'static str,
    pub(super) what: &'static str,
    pub(super) commands: &'static [(&'static str, i32)],
}

pub(super) const STAGES: [Stage; 8] = [
    Stage {
        name: "Discovery",
        what: "Skills are directories with a SKILL.md. These were found:",
        commands: &[("prowess list", 0)],
    },
    Stage {
        name: "Overview",
        what: "Of each a model is told the name and the description, and how to load it; no more. The first layer:",
        commands: &[("prowess prompt --form compact", 0)],
    },
    Stage {
        name: "Load, sandboxed run, output files, artifact",
        what: "The offline model, which is no language model, picks a skill and loads its instructions: the second layer. Then \
               it runs a script of it in a sandbox: the third. What the script writes comes back, and is kept as an artifact.",
        commands: &[
            ("prowess chat --yes 'Compute the first Fibonacci numbers'", 0),
            ("prowess artifacts list", 0),
        ],
    },
    Stage {
        name: "Approval",
        what: "Running is asked about. Here nobody says yes, so the question is stored with the thread, and the process ends.",
        commands: &[("prowess chat --resume last 'Check the JSON against its schema'", 1)],
    },
    Stage {
        name: "Resume",
        what: "Another process takes the thread up where it was, says yes, and shows what fills the model's window.",
        commands: &[("prowess chat --resume last --yes /context", 0)],
    },
    Stage {
        name: "Unload",
        what: "What is no longer needed goes out of the model's visible_skills.",
        commands: &[("prowess chat --resume last '/unload python-math'", 0)],
    },
    Stage {
        name: "Compaction",
        what: "A long conversation is summarised. The log keeps every word, and loaded skills stay loaded.",
        commands: &[("prowess chat --resume last /compact", 0)],
    },
    Stage {
        name: "What is left",
        what: "The skill that is still needed is still there, in this process as in the one before.",
        commands: &[("prowess chat --resume last /context", 0)],
    },
];

/// The words of a line: parted by blanks, with `'` around those that have some.
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
