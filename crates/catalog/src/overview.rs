//! The overview (layer 1): the list of skills for a model.

mod fit;
mod line;
mod mode;
mod order;

use std::borrow::Cow;
use std::collections::{BTreeMap, BTreeSet};

use prowess_base::text::cut;
use prowess_base::tokens::estimate_tokens;

pub use self::fit::{OverviewBudget, PinnedRoom};
pub use self::mode::SkillMode;
use self::order::Ordered;

use crate::catalog::SkillEntry;
use crate::fields::{MAX_COMPATIBILITY_CHARS, MAX_DESCRIPTION_CHARS};
use crate::resource::ResourceCounts;
use crate::root::{Root, Trust};
use crate::untrusted::{emphasised, prompt_line, quoted, xml};
use crate::view::CatalogView;

/// The most characters of an argument hint, or of the name of a tool.
const MAX_HINT_CHARS: usize = 200;
/// The most tools of a skill that are listed.
const MAX_TOOLS: usize = 40;

/// How a model gets a skill's instructions.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Activation<'a> {
    /// It calls this tool with the skill's name, and with arguments if the skill takes some.
    Tool(&'a str),
    /// It calls this tool with the skill's name only.
    ToolByName(&'a str),
    /// It calls one tool with the skill's name only, or another tool with arguments if the skill takes some.
    Tools {
        /// The tool for the name only.
        plain: &'a str,
        /// The tool for name and arguments.
        with_arguments: &'a str,
    },
    /// It reads the file itself.
    ReadFile,
    /// By reading the file in a directory of the skill's name, below this directory.
    ReadFileBelow(&'a str),
}

/// How the overview treats skills that only a person may start.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub enum ManualSkills {
    /// It leaves them out.
    #[default]
    Hidden,
    /// It lists them with the mark `(Manual only)`.
    Marked,
}

/// How to render an overview.
///
/// ```
/// use prowess_catalog::overview::Activation;
/// use prowess_catalog::{Catalog, OverviewOptions, Root, ScanOptions};
///
/// # let scratch = tempfile::tempdir()?;
/// # let root = scratch.path();
/// # std::fs::create_dir(root.join("greet"))?;
/// # std::fs::write(root.join("greet/SKILL.md"), "---\nname: greet\ndescription: Says hello.\n---\nWave.\n")?;
/// let catalog = Catalog::discover(&[Root::explicit(root)], &ScanOptions::default());
/// let mut options = OverviewOptions::default();
/// options.activation = Activation::Tool("open_skill");
/// assert!(catalog.view_all().overview(&options).text.contains("`open_skill(\"greet\")`"));
/// options.loaded = ["greet"].into();
/// assert!(catalog.view_all().overview(&options).text.starts_with("- **greet** [Loaded]: Says hello."));
/// # Ok::<(), std::io::Error>(())
/// ```
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct OverviewOptions<'a> {
    /// How a model gets the instructions.
    pub activation: Activation<'a>,
    /// The names of the loaded skills.
    pub loaded: BTreeSet<&'a str>,
    /// How to treat skills that only a person may start.
    pub manual: ManualSkills,
    /// Where a person could create the first skill. If empty: the roots.
    pub create_in: Vec<String>,
    /// How much it may take. By default it lists all skills in full.
    pub budget: Option<OverviewBudget<'a>>,
    /// The modes of skills by name. A skill without one has [`SkillMode::Auto`].
    pub modes: Option<&'a BTreeMap<String, SkillMode>>,
    /// The skills that have their modes by name and not by a pattern. The pinned ones among them come first.
    pub exact: BTreeSet<&'a str>,
    /// The names of skills that were used recently, the last one first. They come before the others.
    pub recent: Vec<&'a str>,
    /// The tool that searches skills, if the model has one and there is no budget.
    pub search: Option<&'a str>,
}

