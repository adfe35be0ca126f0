//! The events of hooks, and the JSON that a hook reads.

use std::fmt;

use serde_json::{Map, Value, json};

use crate::id::ThreadId;
use crate::message::ToolCall;

macro_rules! events {
    ($($(#[$doc:meta])* $name:ident,)*) => {
        /// An event that hooks can be called for.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
        #[non_exhaustive]
        pub enum HookEvent {
            $($(#[$doc])* $name,)*
        }

        impl HookEvent {
            /// All events.
            pub const ALL: &[Self] = &[$(Self::$name,)*];

            /// The event's name in configurations.
            pub fn name(self) -> &'static str {
                match self {
                    $(Self::$name => stringify!($name),)*
                }
            }
        }
    };
}

events! {
    /// A process opened the thread, and its first turn begins.
    SessionStart,
    /// A person said something.
    UserPromptSubmit,
    /// A tool call is about to be made.
    PreToolUse,
    /// A tool call was made.
    PostToolUse,
    /// A tool call was made, and its answer is an error.
    PostToolUseFailure,
    /// A person is asked about a tool call.
    PermissionRequest,
    /// A summary is about to replace messages.
    PreCompact,
    /// A summary has replaced messages.
    PostCompact,
    /// A sub-agent is about to start.
    SubagentStart,
    /// A sub-agent has ended.
    SubagentStop,
    /// A skill was loaded.
    SkillLoad,
    /// A skill was unloaded.
    SkillUnload,
    /// The turn is about to end.
    Stop,
    /// The process is done with the thread.
    SessionEnd,
}

impl HookEvent {
    /// The event of this name.
    pub fn named(name: &str) -> Option<Self> {
        Self::ALL.iter().copied().find(|event| event.name() == name)
    }

    /// Whether a hook without a verdict blocks the event, because it may be a guard.
    pub(super) fn fails_closed(self) -> bool {
        matches!(self, Self::PreToolUse | Self::PermissionRequest)
    }

    /// Whether the model reads the output of a hook, even if it is not JSON.
    pub(super) fn shows_output(self) -> bool {
        matches!(self, Self::SessionStart | Self::UserPromptSubmit)
    }
}

impl fmt::Display for HookEvent {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

/// An event with its data.
#[derive(Clone, Copy, Debug)]
pub(super) enum EventData<'a> {
    SessionStart { source: &'a str },
    UserPromptSubmit { prompt: &'a str },
    PreToolUse { call: &'a ToolCall, input: &'a Value },
    PostToolUse { call: &'a ToolCall, input: &'a Value, response: &'a str },
    PostToolUseFailure { call: &'a ToolCall, input: &'a Value, error: &'a str },
    PermissionRequest { call: &'a ToolCall, input: &'a Value },
    PreCompact { messages: usize },
    PostCompact { messages: usize },
    SubagentStart { agent: &'a str, task: &'a str },
    SubagentStop { agent: &'a str, answer: &'a str },
    SkillLoad { skill: &'a str },
    SkillUnload { skill: &'a str },
    Stop { is_active: bool, response: &'a str },
    SessionEnd { reason: &'a str },
}

impl EventData<'_> {
    pub(super) fn event(&self) -> HookEvent {
        match self {
            Self::SessionStart { .. } => HookEvent::SessionStart,
            Self::UserPromptSubmit { .. } => HookEvent::UserPromptSubmit,
            Self::PreToolUse { .. } => HookEvent::PreToolUse,
            Self::PostToolUse { .. } => HookEvent::PostToolUse,
            Self::PostToolUseFailure { .. } => HookEvent::PostToolUseFailure,
            Self::PermissionRequest { .. } => HookEvent::PermissionRequest,
            Self::PreCompact { .. } => HookEvent::PreCompact,
            Self::PostCompact { .. } => HookEvent::PostCompact,
            Self::SubagentStart { .. } => HookEvent::SubagentStart,
            Self::SubagentStop { .. } => HookEvent::SubagentStop,
            Self::SkillLoad { .. } => HookEvent::SkillLoad,
            Self::SkillUnload { .. } => HookEvent::SkillUnload,
            Self::Stop { .. } => HookEvent::Stop,
            Self::SessionEnd { .. } => HookEvent::SessionEnd,
        }
    }

    /// What a matcher is compared with, such as the tool's name. `None` if the event has no such subject.
    pub(super) fn subject(&self) -> Option<&str> {
        match self {
            Self::PreToolUse { call, .. }
            | Self::PostToolUse { call, .. }
            | Self::PostToolUseFailure { call, .. }
            | Self::PermissionRequest { call, .. } => Some(&call.name),
            Self::SessionStart { source } => Some(source),
            Self::PreCompact { .. } | Self::PostCompact { .. } => Some(AUTO),
            Self::SubagentStart { agent, .. } | Self::SubagentStop { agent, .. } => Some(agent),
            Self::SkillLoad { skill } | Self::SkillUnload { skill } => Some(skill),
            Self::SessionEnd { reason } => Some(reason),
            Self::UserPromptSubmit { .. } | Self::Stop { .. } => None,
        }
    }

    /// Whether it is about a tool, which can have aliases.
    pub(super) fn is_about_tool(&self) -> bool {
        matches!(
            self.event(),
            HookEvent::PreToolUse
                | HookEvent::PostToolUse
                | HookEvent::PostToolUseFailure
                | HookEvent::PermissionRequest
        )
    }

    /// The JSON that a hook reads from standard input.
    pub(super) fn input(&self, thread: &ThreadId) -> Value {
        let fields = match *self {
            Self::SessionStart { source } => json!({"source": source}),
            Self::UserPromptSubmit { prompt } => json!({"prompt": prompt}),
            Self::PreToolUse { call, input } | Self::PermissionRequest { call, input } => tool(call, input),
            Self::PostToolUse { call, input, response } => with(tool(call, input), "tool_response", response),
            Self::PostToolUseFailure { call, input, error } => with(tool(call, input), "error", error),
            Self::PreCompact { messages } | Self::PostCompact { messages } => {
                json!({"trigger": AUTO, "messages": messages})
            }
            Self::SubagentStart { agent, task } => json!({"agent_type": agent, "prompt": task}),
            Self::SubagentStop { agent, answer } => {
                json!({"agent_type": agent, "last_assistant_message": answer})
            }
            Self::SkillLoad { skill } | Self::SkillUnload { skill } => json!({"skill": skill}),
            Self::Stop { is_active, response } => {
                json!({"stop_hook_active": is_active, "last_assistant_message": response})
            }
            Self::SessionEnd { reason } => json!({"reason": reason}),
        };
        let mut input = Map::new();
        input.insert("session_id".to_owned(), thread.as_str().into());
        input.insert("hook_event_name".to_owned(), self.event().name().into());
        if let Value::Object(fields) = fields {
            input.extend(fields);
        }
        Value::Object(input)
    }
}

/// The trigger of every compaction. prowess does not tell hooks whether a person asked for it.
const AUTO: &str = "auto";

fn tool(call: &ToolCall, input: &Value) -> Value {
    json!({"tool_name": call.name, "tool_input": input, "tool_use_id": call.id})
}

fn with(mut fields: Value, key: &str, text: &str) -> Value {
    fields[key] = text.into();
    fields
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use super::*;

    #[test]
    fn every_event_has_its_name_and_its_json() {
        let thread: ThreadId = "t1".parse().unwrap_or_else(|_| ThreadId::new());
        let call = ToolCall { id: "c1".into(), name: "ls".to_owned(), arguments: String::new() };
        let input = &json!({"path": "/"});
        let call = &call;
        let all = [
            EventData::SessionStart { source: "startup" },
            EventData::UserPromptSubmit { prompt: "hello" },
            EventData::PreToolUse { call, input },
            EventData::PostToolUse { call, input, response: "a b" },
            EventData::PostToolUseFailure { call, input, error: "Error: no" },
            EventData::PermissionRequest { call, input },
            EventData::PreCompact { messages: 3 },
            EventData::PostCompact { messages: 3 },
            EventData::SubagentStart { agent: "poet", task: "rhyme" },
            EventData::SubagentStop { agent: "poet", answer: "time" },
            EventData::SkillLoad { skill: "pdf" },
            EventData::SkillUnload { skill: "pdf" },
            EventData::Stop { is_active: false, response: "Done." },
            EventData::SessionEnd { reason: "close" },
        ];
        assert_eq!(all.map(|event_data| event_data.event()), HookEvent::ALL);
        assert!(HookEvent::ALL.iter().all(|event| HookEvent::named(event.name()) == Some(*event)));
        // In the order of the keys, whatever features the build has.
        let sorted =
            |value: Value| -> BTreeMap<String, Value> { serde_json::from_value(value).unwrap_or_default() };
        let line = |event_data: &EventData<'_>| json!(sorted(event_data.input(&thread))).to_string();
        let lines: Vec<String> = all.iter().map(line).collect();
        insta::assert_snapshot!(lines.join("\n"), @r#"
        {"hook_event_name":"SessionStart","session_id":"t1","source":"startup"}
        {"hook_event_name":"UserPromptSubmit","prompt":"hello","session_id":"t1"}
        {"hook_event_name":"PreToolUse","session_id":"t1","tool_input":{"path":"/"},"tool_name":"ls","tool_use_id":"c1"}
        {"hook_event_name":"PostToolUse","session_id":"t1","tool_input":{"path":"/"},"tool_name":"ls","tool_response":"a b","tool_use_id":"c1"}
        {"error":"Error: no","hook_event_name":"PostToolUseFailure","session_id":"t1","tool_input":{"path":"/"},"tool_name":"ls","tool_use_id":"c1"}
        {"hook_event_name":"PermissionRequest","session_id":"t1","tool_input":{"path":"/"},"tool_name":"ls","tool_use_id":"c1"}
        {"hook_event_name":"PreCompact","messages":3,"session_id":"t1","trigger":"auto"}
        {"hook_event_name":"PostCompact","messages":3,"session_id":"t1","trigger":"auto"}
        {"agent_type":"poet","hook_event_name":"SubagentStart","prompt":"rhyme","session_id":"t1"}
        {"agent_type":"poet","hook_event_name":"SubagentStop","last_assistant_message":"time","session_id":"t1"}
        {"hook_event_name":"SkillLoad","session_id":"t1","skill":"pdf"}
        {"hook_event_name":"SkillUnload","session_id":"t1","skill":"pdf"}
        {"hook_event_name":"Stop","last_assistant_message":"Done.","session_id":"t1","stop_hook_active":false}
        {"hook_event_name":"SessionEnd","reason":"close","session_id":"t1"}
        "#);
    }
}
