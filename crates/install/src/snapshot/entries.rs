//! Collects the entries of a snapshot, and says which ones cannot be used.

use std::collections::{HashMap, HashSet};

use prowess_base::text::escaped_start;
use unicode_normalization::UnicodeNormalization as _;

use super::{Entry, EntryKind, MAX_DEPTH, MAX_NAME_BYTES, MAX_PATH_BYTES, check_path, is_bad_character};

/// The most notices of a snapshot. The last one counts the rest.
pub(super) const MAX_NOTICES: usize = 50;
/// Replaces characters that a path of an entry cannot have.
const REPLACEMENT: char = '\u{fffd}';

/// The sorted entries of a snapshot, with one `T` for each.
#[derive(Debug)]
pub(super) struct Collected<T> {
    pub(super) entries: Vec<Entry>,
    pub(super) data: Vec<T>,
    pub(super) notices: Vec<String>,
}

impl<T> Collected<T> {
    /// The position of the file at `path`, its size and its data.
    pub(super) fn file(&self, path: &str) -> Option<(u64, bool, &T)> {
        let at = self.entries.binary_search_by(|entry| entry.path.as_str().cmp(path)).ok()?;
        match self.entries[at].kind {
            EntryKind::File { size, is_executable } => Some((size, is_executable, &self.data[at])),
            EntryKind::Link | EntryKind::Submodule | EntryKind::Other => None,
        }
    }
}

/// Texts for a person, of which there are at most [`MAX_NOTICES`].
#[derive(Debug, Default)]
pub(super) struct Notices {
    texts: Vec<String>,
    more: usize,
}

impl Notices {
    pub(super) fn push(&mut self, text: String) {
        if self.texts.len() + 1 < MAX_NOTICES {
            self.texts.push(text);
        } else {
            self.more += 1;
        }
    }

    pub(super) fn finish(mut self) -> Vec<String> {
        if self.more > 0 {
            self.texts.push(format!("and {} more", self.more));
        }
        self.texts
    }
}

/// Collects entries in any order.
#[derive(Debug)]
pub(super) struct Collector<T> {
    found: Vec<(Entry, T)>,
    notices: Notices,
}

impl<T> Default for Collector<T> {
    fn default() -> Self {
        Self { found: Vec::new(), notices: Notices::default() }
    }
}

impl<T> Collector<T> {
    /// Says something about the source.
    pub(super) fn notice(&mut self, text: String) {
        self.notices.push(text);
    }

    /// How many entries there are so far.
    pub(super) fn len(&self) -> usize {
        self.found.len()
    }

    /// Adds what the source has at `path`. A path that cannot be used makes it [`EntryKind::Other`].
    pub(super) fn add(&mut self, path: &[u8], kind: EntryKind, data: T) {
        let is_git = String::from_utf8_lossy(path).split('/').any(is_git_directory);
        let (path, problem) = match std::str::from_utf8(path) {
            Ok(path) => match check_path(path) {
                Ok(()) => (path.to_owned(), awkward_name(path)),
                Err(error) => (mended(path), Some(error.to_string())),
            },
            Err(_) => (mended(&String::from_utf8_lossy(path)), Some("the path is not UTF-8".to_owned())),
        };
        if is_git {
            return self.notices.push(format!("{}: left out: never part of a skill", escaped_start(&path)));
        }
        let kind = match problem {
            None => kind,
            Some(problem) => {
                self.notices.push(format!("{}: cannot be used: {problem}", escaped_start(&path)));
                EntryKind::Other
            }
        };
        self.found.push((Entry { path, kind }, data));
    }

    /// Sorts the entries, and marks those that a file system may not be able to tell apart.
    pub(super) fn finish(self) -> Collected<T> {
        let Self { mut found, mut notices } = self;
        found.sort_by(|a, b| a.0.path.cmp(&b.0.path));
        found.dedup_by(|again, first| {
            let is_same = again.0.path == first.0.path;
            if is_same {
                first.0.kind = EntryKind::Other;
            }
            is_same
        });
        let (mut entries, data): (Vec<Entry>, Vec<T>) = found.into_iter().unzip();
        mark_twins(&mut entries, &mut notices);
        Collected { entries, data, notices: notices.finish() }
    }
}