impl OverviewOptions<'_> {
    /// The mode of a skill.
    fn mode(&self, entry: &SkillEntry) -> SkillMode {
        let mode = self.modes.and_then(|modes| modes.get(entry.skill.name.as_str()));
        mode.copied().unwrap_or_default()
    }

    /// Whether a model may load a skill by itself.
    fn is_for_models(&self, entry: &SkillEntry) -> bool {
        entry.skill.is_model_invocable() && self.mode(entry) > SkillMode::Manual
    }

    /// The tool that searches skills, if the model has one.
    fn search_tool(&self) -> Option<&str> {
        self.budget.as_ref().map(|budget| budget.search).or(self.search)
    }
}

impl Default for OverviewOptions<'_> {
    fn default() -> Self {
        Self {
            activation: Activation::Tool("load_skill"),
            loaded: BTreeSet::new(),
            manual: ManualSkills::default(),
            create_in: Vec::new(),
            budget: None,
            modes: None,
            exact: BTreeSet::new(),
            recent: Vec::new(),
            search: None,
        }
    }
}

/// A text for a model.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Rendered {
    /// The text.
    pub text: String,
    /// The estimated number of its tokens.
    pub tokens: usize,
}

impl From<String> for Rendered {
    fn from(text: String) -> Self {
        Self { tokens: estimate_tokens(&text), text }
    }
}

impl CatalogView {
    /// The list of all skills, with one entry each.
    pub fn overview(&self, options: &OverviewOptions<'_>) -> Rendered {
        self.overview_with(options, &|_| None)
    }

    /// The list of all skills, with the counts of files that `resources` returns: for loaded skills only, or for all.
    pub fn overview_with(
        &self,
        options: &OverviewOptions<'_>,
        resources: &dyn Fn(&SkillEntry) -> Option<ResourceCounts>,
    ) -> Rendered {
        let ordered = Ordered::new(self.listed(options), options);
        let mut text = match &options.budget {
            Some(budget) => fit::fitted(&ordered, options, budget, resources).text,
            None => line::whole(&ordered, options, resources),
        };
        if text.is_empty() {
            self.write_no_skills(options, &mut text);
        }
        text.into()
    }

    /// How much of the pinned skills the budget has room for.
    pub fn pinned_room(&self, options: &OverviewOptions<'_>) -> PinnedRoom {
        let Some(budget) = &options.budget else { return PinnedRoom::default() };
        fit::fitted(&Ordered::new(self.listed(options), options), options, budget, &|_| None).pinned
    }

    /// The XML form of the open specification. Empty if there are no skills.
    pub fn overview_xml(&self) -> Rendered {
        self.overview_xml_with(&OverviewOptions::default())
    }

    /// The XML form with the modes and the order of `options`. Other options have no effect.
    pub fn overview_xml_with(&self, options: &OverviewOptions<'_>) -> Rendered {
        let mut text = String::new();
        for entry in Ordered::new(self.listed(options), options).all() {
            if text.is_empty() {
                text.push_str("<available_skills>\n");
            }
            text.push_str("<skill>\n");
            let origin = entry.published().map(|_| ("origin", entry.root.label.as_str()));
            let description = (options.mode(entry) != SkillMode::Name).then(|| full_description(entry));
            let fields = [
                Some(("name", entry.skill.name.as_str())),
                description.as_deref().map(|description| ("description", description)),
                Some(("location", entry.skill.location.as_str())),
            ];
            for (tag, value) in fields.into_iter().flatten().chain(origin) {
                text.extend(["<", tag, ">\n"]);
                xml(value, &mut text);
                text.extend(["\n</", tag, ">\n"]);
            }
            text.push_str("</skill>\n");
        }
        if !text.is_empty() {
            text.push_str("</available_skills>");
        }
        text.into()
    }

    /// One line per skill, without annotations or advice, for large catalogs.
    pub fn overview_compact(&self) -> Rendered {
        self.overview_compact_with(&OverviewOptions::default())
    }

