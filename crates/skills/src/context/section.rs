//! Makes a section: collects texts within a budget, reads changed skills again, and drops what cannot stay.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use prowess_catalog::SkillEntry;
use prowess_catalog::untrusted::code_text;
use prowess_permission::Kind;

use super::dropped::{DropReason, DroppedDocument};
use super::{LoadedSection, SectionScope};
use crate::delta::{LoadedSkill, ResourceMetadata, SelectedDocument, SkillDelta, UnloadReason};
use crate::documents::selected_document;
use crate::engine::SkillEngine;
use crate::error::SkillError;
use crate::framing::{self, FramedText};
use crate::load::{heading, loaded_skill};
use crate::operation::Io;
use crate::state::{Conflict, SkillState};
use crate::view::SkillView;

/// Makes a section.
pub(super) struct SectionMaker {
    io: Io,
    /// The view of the state before any change.
    view: SkillView,
    /// The state after the changes so far.
    now: SkillState,
    /// The nonces of the frames that are still in context.
    present: BTreeSet<String>,
    budget: usize,
    /// The tokens that are left of the budget.
    room: usize,
    section: LoadedSection,
    /// The texts of each skill, by name.
    texts: BTreeMap<String, Vec<String>>,
    notices: Vec<String>,
    /// Framed texts to cache.
    framed: Vec<Arc<FramedText>>,
}

impl SectionMaker {
    pub(super) fn new(
        io: Io,
        view: SkillView,
        present: BTreeSet<String>,
        budget: Option<usize>,
        title: &str,
    ) -> Self {
        let title_tokens = view.engine().options().tokens.count(title);
        Self {
            io,
            now: SkillState::clone(view.state()),
            view,
            present,
            budget: budget.unwrap_or(usize::MAX),
            room: budget.map_or(usize::MAX, |budget| budget.saturating_sub(title_tokens)),
            section: LoadedSection::default(),
            texts: BTreeMap::new(),
            notices: Vec::new(),
            framed: Vec::new(),
        }
    }

    pub(super) async fn make(
        mut self,
        title: &str,
        scope: SectionScope,
    ) -> Result<LoadedSection, SkillError> {
        let state = Arc::clone(self.view.state());
        for skill in state.loaded().iter().rev().filter(|skill| scope.includes(skill)) {
            if let Err(dropped) = self.add_skill(skill).await? {
                self.drop_skill(&skill.name, dropped);
            }
        }
        let engine = self.engine().clone();
        let Self { mut section, mut texts, notices, framed, now, .. } = self;
        let mut blocks = Vec::new();
        for name in state.names() {
            if let Some(texts) = texts.remove(name) {
                blocks.extend(texts);
                section.skills.push(name.to_owned());
            }
        }
        if !blocks.is_empty() {
            blocks.insert(0, title.to_owned());
        }
        section.dropped.reverse();
        blocks.extend(notices.into_iter().rev());
        section.text = blocks.join("\n\n");
        section.tokens = engine.options().tokens.count(&section.text);
        engine.log(&section.deltas, &now);
        if !framed.is_empty() || !section.deltas.is_empty() {
            engine.cache_texts(&now, framed);
        }
        Ok(section)
    }

    fn engine(&self) -> &SkillEngine {
        self.view.engine()
    }

    /// Applies a change, if it fits.
    fn apply(&mut self, delta: SkillDelta) -> Result<(), Conflict> {
        let after = self.engine().after(&self.now, std::slice::from_ref(&delta))?;
        self.now = after;
        self.section.deltas.push(delta);
        Ok(())
    }

