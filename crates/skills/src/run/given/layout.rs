//! How what a run is given is mounted: one bind for each file and directory, and nothing inside a bind.

use std::cell::RefCell;
use std::collections::{BTreeMap, HashSet};
use std::ffi::OsString;
use std::path::{Path, PathBuf};

use prowess_catalog::SkillEntry;
use prowess_permission::real_path::{RealPaths, has_case, ignores_case, real_path};
use prowess_permission::{Decision, Kind, Policy, Question, RealPath};
use prowess_workspace::RunWarning;
use prowess_workspace::command::{Mount, MountSource};
use prowess_workspace::tree::Tree;

use super::blocked::{BlockedGiven, NamedPath, Withheld};
use crate::owner::{WithheldFile, directories, is_at_or_below};
use crate::view::SkillView;

/// The most files and directories that one run is given one by one.
pub(super) const MAX_BINDS: usize = 256;
/// The most files and directories below all given directories.
pub(super) const MAX_ENTRIES: usize = 50_000;
/// How many directories that are too large are looked at without a charge. This bounds the work for one request.
const MAX_FREE: usize = 4;
/// The most files and directories that a question and an answer name as left out.
const MAX_NAMED: usize = 20;

/// Decides what a run may be given, and where it sees it.
pub(super) struct Layout<'a> {
    view: &'a SkillView,
    tree: &'a Tree,
    policy: Policy,
    /// The places that hold files of the conversation, and not of the person. Only `deny` rules apply there.
    kept: Vec<PathBuf>,
    /// The directories of the skill for which a person runs the command; `None` if a model runs it.
    own: Option<Vec<String>>,
    /// How many more entries may be looked at.
    left: usize,
    /// How often entries that were looked at in vain do not count.
    free: usize,
    /// Whether there is anything that a model must not learn of.
    may_hide: bool,
    /// Paths that are named often lie in the same directories.
    real_paths: RefCell<RealPaths>,
    /// Everything that is given by its name.
    pub(super) named: HashSet<PathBuf>,
    pub(super) laid_out: LaidOut,
}

/// What a run is given.
#[derive(Debug, Default)]
pub(super) struct LaidOut {
    pub(super) mounts: Vec<Mount>,
    /// The files and directories that the run sees whole: a place's directory and names below it.
    pub(super) binds: Vec<PathBuf>,
    /// The real paths of everything that was named. Directories end with `/`.
    pub(super) paths: Vec<String>,
    /// The real paths of what was left out.
    pub(super) left_out: Vec<String>,
    /// What rules ask about.
    pub(super) asks: Vec<AskedFile>,
    pub(super) warnings: Vec<RunWarning>,
    /// Directories whose names the level `landlock` cannot show, as the model sees them.
    pub(super) unlisted: Vec<String>,
}

/// A file or directory that needs permission.
#[derive(Clone, Debug)]
pub(crate) struct AskedFile {
    pub(crate) file: RealPath,
    pub(crate) is_directory: bool,
    /// The file in it that needs permission.
    pub(crate) entry: Option<String>,
    /// The real paths of what was left out of it.
    pub(crate) left_out: Vec<String>,
}

/// A file or directory that is named and may be given.
pub(super) struct Named {
    /// A place's directory and names below it, which can be links.
    pub(super) path: PathBuf,
    pub(super) file: RealPath,
    pub(super) is_directory: bool,
    asks: bool,
    /// The directories of skills in it that must not be read.
    skills: Vec<(String, WithheldFile)>,
}

/// What the rules say about reading a file.
enum ReadDecision {
    Allowed,
    Asks,
    Withheld(Withheld),
}

/// What is below a directory.
#[derive(Default)]
struct Contents {
    /// The entries of the directory that are withheld, or contain something withheld.
    withheld: BTreeMap<OsString, bool>,
    /// The first file about which rules ask.
    asks: Option<String>,
}

impl<'a> Layout<'a> {
    pub(super) fn new(view: &'a SkillView, tree: &'a Tree, given_to: Option<&SkillEntry>) -> Self {
        let project = tree.project_directory().map(real_path);
        // The project is the person's, and so is everything around it.
        let of_the_person = |place: &PathBuf| project.as_ref().is_some_and(|own| own.starts_with(place));
        let places = tree.prefixes().into_iter().map(|(_, place)| real_path(&place));
        let policy = view.engine().permissions().policy();
        let may_hide = policy.denies_anything() || view.visible().owners().has_hidden();
        Self {
            view,
            tree,
            kept: places.filter(|place| !of_the_person(place)).collect(),
            policy,
            may_hide,
            own: given_to.map(directories),
            left: MAX_ENTRIES,
            free: MAX_FREE,
            real_paths: RefCell::default(),
            named: HashSet::new(),
            laid_out: LaidOut::default(),
        }
    }

