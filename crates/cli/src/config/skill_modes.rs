//! `[skills.mode]` and `[skills.kit]`

use std::str::FromStr;

use anyhow::{Result, bail};
use prowess_catalog::overview::SkillMode;
use prowess_permission::Pattern;
use prowess_permission::nearest::nearest;
use prowess_skills::modes::{Kit, SkillModes};

use super::narrowed::Narrowed;
use super::read::{Reader, alternatives, chosen_keys};
use super::setting::{Parsed, Setting, Wrong, text, words};
use super::skills::SkillSettings;
use super::value::Origin;
use crate::terminal::printable;

chosen_keys! {
    /// How visible single skills are. The key is the name of a skill, or a pattern in quotes, such as `"docs-*"`. An exact name
    /// wins over patterns, and a longer pattern over a shorter one.
    pub(crate) struct ModeSettings {
        /// `pinned`: first in the overview, always with its whole description. `full`: with its whole description before other
        /// skills get theirs. `auto`: as the budget allows; this is the default. `name`: only by name. `manual`: only people
        /// start it, with `/NAME`. `off`: as if it did not exist. If your file and the project's file both have a mode, the
        /// less visible one counts.
        Narrow NamePattern: Narrowed<SkillMode>
    }
}

chosen_keys! {
    /// Named sets of skills. `skills.kits`, `--kit` and `/kit` put them into use.
    pub(crate) struct KitSettings {
        /// The names of the skills in the kit, or patterns. If your file and the project's file both have the kit, a skill must
        /// be in both.
        Narrow KitName: Narrowed<KitPatterns>
    }
}

words!(SkillMode {
    "pinned" = Pinned,
    "full" = Full,
    "auto" = Auto,
    "name" = Name,
    "manual" = Manual,
    "off" = Off
});

/// The longest name of a kit, in characters.
const MAX_KIT_NAME: usize = 64;
/// The most patterns of a kit.
const MAX_PATTERNS: usize = 1_000;
/// The word that stands for no kit.
pub(crate) const NO_KIT: &str = "off";

/// Why `off` is not a kit.
const NOT_A_KIT: &str = "`off` uses all skills; it is not a kit, and cannot be combined with kits";

text!(
    /// The name of a kit.
    KitName: |name| !name.is_empty() && name != NO_KIT && name.len() <= MAX_KIT_NAME
        && name.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"-_.".contains(&byte)),
    if name == NO_KIT { NOT_A_KIT } else { "the name of a kit has letters, digits, `-`, `_` and `.`, at most 64" }
);

/// The name of a skill, or a pattern of names.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct NamePattern(Pattern);

impl FromStr for NamePattern {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        if text.is_empty() {
            return Err("write the name of a skill, or a pattern such as \"docs-*\"".to_owned());
        }
        Pattern::parse(text).map(Self).map_err(|error| error.to_string())
    }
}

/// The patterns of a kit.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct KitPatterns(Vec<Pattern>);

impl Setting for KitPatterns {
    fn read(value: &serde_json::Value) -> Result<Self, Wrong> {
        let patterns = Vec::<Parsed<NamePattern>>::read(value)?;
        if patterns.len() > MAX_PATTERNS {
            return Err(Wrong::Because(format!("a kit can have {MAX_PATTERNS} patterns at most")));
        }
        Ok(Self(patterns.into_iter().map(|pattern| pattern.value.0).collect()))
    }
}

impl SkillSettings {
    /// The modes of skills, with the kits in use. What the project's file says can only narrow them.
    pub(crate) fn modes(&self) -> SkillModes {
        let (mut own, mut project) = (SkillModes::default(), SkillModes::default());
        for (pattern, mode) in &self.mode.0 {
            let pattern = || pattern.value.0.clone();
            own = mode.own.iter().fold(own, |modes, mode| modes.set(pattern(), *mode));
            project = mode.project.iter().fold(project, |modes, mode| modes.set(pattern(), *mode));
        }
        if let Some(kits) = self.kits_named(self.kits.own.as_deref()) {
            own = own.only(kits);
        }
        // A person who chooses kits for this command chooses instead of the project.
        let chosen = self.kits.project.as_deref().filter(|_| !self.kits.is_for_command);
        if let Some(kits) = self.kits_named(chosen) {
            project = project.only(kits);
        }
        if project.is_empty() { own } else { own.narrowed_by(project) }
    }

    /// The names of all kits.
    pub(crate) fn kit_names(&self) -> impl Iterator<Item = &str> {
        self.kit.0.keys().map(|name| &**name)
    }

    /// The kit with this name.
    pub(crate) fn kit_named(&self, name: &str) -> Option<Kit> {
        let Narrowed { own, project, .. } = self.kit.0.get(name)?;
        let kit = |patterns: &KitPatterns| Kit::new(patterns.0.clone());
        match (own, project) {
            (Some(own), Some(project)) => Some(kit(own).narrowed_by(project.0.clone())),
            (own, project) => own.as_ref().or(project.as_ref()).map(kit),
        }
    }

