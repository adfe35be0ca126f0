//! Layer 1: the overview of skills in the system prompt.

use std::collections::BTreeMap;
use std::sync::Arc;

use prowess_catalog::overview::{
    Activation, ManualSkills, OverviewBudget, PinnedRoom, Rendered, SkillMode, list,
};
use prowess_catalog::resource::ResourceCounts;
use prowess_catalog::section::SectionTemplate;
use prowess_catalog::untrusted::code_text;
use prowess_catalog::{CatalogView, OverviewOptions, SkillEntry};

use crate::context::LoadedSection;
use crate::delta::ResourceMetadata;
use crate::dialect::{LoadToolNames, SEARCH_TOOL, ToolSpec};
use crate::error::argument;
use crate::event::{Stale, Staleness};
use crate::options::{Guidance, Prompt, SkillPaths};
use crate::uses::names_in;
use crate::view::SkillView;

/// Everything about skills that one model call needs.
///
/// ```
/// use prowess_skills::SkillSession;
///
/// # use prowess_catalog::{Catalog, Root, ScanOptions};
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
/// # let scratch = tempfile::tempdir()?;
/// # std::fs::create_dir(scratch.path().join("greet"))?;
/// # let manifest = "---\nname: greet\ndescription: Says hello.\n---\nWave.\n";
/// # std::fs::write(scratch.path().join("greet/SKILL.md"), manifest)?;
/// # let catalog = Catalog::discover(&[Root::explicit(scratch.path())], &ScanOptions::default());
/// let session = SkillSession::builder(catalog).build().await;
/// let view = session.model_view().await;
/// assert!(view.prompt.text.contains("- **greet**: Says hello."));
/// assert_eq!(view.tools[0].name, "load_skill");
/// assert_eq!(view.loaded.text, "", "in this dialect, tool answers have the text");
/// # Ok(())
/// # }
/// ```
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub struct ModelView {
    /// The section of the system prompt; see [`SkillView::prompt`].
    pub prompt: Rendered,
    /// The tools; see [`SkillService::tools`](crate::SkillService::tools).
    pub tools: Arc<[ToolSpec]>,
    /// The text of loaded skills for the system message; see [`SkillView::loaded_section`].
    pub loaded: LoadedSection,
}

impl SkillView {
    /// The overview, with marks for loaded skills.
    pub fn overview(&self) -> Rendered {
        self.overview_of(&self.offered())
    }

    /// The section of the system prompt about skills, in the session's dialect. In `opencode` a tool lists the skills, so the
    /// section contains only notices about loaded skills. It changes only after a load, an unload or a refresh, or not at all
    /// if it is frozen.
    pub fn prompt(&self) -> Rendered {
        match self.frozen() {
            Some(frozen) => frozen.text.clone().into(),
            None => self.unfrozen_prompt(),
        }
    }

    pub(crate) fn unfrozen_prompt(&self) -> Rendered {
        let options = self.engine().options();
        let template = options.template.clone().or_else(|| match options.guidance {
            Guidance::Tools => options.dialect.template(options.capabilities, options.placement),
            Guidance::ReadFile => Some(SectionTemplate::for_reading()),
        });
        let section = self.engine().section(self.visible(), self.state(), || {
            let Some(template) = template else { return String::new() };
            let view = self.offered();
            let locations = options.skill_paths.locations().unwrap_or_else(|| view.locations());
            template.render(&locations, &self.overview_of(&view).text).text
        });
        let mut text = section.to_string();
        let notices = if self.is_frozen() { Vec::new() } else { self.stale() };
        for stale in &notices {
            text.push_str(&format!("\n{}\n", self.stale_notice(stale)));
        }
        text.into()
    }

    fn overview_of(&self, view: &CatalogView) -> Rendered {
        let recent = self.engine().recent();
        let mut options = self.overview_options();
        options.budget = self.overview_budget();
        options.recent = names_in(&recent, view);
        let eager = self.engine().eager_resources();
        view.overview_with(&options, &|entry| self.resource_counts(entry, &eager))
    }

    /// The overview for the description of a tool: as XML, if there is room for it.
    pub(crate) fn overview_in_tool(&self) -> String {
        let (view, recent) = (self.offered(), self.engine().recent());
        // The description of a tool does not depend on what is loaded, and lists no manual skills.
        let mut options = self.overview_options();
        options.loaded.clear();
        options.manual = ManualSkills::Hidden;
        options.budget = self.overview_budget();
        options.recent = names_in(&recent, &view);
        let xml = view.overview_xml_with(&options);
        match &options.budget {
            Some(budget) if xml.tokens > budget.tokens => view.overview(&options).text,
            _ => xml.text,
        }
    }

