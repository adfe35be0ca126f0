//! Loading a skill: the gate, the text, the resources and the documents.

use std::sync::Arc;

use prowess_catalog::skill::SkillContext;
use prowess_catalog::untrusted::code_text;
use prowess_catalog::{Resources, SkillEntry, SkillText};
use prowess_permission::Kind;

use crate::answer::SkillAnswer;
use crate::call::ForkedSkill;
use crate::conflict::{conflict_error, limit_reached};
use crate::delta::{LoadedFrom, LoadedSkill, ResourceMetadata, SelectMode, SkillDelta};
use crate::documents::{ChosenDocuments, DocumentChoice};
use crate::engine::SkillEngine;
use crate::error::SkillError;
use crate::framing::{self, FramedText};
use crate::operation::{Io, Operation};
use crate::options::{Placement, SessionOptions};
use crate::secret::Secret;
use crate::state::SkillState;
use crate::view::SkillView;

/// How many levels of a skill's directories are listed when the skill is loaded, by default.
pub const DEFAULT_RESOURCE_DEPTH: usize = 1;

/// Who wants to load or run a skill.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Caller {
    Model,
    Person,
}

/// A skill that has passed the gate and was read, but is not loaded yet.
///
/// You can prepare several skills at once. If you finish them in the order of the calls, it is certain which of them gets
/// the last free slot.
///
/// ```
/// use prowess_permission::NoAsker;
/// use prowess_skills::{LocalFiles, Outcome, SkillEngine, SkillState};
///
/// # use prowess_catalog::{Catalog, Root, ScanOptions};
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
/// # let scratch = tempfile::tempdir()?;
/// # std::fs::create_dir(scratch.path().join("greet"))?;
/// # let manifest = "---\nname: greet\ndescription: Says hello.\n---\nWave.\n";
/// # std::fs::write(scratch.path().join("greet/SKILL.md"), manifest)?;
/// # let catalog = Catalog::discover(&[Root::explicit(scratch.path())], &ScanOptions::default());
/// let (engine, mut state) = (SkillEngine::new(&catalog), SkillState::default());
/// let load = engine.at(&state).load("greet", None, None);
/// let Outcome::Done(prepared) = load.drive(&LocalFiles, &NoAsker).await else { unreachable!() };
/// let answer = prepared.finish(&state)?;
/// assert!(answer.text.contains("Wave.") && state.loaded().is_empty());
/// state.replay(&answer.deltas).unwrap();
/// assert_eq!(state.loaded()[0].name, "greet");
/// # Ok(())
/// # }
/// ```
#[derive(Debug)]
#[must_use = "a prepared skill is not loaded until `finish`"]
pub struct PreparedLoad {
    engine: SkillEngine,
    name: String,
    /// Whether this text replaces the text of a loaded skill.
    reloads: bool,
    /// `None` if the skill was loaded already.
    text: Option<ReadSkill>,
    chosen: Option<ChosenDocuments>,
}

/// A skill's text as the model will read it.
#[derive(Debug)]
struct ReadSkill {
    skill: LoadedSkill,
    resources: Vec<ResourceMetadata>,
    heading: String,
    instructions: Arc<FramedText>,
}

impl SkillView {
    /// Loads a skill for the model, with optional arguments and documents. In a dialect that selects documents by loading
    /// again, the documents replace those of a loaded skill.
    ///
    /// The steps are: the skill must be visible to the agent, not be loaded, and find a free slot. Then it passes the gate,
    /// and its manifest and its resources are read. [`PreparedLoad::finish`] returns the changes.
    pub fn load(
        &self,
        name: &str,
        arguments: Option<&str>,
        documents: Option<DocumentChoice>,
    ) -> Operation<PreparedLoad> {
        let (view, name, arguments) = (self.clone(), name.to_owned(), arguments.map(str::to_owned));
        Operation::new(self.engine(), |io| async move {
            let (view, entry) = match view.visible_to_model(&name) {
                Err(SkillError::NotFound { .. }) => view.look_up(&io, &name).await?,
                found => (view.clone(), found?),
            };
            view.prepare(&io, &entry, arguments.as_deref(), documents, Caller::Model).await
        })
    }

    pub(crate) async fn prepare(
        &self,
        io: &Io,
        entry: &Arc<SkillEntry>,
        arguments: Option<&str>,
        documents: Option<DocumentChoice>,
        caller: Caller,
    ) -> Result<PreparedLoad, SkillError> {
        let name = entry.skill.name.as_str();
        let (state, options) = (self.state(), self.engine().options());
        let is_loaded = state.get(name).is_some();
        let engine = self.engine().clone();
        let mut prepared =
            PreparedLoad { engine, name: name.to_owned(), reloads: false, text: None, chosen: None };
        // Other arguments give another text. With the same arguments, or none, the model has the text.
        let has_new_arguments = arguments.is_some()
            && state.get(name).is_some_and(|loaded| loaded.arguments.as_deref() != arguments);
        prepared.reloads = caller == Caller::Person || has_new_arguments;
        if is_loaded && !prepared.reloads {
            if let Some(choice) = documents.filter(|_| options.dialect.reselects()) {
                prepared.chosen =
                    Some(self.read_documents_of_loaded(io, name, SelectMode::Replace, choice).await?);
            }
            return Ok(prepared);
        }
        let inline = entry.skill.extensions.context == SkillContext::Inline;
        if inline && !is_loaded && state.loaded().len() >= options.budgets.max_loaded_skills {
            return Err(limit_reached(options, name, state));
        }
        let read = self.pass_gate(io, entry, arguments).await?;
        let (text, resources) = self.text_and_resources(io, entry, read).await?;
        prepared.text = Some(self.read_skill(entry, &text, arguments, resources)?);
        if let Some(choice) = documents {
            prepared.chosen = Some(self.read_documents(io, entry, SelectMode::Replace, choice, &[]).await?);
        }
        Ok(prepared)
    }

