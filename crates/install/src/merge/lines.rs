//! Merges two changes of one text, line by line.

use std::ops::Range;

use similar::{Algorithm, DiffTag, capture_diff_slices};

use super::{ConflictKind, Effort, MAX_MERGE_LINES};

/// A change: these lines of the base become those lines of a version.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Hunk {
    base: Range<usize>,
    version: Range<usize>,
}

/// The text with the changes of both versions.
pub(super) fn merge(
    base: &[u8],
    local: &[u8],
    new: &[u8],
    effort: &mut Effort,
) -> Result<Vec<u8>, ConflictKind> {
    let [base, local, new] = [base, local, new].map(lines);
    let (Some(base), Some(local), Some(new)) = (base, local, new) else { return Err(ConflictKind::Binary) };
    if !effort.spend(&base, &local) || !effort.spend(&base, &new) {
        return Err(ConflictKind::Binary);
    }
    let (ours, theirs) = (hunks(&base, &local), hunks(&base, &new));
    let (mut our, mut their, mut done) = (0, 0, 0);
    let mut merged = Vec::new();
    loop {
        let (hunk, replacement) = match (ours.get(our), theirs.get(their)) {
            (None, None) => break,
            (Some(o), Some(t)) if o.base == t.base && local[o.version.clone()] == new[t.version.clone()] => {
                (our, their) = (our + 1, their + 1);
                (o, &local[o.version.clone()])
            }
            // They overlap or touch.
            (Some(o), Some(t)) if o.base.start <= t.base.end && t.base.start <= o.base.end => {
                return Err(ConflictKind::Lines);
            }
            (Some(o), Some(t)) if t.base.start < o.base.start => {
                their += 1;
                (t, &new[t.version.clone()])
            }
            (Some(o), _) => {
                our += 1;
                (o, &local[o.version.clone()])
            }
            (None, Some(t)) => {
                their += 1;
                (t, &new[t.version.clone()])
            }
        };
        merged.extend_from_slice(&base[done..hunk.base.start]);
        merged.extend_from_slice(replacement);
        done = hunk.base.end;
    }
    merged.extend_from_slice(&base[done..]);
    Ok(merged.concat().into_bytes())
}

/// The lines of a text with their ends. `None` if it is not text, or has too many lines.
fn lines(bytes: &[u8]) -> Option<Vec<&str>> {
    if bytes.contains(&0) {
        return None;
    }
    let lines: Vec<&str> = std::str::from_utf8(bytes).ok()?.split_inclusive('\n').collect();
    (lines.len() <= MAX_MERGE_LINES).then_some(lines)
}

/// The changes from `base` to `version`. Neighbouring changes are one.
fn hunks(base: &[&str], version: &[&str]) -> Vec<Hunk> {
    let mut hunks: Vec<Hunk> = Vec::new();
    for op in capture_diff_slices(Algorithm::Myers, base, version) {
        if op.tag() == DiffTag::Equal {
            continue;
        }
        let hunk = Hunk { base: op.old_range(), version: op.new_range() };
        match hunks.last_mut() {
            Some(last) if last.base.end == hunk.base.start && last.version.end == hunk.version.start => {
                last.base.end = hunk.base.end;
                last.version.end = hunk.version.end;
            }
            _ => hunks.push(hunk),
        }
    }
    hunks
}

#[cfg(test)]
mod tests {
    use super::*;

    fn bytes(base: &[u8], local: &[u8], new: &[u8]) -> Result<Vec<u8>, ConflictKind> {
        merge(base, local, new, &mut Effort::default())
    }

    fn merged(base: &str, local: &str, new: &str) -> Result<String, ConflictKind> {
        bytes(base.as_bytes(), local.as_bytes(), new.as_bytes()).map(|text| String::from_utf8(text).unwrap())
    }

    #[test]
    fn changes_of_other_lines_are_joined() {
        let base = "a\nb\nc\nd\ne\n";
        assert_eq!(merged(base, "A\nb\nc\nd\ne\n", "a\nb\nc\nd\nE\n").unwrap(), "A\nb\nc\nd\nE\n");
        assert_eq!(merged(base, "a\nb\nc\nd\ne\nf\n", "b\nc\nd\ne\n").unwrap(), "b\nc\nd\ne\nf\n");
        // Both made one change alike, and each another one.
        assert_eq!(merged(base, "0\na\nb\nC\nd\ne\n", "a\nb\nC\nd\nE\n").unwrap(), "0\na\nb\nC\nd\nE\n");
    }

    #[test]
    fn changes_that_overlap_or_touch_conflict() {
        for (base, local, new) in [
            ("a\nb\n", "A\nb\n", "a!\nb\n"),
            ("a\nb\n", "A\nb\n", "a\nB\n"),
            ("a\nb\n", "a\nx\nb\n", "a\ny\nb\n"),
            ("a\nb\n", "a\nx\nb\n", "a\n"),
            ("", "x\n", "y\n"),
            ("a", "a\nx", "a\n"),
        ] {
            assert_eq!(merged(base, local, new), Err(ConflictKind::Lines), "{base:?} {local:?} {new:?}");
        }
    }

    #[test]
    fn what_is_not_text_conflicts() {
        assert_eq!(bytes(b"a", b"b\0", b"c"), Err(ConflictKind::Binary));
        assert_eq!(bytes(b"a", b"b", b"\xff"), Err(ConflictKind::Binary));
        let many = "x\n".repeat(MAX_MERGE_LINES + 1);
        assert_eq!(merged("", &many, "y\n"), Err(ConflictKind::Binary));
        // Lines that are alike at both ends cost nothing.
        let mut effort = Effort { left: 1 };
        let same = |middle: &str| format!("a\n{middle}\nz\n").into_bytes();
        assert_eq!(merge(&same("b"), &same("c"), &same("b"), &mut effort).unwrap(), same("c"));
        assert_eq!(merge(&same("b"), &same("c"), &same("d"), &mut effort), Err(ConflictKind::Binary));
    }
}
