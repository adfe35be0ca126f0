//! Fits the overview into a budget: the richest form that has room.

use std::collections::BTreeMap;

use prowess_base::tokens::{estimate_tokens, quarter_tokens};

use super::OverviewOptions;
use super::line::{
    Line, SHORTEST, by_name, how_to_load, joined, least, name_length, names_by_root, shorten, total, whole,
};
use super::order::Ordered;
use crate::catalog::SkillEntry;
use crate::fields::MAX_DESCRIPTION_CHARS;
use crate::resource::ResourceCounts;
use crate::untrusted::prompt_line;

/// The most groups that are counted one by one.
const MAX_GROUPS: usize = 250;
/// The fewest skills that make a group of their own.
const SMALL_GROUP: usize = 2;

/// How many tokens an overview may take.
///
/// ```
/// use prowess_catalog::overview::OverviewBudget;
/// use prowess_catalog::{Catalog, OverviewOptions, Root, ScanOptions};
///
/// # let scratch = tempfile::tempdir()?;
/// # let root = scratch.path();
/// for number in 0..500 {
///     let name = format!("skill-{number}");
///     std::fs::create_dir(root.join(&name))?;
///     let manifest = format!("---\nname: {name}\ndescription: Says hello to person number {number}.\n---\nWave.\n");
///     std::fs::write(root.join(&name).join("SKILL.md"), manifest)?;
/// }
/// let catalog = Catalog::discover(&[Root::explicit(root)], &ScanOptions::default());
/// let mut options = OverviewOptions::default();
/// options.budget = Some(OverviewBudget::new(400, "search_skills"));
/// let overview = catalog.view_all().overview(&options);
/// assert!(overview.tokens <= 400);
/// assert!(overview.text.contains("500 skills: use `search_skills`"));
/// # Ok::<(), std::io::Error>(())
/// ```
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct OverviewBudget<'a> {
    /// The most tokens, as [`estimate_tokens`] counts them.
    pub tokens: usize,
    /// The tool that finds skills which the overview leaves out or shortens.
    pub search: &'a str,
}

impl<'a> OverviewBudget<'a> {
    /// A budget of so many tokens, for a model with this tool for searching.
    #[must_use]
    pub fn new(tokens: usize, search: &'a str) -> Self {
        Self { tokens, search }
    }

    /// The budget in quarters of a token.
    fn quarters(&self) -> usize {
        self.tokens.saturating_mul(4)
    }
}

/// What an overview shows of the pinned skills. The others are whole.
///
/// ```
/// use std::collections::BTreeMap;
/// use prowess_catalog::overview::{OverviewBudget, PinnedRoom, SkillMode};
/// use prowess_catalog::{Catalog, OverviewOptions, Root, ScanOptions};
///
/// # let scratch = tempfile::tempdir()?;
/// # let root = scratch.path();
/// # std::fs::create_dir(root.join("greet"))?;
/// # let manifest = format!("---\nname: greet\ndescription: {}\n---\nWave.\n", "Says hello. ".repeat(50));
/// # std::fs::write(root.join("greet").join("SKILL.md"), manifest)?;
/// let catalog = Catalog::discover(&[Root::explicit(root)], &ScanOptions::default());
/// let modes = BTreeMap::from([("greet".to_owned(), SkillMode::Pinned)]);
/// let mut options = OverviewOptions::default();
/// options.modes = Some(&modes);
/// assert_eq!(catalog.view_all().pinned_room(&options), PinnedRoom::default());
/// options.budget = Some(OverviewBudget::new(100, "search_skills"));
/// assert_eq!(catalog.view_all().pinned_room(&options).shortened, 1);
/// # Ok::<(), std::io::Error>(())
/// ```
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct PinnedRoom {
    /// How many have a shortened description.
    pub shortened: usize,
    /// How many have only a name.
    pub by_name: usize,
    /// How many are not in the overview.
    pub left_out: usize,
}

/// An overview that fits.
#[derive(Default)]
pub(super) struct Fitted {
    pub(super) text: String,
    pub(super) pinned: PinnedRoom,
}

impl From<String> for Fitted {
    /// An overview with whole pinned skills.
    fn from(text: String) -> Self {
        Self { text, pinned: PinnedRoom::default() }
    }
}

