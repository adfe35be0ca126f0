//! `[permission]` and `[agent.NAME.permission]`: the rules of each file, and the rules that are built in.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

use anyhow::{Result, anyhow};
use prowess_permission::real_path::real_path;
use prowess_permission::secrets::secret_files;
use prowess_permission::{Kind, PathBase, Pattern, PermissionConfig, Rule};

use super::agent::AgentSettings;
use super::settings::TABLES;
use super::source::{Owner, Source, user_path};
use crate::directories;
use crate::workspace_dir::WorkspaceDir;

/// Reads the rules of a file. Unless the file is trusted, this looks up no paths.
pub(super) fn rules(source: &Source, trusted: bool) -> Result<PermissionConfig> {
    let (text, name) = (source.text()?, source.path.display().to_string());
    let of_agents = AgentSettings::KEYS.map(|key| format!("agent.*.{key}"));
    let of_agents: Vec<&str> = of_agents.iter().map(String::as_str).collect();
    let others = &[TABLES, &["hooks"], &of_agents].concat();
    let rules = match (source.owner, source.path.parent()) {
        _ if !trusted => PermissionConfig::from_document(text, &name, others),
        // A project's rules are relative to its top. What they deny is also denied from the working directory.
        (Owner::Project, Some(top)) => {
            let base = with_home(PathBase::new(top).other_directory(working_directory()));
            PermissionConfig::located(text, &name, others, &base)
        }
        _ => PermissionConfig::located(text, &name, others, &path_base()),
    };
    rules.map_err(|error| anyhow!("{error}"))
}

/// The rules that guard secrets and the files of prowess: a person is asked about them. A rule about everything, such as
/// `read = "allow"`, does not change that.
pub(crate) fn guards(workspace_dir: &WorkspaceDir) -> Vec<Rule> {
    // An agent must not change approvals, trust, or where keys come from.
    let own = own_directories(workspace_dir).into_iter().flat_map(|directory| {
        let directory = Pattern::literal(&directory.to_string_lossy());
        let below = format!("{}/*", directory.as_str().trim_end_matches('/'));
        [Kind::READ, Kind::WRITE].map(|kind| Rule::guard(&kind, &below))
    });
    secret_files().chain(own).collect()
}

/// The directories of prowess: tokens, approvals, threads, workspaces, artifacts and the user's configuration.
fn own_directories(workspace_dir: &WorkspaceDir) -> BTreeSet<PathBuf> {
    let configuration = user_path().and_then(|file| file.parent().map(Path::to_owned));
    let shared = Some(directories::shared_workspaces());
    let all = [directories::state(), configuration, shared].into_iter().flatten();
    let all = all.chain(workspace_dir.given_directories());
    all.flat_map(|directory| [real_path(&directory), directory]).collect()
}

/// The directories that paths in rules are relative to: the working directory, and the home directory for `~`.
pub(crate) fn path_base() -> PathBase {
    with_home(PathBase::new(working_directory()))
}

/// Without a working directory, no file has a relative path.
fn working_directory() -> PathBuf {
    std::env::current_dir().unwrap_or_else(|_| PathBuf::from("/"))
}

fn with_home(base: PathBase) -> PathBase {
    directories::home().into_iter().fold(base, PathBase::home)
}
