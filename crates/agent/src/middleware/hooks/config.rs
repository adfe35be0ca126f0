//! Hooks as configurations and skills write them.

use std::time::Duration;

use hmac_sha256::Hash;
use prowess_skills::prowess_catalog;
use serde_json::{Map, Value, json};

use super::event::HookEvent;
use super::matcher::Matcher;

/// How long a hook may take when it does not say otherwise.
pub const DEFAULT_HOOK_TIMEOUT: Duration = Duration::from_secs(60);
/// How long a hook may take at most.
pub const MAX_HOOK_TIMEOUT: Duration = Duration::from_secs(600);
/// How long a hook may take at least.
const MIN_TIMEOUT: Duration = Duration::from_millis(1);
/// The most hooks of one configuration, or of one skill.
pub const MAX_HOOKS: usize = 64;
/// The longest command or prompt, in bytes.
const MAX_LINE: usize = 16 * 1024;
/// The keys that a hook has. `statusMessage` is for a screen that is not here.
const KEYS: [&str; 7] = ["type", "command", "prompt", "agent", "timeout", "once", "statusMessage"];

/// Hooks of one configuration, or of one skill.
///
/// ```
/// use prowess_agent::middleware::HookSet;
/// use serde_json::json;
///
/// let hooks = HookSet::parse(&json!({
///     "PreToolUse": [{
///         "matcher": "write_file|edit_file",
///         "hooks": [{"type": "command", "command": "jq -e '.tool_input.file_path != \"/etc\"' || exit 2"}]
///     }]
/// }));
/// assert_eq!(hooks.unwrap().len(), 1);
/// let error = HookSet::parse(&json!({"PreToolUsed": []})).unwrap_err();
/// assert_eq!(error.to_string(), "PreToolUsed: there is no such event");
/// ```
#[derive(Clone, Debug, Default)]
pub struct HookSet(pub(super) Vec<Hook>);

/// What is wrong with a hook, and where.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{place}: {problem}")]
#[non_exhaustive]
pub struct HookConfigError {
    /// Where: `PreToolUse[0].hooks[1]`.
    pub place: String,
    /// What.
    pub problem: HookProblem,
}

/// What is wrong with a hook.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum HookProblem {
    /// The event is unknown.
    #[error("there is no such event")]
    Event,
    /// Something has another form than it should have.
    #[error("{0} is expected here")]
    Form(&'static str),
    /// A key is unknown: it could be one that matters, misspelt.
    #[error("there is no key `{0}`")]
    Key(String),
    /// The handler is unknown.
    #[error("there is no handler `{0}`: it is `command`, `prompt` or `agent`")]
    Handler(String),
    /// The matcher is no regular expression, or too large.
    #[error("the matcher is refused: {0}")]
    Matcher(String),
    /// A command or a prompt is too long.
    #[error("`{0}` has more than {MAX_LINE} bytes")]
    TooLong(&'static str),
    /// There are more hooks than there can be.
    #[error("there are more than {MAX_HOOKS} hooks")]
    TooMany,
}

/// One hook.
#[derive(Clone, Debug)]
pub(super) struct Hook {
    pub(super) event: HookEvent,
    pub(super) matcher: Matcher,
    pub(super) handler: Handler,
    pub(super) timeout: Duration,
    pub(super) once: bool,
    /// What tells it from others of its origin, the same whenever it is read.
    pub(super) key: String,
    /// The same as threads have it that an earlier version wrote.
    pub(super) earlier_key: String,
}

/// What a hook does.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Handler {
    /// Runs a command.
    Command(String),
    /// Puts a text into the next model call.
    Prompt(String),
    /// Asks an agent.
    Agent { name: Option<String>, prompt: String },
}

impl Handler {
    /// What tells a hook from others of its origin. Threads store it: its bytes are those of this JSON, version 2, and
    /// stay as they are.
    fn key(&self, event: HookEvent, matcher: &str) -> String {
        let handler = match self {
            Self::Command(line) => json!(["command", line]),
            Self::Prompt(text) => json!(["prompt", text]),
            Self::Agent { name, prompt } => json!(["agent", name, prompt]),
        };
        key_of(&json!([2, event.to_string(), matcher, handler]).to_string())
    }
}

impl HookSet {
    /// The hooks of a configuration: events, each with a list of groups of a `matcher` and `hooks`.
    ///
    /// # Errors
    ///
    /// The first thing that is wrong with it.
    pub fn parse(value: &Value) -> Result<Self, HookConfigError> {
        let (hooks, problems) = read(value);
        problems.into_iter().next().map_or(Ok(hooks), Err)
    }

    /// The hooks of a skill, as its frontmatter has them, and what is wrong with the others.
    pub fn of_skill(value: &prowess_catalog::yaml::Value) -> (Self, Vec<HookConfigError>) {
        read(&json(value))
    }

    /// How many there are.
    pub fn len(&self) -> usize {
        self.0.len()
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }
}

