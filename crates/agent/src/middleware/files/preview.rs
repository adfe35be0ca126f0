//! What a person sees of the bytes that a copy or an edit writes, before they are written.

use std::ops::Range;
use std::time::Duration;

use prowess_backend::Edit;
use prowess_permission::action::CopyPreview;
use similar::TextDiff;

use super::copy::digest;

/// How much of a text or of a difference a question holds, in bytes.
const MAX_PREVIEW_BYTES: usize = 128 * 1024;
/// The largest texts that are compared, in bytes. Of a larger text, the beginning is shown.
const MAX_COMPARED_BYTES: usize = 1024 * 1024;
/// How long texts are compared. After that, the difference is right and longer than necessary.
const MAX_COMPARING: Duration = Duration::from_millis(500);
/// How many unchanged lines are shown around a change.
const CONTEXT_LINES: usize = 3;
/// The longest line of a difference, in characters. Front ends cut longer lines, and then two lines that differ look alike.
const MAX_DIFF_LINE: usize = 150;
/// How much text around an edit is shown, in bytes.
const MAX_CONTEXT_BYTES: usize = 2 * 1024;

/// Kinds of files by their first bytes.
const KINDS: [(&[u8], &str); 12] = [
    (b"\x89PNG\r\n\x1a\n", "PNG image"),
    (b"\xff\xd8\xff", "JPEG image"),
    (b"GIF8", "GIF image"),
    (b"%PDF-", "PDF document"),
    (b"PK\x03\x04", "ZIP archive, or a document in one"),
    (b"\x1f\x8b", "gzip archive"),
    (b"\x7fELF", "program"),
    (b"\xcf\xfa\xed\xfe", "program"),
    (b"MZ", "program for Windows"),
    (b"\0asm", "WebAssembly program"),
    (b"SQLite format 3\0", "SQLite database"),
    (b"wOF2", "font"),
];

/// What to show of `bytes`, which will replace `before`, if there is a file.
pub(super) fn preview(bytes: &[u8], before: Option<&[u8]>) -> CopyPreview {
    if before == Some(bytes) {
        return CopyPreview::Same;
    }
    let Some(new) = text(bytes) else { return CopyPreview::Data { what: kind(bytes).to_owned() } };
    match before.and_then(text) {
        Some(old) if old.len().max(new.len()) <= MAX_COMPARED_BYTES && !has_lone_return(old, new) => {
            let diff = TextDiff::configure().timeout(MAX_COMPARING).diff_lines(old, new);
            let diff = diff.unified_diff().context_radius(CONTEXT_LINES).to_string();
            let (diff, left_out) = start(&diff);
            CopyPreview::Difference { diff, left_out }
        }
        _ => {
            let (text, left_out) = start(new);
            CopyPreview::Text { text, left_out }
        }
    }
}

/// What a person sees of an edit beside its two texts. An edit inside of long lines is clearer as its two texts, so this is
/// empty for it.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct EditPreview {
    /// The difference, if a person can read it all.
    pub(super) difference: Option<String>,
    /// The digest of the lines that the edit changes, and of the lines around them. Unlike the difference, it does not depend on the time that comparing
    /// takes: the same edit of the same lines always has the same digest.
    pub(super) lines: Option<String>,
}

impl EditPreview {
    pub(super) fn new(before: &[u8], after: &[u8], edit: &Edit, replacements: usize) -> Self {
        let most = (edit.find.len() + edit.replace.len() + MAX_CONTEXT_BYTES).saturating_mul(replacements);
        let Ok(text) = std::str::from_utf8(before) else { return Self::default() };
        let groups = changed_lines(text, edit);
        let lines = Some(digest_with_context(text, &groups));
        if groups.iter().map(Range::len).sum::<usize>() > most {
            return Self { difference: None, lines };
        }
        let difference = match preview(after, Some(before)) {
            CopyPreview::Difference { diff, left_out: 0 } if diff.len() <= most && has_short_lines(&diff) => {
                Some(diff)
            }
            _ => None,
        };
        Self { difference, lines }
    }
}

/// Whether a text has a carriage return inside of a line. Front ends do not break lines there, but a difference does.
fn has_lone_return(old: &str, new: &str) -> bool {
    [old, new].iter().any(|text| text.replace("\r\n", "").contains('\r'))
}

