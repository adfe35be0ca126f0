//! Words for people: the one place where a question becomes text.

use std::collections::BTreeMap;

use serde::Serialize;

use crate::action::{Channel, RunAction};
use crate::question::Note;
use crate::text::{exact_line, one_line, shown};
use crate::{Action, Question, quoted};

/// How much of a tool's name is shown, in characters.
const MAX_NAME: usize = 64;

/// A question in words.
///
/// ```
/// use prowess_permission::action::RunAction;
/// use prowess_permission::{Kind, Question, joined};
///
/// let run = RunAction { skill: "kit".into(), command: "make".into(), ..RunAction::default() };
/// let words = Question::new(Kind::RUN, joined("kit", "make")).to(run).wording();
/// assert_eq!(words.title, "run in skill 'kit': make");
/// assert_eq!(words.always, ["run \"kit make\""]);
/// ```
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[non_exhaustive]
pub struct Wording {
    /// What is to be done, on one line.
    pub title: String,
    /// The same without what the details tell whole: a command of several lines is not put in one line that looks like
    /// another command.
    #[serde(skip)]
    pub heading: String,
    /// What else the person has to know, in order.
    pub details: Vec<Detail>,
    /// What "always" would record, as a rule's kind and pattern each; nothing where it is not offered.
    pub always: Vec<String>,
    /// Whether "always" would hold only as long as it says what it says now.
    pub is_bound: bool,
    /// Why it is asked although it may seem settled.
    pub note: Option<String>,
}

/// Something that a person has to know.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[non_exhaustive]
pub struct Detail {
    /// What it is.
    pub name: String,
    /// What it says, whole.
    pub text: String,
    /// How it looks.
    #[serde(skip_serializing_if = "DetailStyle::is_plain")]
    pub look: DetailStyle,
    /// Whether the title has all of it already.
    #[serde(skip)]
    pub is_in_title: bool,
}

/// How a detail looks.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum DetailStyle {
    /// As it is.
    #[default]
    Plain,
    /// Text that goes.
    Removed,
    /// Text that comes.
    Added,
    /// Data, as JSON.
    Data,
}

impl DetailStyle {
    fn is_plain(&self) -> bool {
        *self == Self::Plain
    }
}

impl Wording {
    /// What the answer "always" would allow, in a line; nothing where it is not offered.
    ///
    /// ```
    /// use prowess_permission::{Kind, Question};
    ///
    /// let words = Question::new(Kind::RUN, "make").bound_to("x").wording();
    /// let line = words.always_line().unwrap();
    /// assert_eq!(line, "`always` would allow run \"make\", as long as it says what it says now");
    /// ```
    #[must_use]
    pub fn always_line(&self) -> Option<String> {
        if self.always.is_empty() {
            return None;
        }
        let binding = if self.is_bound { ", as long as it says what it says now" } else { "" };
        let always: Vec<_> = self.always.iter().map(|rule| exact_line(rule)).collect();
        Some(format!("`always` would allow {}{binding}", always.join(", ")))
    }
}

impl Question {
    /// The question in words.
    #[must_use]
    pub fn wording(&self) -> Wording {
        let by: String = self.by.iter().map(|name| format!("sub-agent {}: ", one_line(name))).collect();
        let title = by + &self.title();
        let mut details = Details { title: &title, all: Vec::new() };
        details.of(self);
        let details = details.all;
        let always =
            self.always.iter().map(|pattern| format!("{} {:?}", self.kind, pattern.as_str())).collect();
        let note = self.note.map(|note| match note {
            Note::ApprovedByEarlierVersion => {
                "an earlier version of prowess recorded \"always\" for this, in a form that said less exactly what was \
                 approved; so you are asked once more"
                    .to_owned()
            }
        });
        let heading = match &self.deed {
            Action::Run(run) if one_line(&run.command) != run.command => {
                title.strip_suffix(&one_line(&run.command)).unwrap_or(&title).trim_end().to_owned()
            }
            _ => title.clone(),
        };
        Wording { heading, title, details, always, is_bound: self.binding.is_some(), note }
    }

