//! What a run is given of the project: everything that its request names, read-only at the same place.

mod blocked;
mod disk;
mod gate;
mod layout;
mod mention;
#[cfg(test)]
mod mention_tests;
mod pattern;
mod review;

use std::path::{Path, PathBuf};
use std::sync::Arc;

use prowess_base::places;
use prowess_catalog::SkillEntry;
use prowess_workspace::command::Mount;
use prowess_workspace::tree::Tree;
use prowess_workspace::{RunInput, RunRequest, RunReview, RunWarning};

use self::blocked::{BlockedGiven, NamedPath};
use self::disk::KnownDisk;
use self::layout::{AskedFile, Layout, Named};
use self::mention::{Exact, Mentions, Search};
use self::review::Review;
use crate::run::RunSetup;
use crate::view::SkillView;

/// The most paths for file tools that a warning names.
const MAX_FOR_FILE_TOOLS: usize = 5;

/// What a run is given.
#[derive(Debug, Default)]
pub(super) struct Given {
    /// What the command sees, and where.
    pub(super) mounts: Vec<Mount>,
    /// The real paths of the files and directories, for the question. Directories end with `/`.
    pub(super) paths: Vec<String>,
    /// The real paths of what was left out of them.
    pub(super) left_out: Vec<String>,
    /// The files and directories about which rules ask.
    pub(super) asks: Vec<AskedFile>,
    /// Warnings for the report.
    pub(super) warnings: Vec<RunWarning>,
    /// Looks for files that the command would have needed.
    pub(super) review: Option<Arc<dyn RunReview>>,
    /// The directory to run in, if it is one of those given.
    pub(super) directory: Option<String>,
    /// The inputs that go into the workspace.
    pub(super) inputs: Vec<RunInput>,
}

impl Given {
    /// The request without what is given in place.
    pub(super) fn without(&self, request: &RunRequest) -> RunRequest {
        let cwd = self.directory.clone().or_else(|| request.cwd.clone());
        RunRequest { cwd, inputs: self.inputs.clone(), ..request.clone() }
    }
}

impl SkillView {
    /// Finds what a request names of the tree's places, and checks that the run may see it. `given_to` is the skill that a
    /// person runs.
    ///
    /// # Errors
    ///
    /// The request names something that must not be read, or too much.
    pub(super) async fn given(
        &self,
        setup: &RunSetup,
        request: &RunRequest,
        given_to: Option<Arc<SkillEntry>>,
    ) -> Result<Given, BlockedGiven> {
        if setup.tree.prefixes().is_empty() && setup.tree.places_for_file_tools().is_empty() {
            return Ok(Given { inputs: request.inputs.clone(), ..Given::default() });
        }
        let (view, setup, request) = (self.clone(), setup.clone(), request.clone());
        let found = tokio::task::spawn_blocking(move || find(&view, &setup, &request, given_to.as_deref()));
        match found.await {
            Ok(found) => found,
            Err(failed) => std::panic::resume_unwind(failed.into_panic()),
        }
    }
}

fn find(
    view: &SkillView,
    setup: &RunSetup,
    request: &RunRequest,
    given_to: Option<&SkillEntry>,
) -> Result<Given, BlockedGiven> {
    let tree = &setup.tree;
    let mut layout = Layout::new(view, tree, given_to);
    let only_for_file_tools = only_for_file_tools(tree, request)?;
    let known = KnownDisk(&layout);
    let mut search = Search::new(tree.prefixes(), &known);
    search.text(&request.command);
    request.env.values().chain(&request.stdin).for_each(|text| search.text(text));
    let directory = directory(&mut search, &layout, request)?;
    let inputs = inputs(&mut search, &layout, tree, request)?;
    let mentions = search.finish();
    lay_out(&mut layout, &mentions)?;

    let given = layout.laid_out;
    let mut warnings = given.warnings;
    // The command can make new files there.
    let writable = setup.writable_directories();
    let is_read_only = |path: &&PathBuf| !writable.iter().any(|directory| path.starts_with(directory));
    let missing = mentions.missing.iter().filter(is_read_only);
    let missing: Vec<String> = missing.filter_map(|path| tree.shown(path)).collect();
    if !missing.is_empty() {
        let out = format!("{}/out", tree.work());
        warnings.push(RunWarning::NotInProject { paths: missing, out });
    }
    if !only_for_file_tools.is_empty() {
        warnings.push(RunWarning::OnlyForFileTools { paths: only_for_file_tools });
    }
    if mentions.is_cut {
        warnings.push(RunWarning::NotLookedUp);
    }
    warnings.extend(without_mounts(tree, request));
    let shown_directory = directory.as_ref().and_then(|path| tree.shown(path));
    let seen = given.binds.into_iter().chain(writable).collect();
    let review = Review::new(view, tree, request, directory, seen, given.unlisted);
    Ok(Given {
        mounts: given.mounts,
        paths: given.paths,
        left_out: given.left_out,
        asks: given.asks,
        warnings,
        review: Some(Arc::new(review)),
        directory: shown_directory,
        inputs,
    })
}

