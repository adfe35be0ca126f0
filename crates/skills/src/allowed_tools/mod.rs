//! `allowed-tools`: what the list of a loaded skill means for tool calls.

mod names;
mod restriction;
mod scope;
mod shell;
mod table;

use prowess_base::places::SKILLS;
use prowess_permission::Decision;

use self::names::NameWildcard;
pub use self::names::{DEFAULT_ALWAYS_ALLOWED, ToolNames};
pub use self::restriction::Restriction;
pub use self::table::{LISTED_TOOLS, ListedTool, ScopeKind};
use crate::delta::LoadedSkill;
use crate::dialect::kind_in_any_dialect;
use crate::options::SkillPaths;
use crate::view::SkillView;

/// The name that skills use for reaching hosts.
#[cfg(feature = "run")]
const FETCH: &str = "WebFetch";

/// The meaning of `allowed-tools`.
///
/// ```
/// use prowess_skills::allowed_tools::{CheckedCall, ToolVerdict};
/// use prowess_skills::{AllowedTools, SessionOptions, SkillSession};
///
/// # use prowess_catalog::{Catalog, Root, ScanOptions};
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
/// # let scratch = tempfile::tempdir()?;
/// # std::fs::create_dir(scratch.path().join("greet"))?;
/// # let manifest = "---\nname: greet\ndescription: Says hello.\n---\nWave.\n";
/// # std::fs::write(scratch.path().join("greet/SKILL.md"), manifest)?;
/// # let catalog = Catalog::discover(&[Root::explicit(scratch.path())], &ScanOptions::default());
/// # let manifest = "---\nname: commit\ndescription: Writes commits.\nallowed-tools: Bash(git:*)\n---\nCommit.\n";
/// # std::fs::create_dir(scratch.path().join("commit"))?;
/// # std::fs::write(scratch.path().join("commit/SKILL.md"), manifest)?;
/// # let catalog = Catalog::discover(&[Root::explicit(scratch.path())], &ScanOptions::default());
/// let mut options = SessionOptions::default();
/// options.allowed_tools = AllowedTools::Restrict;
/// let session = SkillSession::builder(catalog).options(options).build().await;
/// session.load("commit", None).await?; // it has `allowed-tools: Bash(git:*)`
///
/// let git = CheckedCall::new("bash").argument("git status");
/// assert_eq!(session.view().check_tool(git), ToolVerdict::Pass);
/// let curl = CheckedCall::new("bash").argument("curl example.com");
/// assert!(matches!(session.view().check_tool(curl), ToolVerdict::Blocked { .. }));
/// # Ok(())
/// # }
/// ```
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub enum AllowedTools {
    /// The overview shows it as a recommendation.
    #[default]
    Recommend,
    /// Tools outside the lists of loaded skills are blocked.
    Restrict,
    /// prowess does not ask about listed tools while their skill is loaded.
    Preapprove,
}

/// A call of a tool.
///
/// ```
/// use prowess_skills::allowed_tools::CheckedCall;
///
/// let call = CheckedCall::new("bash").argument("git status");
/// assert_eq!((call.name, call.argument), ("bash", Some("git status")));
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct CheckedCall<'a> {
    /// The tool.
    pub name: &'a str,
    /// The command, path or name that a scope such as `Bash(git:*)` applies to.
    pub argument: Option<&'a str>,
    /// The form of the command, if it is one.
    pub form: CommandForm,
    /// The directory of the skill whose command it is, as commands see it. Paths in it are relative to it.
    pub directory: Option<&'a str>,
    /// The paths by which the model knows the project. Paths in scopes are relative to it.
    pub(crate) project_paths: &'a [String],
}

impl<'a> CheckedCall<'a> {
    /// A call without an argument.
    pub fn new(name: &'a str) -> Self {
        Self { name, argument: None, form: CommandForm::default(), directory: None, project_paths: &[] }
    }

    /// Sets the argument, if there is one.
    #[must_use]
    pub fn argument(self, argument: impl Into<Option<&'a str>>) -> Self {
        Self { argument: argument.into(), ..self }
    }

    /// Sets the directory of the skill whose command it is, if there is one.
    #[must_use]
    pub fn directory(self, directory: impl Into<Option<&'a str>>) -> Self {
        Self { directory: directory.into(), ..self }
    }

    /// Sets the form of the command.
    #[must_use]
    pub fn form(self, form: CommandForm) -> Self {
        Self { form, ..self }
    }
}

/// Whether something besides its text changes what a command does.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub enum CommandForm {
    /// Nothing does.
    #[default]
    Plain,
    /// It runs in another directory than usual. A scope with a path does not cover it.
    Elsewhere,
    /// It gets variables, or the model types into it. No scope covers it, except `*`.
    Changed,
}