    /// Reads a skill's text, unless the gate has read it, and its resources, unless eager discovery has them.
    async fn text_and_resources(
        &self,
        io: &Io,
        entry: &Arc<SkillEntry>,
        read: Option<SkillText>,
    ) -> Result<(SkillText, Vec<ResourceMetadata>), SkillError> {
        let depth = self.engine().options().resource_depth;
        let found = self.engine().discovered_for_load(entry.skill.name.as_str());
        Ok(match (read, found) {
            (Some(text), Some(found)) => (text, found),
            (None, Some(found)) => (io.text(entry).await?, found),
            (Some(text), None) => {
                (text, ResourceMetadata::of_skill(entry, &io.resources(entry, depth).await?))
            }
            (None, None) => {
                let (text, resources) = io.text_and_resources(entry, depth).await?;
                (text, ResourceMetadata::of_skill(entry, &resources))
            }
        })
    }

    fn read_skill(
        &self,
        entry: &SkillEntry,
        text: &SkillText,
        arguments: Option<&str>,
        resources: Vec<ResourceMetadata>,
    ) -> Result<ReadSkill, SkillError> {
        let engine = self.engine();
        let dialect = engine.options().dialect;
        let framed = framing::instructions(entry, text, arguments, dialect, engine.secret())?;
        let heading = dialect.heading(entry.skill.name.as_str(), entry.skill.location.directory());
        let skill = loaded_skill(engine.options(), entry, text, arguments, &framed, &heading, &resources);
        Ok(ReadSkill { skill, resources, heading, instructions: Arc::new(framed) })
    }
}

pub(crate) fn loaded_skill(
    options: &SessionOptions,
    entry: &SkillEntry,
    text: &SkillText,
    arguments: Option<&str>,
    framed: &FramedText,
    heading: &str,
    resources: &[ResourceMetadata],
) -> LoadedSkill {
    LoadedSkill {
        name: text.skill.name.to_string(),
        location: text.skill.location.clone(),
        digest: text.digest,
        tokens: tokens(options, heading, framed, resources),
        nonce: framed.nonce.clone(),
        lifetime: options.lifetime,
        allowed_tools: text.skill.allowed_tools.clone(),
        arguments: arguments.map(str::to_owned),
        from: loaded_from(entry),
    }
}

/// How many tokens a skill takes when a session with these options loads it: its framed text, and the text that the session
/// adds. It loads nothing and asks nobody.
///
/// ```
/// use prowess_catalog::{Catalog, Root, ScanOptions};
/// use prowess_skills::load::loaded_tokens;
/// use prowess_skills::{SessionOptions, SkillSession};
///
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
/// # let scratch = tempfile::tempdir()?;
/// # std::fs::create_dir(scratch.path().join("greet"))?;
/// # let manifest = "---\nname: greet\ndescription: Says hello.\n---\nWave.\n";
/// # std::fs::write(scratch.path().join("greet/SKILL.md"), manifest)?;
/// # let catalog = Catalog::discover(&[Root::explicit(scratch.path())], &ScanOptions::default());
/// let entry = catalog.get("greet").unwrap();
/// let (text, options) = (entry.read_text()?, SessionOptions::default());
/// let tokens = loaded_tokens(entry, &text, &entry.resources(options.resource_depth), &options)?;
///
/// let session = SkillSession::builder(catalog.clone()).options(options).build().await;
/// session.load("greet", None).await?;
/// assert_eq!(session.state().loaded()[0].tokens, tokens);
/// # Ok(())
/// # }
/// ```
///
/// # Errors
///
/// The text is too long after its variables are expanded.
pub fn loaded_tokens(
    entry: &SkillEntry,
    text: &SkillText,
    resources: &Resources,
    options: &SessionOptions,
) -> Result<usize, SkillError> {
    // The length of a frame does not depend on the secret.
    let framed = framing::instructions(entry, text, None, options.dialect, &Secret::random())?;
    let heading = options.dialect.heading(entry.skill.name.as_str(), entry.skill.location.directory());
    Ok(tokens(options, &heading, &framed, &ResourceMetadata::of_skill(entry, resources)))
}

fn tokens(
    options: &SessionOptions,
    heading: &str,
    framed: &FramedText,
    resources: &[ResourceMetadata],
) -> usize {
    let count = |text: &str| options.tokens.count(text);
    count(heading) + count(&framed.text) + count(&framing::resource_summary(resources))
}

