//! Documents of a skill: listing them, and selecting them into the context.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use prowess_catalog::SkillEntry;
use prowess_catalog::skill::Location;
use prowess_catalog::untrusted::code_text;
use prowess_permission::{Decision, Kind, Question, quote_name};
use serde_json::json;

use crate::answer::SkillAnswer;
use crate::conflict::conflict_error;
use crate::delta::{LoadedSkill, SelectMode, SelectedDocument, SkillDelta};
use crate::engine::SkillEngine;
use crate::error::{SkillError, or_none};
use crate::framing::{self, FramedText};
use crate::load::loaded_from;
use crate::operation::{Io, Operation};
use crate::options::{Placement, SessionOptions};
use crate::state::SkillState;
use crate::view::SkillView;

/// The default limit of one skill's documents in context, in bytes.
pub const DEFAULT_MAX_DOCUMENT_BYTES: usize = 1024 * 1024;

/// The documents to select.
///
/// ```
/// use prowess_skills::delta::SelectMode;
/// use prowess_skills::documents::DocumentChoice;
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
/// # std::fs::write(scratch.path().join("greet/bows.md"), "Bow lower to kings.")?;
/// let session = SkillSession::builder(catalog).build().await;
/// session.load("greet", None).await?;
/// let choice = DocumentChoice::Named(vec!["bows.md".into()]);
/// session.select_documents("greet", SelectMode::Add, choice).await?;
/// assert_eq!(session.state().documents("greet")[0].path, "bows.md");
/// # Ok(())
/// # }
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum DocumentChoice {
    /// All documents of the skill.
    All,
    /// Documents by their paths in the skill.
    Named(Vec<String>),
}

impl Default for DocumentChoice {
    fn default() -> Self {
        Self::Named(Vec::new())
    }
}

/// Documents that were read, and the delta that selects them.
#[derive(Debug)]
pub(crate) struct ChosenDocuments {
    pub(crate) delta: SkillDelta,
    pub(crate) texts: BTreeMap<String, Arc<FramedText>>,
    /// The location of the skill.
    location: Location,
    /// Notes about documents that were left out or shortened.
    notes: Vec<String>,
    /// The paths, in order.
    paths: Vec<String>,
}

/// Documents that were read, but are not selected yet.
#[derive(Debug)]
#[must_use = "documents are not selected until `finish`"]
pub struct PreparedSelection {
    engine: SkillEngine,
    name: String,
    chosen: ChosenDocuments,
}

impl PreparedSelection {
    /// The changes, and the text for the model.
    ///
    /// # Errors
    ///
    /// The skill is no longer loaded, another skill has its name, or a budget does not allow it. Nothing changes.
    pub fn finish(self, state: &SkillState) -> Result<SkillAnswer, SkillError> {
        let Self { engine, name, chosen } = self;
        // Meanwhile a rule may deny the skill, or another skill may have its name.
        let entry = engine.at(state).visible_to_model(&name)?;
        if state.get(&name).is_some_and(|loaded| loaded.location != chosen.location)
            || entry.skill.location != chosen.location
        {
            return Err(SkillError::Replaced { name, dialect: engine.options().dialect });
        }
        let text = chosen.text(&name, engine.placement_of(entry.published().is_some()));
        let (deltas, after) =
            engine.after_with_room(state, vec![chosen.delta]).map_err(|(deltas, conflict)| {
                conflict_error(engine.options(), &name, &deltas, conflict, state)
            })?;
        let text = text + &engine.eviction_note(&deltas);
        engine.log(&deltas, &after);
        engine.cache_texts(&after, chosen.texts.into_values());
        Ok(SkillAnswer { text, deltas, ..SkillAnswer::default() })
    }
}

impl SkillView {
    /// The paths of a skill's documents, as a JSON array. If the list is incomplete, it is an object with `more: true`. It
    /// fails if the agent may not see the skill, or if the skill must be loaded first to get permission.
    pub fn list_documents(&self, name: &str) -> Operation<SkillAnswer> {
        let (view, name) = (self.clone(), name.to_owned());
        Operation::new(self.engine(), |io| async move { view.list(&io, &name).await })
    }

