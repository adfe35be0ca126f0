//! The message that a person is typing, and the lines that wait until the turn ends.

use std::collections::VecDeque;

use super::history::History;
use super::input_display::InputRows;
use super::keys::Key;
use super::line_editor::LineEditor;

/// The prompt before a message.
pub(super) const PROMPT: &str = "> ";
/// The command that Ctrl-D stands for during a turn.
pub(super) const QUIT: &str = "/quit";
/// How many lines can wait. Further lines stay in the message that is being typed.
const MAX_WAITING: usize = 100;

/// The message that a person is typing, and the lines that wait.
pub(super) struct Draft {
    pub(super) line: LineEditor,
    pub(super) waiting: VecDeque<String>,
    pub(super) history: History,
    /// The text of a history search, and the line found.
    search: Option<(String, Option<(usize, String)>)>,
    /// The words that Tab completes.
    pub(super) known: Vec<String>,
    choices: Vec<String>,
    /// Whether the line is one that waited, and is unchanged.
    has_taken: bool,
}

/// What a key does besides editing text.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum KeyAction {
    Nothing,
    Enter,
    Interrupt,
    End,
    Clear,
    Suspend,
}

impl Draft {
    pub(super) fn new(history: History) -> Self {
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

    pub(super) fn rows(&self) -> InputRows {
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

    /// The rows during a turn. The input line is shown only if it has text.
    pub(super) fn rows_during_turn(&self) -> InputRows {
        let shown = self.rows();
        let line = shown.line.filter(|_| self.search.is_some() || !self.line.is_empty());
        InputRows { line, is_busy: true, ..shown }
    }

    /// Handles a key during a turn.
    pub(super) fn press_during_turn(&mut self, key: &Key) -> KeyAction {
        let is_free = self.has_taken || (self.line.is_empty() && self.search.is_none());
        self.has_taken = is_free && matches!(key, Key::Up | Key::Control('p')) && self.take_back();
        if self.has_taken {
            return KeyAction::Nothing;
        }
        match self.press(key) {
            // The number of waiting lines is bounded, and no text is lost.
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

    /// Takes the last waiting line back into the message; `false` if there is none.
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
        // It can be found again, even if the chat ends.
        self.history.add(&text);
        self.waiting.push_back(text);
    }

    /// Handles a key.
    pub(super) fn press(&mut self, key: &Key) -> KeyAction {
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

    /// Handles a key during a history search; `false` if the key ends the search and is still to be handled.
    fn press_in_search(&mut self, key: &Key) -> bool {
        let Some((mut words, found)) = self.search.take() else { return false };
        let before = match key {
            Key::Text(c) => {
                words.push(*c);
                // The line found so far may still match.
                found.as_ref().map(|(at, _)| at + 1)
            }
            Key::Backspace => {
                words.pop();
                None
            }
            Key::Control('r') => found.as_ref().map(|(at, _)| *at),
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
        // If nothing matches, the line found before stays.
        let next = next.or(found.filter(|(_, line)| line.contains(&words) && !words.is_empty()));
        self.search = Some((words, next));
        true
    }

    /// Completes a word that starts with a slash, as far as it is unique.
    fn tab(&mut self) {
        let typed = &self.line.text()[..self.line.position()];
        if !typed.starts_with('/') {
            return;
        }
        // The argument of a command is completed only after the command itself.
        let has_argument = |text: &str| text.trim_end().contains(' ');
        let is_after_command = typed.contains(' ');
        let is_fitting =
            |known: &&String| known.starts_with(typed) && has_argument(known.as_str()) == is_after_command;
        let fitting: Vec<&String> = self.known.iter().filter(is_fitting).collect();
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

    /// Moves the waiting lines back into the message, before what was typed after them.
    pub(super) fn give_back(&mut self) {
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
        draft.known = ["/unload ", "/unload csv-report", "/unload csv-join"].map(str::to_owned).into();
        press(&mut draft, "\x15/u\t");
        assert_eq!((draft.line.text(), draft.choices.len()), ("/unload ", 0));
        press(&mut draft, "\t\t");
        assert_eq!(draft.line.text(), "/unload csv-");
        assert_eq!(draft.choices, ["/unload csv-report", "/unload csv-join"]);
        press(&mut draft, "j\t");
        assert_eq!(draft.line.text(), "/unload csv-join");
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
