//! For people: each finding with its source line.

use std::io::Write as _;

use annotate_snippets::{AnnotationKind, Group, Level, Origin, Renderer, Snippet};
use anyhow::Result;
use prowess_catalog::{CheckReport, Diagnostic, Severity};

use crate::check::severity;
use crate::terminal::{Style, Terminal, shown, styled};

/// Prints a report: one line when there is nothing to say, else every finding.
pub(crate) fn report(report: &CheckReport, terminal: &mut Terminal) -> Result<()> {
    let renderer = if terminal.is_styled() { Renderer::styled() } else { Renderer::plain() };
    let renderer = renderer.term_width(terminal.width());
    let source = std::str::from_utf8(&report.source).ok();
    for found in &report.diagnostics {
        writeln!(terminal, "{}\n", renderer.render(&[group(report, found, source)]))?;
    }
    let (mark, style) = if report.is_valid() { ("valid", Style::Good) } else { ("invalid", Style::Bad) };
    writeln!(terminal, "{}: {}", shown(&report.id), styled(mark, style))?;
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
    let title = level.primary_title(shown(&found.message)).id(found.code.as_str());
    let group = match (&found.span, source) {
        (Some(span), Some(source)) => {
            let annotation = AnnotationKind::Primary.span(drawable(source, span.start, span.end));
            title.element(Snippet::source(source).path(shown(&found.file)).annotation(annotation))
        }
        _ => title.element(Origin::path(shown(&found.file))),
    };
    match &found.hint {
        Some(hint) => group.element(Level::HELP.message(shown(hint))),
        None => group,
    }
}

/// The part of the span that is worth drawing: its first line, at least a character, on boundaries.
fn drawable(source: &str, start: usize, end: usize) -> std::ops::Range<usize> {
    let mut start = start.min(source.len());
    while !source.is_char_boundary(start) {
        start -= 1;
    }
    let line = source[start..].find(['\n', '\r']).map_or(source.len(), |at| start + at);
    let mut end = end.min(line).max(start);
    while !source.is_char_boundary(end) {
        end += 1;
    }
    start..end
}