    /// One line per skill with the modes and the order of `options`. Other options have no effect.
    pub fn overview_compact_with(&self, options: &OverviewOptions<'_>) -> Rendered {
        let mut text = String::new();
        for entry in Ordered::new(self.listed(options), options).all() {
            text.push_str(if text.is_empty() { "- " } else { "\n- " });
            emphasised(entry.skill.name.as_str(), &mut text);
            if options.mode(entry) != SkillMode::Name {
                text.push_str(": ");
                prompt_line(&full_description(entry), &mut text);
            }
            if entry.published().is_some() {
                text.push_str(" (From: ");
                prompt_line(&entry.root.label, &mut text);
                text.push(')');
            }
        }
        text.into()
    }

    /// The roots with their labels, one line each, from least to most precedence.
    pub fn locations(&self) -> String {
        let mut text = String::new();
        for root in self.trusted_roots() {
            text.push_str(if text.is_empty() { "- **" } else { "\n- **" });
            emphasised(&root.label, &mut text);
            text.push_str(" skills**: `");
            quoted(&root.path.to_string_lossy(), &mut text);
            text.push('`');
        }
        text
    }

    fn trusted_roots(&self) -> impl Iterator<Item = &Root> {
        // A root with a visible skill may be named, even if its other entries are untrusted.
        let has_skill = |root: &Root| self.entries().iter().any(|entry| std::ptr::eq(&*entry.root, root));
        let trusted = move |root: &&Root| root.trust == Trust::Trusted || has_skill(root);
        self.catalog().roots().map(AsRef::as_ref).filter(trusted)
    }

    /// The skills to list. A skill that only a person may start is listed if it is loaded, or if its manifest says so and
    /// such skills are to be marked.
    fn listed(&self, options: &OverviewOptions<'_>) -> impl Iterator<Item = &SkillEntry> {
        self.entries().iter().map(AsRef::as_ref).filter(|entry: &&SkillEntry| {
            options.is_for_models(entry)
                || options.loaded.contains(entry.skill.name.as_str())
                || (options.manual == ManualSkills::Marked && options.mode(entry) > SkillMode::Manual)
        })
    }

    fn write_no_skills(&self, options: &OverviewOptions<'_>, text: &mut String) {
        let roots = || self.trusted_roots().map(|root| root.path.to_string_lossy().into_owned()).collect();
        let places: Vec<String> =
            if options.create_in.is_empty() { roots() } else { options.create_in.clone() };
        text.push_str("(No skills available yet.");
        for (at, place) in places.iter().enumerate() {
            text.push_str(if at == 0 { " You can create skills in " } else { " or " });
            prompt_line(place, text);
        }
        text.push(')');
    }
}

/// The list of these skills, in this order.
///
/// ```
/// use prowess_catalog::overview::list;
/// use prowess_catalog::{Catalog, OverviewOptions};
///
/// let catalog = Catalog::empty();
/// let best = catalog.view_all().search("invoices");
/// assert_eq!(list(best.iter().map(|hit| &*hit.entry), &OverviewOptions::default(), &|_| None), "");
/// ```
pub fn list<'a>(
    entries: impl IntoIterator<Item = &'a SkillEntry>,
    options: &OverviewOptions<'_>,
    resources: &dyn Fn(&SkillEntry) -> Option<ResourceCounts>,
) -> String {
    let mut text = String::new();
    for entry in entries {
        if !text.is_empty() {
            text.push('\n');
        }
        write_entry(entry, options, resources, &mut text);
    }
    text
}

/// One line about a skill: its name and the start of its description.
///
/// ```
/// use prowess_catalog::overview::short_line;
/// use prowess_catalog::{Catalog, Root, ScanOptions};
///
/// # let scratch = tempfile::tempdir()?;
/// # let root = scratch.path();
/// # std::fs::create_dir(root.join("greet"))?;
/// # std::fs::write(root.join("greet/SKILL.md"), "---\nname: greet\ndescription: Says hello.\n---\nWave.\n")?;
/// let catalog = Catalog::discover(&[Root::explicit(root)], &ScanOptions::default());
/// assert_eq!(short_line(&catalog.entries()[0], 200), "- **greet**: Says hello.");
/// # Ok::<(), std::io::Error>(())
/// ```
pub fn short_line(entry: &SkillEntry, max_chars: usize) -> String {
    let mut text = "- **".to_owned();
    emphasised(entry.skill.name.as_str(), &mut text);
    text.push_str("**: ");
    prompt_line(&cut(&full_description(entry), max_chars), &mut text);
    if entry.published().is_some() {
        text.push_str(" (From: ");
        prompt_line(&entry.root.label, &mut text);
        text.push(')');
    }
    text
}

