//! Which directories are roots, and their precedence.

use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};

use crate::root::{Root, RootKind, Trust};

/// Where programs keep their configuration in a home directory, unless the user says otherwise.
const CONFIG: &str = ".config";

/// A client's directory that may hold skills.
///
/// ```
/// use prowess_catalog::{RootDirectory, RootLayout};
///
/// let mut layers = RootLayout::default();
/// layers.project.push(RootDirectory::new(".team", "Team")); // `.team/skills` in a project, above all others there
/// assert_eq!(layers.project.last().unwrap().label, "Team");
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RootDirectory {
    /// The directory, relative to the project or the home directory. One of the user's below `.config` is looked for in
    /// [`Environment::config_home`], if there is one.
    pub directory: PathBuf,
    /// Its name for people and models.
    pub label: String,
}

impl RootDirectory {
    /// A layer in `directory`.
    pub fn new(directory: impl Into<PathBuf>, label: impl Into<String>) -> Self {
        Self { directory: directory.into(), label: label.into() }
    }
}

/// Which directories are roots. Every list goes from least to most precedence.
///
/// ```
/// use prowess_catalog::{RootLayout, Environment, Trust};
///
/// # let scratch = tempfile::tempdir()?;
/// # let project = scratch.path();
/// std::fs::create_dir_all(project.join(".git"))?;
/// std::fs::create_dir_all(project.join(".claude/skills"))?;
/// let surroundings = Environment { working_directory: project.into(), ..Environment::default() };
/// let roots = RootLayout::default().resolve(&surroundings);
/// assert_eq!(roots[0].label, "Claude");
/// assert_eq!(roots[0].trust, Trust::Untrusted, "a project's, until somebody trusts it");
/// # Ok::<(), std::io::Error>(())
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RootLayout {
    /// Directories of skills shipped with the host.
    pub built_in: Vec<PathBuf>,
    /// Other clients' directories below the home directory.
    pub user_compatibility: Vec<RootDirectory>,
    /// Our directories below the home directory.
    pub user: Vec<RootDirectory>,
    /// Other clients' directories in a project.
    pub project_compatibility: Vec<RootDirectory>,
    /// Our directories in a project.
    pub project: Vec<RootDirectory>,
    /// The directories in a layer that hold skills.
    pub folders: Vec<String>,
    /// Entries that mark the top of a project.
    pub project_marks: Vec<String>,
    /// Whether the project's directories are trusted.
    pub project_trust: Trust,
}

impl Default for RootLayout {
    fn default() -> Self {
        let compatibility = |opencode: &str| {
            vec![
                RootDirectory::new(opencode, "OpenCode"),
                RootDirectory::new(".claude", "Claude"),
                RootDirectory::new(".agents", "Agents"),
            ]
        };
        Self {
            built_in: Vec::new(),
            user_compatibility: compatibility(".config/opencode"),
            user: vec![RootDirectory::new(".prowess", "User")],
            project_compatibility: compatibility(".opencode"),
            project: vec![RootDirectory::new(".prowess", "Project")],
            folders: vec!["skill".into(), "skills".into()],
            project_marks: vec![".git".into(), ".hg".into(), ".jj".into()],
            project_trust: Trust::Untrusted,
        }
    }
}

/// Where a host runs: what [`RootLayout::resolve`] needs to know of its surroundings.
///
/// ```
/// use prowess_catalog::Surroundings;
///
/// let mut surroundings = Environment::of_process()?;
/// surroundings.explicit.push("team-skills".into());
/// let root = surroundings.explicit_roots().last().unwrap();
/// assert_eq!(root.path, surroundings.working_directory.join("team-skills"));
/// # Ok::<(), std::io::Error>(())
/// ```
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Environment {
    /// The directory it was started in.
    pub working_directory: PathBuf,
    /// The user's home directory, if there is one.
    pub home: Option<PathBuf>,
    /// Where the user's programs keep their configuration, if that is not `.config` in the home directory.
    pub config_home: Option<PathBuf>,
    /// Roots from flags and `SKILLS_ROOT`, least precedence first.
    pub explicit: Vec<PathBuf>,
}

