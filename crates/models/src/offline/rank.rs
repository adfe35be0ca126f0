//! Ranks skills by the words that they share with a task.

use std::collections::{BTreeMap, BTreeSet};

use super::overview::ListedSkill;

/// How soon repetitions of a word stop to count.
const SATURATION: f64 = 1.2;

/// How much the length of a description counts against it.
const LENGTH: f64 = 0.75;

/// How often a word of the name counts.
const NAME_WEIGHT: f64 = 3.0;

/// The bonus if the task contains the skill's name.
const NAMED: f64 = 100.0;

/// Common words, which say nothing about a task.
const COMMON: &[&str] = &[
    "a", "about", "all", "an", "and", "any", "are", "as", "at", "be", "by", "can", "do", "for", "from",
    "how", "i", "if", "in", "into", "is", "it", "me", "my", "need", "of", "on", "or", "our", "please",
    "some", "that", "the", "them", "this", "to", "use", "user", "want", "what", "when", "which", "with",
    "you", "your", "skill", "task",
];

/// The skill whose name and description fit a task best. `None` if no skill shares a word with the task.
pub(super) fn best<'a>(skills: &'a [ListedSkill], task: &str) -> Option<&'a ListedSkill> {
    let documents: Vec<BTreeMap<String, f64>> = skills.iter().map(document).collect();
    let lengths: Vec<f64> = documents.iter().map(|words| words.values().sum()).collect();
    let average = (lengths.iter().sum::<f64>() / skills.len().max(1) as f64).max(1.0);
    let asked: BTreeSet<String> = words(task).collect();
    let mut best = None;
    for ((skill, words), length) in skills.iter().zip(&documents).zip(&lengths) {
        let mut score = if names(task, &skill.name) { NAMED } else { 0.0 };
        for word in &asked {
            let Some(count) = words.get(word) else { continue };
            let having = documents.iter().filter(|words| words.contains_key(word)).count() as f64;
            let rarity = (1.0 + (skills.len() as f64 - having + 0.5) / (having + 0.5)).ln();
            let norm = SATURATION * (1.0 - LENGTH + LENGTH * length / average);
            score += rarity * count * (SATURATION + 1.0) / (count + norm);
        }
        // If two fit equally well, the first wins.
        if score > best.map_or(0.0, |(score, _)| score) {
            best = Some((score, skill));
        }
    }
    best.map(|(_, skill)| skill)
}

/// The words of a skill and how often each counts.
fn document(skill: &ListedSkill) -> BTreeMap<String, f64> {
    let mut counts = BTreeMap::new();
    words(&skill.description).for_each(|word| *counts.entry(word).or_insert(0.0) += 1.0);
    words(&skill.name).for_each(|word| *counts.entry(word).or_insert(0.0) += NAME_WEIGHT);
    counts
}

/// Whether a task contains the whole name of a skill as a word.
fn names(task: &str, name: &str) -> bool {
    let is_part = |c: char| c.is_alphanumeric() || matches!(c, '-' | '_');
    task.match_indices(name).any(|(at, _)| {
        let before = task[..at].chars().next_back().is_some_and(is_part);
        !before && !task[at + name.len()..].chars().next().is_some_and(is_part)
    }) && !words(name).all(|word| word.len() < 3)
}

/// The words of a text without common words and plural endings.
fn words(text: &str) -> impl Iterator<Item = String> {
    let lower = text.to_lowercase();
    let words: Vec<String> = lower
        .split(|c: char| !c.is_alphanumeric())
        .filter(|word| !word.is_empty() && !COMMON.contains(word))
        .map(|word| match word.strip_suffix('s') {
            Some(stem) if stem.len() > 2 && !stem.ends_with('s') => stem.to_owned(),
            _ => word.to_owned(),
        })
        .collect();
    words.into_iter()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn skill(name: &str, description: &str) -> ListedSkill {
        ListedSkill { name: name.to_owned(), description: description.to_owned(), is_loaded: false }
    }

    fn chosen(task: &str) -> Option<String> {
        let skills = [
            skill("pdf-forms", "Read and fill forms in PDF documents."),
            skill("csv-report", "Make a report with tables and totals from CSV files."),
            skill("release-notes", "Write release notes from the history of a repository."),
        ];
        best(&skills, task).map(|skill| skill.name.clone())
    }

    #[test]
    fn tasks_find_their_skills() {
        assert_eq!(chosen("Please fill this form").as_deref(), Some("pdf-forms"));
        assert_eq!(chosen("a table of totals from my CSV file").as_deref(), Some("csv-report"));
        assert_eq!(chosen("what changed since the last release?").as_deref(), Some("release-notes"));
        assert_eq!(chosen("use csv-report on the release history notes").as_deref(), Some("csv-report"));
        assert_eq!(chosen("how are you?"), None);
        assert_eq!(chosen(""), None);
        assert_eq!(best(&[], "anything"), None);
    }
}
