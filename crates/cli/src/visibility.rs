//! Which skills the model of a chat sees, for commands that tell a person about it.

use std::io::Write as _;

use anyhow::Result;
use prowess_catalog::overview::ManualSkills;
use prowess_catalog::{Catalog, CatalogView, SkillEntry, Trust};
use prowess_permission::{Policy, Rule, RuleSource, Verdict};
use prowess_skills::SessionOptions;
use prowess_skills::visibility::{denial, visible_view};

use crate::chat::session_options;
use crate::config::Config;
use crate::skills::Skills;
use crate::terminal::{count, printable};
use crate::workspace_dir::WorkspaceDir;

/// The name of the chat's agent in rules, `[agent.chat.permission]`, and in telemetry.
pub(crate) const CHAT_AGENT: &str = "chat";

/// What a person is told if the rules cannot be read.
pub(crate) const UNKNOWN: &str = "cannot tell which skills the model sees";
/// How many denied skills are named in a line.
const MAX_NAMED: usize = 10;

/// The skills that the model of `prowess chat` sees, by the rules of the user, of a trusted project and of the agent.
pub(crate) struct ChatSkills {
    policy: Policy,
    view: CatalogView,
    options: SessionOptions,
}

/// Whether the model sees a skill.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Visibility {
    /// Yes, from the start.
    Yes,
    /// Yes, once a file that matches its `paths` is used.
    WithFiles,
    /// Yes, marked as a skill that only people start.
    Marked,
    /// No: only people start it.
    Manual,
    /// No: a rule denies it.
    Denied(Box<Verdict>),
    /// No: it belongs to a project and is not trusted.
    Untrusted,
}

impl ChatSkills {
    /// The skills that a model sees with this configuration.
    pub(crate) fn new(catalog: &Catalog, config: &Config) -> Self {
        // Visibility does not depend on the workspace directory.
        let policy = config.policy(CHAT_AGENT, &WorkspaceDir::default());
        let options = session_options(&config.settings.skills);
        Self { view: visible_view(catalog, &policy), policy, options }
    }

    /// The same for the skills of a command, with their configuration.
    pub(crate) fn of(skills: &Skills) -> Result<Self> {
        let config = Config::load(&skills.configuration()?, &[])?;
        Ok(Self::new(&skills.catalog, &config))
    }

    /// The same, but if the rules cannot be read it warns the person and returns `None`. No chat starts then, and no
    /// model sees anything.
    pub(crate) fn of_or_warn(skills: &Skills) -> Result<Option<Self>> {
        match Self::of(skills) {
            Ok(visible_skills) => Ok(Some(visible_skills)),
            Err(error) => {
                let why = printable(&format!("{error:#}"));
                writeln!(anstream::stderr(), "{UNKNOWN}: {why}")?;
                Ok(None)
            }
        }
    }

    /// The skills that the model may know.
    pub(crate) fn view(&self) -> &CatalogView {
        &self.view
    }

    /// The rules that decide this.
    pub(crate) fn policy(&self) -> &Policy {
        &self.policy
    }

    /// How skills are shown to the model and loaded.
    pub(crate) fn options(&self) -> &SessionOptions {
        &self.options
    }

    /// Whether the model sees skills that only people start.
    fn lists_manual(&self) -> bool {
        self.options.manual == ManualSkills::Marked && self.options.dialect.lists_manual_skills()
    }

    /// The skills that the model sees from the start.
    pub(crate) fn offered(&self) -> CatalogView {
        self.view.filtered(|entry| entry.skill.extensions.paths.is_empty())
    }

    /// Whether the model sees a skill.
    pub(crate) fn visibility(&self, entry: &SkillEntry) -> Visibility {
        if entry.trust == Trust::Untrusted {
            return Visibility::Untrusted;
        }
        if let Some(verdict) = denial(&self.policy, entry) {
            return Visibility::Denied(Box::new(verdict));
        }
        if !entry.skill.is_model_invocable() {
            return if self.lists_manual() { Visibility::Marked } else { Visibility::Manual };
        }
        if entry.skill.extensions.paths.is_empty() { Visibility::Yes } else { Visibility::WithFiles }
    }

    /// The names of the skills that rules deny.
    fn denied(&self) -> Vec<&str> {
        let entries = self.view.catalog().entries().iter();
        let denied = entries.filter(|entry| self.view.get(entry.skill.name.as_str()).is_none());
        denied.map(|entry| entry.skill.name.as_str()).collect()
    }

    /// A line about the denied skills, if there are any.
    pub(crate) fn denied_line(&self) -> Option<String> {
        let denied = self.denied();
        let mut names: Vec<String> = denied.iter().take(MAX_NAMED).map(|name| printable(name)).collect();
        names.extend((denied.len() > MAX_NAMED).then(|| "…".to_owned()));
        (!denied.is_empty()).then(|| {
            format!(
                "{} {} denied by rules and hidden from the model: {}",
                count(denied.len(), "skill"),
                if denied.len() == 1 { "is" } else { "are" },
                names.join(", ")
            )
        })
    }
}

impl Visibility {
    /// Whether the model can see the skill.
    pub(crate) fn is_visible(&self) -> bool {
        matches!(self, Self::Yes | Self::WithFiles | Self::Marked)
    }

    /// A word for a list, if the skill needs one.
    pub(crate) fn mark(&self) -> Option<&'static str> {
        match self {
            Self::Yes | Self::WithFiles => None,
            Self::Marked | Self::Manual => Some("manual only"),
            Self::Denied(_) => Some("denied"),
            Self::Untrusted => Some("untrusted"),
        }
    }

    /// Whether the model sees the skill, with the reason. `untrusted` says why it is not trusted, if that is known.
    pub(crate) fn explain(&self, untrusted: Option<&str>) -> String {
        match self {
            Self::Yes => "yes".to_owned(),
            Self::WithFiles => "only once a file that matches its `paths` is used".to_owned(),
            Self::Marked => "yes, marked as a skill that only people start".to_owned(),
            Self::Manual => "no, only people start it".to_owned(),
            Self::Denied(verdict) => format!("no, denied by {}", describe_rule(verdict)),
            Self::Untrusted => {
                let why = untrusted.map(|why| format!(" ({why})")).unwrap_or_default();
                format!("no, it is not trusted{why}")
            }
        }
    }
}

/// The rule that denies something to the chat's agent, and where the rule is.
pub(crate) fn describe_rule(verdict: &Verdict) -> String {
    describe_rule_for(CHAT_AGENT, verdict.rule.as_ref())
}

/// The same for another agent.
pub(crate) fn describe_rule_for(agent: &str, rule: Option<&(RuleSource, Rule)>) -> String {
    let Some((source, rule)) = rule else { return "the rules".to_owned() };
    let (table, line) = (rule.toml_table(), rule.toml_line());
    let told = match source {
        RuleSource::User => format!("{table} {line} in your prowess.toml"),
        RuleSource::Project => format!("{table} {line} in the project's prowess.toml"),
        RuleSource::Agent => format!("{line} in [agent.{agent}.permission]"),
        other => format!("{table} {line}, a rule of the {other}"),
    };
    printable(&told)
}