impl Environment {
    /// This process's: its working directory, `HOME`, `XDG_CONFIG_HOME`, and the directories in `SKILLS_ROOT`.
    pub fn of_process() -> std::io::Result<Self> {
        let set = |name| std::env::var_os(name).filter(|value| !value.is_empty());
        // A relative path would make a project's directories the user's.
        let absolute = |name| set(name).map(PathBuf::from).filter(|path| path.is_absolute());
        Ok(Self {
            working_directory: std::env::current_dir()?,
            home: absolute("HOME"),
            config_home: absolute("XDG_CONFIG_HOME"),
            explicit: set("SKILLS_ROOT")
                .map(|roots| std::env::split_paths(&roots).collect())
                .unwrap_or_default(),
        })
    }
}

impl Environment {
    /// Where the user's directory `relative` is: below the home directory, or where configuration is kept.
    fn of_user(&self, relative: &Path) -> Option<PathBuf> {
        match (&self.config_home, relative.strip_prefix(CONFIG)) {
            (Some(config), Ok(rest)) => Some(config.join(rest)),
            _ => Some(self.home.as_ref()?.join(relative)),
        }
    }

    /// The explicit roots alone; relative paths are taken from the working directory.
    ///
    /// An empty path is none: a stray `:` in `SKILLS_ROOT` does not name the working directory.
    pub fn explicit_roots(&self) -> impl Iterator<Item = Root> {
        let named = self.explicit.iter().filter(|path| !path.as_os_str().is_empty());
        named.map(|path| Root::explicit(self.working_directory.join(path)))
    }
}

impl RootLayout {
    /// The roots that exist, from least to most precedence.
    ///
    /// Project layers are looked for in the working directory and above it, to the top of the
    /// project; the nearest wins. One that is a link to another of them counts once, in its own place. Explicit roots are kept even when they do not exist, so that a
    /// wrong path is reported.
    pub fn resolve(&self, surroundings: &Environment) -> Vec<Root> {
        let mut roots: Vec<Root> =
            self.built_in.iter().map(|path| Root::new(path, RootKind::BuiltIn, "Built-in")).collect();
        let of_user = |layer: &RootDirectory| surroundings.of_user(&layer.directory);
        for (layers, kind) in
            [(&self.user_compatibility, RootKind::UserCompatibility), (&self.user, RootKind::User)]
        {
            self.collect(of_user, None, layers, kind, &mut roots);
        }
        let ancestors = self.project_directories(surroundings);
        let mut of_project = Vec::new();
        for (layers, kind) in [
            (&self.project_compatibility, RootKind::ProjectCompatibility),
            (&self.project, RootKind::Project),
        ] {
            for directory in ancestors.iter().rev() {
                let in_project = |layer: &RootDirectory| Some(directory.join(&layer.directory));
                self.collect(in_project, ancestors.last().copied(), layers, kind, &mut of_project);
            }
        }
        roots.extend(once(of_project));
        roots.extend(surroundings.explicit_roots());
        roots
    }

    /// The top of the project that the working directory is in: the nearest directory with a project's mark, or the
    /// working directory where none has one.
    ///
    /// A home directory is no project, even when it is under version control, nor is a directory that it lies in. Below
    /// such a one only directories that are no home count.
    pub fn project_top(&self, surroundings: &Environment) -> Option<PathBuf> {
        self.project_directories(surroundings).last().map(|top| (*top).to_owned())
    }

