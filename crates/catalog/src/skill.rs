//! Parses a SKILL.md into a skill.

use std::fmt;
use std::ops::Range;
use std::sync::{Arc, LazyLock};

#[cfg(doc)]
use crate::diagnostic::Severity;
use crate::diagnostic::{Code, Diagnostic, Findings};
use crate::fields;
use crate::frontmatter::{self, MAX_FRONTMATTER, SplitError};
use crate::name::SkillName;
use crate::repair;
use crate::untrusted::{is_unprintable, one_line};
use crate::yaml::{Value, YamlError};

/// The file name of a manifest.
pub const MANIFEST: &str = "SKILL.md";

/// The most bytes of a SKILL.md.
pub const MAX_MANIFEST: u64 = 10 * 1024 * 1024;

/// The location of a SKILL.md: a path with `/` between its parts.
///
/// ```
/// use prowess_catalog::skill::Location;
///
/// let location = Location::new("/skills/greet/SKILL.md");
/// assert_eq!(location.directory(), "/skills/greet");
/// assert_eq!(location.directory_name(), Some("greet"));
/// ```
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Location(Arc<str>);

impl Location {
    /// The location of the manifest at `path`.
    pub fn new(path: impl Into<Arc<str>>) -> Self {
        Self(path.into())
    }

    /// The location of the manifest in `directory` below `root`, which may be the root itself.
    pub(crate) fn in_directory(root: &str, directory: &str) -> Self {
        let separator = if directory.is_empty() { "" } else { "/" };
        Self([root, separator, directory, "/", MANIFEST].concat().into())
    }

    /// The manifest's path.
    pub fn as_str(&self) -> &str {
        &self.0
    }

    /// The skill's directory.
    pub fn directory(&self) -> &str {
        match self.0.rfind('/') {
            Some(0) => "/",
            Some(at) => &self.0[..at],
            None => ".",
        }
    }

    /// The name of the skill's directory, if the path has one.
    pub fn directory_name(&self) -> Option<&str> {
        let name = self.directory().trim_end_matches('/').rsplit('/').next()?;
        (!matches!(name, "" | "." | "..")).then_some(name)
    }

    pub(crate) fn shared(&self) -> Arc<str> {
        Arc::clone(&self.0)
    }
}

impl fmt::Display for Location {
    /// The path for a message: [`Location::as_str`] on one printable line.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.0.chars().any(is_unprintable) {
            f.write_str(&one_line(&self.0))
        } else {
            f.write_str(&self.0)
        }
    }
}

impl fmt::Debug for Location {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:?}", &self.0)
    }
}

#[cfg(feature = "serde")]
impl<'de> serde::Deserialize<'de> for Location {
    fn deserialize<D: serde::Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        String::deserialize(deserializer).map(Self::new)
    }
}

#[cfg(feature = "serde")]
impl serde::Serialize for Location {
    fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(&self.0)
    }
}

/// A skill's metadata: everything except its instructions.
#[derive(Clone, Debug, PartialEq, Eq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize))]
#[non_exhaustive]
pub struct Skill {
    /// Its name.
    pub name: SkillName,
    /// What it does and when to use it, as written.
    pub description: String,
    /// Its licence.
    pub license: Option<String>,
    /// What it needs from its environment.
    pub compatibility: Option<String>,
    /// Properties that the specification leaves to clients, in order.
    #[cfg_attr(feature = "serde", serde(serialize_with = "serialize_pairs"))]
    pub metadata: Vec<(String, Value)>,
    /// The tools it expects, such as `Read` or `Bash(git:*)`.
    pub allowed_tools: Vec<String>,
    /// The fields that clients have added to the specification.
    #[cfg_attr(feature = "serde", serde(flatten))]
    pub extensions: Arc<Extensions>,
    /// Unknown fields, in order.
    #[cfg_attr(feature = "serde", serde(serialize_with = "serialize_pairs"))]
    pub extra: Vec<(String, Value)>,
    /// Where its SKILL.md is.
    pub location: Location,
}

