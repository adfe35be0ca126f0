//! How large the answer to a run may be, whatever its caller asks for.

use bytes::Bytes;

use crate::collect::{CollectedBytes, CollectedFile};
use crate::report::RunReport;
use crate::warning::RunWarning;

/// The most that a report takes as JSON, in bytes. Whoever sends it has two of 16 MiB left for what goes around it.
pub const MAX_REPORT_BYTES: usize = 14 << 20;
/// The most that the names of files in a report take: they stand in an answer several times.
const MAX_NAME_BYTES: usize = 256 * 1024;

/// What is left of a report for the text of files.
pub(crate) struct ReportRoom {
    bytes: usize,
    /// The files of which only a part is shown for want of room.
    cut: Vec<String>,
    /// How many are not even named.
    unnamed: usize,
    names: usize,
}

impl ReportRoom {
    /// What a report has room for beside what it has already.
    pub(crate) fn beside(report: &RunReport) -> Self {
        let taken = size(&report.stdout) + size(&report.stderr) + MAX_NAME_BYTES;
        Self {
            bytes: MAX_REPORT_BYTES.saturating_sub(taken),
            cut: Vec::new(),
            unnamed: 0,
            names: MAX_NAME_BYTES,
        }
    }

    /// Whether there is room for another name.
    pub(crate) fn names(&mut self, name: &str) -> bool {
        let fits = size(name) <= self.names;
        if fits {
            self.names -= size(name);
        } else {
            self.unnamed += 1;
        }
        fits
    }

    /// The file as an answer has it, with as much of its text as there is room for, if that is wanted.
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

    /// Says in a report what there was no room for.
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

/// How many bytes a text takes in JSON.
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

/// Cuts a text so that it takes no more than `room` in JSON, and says how much it takes.
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
