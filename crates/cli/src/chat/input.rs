//! What a person types: messages, lines that wait during a turn, and replies to questions.

use std::path::Path;
use std::sync::Arc;

use anyhow::Result;

use super::draft::{Draft, KeyAction, PROMPT, QUIT};
use super::history::History;
use super::input_display::{InputDisplay, InputRows};
use super::keyboard::{Event, Keyboard};
use super::keys::Key;
use super::line_editor::LineEditor;
use super::slash_commands::COMMANDS;
use super::unsent_message::UnsentMessage;

/// What a person entered at a prompt.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Entered {
    Line(String),
    /// Ctrl-C: the line is dropped.
    Interrupted,
    /// Ctrl-D: the input ends.
    End,
}

/// A function that shows the input.
pub(super) type Show<'a> = dyn FnMut(InputDisplay) + 'a;

/// The keyboard and the message being typed.
pub(super) struct Input {
    keyboard: Keyboard,
    draft: Draft,
    unsent: Arc<UnsentMessage>,
}

impl Input {
    /// Opens the keyboard, with the history from a file.
    pub(super) fn new(history: &Path, unsent: Arc<UnsentMessage>) -> Result<Self> {
        Ok(Self { keyboard: Keyboard::open()?, draft: Draft::new(History::new(history.to_owned())), unsent })
    }

    /// Sets the words that Tab completes: slash commands, skills, and commands with an argument.
    pub(super) fn complete(&mut self, skills: &[String], with_arguments: Vec<String>) {
        let commands =
            COMMANDS.iter().map(
                |(command, after, _)| {
                    if after.is_empty() { (*command).to_owned() } else { format!("{command} ") }
                },
            );
        let skills = skills.iter().map(|skill| format!("/{skill} "));
        self.draft.known = commands.chain(skills).chain(with_arguments).collect();
    }

    /// Returns the first waiting line, or waits for the person to type one.
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
            // It can be found again, even if sending fails.
            self.unsent.settle(&mut self.draft.history, &text);
            show(InputDisplay::Finished { prompt: PROMPT.to_owned(), text: text.clone() });
            return match action {
                KeyAction::Interrupt => Entered::Interrupted,
                KeyAction::End => Entered::End,
                _ => Entered::Line(text),
            };
        }
    }

    /// Keeps what is typed during a turn, until the person interrupts.
    pub(super) async fn until_stopped(&mut self, show: &mut Show<'_>) {
        loop {
            self.unsent.note(self.draft.line.text());
            if self.keyboard.is_idle() {
                show(InputDisplay::Typing(self.draft.rows_during_turn()));
            }
            let action = match self.keyboard.next().await {
                Event::Key(key) => self.draft.press_during_turn(&key),
                // No key can interrupt any more.
                Event::Closed => return std::future::pending().await,
                event => self.other(&event, show),
            };
            if action == KeyAction::Interrupt {
                return;
            }
            self.perform(&action, show);
        }
    }

    /// Keeps what was typed up to now for later, and says whether the person interrupted. Text typed before a question
    /// appears is not taken as its reply.
    pub(super) fn set_aside(&mut self) -> bool {
        let keys = self.keyboard.pressed();
        let actions = keys.iter().map(|key| self.draft.press_during_turn(key));
        let is_stopped = actions.filter(|action| *action == KeyAction::Interrupt).count() > 0;
        self.unsent.note(self.draft.line.text());
        is_stopped
    }

    /// Reads a reply to a question. It does not go into the history.
    pub(super) async fn reply(&mut self, question: &str, show: &mut Show<'_>) -> Entered {
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

    /// Moves the waiting lines back into the message, where they can be edited.
    pub(super) fn give_back(&mut self) {
        self.draft.give_back();
    }

    /// How many lines were typed and not sent. They are in the history.
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
