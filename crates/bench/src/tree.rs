//! The measured skills: `skill-N/SKILL.md`, about 2 KB each, the same on every machine.
//!
//! Nine of ten have plain frontmatter. The tenth needs a full YAML parser: it has a folded description, a comment, an
//! escape, or a list in an unknown field.

use std::path::Path;
use std::time::{Duration, SystemTime};
use std::{fs, io};

/// The length of a manifest.
const LENGTH: usize = 2_000;
/// A refresh reads younger files again, which must not be measured.
const SETTLED: Duration = Duration::from_millis(200);

const VERBS: [&str; 12] = [
    "Reviews",
    "Drafts",
    "Converts",
    "Summarises",
    "Validates",
    "Migrates",
    "Profiles",
    "Translates",
    "Plans",
    "Merges",
    "Audits",
    "Renders",
];
const ADJECTIVES: [&str; 12] = [
    "quarterly",
    "tabular",
    "scanned",
    "signed",
    "nightly",
    "localised",
    "archived",
    "streaming",
    "regional",
    "internal",
    "versioned",
    "annotated",
];
const THINGS: [&str; 16] = [
    "invoices",
    "pull requests",
    "tide tables",
    "release notes",
    "database schemas",
    "spreadsheets",
    "log files",
    "meeting minutes",
    "API clients",
    "test plans",
    "contracts",
    "dashboards",
    "slide decks",
    "PDF forms",
    "changelogs",
    "incident reports",
];
const LICENSES: [&str; 4] = ["MIT", "Apache-2.0", "MIT OR Apache-2.0", "Proprietary. See LICENSE.txt"];
const TOOLS: [&str; 4] =
    ["Read Grep Glob", "Read Write Bash(git:*)", "Bash(python:*) Read", "Read Edit WebFetch"];

/// Writes skills 0 to `count` to `root`, if they are missing, and waits until their times are reliable.
pub(crate) fn write(root: &Path, count: usize) -> io::Result<()> {
    write_with(root, count, |_| Ok(()), manifest)
}

/// Writes skills with `manifest` as their SKILL.md. `beside` adds files to their directories.
pub(crate) fn write_with(
    root: &Path,
    count: usize,
    beside: impl Fn(&Path) -> io::Result<()>,
    manifest: impl Fn(usize) -> String,
) -> io::Result<()> {
    let last = root.join(format!("skill-{}", count - 1)).join("SKILL.md");
    if !last.exists() {
        for number in 0..count {
            let directory = root.join(format!("skill-{number}"));
            fs::create_dir_all(&directory)?;
            beside(&directory)?;
            fs::write(directory.join("SKILL.md"), manifest(number))?;
        }
    }
    let written = fs::metadata(&last)?.modified()?;
    let age = SystemTime::now().duration_since(written).unwrap_or_default();
    #[expect(clippy::disallowed_methods, reason = "it is the passing of time that is waited for")]
    std::thread::sleep(SETTLED.saturating_sub(age));
    Ok(())
}

/// The manifest of skill `number`.
pub(crate) fn manifest(number: usize) -> String {
    manifest_of(number, LENGTH)
}

/// The manifest of skill `number`, at least `length` bytes long. The last sentence can exceed it.
pub(crate) fn manifest_of(number: usize, length: usize) -> String {
    let mut words = WordPicker(number as u64 + 1);
    let (verb, adjective, thing) = (words.pick(&VERBS), words.pick(&ADJECTIVES), words.pick(&THINGS));
    let does = format!("{verb} {adjective} {thing} and reports what needs attention, with sources.");
    let when = format!(
        "Use when the user asks about {thing}, mentions {} or wants {} {} checked before they are sent.",
        words.pick(&THINGS),
        words.pick(&ADJECTIVES),
        words.pick(&THINGS)
    );
    let (comment, description, unknown) = match number % 10 {
        9 => match number / 10 % 4 {
            0 => ("", format!(">\n  {does}\n  {when}"), ""),
            1 => ("# Generated from the team's handbook.\n", format!("{does} {when}"), ""),
            2 => ("", format!("\"{does} Says \\\"done\\\" at the end.\\t{when}\""), ""),
            _ => ("", format!("{does} {when}"), "tags: [documents, review]\n"),
        },
        _ => ("", format!("{does} {when}"), ""),
    };
    let (license, tools) = (words.pick(&LICENSES), words.pick(&TOOLS));
    let mut text = format!(
        "---\n{comment}name: skill-{number}\ndescription: {description}\nlicense: {license}\nmetadata:\n  \
         author: docs-team\n  version: \"1.{}\"\nallowed-tools: {tools}\n{unknown}---\n\n\
         # {verb} {thing}\n\n{does}\n\n## Steps\n\n",
        number % 10
    );
    let mut step = 0;
    while text.len() < length {
        step += 1;
        text.push_str(&format!(
            "{step}. {} the {} {} first, then compare them with the **{}** ones.\n",
            words.pick(&VERBS).trim_end_matches('s'),
            words.pick(&ADJECTIVES),
            words.pick(&THINGS),
            words.pick(&ADJECTIVES)
        ));
        if step == 4 {
            text.push_str("\n   ```bash\n   jq '.items[] | select(.open)' input.json\n   ```\n\n");
        }
    }
    text
}

/// A xorshift generator: the words look random, but are the same every time.
struct WordPicker(u64);

impl WordPicker {
    fn pick(&mut self, from: &[&'static str]) -> &'static str {
        let Self(state) = self;
        *state ^= *state << 13;
        *state ^= *state >> 7;
        *state ^= *state << 17;
        let at = state.wrapping_mul(0x2545_F491_4F6C_DD1D) >> 33;
        from[usize::try_from(at).unwrap_or(0) % from.len()]
    }
}
