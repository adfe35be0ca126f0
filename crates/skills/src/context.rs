//! Keeps the text of loaded skills in context: in the system message, and after compaction.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use prowess_catalog::{Frame, SkillEntry};
use prowess_permission::Kind;

use crate::delta::{LoadedSkill, ResourceMetadata, SelectedDocument, SkillDelta, UnloadReason};
use crate::documents::selected_document;
use crate::engine::SkillEngine;
use crate::error::{SkillError, argument, safe};
use crate::load::loaded_skill;
use crate::options::Placement;
use crate::refresh::told;
use crate::render::{self, FramedText};
use crate::state::{Conflict, SkillState};
use crate::step::{Io, Operation};
use crate::view::SkillView;

const TITLE: &str = "## Loaded Skills";
const AGAIN: &str = "The messages that these skills were loaded in have been summarised. Here are their \
                     instructions again; they are still loaded.";

/// Text of loaded skills for the context.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct LoadedSection {
    /// What the model reads; empty when there is nothing to say.
    pub text: String,
    /// About how many tokens it takes.
    pub tokens: usize,
    /// The skills whose instructions or documents are in it, in the order in which they were loaded.
    pub skills: Vec<String>,
    /// Skills that could not be kept, and were unloaded; the text names them.
    pub dropped: Vec<String>,
    /// The changes of state that make it true.
    pub deltas: Vec<SkillDelta>,
}

impl SkillView {
    /// The part of the system message that has the loaded skills' text, where that is its place. Empty
    /// when tool answers have it.
    pub fn loaded_section(&self) -> Operation<LoadedSection> {
        let meant = match self.engine().options().placement {
            Placement::ToolAnswer => Meant::None,
            Placement::SystemMessage => Meant::Local,
        };
        self.section(BTreeSet::new(), None, TITLE.to_owned(), meant)
    }

    /// What must be put back into context after compaction, so that no loaded skill is lost: the text of
    /// every loaded skill that is not whole in one of the `kept` messages.
    ///
    /// Room for `budget` tokens goes to the skill that was loaded last, then to the one before it, and so on.
    /// What finds none is unloaded, and the text says so: a line for each, which the budget does not count. So is
    /// a server's skill that is not whole in them, because its words are not for this place.
    ///
    /// ```
    /// # use prowess_catalog::{Catalog, Root, ScanOptions};
    /// # use prowess_skills::SkillSession;
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// # let scratch = tempfile::tempdir()?;
    /// # std::fs::create_dir(scratch.path().join("greet"))?;
    /// # std::fs::write(scratch.path().join("greet/SKILL.md"), "---\nname: greet\ndescription: Hello.\n---\nWave.\n")?;
    /// # let catalog = Catalog::discover(&[Root::explicit(scratch.path())], &ScanOptions::default());
    /// # let session = SkillSession::builder(catalog).start().await;
    /// let loaded = session.load("greet", None).await?;
    /// assert!(session.put_back([loaded.text.as_str()], None).await.text.is_empty());
    /// assert!(session.put_back(["only a summary"], None).await.text.contains("Wave."));
    /// # Ok(())
    /// # }
    /// ```
    pub fn put_back<'a>(
        &self,
        kept: impl IntoIterator<Item = &'a str>,
        budget: Option<usize>,
    ) -> Operation<LoadedSection> {
        // The system message has all that is local, whatever was summarised.
        let meant = match self.engine().options().placement {
            Placement::ToolAnswer => Meant::All,
            Placement::SystemMessage => Meant::Servers,
        };
        let secret = self.engine().secret().as_bytes();
        let frames = kept.into_iter().flat_map(|text| Frame::find_all(text, secret));
        let present: BTreeSet<String> = frames.map(|framed| framed.nonce).collect();
        self.section(present, budget, format!("{TITLE}\n\n{AGAIN}"), meant)
    }

    /// Whether the text of every loaded skill that belongs into tool answers is whole in one of the `kept` messages. It is not
    /// where they were loaded with other options, such as a dialect that puts text into the system message.
    pub fn has_all_texts<'a>(&self, kept: impl IntoIterator<Item = &'a str>) -> bool {
        let is_in_answers =
            |skill: &&LoadedSkill| self.engine().placement_of(skill.from.is_some()) == Placement::ToolAnswer;
        let answered = self.state().loaded().iter().filter(is_in_answers);
        let mut missing: BTreeSet<&str> = answered.map(|skill| skill.nonce.as_str()).collect();
        let secret = self.engine().secret().as_bytes();
        for text in kept {
            if missing.is_empty() {
                break;
            }
            for framed in Frame::find_all(text, secret) {
                missing.remove(framed.nonce.as_str());
            }
        }
        missing.is_empty()
    }

    fn section(
        &self,
        present: BTreeSet<String>,
        budget: Option<usize>,
        title: String,
        meant: Meant,
    ) -> Operation<LoadedSection> {
        let view = self.clone();
        Operation::new(self.engine(), move |io| async move {
            let engine = view.engine().clone();
            let taken = engine.options().tokens.count(&title);
            let making = Making {
                io,
                now: SkillState::clone(view.state()),
                view,
                present,
                budget: budget.unwrap_or(usize::MAX),
                room: budget.map_or(usize::MAX, |budget| budget.saturating_sub(taken)),
                section: LoadedSection::default(),
                parts: BTreeMap::new(),
                notices: Vec::new(),
                texts: Vec::new(),
            };
            making.made(&title, meant).await
        })
    }
}

