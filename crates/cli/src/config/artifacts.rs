//! `[artifacts]`

use super::read::section;
use super::setting::words;

section! {
    /// Who shares artifacts.
    pub(crate) struct ArtifactSettings {
        /// Who finds the artifacts of a run: only its thread of `prowess chat` or its client of `prowess mcp`, everyone
        /// in the same project, or everything that you run. For `prowess run`, `thread` means `project`.
        User scope: ScopeWord = "thread",
    }
}

words! {
    /// Who shares artifacts.
    enum ScopeWord { "thread" = Thread, "project" = Project, "user" = User }
}
