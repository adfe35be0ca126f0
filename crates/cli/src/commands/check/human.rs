//! Check results for people: each finding with its source line.

use std::io::Write as _;
use std::ops::Range;

use annotate_snippets::{AnnotationKind, Group, Level, Origin, Renderer, Snippet};
use anyhow::Result;
use prowess_catalog::check::CheckReport;
use prowess_catalog::untrusted::is_unprintable;
use prowess_catalog::{Diagnostic, Severity};

use super::severity;
use crate::terminal::{Style, Terminal, printable, styled};

/// Prints a report: every finding, and whether the skill is valid.
pub(crate) fn report(report: &CheckReport, terminal: &mut Terminal) -> Result<()> {
    let renderer = if terminal.is_styled() { Renderer::styled() } else { Renderer::plain() };
    let renderer = renderer.term_width(terminal.width());
    let source = std::str::from_utf8(&report.source).ok();
    for found in &report.diagnostics {
        writeln!(terminal, "{}\n", renderer.render(&[group(report, found, source)]))?;
    }
    let (mark, style) = match (super::is_empty(report), report.is_valid()) {
        (true, _) => ("no skill", Style::Bad),
        (false, true) => ("valid", Style::Good),
        (false, false) => ("invalid", Style::Bad),
    };
    writeln!(terminal, "{}: {}", printable(&report.id), styled(mark, style))?;
    if !report.diagnostics.is_empty() {
        writeln!(terminal)?;
    }
    Ok(())
}

fn group<'a>(report: &CheckReport, found: &'a Diagnostic, source: Option<&'a str>) -> Group<'a> {
    let level = match severity(report, found) {
        Severity::Error => Level::ERROR,
        Severity::Warning => Level::WARNING,
        Severity::Info => Level::INFO,
    };
    let title = level.primary_title(printable(&found.message)).id(found.code.as_str());
    let group = match (&found.span, source) {
        (Some(span), Some(source)) => {
            let (line, marked) = drawable(source, span.start, span.end);
            let snippet = Snippet::source(line).line_start(span.line).path(printable(&found.file));
            title.element(snippet.annotation(AnnotationKind::Primary.span(marked)))
        }
        _ => title.element(Origin::path(printable(&found.file))),
    };
    match &found.hint {
        Some(hint) => group.element(Level::HELP.message(printable(hint))),
        None => group,
    }
}

/// How much of a line is drawn before and after the marked part, in bytes.
const CONTEXT: usize = 400;

/// The line in which a span starts, and the part of it to mark. Long lines are cut, and control characters are
/// replaced.
fn drawable(source: &str, start: usize, end: usize) -> (String, Range<usize>) {
    let start = source.floor_char_boundary(start.min(source.len()));
    let is_break = |byte: &u8| matches!(byte, b'\n' | b'\r');
    let bytes = source.as_bytes();
    let line_start = bytes[..start].iter().rposition(is_break).map_or(0, |at| at + 1);
    let line_end = bytes[start..].iter().position(is_break).map_or(source.len(), |length| start + length);
    let end = source.ceil_char_boundary(end.clamp(start, line_end).min(start + CONTEXT));
    let from = source.floor_char_boundary(line_start.max(start.saturating_sub(CONTEXT)));
    let to = source.floor_char_boundary(line_end.min(end + CONTEXT));

    let mut line = visible(&source[from..start]);
    let marked = line.len();
    line.push_str(&visible(&source[start..end]));
    let marked = marked..line.len();
    line.push_str(&visible(&source[end..to.max(end)]));
    (line, marked)
}

fn visible(text: &str) -> String {
    text.chars().map(|c| if is_unprintable(c) && c != '\t' { '\u{FFFD}' } else { c }).collect()
}
