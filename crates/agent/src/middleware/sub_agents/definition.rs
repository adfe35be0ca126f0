//! Definitions of sub-agents in Markdown files, as prowess, Claude Code and opencode have them.

use std::fmt;

use prowess_catalog::frontmatter::{Frontmatter, FrontmatterError};
use prowess_catalog::yaml::Value;

use super::GENERAL_AGENT;
use crate::tool::ToolSelection;

/// The largest file that defines a sub-agent, in bytes. The model reads its text in every request of the sub-agent.
pub const MAX_DEFINITION_BYTES: usize = 64 << 10;
/// The most characters of a name.
const MAX_NAME_CHARS: usize = 64;

/// What a sub-agent is for, and what it may use.
///
/// ```
/// use prowess_agent::middleware::AgentDefinition;
/// use prowess_agent::tool::ToolKind;
///
/// let file = b"---\ndescription: Reviews changes.\ntools: Read, Grep\nmodel: haiku\n---\nYou review changes.\n";
/// let reviewer = AgentDefinition::parse(file, "reviewer.md")?.unwrap();
/// assert_eq!((reviewer.name.as_str(), reviewer.model.as_deref()), ("reviewer", Some("haiku")));
/// assert!(reviewer.tools.has_kind(ToolKind::Read) && !reviewer.tools.has_kind(ToolKind::Write));
/// # Ok::<(), prowess_agent::middleware::DefinitionError>(())
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct AgentDefinition {
    /// Its name.
    pub name: AgentName,
    /// What it is for. The agent that gives it tasks reads this.
    pub description: String,
    /// What it is told about its role.
    pub prompt: String,
    /// Its tools.
    pub tools: ToolSelection,
    /// The model that it wants. `None` for the model of its parent.
    pub model: Option<String>,
}

impl AgentDefinition {
    /// A sub-agent with all tools and the model of its parent.
    pub fn new(name: AgentName, description: impl Into<String>, prompt: impl Into<String>) -> Self {
        let (description, prompt) = (description.into(), prompt.into());
        Self { name, description, prompt, tools: ToolSelection::default(), model: None }
    }

    /// Parses a file. The file's name is the default for `name`.
    ///
    /// Returns `None` if the file defines no sub-agent: opencode's files can also define agents that only people start
    /// (`mode: primary`), and can be switched off.
    ///
    /// # Errors
    ///
    /// The file cannot be read, a field that is needed is missing, or a field that restricts the sub-agent has a form that
    /// is not known.
    pub fn parse(source: &[u8], file_name: &str) -> Result<Option<Self>, DefinitionError> {
        if source.len() > MAX_DEFINITION_BYTES {
            return Err(DefinitionError::TooLong);
        }
        let file = Frontmatter::parse(source)?;
        let is_on = |field: &str| file.get(field).and_then(Value::as_text) == Some("true");
        let is_primary = file.get("mode").and_then(Value::as_text) == Some("primary");
        if is_primary || is_on("disable") || is_on("disabled") {
            return Ok(None);
        }
        let text = |field: &str| {
            let text = file.get(field).and_then(Value::as_text).map(str::trim);
            text.filter(|text| !text.is_empty())
        };
        let stem = file_name.strip_suffix(".md").unwrap_or(file_name);
        let name = AgentName::parse(text("name").unwrap_or(stem))?;
        let description = text("description").ok_or(DefinitionError::NoDescription)?;
        let mut definition = Self::new(name, description, file.body.trim());
        definition.model = text("model").filter(|model| *model != "inherit").map(str::to_owned);
        definition.tools = tools(&file)?;
        Ok(Some(definition))
    }
}

/// The tools that the fields `tools`, `disallowedTools` and `permission` leave.
fn tools(file: &Frontmatter<'_>) -> Result<ToolSelection, DefinitionError> {
    let tools = match file.get("tools") {
        None | Some(Value::Null) => ToolSelection::default(),
        Some(Value::Map(switches)) => switched(switches)?,
        Some(value) => ToolSelection::only(names(value).ok_or(DefinitionError::Field("tools"))?),
    };
    let tools = match file.get("disallowedTools") {
        None | Some(Value::Null) => tools,
        Some(value) => tools.without(names(value).ok_or(DefinitionError::Field("disallowedTools"))?),
    };
    Ok(match file.get("permission") {
        None | Some(Value::Null) => tools,
        Some(Value::Map(rules)) => {
            let denied = rules.iter().filter(|(_, rule)| denies(rule)).map(|(tool, _)| tool.as_str());
            // In opencode, `edit` stands for everything that changes files.
            let denied: Vec<&str> = denied.collect();
            let writes = denied.contains(&"edit").then_some("write");
            tools.without(denied.iter().copied().chain(writes))
        }
        Some(Value::Text(rule)) if rule != "deny" => tools,
        Some(_) => tools.without(["*"]),
    })
}

