//! Describes calls, results and outcomes in one line.

use prowess_agent::TurnOutcome;
use prowess_agent::tool::{RefusedBy, ToolData};
use prowess_base::text::exact_command;
use prowess_skills::{Dialect, SkillToolKind};
use serde_json::Value;

use super::events::ChatEvent;
use super::made::{How, MadeFile};
use crate::terminal::{printable, printable_start, size};
use crate::visibility::{CHAT_AGENT, describe_rule_for};

/// The longest line about a call, in characters. The screen cuts it to its width.
const MAX_LINE: usize = 200;
/// The arguments that say most about a call, in order of preference.
const TELLING: [&str; 8] = ["command", "file_path", "path", "pattern", "description", "name", "query", "url"];

/// What a call does.
pub(super) fn call(tool: &str, arguments: &Value) -> String {
    // Two different commands never look the same, unless they are cut.
    let text = |key: &str| arguments[key].as_str().map(exact_command);
    // Tool names of all dialects count, because threads outlive configurations.
    let act = Dialect::tool_kind(tool);
    let skill = act.and_then(|_| Dialect::skill_in(arguments));
    let told = match (act, skill) {
        (Some(SkillToolKind::Load), Some(skill)) => format!("load {skill}"),
        (Some(SkillToolKind::Unload), Some(skill)) => format!("unload {skill}"),
        (Some(SkillToolKind::Run | SkillToolKind::Start), Some(skill)) => {
            format!("run {skill}: {}", text("command").unwrap_or_default())
        }
        (_, Some(skill)) => format!("{tool} {skill}"),
        (None, None) if let (Some(from), Some(to)) = (text("from"), text("to")) => {
            format!("{tool} {from} to {to}")
        }
        (_, None) => match TELLING.iter().find_map(|key| text(key)) {
            Some(argument) => format!("{tool} {argument}"),
            None => tool.to_owned(),
        },
    };
    printable_start(&told, MAX_LINE)
}

/// The result of a call, and the skill that approved it, if there is more to say than that it is done.
pub(super) fn result(
    text: &str,
    is_error: bool,
    data: Option<&ToolData>,
    preapproved_by: Option<&str>,
) -> Option<String> {
    let skill = preapproved_by.map(|skill| printable_start(skill, MAX_LINE));
    let approved = skill.map(|skill| format!("approved by allowed-tools of {skill}"));
    match (outcome_of_call(text, is_error, data), approved) {
        // An error is a sentence.
        (Some(told), Some(approved)) if is_error => Some(format!("{told} ({approved})")),
        (Some(told), Some(approved)) => Some(format!("{told}, {approved}")),
        (told, approved) => told.or(approved),
    }
}

/// The outcome of a call, if there is more to say than that it is done.
fn outcome_of_call(text: &str, is_error: bool, data: Option<&ToolData>) -> Option<String> {
    if let Some(why) = refusal(data) {
        return Some(why);
    }
    if let Some(ToolData::Refused { rule: Some(rule), .. }) = data {
        return Some(format!("denied by {}", describe_rule_for(CHAT_AGENT, Some(rule))));
    }
    if is_error {
        let text = text.strip_prefix("Error: ").unwrap_or(text);
        return Some(printable_start(text.trim(), MAX_LINE));
    }
    let Some(ToolData::Ran(ran)) = data else { return None };
    let mut told = if ran.timed_out { "timed out".to_owned() } else { format!("exit {}", ran.exit_code) };
    if !ran.sandbox.is_empty() {
        told.push_str(&format!(", sandbox {}", ran.sandbox));
    }
    Some(printable_start(&told, MAX_LINE))
}

/// Whether a command failed. The call itself did not.
pub(super) fn has_failed(data: Option<&ToolData>) -> bool {
    matches!(data, Some(ToolData::Ran(ran)) if ran.exit_code != 0)
}

/// Why a command failed: the last line that it wrote.
pub(super) fn failure(data: Option<&ToolData>) -> Option<String> {
    let Some(ToolData::Ran(ran)) = data else { return None };
    let line = ran.last_line.as_deref().filter(|_| ran.exit_code != 0)?;
    Some(printable_start(line, MAX_LINE)).filter(|line| !line.is_empty())
}

/// What a turn made, one text and note for each row: a path and what happened there, or the name of an artifact and the
/// command that gets it.
pub(super) fn made(event: &ChatEvent) -> Vec<(String, String)> {
    let ChatEvent::Made { files, left_out, directory, .. } = event else { return Vec::new() };
    let mut rows: Vec<(String, String)> = files.iter().map(made_file).collect();
    let place = printable(directory.as_deref().unwrap_or_default());
    let more = [
        (left_out.in_directory, format!("in {place}")),
        (left_out.elsewhere, "created, changed or removed".to_owned()),
        (left_out.saved, "saved as artifacts".to_owned()),
    ];
    let more = more.into_iter().filter(|(count, _)| *count > 0);
    rows.extend(more.map(|(count, what)| (format!("{count} more"), what)));
    rows
}

fn made_file(file: &MadeFile) -> (String, String) {
    let name = printable(&file.name);
    if let Some(fetch) = &file.fetch {
        return (format!("{name} is saved"), format!("`{}`", printable(fetch)));
    }
    let size = file.bytes.map(size).unwrap_or_default();
    let how = match file.how {
        How::Created => "new, ",
        How::Replaced => "replaced, ",
        How::Edited => "edited, ",
        How::Removed => "removed",
        How::Run | How::Saved => "",
    };
    (name, format!("{how}{size}"))
}

