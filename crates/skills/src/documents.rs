//! The documents of a skill that stand beside its instructions.

use std::collections::BTreeMap;
use std::sync::Arc;

use prowess_catalog::SkillEntry;
use serde_json::json;

use crate::delta::{SelectMode, SelectedDocument, SkillDelta};
use crate::error::SkillError;
use crate::options::Placement;
use crate::render::{self, FramedText};
use crate::session::{Answer, LoadedText, SkillSession};

/// The most text that one choice of documents brings; what does not fit is left out and named.
pub const MAX_CHOSEN_BYTES: usize = 1024 * 1024;

/// Which documents.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Choice {
    /// All that the skill has.
    All,
    /// These, by their paths in the skill.
    Named(Vec<String>),
}

impl Default for Choice {
    fn default() -> Self {
        Self::Named(Vec::new())
    }
}

/// Documents that were read.
#[derive(Debug)]
pub(crate) struct Chosen {
    pub(crate) delta: SkillDelta,
    pub(crate) texts: BTreeMap<String, Arc<FramedText>>,
    /// What was left out, and why.
    pub(crate) notes: Vec<String>,
    /// The paths, in order.
    paths: Vec<String>,
}

impl SkillSession {
    /// The paths of a skill's documents, as a JSON array.
    ///
    /// # Errors
    ///
    /// When the skill is not one that this agent may know of.
    pub async fn list_documents(&self, name: &str) -> Result<Answer, SkillError> {
        let entry = self.visible_to_model(name)?;
        let documents = self.files().documents(&entry).await;
        let paths: Vec<&str> = documents.files.iter().map(|document| document.path.as_str()).collect();
        let data = json!(paths);
        let mut text = data.to_string();
        if documents.capped {
            text.push_str("\nThere are more documents than this list has room for.");
        }
        for diagnostic in &documents.diagnostics {
            tracing::warn!(skill = name, path = %diagnostic.file, "Failed to list documents for skill '{name}': {diagnostic}");
        }
        Ok(Answer { text, deltas: Vec::new(), data: Some(data) })
    }

    /// Chooses which documents of a loaded skill are in context with it.
    ///
    /// # Errors
    ///
    /// When the skill is not loaded, a document is not one of its own or cannot be read, or the budget
    /// does not allow it. Nothing has changed then.
    pub async fn select_documents(
        &self,
        name: &str,
        mode: SelectMode,
        choice: Choice,
    ) -> Result<Answer, SkillError> {
        let state = self.state();
        if state.get(name).is_none() {
            // An unknown name is told apart from one that only has to be loaded.
            self.visible_to_model(name)?;
            let loaded = state.names().map(str::to_owned).collect();
            return Err(SkillError::NotLoaded { name: name.to_owned(), loaded });
        }
        let entry = self.visible_to_model(name)?;
        let chosen = self.chosen(&entry, mode, choice).await?;
        let text = self.selection_text(name, &chosen);
        let deltas = vec![chosen.delta];
        let kept = LoadedText { documents: chosen.texts, ..LoadedText::default() };
        self.commit_with(&deltas, Some(kept))
            .map_err(|conflict| self.conflict_error(name, &deltas, conflict))?;
        Ok(Answer { text, deltas, data: None })
    }

    /// Reads the documents that were asked for.
    pub(crate) async fn chosen(
        &self,
        entry: &Arc<SkillEntry>,
        mode: SelectMode,
        choice: Choice,
    ) -> Result<Chosen, SkillError> {
        let name = entry.skill.name.as_str();
        let all = choice == Choice::All && mode != SelectMode::Clear;
        let wanted = match mode {
            SelectMode::Clear => Vec::new(),
            SelectMode::Add | SelectMode::Replace => self.wanted(entry, choice).await?,
        };
        let mut chosen = Chosen {
            delta: SkillDelta::Selected { name: name.to_owned(), mode, all, documents: Vec::new() },
            texts: BTreeMap::new(),
            notes: Vec::new(),
            paths: Vec::new(),
        };
        let mut selected = Vec::new();
        let (mut bytes, mut left_out) = (0, Vec::new());
        for path in wanted {
            if bytes >= MAX_CHOSEN_BYTES {
                left_out.push(path);
                continue;
            }
            let read = match self.files().document(entry, &path).await {
                Ok(read) => read,
                // Of all documents those that can be read are meant; one that was named is needed.
                Err(error) if all => {
                    chosen.notes.push(format!("Left out: {error}"));
                    continue;
                }
                Err(error) => return Err(SkillError::Document { name: name.to_owned(), error }),
            };
            if bytes + read.text.len() > MAX_CHOSEN_BYTES {
                left_out.push(path);
                continue;
            }
            bytes += read.text.len();
            if read.truncated {
                chosen.notes.push(format!(
                    "Only the first {} of {} bytes of '{path}' are shown.",
                    read.text.len(),
                    read.size
                ));
            }
            let framed = render::document(entry, &read, self.secret());
            let tokens = self.options().tokens.count(&framed.text);
            selected.push(SelectedDocument { path: path.clone(), tokens, nonce: framed.nonce.clone() });
            chosen.texts.insert(path.clone(), Arc::new(framed));
            chosen.paths.push(path);
        }
        if !left_out.is_empty() {
            chosen.notes.push(format!(
                "Left out, because together they have more than {MAX_CHOSEN_BYTES} bytes: {}.",
                crate::error::or_none(&left_out)
            ));
        }
        if let SkillDelta::Selected { documents, .. } = &mut chosen.delta {
            *documents = selected;
        }
        Ok(chosen)
    }

    /// The paths that `choice` stands for. Only what the skill itself lists is among them.
    async fn wanted(&self, entry: &Arc<SkillEntry>, choice: Choice) -> Result<Vec<String>, SkillError> {
        let listed = self.files().documents(entry).await;
        let available: Vec<String> = listed.files.into_iter().map(|document| document.path).collect();
        let mut named = match choice {
            Choice::All => return Ok(available),
            Choice::Named(named) => named,
        };
        let unknown: Vec<String> = named.iter().filter(|path| !available.contains(path)).cloned().collect();
        if !unknown.is_empty() {
            let name = entry.skill.name.to_string();
            return Err(SkillError::NoSuchDocument { name, asked: unknown, available });
        }
        let mut seen = std::collections::BTreeSet::new();
        named.retain(|path| seen.insert(path.clone()));
        Ok(named)
    }

    /// What a model reads about documents that were chosen, or the documents themselves.
    pub(crate) fn selection_text(&self, name: &str, chosen: &Chosen) -> String {
        let mut parts = Vec::new();
        let paths = crate::error::or_none(&chosen.paths);
        let SkillDelta::Selected { mode, .. } = &chosen.delta else { return String::new() };
        parts.push(match (mode, self.options().placement) {
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
        });
        parts.extend(chosen.notes.iter().cloned());
        if self.options().placement == Placement::ToolAnswer {
            let texts = chosen.paths.iter().filter_map(|path| chosen.texts.get(path));
            parts.extend(texts.map(|framed| framed.text.clone()));
        }
        parts.join("\n\n")
    }
}
