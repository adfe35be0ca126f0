//! A model without a key and a network: it searches skills, loads one, runs an example and reports.

mod example;
mod overview;
mod rank;
mod report;
mod summary;

use async_trait::async_trait;
use futures_util::StreamExt;
use prowess_agent::message::Content;
use prowess_agent::model::{Finish, ModelStream, ToolChoice};
use prowess_agent::{Model, ModelDelta, ModelError, ModelRequest, ToolCall, ToolResult};
use serde_json::{Value, json};

use self::example::first_example;
use self::overview::{LoadTool, instructions, listed_skills};
use self::rank::best;
use self::report::{fenced, report};
use self::summary::summary;

/// The tool that runs a command of a skill.
const RUN: &str = "skill_run";

/// The output files of commands in a workspace.
const OUTPUT: &str = "out/**";

/// What it says about itself in every response.
const DISCLAIMER: &str = "I am not a language model. I work offline: I look for the skill whose name and description \
     share the most words with your message, load it, and run the first example in it that can be run as it stands.";

/// A model that needs no key and no network. It shows how skills work.
///
/// It understands nothing. It compares the words of the last message with the names and descriptions in the overview, loads
/// the skill that fits best, runs the first runnable example in its instructions, and reports the result. It always says
/// that it is not a language model. Its responses depend only on the request, so a thread continues after a restart.
///
/// ```
/// use futures_util::StreamExt;
/// use prowess_agent::model::ResponseAssembly;
/// use prowess_agent::{Message, Model, ModelRequest};
/// use prowess_models::Offline;
///
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> Result<(), prowess_agent::ModelError> {
/// let mut stream = Offline.call(ModelRequest::new([Message::user("Hello!")])).await?;
/// let mut assembly = ResponseAssembly::new(Offline.name());
/// while let Some(delta) = stream.next().await {
///     assembly.push(delta?);
/// }
/// assert!(assembly.finish().message.text().contains("not a language model"));
/// # Ok(())
/// # }
/// ```
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Offline;

#[async_trait]
impl Model for Offline {
    fn name(&self) -> &str {
        "offline"
    }

    async fn call(&self, request: ModelRequest) -> Result<ModelStream, ModelError> {
        let mut deltas = match next_action(&request) {
            OfflineAction::Say(text) => vec![ModelDelta::Text(format!("{DISCLAIMER}\n\n{text}"))],
            OfflineAction::Call { tool, arguments } => {
                let id = format!("offline_{}", request.messages.len());
                let piece = arguments.to_string();
                vec![
                    ModelDelta::ToolCall { index: 0, id, name: tool },
                    ModelDelta::Arguments { index: 0, piece },
                ]
            }
        };
        deltas.push(ModelDelta::Finish(Finish::Stop));
        Ok(futures_util::stream::iter(deltas.into_iter().map(Ok)).boxed())
    }
}

/// What the model does next.
#[derive(Clone, Debug, PartialEq)]
enum OfflineAction {
    Say(String),
    Call { tool: String, arguments: Value },
}

/// Decides what to do next, by what happened since the last message of a person.
fn next_action(request: &ModelRequest) -> OfflineAction {
    let turn = CurrentTurn::of(request);
    if let Some(summary) = summary(request) {
        return OfflineAction::Say(summary);
    }
    if let Some((call, result)) = turn.call_of(RUN) {
        return OfflineAction::Say(report(call, result));
    }
    match loaded_or_load(request, &turn) {
        Ok(name) => run_example(request, &turn, &name),
        Err(action) => action,
    }
}

/// The skill that this turn uses, once its instructions are there; before that, what to do instead.
fn loaded_or_load(request: &ModelRequest, turn: &CurrentTurn<'_>) -> Result<String, OfflineAction> {
    let load_tool = LoadTool::offered(request);
    let load = load_tool.and_then(|load_tool| {
        let (call, result) = turn.call_of(&load_tool.tool.name)?;
        let name = call.parsed().ok()?[load_tool.parameter].as_str()?.to_owned();
        Some((name, result))
    });
    if let Some((name, result)) = load {
        return match result {
            Some(result) if result.is_error => {
                let why = fenced(&result.text);
                Err(OfflineAction::Say(format!("The skill `{name}` could not be loaded:\n\n{why}")))
            }
            _ => Ok(name),
        };
    }
    let skills = listed_skills(request);
    let Some(skill) = best(&skills, &turn.task) else {
        let names = skills.iter().map(|skill| skill.name.as_str());
        return Err(OfflineAction::Say(nothing_fits(names)));
    };
    let name = &skill.name;
    if skill.is_loaded && instructions(request, name).is_some() {
        return Ok(name.clone());
    }
    Err(match load_tool.filter(|_| may_call(request)) {
        Some(load_tool) => OfflineAction::Call {
            tool: load_tool.tool.name.clone(),
            arguments: json!({load_tool.parameter: name}),
        },
        None => OfflineAction::Say(format!("The skill `{name}` fits best, but I have no tool to load it.")),
    })
}

/// Runs the first example in the instructions of the loaded skill `name`.
fn run_example(request: &ModelRequest, turn: &CurrentTurn<'_>, name: &str) -> OfflineAction {
    let text = instructions(request, name).or_else(|| turn.last_result().map(|result| result.text.clone()));
    let Some(command) = text.as_deref().and_then(first_example) else {
        return OfflineAction::Say(format!(
            "I loaded the skill `{name}`. It has no example that I could run."
        ));
    };
    let run_tool = request.tools.iter().find(|tool| tool.name == RUN).filter(|_| may_call(request));
    let Some(run_tool) = run_tool else {
        return OfflineAction::Say(format!(
            "I loaded the skill `{name}`. Its first example is below; I have no tool to run it.\n\n{}",
            fenced(&command)
        ));
    };
    let mut arguments = json!({"skill": name, "command": command});
    if run_tool.parameters.pointer("/properties/output_files").is_some() {
        arguments["output_files"] = json!([OUTPUT]);
    }
    if run_tool.parameters.pointer("/properties/save_as_artifacts").is_some() {
        arguments["save_as_artifacts"] = json!(true);
    }
    OfflineAction::Call { tool: RUN.to_owned(), arguments }
}

fn may_call(request: &ModelRequest) -> bool {
    request.tool_choice != ToolChoice::None
}

/// What happened since a person spoke last.
struct CurrentTurn<'a> {
    task: String,
    calls: Vec<(&'a ToolCall, Option<&'a ToolResult>)>,
}

