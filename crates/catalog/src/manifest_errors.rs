//! The diagnostics of a SKILL.md that cannot be read.

use crate::diagnostic::{Code, Diagnostic, Severity};
use crate::local::OpenError;
use crate::skill::{Location, MANIFEST, MAX_MANIFEST};

pub(crate) fn wrong_case(file: &str) -> Diagnostic {
    let name = file.rsplit('/').next().unwrap_or_default();
    Diagnostic::new(Code::FileNameCase, file, format!("the manifest is named `{name}`"))
        .hint(format!("rename it to {MANIFEST}"))
}

pub(crate) fn too_large(location: &Location) -> Diagnostic {
    Diagnostic::new(Code::TooLarge, location.shared(), format!("the file has more than {MAX_MANIFEST} bytes"))
        .hint("move text into documents beside it")
}

pub(crate) fn unreadable(location: &Location, error: &std::io::Error) -> Diagnostic {
    let mut diagnostic =
        Diagnostic::new(Code::Unreadable, location.shared(), format!("cannot read the file: {error}"))
            .hint("check its permissions");
    diagnostic.severity = Severity::Error;
    diagnostic
}

pub(crate) fn refusal(error: &OpenError, location: &Location) -> Diagnostic {
    let not_a_file = |message: String| Diagnostic::new(Code::NotAFile, location.shared(), message);
    match error {
        OpenError::Absent => Diagnostic::new(Code::MissingSkillMd, location.shared(), "there is no SKILL.md"),
        OpenError::Link | OpenError::Outside => {
            not_a_file("SKILL.md is a link, which prowess does not follow".to_owned())
                .hint("put the file itself there")
        }
        OpenError::NotAFile(kind) => {
            not_a_file(format!("SKILL.md is not a regular file ({kind:?})")).hint("put a regular file there")
        }
        OpenError::Io(error) => unreadable(location, error),
    }
}
