//! The media type of a file, from its content and then its name.

use std::borrow::Cow;

use file_format::FileFormat;

/// A media type.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Mime {
    /// The media type, such as `text/html`.
    pub name: Cow<'static, str>,
    /// Whether the file is UTF-8 text.
    pub is_text: bool,
}

impl Mime {
    const UNKNOWN: Self = Self { name: Cow::Borrowed("application/octet-stream"), is_text: false };

    const fn text(name: &'static str) -> Self {
        Self { name: Cow::Borrowed(name), is_text: true }
    }
}

/// How many bytes at the start of a text decide what kind of text it is.
const SNIFFED: usize = 1024;

/// Media types of text by extension. They apply only if the content is text.
const TEXTS: &[(&str, &str)] = &[
    ("bash", "application/x-sh"),
    ("c", "text/x-c"),
    ("cfg", "text/plain"),
    ("cpp", "text/x-c++"),
    ("css", "text/css"),
    ("csv", "text/csv"),
    ("go", "text/x-go"),
    ("h", "text/x-c"),
    ("htm", "text/html"),
    ("html", "text/html"),
    ("ics", "text/calendar"),
    ("ini", "text/plain"),
    ("ipynb", "application/x-ipynb+json"),
    ("java", "text/x-java"),
    ("js", "text/javascript"),
    ("json", "application/json"),
    ("jsonl", "application/jsonl"),
    ("log", "text/plain"),
    ("markdown", "text/markdown"),
    ("md", "text/markdown"),
    ("mjs", "text/javascript"),
    ("ndjson", "application/jsonl"),
    ("py", "text/x-python"),
    ("rb", "text/x-ruby"),
    ("rs", "text/x-rust"),
    ("rst", "text/x-rst"),
    ("sh", "application/x-sh"),
    ("sql", "application/sql"),
    ("srt", "application/x-subrip"),
    ("svg", "image/svg+xml"),
    ("tex", "text/x-tex"),
    ("toml", "application/toml"),
    ("ts", "text/x-typescript"),
    ("tsv", "text/tab-separated-values"),
    ("tsx", "text/x-typescript"),
    ("txt", "text/plain"),
    ("vtt", "text/vtt"),
    ("xhtml", "application/xhtml+xml"),
    ("xml", "application/xml"),
    ("yaml", "application/yaml"),
    ("yml", "application/yaml"),
];

/// The beginnings of texts that a browser shows as an HTML page, in lower case.
const HTML: [&str; 9] =
    ["<!doctype html", "<html", "<head", "<body", "<script", "<iframe", "<h1", "<table", "<!--"];

/// The media type of a file, from the bytes that were read and then its name.
///
/// The name decides only between kinds of text. An image is recognized by its content.
///
/// ```
/// use prowess_workspace::mime::mime_of;
///
/// assert_eq!(mime_of("a.csv", b"a,b\n1,2\n", false).name, "text/csv");
/// assert_eq!(mime_of("a.png", b"<html><script>", false).name, "text/html");
/// assert_eq!(mime_of("a.txt", b"\x89PNG\r\n\x1a\n", false).name, "image/png");
/// ```
pub fn mime_of(name: &str, content: &[u8], truncated: bool) -> Mime {
    match text_of(content, truncated) {
        Some(text) => kind_of_text(name, text),
        None => match FileFormat::from_bytes(content) {
            FileFormat::ArbitraryBinaryData | FileFormat::PlainText | FileFormat::Empty => Mime::UNKNOWN,
            format => Mime { name: Cow::Owned(format.media_type().to_owned()), is_text: false },
        },
    }
}

/// The content as text, if it is text. In a truncated file, a cut character at the end is left out.
pub(crate) fn text_of(content: &[u8], truncated: bool) -> Option<&str> {
    let text = match std::str::from_utf8(content) {
        Ok(text) => text,
        Err(error) if truncated && error.error_len().is_none() => {
            std::str::from_utf8(&content[..error.valid_up_to()]).ok()?
        }
        Err(_) => return None,
    };
    (!text.contains('\0')).then_some(text)
}

fn kind_of_text(name: &str, text: &str) -> Mime {
    // Signatures of binary formats are not tried here: text that starts with "BM25" would be a bitmap.
    for (beginning, mime) in [("%PDF-", "application/pdf"), ("%!PS", "application/postscript")] {
        if text.starts_with(beginning) {
            return Mime { name: Cow::Borrowed(mime), is_text: false };
        }
    }
    let extension = name.rsplit_once('.').map(|(_, extension)| extension.to_ascii_lowercase());
    let by_name = extension
        .and_then(|extension| TEXTS.iter().find(|(known, _)| *known == extension).map(|(_, mime)| *mime));
    let beginning = text.trim_start_matches('\u{feff}').trim_start();
    let beginning: String =
        beginning.bytes().take(SNIFFED).map(|byte| char::from(byte.to_ascii_lowercase())).collect();
    let is_source = by_name.is_some_and(|mime| !matches!(mime, "text/plain"));
    if !is_source {
        if HTML.iter().any(|mark| beginning.starts_with(mark)) {
            return Mime::text("text/html");
        }
        if beginning.starts_with("<svg") || (beginning.starts_with("<?xml") && beginning.contains("<svg")) {
            return Mime::text("image/svg+xml");
        }
        if beginning.starts_with("<?xml") {
            return Mime::text("application/xml");
        }
    }
    Mime::text(by_name.unwrap_or("text/plain"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn content_then_name() {
        for (name, content, expected) in [
            ("a.md", &b"# Title"[..], "text/markdown"),
            ("a", b"plain", "text/plain"),
            ("a.ts", b"const a = 1;", "text/x-typescript"),
            ("bitmap.txt", b"BM25 ranks documents", "text/plain"),
            ("a.txt", b"MZ is not a program", "text/plain"),
            ("a.png", b"just text", "text/plain"),
            ("a.png", b"  \n<!DOCTYPE html><p>", "text/html"),
            ("a.png", b"<?xml version='1.0'?><svg onload='x()'/>", "image/svg+xml"),
            ("a.md", b"<h1>Title</h1> of a document", "text/markdown"),
            ("a.txt", b"%PDF-1.7 all of it ASCII", "application/pdf"),
            ("a.txt", b"GIF89a\x01\x00\x01\x00\x00", "image/gif"),
            ("a.png", b"\x00\x00\x00\x00", "application/octet-stream"),
            ("a.zip", b"PK\x03\x04\x14\x00\x00\x00\x08\x00\xff\xff", "application/zip"),
            ("", b"", "text/plain"),
        ] {
            assert_eq!(mime_of(name, content, false).name, expected, "{name} {content:?}");
        }
    }

    #[test]
    fn a_cut_character_is_no_sign_of_binary() {
        let cut = &"é".as_bytes()[..1];
        assert!(!mime_of("a.txt", cut, false).is_text);
        assert_eq!(mime_of("a.txt", cut, true), Mime::text("text/plain"));
        assert_eq!(text_of(&[b'a', 0xc3], true), Some("a"));
        assert_eq!(text_of(&[b'a', 0xff], true), None);
    }
}
