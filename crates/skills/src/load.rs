//! Loading and unloading.

use std::sync::Arc;

use prowess_catalog::{ManualSkills, ReadError, SkillEntry, SkillText};
use prowess_permission::{Decision, Kind, Request};
use serde_json::json;

use crate::delta::{LoadedSkill, ResourceMetadata, SelectMode, SkillDelta, UnloadReason};
use crate::dialect::Dialect;
use crate::documents::Choice;
use crate::error::SkillError;
use crate::options::{Placement, UnloadedText};
use crate::render::{self, FramedText};
use crate::session::{self, Answer, LoadedText, SkillSession};
use crate::state::{Conflict, SkillState};

/// Who wants a skill.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Caller {
    Model,
    Person,
}

/// A skill that was read and has passed the gate, and is not loaded yet.
///
/// Reading many at once and finishing them in the order of the calls makes it certain which of them gets
/// the last free slot.
#[derive(Debug)]
#[must_use = "a prepared skill is not loaded until `finish_load`"]
pub struct PreparedLoad(Prepared);

#[derive(Debug)]
pub(crate) enum Prepared {
    /// Nothing has to change.
    Already {
        name: String,
    },
    Ready(Box<Ready>),
}

#[derive(Debug)]
pub(crate) struct Ready {
    name: String,
    deltas: Vec<SkillDelta>,
    text: LoadedText,
    answer: String,
}

impl SkillSession {
    /// Loads a skill for the model, with arguments if it takes some.
    ///
    /// In this order: it must be known to this agent, not be loaded, and find a free slot; then the gate
    /// is asked, the document read, and its resources looked for. Only then the state changes.
    ///
    /// # Errors
    ///
    /// Why it was not loaded. Nothing has changed then.
    pub async fn load(&self, name: &str, arguments: Option<&str>) -> Result<Answer, SkillError> {
        self.load_with_documents(name, arguments, None).await
    }

    /// Loads a skill with some of its documents. In the `trpc` dialect, where a skill is loaded again to
    /// change its documents, a loaded skill gets these in the place of those it had.
    ///
    /// # Errors
    ///
    /// As for [`SkillSession::load`], and when a document is not the skill's or cannot be read.
    pub async fn load_with_documents(
        &self,
        name: &str,
        arguments: Option<&str>,
        documents: Option<Choice>,
    ) -> Result<Answer, SkillError> {
        let reselects = self.options().dialect == Dialect::Trpc;
        if let Some(choice) = documents.clone().filter(|_| reselects)
            && self.visible_to_model(name).is_ok()
            && self.state().get(name).is_some()
        {
            return self.select_documents(name, SelectMode::Replace, choice).await;
        }
        let prepared = self.prepare_load(name, arguments, documents).await?;
        self.finish_load(prepared)
    }

    /// The part of [`SkillSession::load`] that takes time: everything but the change of state.
    ///
    /// # Errors
    ///
    /// As for [`SkillSession::load`].
    pub async fn prepare_load(
        &self,
        name: &str,
        arguments: Option<&str>,
        documents: Option<Choice>,
    ) -> Result<PreparedLoad, SkillError> {
        let entry = self.visible_to_model(name)?;
        self.prepare(&entry, arguments, documents, Caller::Model).await.map(PreparedLoad)
    }

    /// Loads what was prepared, if there is still room for it.
    ///
    /// # Errors
    ///
    /// When a limit was reached meanwhile. Nothing has changed then.
    pub fn finish_load(&self, prepared: PreparedLoad) -> Result<Answer, SkillError> {
        let PreparedLoad(prepared) = prepared;
        let ready = match prepared {
            Prepared::Already { name } => return Ok(already_loaded(&name)),
            Prepared::Ready(ready) => *ready,
        };
        match self.commit_with(&ready.deltas, Some(ready.text)) {
            Ok(()) => Ok(Answer { text: ready.answer, deltas: ready.deltas, data: None }),
            Err(Conflict::AlreadyLoaded) => Ok(already_loaded(&ready.name)),
            Err(conflict) => Err(self.conflict_error(&ready.name, &ready.deltas, conflict)),
        }
    }

