//! Files that are asked about whatever is allowed: those that mostly have secrets, and this program's own.

use std::path::{Path, PathBuf};

use prowess_permission::real_path::real_path;
use prowess_permission::secrets::secret_files;
use prowess_permission::{Kind, Pattern, Rule};

use super::source::user_path;
use crate::state::{self, Kept};

/// Rules that have somebody asked. A rule about everything, such as `read = "allow"`, does not change that.
pub(crate) fn guards(kept: &Kept) -> Vec<Rule> {
    // What is approved, what is trusted and where keys come from is not for an agent to change, either.
    let own = own_directories(kept).into_iter().flat_map(|directory| {
        let directory = Pattern::literal(&directory.to_string_lossy());
        let below = format!("{}/*", directory.as_str().trim_end_matches('/'));
        [Kind::READ, Kind::WRITE].map(|kind| Rule::guard(&kind, &below))
    });
    secret_files().chain(own).collect()
}

/// Where this program keeps what is its own: tokens, approvals, threads, workspaces, artifacts, and the user's
/// configuration.
fn own_directories(kept: &Kept) -> Vec<PathBuf> {
    let configuration = user_path().and_then(|file| file.parent().map(Path::to_owned));
    let mut all = Vec::new();
    let shared = Some(state::shared());
    let given = kept.given_directories();
    for directory in [state::directory(), configuration, shared].into_iter().flatten().chain(given) {
        let real = real_path(&directory);
        if real != directory {
            all.push(real);
        }
        all.push(directory);
    }
    all
}
