//! What each command does, and what the model has read so far.

use prowess_skills::event::Staleness;
use prowess_skills::options::Placement;
use prowess_skills::refresh::Refreshed;
use prowess_skills::allowed_tools::{ToolCall, ToolVerdict};
use prowess_skills::{SkillDelta, SkillSession, SkillToolAnswer, SkillView};
use serde_json::{Value, json};

use super::line::{COMMANDS, Command};
use super::show::{self, Part, Show};
use crate::options::Places;
use crate::terminal::{count, shown};

/// A session, and the messages that a model would have of it.
#[derive(Debug)]
pub(crate) struct Conversation<'a> {
    session: SkillSession,
    places: &'a Places,
    messages: Vec<String>,
}

/// What a command comes to.
#[derive(Debug, Default)]
pub(crate) struct Said {
    pub(crate) parts: Vec<Part>,
    pub(crate) is_error: bool,
    pub(crate) deltas: Vec<SkillDelta>,
    pub(crate) data: Option<Value>,
    /// Whether the catalog is another one.
    is_refreshed: bool,
}

impl Said {
    /// A line that could not be followed.
    pub(crate) fn wrong(problem: String) -> Self {
        Self { is_error: true, ..Self::note(problem) }
    }

    /// Whether what the model sees, or what is saved, is different now.
    pub(crate) fn has_changed(&self) -> bool {
        self.is_refreshed || !self.deltas.is_empty()
    }

    fn note(text: impl Into<String>) -> Self {
        Self { parts: vec![Part::Note(text.into())], ..Self::default() }
    }

    fn data(part: Part, data: Value) -> Self {
        Self { parts: vec![part], data: Some(data), ..Self::default() }
    }
}

impl<'a> Conversation<'a> {
    pub(crate) fn new(session: SkillSession, places: &'a Places) -> Self {
        Self { session, places, messages: Vec::new() }
    }

    pub(crate) fn session(&self) -> &SkillSession {
        &self.session
    }

    /// What the model sees now.
    pub(crate) async fn context(&self, show: Show, deltas: &mut Vec<SkillDelta>) -> Vec<Part> {
        show::context(&self.session, show, deltas).await
    }

    /// Does what a line asks for.
    pub(crate) async fn obey(&mut self, command: Command) -> Said {
        let session = self.session.clone();
        let said = match command {
            Command::Load { name, arguments } => {
                self.hear(session.load(&name, arguments.as_deref()).await.into())
            }
            Command::Unload { name } => self.hear(session.unload(&name).into()),
            Command::Docs { name } => self.hear(session.list_documents(&name).await.into()),
            Command::Select { name, mode, choice } => {
                self.hear(session.select_documents(&name, mode, choice).await.into())
            }
            Command::Invoke { line } => self.hear(session.invoke(&line).await.into()),
            Command::Call { tool, arguments } => self.hear(session.call(&tool, arguments).await),
            Command::Prompt => {
                let mut deltas = Vec::new();
                let parts = self.context(Show::Prompt, &mut deltas).await;
                Said { parts, deltas, ..Said::default() }
            }
            Command::Tools => {
                let tools = json!(&*session.tools());
                Said::data(Part::Json(tools.clone()), tools)
            }
            Command::State => {
                let state = json!(session.save());
                Said::data(Part::Json(state.clone()), state)
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
            Command::Quit => Said::default(),
        };
        self.stub();
        said
    }

    /// Takes what the model would be answered into its messages.
    fn hear(&mut self, reply: SkillToolAnswer) -> Said {
        self.messages.push(reply.text.clone());
        let heading = if reply.is_error { "error" } else { "answer" };
        Said {
            parts: vec![Part::seen(&self.session, heading, reply.text)],
            is_error: reply.is_error,
            deltas: reply.deltas,
            data: reply.data,
            is_refreshed: false,
        }
    }

    /// Takes the text of unloaded skills out of the messages, where the session is told to.
    fn stub(&mut self) {
        for message in &mut self.messages {
            if let Some(stubbed) = self.session.view().without_unloaded(message) {
                *message = stubbed;
            }
        }
    }

    fn loaded(&self) -> Said {
        let budgets = self.session.options().budgets;
        let state = self.session.state();
        let (used, tokens) = (state.loaded().len(), state.tokens());
        let most = budgets.max_loaded_tokens.map_or(String::new(), |most| format!(" of {most}"));
        let summary = format!("{used} of {} slots, {tokens}{most} tokens", budgets.max_loaded_skills);
        let table = Part::Table {
            heading: &["NAME", "TOKENS", "DOCUMENTS", "RESOURCES"],
            rows: show::rows(&self.session),
        };
        let data = json!({
            "skills": show::loaded(&self.session),
            "slots": { "used": used, "most": budgets.max_loaded_skills },
            "tokens": { "used": tokens, "most": budgets.max_loaded_tokens },
        });
        let parts = if used == 0 { vec![] } else { vec![table] };
        Said {
            parts: parts.into_iter().chain([Part::Note(summary)]).collect(),
            data: Some(data),
            ..Said::default()
        }
    }

    fn history(&self) -> Said {
        if self.messages.is_empty() {
            return Said::note("There are no messages yet.");
        }
        let parts = self.messages.iter().map(|message| Part::seen(&self.session, "message", message.clone()));
        Said { parts: parts.collect(), data: Some(json!(self.messages)), ..Said::default() }
    }

    /// Forgets all messages but the last one, as if they had been summarised.
    async fn compact(&mut self, budget: Option<usize>) -> Said {
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
            Part::seen(&self.session, "put back", section.text)
        } else if self.session.options().placement == Placement::SystemMessage {
            Part::Note(
                "Nothing has to be put back: the system message has the text of loaded skills.".to_owned(),
            )
        } else {
            Part::Note("Nothing has to be put back.".to_owned())
        };
        Said {
            parts: vec![Part::Note(what), part],
            deltas: section.deltas,
            data: Some(
                json!({ "forgotten": forgotten, "put_back": section.skills, "dropped": section.dropped }),
            ),
            ..Said::default()
        }
    }

