//! What is to be done, with all that a person needs to judge it.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value, json};

/// What is to be done. The kind and the subjects of a [`Question`](crate::Question) say it to rules; this says it to a
/// person.
///
/// ```
/// use prowess_permission::{Action, Kind, Question};
///
/// let write = Action::WriteFile { content: "- tides\n".into() };
/// let question = Question::new(Kind::WRITE, "/notes.md").to(write);
/// assert_eq!(question.wording().details[0].text, "- tides\n");
/// ```
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "deed", rename_all = "snake_case")]
#[non_exhaustive]
pub enum Action {
    /// What the kind and the subjects say.
    #[default]
    Plain,
    /// A skill of this machine or of a backend is loaded.
    LoadSkill {
        /// Its name.
        skill: String,
        /// Where its document is.
        location: String,
        /// What its root is called.
        origin: String,
        /// The digest of its document; none when it cannot be read.
        digest: Option<String>,
        /// What it is given to work on.
        arguments: Option<String>,
    },
    /// A skill of an MCP server is loaded.
    LoadServerSkill {
        /// Its name here.
        skill: String,
        /// Our label for the server.
        server: String,
        /// Its address there.
        uri: String,
        /// What the server says that it does.
        description: String,
        /// How many files it has.
        files: usize,
        /// How many bytes they have in all.
        bytes: u64,
        /// The digest of all that the server says of its files.
        digest: String,
        /// What it is given to work on.
        arguments: Option<String>,
        /// The skills of other servers whose words the model has.
        #[serde(rename = "while")]
        at_work: Vec<String>,
    },
    /// An MCP server is asked for a skill that it does not list.
    LookUpSkill {
        /// Our label for the server.
        server: String,
        /// The name that it is asked for.
        asked: String,
        /// The skills of servers whose words the model has.
        #[serde(rename = "while")]
        at_work: Vec<String>,
    },
    /// Documents of a loaded skill of an MCP server are read.
    ReadDocuments {
        /// The skill.
        skill: String,
        /// Our label for the server.
        server: String,
        /// Which of them; all when there is no list.
        documents: Option<Vec<String>>,
        /// The skills of other servers whose words the model has.
        #[serde(rename = "while")]
        at_work: Vec<String>,
    },
    /// A command of a skill is run.
    Run(Box<RunAction>),
    /// Something is typed into a command that goes on.
    Type {
        /// The command's session.
        session: String,
        /// What is typed.
        typed: String,
        /// The skills of servers because of which it is asked each time.
        because_of: Vec<String>,
    },
    /// A command of a skill reaches a host.
    Reach {
        /// The skill.
        skill: String,
        /// The command.
        command: String,
        /// The host, as rules write it.
        host: String,
    },
    /// A file or directory of this machine comes into a run.
    BringIn {
        /// The skill that gets it.
        skill: String,
        /// The command.
        command: String,
        /// Whether it is a directory.
        is_directory: bool,
        /// Files in it that mostly have secrets.
        with_secrets: Vec<String>,
    },
    /// A file is written.
    WriteFile {
        /// All of its text.
        content: String,
    },
    /// A text in a file is replaced.
    EditFile {
        /// What is replaced.
        old_string: String,
        /// What takes its place.
        new_string: String,
        /// Whether it is replaced wherever it stands.
        replace_all: bool,
    },
    /// A command line is run where the files are.
    Execute {
        /// The command line.
        command: String,
        /// The skills of servers because of which it is asked each time.
        because_of: Vec<String>,
    },
    /// A tool is called.
    CallTool {
        /// Its name.
        tool: String,
        /// Its arguments, as JSON.
        arguments: String,
    },
    /// A tool of an MCP server is called.
    CallServerTool {
        /// Our label for the server.
        server: String,
        /// What the server calls the tool.
        tool: String,
        /// What the server says that it does.
        description: String,
        /// Its arguments.
        arguments: Map<String, Value>,
        /// The skills of servers because of which it is asked each time.
        because_of: Vec<String>,
    },
    /// Something else, in the words of whoever asks.
    Other {
        /// One line that says what.
        title: String,
        /// What else the person should see, by name.
        #[serde(default)]
        details: BTreeMap<String, String>,
    },
}

/// A command of a skill, and everything that gives it its meaning.
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
    /// The directory that it is run in, when it is not the skill's own.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub cwd: Option<String>,
    /// Variables that it is given.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub env: BTreeMap<String, String>,
    /// What it reads from its standard input.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub stdin: Option<String>,
    /// Files that are brought in.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub inputs: Vec<RunActionInput>,
    /// Which files are returned or kept, as patterns.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub output_files: Vec<String>,
    /// Which files are collected, and how, as JSON.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub outputs: Option<String>,
    /// Hosts that it asks for.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub network: Vec<String>,
    /// Seconds that it may take.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub timeout: Option<u64>,
    /// Whether files are kept as artifacts.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub save_as_artifacts: bool,
    /// Whether the contents of artifacts are left out of the answer.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub omit_inline_content: bool,
    /// What the names of artifacts begin with.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub artifact_prefix: Option<String>,
    /// How the model talks with it while it runs; none when it does not.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub talk: Option<Channel>,
    /// The skills of servers because of which it is asked each time.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub because_of: Vec<String>,
}

/// A file that is brought into a run.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct RunActionInput {
    /// Where it comes from.
    pub from: String,
    /// Where it goes, when that is not the usual place.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub to: Option<String>,
    /// Whether it is linked and not copied.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub is_link: bool,
}

/// How a command that goes on is talked with.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Channel {
    /// By its standard streams.
    Pipe,
    /// In a terminal.
    Terminal,
}

impl From<RunAction> for Action {
    fn from(run: RunAction) -> Self {
        Self::Run(Box::new(run))
    }
}

impl Action {
    /// All that a person is shown, in one form for ever: a [`Fingerprint`](crate::Fingerprint) is taken of it. What was
    /// asked by version 1 has the same, but for runs.
    pub(crate) fn canonical(&self) -> Value {
        match self {
            Self::Plain => Value::Null,
            Self::LoadSkill { digest: None, .. } => Value::Null,
            Self::ReadDocuments { skill, server, documents, .. } => {
                let documents = documents.as_ref().map_or_else(|| json!("all"), |paths| json!(paths));
                json!({"skill": skill, "server": server, "documents": documents})
            }
            Self::Type { session, typed, because_of } => {
                json!({"session": session, "typed": typed, "asked_each_time_because_of": because_of})
            }
            Self::BringIn { skill, command, with_secrets, .. } => {
                let mut all = json!({"skill": skill, "command": command});
                if !with_secrets.is_empty() {
                    all["with_secrets"] = json!(with_secrets);
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
            | Self::Reach { .. }
            | Self::WriteFile { .. }
            | Self::EditFile { .. } => {
                let mut all = serde_json::to_value(self).unwrap_or_default();
                if let Some(all) = all.as_object_mut() {
                    all.remove("deed");
                }
                all
            }
        }
    }
}