    pub(super) fn named_path(&self, path: &Path) -> NamedPath {
        let real = path.to_string_lossy().into_owned();
        NamedPath { shown: self.tree.shown(path).unwrap_or_else(|| real.clone()), real }
    }

    /// Checks a path that the request names.
    ///
    /// # Errors
    ///
    /// It must not be read. A path that does not exist is refused only if nobody may know whether it does.
    pub(super) fn check(&self, path: &Path) -> Result<Named, BlockedGiven> {
        let file = self.real_paths.borrow_mut().find(path);
        let withheld = |why| BlockedGiven::Withheld { path: self.named_path(path), why };
        if !file.is_exact() {
            return Err(BlockedGiven::Unreadable { path: self.named_path(path) });
        }
        let skills =
            self.view.withheld_around(&file, |directory, withheld| self.may_read(directory, withheld));
        let fold = |text: &str| if file.ignores_case() { text.to_lowercase() } else { text.to_owned() };
        let is_inside =
            |directory: &str| file.paths().any(|path| is_at_or_below(&fold(path), &fold(directory)));
        if let Some((_, why)) = skills.iter().find(|(directory, _)| is_inside(directory)) {
            return Err(withheld(Withheld::Skill(why.clone())));
        }
        let asks = match self.decide(&file) {
            ReadDecision::Withheld(why) => return Err(withheld(why)),
            ReadDecision::Asks => true,
            ReadDecision::Allowed => false,
        };
        let is_directory = Path::new(file.real()).is_dir();
        Ok(Named { path: path.to_owned(), file, is_directory, asks, skills })
    }

    /// Checks a path that does not exist.
    ///
    /// # Errors
    ///
    /// It must not be read, so nobody may know whether it exists.
    pub(super) fn check_missing(&self, path: &Path) -> Result<(), BlockedGiven> {
        match self.check(path) {
            Err(error @ BlockedGiven::Withheld { .. }) => Err(error),
            _ => Ok(()),
        }
    }

    /// Whether a model must not learn that a path exists.
    pub(super) fn hides(&self, path: &Path) -> bool {
        self.may_hide
            && matches!(self.check(path), Err(BlockedGiven::Withheld { why, .. }) if !why.has_public_name())
    }

    /// A person may give the files of the skill that they run, and those of skills that are not loaded.
    fn may_read(&self, directory: &str, withheld: &WithheldFile) -> bool {
        match (&self.own, withheld) {
            (None, _) => false,
            (Some(_), WithheldFile::LoadFirst(_)) => true,
            (Some(own), WithheldFile::Denied(_)) => own.iter().any(|own| own == directory),
        }
    }

    fn decide(&self, file: &RealPath) -> ReadDecision {
        let verdict = self.policy.evaluate(&Question::about_file(Kind::READ, file.clone()));
        match (verdict.decision, verdict.rule) {
            (Decision::Allow, _) => ReadDecision::Allowed,
            (Decision::Ask, _) if self.kept.iter().any(|place| Path::new(file.real()).starts_with(place)) => {
                ReadDecision::Allowed
            }
            (Decision::Ask, Some((_, rule))) if rule.is_guard() => ReadDecision::Withheld(Withheld::Secret),
            (Decision::Ask, _) => ReadDecision::Asks,
            (Decision::Deny, rule) => {
                let line = rule.map(|(_, rule)| rule.toml_line()).unwrap_or_default();
                ReadDecision::Withheld(Withheld::Denied(line))
            }
        }
    }

    /// Gives a file or directory. Call it with directories before what lies in them.
    ///
    /// # Errors
    ///
    /// It is too large, or too much in it must not be read.
    pub(super) fn give(&mut self, named: &Named) -> Result<(), BlockedGiven> {
        let left = self.left;
        let given = self.give_named(named);
        if given.is_err() && self.free > 0 {
            self.free -= 1;
            self.left = left;
        }
        given
    }

    /// Forgets everything that was given.
    pub(super) fn start_over(&mut self) {
        self.left = MAX_ENTRIES;
        self.laid_out = LaidOut::default();
    }

