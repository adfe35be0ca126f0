//! Fits the overview into a budget: the richest form that has room.

use std::collections::{BTreeMap, HashMap};

use prowess_base::text::cut;
use prowess_base::tokens::estimate_tokens;

use super::{Activation, OverviewOptions, full_description, list};
use crate::catalog::SkillEntry;
use crate::fields::MAX_DESCRIPTION_CHARS;
use crate::resource::ResourceCounts;
use crate::root::RootKind;
use crate::untrusted::{emphasised, prompt_line};

/// The fewest characters of a description that say something.
const SHORTEST: usize = 40;
/// The most groups that are counted one by one.
const MAX_GROUPS: usize = 100;
/// The fewest skills that make a group of their own.
const SMALL_GROUP: usize = 2;
/// The characters of a token, as [`estimate_tokens`] counts them.
const TOKEN: usize = 4;

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
    /// The names of skills to show first, in this order. Skills of the project follow.
    pub first: Vec<&'a str>,
}

impl<'a> OverviewBudget<'a> {
    /// A budget of so many tokens, for a model with this tool for searching.
    #[must_use]
    pub fn new(tokens: usize, search: &'a str) -> Self {
        Self { tokens, search, first: Vec::new() }
    }

    fn characters(&self) -> usize {
        self.tokens.saturating_mul(TOKEN)
    }
}

/// The richest list of these skills that fits. Empty if there are no skills.
pub(super) fn fitted(
    mut entries: Vec<&SkillEntry>,
    options: &OverviewOptions<'_>,
    budget: &OverviewBudget<'_>,
    resources: &dyn Fn(&SkillEntry) -> Option<ResourceCounts>,
) -> String {
    let ranks: HashMap<&str, usize> = budget.first.iter().enumerate().map(|(at, name)| (*name, at)).collect();
    let rank = |entry: &&SkillEntry| match ranks.get(entry.skill.name.as_str()) {
        Some(rank) => *rank,
        None if is_of_project(entry) => usize::MAX - 1,
        None => usize::MAX,
    };
    // Skills of the same rank keep the order of their names.
    entries.sort_by_key(rank);
    let first = entries.iter().take_while(|entry| rank(entry) < usize::MAX).count();
    let overview = Overview { entries: &entries, first, options, budget };
    // Rendering thousands of skills in full only to see that they do not fit would take milliseconds.
    let least = |entry: &&SkillEntry| (entry.skill.description.len() / 4).min(MAX_DESCRIPTION_CHARS);
    let least: usize = entries.iter().map(least).sum();
    let full = (least <= budget.characters()).then(|| list(entries.iter().copied(), options, resources));
    full.filter(|text| overview.fits(text)).unwrap_or_else(|| overview.shorter())
}

fn is_of_project(entry: &SkillEntry) -> bool {
    matches!(entry.root.kind, RootKind::Project | RootKind::ProjectCompatibility)
}

/// The skills of an overview that does not fit in full.
struct Overview<'a> {
    entries: &'a [&'a SkillEntry],
    /// How many of them are shown first.
    first: usize,
    options: &'a OverviewOptions<'a>,
    budget: &'a OverviewBudget<'a>,
}

