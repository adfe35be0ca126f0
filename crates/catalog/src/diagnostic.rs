//! What was found wrong, where, how bad it is, and what to do about it.

use std::fmt;
use std::ops::Range;
use std::sync::Arc;

/// The findings kept for one file, and the first of every other code; [`Code::FindingsCapped`] says
/// that there were more.
pub const MAX_FINDINGS: usize = 64;

/// How a finding affects loading.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[cfg_attr(feature = "serde", derive(serde::Serialize), serde(rename_all = "lowercase"))]
pub enum Severity {
    /// Worth knowing; nothing was changed.
    Info,
    /// Loaded, but not as the author may have meant it.
    Warning,
    /// Not loaded: the skill or directory was skipped.
    Error,
}

impl Severity {
    /// The lowercase word for this severity.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Info => "info",
            Self::Warning => "warning",
            Self::Error => "error",
        }
    }
}

/// What kind of rule a [`Code`] belongs to.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum CodeClass {
    /// A breach of the open specification: an error in strict mode (but see [`Code::fails_strict`]).
    Breach,
    /// Good advice that the specification does not demand; never fails a check.
    Advice,
    /// Something met while looking for skills: a cap, a link, a directory that cannot be read.
    Discovery,
}

macro_rules! codes {
    ($($(#[doc = $doc:literal])+ $variant:ident = $text:literal, $class:ident, $severity:ident;)+) => {
        /// The stable identifier of a kind of finding.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
        #[non_exhaustive]
        pub enum Code { $($(#[doc = $doc])+ $variant,)+ }

        impl Code {
            /// Every code, in the order of the documentation.
            pub const ALL: &[Code] = &[$(Code::$variant,)+];

            /// The code as it is printed, for example `name-dir-mismatch`.
            pub fn as_str(self) -> &'static str {
                match self { $(Code::$variant => $text,)+ }
            }

            /// The kind of rule behind it.
            pub fn class(self) -> CodeClass {
                match self { $(Code::$variant => CodeClass::$class,)+ }
            }

            /// The usual severity when loading; a single finding may be more severe.
            pub fn severity(self) -> Severity {
                match self { $(Code::$variant => Severity::$severity,)+ }
            }

            /// One line that explains the rule.
            pub fn explanation(self) -> &'static str {
                match self { $(Code::$variant => concat!($($doc),+).trim_ascii_start(),)+ }
            }
        }
    };
}

codes! {
    /// The directory has no SKILL.md file.
    MissingSkillMd = "missing-skill-md", Breach, Error;
    /// The manifest's name differs from SKILL.md in letter case.
    FileNameCase = "file-name-case", Breach, Error;
    /// The file is not UTF-8.
    InvalidEncoding = "invalid-encoding", Breach, Error;
    /// The file begins with a UTF-8 byte-order mark.
    Bom = "bom", Breach, Warning;
    /// The first line is not `---`.
    MissingFrontmatter = "missing-frontmatter", Breach, Error;
    /// The frontmatter has no closing `---` line.
    UnclosedFrontmatter = "unclosed-frontmatter", Breach, Error;
    /// The frontmatter is empty, a list or a scalar.
    NotAMapping = "not-a-mapping", Breach, Error;
    /// The frontmatter is not YAML, and prowess could not repair it.
    InvalidYaml = "invalid-yaml", Breach, Error;
    /// The frontmatter is too large, too deep or expands too far.
    YamlLimits = "yaml-limits", Breach, Error;
    /// prowess had to quote a value before it could read the frontmatter.
    YamlRepaired = "yaml-repaired", Breach, Warning;
    /// A key appears twice; prowess uses the last one.
    DuplicateKey = "duplicate-key", Breach, Warning;
    /// The specification does not define this top-level key.
    UnknownField = "unknown-field", Breach, Info;
    /// There is no `name`.
    NameMissing = "name-missing", Breach, Warning;
    /// The `name` is empty.
    NameEmpty = "name-empty", Breach, Warning;
    /// The `name` is not a string.
    NameNotString = "name-not-string", Breach, Warning;
    /// The `name` has more than 64 characters.
    NameTooLong = "name-too-long", Breach, Warning;
    /// The `name` has uppercase letters.
    NameUppercase = "name-uppercase", Breach, Warning;
    /// The `name` has characters other than letters, digits and hyphens.
    NameInvalidChars = "name-invalid-chars", Breach, Warning;
    /// The `name` begins or ends with a hyphen.
    NameEdgeHyphen = "name-edge-hyphen", Breach, Warning;
    /// The `name` has two hyphens in a row.
    NameDoubleHyphen = "name-double-hyphen", Breach, Warning;
    /// The `name` is not the directory's name.
    NameDirMismatch = "name-dir-mismatch", Breach, Warning;
    /// There is no `description`.
    DescriptionMissing = "description-missing", Breach, Error;
    /// The `description` is empty.
    DescriptionEmpty = "description-empty", Breach, Error;
    /// The `description` is not a string.
    DescriptionNotString = "description-not-string", Breach, Warning;
    /// The `description` has more than 1024 characters.
    DescriptionTooLong = "description-too-long", Breach, Warning;
    /// The `compatibility` is not a string.
    CompatibilityNotString = "compatibility-not-string", Breach, Warning;
    /// The `compatibility` is empty.
    CompatibilityEmpty = "compatibility-empty", Breach, Warning;
    /// The `compatibility` has more than 500 characters.
    CompatibilityTooLong = "compatibility-too-long", Breach, Warning;
    /// The `metadata` is not a map.
    MetadataNotMap = "metadata-not-map", Breach, Warning;
    /// A value of `metadata` is a list or a map.
    MetadataNonStringValue = "metadata-non-string-value", Breach, Warning;
    /// The `license` is not a string.
    LicenseNotString = "license-not-string", Breach, Warning;
    /// The `allowed-tools` are not one string.
    AllowedToolsNotString = "allowed-tools-not-string", Breach, Warning;
    /// The `allowed-tools` are separated by commas.
    AllowedToolsComma = "allowed-tools-comma", Breach, Warning;

    /// There are no instructions after the frontmatter.
    BodyEmpty = "body-empty", Advice, Info;
    /// The instructions are longer than 500 lines or about 5000 tokens.
    BodyTooLong = "body-too-long", Advice, Info;
    /// The body names a file that the skill does not have.
    BrokenReference = "broken-reference", Advice, Warning;
    /// A ` #` turns the rest of an unquoted value into a comment.
    CommentTruncation = "comment-truncation", Advice, Warning;
    /// The text has control characters.
    ControlCharacter = "control-character", Advice, Warning;
    /// The skill declares hooks, which run commands.
    DeclaresHooks = "declares-hooks", Advice, Info;
    /// The description has `<` or `>`, which some validators refuse.
    DescriptionAngleBrackets = "description-angle-brackets", Advice, Info;
    /// The description is too short to choose the skill by.
    DescriptionShort = "description-short", Advice, Info;
    /// A key looks like a misspelt known key.
    DidYouMean = "did-you-mean", Advice, Warning;
    /// The file is empty.
    EmptyFile = "empty-file", Advice, Info;
    /// The frontmatter is wrapped in a code fence.
    FrontmatterInCodeFence = "frontmatter-in-code-fence", Advice, Info;
    /// The name has characters outside ASCII, which some clients refuse.
    NameNonAscii = "name-non-ascii", Advice, Info;
    /// The YAML uses flow style, anchors or tags, which some loaders refuse.
    NonportableYaml = "nonportable-yaml", Advice, Info;
    /// The `allowed-tools` name every tool.
    AllowedToolsWildcard = "allowed-tools-wildcard", Advice, Warning;
    /// The metadata imitates markup that agents use for their own messages.
    SuspiciousMarkup = "suspicious-markup", Advice, Warning;
    /// The text has invisible, direction-changing or look-alike characters.
    SuspiciousUnicode = "suspicious-unicode", Advice, Warning;
    /// The file holds only a path: a symbolic link that was checked out as text.
    SymlinkStub = "symlink-stub", Advice, Info;
    /// A known field has an invalid value.
    FieldInvalid = "field-invalid", Advice, Warning;
    /// A client reserves this name for itself.
    NameReserved = "name-reserved", Advice, Warning;

    /// The file has more findings than prowess keeps.
    FindingsCapped = "findings-capped", Discovery, Info;
    /// The file is larger than 10 MiB.
    TooLarge = "too-large", Discovery, Error;
    /// The manifest is not a regular file.
    NotAFile = "not-a-file", Discovery, Error;
    /// prowess cannot read a file or directory.
    Unreadable = "unreadable", Discovery, Warning;
    /// The root does not exist.
    RootMissing = "root-missing", Discovery, Info;
    /// A SKILL.md lies directly in a directory of skills, where only subdirectories count.
    ManifestInRoot = "manifest-in-root", Discovery, Warning;
    /// The link leads to a directory that was already scanned.
    LinkLoop = "link-loop", Discovery, Warning;
    /// The link leads out of its root.
    LinkOutsideRoot = "link-outside-root", Discovery, Warning;
    /// The configuration says not to follow this link.
    LinkNotFollowed = "link-not-followed", Discovery, Info;
    /// The target of the link does not exist.
    LinkBroken = "link-broken", Discovery, Warning;
    /// The link leads to a skill that was already found in its own place.
    LinkDuplicate = "link-duplicate", Discovery, Info;
    /// A hidden directory, not scanned.
    HiddenDirectory = "hidden-directory", Discovery, Info;
    /// A directory of dependencies or build products, not scanned.
    IgnoredDirectory = "ignored-directory", Discovery, Info;
    /// A directory that `.gitignore` excludes.
    Gitignored = "gitignored", Discovery, Info;
    /// A skill inside another skill's directory.
    NestedSkill = "nested-skill", Discovery, Info;
    /// Directories below the depth limit were not scanned.
    DepthCap = "depth-cap", Discovery, Warning;
    /// The limit on scanned directories was reached.
    DirectoryCap = "directory-cap", Discovery, Warning;
    /// The limit on skills was reached.
    SkillCap = "skill-cap", Discovery, Warning;
    /// The time for scanning ran out.
    TimeBudget = "time-budget", Discovery, Warning;
    /// Another skill of the same name takes precedence.
    Shadowed = "shadowed", Discovery, Warning;
    /// The skill is not trusted, so models do not see it.
    Untrusted = "untrusted", Discovery, Info;
    /// A file name that is not UTF-8.
    NonUtf8Name = "non-utf8-name", Discovery, Warning;
}

impl Code {
    /// Whether one such finding makes a skill invalid in strict mode.
    pub fn fails_strict(self) -> bool {
        match self.class() {
            CodeClass::Breach => self != Code::AllowedToolsComma,
            CodeClass::Advice => false,
            CodeClass::Discovery => self.severity() == Severity::Error,
        }
    }
}

impl Code {
    /// Whether such a finding means that there may be skills which were not looked at.
    pub fn leaves_out(self) -> bool {
        matches!(
            self,
            Self::DepthCap | Self::DirectoryCap | Self::SkillCap | Self::TimeBudget | Self::Unreadable
        )
    }
}

impl fmt::Display for Code {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

#[cfg(feature = "serde")]
impl serde::Serialize for Code {
    fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(self.as_str())
    }
}

/// A place in a file: bytes from the file's start, and the line and column a person counts.
///
/// ```
/// use prowess_catalog::Span;
///
/// let span = Span::locate("---\nname: größe\n".as_bytes(), 10..17);
/// assert_eq!((span.line, span.column), (2, 7));
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize))]
#[non_exhaustive]
pub struct Span {
    /// First byte.
    pub start: usize,
    /// One past the last byte.
    pub end: usize,
    /// Line, from 1.
    pub line: usize,
    /// Column in characters, from 1.
    pub column: usize,
}