/// What `allowed-tools` decides about a call.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ToolVerdict {
    /// Nothing: the permissions decide.
    Pass,
    /// The call needs no question: a loaded skill lists the tool.
    Preapproved {
        /// The skill.
        skill: String,
    },
    /// The call is blocked.
    Blocked {
        /// The answer for the model.
        message: String,
    },
}

impl ToolVerdict {
    /// Combines the verdict with the decision of the permissions. A preapproval avoids a question, but never overrides a
    /// denial. `Permissions::request_preapproved` returns the grant.
    pub fn applied_to(&self, decision: Decision) -> Decision {
        match self {
            Self::Pass => decision,
            Self::Preapproved { .. } if decision == Decision::Ask => Decision::Allow,
            Self::Preapproved { .. } => decision,
            Self::Blocked { .. } => Decision::Deny,
        }
    }
}

impl SkillView {
    /// What the `allowed-tools` of the loaded skills decide about a call.
    ///
    /// The list from the time of loading counts. A skill preapproves nothing if a rule denies it now, if it has moved, or if
    /// its manifest no longer lists the tool. A command of a skill needs the list of this skill:
    /// [`SkillView::check_run`].
    pub fn check_tool(&self, call: CheckedCall<'_>) -> ToolVerdict {
        let options = self.engine().options();
        let call = CheckedCall { project_paths: &options.project_paths, ..call };
        match options.allowed_tools {
            AllowedTools::Recommend => ToolVerdict::Pass,
            AllowedTools::Preapprove => {
                // A skill vouches neither for another skill, which a person reads first, nor for its commands.
                let is_for_skills = kind_in_any_dialect(call.name).is_some();
                let covers = |tool: &str| options.tools.covers(tool, call, NameWildcard::IsIgnored);
                self.listing(|skill| !is_for_skills && self.lists(skill, covers))
            }
            AllowedTools::Restrict => {
                let objection = self.restriction().and_then(|all| all.objection(&options.tools, call));
                objection.map_or(ToolVerdict::Pass, |message| ToolVerdict::Blocked { message })
            }
        }
    }

    /// What the lists decide about a command of the skill called `skill`. Only this skill itself preapproves its commands.
    pub fn check_run(&self, skill: &str, call: CheckedCall<'_>) -> ToolVerdict {
        let options = self.engine().options();
        let skills = match &options.skill_paths {
            SkillPaths::Below(place) => place.as_str(),
            SkillPaths::Real => SKILLS,
        };
        let own = format!("{skills}/{skill}");
        let call = call.directory(own.as_str());
        if options.allowed_tools != AllowedTools::Preapprove {
            return self.check_tool(call);
        }
        let covers = |tool: &str| options.tools.covers(tool, call, NameWildcard::IsIgnored);
        self.listing(|loaded| loaded.name == skill && self.lists(loaded, covers))
    }

    /// Whether the loaded skill called `skill` preapproves that its commands reach this host.
    #[cfg(feature = "run")]
    pub(crate) fn preapproves_host(&self, skill: &str, host: &str) -> bool {
        let options = self.engine().options();
        let call = CheckedCall::new(FETCH).argument(host);
        let covers = |tool: &str| options.tools.covers(tool, call, NameWildcard::IsIgnored);
        options.allowed_tools == AllowedTools::Preapprove
            && self.state().get(skill).is_some_and(|loaded| self.lists(loaded, covers))
    }

    /// The lists of all loaded skills together, if they restrict the agent.
    pub fn restriction(&self) -> Option<Restriction> {
        if self.engine().options().allowed_tools != AllowedTools::Restrict {
            return None;
        }
        let all =
            Restriction::new(self.state().loaded().iter().flat_map(|skill| &skill.allowed_tools).cloned());
        (!all.is_empty()).then_some(all)
    }

    /// The verdict if a loaded skill preapproves a call.
    fn listing(&self, preapproves: impl Fn(&LoadedSkill) -> bool) -> ToolVerdict {
        match self.state().loaded().iter().find(|skill| preapproves(skill)) {
            Some(skill) => ToolVerdict::Preapproved { skill: skill.name.clone() },
            None => ToolVerdict::Pass,
        }
    }

    /// Whether a loaded skill lists something that covers a call, and its manifest still does.
    fn lists(&self, skill: &LoadedSkill, covers: impl Fn(&str) -> bool) -> bool {
        let entry = self.visible().view.get(&skill.name);
        entry.filter(|entry| entry.skill.location == skill.location).is_some_and(|entry| {
            let still = |tool: &&String| entry.skill.allowed_tools.contains(tool);
            skill.allowed_tools.iter().filter(still).any(|tool| covers(tool))
        })
    }
}
