//! Unloaded text in the history: one line replaces it.

use std::ops::Range;

use prowess_catalog::Frame;
use prowess_catalog::frame::Framed;
use prowess_catalog::untrusted::code_text;

use crate::framing::{HEADING, RESOURCE, RESOURCES};
use crate::options::UnloadedText;
use crate::state::SkillState;
use crate::view::SkillView;

impl SkillView {
    /// The message with one line in place of every text that is no longer loaded, including its heading and its list of
    /// resources. `None` if there is nothing to replace, or if the option is [`UnloadedText::Kept`].
    pub fn without_unloaded(&self, message: &str) -> Option<String> {
        self.without_texts(message, &|_| false)
    }

    /// The nonces of the frames in a message.
    pub fn nonces_in(&self, message: &str) -> Vec<String> {
        let frames = Frame::find_all(message, self.engine().secret().as_bytes());
        frames.into_iter().map(|framed| framed.nonce).collect()
    }

    /// The same, and also without the loaded texts that `is_freed` names by the nonces of their frames. A skill that is loaded
    /// again has the same nonce as before.
    pub fn without_texts(&self, message: &str, is_freed: &dyn Fn(&str) -> bool) -> Option<String> {
        if self.engine().options().unloaded_text == UnloadedText::Kept {
            return None;
        }
        let state = self.state();
        let is_loaded = |framed: &Framed| {
            let is_loaded = match &framed.document {
                None => state.get(&framed.name).is_some_and(|skill| skill.nonce == framed.nonce),
                Some(_) => state.documents(&framed.name).iter().any(|found| found.nonce == framed.nonce),
            };
            is_loaded && !is_freed(&framed.nonce)
        };
        let frames = Frame::find_all(message, self.engine().secret().as_bytes());
        let mut text = String::new();
        let mut copied = 0;
        for framed in frames.iter().filter(|framed| !is_loaded(framed)) {
            let start = copied.max(heading_start(&message[..framed.range.start]));
            text.push_str(&message[copied..start]);
            let name = code_text(&framed.name);
            // The line does not depend on the state, so that it never changes.
            text.push_str(&match &framed.document {
                Some(path) => format!("[Document '{}' of skill '{name}' was removed.]", code_text(path)),
                None => format!("[Text of skill '{name}' was removed: it was unloaded or replaced.]"),
            });
            copied = framed.range.end + summary_length(&message[framed.range.end..]);
        }
        (copied > 0).then(|| text + &message[copied..])
    }
}

impl SkillState {
    /// The texts of loaded skills in a message: the name of each skill, and where its text is, with its heading and its list
    /// of resources. `secret` is the secret of the conversation's frames.
    ///
    /// ```
    /// use prowess_skills::SkillState;
    ///
    /// // No skill is loaded, so no text is one of a loaded skill.
    /// assert!(SkillState::default().texts_in("# Loaded: tides", b"secret").is_empty());
    /// ```
    pub fn texts_in(&self, message: &str, secret: &[u8]) -> Vec<(String, Range<usize>)> {
        if self.loaded().is_empty() {
            return Vec::new();
        }
        let mut found: Vec<(String, Range<usize>)> = Vec::new();
        for framed in Frame::find_all(message, secret) {
            if !self.has_text(&framed.nonce) {
                continue;
            }
            let before = found.last().map_or(0, |(_, range)| range.end);
            let start = before.max(heading_start(&message[..framed.range.start]));
            let end = framed.range.end + summary_length(&message[framed.range.end..]);
            found.push((framed.name, start..end));
        }
        found
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
