//! Keeps the text of loaded skills in context: in the system message, and after compaction.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use prowess_catalog::{Frame, SkillEntry};
use prowess_permission::Kind;

use crate::delta::{LoadedSkill, SelectedDocument, SkillDelta, UnloadReason};
use crate::error::{argument, safe};
use crate::options::Placement;
use crate::refresh::told;
use crate::render::{self, FramedText};
use crate::session::{LoadedText, SkillSession};
use crate::state::{Conflict, SkillState};

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
    /// The changes of state, which the session has made already.
    pub deltas: Vec<SkillDelta>,
}

impl SkillSession {
    /// The part of the system message that has the loaded skills' text, where that is its place. Empty
    /// when tool answers have it.
    pub async fn loaded_section(&self) -> LoadedSection {
        match self.options().placement {
            Placement::ToolAnswer => LoadedSection::default(),
            Placement::SystemMessage => {
                self.section(&BTreeSet::new(), None, TITLE, |skill| skill.from.is_none()).await
            }
        }
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
    pub async fn put_back<'a>(
        &self,
        kept: impl IntoIterator<Item = &'a str>,
        budget: Option<usize>,
    ) -> LoadedSection {
        // The system message has all that is local, whatever was summarised.
        let is_all = self.options().placement == Placement::ToolAnswer;
        let secret = self.secret().as_bytes();
        let frames = kept.into_iter().flat_map(|text| Frame::find_all(text, secret));
        let present: BTreeSet<String> = frames.map(|framed| framed.nonce).collect();
        let title = format!("{TITLE}\n\n{AGAIN}");
        self.section(&present, budget, &title, |skill| is_all || skill.from.is_some()).await
    }

    async fn section(
        &self,
        present: &BTreeSet<String>,
        budget: Option<usize>,
        title: &str,
        is_meant: impl Fn(&LoadedSkill) -> bool,
    ) -> LoadedSection {
        let state = self.state();
        let count = |text: &str| self.options().tokens.count(text);
        let mut making = Making {
            present,
            budget: budget.unwrap_or(usize::MAX),
            room: budget.map_or(usize::MAX, |budget| budget.saturating_sub(count(title))),
            section: LoadedSection::default(),
            parts: BTreeMap::new(),
            notices: Vec::new(),
        };
        for skill in state.loaded().iter().rev().filter(|skill| is_meant(skill)) {
            if let Err(dropped) = self.put_skill(skill, &state, &mut making).await {
                self.drop_skill(&skill.name, dropped, &mut making);
            }
        }
        let Making { mut section, mut parts, notices, .. } = making;
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
        section.tokens = count(&section.text);
        section
    }

    /// Puts what is missing of one skill into the section.
    async fn put_skill(
        &self,
        skill: &LoadedSkill,
        state: &SkillState,
        making: &mut Making<'_>,
    ) -> Result<(), Dropped> {
        let name = skill.name.as_str();
        if skill.from.is_some() {
            return self.keep_servers(skill, state, making);
        }
        let known = self.known();
        let entry = known.view.get(name);
        // A server's skill that has the name now is not the one that was loaded.
        if entry.is_some_and(|entry| entry.published().is_some()) {
            return Err(Dropped::Changed);
        }
        if entry.is_none() && self.permissions().is_denied(&Kind::SKILL, name) {
            return Err(Dropped::Gone);
        }
        let kept = self.text_of(name);
        let is_present = making.present.contains(&skill.nonce);
        let is_changed = self.lock().changed.contains(name);
        let at_hand = kept.instructions.clone().map(|instructions| (kept.heading.clone(), instructions));
        let (heading, instructions, resources) = match (at_hand, entry) {
            (Some((heading, instructions)), _) => (heading, instructions, state.resources(name).to_vec()),
            // It is in the messages, and there is no reason to look at it again.
            _ if is_present && !is_changed => {
                return self.put_documents(name, state, &kept, entry, making).await;
            }
            (None, None) => return Err(Dropped::Gone),
            (None, Some(entry)) => match self.reread(skill, state, entry, &mut making.section.deltas).await {
                Ok(read) => read,
                // What the model has stays what it has.
                Err(_) if is_present => {
                    return self.put_documents(name, state, &kept, Some(entry), making).await;
                }
                Err(dropped) => return Err(dropped),
            },
        };
        if !making.present.contains(&instructions.nonce) {
            let summary = render::resource_summary(&resources);
            let text = [heading.as_str(), &instructions.text, &summary].concat();
            making
                .put(name, text, self)
                .map_err(|tokens| Dropped::NoRoom { tokens, budget: making.budget })?;
        }
        self.put_documents(name, state, &kept, entry, making).await
    }

