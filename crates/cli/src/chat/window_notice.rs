//! Notices about the context window: what fills it, and what would help.

use prowess_agent::ModelError;
use prowess_agent::middleware::{SummarisationNotice, WindowPart, WindowPartKind, WindowUse};
use prowess_agent::model::ModelErrorKind;

use super::describe::tokens;
use crate::terminal::{printable, printable_start};

/// If the context window is unknown, a request of so many tokens may be too long: many local models read this much.
const LONG_REQUEST: u64 = 8_000;
/// How many of the largest parts a notice names.
const MAX_PARTS: usize = 4;
/// How many of the largest parts a notice has advice for.
const MAX_ADVICE: usize = 2;
/// A notice has advice only for parts of at least this part of the request.
const MIN_SHARE: u64 = 10;
/// How many characters of a name are shown.
const MAX_NAME: usize = 64;
/// The key of the largest size of the skills overview.
const OVERVIEW_BUDGET: &str = "skills.overview.budget";
/// The key of the model's context window.
const CONTEXT_WINDOW: &str = "model.context_window";

/// A notice, for a person.
pub(super) fn text(notice: &SummarisationNotice) -> String {
    match notice {
        SummarisationNotice::Full(used) => full(used),
        SummarisationNotice::Learned { model, window } => format!(
            "{} reads fewer tokens than expected: this thread now keeps its requests below {}; for other threads, set \
             {CONTEXT_WINDOW} = {window}",
            printable(model),
            tokens(*window)
        ),
        _ => "the context window is nearly full".to_owned(),
    }
}

/// What a rejected request may have to do with the context window: some providers reject long requests without a reason.
pub(super) fn rejected(error: &ModelError, used: &WindowUse) -> Option<String> {
    let is_long = used.window.map_or(used.total() > LONG_REQUEST, |window| used.total() > window / 2);
    if error.kind != ModelErrorKind::Invalid || !is_long {
        return None;
    }
    Some(format!(
        "the request had about {} tokens. If that is too long for {}, set `{CONTEXT_WINDOW}`; `/compact` shortens this \
         conversation",
        tokens(used.total()),
        printable(&error.model)
    ))
}

fn full(used: &WindowUse) -> String {
    let (largest, total) = (used.largest(), used.total());
    // The turn ends, and its outcome names the largest parts.
    if used.is_full() {
        return format!("the context window is full. {}", help(used, &largest));
    }
    let named: Vec<String> =
        largest.iter().take(MAX_PARTS).map(|part| format!("{part} {}", tokens(part.tokens))).collect();
    let of_window = used.window.map(|window| format!(" of {}", tokens(window))).unwrap_or_default();
    format!(
        "a summary would free too little of the context window. About {}{of_window} tokens are in use: {}. {}",
        tokens(total),
        printable(&named.join(", ")),
        help(used, &largest)
    )
}

/// What makes the largest parts smaller.
fn help(used: &WindowUse, largest: &[WindowPart]) -> String {
    let mut advice: Vec<String> = Vec::new();
    for part in largest.iter().filter(|part| part.tokens >= used.total() / MIN_SHARE) {
        advice.extend(advice_for(used, part).filter(|one| !advice.contains(one)));
        if advice.len() == MAX_ADVICE {
            break;
        }
    }
    // It always helps.
    advice.push("`/model NAME` switches to a model with a larger context window".to_owned());
    advice.join(". ")
}

fn advice_for(used: &WindowUse, part: &WindowPart) -> Option<String> {
    let size = tokens(part.tokens);
    let name = |name: &str| printable_start(name, MAX_NAME);
    Some(match part.kind {
        WindowPartKind::Request => {
            "Send a shorter message, for example with the name of a file instead of its text".to_owned()
        }
        WindowPartKind::Skill => format!("`/unload {}` frees about {size}", name(&part.name)),
        // Even without an overview the request would be too long.
        WindowPartKind::Overview if is_full_without(used, part) => return None,
        WindowPartKind::Overview => format!("A smaller `{OVERVIEW_BUDGET}` shortens the skills overview"),
        WindowPartKind::Tool => match part.server() {
            Some(server) => format!("Without `[mcp.{}]` in prowess.toml, {size} are free", name(server)),
            None => return None,
        },
        WindowPartKind::Prompt if part.name == "memory" => "A shorter AGENTS.md frees room".to_owned(),
        WindowPartKind::Prompt => return None,
        _ => "`/compact` summarises all but the last message, and `/new` starts a new thread".to_owned(),
    })
}

