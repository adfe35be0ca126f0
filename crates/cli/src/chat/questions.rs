//! Asks the person at the keyboard about calls that need approval.

use std::collections::BTreeSet;
use std::path::Path;
use std::sync::{Arc, Mutex, PoisonError};

use prowess_agent::{CallReply, WaitingCall};
use prowess_catalog::untrusted::exact_quoted_line;
use prowess_permission::wording::{Detail, DetailStyle};

use super::input::{Entered, Input, Show};
use crate::rows;
use crate::terminal::{Style, printable, printable_lines, styled};

/// How many lines of a file's text are shown at first, and how wide they are. Everything else is shown completely.
const MAX_TEXT: usize = 12;
const MAX_LINE: usize = 160;

/// A person's reply to a question.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum QuestionReply {
    Reply(CallReply),
    /// Ctrl-C: end the turn.
    Stop,
    /// Ctrl-D: leave the question in the thread.
    Leave,
    /// Show everything first, then ask again.
    ViewAll,
}

/// The real paths of files whose new text a person approved without seeing all of it. Clones share one list.
#[derive(Clone, Debug, Default)]
pub(super) struct UnseenChanges(Arc<Mutex<BTreeSet<String>>>);

impl UnseenChanges {
    /// Notes the reply to a question about a file. `is_whole` says whether the person saw all of the question.
    pub(super) fn note(&self, waiting: &WaitingCall, is_whole: bool) {
        let Some(file) = &waiting.question.file else { return };
        let mut unseen = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if is_whole || !is_cut(waiting) {
            unseen.remove(file.real());
        } else {
            unseen.insert(file.real().to_owned());
        }
    }

    /// Whether the person approved a text for this file without seeing all of it.
    pub(super) fn has(&self, path: &Path) -> bool {
        let unseen = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        unseen.contains(&*path.to_string_lossy())
    }
}

/// Whether a question shows only the start of a text.
fn is_cut(waiting: &WaitingCall) -> bool {
    let wording = waiting.question.wording();
    let mut details = wording.details.iter().filter(|detail| !detail.is_in_title);
    details.any(|told| detail(&mut Vec::new(), told, false))
}

/// The lines of a question: with the start of long texts, or complete.
pub(super) fn question_lines(waiting: &WaitingCall, is_whole: bool) -> Vec<String> {
    let wording = waiting.question.wording();
    let mut lines = vec![format!("{} {}", styled("?", Style::Name), printable(&wording.heading))];
    lines.extend(wording.note.iter().map(|note| format!("  {}", styled(printable(note), Style::Faint))));
    let mut is_cut = false;
    for told in wording.details.iter().filter(|detail| !detail.is_in_title) {
        is_cut |= detail(&mut lines, told, is_whole);
    }
    let mut offers = vec!["y once".to_owned(), "n no".to_owned()];
    if is_cut {
        offers.push("v view all".to_owned());
    }
    // The last offer can be long.
    if !wording.always.is_empty() {
        // Rules are not folded, so that two different rules never look the same.
        let rules: Vec<_> = wording.always.iter().map(|rule| exact_quoted_line(rule)).collect();
        let ends = wording.always_ends.map(|ends| format!(" {ends}")).unwrap_or_default();
        offers.push(format!("a always: {}{ends}", rules.join(", ")));
    }
    lines.push(styled(format!("  {}", offers.join(" · ")), Style::Faint));
    lines
}

/// The style of a line, by its text.
type LineStyle = fn(&str) -> Style;

/// How a line of a unified diff is shown. Its mark is its first character.
fn difference_style(line: &str) -> Style {
    match line.as_bytes().first() {
        Some(b'+') => Style::Good,
        Some(b'-') => Style::Bad,
        _ => Style::Faint,
    }
}

/// Adds a detail, and says whether it was cut.
fn detail(lines: &mut Vec<String>, detail: &Detail, is_whole: bool) -> bool {
    let mark: Option<(&str, LineStyle)> = match detail.style {
        DetailStyle::Removed => Some(("- ", |_| Style::Bad)),
        DetailStyle::Added => Some(("+ ", |_| Style::Good)),
        DetailStyle::Difference => Some(("", difference_style)),
        _ => None,
    };
    let safe = printable_lines(&detail.text).replace('\t', "    ");
    let total = safe.lines().count();
    if let Some((mark, style)) = mark {
        let (most, width) = if is_whole { (total, usize::MAX) } else { (MAX_TEXT, MAX_LINE) };
        let mut is_cut = total > most;
        for line in safe.lines().take(most) {
            let start = rows::cut(line, width);
            is_cut |= start != line;
            lines.push(format!("  {}", styled(format!("{mark}{start}"), style(&start))));
        }
        if total > most {
            lines.push(styled(format!("  … {} more lines", total - most), Style::Faint));
        }
        return is_cut;
    }
    let name = styled(printable(&detail.name), Style::Faint);
    if total <= 1 {
        lines.push(format!("  {name} {safe}"));
        return false;
    }
    lines.push(format!("  {name}"));
    lines.extend(safe.lines().map(|line| format!("    {line}")));
    false
}

/// Asks until there is a valid reply.
pub(super) async fn ask(input: &mut Input, waiting: &WaitingCall, show: &mut Show<'_>) -> QuestionReply {
    let always = &waiting.question.always;
    let (mut question, again) = match always.is_empty() {
        true => ("allow it? [y/n] ", "type y or n; allow it? [y/n] "),
        false => ("allow it? [y/a/n] ", "type y, a or n; allow it? [y/a/n] "),
    };
    loop {
        let line = match input.reply(question, show).await {
            Entered::Line(line) => line,
            Entered::Interrupted => return QuestionReply::Stop,
            Entered::End => return QuestionReply::Leave,
        };
        let line = line.trim();
        let (word, rest) = line.split_once(char::is_whitespace).unwrap_or((line, ""));
        match word.trim_end_matches([',', '.', ':']).to_ascii_lowercase().as_str() {
            "v" | "view" => return QuestionReply::ViewAll,
            "y" | "yes" | "once" if rest.is_empty() => return QuestionReply::Reply(CallReply::Approve),
            "a" | "always" if rest.is_empty() && !always.is_empty() => {
                return QuestionReply::Reply(CallReply::Always);
            }
            "n" | "no" => {
                let message = match rest.trim() {
                    "" => match input.reply("why? (sent to the model; may be empty) ", show).await {
                        Entered::Line(reason) => reason.trim().to_owned(),
                        Entered::Interrupted => return QuestionReply::Stop,
                        Entered::End => String::new(),
                    },
                    reason => reason.to_owned(),
                };
                return QuestionReply::Reply(CallReply::RejectAll { message });
            }
            _ => question = again,
        }
    }
}
