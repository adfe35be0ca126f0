//! Searches names and descriptions, and ranks the hits.

use std::collections::HashMap;
use std::sync::Arc;

use crate::catalog::SkillEntry;
use crate::view::CatalogView;

/// A skill, and how well it matches a query.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct SearchHit {
    /// The skill.
    pub entry: Arc<SkillEntry>,
    /// Higher is better. Only the order has a meaning.
    pub score: f64,
}

/// How much more a word in the name counts than a word in the description.
const NAME_WEIGHT: f64 = 3.0;
/// The usual constants of BM25: how soon repetition stops to count, and how much length counts.
const SATURATION: f64 = 1.2;
const LENGTH_WEIGHT: f64 = 0.75;
/// How far a skill whose name is the query ranks above the best of the others.
const EXACT_NAME: f64 = 1.0;
/// English words that appear in every description.
const STOP_WORDS: [&str; 16] =
    ["a", "an", "and", "as", "at", "by", "for", "from", "in", "is", "it", "of", "on", "or", "the", "to"];
/// How much a match counts if the query word is only the beginning of a word.
const PREFIX_WEIGHT: f64 = 0.5;

impl CatalogView {
    /// The skills with at least one word of `query`, best first. A skill whose name is the query ranks first.
    ///
    /// ```
    /// use prowess_catalog::{Catalog, Root, ScanOptions};
    ///
    /// # let scratch = tempfile::tempdir()?;
    /// # let root = scratch.path();
    /// for (name, description) in [("greet", "Says hello."), ("invoices", "Adds up invoices and taxes.")] {
    ///     std::fs::create_dir(root.join(name))?;
    ///     let manifest = format!("---\nname: {name}\ndescription: {description}\n---\n");
    ///     std::fs::write(root.join(name).join("SKILL.md"), manifest)?;
    /// }
    /// let catalog = Catalog::discover(&[Root::explicit(root)], &ScanOptions::default());
    /// let hits = catalog.view_all().search("the taxes of June");
    /// assert_eq!(hits[0].entry.skill.name.as_str(), "invoices");
    /// assert_eq!(hits.len(), 1);
    /// # Ok::<(), std::io::Error>(())
    /// ```
    pub fn search(&self, query: &str) -> Vec<SearchHit> {
        let mut wanted = words(query);
        // Stop words count only if there are no other words.
        if wanted.iter().any(|word| !STOP_WORDS.contains(&word.as_str())) {
            wanted.retain(|word| !STOP_WORDS.contains(&word.as_str()));
        }
        wanted.sort_unstable();
        wanted.dedup();
        let texts: Vec<SearchText> = self.entries().iter().map(|entry| SearchText::of(entry)).collect();
        let average = texts.iter().map(|text| text.length).sum::<f64>() / texts.len().max(1) as f64;
        let mut scores = vec![0.0; texts.len()];
        for word in &wanted {
            let weights: Vec<f64> = texts.iter().map(|text| text.weight(word)).collect();
            let having = weights.iter().filter(|weight| **weight > 0.0).count() as f64;
            let rarity = (1.0 + (texts.len() as f64 - having + 0.5) / (having + 0.5)).ln();
            for ((score, text), weight) in scores.iter_mut().zip(&texts).zip(weights) {
                let length = 1.0 - LENGTH_WEIGHT + LENGTH_WEIGHT * text.length / average.max(1.0);
                *score += rarity * weight * (SATURATION + 1.0) / (weight + SATURATION * length);
            }
        }
        let best = scores.iter().copied().fold(0.0, f64::max);
        let name = query.split_whitespace().collect::<Vec<_>>().join("-").to_lowercase();
        for (score, entry) in scores.iter_mut().zip(self.entries()) {
            if entry.skill.name.as_str().to_lowercase() == name {
                *score += best + EXACT_NAME;
            }
        }
        let mut hits: Vec<SearchHit> = self
            .entries()
            .iter()
            .zip(scores)
            .filter(|(_, score)| *score > 0.0)
            .map(|(entry, score)| SearchHit { entry: Arc::clone(entry), score })
            .collect();
        // Entries are sorted by name. A stable sort keeps that order among equal scores.
        hits.sort_by(|a, b| b.score.total_cmp(&a.score));
        hits
    }
}

struct SearchText {
    weights: HashMap<String, f64>,
    length: f64,
}

impl SearchText {
    fn of(entry: &SkillEntry) -> Self {
        let mut text = Self { weights: HashMap::new(), length: 0.0 };
        let skill = &entry.skill;
        text.add(skill.name.as_str(), NAME_WEIGHT);
        text.add(&skill.description, 1.0);
        text.add(skill.extensions.when_to_use.as_deref().unwrap_or_default(), 1.0);
        for (_, value) in &skill.metadata {
            text.add(value.as_text().unwrap_or_default(), 0.5);
        }
        text
    }

    fn add(&mut self, text: &str, weight: f64) {
        for word in words(text) {
            *self.weights.entry(word).or_insert(0.0) += weight;
            self.length += 1.0;
        }
    }

    fn weight(&self, word: &str) -> f64 {
        if let Some(weight) = self.weights.get(word) {
            return *weight;
        }
        let longer = |other: &&String| word.chars().count() > 2 && other.starts_with(word);
        let beginning: f64 =
            self.weights.iter().filter(|(other, _)| longer(other)).map(|(_, weight)| weight).sum();
        beginning * PREFIX_WEIGHT
    }
}

/// The words of a text in lowercase. In scripts that do not separate words: pairs of characters.
fn words(text: &str) -> Vec<String> {
    let mut words = Vec::new();
    for run in text.to_lowercase().split(|c: char| !c.is_alphanumeric()).filter(|run| !run.is_empty()) {
        let characters: Vec<char> = run.chars().collect();
        if characters.iter().any(|&c| is_unseparated(c)) && characters.len() > 1 {
            words.extend(characters.windows(2).map(|pair| pair.iter().collect::<String>()));
        } else {
            words.push(singular(run).to_owned());
        }
    }
    words
}

fn is_unseparated(c: char) -> bool {
    matches!(c, '\u{3040}'..='\u{30FF}' | '\u{3400}'..='\u{9FFF}' | '\u{F900}'..='\u{FAFF}' | '\u{E00}'..='\u{E7F}')
}

/// The singular of an English plural.
fn singular(word: &str) -> &str {
    match word.strip_suffix('s') {
        Some(stem) if stem.len() > 2 && !stem.ends_with(['s', 'u', 'i']) => stem,
        _ => word,
    }
}

#[cfg(test)]
mod tests {
    use super::words;

    #[test]
    fn words_are_lowercase_singular_and_paired_where_nothing_separates_them() {
        assert_eq!(words("CSV-Reports, logs & status"), ["csv", "report", "log", "status"]);
        assert_eq!(words("潮汐日志 log"), ["潮汐", "汐日", "日志", "log"]);
    }
}
