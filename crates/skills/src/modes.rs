//! The modes of skills, and kits: how visible a host lets skills be to a model.

use std::collections::BTreeMap;

use prowess_catalog::overview::SkillMode;
use prowess_permission::Pattern;

/// The modes of skills by name. Everything that a model reads about skills respects them: the overview, search, loads, runs
/// and news.
///
/// A name or a pattern gives skills a mode. An exact name wins over patterns. Among patterns, the longest one wins. Skills
/// without a mode have [`SkillMode::Auto`].
///
/// ```
/// use prowess_catalog::overview::SkillMode;
/// use prowess_skills::modes::{Kit, SkillModes};
/// use prowess_permission::Pattern;
///
/// let pattern = |text| Pattern::parse(text).unwrap();
/// let modes = SkillModes::default()
///     .set(pattern("docs-*"), SkillMode::Name)
///     .set(pattern("docs-api"), SkillMode::Pinned)
///     .only(vec![Kit::new(vec![pattern("docs-*"), pattern("pdf")])]);
/// assert_eq!(modes.of("docs-guide"), SkillMode::Name);
/// assert_eq!(modes.of("docs-api"), SkillMode::Pinned);
/// assert_eq!(modes.of("pdf"), SkillMode::Auto);
/// assert_eq!(modes.of("excel"), SkillMode::Off, "it is not in the kit");
///
/// // Whatever another configuration says, it can only make skills less visible.
/// let project = SkillModes::default().set(pattern("*"), SkillMode::Full).set(pattern("pdf"), SkillMode::Off);
/// let modes = modes.narrowed_by(project);
/// assert_eq!(modes.of("docs-guide"), SkillMode::Name);
/// assert_eq!(modes.of("docs-api"), SkillMode::Full);
/// assert_eq!(modes.of("pdf"), SkillMode::Off);
/// ```
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct SkillModes {
    modes: Vec<(Pattern, SkillMode)>,
    kits: Option<Vec<Kit>>,
    narrowed_by: Vec<SkillModes>,
}

/// A named set of skills, without its name. While kits are in use, a model sees only their skills, and pinned ones.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Kit {
    /// A skill must match one pattern of each list.
    lists: Vec<Vec<Pattern>>,
}

impl Kit {
    /// The kit of all skills whose names match one of these patterns.
    ///
    /// ```
    /// use prowess_permission::Pattern;
    /// use prowess_skills::modes::Kit;
    ///
    /// let kit = Kit::new(vec![Pattern::parse("docs-*").unwrap()]);
    /// assert!(kit.has("docs-api") && !kit.has("pdf"));
    /// ```
    pub fn new(patterns: Vec<Pattern>) -> Self {
        Self { lists: vec![patterns] }
    }

    /// The same kit without the skills that match none of these patterns.
    ///
    /// ```
    /// use prowess_permission::Pattern;
    /// use prowess_skills::modes::Kit;
    ///
    /// let kit = Kit::new(vec![Pattern::parse("docs-*").unwrap()]);
    /// let kit = kit.narrowed_by(vec![Pattern::parse("*-api").unwrap()]);
    /// assert!(kit.has("docs-api") && !kit.has("docs-guide") && !kit.has("web-api"));
    /// ```
    #[must_use]
    pub fn narrowed_by(mut self, patterns: Vec<Pattern>) -> Self {
        self.lists.push(patterns);
        self
    }

    /// Whether the kit has the skill with this name.
    pub fn has(&self, name: &str) -> bool {
        self.lists.iter().all(|patterns| patterns.iter().any(|pattern| names(pattern, name)))
    }
}

impl SkillModes {
    /// Gives a mode to all skills whose names match a pattern.
    #[must_use]
    pub fn set(mut self, pattern: Pattern, mode: SkillMode) -> Self {
        self.modes.push((pattern, mode));
        self
    }

    /// Puts kits into use: all skills that are in none of them, and are not pinned, are off.
    #[must_use]
    pub fn only(mut self, kits: Vec<Kit>) -> Self {
        self.kits = Some(kits);
        self
    }

    /// The same modes, made less visible by others. A skill gets the less visible one of its two modes.
    #[must_use]
    pub fn narrowed_by(mut self, other: Self) -> Self {
        self.narrowed_by.push(other);
        self
    }

    /// The mode of the skill with this name.
    pub fn of(&self, name: &str) -> SkillMode {
        if self.is_outside_kits(name) {
            return SkillMode::Off;
        }
        self.mode_in_kits(name)
    }

    /// The mode of the skill with this name if no kit were in use.
    pub fn mode_in_kits(&self, name: &str) -> SkillMode {
        let own = self.own_mode(name).unwrap_or_default();
        self.narrowed_by.iter().filter_map(|other| other.own_mode(name)).fold(own, SkillMode::min)
    }

    /// Whether the kits in use leave the skill with this name out.
    pub fn is_outside_kits(&self, name: &str) -> bool {
        let mut kits = self.narrowed_by.iter().chain([self]).filter_map(|modes| modes.kits.as_ref());
        kits.any(|kits| !kits.iter().any(|kit| kit.has(name))) && self.mode_in_kits(name) != SkillMode::Pinned
    }

    /// Whether the skill with this name has its mode by its name, and not by a pattern.
    pub(crate) fn is_exact(&self, name: &str) -> bool {
        self.modes.iter().any(|(pattern, _)| pattern.only_subject().is_some() && names(pattern, name))
    }

    /// Whether all skills have [`SkillMode::Auto`].
    pub fn is_empty(&self) -> bool {
        self.modes.is_empty() && self.kits.is_none() && self.narrowed_by.iter().all(Self::is_empty)
    }

    /// The modes of these skills that are not [`SkillMode::Auto`].
    pub(crate) fn of_all<'a>(&self, names: impl Iterator<Item = &'a str>) -> BTreeMap<String, SkillMode> {
        if self.is_empty() {
            return BTreeMap::new();
        }
        let modes = names.map(|name| (name.to_owned(), self.of(name)));
        modes.filter(|(_, mode)| *mode != SkillMode::Auto).collect()
    }

    /// The mode that the patterns give to a name. If two are equally long, the less visible mode wins.
    fn own_mode(&self, name: &str) -> Option<SkillMode> {
        let matching = self.modes.iter().filter(|(pattern, _)| names(pattern, name));
        let best = matching.max_by_key(|(pattern, mode)| {
            (pattern.only_subject().is_some(), pattern.as_str().chars().count(), std::cmp::Reverse(*mode))
        });
        best.map(|(_, mode)| *mode)
    }
}

/// Whether a pattern names a skill. A skill takes the place of one whose name differs only in letter case, so `deploy` also
/// names `Deploy`.
fn names(pattern: &Pattern, name: &str) -> bool {
    pattern.matches(name) || (name.chars().any(char::is_uppercase) && pattern.matches(&name.to_lowercase()))
}
