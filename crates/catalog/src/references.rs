//! Checks the paths in a manifest's instructions: each must name a file of the skill.

use std::collections::HashSet;
use std::ops::Range;
use std::os::fd::{AsFd, OwnedFd};

use crate::diagnostic::{Code, Findings};
use crate::local::{self, Follow, OpenError};

/// A longer text does not count as a path.
const MAX_REFERENCE_BYTES: usize = 512;
/// How many references are checked.
const MAX_REFERENCES: usize = 200;

/// Checks the paths in the instructions `content`, which begin at `start` in the manifest.
pub(crate) fn check(content: &str, start: usize, directory: &OwnedFd, findings: &mut Findings<'_>) {
    let mut seen = HashSet::new();
    let mut ranges = references(content);
    for range in ranges.by_ref().take(MAX_REFERENCES) {
        let path = &content[range.clone()];
        if seen.insert(path) {
            check_one(path, start + range.start..start + range.end, directory, findings);
        }
    }
    if ranges.next().is_some() {
        let message = format!("only the first {MAX_REFERENCES} references were checked");
        findings.add(Code::FindingsCapped, None, message);
    }
}

fn check_one(path: &str, place: Range<usize>, directory: &OwnedFd, findings: &mut Findings<'_>) {
    let path = path.strip_prefix("./").unwrap_or(path);
    if path.starts_with('/') || path.split('/').any(|part| part == "..") {
        let message = format!("`{path}` leads out of the skill");
        findings
            .add(Code::BrokenReference, Some(place), message)
            .hint("refer to files by their path in the skill");
        return;
    }
    let missing = match local::open_file(directory.as_fd(), path.trim_end_matches('/'), Follow::Beneath) {
        Err(OpenError::Absent | OpenError::Outside) => true,
        Ok(_) | Err(_) => false,
    };
    if missing {
        let message = format!("the skill has no file `{path}`");
        findings.add(Code::BrokenReference, Some(place), message).hint("add the file, or correct the path");
    }
}

/// The places in `body` that name a file of the skill: link targets, and paths in code spans that begin with a standard
/// directory.
fn references(body: &str) -> impl Iterator<Item = Range<usize>> {
    let links = body.match_indices("](").filter_map(|(at, opening)| {
        let inside = enclosed(body, at + opening.len(), b')')?;
        let target = body[inside.clone()].split(['#', '?', ' ']).next().unwrap_or_default();
        is_relative(target).then_some(inside.start..inside.start + target.len())
    });
    let spans = body.match_indices('`').filter_map(|(at, _)| {
        let inside = enclosed(body, at + 1, b'`')?;
        let path = &body[inside.clone()];
        let standard =
            ["scripts/", "references/", "assets/"].iter().any(|directory| path.starts_with(directory));
        let named = path.rsplit('/').next().is_some_and(|name| name.contains('.'));
        (standard && named && is_literal(path)).then_some(inside)
    });
    links.chain(spans)
}

/// The range from `start` to the next `closing` on the same line, if it is short enough for a path. This limit keeps a body
/// full of openings from being searched to its end for each of them.
fn enclosed(body: &str, start: usize, closing: u8) -> Option<Range<usize>> {
    let near = &body.as_bytes()[start..body.len().min(start + MAX_REFERENCE_BYTES)];
    let length = near.iter().position(|&byte| byte == closing || byte == b'\n')?;
    (near[length] == closing).then_some(start..start + length)
}

fn is_relative(target: &str) -> bool {
    !target.is_empty() && !target.contains(':') && is_literal(target)
}

/// Whether `path` is a real path, not a pattern or a placeholder.
fn is_literal(path: &str) -> bool {
    !path.contains(|c: char| {
        matches!(c, '*' | '{' | '}' | '<' | '>' | '$' | '[' | ']' | ' ') || c.is_control()
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn found(body: &str) -> Vec<&str> {
        references(body).map(|range| &body[range]).collect()
    }

    #[test]
    fn links_and_code_spans_are_references() {
        assert_eq!(
            found("See [a](references/a.md#top) and [b](https://x.y/z) or [c](#here)."),
            ["references/a.md"]
        );
        assert_eq!(
            found("Run `scripts/x.py` on `scripts/*.py` or `other.py`, `scripts/`."),
            ["scripts/x.py"]
        );
        assert_eq!(found("[t](<x y>) [open](never closed\n) `scripts/a.py 10`"), Vec::<&str>::new());
    }
}
