//! The overview of skills that clients get first, kept for those who come with nothing.

use std::sync::Arc;

use prowess_catalog::Catalog;
use prowess_catalog::overview::ManualSkills;
use prowess_permission::Policy;
use prowess_skills::allowed_tools::ToolNames;
use prowess_skills::{Dialect, Discovery, Guidance, SkillSession};

/// An overview, and all that it depends on while nothing is loaded.
#[derive(Debug)]
pub(crate) struct Overview {
    catalog: Catalog,
    policy: Policy,
    dialect: Dialect,
    discovery: Discovery,
    guidance: Guidance,
    manual: ManualSkills,
    tools: ToolNames,
    pub(crate) text: Arc<str>,
}

impl Overview {
    /// That of a session, unless it is one that says something of its own.
    pub(crate) fn of(session: &SkillSession) -> Option<Self> {
        let options = session.options();
        if !is_plain(session) {
            return None;
        }
        // What it depends on is taken first: when it changes meanwhile the text is none of a later one.
        let (catalog, policy) =
            (session.engine().catalog_view().catalog().clone(), session.permissions().policy());
        let text = text(session).into();
        Some(Self {
            catalog,
            policy,
            dialect: options.dialect,
            discovery: options.discovery,
            guidance: options.guidance,
            manual: options.manual,
            tools: options.tools.clone(),
            text,
        })
    }

    /// Whether it is what this session would say.
    pub(crate) fn is_of(&self, session: &SkillSession) -> bool {
        let options = session.options();
        is_plain(session)
            && self.catalog.is_same(session.engine().catalog_view().catalog())
            && self.policy.is_same(&session.permissions().policy())
            && (self.dialect, self.discovery) == (options.dialect, options.discovery)
            && (self.guidance, self.manual) == (options.guidance, options.manual)
            && self.tools == options.tools
    }
}

/// It is written to follow other text, and here it is first.
pub(crate) fn text(session: &SkillSession) -> String {
    session.prompt().text.trim().to_owned()
}

fn is_plain(session: &SkillSession) -> bool {
    session.options().template.is_none() && session.state().loaded().is_empty()
}