impl Span {
    /// The span of `range` in `source`. Ranges that do not fit are clamped.
    pub fn locate(source: &[u8], range: Range<usize>) -> Self {
        let start = range.start.min(source.len());
        let before = &source[..start];
        let line_start = memchr::memrchr2(b'\n', b'\r', before).map_or(0, |at| at + 1);
        let breaks = memchr::memchr2_iter(b'\n', b'\r', before)
            .filter(|&at| source[at] == b'\n' || source.get(at + 1) != Some(&b'\n'))
            .count();
        let column = source[line_start..start].iter().filter(|&&byte| byte & 0xC0 != 0x80).count() + 1;
        Self { start, end: range.end.clamp(start, source.len()), line: breaks + 1, column }
    }
}

/// A replacement that would remove a finding, safe to apply without asking.
#[derive(Clone, Debug, PartialEq, Eq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize))]
#[non_exhaustive]
pub struct Fix {
    /// The bytes to replace.
    pub start: usize,
    /// One past the last byte to replace.
    pub end: usize,
    /// What to put there.
    pub replacement: String,
}

/// One finding.
///
/// ```
/// use prowess_catalog::{Code, Diagnostic};
///
/// let found = Diagnostic::new(Code::DescriptionMissing, "greet/SKILL.md", "there is no description")
///     .hint("say what the skill does and when to use it");
/// assert_eq!(
///     found.to_string(),
///     "greet/SKILL.md: error [description-missing] there is no description \
///      (say what the skill does and when to use it)"
/// );
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize))]
#[non_exhaustive]
pub struct Diagnostic {
    /// Which rule.
    pub code: Code,
    /// How it affects loading.
    pub severity: Severity,
    /// The file or directory, as the host knows it.
    pub file: Arc<str>,
    /// Where in the file, when it is about a place in it.
    #[cfg_attr(feature = "serde", serde(skip_serializing_if = "Option::is_none"))]
    pub span: Option<Span>,
    /// What happened.
    pub message: String,
    /// What to do.
    #[cfg_attr(feature = "serde", serde(skip_serializing_if = "Option::is_none"))]
    pub hint: Option<String>,
    /// How to mend it, when there is one obvious way.
    #[cfg_attr(feature = "serde", serde(skip_serializing_if = "Option::is_none"))]
    pub fix: Option<Fix>,
}

