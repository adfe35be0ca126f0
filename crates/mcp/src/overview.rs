//! The overview of skills that a client gets first, cached for clients that have loaded nothing.

use std::sync::Arc;

use prowess_catalog::Catalog;
use prowess_catalog::overview::ManualSkills;
use prowess_permission::Policy;
use prowess_skills::allowed_tools::ToolNames;
use prowess_skills::modes::SkillModes;
use prowess_skills::uses::UsedSkill;
use prowess_skills::{Dialect, Discovery, Guidance, SkillSession};

/// An overview, with everything that it depends on while no skill is loaded.
#[derive(Debug)]
pub(crate) struct Overview {
    catalog: Catalog,
    policy: Policy,
    dialect: Dialect,
    discovery: Discovery,
    guidance: Guidance,
    manual: ManualSkills,
    tools: ToolNames,
    tokens: Option<usize>,
    modes: SkillModes,
    recent: Vec<UsedSkill>,
    pub(crate) text: Arc<str>,
}

impl Overview {
    /// The overview of a session, unless the session has its own template or loaded skills.
    pub(crate) fn of(session: &SkillSession) -> Option<Self> {
        let options = session.options();
        if !is_plain(session) {
            return None;
        }
        // Take these before the text: if they change meanwhile, the text must not count for the newer ones.
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
            tokens: options.overview_tokens,
            modes: options.modes.clone(),
            recent: recent(session),
            text,
        })
    }

    /// Whether this session would have the same overview.
    pub(crate) fn is_of(&self, session: &SkillSession) -> bool {
        let options = session.options();
        is_plain(session)
            && self.catalog.is_same(session.engine().catalog_view().catalog())
            && self.policy.is_same(&session.permissions().policy())
            && (self.dialect, self.discovery) == (options.dialect, options.discovery)
            && (self.guidance, self.manual) == (options.guidance, options.manual)
            && self.tools == options.tools
            && (self.tokens, &self.modes) == (options.overview_tokens, &options.modes)
            && self.recent == recent(session)
    }
}

/// The overview without the blank lines that separate it from the text before it: here it comes first.
pub(crate) fn text(session: &SkillSession) -> String {
    session.prompt().text.trim().to_owned()
}

/// The recently used skills that a session lists first.
fn recent(session: &SkillSession) -> Vec<UsedSkill> {
    session.engine().recent().to_vec()
}

fn is_plain(session: &SkillSession) -> bool {
    session.options().template.is_none() && session.state().loaded().is_empty()
}