    async fn list(&self, io: &Io, name: &str) -> Result<SkillAnswer, SkillError> {
        let entry = self.visible_to_model(name)?;
        let engine = self.engine();
        let gate = engine.permissions().policy().evaluate(&Question::new(Kind::SKILL, name)).decision;
        match self.state().get(name) {
            Some(loaded) => self.check_loaded(loaded, &entry)?,
            None if gate != Decision::Allow || entry.published().is_some() => {
                let dialect = engine.options().dialect;
                return Err(SkillError::LoadFirst { name: name.to_owned(), dialect });
            }
            None => {}
        }
        let documents = io.documents(&entry).await?;
        let paths: Vec<&str> = documents.files.iter().map(|document| document.path.as_str()).collect();
        let data = if documents.capped { json!({"documents": paths, "more": true}) } else { json!(paths) };
        for diagnostic in &documents.diagnostics {
            tracing::warn!(
                skill = name,
                path = %diagnostic.file,
                "Failed to list documents for skill {}: {diagnostic}",
                quote_name(name)
            );
        }
        // Escaped, so that nothing looks like markup.
        let text = data.to_string().replace('<', "\\u003c").replace('>', "\\u003e");
        Ok(SkillAnswer { text, data: Some(data), ..SkillAnswer::default() })
    }

    /// Selects which documents of a loaded skill are in context.
    pub fn select_documents(
        &self,
        name: &str,
        mode: SelectMode,
        choice: DocumentChoice,
    ) -> Operation<PreparedSelection> {
        let (view, name) = (self.clone(), name.to_owned());
        Operation::new(self.engine(), |io| async move {
            let chosen = view.read_documents_of_loaded(&io, &name, mode, choice).await?;
            Ok(PreparedSelection { engine: view.engine().clone(), name, chosen })
        })
    }

    /// Reads documents of a loaded skill. It fails if another skill has its name now.
    pub(crate) async fn read_documents_of_loaded(
        &self,
        io: &Io,
        name: &str,
        mode: SelectMode,
        choice: DocumentChoice,
    ) -> Result<ChosenDocuments, SkillError> {
        // An unknown name gets another message than a skill that is not loaded.
        let entry = self.visible_to_model(name)?;
        let Some(loaded) = self.state().get(name) else { return Err(self.not_loaded(name)) };
        self.check_loaded(loaded, &entry)?;
        if mode != SelectMode::Clear {
            self.pass_document_gate(io, &entry, &choice).await?;
        }
        let before = if mode == SelectMode::Add { self.state().documents(name) } else { &[] };
        self.read_documents(io, &entry, mode, choice, before).await
    }

    /// Checks that the skill in the catalog is the loaded one, and that its text was loaded here.
    fn check_loaded(&self, loaded: &LoadedSkill, entry: &SkillEntry) -> Result<(), SkillError> {
        let (name, dialect) = (loaded.name.clone(), self.engine().options().dialect);
        if entry.skill.location != loaded.location {
            return Err(SkillError::Replaced { name, dialect });
        }
        // The server has changed the skill, and nobody has approved the change.
        if loaded_from(entry) != loaded.from {
            return Err(SkillError::Republished { name, dialect });
        }
        // A state of another implementation has only the name; the text was not loaded here.
        if loaded.nonce.is_empty() {
            return Err(SkillError::LoadFirst { name, dialect });
        }
        Ok(())
    }