    /// The names of the kits in use.
    pub(crate) fn kits_in_use(&self) -> Vec<&str> {
        let project = self.kits.project.iter().filter(|_| !self.kits.is_for_command);
        let mut names: Vec<&str> =
            self.kits.own.iter().chain(project).flatten().map(|name| &**name).collect();
        names.retain(|name| self.kit.0.contains_key(*name));
        names.dedup();
        names
    }

    /// Puts these kits into use, or none if the only name is [`NO_KIT`]. If one does not exist, nothing changes.
    pub(crate) fn choose_kits(&mut self, names: &[String]) -> Result<(), String> {
        let names = if names == [NO_KIT] { &[] } else { names };
        if names.iter().any(|name| name == NO_KIT) {
            return Err(NOT_A_KIT.to_owned());
        }
        if let Some(unknown) = names.iter().find(|name| !self.kit.0.contains_key(name.as_str())) {
            return Err(self.no_kit(unknown));
        }
        let names: Vec<Parsed<KitName>> = names.iter().map(|name| name.parse()).collect::<Result<_, _>>()?;
        (self.kits.own, self.kits.is_for_command) = (Some(names), true);
        Ok(())
    }

    /// What to say about a kit that does not exist.
    pub(crate) fn no_kit(&self, name: &str) -> String {
        let known: Vec<&str> = self.kit_names().collect();
        let hint = match nearest(name, known.iter().copied()) {
            Some(near) => format!("did you mean `{near}`?"),
            None if known.is_empty() => "add it to [skills.kit] in your prowess.toml".to_owned(),
            None => format!("use {}", alternatives(&known)),
        };
        format!("there is no kit `{}`; {hint}", printable(name))
    }

    /// The kits with these names. `None` if no kit is named.
    fn kits_named(&self, names: Option<&[Parsed<KitName>]>) -> Option<Vec<Kit>> {
        let kits: Vec<Kit> = names?.iter().filter_map(|name| self.kit_named(name)).collect();
        (!kits.is_empty()).then_some(kits)
    }

    /// Refuses kits in use that do not exist. Only a notice says so about the project's choice.
    pub(super) fn check_kits(&self, reader: &Reader<'_>) -> Result<Vec<String>> {
        let path = ["skills", "kits"];
        for name in self.kits.own.iter().flatten() {
            let kit = self.kit.0.get(&**name);
            let is_known = kit.is_some_and(|kit| kit.own.is_some() || self.kits.is_for_command);
            if !is_known {
                match reader.own_origin(&path) {
                    Origin::Flag(option) => bail!("{option}: {}", self.no_kit(name)),
                    origin => bail!("{origin}: {}", self.no_kit(name)),
                }
            }
        }
        let unknown = self.kits.project.iter().flatten().filter(|name| !self.kit.0.contains_key(&***name));
        let place = reader.project_origin(&path);
        Ok(unknown.map(|name| format!("{place}: {}", self.no_kit(name))).collect())
    }

    /// The modes of a project's file that have no effect.
    pub(super) fn ineffective_modes(&self, reader: &Reader<'_>) -> Vec<String> {
        let modes =
            self.mode.0.iter().filter(|(_, mode)| {
                mode.project.is_some_and(|project| project > mode.own.unwrap_or_default())
            });
        let notice = |(name, _): (&Parsed<NamePattern>, _)| {
            let place = reader.project_origin(&["skills", "mode", name]);
            let key = super::key(&["skills", "mode", name]);
            printable(&format!(
                "{place}: `{key}` has no effect: a project's file can only make skills less visible"
            ))
        };
        modes.map(notice).collect()
    }

    /// The names of kits, with the patterns of each that match none of these skills.
    pub(crate) fn unmatched_in_kits<'a>(&'a self, names: &[&str]) -> Vec<(&'a str, Vec<&'a str>)> {
        let unmatched = |kit: &'a Narrowed<KitPatterns>| -> Vec<&'a str> {
            let patterns = kit.own.iter().chain(&kit.project).flat_map(|patterns| &patterns.0);
            let unmatched = patterns.filter(|pattern| !names.iter().any(|name| pattern.matches(name)));
            unmatched.map(Pattern::as_str).collect()
        };
        let kits = self.kit.0.iter().map(|(name, kit)| (&**name, unmatched(kit)));
        kits.filter(|(_, patterns)| !patterns.is_empty()).collect()
    }

    /// The names and patterns in `[skills.mode]` that match none of these skills.
    pub(crate) fn unmatched_modes<'a>(&'a self, names: impl Fn() -> Vec<&'a str>) -> Vec<&'a str> {
        if self.mode.0.is_empty() {
            return Vec::new();
        }
        let names = names();
        let is_unmatched =
            |pattern: &&Parsed<NamePattern>| !names.iter().any(|name| pattern.value.0.matches(name));
        self.mode.0.keys().filter(is_unmatched).map(|pattern| &**pattern).collect()
    }
}
