//! The state of a session: what is loaded. Only deltas change it.

use std::collections::{BTreeMap, BTreeSet};

use serde::{Deserialize, Serialize};

use crate::delta::{LoadedSkill, ResourceMetadata, SelectMode, SelectedDocument, SkillDelta};
use crate::load_limits::Budgets;

/// The selected documents of a loaded skill.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct Selection {
    /// Whether the model selected all documents.
    pub all: bool,
    /// The documents, in the order of selection.
    pub documents: Vec<SelectedDocument>,
}

impl Selection {
    /// Checks the limit of bytes. A selection that is not larger than `before` always passes.
    fn check_bytes(&self, before: &Self, budgets: &Budgets) -> Result<(), Conflict> {
        let bytes = |selection: &Self| {
            selection.documents.iter().fold(0_usize, |sum, document| sum.saturating_add(document.bytes))
        };
        let is_over = bytes(self) > budgets.max_document_bytes && bytes(self) > bytes(before);
        if is_over { Err(Conflict::TooManyDocuments) } else { Ok(()) }
    }

    /// The tokens of all documents.
    pub fn tokens(&self) -> usize {
        self.documents.iter().fold(0, |sum, document| sum.saturating_add(document.tokens))
    }
}

/// The state of a session: its loaded skills, with their resources and documents.
///
/// ```
/// use prowess_skills::{SkillSession, SkillState};
///
/// # use prowess_catalog::{Catalog, Root, ScanOptions};
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
/// # let scratch = tempfile::tempdir()?;
/// # std::fs::create_dir(scratch.path().join("greet"))?;
/// # let manifest = "---\nname: greet\ndescription: Says hello.\n---\nWave.\n";
/// # std::fs::write(scratch.path().join("greet/SKILL.md"), manifest)?;
/// # let catalog = Catalog::discover(&[Root::explicit(scratch.path())], &ScanOptions::default());
/// let session = SkillSession::builder(catalog).build().await;
/// let answer = session.load("greet", None).await?;
///
/// // The deltas are enough to make the same state elsewhere.
/// let mut state = SkillState::default();
/// state.replay(&answer.deltas).unwrap();
/// assert_eq!(state.loaded()[0].name, "greet");
/// # Ok(())
/// # }
/// ```
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct SkillState {
    loaded: Vec<LoadedSkill>,
    /// The names of the loaded skills. The one that was used longest ago comes first.
    by_use: Vec<String>,
    resources: BTreeMap<String, Vec<ResourceMetadata>>,
    documents: BTreeMap<String, Selection>,
    offered: BTreeSet<String>,
    /// Unloaded server skills and their servers. Their text may still be in the conversation.
    lingering: BTreeMap<String, String>,
}

/// Why a delta does not fit. The state has not changed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Conflict {
    /// The skill is already loaded.
    AlreadyLoaded,
    /// The skill is not loaded.
    NotLoaded,
    /// The maximum number of skills is loaded.
    LimitReached,
    /// The text exceeds the budget of tokens.
    OverBudget,
    /// The documents exceed the limit of one skill.
    TooManyDocuments,
    /// The state has changed meanwhile, or the change is already made.
    Outdated,
}

impl SkillState {
    /// The loaded skills, in the order of loading.
    pub fn loaded(&self) -> &[LoadedSkill] {
        &self.loaded
    }

    /// The loaded skill called `name`.
    pub fn get(&self, name: &str) -> Option<&LoadedSkill> {
        self.loaded.iter().find(|skill| skill.name == name)
    }

    /// The names of the loaded skills, in order.
    pub fn names(&self) -> impl Iterator<Item = &str> {
        self.loaded.iter().map(|skill| skill.name.as_str())
    }

    /// The names of the loaded skills. The one that was used longest ago comes first.
    pub fn by_use(&self) -> &[String] {
        &self.by_use
    }

    /// The resources of a loaded skill.
    pub fn resources(&self, name: &str) -> &[ResourceMetadata] {
        self.resources.get(name).map_or(&[], Vec::as_slice)
    }

    /// The resources of all loaded skills.
    pub fn all_resources(&self) -> &BTreeMap<String, Vec<ResourceMetadata>> {
        &self.resources
    }

    /// The selection of a loaded skill.
    pub fn selection(&self, name: &str) -> Option<&Selection> {
        self.documents.get(name)
    }

    /// The selected documents of a loaded skill.
    pub fn documents(&self, name: &str) -> &[SelectedDocument] {
        self.documents.get(name).map_or(&[], |selection| &selection.documents)
    }

    /// The selections of all loaded skills.
    pub fn all_selections(&self) -> &BTreeMap<String, Selection> {
        &self.documents
    }

    /// The skills with `paths` that are listed because a matching file came into play.
    pub fn offered(&self) -> &BTreeSet<String> {
        &self.offered
    }

