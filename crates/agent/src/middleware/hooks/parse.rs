//! Parses hooks: the valid ones, and the errors in the others.

use std::time::Duration;

use prowess_skills::prowess_catalog;
use serde_json::{Map, Value};

use super::config::{
    DEFAULT_HOOK_TIMEOUT, Handler, Hook, HookConfigError, HookProblem, HookSet, MAX_HOOK_LINE,
    MAX_HOOK_TIMEOUT, MAX_HOOKS, MIN_HOOK_TIMEOUT, key_of,
};
use super::event::HookEvent;
use super::matcher::Matcher;

/// The keys of a hook. prowess ignores `statusMessage`, which other agents show on their screens.
const KEYS: [&str; 7] = ["type", "command", "prompt", "agent", "timeout", "once", "statusMessage"];
/// The longest quote of a user's word in an error, in characters.
const MAX_QUOTE: usize = 64;

/// Parses hooks. Returns the valid ones, and the errors in the others.
pub(super) fn parse(value: &Value) -> (HookSet, Vec<HookConfigError>) {
    let (mut hooks, mut errors) = (HookSet::default(), Vec::new());
    let Some(events) = value.as_object() else {
        errors.push(error_at("hooks", HookProblem::Form("an object of events")));
        return (hooks, errors);
    };
    for (name, groups) in events {
        let Some(event) = HookEvent::named(name) else {
            errors.push(error_at(&quote(name), HookProblem::Event));
            continue;
        };
        let Some(groups) = groups.as_array() else {
            errors.push(error_at(name, HookProblem::Form("a list of groups")));
            continue;
        };
        for (number, group) in groups.iter().enumerate() {
            let place = format!("{event}[{number}]");
            match parse_group(event, &place, group, &mut hooks, &mut errors) {
                Ok(()) => {}
                Err(HookProblem::TooMany) => {
                    errors.push(error_at(&place, HookProblem::TooMany));
                    return (hooks, errors);
                }
                Err(problem) => errors.push(error_at(&place, problem)),
            }
        }
    }
    (hooks, errors)
}

fn parse_group(
    event: HookEvent,
    place: &str,
    group: &Value,
    hooks: &mut HookSet,
    errors: &mut Vec<HookConfigError>,
) -> Result<(), HookProblem> {
    let group = object(group, &["matcher", "hooks"])?;
    let text = text(group, "matcher")?.unwrap_or_default();
    let matcher = Matcher::parse(text).map_err(HookProblem::Matcher)?;
    let list = group.get("hooks").and_then(Value::as_array);
    for (number, hook) in list.ok_or(HookProblem::Form("a list `hooks`"))?.iter().enumerate() {
        if hooks.0.len() + errors.len() >= MAX_HOOKS {
            return Err(HookProblem::TooMany);
        }
        let parsed = parse_hook(hook).map(|(handler, timeout, once)| {
            let key = handler.key(event, text);
            let earlier_key = key_of(&format!("{event}\0{text}\0{handler:?}"));
            Hook { event, matcher: matcher.clone(), handler, timeout, once, key, earlier_key }
        });
        match parsed {
            Ok(hook) => hooks.0.push(hook),
            Err(problem) => errors.push(error_at(&format!("{place}.hooks[{number}]"), problem)),
        }
    }
    Ok(())
}

fn parse_hook(hook: &Value) -> Result<(Handler, Duration, bool), HookProblem> {
    let hook = object(hook, &KEYS)?;
    let line = |name: &'static str| match text(hook, name)? {
        Some(line) if line.len() > MAX_HOOK_LINE => Err(HookProblem::TooLong(name)),
        Some(line) if !line.trim().is_empty() => Ok(line.to_owned()),
        Some(_) | None if name == "command" => Err(HookProblem::Form("a `command`")),
        Some(_) | None => Err(HookProblem::Form("a `prompt`")),
    };
    let handler = match text(hook, "type")?.ok_or(HookProblem::Form("a `type`"))? {
        "command" => Handler::Command(line("command")?),
        "prompt" => Handler::Prompt(line("prompt")?),
        "agent" => Handler::Agent { name: text(hook, "agent")?.map(str::to_owned), prompt: line("prompt")? },
        other => return Err(HookProblem::Handler(quote(other))),
    };
    // In frontmatter every scalar is a string.
    let once = match hook.get("once") {
        None | Some(Value::Null) => false,
        Some(Value::Bool(once)) => *once,
        Some(Value::String(once)) if once == "true" || once == "false" => once == "true",
        Some(_) => return Err(HookProblem::Form("`once: true` or `once: false`")),
    };
    let seconds = match hook.get("timeout") {
        None | Some(Value::Null) => None,
        Some(Value::String(seconds)) => Some(seconds.trim().parse().ok()),
        Some(seconds) => Some(seconds.as_f64()),
    };
    let timeout = match seconds {
        None => DEFAULT_HOOK_TIMEOUT,
        Some(Some(seconds)) if seconds > 0.0 => {
            let timeout = Duration::try_from_secs_f64(seconds).unwrap_or(MAX_HOOK_TIMEOUT);
            timeout.clamp(MIN_HOOK_TIMEOUT, MAX_HOOK_TIMEOUT)
        }
        Some(_) => return Err(HookProblem::Form("a `timeout` in seconds")),
    };
    Ok((handler, timeout, once))
}

