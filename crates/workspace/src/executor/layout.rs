//! The directories of a workspace: which ones a command may write, and which paths it sees.

use std::ffi::OsString;
use std::path::{Component, Path, PathBuf};

use crate::command::{Command, Exit};
use crate::executor::ExecuteError;
use crate::stage::{SHORTCUT_DIR, SHORTCUTS, skill_of};
use crate::tree::{EARLIER, SKILLS, WORK};
use crate::warning::RunWarning;
use crate::writable::COPIES;

/// The directories of a workspace that a command may write.
pub(super) const WRITABLE: [&str; 3] = ["work", "out", "runs"];

/// The path inside of the directory of a command that runs apart from the workspace.
pub(super) const OWN: &str = "/own";

/// The links in a sandbox that lead from a staged skill to the workspace, and from the workspace to the skills.
pub(super) fn links() -> Vec<(String, String)> {
    let places =
        SHORTCUTS.iter().map(|(name, place)| (format!("/{SHORTCUT_DIR}/{name}"), format!("{WORK}/{place}")));
    let others = [(format!("{WORK}/skills"), SKILLS.to_owned()), (EARLIER.to_owned(), WORK.to_owned())];
    places.chain(others).collect()
}

/// The variables for the directory of the command's skill, by the names that skills use.
const SKILL_VARIABLES: [&str; 3] = ["SKILL_DIR", "CLAUDE_SKILL_DIR", "CLAUDE_PLUGIN_ROOT"];

/// The local directories that a command may write. They lie in one root that it may not write.
#[derive(Clone, Debug)]
pub(super) struct WritableDirs {
    pub(super) root: PathBuf,
    pub(super) parts: Vec<OsString>,
}

impl WritableDirs {
    pub(super) fn by(command: &Command) -> Self {
        let apart = command.apart.as_deref().and_then(|own| Some((own.parent()?, own.file_name()?)));
        match apart {
            None => Self::in_workspace(&command.workspace),
            Some((root, own)) => Self { root: root.to_owned(), parts: vec![own.to_owned()] },
        }
    }

    /// The writable directories of a command that does not run apart.
    pub(super) fn in_workspace(workspace: &Path) -> Self {
        let parts = WRITABLE.iter().chain([&COPIES]).map(OsString::from).collect();
        Self { root: workspace.to_owned(), parts }
    }
}

/// The paths of the workspace as a command sees them.
#[derive(Clone, Debug)]
pub(super) struct InsidePaths {
    root: String,
    skills: String,
    home: String,
    temporary: String,
    run: String,
    /// The directory of a command that runs apart.
    own: Option<String>,
    /// The directory of the skill that the command belongs to.
    skill: Option<String>,
}

impl InsidePaths {
    /// In a sandbox the workspace is at `/work`, its skills at `/skills`, and `HOME` is in the fresh `/tmp`.
    pub(super) fn sandboxed(command: &Command, run: &str) -> Self {
        Self {
            root: WORK.into(),
            skills: SKILLS.into(),
            home: "/tmp/home".into(),
            temporary: "/tmp".into(),
            run: run.to_owned(),
            own: command.apart.as_ref().map(|_| OWN.to_owned()),
            skill: command.skills.first().map(|staged| format!("{SKILLS}/{}", skill_of(staged))),
        }
    }

    /// Without a sandbox the paths are the local ones, and `HOME` is in the directory of the run.
    pub(super) fn bare(command: &Command, run: &str) -> Self {
        let root = command.workspace.to_string_lossy().into_owned();
        let home = format!("{root}/runs/{run}/home");
        let own = command.apart.as_ref().map(|own| own.to_string_lossy().into_owned());
        let skills = format!("{root}/skills");
        let skill = command.skills.first().map(|staged| format!("{skills}/{staged}"));
        Self { skill, root, skills, temporary: home.clone(), home, run: run.to_owned(), own }
    }

    /// The directory that the command starts in.
    pub(super) fn start(&self, command: &Command) -> String {
        self.own.clone().unwrap_or_else(|| self.path(&command.directory))
    }

    /// A path in the workspace, as the command sees it. An absolute path is one of the command's mounts.
    pub(super) fn path(&self, path: &str) -> String {
        if path.starts_with('/') {
            return path.to_owned();
        }
        let names: Vec<&str> = path.split('/').filter(|name| !matches!(*name, "" | ".")).collect();
        match names.as_slice() {
            [] => self.root.clone(),
            ["skills"] => self.skills.clone(),
            ["skills", staged, rest @ ..] => {
                // A second version of a skill is mounted at the place of the first. Without mounts it has its own place.
                let skill = if self.skills == SKILLS { skill_of(staged) } else { staged };
                [&[self.skills.as_str(), skill], rest].concat().join("/")
            }
            names => format!("{}/{}", self.root, names.join("/")),
        }
    }

    /// The variables that tell a command where things are.
    pub(super) fn variables(&self) -> Vec<(&'static str, String)> {
        let mut all = vec![
            ("HOME", self.home.clone()),
            ("TMPDIR", self.temporary.clone()),
            ("WORKSPACE_DIR", self.root.clone()),
            ("SKILLS_DIR", self.skills.clone()),
            ("WORK_DIR", self.path("work")),
            ("OUTPUT_DIR", self.path("out")),
        ];
        // By the names that skills use.
        let skill = self.skill.iter();
        all.extend(skill.flat_map(|skill| SKILL_VARIABLES.map(|name| (name, skill.clone()))));
        // A command that runs apart cannot write there.
        if self.own.is_none() {
            all.push(("RUN_DIR", self.path(&format!("runs/{}", self.run))));
        }
        all
    }
}

/// Warns that a failed command names links that its sandbox does not have.
pub(super) fn alias_warnings(
    command: &Command,
    exit: Exit,
    left_out: Vec<(String, String)>,
) -> impl Iterator<Item = RunWarning> {
    let is_named = move |(link, _): &(String, String)| {
        let mut texts = command.environment.values().chain([&command.line]);
        // A link below another one leads through that one.
        let is_inside = |other: &(String, String)| other.0 != *link && Path::new(link).starts_with(&other.0);
        exit != Exit::Code(0) && !command.aliases.iter().any(is_inside) && texts.any(|text| names(text, link))
    };
    left_out.into_iter().filter(is_named).map(|(link, target)| RunWarning::NoAlias { link, target })
}

/// Whether a text names a path, or a path below it.
fn names(text: &str, path: &str) -> bool {
    let is_name = |c: char| c.is_alphanumeric() || matches!(c, '_' | '-' | '.');
    text.match_indices(path).any(|(at, _)| {
        let (before, after) = (text[..at].chars().next_back(), text[at + path.len()..].chars().next());
        !before.is_some_and(|c| is_name(c) || c == '/') && !after.is_some_and(is_name)
    })
}

/// Refuses a path that is not relative, or has `..` or NUL.
pub(super) fn check_relative(what: &str, path: &str) -> Result<(), ExecuteError> {
    let stays =
        Path::new(path).components().all(|part| matches!(part, Component::Normal(_) | Component::CurDir));
    if stays && !path.contains('\0') {
        return Ok(());
    }
    Err(ExecuteError::Refused(format!("{what} {path:?} must be a path inside the workspace, without `..`")))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_path_must_stay_inside() {
        for good in ["", ".", "work", "skills/pdf", "work/ü b"] {
            assert!(check_relative("cwd", good).is_ok(), "{good:?}");
        }
        for bad in ["..", "../..", "/etc", "work/../../x", "a\0b"] {
            assert!(check_relative("cwd", bad).is_err(), "{bad:?}");
        }
    }
}