    /// The server skills whose text the model may have, and their servers. These are loaded skills, unloaded skills, and
    /// skills of a sub-agent or its parent. Unloading removes no text from a conversation.
    pub fn from_servers(&self) -> BTreeMap<&str, &str> {
        let loaded = self.loaded.iter().filter_map(|skill| {
            let from = skill.from.as_ref()?;
            Some((skill.name.as_str(), from.server.as_str()))
        });
        let lingering = self.lingering.iter().map(|(name, server)| (name.as_str(), server.as_str()));
        lingering.chain(loaded).collect()
    }

    /// The unloaded server skills and their servers.
    pub(crate) fn lingering(&self) -> &BTreeMap<String, String> {
        &self.lingering
    }

    /// The nonces of all loaded texts: instructions and selected documents.
    pub fn nonces(&self) -> impl Iterator<Item = &str> {
        let documents = self.documents.values().flat_map(|selection| &selection.documents);
        let skills = self.loaded.iter().map(|skill| skill.nonce.as_str());
        skills.chain(documents.map(|document| document.nonce.as_str()))
    }

    /// Whether the text with this nonce is loaded: instructions or a selected document.
    pub fn has_text(&self, nonce: &str) -> bool {
        self.nonces().any(|known| known == nonce)
    }

    /// The state as the keys of `trpc` programs: `temp:skill:loaded:<name>` and `temp:skill:docs:<name>`.
    pub fn keys(&self) -> BTreeMap<String, String> {
        crate::dialect::state_keys(self)
    }

    /// The tokens of one loaded skill and its documents.
    pub fn tokens_of(&self, name: &str) -> usize {
        let own = self.get(name).map_or(0, |skill| skill.tokens);
        own.saturating_add(self.documents.get(name).map_or(0, Selection::tokens))
    }

    /// The tokens of all loaded skills and documents.
    pub fn tokens(&self) -> usize {
        self.names().fold(0, |sum, name| sum.saturating_add(self.tokens_of(name)))
    }

    /// Applies `delta` if it fits the state and the budgets. Otherwise nothing changes.
    ///
    /// # Errors
    ///
    /// The delta does not fit.
    pub fn apply(&mut self, delta: &SkillDelta, budgets: &Budgets) -> Result<(), Conflict> {
        match delta {
            SkillDelta::Loaded { skill, resources } => self.load(skill, resources, budgets),
            SkillDelta::Reloaded { skill, resources } => self.reload(skill, resources, budgets),
            SkillDelta::Unloaded { name, .. } => self.unload(name),
            SkillDelta::Selected { name, mode, all, documents } => {
                self.select(name, *mode, *all, documents, budgets)
            }
            SkillDelta::DocumentChanged { name, before, document } => {
                self.change_document(name, before, document.as_ref(), budgets)
            }
            SkillDelta::Led { name, server } => {
                self.lingering.insert(name.clone(), server.clone());
                Ok(())
            }
            SkillDelta::Offered { name } => {
                if self.offered.insert(name.clone()) {
                    Ok(())
                } else {
                    Err(Conflict::Outdated)
                }
            }
            SkillDelta::Used { name } => {
                self.get(name).ok_or(Conflict::NotLoaded)?;
                Ok(())
            }
        }?;
        if let SkillDelta::Loaded { .. }
        | SkillDelta::Reloaded { .. }
        | SkillDelta::Selected { .. }
        | SkillDelta::Used { .. } = delta
        {
            self.by_use.retain(|name| name != delta.skill());
            self.by_use.push(delta.skill().to_owned());
        }
        Ok(())
    }

    fn load(
        &mut self,
        skill: &LoadedSkill,
        resources: &[ResourceMetadata],
        budgets: &Budgets,
    ) -> Result<(), Conflict> {
        if self.get(&skill.name).is_some() {
            return Err(Conflict::AlreadyLoaded);
        }
        if self.loaded.len() >= budgets.max_loaded_skills {
            return Err(Conflict::LimitReached);
        }
        self.check_tokens(skill.tokens, 0, budgets)?;
        self.set_resources(&skill.name, resources);
        self.loaded.push(skill.clone());
        Ok(())
    }

    fn reload(
        &mut self,
        skill: &LoadedSkill,
        resources: &[ResourceMetadata],
        budgets: &Budgets,
    ) -> Result<(), Conflict> {
        let before = self.get(&skill.name).ok_or(Conflict::NotLoaded)?.tokens;
        self.check_tokens(skill.tokens, before, budgets)?;
        self.set_resources(&skill.name, resources);
        if let Some(known) = self.loaded.iter_mut().find(|known| known.name == skill.name) {
            known.clone_from(skill);
        }
        Ok(())
    }