    fn give_named(&mut self, named: &Named) -> Result<(), BlockedGiven> {
        if self.sees(&named.path) {
            return Ok(());
        }
        let real = PathBuf::from(named.file.real());
        let (mut asks, mut left_out) = (None, Vec::new());
        if named.is_directory {
            let contents = self.contents(named)?;
            asks = contents.asks;
            if contents.withheld.is_empty() {
                self.bind(&named.path, real)?;
            } else {
                left_out = self.give_rest(named, &real, &contents.withheld)?;
            }
        } else {
            self.bind(&named.path, real)?;
        }
        let end = if named.is_directory { "/" } else { "" };
        self.laid_out.paths.push(format!("{}{end}", named.file.real()));
        if named.asks || asks.is_some() {
            let (file, is_directory) = (named.file.clone(), named.is_directory);
            self.laid_out.asks.push(AskedFile { file, is_directory, entry: asks, left_out });
        }
        Ok(())
    }

    /// Whether the run already sees a path.
    fn sees(&self, path: &Path) -> bool {
        self.laid_out.binds.iter().any(|bind| path.starts_with(bind))
    }

    fn bind(&mut self, path: &Path, real: PathBuf) -> Result<(), BlockedGiven> {
        if self.laid_out.binds.len() == MAX_BINDS {
            return Err(BlockedGiven::TooMany);
        }
        let at = self.tree.shown(path);
        let at = at.ok_or_else(|| BlockedGiven::Unreadable { path: self.named_path(path) })?;
        self.laid_out.mounts.push(Mount { source: MountSource::ReadOnly(real), at });
        self.laid_out.binds.push(path.to_owned());
        Ok(())
    }

    /// Gives an empty directory, so that `a/../b` can pass through it.
    pub(super) fn give_empty(&mut self, path: &Path) {
        self.give_names(path, MountSource::Empty);
    }

    fn give_names(&mut self, path: &Path, source: MountSource) {
        let Some(at) = self.tree.shown(path) else { return };
        let is_there = self.laid_out.mounts.iter().any(|mount| mount.at == at);
        if !self.sees(path) && path.is_dir() && !is_there {
            self.laid_out.mounts.push(Mount { source, at });
        }
    }

    /// Gives an empty directory for the entries of a directory, and their names at the level `landlock`. Landlock allows to
    /// list a directory only with all directories below. So names are hidden if a directory is withheld, or if a name is.
    fn give_frame(&mut self, named: &Named, real: &Path, withheld: &BTreeMap<OsString, bool>) {
        let may_show = |(name, has_public_name): (&OsString, &bool)| {
            let is_directory =
                std::fs::symlink_metadata(real.join(name)).map_or(true, |found| found.is_dir());
            *has_public_name && !is_directory
        };
        if withheld.iter().all(may_show) {
            self.give_names(&named.path, MountSource::Listed(real.to_owned()));
        } else {
            self.give_empty(&named.path);
            self.laid_out.unlisted.push(self.named_path(&named.path).shown);
        }
    }

    /// Gives the entries of a directory one by one, without those that are withheld or contain something withheld. Returns
    /// the real paths of what is left out.
    fn give_rest(
        &mut self,
        named: &Named,
        real: &Path,
        withheld: &BTreeMap<OsString, bool>,
    ) -> Result<Vec<String>, BlockedGiven> {
        let path = || self.named_path(&named.path);
        let entries = std::fs::read_dir(real).map_err(|_| BlockedGiven::Unreadable { path: path() })?;
        let mut entries: Vec<_> = entries.filter_map(Result::ok).map(|entry| entry.file_name()).collect();
        if entries.len() > MAX_BINDS + withheld.len() {
            return Err(BlockedGiven::TooMixed { path: path() });
        }
        entries.sort();
        self.give_frame(named, real, withheld);
        let (mut names, mut more, mut left_out) = (Vec::new(), 0, Vec::new());
        for name in entries {
            let inside = named.path.join(&name);
            let whole = real.join(&name);
            let source = match withheld.get(&name) {
                Some(_) => None,
                None => unlinked(real, &whole, withheld),
            };
            match source {
                Some(source) if self.tree.shown(&inside).is_some() => self.bind(&inside, source)?,
                _ if self.named.contains(&inside) => {}
                _ => {
                    let has_public_name = withheld.get(&name).copied().unwrap_or(true);
                    leave_out(&mut left_out, &whole);
                    leave_out(&mut self.laid_out.left_out, &whole);
                    match self.tree.shown(&inside).filter(|_| has_public_name && names.len() < MAX_NAMED) {
                        Some(shown) => names.push(shown),
                        None => more += 1,
                    }
                }
            }
        }
        if !names.is_empty() || more > 0 {
            let directory = self.named_path(&named.path).shown;
            self.laid_out.warnings.push(RunWarning::Withheld { directory, paths: names, more });
        }
        Ok(left_out)
    }