    /// Reads the chosen documents, within the limit that `before` leaves.
    pub(crate) async fn read_documents(
        &self,
        io: &Io,
        entry: &Arc<SkillEntry>,
        mode: SelectMode,
        choice: DocumentChoice,
        before: &[SelectedDocument],
    ) -> Result<ChosenDocuments, SkillError> {
        let name = entry.skill.name.as_str();
        let all = choice == DocumentChoice::All && mode != SelectMode::Clear;
        let wanted = match mode {
            SelectMode::Clear => Vec::new(),
            SelectMode::Add | SelectMode::Replace => chosen_paths(io, entry, choice).await?,
        };
        let options = self.engine().options();
        let most = options.budgets.max_document_bytes;
        let (mut texts, mut notes, mut paths) = (BTreeMap::new(), Vec::new(), Vec::new());
        let (mut selected, mut left_out) = (Vec::new(), Vec::new());
        let stays = |document: &&SelectedDocument| !wanted.contains(&document.path);
        let mut bytes =
            before.iter().filter(stays).fold(0_usize, |sum, found| sum.saturating_add(found.bytes));
        for path in wanted {
            let read = match io.document(entry, &path).await? {
                Ok(read) => read,
                // "All" means all that can be read. A document that the model named is needed.
                Err(error) if all => {
                    notes.push(format!("Left out: {}", code_text(&error.to_string())));
                    continue;
                }
                Err(error) => return Err(SkillError::Document { name: name.to_owned(), error }),
            };
            if bytes.saturating_add(read.text.len()) > most {
                left_out.push(path);
                continue;
            }
            bytes += read.text.len();
            if read.truncated {
                let (shown, whole, path) = (read.text.len(), read.size, code_text(&path));
                notes.push(format!("Only the first {shown} of {whole} bytes of '{path}' are shown."));
            }
            let framed = framing::document(entry, &read, self.engine().options(), self.engine().secret());
            selected.push(selected_document(options, &path, &framed, read.text.len()));
            texts.insert(path.clone(), Arc::new(framed));
            paths.push(path);
        }
        if !left_out.is_empty() {
            if !all {
                return Err(SkillError::TooManyDocuments { name: name.to_owned(), most, left_out });
            }
            notes.push(format!(
                "Left out, because a skill may have {most} bytes of documents in context: {}.",
                or_none(&left_out)
            ));
        }
        let delta = SkillDelta::Selected { name: name.to_owned(), mode, all, documents: selected };
        Ok(ChosenDocuments { delta, texts, location: entry.skill.location.clone(), notes, paths })
    }
}

/// A framed document as the state keeps it.
pub(crate) fn selected_document(
    options: &SessionOptions,
    path: &str,
    framed: &FramedText,
    bytes: usize,
) -> SelectedDocument {
    let tokens = options.tokens.count(&framed.text);
    SelectedDocument { path: path.to_owned(), bytes, tokens, nonce: framed.nonce.clone() }
}

/// The paths of the chosen documents. Only documents that the skill lists can be chosen.
async fn chosen_paths(
    io: &Io,
    entry: &Arc<SkillEntry>,
    choice: DocumentChoice,
) -> Result<Vec<String>, SkillError> {
    let listed = io.documents(entry).await?;
    let available: Vec<String> = listed.files.into_iter().map(|document| document.path).collect();
    let mut named = match choice {
        DocumentChoice::All => return Ok(available),
        DocumentChoice::Named(named) => named,
    };
    let unknown: Vec<String> = named.iter().filter(|path| !available.contains(path)).cloned().collect();
    if !unknown.is_empty() {
        let name = entry.skill.name.to_string();
        return Err(SkillError::NoSuchDocument { name, asked: unknown, available });
    }
    let mut seen = BTreeSet::new();
    named.retain(|path| seen.insert(path.clone()));
    Ok(named)
}

impl ChosenDocuments {
    /// The text for the model: a line about the selection, and the documents if they belong in the tool answer.
    pub(crate) fn text(&self, name: &str, placement: Placement) -> String {
        let SkillDelta::Selected { mode, .. } = &self.delta else { return String::new() };
        let (name, paths) = (code_text(name), or_none(&self.paths));
        let first = match (mode, placement) {
            (SelectMode::Clear, _) => format!("No documents of skill '{name}' are selected."),
            (SelectMode::Add, Placement::SystemMessage) => {
                format!("Documents of skill '{name}' added to the system message: {paths}.")
            }
            (SelectMode::Replace, Placement::SystemMessage) => {
                format!("Documents of skill '{name}' in the system message: {paths}.")
            }
            (SelectMode::Add, Placement::ToolAnswer) => {
                format!("Documents of skill '{name}' added: {paths}.")
            }
            (SelectMode::Replace, Placement::ToolAnswer) => format!("Documents of skill '{name}': {paths}."),
        };
        let mut parts = vec![first];
        parts.extend(self.notes.iter().cloned());
        if placement == Placement::ToolAnswer {
            let texts = self.paths.iter().filter_map(|path| self.texts.get(path));
            parts.extend(texts.map(|framed| framed.text.clone()));
        }
        parts.join("\n\n")
    }
}
