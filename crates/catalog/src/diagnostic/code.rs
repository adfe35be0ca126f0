//! The codes of diagnostics. `docs/diagnostics.md` is generated from this list.

use std::fmt;

use super::Severity;

/// The kind of rule behind a [`Code`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum CodeClass {
    /// A violation of the open specification, which is an error in strict mode. For exceptions, see [`Code::fails_strict`].
    Breach,
    /// Advice that the specification does not require. It never fails a check.
    Advice,
    /// Something found during the search for skills: a limit, a link, a directory that cannot be read.
    Discovery,
}

macro_rules! codes {
    ($($(#[doc = $doc:literal])+ $variant:ident = $text:literal, $class:ident, $severity:ident;)+) => {
        /// The stable identifier of a kind of diagnostic.
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

            /// The default severity. A single diagnostic may be more severe.
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
    /// The `description` has more than 1024 characters. The overview cuts the rest off.
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
    /// A SKILL.md is directly in a directory of skills, where only subdirectories count.
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
    /// Whether this code makes a skill invalid in strict mode.
    pub fn fails_strict(self) -> bool {
        match self.class() {
            CodeClass::Breach => self != Code::AllowedToolsComma,
            CodeClass::Advice => false,
            CodeClass::Discovery => self.severity() == Severity::Error,
        }
    }
}

impl Code {
    /// Whether this code means that the scan may have missed skills.
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

#[cfg(test)]
mod tests {
    use super::*;

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
}
