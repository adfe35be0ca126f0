//! How calls and their results are put into a line.

use prowess_agent::{MODEL_JSON, Outcome};
use prowess_skills::{Dialect, SkillAct};
use serde_json::Value;

use super::happening::Happening;
use crate::terminal::{shown, size, start_of};

/// How long a line about a call may become, in characters; the screen cuts it to its width.
const MAX_LINE: usize = 200;
/// The arguments that say most about a call, in the order in which they are looked for.
const TELLING: [&str; 8] = ["command", "file_path", "path", "pattern", "description", "name", "query", "url"];

/// What a call does.
pub(super) fn call(tool: &str, arguments: &Value) -> String {
    let text = |key: &str| arguments[key].as_str();
    // Whichever dialect it was called in: threads outlive configurations.
    let act = Dialect::act_of(tool);
    let skill = act.and_then(|_| Dialect::skill_in(arguments));
    let told = match (act, skill) {
        (Some(SkillAct::Load), Some(skill)) => format!("load {skill}"),
        (Some(SkillAct::Unload), Some(skill)) => format!("unload {skill}"),
        (Some(SkillAct::Run | SkillAct::Start), Some(skill)) => {
            format!("run {skill}: {}", text("command").unwrap_or_default())
        }
        (_, Some(skill)) => format!("{tool} {skill}"),
        (_, None) => match TELLING.iter().find_map(|key| text(key)) {
            Some(argument) => format!("{tool} {argument}"),
            None => tool.to_owned(),
        },
    };
    start_of(&told, MAX_LINE)
}

/// What came of a call, if there is more to say than that it is done.
pub(super) fn result(tool: &str, text: &str, is_error: bool) -> Option<String> {
    if is_error {
        if let Some(why) = refusal(text) {
            return Some(why);
        }
        let text = text.strip_prefix("Error: ").unwrap_or(text);
        return Some(start_of(text.trim(), MAX_LINE));
    }
    let (report, code) = report(tool, text)?;
    let mut told = match report["timed_out"].as_bool() {
        Some(true) => "ended: its time was over".to_owned(),
        _ => format!("exit {code}"),
    };
    if let Some(level) = report["sandbox"]["level"].as_str() {
        told.push_str(&format!(", sandbox {level}"));
    }
    Some(start_of(&told, MAX_LINE))
}

/// Whether a command ended with a failure, which is no error of the call.
pub(super) fn has_failed(tool: &str, text: &str) -> bool {
    report(tool, text).is_some_and(|(_, code)| code != 0)
}

/// The report of a run, with its exit code.
fn report(tool: &str, text: &str) -> Option<(Value, i64)> {
    if !Dialect::act_of(tool).is_some_and(SkillAct::reports) {
        return None;
    }
    MODEL_JSON.check(text.as_bytes()).ok()?;
    let report: Value = serde_json::from_str(text).ok()?;
    let code = report["exit_code"].as_i64()?;
    Some((report, code))
}

/// A file that a run left: where it is, and what to know of it; or what is kept, and how to fetch it.
pub(super) fn file(happening: &Happening) -> Option<(String, String)> {
    let Happening::File { name, path, bytes, fetch, .. } = happening else { return None };
    Some(match (path, fetch) {
        (Some(path), _) => (shown(path), bytes.map(size).unwrap_or_default()),
        (None, Some(fetch)) => (format!("{} is kept", shown(name)), format!("`{}`", shown(fetch))),
        (None, None) => (shown(name), String::new()),
    })
}

/// What a person said no to, in that person's words; nothing for any other answer.
pub(super) fn refusal(text: &str) -> Option<String> {
    let why = text.strip_prefix("The user rejected this")?;
    Some(match why.strip_prefix(": ") {
        Some(why) => format!("refused: {}", start_of(why.trim(), MAX_LINE)),
        None => "refused".to_owned(),
    })
}

/// How a turn ended, and what to do about it; nothing when it ended with an answer.
pub(super) fn outcome(outcome: &Outcome) -> Option<String> {
    Some(match outcome {
        Outcome::Answered => return None,
        Outcome::Cancelled => "stopped".to_owned(),
        Outcome::Stopped { reason } => format!("stopped: {}", shown(reason)),
        Outcome::Failed { error } => shown(&error.to_string()),
        other => shown(&other.to_string()),
    })
}

/// What to do about a turn that ended at a limit.
pub(super) fn advice(outcome: &Outcome) -> Option<String> {
    let advice = match outcome {
        Outcome::TooManySteps { .. } => "say what is next, or allow more with --max-turns or `limits.steps`",
        Outcome::TooManyTokens { .. } => "say what is next, or allow more with `limits.tokens`",
        _ => return None,
    };
    Some(advice.to_owned())
}

/// Tokens, short.
pub(super) fn tokens(tokens: u64) -> String {
    match tokens {
        0..1_000 => tokens.to_string(),
        1_000..100_000 => format!("{:.1}k", tokens as f64 / 1_000.0),
        100_000..1_000_000 => format!("{}k", tokens / 1_000),
        _ => format!("{:.1}M", tokens as f64 / 1_000_000.0),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn a_call_is_told_by_what_it_does() {
        assert_eq!(call("skill_load", &json!({"skill": "csv-report"})), "load csv-report");
        assert_eq!(call("load_skill", &json!({"skill_name": "csv-report"})), "load csv-report");
        assert_eq!(call("skill", &json!({"name": "csv-report"})), "load csv-report");
        assert_eq!(call("skill_unload", &json!({"name": "csv-report"})), "unload csv-report");
        assert_eq!(call("skill_run", &json!({"skill": "sums", "command": "add\n1"})), "run sums: add 1");
        assert_eq!(call("grep", &json!({"pattern": "x", "path": "/src"})), "grep /src");
        assert_eq!(call("write_todos", &json!({"todos": []})), "write_todos");
        assert_eq!(call("odd", &Value::Null), "odd");
        assert!(call("read_file", &json!({"path": "\u{1b}[2J".repeat(999)})).chars().count() <= MAX_LINE + 1);
    }

    #[test]
    fn a_run_is_told_by_its_report() {
        let report = json!({"exit_code": 0, "timed_out": false, "sandbox": {"level": "bwrap"}});
        assert_eq!(result("skill_run", &report.to_string(), false).as_deref(), Some("exit 0, sandbox bwrap"));
        assert_eq!(result("read_file", "{\"exit_code\": 0}", false), None);
        assert_eq!(
            result("read_file", "Error: there is no such file", true).as_deref(),
            Some("there is no such file")
        );
    }

    #[test]
    fn tokens_are_short() {
        assert_eq!([999, 1_234, 128_000, 2_000_000].map(tokens), ["999", "1.2k", "128k", "2.0M"]);
    }
}
