//! Finds the paths of givable places that a text mentions. The text can be a command line, a script, JSON or prose, so paths
//! are found as plain text.

use std::collections::{HashMap, HashSet};
use std::path::{Path, PathBuf};

use super::pattern::{self, Word, WordEnd};

/// The most looks at the file system for one request.
const MAX_LOOKUPS: usize = 20_000;
/// The most paths of one request, existing or missing.
const MAX_MENTIONS: usize = 1_000;
/// The longest name that is tried, in bytes. Quotes and backslashes count.
const MAX_NAME: usize = 600;
/// The most names in a path.
const MAX_DEPTH: usize = 64;

/// What is at a path. Links are followed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Kind {
    File,
    Directory,
}

/// The file system, as the search for paths needs it.
pub(super) trait Files {
    /// What is at this path; `None` if there is nothing, nothing that can be read, or nothing that a model may know of.
    fn kind(&self, path: &Path) -> Option<Kind>;
    /// The names in a directory, at most `most`; `None` if there are more, or the directory cannot be read.
    fn names(&self, directory: &Path, most: usize) -> Option<Vec<String>>;
}

/// The paths that a request mentions, each once, in the order of their mention.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Mentions {
    /// Paths that exist: a place's directory and names below it. The names can be links.
    pub(super) existing: Vec<PathBuf>,
    /// Those of them that are whole values of the request, such as its inputs. Others only stand in texts.
    pub(super) exact: Vec<PathBuf>,
    /// Paths that do not exist.
    pub(super) missing: Vec<PathBuf>,
    /// Directories that are only passed on the way: `a` in `a/../b`.
    pub(super) passed: Vec<PathBuf>,
    /// Whether the search ended early.
    pub(super) is_cut: bool,
}

/// One whole path in a place.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Exact {
    Directory(PathBuf),
    File(PathBuf),
    Missing(PathBuf),
}

/// Searches texts for paths.
pub(super) struct Search<'a> {
    /// What paths can begin with, and the directory. The longest comes first.
    prefixes: Vec<(String, PathBuf)>,
    files: &'a dyn Files,
    lookups: usize,
    /// What was found at the paths that were looked up.
    kinds: HashMap<PathBuf, Option<Kind>>,
    seen: HashSet<PathBuf>,
    found: Mentions,
}

impl<'a> Search<'a> {
    pub(super) fn new(mut prefixes: Vec<(String, PathBuf)>, files: &'a dyn Files) -> Self {
        // Every absolute path begins with `/`, so it marks nothing.
        prefixes.retain(|(prefix, _)| prefix.len() > 1 && prefix.starts_with('/') && !prefix.ends_with('/'));
        prefixes.sort_by_key(|(prefix, _)| std::cmp::Reverse(prefix.len()));
        Self {
            prefixes,
            files,
            lookups: MAX_LOOKUPS,
            kinds: HashMap::new(),
            seen: HashSet::new(),
            found: Mentions::default(),
        }
    }

    pub(super) fn finish(self) -> Mentions {
        self.found
    }

    /// Adds the paths in a text.
    pub(super) fn text(&mut self, text: &str) {
        // Where each prefix is next. A prefix that is not found again is not searched again.
        let mut next: Vec<Option<usize>> = vec![Some(0); self.prefixes.len()];
        let mut from = 0;
        loop {
            for ((prefix, _), next) in self.prefixes.iter().zip(&mut next) {
                *next = next
                    .and_then(|at| if at >= from && from > 0 { Some(at) } else { find(prefix, text, from) });
            }
            // Of two prefixes at the same position, the longer one is the first.
            let nearest = next.iter().enumerate().filter_map(|(which, at)| Some(((*at)?, which))).min();
            let Some((start, which)) = nearest else { return };
            if self.lookups == 0 {
                self.found.is_cut = true;
                return;
            }
            let (prefix, directory) = self.prefixes[which].clone();
            let after = start + prefix.len();
            from = after + self.path(&directory, &text[after..], text[..start].chars().next_back());
        }
    }

    /// Adds one whole path, such as a directory to run in. `None` if it lies in no place.
    pub(super) fn exact(&mut self, path: &str) -> Option<Exact> {
        let inside = |(prefix, directory): &(String, PathBuf)| {
            let rest = path.strip_prefix(prefix.as_str())?;
            (rest.is_empty() || rest.starts_with('/')).then(|| (directory.clone(), rest.to_owned()))
        };
        let (directory, rest) = self.prefixes.iter().find_map(inside)?;
        let names: Vec<String> = rest.split('/').map(str::to_owned).collect();
        let path = self.below(&directory, &names)?;
        Some(match self.kind(&path) {
            None => Exact::Missing(path),
            Some(kind) => {
                self.add(path.clone());
                self.found.exact.push(path.clone());
                if kind == Kind::Directory { Exact::Directory(path) } else { Exact::File(path) }
            }
        })
    }

