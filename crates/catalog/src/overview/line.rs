//! The parts of an overview: the line of a skill, lists of names, and how to load a skill.

use std::collections::BTreeMap;

use prowess_base::text::cut;
use prowess_base::tokens::quarter_tokens;

use super::order::Ordered;
use super::{Activation, OverviewOptions, full_description, list};
use crate::catalog::SkillEntry;
use crate::resource::ResourceCounts;
use crate::untrusted::{emphasised, prompt_line};

/// The fewest characters of a description that say something.
pub(super) const SHORTEST: usize = 40;

/// The quarters of a token that a wide character takes.
const WIDEST: usize = 4;

/// The line of a skill, in parts.
pub(super) struct Line {
    head: String,
    description: String,
    tail: String,
    /// The length without its description, in quarters of a token.
    fixed: usize,
    /// The length of its description, in quarters of a token.
    whole: usize,
    /// The most quarters of a token that one of its characters takes.
    widest: usize,
    /// The characters of its description.
    characters: usize,
    /// The most characters of its description that are shown.
    most: usize,
}

impl Line {
    pub(super) fn of(entry: &SkillEntry, options: &OverviewOptions<'_>) -> Self {
        let mut head = "- **".to_owned();
        emphasised(entry.skill.name.as_str(), &mut head);
        head.push_str("**");
        head.push_str(marks(entry, options));
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
        let fixed = quarter_tokens(&head) + quarter_tokens(&tail) + 1;
        let (whole, characters) = (quarter_tokens(&description), description.chars().count());
        let widest = if whole > characters { WIDEST } else { 1 };
        Self { fixed, whole, widest, characters, head, description, tail, most: usize::MAX }
    }

    /// Whether its description is shown in part only.
    pub(super) fn is_cut(&self) -> bool {
        self.characters > self.most
    }

    /// Its length as it is shown, in quarters of a token.
    fn length(&self) -> usize {
        self.length_with(self.most)
    }

    /// The most quarters of a token that it has with a description of at most this many characters. A cut description ends
    /// with one more character.
    pub(super) fn length_with(&self, most: usize) -> usize {
        self.fixed + self.whole.min(most.saturating_mul(self.widest).saturating_add(1))
    }
}

/// The length of all lines, in quarters of a token.
pub(super) fn total(lines: &[Line]) -> usize {
    lines.iter().map(Line::length).sum()
}

/// The same with the shortest descriptions.
pub(super) fn least(lines: &[Line]) -> usize {
    lines.iter().map(|line| line.length_with(SHORTEST)).sum()
}

/// Cuts the descriptions, all to the same number of characters, so that the lines have room in so many quarters of a token.
/// `None` if they have no room with the shortest descriptions.
pub(super) fn shorten(lines: &mut [Line], room: usize) -> Option<()> {
    let most = longest(lines, room)?;
    lines.iter_mut().for_each(|line| line.most = most);
    Some(())
}

/// The most characters of descriptions with which lines have room in so many quarters of a token.
fn longest(lines: &[Line], room: usize) -> Option<usize> {
    let needed = |most: usize| lines.iter().map(|line| line.length_with(most)).sum::<usize>();
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

/// The lines as text.
pub(super) fn joined<'a>(lines: impl IntoIterator<Item = &'a Line>) -> String {
    let mut text = String::new();
    for line in lines {
        if !text.is_empty() {
            text.push('\n');
        }
        text.extend([&line.head, &*cut(&line.description, line.most), &line.tail]);
    }
    text
}

/// The names of skills by root, one line for each root.
pub(super) fn names_by_root<'a>(
    entries: impl Iterator<Item = &'a SkillEntry>,
    options: &OverviewOptions<'_>,
) -> String {
    let mut groups: BTreeMap<&str, Vec<String>> = BTreeMap::new();
    for entry in entries {
        groups.entry(entry.root.label.as_str()).or_default().push(marked_name(entry, options));
    }
    let mut text = String::new();
    for (label, names) in groups {
        text.push_str("\n- ");
        prompt_line(label, &mut text);
        text.push_str(&format!(" ({}): {}", names.len(), names.join(", ")));
    }
    text
}

/// The quarters of a token that a name takes in a list of names.
pub(super) fn name_length(entry: &SkillEntry, options: &OverviewOptions<'_>) -> usize {
    quarter_tokens(&marked_name(entry, options)) + 2
}

/// The list without a budget: all skills in full, then those that are shown by name.
pub(super) fn whole(
    ordered: &Ordered<'_>,
    options: &OverviewOptions<'_>,
    resources: &dyn Fn(&SkillEntry) -> Option<ResourceCounts>,
) -> String {
    let text = list(ordered.described(), options, resources);
    match by_name(ordered, options) {
        Some(names) if text.is_empty() => names,
        Some(names) => format!("{text}\n\n{names}"),
        None => text,
    }
}

/// The skills that are shown by name only, and how to learn more about them.
pub(super) fn by_name(ordered: &Ordered<'_>, options: &OverviewOptions<'_>) -> Option<String> {
    let named = &ordered.named;
    if named.is_empty() {
        return None;
    }
    let names: Vec<String> = named.iter().map(|entry| name_with_place(entry, options)).collect();
    let about = match options.search_tool() {
        Some(search) => format!("Use `{search}` to find out what they do."),
        None => "Read the instructions of one to find out what it does.".to_owned(),
    };
    let (number, names) = (named.len(), names.join(", "));
    Some(format!("By name only ({number}): {names}. {about} {}", how_to_load(options)))
}

/// A name, with the file of the skill if the model cannot find the file otherwise.
fn name_with_place(entry: &SkillEntry, options: &OverviewOptions<'_>) -> String {
    let mut name = marked_name(entry, options);
    if options.activation == Activation::ReadFile && options.search_tool().is_none() {
        name.push_str(" (`");
        crate::untrusted::quoted(entry.skill.location.as_str(), &mut name);
        name.push_str("`)");
    }
    name
}

fn marked_name(entry: &SkillEntry, options: &OverviewOptions<'_>) -> String {
    let mut name = String::new();
    emphasised(entry.skill.name.as_str(), &mut name);
    name + marks(entry, options)
}

fn marks(entry: &SkillEntry, options: &OverviewOptions<'_>) -> &'static str {
    let takes_arguments = matches!(options.activation, Activation::Tool(_) | Activation::Tools { .. })
        && entry.skill.extensions.argument_hint.is_some();
    match (options.loaded.contains(entry.skill.name.as_str()), options.is_for_models(entry)) {
        (true, _) => " [Loaded]",
        (false, true) if takes_arguments => " (takes arguments)",
        (false, true) => "",
        (false, false) => " (Manual only)",
    }
}

/// How to get the instructions of a skill, said once.
pub(super) fn how_to_load(options: &OverviewOptions<'_>) -> String {
    match options.activation {
        Activation::Tool(tool) | Activation::ToolByName(tool) => {
            format!("Use `{tool}(\"NAME\")` to read the full instructions of a skill.")
        }
        Activation::Tools { plain, with_arguments } => format!(
            "Use `{plain}(\"NAME\")` to read the full instructions of a skill, or `{with_arguments}` for a skill with \
             arguments."
        ),
        Activation::ReadFile => match options.search_tool() {
            Some(search) => format!("`{search}` names the file with the full instructions of a skill."),
            None => "Read the file of a skill for its full instructions.".to_owned(),
        },
        Activation::ReadFileBelow(place) => {
            format!("Read `{place}/NAME/{}` for the full instructions of a skill.", crate::skill::MANIFEST)
        }
    }
}