impl Diagnostic {
    /// A finding about `file` as a whole, with the code's usual severity.
    pub fn new(code: Code, file: impl Into<Arc<str>>, message: impl Into<String>) -> Self {
        Self {
            code,
            severity: code.severity(),
            file: file.into(),
            span: None,
            message: message.into(),
            hint: None,
            fix: None,
        }
    }

    /// The same finding with a hint.
    pub fn hint(mut self, hint: impl Into<String>) -> Self {
        self.hint = Some(hint.into());
        self
    }
}

impl fmt::Display for Diagnostic {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.file)?;
        if let Some(span) = &self.span {
            write!(f, ":{}:{}", span.line, span.column)?;
        }
        write!(f, ": {} [{}] {}", self.severity.as_str(), self.code, self.message)?;
        if let Some(hint) = &self.hint {
            write!(f, " ({hint})")?;
        }
        Ok(())
    }
}

/// Collects the findings of one file, up to [`MAX_FINDINGS`].
#[derive(Debug)]
pub(crate) struct Findings<'a> {
    file: Arc<str>,
    source: &'a [u8],
    found: Vec<Diagnostic>,
    dropped: usize,
}

impl<'a> Findings<'a> {
    pub(crate) fn new(file: Arc<str>, source: &'a [u8]) -> Self {
        Self { file, source, found: Vec::new(), dropped: 0 }
    }