    /// Looks at everything below a directory. Links are not followed.
    fn contents(&mut self, named: &Named) -> Result<Contents, BlockedGiven> {
        let top = PathBuf::from(named.file.real());
        let mut contents = Contents::default();
        let mut pending = vec![(top.clone(), None::<OsString>, named.file.ignores_case())];
        while let Some((directory, child, mut ignores)) = pending.pop() {
            if child.as_ref().is_some_and(|child| contents.withheld.contains_key(child)) {
                continue;
            }
            let Ok(entries) = std::fs::read_dir(&directory) else {
                // Nobody knows what lies in it, and a command could open it by name.
                match child {
                    Some(child) => drop(contents.withheld.insert(child, true)),
                    None => return Err(BlockedGiven::Unreadable { path: self.named_path(&named.path) }),
                }
                continue;
            };
            let entries: Vec<_> = entries.filter_map(Result::ok).take(self.left + 1).collect();
            let left = self.left.checked_sub(entries.len());
            self.left = left.ok_or_else(|| BlockedGiven::TooLarge { path: self.named_path(&named.path) })?;
            // Each directory may ignore case or not. One name with letters is enough to find out.
            let with_letters = entries.iter().find(|entry| has_case(&entry.file_name()));
            ignores |= with_letters.is_some_and(|entry| ignores_case(&entry.path()));
            for entry in entries {
                let path = entry.path();
                let name = child.clone().unwrap_or_else(|| entry.file_name());
                if contents.withheld.contains_key(&name) {
                    break;
                }
                match self.entry(named, &top, &path, ignores) {
                    ReadDecision::Allowed => {}
                    ReadDecision::Asks => drop(contents.asks.get_or_insert_with(|| text(&path))),
                    ReadDecision::Withheld(why) => {
                        // The name of a directory says nothing about what lies deeper in it.
                        let has_public_name = child.is_some() || why.has_public_name();
                        contents.withheld.insert(name, has_public_name);
                        continue;
                    }
                }
                if entry.file_type().is_ok_and(|kind| kind.is_dir()) {
                    pending.push((path, Some(name), ignores));
                }
            }
        }
        Ok(contents)
    }

    /// What the rules say about an entry below a named directory, under each of its paths.
    fn entry(&self, named: &Named, top: &Path, path: &Path, ignores: bool) -> ReadDecision {
        let fold = |text: &str| if ignores { text.to_lowercase() } else { text.to_owned() };
        if let Some(own) = path.to_str().filter(|_| !named.skills.is_empty()) {
            let is_this = |(directory, _): &&(String, WithheldFile)| fold(directory) == fold(own);
            if let Some((_, why)) = named.skills.iter().find(is_this) {
                return ReadDecision::Withheld(Withheld::Skill(why.clone()));
            }
        }
        let below = path.strip_prefix(top).unwrap_or(Path::new(""));
        self.decide(&RealPath::known(path, &named.path.join(below), ignores))
    }
}

/// The file or directory behind an entry. A link is followed only inside its directory, to something that is given.
fn unlinked(directory: &Path, entry: &Path, withheld: &BTreeMap<OsString, bool>) -> Option<PathBuf> {
    let found = std::fs::symlink_metadata(entry).ok()?;
    if found.is_file() || found.is_dir() {
        return Some(entry.to_owned());
    }
    if !found.is_symlink() {
        return None;
    }
    let real = real_path(entry);
    let below = real.strip_prefix(directory).ok()?;
    let first = below.components().next()?;
    (!withheld.contains_key(first.as_os_str()) && (real.is_file() || real.is_dir())).then_some(real)
}

fn leave_out(list: &mut Vec<String>, real: &Path) {
    match list.len() {
        ..MAX_NAMED => list.push(text(real)),
        MAX_NAMED => list.push("and more".to_owned()),
        _ => {}
    }
}

fn text(path: &Path) -> String {
    path.to_string_lossy().into_owned()
}
