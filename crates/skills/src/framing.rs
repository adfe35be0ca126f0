//! Framed texts: instructions and documents as a model reads them, and the list of resources.

use prowess_catalog::document::DocumentText;
use prowess_catalog::skill::Location;
use prowess_catalog::untrusted::code_text;
use prowess_catalog::{Digest, Frame, SkillEntry, SkillText};

use crate::arguments::{self, MAX_EXPANDED_BYTES, TooLong};
use crate::delta::ResourceMetadata;
use crate::dialect::LoadedForm;
use crate::error::SkillError;
use crate::options::SessionOptions;
use crate::secret::Secret;
use crate::skill_paths::{SkillPaths, with_directories};

/// The most resources in a list; the rest is only counted.
pub(crate) const MAX_LISTED_RESOURCES: usize = 100;

/// The beginning of a list of resources; each line begins with [`RESOURCE`].
pub(crate) const RESOURCES: &str = "\n\n\n---\n**Skill Resources:**\n";
pub(crate) const RESOURCE: &str = "\n- ";

/// A text in its frame, and the frame's nonce.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct FramedText {
    pub(crate) text: String,
    pub(crate) nonce: String,
}

/// A skill's instructions with their arguments, in the form of the session's dialect.
pub(crate) fn instructions(
    entry: &SkillEntry,
    text: &SkillText,
    arguments: Option<&str>,
    options: &SessionOptions,
    secret: &Secret,
) -> Result<FramedText, SkillError> {
    let (head, body) = text.parts();
    let too_long =
        |TooLong| SkillError::Expanded { name: text.skill.name.to_string(), limit: MAX_EXPANDED_BYTES };
    let directory = options.skill_paths.directory_of(entry);
    let body = with_directories(body, entry.skill.name.as_str(), &directory).map_err(too_long)?;
    let body = arguments::expand(&body, &text.skill, arguments).map_err(too_long)?;
    let loaded = match options.dialect.form() {
        LoadedForm::Manifest => [head, &body].concat(),
        LoadedForm::Instructions => body.trim().to_owned(),
    };
    // Hashing is the largest cost here, and an unchanged manifest is already hashed.
    let known = (loaded == text.manifest()).then_some(text.digest);
    let digest = known.unwrap_or_else(|| Digest::of(loaded.as_bytes()));
    Ok(framed(&frame(entry, &directory, None), &loaded, digest, secret))
}

/// A document of a skill in its frame.
pub(crate) fn document(
    entry: &SkillEntry,
    document: &DocumentText,
    options: &SessionOptions,
    secret: &Secret,
) -> FramedText {
    let directory = options.skill_paths.directory_of(entry);
    let mut text = document.text.clone();
    if document.truncated {
        let line_end = if text.ends_with('\n') { "" } else { "\n" };
        let rest = document.size.saturating_sub(document.text.len() as u64);
        text = format!("{text}{line_end}[{rest} more bytes of this document were left out]\n");
    }
    framed(&frame(entry, &directory, Some(&document.path)), &text, Digest::of(text.as_bytes()), secret)
}

/// The list of resources after a skill's text; empty if the skill has none.
pub(crate) fn resource_summary(
    resources: &[ResourceMetadata],
    location: &Location,
    paths: &SkillPaths,
) -> String {
    if resources.is_empty() {
        return String::new();
    }
    let mut text = RESOURCES.to_owned();
    for resource in resources.iter().take(MAX_LISTED_RESOURCES) {
        let path = paths.file(&resource.skill_name, location, &resource.path);
        text.push_str(&format!("{RESOURCE}[{}] `{}`", resource.kind.as_str(), code_text(&path)));
    }
    if let Some(more) = resources.len().checked_sub(MAX_LISTED_RESOURCES).filter(|more| *more > 0) {
        text.push_str(&format!("{RESOURCE}and {more} more, which this list leaves out"));
    }
    text
}

/// The beginning of a heading. A heading has three lines, of which the second is empty, and an empty line follows.
pub(crate) const HEADING: &str = "## Skill: ";

fn frame<'a>(entry: &'a SkillEntry, directory: &'a str, document: Option<&'a str>) -> Frame<'a> {
    Frame { name: entry.skill.name.as_str(), origin: &entry.root.label, directory, document }
}

fn framed(frame: &Frame<'_>, text: &str, digest: Digest, secret: &Secret) -> FramedText {
    let nonce = frame.nonce(digest, secret.as_bytes());
    FramedText { text: frame.wrap_with(text, &nonce), nonce }
}
