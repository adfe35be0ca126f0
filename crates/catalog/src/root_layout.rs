//! Which directories are roots, and their precedence.

use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};

use crate::root::{Root, RootKind, Trust};

/// Where programs keep their configuration in a home directory by default.
const CONFIG: &str = ".config";

/// A directory of a client whose folders may contain skills.
///
/// ```
/// use prowess_catalog::{RootDirectory, RootLayout};
///
/// let mut layout = RootLayout::default();
/// layout.project.push(RootDirectory::new(".team", "Team")); // `.team/skills` in a project, with the most precedence
/// assert_eq!(layout.project.last().unwrap().label, "Team");
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct RootDirectory {
    /// The directory, relative to the project or the home directory. A user's directory below `.config` is searched in
    /// [`Environment::config_home`], if there is one.
    pub directory: PathBuf,
    /// Its name for people and models.
    pub label: String,
}

impl RootDirectory {
    /// The directory at this path, with this label.
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
/// let mut environment = Environment::default();
/// environment.working_directory = project.into();
/// let roots = RootLayout::default().resolve(&environment);
/// assert_eq!(roots[0].label, "Claude");
/// assert_eq!(roots[0].trust, Trust::Untrusted, "a project's root is untrusted until a person trusts it");
/// # Ok::<(), std::io::Error>(())
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct RootLayout {
    /// Directories of skills that your program ships.
    pub built_in: Vec<PathBuf>,
    /// Other clients' directories below the home directory.
    pub user_compatibility: Vec<RootDirectory>,
    /// Directories of prowess below the home directory.
    pub user: Vec<RootDirectory>,
    /// Other clients' directories in a project.
    pub project_compatibility: Vec<RootDirectory>,
    /// Directories of prowess in a project.
    pub project: Vec<RootDirectory>,
    /// The folders of a [`RootDirectory`] that contain skills.
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

/// The environment of your program, for [`RootLayout::resolve`]: its working directory, home directory and explicit roots.
///
/// ```
/// use prowess_catalog::Environment;
///
/// let mut environment = Environment::of_process()?;
/// environment.explicit.push("team-skills".into());
/// let root = environment.explicit_roots().last().unwrap();
/// assert_eq!(root.path, environment.working_directory.join("team-skills"));
/// # Ok::<(), std::io::Error>(())
/// ```
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Environment {
    /// The directory in which the program was started.
    pub working_directory: PathBuf,
    /// The user's home directory, if there is one.
    pub home: Option<PathBuf>,
    /// Where the user's programs keep their configuration, if not in `.config` of the home directory.
    pub config_home: Option<PathBuf>,
    /// Roots from options and `SKILLS_ROOT`, least precedence first.
    pub explicit: Vec<PathBuf>,
}

impl Environment {
    /// The environment of this process: its working directory, `HOME`, `XDG_CONFIG_HOME`, and the directories in
    /// `SKILLS_ROOT`.
    pub fn of_process() -> std::io::Result<Self> {
        let set = |name| std::env::var_os(name).filter(|value| !value.is_empty());
        // A relative path would turn a project's directories into the user's.
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
    /// The path of the user's directory `relative`: below the home directory, or below `config_home`.
    fn of_user(&self, relative: &Path) -> Option<PathBuf> {
        match (&self.config_home, relative.strip_prefix(CONFIG)) {
            (Some(config), Ok(rest)) => Some(config.join(rest)),
            _ => Some(self.home.as_ref()?.join(relative)),
        }
    }

    /// Only the explicit roots. Relative paths begin at the working directory.
    ///
    /// An empty path does not count, so a stray `:` in `SKILLS_ROOT` does not name the working directory.
    pub fn explicit_roots(&self) -> impl Iterator<Item = Root> {
        let named = self.explicit.iter().filter(|path| !path.as_os_str().is_empty());
        named.map(|path| Root::explicit(self.working_directory.join(path)))
    }
}

impl RootLayout {
    /// The roots that exist, from least to most precedence.
    ///
    /// A project's directories are searched in the working directory and above it, up to the project's top; the nearest
    /// wins. A directory that is a link to another one counts once, in its own place. Explicit roots are kept even if they
    /// do not exist, so that a wrong path is reported.
    pub fn resolve(&self, environment: &Environment) -> Vec<Root> {
        let mut roots: Vec<Root> =
            self.built_in.iter().map(|path| Root::new(path, RootKind::BuiltIn, "Built-in")).collect();
        let of_user = |root: &RootDirectory| environment.of_user(&root.directory);
        for (directories, kind) in
            [(&self.user_compatibility, RootKind::UserCompatibility), (&self.user, RootKind::User)]
        {
            self.collect(of_user, None, directories, kind, &mut roots);
        }
        let ancestors = self.project_directories(environment);
        let mut of_project = Vec::new();
        for (directories, kind) in [
            (&self.project_compatibility, RootKind::ProjectCompatibility),
            (&self.project, RootKind::Project),
        ] {
            for directory in ancestors.iter().rev() {
                let in_project = |root: &RootDirectory| Some(directory.join(&root.directory));
                self.collect(in_project, ancestors.last().copied(), directories, kind, &mut of_project);
            }
        }
        roots.extend(once(of_project));
        roots.extend(environment.explicit_roots());
        roots
    }

    /// The top directory of the project that contains the working directory: the nearest directory with a project mark. If
    /// there is none, the working directory.
    ///
    /// A home directory is never a project, even under version control, and neither is a directory above it.
    pub fn project_top(&self, environment: &Environment) -> Option<PathBuf> {
        self.project_directories(environment).last().map(|top| (*top).to_owned())
    }

    /// The working directory and the directories above it up to the project's top, nearest first. Excludes a home and
    /// the directories above it.
    fn project_directories<'a>(&self, environment: &'a Environment) -> Vec<&'a Path> {
        let mut directories = self.marked_directories(&environment.working_directory);
        let home = environment.home.as_deref().unwrap_or(Path::new("/"));
        directories.retain(|directory| !home.starts_with(directory) && directory.parent().is_some());
        // A home may have several paths. The working directory's path has no links.
        let id = |path: &Path| path.metadata().ok().map(|found| (found.dev(), found.ino()));
        if let Some(home) = environment.home.as_deref().and_then(id)
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
            // Without a project's top, only the working directory counts.
            None => vec![from],
        }
    }

