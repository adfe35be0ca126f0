//! The table of a dialect: everything in which dialects differ, as data.

use prowess_catalog::overview::Activation;
use prowess_catalog::section::SectionTemplate;
use prowess_catalog::untrusted::code_text;
use serde_json::{Value, json};

use super::{Capabilities, LoadToolNames, LoadedForm, MAX_ENUM_NAMES, SkillToolKind, ToolSpec, arguments};
use crate::error::{SkillError, shorten};
use crate::framing::HEADING;
use crate::options::{Lifetime, Placement, Prompt, UnloadedText};
use crate::view::SkillView;

/// The table of a dialect.
pub(super) struct DialectTable {
    /// Its name in the configuration.
    pub(super) name: &'static str,
    pub(super) load_tools: LoadToolNames,
    /// The name of the argument for the skill in its own tools.
    pub(super) skill: &'static str,
    /// Its tools, except those that run commands: these have the same names in all dialects.
    pub(super) tools: &'static [ToolEntry],
    /// Its default capabilities.
    pub(super) capabilities: Capabilities,
    pub(super) placement: Placement,
    pub(super) lifetime: Lifetime,
    pub(super) form: LoadedForm,
    /// Whether loading a loaded skill again selects its documents.
    pub(super) reselects: bool,
    /// Whether a skill's text has a heading with its name and directory.
    pub(super) has_heading: bool,
    /// Whether the overview in the prompt marks loaded skills.
    pub(super) marks_loaded: bool,
    /// The message about a skill that does not exist: the texts before and after its name.
    pub(super) not_found: (&'static str, &'static str),
    /// The section of the system prompt with the overview, if there is one.
    pub(super) template: fn(Capabilities, Placement) -> Option<SectionTemplate>,
}

/// A tool of a dialect.
pub(super) struct ToolEntry {
    pub(super) name: &'static str,
    pub(super) signature: Signature,
    /// Makes its description for the model.
    pub(super) describe: fn(&ToolContext<'_>) -> String,
    /// The description of the argument for the skill, if its name is not enough.
    pub(super) skill: Option<&'static str>,
}

/// The signature of a tool: its parameters, from which its kind follows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Signature {
    /// Loads a skill.
    Load,
    /// Loads a skill with documents.
    LoadDocuments,
    /// Loads a skill with optional arguments.
    LoadMaybeArguments,
    /// Loads a skill with arguments.
    LoadArguments,
    Unload,
    Search,
    List,
    Select,
    #[cfg(feature = "run")]
    Run,
    #[cfg(feature = "run")]
    Start,
    #[cfg(feature = "run")]
    Write,
    #[cfg(feature = "run")]
    Poll,
    #[cfg(feature = "run")]
    End,
}

/// What the descriptions and schemas of tools depend on.
pub(super) struct ToolContext<'a> {
    pub(super) view: &'a SkillView,
    pub(super) capabilities: Capabilities,
    pub(super) placement: Placement,
    /// What the run tools say; `None` if there is no runner.
    pub(super) runs: Option<&'a RunToolInfo>,
}

/// What the descriptions of run tools say about hosts and limits.
#[cfg(feature = "run")]
pub(crate) struct RunToolInfo {
    /// The hosts that a command may ask for.
    pub(crate) hosts: Vec<String>,
    /// The directories of the project that a command may write, as it sees them.
    pub(crate) writable: Vec<String>,
    /// The default time limit, in seconds.
    pub(crate) timeout: u64,
}

/// Without the feature `run`, no tool runs commands.
#[cfg(not(feature = "run"))]
pub(crate) enum RunToolInfo {}

impl Signature {
    pub(super) fn kind(self) -> SkillToolKind {
        match self {
            Self::Load | Self::LoadDocuments | Self::LoadMaybeArguments | Self::LoadArguments => {
                SkillToolKind::Load
            }
            Self::Unload => SkillToolKind::Unload,
            Self::Search => SkillToolKind::Search,
            Self::List => SkillToolKind::ListDocuments,
            Self::Select => SkillToolKind::SelectDocuments,
            #[cfg(feature = "run")]
            Self::Run => SkillToolKind::Run,
            #[cfg(feature = "run")]
            Self::Start => SkillToolKind::Start,
            #[cfg(feature = "run")]
            Self::Write => SkillToolKind::Write,
            #[cfg(feature = "run")]
            Self::Poll => SkillToolKind::Poll,
            #[cfg(feature = "run")]
            Self::End => SkillToolKind::End,
        }
    }

    /// Whether a session has this tool.
    pub(super) fn is_available(self, capabilities: Capabilities, can_run: bool) -> bool {
        #[cfg(not(feature = "run"))]
        let _ = can_run;
        match self {
            Self::Load | Self::LoadDocuments | Self::LoadMaybeArguments => true,
            Self::LoadArguments => capabilities.arguments,
            Self::Unload => capabilities.unload,
            Self::Search => capabilities.search,
            Self::List | Self::Select => capabilities.documents,
            #[cfg(feature = "run")]
            Self::Run => capabilities.run && can_run,
            #[cfg(feature = "run")]
            Self::Start | Self::Write | Self::Poll | Self::End => capabilities.interactive && can_run,
        }
    }