/// The places that a request calls by names that its commands do not see, because the sandbox level has no mounts.
fn without_mounts(tree: &Tree, request: &RunRequest) -> Vec<RunWarning> {
    if tree.has_own_names() {
        return Vec::new();
    }
    let real_project = tree.project_directory().map(|real| real.to_string_lossy().into_owned());
    let project = real_project.map(|real| (places::PROJECT, real));
    let names = [(places::SKILLS, tree.skills()), (places::WORK, tree.work())].into_iter().chain(project);
    let is_named = |place: &str| {
        let mut texts = std::iter::once(&request.command).chain(request.env.values()).chain(&request.stdin);
        texts.any(|text| !mention::named_below(place, text, 1).is_empty())
    };
    // A real path can begin like the name of a place.
    let is_real = |name: &str, real: &str| {
        Path::new(real).starts_with(name) || tree.project_directory().is_some_and(|own| own.starts_with(name))
    };
    names
        .filter(|(name, real)| !is_real(name, real) && is_named(name))
        .map(|(name, real)| RunWarning::NoAlias { link: name.to_owned(), target: real })
        .collect()
}

/// The paths in texts of a request that only file tools open.
///
/// # Errors
///
/// An input or the directory to run in is such a path.
fn only_for_file_tools(tree: &Tree, request: &RunRequest) -> Result<Vec<String>, BlockedGiven> {
    let places = || tree.places_for_file_tools().iter();
    let mut whole = request.inputs.iter().map(|input| &input.from).chain(&request.cwd);
    if let Some(path) = whole.find(|path| places().any(|place| Path::new(path.as_str()).starts_with(place))) {
        return Err(BlockedGiven::OnlyForFileTools(path.clone()));
    }
    let mut paths: Vec<String> = Vec::new();
    for text in std::iter::once(&request.command).chain(request.env.values()).chain(&request.stdin) {
        for path in places().flat_map(|place| mention::named_below(place, text, MAX_FOR_FILE_TOOLS)) {
            if paths.len() < MAX_FOR_FILE_TOOLS && !paths.iter().any(|known| known == path) {
                paths.push(path.to_owned());
            }
        }
    }
    Ok(paths)
}

/// Checks everything that is named, and gives it: directories before what lies in them.
fn lay_out(layout: &mut Layout<'_>, mentions: &Mentions) -> Result<(), BlockedGiven> {
    let named: Result<Vec<Named>, _> = mentions.existing.iter().map(|path| layout.check(path)).collect();
    let mut named = named?;
    // Whether a withheld file exists, is nobody's business.
    for path in &mentions.missing {
        layout.check_missing(path)?;
    }
    named.sort_by_key(|named| named.path.components().count());
    let is_exact = |named: &Named| mentions.exact.contains(&named.path);
    if let Err(why) = give_all(layout, &named, is_exact) {
        if why != BlockedGiven::TooMany {
            return Err(why);
        }
        // Not some of the files that a text names: the results of the command would be wrong.
        layout.start_over();
        named.retain(is_exact);
        give_all(layout, &named, is_exact)?;
        layout.laid_out.warnings.push(RunWarning::TooMuchNamed { reason: why.to_string() });
    }
    mentions.passed.iter().for_each(|path| layout.give_empty(path));
    // A directory comes before what is mounted in it.
    layout.laid_out.mounts.sort_by_key(|mount| mount.at.matches('/').count());
    Ok(())
}

/// Gives everything that is named. A text can name a directory without need, so what is too large is then only left out.
fn give_all(
    layout: &mut Layout<'_>,
    all: &[Named],
    is_exact: impl Fn(&Named) -> bool,
) -> Result<(), BlockedGiven> {
    layout.named = all.iter().map(|named| named.path.clone()).collect();
    for named in all {
        match layout.give(named) {
            Err(why @ (BlockedGiven::TooLarge { .. } | BlockedGiven::TooMixed { .. }))
                if !is_exact(named) =>
            {
                layout.laid_out.warnings.push(RunWarning::TooMuchNamed { reason: why.to_string() });
            }
            given => given?,
        }
    }
    Ok(())
}

/// The directory to run in, if it is in one of the places.
fn directory(
    search: &mut Search<'_>,
    layout: &Layout<'_>,
    request: &RunRequest,
) -> Result<Option<PathBuf>, BlockedGiven> {
    let Some(cwd) = &request.cwd else { return Ok(None) };
    match search.exact(cwd) {
        None => Ok(None),
        Some(Exact::Directory(path)) => Ok(Some(path)),
        Some(Exact::File(path)) => Err(BlockedGiven::NotADirectory { path: named(layout, &path)? }),
        Some(Exact::Missing(path)) => Err(BlockedGiven::Missing { path: named(layout, &path)? }),
    }
}

/// The inputs that go into the workspace. The others are given in place.
fn inputs(
    search: &mut Search<'_>,
    layout: &Layout<'_>,
    tree: &Tree,
    request: &RunRequest,
) -> Result<Vec<RunInput>, BlockedGiven> {
    let mut staged = Vec::new();
    for input in &request.inputs {
        let has_destination = input.to.as_ref().is_some_and(|to| !to.is_empty());
        let real = tree.real(&input.from).and_then(|real| real.to_str().map(str::to_owned));
        match real {
            None => staged.push(input.clone()),
            // It is copied as any other local file.
            Some(real) if has_destination => {
                staged.push(RunInput { from: format!("host://{real}"), ..input.clone() });
            }
            Some(_) => {
                if let Some(Exact::Missing(path)) = search.exact(&input.from) {
                    return Err(BlockedGiven::Missing { path: named(layout, &path)? });
                }
            }
        }
    }
    Ok(staged)
}

/// The names of a path that cannot be given. A withheld path is refused as such.
fn named(layout: &Layout<'_>, path: &Path) -> Result<NamedPath, BlockedGiven> {
    layout.check_missing(path)?;
    Ok(layout.named_path(path))
}
