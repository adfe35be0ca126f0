//! Long texts in base64 or hexadecimal digits, on one line or wrapped.

use super::kind::HiddenKind;
use super::{Findings, Line};

/// How many characters make an encoded text long.
const MIN_BLOB: usize = 200;
/// The fewest characters of a line that continues an encoded text.
const MIN_WRAPPED: usize = 40;
/// The fewest different characters of an encoded text. A ruler such as `====` has one.
const MIN_DIFFERENT: usize = 8;

/// The encoded text that the last lines may be part of.
#[derive(Default)]
pub(super) struct Blobs {
    /// Where it starts, and its first characters.
    start: Option<(usize, usize, String)>,
    length: usize,
}

impl Blobs {
    pub(super) fn scan(&mut self, line: Line<'_>, findings: &mut Findings<'_>) {
        let text = line.text.trim_matches([' ', '\t', '"', '\'', ',', '\\', '+', '#', '>']);
        let is_whole = text.len() >= MIN_WRAPPED && text.bytes().all(is_encoded) && is_varied(text);
        // The last line of a wrapped text is short.
        let is_end = self.length >= MIN_WRAPPED && !text.is_empty() && text.bytes().all(is_encoded);
        if is_whole || is_end {
            let at = text.as_ptr() as usize - line.text.as_ptr() as usize;
            let column = line.text[..at].chars().count() + 1;
            self.start.get_or_insert_with(|| (line.number, column, text.chars().take(MIN_WRAPPED).collect()));
            self.length += text.len();
            return;
        }
        self.finish(findings);
        for run in line.text.split(|c: char| !c.is_ascii() || !is_encoded(c as u8)) {
            if run.len() >= MIN_BLOB && is_varied(run) {
                let at = run.as_ptr() as usize - line.text.as_ptr() as usize;
                findings.add(line, at, HiddenKind::EncodedBlob, || shown(run, run.len()));
            }
        }
    }

    /// Ends the text that the last lines were part of.
    pub(super) fn finish(&mut self, findings: &mut Findings<'_>) {
        let length = std::mem::take(&mut self.length);
        if let Some((line, column, start)) = self.start.take()
            && length >= MIN_BLOB
        {
            findings.add_at(HiddenKind::EncodedBlob, || (line, column, shown(&start, length)));
        }
    }
}

fn shown(start: &str, length: usize) -> String {
    format!("{length} characters: {}…", start.get(..MIN_WRAPPED).unwrap_or(start))
}

fn is_encoded(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || matches!(byte, b'+' | b'/' | b'=' | b'-' | b'_')
}

/// Whether the text has digits and letters as an encoded text has. A path or a ruler has not.
fn is_varied(text: &str) -> bool {
    let mut seen = [false; 128];
    for byte in text.bytes() {
        if let Some(seen) = seen.get_mut(usize::from(byte)) {
            *seen = true;
        }
    }
    let has = |mut range: std::ops::RangeInclusive<u8>| range.any(|byte| seen[usize::from(byte)]);
    let different = seen.iter().filter(|seen| **seen).count();
    let is_hex = text.bytes().all(|byte| byte.is_ascii_hexdigit());
    different >= MIN_DIFFERENT && has(b'0'..=b'9') && (is_hex || (has(b'a'..=b'z') && has(b'A'..=b'Z')))
}
