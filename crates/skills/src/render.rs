//! The texts that a model reads of a loaded skill.

use prowess_catalog::document::DocumentText;
use prowess_catalog::untrusted::code_text;
use prowess_catalog::{Digest, Frame, SkillEntry, SkillText};

use crate::arguments::{self, MAX_EXPANDED, Overgrown};
use crate::delta::ResourceMetadata;
use crate::dialect::{Dialect, Form};
use crate::error::SkillError;
use crate::secret::Secret;

/// How many resources an answer lists before it only counts the rest.
pub(crate) const MAX_LISTED_RESOURCES: usize = 100;

/// What a summary of resources begins with; every line of it begins with [`RESOURCE`].
pub(crate) const RESOURCES: &str = "\n\n\n---\n**Skill Resources:**\n";
pub(crate) const RESOURCE: &str = "\n- ";

/// A text in its frame.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct FramedText {
    pub(crate) text: String,
    pub(crate) nonce: String,
}

/// A skill's instructions as `dialect` gives them, with what they were given to work on put in.
pub(crate) fn instructions(
    entry: &SkillEntry,
    text: &SkillText,
    arguments: Option<&str>,
    dialect: Dialect,
    secret: &Secret,
) -> Result<FramedText, SkillError> {
    let (head, body) = text.parts();
    let overgrown =
        |Overgrown| SkillError::Expanded { name: text.skill.name.to_string(), limit: MAX_EXPANDED };
    let body = arguments::put_in(body, &text.skill, arguments).map_err(overgrown)?;
    let shown = match dialect.form() {
        Form::Document => [head, &body].concat(),
        Form::Body => body.trim().to_owned(),
    };
    // Hashing is most of what framing costs, and an unchanged document has been hashed.
    let known = (shown == text.manifest()).then_some(text.digest);
    let digest = known.unwrap_or_else(|| Digest::of(shown.as_bytes()));
    Ok(framed(&frame(entry, None), &shown, digest, secret))
}

/// A document of a skill.
pub(crate) fn document(entry: &SkillEntry, document: &DocumentText, secret: &Secret) -> FramedText {
    let mut text = document.text.clone();
    if document.truncated {
        let line_end = if text.ends_with('\n') { "" } else { "\n" };
        let rest = document.size.saturating_sub(document.text.len() as u64);
        text = format!("{text}{line_end}[{rest} more bytes of this document were left out]\n");
    }
    framed(&frame(entry, Some(&document.path)), &text, Digest::of(text.as_bytes()), secret)
}

/// The summary of a skill's files that follows its text; nothing when it has none.
pub(crate) fn resource_summary(resources: &[ResourceMetadata]) -> String {
    if resources.is_empty() {
        return String::new();
    }
    let mut text = RESOURCES.to_owned();
    for resource in resources.iter().take(MAX_LISTED_RESOURCES) {
        text.push_str(&format!("{RESOURCE}[{}] `{}`", resource.kind.as_str(), code_text(&resource.path)));
    }
    if let Some(more) = resources.len().checked_sub(MAX_LISTED_RESOURCES).filter(|more| *more > 0) {
        text.push_str(&format!("{RESOURCE}and {more} more, which this list leaves out"));
    }
    text
}

/// What a heading begins with; it has three lines, the second of them empty, and an empty line after it.
pub(crate) const HEADING: &str = "## Skill: ";

fn frame<'a>(entry: &'a SkillEntry, document: Option<&'a str>) -> Frame<'a> {
    Frame {
        name: entry.skill.name.as_str(),
        origin: &entry.root.label,
        directory: entry.skill.location.directory(),
        document,
    }
}

fn framed(frame: &Frame<'_>, text: &str, digest: Digest, secret: &Secret) -> FramedText {
    let nonce = frame.nonce(digest, secret.as_bytes());
    FramedText { text: frame.wrap_with(text, &nonce), nonce }
}
