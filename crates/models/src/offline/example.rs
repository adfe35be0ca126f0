//! The first example in a skill's instructions that can be run as it stands.

/// The languages of shell blocks, as written after a fence.
const SHELLS: [&str; 4] = ["bash", "sh", "shell", "zsh"];

/// The languages of blocks that show a terminal: commands and their output.
const TERMINALS: [&str; 3] = ["console", "terminal", "shell-session"];

/// What a command in a text begins with.
const PROGRAMS: [&str; 6] = ["python ", "python3 ", "bash ", "sh ", "node ", "./"];

/// Commands that only install something over the network.
const SETUP: [&str; 6] = ["pip", "pip3", "npm", "apt", "apt-get", "brew"];

/// The first runnable example: a block of shell commands, else a command in the text.
pub(super) fn first_example(text: &str) -> Option<String> {
    let (blocks, prose) = split(text);
    blocks.into_iter().find_map(|block| block.command()).or_else(|| in_prose(&prose))
}

/// A block of code.
struct Block {
    language: String,
    lines: Vec<String>,
}

/// The blocks of code in a text, and the lines outside of them.
fn split(text: &str) -> (Vec<Block>, Vec<&str>) {
    let (mut blocks, mut prose) = (Vec::new(), Vec::new());
    let mut open: Option<(Block, &str, usize)> = None;
    for line in text.lines() {
        let trimmed = line.trim_start();
        let indent = line.chars().take_while(|c| c.is_whitespace()).count();
        let mark = ["```", "~~~"].into_iter().find(|mark| trimmed.starts_with(mark));
        match (&mut open, mark) {
            (Some((_, opened, _)), Some(mark)) if *opened == mark && trimmed.trim_end().ends_with(mark) => {
                blocks.extend(open.take().map(|(block, ..)| block));
            }
            (Some((block, _, outer)), _) => {
                block.lines.push(line.chars().skip(indent.min(*outer)).collect());
            }
            (None, Some(mark)) => {
                let words = trimmed.trim_start_matches(['`', '~']).trim();
                let language = words.split([' ', '{', ',']).next().unwrap_or_default().to_lowercase();
                open = Some((Block { language, lines: Vec::new() }, mark, indent));
            }
            (None, None) => prose.push(line),
        }
    }
    (blocks, prose)
}

impl Block {
    /// The command of the block, if it can be run as it is.
    fn command(&self) -> Option<String> {
        let typed = |line: &String| line.trim_start().strip_prefix("$ ").map(ToOwned::to_owned);
        let lines: Vec<String> = if TERMINALS.contains(&self.language.as_str()) {
            self.lines.iter().filter_map(typed).collect()
        } else if SHELLS.contains(&self.language.as_str()) {
            self.lines.iter().map(|line| typed(line).unwrap_or_else(|| line.clone())).collect()
        } else {
            return None;
        };
        let commands = || lines.iter().map(|line| line.trim()).filter(|line| !line.is_empty());
        let commands = || commands().filter(|line| !line.starts_with('#'));
        let is_setup = commands().all(|line| {
            let words = line.strip_prefix("sudo ").unwrap_or(line);
            words.split(' ').next().is_some_and(|program| SETUP.contains(&program))
        });
        let is_complete = commands().all(is_complete);
        (!is_setup && is_complete).then(|| lines.join("\n").trim().to_owned())
    }
}

/// Whether a command has no placeholder.
fn is_complete(command: &str) -> bool {
    let is_blank = |rest: &str| {
        let inner = rest.split_once('>').map(|(inner, _)| inner);
        inner.is_some_and(|inner| {
            let plain = |c: char| c.is_ascii_alphanumeric() || matches!(c, ' ' | '_' | '-' | '.' | '/');
            inner.starts_with(|c: char| c.is_ascii_alphabetic()) && inner.chars().all(plain)
        })
    };
    let has_blank = command.match_indices('<').any(|(at, _)| is_blank(&command[at + 1..]));
    !has_blank && !["...", "…", "path/to/", "[options]"].iter().any(|mark| command.contains(mark))
}

/// A command in a span of code, or on an indented line.
fn in_prose(lines: &[&str]) -> Option<String> {
    let is_command = |text: &&str| PROGRAMS.iter().any(|start| text.starts_with(start)) && is_complete(text);
    lines.iter().find_map(|line| {
        let spans = line.split('`').skip(1).step_by(2);
        let indented = line.strip_prefix("    ").or_else(|| line.strip_prefix('\t'));
        let mut candidates = spans.chain(indented).map(str::trim);
        candidates.find(is_command).map(ToOwned::to_owned)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn found(text: &str) -> Option<String> {
        first_example(text)
    }

    #[test]
    fn the_first_block_that_is_complete() {
        let text = "\
# Report
Run `python3 scripts/other.py` never.

```python
print('not a shell')
```

```bash
pip install pandas
```

```bash
python3 scripts/report.py <input file>
```

   ```sh
   # Try it on the sample.
   $ python3 scripts/report.py sample.csv
   cat out/report.md
   ```
";
        assert_eq!(
            found(text).as_deref(),
            Some("# Try it on the sample.\npython3 scripts/report.py sample.csv\ncat out/report.md")
        );
    }

    #[test]
    fn of_a_terminal_only_what_is_typed() {
        assert_eq!(found("~~~console\n$ echo hi\nhi\n~~~").as_deref(), Some("echo hi"));
        assert_eq!(found("```console\nhi\n```"), None);
    }

    #[test]
    fn a_command_in_the_text() {
        assert_eq!(found("1. Run `bash scripts/go.sh --all`.").as_deref(), Some("bash scripts/go.sh --all"));
        assert_eq!(found("Then:\n\n    ./go.sh now\n").as_deref(), Some("./go.sh now"));
        assert_eq!(found("See `scripts/go.sh`. Run `python3 go.py <file>`."), None);
    }

    #[test]
    fn blanks_of_other_scripts_are_characters() {
        let text = "  ```sh\n\u{3000}echo one\n \u{a0}echo two\n   echo three\n  ```";
        assert_eq!(found(text).as_deref(), Some("echo one\necho two\n echo three"));
    }

    #[test]
    fn input_from_a_file_is_complete() {
        assert_eq!(found("```sh\nsort < a.txt > b.txt\n```").as_deref(), Some("sort < a.txt > b.txt"));
        assert_eq!(found("```sh\ncat <<EOF\nx\nEOF\n```").as_deref(), Some("cat <<EOF\nx\nEOF"));
        assert_eq!(found("```sh\nnever closed"), None);
    }
}