    /// Keeps what is in the messages of a server's skill, and nothing else of it.
    fn keep_servers(
        &self,
        skill: &LoadedSkill,
        state: &SkillState,
        making: &mut Making<'_>,
    ) -> Result<(), Dropped> {
        if !making.present.contains(&skill.nonce) {
            return Err(Dropped::Summarised);
        }
        for document in state.documents(&skill.name) {
            if !making.present.contains(&document.nonce) {
                let why = "the message that it was in has been summarised".to_owned();
                self.leave_document(
                    &skill.name,
                    document,
                    Left { nonce: document.nonce.clone(), why },
                    making,
                );
            }
        }
        Ok(())
    }

    /// Reads a loaded skill's document again, and goes on with it if it is the same, or may be.
    async fn reread(
        &self,
        skill: &LoadedSkill,
        state: &SkillState,
        entry: &Arc<SkillEntry>,
        deltas: &mut Vec<SkillDelta>,
    ) -> Result<(String, Arc<FramedText>, Vec<crate::delta::ResourceMetadata>), Dropped> {
        let unreadable = |error: crate::error::SkillError| Dropped::Unreadable(error.to_string());
        let text = self.read(entry).await.map_err(unreadable)?;
        let dialect = self.options().dialect;
        let arguments = skill.arguments.as_deref();
        let framed =
            render::instructions(entry, &text, arguments, dialect, self.secret()).map_err(unreadable)?;
        let (heading, framed) = (dialect.heading(entry), Arc::new(framed));
        let kept = LoadedText {
            instructions: Some(Arc::clone(&framed)),
            heading: heading.clone(),
            documents: BTreeMap::new(),
        };
        let is_same_place = text.skill.location == skill.location;
        if text.digest == skill.digest && is_same_place && framed.nonce == skill.nonce {
            self.keep(&skill.name, kept);
            return Ok((heading, framed, state.resources(&skill.name).to_vec()));
        }
        if !self.may_show(entry, &text) {
            return Err(Dropped::Changed);
        }
        let depth = self.options().resource_depth;
        let resources = told(entry, &self.files().resources(entry, depth).await);
        let loaded = self.loaded_skill(entry, &text, arguments, &framed, &heading, &resources);
        let now = LoadedSkill { lifetime: skill.lifetime, ..loaded };
        let delta = SkillDelta::Reloaded { skill: now, resources: resources.clone() };
        match self.commit_with(std::slice::from_ref(&delta), Some(kept)) {
            Ok(_) => deltas.push(delta),
            Err(rejected) if rejected.conflict == Conflict::OverBudget => {
                let budget = self.options().budgets.max_loaded_tokens.unwrap_or(usize::MAX);
                let tokens = self.options().tokens.count(&framed.text);
                return Err(Dropped::NoRoom { tokens, budget });
            }
            Err(_) => return Err(Dropped::Raced),
        }
        Ok((heading, framed, resources))
    }

    /// Puts the documents of a skill that are missing into the section. One that cannot be had any more, or
    /// for which there is no room, is no longer selected, and a line says so.
    async fn put_documents(
        &self,
        name: &str,
        state: &SkillState,
        kept: &LoadedText,
        entry: Option<&Arc<SkillEntry>>,
        making: &mut Making<'_>,
    ) -> Result<(), Dropped> {
        // The documents of another skill that has the name now are not this one's.
        let location = self.state().get(name).map(|skill| skill.location.clone());
        let entry = entry.filter(|entry| Some(&entry.skill.location) == location.as_ref());
        for document in state.documents(name) {
            if making.present.contains(&document.nonce) {
                continue;
            }
            if let Err(left) = self.put_document(name, document, kept, entry, making).await {
                self.leave_document(name, document, left, making);
            }
        }
        Ok(())
    }

    fn leave_document(&self, name: &str, document: &SelectedDocument, left: Left, making: &mut Making<'_>) {
        let Left { nonce: before, why } = left;
        let delta = SkillDelta::DocumentChanged { name: name.to_owned(), before, document: None };
        if self.commit(std::slice::from_ref(&delta)).is_ok() {
            making.section.deltas.push(delta);
            let (path, name) = (safe(&document.path), safe(name));
            let notice = format!("Document '{path}' of skill '{name}' is no longer in context: {why}.");
            making.notices.push(notice);
        }
    }