    /// Adds a finding. Its place is worked out only when it is kept.
    pub(crate) fn add(
        &mut self,
        code: Code,
        range: Option<Range<usize>>,
        message: impl Into<String>,
    ) -> Added<'_> {
        // The first of a kind is kept whatever came before it: a flood of one hides no other.
        if self.found.len() >= MAX_FINDINGS && self.found.iter().any(|found| found.code == code) {
            self.dropped += 1;
            return Added(None);
        }
        self.keep(code, range, message)
    }

    /// Adds a finding that prevents loading, whatever its code usually does.
    pub(crate) fn refuse(
        &mut self,
        code: Code,
        range: Option<Range<usize>>,
        message: impl Into<String>,
    ) -> Added<'_> {
        let added = self.keep(code, range, message);
        added.with(|diagnostic| diagnostic.severity = Severity::Error)
    }

    fn keep(&mut self, code: Code, range: Option<Range<usize>>, message: impl Into<String>) -> Added<'_> {
        let mut diagnostic = Diagnostic::new(code, Arc::clone(&self.file), message);
        diagnostic.span = range.map(|range| Span::locate(self.source, range));
        self.found.push(diagnostic);
        Added(self.found.last_mut())
    }

    /// Whether a finding that prevents loading was added.
    pub(crate) fn prevents_loading(&self) -> bool {
        self.found.iter().any(|diagnostic| diagnostic.severity == Severity::Error)
    }

    pub(crate) fn finish(mut self) -> Vec<Diagnostic> {
        if self.dropped > 0 {
            let message = format!("{} more findings are not listed", self.dropped);
            self.found.push(Diagnostic::new(Code::FindingsCapped, self.file, message));
        }
        self.found
    }
}

