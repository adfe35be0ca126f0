//! The text of loaded skills in the context: in the system message, and put back after compaction.

mod dropped;
mod put_back;
mod section;

use std::collections::BTreeSet;

use crate::delta::{LoadedSkill, SkillDelta};
use crate::operation::Operation;
use crate::options::Placement;
use crate::view::SkillView;
use section::SectionMaker;

const TITLE: &str = "## Loaded Skills";

/// A section with the text of loaded skills.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct LoadedSection {
    /// The text for the model; empty if there is nothing to say.
    pub text: String,
    /// The estimated number of its tokens.
    pub tokens: usize,
    /// The skills whose instructions or documents it contains, in the order of loading.
    pub skills: Vec<String>,
    /// The skills that were unloaded because they could not stay in context. The text names them.
    pub dropped: Vec<String>,
    /// The changes of state that belong to the text.
    pub deltas: Vec<SkillDelta>,
}

impl SkillView {
    /// The section of the system message with the text of loaded skills. It is empty if the text belongs in tool answers.
    pub fn loaded_section(&self) -> Operation<LoadedSection> {
        let scope = match self.engine().options().placement {
            Placement::ToolAnswer => SectionScope::None,
            Placement::SystemMessage => SectionScope::LocalSkills,
        };
        self.section(BTreeSet::new(), None, TITLE.to_owned(), scope)
    }

    fn section(
        &self,
        present: BTreeSet<String>,
        budget: Option<usize>,
        title: String,
        scope: SectionScope,
    ) -> Operation<LoadedSection> {
        let view = self.clone();
        Operation::new(self.engine(), move |io| async move {
            SectionMaker::new(io, view, present, budget, &title).make(&title, scope).await
        })
    }
}

/// Which loaded skills a section is about.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum SectionScope {
    None,
    LocalSkills,
    ServerSkills,
    All,
}

impl SectionScope {
    fn includes(self, skill: &LoadedSkill) -> bool {
        match self {
            Self::None => false,
            Self::LocalSkills => skill.from.is_none(),
            Self::ServerSkills => skill.from.is_some(),
            Self::All => true,
        }
    }
}
