//! The order of the skills in an overview.

use std::collections::HashMap;

use super::{OverviewOptions, SkillMode};
use crate::catalog::SkillEntry;

/// The skills of an overview in the order in which it shows them.
#[derive(Default)]
pub(super) struct Ordered<'a> {
    /// Always shown, with their whole descriptions.
    pub(super) pinned: Vec<&'a SkillEntry>,
    /// Shown with their whole descriptions before others are.
    pub(super) full: Vec<&'a SkillEntry>,
    /// Of the project, then those that were used recently.
    pub(super) early: Vec<&'a SkillEntry>,
    pub(super) rest: Vec<&'a SkillEntry>,
    /// Shown by name only.
    pub(super) named: Vec<&'a SkillEntry>,
}

impl<'a> Ordered<'a> {
    /// Puts skills, which come in the order of their names, into the order of an overview.
    pub(super) fn new(entries: impl Iterator<Item = &'a SkillEntry>, options: &OverviewOptions<'_>) -> Self {
        let recent: HashMap<&str, usize> =
            options.recent.iter().enumerate().map(|(at, name)| (*name, at)).collect();
        let mut ordered = Self::default();
        let (mut project, mut used) = (Vec::new(), Vec::new());
        for entry in entries {
            match options.mode(entry) {
                SkillMode::Pinned => ordered.pinned.push(entry),
                SkillMode::Full => ordered.full.push(entry),
                SkillMode::Name => ordered.named.push(entry),
                // A list without a budget leaves nothing out, so the project's skills need not come first.
                _ if options.budget.is_some() && entry.root.kind.belongs_to_project() => project.push(entry),
                _ => match recent.get(entry.skill.name.as_str()) {
                    Some(at) => used.push((*at, entry)),
                    None => ordered.rest.push(entry),
                },
            }
        }
        used.sort_by_key(|(at, _)| *at);
        // If there is no room for all pinned skills, those that a person named are worth more than those of a pattern.
        ordered.pinned.sort_by_key(|entry| !options.exact.contains(entry.skill.name.as_str()));
        project.extend(used.into_iter().map(|(_, entry)| entry));
        ordered.early = project;
        ordered
    }

    /// The skills that come first: pinned, full, of the project and recently used.
    pub(super) fn first(&self) -> impl Iterator<Item = &'a SkillEntry> + '_ {
        self.pinned.iter().chain(&self.full).chain(&self.early).copied()
    }

    /// All skills that have a description in the overview if there is room.
    pub(super) fn described(&self) -> impl Iterator<Item = &'a SkillEntry> + '_ {
        self.first().chain(self.rest.iter().copied())
    }

    pub(super) fn all(&self) -> impl Iterator<Item = &'a SkillEntry> + '_ {
        self.described().chain(self.named.iter().copied())
    }
}
