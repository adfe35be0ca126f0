//! Loading and unloading.

use std::sync::Arc;

use prowess_catalog::published::Published;
use prowess_catalog::skill::SkillContext;
use prowess_catalog::{Resources, Root, SkillEntry, SkillText};
use prowess_permission::Kind;

use crate::call::ForkedSkill;
use crate::delta::{LoadedFrom, LoadedSkill, ResourceMetadata, SelectMode, SkillDelta, UnloadReason};
use crate::documents::{Chosen, DocumentChoice};
use crate::engine::SkillEngine;
use crate::error::{SkillError, safe};
use crate::options::{Placement, SessionOptions};
use crate::refresh::told;
use crate::render::{self, FramedText};
use crate::secret::Secret;
use crate::session::SkillAnswer;
use crate::state::{Conflict, SkillState};
use crate::step::{Io, Operation};
use crate::view::SkillView;

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
    /// Whether a skill that is loaded gets this text in the place of the one it had.
    reloads: bool,
    /// Nothing when it was loaded already, for a model.
    fresh: Option<Fresh>,
    chosen: Option<Chosen>,
}

#[derive(Debug)]
struct Fresh {
    skill: LoadedSkill,
    resources: Vec<ResourceMetadata>,
    heading: String,
    instructions: Arc<FramedText>,
}

impl SkillView {
    /// Loads a skill for the model, with arguments if it takes some, and with some of its documents if there is a choice.
    /// Where a skill is loaded again to change its documents, a loaded one gets these in the place of those it had.
    ///
    /// In this order: it must be known to this agent, not be loaded, and find a free slot; then the gate is asked, the
    /// document read, and its resources looked for. [`PreparedLoad::finish`] gives what changes.
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
            PreparedLoad { engine, name: name.to_owned(), reloads: false, fresh: None, chosen: None };
        // Other arguments are another text; the same ones, or none, are what the model has.
        let is_given_anew = arguments.is_some()
            && state.get(name).is_some_and(|loaded| loaded.arguments.as_deref() != arguments);
        prepared.reloads = caller == Caller::Person || is_given_anew;
        if is_loaded && !prepared.reloads {
            if let Some(choice) = documents.filter(|_| options.dialect.reselects()) {
                prepared.chosen = Some(self.choose(io, name, SelectMode::Replace, choice).await?);
            }
            return Ok(prepared);
        }
        let inline = entry.skill.extensions.context == SkillContext::Inline;
        if inline && !is_loaded && state.loaded().len() >= options.budgets.max_loaded_skills {
            return Err(limit_reached(options, name, state));
        }
        let read = self.pass_gate(io, entry, arguments).await?;
        let (text, resources) = self.text_and_resources(io, entry, read).await?;
        prepared.fresh = Some(self.fresh(entry, &text, arguments, resources)?);
        if let Some(choice) = documents {
            prepared.chosen = Some(self.chosen(io, entry, SelectMode::Replace, choice, &[]).await?);
        }
        Ok(prepared)
    }

    /// A skill's text, unless it was read for its gate, and its files, unless eager discovery has them.
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
            (Some(text), None) => (text, told(entry, &io.resources(entry, depth).await?)),
            (None, None) => {
                let (text, resources) = io.text_and_resources(entry, depth).await?;
                (text, told(entry, &resources))
            }
        })
    }

    /// A skill that no list has, from a server that has it. What the server is asked was a model's idea: so it passes
    /// the gate first.
    async fn look_up(&self, io: &Io, name: &str) -> Result<(Self, Arc<SkillEntry>), SkillError> {
        let catalog = self.known().view.catalog();
        let name_here = published_name(name);
        let is_server = |label: &str| {
            let root = Root::server(label);
            catalog.roots().any(|known| **known == root)
        };
        let Some((server, _)) = name.split_once(':').filter(|(server, _)| is_server(server)) else {
            return Ok((self.clone(), self.visible_to_model(name)?));
        };
        if let Ok(entry) = self.visible_to_model(&name_here) {
            return Ok((self.clone(), entry));
        }
        self.pass_look_up_gate(io, server, name, &name_here).await?;
        if let Some(catalog) = io.look_up(name, catalog).await? {
            self.engine().take_catalog_of(self.known(), &catalog, self.state());
            self.engine().discover(io).await?;
        }
        let now = self.engine().at_shared(self.state());
        let entry = now.visible_to_model(&name_here)?;
        Ok((now, entry))
    }

    fn fresh(
        &self,
        entry: &SkillEntry,
        text: &SkillText,
        arguments: Option<&str>,
        resources: Vec<ResourceMetadata>,
    ) -> Result<Fresh, SkillError> {
        let engine = self.engine();
        let dialect = engine.options().dialect;
        let framed = render::instructions(entry, text, arguments, dialect, engine.secret())?;
        let heading = dialect.heading(entry.skill.name.as_str(), entry.skill.location.directory());
        let skill = loaded_skill(engine.options(), entry, text, arguments, &framed, &heading, &resources);
        Ok(Fresh { skill, resources, heading, instructions: Arc::new(framed) })
    }

    /// Unloads a skill, with its resources and documents.
    ///
    /// # Errors
    ///
    /// When it is not loaded.
    pub fn unload(&self, name: &str) -> Result<SkillAnswer, SkillError> {
        let engine = self.engine();
        let deltas = vec![SkillDelta::Unloaded { name: name.to_owned(), reason: UnloadReason::Asked }];
        let after = engine
            .after(self.state(), &deltas)
            .map_err(|conflict| rejected(engine.options(), name, &deltas, conflict, self.state()))?;
        engine.log(&deltas, &after);
        engine.keep(&after, []);
        let loaded = after.loaded().len();
        let most = engine.options().budgets.max_loaded_skills;
        let options = engine.options();
        let note = options.dialect.unload_note(options.placement, options.unloaded_text);
        let free = most.saturating_sub(loaded);
        let text = format!(
            "Skill '{}' has been unloaded. Currently loaded: {loaded}/{most} ({free} slot(s) available). \
             Note: {note}",
            safe(name)
        );
        Ok(SkillAnswer { text, deltas, ..SkillAnswer::default() })
    }
}