/// The richest list of these skills that fits. Empty if there are no skills.
pub(super) fn fitted(
    ordered: &Ordered<'_>,
    options: &OverviewOptions<'_>,
    budget: &OverviewBudget<'_>,
    resources: &dyn Fn(&SkillEntry) -> Option<ResourceCounts>,
) -> Fitted {
    if ordered.all().next().is_none() {
        return Fitted::default();
    }
    let overview = Overview { ordered, options, budget };
    // Rendering thousands of skills in full only to see that they do not fit would take milliseconds.
    let least = |entry: &SkillEntry| (entry.skill.description.len() / 4).min(MAX_DESCRIPTION_CHARS);
    let least: usize = ordered.described().map(least).sum();
    let full = (least <= budget.quarters() && overview.has_short_names())
        .then(|| whole(ordered, options, resources));
    full.filter(|text| overview.fits(text)).map_or_else(|| overview.shorter(), Fitted::from)
}

/// The skills of an overview that does not fit in full.
struct Overview<'a> {
    ordered: &'a Ordered<'a>,
    options: &'a OverviewOptions<'a>,
    budget: &'a OverviewBudget<'a>,
}

impl<'a> Overview<'a> {
    fn fits(&self, text: &str) -> bool {
        estimate_tokens(text) <= self.budget.tokens
    }

    fn shorter(&self) -> Fitted {
        self.lines_that_fit().or_else(|| self.names()).map_or_else(|| self.counts(), Fitted::from)
    }

    /// One line for each skill, with descriptions as long as there is room for. Those of pinned skills are not cut. Those of
    /// `full` skills are whole before others have more than the shortest ones.
    fn lines_that_fit(&self) -> Option<String> {
        let ordered = self.ordered;
        let (pinned, mut full) = (self.lines(&ordered.pinned), self.lines(&ordered.full));
        let mut others = self.lines(ordered.early.iter().chain(&ordered.rest));
        let text = |full: &[Line], others: &[Line]| joined(pinned.iter().chain(full).chain(others));
        if pinned.is_empty() && full.is_empty() && others.is_empty() {
            return None;
        }
        if total(&pinned) + total(&full) + total(&others) <= self.budget.quarters() {
            let text = format!("{}\n\n{}", text(&full, &others), self.end(None));
            if self.fits(&text) {
                return Some(text);
            }
        }
        let end = format!("\n\n{}", self.end(Some(self.shortened_note())));
        let room = self.budget.quarters().checked_sub(quarter_tokens(&end) + total(&pinned))?;
        let least = least(&others);
        shorten(&mut full, room.checked_sub(least)?)?;
        let is_full_whole = !full.iter().any(Line::is_cut);
        shorten(&mut others, if is_full_whole { room - total(&full) } else { least })?;
        let text = text(&full, &others) + &end;
        self.fits(&text).then_some(text)
    }

    /// How to load a skill, a note, and the skills that are shown by name only.
    fn end(&self, note: Option<String>) -> String {
        let note = note.map(|note| format!(" {note}")).unwrap_or_default();
        let how = how_to_load(self.options);
        if self.has_short_names() {
            // The list of names says how to load a skill.
            let names = by_name(self.ordered, self.options).map(|names| format!("{names}{note}"));
            return names.unwrap_or_else(|| format!("{how}{note}"));
        }
        let (number, search) = (self.ordered.named.len(), self.budget.search);
        format!("{number} more skills: use `{search}` with words of the task to find them. {how}{note}")
    }

    /// Whether the names of the skills that are shown by name only take at most half of the budget.
    fn has_short_names(&self) -> bool {
        let mut room = self.budget.quarters() / 2;
        self.ordered.named.iter().all(|entry| {
            let left = room.checked_sub(name_length(entry, self.options));
            room = left.unwrap_or(0);
            left.is_some()
        })
    }

    /// The first skills as lines, as many as fit, and the names of the others. `None` if the names or the pinned skills do
    /// not fit.
    fn names(&self) -> Option<String> {
        let note = format!(
            "\n\n{} The list has no room for descriptions: use `{}` to find skills by what they do.",
            how_to_load(self.options),
            self.budget.search
        );
        let all = names_by_root(self.ordered.all(), self.options);
        let used = quarter_tokens(&all) + quarter_tokens(&note);
        let room = self.budget.quarters().checked_sub(used)?;
        // The name of a skill with a line moves from the list of names to its line.
        let freed = |entry: &SkillEntry| name_length(entry, self.options);
        let mut lines = self.lines(&self.ordered.pinned);
        let pinned_names: usize = self.ordered.pinned.iter().map(|entry| freed(entry)).sum();
        let room = (room + pinned_names).checked_sub(total(&lines))?;
        let (full, room) = self.share(&self.ordered.full, room, freed);
        let early =
            if self.are_whole(&full) { self.share(&self.ordered.early, room, freed).0 } else { Vec::new() };
        lines.extend(full.into_iter().chain(early));
        let others = names_by_root(self.ordered.all().skip(lines.len()), self.options);
        let text = format!("{}{others}{note}", joined(&lines));
        let text = text.trim_start_matches('\n').to_owned();
        self.fits(&text).then_some(text)
    }

