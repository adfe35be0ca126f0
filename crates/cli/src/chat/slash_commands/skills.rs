//! `/skills`

use std::sync::Arc;

use prowess_agent::middleware::SkillsState;
use prowess_catalog::SkillEntry;
use prowess_catalog::overview::SkillMode;
use prowess_skills::uses::UsedSkill;

use super::MAX_DESCRIPTION;
use crate::chat::conversation::Conversation;
use crate::chat::describe;
use crate::terminal::{Style, count, printable, printable_start, styled};
use crate::visibility::{ChatSkills, chosen_mode};

/// The most skills that are listed.
const MAX_ROWS: usize = 100;
/// The most skills that a search lists. The best match must stay on the screen.
const MAX_HITS: usize = 20;

/// A row for each skill, or for each that matches some words, and lines about skills that have no row.
pub(super) fn rows(conversation: &Conversation, words: Option<&str>) -> (Vec<String>, Vec<String>) {
    let (catalog, visible_skills) = (conversation.agents.catalog(), conversation.agents.visible_skills());
    let loaded = SkillsState::of(conversation.thread.states()).map(SkillsState::loaded).unwrap_or_default();
    let mut lines = Vec::new();
    let listed: Vec<Arc<SkillEntry>> = match words {
        Some(words) => visible_skills.view().search(words).into_iter().map(|hit| hit.entry).collect(),
        None => in_order(conversation, &visible_skills, |name| loaded.iter().any(|skill| skill.name == name)),
    };
    let most = if words.is_some() { MAX_HITS } else { MAX_ROWS };
    for entry in listed.iter().take(most) {
        let name = entry.skill.name.as_str();
        let tokens = loaded.iter().find(|skill| skill.name == name).map(|skill| skill.tokens);
        let mark = visible_skills.visibility(entry).mark();
        let mode = mark.or_else(|| chosen_mode(visible_skills.mode(entry)));
        let tokens = tokens.map(|tokens| format!("{} tokens", describe::tokens(tokens as u64)));
        let notes: Vec<String> = mode.map(ToOwned::to_owned).into_iter().chain(tokens.clone()).collect();
        let note = (!notes.is_empty()).then(|| format!(" ({})", notes.join(", ")));
        let mark = tokens.map_or_else(|| " ".to_owned(), |_| styled("+", Style::Good));
        let description = printable_start(&entry.skill.description, MAX_DESCRIPTION);
        lines.push(format!(
            "{mark} {}{}  {}",
            styled(printable(name), Style::Name),
            note.unwrap_or_default(),
            styled(description, Style::Faint)
        ));
    }
    let mut advice = Vec::new();
    let more = with_commas(listed.len().saturating_sub(most));
    match words {
        Some(_) if listed.is_empty() => advice.push("No skill matches these words.".to_owned()),
        Some(_) if listed.len() > most => {
            advice.push(format!("{more} more match less well; other words find other skills"));
        }
        None if listed.len() > MAX_ROWS => advice.push(format!("{more} more: `/skills WORDS` searches them")),
        _ => {}
    }
    if words.is_some() {
        advice.extend(visible_skills.hidden_lines().into_iter().filter(|_| listed.is_empty()));
        return (lines, advice);
    }
    if lines.is_empty() {
        advice.push(
            "No skills were found. `/add OWNER/REPO` installs some; `prowess new NAME` creates one."
                .to_owned(),
        );
    }
    advice.extend(visible_skills.hidden_lines());
    let untrusted = catalog.untrusted().len();
    if untrusted > 0 {
        advice.push(format!(
            "{} of this project hidden from the model; see `prowess trust`",
            count(untrusted, "skill")
        ));
    }
    (lines, advice)
}

/// The skills by name. If they are more than a list has room for: loaded, pinned, project and recent ones first.
fn in_order(
    conversation: &Conversation,
    visible_skills: &ChatSkills,
    is_loaded: impl Fn(&str) -> bool,
) -> Vec<Arc<SkillEntry>> {
    let mut entries = visible_skills.view().entries().to_vec();
    if entries.len() <= MAX_ROWS {
        return entries;
    }
    let recent = conversation.agents.recent_skills();
    entries.sort_by_cached_key(|entry| {
        let is_pinned = visible_skills.mode(entry) == SkillMode::Pinned;
        let is_first =
            [is_loaded(entry.skill.name.as_str()), is_pinned, entry.root.kind.belongs_to_project()];
        let first = is_first.iter().position(|is_first| *is_first).unwrap_or(is_first.len());
        let used = UsedSkill::of(entry);
        (first, recent.iter().position(|recent| *recent == used).unwrap_or(recent.len()))
    });
    entries
}

/// A number with a comma before each group of three digits.
fn with_commas(number: usize) -> String {
    let digits = number.to_string();
    let mut text = String::new();
    for (at, digit) in digits.chars().enumerate() {
        if at > 0 && (digits.len() - at).is_multiple_of(3) {
            text.push(',');
        }
        text.push(digit);
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn large_numbers_have_commas() {
        let shown: Vec<String> = [7, 100, 4_897, 1_234_567].map(with_commas).into();
        assert_eq!(shown, ["7", "100", "4,897", "1,234,567"]);
    }
}
