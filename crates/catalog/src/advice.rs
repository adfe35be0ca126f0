//! Advice on the body of a manifest: what the specification recommends but does not require.

use std::ops::Range;
use std::os::fd::OwnedFd;

use prowess_base::tokens::estimate_tokens;

use crate::diagnostic::{Code, Findings};
use crate::name::SkillName;
use crate::references;

/// The specification recommends fewer lines in a SKILL.md.
const LONG_BODY_LINES: usize = 500;
/// The specification recommends fewer tokens of instructions.
const LONG_BODY_TOKENS: usize = 5000;

/// Checks the body of a whole manifest. `directory` is the skill's directory.
pub(crate) fn body(text: &str, body: Range<usize>, directory: &OwnedFd, findings: &mut Findings<'_>) {
    let start = body.start;
    let content = &text[body];
    let lines = text.lines().count();
    let tokens = estimate_tokens(content);
    if content.trim().is_empty() {
        findings
            .add(Code::BodyEmpty, None, "there are no instructions")
            .hint("write the instructions below the frontmatter");
    } else if lines > LONG_BODY_LINES || tokens > LONG_BODY_TOKENS {
        let message = format!("the file has {lines} lines and about {tokens} tokens of instructions");
        findings.add(Code::BodyTooLong, None, message).hint(format!(
            "keep it under {LONG_BODY_LINES} lines and {LONG_BODY_TOKENS} tokens: move details to references/"
        ));
    }
    if let Some((at, c)) =
        text.char_indices().find(|(_, c)| c.is_control() && !matches!(c, '\n' | '\r' | '\t'))
    {
        let message = format!("the control character U+{:04X}", u32::from(c));
        findings.add(Code::ControlCharacter, Some(at..at + c.len_utf8()), message).hint("remove it");
    }
    references::check(content, start, directory, findings);
}

/// Reports words that Anthropic's products refuse in the name of a skill.
pub(crate) fn reserved_name(name: &SkillName, findings: &mut Findings<'_>) {
    if let Some(word) = ["anthropic", "claude"].iter().find(|word| name.as_str().contains(*word)) {
        findings
            .add(Code::NameReserved, None, format!("the name contains `{word}`, which is reserved"))
            .hint("choose another name");
    }
}
