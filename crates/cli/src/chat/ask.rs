//! Questions that a call waits for, put to the person at the keyboard.

use prowess_agent::{Reply, Waiting};
use prowess_catalog::exact_line;
use serde_json::Value;

use super::happening::Happening;
use super::input::{Input, Show, Typed};
use crate::rows;
use crate::terminal::{Style, shown, shown_lines, styled};

/// How many lines of a file's text are shown at first, and how wide such a line is. All else is shown whole.
const MAX_TEXT: usize = 12;
const MAX_LINE: usize = 160;
/// Details that the title may have already, if they are as plain as a title.
const KNOWN: [&str; 3] = ["skill", "command", "host"];

/// What a person said to a question.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum Answer {
    Reply(Reply),
    /// Ctrl-C: the whole turn is to end.
    Stop,
    /// Ctrl-D: the question stays where it is.
    Leave,
    /// Nothing yet: all of it is to be seen first.
    Look,
}

/// What a question looks like: with the beginnings of texts, or whole.
pub(super) fn shown_question(waiting: &Waiting, is_whole: bool) -> Vec<String> {
    let Happening::Question { title, always, question, .. } = Happening::question(waiting) else {
        return Vec::new();
    };
    let details = question["details"].as_object();
    let mut head = shown(&title);
    // A command of several lines is told below as it is, and not in one line that looks like another command.
    let command = question["details"]["command"].as_str().filter(|command| shown(command) != *command);
    if let Some(start) = command.and_then(|command| head.strip_suffix(&shown(command))) {
        head = start.trim_end().to_owned();
    }
    let mut lines = vec![format!("{} {head}", styled("?", Style::Name))];
    let mut is_cut = false;
    for (name, value) in details.into_iter().flatten() {
        let is_told = value.as_str().is_some_and(|text| shown(text) == text && title.contains(text));
        if !(is_told && KNOWN.contains(&name.as_str())) {
            is_cut |= detail(&mut lines, name, value, is_whole);
        }
    }
    // A title may be cut; what it is about is not.
    for subject in question["subjects"].as_array().filter(|_| details.is_none()).into_iter().flatten() {
        if !subject.as_str().is_some_and(|subject| title.contains(subject)) {
            detail(&mut lines, "about", subject, true);
        }
    }
    if question.get("arguments").is_some() {
        detail(&mut lines, "arguments", &question["arguments"], true);
    }
    let mut offers = vec!["y once".to_owned()];
    if !always.is_empty() {
        // What will be recorded is not folded: two rules never look the same.
        let rules: Vec<_> = always.iter().map(|rule| exact_line(rule)).collect();
        offers.push(format!("a always: {}", rules.join(", ")));
    }
    offers.push("n no".to_owned());
    if is_cut {
        offers.push("v view all".to_owned());
    }
    lines.push(styled(format!("  {}", offers.join(" · ")), Style::Faint));
    lines
}

/// Adds what is asked about, and says whether something of it was left out.
fn detail(lines: &mut Vec<String>, name: &str, value: &Value, is_whole: bool) -> bool {
    let text = match value {
        Value::Null | Value::Bool(false) => return false,
        Value::String(text) if text.is_empty() => return false,
        Value::Array(values) if values.is_empty() => return false,
        Value::Object(fields) if fields.is_empty() => return false,
        Value::String(text) => text.clone(),
        other => other.to_string(),
    };
    let (mark, style) = match name {
        "old_string" => ("-", Style::Bad),
        "new_string" | "content" => ("+", Style::Good),
        _ => ("", Style::Plain),
    };
    let safe = shown_lines(&text).replace('\t', "    ");
    let total = safe.lines().count();
    if !mark.is_empty() {
        let (most, width) = if is_whole { (total, usize::MAX) } else { (MAX_TEXT, MAX_LINE) };
        let mut is_cut = total > most;
        for line in safe.lines().take(most) {
            let start = rows::cut(line, width);
            is_cut |= start != line;
            lines.push(format!("  {}", styled(format!("{mark} {start}"), style)));
        }
        if total > most {
            lines.push(styled(format!("  … {} more lines", total - most), Style::Faint));
        }
        return is_cut;
    }
    let name = styled(shown(name), Style::Faint);
    if total <= 1 {
        lines.push(format!("  {name} {safe}"));
        return false;
    }
    lines.push(format!("  {name}"));
    lines.extend(safe.lines().map(|line| format!("    {line}")));
    false
}

/// Asks until there is an answer.
pub(super) async fn ask(input: &mut Input, waiting: &Waiting, show: &mut Show<'_>) -> Answer {
    let Happening::Question { always, .. } = Happening::question(waiting) else { return Answer::Leave };
    let (mut question, again) = match always.is_empty() {
        true => ("allow it? [y/n] ", "type y or n; allow it? [y/n] "),
        false => ("allow it? [y/a/n] ", "type y, a or n; allow it? [y/a/n] "),
    };
    loop {
        let line = match input.answer(question, show).await {
            Typed::Line(line) => line,
            Typed::Interrupted => return Answer::Stop,
            Typed::End => return Answer::Leave,
        };
        let line = line.trim();
        let (word, rest) = line.split_once(char::is_whitespace).unwrap_or((line, ""));
        match word.trim_end_matches([',', '.', ':']).to_ascii_lowercase().as_str() {
            "v" | "view" => return Answer::Look,
            "y" | "yes" | "once" if rest.is_empty() => return Answer::Reply(Reply::Approve),
            "a" | "always" if rest.is_empty() && !always.is_empty() => {
                return Answer::Reply(Reply::Always);
            }
            "n" | "no" => {
                let message = match rest.trim() {
                    "" => match input.answer("why? (for the model; may be empty) ", show).await {
                        Typed::Line(reason) => reason.trim().to_owned(),
                        Typed::Interrupted => return Answer::Stop,
                        Typed::End => String::new(),
                    },
                    reason => reason.to_owned(),
                };
                return Answer::Reply(Reply::RejectAll { message });
            }
            _ => question = again,
        }
    }
}
