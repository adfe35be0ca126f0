//! The details of a question: everything about the action that its title leaves out.

use serde::Serialize;

use super::{Detail, DetailStyle};
use crate::action::{Channel, CopyAction, CopyPreview, RunAction, RunActionInput};
use crate::text::{exact_command, exact_line};
use crate::{Action, Question};

/// The name of the detail that lists the server skills because of which prowess asks each time.
const BECAUSE_OF: &str = "asked each time because of";

pub(super) fn details(question: &Question, title: &str) -> Vec<Detail> {
    let mut details = Details { title, all: Vec::new() };
    match &question.action {
        Action::Plain => details.add_subjects(question),
        Action::Other { details: others, .. } => {
            others.iter().for_each(|(name, text)| details.add(name, text));
        }
        Action::LoadSkill { .. }
        | Action::LoadServerSkill { .. }
        | Action::LookUpSkill { .. }
        | Action::ReadDocuments { .. } => details.add_skill_action(&question.action),
        Action::Run(run) => details.add_run(run),
        Action::TypeIntoRun { .. }
        | Action::ReachHost { .. }
        | Action::AddInput { .. }
        | Action::Execute { .. } => details.add_command_action(&question.action),
        Action::WriteFile { .. } | Action::EditFile { .. } => details.add_file_action(&question.action),
        Action::CopyFile(copy) => details.add_copy(copy),
        Action::CallTool { .. } | Action::CallServerTool { .. } => {
            details.add_tool_action(&question.action);
        }
    }
    details.all
}

/// Details in the making. An empty text adds nothing.
struct Details<'a> {
    title: &'a str,
    all: Vec<Detail>,
}

