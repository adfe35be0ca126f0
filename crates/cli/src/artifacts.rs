//! The artifacts that a command uses: the options `--thread` and `--scope`, and command lines about artifacts.

use std::path::Path;

use anyhow::{Context as _, Result, anyhow};
use clap::Args;
use prowess_workspace::artifact::ArtifactFile;
use prowess_workspace::{Artifacts, Scope};

use crate::config::ScopeWord;
use crate::directories;
use crate::shell::quote_if_needed;
use crate::skills::Skills;
use crate::threads::{self, Lookup};
use crate::workspace_dir::WorkspaceDir;

/// The options that choose an artifact scope.
#[derive(Args, Clone, Debug, Default)]
#[command(next_help_heading = "Artifacts")]
pub(crate) struct ScopeArgs {
    /// Use the artifacts of this thread of `prowess chat`: its name, the start or end of the name, or `last`
    #[arg(long, value_name = "THREAD", conflicts_with = "scope", add = crate::complete::threads())]
    thread: Option<String>,
    /// Use the artifacts of this scope, as in `prowess artifacts list`: thread:ID, session:ID, project:DIR, user or shared
    #[arg(long, value_name = "SCOPE")]
    scope: Option<String>,
}

impl ScopeArgs {
    /// The chosen scope, if any.
    pub(crate) async fn chosen(&self, artifacts: &Artifacts) -> Result<Option<Scope>> {
        if let Some(scope) = &self.scope {
            return Ok(Some(scope.parse()?));
        }
        let Some(wanted) = &self.thread else { return Ok(None) };
        // Without a home directory there are no threads.
        let opened = if directories::state().is_some() { threads::open_store().await? } else { None };
        let lookup = match opened {
            Some((_, store)) => {
                let directory = std::env::current_dir().context("the working directory cannot be read")?;
                threads::look_for(&store, &directory, wanted).await?
            }
            None => Lookup::Nothing,
        };
        if lookup != Lookup::Nothing {
            return Ok(Some(Scope::thread(lookup.found(wanted)?.as_str())?));
        }
        // Artifacts can exist without their thread, for example from another computer.
        let scopes = artifacts.scopes().await.map_err(|error| anyhow!("{error}"))?;
        let ids = scopes.iter().filter_map(Scope::thread_id).filter_map(|id| id.parse().ok());
        let found = Lookup::among(ids, wanted).found(wanted)?;
        Ok(Some(Scope::thread(found.as_str())?))
    }
}

/// The configured scope: `own`, unless a wider one is set.
pub(crate) fn configured(word: ScopeWord, own: Scope, project: &Path) -> Result<Scope> {
    match word {
        ScopeWord::Thread => Ok(own),
        ScopeWord::Project => of_project(project),
        ScopeWord::User => Ok(Scope::user()),
    }
}

/// The scope of a project.
pub(crate) fn of_project(project: &Path) -> Result<Scope> {
    Scope::project(project).with_context(|| format!("{} cannot have an artifact scope", project.display()))
}

/// The project directory: its top, or the working directory if there is no project.
pub(crate) fn project(skills: &Skills) -> Result<std::path::PathBuf> {
    match &skills.project {
        Some(project) => Ok(project.top().to_owned()),
        None => std::env::current_dir().context("the working directory cannot be read"),
    }
}

/// The command line that gets a saved artifact.
pub(crate) fn get_command(scope: &Scope, saved: &ArtifactFile, workspace_dir: &WorkspaceDir) -> String {
    artifacts_command("get", scope, &format!("{}@{}", saved.name, saved.version), workspace_dir)
}

/// A command line of `prowess artifacts`, quoted for a shell.
pub(crate) fn artifacts_command(
    command: &str,
    scope: &Scope,
    name: &str,
    workspace_dir: &WorkspaceDir,
) -> String {
    let whose = match scope.thread_id() {
        Some(id) => format!("--thread {id}"),
        None => format!("--scope {}", quote_if_needed(scope.as_str())),
    };
    let directory =
        workspace_dir.given().map(|given| directory_option("--workspace", given)).unwrap_or_default();
    // A name that starts with a dash must not be taken as an option.
    match name.starts_with('-') {
        true => format!("prowess artifacts {command} {whose}{directory} -- {}", quote_if_needed(name)),
        false => format!("prowess artifacts {command} {} {whose}{directory}", quote_if_needed(name)),
    }
}

/// An option with an absolute path, quoted for a shell, after a space.
pub(crate) fn directory_option(name: &str, directory: &Path) -> String {
    let absolute = std::path::absolute(directory).unwrap_or_else(|_| directory.to_owned());
    format!(" {name} {}", quote_if_needed(&absolute.to_string_lossy()))
}

#[cfg(test)]
mod tests {
    use clap::Parser;

    use super::*;

    #[derive(Parser)]
    struct Line {
        #[command(flatten)]
        workspace_dir: WorkspaceDir,
    }

    #[test]
    fn a_line_can_be_typed_as_it_is_shown() {
        let workspace_dir = |args: &[&str]| Line::parse_from([&["x"], args].concat()).workspace_dir;
        let thread = Scope::thread("2026-06-01-3fa9c1").unwrap();
        let line = |scope: &Scope, name: &str, args: &[&str]| {
            let saved = ArtifactFile { name: name.to_owned(), version: 2 };
            get_command(scope, &saved, &workspace_dir(args))
        };
        assert_eq!(
            line(&thread, "out/r.txt", &[]),
            "prowess artifacts get out/r.txt@2 --thread 2026-06-01-3fa9c1"
        );
        assert_eq!(line(&Scope::user(), "a; rm b", &[]), "prowess artifacts get 'a; rm b@2' --scope user");
        assert_eq!(
            line(&Scope::shared(), "--help", &["--workspace", "/w x"]),
            "prowess artifacts get --scope shared --workspace '/w x' -- --help@2"
        );
        let project = Scope::project(Path::new("/a b")).unwrap();
        assert_eq!(line(&project, "r", &[]), "prowess artifacts get r@2 --scope 'project:/a b'");
    }
}