    fn collect(
        &self,
        place: impl Fn(&RootDirectory) -> Option<PathBuf>,
        within: Option<&Path>,
        directories: &[RootDirectory],
        kind: RootKind,
        roots: &mut Vec<Root>,
    ) {
        for (root, directory) in directories.iter().filter_map(|root| Some((root, place(root)?))) {
            for folder in &self.folders {
                let path = directory.join(folder);
                if path.is_dir() {
                    let trust = if kind.belongs_to_project() { self.project_trust } else { Trust::Trusted };
                    roots.push(Root {
                        trust,
                        within: within.map(Path::to_owned),
                        ..Root::new(path, kind, root.label.as_str())
                    });
                }
            }
        }
    }
}

/// Keeps each root of a project once: where it is not a link, or else where it has the most precedence.
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

/// Whether the path from the project's top to this root contains a link.
fn is_linked(root: &Root) -> bool {
    let top = root.within.as_deref().unwrap_or(Path::new("/"));
    let below = root.path.ancestors().take_while(|path| *path != top);
    below.into_iter().any(|path| path.symlink_metadata().is_ok_and(|found| found.is_symlink()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn roots_come_in_order_and_the_nearest_project_directory_wins() {
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
        let environment = Environment {
            working_directory: inner.clone(),
            home: Some(home.path().into()),
            config_home: None,
            explicit: vec!["/given".into()],
        };
        let roots = RootLayout::default().resolve(&environment);
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
    fn the_configuration_directory_can_be_elsewhere() {
        let place = tempfile::tempdir().unwrap();
        let (home, config) = (place.path().join("home"), place.path().join("config"));
        for path in ["home/.config/opencode/skill", "home/.claude/skills", "config/opencode/skills"] {
            std::fs::create_dir_all(place.path().join(path)).unwrap();
        }
        let found = |home: Option<&Path>, config: Option<&Path>| -> Vec<PathBuf> {
            let environment = Environment {
                home: home.map(Path::to_owned),
                config_home: config.map(Path::to_owned),
                ..Environment::default()
            };
            RootLayout::default().resolve(&environment).into_iter().map(|root| root.path).collect()
        };
        let claude = home.join(".claude/skills");
        assert_eq!(found(Some(&home), None), [home.join(".config/opencode/skill"), claude.clone()]);
        assert_eq!(found(Some(&home), Some(&config)), [config.join("opencode/skills"), claude]);
        assert_eq!(found(None, Some(&config)), [config.join("opencode/skills")]);
    }

    #[test]
    fn a_project_directory_that_leads_out_is_reported_and_not_scanned() {
        let top = tempfile::tempdir().unwrap();
        let sub = top.path().join("sub");
        for path in [".git", ".claude", ".agents/skills/a", "sub/.claude"] {
            std::fs::create_dir_all(top.path().join(path)).unwrap();
        }
        std::fs::write(top.path().join(".agents/skills/a/SKILL.md"), "---\ndescription: x\n---\n").unwrap();
        std::os::unix::fs::symlink("/", top.path().join(".claude/skills")).unwrap();
        std::os::unix::fs::symlink("../../.agents/skills", sub.join(".claude/skills")).unwrap();
        let environment = Environment { working_directory: sub, ..Environment::default() };
        let layout = RootLayout { project_trust: Trust::Trusted, ..RootLayout::default() };
        let catalog = crate::Catalog::discover(&layout.resolve(&environment), &crate::ScanOptions::default());
        let outside: Vec<_> =
            catalog.diagnostics().filter(|found| found.code == crate::Code::LinkOutsideRoot).collect();
        assert_eq!(outside.len(), 1);
        assert!(outside[0].file.ends_with("/.claude/skills"));
        assert_eq!((catalog.entries().len(), catalog.roots().count()), (1, 1));
    }

    #[test]
    fn neither_a_home_nor_a_directory_above_it_is_a_project() {
        let place = tempfile::tempdir().unwrap();
        let (home, work) = (place.path().join("home"), place.path().join("home/work/inner"));
        for path in [".git", "home/.git", "home/.prowess/skills", "home/work/inner", "other/.git"] {
            std::fs::create_dir_all(place.path().join(path)).unwrap();
        }
        std::os::unix::fs::symlink(&home, place.path().join("link")).unwrap();
        let top = |from: &Path, home: &Path| {
            let environment = Environment {
                working_directory: from.into(),
                home: Some(home.into()),
                ..Environment::default()
            };
            RootLayout::default().project_top(&environment)
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
        let environment = Environment { working_directory: inner, ..Environment::default() };
        assert_eq!(RootLayout::default().resolve(&environment), []);
    }
}
