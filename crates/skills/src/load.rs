//! Loading and unloading.

use std::sync::Arc;

use prowess_catalog::{ManualSkills, Published, Resources, Root, SkillContext, SkillEntry, SkillText};
use prowess_permission::Kind;

use crate::commit::Rejected;
use crate::delta::{LoadedFrom, LoadedSkill, ResourceMetadata, SelectMode, SkillDelta, UnloadReason};
use crate::dialect::Forked;
use crate::documents::{Choice, Chosen};
use crate::error::{SkillError, safe};
use crate::options::{Placement, SessionOptions};
use crate::refresh::told;
use crate::render::{self, FramedText};
use crate::secret::Secret;
use crate::session::{Answer, LoadedText, SkillSession};
use crate::state::{Conflict, SkillState};

/// How often a load that others get in the way of is tried before it says so.
const ATTEMPTS: usize = 16;

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
/// use prowess_skills::SkillSession;
///
/// # use prowess_catalog::{Catalog, Root, ScanOptions};
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
/// # let scratch = tempfile::tempdir()?;
/// # std::fs::create_dir(scratch.path().join("greet"))?;
/// # let manifest = "---\nname: greet\ndescription: Says hello.\n---\nWave.\n";
/// # std::fs::write(scratch.path().join("greet/SKILL.md"), manifest)?;
/// # let catalog = Catalog::discover(&[Root::explicit(scratch.path())], &ScanOptions::default());
/// let session = SkillSession::builder(catalog).start().await;
/// let prepared = session.prepare_load("greet", None, None).await?;
/// assert!(session.state().loaded().is_empty());
/// assert!(prepared.finish()?.text.contains("Wave."));
/// # Ok(())
/// # }
/// ```
#[derive(Debug)]
#[must_use = "a prepared skill is not loaded until `finish`"]
pub struct PreparedLoad {
    session: SkillSession,
    name: String,
    caller: Caller,
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
        self.prepare_load(name, arguments, None).await?.finish()
    }

    /// The part of [`SkillSession::load`] that takes time, everything but the change of state, with some of
    /// the skill's documents if there is a choice. In the `trpc` dialect, where a skill is loaded again to
    /// change its documents, a loaded skill gets these in the place of those it had.
    ///
    /// # Errors
    ///
    /// As for [`SkillSession::load`], and when a document is not the skill's or cannot be read.
    pub async fn prepare_load(
        &self,
        name: &str,
        arguments: Option<&str>,
        documents: Option<Choice>,
    ) -> Result<PreparedLoad, SkillError> {
        let entry = match self.visible_to_model(name) {
            Err(SkillError::NotFound { .. }) => self.look_up(name).await?,
            found => found?,
        };
        self.prepare(&entry, arguments, documents, Caller::Model).await
    }

    pub(crate) async fn prepare(
        &self,
        entry: &Arc<SkillEntry>,
        arguments: Option<&str>,
        documents: Option<Choice>,
        caller: Caller,
    ) -> Result<PreparedLoad, SkillError> {
        let name = entry.skill.name.as_str();
        let state = self.state();
        let is_loaded = state.get(name).is_some();
        let mut prepared =
            PreparedLoad { session: self.clone(), name: name.to_owned(), caller, fresh: None, chosen: None };
        if caller == Caller::Model && is_loaded {
            if let Some(choice) = documents.filter(|_| self.options().dialect.reselects()) {
                prepared.chosen = Some(self.choose(name, SelectMode::Replace, choice).await?);
            }
            return Ok(prepared);
        }
        let inline = entry.skill.extensions.context == SkillContext::Inline;
        if inline && !is_loaded && state.loaded().len() >= self.options().budgets.max_loaded_skills {
            return Err(self.limit_reached(name, &state));
        }
        let read = self.pass_gate(entry, arguments).await?;
        let (text, resources) = self.text_and_resources(entry, read).await?;
        prepared.fresh = Some(self.fresh(entry, &text, arguments, resources)?);
        if let Some(choice) = documents {
            prepared.chosen = Some(self.chosen(entry, SelectMode::Replace, choice, &[]).await?);
        }
        Ok(prepared)
    }

    /// A skill that no list has, from a server that has it. What the server is asked was a model's idea: so it passes
    /// the gate first.
    async fn look_up(&self, name: &str) -> Result<Arc<SkillEntry>, SkillError> {
        let known = self.known();
        let name_here = published_name(name);
        let is_server = |label: &str| {
            let root = Root::server(label);
            known.view.catalog().roots().any(|known| **known == root)
        };
        let Some((server, _)) = name.split_once(':').filter(|(server, _)| is_server(server)) else {
            return self.visible_to_model(name);
        };
        if let Ok(entry) = self.visible_to_model(&name_here) {
            return Ok(entry);
        }
        self.pass_look_up_gate(server, name, &name_here).await?;
        if let Some(catalog) = self.files().look_up(name, known.view.catalog()).await {
            self.refresh(&catalog).await;
        }
        self.visible_to_model(&name_here)
    }

    fn fresh(
        &self,
        entry: &SkillEntry,
        text: &SkillText,
        arguments: Option<&str>,
        resources: Vec<ResourceMetadata>,
    ) -> Result<Fresh, SkillError> {
        let dialect = self.options().dialect;
        let framed = render::instructions(entry, text, arguments, dialect, self.secret())?;
        let heading = dialect.heading(entry);
        let skill = self.loaded_skill(entry, text, arguments, &framed, &heading, &resources);
        Ok(Fresh { skill, resources, heading, instructions: Arc::new(framed) })
    }

    /// The document, unless the gate has read it, and its resources, unless they are known.
    async fn text_and_resources(
        &self,
        entry: &Arc<SkillEntry>,
        read: Option<SkillText>,
    ) -> Result<(SkillText, Vec<ResourceMetadata>), SkillError> {
        let depth = self.options().resource_depth;
        let known = self.known_resources(entry.skill.name.as_str());
        Ok(match (read, known) {
            (Some(text), Some(known)) => (text, known),
            (Some(text), None) => (text, told(entry, &self.files().resources(entry, depth).await)),
            (None, Some(known)) => (self.read(entry).await?, known),
            (None, None) => {
                let both = self.files().text_and_resources(entry, depth).await;
                let (text, resources) = both.map_err(|error| self.unreadable(entry, error))?;
                (text, told(entry, &resources))
            }
        })
    }

    /// Unloads a skill, with its resources and documents.
    ///
    /// # Errors
    ///
    /// When it is not loaded.
    pub fn unload(&self, name: &str) -> Result<Answer, SkillError> {
        let deltas = vec![SkillDelta::Unloaded { name: name.to_owned(), reason: UnloadReason::Asked }];
        let state = self.commit(&deltas).map_err(|rejected| self.rejected(name, &deltas, &rejected))?;
        let loaded = state.loaded().len();
        let most = self.options().budgets.max_loaded_skills;
        let options = self.options();
        let note = options.dialect.unload_note(options.placement, options.unloaded_text);
        let free = most.saturating_sub(loaded);
        let text = format!(
            "Skill '{}' has been unloaded. Currently loaded: {loaded}/{most} ({free} slot(s) available). \
             Note: {note}",
            safe(name)
        );
        Ok(Answer { text, deltas, data: None })
    }

    /// The skill called `name`, if this agent's model may load it, or has it because a person did.
    pub(crate) fn visible_to_model(&self, name: &str) -> Result<Arc<SkillEntry>, SkillError> {
        let known = self.known();
        match known.view.get(name) {
            Some(entry) if entry.skill.is_model_invocable() || self.state().get(name).is_some() => {
                Ok(Arc::clone(entry))
            }
            Some(_) if self.options().manual == ManualSkills::Marked => {
                Err(SkillError::ManualOnly { name: name.to_owned() })
            }
            _ => Err(self.not_found(name)),
        }
    }

    pub(crate) fn not_found(&self, name: &str) -> SkillError {
        SkillError::NotFound {
            name: name.to_owned(),
            available: self.known().offered_names(&self.state()),
            dialect: self.options().dialect,
        }
    }

    fn limit_reached(&self, name: &str, state: &SkillState) -> SkillError {
        let limit = self.options().budgets.max_loaded_skills;
        let loaded: Vec<String> = state.names().map(str::to_owned).collect();
        let count = loaded.len();
        tracing::warn!(skill = name, loaded = count, limit, "Skill loading limit reached ({count}/{limit})");
        SkillError::LimitReached { name: name.to_owned(), limit, loaded, dialect: self.options().dialect }
    }

    /// What to say when the state did not take `deltas`.
    pub(crate) fn rejected(&self, name: &str, deltas: &[SkillDelta], rejected: &Rejected) -> SkillError {
        let Rejected { conflict, state } = rejected;
        let (name, dialect) = (name.to_owned(), self.options().dialect);
        match conflict {
            Conflict::LimitReached => self.limit_reached(&name, state),
            Conflict::OverBudget => {
                let selects_only = deltas.iter().all(|delta| matches!(delta, SkillDelta::Selected { .. }));
                SkillError::OverBudget {
                    what: if selects_only { Over::Documents } else { Over::Skill },
                    tokens: deltas.iter().map(tokens_of).sum(),
                    budget: self.options().budgets.max_loaded_tokens.unwrap_or(usize::MAX),
                    loaded: state.names().map(|name| (name.to_owned(), state.tokens_of(name))).collect(),
                    name,
                    dialect,
                }
            }
            Conflict::TooManyDocuments => {
                let left_out = deltas.iter().flat_map(documents_of).collect();
                let most = self.options().budgets.max_document_bytes;
                SkillError::TooManyDocuments { name, most, left_out }
            }
            Conflict::NotLoaded | Conflict::AlreadyLoaded | Conflict::Outdated => {
                SkillError::NotLoaded { name, loaded: state.names().map(str::to_owned).collect() }
            }
        }
    }

    pub(crate) fn loaded_skill(
        &self,
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
            tokens: tokens(self.options(), heading, framed, resources),
            nonce: framed.nonce.clone(),
            lifetime: self.options().lifetime,
            allowed_tools: text.skill.allowed_tools.clone(),
            arguments: arguments.map(str::to_owned),
            from: loaded_from(entry),
        }
    }

    /// Where the text of a skill stands. A server's words are never in the system message.
    pub(crate) fn placement_of(&self, is_servers: bool) -> Placement {
        if is_servers { Placement::ToolAnswer } else { self.options().placement }
    }
}

