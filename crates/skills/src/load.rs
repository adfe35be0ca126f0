//! Loading a skill: the gate, the text, the resources and the documents.

mod finish;

use std::sync::Arc;

use prowess_catalog::skill::SkillContext;
use prowess_catalog::{Resources, SkillEntry, SkillText};

use crate::conflict::limit_reached;
use crate::delta::{LoadedFrom, LoadedSkill, ResourceMetadata, SelectMode};
use crate::documents::{ChosenDocuments, DocumentChoice};
use crate::engine::SkillEngine;
use crate::error::SkillError;
use crate::framing::{self, FramedText};
use crate::operation::{Io, Operation};
use crate::options::SessionOptions;
use crate::secret::Secret;
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
    caller: Caller,
    /// `None` if the model has the text already.
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
        let arguments = arguments.map(str::trim);
        // For a model, no text is no arguments. A person who types `/name` gives none.
        let arguments = arguments.filter(|given| caller == Caller::Person || !given.is_empty());
        let is_loaded = state.get(name).is_some();
        let engine = self.engine().clone();
        let mut prepared = PreparedLoad { engine, name: name.to_owned(), caller, text: None, chosen: None };
        // The documents of another skill do not join the instructions of this one.
        let is_replaced = state.get(name).is_some_and(|loaded| loaded.location != entry.skill.location);
        let only_documents = is_replaced && documents.is_some();
        if caller == Caller::Model && (only_documents || self.has_text(io, entry, arguments).await?) {
            if let Some(choice) = documents.filter(|_| options.dialect.reselects()) {
                prepared.chosen =
                    Some(self.read_documents_of_loaded(io, name, SelectMode::Replace, choice).await?);
            }
            return Ok(prepared);
        }
        let inline = entry.skill.extensions.context == SkillContext::Inline;
        let is_full = state.loaded().len() >= options.budgets.max_loaded_skills && !self.can_evict();
        if inline && !is_loaded && is_full {
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

    /// Whether the skill is loaded with these arguments, and has not changed since.
    async fn has_text(
        &self,
        io: &Io,
        entry: &Arc<SkillEntry>,
        arguments: Option<&str>,
    ) -> Result<bool, SkillError> {
        let Some(loaded) = self.state().get(entry.skill.name.as_str()) else { return Ok(false) };
        // Without arguments, a model means the skill as it is loaded.
        if arguments.is_some_and(|given| loaded.arguments.as_deref() != Some(given))
            || loaded.location != entry.skill.location
        {
            return Ok(false);
        }
        match (entry.published(), &loaded.from) {
            // The list of files is enough, so the server is not asked.
            (Some(published), Some(from)) => Ok(published.digest() == from.digest),
            (Some(_), None) | (None, Some(_)) => Ok(false),
            (None, None) => match io.text(entry).await {
                Ok(text) => Ok(text.digest == loaded.digest),
                Err(SkillError::WrongFeed) => Err(SkillError::WrongFeed),
                // The conversation still has its text.
                Err(_) => Ok(true),
            },
        }
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
        let options = engine.options();
        let framed = framing::instructions(entry, text, arguments, options, engine.secret())?;
        let heading = heading(options, entry);
        let skill = loaded_skill(options, entry, text, arguments, &framed, &heading, &resources);
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
        tokens: tokens(options, entry, heading, framed, resources),
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
    let framed = framing::instructions(entry, text, None, options, &Secret::random())?;
    let heading = heading(options, entry);
    Ok(tokens(options, entry, &heading, &framed, &ResourceMetadata::of_skill(entry, resources)))
}

/// The heading before a skill's text, if the dialect has one.
pub(crate) fn heading(options: &SessionOptions, entry: &SkillEntry) -> String {
    options.dialect.heading(entry.skill.name.as_str(), &options.skill_paths.directory_of(entry))
}

fn tokens(
    options: &SessionOptions,
    entry: &SkillEntry,
    heading: &str,
    framed: &FramedText,
    resources: &[ResourceMetadata],
) -> usize {
    let count = |text: &str| options.tokens.count(text);
    let summary = framing::resource_summary(resources, &entry.skill.location, &options.skill_paths);
    count(heading) + count(&framed.text) + count(&summary)
}

/// The server that publishes a skill, and the digest of what it publishes.
pub(crate) fn loaded_from(entry: &SkillEntry) -> Option<Box<LoadedFrom>> {
    let published = entry.published()?;
    Some(Box::new(LoadedFrom { server: published.server.clone(), digest: published.digest() }))
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