fn object<'a>(value: &'a Value, keys: &[&str]) -> Result<&'a Map<String, Value>, HookProblem> {
    let object = value.as_object().ok_or(HookProblem::Form("an object"))?;
    match object.keys().find(|key| !keys.contains(&key.as_str())) {
        Some(unknown) => Err(HookProblem::Key(quote(unknown))),
        None => Ok(object),
    }
}

fn text<'a>(object: &'a Map<String, Value>, key: &str) -> Result<Option<&'a str>, HookProblem> {
    match object.get(key) {
        None | Some(Value::Null) => Ok(None),
        Some(Value::String(text)) => Ok(Some(text)),
        Some(_) => Err(HookProblem::Form("a text")),
    }
}

fn error_at(place: &str, problem: HookProblem) -> HookConfigError {
    HookConfigError { place: place.to_owned(), problem }
}

/// A user's word, safe for a message.
fn quote(text: &str) -> String {
    text.chars().filter(|c| !c.is_control()).take(MAX_QUOTE).collect()
}

/// The value of a skill's frontmatter as JSON.
pub(super) fn from_yaml(value: &prowess_catalog::yaml::Value) -> Value {
    match value {
        prowess_catalog::yaml::Value::Text(text) => Value::String(text.clone()),
        prowess_catalog::yaml::Value::Null => Value::Null,
        prowess_catalog::yaml::Value::List(items) => items.iter().map(from_yaml).collect(),
        prowess_catalog::yaml::Value::Map(entries) => {
            entries.iter().map(|(key, value)| (key.clone(), from_yaml(value))).collect()
        }
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::needless_pass_by_value, reason = "`json!` is given as it is written")]

    use proptest::prelude::*;
    use serde_json::json;

    use super::super::matcher::MAX_MATCHER;
    use super::*;

    fn one(hook: Value) -> Value {
        json!({"PreToolUse": [{"matcher": "ls", "hooks": [hook]}]})
    }

    fn refused(value: Value) -> String {
        HookSet::parse(&value).map_or_else(|error| error.to_string(), |hooks| format!("{hooks:?}"))
    }

    #[test]
    fn the_shape_is_the_well_known_one() {
        let hooks = HookSet::parse(&json!({
            "PreToolUse": [{"matcher": "Edit|Write", "hooks": [
                {"type": "command", "command": "./check.sh", "timeout": 5},
                {"type": "prompt", "prompt": "Mind the gap.", "once": true}]}],
            "Stop": [{"hooks": [{"type": "agent", "agent": "critic", "prompt": "Is it done?"}]}],
        }));
        let hooks = hooks.unwrap_or_default().0;
        assert_eq!(hooks.len(), 3);
        assert_eq!(hooks[0].handler, Handler::Command("./check.sh".to_owned()));
        assert_eq!((hooks[0].timeout, hooks[0].once), (Duration::from_secs(5), false));
        assert_eq!((hooks[1].timeout, hooks[1].once), (DEFAULT_HOOK_TIMEOUT, true));
        let agent = Handler::Agent { name: Some("critic".to_owned()), prompt: "Is it done?".to_owned() };
        assert_eq!((hooks[2].event, &hooks[2].handler), (HookEvent::Stop, &agent));
        assert_ne!(hooks[0].key, hooks[1].key);
    }

    #[test]
    fn keys_stay_as_threads_have_stored_them() {
        let hooks = HookSet::parse(&json!({"PreToolUse": [{"matcher": "Edit|Write", "hooks": [
            {"type": "command", "command": "say \"é\"\n"},
            {"type": "prompt", "prompt": "Mind the gap."},
            {"type": "agent", "agent": "critic", "prompt": "Is it done?"},
            {"type": "agent", "prompt": "Is it done?"}]}]}));
        let keys = hooks.unwrap_or_default().0.into_iter().map(|hook| [hook.key, hook.earlier_key].join(" "));
        insta::assert_snapshot!(keys.collect::<Vec<_>>().join("\n"), @"
        704074d65fd6d965043afd9a a38eaf566f4b35e45bca84ae
        e55c5fb22c2688b03012c77b 829d21af821458bf86ee4ffe
        ce8ce55cf217466c157b8eee f088f437ea25101768c6bc05
        9314f7bc90aa30b945c1d573 a2c066a1cc17ec7b831107e6
        ");
    }

    #[test]
    fn what_cannot_be_read_is_told_with_its_place() {
        let command = json!({"type": "command", "command": "x"});
        let with = |key: &str, value: Value| {
            let mut hook = command.clone();
            hook[key] = value;
            one(hook)
        };
        for (value, message) in [
            (json!([]), "hooks: an object of events is expected here"),
            (json!({"Bogus\u{1b}": []}), "Bogus: there is no such event"),
            (json!({"Stop": {}}), "Stop: a list of groups is expected here"),
            (json!({"Stop": [{"macher": "x", "hooks": []}]}), "Stop[0]: there is no key `macher`"),
            (json!({"Stop": [{"matcher": "x"}]}), "Stop[0]: a list `hooks` is expected here"),
            (json!({"Stop": [{"matcher": 1, "hooks": []}]}), "Stop[0]: a text is expected here"),
            (one(json!({"command": "x"})), "PreToolUse[0].hooks[0]: a `type` is expected here"),
            (
                one(json!({"type": "http"})),
                "PreToolUse[0].hooks[0]: there is no handler `http`: it is `command`, `prompt` or `agent`",
            ),
            (
                one(json!({"type": "command", "command": " "})),
                "PreToolUse[0].hooks[0]: a `command` is expected here",
            ),
            (one(json!({"type": "agent"})), "PreToolUse[0].hooks[0]: a `prompt` is expected here"),
            (with("async", json!(true)), "PreToolUse[0].hooks[0]: there is no key `async`"),
            (
                with("once", json!(1)),
                "PreToolUse[0].hooks[0]: `once: true` or `once: false` is expected here",
            ),
            (with("timeout", json!(-1)), "PreToolUse[0].hooks[0]: a `timeout` in seconds is expected here"),
            (
                with("command", json!("x".repeat(MAX_HOOK_LINE + 1))),
                "PreToolUse[0].hooks[0]: `command` has more than 16384 bytes",
            ),
        ] {
            assert_eq!(refused(value), message);
        }
    }

    #[test]
    fn hostile_sizes_are_refused() {
        let many = vec![json!({"type": "command", "command": "x"}); MAX_HOOKS + 1];
        assert_eq!(refused(json!({"Stop": [{"hooks": many}]})), "Stop[0]: there are more than 64 hooks");
        for matcher in ["(a{500}){500}".to_owned(), "[".to_owned(), ".".repeat(MAX_MATCHER + 1)] {
            let refused = refused(json!({"Stop": [{"matcher": matcher, "hooks": []}]}));
            assert!(refused.starts_with("Stop[0]: the matcher is invalid: "), "{refused}");
        }
        let hooks = HookSet::parse(&one(json!({"type": "command", "command": "x", "timeout": 1e300})));
        assert_eq!(hooks.unwrap_or_default().0[0].timeout, MAX_HOOK_TIMEOUT);
    }

    #[test]
    fn a_skill_keeps_its_valid_hooks() {
        use prowess_catalog::yaml::Value::{List, Map, Text};
        let entry = |key: &str, text: &str| (key.to_owned(), Text(text.to_owned()));
        let good = Map(vec![
            entry("type", "command"),
            entry("command", "scripts/x.sh"),
            entry("timeout", "5"),
            entry("once", "true"),
        ]);
        let bad = Map(vec![entry("type", "http")]);
        let group = Map(vec![("hooks".to_owned(), List(vec![good, bad]))]);
        let value = Map(vec![("Stop".to_owned(), List(vec![group])), ("Nothing".to_owned(), List(vec![]))]);
        let (hooks, problems) = HookSet::of_skill(&value);
        assert_eq!((hooks.len(), hooks.0[0].once, hooks.0[0].timeout.as_secs()), (1, true, 5));
        let problems: Vec<String> = problems.iter().map(ToString::to_string).collect();
        assert_eq!(problems.len(), 2, "{problems:?}");
    }

    fn values() -> impl Strategy<Value = Value> {
        let word = prop_oneof![
            Just("PreToolUse"),
            Just("Stop"),
            Just("matcher"),
            Just("hooks"),
            Just("type"),
            Just("command"),
            Just("prompt"),
            Just("agent"),
            Just("timeout"),
            Just("once"),
            Just("true"),
            Just("("),
            Just("x.*"),
        ];
        let scalar = prop_oneof![
            Just(Value::Null),
            any::<bool>().prop_map(Value::from),
            any::<f64>().prop_map(Value::from),
            word.clone().prop_map(Value::from),
        ];
        scalar.prop_recursive(6, 64, 6, move |inner| {
            let key = word.clone().prop_map(str::to_owned);
            prop_oneof![
                proptest::collection::vec(inner.clone(), 0..4).prop_map(Value::from),
                proptest::collection::btree_map(key, inner, 0..6).prop_map(|map| json!(map)),
            ]
        })
    }

    proptest! {
        #[test]
        fn every_value_is_parsed_or_has_an_error(value in values()) {
            let (hooks, problems) = parse(&value);
            prop_assert_eq!(HookSet::parse(&value).is_ok(), problems.is_empty());
            prop_assert!(hooks.len() <= MAX_HOOKS);
            prop_assert!(hooks.0.iter().all(|hook| hook.timeout > Duration::ZERO && hook.timeout <= MAX_HOOK_TIMEOUT));
        }
    }
}
