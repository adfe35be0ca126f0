//! Tool calls as the lists of `allowed-tools` see them.

use prowess_skills::allowed_tools::{CheckedCall, CommandForm, ToolVerdict};
use prowess_skills::{Dialect, SkillToolKind, SkillView};
use serde_json::Value;

use crate::middleware::MiddlewareContext;
use crate::tool::ToolKind;

/// Arguments that a scope such as `Bash(git:*)` is compared with, by their names in common tools.
const SCOPED_ARGUMENTS: [&str; 4] = ["command", "file_path", "path", "url"];

/// A tool call, with what scopes are compared with.
#[derive(Clone, Debug)]
pub(crate) struct ListedCall<'a> {
    name: &'a str,
    argument: Option<String>,
    form: CommandForm,
    /// The skill whose command it runs.
    skill: Option<&'a str>,
}

impl<'a> ListedCall<'a> {
    /// A call of a tool of this kind. `None` is a tool that the agent does not have.
    pub(crate) fn new(
        context: MiddlewareContext<'_>,
        name: &'a str,
        kind: Option<ToolKind>,
        arguments: &'a Value,
    ) -> Self {
        let text = |name: &str| arguments.get(name).and_then(Value::as_str).map(str::to_owned);
        let argument = match kind {
            Some(ToolKind::Find) if arguments.get("path").is_none() => text("pattern"),
            Some(ToolKind::Task) => text("subagent_type"),
            // A list is about the file that is written.
            Some(ToolKind::Copy) => text("to"),
            Some(ToolKind::Skill(SkillToolKind::Load)) => Dialect::skill_in(arguments).map(str::to_owned),
            // Typing belongs to the command that runs.
            Some(ToolKind::Skill(SkillToolKind::Write)) => {
                text("session_id").and_then(|run_id| running_command(context, &run_id))
            }
            _ => {
                let mut scoped = SCOPED_ARGUMENTS.iter().filter_map(|name| text(name));
                // With two of them it is unknown which one the scope is about.
                scoped.next().filter(|_| scoped.next().is_none())
            }
        };
        let is_given = |name: &str| arguments.get(name).is_some_and(|given| !given.is_null());
        let has_variables = is_given("env") && arguments["env"].as_object().is_none_or(|env| !env.is_empty());
        let form = match kind {
            Some(kind) if !kind.runs() => CommandForm::Plain,
            _ if has_variables => CommandForm::Changed,
            _ if is_given("cwd") => CommandForm::Elsewhere,
            _ => CommandForm::Plain,
        };
        let is_run = matches!(kind, Some(ToolKind::Skill(SkillToolKind::Run | SkillToolKind::Start)));
        let skill = Dialect::skill_in(arguments).filter(|_| is_run);
        Self { name, argument, form, skill }
    }

    pub(crate) fn checked(&self) -> CheckedCall<'_> {
        CheckedCall::new(self.name).argument(self.argument.as_deref()).form(self.form)
    }

    /// What the lists of the loaded skills decide about it.
    pub(crate) fn verdict(&self, skills: &SkillView) -> ToolVerdict {
        match self.skill {
            Some(skill) => skills.check_run(skill, self.checked()),
            None => skills.check_tool(self.checked()),
        }
    }
}

/// The loaded skill that preapproves a call, if there is one.
pub(crate) fn preapproving_skill(
    context: MiddlewareContext<'_>,
    name: &str,
    arguments: &Value,
) -> Option<String> {
    let skills = super::at(context)?;
    match ListedCall::new(context, name, context.tool_kind(name), arguments).verdict(&skills) {
        ToolVerdict::Preapproved { skill } => Some(skill),
        _ => None,
    }
}

/// The command of a run that the model types into.
fn running_command(context: MiddlewareContext<'_>, run_id: &str) -> Option<String> {
    super::service(context)?.running_command(run_id)
}
