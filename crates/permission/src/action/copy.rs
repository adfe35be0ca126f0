//! A copy of a file, as a person needs to see it.

use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use super::Action;

/// A copy of a file. The question's file is the place that it is copied to.
///
/// A reply to the question is bound to the digests: it counts only for these bytes, in the place of the same file.
///
/// ```
/// use prowess_permission::action::{CopyAction, CopyPreview};
/// use prowess_permission::{Action, Kind, Question, RealPath};
///
/// let shown = CopyPreview::Text { text: "- tides\n".into(), left_out: 0 };
/// let copy = CopyAction { from: "/tmp/out/a.md".into(), bytes: 8, digest: "5f…".into(), replaces: None, shown };
/// let question = Question::about_file(Kind::WRITE, RealPath::elsewhere("/home/a.md")).action(copy);
/// assert_eq!(question.wording().title, "copy /tmp/out/a.md to /home/a.md");
/// ```
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct CopyAction {
    /// The real path of the file that is copied.
    pub from: String,
    /// Its size.
    pub bytes: u64,
    /// The SHA-256 of its bytes, in hexadecimal.
    pub digest: String,
    /// The file that the copy replaces, if there is one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub replaces: Option<ReplacedFile>,
    /// What the person sees of the bytes.
    pub shown: CopyPreview,
}

/// A file that a copy replaces.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ReplacedFile {
    /// Its size.
    pub bytes: u64,
    /// The SHA-256 of its bytes, in hexadecimal.
    pub digest: String,
}

/// What a person sees of the bytes of a copy.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "as", rename_all = "snake_case")]
pub enum CopyPreview {
    /// The text, from its beginning.
    Text {
        /// The text.
        text: String,
        /// How many bytes are left out at the end.
        #[serde(default, skip_serializing_if = "is_zero")]
        left_out: u64,
    },
    /// The difference from the text that it replaces, as a unified diff.
    Difference {
        /// The diff.
        diff: String,
        /// How many bytes are left out at the end.
        #[serde(default, skip_serializing_if = "is_zero")]
        left_out: u64,
    },
    /// The bytes are equal to those that they replace.
    Same,
    /// Something that is not text.
    Data {
        /// What it is, in a few words.
        what: String,
    },
}

impl CopyPreview {
    /// Whether the person sees everything that is written.
    pub fn is_whole(&self) -> bool {
        match self {
            Self::Text { left_out, .. } | Self::Difference { left_out, .. } => *left_out == 0,
            Self::Same => true,
            Self::Data { .. } => false,
        }
    }
}

#[allow(clippy::trivially_copy_pass_by_ref, reason = "serde passes references")]
fn is_zero(number: &u64) -> bool {
    *number == 0
}

impl CopyAction {
    /// The action for a fingerprint. The digests stand for the bytes.
    pub(super) fn canonical(&self) -> Value {
        let replaces = self.replaces.as_ref().map(|file| &file.digest);
        json!({"copy": self.from, "digest": self.digest, "replaces": replaces})
    }
}

impl From<CopyAction> for Action {
    fn from(copy: CopyAction) -> Self {
        Self::CopyFile(Box::new(copy))
    }
}
