//! What a person types: a message, lines that wait while the agent is at work, and answers to questions.

use std::collections::VecDeque;
use std::path::Path;
use std::sync::Arc;

use anyhow::Result;

use super::history::History;
use super::input_display::{InputDisplay, InputRows};
use super::keyboard::{Event, Keyboard};
use super::keys::Key;
use super::line_editor::LineEditor;
use super::slash_commands::COMMANDS;
use super::unsent_message::UnsentMessage;

/// What stands before what a person says.
const PROMPT: &str = "> ";
/// What Ctrl-D means while the agent is at work.
const QUIT: &str = "/quit";
/// How many lines can wait. Those that come after them are kept in the message that is being typed.
const MAX_WAITING: usize = 100;

/// What came of asking a person for a line.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Entered {
    Line(String),
    /// Ctrl-C: away with this line.
    Interrupted,
    /// Ctrl-D: there is nothing more.
    End,
}

/// Shows what is typed.
pub(super) type Show<'a> = dyn FnMut(InputDisplay) + 'a;

/// Where a person types.
pub(super) struct Input {
    keyboard: Keyboard,
    draft: Draft,
    unsent: Arc<UnsentMessage>,
}

/// The message that a person is typing, and those that wait to be said.
struct Draft {
    line: LineEditor,
    waiting: VecDeque<String>,
    history: History,
    /// The words that are looked for in earlier lines, and the line that was found.
    search: Option<(String, Option<(usize, String)>)>,
    /// What can be completed.
    known: Vec<String>,
    choices: Vec<String>,
    /// Whether the line is one that waited and is as it was.
    has_taken: bool,
}

/// What a key asks for beyond the text.
#[derive(Clone, Debug, PartialEq, Eq)]
enum KeyAction {
    /// Nothing more than to see what was typed.
    Nothing,
    Enter,
    Interrupt,
    End,
    Clear,
    Suspend,
}

impl Input {
    /// A keyboard with the history of a file, if it can be had.
    pub(super) fn new(history: &Path, unsent: Arc<UnsentMessage>) -> Result<Self> {
        Ok(Self { keyboard: Keyboard::open()?, draft: Draft::new(History::new(history.to_owned())), unsent })
    }

    /// The names that can be completed after a slash.
    pub(super) fn complete(&mut self, skills: &[String]) {
        let commands =
            COMMANDS.iter().map(
                |(command, after, _)| {
                    if after.is_empty() { (*command).to_owned() } else { format!("{command} ") }
                },
            );
        self.draft.known = commands.chain(skills.iter().map(|skill| format!("/{skill} "))).collect();
    }

    /// A line for the conversation: the first that waits, or else one that is typed now.
    pub(super) async fn line(&mut self, show: &mut Show<'_>) -> Entered {
        if let Some(text) = self.draft.waiting.pop_front() {
            show(InputDisplay::Finished { prompt: PROMPT.to_owned(), text: text.clone() });
            return Entered::Line(text);
        }
        loop {
            self.unsent.note(self.draft.line.text());
            if self.keyboard.is_idle() {
                show(InputDisplay::Typing(self.draft.rows()));
            }
            let action = match self.keyboard.next().await {
                Event::Key(key) => self.draft.press(&key),
                event => self.other(&event, show),
            };
            if matches!(action, KeyAction::Nothing | KeyAction::Clear | KeyAction::Suspend) {
                self.perform(&action, show);
                continue;
            }
            let text = self.draft.line.take();
            // Whatever becomes of it, it can be found again.
            self.unsent.settle(&mut self.draft.history, &text);
            show(InputDisplay::Finished { prompt: PROMPT.to_owned(), text: text.clone() });
            return match action {
                KeyAction::Interrupt => Entered::Interrupted,
                KeyAction::End => Entered::End,
                _ => Entered::Line(text),
            };
        }
    }

    /// Keeps what is typed while the agent is at work, until somebody wants it to stop.
    pub(super) async fn until_stopped(&mut self, show: &mut Show<'_>) {
        loop {
            self.unsent.note(self.draft.line.text());
            if self.keyboard.is_idle() {
                show(InputDisplay::Typing(self.draft.rows_during_turn()));
            }
            let action = match self.keyboard.next().await {
                Event::Key(key) => self.draft.press_during_turn(&key),
                // Nobody can want anything any more.
                Event::Closed => return std::future::pending().await,
                event => self.other(&event, show),
            };
            if action == KeyAction::Interrupt {
                return;
            }
            self.perform(&action, show);
        }
    }

