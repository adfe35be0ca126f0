//! `[skills.overview]`

use super::narrowed::Narrowed;
use super::read::{Reader, section};
use super::setting::{Setting, Whole, Wrong};
use super::skills::SkillSettings;

section! {
    /// How much the list of skills, the overview, may take in the prompt of `prowess chat`, and in the instructions of `prowess
    /// mcp`. See [many skills](many-skills.md).
    pub(crate) struct OverviewSettings {
        /// The most tokens of the overview. If it would have more, it is shortened, and the model searches the skills instead.
        /// Without this setting: 4,000 tokens, or in a chat 4 % of `model.context_window` if that is less. With `off`, the
        /// overview always has all skills in full.
        Narrow budget: Narrowed<Room>,
    }
}

/// The most tokens of the overview, if nobody sets another number.
const OVERVIEW_BUDGET: usize = 4_000;
/// The fewest tokens in which an overview says how to find skills.
pub(crate) const LEAST_OVERVIEW: u64 = 100;
/// The part of the context window that the overview may take, if nobody sets a number: one of so many.
const OVERVIEW_PART: usize = 25;

/// How much the overview may take.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Room {
    Unlimited,
    Tokens(Whole<LEAST_OVERVIEW>),
}

impl Setting for Room {
    fn read(value: &serde_json::Value) -> Result<Self, Wrong> {
        match Whole::read(value) {
            Ok(tokens) => Ok(Self::Tokens(tokens)),
            Err(_) if value.as_str() == Some("off") => Ok(Self::Unlimited),
            Err(Wrong::Form(form)) => Err(Wrong::Form(format!("{form}, or `off`"))),
            Err(wrong) => Err(wrong),
        }
    }
}

impl Room {
    fn tokens(self) -> Option<usize> {
        match self {
            Self::Unlimited => None,
            Self::Tokens(most) => Some(most.size()),
        }
    }
}

impl SkillSettings {
    /// The most tokens of the overview in a context window, unless there is no limit.
    pub(crate) fn overview_tokens(&self, window: Option<u64>) -> Option<usize> {
        let part =
            window.map_or(usize::MAX, |window| usize::try_from(window).unwrap_or(usize::MAX) / OVERVIEW_PART);
        let least = usize::try_from(LEAST_OVERVIEW).unwrap_or(usize::MAX);
        let budget = &self.overview.budget;
        let own = budget.own.map_or(Some(OVERVIEW_BUDGET.min(part).max(least)), Room::tokens);
        // A project's file can only lower it.
        let project = budget.project.and_then(Room::tokens);
        own.into_iter().chain(project).min()
    }

    /// What of a project's file has no effect, because it would make skills more visible.
    pub(super) fn ineffective(&self, reader: &Reader<'_>) -> Vec<String> {
        let budget = &self.overview.budget;
        let own = budget.own.map_or(Some(OVERVIEW_BUDGET), Room::tokens);
        let is_raised = budget.project.is_some_and(|project| match (project.tokens(), own) {
            (Some(project), Some(own)) => project > own,
            (None, Some(_)) => true,
            (_, None) => false,
        });
        let path = ["skills", "overview", "budget"];
        let raised = is_raised.then(|| {
            let place = reader.project_origin(&path);
            format!("{place}: `skills.overview.budget` has no effect: a project's file can only lower it")
        });
        raised.into_iter().chain(self.ineffective_modes(reader)).collect()
    }
}
