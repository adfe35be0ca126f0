//! What the file tools are called with.

use schemars::JsonSchema;
use serde::Deserialize;

#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct Ls {
    /// The directory, from the root, such as `/notes`.
    pub(super) path: String,
}

#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct Read {
    /// The file, from the root.
    pub(super) file_path: String,
    /// The line to begin at, from 0.
    #[serde(default)]
    pub(super) offset: Option<usize>,
    /// How many lines; 2000 by default.
    #[serde(default)]
    pub(super) limit: Option<usize>,
    /// Of a long line, the piece to begin at, from 0.
    #[serde(default)]
    pub(super) piece: Option<usize>,
}

#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct Write {
    /// The new file, from the root.
    pub(super) file_path: String,
    /// All of its text.
    pub(super) content: String,
}

#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct EditFile {
    /// The file, from the root.
    pub(super) file_path: String,
    /// The text to replace, exactly as it stands in the file.
    pub(super) old_string: String,
    /// What to put there.
    pub(super) new_string: String,
    /// Whether to replace every occurrence, and not the only one.
    #[serde(default)]
    pub(super) replace_all: Option<bool>,
}

#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct Glob {
    /// What paths below `path` must look like, such as `**/*.md`.
    pub(super) pattern: String,
    /// The directory to look in; the root by default.
    #[serde(default)]
    pub(super) path: Option<String>,
}

#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct Grep {
    /// A regular expression that lines must match.
    pub(super) pattern: String,
    /// The file or directory to look in; the root by default.
    #[serde(default)]
    pub(super) path: Option<String>,
    /// Only files whose path looks like this, such as `**/*.rs`.
    #[serde(default)]
    pub(super) glob: Option<String>,
}

#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct Execute {
    /// The command line.
    pub(super) command: String,
    /// Seconds that it may take; 120 by default.
    #[serde(default)]
    pub(super) timeout: Option<u64>,
}