fn write_entry(
    entry: &SkillEntry,
    options: &OverviewOptions<'_>,
    resources: &dyn Fn(&SkillEntry) -> Option<ResourceCounts>,
    text: &mut String,
) {
    let skill = &entry.skill;
    let loaded = options.loaded.contains(skill.name.as_str());
    text.push_str("- **");
    emphasised(skill.name.as_str(), text);
    text.push_str(if loaded { "** [Loaded]: " } else { "**: " });
    prompt_line(&full_description(entry), text);
    // The model must know whose words these are.
    let origin = entry.published().map(|_| entry.root.label.clone());
    let annotations =
        [("From: ", &origin), ("License: ", &skill.license), ("Compatibility: ", &skill.compatibility)];
    let mut is_first = true;
    for (label, value) in annotations {
        if let Some(value) = value.as_deref().filter(|value| !value.is_empty()) {
            text.extend([if is_first { " (" } else { ", " }, label]);
            prompt_line(&cut(value, MAX_COMPATIBILITY_CHARS), text);
            is_first = false;
        }
    }
    if !is_first {
        text.push(')');
    }
    if !options.is_for_models(entry) {
        text.push_str(" (Manual only)");
    }
    if !skill.allowed_tools.is_empty() {
        text.push_str("\n  -> Recommended tools: ");
        for (at, tool) in skill.allowed_tools.iter().take(MAX_TOOLS).enumerate() {
            text.push_str(if at == 0 { "" } else { ", " });
            prompt_line(&cut(tool, MAX_HINT_CHARS), text);
        }
        if skill.allowed_tools.len() > MAX_TOOLS {
            text.push_str(", …");
        }
    }
    if let Some(counts) = resources(entry).filter(|counts| !counts.0.is_empty()) {
        text.push_str("\n  -> Resources: ");
        text.push_str(&counts.to_string());
    }
    if !loaded && options.is_for_models(entry) {
        write_activation(entry, options.activation, text);
    }
}

fn write_path(path: &str, text: &mut String) {
    text.push_str("\n  -> Read `");
    quoted(path, text);
    text.push_str("` for full instructions");
}

fn write_activation(entry: &SkillEntry, activation: Activation<'_>, text: &mut String) {
    let hint = entry.skill.extensions.argument_hint.as_ref();
    let (tool, hint) = match activation {
        Activation::Tool(tool) => (tool, hint),
        Activation::ToolByName(tool) => (tool, None),
        Activation::Tools { plain, with_arguments } => {
            (if hint.is_some() { with_arguments } else { plain }, hint)
        }
        Activation::ReadFile => return write_path(entry.skill.location.as_str(), text),
        Activation::ReadFileBelow(place) => {
            return write_path(&format!("{place}/{}/{}", entry.skill.name, crate::skill::MANIFEST), text);
        }
    };
    text.extend(["\n  -> Use `", tool, "(\""]);
    quoted(entry.skill.name.as_str(), text);
    text.push('"');
    if let Some(hint) = hint {
        text.push_str(", args=\"");
        quoted(&cut(hint, MAX_HINT_CHARS), text);
        text.push('"');
    }
    text.push_str(")` to read full instructions");
}

/// The description, followed by `when_to_use` if the skill has it. Both are cut if they are longer than the specification
/// allows.
fn full_description(entry: &SkillEntry) -> Cow<'_, str> {
    let description = cut(&entry.skill.description, MAX_DESCRIPTION_CHARS);
    match &entry.skill.extensions.when_to_use {
        Some(when) => format!("{description} {}", cut(when, MAX_DESCRIPTION_CHARS)).into(),
        None => description,
    }
}
