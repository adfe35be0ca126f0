//! What a person sees of the bytes that a copy or an edit writes, before they are written.

use std::time::Duration;

use prowess_backend::Edit;
use prowess_permission::action::CopyPreview;
use similar::TextDiff;

/// How much of a text or of a difference a question holds, in bytes.
const MAX_PREVIEW_BYTES: usize = 128 * 1024;
/// The largest texts that are compared, in bytes. Of a larger text, the beginning is shown.
const MAX_COMPARED_BYTES: usize = 1024 * 1024;
/// How long texts are compared. After that, the difference is right and longer than necessary.
const MAX_COMPARING: Duration = Duration::from_millis(500);
/// How many unchanged lines are shown around a change.
const CONTEXT_LINES: usize = 3;
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
        Some(old) if old.len().max(new.len()) <= MAX_COMPARED_BYTES => {
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

/// The difference that an edit makes, if a person can read it all. An edit inside of long lines is clearer as its two texts.
pub(super) fn difference(before: &[u8], after: &[u8], edit: &Edit, replacements: usize) -> Option<String> {
    let CopyPreview::Difference { diff, left_out: 0 } = preview(after, Some(before)) else { return None };
    let most = (edit.find.len() + edit.replace.len() + MAX_CONTEXT_BYTES).saturating_mul(replacements);
    (diff.len() <= most).then_some(diff)
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
            difference(before.as_bytes(), after.as_bytes(), edit, replacements)
        };
        let edit = Edit::all("low", "high");
        assert_eq!(shown("a\nlow\nb\n", &edit).as_deref(), Some("@@ -1,3 +1,3 @@\n a\n-low\n+high\n b\n"));
        let many = "low\n".to_owned() + &"x\n".repeat(99) + "low\n";
        assert_eq!(shown(&many, &edit).unwrap().matches("+high").count(), 2);
        assert_eq!(shown(&format!("{}low", "x".repeat(MAX_CONTEXT_BYTES)), &edit), None);
        assert_eq!(shown("low\0", &edit), None, "not text");
        assert_eq!(shown("low", &Edit::all("low", "low")), None, "no difference");
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
