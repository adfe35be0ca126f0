//! A session's state: pure, and changed by deltas alone.

use std::collections::{BTreeMap, BTreeSet};

use serde::{Deserialize, Serialize};

use crate::delta::{LoadedSkill, ResourceMetadata, SelectMode, SelectedDocument, SkillDelta};
use crate::options::Budgets;

/// The documents of a loaded skill that are in context with it.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Selection {
    /// Whether all of them were asked for.
    pub all: bool,
    /// The documents, in the order in which they were chosen.
    pub documents: Vec<SelectedDocument>,
}

impl Selection {
    /// Whether it may take the place of `before`. What has no more bytes than before always may.
    fn fits(&self, before: &Self, budgets: &Budgets) -> Result<(), Conflict> {
        let bytes = |selection: &Self| {
            selection.documents.iter().fold(0_usize, |sum, document| sum.saturating_add(document.bytes))
        };
        let is_over = bytes(self) > budgets.max_document_bytes && bytes(self) > bytes(before);
        if is_over { Err(Conflict::TooManyDocuments) } else { Ok(()) }
    }

    /// The tokens of all of them.
    pub fn tokens(&self) -> usize {
        self.documents.iter().fold(0, |sum, document| sum.saturating_add(document.tokens))
    }
}

/// What is loaded in one session.
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
/// let session = SkillSession::builder(catalog).start().await;
/// let answer = session.load("greet", None).await?;
///
/// // A host that kept the changes has the state.
/// let mut state = SkillState::default();
/// state.replay(&answer.deltas).unwrap();
/// assert_eq!(state.loaded()[0].name, "greet");
/// # Ok(())
/// # }
/// ```
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct SkillState {
    loaded: Vec<LoadedSkill>,
    resources: BTreeMap<String, Vec<ResourceMetadata>>,
    documents: BTreeMap<String, Selection>,
    offered: BTreeSet<String>,
    /// Skills of servers that were unloaded, with their servers: their words may still be in the conversation.
    lingering: BTreeMap<String, String>,
}

/// Why a delta cannot be applied. The state is then as it was.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Conflict {
    /// The skill is loaded already.
    AlreadyLoaded,
    /// The skill is not loaded.
    NotLoaded,
    /// As many skills are loaded as may be.
    LimitReached,
    /// The text does not fit into the budget.
    OverBudget,
    /// One skill would have more bytes of documents in context than it may.
    TooManyDocuments,
    /// What it is about has changed meanwhile, or has happened already.
    Outdated,
}

impl SkillState {
    /// The loaded skills, in the order in which they were loaded.
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

    /// The files of a loaded skill.
    pub fn resources(&self, name: &str) -> &[ResourceMetadata] {
        self.resources.get(name).map_or(&[], Vec::as_slice)
    }

    /// The resources of all loaded skills.
    pub fn all_resources(&self) -> &BTreeMap<String, Vec<ResourceMetadata>> {
        &self.resources
    }

    /// The chosen documents of a loaded skill.
    pub fn selection(&self, name: &str) -> Option<&Selection> {
        self.documents.get(name)
    }

    /// The chosen documents of a loaded skill, none if it has no selection.
    pub fn documents(&self, name: &str) -> &[SelectedDocument] {
        self.documents.get(name).map_or(&[], |selection| &selection.documents)
    }

    /// The chosen documents of all loaded skills that have some.
    pub fn all_selections(&self) -> &BTreeMap<String, Selection> {
        &self.documents
    }

    /// Skills with `paths` for which a file has come into play.
    pub fn offered(&self) -> &BTreeSet<String> {
        &self.offered
    }

    /// The skills of servers whose words the model may have, with their servers: those that are loaded, those that
    /// were, and those that led a sub-agent or its parent. Unloading takes nothing out of a conversation.
    pub fn from_servers(&self) -> BTreeMap<&str, &str> {
        let loaded = self.loaded.iter().filter_map(|skill| {
            let from = skill.from.as_ref()?;
            Some((skill.name.as_str(), from.server.as_str()))
        });
        let lingering = self.lingering.iter().map(|(name, server)| (name.as_str(), server.as_str()));
        lingering.chain(loaded).collect()
    }

    /// Skills of servers that were unloaded, with their servers.
    pub(crate) fn lingering(&self) -> &BTreeMap<String, String> {
        &self.lingering
    }

    /// Whether a text with this nonce is loaded: instructions, or a chosen document.
    pub(crate) fn has_text(&self, nonce: &str) -> bool {
        let documents = self.documents.values().flat_map(|selection| &selection.documents);
        self.loaded.iter().any(|skill| skill.nonce == nonce)
            || documents.into_iter().any(|document| document.nonce == nonce)
    }

    /// The state as the keys that `trpc` hosts keep: `temp:skill:loaded:<name>` and `temp:skill:docs:<name>`.
    pub fn keys(&self) -> BTreeMap<String, String> {
        crate::dialect::state_keys(self)
    }

