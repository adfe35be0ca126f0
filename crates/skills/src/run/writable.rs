//! The directories of the project that runs may write, and which files in them stay out.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use prowess_catalog::Storage;
use prowess_permission::protected::is_protected;
use prowess_permission::real_path::real_path;
use prowess_permission::{Decision, Kind, Policy, Question, RealPath};
use prowess_workspace::tree::PROJECT;
use prowess_workspace::writable::WritableProject;

use super::RunSetup;
use crate::owner::FileOwner;
use crate::view::SkillView;

impl RunSetup {
    /// The directories that a command may write, if there are any and the sandbox can mount them.
    pub(super) fn writable_project(&self, view: &SkillView) -> Option<WritableProject> {
        let directory = self.tree.project_directory()?.to_owned();
        if self.writable_directories().is_empty() {
            return None;
        }
        let (view, policy) = (view.clone(), view.engine().permissions().policy());
        let project = directory.clone();
        let roots = SkillRoots::of(&view);
        let withheld = move |path: &Path| {
            is_protected_in(&project, path) || roots.contain(path) || is_withheld(&view, &policy, path)
        };
        Some(WritableProject {
            directory,
            at: PROJECT.to_owned(),
            inside: self.writable.clone(),
            withheld: Arc::new(withheld),
        })
    }
}

/// The roots of skills on this machine, by their real paths in lower case. What a run writes there could become a skill, or
/// a part of one, that nobody is asked about.
struct SkillRoots(Vec<PathBuf>);

impl SkillRoots {
    fn of(view: &SkillView) -> Self {
        let view = view.offered();
        let local = view.catalog().all_roots().filter(|root| root.storage == Storage::Local);
        Self(local.map(|root| in_lower_case(&real_path(&root.path))).collect())
    }

    /// Whether a path is one of the roots, or below one.
    fn contain(&self, path: &Path) -> bool {
        let path = in_lower_case(path);
        self.0.iter().any(|root| path.starts_with(root))
    }
}

/// Letter case does not count: the file system may ignore it.
fn in_lower_case(path: &Path) -> PathBuf {
    PathBuf::from(path.to_string_lossy().to_lowercase())
}

/// Whether a file decides what agents and programs do. Only names below the project count: the person chose the directories
/// above.
fn is_protected_in(project: &Path, path: &Path) -> bool {
    let below = Path::new("/").join(path.strip_prefix(project).unwrap_or(path));
    is_protected(&Question::about_file(Kind::WRITE, RealPath::known(&below, &below, true)))
}

/// Whether a file stays out of runs: it belongs to a skill, it may not be read without a question, or a rule about this file
/// is against writing it. That a person is asked about writes in general does not count, because the question about the run
/// names the directory.
fn is_withheld(view: &SkillView, policy: &Policy, path: &Path) -> bool {
    let Some(text) = path.to_str() else { return true };
    if view.owner_of_any_case(text) != FileOwner::Nobody {
        return true;
    }
    // Letter case does not count: the copy may have another case than the file system.
    let verdict = |kind| policy.evaluate(&Question::about_file(kind, RealPath::known(path, path, true)));
    let write = verdict(Kind::WRITE);
    let is_guarded = write.rule.as_ref().is_some_and(|(_, rule)| rule.is_guard());
    verdict(Kind::READ).decision != Decision::Allow
        || write.decision == Decision::Deny
        || (write.decision == Decision::Ask && is_guarded)
}

#[cfg(test)]
mod tests {
    use prowess_workspace::writable::{PROTECTED_ENDINGS, PROTECTED_NAMES};

    use super::*;

    #[test]
    fn runs_and_tools_protect_the_same_files() {
        let project = Path::new("/home/ada/.config/site");
        for name in PROTECTED_NAMES {
            assert!(is_protected_in(project, &project.join("dist").join(name)), "{name}");
        }
        for end in PROTECTED_ENDINGS {
            assert!(is_protected_in(project, &project.join(format!("dist/x{end}"))), "{end}");
        }
        for path in
            ["SKILL.md", ".github/workflows/ci.yml", ".Pre-Commit-Config.yaml", "sitecustomize.py", ".bashrc"]
        {
            assert!(is_protected_in(project, &project.join("dist").join(path)), "{path}");
        }
        for path in ["", "index.html", "Makefile", "package.json", ".gitignore"] {
            assert!(!is_protected_in(project, &project.join("dist").join(path)), "{path}");
        }
    }
}