/// The person's no, with the reason if one was given; `None` for other results.
pub(super) fn refusal(data: Option<&ToolData>) -> Option<String> {
    let Some(ToolData::Refused { by: RefusedBy::Person, message, .. }) = data else { return None };
    Some(match message.as_deref().map(str::trim).filter(|why| !why.is_empty()) {
        Some(why) => format!("you said no: {}", printable_start(why, MAX_LINE)),
        None => "you said no".to_owned(),
    })
}

/// How a turn ended; `None` if the model responded.
pub(super) fn outcome(outcome: &TurnOutcome) -> Option<String> {
    Some(match outcome {
        TurnOutcome::Responded => return None,
        TurnOutcome::Cancelled => "stopped".to_owned(),
        TurnOutcome::Stopped { reason } => format!("stopped: {}", printable(reason)),
        TurnOutcome::Failed { error } => printable(&error.to_string()),
        other => printable(&other.to_string()),
    })
}

/// What to do after a turn that reached a limit.
pub(super) fn advice(outcome: &TurnOutcome) -> Option<String> {
    let advice = match outcome {
        TurnOutcome::TooManyModelCalls { .. } => {
            "send another message, or allow more with --max-model-calls or `limits.model_calls`"
        }
        TurnOutcome::TooManyTokens { .. } => "send another message, or allow more with `limits.tokens`",
        _ => return None,
    };
    Some(advice.to_owned())
}

/// A number of tokens, short.
pub(super) fn tokens(tokens: u64) -> String {
    match tokens {
        0..1_000 => tokens.to_string(),
        1_000..100_000 => format!("{:.1}k", tokens as f64 / 1_000.0),
        100_000..1_000_000 => format!("{}k", tokens / 1_000),
        _ => format!("{:.1}M", tokens as f64 / 1_000_000.0),
    }
}

/// Why a skill was unloaded, unless the model or the person did it.
pub(super) fn unload_reason(reason: &Value) -> Option<&'static str> {
    Some(match reason.as_str()? {
        "evicted" => "another skill needed its place",
        "expired" => "its lifetime ended",
        "budget" => "there was no room for it",
        "gone" => "it is gone, or hidden from the model now",
        "changed" => "its text changed",
        "summarised" => "its text was summarised",
        _ => return None,
    })
}

#[cfg(test)]
mod tests {
    use prowess_skills::RunSummary;
    use serde_json::json;

    use super::*;

    #[test]
    fn a_call_is_told_by_what_it_does() {
        assert_eq!(call("skill_load", &json!({"skill": "csv-report"})), "load csv-report");
        assert_eq!(call("load_skill", &json!({"skill_name": "csv-report"})), "load csv-report");
        assert_eq!(call("skill", &json!({"name": "csv-report"})), "load csv-report");
        assert_eq!(call("skill_unload", &json!({"name": "csv-report"})), "unload csv-report");
        assert_eq!(call("skill_run", &json!({"skill": "sums", "command": "add\n1"})), "run sums: add⏎1");
        assert_eq!(call("grep", &json!({"pattern": "x", "path": "/src"})), "grep /src");
        assert_eq!(call("write_todos", &json!({"todos": []})), "write_todos");
        assert_eq!(call("odd", &Value::Null), "odd");
        assert!(call("read_file", &json!({"path": "\u{1b}[2J".repeat(999)})).chars().count() <= MAX_LINE + 1);
    }

    #[test]
    fn a_run_is_told_by_its_report() {
        let mut ran = RunSummary::default();
        ran.sandbox = "bwrap".to_owned();
        let told = |ran: RunSummary| result("{}", false, Some(&ToolData::Ran(Box::new(ran))), None);
        assert_eq!(told(ran.clone()).as_deref(), Some("exit 0, sandbox bwrap"));
        ran.timed_out = true;
        assert_eq!(told(ran).as_deref(), Some("timed out, sandbox bwrap"));
        // What a tool says is no report, whatever it looks like.
        assert_eq!(result("{\"exit_code\": 1}", false, None, None), None);
        assert_eq!(
            result("Error: there is no such file", true, None, None).as_deref(),
            Some("there is no such file")
        );
    }

    #[test]
    fn a_preapproved_call_names_the_skill() {
        let ran = ToolData::Ran(Box::default());
        assert_eq!(
            result("{}", false, Some(&ran), Some("git-help")).as_deref(),
            Some("exit 0, approved by allowed-tools of git-help")
        );
        assert_eq!(
            result("Wrote it.", false, None, Some("notes")).as_deref(),
            Some("approved by allowed-tools of notes")
        );
    }

    #[test]
    fn only_a_person_refuses_in_words_of_their_own() {
        let refused = |by, message: Option<&str>| {
            let data = ToolData::Refused { by, message: message.map(str::to_owned), rule: None };
            result("The user said no: x", true, Some(&data), None)
        };
        assert_eq!(
            refused(RefusedBy::Person, Some(" not today ")).as_deref(),
            Some("you said no: not today")
        );
        assert_eq!(refused(RefusedBy::Person, None).as_deref(), Some("you said no"));
        assert_eq!(refused(RefusedBy::Rule, None).as_deref(), Some("The user said no: x"));
    }

    #[test]
    fn tokens_are_short() {
        assert_eq!([999, 1_234, 128_000, 2_000_000].map(tokens), ["999", "1.2k", "128k", "2.0M"]);
    }
}
