//! The size limit of a report: how much text of files fits into it.

use bytes::Bytes;

use crate::collect::{CollectedBytes, CollectedFile};
use crate::report::RunReport;
use crate::warning::RunWarning;

/// The largest report as JSON, in bytes. A message of 16 MiB then has 2 MiB left for the rest.
pub const MAX_REPORT_BYTES: usize = 14 << 20;
/// The most bytes of file names in a report. Names appear in an answer several times.
const MAX_NAME_BYTES: usize = 256 * 1024;

/// The space left in a report for the text of files.
pub(crate) struct ReportRoom {
    bytes: usize,
    /// The files whose text was cut.
    cut: Vec<String>,
    /// How many files are not named.
    unnamed: usize,
    names: usize,
}

impl ReportRoom {
    /// The space that the output of the command leaves.
    pub(crate) fn beside(report: &RunReport) -> Self {
        let taken = size(&report.stdout) + size(&report.stderr) + MAX_NAME_BYTES;
        Self {
            bytes: MAX_REPORT_BYTES.saturating_sub(taken),
            cut: Vec::new(),
            unnamed: 0,
            names: MAX_NAME_BYTES,
        }
    }

    /// Whether there is space for another name. If there is, the name is counted.
    pub(crate) fn names(&mut self, name: &str) -> bool {
        let fits = size(name) <= self.names;
        if fits {
            self.names -= size(name);
        } else {
            self.unnamed += 1;
        }
        fits
    }

    /// The file as a report shows it, with as much text as fits if `inline` is true.
    pub(crate) fn describe(&mut self, mut file: CollectedBytes, inline: bool) -> CollectedFile {
        let is_whole = !inline || file.bytes.len() <= self.bytes;
        if !is_whole {
            file.bytes = Bytes::copy_from_slice(&file.bytes[..self.bytes]);
            file.truncated = true;
        }
        let mut described = file.describe(inline);
        let mut is_cut = !is_whole && described.content.is_some();
        if let Some(text) = &mut described.content {
            let before = text.len();
            self.bytes -= shorten(text, self.bytes);
            is_cut |= text.len() < before;
        }
        if is_cut {
            described.truncated = true;
            self.cut.push(described.name.clone());
        }
        described
    }

    /// Adds warnings for everything that did not fit.
    pub(crate) fn report_cuts(self, report: &mut RunReport) {
        if !self.cut.is_empty() {
            report.warnings.push(RunWarning::ShownInPart { paths: self.cut });
        }
        report.truncated |= self.unnamed > 0 || report.output_files.iter().any(|file| file.truncated);
        if self.unnamed > 0 {
            report.warnings.push(RunWarning::NotNamed { count: self.unnamed });
        }
    }
}

/// The length of a text as JSON, in bytes.
fn size(text: &str) -> usize {
    2 + text.chars().map(escaped).sum::<usize>()
}

fn escaped(character: char) -> usize {
    match character {
        '"' | '\\' | '\n' | '\r' | '\t' | '\u{8}' | '\u{c}' => 2,
        '\0'..='\u{1f}' => 6,
        character => character.len_utf8(),
    }
}

/// Cuts a text to at most `room` bytes of JSON. Returns its length as JSON.
fn shorten(text: &mut String, room: usize) -> usize {
    let mut taken = 2;
    for (at, character) in text.char_indices() {
        if taken + escaped(character) > room {
            text.truncate(at);
            break;
        }
        taken += escaped(character);
    }
    taken.min(room)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn texts_take_what_json_takes() {
        let every: String = ('\0'..='\u{2fff}').chain(['\u{7f}', '😀']).collect();
        assert_eq!(size(&every), serde_json::to_string(&every).unwrap().len());
        for room in [0, 1, 2, 3, 7, 8, 100, 1000, usize::MAX] {
            let mut text = every.clone();
            let taken = shorten(&mut text, room);
            assert!(taken <= room && (room < 2 || size(&text) == taken), "{room}");
            assert!(every.starts_with(&text));
        }
    }
}
