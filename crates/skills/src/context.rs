//! Keeps the text of loaded skills in context: in the system message, and after compaction.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use prowess_catalog::{Frame, Framed, SkillEntry};
use prowess_permission::{Decision, Kind, Request};

use crate::delta::{LoadedSkill, SelectMode, SelectedDocument, SkillDelta, UnloadReason};
use crate::options::{Placement, UnloadedText};
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
            Placement::SystemMessage => self.section(&BTreeSet::new(), None, &[TITLE]).await,
        }
    }

    /// What must be put back into context after compaction, so that no loaded skill is lost: the text of
    /// every loaded skill that is not whole in one of the `kept` messages. A skill for which `budget`
    /// tokens leave no room is unloaded, the one loaded first before the others, and the text says so.
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
        if self.options().placement == Placement::SystemMessage {
            // The system message has it all, whatever was summarised.
            return LoadedSection::default();
        }
        let secret = self.secret().as_bytes();
        let frames = kept.into_iter().flat_map(|text| Frame::find_all(text, secret));
        let present: BTreeSet<String> = frames.map(|framed| framed.nonce).collect();
        self.section(&present, budget, &[TITLE, AGAIN]).await
    }

    /// A message of the history with one line in the place of every text that is not loaded any more, when
    /// the session is told to do that; `None` when nothing has to be replaced.
    pub fn without_unloaded(&self, message: &str) -> Option<String> {
        if self.options().unloaded_text == UnloadedText::Kept {
            return None;
        }
        let state = self.state();
        let is_unloaded = |framed: &Framed| {
            let documents = state.selection(&framed.name).map_or(&[][..], |selection| &selection.documents);
            let current = state.get(&framed.name).map(|skill| &skill.nonce);
            current != Some(&framed.nonce) && !documents.iter().any(|found| found.nonce == framed.nonce)
        };
        render::stubbed(message, self.secret(), is_unloaded)
    }

    async fn section(
        &self,
        present: &BTreeSet<String>,
        budget: Option<usize>,
        title: &[&str],
    ) -> LoadedSection {
        let mut section = LoadedSection::default();
        let mut notices = Vec::new();
        let mut parts: BTreeMap<String, Vec<String>> = BTreeMap::new();
        let mut room = budget.unwrap_or(usize::MAX);
        let state = self.state();
        // The latest is the most likely to be in use.
        for skill in state.loaded().iter().rev() {
            match self.current(skill, &state, &mut section.deltas).await {
                Err(Dropped::Raced) => {}
                Err(dropped) => {
                    notices.push(self.dropped_notice(&skill.name, dropped));
                    section.dropped.push(skill.name.clone());
                }
                Ok(current) => {
                    notices.extend(current.notices.iter().cloned());
                    let missing = current.missing(present);
                    let tokens: usize = missing.iter().map(|text| self.options().tokens.count(text)).sum();
                    if missing.is_empty() {
                        continue;
                    }
                    if tokens > room {
                        let reason = Dropped::NoRoom { tokens, budget: budget.unwrap_or(usize::MAX) };
                        if self.drop_skill(&skill.name, &reason, &mut section.deltas) {
                            notices.push(self.dropped_notice(&skill.name, reason));
                            section.dropped.push(skill.name.clone());
                        }
                        continue;
                    }
                    room -= tokens;
                    parts.insert(skill.name.clone(), missing);
                }
            }
        }
        let mut blocks: Vec<String> = Vec::new();
        for name in state.names() {
            if let Some(texts) = parts.remove(name) {
                blocks.extend(texts);
                section.skills.push(name.to_owned());
            }
        }
        section.dropped.reverse();
        notices.reverse();
        if !blocks.is_empty() {
            blocks.splice(0..0, title.iter().map(|&line| line.to_owned()));
        }
        blocks.extend(notices);
        section.text = blocks.join("\n\n");
        section.tokens = self.options().tokens.count(&section.text);
        section
    }

    /// The texts of a loaded skill as they are now, read again where they are not at hand.
    async fn current(
        &self,
        skill: &LoadedSkill,
        state: &SkillState,
        deltas: &mut Vec<SkillDelta>,
    ) -> Result<Current, Dropped> {
        let name = skill.name.as_str();
        let known = self.known();
        let entry = known.view.get(name);
        let kept = self.text_of(name);
        if entry.is_none() && self.permissions().is_denied(&Kind::SKILL, name) {
            return Err(self.unless_raced(name, Dropped::Gone, deltas));
        }
        let mut current = Current { resources: state.resources(name).to_vec(), ..Current::default() };
        match (kept.as_ref().and_then(|kept| Some((kept.instructions.clone()?, &kept.heading))), entry) {
            // A document that was deleted stays in use until the session ends.
            (Some((instructions, heading)), _) => {
                current.heading.clone_from(heading);
                current.instructions = Some(instructions);
            }
            (None, None) => return Err(self.unless_raced(name, Dropped::Gone, deltas)),
            (None, Some(entry)) => match self.reread(skill, entry, deltas).await {
                Ok((heading, instructions)) => {
                    current.heading = heading;
                    current.instructions = Some(instructions);
                }
                Err(dropped) => return Err(self.unless_raced(name, dropped, deltas)),
            },
        }
        let selected = state.selection(name).map_or(&[][..], |selection| &selection.documents);
        let kept = kept.map(|kept| kept.documents).unwrap_or_default();
        self.current_documents(name, selected, kept, entry, &mut current, deltas).await;
        Ok(current)
    }

    /// Reads a loaded skill's document again, and goes on with it if it is the same, or may be.
    async fn reread(
        &self,
        skill: &LoadedSkill,
        entry: &Arc<SkillEntry>,
        deltas: &mut Vec<SkillDelta>,
    ) -> Result<(String, Arc<FramedText>), Dropped> {
        let name = skill.name.as_str();
        let text = self.read(entry).await.map_err(|error| Dropped::Unreadable(error.to_string()))?;
        let dialect = self.options().dialect;
        let arguments = skill.arguments.as_deref();
        let framed = render::instructions(entry, &text, arguments, dialect, self.secret())
            .map_err(|error| Dropped::Unreadable(error.to_string()))?;
        let (heading, framed) = (render::heading(entry, dialect), Arc::new(framed));
        let kept = LoadedText {
            instructions: Some(Arc::clone(&framed)),
            heading: heading.clone(),
            documents: BTreeMap::new(),
        };
        if (text.digest, &text.skill.location) == (skill.digest, &skill.location)
            && framed.nonce == skill.nonce
        {
            self.keep(name, kept);
            return Ok((heading, framed));
        }
        let request = Request::new(Kind::SKILL, name).bound_to(text.identity().to_string());
        if self.permissions().decide(&request).decision != Decision::Allow {
            return Err(Dropped::Changed);
        }
        let now = LoadedSkill { lifetime: skill.lifetime, ..self.loaded_skill(&text, arguments, &framed) };
        let delta = SkillDelta::Reloaded { skill: now };
        match self.commit_with(std::slice::from_ref(&delta), Some(kept)) {
            Ok(()) => deltas.push(delta),
            Err(Conflict::OverBudget) => {
                let budget = self.options().budgets.max_loaded_tokens.unwrap_or(usize::MAX);
                return Err(Dropped::NoRoom { tokens: self.options().tokens.count(&framed.text), budget });
            }
            Err(_) => return Err(Dropped::Raced),
        }
        Ok((heading, framed))
    }

    async fn current_documents(
        &self,
        name: &str,
        selected: &[SelectedDocument],
        kept: BTreeMap<String, Arc<FramedText>>,
        entry: Option<&Arc<SkillEntry>>,
        current: &mut Current,
        deltas: &mut Vec<SkillDelta>,
    ) {
        let mut now = Vec::new();
        let mut texts = BTreeMap::new();
        for document in selected {
            let framed = match (kept.get(&document.path), entry) {
                (Some(framed), _) => Ok(Arc::clone(framed)),
                (None, Some(entry)) => {
                    let read = self.files().document(entry, &document.path).await;
                    read.map(|read| Arc::new(render::document(entry, &read, self.secret())))
                        .map_err(|error| error.to_string())
                }
                (None, None) => Err(format!("'{}' is not there any more", document.path)),
            };
            match framed {
                Ok(framed) => {
                    let tokens = self.options().tokens.count(&framed.text);
                    let (path, nonce) = (document.path.clone(), framed.nonce.clone());
                    now.push(SelectedDocument { path: path.clone(), tokens, nonce });
                    texts.insert(path, Arc::clone(&framed));
                    current.documents.push(framed);
                }
                Err(error) => {
                    current
                        .notices
                        .push(format!("A document of skill '{name}' is no longer in context: {error}."));
                }
            }
        }
        if now == selected {
            self.keep(name, LoadedText { documents: texts, ..LoadedText::default() });
            return;
        }
        let delta = SkillDelta::Selected {
            name: name.to_owned(),
            mode: SelectMode::Replace,
            all: false,
            documents: now,
        };
        let kept = LoadedText { documents: texts, ..LoadedText::default() };
        if self.commit_with(std::slice::from_ref(&delta), Some(kept)).is_ok() {
            deltas.push(delta);
        }
    }

    /// Unloads a skill that cannot be kept; says whether it was still there to unload.
    fn drop_skill(&self, name: &str, dropped: &Dropped, deltas: &mut Vec<SkillDelta>) -> bool {
        let reason = match dropped {
            Dropped::NoRoom { .. } => UnloadReason::Budget,
            Dropped::Changed => UnloadReason::Changed,
            Dropped::Gone | Dropped::Unreadable(_) | Dropped::Raced => UnloadReason::Gone,
        };
        let delta = SkillDelta::Unloaded { name: name.to_owned(), reason };
        let done = self.commit(std::slice::from_ref(&delta)).is_ok();
        deltas.extend(done.then_some(delta));
        done
    }

    fn unless_raced(&self, name: &str, dropped: Dropped, deltas: &mut Vec<SkillDelta>) -> Dropped {
        if matches!(dropped, Dropped::Raced) || !self.drop_skill(name, &dropped, deltas) {
            return Dropped::Raced;
        }
        dropped
    }

    fn dropped_notice(&self, name: &str, dropped: Dropped) -> String {
        let load = self.options().dialect.words().load;
        let again = format!("Use `{load}(\"{name}\")` if you need it again.");
        match dropped {
            Dropped::NoRoom { tokens, budget } => format!(
                "Skill '{name}' was unloaded: its text takes {tokens} tokens, which no longer fit into the \
                 {budget} that loaded skills may take here. {again}"
            ),
            Dropped::Changed => format!(
                "Skill '{name}' was unloaded: it says something else now, which has not been approved. {again}"
            ),
            Dropped::Unreadable(error) => format!("Skill '{name}' was unloaded: {error}"),
            Dropped::Gone | Dropped::Raced => {
                format!("Skill '{name}' was unloaded: it is no longer available.")
            }
        }
    }
}

/// A loaded skill's texts.
#[derive(Default)]
struct Current {
    heading: String,
    instructions: Option<Arc<FramedText>>,
    resources: Vec<crate::delta::ResourceMetadata>,
    documents: Vec<Arc<FramedText>>,
    notices: Vec<String>,
}

impl Current {
    /// The texts whose frames are not among `present`.
    fn missing(&self, present: &BTreeSet<String>) -> Vec<String> {
        let mut missing = Vec::new();
        if let Some(instructions) = self.instructions.as_ref().filter(|text| !present.contains(&text.nonce)) {
            let summary = render::resource_summary(&self.resources);
            missing.push([&self.heading, &instructions.text, &summary].map(String::as_str).concat());
        }
        let documents = self.documents.iter().filter(|text| !present.contains(&text.nonce));
        missing.extend(documents.map(|framed| framed.text.clone()));
        missing
    }
}

/// Why a loaded skill cannot be kept in context.
enum Dropped {
    NoRoom {
        tokens: usize,
        budget: usize,
    },
    Changed,
    Gone,
    Unreadable(String),
    /// Somebody else unloaded it meanwhile.
    Raced,
}