    /// The pinned skills, other first ones as lines, as many as fit, and how many others there are.
    fn counts(&self) -> Fitted {
        let room = self.room_beside_count();
        let mut first = self.pinned_within(room);
        if first.note.is_none() {
            let room = room - total(&first.lines);
            let (full, room) = self.share(&self.ordered.full, room, |_| 0);
            let has_room_for_early = self.are_whole(&full);
            first.lines.extend(full);
            if has_room_for_early {
                let room = self.room_for_early(room, total(&first.lines));
                first.lines.extend(self.share(&self.ordered.early, room, |_| 0).0);
            }
        }
        let text = joined(&first.lines) + &names_by_root(first.by_name.iter().copied(), self.options);
        let text = text.trim_start_matches('\n');
        let note = first.note.map(|note| format!(" {note}")).unwrap_or_default();
        let rest: Vec<&SkillEntry> =
            self.ordered.all().skip(first.lines.len() + first.by_name.len()).collect();
        let groups = groups(&rest);
        let mut most = groups.len().min(MAX_GROUPS);
        loop {
            let text = self.counted(text, rest.len(), &groups[..most]) + &note;
            if self.fits(&text) {
                return Fitted { text, pinned: first.pinned };
            }
            if most == 0 {
                let left_out = self.ordered.pinned.len();
                let text = self.counted("", self.ordered.all().count(), &[]);
                return Fitted { text, pinned: PinnedRoom { left_out, ..PinnedRoom::default() } };
            }
            most -= most.div_ceil(8);
        }
    }

    /// The room for the skills of the project and recent ones beside the counts of groups: what these leave, but at least
    /// half of the budget.
    fn room_for_early(&self, room: usize, used: usize) -> usize {
        let rest: Vec<&SkillEntry> = self.ordered.rest.iter().chain(&self.ordered.named).copied().collect();
        let groups = groups(&rest);
        let groups = &groups[..groups.len().min(MAX_GROUPS)];
        let length = |groups: &[(&str, usize)]| quarter_tokens(&self.counted("", rest.len(), groups));
        let beside_groups = (room + length(&[])).saturating_sub(length(groups));
        beside_groups.max((self.budget.quarters() / 2).saturating_sub(used)).min(room)
    }