    fn title(&self) -> String {
        match &self.deed {
            Action::Plain | Action::WriteFile { .. } | Action::EditFile { .. } | Action::Execute { .. } => {
                match (&self.place, self.subjects.first()) {
                    (Some(place), _) => format!("{} {}", self.kind, exact_line(place.real())),
                    (None, Some(subject)) => format!("{} {}", self.kind, shown(subject)),
                    (None, None) => self.kind.to_string(),
                }
            }
            Action::LoadSkill { skill, location, .. } => {
                let directory =
                    location.rsplit_once('/').map_or(location.as_str(), |(directory, _)| directory);
                format!("load the skill in {}: {}", quoted(directory), quoted(skill))
            }
            Action::LoadServerSkill { skill, server, at_work, .. } => format!(
                "load the skill {} of the MCP server {}{}",
                quoted(skill),
                one_line(server),
                meanwhile(at_work)
            ),
            Action::LookUpSkill { server, asked, .. } => {
                format!("ask the MCP server {} for a skill {}", one_line(server), quoted(asked))
            }
            Action::ReadDocuments { skill, server, at_work, .. } => format!(
                "read documents of the skill {} of the MCP server {}{}",
                quoted(skill),
                one_line(server),
                meanwhile(at_work)
            ),
            Action::Run(run) => {
                let how = if run.talk.is_some() { ", and let the model type into it" } else { "" };
                format!("run in skill {}{how}: {}", quoted(&run.skill), one_line(&run.command))
            }
            Action::Type { session, typed, .. } => {
                format!("type into {}: {}", quoted(session), one_line(typed))
            }
            Action::Reach { skill, command, host } => {
                format!("let skill {} reach {}: {}", quoted(skill), one_line(host), one_line(command))
            }
            Action::BringIn { skill, is_directory, .. } => {
                let what = if *is_directory { "all files in" } else { "the file" };
                let path = self.place.as_ref().map(|place| place.real().to_owned()).unwrap_or_default();
                format!("let skill {} read {what} {}", quoted(skill), exact_line(&path))
            }
            Action::CallTool { tool, .. } => {
                format!("call {}", quoted(&tool.chars().take(MAX_NAME).collect::<String>()))
            }
            Action::CallServerTool { server, tool, .. } => {
                format!("call a tool of the MCP server {}: {}", one_line(server), quoted(tool))
            }
            Action::Other { title, .. } => one_line(title),
        }
    }
}

/// The skills of other servers that may have led to this.
fn meanwhile(at_work: &[String]) -> String {
    if at_work.is_empty() {
        return String::new();
    }
    format!(", while the model works with {}", at_work.join(", "))
}

/// Details while they are put together.
struct Details<'a> {
    title: &'a str,
    all: Vec<Detail>,
}

