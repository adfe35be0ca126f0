//! The tree as files: the paths of the file tools are those that commands see.

mod lazy;
mod skill_directories;

use std::cmp::Reverse;
use std::path::Path;
use std::sync::Arc;

use async_trait::async_trait;
use bytes::Bytes;
use prowess_backend::entry::Target;
use prowess_backend::{
    Backend, BackendError, CompositeBackend, Contents, Edit, Edited, Entry, GlobQuery, GlobReport, GrepQuery,
    GrepReport, Listing, MemoryBackend, ReadRange, VirtualPath, WriteMode,
};
use prowess_workspace::tree::{self, EARLIER, PROJECT, SKILLS, Tree, WORK};

pub use self::lazy::LazyBackend;
pub use self::skill_directories::SkillDirectories;

/// The files of a [`Tree`]: the project, the skills and the workspace, at the paths that commands see.
///
/// A path may also be written in another way: by the real path of the project, or as in earlier versions, which had the
/// project at `/`. Answers and errors always have the path that works everywhere.
///
/// ```
/// use std::sync::Arc;
/// use prowess_agent::tree_files::TreeFiles;
/// use prowess_backend::{Backend, MemoryBackend, ReadRange, VirtualPath, WriteMode};
/// use prowess_workspace::tree::Tree;
///
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> Result<(), prowess_backend::BackendError> {
/// let tree = Tree::new("/state/ws").project("/home/ada/site");
/// let files = TreeFiles::new(&tree).project(Arc::new(MemoryBackend::new()))?;
/// for path in ["/home/ada/site/plan.md", "/plan.md", "/project/plan.md"] {
///     let written = files.write(&VirtualPath::parse(path)?, "a".into(), WriteMode::Replace).await?;
///     assert_eq!(written.path.as_str(), "/project/plan.md");
/// }
/// # Ok(())
/// # }
/// ```
#[derive(Debug)]
pub struct TreeFiles {
    tree: Tree,
    files: CompositeBackend,
    /// The beginnings of paths, and what they mean. The longest come first. A place means itself.
    beginnings: Vec<(VirtualPath, VirtualPath)>,
    /// The project, as the model sees it.
    project: Option<VirtualPath>,
    /// The workspace, as the model sees it.
    workspace: Option<VirtualPath>,
    /// The directories of the workspace.
    work_places: Vec<VirtualPath>,
}

impl TreeFiles {
    /// The files of a tree, without any place yet.
    pub fn new(tree: &Tree) -> Self {
        // Nothing is at `/` itself.
        let files = CompositeBackend::new(Arc::new(MemoryBackend::new()));
        let mut all = Self {
            tree: tree.clone(),
            files,
            beginnings: Vec::new(),
            project: None,
            workspace: VirtualPath::parse(&tree.work()).ok(),
            work_places: Vec::new(),
        };
        let (skills, work) = (tree.skills(), tree.work());
        for (alias, place) in
            [(&*skills, &skills), (SKILLS, &skills), (&work, &work), (WORK, &work), (EARLIER, &work)]
        {
            all.alias(alias, place);
        }
        // A person sees the real path of a result, and may tell the model.
        let real = tree.workspace().to_string_lossy().into_owned();
        all.alias(&real, &work);
        for workspace in [WORK, EARLIER, &work, &real] {
            all.alias(&format!("{workspace}/skills"), &tree.skills());
        }
        all
    }

    /// Adds the files of the project.
    ///
    /// # Errors
    ///
    /// The tree has no project, or its path is not one of a backend.
    pub fn project(mut self, backend: Arc<dyn Backend>) -> Result<Self, BackendError> {
        let real = self.tree.project_directory().and_then(|real| real.to_str()).unwrap_or(PROJECT).to_owned();
        let shown = self.tree.shown(real.as_ref()).unwrap_or_else(|| PROJECT.to_owned());
        self.alias(&shown, &shown);
        self.alias(PROJECT, &shown);
        if !tree::is_taken(Path::new(&real)) {
            self.alias(&real, &shown);
        }
        self.project = Some(VirtualPath::parse(&shown)?);
        self.mount(&shown, backend)
    }

    /// Adds the files of all skills.
    ///
    /// # Errors
    ///
    /// The path of the skills is not one of a backend.
    pub fn skills(self, backend: Arc<dyn Backend>) -> Result<Self, BackendError> {
        let shown = self.tree.skills();
        self.mount(&shown, backend)
    }

    /// Adds a directory of the workspace, such as `out`. In earlier versions, `alias` was its path. If the tree has a place of
    /// this name, such as `/work/history`, the files are at this place.
    ///
    /// # Errors
    ///
    /// The path of the directory is not one of a backend.
    pub fn work(
        mut self,
        name: &str,
        backend: Arc<dyn Backend>,
        alias: Option<&str>,
    ) -> Result<Self, BackendError> {
        let work = self.tree.work();
        let shown =
            self.tree.shown_place(&format!("{WORK}/{name}")).unwrap_or_else(|| format!("{work}/{name}"));
        self.alias(&shown, &shown);
        for workspace in [WORK, EARLIER, &work] {
            self.alias(&format!("{workspace}/{name}"), &shown);
        }
        if let Some(alias) = alias {
            self.alias(alias, &shown);
        }
        self.work_places.push(VirtualPath::parse(&shown)?);
        self.mount(&shown, backend)
    }

    /// Adds another place.
    ///
    /// # Errors
    ///
    /// The path is not one of a backend.
    pub fn place(mut self, at: &str, backend: Arc<dyn Backend>) -> Result<Self, BackendError> {
        self.alias(at, at);
        self.mount(at, backend)
    }

    fn mount(mut self, at: &str, backend: Arc<dyn Backend>) -> Result<Self, BackendError> {
        self.files = self.files.mount(VirtualPath::parse(at)?, backend);
        Ok(self)
    }

    /// Remembers a beginning of paths: a place, or another name of it. One that is not a path of a backend is never asked for.
    fn alias(&mut self, alias: &str, place: &str) {
        if let (Ok(alias), Ok(place)) = (VirtualPath::parse(alias), VirtualPath::parse(place))
            && !alias.is_root()
        {
            self.beginnings.push((alias, place));
            // At the same path, a place comes before another name.
            self.beginnings
                .sort_by_key(|(alias, place)| (Reverse(alias.components().count()), alias != place));
        }
    }

    /// The path that works everywhere.
    fn shown(&self, path: &VirtualPath) -> VirtualPath {
        let below = |place: &VirtualPath, rest: &str| match rest {
            "" => Some(place.clone()),
            rest => place.join(rest).ok(),
        };
        if path.is_root() {
            return path.clone();
        }
        let renamed = |(alias, place): &(VirtualPath, VirtualPath)| below(place, path.strip_prefix(alias)?);
        if let Some(renamed) = self.beginnings.iter().find_map(renamed) {
            return renamed;
        }
        // Earlier versions had the project at `/`. Directories above a place are only listed.
        let is_above = || self.beginnings.iter().any(|(_, place)| place.starts_with(path));
        let inside = path.as_str().trim_start_matches('/');
        let project = self.project.as_ref().filter(|_| !is_above());
        project.and_then(|project| below(project, inside)).unwrap_or_else(|| path.clone())
    }

    /// The directory in which a search begins. A search from `/` is one of the project.
    fn base(&self, base: &VirtualPath) -> VirtualPath {
        match &self.project {
            Some(project) if base.is_root() => project.clone(),
            _ => self.shown(base),
        }
    }
}

#[async_trait]
impl Backend for TreeFiles {
    async fn ls(&self, path: &VirtualPath) -> Result<Listing, BackendError> {
        self.files.ls(&self.shown(path)).await
    }

    async fn stat(&self, path: &VirtualPath) -> Result<Entry, BackendError> {
        self.files.stat(&self.shown(path)).await
    }

    async fn read(&self, path: &VirtualPath, range: ReadRange) -> Result<Contents, BackendError> {
        self.files.read(&self.shown(path), range).await
    }

    async fn write(&self, path: &VirtualPath, bytes: Bytes, mode: WriteMode) -> Result<Entry, BackendError> {
        let path = self.shown(path);
        self.check_place(&path)?;
        self.files.write(&path, bytes, mode).await
    }

    async fn append(&self, path: &VirtualPath, bytes: Bytes) -> Result<Entry, BackendError> {
        let path = self.shown(path);
        self.check_place(&path)?;
        self.files.append(&path, bytes).await
    }

    async fn edit(&self, path: &VirtualPath, edit: &Edit) -> Result<Edited, BackendError> {
        self.files.edit(&self.shown(path), edit).await
    }

    async fn delete(&self, path: &VirtualPath) -> Result<(), BackendError> {
        self.files.delete(&self.shown(path)).await
    }

    async fn glob(&self, base: &VirtualPath, query: &GlobQuery) -> Result<GlobReport, BackendError> {
        self.files.glob(&self.base(base), query).await
    }

    async fn grep(&self, base: &VirtualPath, query: &GrepQuery) -> Result<GrepReport, BackendError> {
        self.files.grep(&self.base(base), query).await
    }

    async fn swap(&self, path: &VirtualPath, before: Bytes, after: Bytes) -> Result<Entry, BackendError> {
        self.files.swap(&self.shown(path), before, after).await
    }

    async fn check_change(&self, path: &VirtualPath) -> Result<(), BackendError> {
        let path = self.shown(path);
        self.check_place(&path)?;
        self.files.check_change(&path).await
    }

    fn known_as(&self, path: &VirtualPath) -> VirtualPath {
        self.shown(path)
    }

    async fn target(&self, path: &VirtualPath) -> Target {
        self.files.target(&self.shown(path)).await
    }
}

impl TreeFiles {
    /// Refuses a new file that no command could see.
    fn check_place(&self, path: &VirtualPath) -> Result<(), BackendError> {
        let Some(work) = self.workspace.as_ref().filter(|work| path.starts_with(work)) else { return Ok(()) };
        if self.work_places.iter().any(|place| path.starts_with(place) && path != place) {
            return Ok(());
        }
        let reason = format!("write it to {work}/out or to {work}/work");
        Err(BackendError::PermissionDenied { path: path.clone(), reason })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn path(text: &str) -> VirtualPath {
        VirtualPath::parse(text).unwrap()
    }

    fn files(tree: &Tree) -> TreeFiles {
        let empty = || Arc::new(MemoryBackend::new());
        let files = TreeFiles::new(tree).project(empty()).unwrap().skills(empty()).unwrap();
        let files = files.work("out", empty(), None).unwrap();
        files.work("large_tool_results", empty(), Some("/large_tool_results")).unwrap()
    }

    #[test]
    fn every_spelling_leads_to_the_path_that_works_everywhere() {
        let tree = Tree::new("/state/ws").project("/home/ada/site");
        let own = files(&tree);
        for (given, shown) in [
            ("/project/a", "/project/a"),
            ("/home/ada/site/a", "/project/a"),
            ("/notes.md", "/project/notes.md"),
            ("/projects/a", "/project/projects/a"),
            ("/ws/out/a", "/work/out/a"),
            ("/ws/skills/pdf/a", "/skills/pdf/a"),
            ("/work/skills/pdf/a", "/skills/pdf/a"),
            ("/large_tool_results/t/a.txt", "/work/large_tool_results/t/a.txt"),
            ("/skills/pdf/a", "/skills/pdf/a"),
            ("/", "/"),
        ] {
            assert_eq!(own.shown(&path(given)).as_str(), shown, "{given}");
        }
        let tree = tree.place("/work/large_tool_results", "/state/t/large");
        let real = files(&tree.real_names());
        for (given, shown) in [
            ("/project/a", "/home/ada/site/a"),
            ("/home/ada/site/a", "/home/ada/site/a"),
            ("/home", "/home"),
            ("/notes.md", "/home/ada/site/notes.md"),
            ("/work/out/a", "/state/ws/out/a"),
            ("/skills/pdf/a", "/state/ws/skills/pdf/a"),
            ("/state/ws/skills/pdf/a", "/state/ws/skills/pdf/a"),
            ("/state/t/large/a.txt", "/state/t/large/a.txt"),
            ("/large_tool_results/a.txt", "/state/t/large/a.txt"),
            ("/work/large_tool_results/a.txt", "/state/t/large/a.txt"),
            ("/state/ws/large_tool_results/a.txt", "/state/t/large/a.txt"),
        ] {
            assert_eq!(real.shown(&path(given)).as_str(), shown, "{given}");
        }
        // A project where another place is, without mounts.
        let real = files(&Tree::new("/state/ws").project("/work/site").real_names());
        for (given, shown) in [
            ("/work/site/a", "/work/site/a"),
            ("/project/a", "/work/site/a"),
            ("/work/out/a", "/state/ws/out/a"),
        ] {
            assert_eq!(real.shown(&path(given)).as_str(), shown, "{given}");
        }
    }

    #[tokio::test]
    async fn the_root_has_the_places_and_a_search_finds_the_project() {
        let files = files(&Tree::new("/state/ws").project("/home/ada/site"));
        for at in ["/project/a.md", "/skills/b.md", "/work/out/c.md"] {
            files.write(&path(at), "x".into(), WriteMode::CreateNew).await.unwrap();
        }
        let names =
            |entries: Vec<Entry>| entries.into_iter().map(|entry| entry.path.to_string()).collect::<Vec<_>>();
        assert_eq!(names(files.ls(&path("/")).await.unwrap().entries), ["/project", "/skills", "/work"]);
        assert_eq!(
            names(files.ls(&path("/work")).await.unwrap().entries),
            ["/work/large_tool_results", "/work/out"]
        );
        let found = files.glob(&path("/"), &GlobQuery::new("**/*.md").unwrap()).await.unwrap();
        assert_eq!(names(found.entries), ["/project/a.md"]);
        for lost in ["/work/a", "/work/notes/a", "/work/outside/a"] {
            let refused = files.write(&path(lost), "x".into(), WriteMode::CreateNew).await.unwrap_err();
            assert!(refused.to_string().contains("/work/out"), "{refused}");
        }
    }
}