impl<'a> CurrentTurn<'a> {
    fn of(request: &'a ModelRequest) -> Self {
        let is_user = |content: &Content| matches!(content, Content::User { .. });
        let last = request.messages.iter().rposition(|message| is_user(&message.content));
        let task = last.map(|last| request.messages[last].text()).unwrap_or_default();
        let mut calls: Vec<(&ToolCall, Option<&ToolResult>)> = Vec::new();
        for message in &request.messages[last.map_or(0, |last| last + 1)..] {
            calls.extend(message.tool_calls().map(|call| (call, None)));
            if let Content::Tool(result) = &message.content {
                let call = calls.iter_mut().rev().find(|(call, _)| call.id == result.call);
                call.into_iter().for_each(|(_, answer)| *answer = Some(result));
            }
        }
        Self { task, calls }
    }

    /// The last call of a tool, and its answer.
    fn call_of(&self, tool: &str) -> Option<(&'a ToolCall, Option<&'a ToolResult>)> {
        self.calls.iter().rev().find(|(call, _)| call.name == tool).copied()
    }

    fn last_result(&self) -> Option<&'a ToolResult> {
        self.calls.last().and_then(|(_, result)| *result)
    }
}

fn nothing_fits<'a>(names: impl Iterator<Item = &'a str>) -> String {
    let names: Vec<String> = names.map(|name| format!("- `{name}`")).collect();
    if names.is_empty() {
        return "There are no skills here that I could load. `prowess add OWNER/REPO` in a terminal installs some."
            .to_owned();
    }
    format!("No skill shares a word with your message. There are:\n\n{}", names.join("\n"))
}