/// The fields that clients have added to the specification.
#[derive(Clone, Debug, PartialEq, Eq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize))]
#[non_exhaustive]
pub struct Extensions {
    /// Whether only a person may start it. Then the model does not see it.
    pub disable_model_invocation: bool,
    /// Whether a person may start it by name.
    pub user_invocable: bool,
    /// What to write after its name, shown to people and models.
    pub argument_hint: Option<String>,
    /// The names of its arguments.
    pub arguments: Vec<String>,
    /// When to use it; shown after the description.
    pub when_to_use: Option<String>,
    /// The model to use while it is loaded.
    pub model: Option<String>,
    /// The reasoning effort while it is loaded.
    pub effort: Option<String>,
    /// Which agent follows it.
    pub context: SkillContext,
    /// The sub-agent that follows it, if its context is `fork`.
    pub agent: Option<String>,
    /// Hooks, as written.
    pub hooks: Option<Value>,
    /// Patterns of files. The skill is offered when a matching file is in use.
    pub paths: Vec<String>,
    /// The shell of its runs.
    pub shell: Option<String>,
}

impl Extensions {
    /// The default extensions, which nearly all skills share.
    pub(crate) fn none() -> Arc<Self> {
        static NONE: LazyLock<Arc<Extensions>> = LazyLock::new(Arc::default);
        Arc::clone(&NONE)
    }
}

impl Default for Extensions {
    fn default() -> Self {
        Self {
            disable_model_invocation: false,
            user_invocable: true,
            argument_hint: None,
            arguments: Vec::new(),
            when_to_use: None,
            model: None,
            effort: None,
            context: SkillContext::Inline,
            agent: None,
            hooks: None,
            paths: Vec::new(),
            shell: None,
        }
    }
}

/// Which agent follows a skill's instructions.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize), serde(rename_all = "lowercase"))]
#[non_exhaustive]
pub enum SkillContext {
    /// The agent that loads it.
    #[default]
    Inline,
    /// A sub-agent, which returns an answer.
    Fork,
}

#[cfg(feature = "serde")]
fn serialize_pairs<S: serde::Serializer>(
    pairs: &[(String, Value)],
    serializer: S,
) -> Result<S::Ok, S::Error> {
    serializer.collect_map(pairs.iter().map(|(key, value)| (key, value)))
}

/// What to do with a manifest that has no name.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub enum MissingName {
    /// Use the name of its directory.
    #[default]
    UseDirectory,
    /// Skip it.
    Skip,
}

/// A parsed manifest: the skill, if it can be loaded, and all diagnostics.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct Parsed {
    /// The skill. `None` if a diagnostic is an [`Severity::Error`].
    pub skill: Option<Skill>,
    /// The diagnostics, in the order of the checks.
    pub diagnostics: Vec<Diagnostic>,
    /// The range of the body in the source. Empty if there is no frontmatter.
    pub body: Range<usize>,
}

impl Parsed {
    /// Whether the manifest follows the open specification exactly.
    pub fn is_valid(&self) -> bool {
        self.skill.is_some() && !self.diagnostics.iter().any(|diagnostic| diagnostic.code.fails_strict())
    }
}

impl Skill {
    /// Parses a whole SKILL.md. This never fails: problems are diagnostics.
    ///
    /// ```
    /// use prowess_catalog::skill::Location;
    /// use prowess_catalog::Skill;
    ///
    /// let source = b"---\nname: greet\ndescription: Says hello. Use at the door.\n---\nWave.\n";
    /// let parsed = Skill::parse(source, &Location::new("/skills/greet/SKILL.md"));
    /// assert!(parsed.is_valid());
    /// assert_eq!(parsed.skill.unwrap().name.as_str(), "greet");
    /// ```
    pub fn parse(source: &[u8], location: &Location) -> Parsed {
        Self::parse_with(source, location, MissingName::default())
    }

    /// Like [`Skill::parse`], with a choice for manifests that have no name.
    pub fn parse_with(source: &[u8], location: &Location, missing_name: MissingName) -> Parsed {
        parse_head(source, true, location, missing_name)
    }

    /// Whether a model may start it.
    pub fn is_model_invocable(&self) -> bool {
        !self.extensions.disable_model_invocation
    }
}