/// The server that publishes a skill, and the digest of what it publishes.
pub(crate) fn loaded_from(entry: &SkillEntry) -> Option<Box<LoadedFrom>> {
    let published = entry.published()?;
    Some(Box::new(LoadedFrom { server: published.server.clone(), digest: published.digest() }))
}

impl PreparedLoad {
    /// The changes, and the text for the model.
    ///
    /// # Errors
    ///
    /// `state` has no room for it, or a new rule denies it. Nothing changes.
    pub fn finish(self, state: &SkillState) -> Result<SkillAnswer, SkillError> {
        let permissions = self.engine.permissions();
        let is_server_skill = self.text.as_ref().is_some_and(|text| text.skill.from.is_some());
        if permissions.is_denied(&Kind::SKILL, &self.name)
            || (is_server_skill && permissions.is_denied(&Kind::MCP_SKILL, &self.name))
        {
            return Err(self.engine.at(state).not_found(&self.name));
        }
        let is_loaded = state.get(&self.name).is_some();
        let Some(deltas) = self.deltas(is_loaded) else {
            // An earlier call may have unloaded it.
            let not_loaded = || self.engine.at(state).not_loaded(&self.name);
            return if is_loaded { Ok(already_loaded(&self.name)) } else { Err(not_loaded()) };
        };
        let after = self.engine.after(state, &deltas).map_err(|conflict| {
            conflict_error(self.engine.options(), &self.name, &deltas, conflict, state)
        })?;
        self.engine.log(&deltas, &after);
        self.engine.cache_texts(&after, self.texts(has_instructions(&deltas)));
        Ok(SkillAnswer { text: self.answer(&deltas, &after), deltas, ..SkillAnswer::default() })
    }

    /// The task for a sub-agent, if the skill says `context: fork`. If you have sub-agents, give it to one and drop this load.
    pub fn forked(&self) -> Option<ForkedSkill> {
        let text = self.text.as_ref()?;
        let visible = self.engine.visible();
        let extensions = &visible.view.get(&self.name)?.skill.extensions;
        (extensions.context == SkillContext::Fork).then(|| ForkedSkill {
            name: self.name.clone(),
            agent: extensions.agent.clone(),
            arguments: text.skill.arguments.clone(),
            instructions: text.instructions.text.clone(),
            deltas: self.deltas(false).unwrap_or_default(),
        })
    }

    /// The changes; `None` if nothing changes.
    fn deltas(&self, is_loaded: bool) -> Option<Vec<SkillDelta>> {
        let chosen = self.chosen.as_ref().map(|chosen| chosen.delta.clone());
        let (skill, resources) = match &self.text {
            Some(text) if !is_loaded || self.reloads => (text.skill.clone(), text.resources.clone()),
            _ => {
                return chosen
                    .filter(|_| self.engine.options().dialect.reselects())
                    .map(|chosen| vec![chosen]);
            }
        };
        let load = if is_loaded {
            SkillDelta::Reloaded { skill, resources }
        } else {
            SkillDelta::Loaded { skill, resources }
        };
        Some([load].into_iter().chain(chosen).collect())
    }

    /// The framed texts, to cache them.
    fn texts(&self, has_instructions: bool) -> Vec<Arc<FramedText>> {
        let instructions = self.text.as_ref().filter(|_| has_instructions).map(|text| &text.instructions);
        let documents = self.chosen.iter().flat_map(|chosen| chosen.texts.values());
        instructions.into_iter().chain(documents).cloned().collect()
    }

    fn answer(&self, deltas: &[SkillDelta], after: &SkillState) -> String {
        let loaded = self.text.as_ref().filter(|_| has_instructions(deltas)).map(|text| {
            match self.engine.placement_of(text.skill.from.is_some()) {
                Placement::ToolAnswer => {
                    let summary = framing::resource_summary(&text.resources);
                    [text.heading.as_str(), &text.instructions.text, &summary].concat()
                }
                Placement::SystemMessage => {
                    format!(
                        "Skill '{}' is loaded. Its instructions are in the system message.",
                        code_text(&self.name)
                    )
                }
            }
        });
        let is_server_skill = after.get(&self.name).is_some_and(|skill| skill.from.is_some());
        let placement = self.engine.placement_of(is_server_skill);
        let selected = self.chosen.as_ref().map(|chosen| chosen.text(&self.name, placement));
        loaded.into_iter().chain(selected).collect::<Vec<_>>().join("\n\n")
    }
}

/// Whether `deltas` bring in instructions, not only documents.
fn has_instructions(deltas: &[SkillDelta]) -> bool {
    !matches!(deltas.first(), Some(SkillDelta::Selected { .. }))
}

/// What exceeds the budget of tokens.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum OverBudget {
    /// A skill and the documents to load with it.
    Skill,
    /// Documents of a loaded skill.
    Documents,
}

fn already_loaded(name: &str) -> SkillAnswer {
    let text = format!("Skill '{}' is already loaded. Its instructions are already active.", code_text(name));
    SkillAnswer { text, ..SkillAnswer::default() }
}