    /// The name of the argument for the skill, if there is one. Tools with the same name in all dialects share it; others use
    /// the dialect's `own` name.
    fn skill_argument(self, own: &'static str) -> Option<&'static str> {
        match self {
            Self::Load
            | Self::LoadDocuments
            | Self::LoadMaybeArguments
            | Self::LoadArguments
            | Self::Unload => Some(own),
            Self::Search => None,
            Self::List | Self::Select => Some(arguments::SKILL),
            #[cfg(feature = "run")]
            Self::Run | Self::Start => Some(arguments::SKILL),
            #[cfg(feature = "run")]
            Self::Write | Self::Poll | Self::End => None,
        }
    }
}

impl DialectTable {
    /// All tools of the dialect.
    pub(super) fn entries(&self) -> impl Iterator<Item = &'static ToolEntry> + use<> {
        #[cfg(feature = "run")]
        let run = std::iter::once(&super::run_tool::TOOL).chain(&super::interactive_tools::TOOLS);
        #[cfg(not(feature = "run"))]
        let run = std::iter::empty();
        self.tools.iter().chain(run)
    }

    /// The tools that a session has.
    pub(super) fn available(
        &self,
        capabilities: Capabilities,
        can_run: bool,
    ) -> impl Iterator<Item = &'static ToolEntry> + use<> {
        self.entries().filter(move |entry| entry.signature.is_available(capabilities, can_run))
    }

    pub(super) fn specs(&self, context: &ToolContext<'_>) -> Vec<ToolSpec> {
        let is_frozen = context.view.engine().options().prompt == Prompt::Frozen;
        let names = if is_frozen { Vec::new() } else { context.view.offered_names() };
        let frozen = |tool: &str| context.view.frozen().and_then(|frozen| frozen.tools.get(tool)).cloned();
        let spec = |entry: &ToolEntry| {
            let skill_argument = entry.signature.skill_argument(self.skill);
            let argument = skill_argument.unwrap_or(self.skill);
            let mut parameters =
                arguments::schema(entry.signature, argument, context.capabilities, context.runs);
            if let Some(property) = parameters.pointer_mut(&format!("/properties/{argument}")) {
                if let Some(description) = entry.skill {
                    property["description"] = description.into();
                }
                // Only one tool lists the names of all skills. A frozen list would lack the skills that come later.
                let lists_names = entry.name == self.load_tools.load && !is_frozen;
                if lists_names && (1..=MAX_ENUM_NAMES).contains(&names.len()) {
                    property["enum"] = json!(names);
                }
            }
            ToolSpec {
                name: entry.name,
                kind: entry.signature.kind(),
                description: frozen(entry.name).unwrap_or_else(|| (entry.describe)(context)),
                parameters,
                skill_argument,
            }
        };
        self.available(context.capabilities, context.runs.is_some()).map(spec).collect()
    }

    /// Parses a call.
    pub(super) fn parse(
        &self,
        entry: &ToolEntry,
        given: Value,
        capabilities: Capabilities,
    ) -> Result<arguments::ParsedCall, SkillError> {
        let argument = entry.signature.skill_argument(self.skill).unwrap_or(self.skill);
        arguments::parse(entry.signature, argument, given, capabilities).map_err(|wrong| {
            SkillError::Arguments { tool: entry.name.to_owned(), problem: wrong.to_string() }
        })
    }

    /// How the overview tells the model to load a skill.
    pub(super) fn activation(&self, capabilities: Capabilities) -> Activation<'static> {
        let load = self.load_tools.load;
        let with = self.tools.iter().find(|entry| entry.signature == Signature::LoadArguments);
        match (capabilities.arguments, with) {
            (false, _) => Activation::ToolByName(load),
            (true, None) => Activation::Tool(load),
            (true, Some(with)) => Activation::Tools { plain: load, with_arguments: with.name },
        }
    }

    /// The tool call that loads a skill. Arguments are left out if the model cannot give any.
    pub(super) fn load_call(
        &self,
        name: &str,
        given: Option<&str>,
        capabilities: Capabilities,
    ) -> (&'static str, Value) {
        let takes = |entry: &&ToolEntry| match entry.signature {
            Signature::LoadArguments | Signature::LoadMaybeArguments => capabilities.arguments,
            _ => false,
        };
        let with = given.and_then(|given| Some((self.tools.iter().find(takes)?.name, given)));
        match with {
            Some((tool, given)) => (tool, json!({self.skill: name, arguments::ARGUMENTS: given})),
            None => (self.load_tools.load, json!({self.skill: name})),
        }
    }

    pub(super) fn not_found(&self, name: &str, available: &str) -> String {
        let (before, after) = self.not_found;
        format!("{before} '{}'{after}. {available}", shorten(name))
    }

    /// The heading before a skill's text.
    pub(super) fn heading(&self, name: &str, directory: &str) -> String {
        if !self.has_heading {
            return String::new();
        }
        format!("{HEADING}{}\n\n**Base directory**: `{}`\n\n", code_text(name), code_text(directory))
    }

    /// The note for the model about the text of an unloaded skill.
    pub(super) fn unload_note(&self, placement: Placement, unloaded: UnloadedText) -> String {
        let load = self.load_tools.load;
        match (placement, unloaded) {
            (Placement::ToolAnswer, UnloadedText::Kept) => {
                let marks = if self.marks_loaded {
                    " but will no longer be marked as [Loaded] in the skills list"
                } else {
                    ""
                };
                format!(
                    "The skill's instructions from the previous {load} call are still in the conversation \
                     history{marks}."
                )
            }
            (Placement::ToolAnswer, UnloadedText::Stub) => format!(
                "The skill's instructions from the previous {load} call are removed from the conversation \
                 history."
            ),
            (Placement::SystemMessage, _) => {
                "The skill's instructions are no longer in the system message.".to_owned()
            }
        }
    }
}

/// A section with these numbered steps after the first one.
pub(super) fn section(steps: &[Option<String>]) -> SectionTemplate {
    let steps = steps.iter().flatten().enumerate();
    let lines: Vec<String> = steps.map(|(at, step)| format!("{}. {step}\n", at + 2)).collect();
    SectionTemplate::with_steps(&lines.concat())
}