/// How many tokens a skill takes once it is loaded, as a session with these options counts them: its text in its frame,
/// and what the session says around it. Nothing is loaded, and nobody is asked.
///
/// ```
/// use prowess_catalog::{Catalog, Root, ScanOptions};
/// use prowess_skills::{SessionOptions, SkillSession, loaded_tokens};
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
    let heading = options.dialect.heading(entry);
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
    /// Loads what was prepared, if there is still room for it and nobody has denied it meanwhile.
    ///
    /// # Errors
    ///
    /// When a limit was reached meanwhile, or a rule has come. Nothing has changed then.
    pub fn finish(self) -> Result<Answer, SkillError> {
        let permissions = self.session.permissions();
        let is_servers = self.fresh.as_ref().is_some_and(|fresh| fresh.skill.from.is_some());
        if permissions.is_denied(&Kind::SKILL, &self.name)
            || (is_servers && permissions.is_denied(&Kind::MCP_SKILL, &self.name))
        {
            return Err(self.session.not_found(&self.name));
        }
        let mut attempt = 1;
        loop {
            let is_loaded = self.session.state().get(&self.name).is_some();
            let Some(deltas) = self.deltas(is_loaded) else { return Ok(already_loaded(&self.name)) };
            match self.session.commit_with(&deltas, Some(self.text(loads(&deltas)))) {
                Ok(_) => return Ok(Answer { text: self.answer(&deltas), deltas, data: None }),
                // Somebody loaded or unloaded it between the look and the commit.
                Err(Rejected { conflict: Conflict::AlreadyLoaded | Conflict::NotLoaded, .. })
                    if attempt < ATTEMPTS =>
                {
                    attempt += 1;
                }
                Err(rejected) => return Err(self.session.rejected(&self.name, &deltas, &rejected)),
            }
        }
    }

    /// What a sub-agent is given, if the skill wants one.
    pub(crate) fn forked(&self) -> Option<Forked> {
        let fresh = self.fresh.as_ref()?;
        let known = self.session.known();
        let extensions = &known.view.get(&self.name)?.skill.extensions;
        (extensions.context == SkillContext::Fork).then(|| Forked {
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
            Some(fresh) if !is_loaded || self.caller == Caller::Person => {
                (fresh.skill.clone(), fresh.resources.clone())
            }
            _ => {
                return chosen
                    .filter(|_| self.session.options().dialect.reselects())
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

    fn text(&self, loads: bool) -> LoadedText {
        let fresh = self.fresh.as_ref().filter(|_| loads);
        LoadedText {
            instructions: fresh.map(|fresh| Arc::clone(&fresh.instructions)),
            heading: fresh.map(|fresh| fresh.heading.clone()).unwrap_or_default(),
            documents: self.chosen.as_ref().map(|chosen| chosen.texts.clone()).unwrap_or_default(),
        }
    }

    fn answer(&self, deltas: &[SkillDelta]) -> String {
        let loaded = self.fresh.as_ref().filter(|_| loads(deltas)).map(|fresh| {
            match self.session.placement_of(fresh.skill.from.is_some()) {
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
        let state = self.session.state();
        let is_servers = state.get(&self.name).is_some_and(|skill| skill.from.is_some());
        let selected =
            self.chosen.as_ref().map(|chosen| self.session.selection_text(&self.name, chosen, is_servers));
        loaded.into_iter().chain(selected).collect::<Vec<_>>().join("\n\n")
    }
}

/// Whether a skill's instructions come in with `deltas`, and not only documents.
fn loads(deltas: &[SkillDelta]) -> bool {
    !matches!(deltas.first(), Some(SkillDelta::Selected { .. }))
}

/// What does not fit into the budget of tokens.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Over {
    /// A skill, with the documents that it was to be loaded with.
    Skill,
    /// Documents of a loaded skill.
    Documents,
}

fn already_loaded(name: &str) -> Answer {
    let text = format!("Skill '{}' is already loaded. Its instructions are already active.", safe(name));
    Answer { text, ..Answer::default() }
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
