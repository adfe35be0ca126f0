//! What tells one dialect from another, as data.

use prowess_catalog::overview::Activation;
use prowess_catalog::section::SectionTemplate;
use prowess_catalog::untrusted::code_text;
use serde_json::{Value, json};

use super::{Capabilities, Form, LoadToolNames, MAX_ENUM_NAMES, SkillToolKind, ToolSpec, arguments};
use crate::error::{SkillError, shown};
use crate::options::{Lifetime, Placement, UnloadedText};
use crate::render::HEADING;
use crate::view::SkillView;

/// A dialect.
pub(super) struct Table {
    /// Its name in configurations.
    pub(super) name: &'static str,
    pub(super) words: LoadToolNames,
    /// The argument that names a skill in the tools of its own.
    pub(super) skill: &'static str,
    /// Its tools but those that run commands, which all dialects have under the same names.
    pub(super) tools: &'static [Entry],
    /// What is on unless somebody says otherwise.
    pub(super) capabilities: Capabilities,
    pub(super) placement: Placement,
    pub(super) lifetime: Lifetime,
    pub(super) form: Form,
    /// Whether loading a loaded skill again changes its documents.
    pub(super) reselects: bool,
    /// Whether a title and the directory stand before a skill's text.
    pub(super) has_heading: bool,
    /// Whether an overview in the prompt marks what is loaded.
    pub(super) marks_loaded: bool,
    /// What is said of a skill that there is not: before its name, and after it.
    pub(super) not_found: (&'static str, &'static str),
    /// The section of the system prompt that the overview stands in, if there is one.
    pub(super) template: fn(Capabilities, Placement) -> Option<SectionTemplate>,
}

/// A tool of a dialect.
pub(super) struct Entry {
    pub(super) name: &'static str,
    pub(super) takes: Takes,
    /// What a model is told about it.
    pub(super) says: fn(&Setting<'_>) -> String,
    /// What it is told about the argument that names the skill, where the name alone does not say it.
    pub(super) skill: Option<&'static str>,
}

/// What a tool takes, and with that what it does.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Takes {
    /// A skill to load.
    Load,
    /// The same with documents.
    LoadDocuments,
    /// The same with arguments for the skill, which may be left out.
    LoadMaybeArguments,
    /// The same with arguments for the skill.
    LoadArguments,
    Unload,
    List,
    Select,
    #[cfg(feature = "run")]
    Run,
    #[cfg(feature = "run")]
    Start,
    #[cfg(feature = "run")]
    Write,
    #[cfg(feature = "run")]
    Look,
    #[cfg(feature = "run")]
    End,
}

/// What descriptions and schemas depend on.
pub(super) struct Setting<'a> {
    pub(super) view: &'a SkillView,
    pub(super) capabilities: Capabilities,
    pub(super) placement: Placement,
    /// Where commands can be run, what they may use.
    pub(super) runs: Option<&'a RunSetting>,
}

/// What tools that run commands have to say.
#[cfg(feature = "run")]
pub(crate) struct RunSetting {
    /// The hosts that a command may ask for.
    pub(crate) hosts: Vec<String>,
    /// How long a command may take when nobody says otherwise, in seconds.
    pub(crate) timeout: u64,
}

/// Nothing runs commands.
#[cfg(not(feature = "run"))]
pub(crate) enum RunSetting {}

impl Takes {
    pub(super) fn act(self) -> SkillToolKind {
        match self {
            Self::Load | Self::LoadDocuments | Self::LoadMaybeArguments | Self::LoadArguments => {
                SkillToolKind::Load
            }
            Self::Unload => SkillToolKind::Unload,
            Self::List => SkillToolKind::ListDocuments,
            Self::Select => SkillToolKind::SelectDocuments,
            #[cfg(feature = "run")]
            Self::Run => SkillToolKind::Run,
            #[cfg(feature = "run")]
            Self::Start => SkillToolKind::Start,
            #[cfg(feature = "run")]
            Self::Write => SkillToolKind::Write,
            #[cfg(feature = "run")]
            Self::Look => SkillToolKind::Look,
            #[cfg(feature = "run")]
            Self::End => SkillToolKind::End,
        }
    }

    /// Whether such a tool is there.
    pub(super) fn is_had(self, capabilities: Capabilities, can_run: bool) -> bool {
        #[cfg(not(feature = "run"))]
        let _ = can_run;
        match self {
            Self::Load | Self::LoadDocuments | Self::LoadMaybeArguments => true,
            Self::LoadArguments => capabilities.arguments,
            Self::Unload => capabilities.unload,
            Self::List | Self::Select => capabilities.documents,
            #[cfg(feature = "run")]
            Self::Run => capabilities.run && can_run,
            #[cfg(feature = "run")]
            Self::Start | Self::Write | Self::Look | Self::End => capabilities.interactive && can_run,
        }
    }