    async fn refresh(&self) -> Said {
        let skills = match self.places.discover_again(self.session.engine().catalog_view().catalog()) {
            Ok(skills) => skills,
            Err(error) => return Said::wrong(format!("{error:#}")),
        };
        let Refreshed { diff, stale, .. } = self.session.refresh(&skills.catalog).await;
        let mut parts = Vec::new();
        for (what, names) in [("Added", &diff.added), ("Changed", &diff.changed), ("Removed", &diff.removed)]
        {
            if !names.is_empty() {
                parts.push(Part::Note(format!("{what}: {}", shown(&names.join(", ")))));
            }
        }
        if parts.is_empty() {
            parts.push(Part::Note("Nothing changed.".to_owned()));
        }
        parts.extend(stale.iter().map(|stale| {
            let name = shown(&stale.name);
            Part::Note(match stale.why {
                Staleness::Gone => format!("`{name}` is loaded, and not there any more."),
                Staleness::Replaced => format!("`{name}` is loaded, and another skill has its name now."),
                _ => format!(
                    "`{name}` is loaded, and has changed: unload and load it to get what it says now."
                ),
            })
        }));
        let data = Some(json!({ "diff": diff, "stale": stale }));
        Said { parts, data, is_refreshed: !diff.is_empty(), ..Said::default() }
    }

    fn verdict(&self, name: &str, argument: Option<&str>) -> Said {
        let verdict = self.session.view().check_tool(ToolCall { name, argument });
        match verdict {
            ToolVerdict::Pass => {
                let note = Part::Note(
                    "Passes: allowed-tools says nothing against it, and permissions decide.".to_owned(),
                );
                Said::data(note, json!({ "verdict": "pass" }))
            }
            ToolVerdict::Preapproved { skill } => {
                let note =
                    Part::Note(format!("Preapproved: `{}` lists it, so nobody is asked.", shown(&skill)));
                Said::data(note, json!({ "verdict": "preapproved", "skill": skill }))
            }
            ToolVerdict::Blocked { message } => {
                Said::data(Part::seen(&self.session, "blocked", message), json!({ "verdict": "blocked" }))
            }
        }
    }
}

fn files(deltas: Vec<SkillDelta>) -> Said {
    let names: Vec<String> = deltas.iter().map(|delta| shown(delta.skill())).collect();
    let text = match names.as_slice() {
        [] => "No skill waited for these files.".to_owned(),
        names => format!("Listed from now on: {}", names.join(", ")),
    };
    Said { deltas, ..Said::note(text) }
}

fn expired(what: &str, deltas: Vec<SkillDelta>) -> Said {
    let names: Vec<String> = deltas.iter().map(|delta| shown(delta.skill())).collect();
    let text = match names.as_slice() {
        [] => format!("{what} ended; nothing was unloaded."),
        names => format!("{what} ended; unloaded: {}", names.join(", ")),
    };
    Said { deltas, ..Said::note(text) }
}

fn help() -> Said {
    let widest = COMMANDS.iter().map(|(usage, _)| usage.chars().count()).max().unwrap_or(0);
    let lines: Vec<String> =
        COMMANDS.iter().map(|(usage, meaning)| format!("{usage:widest$}  {meaning}")).collect();
    Said::note(lines.join("\n"))
}
