//! Which skills the model of a chat sees, for commands that tell a person about it.

use std::io::Write as _;

use anyhow::Result;
use prowess_catalog::overview::{ManualSkills, SkillMode};
use prowess_catalog::{Catalog, CatalogView, SkillEntry, Storage, Trust};
use prowess_permission::{Permissions, Policy, Rule, RuleSource, Verdict};
use prowess_skills::secret::Secret;
use prowess_skills::visibility::denial;
use prowess_skills::{SessionOptions, SkillEngine, SkillState};

use crate::chat::session_options;
use crate::config::{Config, Flag, SkillSettings};
use crate::options::KitArgs;
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
    overview_tokens: Option<usize>,
    /// The names of the kits in use.
    kits: Vec<String>,
    notices: Vec<String>,
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
    /// No: its mode is `off`.
    Off,
    /// No: it is in none of the kits in use.
    OutsideKits,
    /// No: it belongs to a project and is not trusted.
    Untrusted,
}

impl ChatSkills {
    /// The skills that a model sees with this configuration.
    pub(crate) fn new(catalog: &Catalog, config: &Config) -> Self {
        // Visibility does not depend on the workspace directory.
        let policy = config.policy(CHAT_AGENT, &WorkspaceDir::default());
        let options = session_options(&config.settings.skills);
        let is_off = |entry: &SkillEntry| options.modes.of(entry.skill.name.as_str()) == SkillMode::Off;
        let view = catalog.view(|entry| denial(&policy, entry).is_none() && !is_off(entry));
        let kits = config.settings.skills.kits_in_use().into_iter().map(str::to_owned).collect();
        let window = config.settings.model.context_window.map(|window| window.0);
        let overview_tokens = config.settings.skills.overview_tokens(window);
        Self { view, policy, options, overview_tokens, kits, notices: Vec::new() }
    }

    /// The same for the skills of a command, with their configuration and the kits of the command.
    pub(crate) fn of(skills: &Skills, kits: Option<&KitArgs>) -> Result<Self> {
        let flags: Vec<Flag> = kits.and_then(KitArgs::flag).into_iter().collect();
        let config = Config::load(&skills.configuration()?, &flags)?;
        let notices = notices(&skills.catalog, &config.settings.skills);
        Ok(Self { notices, ..Self::new(&skills.catalog, &config) })
    }