    pub(crate) async fn prepare(
        &self,
        entry: &Arc<SkillEntry>,
        arguments: Option<&str>,
        documents: Option<Choice>,
        caller: Caller,
    ) -> Result<Prepared, SkillError> {
        let name = entry.skill.name.as_str();
        let state = self.state();
        let is_loaded = state.get(name).is_some();
        match caller {
            Caller::Model if is_loaded => return Ok(Prepared::Already { name: name.to_owned() }),
            _ if !is_loaded => self.check_limit(name, &state)?,
            _ => {}
        }
        let read = self.pass_gate(entry, arguments).await?;
        let (text, resources) = self.text_and_resources(entry, read).await?;
        let dialect = self.options().dialect;
        let framed = render::instructions(entry, &text, arguments, dialect, self.secret())?;
        let skill = self.loaded_skill(&text, arguments, &framed);
        let mut deltas = vec![if is_loaded {
            SkillDelta::Reloaded { skill }
        } else {
            SkillDelta::Loaded { skill, resources: resources.clone() }
        }];
        let heading = render::heading(entry, dialect);
        let mut kept = LoadedText { heading: heading.clone(), ..LoadedText::default() };
        let mut answer = match self.options().placement {
            Placement::ToolAnswer => {
                [&*heading, &*framed.text, &*render::resource_summary(&resources)].concat()
            }
            Placement::SystemMessage => {
                format!("Skill '{name}' is loaded. Its instructions are in the system message.")
            }
        };
        kept.instructions = Some(Arc::new(framed));
        if let Some(choice) = documents {
            let chosen = self.chosen(entry, SelectMode::Replace, choice).await?;
            answer.push_str("\n\n");
            answer.push_str(&self.selection_text(name, &chosen));
            deltas.push(chosen.delta);
            kept.documents = chosen.texts;
        }
        Ok(Prepared::Ready(Box::new(Ready { name: name.to_owned(), deltas, text: kept, answer })))
    }

    pub(crate) fn finish(&self, prepared: Prepared) -> Result<Answer, SkillError> {
        self.finish_load(PreparedLoad(prepared))
    }

    /// Unloads a skill, with its resources and documents.
    ///
    /// # Errors
    ///
    /// When it is not loaded.
    pub fn unload(&self, name: &str) -> Result<Answer, SkillError> {
        let delta = SkillDelta::Unloaded { name: name.to_owned(), reason: UnloadReason::Asked };
        let deltas = vec![delta];
        self.commit(&deltas).map_err(|conflict| self.conflict_error(name, &deltas, conflict))?;
        let loaded = self.state().loaded().len();
        let most = self.options().budgets.max_loaded_skills;
        let note = self.unload_note();
        let free = most.saturating_sub(loaded);
        let text = format!(
            "Skill '{name}' has been unloaded. Currently loaded: {loaded}/{most} ({free} slot(s) available). \
             Note: {note}"
        );
        Ok(Answer { text, deltas, data: None })
    }

    fn unload_note(&self) -> String {
        let dialect = self.options().dialect;
        let load = dialect.words().load;
        match (self.options().placement, self.options().unloaded_text) {
            // This dialect has no list with marks.
            (Placement::ToolAnswer, UnloadedText::Kept) if dialect == Dialect::OpenCode => format!(
                "The skill's instructions from the previous {load} call are still in the conversation history."
            ),
            (Placement::ToolAnswer, UnloadedText::Kept) => format!(
                "The skill's instructions from the previous {load} call are still in the conversation history \
                 but will no longer be marked as [Loaded] in the skills list."
            ),
            (Placement::ToolAnswer, UnloadedText::Stub) => format!(
                "The skill's instructions from the previous {load} call are removed from the conversation \
                 history."
            ),
            (Placement::SystemMessage, _) => {
                "The skill's instructions are no longer in the system message.".to_owned()
            }
        }
    }

    /// The skill called `name`, if this agent's model may load it.
    pub(crate) fn visible_to_model(&self, name: &str) -> Result<Arc<SkillEntry>, SkillError> {
        let known = self.known();
        let found = known.view.get(name);
        match (found, self.options().manual) {
            (Some(entry), _) if entry.skill.is_model_invocable() => Ok(Arc::clone(entry)),
            (Some(_), ManualSkills::Marked) => Err(SkillError::ManualOnly { name: name.to_owned() }),
            // A person may have loaded it, and then the model knows it.
            (Some(entry), ManualSkills::Hidden) if self.state().get(name).is_some() => Ok(Arc::clone(entry)),
            _ => Err(SkillError::NotFound {
                name: name.to_owned(),
                available: self.offered_names(),
                dialect: self.options().dialect,
            }),
        }
    }

    fn check_limit(&self, name: &str, state: &SkillState) -> Result<(), SkillError> {
        let limit = self.options().budgets.max_loaded_skills;
        if state.loaded().len() < limit {
            return Ok(());
        }
        Err(self.limit_reached(name, state))
    }

    fn limit_reached(&self, name: &str, state: &SkillState) -> SkillError {
        let limit = self.options().budgets.max_loaded_skills;
        let loaded: Vec<String> = state.names().map(str::to_owned).collect();
        let count = loaded.len();
        tracing::warn!(skill = name, loaded = count, limit, "Skill loading limit reached ({count}/{limit})");
        SkillError::LimitReached { name: name.to_owned(), limit, loaded, dialect: self.options().dialect }
    }

