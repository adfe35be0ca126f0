//! Whose artifacts a command takes and keeps.

use std::path::Path;

use anyhow::{Context as _, Result, anyhow, bail};
use clap::Args;
use prowess_workspace::{ArtifactFile, Artifacts, Scope};

use crate::commands::run::quoted;
use crate::config::ScopeWord;
use crate::skills::Skills;
use crate::state::Kept;
use crate::terminal::shown;

/// Whose artifacts, if somebody says so.
#[derive(Args, Clone, Debug, Default)]
#[command(next_help_heading = "Whose artifacts")]
pub(crate) struct Whose {
    /// Those of this thread of `prowess chat`; the beginning or the end of its name is enough
    #[arg(long, value_name = "THREAD", conflicts_with = "scope")]
    thread: Option<String>,
    /// Those of this scope, as `prowess artifacts list` shows it: thread:ID, session:ID, project:DIR, user or shared
    #[arg(long, value_name = "SCOPE")]
    scope: Option<String>,
}

impl Whose {
    /// The scope that was named.
    pub(crate) async fn named(&self, artifacts: &Artifacts) -> Result<Option<Scope>> {
        if let Some(scope) = &self.scope {
            return Ok(Some(scope.parse()?));
        }
        let Some(wanted) = &self.thread else { return Ok(None) };
        let exact = Scope::thread(wanted)?;
        let scopes = artifacts.scopes().await.map_err(|error| anyhow!("{error}"))?;
        let fits = |scope: &&Scope| {
            scope.thread_id().is_some_and(|id| id.starts_with(wanted) || id.ends_with(wanted))
        };
        let mut fitting = scopes.iter().filter(fits);
        match (fitting.next(), fitting.next()) {
            _ if scopes.contains(&exact) => Ok(Some(exact)),
            (Some(found), None) => Ok(Some(found.clone())),
            (Some(one), Some(other)) => {
                bail!("`{}` can be {one} or {other}: write more of it", shown(wanted))
            }
            // A thread that has saved nothing yet.
            (None, _) => Ok(Some(exact)),
        }
    }
}

/// The scope that the configuration wants: `own` unless it is a wider one.
pub(crate) fn configured(word: ScopeWord, own: Scope, project: &Path) -> Result<Scope> {
    match word {
        ScopeWord::Thread => Ok(own),
        ScopeWord::Project => of_project(project),
        ScopeWord::User => Ok(Scope::user()),
    }
}

/// The scope of a project.
pub(crate) fn of_project(project: &Path) -> Result<Scope> {
    Scope::project(project).with_context(|| format!("{} has no scope of artifacts", project.display()))
}

/// The directory that makes a project: its top, and the working directory where there is no project.
pub(crate) fn project(skills: &Skills) -> Result<std::path::PathBuf> {
    match &skills.project {
        Some(project) => Ok(project.top().to_owned()),
        None => std::env::current_dir().context("the working directory cannot be read"),
    }
}

/// The command that gets an artifact, for a person who has just made it.
pub(crate) fn fetch_line(scope: &Scope, saved: &ArtifactFile, kept: &Kept) -> String {
    line("get", scope, &format!("{}@{}", saved.name, saved.version), kept)
}

/// A command of `prowess artifacts` about a name in a scope, ready for a shell.
pub(crate) fn line(command: &str, scope: &Scope, name: &str, kept: &Kept) -> String {
    let whose = match scope.thread_id() {
        Some(id) => format!("--thread {id}"),
        None => format!("--scope {}", word(scope.as_str())),
    };
    let absolute = |given: &Path| std::path::absolute(given).unwrap_or_else(|_| given.to_owned());
    let kept = kept.given().map(absolute);
    let kept = kept.map(|directory| format!(" --workspace {}", word(&directory.to_string_lossy())));
    let kept = kept.unwrap_or_default();
    // What begins with a dash is no option.
    match name.starts_with('-') {
        true => format!("prowess artifacts {command} {whose}{kept} -- {}", word(name)),
        false => format!("prowess artifacts {command} {} {whose}{kept}", word(name)),
    }
}

/// A word for a shell, in quotes only if it needs them.
fn word(text: &str) -> String {
    let is_plain = |c: char| c.is_alphanumeric() || "/._-:@+".contains(c);
    if !text.is_empty() && text.chars().all(is_plain) { text.to_owned() } else { quoted(text) }
}

#[cfg(test)]
mod tests {
    use clap::Parser;

    use super::*;

    #[derive(Parser)]
    struct Line {
        #[command(flatten)]
        kept: Kept,
    }

    #[test]
    fn a_line_can_be_typed_as_it_is_shown() {
        let kept = |args: &[&str]| Line::parse_from([&["x"], args].concat()).kept;
        let thread = Scope::thread("2026-06-01-3fa9c1").unwrap();
        let line = |scope: &Scope, name: &str, args: &[&str]| {
            let saved = ArtifactFile { name: name.to_owned(), version: 2 };
            fetch_line(scope, &saved, &kept(args))
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
