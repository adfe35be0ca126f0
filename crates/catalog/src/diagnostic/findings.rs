//! Collects the diagnostics of one file, up to a limit.

use std::ops::Range;
use std::sync::Arc;

use super::{Code, Diagnostic, Fix, Severity, Span};

/// How many diagnostics one file may have, besides the first of every other code. If there are more,
/// [`Code::FindingsCapped`] says so.
pub const MAX_FINDINGS: usize = 64;

/// Collects the diagnostics of one file, up to [`MAX_FINDINGS`].
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

    /// Adds a diagnostic. Computes its place only if the diagnostic is kept.
    pub(crate) fn add(
        &mut self,
        code: Code,
        range: Option<Range<usize>>,
        message: impl Into<String>,
    ) -> Added<'_> {
        // Always keep the first of each code, so that a flood of one code hides no other.
        if self.found.len() >= MAX_FINDINGS && self.found.iter().any(|found| found.code == code) {
            self.dropped += 1;
            return Added(None);
        }
        self.keep(code, range, message)
    }

    /// Adds a diagnostic that prevents loading, whatever the default severity of its code.
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

    /// Whether a diagnostic prevents loading.
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

/// A diagnostic that was just added, to be completed.
pub(crate) struct Added<'a>(Option<&'a mut Diagnostic>);

impl Added<'_> {
    pub(crate) fn hint(self, hint: impl Into<String>) -> Self {
        self.with(|diagnostic| diagnostic.hint = Some(hint.into()))
    }

    pub(crate) fn fix(self, range: Range<usize>, replacement: impl Into<String>) -> Self {
        self.fix_if(true, range, replacement)
    }

    /// Adds a fix, if it is certainly `safe`.
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
