//! Files that are asked about whatever is allowed: those that mostly have secrets, and this program's own.

use std::path::{Path, PathBuf};

use prowess_permission::real_path::real_path;
use prowess_permission::secrets::secret_files;
use prowess_permission::{Kind, Pattern, Rule};

use super::source::user_path;
use crate::directories;
use crate::workspace_dir::WorkspaceDir;

/// Rules that have somebody asked. A rule about everything, such as `read = "allow"`, does not change that.
pub(crate) fn guards(workspace_dir: &WorkspaceDir) -> Vec<Rule> {
    // What is approved, what is trusted and where keys come from is not for an agent to change, either.
    let own = own_directories(workspace_dir).into_iter().flat_map(|directory| {
        let directory = Pattern::literal(&directory.to_string_lossy());
        let below = format!("{}/*", directory.as_str().trim_end_matches('/'));
        [Kind::READ, Kind::WRITE].map(|kind| Rule::guard(&kind, &below))
    });
    secret_files().chain(own).collect()
}

/// Where this program keeps what is its own: tokens, approvals, threads, workspaces, artifacts, and the user's
/// configuration.
fn own_directories(workspace_dir: &WorkspaceDir) -> Vec<PathBuf> {
    let configuration = user_path().and_then(|file| file.parent().map(Path::to_owned));
    let mut all = Vec::new();
    let shared = Some(directories::shared_workspaces());
    let given = workspace_dir.given_directories();
    for directory in [directories::state(), configuration, shared].into_iter().flatten().chain(given) {
        let real = real_path(&directory);
        if real != directory {
            all.push(real);
        }
        all.push(directory);
    }
    all
}
