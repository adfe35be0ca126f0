//! Spans as a text that a person reads.

use std::fmt::Write as _;

use opentelemetry_proto::tonic::trace::v1::span::SpanKind;
use opentelemetry_proto::tonic::trace::v1::status::StatusCode;
use opentelemetry_proto::tonic::trace::v1::{Span, Status};
use prowess_agent::ThreadId;

use super::collector::{attribute, shown};

/// The spans of a thread's turns and of all below them, as a tree. What differs from run to run is left out.
pub(super) fn of_thread(spans: &[Span], thread: &ThreadId) -> String {
    let mut text = String::new();
    let is_root = |span: &&Span| {
        let conversation = attribute(&span.attributes, "gen_ai.conversation.id");
        span.name.starts_with("invoke_agent") && conversation.as_deref() == Some(thread.as_str())
    };
    for root in spans.iter().filter(is_root) {
        text.push_str(&below(spans, root, thread));
    }
    text
}

/// A span that is below none, and all below it.
pub(super) fn below(spans: &[Span], root: &Span, thread: &ThreadId) -> String {
    assert!(root.parent_span_id.is_empty());
    let mut text = String::new();
    write(&mut text, spans, root, thread, 0);
    text
}

fn write(text: &mut String, spans: &[Span], span: &Span, thread: &ThreadId, depth: usize) {
    let indent = "  ".repeat(depth);
    let kind = match span.kind() {
        SpanKind::Client => " (client)",
        _ => "",
    };
    let status = span.status.as_ref().map_or(StatusCode::Unset, Status::code);
    let error = if status == StatusCode::Error { " ERROR" } else { "" };
    let _ = writeln!(text, "{indent}{}{kind}{error}", span.name);
    let mut attributes: Vec<String> = span
        .attributes
        .iter()
        .map(|attribute| {
            let value = shown(attribute.value.as_ref());
            let value = match attribute.key.as_str() {
                "gen_ai.conversation.id" if value == thread.as_str() => "this".to_owned(),
                "gen_ai.conversation.id" => "another".to_owned(),
                "duration_ms" => value.parse::<i64>().map(|_| "a number".to_owned()).unwrap(),
                _ => value,
            };
            format!("{}={value}", attribute.key)
        })
        .collect();
    attributes.sort();
    for attribute in attributes {
        let _ = writeln!(text, "{indent}  . {attribute}");
    }
    assert!(span.events.is_empty(), "{:?}", span.events);
    assert!(span.end_time_unix_nano >= span.start_time_unix_nano);
    let mut below: Vec<&Span> = spans.iter().filter(|below| below.parent_span_id == span.span_id).collect();
    below.sort_by_key(|span| span.start_time_unix_nano);
    for child in below {
        assert_eq!(child.trace_id, span.trace_id);
        assert!(child.start_time_unix_nano >= span.start_time_unix_nano);
        assert!(child.end_time_unix_nano <= span.end_time_unix_nano);
        write(text, spans, child, thread, depth + 1);
    }
}
