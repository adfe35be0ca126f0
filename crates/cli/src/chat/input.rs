//! What a person types: with history, and with completion of commands and skills.

use std::path::Path;

use anyhow::{Context as _, Result};
use rustyline::completion::{Completer, Pair};
use rustyline::config::Configurer as _;
use rustyline::error::ReadlineError;
use rustyline::highlight::Highlighter;
use rustyline::hint::Hinter;
use rustyline::history::FileHistory;
use rustyline::validate::Validator;
use rustyline::{Editor, Helper};

use super::command::COMMANDS;

/// How many lines are remembered.
const MAX_HISTORY: usize = 1_000;

/// What came of asking a person for a line.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Typed {
    Line(String),
    /// Ctrl-C: away with this line.
    Interrupted,
    /// Ctrl-D: there is nothing more.
    End,
}

/// Where a person types.
pub(super) struct Input {
    editor: Editor<Completion, FileHistory>,
    answers: Editor<(), rustyline::history::MemHistory>,
}

impl Input {
    /// Lines with the history of a file, if it can be had.
    pub(super) fn new(history: &Path) -> Result<Self> {
        let failed = "the terminal cannot be read";
        let mut editor = Editor::new().context(failed)?;
        editor.set_max_history_size(MAX_HISTORY).context(failed)?;
        editor.set_completion_type(rustyline::CompletionType::List);
        editor.set_helper(Some(Completion::default()));
        let answers =
            Editor::with_history(rustyline::Config::default(), rustyline::history::MemHistory::new());
        // A history that cannot be read is no reason not to talk.
        let _ = editor.load_history(history);
        Ok(Self { editor, answers: answers.context(failed)? })
    }

    /// The names that can be completed after a slash.
    pub(super) fn complete(&mut self, skills: &[String]) {
        let commands =
            COMMANDS.iter().map(
                |(command, after, _)| {
                    if after.is_empty() { (*command).to_owned() } else { format!("{command} ") }
                },
            );
        let skills = skills.iter().map(|skill| format!("/{skill} "));
        if let Some(helper) = self.editor.helper_mut() {
            helper.lines = commands.chain(skills).collect();
        }
    }

    /// A line for the conversation.
    pub(super) fn line(&mut self, history: &Path) -> Result<Typed> {
        let typed = typed(self.editor.readline("> "))?;
        if let Typed::Line(line) = &typed
            && !line.trim().is_empty()
        {
            let _ = self.editor.add_history_entry(line);
            // It is made for the user alone, and a disk that is full is no reason not to talk.
            let _ = self.editor.append_history(history);
        }
        Ok(typed)
    }

    /// An answer to a question, which is not remembered. What was typed before the question could be read is no answer.
    pub(super) fn answer(&mut self, question: &str) -> Result<Typed> {
        crate::terminal::forget_typed();
        typed(self.answers.readline(question))
    }
}

fn typed(read: rustyline::Result<String>) -> Result<Typed> {
    match read {
        Ok(line) => Ok(Typed::Line(line)),
        Err(ReadlineError::Interrupted) => Ok(Typed::Interrupted),
        Err(ReadlineError::Eof) => Ok(Typed::End),
        Err(error) => Err(error).context("the terminal cannot be read"),
    }
}

/// Completes the first word of a line that begins with a slash.
#[derive(Default)]
struct Completion {
    lines: Vec<String>,
}

impl Helper for Completion {}
impl Highlighter for Completion {}
impl Hinter for Completion {
    type Hint = String;
}
impl Validator for Completion {}

impl Completer for Completion {
    type Candidate = Pair;

    fn complete(
        &self,
        line: &str,
        position: usize,
        _: &rustyline::Context<'_>,
    ) -> rustyline::Result<(usize, Vec<Pair>)> {
        let typed = &line[..position];
        let fits = |candidate: &&String| typed.starts_with('/') && candidate.starts_with(typed);
        let pair = |candidate: &String| Pair {
            display: candidate.trim_end().to_owned(),
            replacement: candidate.clone(),
        };
        Ok((0, self.lines.iter().filter(fits).map(pair).collect()))
    }
}