/// Whether all lines of a difference that change can be shown whole.
fn has_short_lines(diff: &str) -> bool {
    let mut changed = diff.lines().filter(|line| line.starts_with(['-', '+']));
    changed.all(|line| line.chars().nth(MAX_DIFF_LINE).is_none())
}

/// The digest of groups of lines, with the lines around them that a person sees.
fn digest_with_context(text: &str, groups: &[Range<usize>]) -> String {
    let mut all = String::new();
    for Range { start, end } in groups {
        let before = text[..*start].split_inclusive('\n').rev().take(CONTEXT_LINES);
        let after = text[*end..].split_inclusive('\n').take(CONTEXT_LINES);
        let [before, after] = [before.map(str::len).sum::<usize>(), after.map(str::len).sum()];
        // The lengths keep two groups apart from one group with the same text.
        all += &format!("{before}:{}:{after}:{}", end - start, &text[start - before..end + after]);
    }
    digest(all.as_bytes())
}

/// The groups of whole lines that an edit changes, as they are before it.
fn changed_lines(text: &str, edit: &Edit) -> Vec<Range<usize>> {
    let mut groups: Vec<(usize, usize)> = Vec::new();
    for (start, found) in text.match_indices(&edit.find) {
        let end = start + found.len();
        let line = text[..start].rfind('\n').map_or(0, |before| before + 1);
        // An edit that ends with its last line leaves the next line alone, unless it joins the two.
        let joins_next = if edit.replace.is_empty() { line != start } else { !edit.replace.ends_with('\n') };
        let end = match found.ends_with('\n') && !joins_next {
            true => end,
            false => text[end..].find('\n').map_or(text.len(), |rest| end + rest + 1),
        };
        match groups.last_mut() {
            Some(last) if line < last.1 => last.1 = end,
            _ => groups.push((line, end)),
        }
    }
    groups.into_iter().map(|(start, end)| start..end).collect()
}

/// The bytes as text, if a person can read them.
fn text(bytes: &[u8]) -> Option<&str> {
    std::str::from_utf8(bytes).ok().filter(|text| !text.contains('\0'))
}

/// What a file is that is not text.
fn kind(bytes: &[u8]) -> &'static str {
    KINDS.iter().find(|(start, _)| bytes.starts_with(start)).map_or("binary data", |(_, kind)| kind)
}