    async fn put_document(
        &self,
        name: &str,
        document: &SelectedDocument,
        kept: &LoadedText,
        entry: Option<&Arc<SkillEntry>>,
        making: &mut Making<'_>,
    ) -> Result<(), Left> {
        let left = |why| Left { nonce: document.nonce.clone(), why };
        let framed = match (kept.documents.get(&document.path), entry) {
            (Some(framed), _) => Arc::clone(framed),
            (None, None) => return Err(left("it is not there any more".to_owned())),
            (None, Some(entry)) => {
                let read = self.files().document(entry, &document.path).await;
                let read = read.map_err(|error| left(safe(&error.to_string())))?;
                let framed = Arc::new(render::document(entry, &read, self.secret()));
                self.follow_document(name, document, &framed, read.text.len(), making).map_err(left)?;
                framed
            }
        };
        making.put(name, framed.text.clone(), self).map_err(|tokens| Left {
            // By now the state knows it by what it says now.
            nonce: framed.nonce.clone(),
            why: format!(
                "its {tokens} tokens no longer fit into the {} that there is room for",
                making.budget
            ),
        })
    }

    /// Brings the state into line with a document that was read again.
    fn follow_document(
        &self,
        name: &str,
        document: &SelectedDocument,
        framed: &Arc<FramedText>,
        bytes: usize,
        making: &mut Making<'_>,
    ) -> Result<(), String> {
        let texts = BTreeMap::from([(document.path.clone(), Arc::clone(framed))]);
        let kept = LoadedText { documents: texts, ..LoadedText::default() };
        if framed.nonce == document.nonce {
            self.keep(name, kept);
            return Ok(());
        }
        let now = self.selected(&document.path, framed, bytes);
        let before = document.nonce.clone();
        let delta = SkillDelta::DocumentChanged { name: name.to_owned(), before, document: Some(now) };
        match self.commit_with(std::slice::from_ref(&delta), Some(kept)) {
            Ok(_) => {
                making.section.deltas.push(delta);
                Ok(())
            }
            Err(_) => Err("it has changed, and there is no room for what it says now".to_owned()),
        }
    }

    fn text_of(&self, name: &str) -> LoadedText {
        self.lock().texts.get(name).cloned().unwrap_or_default()
    }

    /// Unloads a skill that cannot be kept, unless somebody else has done so meanwhile.
    fn drop_skill(&self, name: &str, dropped: Dropped, making: &mut Making<'_>) {
        let reason = match &dropped {
            Dropped::NoRoom { .. } => UnloadReason::Budget,
            Dropped::Changed => UnloadReason::Changed,
            Dropped::Summarised => UnloadReason::Summarised,
            Dropped::Gone | Dropped::Unreadable(_) => UnloadReason::Gone,
            Dropped::Raced => return,
        };
        let delta = SkillDelta::Unloaded { name: name.to_owned(), reason };
        if self.commit(std::slice::from_ref(&delta)).is_ok() {
            making.section.deltas.push(delta);
            making.notices.push(self.dropped_notice(name, dropped));
            making.section.dropped.push(name.to_owned());
            making.parts.remove(name);
        }
    }

    fn dropped_notice(&self, name: &str, dropped: Dropped) -> String {
        let load = self.options().dialect.words().load;
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
            Dropped::Gone | Dropped::Raced => {
                format!("Skill '{name}' was unloaded: it is no longer available.")
            }
        }
    }
}

/// A section while it is made.
struct Making<'a> {
    /// The nonces of the frames that are in context already.
    present: &'a BTreeSet<String>,
    budget: usize,
    /// The tokens that are left of it.
    room: usize,
    section: LoadedSection,
    /// The texts of each skill.
    parts: BTreeMap<String, Vec<String>>,
    notices: Vec<String>,
}

impl Making<'_> {
    /// Takes a text in if there is room for it; else says how many tokens it takes.
    fn put(&mut self, name: &str, text: String, session: &SkillSession) -> Result<(), usize> {
        let tokens = session.options().tokens.count(&text);
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
    /// Somebody else changed it meanwhile.
    Raced,
}
