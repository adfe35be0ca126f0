//! Searches for lines in files.

use regex::bytes::{Regex, RegexBuilder};

use crate::cap::Cap;
use crate::glob::MAX_SKIPPED;
use crate::path::debug_start;
use crate::{BackendError, Contents, GlobQuery, GlobReport, Result, VirtualPath};

/// The longest search pattern, in bytes.
pub const MAX_SEARCH_BYTES: usize = 4096;

/// The most bytes of one line that a match shows.
pub const MAX_LINE_BYTES: usize = 2000;

/// The default for how many lines of one file a search reports.
pub const DEFAULT_MATCHES_PER_FILE: usize = 100;

/// The default for how many lines a search reports.
pub const DEFAULT_MATCHES: usize = 1000;

/// The default for how many bytes of each file a search reads.
pub const DEFAULT_GREP_FILE_BYTES: u64 = 1024 * 1024;

/// How many bytes of a file a search checks to decide whether it is text.
const SNIFFED_BYTES: usize = 8192;

/// The most memory of a compiled expression, in bytes. The compiler refuses `(a{1000}){1000}`.
const MAX_REGEX_BYTES: usize = 1024 * 1024;

/// What to search for, in which files, and how much to report.
///
/// ```
/// use prowess_backend::{GlobQuery, GrepQuery};
///
/// let query = GrepQuery::regex(r"fn \w+\(")?.files(GlobQuery::new("**/*.rs")?).max_matches(50);
/// assert!(GrepQuery::regex("(").is_err());
/// # Ok::<(), prowess_backend::BackendError>(())
/// ```
#[derive(Debug, Clone)]
pub struct GrepQuery {
    regex: Regex,
    files: GlobQuery,
    max_per_file: usize,
    max_matches: usize,
    max_file_bytes: u64,
}

/// A line that matches.
#[derive(Debug, Clone, PartialEq, Eq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
pub struct GrepMatch {
    /// The path of the file.
    pub path: VirtualPath,
    /// The line's number, from 1.
    pub line: u64,
    /// The line without its line end, at most [`MAX_LINE_BYTES`]. Bytes that are not UTF-8 are replaced.
    pub text: String,
    /// Whether the line is longer than `text`.
    pub cut: bool,
}

/// Why only a part of a file was searched.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
#[cfg_attr(feature = "serde", serde(rename_all = "snake_case"))]
#[non_exhaustive]
pub enum PartialReason {
    /// It has more matching lines than the limit per file.
    Matches,
    /// It is larger than the limit per file.
    Size,
}

/// The lines that a search found.
#[derive(Debug, Default)]
#[non_exhaustive]
pub struct GrepReport {
    /// The lines, sorted by path and line number.
    pub matches: Vec<GrepMatch>,
    /// The files that were searched only in part, and why.
    pub partial: Vec<(VirtualPath, PartialReason)>,
    /// How many files were skipped because they are not text.
    pub binary: usize,
    /// The files and directories that could not be searched, at most [`MAX_SKIPPED`].
    pub skipped: Vec<BackendError>,
    /// The cap that ended the search early, if any.
    pub stopped: Option<Cap>,
}

impl GrepQuery {
    /// Searches for a regular expression in each line. `(?i)` at its start ignores case.
    ///
    /// # Errors
    ///
    /// [`BackendError::InvalidPattern`] if it does not parse, is empty, or would be too large.
    pub fn regex(pattern: &str) -> Result<Self> {
        let invalid = |reason: String| BackendError::InvalidPattern { pattern: debug_start(pattern), reason };
        if pattern.is_empty() {
            return Err(invalid("it is empty; name the text to search for".to_owned()));
        }
        if pattern.len() > MAX_SEARCH_BYTES {
            return Err(invalid(format!("it is longer than {MAX_SEARCH_BYTES} bytes")));
        }
        let regex = RegexBuilder::new(pattern)
            .size_limit(MAX_REGEX_BYTES)
            .dfa_size_limit(MAX_REGEX_BYTES)
            .build()
            .map_err(|error| invalid(error.to_string()))?;
        Ok(Self {
            regex,
            files: GlobQuery::everything()?,
            max_per_file: DEFAULT_MATCHES_PER_FILE,
            max_matches: DEFAULT_MATCHES,
            max_file_bytes: DEFAULT_GREP_FILE_BYTES,
        })
    }

