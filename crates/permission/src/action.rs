//! The action that a question asks about, with everything that a person needs to decide.

mod copy;

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value, json};

pub use self::copy::{CopyAction, CopyPreview, ReplacedFile};

/// The action that a [`Question`](crate::Question) asks about, as a person needs to see it. Rules see only the question's
/// kind and subjects.
///
/// ```
/// use prowess_permission::{Action, Kind, Question};
///
/// let write = Action::WriteFile { content: "- tides\n".into() };
/// let question = Question::new(Kind::WRITE, "/notes.md").action(write);
/// assert_eq!(question.wording().details[0].text, "- tides\n");
/// ```
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "deed", rename_all = "snake_case")]
#[non_exhaustive]
pub enum Action {
    /// The kind and the subjects say everything.
    #[default]
    Plain,
    /// Load a skill of this machine or of a backend.
    LoadSkill {
        /// Its name.
        skill: String,
        /// Where its manifest is.
        location: String,
        /// The label of its root.
        origin: String,
        /// The digest of its manifest; `None` if the manifest cannot be read.
        digest: Option<String>,
        /// Its arguments.
        arguments: Option<String>,
    },
    /// Load a skill of an MCP server.
    LoadServerSkill {
        /// Its name in this catalog.
        skill: String,
        /// Our label for the server.
        server: String,
        /// Its address on the server.
        uri: String,
        /// The server's description of it.
        description: String,
        /// The number of its files.
        files: usize,
        /// The total size of its files, in bytes.
        bytes: u64,
        /// The digest of the server's list of its files.
        digest: String,
        /// Its arguments.
        arguments: Option<String>,
        /// The skills of other servers whose text the model has.
        #[serde(rename = "while")]
        server_skills: Vec<String>,
    },
    /// Ask an MCP server for a skill that it does not list.
    LookUpSkill {
        /// Our label for the server.
        server: String,
        /// The name of the skill.
        #[serde(rename = "asked")]
        name: String,
        /// The server skills whose text the model has.
        #[serde(rename = "while")]
        server_skills: Vec<String>,
    },
    /// Read documents of a loaded skill of an MCP server.
    ReadDocuments {
        /// The skill.
        skill: String,
        /// Our label for the server.
        server: String,
        /// Their paths; `None` for all documents.
        documents: Option<Vec<String>>,
        /// The skills of other servers whose text the model has.
        #[serde(rename = "while")]
        server_skills: Vec<String>,
    },
    /// Run a command of a skill.
    Run(Box<RunAction>),
    /// Type into a running command.
    #[serde(rename = "type")]
    TypeIntoRun {
        /// The `session_id` that `skill_exec` gave to the running command.
        #[serde(rename = "session")]
        run_id: String,
        /// The text to type.
        typed: String,
        /// The server skills because of which prowess asks each time.
        because_of: Vec<String>,
    },
    /// Let a command of a skill reach a host.
    #[serde(rename = "reach")]
    ReachHost {
        /// The skill.
        skill: String,
        /// The command.
        command: String,
        /// The host, as in a rule.
        host: String,
    },
    /// Copy a local file or directory into a run.
    #[serde(rename = "bring_in")]
    AddInput {
        /// The skill that gets it.
        skill: String,
        /// The command.
        command: String,
        /// Whether it is a directory.
        is_directory: bool,
        /// Files in it that usually hold secrets.
        with_secrets: Vec<String>,
    },
    /// Write a file.
    WriteFile {
        /// Its whole text.
        content: String,
    },
    /// Replace text in a file.
    EditFile {
        /// The text to replace.
        old_string: String,
        /// The new text.
        new_string: String,
        /// Whether to replace every occurrence.
        replace_all: bool,
        /// The difference that the edit makes in the present file, as a unified diff, if the person may see it.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        difference: Option<String>,
        /// The digest of the lines that the edit changes, if the person may see them. A reply is bound to these lines, but not
        /// to the lines around them: another edit of the file can change those. It is not bound to the difference either: two
        /// differences between the same texts need not be the same.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        lines: Option<String>,
    },
    /// Copy a file.
    CopyFile(Box<CopyAction>),
    /// Run a command line in the backend that holds the files.
    Execute {
        /// The command line.
        command: String,
        /// The server skills because of which prowess asks each time.
        because_of: Vec<String>,
    },
    /// Call a tool.
    CallTool {
        /// Its name.
        tool: String,
        /// Its arguments, as JSON.
        arguments: String,
    },
    /// Call a tool of an MCP server.
    CallServerTool {
        /// Our label for the server.
        server: String,
        /// The server's name for the tool.
        tool: String,
        /// The server's description of the tool.
        description: String,
        /// The arguments of the call.
        arguments: Map<String, Value>,
        /// The server skills because of which prowess asks each time.
        because_of: Vec<String>,
    },
    /// Something else. The caller writes the text.
    Other {
        /// One line that says what happens.
        title: String,
        /// Named details for the person.
        #[serde(default)]
        details: BTreeMap<String, String>,
    },
}

