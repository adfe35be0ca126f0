//! The title of a question: the action on one line.

use crate::text::{escaped_start, exact_command, exact_line, spaced_line};
use crate::{Action, Question, quote_name};

/// How much of a tool's name a title shows, in characters.
const MAX_TOOL_NAME_CHARS: usize = 64;

pub(super) fn title(question: &Question) -> String {
    match &question.action {
        Action::Plain | Action::WriteFile { .. } | Action::EditFile { .. } | Action::Execute { .. } => {
            plain_title(question)
        }
        Action::LoadSkill { skill, location, .. } => {
            let directory = location.rsplit_once('/').map_or(location.as_str(), |(directory, _)| directory);
            format!("load the skill {} from {}", quote_name(skill), quote_name(directory))
        }
        Action::LoadServerSkill { skill, server, server_skills, .. } => format!(
            "load the skill {} of the MCP server {}{}",
            quote_name(skill),
            spaced_line(server),
            while_working_with(server_skills)
        ),
        Action::LookUpSkill { server, name, .. } => {
            format!("ask the MCP server {} for a skill {}", spaced_line(server), quote_name(name))
        }
        Action::ReadDocuments { skill, server, server_skills, .. } => format!(
            "read documents of the skill {} of the MCP server {}{}",
            quote_name(skill),
            spaced_line(server),
            while_working_with(server_skills)
        ),
        Action::Run(run) => {
            let how = if run.channel.is_some() { ", and let the model type into it" } else { "" };
            format!("run in skill {}{how}: {}", quote_name(&run.skill), exact_command(&run.command))
        }
        Action::TypeIntoRun { run_id, typed, .. } => {
            format!("type into {}: {}", quote_name(run_id), exact_command(typed))
        }
        Action::ReachHost { skill, command, host } => {
            format!("let skill {} reach {}: {}", quote_name(skill), spaced_line(host), exact_command(command))
        }
        Action::AddInput { skill, is_directory, .. } => {
            let what = if *is_directory { "all files in" } else { "the file" };
            let path = question.file.as_ref().map(|file| file.real().to_owned()).unwrap_or_default();
            format!("let skill {} read {what} {}", quote_name(skill), exact_line(&path))
        }
        Action::CopyFile(copy) => {
            let to = question.file.as_ref().map(|file| exact_line(file.real())).unwrap_or_default();
            let from = exact_line(&copy.from);
            match copy.replaces {
                None => format!("copy {from} to {to}"),
                Some(_) => format!("replace {to} with a copy of {from}"),
            }
        }
        Action::CallTool { tool, .. } => {
            format!("call {}", quote_name(&tool.chars().take(MAX_TOOL_NAME_CHARS).collect::<String>()))
        }
        Action::CallServerTool { server, tool, .. } => {
            format!("call a tool of the MCP server {}: {}", spaced_line(server), quote_name(tool))
        }
        Action::Other { title, .. } => spaced_line(title),
    }
}

/// The kind, and the file or the first subject.
fn plain_title(question: &Question) -> String {
    match (&question.file, question.subjects.first()) {
        (Some(file), _) => format!("{} {}", question.kind, exact_line(file.real())),
        (None, Some(subject)) => format!("{} {}", question.kind, escaped_start(subject)),
        (None, None) => question.kind.to_string(),
    }
}

/// Names the skills of other servers, which may be the reason for this action.
fn while_working_with(server_skills: &[String]) -> String {
    if server_skills.is_empty() {
        return String::new();
    }
    format!(", while the model works with {}", server_skills.join(", "))
}
