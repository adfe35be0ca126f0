//! The frozen prompt: what a conversation reads about skills in its system prompt and its tools, word for word the same in
//! every request. Providers cache the beginning of a request, so a change there costs the whole conversation.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use prowess_base::hex;
use prowess_catalog::SkillEntry;
use prowess_catalog::digest::Digester;
use prowess_catalog::overview::{ManualSkills, Rendered, SkillMode};
use serde::{Deserialize, Serialize};

use crate::dialect;
use crate::secret::Secret;
use crate::view::SkillView;

/// The texts about skills in a system prompt and in the descriptions of tools, as they were at one moment.
///
/// ```
/// use prowess_skills::options::Prompt;
/// use prowess_skills::{SessionOptions, SkillSession};
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
/// let frozen = session.view().freeze();
/// session.load("greet", None).await?;
/// assert_eq!(session.view().freeze(), frozen, "a load does not change it");
/// # Ok(())
/// # }
/// ```
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct FrozenPrompt {
    /// The section of the system prompt.
    pub text: String,
    /// The descriptions of tools that list skills, by the names of the tools.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub tools: BTreeMap<String, String>,
    /// Whether it has the whole description of every skill.
    pub is_whole: bool,
    /// The skills with `paths` that it lists.
    #[serde(default, skip_serializing_if = "BTreeSet::is_empty")]
    pub(crate) offered: BTreeSet<String>,
    /// The options that it was made with, as a digest.
    made_with: String,
    /// The skills that it was made from.
    pub(crate) listing: Listing,
}

/// How many bytes say which skill it is.
const IDENTITY: usize = 8;
/// How many bytes a skill takes: its identity, and what the overview says about it.
const SKILL: usize = 12;

/// The skills of an overview as two checksums each, of which skill it is and of its description, ordered by the first. They
/// are made with the secret of the session, so that nobody can make a skill with the checksum of another one.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(into = "String", try_from = "String")]
pub struct Listing(Vec<[u8; SKILL]>);

/// How the skills differ from those of a [`Listing`].
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct ListingDifference {
    pub(crate) added: Vec<String>,
    pub(crate) changed: Vec<String>,
    /// Whether a skill is no longer there, or no longer allowed.
    pub(crate) has_lost: bool,
}

impl From<Listing> for String {
    fn from(listing: Listing) -> Self {
        hex::encode(listing.0.as_flattened())
    }
}

impl TryFrom<String> for Listing {
    type Error = &'static str;

    fn try_from(text: String) -> Result<Self, Self::Error> {
        let (skills, rest) = text.as_bytes().as_chunks::<{ 2 * SKILL }>();
        let skill = |digits: &[u8; 2 * SKILL]| std::str::from_utf8(digits).ok().and_then(hex::decode);
        let skills: Option<Vec<[u8; SKILL]>> = skills.iter().map(skill).collect();
        skills.filter(|_| rest.is_empty()).map(Self).ok_or("24 hexadecimal digits for each skill")
    }
}

impl Listing {
    pub(crate) fn of<'a>(entries: impl Iterator<Item = &'a SkillEntry>, secret: &Secret) -> Self {
        let mut skills: Vec<[u8; SKILL]> = entries.map(|entry| checksums(entry, secret)).collect();
        skills.sort_unstable();
        Self(skills)
    }

    /// Whether a skill of this listing is not in `now`, or is another one there.
    fn has_lost(&self, now: &Self) -> bool {
        // Nearly always nothing has changed.
        if self == now {
            return false;
        }
        let identity =
            |skill: &[u8; SKILL]| <[u8; IDENTITY]>::try_from(&skill[..IDENTITY]).unwrap_or_default();
        // Both are in order.
        let mut later = now.0.iter().map(identity).peekable();
        !self.0.iter().map(identity).all(|skill| {
            while later.next_if(|other| *other < skill).is_some() {}
            later.peek() == Some(&skill)
        })
    }

    fn get(&self, identity: &[u8]) -> Option<&[u8; SKILL]> {
        let at = self.0.binary_search_by(|skill| skill[..IDENTITY].cmp(identity)).ok()?;
        Some(&self.0[at])
    }

    /// How `entries`, whose listing is `now`, differ from this listing, if they do.
    fn difference<'a>(
        &self,
        now: &Self,
        entries: impl Iterator<Item = &'a SkillEntry>,
        secret: &Secret,
    ) -> Option<ListingDifference> {
        if self == now {
            return None;
        }
        let mut difference =
            ListingDifference { has_lost: self.has_lost(now), ..ListingDifference::default() };
        for entry in entries {
            let skill = checksums(entry, secret);
            let changed = match self.get(&skill[..IDENTITY]) {
                Some(known) if *known == skill => continue,
                Some(_) => &mut difference.changed,
                None => &mut difference.added,
            };
            changed.push(entry.skill.name.to_string());
        }
        Some(difference)
    }
}