/// The first lines of a text that fit, and the number of bytes after them.
fn start(text: &str) -> (String, u64) {
    if text.len() <= MAX_PREVIEW_BYTES {
        return (text.to_owned(), 0);
    }
    let fits = &text[..text.floor_char_boundary(MAX_PREVIEW_BYTES)];
    let fits = fits.rfind('\n').map_or(fits, |end| &fits[..=end]);
    (fits.to_owned(), (text.len() - fits.len()) as u64)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn text_that_replaces_text_is_a_difference() {
        let old: String = (1..=20).map(|line| format!("line {line}\n")).collect();
        let new = old.replace("line 3\n", "line three\n").replace("line 20\n", "line 20");
        let CopyPreview::Difference { diff, left_out: 0 } = preview(new.as_bytes(), Some(old.as_bytes()))
        else {
            panic!("it is text")
        };
        insta::assert_snapshot!(diff);
    }

    #[test]
    fn everything_else_is_text_or_data() {
        let shown = |bytes: &[u8], before: Option<&[u8]>| preview(bytes, before);
        let new = CopyPreview::Text { text: "a\n".to_owned(), left_out: 0 };
        assert_eq!(shown(b"a\n", None), new);
        assert_eq!(shown(b"a\n", Some(b"\xff")), new, "text that replaces data");
        assert_eq!(shown(b"a\n", Some(b"a\n")), CopyPreview::Same);
        let data = |what: &str| CopyPreview::Data { what: what.to_owned() };
        assert_eq!(shown(b"\x89PNG\r\n\x1a\n\0", Some(b"a\n")), data("PNG image"));
        assert_eq!(shown(b"a\0b", None), data("binary data"));
        assert_eq!(shown(b"\xff\xfe", None), data("binary data"));
    }

    #[test]
    fn an_edit_is_a_difference_unless_its_lines_are_long() {
        let shown = |before: &str, edit: &Edit| {
            let after = before.replace(&edit.find, &edit.replace);
            let replacements = before.matches(&edit.find).count();
            EditPreview::new(before.as_bytes(), after.as_bytes(), edit, replacements).difference
        };
        let edit = Edit::all("low", "high");
        assert_eq!(shown("a\nlow\nb\n", &edit).as_deref(), Some("@@ -1,3 +1,3 @@\n a\n-low\n+high\n b\n"));
        let many = "low\n".to_owned() + &"x\n".repeat(99) + "low\n";
        assert_eq!(shown(&many, &edit).unwrap().matches("+high").count(), 2);
        assert_eq!(shown(&format!("{}low", "x".repeat(MAX_CONTEXT_BYTES)), &edit), None);
        assert_eq!(shown("low\0", &edit), None, "not text");
        // A front end would cut these lines, or not break them.
        assert_eq!(shown(&format!("{} low\n", "x".repeat(MAX_DIFF_LINE)), &edit), None);
        assert_eq!(shown("a\rlow\rb\n", &edit), None);
        assert!(shown("a\r\nlow\r\nb\r\n", &edit).is_some());
        assert_eq!(shown("low", &Edit::all("low", "low")), None, "no difference");
    }

    #[test]
    fn a_reply_to_an_edit_counts_for_the_lines_that_change() {
        let lines = |before: &str, edit: &Edit| {
            let (after, replacements) =
                (before.replace(&edit.find, &edit.replace), before.matches(&edit.find));
            EditPreview::new(before.as_bytes(), after.as_bytes(), edit, replacements.count()).lines
        };
        let edit = Edit::all("low", "high");
        let shown = lines("a\nTide: low\nb\n", &edit);
        assert!(shown.is_some());
        assert_eq!(shown, lines("a\nTide: low\nb\n", &edit));
        assert_ne!(shown, lines("[production]\nTide: low\nb\n", &edit), "the same line at another place");
        assert_ne!(shown, lines("a\nSpirits: low\nb\n", &edit), "another line");
        assert_ne!(shown, lines("a\nTide: low\nTide: low\n", &edit), "and twice");
        let long = format!("{}low", "x".repeat(MAX_CONTEXT_BYTES + 99));
        assert_ne!(lines(&format!("a\n{long}"), &edit), lines(&format!("b\n{long}"), &edit), "a long line");
        assert_eq!(changed_lines("low low\nb\nlow", &edit), [0..8, 10..13]);
    }

    #[test]
    fn an_edit_changes_the_next_line_only_if_it_joins_them() {
        let text = "one\ntwo\nthree\n";
        let changed = |find: &str, replace: &str| -> String {
            changed_lines(text, &Edit::all(find, replace)).into_iter().map(|lines| &text[lines]).collect()
        };
        assert_eq!(changed("two\n", "2\n"), "two\n");
        assert_eq!(changed("two\n", ""), "two\n");
        assert_eq!(changed("two\n", "2 "), "two\nthree\n");
        assert_eq!(changed("o\n", ""), "two\nthree\n");
        assert_eq!(changed("ne\nt", "x"), "one\ntwo\n");
        assert_eq!(changed("e\n", " "), text, "both matches are in one group");
    }

    #[test]
    fn long_texts_are_cut_at_a_line() {
        let long = "0123456789 €\n".repeat(50_000);
        let CopyPreview::Text { text, left_out } = preview(long.as_bytes(), None) else { panic!("text") };
        assert!(text.len() <= MAX_PREVIEW_BYTES && text.ends_with('\n'));
        assert_eq!(text.len() as u64 + left_out, long.len() as u64);
        let CopyPreview::Difference { diff, left_out } = preview(long.as_bytes(), Some(b"x\n")) else {
            panic!("both are text")
        };
        assert!(diff.len() <= MAX_PREVIEW_BYTES && left_out > 0);
        // Two texts without a common line, and a text too large to compare.
        let other = "x\n".repeat(400_000);
        assert!(matches!(
            preview(other.as_bytes(), Some(long.as_bytes())),
            CopyPreview::Difference { left_out: 1.., .. }
        ));
        let huge = "x\n".repeat(MAX_COMPARED_BYTES);
        assert!(matches!(preview(huge.as_bytes(), Some(b"x\n")), CopyPreview::Text { left_out: 1.., .. }));
    }
}
