//! After a command failed: which files of the project it may have needed.

use std::collections::BTreeSet;
use std::path::{Component, Path, PathBuf};

use prowess_workspace::tree::Tree;
use prowess_workspace::{Level, RunReport, RunRequest, RunReview, RunWarning};

use super::disk::KnownDisk;
use super::layout::Layout;
use super::mention::{Files as _, Search};
use crate::view::SkillView;

/// How much of the beginning and of the end of a text is searched, in bytes.
const MAX_TEXT: usize = 32 * 1024;
/// The most words that are looked up.
const MAX_WORDS: usize = 2_000;
/// The most files that a warning names.
const MAX_NAMED: usize = 5;

/// Looks for names of files in a failed command and in its output.
#[derive(Debug)]
pub(super) struct Review {
    view: SkillView,
    tree: Tree,
    command: String,
    /// The local directory that the command ran in, if it is in one of the places.
    directory: Option<PathBuf>,
    /// What the command saw of the places.
    seen: Vec<PathBuf>,
    /// Directories whose names the level `landlock` does not show.
    unlisted: Vec<String>,
}

impl Review {
    pub(super) fn new(
        view: &SkillView,
        tree: &Tree,
        request: &RunRequest,
        directory: Option<PathBuf>,
        seen: Vec<PathBuf>,
        unlisted: Vec<String>,
    ) -> Self {
        let command = request.command.clone();
        Self { view: view.clone(), tree: tree.clone(), command, directory, seen, unlisted }
    }

    /// The files of the project that a text names by their paths there, such as `plan.json`.
    fn relative(
        &self,
        text: &str,
        is_name: impl Fn(&str) -> bool,
        directory: &Path,
        disk: &KnownDisk<'_>,
    ) -> Vec<PathBuf> {
        let Some(project) = self.tree.project_directory() else { return Vec::new() };
        let mut words = BTreeSet::new();
        for word in text.split(|c: char| c.is_whitespace() || "\"'`()[]{}<>|&;,=:".contains(c)) {
            let word = word.trim_end_matches(['.', '!', '?']);
            let word = word.strip_prefix("./").unwrap_or(word);
            let is_plain = !word.starts_with(['/', '-', '$', '~']) && word.len() < 256;
            if !word.is_empty() && is_plain && is_name(word) {
                words.insert(word);
            }
            if words.len() == MAX_WORDS {
                break;
            }
        }
        // A file of this name in the command's own directory is the one that was meant.
        let is_meant = |word: &&&str| disk.kind(&directory.join(word)).is_none();
        let is_above = |word: &&&str| word.split('/').any(|name| name == "..");
        let missing = || words.iter().filter(|word| !is_above(word)).filter(is_meant);
        let in_project = missing().map(|word| project.join(word));
        // A command in a directory of the project names files from there, such as `../plan.json`.
        let from_here = words.iter().filter(|_| directory.starts_with(project)).filter(is_above);
        let from_here = from_here.filter_map(|word| below(project, &directory.join(word)));
        in_project.chain(from_here).filter(|path| disk.kind(path).is_some()).collect()
    }

    fn not_given(&self, report: &RunReport, directory: &Path) -> Vec<String> {
        let outputs = [excerpt(&report.stderr), excerpt(&report.stdout)].concat();
        let layout = Layout::new(&self.view, &self.tree, None);
        let disk = KnownDisk(&layout);
        let mut search = Search::new(self.tree.prefixes(), &disk);
        search.text(&self.command);
        search.text(&outputs);
        let mut paths = search.finish().existing;
        paths.extend(self.relative(&excerpt(&self.command), |_| true, directory, &disk));
        // In prose, a word without a dot or a slash is rarely a file.
        let looks_like_a_file = |word: &str| word.trim_start_matches('.').contains(['.', '/']);
        paths.extend(self.relative(&outputs, looks_like_a_file, directory, &disk));
        let mut shown = Vec::new();
        for path in paths {
            let is_seen = self.seen.iter().any(|seen| path.starts_with(seen));
            if is_seen
                || self.tree.project_directory() == Some(path.as_path())
                || layout.check(&path).is_err()
            {
                continue;
            }
            shown.extend(self.tree.shown(&path).filter(|path| !shown.contains(path)));
            if shown.len() == MAX_NAMED {
                break;
            }
        }
        shown
    }
}

impl RunReview for Review {
    fn warnings(&self, report: &RunReport, directory: &Path) -> Vec<RunWarning> {
        let mut warnings = Vec::new();
        if report.sandbox.level == Level::Landlock && !self.unlisted.is_empty() {
            warnings.push(RunWarning::NotListable { paths: self.unlisted.clone() });
        }
        let paths = self.not_given(report, self.directory.as_deref().unwrap_or(directory));
        warnings.extend((!paths.is_empty()).then_some(RunWarning::NotGiven { paths }));
        warnings
    }
}

/// A path without `.` and `..`, if it stays below a directory.
fn below(directory: &Path, path: &Path) -> Option<PathBuf> {
    let mut plain = PathBuf::new();
    for part in path.components() {
        match part {
            Component::CurDir => {}
            Component::ParentDir => _ = plain.pop(),
            part => plain.push(part),
        }
    }
    plain.starts_with(directory).then_some(plain)
}

/// The beginning and the end of a text.
fn excerpt(text: &str) -> String {
    if text.len() <= 2 * MAX_TEXT {
        return format!("{text}\n");
    }
    let head = &text[..text.floor_char_boundary(MAX_TEXT)];
    let tail = &text[text.ceil_char_boundary(text.len() - MAX_TEXT)..];
    format!("{head}\n{tail}\n")
}