    /// The same, but if the rules cannot be read it warns the person and returns `None`. No chat starts then, and no
    /// model sees anything.
    pub(crate) fn of_or_warn(skills: &Skills, kits: Option<&KitArgs>) -> Result<Option<Self>> {
        match Self::of(skills, kits) {
            Ok(visible_skills) => Ok(Some(visible_skills)),
            // The person named a kit, and must know that it does not exist.
            Err(error) if kits.is_some_and(KitArgs::is_given) => Err(error),
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

    /// The most tokens of the overview in a chat.
    pub(crate) fn overview_tokens(&self) -> Option<usize> {
        self.overview_tokens
    }

    /// Whether the model sees skills that only people start.
    fn lists_manual(&self) -> bool {
        self.options.manual == ManualSkills::Marked && self.options.dialect.lists_manual_skills()
    }

    /// Whether the model sees a skill.
    pub(crate) fn visibility(&self, entry: &SkillEntry) -> Visibility {
        if entry.trust == Trust::Untrusted {
            return Visibility::Untrusted;
        }
        if let Some(verdict) = denial(&self.policy, entry) {
            return Visibility::Denied(Box::new(verdict));
        }
        let name = entry.skill.name.as_str();
        match self.options.modes.mode_in_kits(name) {
            _ if self.options.modes.is_outside_kits(name) => return Visibility::OutsideKits,
            SkillMode::Off => return Visibility::Off,
            SkillMode::Manual => return Visibility::Manual,
            _ if entry.skill.is_model_invocable() => {}
            _ if self.lists_manual() => return Visibility::Marked,
            _ => return Visibility::Manual,
        }
        if entry.skill.extensions.paths.is_empty() { Visibility::Yes } else { Visibility::WithFiles }
    }

    /// Whether the kits in use leave a skill out, whatever else hides it.
    pub(crate) fn is_outside_kits(&self, name: &str) -> bool {
        self.options.modes.is_outside_kits(name)
    }

    /// The kits in use, as text.
    pub(crate) fn kits(&self) -> String {
        printable(&self.kits.join(", "))
    }

    /// What the person should know about modes and kits.
    pub(crate) fn notices(&self) -> &[String] {
        &self.notices
    }

    /// How visible the configuration lets a skill be.
    pub(crate) fn mode(&self, entry: &SkillEntry) -> SkillMode {
        self.options.modes.mode_in_kits(entry.skill.name.as_str())
    }

    /// Lines about the skills that are hidden from the model, by reason.
    pub(crate) fn hidden_lines(&self) -> Vec<String> {
        let (mut denied, mut off, mut outside) = (Vec::new(), Vec::new(), Vec::new());
        let entries = self.view.catalog().entries().iter();
        for entry in entries.filter(|entry| self.view.get(entry.skill.name.as_str()).is_none()) {
            let names = match self.visibility(entry) {
                Visibility::Off => &mut off,
                Visibility::OutsideKits => &mut outside,
                _ => &mut denied,
            };
            names.push(entry.skill.name.as_str());
        }
        let reasons = [
            (denied, "denied by rules and hidden from the model"),
            (off, "off"),
            (outside, "in none of the kits in use"),
        ];
        reasons.iter().filter_map(|(names, why)| hidden_line(names, why)).collect()
    }
}

fn hidden_line(hidden: &[&str], why: &str) -> Option<String> {
    let mut names: Vec<String> = hidden.iter().take(MAX_NAMED).map(|name| printable(name)).collect();
    names.extend((hidden.len() > MAX_NAMED).then(|| "…".to_owned()));
    let are = if hidden.len() == 1 { "is" } else { "are" };
    (!hidden.is_empty())
        .then(|| format!("{} {are} {why}: {}", count(hidden.len(), "skill"), names.join(", ")))
}

/// What a person should know about modes and kits: names that match no skill, and kits in use without skills.
pub(crate) fn notices(catalog: &Catalog, settings: &SkillSettings) -> Vec<String> {
    let all = || catalog.entries().iter().chain(catalog.untrusted());
    let names = || all().map(|entry| entry.skill.name.as_str()).collect();
    let mut notices = Vec::new();
    let mut unmatched = vec![("[skills.mode]".to_owned(), settings.unmatched_modes(names))];
    if settings.kit_names().next().is_some() {
        let of_kits = settings.unmatched_in_kits(&names());
        unmatched
            .extend(of_kits.into_iter().map(|(kit, patterns)| (format!("[skills.kit] {kit}"), patterns)));
    }
    // Only a chat asks other MCP servers for their skills, which are called `LABEL:NAME`.
    let has_servers = catalog.roots().any(|root| root.storage == Storage::Server);
    for (place, mut unmatched) in unmatched {
        unmatched.retain(|name| has_servers || !name.contains(':'));
        if unmatched.is_empty() {
            continue;
        }
        let shown: Vec<String> =
            unmatched.iter().take(MAX_NAMED).map(|name| format!("`{}`", printable(name))).collect();
        let more = if unmatched.len() > MAX_NAMED { ", …" } else { "" };
        notices.push(format!("{place}: no skill matches {}{more}", shown.join(", ")));
    }
    let kits = settings.kits_in_use();
    let modes = settings.modes();
    let has_skills =
        || catalog.entries().iter().any(|entry| !modes.is_outside_kits(entry.skill.name.as_str()));
    if !kits.is_empty() && !catalog.entries().is_empty() && !has_skills() {
        notices.push(format!("the kits in use have no skill: {}", kits.join(", ")));
    }
    notices
}

/// A notice if the overview has no room for the whole descriptions of all pinned skills: what it shows instead.
pub(crate) fn pinned_notice(
    catalog: &Catalog,
    options: SessionOptions,
    permissions: Permissions,
) -> Option<String> {
    let budget = options.overview_tokens?;
    let engine = SkillEngine::with(catalog, options, permissions, Secret::random());
    let room = engine.at(&SkillState::default()).pinned_room();
    let parts = [
        (room.shortened, "with a shortened description"),
        (room.by_name, "by name only"),
        (room.left_out, "left out"),
    ];
    let parts = parts.iter().filter(|(number, _)| *number > 0);
    let parts: Vec<String> = parts.map(|(number, how)| format!("{number} {how}")).collect();
    (!parts.is_empty()).then(|| {
        format!(
            "the pinned skills do not fit into the overview of {budget} tokens: {}; pin fewer, or raise \
             skills.overview.budget",
            parts.join(", ")
        )
    })
}

/// The word for a mode that the configuration gives to a skill; `None` for the default.
pub(crate) fn chosen_mode(mode: SkillMode) -> Option<&'static str> {
    (mode != SkillMode::Auto).then(|| mode.as_str())
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
            Self::Off => Some("off"),
            Self::OutsideKits => Some("in no kit in use"),
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
            Self::Off => "no, its mode is `off`".to_owned(),
            Self::OutsideKits => "no, it is in none of the kits in use".to_owned(),
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