    /// Searches for an exact text.
    ///
    /// # Errors
    ///
    /// [`BackendError::InvalidPattern`] if it is empty or too large.
    pub fn literal(text: &str) -> Result<Self> {
        Self::regex(&regex::escape(text))
    }

    /// Searches only the files that `files` finds. The limits of `files` apply to this search.
    #[must_use]
    pub fn files(self, files: GlobQuery) -> Self {
        Self { files, ..self }
    }

    /// Reports at most `lines` of each file.
    #[must_use]
    pub fn max_per_file(self, lines: usize) -> Self {
        Self { max_per_file: lines, ..self }
    }

    /// Reports at most `lines` in all.
    #[must_use]
    pub fn max_matches(self, lines: usize) -> Self {
        Self { max_matches: lines, ..self }
    }

    /// Reads at most the first `bytes` of each file.
    #[must_use]
    pub fn max_file_bytes(self, bytes: u64) -> Self {
        Self { max_file_bytes: bytes, ..self }
    }

    /// The files to search.
    #[must_use]
    pub fn searched_files(&self) -> &GlobQuery {
        &self.files
    }

    /// How many bytes of each file to read.
    #[must_use]
    pub fn file_bytes(&self) -> u64 {
        self.max_file_bytes
    }
}

/// A search without I/O. The caller passes files in order until the search has enough.
#[derive(Debug)]
pub(crate) struct Search<'a> {
    query: &'a GrepQuery,
    report: GrepReport,
}

impl<'a> Search<'a> {
    pub(crate) fn new(query: &'a GrepQuery, found: &mut GlobReport) -> Self {
        let report = GrepReport {
            skipped: std::mem::take(&mut found.skipped),
            stopped: found.stopped,
            ..GrepReport::default()
        };
        Self { query, report }
    }

    /// Searches one file.
    pub(crate) fn file(&mut self, read: Result<Contents>) -> Progress {
        let contents = match read {
            Ok(contents) => contents,
            Err(error) => {
                if self.report.skipped.len() < MAX_SKIPPED {
                    self.report.skipped.push(error);
                }
                return Progress::More;
            }
        };
        let sniffed = &contents.bytes[..contents.bytes.len().min(SNIFFED_BYTES)];
        if sniffed.contains(&0) {
            self.report.binary += 1;
            return Progress::More;
        }
        let mut in_file = 0;
        for (line, number) in contents.bytes.split_inclusive(|byte| *byte == b'\n').zip(1..) {
            let line = line.strip_suffix(b"\n").unwrap_or(line);
            let line = line.strip_suffix(b"\r").unwrap_or(line);
            if !self.query.regex.is_match(line) {
                continue;
            }
            if self.report.matches.len() == self.query.max_matches {
                self.report.stopped = Some(Cap::Results(self.query.max_matches));
                return Progress::Enough;
            }
            if in_file == self.query.max_per_file {
                self.report.partial.push((contents.path, PartialReason::Matches));
                return Progress::More;
            }
            in_file += 1;
            let shown = &line[..line.len().min(MAX_LINE_BYTES)];
            self.report.matches.push(GrepMatch {
                path: contents.path.clone(),
                line: number,
                text: String::from_utf8_lossy(shown).into_owned(),
                cut: shown.len() < line.len(),
            });
        }
        if contents.more {
            self.report.partial.push((contents.path, PartialReason::Size));
        }
        Progress::More
    }

    pub(crate) fn finish(self) -> GrepReport {
        self.report
    }
}

/// Whether a search needs another file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Progress {
    More,
    Enough,
}