    /// What to say when the state did not take `deltas`.
    pub(crate) fn conflict_error(&self, name: &str, deltas: &[SkillDelta], conflict: Conflict) -> SkillError {
        let state = self.state();
        match conflict {
            Conflict::AlreadyLoaded | Conflict::LimitReached => self.limit_reached(name, &state),
            Conflict::NotLoaded => {
                let loaded = state.names().map(str::to_owned).collect();
                SkillError::NotLoaded { name: name.to_owned(), loaded }
            }
            Conflict::OverBudget => SkillError::OverBudget {
                name: name.to_owned(),
                tokens: deltas.iter().map(tokens_of).sum(),
                budget: self.options().budgets.max_loaded_tokens.unwrap_or(usize::MAX),
                loaded: state.names().map(|name| (name.to_owned(), state.tokens_of(name))).collect(),
                dialect: self.options().dialect,
            },
        }
    }

    /// Asks the gate, and gives the document if that took reading it.
    ///
    /// What a person is asked about is bound to what the document says and where it is, so it is read
    /// before the question; one that cannot be read is not asked about. The text that was approved is
    /// the text that is loaded.
    async fn pass_gate(
        &self,
        entry: &Arc<SkillEntry>,
        arguments: Option<&str>,
    ) -> Result<Option<SkillText>, SkillError> {
        let name = entry.skill.name.as_str();
        let request = Request::new(Kind::SKILL, name);
        let read = if self.permissions().policy().evaluate(&request).decision == Decision::Ask {
            Some(self.read(entry).await?)
        } else {
            None
        };
        let request = match &read {
            None => request,
            Some(text) => request
                .bound_to(text.identity().to_string())
                .titled(format!("load skill '{name}' from {}", entry.skill.location))
                .with_details(json!({
                    "skill": name,
                    "location": entry.skill.location,
                    "origin": entry.root.label,
                    "digest": text.digest,
                    "arguments": arguments,
                })),
        };
        let refused = |refusal| SkillError::Refused { name: name.to_owned(), refusal };
        self.permissions().request(request).await.map_err(refused)?;
        Ok(read)
    }

    /// The document and the files of a skill, without looking again for what is known.
    async fn text_and_resources(
        &self,
        entry: &Arc<SkillEntry>,
        read: Option<SkillText>,
    ) -> Result<(SkillText, Vec<ResourceMetadata>), SkillError> {
        let known = self.eager_resources().get(entry.skill.name.as_str()).cloned();
        Ok(match (read, known) {
            (Some(text), Some(resources)) => (text, resources),
            (Some(text), None) => (text, self.discover(entry).await),
            (None, Some(resources)) => (self.read(entry).await?, resources),
            (None, None) => {
                let both = self.files().text_and_resources(entry, self.options().resource_depth).await;
                let (text, resources) = both.map_err(|error| unreadable(entry, error))?;
                (text, session::listed(entry, &resources))
            }
        })
    }

    pub(crate) async fn read(&self, entry: &Arc<SkillEntry>) -> Result<SkillText, SkillError> {
        self.files().text(entry).await.map_err(|error| unreadable(entry, error))
    }

    pub(crate) fn loaded_skill(
        &self,
        text: &SkillText,
        arguments: Option<&str>,
        framed: &FramedText,
    ) -> LoadedSkill {
        LoadedSkill {
            name: text.skill.name.to_string(),
            location: text.skill.location.clone(),
            digest: text.digest,
            tokens: self.options().tokens.count(&framed.text),
            nonce: framed.nonce.clone(),
            lifetime: self.options().lifetime,
            allowed_tools: text.skill.allowed_tools.clone(),
            arguments: arguments.map(str::to_owned),
        }
    }
}

fn unreadable(entry: &SkillEntry, error: ReadError) -> SkillError {
    let location = &entry.skill.location;
    tracing::error!(skill = %entry.skill.name, %error, "Failed to read SKILL.md at {location}");
    SkillError::from(error)
}

fn already_loaded(name: &str) -> Answer {
    let text = format!("Skill '{name}' is already loaded. Its instructions are already active.");
    Answer { text, ..Answer::default() }
}

fn tokens_of(delta: &SkillDelta) -> usize {
    match delta {
        SkillDelta::Loaded { skill, .. } | SkillDelta::Reloaded { skill } => skill.tokens,
        SkillDelta::Selected { documents, .. } => documents.iter().map(|document| document.tokens).sum(),
        SkillDelta::Unloaded { .. } | SkillDelta::Offered { .. } => 0,
    }
}