    /// Adds the missing text of one skill to the section.
    async fn add_skill(&mut self, skill: &LoadedSkill) -> Result<Result<(), DropReason>, SkillError> {
        let name = skill.name.as_str();
        if skill.from.is_some() {
            return Ok(self.keep_server_skill(skill));
        }
        let visible = Arc::clone(self.view.visible());
        let entry = visible.view.get(name);
        // A server's skill that has this name now is not the loaded one.
        if entry.is_some_and(|entry| entry.published().is_some()) {
            return Ok(Err(DropReason::Changed));
        }
        if entry.is_none() && self.engine().permissions().is_denied(&Kind::SKILL, name) {
            return Ok(Err(DropReason::Gone));
        }
        let is_present = self.present.contains(&skill.nonce);
        let is_changed = self.engine().is_outdated(&skill.nonce);
        let (instructions, resources) = match (self.engine().text(&skill.nonce), entry) {
            (Some(instructions), _) => (instructions, self.view.state().resources(name).to_vec()),
            // The messages have its text, and the catalog reports no change.
            _ if is_present && !is_changed => {
                self.add_documents(name, entry).await?;
                return Ok(Ok(()));
            }
            (None, None) => return Ok(Err(DropReason::Gone)),
            (None, Some(entry)) => match self.reread(skill, entry).await? {
                Ok(read) => read,
                // The messages still have its earlier text.
                Err(_) if is_present => {
                    self.add_documents(name, Some(entry)).await?;
                    return Ok(Ok(()));
                }
                Err(dropped) => return Ok(Err(dropped)),
            },
        };
        if !self.present.contains(&instructions.nonce) {
            let options = self.engine().options();
            let location = self.now.get(name).map_or(&skill.location, |skill| &skill.location);
            let heading = options.dialect.heading(name, &options.skill_paths.directory(name, location));
            let summary = framing::resource_summary(&resources, location, &options.skill_paths);
            let text = [heading.as_str(), &instructions.text, &summary].concat();
            if let Err(tokens) = self.add_text(name, text) {
                return Ok(Err(DropReason::NoRoom { tokens, budget: self.budget }));
            }
        }
        self.add_documents(name, entry).await?;
        Ok(Ok(()))
    }

    /// Keeps the text of a server's skill that the messages have, and adds nothing.
    fn keep_server_skill(&mut self, skill: &LoadedSkill) -> Result<(), DropReason> {
        if !self.present.contains(&skill.nonce) {
            return Err(DropReason::Summarised);
        }
        let state = Arc::clone(self.view.state());
        for document in state.documents(&skill.name) {
            if !self.present.contains(&document.nonce) {
                let why = "the message that it was in has been summarised".to_owned();
                let dropped = DroppedDocument { nonce: document.nonce.clone(), why };
                self.drop_document(&skill.name, document, dropped);
            }
        }
        Ok(())
    }

    /// Reads a loaded skill's manifest again. A changed manifest is used only if the permissions allow it.
    async fn reread(
        &mut self,
        skill: &LoadedSkill,
        entry: &Arc<SkillEntry>,
    ) -> Result<Result<(Arc<FramedText>, Vec<ResourceMetadata>), DropReason>, SkillError> {
        let text = match self.io.text(entry).await {
            Ok(text) => text,
            Err(SkillError::WrongFeed) => return Err(SkillError::WrongFeed),
            Err(error) => return Ok(Err(DropReason::Unreadable(error.to_string()))),
        };
        let engine = self.engine().clone();
        let (options, arguments) = (engine.options(), skill.arguments.as_deref());
        let framed = match framing::instructions(entry, &text, arguments, options, engine.secret()) {
            Ok(framed) => Arc::new(framed),
            Err(error) => return Ok(Err(DropReason::Unreadable(error.to_string()))),
        };
        let has_moved = text.skill.location != skill.location;
        if text.digest == skill.digest && !has_moved && framed.nonce == skill.nonce {
            self.framed.push(Arc::clone(&framed));
            return Ok(Ok((framed, self.view.state().resources(&skill.name).to_vec())));
        }
        if !self.view.may_show(entry, &text) {
            return Ok(Err(DropReason::Changed));
        }
        let resources =
            ResourceMetadata::of_skill(entry, &self.io.resources(entry, options.resource_depth).await?);
        let heading = heading(options, entry);
        let loaded = loaded_skill(options, entry, &text, arguments, &framed, &heading, &resources);
        let now = LoadedSkill { lifetime: skill.lifetime, ..loaded };
        match self.apply(SkillDelta::Reloaded { skill: now, resources: resources.clone() }) {
            Ok(()) => {
                self.framed.push(Arc::clone(&framed));
                Ok(Ok((framed, resources)))
            }
            Err(_) => {
                let budget = options.budgets.max_loaded_tokens.unwrap_or(usize::MAX);
                Ok(Err(DropReason::NoRoom { tokens: options.tokens.count(&framed.text), budget }))
            }
        }
    }