    /// Keeps what was typed up to now for later, and says whether somebody wants the turn to stop: nobody answers a question
    /// before it is there.
    pub(super) fn set_aside(&mut self) -> bool {
        let keys = self.keyboard.pressed();
        let actions = keys.iter().map(|key| self.draft.press_during_turn(key));
        let is_stopped = actions.filter(|action| *action == KeyAction::Interrupt).count() > 0;
        self.unsent.note(self.draft.line.text());
        is_stopped
    }

    /// An answer to a question, which is not remembered.
    pub(super) async fn answer(&mut self, question: &str, show: &mut Show<'_>) -> Entered {
        let mut line = LineEditor::new();
        let typed = loop {
            show(InputDisplay::Typing(InputRows {
                line: Some((question.to_owned(), line.text().to_owned(), line.position())),
                waiting: self.draft.waiting.iter().cloned().collect(),
                ..InputRows::default()
            }));
            match self.keyboard.next().await {
                Event::Key(Key::Enter) => break Entered::Line(line.text().to_owned()),
                Event::Key(Key::Control('c')) => break Entered::Interrupted,
                Event::Key(Key::Control('d')) if line.is_empty() => break Entered::End,
                Event::Closed => break Entered::End,
                Event::Key(Key::Control('l')) => self.perform(&KeyAction::Clear, show),
                Event::Key(Key::Control('z')) => self.perform(&KeyAction::Suspend, show),
                Event::Key(key) => {
                    line.edit(&key);
                }
                event => {
                    self.other(&event, show);
                }
            }
        };
        show(InputDisplay::Finished { prompt: question.to_owned(), text: line.take() });
        typed
    }

    /// Puts the lines that wait back to where they can be changed, before what was typed after them.
    pub(super) fn give_back(&mut self) {
        self.draft.give_back();
    }

    /// How many lines were typed and not said. They can be found again among the earlier lines.
    pub(super) fn unsaid(&mut self) -> usize {
        self.set_aside();
        let rest = self.draft.line.take();
        self.unsent.settle(&mut self.draft.history, &rest);
        let waiting = self.draft.waiting.iter().filter(|text| *text != QUIT);
        waiting.count() + usize::from(!rest.trim().is_empty())
    }

    fn other(&self, event: &Event, show: &mut Show<'_>) -> KeyAction {
        match event {
            Event::Resized => show(InputDisplay::Resized),
            Event::Resumed => show(InputDisplay::Resumed),
            Event::Closed => return KeyAction::End,
            Event::Key(_) => {}
        }
        KeyAction::Nothing
    }

    fn perform(&self, action: &KeyAction, show: &mut Show<'_>) {
        match action {
            KeyAction::Clear => show(InputDisplay::Clear),
            KeyAction::Suspend => self.keyboard.suspend(),
            KeyAction::Nothing | KeyAction::Enter | KeyAction::Interrupt | KeyAction::End => {}
        }
    }
}

impl Draft {
    fn new(history: History) -> Self {
        Self {
            line: LineEditor::new(),
            waiting: VecDeque::new(),
            history,
            search: None,
            known: Vec::new(),
            choices: Vec::new(),
            has_taken: false,
        }
    }

    fn rows(&self) -> InputRows {
        let line = match &self.search {
            Some((words, found)) => {
                let found = found.as_ref().map_or("", |(_, line)| line);
                (format!("(search: {words}) "), found.to_owned(), 0)
            }
            None => (PROMPT.to_owned(), self.line.text().to_owned(), self.line.position()),
        };
        let waiting = self.waiting.iter().cloned().collect();
        let choices = (!self.choices.is_empty()).then(|| self.choices.join("  "));
        InputRows { line: Some(line), waiting, notice: self.line.size_notice().or(choices), is_busy: false }
    }

    /// While the agent is at work, a line is there only if something is in it.
    fn rows_during_turn(&self) -> InputRows {
        let shown = self.rows();
        let line = shown.line.filter(|_| self.search.is_some() || !self.line.is_empty());
        InputRows { line, is_busy: true, ..shown }
    }