/// A command of a skill, with everything that affects what it does.
///
/// The request type of the workspace crate is not used here, for two reasons. Questions are stored, so the form of this
/// type must never change. And a program can store and show questions about runs without the workspace crate.
///
/// ```
/// use prowess_permission::action::RunAction;
/// use prowess_permission::Action;
///
/// let run = RunAction { skill: "kit".into(), command: "make".into(), ..RunAction::default() };
/// assert_eq!(Action::from(run.clone()), Action::Run(Box::new(run)));
/// ```
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct RunAction {
    /// The skill.
    pub skill: String,
    /// The command line.
    pub command: String,
    /// Its working directory; `None` for the skill's own directory.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub cwd: Option<String>,
    /// Its environment variables.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub env: BTreeMap<String, String>,
    /// The text for its standard input.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub stdin: Option<String>,
    /// Its inputs.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub inputs: Vec<RunActionInput>,
    /// Patterns of the files that it returns or saves.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub output_files: Vec<String>,
    /// Which files to collect, and how, as JSON.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub outputs: Option<String>,
    /// The hosts that it wants to reach.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub network: Vec<String>,
    /// Its time limit, in seconds.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub timeout: Option<u64>,
    /// Whether to save files as artifacts.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub save_as_artifacts: bool,
    /// Whether the answer leaves out the contents of artifacts.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub omit_inline_content: bool,
    /// The prefix of the names of artifacts.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub artifact_prefix: Option<String>,
    /// How the model can type into it while it runs; `None` if it cannot.
    #[serde(rename = "talk", skip_serializing_if = "Option::is_none")]
    pub channel: Option<Channel>,
    /// The server skills because of which prowess asks each time.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub because_of: Vec<String>,
    /// The local files and directories that it can read, as real paths. Directories end with `/`.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub given: Vec<String>,
    /// What is left out of these directories, as real paths.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub left_out: Vec<String>,
    /// The directories of the project that it may write, by their real paths.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub writable: Vec<String>,
    /// The real paths of its inputs and of its working directory, by their paths in this request, where they differ. Only for
    /// the person: no approval is bound to them.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub real_paths: BTreeMap<String, String>,
}

/// An input of a run.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct RunActionInput {
    /// Where it comes from.
    pub from: String,
    /// Where it goes; `None` for the default place.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub to: Option<String>,
    /// Whether the run gets a link instead of a copy.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub is_link: bool,
}

/// How a model types into a running command.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Channel {
    /// Through its standard input.
    Pipe,
    /// Through a terminal.
    Terminal,
}

impl From<RunAction> for Action {
    fn from(run: RunAction) -> Self {
        Self::Run(Box::new(run))
    }
}

impl Action {
    /// The action as JSON for a [`Fingerprint`](crate::Fingerprint). This form must never change. Except for runs, it is
    /// also the form of version 1.
    pub(crate) fn canonical(&self) -> Value {
        match self {
            Self::Plain => Value::Null,
            Self::LoadSkill { digest: None, .. } => Value::Null,
            Self::ReadDocuments { skill, server, documents, .. } => {
                let documents = documents.as_ref().map_or_else(|| json!("all"), |paths| json!(paths));
                json!({"skill": skill, "server": server, "documents": documents})
            }
            Self::TypeIntoRun { run_id, typed, because_of } => {
                json!({"session": run_id, "typed": typed, "asked_each_time_because_of": because_of})
            }
            Self::AddInput { skill, command, with_secrets, .. } => {
                let mut all = json!({"skill": skill, "command": command});
                if !with_secrets.is_empty() {
                    all["with_secrets"] = json!(with_secrets);
                }
                all
            }
            Self::CopyFile(copy) => copy.canonical(),
            Self::EditFile { old_string, new_string, replace_all, lines, .. } => {
                let mut all =
                    json!({"old_string": old_string, "new_string": new_string, "replace_all": replace_all});
                if let Some(lines) = lines {
                    all["lines"] = json!(lines);
                }
                all
            }
            Self::Execute { because_of, .. } if because_of.is_empty() => Value::Null,
            Self::Execute { command, because_of } => {
                json!({"command": command, "asked_each_time_because_of": because_of})
            }
            Self::CallServerTool { server, description, arguments, because_of, .. } => {
                let mut all = json!({"server": server, "description": description, "arguments": arguments});
                if !because_of.is_empty() {
                    all["asked_each_time_because_of"] = json!(because_of);
                }
                all
            }
            Self::Other { details, .. } => json!(details),
            Self::LoadSkill { .. }
            | Self::LoadServerSkill { .. }
            | Self::LookUpSkill { .. }
            | Self::Run(_)
            | Self::CallTool { .. }
            | Self::ReachHost { .. }
            | Self::WriteFile { .. } => {
                let mut all = serde_json::to_value(self).unwrap_or_default();
                if let Some(all) = all.as_object_mut() {
                    all.remove("deed");
                    all.remove("real_paths");
                }
                all
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Kind, Question};

    #[test]
    fn a_reply_to_an_edit_counts_for_the_lines_that_change() {
        let fingerprint = |difference: Option<&str>, lines: Option<&str>| {
            let edit = Action::EditFile {
                old_string: "a".to_owned(),
                new_string: "b".to_owned(),
                replace_all: false,
                difference: difference.map(str::to_owned),
                lines: lines.map(str::to_owned),
            };
            Question::new(Kind::WRITE, "/a.md").action(edit).fingerprint()
        };
        let shown = fingerprint(Some("@@ -1 +1 @@\n x\n-a\n+b\n"), Some("aa"));
        assert_eq!(
            shown,
            fingerprint(Some("@@ -7 +9 @@\n y\n-a\n+b\n"), Some("aa")),
            "another edit moved it"
        );
        assert_eq!(shown, fingerprint(None, Some("aa")), "comparing took too long");
        assert_ne!(shown, fingerprint(None, Some("bb")), "other lines");
        assert_ne!(shown, fingerprint(None, None));
    }
}