/// The beginnings of two digests: of which skill it is, and of what the overview says about it. Another skill of the same name is
/// not the same skill.
fn checksums(entry: &SkillEntry, secret: &Secret) -> [u8; SKILL] {
    let skill = &entry.skill;
    let texts = [
        Some(skill.description.as_str()),
        skill.extensions.when_to_use.as_deref(),
        skill.extensions.argument_hint.as_deref(),
        skill.compatibility.as_deref(),
    ];
    let place = format!("{:?}", (&skill.location, &entry.root.label, entry.trust));
    let others = format!("{:?}", (&skill.license, &skill.allowed_tools));
    let identity = start_of_digest(secret.as_bytes(), [Some(skill.name.as_str()), Some(&place)]);
    let texts = texts.into_iter().chain([Some(others.as_str())]);
    let description = start_of_digest(secret.as_bytes(), texts);
    let mut both = [0; SKILL];
    both[..IDENTITY].copy_from_slice(&identity);
    both[IDENTITY..].copy_from_slice(&description[..SKILL - IDENTITY]);
    both
}

fn start_of_digest<'a>(secret: &[u8], texts: impl IntoIterator<Item = Option<&'a str>>) -> [u8; 8] {
    let mut digester = Digester::default();
    digester.update(secret);
    for text in texts {
        // A text and the next one cannot be mistaken for one text.
        let length = text.map_or(u64::MAX, |text| text.len() as u64);
        digester.update(&length.to_le_bytes());
        digester.update(text.unwrap_or_default().as_bytes());
    }
    let digest = digester.digest();
    let mut start = [0; 8];
    start.copy_from_slice(&digest.as_bytes()[..8]);
    start
}

impl SkillView {
    /// The prompt as it would be frozen now. It does not depend on what is loaded. Recently used skills come first in it.
    pub fn freeze(&self) -> FrozenPrompt {
        self.engine().read_recent();
        let offered = self.listed_with_paths().map(|entry| entry.skill.name.to_string()).collect();
        FrozenPrompt {
            text: self.unfrozen_prompt().text,
            tools: dialect::listing_tools(self),
            is_whole: self.has_whole_overview(),
            offered,
            made_with: self.made_with().to_owned(),
            listing: Listing::clone(&self.current_listing()),
        }
    }

    /// Whether a prompt that was frozen earlier may still be used: it was made with the same options, and every skill in it
    /// is still there and allowed. A skill that is new or changed does no harm: the model is told at the end.
    pub fn may_use(&self, frozen: &FrozenPrompt) -> bool {
        frozen.made_with == self.made_with()
            && frozen.offered.iter().all(|name| self.may_list(name))
            && !frozen.listing.has_lost(&self.current_listing())
    }

    /// Whether a prompt that was frozen earlier lists exactly the skills of now.
    pub fn is_up_to_date(&self, frozen: &FrozenPrompt) -> bool {
        self.may_use(frozen)
            && frozen.listing == *self.current_listing()
            && self.listed_with_paths().all(|entry| frozen.offered.contains(entry.skill.name.as_str()))
    }

    /// The skills with `paths` that the overview lists now: they are loaded, or are for files in play.
    fn listed_with_paths(&self) -> impl Iterator<Item = Arc<SkillEntry>> {
        let entries: Vec<Arc<SkillEntry>> = match self.visible().has_paths() {
            true => self.offered().entries().to_vec(),
            false => Vec::new(),
        };
        entries.into_iter().filter(|entry| !entry.skill.extensions.paths.is_empty())
    }

    /// Whether the overview may list the skill with this name, whatever files are in play.
    fn may_list(&self, name: &str) -> bool {
        let has_manual = self.engine().options().manual == ManualSkills::Marked;
        self.visible().view.get(name).is_some_and(|entry| has_manual || self.visible().is_for_models(entry))
    }

    /// How the skills differ from those of a listing, if they do.
    pub(crate) fn difference(&self, from: &Listing) -> Option<ListingDifference> {
        let now = self.current_listing();
        from.difference(&now, self.engine().listed(self.visible()), self.engine().secret())
    }

    pub(crate) fn current_listing(&self) -> Arc<Listing> {
        self.engine().listing_of(self.visible())
    }

    /// The overview is whole if its lines would fit the budget.
    fn has_whole_overview(&self) -> bool {
        if self.visible().modes().is_some_and(|modes| modes.values().any(|mode| *mode == SkillMode::Name)) {
            return false;
        }
        let Some(most) = self.overview_room() else { return true };
        let Rendered { tokens, .. } = self.overview_compact();
        tokens <= most
    }

    /// What the texts depend on, as a digest: the options and the words of this version.
    fn made_with(&self) -> &str {
        self.engine().made_with(|| self.compute_made_with())
    }

    fn compute_made_with(&self) -> String {
        let options = self.engine().options();
        let template = options.dialect.template(options.capabilities, options.placement);
        let words = template.map(|template| template.render("", "").text);
        let made_with = format!(
            "{:?}",
            (
                (env!("CARGO_PKG_VERSION"), words, options.discovery),
                (options.dialect, options.capabilities, options.placement, options.guidance, options.manual),
                (&options.template, &options.create_in, &options.skill_paths, options.overview_tokens),
                // The order of skills is not part of it: recent use changes it only when a prompt is made.
                &options.modes,
            )
        );
        hex::encode(&start_of_digest(&[], [Some(made_with.as_str())]))
    }
}