/// Whether the request would not fit even without this part.
fn is_full_without(used: &WindowUse, part: &WindowPart) -> bool {
    let rest = used.total().saturating_sub(part.tokens).saturating_add(used.response);
    used.window.is_some_and(|window| rest > window)
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use serde_json::json;

    use super::*;

    /// A part of each kind is built from its stored form.
    fn used(parts: &serde_json::Value) -> WindowUse {
        serde_json::from_value(json!({"window": 20_000, "parts": parts})).unwrap()
    }

    fn part(kind: &str, group: &str, name: &str, tokens: u64) -> serde_json::Value {
        json!({"kind": kind, "group": group, "name": name, "count": 1, "tokens": tokens})
    }

    #[test]
    fn the_largest_parts_are_named_and_decide_what_helps() {
        let told = text(&SummarisationNotice::Full(used(&json!([
            part("tool", "files", "ls", 1_000),
            part("tool", "files", "grep", 2_000),
            part("skill", "", "tides", 12_000),
            part("message", "person", "", 2_345),
        ]))));
        assert_eq!(
            told,
            "a summary would free too little of the context window. About 17.3k of 20.0k tokens are in use: the text of \
             skill `tides` 12.0k, the file tools 3.0k, the conversation 2.3k. `/unload tides` frees about 12.0k. \
             `/compact` summarises all but the last message, and `/new` starts a new thread. `/model NAME` switches to a \
             model with a larger context window"
        );
    }

    #[test]
    fn each_part_has_its_advice() {
        for (part, advice) in [
            (part("request", "", "", 30_000), "Send a shorter message"),
            (part("overview", "", "", 18_000), "`skills.overview.budget`"),
            (
                part("tool", "server docs", "find", 18_000),
                "Without `[mcp.docs]` in prowess.toml, 18.0k are free",
            ),
            (part("prompt", "", "memory", 18_000), "A shorter AGENTS.md"),
            (part("message", "tool", "grep", 18_000), "`/compact`"),
        ] {
            let told = text(&SummarisationNotice::Full(used(&json!([part]))));
            assert!(told.contains(advice), "{told}");
        }
    }

    #[test]
    fn a_smaller_overview_is_advised_only_if_the_request_could_fit_then() {
        for (message, is_advised) in [(4_000, true), (19_900, true), (20_100, false)] {
            let parts = json!([part("overview", "", "", 18_000), part("request", "", "", message)]);
            let told = text(&SummarisationNotice::Full(used(&parts)));
            assert_eq!(told.contains(OVERVIEW_BUDGET), is_advised, "{message}: {told}");
        }
        let mut tight = used(&json!([part("overview", "", "", 18_000), part("request", "", "", 19_900)]));
        tight.response = 256;
        let told = text(&SummarisationNotice::Full(tight));
        assert!(!told.contains(OVERVIEW_BUDGET), "the response needs room: {told}");
    }

    #[test]
    fn every_recommended_key_exists() {
        let error = ModelError::new("m", ModelErrorKind::Invalid, "no");
        let kinds = ["prompt", "overview", "tool", "skill", "summary", "request", "message", "other"];
        let mut told: Vec<String> = kinds
            .iter()
            .map(|kind| text(&SummarisationNotice::Full(used(&json!([part(kind, "", "memory", 18_000)])))))
            .collect();
        told.extend(rejected(&error, &used(&json!([part("message", "", "", 18_000)]))));
        let is_key = |text: &&str| text.contains('.') && text.split('.').all(|word| !word.is_empty());
        let quoted = told.iter().flat_map(|told| told.split('`').skip(1).step_by(2));
        let recommended: BTreeSet<&str> = quoted.filter(is_key).collect();
        assert_eq!(recommended, BTreeSet::from([CONTEXT_WINDOW, OVERVIEW_BUDGET]));
        let known = crate::config::keys();
        for key in recommended {
            assert!(known.iter().any(|known| known == key), "{key}");
        }
    }
}