/// Which loaded skills a section is about.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Meant {
    None,
    Local,
    Servers,
    All,
}

impl Meant {
    fn is_meant(self, skill: &LoadedSkill) -> bool {
        match self {
            Self::None => false,
            Self::Local => skill.from.is_none(),
            Self::Servers => skill.from.is_some(),
            Self::All => true,
        }
    }
}

/// A section while it is made.
struct Making {
    io: Io,
    /// The moment that it is made for.
    view: SkillView,
    /// The state with all changes so far.
    now: SkillState,
    /// The nonces of the frames that are in context already.
    present: BTreeSet<String>,
    budget: usize,
    /// The tokens that are left of it.
    room: usize,
    section: LoadedSection,
    /// The texts of each skill.
    parts: BTreeMap<String, Vec<String>>,
    notices: Vec<String>,
    /// Texts that were read, to be kept.
    texts: Vec<Arc<FramedText>>,
}

impl Making {
    async fn made(mut self, title: &str, meant: Meant) -> Result<LoadedSection, SkillError> {
        let state = Arc::clone(self.view.state());
        for skill in state.loaded().iter().rev().filter(|skill| meant.is_meant(skill)) {
            if let Err(dropped) = self.put_skill(skill).await? {
                self.drop_skill(&skill.name, dropped);
            }
        }
        let engine = self.engine().clone();
        let Self { mut section, mut parts, notices, texts, now, .. } = self;
        let mut blocks = Vec::new();
        for name in state.names() {
            if let Some(texts) = parts.remove(name) {
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
        if !texts.is_empty() || !section.deltas.is_empty() {
            engine.keep(&now, texts);
        }
        Ok(section)
    }

    fn engine(&self) -> &SkillEngine {
        self.view.engine()
    }

    /// Makes a change, if it fits.
    fn change(&mut self, delta: SkillDelta) -> Result<(), Conflict> {
        let after = self.engine().after(&self.now, std::slice::from_ref(&delta))?;
        self.now = after;
        self.section.deltas.push(delta);
        Ok(())
    }

    /// Puts what is missing of one skill into the section.
    async fn put_skill(&mut self, skill: &LoadedSkill) -> Result<Result<(), Dropped>, SkillError> {
        let name = skill.name.as_str();
        if skill.from.is_some() {
            return Ok(self.keep_servers(skill));
        }
        let known = Arc::clone(self.view.known());
        let entry = known.view.get(name);
        // A server's skill that has the name now is not the one that was loaded.
        if entry.is_some_and(|entry| entry.published().is_some()) {
            return Ok(Err(Dropped::Changed));
        }
        if entry.is_none() && self.engine().permissions().is_denied(&Kind::SKILL, name) {
            return Ok(Err(Dropped::Gone));
        }
        let is_present = self.present.contains(&skill.nonce);
        let is_changed = self.engine().is_outdated(&skill.nonce);
        let (instructions, resources) = match (self.engine().text(&skill.nonce), entry) {
            (Some(instructions), _) => (instructions, self.view.state().resources(name).to_vec()),
            // It is in the messages, and there is no reason to look at it again.
            _ if is_present && !is_changed => {
                self.put_documents(name, entry).await?;
                return Ok(Ok(()));
            }
            (None, None) => return Ok(Err(Dropped::Gone)),
            (None, Some(entry)) => match self.reread(skill, entry).await? {
                Ok(read) => read,
                // What the model has stays what it has.
                Err(_) if is_present => {
                    self.put_documents(name, Some(entry)).await?;
                    return Ok(Ok(()));
                }
                Err(dropped) => return Ok(Err(dropped)),
            },
        };
        if !self.present.contains(&instructions.nonce) {
            let dialect = self.engine().options().dialect;
            let location = self.now.get(name).map_or(&skill.location, |skill| &skill.location);
            let heading = dialect.heading(name, location.directory());
            let summary = render::resource_summary(&resources);
            let text = [heading.as_str(), &instructions.text, &summary].concat();
            if let Err(tokens) = self.put(name, text) {
                return Ok(Err(Dropped::NoRoom { tokens, budget: self.budget }));
            }
        }
        self.put_documents(name, entry).await?;
        Ok(Ok(()))
    }

    /// Keeps what is in the messages of a server's skill, and nothing else of it.
    fn keep_servers(&mut self, skill: &LoadedSkill) -> Result<(), Dropped> {
        if !self.present.contains(&skill.nonce) {
            return Err(Dropped::Summarised);
        }
        let state = Arc::clone(self.view.state());
        for document in state.documents(&skill.name) {
            if !self.present.contains(&document.nonce) {
                let why = "the message that it was in has been summarised".to_owned();
                self.leave_document(&skill.name, document, Left { nonce: document.nonce.clone(), why });
            }
        }
        Ok(())
    }

    /// Reads a loaded skill's document again, and goes on with it if it is the same, or may be.
    async fn reread(
        &mut self,
        skill: &LoadedSkill,
        entry: &Arc<SkillEntry>,
    ) -> Result<Result<(Arc<FramedText>, Vec<ResourceMetadata>), Dropped>, SkillError> {
        let text = match self.io.text(entry).await {
            Ok(text) => text,
            Err(SkillError::Misfed) => return Err(SkillError::Misfed),
            Err(error) => return Ok(Err(Dropped::Unreadable(error.to_string()))),
        };
        let engine = self.engine().clone();
        let (options, arguments) = (engine.options(), skill.arguments.as_deref());
        let framed = match render::instructions(entry, &text, arguments, options.dialect, engine.secret()) {
            Ok(framed) => Arc::new(framed),
            Err(error) => return Ok(Err(Dropped::Unreadable(error.to_string()))),
        };
        let is_same_place = text.skill.location == skill.location;
        if text.digest == skill.digest && is_same_place && framed.nonce == skill.nonce {
            self.texts.push(Arc::clone(&framed));
            return Ok(Ok((framed, self.view.state().resources(&skill.name).to_vec())));
        }
        if !self.view.may_show(entry, &text) {
            return Ok(Err(Dropped::Changed));
        }
        let resources = told(entry, &self.io.resources(entry, options.resource_depth).await?);
        let heading = options.dialect.heading(entry.skill.name.as_str(), entry.skill.location.directory());
        let loaded = loaded_skill(options, entry, &text, arguments, &framed, &heading, &resources);
        let now = LoadedSkill { lifetime: skill.lifetime, ..loaded };
        match self.change(SkillDelta::Reloaded { skill: now, resources: resources.clone() }) {
            Ok(()) => {
                self.texts.push(Arc::clone(&framed));
                Ok(Ok((framed, resources)))
            }
            Err(_) => {
                let budget = options.budgets.max_loaded_tokens.unwrap_or(usize::MAX);
                Ok(Err(Dropped::NoRoom { tokens: options.tokens.count(&framed.text), budget }))
            }
        }
    }

    /// Puts the documents of a skill that are missing into the section. One that cannot be had any more, or
    /// for which there is no room, is no longer selected, and a line says so.
    async fn put_documents(&mut self, name: &str, entry: Option<&Arc<SkillEntry>>) -> Result<(), SkillError> {
        // The documents of another skill that has the name now are not this one's.
        let location = self.now.get(name).map(|skill| skill.location.clone());
        let entry = entry.filter(|entry| Some(&entry.skill.location) == location.as_ref());
        let state = Arc::clone(self.view.state());
        for document in state.documents(name) {
            if self.present.contains(&document.nonce) {
                continue;
            }
            if let Err(left) = self.put_document(name, document, entry).await? {
                self.leave_document(name, document, left);
            }
        }
        Ok(())
    }

    fn leave_document(&mut self, name: &str, document: &SelectedDocument, left: Left) {
        let Left { nonce: before, why } = left;
        if self.change(SkillDelta::DocumentChanged { name: name.to_owned(), before, document: None }).is_ok()
        {
            let (path, name) = (safe(&document.path), safe(name));
            let notice = format!("Document '{path}' of skill '{name}' is no longer in context: {why}.");
            self.notices.push(notice);
        }
    }

    async fn put_document(
        &mut self,
        name: &str,
        document: &SelectedDocument,
        entry: Option<&Arc<SkillEntry>>,
    ) -> Result<Result<(), Left>, SkillError> {
        let left = |why| Left { nonce: document.nonce.clone(), why };
        let framed = match (self.engine().text(&document.nonce), entry) {
            (Some(framed), _) => framed,
            (None, None) => return Ok(Err(left("it is not there any more".to_owned()))),
            (None, Some(entry)) => {
                let read = match self.io.document(entry, &document.path).await? {
                    Ok(read) => read,
                    Err(error) => return Ok(Err(left(safe(&error.to_string())))),
                };
                let framed = Arc::new(render::document(entry, &read, self.engine().secret()));
                if let Err(why) = self.follow_document(name, document, &framed, read.text.len()) {
                    return Ok(Err(left(why)));
                }
                self.texts.push(Arc::clone(&framed));
                framed
            }
        };
        Ok(self.put(name, framed.text.clone()).map_err(|tokens| Left {
            // By now the state knows it by what it says now.
            nonce: framed.nonce.clone(),
            why: format!("its {tokens} tokens no longer fit into the {} that there is room for", self.budget),
        }))
    }

    /// Brings the state into line with a document that was read again.
    fn follow_document(
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
        let changed = self.change(SkillDelta::DocumentChanged { name, before, document: Some(now) });
        changed.map_err(|_| "it has changed, and there is no room for what it says now".to_owned())
    }

    /// Unloads a skill that cannot be kept.
    fn drop_skill(&mut self, name: &str, dropped: Dropped) {
        let reason = match &dropped {
            Dropped::NoRoom { .. } => UnloadReason::Budget,
            Dropped::Changed => UnloadReason::Changed,
            Dropped::Summarised => UnloadReason::Summarised,
            Dropped::Gone | Dropped::Unreadable(_) => UnloadReason::Gone,
        };
        if self.change(SkillDelta::Unloaded { name: name.to_owned(), reason }).is_ok() {
            let notice = self.dropped_notice(name, dropped);
            self.notices.push(notice);
            self.section.dropped.push(name.to_owned());
            self.parts.remove(name);
        }
    }

    fn dropped_notice(&self, name: &str, dropped: Dropped) -> String {
        let load = self.engine().options().dialect.words().load;
        let again = format!("Use `{load}(\"{}\")` if you need it again.", argument(name));
        let name = safe(name);
        match dropped {
            Dropped::NoRoom { tokens, budget } => format!(
                "Skill '{name}' was unloaded: its text takes {tokens} tokens, which no longer fit into the \
                 {budget} that loaded skills may take here. {again}"
            ),
            Dropped::Changed => format!(
                "Skill '{name}' was unloaded: it says something else now, which has not been approved. {again}"
            ),
            Dropped::Summarised => format!(
                "Skill '{name}' was unloaded: it is of an MCP server, and the messages that it was loaded in have been \
                 summarised. {again}"
            ),
            Dropped::Unreadable(error) => format!("Skill '{name}' was unloaded: {}", safe(&error)),
            Dropped::Gone => format!("Skill '{name}' was unloaded: it is no longer available."),
        }
    }

    /// Takes a text in if there is room for it; else says how many tokens it takes.
    fn put(&mut self, name: &str, text: String) -> Result<(), usize> {
        let tokens = self.engine().options().tokens.count(&text);
        if tokens > self.room {
            return Err(tokens);
        }
        self.room -= tokens;
        self.parts.entry(name.to_owned()).or_default().push(text);
        Ok(())
    }
}

/// A document that cannot be kept in context: the nonce that the state has for it, and why.
struct Left {
    nonce: String,
    why: String,
}

/// Why a loaded skill cannot be kept in context.
enum Dropped {
    NoRoom {
        tokens: usize,
        budget: usize,
    },
    Changed,
    Gone,
    /// A server's words are not put where the user's are.
    Summarised,
    Unreadable(String),
}
