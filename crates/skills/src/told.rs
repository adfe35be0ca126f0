//! What a model was told about skills outside of tool answers, and the news since then.
//!
//! With a frozen prompt, a change is said once, at the end of the conversation: see
//! [`Prompt::Frozen`](crate::options::Prompt::Frozen).

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use prowess_base::text::cut;
use prowess_catalog::untrusted::code_text;
use prowess_catalog::{SearchHit, SkillEntry};
use serde::{Deserialize, Serialize};

use crate::delta::{SkillDelta, UnloadReason};
use crate::dialect::SEARCH_TOOL;
use crate::event::Staleness;
use crate::files::on_blocking_thread;
use crate::frozen::{FrozenPrompt, Listing};
use crate::service::SkillService;
use crate::view::SkillView;

/// The most new or changed skills that one message describes.
const MAX_DESCRIBED: usize = 10;
/// The longest description of a suggested, new or changed skill, in characters.
const MAX_DESCRIPTION_CHARS: usize = 300;
/// The most characters of a request that skills are searched for.
const MAX_REQUEST_CHARS: usize = 2_000;
/// The share of a request that a suggested skill must cover.
const LEAST_COVERAGE: f64 = 0.3;
/// The words of a request that a suggested skill must have, unless it covers all of the request. One word alone, such as "go",
/// often means something else.
const LEAST_WORDS: usize = 2;
/// The most skills that are considered for a request.
const MAX_MATCHING: usize = 20;

/// What a model was told about skills outside of tool answers.
///
/// ```
/// use prowess_skills::options::Prompt;
/// use prowess_skills::told::Told;
/// use prowess_skills::{SessionOptions, SkillDelta, SkillSession};
///
/// # use prowess_catalog::{Catalog, Root, ScanOptions};
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
/// # let scratch = tempfile::tempdir()?;
/// # std::fs::create_dir(scratch.path().join("greet"))?;
/// # let manifest = "---\nname: greet\ndescription: Says hello.\n---\nWave.\n";
/// # std::fs::write(scratch.path().join("greet/SKILL.md"), manifest)?;
/// # let catalog = Catalog::discover(&[Root::explicit(scratch.path())], &ScanOptions::default());
/// let mut options = SessionOptions::default();
/// options.prompt = Prompt::Frozen;
/// let session = SkillSession::builder(catalog).options(options).build().await;
/// let mut told = Told::default();
/// for delta in session.load("greet", None).await?.deltas {
///     told.note(&delta);
/// }
/// let frozen = session.view().freeze();
/// assert!(session.view().news(&told, &frozen, &[]).is_none());
///
/// // A person unloads it.
/// let reason = prowess_skills::delta::UnloadReason::Person;
/// let unloaded = SkillDelta::Unloaded { name: "greet".into(), reason };
/// told.note(&unloaded);
/// let mut state = prowess_skills::SkillState::clone(&session.state());
/// state.replay([&unloaded]).unwrap();
/// let news = session.engine().at(&state).news(&told, &frozen, &[]).unwrap();
/// assert!(news.text.contains("Skill 'greet' was unloaded by the user."));
/// told.apply(news.delta);
/// assert!(session.engine().at(&state).news(&told, &frozen, &[]).is_none(), "it is said once");
/// # Ok(())
/// # }
/// ```
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Told {
    /// The unloaded skills that the model does not know about.
    unloaded: BTreeMap<String, UnloadReason>,
    stale: BTreeMap<String, Staleness>,
    offered: BTreeSet<String>,
    suggested: BTreeSet<String>,
    /// The new and changed skills that the model was told about.
    described: BTreeSet<String>,
    /// The skills that the model knows, if these are not those of the frozen prompt.
    listing: Option<Listing>,
}

/// What is new for the model.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct News {
    /// The text for the model.
    pub text: String,
    /// The change to apply when the text is in the conversation.
    pub delta: ToldDelta,
}

/// A change of what a model was told.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
#[non_exhaustive]
pub struct ToldDelta {
    /// The model reads a new prompt and a shorter conversation, so what was said before is no longer there.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub again: bool,
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    stale: BTreeMap<String, Staleness>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    offered: Vec<String>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    suggested: Vec<String>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    described: Vec<String>,
    /// The skills that the model was told about earlier, and that are no longer available.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    gone: Vec<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    listing: Option<Listing>,
}

