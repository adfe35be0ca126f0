//! The kinds of hidden text.

use std::fmt;

/// What kind of hidden text was found.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[non_exhaustive]
pub enum HiddenKind {
    /// Characters that change the direction of text, so that it reads otherwise than it runs.
    Bidi,
    /// Characters without width.
    ZeroWidth,
    /// Unicode tag characters, which hide ASCII text. The excerpt has that text.
    Tags,
    /// Several characters for private use.
    PrivateUse,
    /// Several variation selectors, which can hide bytes. The excerpt has them as text, if they are text.
    VariationSelectors,
    /// Characters that control a terminal.
    TerminalControl,
    /// A word with Latin letters and Cyrillic or Greek ones that look like Latin ones.
    LookAlike,
    /// A long text in base64 or hexadecimal digits.
    EncodedBlob,
    /// A line that downloads or decodes a program and runs it.
    DownloadAndRun,
    /// A long HTML comment in a SKILL.md. A model reads it; a person who looks at the rendered page does not.
    LongComment,
    /// Something was not looked at or is not shown, because a limit was reached.
    NotShown,
}

impl HiddenKind {
    /// A stable name for machines.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Bidi => "bidi",
            Self::ZeroWidth => "zero-width",
            Self::Tags => "tags",
            Self::PrivateUse => "private-use",
            Self::VariationSelectors => "variation-selectors",
            Self::TerminalControl => "terminal-control",
            Self::LookAlike => "look-alike",
            Self::EncodedBlob => "encoded-blob",
            Self::DownloadAndRun => "download-and-run",
            Self::LongComment => "long-comment",
            Self::NotShown => "not-shown",
        }
    }
}

impl fmt::Display for HiddenKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Bidi => "characters that change the direction of text",
            Self::ZeroWidth => "invisible characters",
            Self::Tags => "text in invisible tag characters",
            Self::PrivateUse => "characters for private use",
            Self::VariationSelectors => "hidden variation selectors",
            Self::TerminalControl => "terminal control characters",
            Self::LookAlike => "a word with look-alike letters",
            Self::EncodedBlob => "a long encoded text",
            Self::DownloadAndRun => "downloads or decodes a program and runs it",
            Self::LongComment => "a long comment",
            Self::NotShown => "not shown",
        })
    }
}