    /// The working directory and those above it, nearest first, to the one with a project's mark, without a home and
    /// what it lies in.
    fn project_directories<'a>(&self, surroundings: &'a Environment) -> Vec<&'a Path> {
        let mut directories = self.marked_directories(&surroundings.working_directory);
        let home = surroundings.home.as_deref().unwrap_or(Path::new("/"));
        directories.retain(|directory| !home.starts_with(directory) && directory.parent().is_some());
        // A home may have several names; the working directory has the one without links.
        let id = |path: &Path| path.metadata().ok().map(|found| (found.dev(), found.ino()));
        if let Some(home) = surroundings.home.as_deref().and_then(id)
            && let Some(at) = directories.iter().position(|directory| id(directory) == Some(home))
        {
            directories.truncate(at);
        }
        directories
    }

    fn marked_directories<'a>(&self, from: &'a Path) -> Vec<&'a Path> {
        let is_top = |directory: &Path| {
            self.project_marks.iter().any(|mark| directory.join(mark).symlink_metadata().is_ok())
        };
        match from.ancestors().position(is_top) {
            Some(top) => from.ancestors().take(top + 1).collect(),
            // Without a project's top there is no telling where to stop: only here.
            None => vec![from],
        }
    }

    fn collect(
        &self,
        place: impl Fn(&RootDirectory) -> Option<PathBuf>,
        within: Option<&Path>,
        layers: &[RootDirectory],
        kind: RootKind,
        roots: &mut Vec<Root>,
    ) {
        for (layer, directory) in layers.iter().filter_map(|layer| Some((layer, place(layer)?))) {
            for folder in &self.folders {
                let path = directory.join(folder);
                if path.is_dir() {
                    let trust = if kind.belongs_to_project() { self.project_trust } else { Trust::Trusted };
                    roots.push(Root {
                        trust,
                        within: within.map(Path::to_owned),
                        ..Root::new(path, kind, layer.label.as_str())
                    });
                }
            }
        }
    }
}

/// Each of a project's directories once: where it is no link, or else where it has the most precedence.
fn once(roots: Vec<Root>) -> Vec<Root> {
    let id = |root: &Root| root.path.metadata().ok().map(|found| (found.dev(), found.ino()));
    let ids: Vec<_> = roots.iter().map(id).collect();
    let linked: Vec<bool> = roots.iter().map(is_linked).collect();
    let counts = |at: usize| {
        let same = (0..roots.len()).filter(|other| ids[at].is_some() && ids[*other] == ids[at]);
        same.max_by_key(|other| (!linked[*other], *other)).is_none_or(|best| best == at)
    };
    let kept: Vec<bool> = (0..roots.len()).map(counts).collect();
    roots.into_iter().zip(kept).filter_map(|(root, is_kept)| is_kept.then_some(root)).collect()
}