impl Told {
    /// Notes a change of the session's state.
    pub fn note(&mut self, delta: &SkillDelta) {
        match delta {
            SkillDelta::Loaded { skill, .. } | SkillDelta::Reloaded { skill, .. } => {
                self.unloaded.remove(&skill.name);
                self.stale.remove(&skill.name);
            }
            SkillDelta::Unloaded { name, reason } => {
                self.stale.remove(name);
                // The answer of the tool call says so.
                if !matches!(reason, UnloadReason::Asked | UnloadReason::Evicted) {
                    self.unloaded.insert(name.clone(), *reason);
                }
            }
            _ => {}
        }
    }

    /// Forgets that these skills were unloaded, because another text says so.
    pub fn forget_unloaded(&mut self, names: &[String]) {
        self.unloaded.retain(|name, _| !names.contains(name));
    }

    /// The same if the conversation begins again, with a new prompt: only unloaded skills are still to be told.
    #[must_use]
    pub fn again(self) -> Self {
        Self { unloaded: self.unloaded, ..Self::default() }
    }

    /// Applies a change.
    pub fn apply(&mut self, delta: ToldDelta) {
        if delta.again {
            *self = Self::default();
        }
        self.unloaded.clear();
        self.stale.extend(delta.stale);
        self.offered.extend(delta.offered);
        self.suggested.extend(delta.suggested);
        self.described.extend(delta.described);
        for names in [&mut self.offered, &mut self.suggested, &mut self.described] {
            names.retain(|name| !delta.gone.contains(name));
        }
        self.listing = delta.listing.or(self.listing.take());
    }
}

impl SkillView {
    /// What the model does not know yet, if there is something: about unloaded and stale skills, skills that are new since
    /// the prompt was frozen, and the `matching` skills for the message that begins a turn.
    pub fn news(&self, told: &Told, frozen: &FrozenPrompt, matching: &[String]) -> Option<News> {
        let mut delta = ToldDelta::default();
        let mut blocks: Vec<String> =
            told.unloaded.iter().map(|(name, why)| unloaded_notice(name, *why)).collect();
        for stale in self.stale().into_iter().filter(|stale| told.stale.get(&stale.name) != Some(&stale.why))
        {
            blocks.push(self.stale_notice(&stale));
            delta.stale.insert(stale.name, stale.why);
        }
        blocks.extend(self.gone_news(told, &mut delta));
        blocks.extend(self.offered_news(told, frozen, &mut delta));
        blocks.extend(self.listing_news(told, frozen, &mut delta));
        if !frozen.is_whole {
            blocks.extend(self.suggestions(told, matching, &mut delta));
        }
        (!blocks.is_empty()).then(|| News { text: format!("{NOTE}\n\n{}", blocks.join("\n\n")), delta })
    }

    /// Skills that an earlier note named, and that are no longer available.
    fn gone_news(&self, told: &Told, delta: &mut ToldDelta) -> Option<String> {
        let named = [&told.offered, &told.suggested, &told.described].into_iter().flatten();
        let gone: BTreeSet<&String> = named.filter(|name| self.found_by_model(name).is_none()).collect();
        delta.gone = gone.iter().map(|name| (*name).clone()).collect();
        let names: Vec<String> = gone.into_iter().map(|name| format!("'{}'", code_text(name))).collect();
        (!names.is_empty()).then(|| format!("No longer available: {}.", names.join(", ")))
    }

    /// Skills that are listed because a file came into play.
    fn offered_news(&self, told: &Told, frozen: &FrozenPrompt, delta: &mut ToldDelta) -> Option<String> {
        let is_new = |name: &&String| !frozen.offered.contains(*name) && !told.offered.contains(*name);
        let new: Vec<&String> = self.state().offered().iter().filter(is_new).collect();
        delta.offered = new.iter().map(|name| (*name).clone()).collect();
        self.described(
            "These skills are for the files that came into play:",
            new.into_iter().map(String::as_str),
        )
    }