    /// Adds the missing documents of a skill to the section. A document that cannot be read, or has no room, is no longer
    /// selected, and one line says so.
    async fn add_documents(&mut self, name: &str, entry: Option<&Arc<SkillEntry>>) -> Result<(), SkillError> {
        // Another skill that has this name now has other documents.
        let location = self.now.get(name).map(|skill| skill.location.clone());
        let entry = entry.filter(|entry| Some(&entry.skill.location) == location.as_ref());
        let state = Arc::clone(self.view.state());
        for document in state.documents(name) {
            if self.present.contains(&document.nonce) {
                continue;
            }
            if let Err(dropped) = self.add_document(name, document, entry).await? {
                self.drop_document(name, document, dropped);
            }
        }
        Ok(())
    }

    /// Takes a document out of the selection.
    fn drop_document(&mut self, name: &str, document: &SelectedDocument, dropped: DroppedDocument) {
        let DroppedDocument { nonce: before, why } = dropped;
        if self.apply(SkillDelta::DocumentChanged { name: name.to_owned(), before, document: None }).is_ok() {
            let (path, name) = (code_text(&document.path), code_text(name));
            let notice = format!("Document '{path}' of skill '{name}' is no longer in context: {why}.");
            self.notices.push(notice);
        }
    }

    async fn add_document(
        &mut self,
        name: &str,
        document: &SelectedDocument,
        entry: Option<&Arc<SkillEntry>>,
    ) -> Result<Result<(), DroppedDocument>, SkillError> {
        let dropped = |why| DroppedDocument { nonce: document.nonce.clone(), why };
        let framed = match (self.engine().text(&document.nonce), entry) {
            (Some(framed), _) => framed,
            (None, None) => return Ok(Err(dropped("it no longer exists".to_owned()))),
            (None, Some(entry)) => {
                let read = match self.io.document(entry, &document.path).await? {
                    Ok(read) => read,
                    Err(error) => return Ok(Err(dropped(code_text(&error.to_string())))),
                };
                let framed = Arc::new(framing::document(
                    entry,
                    &read,
                    self.engine().options(),
                    self.engine().secret(),
                ));
                if let Err(why) = self.update_document(name, document, &framed, read.text.len()) {
                    return Ok(Err(dropped(why)));
                }
                self.framed.push(Arc::clone(&framed));
                framed
            }
        };
        Ok(self.add_text(name, framed.text.clone()).map_err(|tokens| DroppedDocument {
            // The state already has the new nonce.
            nonce: framed.nonce.clone(),
            why: format!("its {tokens} tokens no longer fit: there is room for {}", self.budget),
        }))
    }

    /// Updates the state if a document has changed.
    fn update_document(
        &mut self,
        name: &str,
        document: &SelectedDocument,
        framed: &Arc<FramedText>,
        bytes: usize,
    ) -> Result<(), String> {
        if framed.nonce == document.nonce {
            return Ok(());
        }
        let now = selected_document(self.engine().options(), &document.path, framed, bytes);
        let (name, before) = (name.to_owned(), document.nonce.clone());
        let changed = self.apply(SkillDelta::DocumentChanged { name, before, document: Some(now) });
        changed.map_err(|_| "it has changed, and there is no room for its new text".to_owned())
    }

    /// Unloads a skill that cannot stay in context.
    fn drop_skill(&mut self, name: &str, why: DropReason) {
        let reason = match &why {
            DropReason::NoRoom { .. } => UnloadReason::Budget,
            DropReason::Changed => UnloadReason::Changed,
            DropReason::Summarised => UnloadReason::Summarised,
            DropReason::Gone | DropReason::Unreadable(_) => UnloadReason::Gone,
        };
        if self.apply(SkillDelta::Unloaded { name: name.to_owned(), reason }).is_ok() {
            let notice = why.notice(name, self.engine().options().dialect);
            self.notices.push(notice);
            self.section.dropped.push(name.to_owned());
            self.texts.remove(name);
        }
    }

    /// Adds a text if there is room for it. Otherwise returns its number of tokens.
    fn add_text(&mut self, name: &str, text: String) -> Result<(), usize> {
        let tokens = self.engine().options().tokens.count(&text);
        if tokens > self.room {
            return Err(tokens);
        }
        self.room -= tokens;
        self.texts.entry(name.to_owned()).or_default().push(text);
        Ok(())
    }
}
