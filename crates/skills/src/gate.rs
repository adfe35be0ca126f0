//! The permission gate in front of a skill's text.

use std::sync::Arc;

use prowess_catalog::published::Published;
use prowess_catalog::untrusted::one_line;
use prowess_catalog::{SkillEntry, SkillText};
use prowess_permission::{Action, Decision, Kind, Question, quote_name};

use crate::documents::DocumentChoice;
use crate::error::SkillError;
use crate::step::{Io, Operation};
use crate::view::SkillView;

impl SkillView {
    /// Passes the gate for a load. Gives the text if it had to be read for that.
    ///
    /// What a person is asked about is bound to what the document says and where it is, so it is read before the
    /// question, and shown to nobody: the text that was approved is the text that is loaded. If it cannot be read, the
    /// gate still answers first.
    pub(crate) async fn pass_gate(
        &self,
        io: &Io,
        entry: &Arc<SkillEntry>,
        arguments: Option<&str>,
    ) -> Result<Option<SkillText>, SkillError> {
        let name = entry.skill.name.as_str();
        let refused = |refusal| SkillError::Refused { name: name.to_owned(), refusal };
        let arguments = arguments.map(str::to_owned);
        if let Some(published) = entry.published() {
            let action = Action::LoadServerSkill {
                skill: name.to_owned(),
                server: published.server.clone(),
                uri: published.uri.clone(),
                description: entry.skill.description.clone(),
                files: published.files.len(),
                bytes: published.bytes(),
                digest: published.digest().to_string(),
                arguments,
                server_skills: self.others_at_work(&published.server),
            };
            io.pass(self.server_question(published, name).to(action)).await.map_err(refused)?;
            return Ok(None);
        }
        let action = |digest: Option<String>| Action::LoadSkill {
            skill: name.to_owned(),
            location: entry.skill.location.as_str().to_owned(),
            origin: entry.root.label.clone(),
            digest,
            arguments: arguments.clone(),
        };
        // An answer to a question without a digest is not to be remembered.
        let plain = Question::new(Kind::SKILL, name).to(action(None)).always([]);
        if self.engine().permissions().policy().evaluate(&plain).decision != Decision::Ask {
            io.pass(plain).await.map_err(refused)?;
            return Ok(None);
        }
        let text = match io.text(entry).await {
            Ok(text) => text,
            Err(SkillError::Misfed) => return Err(SkillError::Misfed),
            Err(error) => {
                io.pass(plain).await.map_err(refused)?;
                return Err(error);
            }
        };
        let question = bound(&text).to(action(Some(text.digest.to_string())));
        io.pass(question).await.map_err(refused)?;
        Ok(Some(text))
    }

    /// A question about a skill of a server: bound to all that the server said of its files, so that nothing has to be
    /// fetched to ask. While the model has words of another server's skill, it is asked about each time.
    fn server_question(&self, published: &Published, name: &str) -> Question {
        let question = Question::new(Kind::MCP_SKILL, name).bound_to(format!(
            "{} {}",
            published.digest(),
            published.uri
        ));
        if self.others_at_work(&published.server).is_empty() { question } else { question.each_time() }
    }

    /// Passes the gate for asking a server about a skill that it does not list. What is denied is not asked about.
    pub(crate) async fn pass_look_up_gate(
        &self,
        io: &Io,
        server: &str,
        name: &str,
        name_here: &str,
    ) -> Result<(), SkillError> {
        let permissions = self.engine().permissions();
        if [Kind::SKILL, Kind::MCP_SKILL].iter().any(|kind| permissions.is_denied(kind, name_here)) {
            return Err(self.not_found(name));
        }
        let server_skills = self.servers_at_work();
        let is_led = !server_skills.is_empty();
        let action = Action::LookUpSkill { server: server.to_owned(), name: name.to_owned(), server_skills };
        let mut question = Question::new(Kind::MCP_SKILL, name_here).to(action).always([]);
        if is_led {
            question = question.each_time();
        }
        let refused = |refusal| SkillError::Refused { name: name.to_owned(), refusal };
        io.pass(question).await.map_err(refused)
    }

    /// The skills of other servers whose words the model has, in words.
    fn others_at_work(&self, server: &str) -> Vec<String> {
        let others = self.state().from_servers().into_iter().filter(|(_, other)| *other != server);
        others.map(|(name, other)| format!("{} of {}", quote_name(name), one_line(other))).collect()
    }

    /// Passes the gate for reading files of a server's skill that is loaded, which is open unless another server's skill
    /// is at work.
    pub(crate) async fn pass_document_gate(
        &self,
        io: &Io,
        entry: &SkillEntry,
        choice: &DocumentChoice,
    ) -> Result<(), SkillError> {
        let Some(published) = entry.published() else { return Ok(()) };
        let name = entry.skill.name.as_str();
        let server_skills = self.others_at_work(&published.server);
        if server_skills.is_empty() {
            return Ok(());
        }
        let documents = match choice {
            DocumentChoice::All => None,
            DocumentChoice::Named(paths) => Some(paths.clone()),
        };
        let (skill, server) = (name.to_owned(), published.server.clone());
        let action = Action::ReadDocuments { skill, server, documents, server_skills };
        let refused = |refusal| SkillError::Refused { name: name.to_owned(), refusal };
        io.pass(self.server_question(published, name).to(action)).await.map_err(refused)
    }

    /// A skill whose files may be read, for a host that hands them on: the gate is passed as for a load, each time.
    /// Where somebody was asked, the text comes with it that was approved: it is the one to hand on. It is refused when
    /// there is no such skill for this agent, or the gate does not let it pass.
    pub fn open_to_read(&self, name: &str) -> Operation<(Arc<SkillEntry>, Option<SkillText>)> {
        let (view, name) = (self.clone(), name.to_owned());
        Operation::new(self.engine(), |io| async move {
            let Some(entry) = view.known().view.get(&name) else {
                let available = view.known().view.names().map(ToOwned::to_owned).collect();
                let dialect = view.engine().options().dialect;
                return Err(SkillError::NotFound { name, available, dialect });
            };
            let approved = view.pass_gate(&io, entry, None).await?;
            Ok((Arc::clone(entry), approved))
        })
    }

    /// Passes the gate of a load for a skill whose files are to be run.
    #[cfg(feature = "run")]
    pub(crate) fn open_to_run(&self, entry: &Arc<SkillEntry>) -> Operation<()> {
        let (view, entry) = (self.clone(), Arc::clone(entry));
        Operation::new(self.engine(), |io| async move { view.pass_gate(&io, &entry, None).await.map(drop) })
    }

    /// Whether a text may be shown without asking anybody: a rule allows it, or an approval covers it.
    pub(crate) fn may_show(&self, entry: &SkillEntry, text: &SkillText) -> bool {
        let permissions = self.engine().permissions();
        entry.published().is_none() && permissions.decide(&bound(text)).decision == Decision::Allow
    }
}

/// A question about a skill that only this text in this place answers to.
fn bound(text: &SkillText) -> Question {
    Question::new(Kind::SKILL, text.skill.name.as_str()).bound_to(text.identity().to_string())
}
