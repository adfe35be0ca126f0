//! Unloaded text in the history: one line replaces it.

use prowess_catalog::Frame;
use prowess_catalog::frame::Framed;
use prowess_catalog::untrusted::code_text;

use crate::framing::{HEADING, RESOURCE, RESOURCES};
use crate::options::UnloadedText;
use crate::view::SkillView;

impl SkillView {
    /// The message with one line in place of every text that is no longer loaded, including its heading and its list of
    /// resources. `None` if there is nothing to replace, or if the option is [`UnloadedText::Kept`].
    pub fn without_unloaded(&self, message: &str) -> Option<String> {
        if self.engine().options().unloaded_text == UnloadedText::Kept {
            return None;
        }
        let state = self.state();
        let is_loaded = |framed: &Framed| match &framed.document {
            None => state.get(&framed.name).is_some_and(|skill| skill.nonce == framed.nonce),
            Some(_) => state.documents(&framed.name).iter().any(|found| found.nonce == framed.nonce),
        };
        let frames = Frame::find_all(message, self.engine().secret().as_bytes());
        let mut text = String::new();
        let mut copied = 0;
        for framed in frames.iter().filter(|framed| !is_loaded(framed)) {
            let start = copied.max(heading_start(&message[..framed.range.start]));
            text.push_str(&message[copied..start]);
            let name = code_text(&framed.name);
            text.push_str(&match (&framed.document, state.get(&framed.name)) {
                (Some(path), _) => format!("[Document '{}' of skill '{name}' was removed.]", code_text(path)),
                (None, None) => format!("[Skill '{name}' was unloaded; its text was removed.]"),
                (None, Some(_)) => format!("[An earlier text of skill '{name}' was removed.]"),
            });
            copied = framed.range.end + summary_length(&message[framed.range.end..]);
        }
        (copied > 0).then(|| text + &message[copied..])
    }
}

/// The start of the heading at the end of `before`; the end of `before` if there is none.
fn heading_start(before: &str) -> usize {
    let found = before.rfind(HEADING).filter(|&at| {
        let mut lines = before[at..].split('\n').skip(1);
        let is_rest = |line: Option<&str>| line.is_some_and(|line| line.starts_with("**Base directory**: `"));
        let is_empty = |line: Option<&str>| line == Some("");
        is_empty(lines.next())
            && is_rest(lines.next())
            && is_empty(lines.next())
            && is_empty(lines.next())
            && lines.next().is_none()
    });
    found.unwrap_or(before.len())
}

/// The length of the list of resources at the start of `after`.
fn summary_length(after: &str) -> usize {
    let Some(mut rest) = after.strip_prefix(RESOURCES) else { return 0 };
    while let Some(line) = rest.strip_prefix(RESOURCE) {
        rest = line.find('\n').map_or("", |end| &line[end..]);
    }
    after.len() - rest.len()
}