    /// Does what a key does while the agent is at work.
    fn press_during_turn(&mut self, key: &Key) -> KeyAction {
        let is_free = self.has_taken || (self.line.is_empty() && self.search.is_none());
        self.has_taken = is_free && matches!(key, Key::Up | Key::Control('p')) && self.take_back();
        if self.has_taken {
            return KeyAction::Nothing;
        }
        match self.press(key) {
            // What waits is not without bounds, and nothing is lost for that.
            KeyAction::Enter if self.waiting.len() >= MAX_WAITING => {
                self.line.edit(&Key::LineBreak);
                KeyAction::Nothing
            }
            KeyAction::Enter => {
                let text = self.line.take();
                self.wait(text);
                KeyAction::Nothing
            }
            KeyAction::End => {
                self.waiting.push_back(QUIT.to_owned());
                KeyAction::Nothing
            }
            action => action,
        }
    }

    /// Takes the last line that waits back, above what was taken back already; `false` if there is none.
    fn take_back(&mut self) -> bool {
        let Some(mut text) = self.waiting.pop_back() else { return false };
        if !self.line.is_empty() {
            text = format!("{text}\n{}", self.line.text());
        }
        self.line.set(&text);
        true
    }

    fn wait(&mut self, text: String) {
        if text.trim().is_empty() {
            return;
        }
        // Whatever happens to this conversation, it can be found again.
        self.history.add(&text);
        self.waiting.push_back(text);
    }

    /// Does what a key does to the message.
    fn press(&mut self, key: &Key) -> KeyAction {
        self.choices.clear();
        if self.search.is_some() && self.press_in_search(key) {
            return KeyAction::Nothing;
        }
        match key {
            Key::Enter if self.line.goes_on() => {}
            Key::Enter => return KeyAction::Enter,
            Key::Control('c') => return KeyAction::Interrupt,
            Key::Control('d') if self.line.is_empty() => return KeyAction::End,
            Key::Control('l') => return KeyAction::Clear,
            Key::Control('z') => return KeyAction::Suspend,
            Key::Control('r') => self.search = Some((String::new(), None)),
            Key::Tab => self.tab(),
            Key::Up | Key::Control('p') => {
                if !self.line.up()
                    && let Some(line) = self.history.older(self.line.text())
                {
                    self.line.set(&line);
                }
            }
            Key::Down | Key::Control('n') => {
                if !self.line.down()
                    && let Some(line) = self.history.newer()
                {
                    self.line.set(&line);
                }
            }
            key => {
                self.line.edit(key);
            }
        }
        KeyAction::Nothing
    }

    /// Does what a key does while earlier lines are looked through; `false` if it ends that, and is still to be done.
    fn press_in_search(&mut self, key: &Key) -> bool {
        let Some((mut words, found)) = self.search.take() else { return false };
        let before = match key {
            Key::Text(c) => {
                words.push(*c);
                // What was found may have this, too.
                found.as_ref().map(|(at, _)| at + 1)
            }
            Key::Backspace => {
                words.pop();
                None
            }
            Key::Control('r') => found.as_ref().map(|(at, _)| *at),
            // Away with it.
            Key::Control('g' | 'c') => return true,
            _ => {
                if let Some((_, line)) = found {
                    self.line.set(&line);
                }
                self.history.leave();
                return false;
            }
        };
        let next = if words.is_empty() { None } else { self.history.find(&words, before) };
        // What cannot be found leaves what was.
        let next = next.or(found.filter(|(_, line)| line.contains(&words) && !words.is_empty()));
        self.search = Some((words, next));
        true
    }

    /// Completes what begins with a slash, as far as it is clear what is meant.
    fn tab(&mut self) {
        let typed = &self.line.text()[..self.line.position()];
        if !typed.starts_with('/') {
            return;
        }
        let fitting: Vec<&String> = self.known.iter().filter(|known| known.starts_with(typed)).collect();
        let Some(first) = fitting.first() else { return };
        let common = fitting.iter().fold(first.as_str(), |common, known| {
            let same = common.char_indices().zip(known.chars()).find(|((_, a), b)| a != b);
            let end = same.map_or(common.len().min(known.len()), |((at, _), _)| at);
            &common[..end]
        });
        if common.len() > typed.len() {
            let common = common.to_owned();
            self.line.set_before(&common);
        } else if fitting.len() > 1 {
            self.choices = fitting.iter().map(|known| known.trim_end().to_owned()).collect();
        }
    }

