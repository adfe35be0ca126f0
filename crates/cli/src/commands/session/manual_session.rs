//! A session that a person drives by hand: what each command does, and what the model has read.

use prowess_skills::allowed_tools::{CheckedCall, ToolVerdict};
use prowess_skills::event::Staleness;
use prowess_skills::options::Placement;
use prowess_skills::refresh::Refreshed;
use prowess_skills::{SkillDelta, SkillSession, SkillToolAnswer, SkillView};
use serde_json::{Value, json};

use super::command::{COMMANDS, Command};
use super::output::{self, OutputPart, Show};
use crate::options::RootArgs;
use crate::terminal::{count, printable};

/// A session, and the messages that a model would have.
#[derive(Debug)]
pub(crate) struct ManualSession<'a> {
    session: SkillSession,
    root_args: &'a RootArgs,
    messages: Vec<String>,
}

/// The result of a command.
#[derive(Debug, Default)]
pub(crate) struct CommandResult {
    pub(crate) parts: Vec<OutputPart>,
    pub(crate) is_error: bool,
    pub(crate) deltas: Vec<SkillDelta>,
    pub(crate) data: Option<Value>,
    /// Whether the catalog has changed.
    is_refreshed: bool,
}

impl CommandResult {
    /// The result of a line that is not valid.
    pub(crate) fn wrong(problem: String) -> Self {
        Self { is_error: true, ..Self::note(problem) }
    }

    /// Whether what the model sees, or what is saved, has changed.
    pub(crate) fn has_changed(&self) -> bool {
        self.is_refreshed || !self.deltas.is_empty()
    }

    fn note(text: impl Into<String>) -> Self {
        Self { parts: vec![OutputPart::Note(text.into())], ..Self::default() }
    }

    fn data(part: OutputPart, data: Value) -> Self {
        Self { parts: vec![part], data: Some(data), ..Self::default() }
    }
}

impl<'a> ManualSession<'a> {
    pub(crate) fn new(session: SkillSession, root_args: &'a RootArgs) -> Self {
        Self { session, root_args, messages: Vec::new() }
    }

    pub(crate) fn session(&self) -> &SkillSession {
        &self.session
    }

    /// What the model sees now.
    pub(crate) async fn context(&self, show: Show, deltas: &mut Vec<SkillDelta>) -> Vec<OutputPart> {
        output::context(&self.session, show, deltas).await
    }

    /// Carries out a command.
    pub(crate) async fn execute(&mut self, command: Command) -> CommandResult {
        let session = self.session.clone();
        let said = match command {
            Command::Load { name, arguments } => {
                self.record_answer(session.load(&name, arguments.as_deref()).await.into())
            }
            Command::Unload { name } => self.record_answer(session.unload(&name).into()),
            Command::Docs { name } => self.record_answer(session.list_documents(&name).await.into()),
            Command::Select { name, mode, choice } => {
                self.record_answer(session.select_documents(&name, mode, choice).await.into())
            }
            Command::Invoke { line } => self.record_answer(session.invoke(&line).await.into()),
            Command::Call { tool, arguments } => self.record_answer(session.call(&tool, arguments).await),
            Command::Prompt => {
                let mut deltas = Vec::new();
                let parts = self.context(Show::Prompt, &mut deltas).await;
                CommandResult { parts, deltas, ..CommandResult::default() }
            }
            Command::Tools => {
                let tools = json!(&*session.tools());
                CommandResult::data(OutputPart::Json(tools.clone()), tools)
            }
            Command::State => {
                let state = json!(session.save());
                CommandResult::data(OutputPart::Json(state.clone()), state)
            }
            Command::Loaded => self.loaded(),
            Command::History => self.history(),
            Command::Files { paths } => {
                files(session.change(|view| view.note_files(paths.iter().map(String::as_str))))
            }
            Command::Compact { budget } => self.compact(budget).await,
            Command::Step => expired("The model call", session.change(SkillView::after_model_call)),
            Command::Turn => expired("The turn", session.change(SkillView::end_turn)),
            Command::Refresh => self.refresh().await,
            Command::Tool { name, argument } => self.verdict(&name, argument.as_deref()),
            Command::Help => help(),
            Command::Quit => CommandResult::default(),
        };
        self.stub();
        said
    }

    /// Adds a tool's answer to the messages of the model.
    fn record_answer(&mut self, answer: SkillToolAnswer) -> CommandResult {
        self.messages.push(answer.text.clone());
        let heading = if answer.is_error { "error" } else { "answer" };
        CommandResult {
            parts: vec![OutputPart::seen(&self.session, heading, answer.text)],
            is_error: answer.is_error,
            deltas: answer.deltas,
            data: answer.data,
            is_refreshed: false,
        }
    }

    /// Removes the text of unloaded skills from the messages, if the session is set to.
    fn stub(&mut self) {
        for message in &mut self.messages {
            if let Some(stubbed) = self.session.view().without_unloaded(message) {
                *message = stubbed;
            }
        }
    }

