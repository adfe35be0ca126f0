//! Layer 1: what a model is told about skills in every call.

use prowess_catalog::{CatalogView, OverviewOptions, Rendered, ResourceCounts};

use crate::delta::ResourceMetadata;
use crate::event::{Stale, Staleness};
use crate::session::SkillSession;
use crate::state::SkillState;

impl SkillSession {
    /// The list of skills, with what is loaded marked.
    pub fn overview(&self) -> Rendered {
        self.overview_of(&self.offered_view(), &self.state())
    }

    /// The section of the system prompt about skills, in the words of the session's dialect; empty where
    /// the dialect's tools say it all. It changes only when something is loaded, unloaded or refreshed.
    pub fn prompt(&self) -> Rendered {
        let options = self.options();
        let Some(template) = options.template.clone().or_else(|| options.dialect.template()) else {
            return String::new().into();
        };
        let view = self.offered_view();
        let list = self.overview_of(&view, &self.state()).text;
        let mut text = template.render(&view.locations(), &list).text;
        for stale in self.stale() {
            text.push_str(&format!("\n{}\n", self.stale_notice(&stale)));
        }
        text.into()
    }

    fn overview_of(&self, view: &CatalogView, state: &SkillState) -> Rendered {
        let options = self.options();
        let mut overview = OverviewOptions::default();
        overview.activation = options.dialect.activation();
        overview.loaded = state.names().collect();
        overview.manual = options.manual;
        overview.create_in.clone_from(&options.create_in);
        let eager = self.eager_resources();
        view.overview_with(&overview, &|entry| {
            let name = entry.skill.name.as_str();
            let resources = match state.get(name) {
                Some(_) => Some(state.resources(name)),
                None => eager.get(name).map(Vec::as_slice),
            };
            resources.map(counts)
        })
    }

    fn stale_notice(&self, stale: &Stale) -> String {
        let name = &stale.name;
        let words = self.options().dialect.words();
        match stale.why {
            Staleness::Gone => format!(
                "The loaded skill '{name}' is no longer available. Use `{}(\"{name}\")` when you are done with it.",
                words.unload
            ),
            Staleness::Replaced => format!(
                "Another skill is called '{name}' now. Use `{}(\"{name}\")` and `{}(\"{name}\")` to work with that one.",
                words.unload, words.load
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