    /// Adds the path that begins with `directory` and goes on with `rest`. Returns how much of `rest` it is.
    fn path(&mut self, directory: &Path, rest: &str, before: Option<char>) -> usize {
        let words = [Word::of_shell(rest, before), Word::plain(rest)];
        if let Some((path, read)) = self.continued(directory, directory.to_owned(), rest, 0) {
            // In `"/project/a b"/*`, the file `a` is not meant.
            let [word, _] = words;
            if word.length > read && word.end == WordEnd::Boundary && self.word(directory, &word) {
                return word.length;
            }
            self.add(path);
            return read;
        }
        for word in &words {
            if self.word(directory, word) {
                return word.length;
            }
        }
        let [_, plain] = words;
        if let Some(path) = self.missing(directory, &plain.names()) {
            self.add_missing(path);
        }
        plain.length
    }

    /// The path that does not exist: the whole one, or in `missing/../plan.txt` its first part that does not.
    fn missing(&mut self, top: &Path, names: &[String]) -> Option<PathBuf> {
        let whole = self.below(top, names)?;
        if self.kind(&whole).is_none() {
            return Some(whole);
        }
        let mut at = top.to_owned();
        for name in names.iter().take(MAX_DEPTH) {
            at = self.child(top, &at, name)?;
            if self.kind(&at).is_none() {
                return Some(at);
            }
        }
        None
    }

    /// The longest path that exists: `at`, and names from the text. Also returns how much of the text it is.
    fn continued(&mut self, top: &Path, at: PathBuf, rest: &str, depth: usize) -> Option<(PathBuf, usize)> {
        let after = rest.trim_start_matches('/');
        let slashes = rest.len() - after.len();
        if slashes == 0 {
            return ends_here(rest).then_some((at, 0));
        }
        if depth > MAX_DEPTH || self.kind(&at) != Some(Kind::Directory) {
            return None;
        }
        let most = after.floor_char_boundary(MAX_NAME);
        let end = after[..most].find(['/', '\n', '\0']).unwrap_or(most);
        let segment = &after[..end];
        let ends = segment.char_indices().map(|(at, _)| at).chain([end]).rev();
        for end in ends.collect::<Vec<_>>() {
            let (name, rest) = after.split_at(end);
            let goes_on = rest.starts_with('/');
            if !goes_on && !ends_here(rest) {
                continue;
            }
            let unquoted = unquoted(name);
            for name in std::iter::once(name).chain(Some(&*unquoted).filter(|unquoted| *unquoted != name)) {
                let Some(next) = self.child(top, &at, name) else { continue };
                if self.kind(&next).is_none() {
                    continue;
                }
                if !goes_on {
                    return Some((next, slashes + end));
                }
                if let Some((path, read)) = self.continued(top, next, rest, depth + 1) {
                    return Some((path, slashes + end + read));
                }
            }
        }
        None
    }

    /// A path with one more name. A path never leaves its place.
    fn child(&mut self, top: &Path, at: &Path, name: &str) -> Option<PathBuf> {
        match name {
            "" | "." => Some(at.to_owned()),
            ".." if at == top => None,
            ".." => {
                let passed = at.to_owned();
                let is_new = !self.found.passed.contains(&passed) && self.found.passed.len() < MAX_MENTIONS;
                if is_new && self.kind(&passed) == Some(Kind::Directory) {
                    self.found.passed.push(passed);
                }
                at.parent().map(Path::to_owned)
            }
            name if name.contains('/') || name.len() > 255 => None,
            name => Some(at.join(name)),
        }
    }

    fn below(&mut self, top: &Path, names: &[String]) -> Option<PathBuf> {
        names.iter().take(MAX_DEPTH).try_fold(top.to_owned(), |at, name| self.child(top, &at, name))
    }

    /// Adds what a word with patterns or variables means. Returns whether that is anything.
    fn word(&mut self, top: &Path, word: &Word) -> bool {
        match word.end {
            WordEnd::Variable => {
                let mut at = top.to_owned();
                for name in word.names().iter().take(word.names().len().saturating_sub(1)) {
                    let Some(next) = self.child(top, &at, name) else { return false };
                    if pattern::is_pattern(name) || self.kind(&next) != Some(Kind::Directory) {
                        break;
                    }
                    at = next;
                }
                self.add(at);
                true
            }
            WordEnd::Boundary if word.is_pattern() => {
                let matches = self.matches(top, &word.names());
                let is_any = !matches.is_empty();
                matches.into_iter().for_each(|path| self.add(path));
                is_any
            }
            WordEnd::Boundary => false,
        }
    }

    /// The paths that match a pattern, name by name.
    fn matches(&mut self, top: &Path, names: &[String]) -> Vec<PathBuf> {
        let mut all = vec![top.to_owned()];
        for name in names.iter().take(MAX_DEPTH) {
            if name == "**" {
                // Everything below.
                break;
            }
            let mut next = Vec::new();
            for at in all {
                if next.len() > MAX_MENTIONS {
                    break;
                }
                let listed = pattern::is_pattern(name).then(|| self.listed(&at, name));
                let children = listed.unwrap_or_else(|| vec![pattern::literal(name)]);
                let children = children.iter().filter_map(|name| self.child(top, &at, name));
                let children = children.collect::<Vec<_>>().into_iter();
                let seen = children.filter(|path| self.kind(path).is_some());
                // One more than the most says that there are more.
                next.extend(seen.take(MAX_MENTIONS + 1));
            }
            all = next;
        }
        all
    }