    fn loaded(&self) -> CommandResult {
        let budgets = self.session.options().budgets;
        let state = self.session.state();
        let (used, tokens) = (state.loaded().len(), state.tokens());
        let most = budgets.max_loaded_tokens.map_or(String::new(), |most| format!(" of {most}"));
        let summary = format!("{used} of {} slots, {tokens}{most} tokens", budgets.max_loaded_skills);
        let table = OutputPart::Table {
            heading: &["NAME", "TOKENS", "DOCUMENTS", "RESOURCES"],
            rows: output::rows(&self.session),
        };
        let data = json!({
            "skills": output::loaded(&self.session),
            "slots": { "used": used, "most": budgets.max_loaded_skills },
            "tokens": { "used": tokens, "most": budgets.max_loaded_tokens },
        });
        let parts = if used == 0 { vec![] } else { vec![table] };
        CommandResult {
            parts: parts.into_iter().chain([OutputPart::Note(summary)]).collect(),
            data: Some(data),
            ..CommandResult::default()
        }
    }

    fn history(&self) -> CommandResult {
        if self.messages.is_empty() {
            return CommandResult::note("There are no messages yet.");
        }
        let parts =
            self.messages.iter().map(|message| OutputPart::seen(&self.session, "message", message.clone()));
        CommandResult { parts: parts.collect(), data: Some(json!(self.messages)), ..CommandResult::default() }
    }

    /// Forgets all messages except the last, as if they were summarised.
    async fn compact(&mut self, budget: Option<usize>) -> CommandResult {
        let kept = self.messages.pop();
        let forgotten = self.messages.len();
        let section = self.session.put_back(kept.as_deref(), budget).await;
        self.messages.clear();
        if !section.text.is_empty() {
            self.messages.push(section.text.clone());
        }
        self.messages.extend(kept);
        let what = format!("{} forgotten", count(forgotten, "message"));
        let part = if !section.text.is_empty() {
            OutputPart::seen(&self.session, "put back", section.text)
        } else if self.session.options().placement == Placement::SystemMessage {
            OutputPart::Note(
                "Nothing has to be put back: the system message has the text of loaded skills.".to_owned(),
            )
        } else {
            OutputPart::Note("Nothing has to be put back.".to_owned())
        };
        CommandResult {
            parts: vec![OutputPart::Note(what), part],
            deltas: section.deltas,
            data: Some(
                json!({ "forgotten": forgotten, "put_back": section.skills, "dropped": section.dropped }),
            ),
            ..CommandResult::default()
        }
    }

    async fn refresh(&self) -> CommandResult {
        let skills = match self.root_args.discover_again(self.session.engine().catalog_view().catalog()) {
            Ok(skills) => skills,
            Err(error) => return CommandResult::wrong(format!("{error:#}")),
        };
        let Refreshed { diff, stale, .. } = self.session.refresh(&skills.catalog).await;
        let mut parts = Vec::new();
        for (what, names) in [("Added", &diff.added), ("Changed", &diff.changed), ("Removed", &diff.removed)]
        {
            if !names.is_empty() {
                parts.push(OutputPart::Note(format!("{what}: {}", printable(&names.join(", ")))));
            }
        }
        if parts.is_empty() {
            parts.push(OutputPart::Note("Nothing changed.".to_owned()));
        }
        parts.extend(stale.iter().map(|stale| {
            let name = printable(&stale.name);
            OutputPart::Note(match stale.why {
                Staleness::Gone => format!("`{name}` is loaded, but no longer exists."),
                Staleness::Replaced => format!("`{name}` is loaded, but another skill has its name now."),
                _ => format!("`{name}` is loaded, but has changed: unload and load it to get the new text."),
            })
        }));
        let data = Some(json!({ "diff": diff, "stale": stale }));
        CommandResult { parts, data, is_refreshed: !diff.is_empty(), ..CommandResult::default() }
    }

    fn verdict(&self, name: &str, argument: Option<&str>) -> CommandResult {
        let verdict = self.session.view().check_tool(CheckedCall::new(name).argument(argument));
        match verdict {
            ToolVerdict::Pass => {
                let note = OutputPart::Note(
                    "Passes: allowed-tools does not forbid it, and permission rules decide.".to_owned(),
                );
                CommandResult::data(note, json!({ "verdict": "pass" }))
            }
            ToolVerdict::Preapproved { skill } => {
                let note = OutputPart::Note(format!(
                    "Preapproved: `{}` lists it, so nobody is asked.",
                    printable(&skill)
                ));
                CommandResult::data(note, json!({ "verdict": "preapproved", "skill": skill }))
            }
            ToolVerdict::Blocked { message } => CommandResult::data(
                OutputPart::seen(&self.session, "blocked", message),
                json!({ "verdict": "blocked" }),
            ),
        }
    }
}

fn files(deltas: Vec<SkillDelta>) -> CommandResult {
    let names: Vec<String> = deltas.iter().map(|delta| printable(delta.skill())).collect();
    let text = match names.as_slice() {
        [] => "No skill was waiting for these files.".to_owned(),
        names => format!("Listed from now on: {}", names.join(", ")),
    };
    CommandResult { deltas, ..CommandResult::note(text) }
}

fn expired(what: &str, deltas: Vec<SkillDelta>) -> CommandResult {
    let names: Vec<String> = deltas.iter().map(|delta| printable(delta.skill())).collect();
    let text = match names.as_slice() {
        [] => format!("{what} ended; nothing was unloaded."),
        names => format!("{what} ended; unloaded: {}", names.join(", ")),
    };
    CommandResult { deltas, ..CommandResult::note(text) }
}

fn help() -> CommandResult {
    let widest = COMMANDS.iter().map(|(usage, _)| usage.chars().count()).max().unwrap_or(0);
    let lines: Vec<String> =
        COMMANDS.iter().map(|(usage, meaning)| format!("{usage:widest$}  {meaning}")).collect();
    CommandResult::note(lines.join("\n"))
}