    /// The overview as the open specification writes it, in XML.
    pub fn overview_xml(&self) -> Rendered {
        self.short_overview(CatalogView::overview_xml_with)
    }

    /// The overview with one line for each skill.
    pub fn overview_compact(&self) -> Rendered {
        self.short_overview(CatalogView::overview_compact_with)
    }

    fn short_overview(&self, render: impl Fn(&CatalogView, &OverviewOptions<'_>) -> Rendered) -> Rendered {
        let (view, recent) = (self.offered(), self.engine().recent());
        let mut options = self.overview_options();
        options.loaded.clear();
        options.manual = ManualSkills::Hidden;
        options.recent = names_in(&recent, &view);
        render(&view, &options)
    }

    /// How much of the pinned skills the overview has room for.
    pub fn pinned_room(&self) -> PinnedRoom {
        let mut options = self.overview_options();
        options.budget = self.overview_budget();
        self.offered().pinned_room(&options)
    }

    /// The list of these skills, in this order.
    pub(crate) fn overview_of_entries<'a>(&self, entries: impl Iterator<Item = &'a SkillEntry>) -> String {
        let eager = self.engine().eager_resources();
        list(entries, &self.overview_options(), &|entry| self.resource_counts(entry, &eager))
    }

    /// The budget of the overview. A model that cannot search gets all skills in full.
    fn overview_budget(&self) -> Option<OverviewBudget<'_>> {
        let options = self.engine().options();
        let tokens = options.overview_tokens.filter(|_| options.capabilities.search)?;
        Some(OverviewBudget::new(tokens, SEARCH_TOOL))
    }

    /// The most tokens of the overview, if there is a limit.
    pub(crate) fn overview_room(&self) -> Option<usize> {
        self.overview_budget().map(|budget| budget.tokens)
    }

    /// The counts of a skill's files, if they are known. `eager` has those of skills that are not loaded.
    fn resource_counts(
        &self,
        entry: &SkillEntry,
        eager: &BTreeMap<String, Vec<ResourceMetadata>>,
    ) -> Option<ResourceCounts> {
        let name = entry.skill.name.as_str();
        match self.state().get(name).filter(|_| !self.is_frozen()) {
            Some(_) => Some(counts(self.state().resources(name))),
            None => eager.get(name).map(|resources| counts(resources)),
        }
    }

    /// Whether the prompt is independent of what is loaded.
    fn is_frozen(&self) -> bool {
        self.engine().options().prompt == Prompt::Frozen
    }

    fn overview_options(&self) -> OverviewOptions<'_> {
        let (engine, state) = (self.engine(), self.state());
        let options = engine.options();
        let mut overview = OverviewOptions::default();
        overview.activation = match options.guidance {
            Guidance::Tools => options.dialect.activation(options.capabilities),
            Guidance::ReadFile => match &options.skill_paths {
                SkillPaths::Below(place) => Activation::ReadFileBelow(place),
                SkillPaths::Real => Activation::ReadFile,
            },
        };
        if !self.is_frozen() {
            overview.loaded = state.names().collect();
        }
        overview.manual = options.manual;
        overview.modes = self.visible().modes();
        let pinned = overview.modes.into_iter().flatten().filter(|(_, mode)| **mode == SkillMode::Pinned);
        overview.exact =
            pinned.map(|(name, _)| name.as_str()).filter(|name| options.modes.is_exact(name)).collect();
        overview.search = self.search_tool();
        overview.create_in.clone_from(&options.create_in);
        overview
    }

    pub(crate) fn stale_notice(&self, stale: &Stale) -> String {
        let (name, quoted) = (code_text(&stale.name), argument(&stale.name));
        let LoadToolNames { load, unload } = self.engine().options().dialect.load_tools();
        match stale.why {
            Staleness::Gone => format!(
                "The loaded skill '{name}' is no longer available. Use `{unload}(\"{quoted}\")` when you are \
                 done with it."
            ),
            Staleness::Replaced => format!(
                "Another skill is called '{name}' now. Use `{unload}(\"{quoted}\")` and \
                 `{load}(\"{quoted}\")` to work with that one."
            ),
            Staleness::Changed => format!(
                "The loaded skill '{name}' has changed since it was loaded. Use `{unload}(\"{quoted}\")` and \
                 `{load}(\"{quoted}\")` to read it again."
            ),
        }
    }
}

fn counts(resources: &[ResourceMetadata]) -> ResourceCounts {
    let mut counts = ResourceCounts::default();
    for resource in resources {
        *counts.0.entry(resource.kind).or_insert(0) += 1;
    }
    counts
}