impl Details<'_> {
    fn of(&mut self, question: &Question) {
        match &question.deed {
            Action::Plain => self.subjects(question),
            Action::LoadSkill { skill, location, origin, digest, arguments } => {
                if digest.is_none() {
                    return;
                }
                self.known("skill", skill);
                self.text("location", location);
                self.text("origin", origin);
                self.text("digest", digest.as_deref().unwrap_or_default());
                self.text("arguments", arguments.as_deref().unwrap_or_default());
            }
            Action::LoadServerSkill {
                skill,
                server,
                uri,
                description,
                files,
                bytes,
                digest,
                arguments,
                at_work,
            } => {
                self.known("skill", skill);
                self.text("server", server);
                self.text("uri", uri);
                self.text("description", description);
                self.data("files", &files.to_string());
                self.data("bytes", &bytes.to_string());
                self.text("digest", digest);
                self.text("arguments", arguments.as_deref().unwrap_or_default());
                self.list("while", at_work);
            }
            Action::LookUpSkill { server, asked, at_work } => {
                self.text("server", server);
                self.text("asked", asked);
                self.list("while", at_work);
            }
            Action::ReadDocuments { skill, server, documents, .. } => {
                self.known("skill", skill);
                self.text("server", server);
                match documents {
                    None => self.text("documents", "all"),
                    Some(paths) => self.list("documents", paths),
                }
            }
            Action::Run(run) => self.run(run),
            Action::Type { session, typed, because_of } => {
                self.text("session", session);
                self.text("typed", typed);
                self.list("asked each time because of", because_of);
            }
            Action::Reach { skill, command, host } => {
                self.known("skill", skill);
                self.known("command", command);
                self.known("host", host);
            }
            Action::BringIn { skill, command, with_secrets, .. } => {
                self.known("skill", skill);
                self.known("command", command);
                self.list("with secrets", with_secrets);
            }
            Action::WriteFile { content } => self.put("content", content, DetailStyle::Added, false),
            Action::EditFile { old_string, new_string, replace_all } => {
                self.put("old_string", old_string, DetailStyle::Removed, false);
                self.put("new_string", new_string, DetailStyle::Added, false);
                if *replace_all {
                    self.data("replace_all", "true");
                }
            }
            Action::Execute { command, because_of } => {
                self.known("command", command);
                self.list("asked each time because of", because_of);
            }
            Action::CallTool { arguments, .. } => self.data("arguments", arguments),
            Action::CallServerTool { server, description, arguments, because_of, .. } => {
                self.text("server", server);
                self.text("description", description);
                if !arguments.is_empty() {
                    self.data("arguments", &serde_json::json!(arguments).to_string());
                }
                self.list("asked each time because of", because_of);
            }
            Action::Other { details, .. } => {
                details.iter().for_each(|(name, text)| self.text(name, text));
            }
        }
    }

    /// A title may be cut; what it is about is not.
    fn subjects(&mut self, question: &Question) {
        for subject in &question.subjects {
            if !self.title.contains(subject.as_str()) {
                self.text("about", subject);
            }
        }
    }

    fn run(&mut self, run: &RunAction) {
        self.known("skill", &run.skill);
        self.known("command", &run.command);
        self.text("cwd", run.cwd.as_deref().unwrap_or_default());
        self.map("env", &run.env);
        self.text("stdin", run.stdin.as_deref().unwrap_or_default());
        if !run.inputs.is_empty() {
            let inputs: Vec<String> = run
                .inputs
                .iter()
                .map(|input| {
                    let to =
                        input.to.as_ref().map(|to| format!(" as {}", exact_line(to))).unwrap_or_default();
                    let link = if input.is_link { " (a link)" } else { "" };
                    format!("{}{to}{link}", exact_line(&input.from))
                })
                .collect();
            self.list("inputs", &inputs);
        }
        self.list("output_files", &run.output_files);
        if let Some(outputs) = &run.outputs {
            self.data("outputs", outputs);
        }
        self.list("network", &run.network);
        if let Some(seconds) = run.timeout {
            self.data("timeout", &seconds.to_string());
        }
        if run.save_as_artifacts {
            self.data("save_as_artifacts", "true");
        }
        if run.omit_inline_content {
            self.data("omit_inline_content", "true");
        }
        self.text("artifact_prefix", run.artifact_prefix.as_deref().unwrap_or_default());
        match run.talk {
            Some(Channel::Pipe) => self.text("talk", "pipe"),
            Some(Channel::Terminal) => self.text("talk", "terminal"),
            None => {}
        }
        self.list("asked each time because of", &run.because_of);
    }

    /// What the title has, if it is as plain as a title.
    fn known(&mut self, name: &str, text: &str) {
        let is_told = one_line(text) == text && self.title.contains(text);
        self.put(name, text, DetailStyle::Plain, is_told);
    }

    fn text(&mut self, name: &str, text: &str) {
        self.put(name, text, DetailStyle::Plain, false);
    }

    fn data(&mut self, name: &str, json: &str) {
        self.put(name, json, DetailStyle::Data, false);
    }

    fn list(&mut self, name: &str, items: &[String]) {
        if !items.is_empty() {
            self.data(name, &serde_json::json!(items).to_string());
        }
    }

    fn map(&mut self, name: &str, items: &BTreeMap<String, String>) {
        if !items.is_empty() {
            self.data(name, &serde_json::json!(items).to_string());
        }
    }

    fn put(&mut self, name: &str, text: &str, look: DetailStyle, is_in_title: bool) {
        if !text.is_empty() {
            self.all.push(Detail { name: name.to_owned(), text: text.to_owned(), look, is_in_title });
        }
    }
}