/// Reads hooks: those that can be read, and what is wrong with the others.
fn read(value: &Value) -> (HookSet, Vec<HookConfigError>) {
    let (mut hooks, mut problems) = (HookSet::default(), Vec::new());
    let Some(events) = value.as_object() else {
        problems.push(wrong("hooks", HookProblem::Form("an object of events")));
        return (hooks, problems);
    };
    for (name, groups) in events {
        let Some(event) = HookEvent::named(name) else {
            problems.push(wrong(&shown(name), HookProblem::Event));
            continue;
        };
        let Some(groups) = groups.as_array() else {
            problems.push(wrong(name, HookProblem::Form("a list of groups")));
            continue;
        };
        for (number, group) in groups.iter().enumerate() {
            let place = format!("{event}[{number}]");
            match read_group(event, &place, group, &mut hooks, &mut problems) {
                Ok(()) => {}
                Err(HookProblem::TooMany) => {
                    problems.push(wrong(&place, HookProblem::TooMany));
                    return (hooks, problems);
                }
                Err(problem) => problems.push(wrong(&place, problem)),
            }
        }
    }
    (hooks, problems)
}

fn read_group(
    event: HookEvent,
    place: &str,
    group: &Value,
    hooks: &mut HookSet,
    problems: &mut Vec<HookConfigError>,
) -> Result<(), HookProblem> {
    let group = object(group, &["matcher", "hooks"])?;
    let text = text(group, "matcher")?.unwrap_or_default();
    let matcher = Matcher::parse(text).map_err(HookProblem::Matcher)?;
    let list = group.get("hooks").and_then(Value::as_array);
    for (number, hook) in list.ok_or(HookProblem::Form("a list `hooks`"))?.iter().enumerate() {
        if hooks.0.len() + problems.len() >= MAX_HOOKS {
            return Err(HookProblem::TooMany);
        }
        let read = read_hook(hook).map(|(handler, timeout, once)| {
            let key = handler.key(event, text);
            let earlier_key = key_of(&format!("{event}\0{text}\0{handler:?}"));
            Hook { event, matcher: matcher.clone(), handler, timeout, once, key, earlier_key }
        });
        match read {
            Ok(hook) => hooks.0.push(hook),
            Err(problem) => problems.push(wrong(&format!("{place}.hooks[{number}]"), problem)),
        }
    }
    Ok(())
}

fn read_hook(hook: &Value) -> Result<(Handler, Duration, bool), HookProblem> {
    let hook = object(hook, &KEYS)?;
    let line = |name: &'static str| match text(hook, name)? {
        Some(line) if line.len() > MAX_LINE => Err(HookProblem::TooLong(name)),
        Some(line) if !line.trim().is_empty() => Ok(line.to_owned()),
        Some(_) | None if name == "command" => Err(HookProblem::Form("a `command`")),
        Some(_) | None => Err(HookProblem::Form("a `prompt`")),
    };
    let handler = match text(hook, "type")?.ok_or(HookProblem::Form("a `type`"))? {
        "command" => Handler::Command(line("command")?),
        "prompt" => Handler::Prompt(line("prompt")?),
        "agent" => Handler::Agent { name: text(hook, "agent")?.map(str::to_owned), prompt: line("prompt")? },
        other => return Err(HookProblem::Handler(shown(other))),
    };
    // In frontmatter every scalar is a text.
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
            timeout.clamp(MIN_TIMEOUT, MAX_HOOK_TIMEOUT)
        }
        Some(_) => return Err(HookProblem::Form("a `timeout` in seconds")),
    };
    Ok((handler, timeout, once))
}

fn object<'a>(value: &'a Value, keys: &[&str]) -> Result<&'a Map<String, Value>, HookProblem> {
    let object = value.as_object().ok_or(HookProblem::Form("an object"))?;
    match object.keys().find(|key| !keys.contains(&key.as_str())) {
        Some(unknown) => Err(HookProblem::Key(shown(unknown))),
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

fn wrong(place: &str, problem: HookProblem) -> HookConfigError {
    HookConfigError { place: place.to_owned(), problem }
}

/// Somebody else's word in a message.
fn shown(text: &str) -> String {
    text.chars().filter(|c| !c.is_control()).take(64).collect()
}

/// A short name that only this text has.
fn key_of(text: &str) -> String {
    prowess_base::hex::encode(&Hash::hash(text.as_bytes())[..12])
}

fn json(value: &prowess_catalog::yaml::Value) -> Value {
    match value {
        prowess_catalog::yaml::Value::Text(text) => Value::String(text.clone()),
        prowess_catalog::yaml::Value::Null => Value::Null,
        prowess_catalog::yaml::Value::List(items) => items.iter().map(json).collect(),
        prowess_catalog::yaml::Value::Map(entries) => {
            entries.iter().map(|(key, value)| (key.clone(), json(value))).collect()
        }
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::needless_pass_by_value, reason = "`json!` is given as it is written")]

    use proptest::prelude::*;

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
                with("command", json!("x".repeat(MAX_LINE + 1))),
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
            assert!(refused.starts_with("Stop[0]: the matcher is refused: "), "{refused}");
        }
        let hooks = HookSet::parse(&one(json!({"type": "command", "command": "x", "timeout": 1e300})));
        assert_eq!(hooks.unwrap_or_default().0[0].timeout, MAX_HOOK_TIMEOUT);
    }

    #[test]
    fn a_skill_keeps_the_hooks_that_can_be_read() {
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
        fn whatever_is_written_is_read_or_told(value in values()) {
            let (hooks, problems) = read(&value);
            prop_assert_eq!(HookSet::parse(&value).is_ok(), problems.is_empty());
            prop_assert!(hooks.len() <= MAX_HOOKS);
            prop_assert!(hooks.0.iter().all(|hook| hook.timeout > Duration::ZERO && hook.timeout <= MAX_HOOK_TIMEOUT));
        }
    }
}