    fn unload(&mut self, name: &str) -> Result<(), Conflict> {
        let at = self.loaded.iter().position(|skill| skill.name == name).ok_or(Conflict::NotLoaded)?;
        let skill = self.loaded.remove(at);
        self.by_use.retain(|used| used != name);
        self.lingering.extend(skill.from.map(|from| (skill.name, from.server)));
        self.resources.remove(name);
        self.documents.remove(name);
        Ok(())
    }

    fn select(
        &mut self,
        name: &str,
        mode: SelectMode,
        all: bool,
        documents: &[SelectedDocument],
        budgets: &Budgets,
    ) -> Result<(), Conflict> {
        self.get(name).ok_or(Conflict::NotLoaded)?;
        let before = self.documents.get(name).cloned().unwrap_or_default();
        let after = selected(&before, mode, all, documents);
        after.check_bytes(&before, budgets)?;
        self.check_tokens(after.tokens(), before.tokens(), budgets)?;
        self.set_selection(name, after);
        Ok(())
    }

    fn change_document(
        &mut self,
        name: &str,
        nonce_before: &str,
        document: Option<&SelectedDocument>,
        budgets: &Budgets,
    ) -> Result<(), Conflict> {
        let before = self.documents.get(name).cloned().ok_or(Conflict::Outdated)?;
        let at = before.documents.iter().position(|known| known.nonce == nonce_before);
        let at = at.ok_or(Conflict::Outdated)?;
        let mut after = before.clone();
        match document {
            Some(document) => {
                self.check_tokens(document.tokens, before.documents[at].tokens, budgets)?;
                after.documents[at] = document.clone();
                after.check_bytes(&before, budgets)?;
            }
            None => {
                after.documents.remove(at);
                after.all = false;
            }
        }
        self.set_selection(name, after);
        Ok(())
    }

    /// Applies deltas that were accepted before, without budgets.
    ///
    /// # Errors
    ///
    /// A delta does not follow from those before it.
    pub fn replay<'a>(&mut self, deltas: impl IntoIterator<Item = &'a SkillDelta>) -> Result<(), Conflict> {
        let mut unlimited = Budgets::new(usize::MAX, None);
        unlimited.max_document_bytes = usize::MAX;
        deltas.into_iter().try_for_each(|delta| self.apply(delta, &unlimited))
    }

    fn set_resources(&mut self, name: &str, resources: &[ResourceMetadata]) {
        if resources.is_empty() {
            self.resources.remove(name);
        } else {
            self.resources.insert(name.to_owned(), resources.to_vec());
        }
    }

    fn set_selection(&mut self, name: &str, selection: Selection) {
        if selection.documents.is_empty() && !selection.all {
            self.documents.remove(name);
        } else {
            self.documents.insert(name.to_owned(), selection);
        }
    }

    /// Checks the budget of tokens. A text that is not larger than the one it replaces always passes.
    fn check_tokens(&self, tokens: usize, freed: usize, budgets: &Budgets) -> Result<(), Conflict> {
        let used = self.tokens().saturating_sub(freed);
        match budgets.max_loaded_tokens {
            Some(most) if tokens > freed && used.saturating_add(tokens) > most => Err(Conflict::OverBudget),
            _ => Ok(()),
        }
    }

    /// Unloads the skills that were loaded first, until `most` are left.
    pub(crate) fn keep_last(&mut self, most: usize) {
        let excess = self.loaded.len().saturating_sub(most);
        for skill in self.loaded.drain(..excess) {
            self.by_use.retain(|used| *used != skill.name);
            self.resources.remove(&skill.name);
            self.documents.remove(&skill.name);
            self.lingering.extend(skill.from.map(|from| (skill.name, from.server)));
        }
    }

    pub(crate) fn from_parts(
        loaded: Vec<LoadedSkill>,
        resources: BTreeMap<String, Vec<ResourceMetadata>>,
        documents: BTreeMap<String, Selection>,
        offered: BTreeSet<String>,
        lingering: BTreeMap<String, String>,
    ) -> Self {
        let by_use = loaded.iter().map(|skill| skill.name.clone()).collect();
        Self { loaded, by_use, resources, documents, offered, lingering }
    }

    /// Orders the loaded skills by use. Skills that `order` does not name count as used before all others.
    pub(crate) fn set_use(&mut self, order: &[String]) {
        let place = |name: &String| order.iter().position(|used| used == name).map_or(0, |at| at + 1);
        self.by_use.sort_by_key(place);
    }
}

fn selected(before: &Selection, mode: SelectMode, all: bool, documents: &[SelectedDocument]) -> Selection {
    let mut after = match mode {
        SelectMode::Add => before.clone(),
        SelectMode::Replace | SelectMode::Clear => Selection::default(),
    };
    if mode == SelectMode::Clear {
        return after;
    }
    after.all |= all;
    for document in documents {
        match after.documents.iter_mut().find(|known| known.path == document.path) {
            Some(known) => known.clone_from(document),
            None => after.documents.push(document.clone()),
        }
    }
    after
}