    /// The pinned skills in so many quarters of a token. Those that a pattern pinned give way before those that were pinned by
    /// name.
    fn pinned_within(&self, room: usize) -> Pinned<'a> {
        let all: &'a [&'a SkillEntry] = &self.ordered.pinned;
        let lines = self.lines(all);
        if total(&lines) <= room {
            return Pinned { lines, ..Pinned::default() };
        }
        let is_exact = |entry: &&&SkillEntry| self.options.exact.contains(entry.skill.name.as_str());
        let (exact, others) = all.split_at(all.iter().take_while(is_exact).count());
        let first = self.lines(exact);
        let note = quarter_tokens(&self.left_out_note()) + 1;
        match room.checked_sub(total(&first) + note) {
            Some(left) if !others.is_empty() => {
                let mut squeezed = self.squeezed(others, left + note);
                squeezed.lines.splice(0..0, first);
                squeezed
            }
            _ => self.squeezed(all, room),
        }
    }

    /// These pinned skills, which have no room with whole descriptions. Descriptions give way before skills do.
    fn squeezed(&self, all: &'a [&'a SkillEntry], room: usize) -> Pinned<'a> {
        let mut lines = self.lines(all);
        let note = self.shortened_note();
        if shorten(&mut lines, room.saturating_sub(quarter_tokens(&note) + 1)).is_some() {
            let shortened = lines.iter().filter(|line| line.is_cut()).count();
            let pinned = PinnedRoom { shortened, ..PinnedRoom::default() };
            return Pinned { lines, note: Some(note), pinned, by_name: &[] };
        }
        let note = self.left_out_note();
        let room = room.saturating_sub(quarter_tokens(&note) + 1);
        let length =
            |names: usize| quarter_tokens(&names_by_root(all[..names].iter().copied(), self.options));
        let (mut named, mut too_many) = (0, all.len() + 1);
        while too_many - named > 1 {
            let middle = named.midpoint(too_many);
            if length(middle) <= room {
                named = middle;
            } else {
                too_many = middle;
            }
        }
        let has_all_names = named == all.len();
        let freed = |entry: &SkillEntry| name_length(entry, self.options);
        let lines = if has_all_names { self.share(all, room - length(named), freed).0 } else { Vec::new() };
        let pinned = PinnedRoom {
            shortened: lines.iter().filter(|line| line.is_cut()).count(),
            by_name: named - lines.len(),
            left_out: all.len() - named,
        };
        Pinned { by_name: &all[lines.len()..named], lines, note: Some(note), pinned }
    }

    /// Lines for these skills, as many as fit with short descriptions, with descriptions as long as there is room for, and
    /// the room that they leave. A skill with a line frees so many characters elsewhere.
    fn share(
        &self,
        entries: &[&SkillEntry],
        mut room: usize,
        freed: impl Fn(&SkillEntry) -> usize,
    ) -> (Vec<Line>, usize) {
        let mut lines = Vec::new();
        for entry in entries {
            let line = Line::of(entry, self.options);
            let Some(left) = (room + freed(entry)).checked_sub(line.length_with(SHORTEST)) else { break };
            room = left;
            lines.push(line);
        }
        let room = room + least(&lines);
        // It has room with the shortest descriptions.
        let _ = shorten(&mut lines, room);
        let left = room.saturating_sub(total(&lines));
        (lines, left)
    }

    /// Whether these are the whole lines of all `full` skills.
    fn are_whole(&self, full: &[Line]) -> bool {
        full.len() == self.ordered.full.len() && !full.iter().any(Line::is_cut)
    }

    fn counted(&self, first: &str, others: usize, groups: &[(&str, usize)]) -> String {
        let mut text = first.to_owned();
        if !text.is_empty() {
            text.push_str("\n\n");
        }
        let (more, search) = (if first.is_empty() { "" } else { "more " }, self.budget.search);
        if others == 0 {
            return text + &how_to_load(self.options);
        }
        text.push_str(&format!("{others} {more}skills: use `{search}` with words of the task to find them."));
        if !groups.is_empty() {
            let grouped: usize = groups.iter().map(|(_, count)| count).sum();
            text.push_str(" By the first word of their names:");
            for (name, count) in groups {
                text.push(' ');
                prompt_line(name, &mut text);
                text.push_str(&format!(" {count},"));
            }
            text.pop();
            text.push_str(&match others - grouped {
                0 => ".".to_owned(),
                rest => format!(", others {rest}."),
            });
        }
        format!("{text} {}", how_to_load(self.options))
    }

    /// The characters for lines beside the number of the other skills.
    fn room_beside_count(&self) -> usize {
        // With a line before it, the number has two line breaks and another word.
        let least = quarter_tokens(&self.counted("", self.ordered.all().count(), &[])) + "\n\nmore ".len();
        self.budget.quarters().saturating_sub(least)
    }

    /// The lines of skills, with whole descriptions.
    fn lines<'b>(&self, entries: impl IntoIterator<Item = &'b &'b SkillEntry>) -> Vec<Line> {
        entries.into_iter().map(|entry| Line::of(entry, self.options)).collect()
    }

    fn shortened_note(&self) -> String {
        format!("Descriptions are shortened: use `{}` to search the whole ones.", self.budget.search)
    }

    fn left_out_note(&self) -> String {
        format!("There is no room for all descriptions: use `{}` to search them.", self.budget.search)
    }
}

/// The pinned skills of an overview that counts the others.
#[derive(Default)]
struct Pinned<'a> {
    lines: Vec<Line>,
    /// Those that have only a name.
    by_name: &'a [&'a SkillEntry],
    /// What the model must know if not all are whole.
    note: Option<String>,
    pinned: PinnedRoom,
}

/// The groups of skills with the same first word in their names, and how many each has. The largest comes first.
fn groups<'a>(entries: &[&'a SkillEntry]) -> Vec<(&'a str, usize)> {
    let mut counts: BTreeMap<&str, usize> = BTreeMap::new();
    for entry in entries {
        *counts.entry(group(entry.skill.name.as_str())).or_default() += 1;
    }
    let mut groups: Vec<(&str, usize)> =
        counts.into_iter().filter(|(_, count)| *count >= SMALL_GROUP).collect();
    groups.sort_by_key(|(name, count)| (std::cmp::Reverse(*count), *name));
    groups
}

/// The group of a skill: the first word of its name.
fn group(name: &str) -> &str {
    name.split(['-', '_', ':', '.']).next().unwrap_or(name)
}