/// Names in a list, or in a text with commas or blanks between them.
fn names(value: &Value) -> Option<Vec<&str>> {
    match value {
        // A list or a map that is not closed was repaired into a text.
        Value::Text(text) => (!text.starts_with(['[', '{'])).then(|| separate(text)),
        Value::List(items) => items.iter().map(Value::as_text).collect(),
        Value::Null | Value::Map(_) => None,
    }
}

/// The names in a text. A scope in brackets belongs to its name.
fn separate(text: &str) -> Vec<&str> {
    let mut depth = 0_usize;
    let split = text.split(move |c: char| {
        match c {
            '(' => depth += 1,
            ')' => depth = depth.saturating_sub(1),
            _ => {}
        }
        depth == 0 && (c == ',' || c.is_whitespace())
    });
    split.filter(|name| !name.is_empty()).collect()
}

/// opencode's tools: each is on unless it is switched off, and `*` stands for all.
fn switched(switches: &[(String, Value)]) -> Result<ToolSelection, DefinitionError> {
    let (mut on, mut off, mut all) = (Vec::new(), Vec::new(), true);
    for (tool, value) in switches {
        match (value.as_text(), tool.as_str()) {
            (Some("false"), "*") => all = false,
            (Some("true"), "*") => {}
            (Some("true"), tool) => on.push(tool),
            (Some("false"), tool) => off.push(tool),
            _ => return Err(DefinitionError::Field("tools")),
        }
    }
    let tools = if all { ToolSelection::default() } else { ToolSelection::only(on) };
    Ok(tools.without(off))
}

/// Whether a rule denies something. One that denies only some calls cannot be held, so the tool is left out.
fn denies(rule: &Value) -> bool {
    match rule {
        Value::Text(rule) => rule == "deny",
        Value::Map(rules) => rules.iter().any(|(_, rule)| denies(rule)),
        Value::Null | Value::List(_) => true,
    }
}

/// The name of a sub-agent: ASCII letters, digits, `-`, `_` and `.`. Letter case does not matter, so all are lowercase.
///
/// ```
/// use prowess_agent::middleware::AgentName;
///
/// assert_eq!(AgentName::parse("Frontend Developer")?.as_str(), "frontend-developer");
/// assert!(AgentName::parse("rеviewer").is_err(), "the second letter is Cyrillic");
/// # Ok::<(), prowess_agent::middleware::AgentNameError>(())
/// ```
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct AgentName(String);

impl AgentName {
    /// Parses a name.
    ///
    /// # Errors
    ///
    /// It has other characters, is too long, or is the name of the built-in sub-agent.
    pub fn parse(text: &str) -> Result<Self, AgentNameError> {
        let name = text.trim().to_ascii_lowercase().replace(' ', "-");
        let is_known = |c: char| c.is_ascii_alphanumeric() || matches!(c, '-' | '_' | '.');
        if !(1..=MAX_NAME_CHARS).contains(&name.chars().count()) {
            return Err(AgentNameError::Length);
        }
        if !name.chars().all(is_known) || !name.starts_with(|c: char| c.is_ascii_alphanumeric()) {
            return Err(AgentNameError::Characters);
        }
        if name == GENERAL_AGENT {
            return Err(AgentNameError::BuiltIn);
        }
        Ok(Self(name))
    }

    /// The name.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl fmt::Display for AgentName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl std::str::FromStr for AgentName {
    type Err = AgentNameError;

    fn from_str(text: &str) -> Result<Self, AgentNameError> {
        Self::parse(text)
    }
}

/// Why a text cannot be the name of a sub-agent.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum AgentNameError {
    /// It is empty or too long.
    #[error("the name of a sub-agent has 1 to {MAX_NAME_CHARS} characters")]
    Length,
    /// It has characters that could imitate another name.
    #[error("the name of a sub-agent has only ASCII letters, digits, `-`, `_` and `.`")]
    Characters,
    /// It is the name of the built-in sub-agent.
    #[error("`{GENERAL_AGENT}` is the built-in sub-agent")]
    BuiltIn,
}