/// Parses the head of a SKILL.md. `source` is the whole file, or its beginning if not `complete`.
pub(crate) fn parse_head(
    source: &[u8],
    complete: bool,
    location: &Location,
    missing_name: MissingName,
) -> Parsed {
    let mut findings = Findings::new(location.shared(), source);
    let (skill, body) = match read(source, complete, location, missing_name, &mut findings) {
        Some((skill, body)) => (skill, body),
        None => (None, 0..0),
    };
    let skill = skill.filter(|_| !findings.prevents_loading());
    Parsed { skill, diagnostics: findings.finish(), body }
}

fn read(
    source: &[u8],
    complete: bool,
    location: &Location,
    missing_name: MissingName,
    findings: &mut Findings<'_>,
) -> Option<(Option<Skill>, Range<usize>)> {
    let text = decode(source, complete, findings)?;
    let split = match frontmatter::split(text.as_bytes(), complete) {
        Ok(split) => split,
        Err(error) => {
            report_split(error, text, findings);
            return None;
        }
    };
    if split.bom {
        findings
            .add(Code::Bom, Some(0..3), "the file begins with a byte-order mark")
            .hint("save it as UTF-8 without a BOM")
            .fix(0..3, "");
    }
    let yaml = &text[split.yaml.clone()];
    let repaired = match repair::compose(yaml) {
        Ok(repaired) => repaired,
        Err(error) => {
            let (code, at, message) = match error {
                YamlError::Syntax { at, message } => (Code::InvalidYaml, at, message),
                YamlError::Limit { at, message } => (Code::YamlLimits, at, message),
            };
            let at = split.yaml.start + at;
            let length = text[at..].chars().next().map_or(0, char::len_utf8);
            findings.add(code, Some(at..at + length), format!("cannot read the frontmatter: {message}"));
            return Some((None, split.body));
        }
    };
    let skill = fields::read(yaml, split.yaml.start, &repaired, location, missing_name, findings);
    Some((skill, split.body))
}

fn decode<'a>(source: &'a [u8], complete: bool, findings: &mut Findings<'_>) -> Option<&'a str> {
    let error = match std::str::from_utf8(source) {
        Ok(text) => return Some(text),
        Err(error) => error,
    };
    let valid = error.valid_up_to();
    if !complete && error.error_len().is_none() {
        // The beginning ends inside a character.
        return std::str::from_utf8(&source[..valid]).ok();
    }
    let hint = match source {
        [0xFF, 0xFE, ..] | [0xFE, 0xFF, ..] => "it looks like UTF-16: save it as UTF-8",
        _ => "save it as UTF-8",
    };
    findings
        .add(Code::InvalidEncoding, Some(valid..valid + 1), format!("byte {valid} is not UTF-8"))
        .hint(hint);
    None
}

fn report_split(error: SplitError, text: &str, findings: &mut Findings<'_>) {
    match error {
        SplitError::Missing => {
            let first = text.lines().next().unwrap_or_default();
            let trimmed = text.trim_start_matches('\u{FEFF}').trim();
            findings
                .add(Code::MissingFrontmatter, Some(0..first.len()), "the first line is not `---`")
                .hint("begin the file with `---`, the name and the description, and `---` again");
            if trimmed.is_empty() {
                findings.add(Code::EmptyFile, None, "the file is empty");
            } else if trimmed.starts_with("```") && trimmed.contains("---") {
                findings
                    .add(Code::FrontmatterInCodeFence, Some(0..3), "the frontmatter is in a code fence")
                    .hint("remove the fence");
            } else if !trimmed.contains(['\n', ' ']) && trimmed.contains('/') {
                findings
                    .add(Code::SymlinkStub, Some(0..first.len()), "the file contains only a path")
                    .hint("it is a symbolic link checked out as text: copy the file that it names");
            }
        }
        SplitError::Unclosed => {
            let added = findings.add(Code::UnclosedFrontmatter, Some(0..3), "no closing `---` line");
            if text.lines().any(|line| line.trim_end() == "...") {
                added.hint("close it with `---`, not `...`");
            } else {
                added.hint("put `---` on a line of its own after the last field");
            }
        }
        SplitError::TooLong => {
            let message = format!("the frontmatter has more than {MAX_FRONTMATTER} bytes");
            findings
                .add(Code::YamlLimits, Some(0..3), message)
                .hint("move text from the frontmatter to the body");
        }
    }
}