/// Why some systems cannot store a name in `path`, or store it as another name.
fn awkward_name(path: &str) -> Option<String> {
    let is_awkward = |name: &str| name.ends_with('.') || name.ends_with(' ') || name.starts_with(' ');
    path.split('/').any(is_awkward).then(|| "a name ends with a dot or has a space at its edge".to_owned())
}

/// Whether some system takes this name for `.git`. Such a directory could make Git run programs.
pub(super) fn is_git_directory(name: &str) -> bool {
    let ignorable = |c: &char| matches!(c, '\u{200c}'..='\u{200f}' | '\u{202a}'..='\u{202e}' | '\u{206a}'..='\u{206f}' | '\u{feff}');
    let plain = |name: &str| name.eq_ignore_ascii_case(".git") || name.eq_ignore_ascii_case("git~1");
    let name = name.trim_end_matches(['.', ' ']);
    if name.is_ascii() {
        return plain(name);
    }
    plain(&name.chars().filter(|c| !ignorable(c)).collect::<String>())
}

/// The nearest path that [`check_path`] accepts.
fn mended(path: &str) -> String {
    let mut mended = String::new();
    for name in path.split('/').take(MAX_DEPTH) {
        let mut name: String =
            name.chars().map(|c| if is_bad_character(c) { REPLACEMENT } else { c }).collect();
        if matches!(name.as_str(), "" | "." | "..") {
            name = REPLACEMENT.to_string();
        }
        name.truncate(name.floor_char_boundary(MAX_NAME_BYTES));
        if mended.len() + 1 + name.len() > MAX_PATH_BYTES {
            break;
        }
        if !mended.is_empty() {
            mended.push('/');
        }
        mended.push_str(&name);
    }
    mended
}

/// A text that is the same for all paths that some file system cannot tell apart.
pub(super) fn folded(path: &str) -> String {
    if path.is_ascii() {
        return path.to_ascii_lowercase();
    }
    // Upper case first: it makes `ß` and `ss`, and the two small sigmas, the same.
    path.nfd().flat_map(char::to_uppercase).flat_map(char::to_lowercase).nfd().collect()
}

/// The paths of all directories above `path`, then `path` itself.
fn prefixes(path: &str) -> impl Iterator<Item = &str> {
    path.match_indices('/').map(|(at, _)| &path[..at]).chain([path])
}

/// A text that is the same for all names that some file system cannot tell apart in one directory.
fn place(path: &str) -> String {
    match path.rsplit_once('/') {
        Some((directory, name)) => format!("{directory}/{}", folded(name)),
        None => folded(path),
    }
}

