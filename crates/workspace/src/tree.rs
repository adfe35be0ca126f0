//! The tree: the paths that a model sees, and where they really are.

use std::path::{Path, PathBuf};

/// The working directory of the person.
pub const PROJECT: &str = "/project";
/// The skills, each in a directory of its name.
pub const SKILLS: &str = "/skills";
/// The workspace, with `out/`, `work/` and `runs/`.
pub const WORK: &str = "/work";
/// The place of the workspace in earlier versions. Stored conversations name it.
pub const EARLIER: &str = "/ws";

/// The paths that a model sees. Each path means the same in file tools, in commands and in texts.
///
/// A model sees `/project`, `/skills/NAME` and `/work`. At the sandbox levels without mounts there are no such
/// directories, so the same texts state real paths: [`Tree::real_names`].
///
/// ```
/// use std::path::Path;
/// use prowess_workspace::tree::Tree;
///
/// let tree = Tree::new("/state/ws").project("/home/ada/site");
/// assert_eq!(tree.shown(Path::new("/home/ada/site/plan.json")).as_deref(), Some("/project/plan.json"));
/// assert_eq!(tree.skill("pdf"), "/skills/pdf");
/// // The model may also write the real path.
/// for path in ["/project/plan.json", "/home/ada/site/plan.json"] {
///     assert_eq!(tree.real(path).as_deref(), Some(Path::new("/home/ada/site/plan.json")));
/// }
/// let bare = tree.real_names();
/// assert_eq!(bare.shown(Path::new("/home/ada/site/plan.json")).as_deref(), Some("/home/ada/site/plan.json"));
/// assert_eq!(bare.skill("pdf"), "/state/ws/skills/pdf");
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Tree {
    names: Names,
    workspace: PathBuf,
    /// The places that a run can be given files of: their names, and where they are. The project is the first.
    places: Vec<(String, PathBuf)>,
}

/// How the places are called.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Names {
    Mounted,
    Real,
}

impl Tree {
    /// The tree of the workspace at this path, without a project.
    pub fn new(workspace: impl Into<PathBuf>) -> Self {
        Self { names: Names::Mounted, workspace: workspace.into(), places: Vec::new() }
    }

    /// Adds the working directory of the person, by its real, absolute path.
    #[must_use]
    pub fn project(self, directory: impl Into<PathBuf>) -> Self {
        self.place(PROJECT, directory)
    }

    /// Adds a directory, by its real, absolute path. A run sees nothing of it except what it is given.
    #[must_use]
    pub fn place(mut self, name: impl Into<String>, directory: impl Into<PathBuf>) -> Self {
        self.places.push((name.into(), directory.into()));
        self
    }

    /// Calls all places by their real paths, for sandbox levels without mounts.
    #[must_use]
    pub fn real_names(mut self) -> Self {
        self.names = Names::Real;
        self
    }

    /// Whether the places have their own names, and not their real paths.
    pub fn has_own_names(&self) -> bool {
        self.names == Names::Mounted
    }

    /// The working directory of the person.
    pub fn project_directory(&self) -> Option<&Path> {
        self.places.iter().find(|(name, _)| name == PROJECT).map(|(_, directory)| directory.as_path())
    }

    /// The directory of skills, as the model sees it.
    pub fn skills(&self) -> String {
        match self.names {
            Names::Mounted => SKILLS.to_owned(),
            Names::Real => self.workspace.join("skills").to_string_lossy().into_owned(),
        }
    }

    /// The directory of a skill, as the model sees it.
    pub fn skill(&self, name: &str) -> String {
        format!("{}/{name}", self.skills())
    }

    /// The workspace, as the model sees it.
    pub fn work(&self) -> String {
        match self.names {
            Names::Mounted => WORK.to_owned(),
            Names::Real => self.workspace.to_string_lossy().into_owned(),
        }
    }

    /// The path by which the model sees a file of one of the places.
    pub fn shown(&self, real: &Path) -> Option<String> {
        let inside = |(name, directory): &(String, PathBuf)| {
            let rest = real.strip_prefix(directory).ok()?.to_str()?;
            let start = match self.names {
                Names::Mounted => name.as_str(),
                Names::Real => directory.to_str()?,
            };
            Some(if rest.is_empty() { start.to_owned() } else { format!("{start}/{rest}") })
        };
        self.places.iter().find_map(inside)
    }

    /// The real path of a file of one of the places. The model may write it by its place or by its real path.
    pub fn real(&self, path: &str) -> Option<PathBuf> {
        let below = |(start, directory): (String, PathBuf)| {
            let rest = path.strip_prefix(&start)?;
            match rest.trim_matches('/') {
                "" => Some(directory),
                inside => rest.starts_with('/').then(|| directory.join(inside)),
            }
        };
        self.prefixes().into_iter().find_map(below)
    }

    /// Everything that paths of these places can begin with, and the real directory.
    pub fn prefixes(&self) -> Vec<(String, PathBuf)> {
        let named = self.places.iter().cloned();
        let real = self.places.iter().filter_map(|(_, place)| {
            let path = place.to_str().filter(|_| !self.has_own_names() || !is_taken(place))?;
            Some((path.to_owned(), place.clone()))
        });
        named.chain(real).collect()
    }

    /// Links that a sandbox has, so that the real path of the project works in it.
    pub fn aliases(&self) -> Vec<(String, String)> {
        let real = self.project_directory().filter(|real| !is_taken(real)).and_then(Path::to_str);
        real.filter(|_| self.has_own_names())
            .map(|real| (real.to_owned(), PROJECT.to_owned()))
            .into_iter()
            .collect()
    }
}

/// Whether a real path cannot be used for its directory, because the tree has another place there.
///
/// ```
/// use std::path::Path;
/// use prowess_workspace::tree::is_taken;
///
/// assert!(is_taken(Path::new("/work/site")));
/// assert!(!is_taken(Path::new("/home/ada/site")));
/// ```
pub fn is_taken(real: &Path) -> bool {
    let places = [PROJECT, SKILLS, WORK, EARLIER].map(Path::new);
    places.iter().any(|place| real.starts_with(place) || place.starts_with(real))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn tree() -> Tree {
        Tree::new("/state/ws").project("/home/a/p").place("/work/history", "/state/t/history")
    }

    #[test]
    fn a_path_that_is_shown_leads_back() {
        for tree in [tree(), tree().real_names()] {
            for real in ["/home/a/p", "/home/a/p/src/x y.rs", "/state/t/history/1.md"] {
                let shown = tree.shown(Path::new(real)).unwrap();
                assert_eq!(tree.real(&shown).unwrap(), Path::new(real), "{shown}");
            }
        }
    }

    #[test]
    fn a_project_at_a_place_of_the_tree_has_no_other_name() {
        for project in ["/work", "/work/site", "/skills", "/ws/a", "/"] {
            let tree = Tree::new("/state/ws").project(project);
            assert_eq!(tree.aliases(), [], "{project}");
            assert_eq!(tree.real("/work/out/a"), None, "{project}");
            assert_eq!(tree.real("/project/a").unwrap(), Path::new(project).join("a"));
        }
    }

    #[test]
    fn a_place_ends_at_the_end_of_its_name() {
        for path in ["/projects/a", "/project2", "/home/a/pp", "/work/out/x", "/skills/pdf", "/", ""] {
            assert_eq!(tree().real(path), None, "{path}");
        }
        assert_eq!(tree().shown(Path::new("/home/a/other")), None);
        assert_eq!(tree().real("/project/").unwrap(), Path::new("/home/a/p"));
    }
}
