//! The permission gate in front of a skill's text.

use std::sync::Arc;

use prowess_catalog::{Published, SkillEntry, SkillText, one_line};
use prowess_permission::{Decision, Kind, Request, quoted};
use serde_json::{Value, json};

use crate::error::SkillError;
use crate::session::SkillSession;

impl SkillSession {
    /// Passes the gate for a load. Gives the text if it had to be read for that.
    ///
    /// What a person is asked about is bound to what the document says and where it is, so it is read
    /// before the question, and shown to nobody: the text that was approved is the text that is loaded. If
    /// it cannot be read, the gate still answers first.
    pub(crate) async fn pass_gate(
        &self,
        entry: &Arc<SkillEntry>,
        arguments: Option<&str>,
    ) -> Result<Option<SkillText>, SkillError> {
        let name = entry.skill.name.as_str();
        let refused = |refusal| SkillError::Refused { name: name.to_owned(), refusal };
        if let Some(published) = entry.published() {
            let request = self.server_request(published, name, "load the skill").with_details(json!({
                "skill": name,
                "server": published.server,
                "uri": published.uri,
                "description": entry.skill.description,
                "files": published.files.len(),
                "bytes": published.bytes(),
                "digest": published.digest(),
                "arguments": arguments,
                "while": self.others_at_work(&published.server),
            }));
            self.permissions().request(request).await.map_err(refused)?;
            return Ok(None);
        }
        // An answer to a question without a digest is not to be remembered.
        let plain = Request::new(Kind::SKILL, name)
            .titled(format!(
                "load the skill in {}: {}",
                quoted(entry.skill.location.directory()),
                quoted(name)
            ))
            .always([]);
        if self.permissions().policy().evaluate(&plain).decision != Decision::Ask {
            self.permissions().request(plain).await.map_err(refused)?;
            return Ok(None);
        }
        let text = match self.read(entry).await {
            Ok(text) => text,
            Err(error) => {
                self.permissions().request(plain).await.map_err(refused)?;
                return Err(error);
            }
        };
        let request = bound(&text).titled(plain.title).with_details(json!({
            "skill": name,
            "location": entry.skill.location,
            "origin": entry.root.label,
            "digest": text.digest,
            "arguments": arguments,
        }));
        self.permissions().request(request).await.map_err(refused)?;
        Ok(Some(text))
    }

    /// A request for a skill of a server: bound to all that the server said of its files, so that nothing has to be
    /// fetched to ask. While the model has words of another server's skill, it is asked about each time.
    fn server_request(&self, published: &Published, name: &str, act: &str) -> Request {
        let others = self.others_at_work(&published.server);
        let at_work = match others.as_slice() {
            [] => String::new(),
            others => format!(", while the model works with {}", others.join(", ")),
        };
        let request = Request::new(Kind::MCP_SKILL, name)
            .titled(format!(
                "{act} {} of the MCP server {}{at_work}",
                quoted(name),
                one_line(&published.server)
            ))
            .bound_to(format!("{} {}", published.digest(), published.uri));
        if others.is_empty() { request } else { request.each_time() }
    }

    /// Passes the gate for asking a server about a skill that it does not list. What is denied is not asked about.
    pub(crate) async fn pass_look_up_gate(
        &self,
        server: &str,
        name: &str,
        name_here: &str,
    ) -> Result<(), SkillError> {
        let permissions = self.permissions();
        if [Kind::SKILL, Kind::MCP_SKILL].iter().any(|kind| permissions.is_denied(kind, name_here)) {
            return Err(self.not_found(name));
        }
        let at_work = self.servers_at_work();
        let is_led = !at_work.is_empty();
        let mut request = Request::new(Kind::MCP_SKILL, name_here)
            .titled(format!("ask the MCP server {} for a skill {}", one_line(server), quoted(name)))
            .with_details(json!({"server": server, "asked": name, "while": at_work}))
            .always([]);
        if is_led {
            request = request.each_time();
        }
        let refused = |refusal| SkillError::Refused { name: name.to_owned(), refusal };
        permissions.request(request).await.map(drop).map_err(refused)
    }

    /// The skills of other servers whose words the model has, in words.
    fn others_at_work(&self, server: &str) -> Vec<String> {
        let state = self.state();
        let others = state.from_servers().into_iter().filter(|(_, other)| *other != server);
        others.map(|(name, other)| format!("{} of {}", quoted(name), one_line(other))).collect()
    }

    /// The skills of servers whose words the model has: whatever is run meanwhile is asked about.
    pub fn servers_at_work(&self) -> Vec<String> {
        self.state().from_servers().into_keys().map(str::to_owned).collect()
    }

    /// Passes the gate for reading files of a server's skill that is loaded, which is open unless another server's skill
    /// is at work.
    pub(crate) async fn pass_document_gate(
        &self,
        entry: &SkillEntry,
        what: &Value,
    ) -> Result<(), SkillError> {
        let Some(published) = entry.published() else { return Ok(()) };
        let name = entry.skill.name.as_str();
        if self.others_at_work(&published.server).is_empty() {
            return Ok(());
        }
        let request = self.server_request(published, name, "read documents of the skill");
        let details = json!({"skill": name, "server": published.server, "documents": what});
        let refused = |refusal| SkillError::Refused { name: name.to_owned(), refusal };
        self.permissions().request(request.with_details(details)).await.map(drop).map_err(refused)
    }

    /// A skill whose files may be read, for a host that hands them on: the gate is passed as for a load, each time.
    /// Where somebody was asked, the text comes with it that was approved: it is the one to hand on.
    ///
    /// # Errors
    ///
    /// There is no such skill for this agent, or the gate does not let it pass.
    pub async fn open_to_read(&self, name: &str) -> Result<(Arc<SkillEntry>, Option<SkillText>), SkillError> {
        let known = self.known();
        let Some(entry) = known.view.get(name) else {
            let available = known.view.names().map(ToOwned::to_owned).collect();
            let (name, dialect) = (name.to_owned(), self.options().dialect);
            return Err(SkillError::NotFound { name, available, dialect });
        };
        let approved = self.pass_gate(entry, None).await?;
        Ok((Arc::clone(entry), approved))
    }

    /// Whether a text may be shown without asking anybody: a rule allows it, or an approval covers it.
    pub(crate) fn may_show(&self, entry: &SkillEntry, text: &SkillText) -> bool {
        entry.published().is_none() && self.permissions().decide(&bound(text)).decision == Decision::Allow
    }

    pub(crate) async fn read(&self, entry: &Arc<SkillEntry>) -> Result<SkillText, SkillError> {
        let read = self.files().text(entry).await;
        read.map_err(|error| self.unreadable(entry, error))
    }

    pub(crate) fn unreadable(&self, entry: &SkillEntry, error: prowess_catalog::ReadError) -> SkillError {
        let location = &entry.skill.location;
        tracing::error!(skill = entry.skill.name.as_str(), %error, "Failed to read SKILL.md at {location}");
        error.into()
    }
}

/// A request for a skill that only this text in this place answers to.
fn bound(text: &SkillText) -> Request {
    Request::new(Kind::SKILL, text.skill.name.as_str()).bound_to(text.identity().to_string())
}