/// Makes entries [`EntryKind::Other`] if they are in one skill and their paths differ only in case or normalisation. The
/// same holds for a file where another entry has a directory.
///
/// Outside of skills, twins do no harm: only skills are written anywhere.
fn mark_twins(entries: &mut [Entry], notices: &mut Notices) {
    let skills: HashSet<&str> = entries
        .iter()
        .filter_map(|entry| match entry.path.rsplit_once('/') {
            Some((directory, name)) => name.eq_ignore_ascii_case("SKILL.md").then_some(directory),
            None => entry.path.eq_ignore_ascii_case("SKILL.md").then_some(""),
        })
        .collect();
    if skills.is_empty() {
        return;
    }
    let mut seen: HashMap<String, (&str, bool)> = HashMap::new();
    let mut twins: HashSet<String> = HashSet::new();
    let mut previous = "";
    for entry in entries.iter() {
        let mut is_in_skill = skills.contains("");
        for prefix in prefixes(&entry.path) {
            let is_directory = prefix.len() < entry.path.len();
            // The entries are sorted, so the entry before has looked at most directories of this one.
            let is_known = is_directory
                && previous.starts_with(prefix)
                && previous.as_bytes().get(prefix.len()) == Some(&b'/');
            if is_in_skill && !is_known {
                let key = place(prefix);
                match seen.get(&key) {
                    Some((first, was_directory)) if (*first, *was_directory) != (prefix, is_directory) => {
                        notices.push(format!(
                            "{}: cannot be used beside {}: some systems take them for one file",
                            escaped_start(prefix),
                            escaped_start(first),
                        ));
                        twins.insert(key);
                    }
                    Some(_) => {}
                    None => {
                        seen.insert(key, (prefix, is_directory));
                    }
                }
            }
            is_in_skill = is_in_skill || skills.contains(prefix);
        }
        previous = &entry.path;
    }
    if twins.is_empty() {
        return;
    }
    for entry in entries.iter_mut() {
        if prefixes(&entry.path).any(|prefix| twins.contains(&place(prefix))) {
            entry.kind = EntryKind::Other;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const FILE: EntryKind = EntryKind::File { size: 1, is_executable: false };

    fn kinds(paths: &[&[u8]]) -> (Vec<(String, EntryKind)>, Vec<String>) {
        let mut collector = Collector::default();
        for path in paths {
            collector.add(path, FILE, ());
        }
        let collected = collector.finish();
        (collected.entries.into_iter().map(|entry| (entry.path, entry.kind)).collect(), collected.notices)
    }

    fn others(paths: &[&str]) -> Vec<String> {
        let bytes: Vec<&[u8]> = paths.iter().map(|path| path.as_bytes()).collect();
        let (entries, _) = kinds(&bytes);
        entries.into_iter().filter(|(_, kind)| *kind != FILE).map(|(path, _)| path).collect()
    }

    #[test]
    fn paths_that_cannot_be_used_stay_as_other_entries_where_they_were() {
        let (entries, notices) =
            kinds(&[b"s/a\nb", b"s/\xff", b"s/../x", b"/etc", b"s/c.", b"s/d ", b"s/ok", b"s\\t/u"]);
        for (path, kind) in &entries {
            assert_eq!(check_path(path), Ok(()), "{path}");
            assert_eq!(*kind == FILE, path == "s/ok", "{path}");
        }
        assert_eq!(entries.len(), 8);
        assert_eq!(notices.len(), 7);
        assert!(entries.iter().any(|(path, _)| path == "s/a\u{fffd}b"));
    }

    #[test]
    fn git_directories_are_left_out() {
        for name in [".git", ".GIT", "git~1", ".git.", ".git ", ".g\u{200c}it"] {
            let path = format!("s/{name}/config");
            let (entries, notices) = kinds(&[path.as_bytes()]);
            assert!(entries.is_empty(), "{name}");
            assert_eq!(notices.len(), 1);
        }
        assert!(!is_git_directory(".github") && !is_git_directory(".gitignore"));
    }

    #[test]
    fn twins_in_a_skill_are_marked() {
        assert_eq!(others(&["s/SKILL.md", "s/a.md", "s/A.md", "s/b"]), ["s/A.md", "s/a.md"]);
        assert_eq!(others(&["s/SKILL.md", "s/d/x", "s/D/y"]), ["s/D/y", "s/d/x"]);
        assert_eq!(others(&["s/SKILL.md", "s/é", "s/e\u{301}"]).len(), 2);
        assert_eq!(others(&["s/SKILL.md", "s/straße", "s/STRASSE"]).len(), 2);
        assert_eq!(others(&["s/SKILL.md", "s/skill.md"]).len(), 2);
        assert_eq!(others(&["SKILL.md", "a/x", "A"]), ["A", "a/x"]);
        assert_eq!(others(&["SKILL.md", "a/x", "a"]), ["a", "a/x"]);
        assert_eq!(others(&["SKILL.md", "x/D/1", "x/c", "x/d/2"]), ["x/D/1", "x/d/2"]);
    }

    #[test]
    fn twins_outside_of_skills_do_no_harm() {
        assert!(others(&["Docs/x", "docs/y", "docs/s/SKILL.md", "docs/s/a"]).is_empty());
        assert!(others(&["S/SKILL.md", "s/SKILL.md"]).is_empty());
    }

    #[test]
    fn notices_are_bounded() {
        let paths: Vec<String> = (0..200).map(|number| format!("{number}.")).collect();
        let bytes: Vec<&[u8]> = paths.iter().map(String::as_bytes).collect();
        let (_, notices) = kinds(&bytes);
        assert_eq!(notices.len(), MAX_NOTICES);
        assert_eq!(notices.last().unwrap(), "and 151 more");
    }
}
