//! The verdict of a hook: from its exit code and its output.

use serde_json::{Map, Value};

use super::command::{HookExit, HookOutput};
use super::event::HookEvent;
use crate::json::MODEL_JSON;

/// The verdict of a hook. It can block, and it cannot allow anything.
#[derive(Clone, Debug, Default, PartialEq)]
pub(super) struct HookVerdict {
    /// Why the event should not happen.
    pub(super) block: Option<String>,
    /// Why the turn should end.
    pub(super) halt: Option<String>,
    /// A text for the model.
    pub(super) context: Option<String>,
    /// Other arguments for the call.
    pub(super) arguments: Option<Value>,
}

impl HookVerdict {
    /// The verdict of a command. The error says why it has none.
    pub(super) fn of_command(event: HookEvent, ran: &HookOutput) -> Result<Self, String> {
        match &ran.exit {
            HookExit::Code(0) => Self::of_output(event, &ran.stdout, ran.is_whole),
            HookExit::Code(2) => {
                let reason = ran.stderr.trim();
                let reason = if reason.is_empty() { NO_REASON } else { reason };
                Ok(Self { block: Some(reason.to_owned()), ..Self::default() })
            }
            // The hook itself failed, so it has no opinion.
            HookExit::Code(code @ ..128) => {
                tracing::warn!(%event, code, stderr = ran.stderr.trim(), "A hook failed, and is ignored");
                Ok(Self::default())
            }
            HookExit::Code(code) => Err(format!("it was killed, with exit code {code}")),
            HookExit::TimedOut => Err("it took too long".to_owned()),
            HookExit::Killed(why) => Err(why.clone()),
        }
    }

    /// The verdict of an agent, in the same JSON that a command prints.
    pub(super) fn of_agent(event: HookEvent, response: &str) -> Result<Self, String> {
        let response = response.trim();
        // Models often put JSON between fences.
        let fenced = response.strip_prefix("```").and_then(|rest| rest.strip_suffix("```"));
        let inner = fenced.and_then(|rest| rest.split_once('\n')).map_or(response, |(_, inner)| inner);
        Self::of_output(event, inner, true)
    }

    fn of_output(event: HookEvent, output: &str, is_whole: bool) -> Result<Self, String> {
        let output = output.trim();
        let as_context = || {
            let context = Some(output.to_owned()).filter(|text| event.shows_output() && !text.is_empty());
            Ok(Self { context, ..Self::default() })
        };
        if !output.starts_with('{') {
            return as_context();
        }
        let room = MODEL_JSON.check(output.as_bytes()).map_err(|costly| costly.to_string());
        let parsed = room.and_then(|_| {
            serde_json::from_str::<Map<String, Value>>(output).map_err(|error| error.to_string())
        });
        match parsed {
            Ok(object) => Self::of_object(event, &object),
            Err(_) if event.shows_output() => as_context(),
            Err(_) if !is_whole => Err("it printed too much".to_owned()),
            Err(error) => Err(format!("its JSON cannot be read: {error}")),
        }
    }

    fn of_object(event: HookEvent, object: &Map<String, Value>) -> Result<Self, String> {
        let mut verdict = Self::default();
        let reason = text(object, "reason")?;
        if flag(object, "continue")? == Some(false) {
            verdict.halt = Some(text(object, "stopReason")?.or(reason).unwrap_or(NO_REASON).to_owned());
        }
        match text(object, "decision")? {
            Some("block" | "deny") => verdict.block(reason),
            None | Some("approve" | "allow") => {}
            Some(other) => return Err(unknown("decision", other)),
        }
        if flag(object, "ok")? == Some(false) {
            verdict.block(reason);
        }
        if let Some(message) = text(object, "systemMessage")? {
            tracing::info!(%event, message, "Message of a hook");
        }
        match object.get("hookSpecificOutput") {
            None | Some(Value::Null) => {}
            Some(Value::Object(specific)) => verdict.add_specific(specific)?,
            Some(_) => return Err("its `hookSpecificOutput` is not an object".to_owned()),
        }
        Ok(verdict)
    }

    fn add_specific(&mut self, specific: &Map<String, Value>) -> Result<(), String> {
        let reason = text(specific, "permissionDecisionReason")?;
        match text(specific, "permissionDecision")? {
            Some("deny") => self.block(reason),
            // The call has started, so it cannot wait for a person.
            Some("ask") => {
                self.block(reason.or(Some("it wants to ask a person, which is not possible here")))
            }
            None | Some("allow") => {}
            Some(other) => return Err(unknown("permissionDecision", other)),
        }
        match specific.get("decision") {
            None | Some(Value::Null) => {}
            Some(Value::Object(decision)) => match text(decision, "behavior")? {
                Some("deny") => {
                    let message = text(decision, "message")?;
                    self.block(message);
                    if flag(decision, "interrupt")? == Some(true) {
                        self.halt = Some(message.unwrap_or(NO_REASON).to_owned());
                    }
                }
                Some("allow") => {}
                other => return Err(unknown("behavior", other.unwrap_or_default())),
            },
            Some(_) => return Err("its `decision` is not an object".to_owned()),
        }
        let context = text(specific, "additionalContext")?.filter(|text| !text.trim().is_empty());
        self.context = context.map(str::to_owned);
        self.arguments = specific.get("updatedInput").filter(|input| !input.is_null()).cloned();
        Ok(())
    }

    fn block(&mut self, reason: Option<&str>) {
        self.block = Some(reason.unwrap_or(NO_REASON).to_owned());
    }
}

const NO_REASON: &str = "no reason was given";