    fn give_back(&mut self) {
        if self.waiting.is_empty() {
            return;
        }
        let mut texts: Vec<String> = self.waiting.drain(..).collect();
        texts.push(self.line.take());
        texts.retain(|text| !text.is_empty());
        self.line.set(&texts.join("\n"));
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::chat::keys::Decoder;

    fn draft() -> (Draft, tempfile::TempDir) {
        let place = tempfile::tempdir().unwrap();
        let mut draft = Draft::new(History::new(place.path().join("history")));
        draft.known = ["/help", "/context", "/compact", "/model ", "/csv-report "].map(str::to_owned).into();
        (draft, place)
    }

    fn press(draft: &mut Draft, keys: &str) -> Vec<KeyAction> {
        let keys = Decoder::default().push(keys.as_bytes());
        keys.iter().map(|key| draft.press(key)).filter(|action| *action != KeyAction::Nothing).collect()
    }

    fn press_during_turn(draft: &mut Draft, keys: &str) -> Vec<KeyAction> {
        let keys = Decoder::default().push(keys.as_bytes());
        keys.iter()
            .map(|key| draft.press_during_turn(key))
            .filter(|action| *action != KeyAction::Nothing)
            .collect()
    }

    #[test]
    fn tab_completes_as_far_as_it_is_clear() {
        let (mut draft, _place) = draft();
        press(&mut draft, "/co\t");
        assert_eq!(draft.line.text(), "/co");
        assert_eq!(draft.choices, ["/context", "/compact"]);
        press(&mut draft, "n\t");
        assert_eq!((draft.line.text(), draft.choices.len()), ("/context", 0));
        press(&mut draft, "\x15/m\t");
        assert_eq!(draft.line.text(), "/model ");
        press(&mut draft, "\x15/zz\tco\t");
        assert_eq!(draft.line.text(), "/zzco");
    }

    #[test]
    fn earlier_lines_are_searched() {
        let (mut draft, _place) = draft();
        for line in ["a tide", "b tide", "moon"] {
            draft.history.add(line);
        }
        press(&mut draft, "\x12ti");
        assert_eq!(draft.rows().line.unwrap().1, "b tide");
        press(&mut draft, "\x12");
        assert_eq!(draft.rows().line.unwrap(), ("(search: ti) ".to_owned(), "a tide".to_owned(), 0));
        press(&mut draft, "x");
        assert_eq!(draft.rows().line.unwrap().1, "");
        press(&mut draft, "\x7f\x05!");
        assert_eq!((draft.line.text(), draft.search.is_none()), ("b tide!", true));
        press(&mut draft, "\x15kept\x12moo\x07");
        assert_eq!(draft.line.text(), "kept");
    }

    #[test]
    fn lines_wait_within_bounds_and_are_given_back_whole() {
        let (mut draft, _place) = draft();
        let all: Vec<String> = (0..MAX_WAITING + 3).map(|number| format!("line {number}")).collect();
        assert_eq!(press_during_turn(&mut draft, &(all.join("\r") + "\r\x03")), [KeyAction::Interrupt]);
        assert_eq!(draft.waiting.len(), MAX_WAITING);
        draft.give_back();
        assert_eq!(draft.line.text().trim_end(), all.join("\n"));
        assert!(draft.waiting.is_empty());
    }

    #[test]
    fn lines_are_taken_back_from_the_last() {
        let (mut draft, _place) = draft();
        press_during_turn(&mut draft, "one\rtwo\rthree\r\x1b[A");
        assert_eq!((draft.line.text(), draft.waiting.len()), ("three", 2));
        press_during_turn(&mut draft, "\x1b[A");
        assert_eq!((draft.line.text(), draft.waiting.len()), ("two\nthree", 1));
        // What was changed is not mixed with what waits.
        press_during_turn(&mut draft, "!\x1b[A\x1b[A\x1b[B\x1b[B\x1b[B");
        assert_eq!((draft.line.text(), draft.waiting.len()), ("two\nthree!", 1));
        press_during_turn(&mut draft, "\r");
        assert_eq!(draft.waiting, ["one", "two\nthree!"]);
    }

    #[test]
    fn while_the_agent_works_a_line_is_there_if_something_is_in_it() {
        let (mut draft, _place) = draft();
        assert_eq!(draft.rows_during_turn().line, None);
        press_during_turn(&mut draft, " \r\x04x");
        assert_eq!(draft.waiting, [QUIT]);
        assert_eq!(draft.rows_during_turn().line.unwrap().1, "x");
    }
}