/// Why a file defines no sub-agent.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum DefinitionError {
    /// It is too long.
    #[error("it is longer than {MAX_DEFINITION_BYTES} bytes")]
    TooLong,
    /// Its frontmatter cannot be read.
    #[error(transparent)]
    Frontmatter(#[from] FrontmatterError),
    /// Its name cannot be used.
    #[error(transparent)]
    Name(#[from] AgentNameError),
    /// It does not say what the sub-agent is for.
    #[error("it has no `description`")]
    NoDescription,
    /// A field has an unknown form. What it restricts is not known, so the file is not used.
    #[error("its field `{0}` has an unknown form")]
    Field(&'static str),
}

#[cfg(test)]
mod tests {
    use prowess_skills::SkillToolKind;

    use super::*;
    use crate::tool::ToolKind;

    const RUN: ToolKind = ToolKind::Skill(SkillToolKind::Run);

    fn parse(fields: &str) -> Result<Option<AgentDefinition>, DefinitionError> {
        let file = format!("---\ndescription: Reviews.\n{fields}---\n\nBe strict.\n");
        AgentDefinition::parse(file.as_bytes(), "reviewer.md")
    }

    /// Whether it may read, write, edit and run. Nothing that may not write may copy.
    fn may(fields: &str) -> [bool; 4] {
        let tools = parse(fields).unwrap().unwrap().tools;
        assert_eq!(tools.has_kind(ToolKind::Copy), tools.has_kind(ToolKind::Write), "{fields}");
        [ToolKind::Read, ToolKind::Write, ToolKind::Edit, RUN].map(|kind| tools.has_kind(kind))
    }

    #[test]
    fn files_of_claude_code() {
        let file = "name: code-reviewer\ntools: Read, Grep, Glob\nmodel: sonnet\ncolor: red\nmaxTurns: 5\n";
        let reviewer = parse(file).unwrap().unwrap();
        assert_eq!((reviewer.name.as_str(), reviewer.prompt.as_str()), ("code-reviewer", "Be strict."));
        assert_eq!(reviewer.model.as_deref(), Some("sonnet"));
        assert_eq!(may(file), [true, false, false, false]);
        assert_eq!(may("tools:\n  - Read\n  - Bash\n"), [true, false, false, true]);
        assert_eq!(may("tools: Read, Bash(git add:*, git commit:*)\n"), [true, false, false, false]);
        assert_eq!(may("disallowedTools: Write, Edit\n"), [true, false, false, true]);
        assert_eq!(may("tools:\nmodel: inherit\n"), [true, true, true, true]);
        assert_eq!(may("tools: []\n"), [false; 4]);
        assert_eq!(parse("model: inherit\n").unwrap().unwrap().model, None);
    }

    #[test]
    fn files_of_opencode() {
        assert_eq!(
            may("mode: subagent\ntools:\n  write: false\n  edit: false\n"),
            [true, false, false, true]
        );
        assert_eq!(may("tools:\n  \"*\": false\n  read: true\n"), [true, false, false, false]);
        assert_eq!(may("permission:\n  edit: deny\n  bash: ask\n"), [true, false, false, true]);
        assert_eq!(
            may("permission:\n  bash:\n    \"*\": ask\n    \"rm *\": deny\n"),
            [true, true, true, false]
        );
        assert_eq!(may("permission: deny\n"), [false; 4]);
        assert_eq!(parse("mode: primary\n").unwrap(), None);
        assert_eq!(parse("disable: true\n").unwrap(), None);
        assert_eq!(parse("").unwrap().unwrap().name.as_str(), "reviewer", "by the file's name");
    }

    #[test]
    fn a_restriction_that_is_not_understood_is_not_ignored() {
        assert_eq!(parse("tools:\n  read: sometimes\n"), Err(DefinitionError::Field("tools")));
        assert_eq!(parse("tools:\n  - [Read]\n"), Err(DefinitionError::Field("tools")));
        assert_eq!(
            parse("disallowedTools:\n  Write: true\n"),
            Err(DefinitionError::Field("disallowedTools"))
        );
        assert_eq!(parse("disallowedTools: [Write\n"), Err(DefinitionError::Field("disallowedTools")));
        assert_eq!(may("permission:\n  - bash\n"), [false; 4]);
    }

    #[test]
    fn hostile_files_are_refused() {
        let of = |file: &[u8]| AgentDefinition::parse(file, "a.md").unwrap_err().to_string();
        assert_eq!(of(&vec![b'a'; MAX_DEFINITION_BYTES + 1]), "it is longer than 65536 bytes");
        assert_eq!(of(b"no frontmatter"), "it has no frontmatter: its first line must be `---`");
        assert_eq!(of(b"---\nname: a\n---\n"), "it has no `description`");
        assert_eq!(of(b"\xff"), "it is not valid UTF-8");
        assert!(of(b"---\n\tdescription: x\n  - y: [\n---\n").starts_with("its frontmatter cannot be read"));
        for name in ["General-Purpose", "../x", "a/b", "r\u{435}viewer", "a\u{202e}b", "-x", &"x".repeat(65)]
        {
            assert!(parse(&format!("name: \"{name}\"\n")).is_err(), "{name}");
        }
    }
}