impl Details<'_> {
    /// Adds the subjects that the title cuts off.
    fn add_subjects(&mut self, question: &Question) {
        for subject in &question.subjects {
            if !self.title.contains(subject.as_str()) {
                self.add("about", subject);
            }
        }
    }

    fn add_skill_action(&mut self, action: &Action) {
        match action {
            Action::LoadSkill { skill, location, origin, digest: Some(digest), arguments } => {
                self.add_titled("skill", skill);
                self.add("location", location);
                self.add("origin", origin);
                self.add("digest", digest);
                self.add_optional("arguments", arguments.as_deref());
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
                server_skills,
            } => {
                self.add_titled("skill", skill);
                self.add("server", server);
                self.add("uri", uri);
                self.add("description", description);
                self.add_data("files", &files.to_string());
                self.add_data("bytes", &bytes.to_string());
                self.add("digest", digest);
                self.add_optional("arguments", arguments.as_deref());
                self.add_list("while", server_skills);
            }
            Action::LookUpSkill { server, name, server_skills } => {
                self.add("server", server);
                self.add("name", name);
                self.add_list("while", server_skills);
            }
            Action::ReadDocuments { skill, server, documents, .. } => {
                self.add_titled("skill", skill);
                self.add("server", server);
                match documents {
                    None => self.add("documents", "all"),
                    Some(paths) => self.add_list("documents", paths),
                }
            }
            _ => {}
        }
    }

    fn add_run(&mut self, run: &RunAction) {
        self.add_titled("skill", &run.skill);
        self.add_titled("command", &run.command);
        self.add_optional("cwd", run.cwd.as_deref().map(|cwd| real_path(run, cwd)));
        let variables: Vec<String> = run.env.iter().map(|(name, value)| format!("{name}={value}")).collect();
        self.add_list("env", &variables);
        self.add_optional("stdin", run.stdin.as_deref());
        let inputs: Vec<String> = run.inputs.iter().map(|input| input_line(run, input)).collect();
        self.push("inputs", &inputs.join("\n"), DetailStyle::List, false);
        self.add_list("can read", &run.given);
        self.add_list("except", &run.left_out);
        self.add_list("output_files", &run.output_files);
        if let Some(outputs) = &run.outputs {
            self.add_data("outputs", outputs);
        }
        self.add_list("may write", &run.writable);
        self.add_list("network", &run.network);
        if let Some(seconds) = run.timeout {
            self.add_data("timeout", &seconds.to_string());
        }
        self.add_if("save_as_artifacts", run.save_as_artifacts);
        self.add_if("omit_inline_content", run.omit_inline_content);
        self.add_optional("artifact_prefix", run.artifact_prefix.as_deref());
        let channel = run.channel.map(|channel| match channel {
            Channel::Pipe => "pipe",
            Channel::Terminal => "terminal",
        });
        self.add_optional("channel", channel);
        self.add_list(BECAUSE_OF, &run.because_of);
    }

    fn add_command_action(&mut self, action: &Action) {
        match action {
            Action::TypeIntoRun { run_id, typed, because_of } => {
                self.add("run", run_id);
                self.add("typed", typed);
                self.add_list(BECAUSE_OF, because_of);
            }
            Action::ReachHost { skill, command, host } => {
                self.add_titled("skill", skill);
                self.add_titled("command", command);
                self.add_titled("host", host);
            }
            Action::AddInput { skill, command, with_secrets, .. } => {
                self.add_titled("skill", skill);
                self.add_titled("command", command);
                self.add_list("with secrets", with_secrets);
            }
            Action::Execute { command, because_of } => {
                self.add_titled("command", command);
                self.add_list(BECAUSE_OF, because_of);
            }
            _ => {}
        }
    }

    fn add_file_action(&mut self, action: &Action) {
        match action {
            Action::WriteFile { content } => self.push("content", content, DetailStyle::Added, false),
            Action::EditFile { old_string, new_string, replace_all, difference, .. } => {
                match difference {
                    Some(difference) => self.push("difference", difference, DetailStyle::Difference, false),
                    None => {
                        self.push("old_string", old_string, DetailStyle::Removed, false);
                        self.push("new_string", new_string, DetailStyle::Added, false);
                    }
                }
                self.add_if("replace_all", *replace_all);
            }
            _ => {}
        }
    }

    fn add_copy(&mut self, copy: &CopyAction) {
        let size = format!("{} bytes", copy.bytes);
        match &copy.replaces {
            Some(replaced) => {
                self.add("size", &format!("{size}; the present file has {} bytes", replaced.bytes))
            }
            None => self.add("size", &size),
        }
        let left_out = match &copy.shown {
            CopyPreview::Text { text, left_out } => {
                self.push("content", text, DetailStyle::Added, false);
                *left_out
            }
            CopyPreview::Difference { diff, left_out } => {
                self.push("difference", diff, DetailStyle::Difference, false);
                *left_out
            }
            CopyPreview::Same => {
                self.add("difference", "none");
                0
            }
            CopyPreview::Data { what } => {
                self.add("type", what);
                0
            }
        };
        if left_out > 0 {
            self.add("not shown", &format!("{left_out} more bytes"));
        }
    }

    fn add_tool_action(&mut self, action: &Action) {
        match action {
            Action::CallTool { arguments, .. } => self.add_data("arguments", arguments),
            Action::CallServerTool { server, description, arguments, because_of, .. } => {
                self.add("server", server);
                self.add("description", description);
                if !arguments.is_empty() {
                    self.add_json("arguments", arguments);
                }
                self.add_list(BECAUSE_OF, because_of);
            }
            _ => {}
        }
    }

    /// Adds a detail that the title may contain. It does if the text is as plain as a title.
    fn add_titled(&mut self, name: &str, text: &str) {
        let is_in_title = exact_command(text) == text && self.title.contains(text);
        self.push(name, text, DetailStyle::Plain, is_in_title);
    }

    fn add(&mut self, name: &str, text: &str) {
        self.push(name, text, DetailStyle::Plain, false);
    }

    fn add_optional(&mut self, name: &str, text: Option<&str>) {
        self.add(name, text.unwrap_or_default());
    }

    fn add_if(&mut self, name: &str, is_set: bool) {
        if is_set {
            self.add_data(name, "true");
        }
    }

    /// Adds a list, one item per line. No item can look like two.
    fn add_list(&mut self, name: &str, items: &[String]) {
        let lines = items.iter().map(|item| if item.is_empty() { "\"\"".into() } else { exact_line(item) });
        self.push(name, &lines.collect::<Vec<_>>().join("\n"), DetailStyle::List, false);
    }

    fn add_json(&mut self, name: &str, value: &(impl Serialize + ?Sized)) {
        self.add_data(name, &serde_json::json!(value).to_string());
    }

    fn add_data(&mut self, name: &str, json: &str) {
        self.push(name, json, DetailStyle::Data, false);
    }

    fn push(&mut self, name: &str, text: &str, style: DetailStyle, is_in_title: bool) {
        if !text.is_empty() {
            self.all.push(Detail { name: name.to_owned(), text: text.to_owned(), style, is_in_title });
        }
    }
}

/// The real path of an input or a directory, if it is known.
fn real_path<'a>(run: &'a RunAction, path: &'a str) -> &'a str {
    run.real_paths.get(path).map_or(path, String::as_str)
}

fn input_line(run: &RunAction, input: &RunActionInput) -> String {
    let to = input.to.as_ref().map(|to| format!(" as {}", exact_line(to))).unwrap_or_default();
    let link = if input.is_link { " (a link)" } else { "" };
    format!("{}{to}{link}", exact_line(real_path(run, &input.from)))
}