/// Whether a link is on the way from the project's top to this root.
fn is_linked(root: &Root) -> bool {
    let top = root.within.as_deref().unwrap_or(Path::new("/"));
    let below = root.path.ancestors().take_while(|path| *path != top);
    below.into_iter().any(|path| path.symlink_metadata().is_ok_and(|found| found.is_symlink()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn layers_come_in_order_and_the_nearest_project_directory_wins() {
        let home = tempfile::tempdir().unwrap();
        let top = tempfile::tempdir().unwrap();
        let inner = top.path().join("a/b");
        let make = |base: &Path, path: &str| std::fs::create_dir_all(base.join(path)).unwrap();
        make(home.path(), ".claude/skills");
        make(home.path(), ".prowess/skills");
        make(top.path(), ".git");
        make(top.path(), ".prowess/skills");
        make(top.path(), ".claude/skill");
        make(&inner, ".prowess/skills");
        let surroundings = Environment {
            working_directory: inner.clone(),
            home: Some(home.path().into()),
            config_home: None,
            explicit: vec!["/given".into()],
        };
        let roots = RootLayout::default().resolve(&surroundings);
        let found: Vec<_> = roots.iter().map(|root| (root.path.clone(), root.kind)).collect();
        assert_eq!(
            found,
            [
                (home.path().join(".claude/skills"), RootKind::UserCompatibility),
                (home.path().join(".prowess/skills"), RootKind::User),
                (top.path().join(".claude/skill"), RootKind::ProjectCompatibility),
                (top.path().join(".prowess/skills"), RootKind::Project),
                (inner.join(".prowess/skills"), RootKind::Project),
                ("/given".into(), RootKind::Explicit),
            ]
        );
        assert!(found.is_sorted_by_key(|(_, kind)| *kind));
        assert_eq!(roots[2].trust, Trust::Untrusted);
        assert_eq!(roots[0].trust, Trust::Trusted);
    }

    #[test]
    fn configuration_may_be_kept_elsewhere() {
        let place = tempfile::tempdir().unwrap();
        let (home, config) = (place.path().join("home"), place.path().join("config"));
        for path in ["home/.config/opencode/skill", "home/.claude/skills", "config/opencode/skills"] {
            std::fs::create_dir_all(place.path().join(path)).unwrap();
        }
        let found = |home: Option<&Path>, config: Option<&Path>| -> Vec<PathBuf> {
            let surroundings = Environment {
                home: home.map(Path::to_owned),
                config_home: config.map(Path::to_owned),
                ..Environment::default()
            };
            RootLayout::default().resolve(&surroundings).into_iter().map(|root| root.path).collect()
        };
        let claude = home.join(".claude/skills");
        assert_eq!(found(Some(&home), None), [home.join(".config/opencode/skill"), claude.clone()]);
        assert_eq!(found(Some(&home), Some(&config)), [config.join("opencode/skills"), claude]);
        assert_eq!(found(None, Some(&config)), [config.join("opencode/skills")]);
    }

    #[test]
    fn a_project_directory_that_leads_out_is_told_and_not_scanned() {
        let top = tempfile::tempdir().unwrap();
        let sub = top.path().join("sub");
        for path in [".git", ".claude", ".agents/skills/a", "sub/.claude"] {
            std::fs::create_dir_all(top.path().join(path)).unwrap();
        }
        std::fs::write(top.path().join(".agents/skills/a/SKILL.md"), "---\ndescription: x\n---\n").unwrap();
        std::os::unix::fs::symlink("/", top.path().join(".claude/skills")).unwrap();
        std::os::unix::fs::symlink("../../.agents/skills", sub.join(".claude/skills")).unwrap();
        let surroundings = Environment { working_directory: sub, ..Environment::default() };
        let layers = RootLayout { project_trust: Trust::Trusted, ..RootLayout::default() };
        let catalog =
            crate::Catalog::discover(&layers.resolve(&surroundings), &crate::ScanOptions::default());
        let outside: Vec<_> =
            catalog.diagnostics().filter(|found| found.code == crate::Code::LinkOutsideRoot).collect();
        assert_eq!(outside.len(), 1);
        assert!(outside[0].file.ends_with("/.claude/skills"));
        assert_eq!((catalog.entries().len(), catalog.roots().count()), (1, 1));
    }

    #[test]
    fn a_home_is_no_project_nor_is_what_it_lies_in() {
        let place = tempfile::tempdir().unwrap();
        let (home, work) = (place.path().join("home"), place.path().join("home/work/inner"));
        for path in [".git", "home/.git", "home/.prowess/skills", "home/work/inner", "other/.git"] {
            std::fs::create_dir_all(place.path().join(path)).unwrap();
        }
        std::os::unix::fs::symlink(&home, place.path().join("link")).unwrap();
        let top = |from: &Path, home: &Path| {
            let surroundings = Environment {
                working_directory: from.into(),
                home: Some(home.into()),
                ..Environment::default()
            };
            RootLayout::default().project_top(&surroundings)
        };
        assert_eq!(top(&home, &home), None);
        assert_eq!(top(place.path(), &home), None);
        assert_eq!(top(Path::new("/"), &home), None);
        assert_eq!(top(&home, &place.path().join("link")), None, "by whatever name");
        assert_eq!(top(&work, &home), Some(home.join("work")), "below a home under version control");
        assert_eq!(top(&work, &place.path().join("link")), Some(home.join("work")));
        let other = place.path().join("other");
        assert_eq!(top(&other, &home), Some(other.clone()));
    }

    #[test]
    fn without_a_project_only_the_working_directory_counts() {
        let top = tempfile::tempdir().unwrap();
        let inner = top.path().join("a");
        std::fs::create_dir_all(top.path().join(".prowess/skills")).unwrap();
        std::fs::create_dir_all(&inner).unwrap();
        let surroundings = Environment { working_directory: inner, ..Environment::default() };
        assert_eq!(RootLayout::default().resolve(&surroundings), []);
    }
}
