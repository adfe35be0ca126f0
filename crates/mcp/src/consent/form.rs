//! The form in which a client shows a question to its person, and the reply in it.

use std::collections::BTreeMap;

use prowess_base::text::escape_unprintable;
use prowess_catalog::untrusted::one_line;
use prowess_permission::Question;
use prowess_permission::wording::{Detail, DetailStyle};
use rmcp::model::{ElicitRequestParams, ElicitResult, ElicitationAction, ElicitationSchema};
use serde_json::Value;

/// What the person replied.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum FormReply {
    Once,
    Always,
    Reject(Option<String>),
}

impl FormReply {
    /// Reads a filled-in form. Everything except a clear "once" or "always" is a no.
    pub(super) fn of(result: &ElicitResult) -> Self {
        let field = |name: &str| result.content.as_ref().and_then(|content| content.get(name)?.as_str());
        let reason =
            field("reason").map(str::trim).filter(|reason| !reason.is_empty()).map(ToOwned::to_owned);
        match (&result.action, field("decision")) {
            (ElicitationAction::Accept, Some("once")) => Self::Once,
            (ElicitationAction::Accept, Some("always")) => Self::Always,
            _ => Self::Reject(reason),
        }
    }

    /// Reads a filled-in form from the inputs of a call. A malformed one is a no.
    pub(super) fn from_input(input: Value) -> Self {
        let result = serde_json::from_value(input);
        Self::of(&result.unwrap_or_else(|_| ElicitResult::new(ElicitationAction::Cancel)))
    }
}

/// The form for a question, with this message above it.
pub(super) fn form(message: String, question: &Question) -> ElicitRequestParams {
    let mut decisions = vec!["once", "no"];
    if !question.always.is_empty() {
        decisions.insert(1, "always");
    }
    let schema = serde_json::json!({
        "type": "object",
        "properties": {
            "decision": {"type": "string", "title": "Decision", "enum": decisions},
            "reason": {"type": "string", "title": "Reason", "description": "If you say no: a message for the model."},
        },
        "required": ["decision"],
    });
    let requested_schema =
        serde_json::from_value(schema).unwrap_or_else(|_| ElicitationSchema::new(BTreeMap::new()));
    ElicitRequestParams::FormElicitationParams { meta: None, message, requested_schema }
}

/// Everything that a person has to know to decide.
pub(super) fn message(question: &Question) -> String {
    let wording = question.wording();
    let mut lines = vec![format!("Permission is needed: {}", one_line(&wording.title))];
    lines.extend(wording.note.iter().map(|note| one_line(note).into_owned()));
    lines.extend(
        wording.details.iter().map(|detail| format!("{}: {}", one_line(&detail.name), detail_line(detail))),
    );
    lines.extend(wording.always_line());
    lines.join("\n")
}

/// A detail on one line, without unprintable characters.
fn detail_line(detail: &Detail) -> String {
    match detail.style {
        DetailStyle::Data => escape_unprintable(&detail.text),
        DetailStyle::List => {
            let quoted = |item: &str| escape_unprintable(&Value::from(item).to_string());
            detail.text.lines().map(quoted).collect::<Vec<_>>().join(", ")
        }
        _ => escape_unprintable(&Value::from(detail.text.as_str()).to_string()),
    }
}

#[cfg(test)]
mod tests {
    use prowess_permission::Kind;
    use prowess_permission::action::RunAction;
    use serde_json::json;

    use super::*;

    fn filled_in(action: ElicitationAction, content: Value) -> ElicitResult {
        ElicitResult::new(action).with_content(content)
    }

    #[test]
    fn only_a_clear_reply_allows() {
        use ElicitationAction::{Accept, Cancel, Decline};
        assert_eq!(FormReply::of(&filled_in(Accept, json!({"decision": "once"}))), FormReply::Once);
        assert_eq!(FormReply::of(&filled_in(Accept, json!({"decision": "always"}))), FormReply::Always);
        for no in [
            filled_in(Accept, json!({"decision": "no"})),
            filled_in(Accept, json!({"decision": "yes"})),
            filled_in(Accept, json!({"decision": true})),
            filled_in(Accept, json!({})),
            filled_in(Decline, json!({"decision": "once"})),
            filled_in(Cancel, json!({"decision": "always"})),
            ElicitResult::new(Accept),
        ] {
            assert_eq!(FormReply::of(&no), FormReply::Reject(None), "{no:?}");
        }
        for no in [json!({"action": "sure", "content": {"decision": "once"}}), json!("once")] {
            assert_eq!(FormReply::from_input(no.clone()), FormReply::Reject(None), "{no}");
        }
        let why = filled_in(Decline, json!({"reason": " not today "}));
        assert_eq!(FormReply::of(&why), FormReply::Reject(Some("not today".to_owned())));
    }

    #[test]
    fn a_question_shows_what_it_allows() {
        let run = RunAction {
            skill: "kit".to_owned(),
            command: "make\u{202e}\nrm".to_owned(),
            env: [("A".to_owned(), "b".to_owned())].into(),
            ..RunAction::default()
        };
        let question = Question::new(Kind::RUN, "kit make").action(run).binding("x");
        insta::assert_snapshot!(message(&question), @r#"
        Permission is needed: run in skill 'kit': make\u{202e}⏎rm
        skill: "kit"
        command: "make\u{202e}\nrm"
        env: "A=b"
        `always` would allow run "kit make" until the skill changes
        "#);
        let ElicitRequestParams::FormElicitationParams { requested_schema, .. } =
            form(String::new(), &question.clone().always([]))
        else {
            unreachable!()
        };
        let schema = serde_json::to_value(requested_schema).unwrap();
        assert_eq!(schema["properties"]["decision"]["enum"], json!(["once", "no"]));
        assert_eq!(schema["required"], json!(["decision"]));
    }
}
