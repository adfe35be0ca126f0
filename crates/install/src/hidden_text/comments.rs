//! Long HTML comments in a SKILL.md.

use super::Findings;
use super::kind::HiddenKind;

/// The most characters of a comment that is not a finding.
const MAX_COMMENT_CHARS: usize = 80;

pub(super) fn scan(text: &str, findings: &mut Findings<'_>) {
    let (mut at, mut line, mut line_start) = (0, 1, 0);
    // Counts the lines up to `end`, each byte once.
    let mut pass = |from: usize, end: usize| {
        for (newline, _) in text[from..end].match_indices('\n') {
            line += 1;
            line_start = from + newline + 1;
        }
        (line, line_start)
    };
    while let Some(found) = text[at..].find("<!--") {
        let start = at + found;
        let (line, line_start) = pass(at, start);
        let inside = start + "<!--".len();
        // A comment without an end hides everything after it.
        let end = text[inside..].find("-->").map_or(text.len(), |length| inside + length);
        let words = || text[inside..end].split_whitespace();
        let length = words().map(|word| word.chars().count() + 1).sum::<usize>().saturating_sub(1);
        if length > MAX_COMMENT_CHARS {
            findings.add_at(HiddenKind::LongComment, || {
                (line, text[line_start..start].chars().count() + 1, words().collect::<Vec<_>>().join(" "))
            });
        }
        pass(start, end);
        at = end;
    }
}