impl Overview<'_> {
    fn fits(&self, text: &str) -> bool {
        estimate_tokens(text) <= self.budget.tokens
    }

    fn shorter(&self) -> String {
        self.lines_that_fit().or_else(|| self.names()).unwrap_or_else(|| self.counts())
    }

    /// One line for each skill, with descriptions as long as there is room for.
    fn lines_that_fit(&self) -> Option<String> {
        let lines: Vec<Line> = self.entries.iter().map(|entry| self.line(entry)).collect();
        let needed: usize = lines.iter().map(|line| line.length(usize::MAX)).sum();
        if needed <= self.budget.characters() {
            let text = format!("{}\n\n{}", self.joined(&lines, usize::MAX), self.how_to_load());
            if self.fits(&text) {
                return Some(text);
            }
        }
        let note = format!("\n\n{} {}", self.how_to_load(), self.shortened_note());
        let room = self.budget.characters().checked_sub(note.chars().count())?;
        let length = longest(&lines, room)?;
        let text = format!("{}{note}", self.joined(&lines, length));
        self.fits(&text).then_some(text)
    }

    /// The first skills as lines, and the names of the others.
    fn names(&self) -> Option<String> {
        let mut groups: BTreeMap<&str, Vec<String>> = BTreeMap::new();
        for entry in &self.entries[self.first..] {
            let names = groups.entry(entry.root.label.as_str()).or_default();
            names.push(self.marked_name(entry));
        }
        let mut text = String::new();
        for (label, names) in groups {
            text.push_str("\n- ");
            prompt_line(label, &mut text);
            text.push_str(&format!(" ({}): {}", names.len(), names.join(", ")));
        }
        let text = format!(
            "{text}\n\n{} The list has no room for descriptions: use `{}` to find skills by what they do.",
            self.how_to_load(),
            self.budget.search
        );
        let room = self.budget.tokens.checked_sub(estimate_tokens(&text))?;
        let text = format!("{}{text}", self.first_lines(room)?);
        let text = text.trim_start_matches('\n').to_owned();
        self.fits(&text).then_some(text)
    }

    /// The first skills as lines, as many as fit in half of the budget, and how many others there are.
    fn counts(&self) -> String {
        let mut lines = Vec::new();
        let mut room = self.budget.characters() / 2;
        for entry in &self.entries[..self.first] {
            let line = self.line(entry);
            let Some(left) = room.checked_sub(line.length(SHORTEST)) else { break };
            room = left;
            lines.push(line);
        }
        let first = self.joined(&lines, SHORTEST);
        let rest = &self.entries[lines.len()..];
        let mut counts: BTreeMap<&str, usize> = BTreeMap::new();
        for entry in rest {
            *counts.entry(group(entry.skill.name.as_str())).or_default() += 1;
        }
        let mut groups: Vec<(&str, usize)> =
            counts.into_iter().filter(|(_, count)| *count >= SMALL_GROUP).collect();
        groups.sort_by_key(|(name, count)| (std::cmp::Reverse(*count), *name));
        let mut most = groups.len().min(MAX_GROUPS);
        loop {
            let text = self.counted(&first, rest.len(), &groups[..most]);
            if self.fits(&text) {
                return text;
            }
            if most == 0 {
                return self.counted("", self.entries.len(), &[]);
            }
            most -= most.div_ceil(8);
        }
    }

    fn counted(&self, first: &str, others: usize, groups: &[(&str, usize)]) -> String {
        let mut text = first.to_owned();
        if !text.is_empty() {
            text.push_str("\n\n");
        }
        let (more, search) = (if first.is_empty() { "" } else { "more " }, self.budget.search);
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
        format!("{text} {}", self.how_to_load())
    }

    /// The first skills as lines that fit into so many tokens.
    fn first_lines(&self, room: usize) -> Option<String> {
        let lines: Vec<Line> = self.entries[..self.first].iter().map(|entry| self.line(entry)).collect();
        if lines.is_empty() {
            return Some(String::new());
        }
        Some(self.joined(&lines, longest(&lines, room.saturating_mul(TOKEN))?))
    }

    fn line(&self, entry: &SkillEntry) -> Line {
        let mut head = "- **".to_owned();
        emphasised(entry.skill.name.as_str(), &mut head);
        head.push_str("**");
        head.push_str(self.marks(entry));
        head.push_str(": ");
        let mut tail = String::new();
        // The model must know whose words these are.
        if entry.published().is_some() {
            tail.push_str(" (From: ");
            prompt_line(&entry.root.label, &mut tail);
            tail.push(')');
        }
        let mut description = String::new();
        prompt_line(&full_description(entry), &mut description);
        let fixed = head.chars().count() + tail.chars().count() + 1;
        Line { fixed, characters: description.chars().count(), head, description, tail }
    }

    fn marked_name(&self, entry: &SkillEntry) -> String {
        let mut name = String::new();
        emphasised(entry.skill.name.as_str(), &mut name);
        name + self.marks(entry)
    }

    fn marks(&self, entry: &SkillEntry) -> &'static str {
        let takes_arguments =
            matches!(self.options.activation, Activation::Tool(_) | Activation::Tools { .. })
                && entry.skill.extensions.argument_hint.is_some();
        match (self.options.loaded.contains(entry.skill.name.as_str()), entry.skill.is_model_invocable()) {
            (true, _) => " [Loaded]",
            (false, true) if takes_arguments => " (takes arguments)",
            (false, true) => "",
            (false, false) => " (Manual only)",
        }
    }

    fn joined(&self, lines: &[Line], length: usize) -> String {
        let mut text = String::new();
        for line in lines {
            if !text.is_empty() {
                text.push('\n');
            }
            text.extend([&line.head, &*cut(&line.description, length), &line.tail]);
        }
        text
    }

    fn shortened_note(&self) -> String {
        format!("Descriptions are shortened: use `{}` to search the whole ones.", self.budget.search)
    }

    /// How to get the instructions of a skill, said once.
    fn how_to_load(&self) -> String {
        match self.options.activation {
            Activation::Tool(tool) | Activation::ToolByName(tool) => {
                format!("Use `{tool}(\"NAME\")` to read the full instructions of a skill.")
            }
            Activation::Tools { plain, with_arguments } => format!(
                "Use `{plain}(\"NAME\")` to read the full instructions of a skill, or `{with_arguments}` for a skill \
                 with arguments."
            ),
            Activation::ReadFile => {
                format!("`{}` names the file with the full instructions of a skill.", self.budget.search)
            }
            Activation::ReadFileBelow(place) => {
                format!(
                    "Read `{place}/NAME/{}` for the full instructions of a skill.",
                    crate::skill::MANIFEST
                )
            }
        }
    }
}

/// The line of a skill, in parts.
struct Line {
    head: String,
    description: String,
    tail: String,
    /// The characters that it has without its description.
    fixed: usize,
    /// The characters of its description.
    characters: usize,
}

impl Line {
    /// The characters that it has with a description of at most this many characters. A cut description ends with one more
    /// character.
    fn length(&self, most: usize) -> usize {
        self.fixed + self.characters.min(most.saturating_add(1))
    }
}

/// The greatest length of descriptions with which lines have room in so many characters.
fn longest(lines: &[Line], room: usize) -> Option<usize> {
    let needed = |most: usize| lines.iter().map(|line| line.length(most)).sum::<usize>();
    if needed(SHORTEST) > room {
        return None;
    }
    let most = lines.iter().map(|line| line.characters).max().unwrap_or(0);
    let (mut low, mut high) = (SHORTEST, most.max(SHORTEST));
    while low < high {
        let middle = (low + high).div_ceil(2);
        if needed(middle) <= room {
            low = middle;
        } else {
            high = middle - 1;
        }
    }
    Some(low)
}

/// The group of a skill: the first word of its name.
fn group(name: &str) -> &str {
    name.split(['-', '_', ':', '.']).next().unwrap_or(name)
}