    /// The tokens of one loaded skill, its documents included.
    pub fn tokens_of(&self, name: &str) -> usize {
        let own = self.get(name).map_or(0, |skill| skill.tokens);
        own.saturating_add(self.documents.get(name).map_or(0, Selection::tokens))
    }

    /// The tokens of everything that is loaded.
    pub fn tokens(&self) -> usize {
        self.names().fold(0, |sum, name| sum.saturating_add(self.tokens_of(name)))
    }

    /// Applies `delta` if it fits the state and the budgets, and else changes nothing.
    ///
    /// # Errors
    ///
    /// Why it does not fit.
    pub fn apply(&mut self, delta: &SkillDelta, budgets: &Budgets) -> Result<(), Conflict> {
        match delta {
            SkillDelta::Loaded { skill, resources } => {
                if self.get(&skill.name).is_some() {
                    return Err(Conflict::AlreadyLoaded);
                }
                if self.loaded.len() >= budgets.max_loaded_skills {
                    return Err(Conflict::LimitReached);
                }
                self.fits(skill.tokens, 0, budgets)?;
                self.put_resources(&skill.name, resources);
                self.loaded.push(skill.clone());
            }
            SkillDelta::Reloaded { skill, resources } => {
                let before = self.get(&skill.name).ok_or(Conflict::NotLoaded)?.tokens;
                self.fits(skill.tokens, before, budgets)?;
                self.put_resources(&skill.name, resources);
                if let Some(known) = self.loaded.iter_mut().find(|known| known.name == skill.name) {
                    known.clone_from(skill);
                }
            }
            SkillDelta::Unloaded { name, .. } => {
                let at =
                    self.loaded.iter().position(|skill| skill.name == *name).ok_or(Conflict::NotLoaded)?;
                let skill = self.loaded.remove(at);
                self.lingering.extend(skill.from.map(|from| (skill.name, from.server)));
                self.resources.remove(name);
                self.documents.remove(name);
            }
            SkillDelta::Selected { name, mode, all, documents } => {
                self.get(name).ok_or(Conflict::NotLoaded)?;
                let before = self.documents.get(name).cloned().unwrap_or_default();
                let after = selected(&before, *mode, *all, documents);
                after.fits(&before, budgets)?;
                self.fits(after.tokens(), before.tokens(), budgets)?;
                self.put_selection(name, after);
            }
            SkillDelta::DocumentChanged { name, before, document } => {
                let mut selection = self.documents.get(name).cloned().ok_or(Conflict::Outdated)?;
                let at = selection.documents.iter().position(|known| known.nonce == *before);
                let at = at.ok_or(Conflict::Outdated)?;
                match document {
                    Some(document) => {
                        let freed = selection.documents[at].tokens;
                        self.fits(document.tokens, freed, budgets)?;
                        let before = selection.clone();
                        selection.documents[at] = document.clone();
                        selection.fits(&before, budgets)?;
                    }
                    None => {
                        selection.documents.remove(at);
                        selection.all = false;
                    }
                }
                self.put_selection(name, selection);
            }
            SkillDelta::Led { name, server } => {
                self.lingering.insert(name.clone(), server.clone());
            }
            SkillDelta::Offered { name } => {
                if !self.offered.insert(name.clone()) {
                    return Err(Conflict::Outdated);
                }
            }
        }
        Ok(())
    }

    /// Applies deltas that were accepted once, whatever the budgets are now.
    ///
    /// # Errors
    ///
    /// The first one that does not follow from those before it.
    pub fn replay<'a>(&mut self, deltas: impl IntoIterator<Item = &'a SkillDelta>) -> Result<(), Conflict> {
        let mut boundless = Budgets::new(usize::MAX, None);
        boundless.max_document_bytes = usize::MAX;
        deltas.into_iter().try_for_each(|delta| self.apply(delta, &boundless))
    }

    fn put_resources(&mut self, name: &str, resources: &[ResourceMetadata]) {
        if resources.is_empty() {
            self.resources.remove(name);
        } else {
            self.resources.insert(name.to_owned(), resources.to_vec());
        }
    }

    fn put_selection(&mut self, name: &str, selection: Selection) {
        if selection.documents.is_empty() && !selection.all {
            self.documents.remove(name);
        } else {
            self.documents.insert(name.to_owned(), selection);
        }
    }

    /// Whether `tokens` fit in the place of `freed`. What takes no more than before always does.
    fn fits(&self, tokens: usize, freed: usize, budgets: &Budgets) -> Result<(), Conflict> {
        let used = self.tokens().saturating_sub(freed);
        match budgets.max_loaded_tokens {
            Some(most) if tokens > freed && used.saturating_add(tokens) > most => Err(Conflict::OverBudget),
            _ => Ok(()),
        }
    }

    /// Unloads what was loaded first, until no more than `most` skills are loaded.
    pub(crate) fn keep_last(&mut self, most: usize) {
        let excess = self.loaded.len().saturating_sub(most);
        for skill in self.loaded.drain(..excess) {
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
        Self { loaded, resources, documents, offered, lingering }
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
