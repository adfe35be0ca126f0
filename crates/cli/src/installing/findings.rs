//! What `prowess check` and the scan for hidden text find in the files of a skill, for the person who decides.

use std::collections::BTreeSet;

use prowess_catalog::check::{Profile, check_directory};
use prowess_catalog::{Code, Severity};
use prowess_install::hidden_text::{HiddenKind, HiddenText};
use prowess_install::store::Stored;

use crate::terminal::printable;

/// How many findings are shown on a screen, besides the first of each kind.
const MAX_FINDINGS: usize = 12;

/// The findings in the files of a skill, the gravest first.
pub(crate) struct Findings<'a> {
    hidden: Vec<&'a HiddenText>,
    checked: Vec<String>,
}

impl<'a> Findings<'a> {
    /// What is found in `stored`, which is installed in a directory of this name.
    pub(crate) fn of(directory_name: &str, stored: &Stored, hidden: &'a [HiddenText]) -> Self {
        let report = check_directory(&stored.path, directory_name, Profile::Spec);
        // The directory of the cache has another name.
        let is_shown = |code: Code| code != Code::NameDirMismatch;
        let checked = report
            .diagnostics
            .iter()
            .filter(|found| is_shown(found.code) && found.severity != Severity::Info)
            .map(|found| format!("check: {}", printable(&found.message)));
        let mut hidden: Vec<&HiddenText> = hidden.iter().collect();
        hidden.sort_by_key(|found| graveness(found.kind));
        Self { hidden, checked: checked.collect() }
    }

    /// A line for each finding.
    pub(crate) fn all(&self) -> Vec<String> {
        self.hidden.iter().map(|found| hidden_line(found)).chain(self.checked.iter().cloned()).collect()
    }

    /// The lines for a screen. A stranger could fill the list with findings of one kind, so the first of each kind is there.
    pub(crate) fn lines(&self) -> Vec<String> {
        let mut seen = BTreeSet::new();
        let (first, more): (Vec<&HiddenText>, Vec<&HiddenText>) =
            self.hidden.iter().partition(|found| seen.insert(found.kind));
        let mut hidden = first;
        let room = MAX_FINDINGS.saturating_sub(hidden.len() + self.checked.len().min(1));
        hidden.extend(more.into_iter().take(room));
        hidden.sort_by_key(|found| graveness(found.kind));
        let room = MAX_FINDINGS.saturating_sub(hidden.len()).max(1);
        let mut lines: Vec<String> = hidden.into_iter().map(hidden_line).collect();
        lines.extend(self.checked.iter().take(room).cloned());
        let more = (self.hidden.len() + self.checked.len()).saturating_sub(lines.len());
        lines.extend((more > 0).then(|| format!("{more} more findings")));
        lines
    }
}

/// The order in which findings are shown.
fn graveness(kind: HiddenKind) -> u8 {
    match kind {
        HiddenKind::DownloadAndRun => 0,
        HiddenKind::Tags | HiddenKind::Bidi | HiddenKind::TerminalControl => 1,
        HiddenKind::ZeroWidth | HiddenKind::VariationSelectors | HiddenKind::PrivateUse => 2,
        HiddenKind::EncodedBlob => 3,
        _ => 4,
    }
}

/// A line about hidden text.
fn hidden_line(found: &HiddenText) -> String {
    let place = format!("{}:{}:{}", printable(&found.path), found.line, found.column);
    format!("{place}: {}: {}", found.kind, printable(&found.excerpt))
}