    /// Skills that are new or changed since the prompt was frozen, or since the model was told last.
    fn listing_news(&self, told: &Told, frozen: &FrozenPrompt, delta: &mut ToldDelta) -> Vec<String> {
        let Some(difference) = self.difference(told.listing.as_ref().unwrap_or(&frozen.listing)) else {
            return Vec::new();
        };
        delta.listing = Some(Listing::clone(&self.current_listing()));
        // A message describes only some new skills, and the names of the others are not kept.
        let lost = (difference.has_lost && delta.gone.is_empty())
            .then(|| "Some skills that an earlier note counted are no longer available.".to_owned());
        let told_now = |names: &[String]| names.iter().take(MAX_DESCRIBED).cloned().collect::<Vec<_>>();
        delta.described = [told_now(&difference.added), told_now(&difference.changed)].concat();
        let added = self.described("New skills:", difference.added.iter().map(String::as_str));
        let changed = self.described(
            "The descriptions of these skills have changed:",
            difference.changed.iter().map(String::as_str),
        );
        added.into_iter().chain(changed).chain(lost).collect()
    }

    /// The names of skills that match a request well, best first. It searches the index, which may have to be built first.
    pub fn matching(&self, request: &str) -> Vec<String> {
        if self.engine().options().suggestions == 0 || request.starts_with('/') {
            return Vec::new();
        }
        let hits = self.offered().search(&cut(request, MAX_REQUEST_CHARS));
        let is_good = |hit: &SearchHit| {
            hit.coverage >= 1.0 || hit.coverage >= LEAST_COVERAGE && hit.words >= LEAST_WORDS
        };
        let good = hits.into_iter().filter(is_good).take(MAX_MATCHING);
        good.map(|hit| hit.entry.skill.name.to_string()).collect()
    }

    /// Skills that match a request and that were not suggested before.
    fn suggestions(&self, told: &Told, matching: &[String], delta: &mut ToldDelta) -> Option<String> {
        let is_new = |name: &&String| {
            self.found_by_model(name).is_some()
                && self.state().get(name).is_none()
                && !told.suggested.contains(name.as_str())
        };
        let names = matching.iter().filter(is_new).take(self.engine().options().suggestions);
        delta.suggested = names.cloned().collect();
        self.described("These skills may fit the request:", delta.suggested.iter().map(String::as_str))
    }

    /// A line for each of these skills that the model may load, with a title; `None` if there is none.
    fn described<'a>(&self, title: &str, names: impl Iterator<Item = &'a str>) -> Option<String> {
        let entries: Vec<Arc<SkillEntry>> =
            names.filter_map(|name| self.found_by_model(name).cloned()).collect();
        if entries.is_empty() {
            return None;
        }
        let mut text = title.to_owned();
        for entry in entries.iter().take(MAX_DESCRIBED) {
            text.push('\n');
            text.push_str(&prowess_catalog::overview::short_line(entry, MAX_DESCRIPTION_CHARS));
        }
        if entries.len() > MAX_DESCRIBED {
            let search = if self.engine().options().capabilities.search {
                format!(": use `{SEARCH_TOOL}`")
            } else {
                String::new()
            };
            text.push_str(&format!("\n{} more{search}", entries.len() - MAX_DESCRIBED));
        }
        Some(text)
    }
}

/// The first line of a message about skills, so that the model does not take the message for words of a person.
pub const NOTE: &str = "[Note about skills, not from the user]";

fn unloaded_notice(name: &str, why: UnloadReason) -> String {
    let name = code_text(name);
    match why {
        UnloadReason::Person => {
            format!("Skill '{name}' was unloaded by the user. Its instructions no longer apply.")
        }
        UnloadReason::Expired => {
            format!(
                "Skill '{name}' was unloaded: skills stay loaded only for a short time here. Load it again if you need it."
            )
        }
        UnloadReason::Budget | UnloadReason::Evicted => {
            format!("Skill '{name}' was unloaded, because too many skills were loaded.")
        }
        UnloadReason::Gone => format!("Skill '{name}' was unloaded: it is no longer available."),
        UnloadReason::Changed => format!("Skill '{name}' was unloaded: it has changed."),
        UnloadReason::Summarised | UnloadReason::Asked => format!("Skill '{name}' was unloaded."),
    }
}

impl SkillService {
    /// The names of skills that match a request well. It searches on a blocking thread.
    pub async fn matching(&self, view: &SkillView, request: &str) -> Vec<String> {
        let (view, request) = (view.clone(), request.to_owned());
        on_blocking_thread(move || view.matching(&request)).await
    }
}
