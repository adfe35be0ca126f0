//! The gate: permission for the text of a skill.

use std::sync::Arc;

use prowess_catalog::published::Published;
use prowess_catalog::untrusted::one_line;
use prowess_catalog::{SkillEntry, SkillText};
use prowess_permission::{Action, Decision, Kind, Question, quote_name};

use crate::documents::DocumentChoice;
use crate::error::SkillError;
use crate::operation::{Io, Operation};
use crate::view::SkillView;

impl SkillView {
    /// Passes the gate for a load. Returns the text if the gate had to read it.
    ///
    /// A question is bound to the manifest's digest and location, so the manifest is read before the question, and shown to
    /// nobody. The approved text is the text that is loaded. If it cannot be read, permission is still needed first.
    pub(crate) async fn pass_gate(
        &self,
        io: &Io,
        entry: &Arc<SkillEntry>,
        arguments: Option<&str>,
    ) -> Result<Option<SkillText>, SkillError> {
        let name = entry.skill.name.as_str();
        let refused = |refusal| SkillError::Refused { name: name.to_owned(), refusal };
        let arguments = arguments.filter(|given| !given.is_empty()).map(str::to_owned);
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
                server_skills: self.other_server_skills(&published.server),
            };
            io.pass(self.server_question(published, name).action(action)).await.map_err(refused)?;
            return Ok(None);
        }
        let action = |digest: Option<String>| Action::LoadSkill {
            skill: name.to_owned(),
            location: entry.skill.location.as_str().to_owned(),
            origin: entry.root.label.clone(),
            digest,
            arguments: arguments.clone(),
        };
        // Without a digest, "always" is not offered.
        let plain = Question::new(Kind::SKILL, name).action(action(None)).always([]);
        if self.engine().permissions().policy().evaluate(&plain).decision != Decision::Ask {
            io.pass(plain).await.map_err(refused)?;
            return Ok(None);
        }
        let text = match io.text(entry).await {
            Ok(text) => text,
            Err(SkillError::WrongFeed) => return Err(SkillError::WrongFeed),
            Err(error) => {
                io.pass(plain).await.map_err(refused)?;
                return Err(error);
            }
        };
        let question = bound_question(&text).action(action(Some(text.digest.to_string())));
        io.pass(question).await.map_err(refused)?;
        Ok(Some(text))
    }

    /// A question about a server's skill. It is bound to the server's list of files, so asking fetches nothing. While the
    /// model has text of another server's skill, prowess asks each time.
    fn server_question(&self, published: &Published, name: &str) -> Question {
        let question =
            Question::new(Kind::MCP_SKILL, name).binding(format!("{} {}", published.digest(), published.uri));
        if self.other_server_skills(&published.server).is_empty() { question } else { question.each_time() }
    }

    /// Passes the gate for asking a server about a skill that it does not list. prowess does not ask about a denied skill.
    pub(crate) async fn pass_look_up_gate(
        &self,
        io: &Io,
        server: &str,
        name: &str,
        catalog_name: &str,
    ) -> Result<(), SkillError> {
        let permissions = self.engine().permissions();
        if [Kind::SKILL, Kind::MCP_SKILL].iter().any(|kind| permissions.is_denied(kind, catalog_name)) {
            return Err(self.not_found(name));
        }
        let server_skills = self.server_skills_in_context();
        let asks_each_time = !server_skills.is_empty();
        let action = Action::LookUpSkill { server: server.to_owned(), name: name.to_owned(), server_skills };
        let mut question = Question::new(Kind::MCP_SKILL, catalog_name).action(action).always([]);
        if asks_each_time {
            question = question.each_time();
        }
        let refused = |refusal| SkillError::Refused { name: name.to_owned(), refusal };
        io.pass(question).await.map_err(refused)
    }

    /// The skills of other servers whose text the model has, as a question shows them.
    fn other_server_skills(&self, server: &str) -> Vec<String> {
        let others = self.state().from_servers().into_iter().filter(|(_, other)| *other != server);
        others.map(|(name, other)| format!("{} of {}", quote_name(name), one_line(other))).collect()
    }

    /// Passes the gate for reading documents of a loaded server skill. Permission is needed only while the model has text of
    /// another server's skill.
    pub(crate) async fn pass_document_gate(
        &self,
        io: &Io,
        entry: &SkillEntry,
        choice: &DocumentChoice,
    ) -> Result<(), SkillError> {
        let Some(published) = entry.published() else { return Ok(()) };
        let name = entry.skill.name.as_str();
        let server_skills = self.other_server_skills(&published.server);
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
        io.pass(self.server_question(published, name).action(action)).await.map_err(refused)
    }

    /// Opens a skill for a program that passes its files on, such as an MCP server. It passes the gate like a load, each
    /// time. If a person approved it, the approved text is returned: pass on this text. It fails if the agent may not see the
    /// skill, or without permission.
    pub fn open_to_read(&self, name: &str) -> Operation<(Arc<SkillEntry>, Option<SkillText>)> {
        let (view, name) = (self.clone(), name.to_owned());
        Operation::new(self.engine(), |io| async move {
            let Some(entry) = view.visible().view.get(&name) else {
                let readable = view.visible().view.entries().iter();
                let available = readable.map(|entry| entry.skill.name.as_str().to_owned()).collect();
                let (search, dialect) = (view.search_tool(), view.engine().options().dialect);
                return Err(SkillError::NotFound { name, available, search, dialect });
            };
            let approved = view.pass_gate(&io, entry, None).await?;
            Ok((Arc::clone(entry), approved))
        })
    }

    /// Passes the gate of a load, for a run of the skill.
    #[cfg(feature = "run")]
    pub(crate) fn open_to_run(&self, entry: &Arc<SkillEntry>) -> Operation<()> {
        let (view, entry) = (self.clone(), Arc::clone(entry));
        Operation::new(self.engine(), |io| async move { view.pass_gate(&io, &entry, None).await.map(drop) })
    }

    /// Whether a rule or an approval allows to show a text without asking.
    pub(crate) fn may_show(&self, entry: &SkillEntry, text: &SkillText) -> bool {
        let permissions = self.engine().permissions();
        entry.published().is_none() && permissions.decide(&bound_question(text)).decision == Decision::Allow
    }
}

/// A question about a skill, bound to its text and its location.
fn bound_question(text: &SkillText) -> Question {
    Question::new(Kind::SKILL, text.skill.name.as_str()).binding(text.identity().to_string())
}