/// A finding just added, to be completed.
pub(crate) struct Added<'a>(Option<&'a mut Diagnostic>);

impl Added<'_> {
    pub(crate) fn hint(self, hint: impl Into<String>) -> Self {
        self.with(|diagnostic| diagnostic.hint = Some(hint.into()))
    }

    pub(crate) fn fix(self, range: Range<usize>, replacement: impl Into<String>) -> Self {
        self.fix_if(true, range, replacement)
    }

    /// A fix that is offered only when it is certainly `safe`.
    pub(crate) fn fix_if(self, safe: bool, range: Range<usize>, replacement: impl Into<String>) -> Self {
        let fix = Fix { start: range.start, end: range.end, replacement: replacement.into() };
        self.with(|diagnostic| diagnostic.fix = safe.then_some(fix))
    }

    fn with(mut self, change: impl FnOnce(&mut Diagnostic)) -> Self {
        if let Some(diagnostic) = &mut self.0 {
            change(diagnostic);
        }
        self
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn spans_count_lines_of_every_ending_and_columns_in_characters() {
        let source = "a\r\nb\rcé x\n".as_bytes();
        let at = source.iter().position(|&byte| byte == b'x').unwrap();
        assert_eq!(Span::locate(source, at..at + 1), Span { start: at, end: at + 1, line: 3, column: 4 });
        assert_eq!(Span::locate(source, 99..120).line, 4);
    }

    #[test]
    fn codes_are_unique_and_kebab() {
        let mut seen = std::collections::BTreeSet::new();
        for code in Code::ALL {
            assert!(seen.insert(code.as_str()), "{code} stands twice");
            assert!(
                code.as_str()
                    .bytes()
                    .all(|byte| byte.is_ascii_lowercase() || byte.is_ascii_digit() || byte == b'-')
            );
            assert!(code.explanation().ends_with('.'));
        }
    }

    #[test]
    fn a_flood_of_findings_is_capped_and_says_so() {
        let mut findings = Findings::new("f".into(), b"");
        for _ in 0..MAX_FINDINGS + 5 {
            findings.add(Code::UnknownField, None, "unknown");
        }
        findings.add(Code::DescriptionMissing, None, "none");
        let found = findings.finish();
        assert_eq!(found.len(), MAX_FINDINGS + 2);
        assert_eq!(found.last().unwrap().message, "5 more findings are not listed");
    }
}