    fn listed(&mut self, directory: &Path, pattern: &str) -> Vec<String> {
        if self.kind(directory) != Some(Kind::Directory) {
            return Vec::new();
        }
        let Some(names) = self.files.names(directory, pattern::MAX_LISTED) else {
            self.found.is_cut = true;
            return Vec::new();
        };
        pattern::matching(pattern, names)
    }

    fn kind(&mut self, path: &Path) -> Option<Kind> {
        if let Some(kind) = self.kinds.get(path) {
            return *kind;
        }
        if self.lookups == 0 {
            self.found.is_cut = true;
            return None;
        }
        self.lookups -= 1;
        let kind = self.files.kind(path);
        self.kinds.insert(path.to_owned(), kind);
        kind
    }

    fn add(&mut self, path: PathBuf) {
        if !self.seen.insert(path.clone()) {
            return;
        }
        let is_full = self.found.existing.len() == MAX_MENTIONS;
        self.found.is_cut |= is_full;
        self.found.existing.extend(Some(path).filter(|_| !is_full));
    }

    fn add_missing(&mut self, path: PathBuf) {
        if !self.seen.insert(path.clone()) {
            return;
        }
        let is_full = self.found.missing.len() == MAX_MENTIONS;
        self.found.is_cut |= is_full;
        self.found.missing.extend(Some(path).filter(|_| !is_full));
    }
}

/// The paths below a place that a text names, such as `/memory/a` for `/memory`. Nothing is looked up.
pub(super) fn named_below<'a>(place: &str, text: &'a str, most: usize) -> Vec<&'a str> {
    let (mut paths, mut from) = (Vec::new(), 0);
    while let Some(start) = find(place, text, from).filter(|_| paths.len() < most) {
        let after = start + place.len();
        from = after + Word::plain(&text[after..]).length;
        if !paths.contains(&&text[start..from]) {
            paths.push(&text[start..from]);
        }
    }
    paths
}

/// Where a text names a place, from a position on.
fn find(prefix: &str, text: &str, mut from: usize) -> Option<usize> {
    loop {
        let start = from + text.get(from..)?.find(prefix)?;
        let end = start + prefix.len();
        if begins_here(&text[..start]) && (text[end..].starts_with('/') || ends_here(&text[end..])) {
            return Some(start);
        }
        from = end;
    }
}

/// Whether a path can begin after this text: not in the middle of a name or of another path.
fn begins_here(before: &str) -> bool {
    // `file:///project/a`, and `//project/a`.
    let before = before.trim_end_matches('/');
    let mut backwards = before.chars().rev();
    let (last, second, third) = (backwards.next(), backwards.next(), backwards.next());
    match (last, second) {
        (None, _) => true,
        // An escape in a text: `"\n/project/a"`.
        (Some('n' | 't' | 'r'), Some('\\')) => true,
        // A short option with its value: `-I/project/include`.
        (Some(letter), Some('-')) if letter.is_ascii_alphabetic() => third.is_none_or(|c| !is_name(c)),
        // The end of another path or word: `$HOME/project`, `${X}/project`, `$(pwd)/project`.
        (Some('}' | ')' | ']' | '*' | '?' | '.'), _) => false,
        (Some(last), _) => !(last.is_alphanumeric() || matches!(last, '_' | '-' | '~')),
    }
}

/// Whether a path can end before this text. Patterns and variables go on.
pub(super) fn ends_here(rest: &str) -> bool {
    let mut chars = rest.chars();
    match chars.next() {
        None => true,
        Some('*' | '?' | '[' | '{' | '$') => false,
        Some('\\') => matches!(chars.next(), None | Some('n' | 't' | 'r' | '"' | '\'' | '\\')),
        // The quoted beginning of a longer path: `"/project/a b"/*`.
        Some('"' | '\'') => chars.next() != Some('/'),
        // The end of a sentence.
        Some('.') => match rest.trim_start_matches('.').chars().next() {
            None => true,
            Some(next) => next.is_whitespace() || matches!(next, '"' | '\'' | '`' | ')' | '\\'),
        },
        Some('/') => false,
        Some(c) => !is_name(c),
    }
}

/// Whether a character is usually part of a name.
fn is_name(c: char) -> bool {
    c.is_alphanumeric() || matches!(c, '_' | '-' | '.' | '+' | '@' | '%' | '~' | '^')
}

/// The text without quotes, and without the backslashes that quote a character.
fn unquoted(text: &str) -> String {
    let mut plain = String::with_capacity(text.len());
    let mut chars = text.chars();
    while let Some(c) = chars.next() {
        match c {
            '"' | '\'' => {}
            '\\' => plain.extend(chars.next()),
            c => plain.push(c),
        }
    }
    plain
}
