//! Check results as GitHub workflow commands.

use std::io::Write as _;

use anyhow::Result;
use prowess_catalog::Severity;
use prowess_catalog::check::CheckReport;

use super::severity;
use crate::terminal::{Terminal, printable};

pub(crate) fn report(report: &CheckReport, terminal: &mut Terminal) -> Result<()> {
    for found in &report.diagnostics {
        let command = match severity(report, found) {
            Severity::Error => "error",
            Severity::Warning => "warning",
            Severity::Info => "notice",
        };
        let place = found
            .span
            .as_ref()
            .map(|span| format!(",line={},col={}", span.line, span.column))
            .unwrap_or_default();
        let hint = found.hint.as_ref().map(|hint| format!(" ({hint})")).unwrap_or_default();
        writeln!(
            terminal,
            "::{command} file={}{place},title={}::{}",
            property(&found.file),
            found.code,
            data(&format!("{}{hint}", found.message)),
        )?;
    }
    Ok(())
}

/// Text after `::`, on one line, so that it cannot start another command.
fn data(text: &str) -> String {
    printable(text).replace('%', "%25")
}

fn property(text: &str) -> String {
    data(text).replace(':', "%3A").replace(',', "%2C")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn text_cannot_become_a_command() {
        assert_eq!(data("100%\n::error::x\u{1b}[2J"), "100%25 ::error::x[2J");
        assert_eq!(property("a,b:c"), "a%2Cb%3Ac");
    }
}
