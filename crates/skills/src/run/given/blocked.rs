//! Why a run is refused because of a path that it names.

use prowess_catalog::untrusted::one_line;
use prowess_permission::quote_name;

use super::layout::{MAX_BINDS, MAX_ENTRIES};
use crate::owner::WithheldFile;

/// Why a run cannot be given a file of the project.
///
/// The text is for a model: it names no hidden skills and no rules. [`for_person`](Self::for_person) does, with real paths.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub(crate) enum BlockedGiven {
    /// It must not be read.
    #[error("{}", withheld_for_model(.path, .why))]
    Withheld { path: NamedPath, why: Withheld },
    /// It has too many files to look at all of them.
    #[error("{} has more than {MAX_ENTRIES} files; name the files that the command needs, or a smaller directory", .path.shown())]
    TooLarge { path: NamedPath },
    /// Some of it must not be read, and the rest is too much to be given one by one.
    #[error("{} contains files that must not be read, and too many others; name the files that the command needs, or a smaller directory", .path.shown())]
    TooMixed { path: NamedPath },
    /// It cannot be read.
    #[error("{} cannot be read", .path.shown())]
    Unreadable { path: NamedPath },
    /// The request names it as an input or as the directory to run in, and it does not exist.
    #[error("{} does not exist", .path.shown())]
    Missing { path: NamedPath },
    /// The command cannot run there.
    #[error("{} is not a directory", .path.shown())]
    NotADirectory { path: NamedPath },
    /// The request names it as an input or as the directory to run in, and only file tools open it.
    #[error("commands cannot open {}; read and change memory files with the file tools", quote_name(.0))]
    OnlyForFileTools(String),
    /// The request names too many paths.
    #[error("the request names more than {MAX_BINDS} files of the project; name their directory instead")]
    TooMany,
}

/// A path, as the model and as a person see it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct NamedPath {
    pub(crate) shown: String,
    pub(crate) real: String,
}

impl NamedPath {
    fn shown(&self) -> String {
        quote_name(&self.shown)
    }

    fn real(&self) -> String {
        one_line(&self.real).into_owned()
    }
}

/// Why a file is withheld from runs.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Withheld {
    /// It usually holds secrets, so a person must decide about it alone.
    Secret,
    /// A rule denies it: the rule as a line of TOML.
    Denied(String),
    /// It belongs to a skill.
    Skill(WithheldFile),
}

impl Withheld {
    /// Whether a model may know the name of the file.
    pub(super) fn has_public_name(&self) -> bool {
        matches!(self, Self::Secret | Self::Skill(WithheldFile::LoadFirst(_)))
    }
}

fn withheld_for_model(path: &NamedPath, why: &Withheld) -> String {
    let shown = path.shown();
    match why {
        Withheld::Secret => format!(
            "{shown} usually holds secrets, so commands do not see it; to ask the person for it, use the input `host://{}`",
            path.real()
        ),
        Withheld::Skill(WithheldFile::LoadFirst(skill)) => {
            format!("{shown} belongs to the skill {}; load that skill first", quote_name(skill))
        }
        Withheld::Denied(_) | Withheld::Skill(_) => format!("{shown} must not be read"),
    }
}

impl BlockedGiven {
    /// The text for a person, with real paths and all names.
    pub(crate) fn for_person(&self) -> String {
        match self {
            Self::Withheld { path, why } => {
                let real = path.real();
                match why {
                    Withheld::Secret => format!(
                        "{real} usually holds secrets, so commands do not see it; use the input `host://{real}` instead"
                    ),
                    Withheld::Denied(rule) => {
                        format!("{real} must not be read: the rule {} denies it", one_line(rule))
                    }
                    Withheld::Skill(WithheldFile::LoadFirst(skill)) => {
                        format!("{real} belongs to the skill {}; load that skill first", quote_name(skill))
                    }
                    Withheld::Skill(WithheldFile::Denied(skill)) => format!(
                        "{real} belongs to the skill {}, which is denied or not trusted",
                        quote_name(skill)
                    ),
                }
            }
            Self::TooMany | Self::OnlyForFileTools(_) => self.to_string(),
            Self::TooLarge { path }
            | Self::TooMixed { path }
            | Self::Unreadable { path }
            | Self::Missing { path }
            | Self::NotADirectory { path } => self.to_string().replacen(&path.shown(), &path.real(), 1),
        }
    }
}
