//! Put-back: after compaction, loaded skills come back into the context.

use std::collections::BTreeSet;

use prowess_catalog::Frame;

use super::{LoadedSection, SectionScope, TITLE};
use crate::delta::LoadedSkill;
use crate::operation::Operation;
use crate::options::Placement;
use crate::view::SkillView;

/// What the model reads before the text that is put back.
const AGAIN: &str =
    "The conversation above does not have the instructions of these loaded skills, so here they are.";

impl SkillView {
    /// The text to put back into context after compaction: the text of every loaded skill that is not complete in one of
    /// the `kept` messages.
    ///
    /// The skill that was loaded last gets the first part of the `budget` of tokens, then the one before it, and so on. A
    /// skill without room is unloaded, and one line says so; these lines do not count. A server's skill that is not
    /// complete in the messages is also unloaded, because its text does not belong here.
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
    /// # let session = SkillSession::builder(catalog).build().await;
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
        // With that placement, the system message still has the text of all local skills.
        let scope = match self.engine().options().placement {
            Placement::ToolAnswer => SectionScope::All,
            Placement::SystemMessage => SectionScope::ServerSkills,
        };
        let secret = self.engine().secret().as_bytes();
        let frames = kept.into_iter().flat_map(|text| Frame::find_all(text, secret));
        let present: BTreeSet<String> = frames.map(|framed| framed.nonce).collect();
        self.section(present, budget, format!("{TITLE}\n\n{AGAIN}"), scope)
    }

    /// Whether the `kept` messages contain the complete text of every loaded skill that belongs in tool answers. They do
    /// not if the skills were loaded with other options, such as a dialect that puts text into the system message.
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
}