    /// The argument that names the skill, if one does. Tools that all dialects share are the same in all of them; others
    /// use the dialect's `own` word.
    fn skill(self, own: &'static str) -> Option<&'static str> {
        match self {
            Self::Load
            | Self::LoadDocuments
            | Self::LoadMaybeArguments
            | Self::LoadArguments
            | Self::Unload => Some(own),
            Self::List | Self::Select => Some(arguments::SKILL),
            #[cfg(feature = "run")]
            Self::Run | Self::Start => Some(arguments::SKILL),
            #[cfg(feature = "run")]
            Self::Write | Self::Look | Self::End => None,
        }
    }
}

impl Table {
    /// All its tools.
    pub(super) fn entries(&self) -> impl Iterator<Item = &'static Entry> + use<> {
        #[cfg(feature = "run")]
        let run: &[Entry] = &super::run::TOOLS;
        #[cfg(not(feature = "run"))]
        let run: &[Entry] = &[];
        self.tools.iter().chain(run)
    }

    /// The tools that there are.
    pub(super) fn had(
        &self,
        capabilities: Capabilities,
        can_run: bool,
    ) -> impl Iterator<Item = &'static Entry> + use<> {
        self.entries().filter(move |entry| entry.takes.is_had(capabilities, can_run))
    }

    pub(super) fn specs(&self, setting: &Setting<'_>) -> Vec<ToolSpec> {
        let names = setting.view.offered_names();
        let spec = |entry: &Entry| {
            let skill = entry.takes.skill(self.skill);
            let word = skill.unwrap_or(self.skill);
            let mut parameters = arguments::schema(entry.takes, word, setting.capabilities, setting.runs);
            if let Some(property) = parameters.pointer_mut(&format!("/properties/{word}")) {
                if let Some(says) = entry.skill {
                    property["description"] = says.into();
                }
                // Which skills there are is said once.
                if entry.name == self.words.load && (1..=MAX_ENUM_NAMES).contains(&names.len()) {
                    property["enum"] = json!(names);
                }
            }
            ToolSpec {
                name: entry.name,
                act: entry.takes.act(),
                description: (entry.says)(setting),
                parameters,
                skill_argument: skill,
            }
        };
        self.had(setting.capabilities, setting.runs.is_some()).map(spec).collect()
    }

    /// What a call wants.
    pub(super) fn wanted(
        &self,
        entry: &Entry,
        given: Value,
        capabilities: Capabilities,
    ) -> Result<arguments::Wanted, SkillError> {
        let word = entry.takes.skill(self.skill).unwrap_or(self.skill);
        arguments::wanted(entry.takes, word, given, capabilities).map_err(|wrong| SkillError::Arguments {
            tool: entry.name.to_owned(),
            problem: wrong.to_string(),
        })
    }

    /// How the overview says to load a skill.
    pub(super) fn activation(&self, capabilities: Capabilities) -> Activation<'static> {
        let load = self.words.load;
        let with = self.tools.iter().find(|entry| entry.takes == Takes::LoadArguments);
        match (capabilities.arguments, with) {
            (false, _) => Activation::ToolByName(load),
            (true, None) => Activation::Tool(load),
            (true, Some(with)) => Activation::Tools { plain: load, with_arguments: with.name },
        }
    }

    pub(super) fn not_found(&self, name: &str, available: &str) -> String {
        let (before, after) = self.not_found;
        format!("{before} '{}'{after}. Available skills: {available}", shown(name))
    }

    /// What stands before a skill's text.
    pub(super) fn heading(&self, name: &str, directory: &str) -> String {
        if !self.has_heading {
            return String::new();
        }
        format!("{HEADING}{}\n\n**Base directory**: `{}`\n\n", code_text(name), code_text(directory))
    }

    /// What a model is told about the text of a skill that it unloaded.
    pub(super) fn unload_note(&self, placement: Placement, unloaded: UnloadedText) -> String {
        let load = self.words.load;
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

/// Steps of a section after the first, numbered.
pub(super) fn section(steps: &[Option<String>]) -> SectionTemplate {
    let steps = steps.iter().flatten().enumerate();
    let lines: Vec<String> = steps.map(|(at, step)| format!("{}. {step}\n", at + 2)).collect();
    SectionTemplate::with_steps(&lines.concat())
}
