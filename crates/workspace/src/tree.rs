//! The tree: the paths that a model sees, and where they really are.

use std::path::{Path, PathBuf};

pub use prowess_base::places::{EARLIER, MEMORY, PROJECT, SKILLS, WORK};

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
    /// The places that only file tools open.
    only_for_file_tools: Vec<String>,
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
        Self {
            names: Names::Mounted,
            workspace: workspace.into(),
            places: Vec::new(),
            only_for_file_tools: Vec::new(),
        }
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

    /// Adds a place that only file tools open, such as [`MEMORY`]. It has the same name at all sandbox levels.
    #[must_use]
    pub fn only_for_file_tools(mut self, name: impl Into<String>) -> Self {
        self.only_for_file_tools.push(name.into());
        self
    }

    /// The places that only file tools open.
    pub fn places_for_file_tools(&self) -> &[String] {
        &self.only_for_file_tools
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

    /// The paths by which the model knows the project. The first one is its name.
    ///
    /// ```
    /// use prowess_workspace::tree::Tree;
    ///
    /// let tree = Tree::new("/state/ws").project("/home/ada/site");
    /// assert_eq!(tree.project_paths(), ["/project", "/home/ada/site"]);
    /// ```
    pub fn project_paths(&self) -> Vec<String> {
        let of_project =
            |(_, directory): &(String, PathBuf)| Some(directory.as_path()) == self.project_directory();
        self.prefixes().into_iter().filter(of_project).map(|(path, _)| path).collect()
    }

    /// The path by which the model sees a place, such as `/work/history`; `None` if the tree has no place of this name.
    ///
    /// ```
    /// use prowess_workspace::tree::Tree;
    ///
    /// let tree = Tree::new("/state/ws").place("/work/history", "/state/history");
    /// assert_eq!(tree.shown_place("/work/history").as_deref(), Some("/work/history"));
    /// assert_eq!(tree.real_names().shown_place("/work/history").as_deref(), Some("/state/history"));
    /// ```
    pub fn shown_place(&self, name: &str) -> Option<String> {
        let (name, directory) = self.places.iter().find(|(place, _)| place == name)?;
        match self.names {
            Names::Mounted => Some(name.clone()),
            Names::Real => directory.to_str().map(str::to_owned),
        }
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

    /// The real path of the workspace.
    pub fn workspace(&self) -> &Path {
        &self.workspace
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
        // One place may lie in another: the files of a thread, if the person works in their home directory.
        let around = self.places.iter().filter(|(_, directory)| real.starts_with(directory));
        let (name, directory) = around.max_by_key(|(_, directory)| directory.components().count())?;
        let rest = real.strip_prefix(directory).ok()?.to_str()?;
        let start = match self.names {
            Names::Mounted => name.as_str(),
            Names::Real => directory.to_str()?,
        };
        Some(if rest.is_empty() { start.to_owned() } else { format!("{start}/{rest}") })
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

    /// Links that a sandbox has, so that the real path of the project works in it. A sandbox leaves out a link for which it
    /// has no room, such as one below `/work`.
    pub fn aliases(&self) -> Vec<(String, String)> {
        let real = self.project_directory().filter(|real| !is_above_a_place(real)).and_then(Path::to_str);
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
    PLACES.iter().any(|place| real.starts_with(place)) || is_above_a_place(real)
}

const PLACES: [&str; 5] = [PROJECT, SKILLS, WORK, EARLIER, MEMORY];

/// Whether a real path is that of a place, or of a directory around one.
fn is_above_a_place(real: &Path) -> bool {
    PLACES.iter().any(|place| Path::new(place).starts_with(real))
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
            assert_eq!(tree.project_paths(), ["/project"], "{project}");
            assert_eq!(tree.real("/work/out/a"), None, "{project}");
            assert_eq!(tree.real("/project/a").unwrap(), Path::new(project).join("a"));
        }
    }

    #[test]
    fn a_place_inside_another_has_its_own_name() {
        let tree = Tree::new("/state/ws").project("/home/a").place("/work/history", "/home/a/.state/history");
        assert_eq!(tree.shown(Path::new("/home/a/.state/history/1.md")).unwrap(), "/work/history/1.md");
        assert_eq!(tree.shown(Path::new("/home/a/.state/x")).unwrap(), "/project/.state/x");
        assert_eq!(tree.project_paths(), ["/project", "/home/a"]);
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
