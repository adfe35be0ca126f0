//! `/add`

use std::sync::Arc;

use anyhow::{Context as _, Result, bail};
use prowess_install::installer::{AgentFiles, Candidate, Change, InstallError, LookOptions};
use prowess_install::snapshot::fetch::fetch;
use tokio::task::spawn_blocking;

use super::note;
use crate::chat::Approver;
use crate::chat::conversation::Conversation;
use crate::chat::input::Entered;
use crate::installing::{self, ScopeArgs};
use crate::terminal::{count, printable};

/// The reply that installs. A single letter could have been typed before the question appeared.
const REPLY: &str = "install";

/// Installs the skills of a source, after the person has seen what is in it. `-g` installs for the user.
pub(super) async fn add(conversation: &mut Conversation, arguments: &str) -> Result<()> {
    let words: Vec<&str> = arguments.split_whitespace().collect();
    let global = words.iter().any(|word| matches!(*word, "-g" | "--global"));
    let sources: Vec<&str> =
        words.iter().copied().filter(|word| !matches!(*word, "-g" | "--global")).collect();
    let [source] = sources[..] else {
        bail!(
            "write /add SOURCE, or /add -g SOURCE to install for all projects; `prowess add --help` lists the sources"
        );
    };
    if conversation.approver == Approver::Nobody {
        bail!("nobody can be asked here; use `prowess add {} --yes`", printable(source));
    }
    // This can wait for another process, and must not print below the chat's interface.
    let (installer, recovered) = spawn_blocking(move || ScopeArgs { global }.recovered()).await??;
    let installer = Arc::new(installer);
    for line in installing::report_lines(&recovered) {
        note(conversation, line)?;
    }
    let source = installing::parse(source)?;
    let fetched = fetch(&source, &installing::fetch_options(&[])?).await?;
    let (looked, changes) = {
        let (installer, source) = (Arc::clone(&installer), source.clone());
        let look = move || {
            let looked = installer.look_at(&source, fetched, &LookOptions::default())?;
            let changes = installer.plan(&looked)?;
            Ok::<_, InstallError>((looked, changes))
        };
        spawn_blocking(look).await.context("the source could not be looked at")??
    };
    let all = || looked.candidates.iter().zip(&changes);
    for (candidate, change) in all() {
        let text = installing::candidate_text(&looked, candidate, change);
        let lines: Vec<String> = text.lines().map(str::to_owned).collect();
        conversation.lines(&lines)?;
    }
    for problem in installing::Problems::from(&looked).lines() {
        note(conversation, problem)?;
    }
    let is_chosen = |change: &Change| matches!(change, Change::New | Change::Replaces(_));
    let chosen = changes.iter().filter(|change| is_chosen(change)).count();
    if chosen == 0 {
        return note(conversation, "there is nothing to install".to_owned());
    }
    if conversation.approver == Approver::Person && !is_agreed(conversation, chosen).await? {
        return note(conversation, "nothing was installed".to_owned());
    }
    let install = move || {
        let all = looked.candidates.iter().zip(&changes);
        let chosen: Vec<&Candidate> =
            all.filter(|(_, change)| is_chosen(change)).map(|(candidate, _)| candidate).collect();
        installer.add(&looked, &chosen, &[], AgentFiles::Link, &installing::now())
    };
    let added = spawn_blocking(install).await.context("the skills could not be installed")??;
    for line in installing::report_lines(&added.report) {
        note(conversation, line)?;
    }
    let trust = if global {
        ""
    } else {
        "; the model does not see it before you run `prowess trust` in another terminal"
    };
    note(conversation, format!("installed {}{trust}", added.installed.join(", ")))
}

async fn is_agreed(conversation: &mut Conversation, skills: usize) -> Result<bool> {
    note(conversation, format!("To install {}, type: {REPLY}", count(skills, "skill")))?;
    Ok(matches!(conversation.read().await?, Entered::Line(line) if matches!(line.trim(), REPLY | "yes")))
}