fn limit_reached(options: &SessionOptions, name: &str, state: &SkillState) -> SkillError {
    let limit = options.budgets.max_loaded_skills;
    let loaded: Vec<String> = state.names().map(str::to_owned).collect();
    let count = loaded.len();
    tracing::warn!(skill = name, loaded = count, limit, "Skill loading limit reached ({count}/{limit})");
    SkillError::LimitReached { name: name.to_owned(), limit, loaded, dialect: options.dialect }
}

/// What to say when the state did not take `deltas`.
pub(crate) fn rejected(
    options: &SessionOptions,
    name: &str,
    deltas: &[SkillDelta],
    conflict: Conflict,
    state: &SkillState,
) -> SkillError {
    match conflict {
        Conflict::LimitReached => limit_reached(options, name, state),
        Conflict::OverBudget => {
            let selects_only = deltas.iter().all(|delta| matches!(delta, SkillDelta::Selected { .. }));
            SkillError::OverBudget {
                what: if selects_only { OverBudget::Documents } else { OverBudget::Skill },
                tokens: deltas.iter().map(tokens_of).sum(),
                budget: options.budgets.max_loaded_tokens.unwrap_or(usize::MAX),
                loaded: state.names().map(|name| (name.to_owned(), state.tokens_of(name))).collect(),
                name: name.to_owned(),
                dialect: options.dialect,
            }
        }
        Conflict::TooManyDocuments => {
            let left_out = deltas.iter().flat_map(documents_of).collect();
            let most = options.budgets.max_document_bytes;
            SkillError::TooManyDocuments { name: name.to_owned(), most, left_out }
        }
        Conflict::NotLoaded | Conflict::AlreadyLoaded | Conflict::Outdated => {
            let loaded = state.names().map(str::to_owned).collect();
            SkillError::NotLoaded { name: name.to_owned(), loaded }
        }
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

/// How many tokens a skill takes once it is loaded, as a session with these options counts them: its text in its frame,
/// and what the session says around it. Nothing is loaded, and nobody is asked.
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
/// let session = SkillSession::builder(catalog.clone()).options(options).start().await;
/// session.load("greet", None).await?;
/// assert_eq!(session.state().loaded()[0].tokens, tokens);
/// # Ok(())
/// # }
/// ```
///
/// # Errors
///
/// The text grows too long when it is put in its frame.
pub fn loaded_tokens(
    entry: &SkillEntry,
    text: &SkillText,
    resources: &Resources,
    options: &SessionOptions,
) -> Result<usize, SkillError> {
    // All secrets make frames of one length.
    let framed = render::instructions(entry, text, None, options.dialect, &Secret::random())?;
    let heading = options.dialect.heading(entry.skill.name.as_str(), entry.skill.location.directory());
    Ok(tokens(options, &heading, &framed, &told(entry, resources)))
}

fn tokens(
    options: &SessionOptions,
    heading: &str,
    framed: &FramedText,
    resources: &[ResourceMetadata],
) -> usize {
    let count = |text: &str| options.tokens.count(text);
    count(heading) + count(&framed.text) + count(&render::resource_summary(resources))
}

/// The name of a server's skill, when it is called by its address there: `docs:skill://pdf/SKILL.md` is `docs:pdf`.
fn published_name(name: &str) -> String {
    match name.split_once(':') {
        Some((server, uri)) if uri.contains("://") => Published::name_of(server, uri),
        _ => name.to_owned(),
    }
}

/// Which server's skill this is, and as what it publishes it.
pub(crate) fn loaded_from(entry: &SkillEntry) -> Option<Box<LoadedFrom>> {
    let published = entry.published()?;
    Some(Box::new(LoadedFrom { server: published.server.clone(), digest: published.digest() }))
}

impl PreparedLoad {
    /// What changes, and what the model reads, if there is room for it in `state`, and nobody has denied it meanwhile.
    ///
    /// # Errors
    ///
    /// A limit is reached, or a rule has come. Nothing changes then.
    pub fn finish(self, state: &SkillState) -> Result<SkillAnswer, SkillError> {
        let permissions = self.engine.permissions();
        let is_servers = self.fresh.as_ref().is_some_and(|fresh| fresh.skill.from.is_some());
        if permissions.is_denied(&Kind::SKILL, &self.name)
            || (is_servers && permissions.is_denied(&Kind::MCP_SKILL, &self.name))
        {
            return Err(self.engine.at(state).not_found(&self.name));
        }
        let is_loaded = state.get(&self.name).is_some();
        let Some(deltas) = self.deltas(is_loaded) else {
            // A call before this one may have unloaded it.
            let not_loaded = || self.engine.at(state).not_loaded(&self.name);
            return if is_loaded { Ok(already_loaded(&self.name)) } else { Err(not_loaded()) };
        };
        let after = self
            .engine
            .after(state, &deltas)
            .map_err(|conflict| rejected(self.engine.options(), &self.name, &deltas, conflict, state))?;
        self.engine.log(&deltas, &after);
        self.engine.keep(&after, self.texts(loads(&deltas)));
        Ok(SkillAnswer { text: self.answer(&deltas, &after), deltas, ..SkillAnswer::default() })
    }

    /// What a sub-agent is given, if the skill wants one.
    pub(crate) fn forked(&self) -> Option<ForkedSkill> {
        let fresh = self.fresh.as_ref()?;
        let known = self.engine.known();
        let extensions = &known.view.get(&self.name)?.skill.extensions;
        (extensions.context == SkillContext::Fork).then(|| ForkedSkill {
            name: self.name.clone(),
            agent: extensions.agent.clone(),
            arguments: fresh.skill.arguments.clone(),
            instructions: fresh.instructions.text.clone(),
            deltas: self.deltas(false).unwrap_or_default(),
        })
    }

    /// What has to change, if anything has.
    fn deltas(&self, is_loaded: bool) -> Option<Vec<SkillDelta>> {
        let chosen = self.chosen.as_ref().map(|chosen| chosen.delta.clone());
        let (skill, resources) = match &self.fresh {
            Some(fresh) if !is_loaded || self.reloads => (fresh.skill.clone(), fresh.resources.clone()),
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

    fn texts(&self, loads: bool) -> Vec<Arc<FramedText>> {
        let instructions = self.fresh.as_ref().filter(|_| loads).map(|fresh| &fresh.instructions);
        let documents = self.chosen.iter().flat_map(|chosen| chosen.texts.values());
        instructions.into_iter().chain(documents).cloned().collect()
    }

    fn answer(&self, deltas: &[SkillDelta], after: &SkillState) -> String {
        let loaded = self.fresh.as_ref().filter(|_| loads(deltas)).map(|fresh| {
            match self.engine.placement_of(fresh.skill.from.is_some()) {
                Placement::ToolAnswer => {
                    let summary = render::resource_summary(&fresh.resources);
                    [fresh.heading.as_str(), &fresh.instructions.text, &summary].concat()
                }
                Placement::SystemMessage => {
                    format!(
                        "Skill '{}' is loaded. Its instructions are in the system message.",
                        safe(&self.name)
                    )
                }
            }
        });
        let is_servers = after.get(&self.name).is_some_and(|skill| skill.from.is_some());
        let placement = self.engine.placement_of(is_servers);
        let selected = self.chosen.as_ref().map(|chosen| chosen.text(&self.name, placement));
        loaded.into_iter().chain(selected).collect::<Vec<_>>().join("\n\n")
    }
}

/// Whether a skill's instructions come in with `deltas`, and not only documents.
fn loads(deltas: &[SkillDelta]) -> bool {
    !matches!(deltas.first(), Some(SkillDelta::Selected { .. }))
}

/// What does not fit into the budget of tokens.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum OverBudget {
    /// A skill, with the documents that it was to be loaded with.
    Skill,
    /// Documents of a loaded skill.
    Documents,
}

fn already_loaded(name: &str) -> SkillAnswer {
    let text = format!("Skill '{}' is already loaded. Its instructions are already active.", safe(name));
    SkillAnswer { text, ..SkillAnswer::default() }
}

fn documents_of(delta: &SkillDelta) -> Vec<String> {
    match delta {
        SkillDelta::Selected { documents, .. } => documents.iter().map(|found| found.path.clone()).collect(),
        _ => Vec::new(),
    }
}

fn tokens_of(delta: &SkillDelta) -> usize {
    match delta {
        SkillDelta::Loaded { skill, .. } | SkillDelta::Reloaded { skill, .. } => skill.tokens,
        SkillDelta::Selected { documents, .. } => documents.iter().map(|document| document.tokens).sum(),
        SkillDelta::DocumentChanged { document, .. } => document.as_ref().map_or(0, |found| found.tokens),
        SkillDelta::Unloaded { .. } | SkillDelta::Led { .. } | SkillDelta::Offered { .. } => 0,
    }
}
