//! Permission for `prowess run`: the person who typed the command approves what the command line names.

use std::io::BufReader;

use async_trait::async_trait;
use prowess_catalog::SkillEntry;
use prowess_permission::{Action, Asker, Kind, Policy, Question, Refusal, Reply, owned_subject};
use prowess_skills::SkillError;
use prowess_skills::visibility::denial;

use crate::confirm::{self, Confirmation};
use crate::terminal::printable;
use crate::visibility::describe_rule_for;

/// The agent name of this command in permission rules: `[agent.run.permission]`.
pub(crate) const NAME: &str = "run";

/// Replies to the questions of a run. The person named the skill, the command, its hosts and its inputs, so these are
/// approved. An input directory can contain files that usually hold secrets: the person is asked about those.
pub(crate) struct CommandLineAsker;

#[async_trait]
impl Asker for CommandLineAsker {
    async fn ask(&self, question: &Question) -> Option<Reply> {
        let Action::AddInput { with_secrets, .. } = &question.action else { return Some(Reply::Once) };
        let secrets: Vec<String> = with_secrets.iter().map(|path| printable(path)).collect();
        let [first, ..] = secrets.as_slice() else { return Some(Reply::Once) };
        let refused = |message: String| Some(Reply::Reject { message: Some(message) });
        if !confirm::can_ask() {
            return refused(format!(
                "an input contains {first}, which usually holds secrets: pass the files you need one by one, or allow it with a rule in [permission.read]"
            ));
        }
        let question = format!(
            "The input contains files that usually hold secrets:\n{}\nGive them to the command?",
            secrets.join("\n")
        );
        let asked = tokio::task::spawn_blocking(move || {
            confirm::ask(&[&question], &mut BufReader::new(std::io::stdin()))
        });
        match asked.await {
            Ok(Ok(Confirmation::Yes)) => Some(Reply::Once),
            _ => refused("you said no, so the command does not get these files".to_owned()),
        }
    }
}

/// Why the rules deny a skill, if they do.
pub(crate) fn denied(policy: &Policy, entry: &SkillEntry) -> Option<String> {
    let verdict = denial(policy, entry)?;
    let name = printable(entry.skill.name.as_str());
    Some(format!("the skill `{name}` is denied by {}", describe_rule_for(NAME, verdict.rule.as_ref())))
}

/// Says to the person why nothing ran.
pub(crate) fn explain(error: &SkillError, command: &str) -> String {
    let (name, refusal) = match error {
        SkillError::Run { error, .. } => return error.to_string(),
        SkillError::RunRefused { name, refusal } | SkillError::Refused { name, refusal } => (name, refusal),
        error => return error.to_string(),
    };
    match refusal {
        Refusal::Denied { kind, subject, rule } => {
            let what = match kind {
                kind if *kind == Kind::RUN && *subject == owned_subject(name, command) => {
                    "the command".to_owned()
                }
                kind if *kind == Kind::NETWORK => format!("the host {}", printable(subject)),
                kind => format!("{kind} `{}`", printable(subject)),
            };
            format!("{what} is denied by {}", describe_rule_for(NAME, rule.as_deref()))
        }
        Refusal::Rejected { message: Some(message) } => message.clone(),
        refusal => refusal.to_string(),
    }
}