fn text<'a>(object: &'a Map<String, Value>, key: &str) -> Result<Option<&'a str>, String> {
    match object.get(key) {
        None | Some(Value::Null) => Ok(None),
        Some(Value::String(text)) => Ok(Some(text)),
        Some(_) => Err(format!("its `{key}` is not a string")),
    }
}

fn flag(object: &Map<String, Value>, key: &str) -> Result<Option<bool>, String> {
    match object.get(key) {
        None | Some(Value::Null) => Ok(None),
        Some(Value::Bool(flag)) => Ok(Some(*flag)),
        Some(_) => Err(format!("its `{key}` is neither true nor false")),
    }
}

fn unknown(key: &str, word: &str) -> String {
    let word: String = word.chars().filter(|c| !c.is_control()).take(64).collect();
    format!("its `{key}` has the unknown value `{word}`")
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn ran(code: i32, stdout: &str, stderr: &str) -> HookOutput {
        HookOutput {
            exit: HookExit::Code(code),
            stdout: stdout.into(),
            stderr: stderr.into(),
            is_whole: true,
        }
    }

    fn said(event: HookEvent, output: &Value) -> Result<HookVerdict, String> {
        HookVerdict::of_command(event, &ran(0, &output.to_string(), ""))
    }

    fn blocked(reason: &str) -> HookVerdict {
        HookVerdict { block: Some(reason.to_owned()), ..HookVerdict::default() }
    }

    #[test]
    fn exit_codes() {
        let of = |ran: &HookOutput| HookVerdict::of_command(HookEvent::PreToolUse, ran);
        assert_eq!(of(&ran(0, "fine", "")), Ok(HookVerdict::default()));
        assert_eq!(of(&ran(2, "ignored", " not this \n")), Ok(blocked("not this")));
        assert_eq!(of(&ran(2, "", "")), Ok(blocked(NO_REASON)));
        assert_eq!(of(&ran(1, "{\"decision\": \"block\"}", "oops")), Ok(HookVerdict::default()));
        assert!(of(&ran(137, "", "")).is_err());
        assert!(of(&HookOutput { exit: HookExit::TimedOut, ..ran(0, "", "") }).is_err());
        assert!(of(&HookOutput { exit: HookExit::Killed("gone".into()), ..ran(0, "", "") }).is_err());
    }

    #[test]
    fn json_decides_and_allows_nothing() {
        let event = HookEvent::PreToolUse;
        for nothing in [
            json!({}),
            json!({"decision": "approve"}),
            json!({"continue": true}),
            json!({"hookSpecificOutput": {"permissionDecision": "allow"}}),
            json!({"hookSpecificOutput": {"decision": {"behavior": "allow"}}}),
            json!({"ok": true}),
        ] {
            assert_eq!(said(event, &nothing), Ok(HookVerdict::default()), "{nothing}");
        }
        for block in [
            json!({"decision": "block", "reason": "why"}),
            json!({"ok": false, "reason": "why"}),
            json!({"hookSpecificOutput": {"permissionDecision": "deny", "permissionDecisionReason": "why"}}),
            json!({"hookSpecificOutput": {"permissionDecision": "ask", "permissionDecisionReason": "why"}}),
            json!({"hookSpecificOutput": {"decision": {"behavior": "deny", "message": "why"}}}),
        ] {
            assert_eq!(said(event, &block), Ok(blocked("why")), "{block}");
        }
        let halt = HookVerdict { halt: Some("enough".to_owned()), ..HookVerdict::default() };
        assert_eq!(said(event, &json!({"continue": false, "stopReason": "enough"})), Ok(halt));
        let more = json!({"hookSpecificOutput": {"additionalContext": "note", "updatedInput": {"a": 1}}});
        let verdict = said(event, &more).unwrap_or_default();
        assert_eq!((verdict.context.as_deref(), verdict.arguments), (Some("note"), Some(json!({"a": 1}))));
    }

    #[test]
    fn a_response_that_cannot_be_read_is_an_error() {
        for unreadable in [
            "{\"decision\": ",
            "{\"decision\": 1}",
            "{\"decision\": \"blok\"}",
            "{\"continue\": \"false\"}",
            "{\"hookSpecificOutput\": []}",
            "{\"hookSpecificOutput\": {\"permissionDecision\": \"Deny\"}}",
            "{\"hookSpecificOutput\": {\"decision\": {}}}",
        ] {
            let verdict = HookVerdict::of_command(HookEvent::PreToolUse, &ran(0, unreadable, ""));
            assert!(verdict.is_err(), "{unreadable}: {verdict:?}");
        }
        let cut = HookOutput { is_whole: false, ..ran(0, "{\"reason\": \"long", "") };
        let why = HookVerdict::of_command(HookEvent::PreToolUse, &cut);
        assert_eq!(why, Err("it printed too much".to_owned()));
    }

    #[test]
    fn plain_output_is_context_where_a_session_or_a_turn_begins() {
        let context =
            |event| HookVerdict::of_command(event, &ran(0, " hello {\n", "")).unwrap_or_default().context;
        assert_eq!(context(HookEvent::SessionStart).as_deref(), Some("hello {"));
        assert_eq!(context(HookEvent::UserPromptSubmit).as_deref(), Some("hello {"));
        assert_eq!(context(HookEvent::PreToolUse), None);
        assert_eq!(
            HookVerdict::of_command(HookEvent::SessionStart, &ran(0, " \n", "")),
            Ok(HookVerdict::default())
        );
    }

    #[test]
    fn an_agent_may_fence_its_response() {
        let response = "```json\n{\"decision\": \"block\", \"reason\": \"why\"}\n```";
        assert_eq!(HookVerdict::of_agent(HookEvent::Stop, response), Ok(blocked("why")));
        assert_eq!(HookVerdict::of_agent(HookEvent::Stop, "All is well."), Ok(HookVerdict::default()));
    }
}
