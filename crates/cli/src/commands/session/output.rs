//! What `prowess session` prints.

use prowess_skills::{SkillDelta, SkillSession};
use serde_json::{Value, json};

/// What is printed after every change, besides the answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Show {
    /// Everything that the system message says about skills.
    Prompt,
    /// Only the list of skills.
    List,
    /// Nothing.
    Answer,
}

/// A piece of output.
#[derive(Debug)]
pub(crate) enum OutputPart {
    /// Text that the model reads, under a heading.
    Seen { heading: &'static str, text: String, tokens: usize },
    /// Text for the person.
    Note(String),
    /// A table for the person.
    Table { heading: &'static [&'static str], rows: Vec<Vec<String>> },
    /// A JSON value for the person.
    Json(Value),
}

impl OutputPart {
    pub(crate) fn seen(session: &SkillSession, heading: &'static str, text: String) -> Self {
        let tokens = session.options().tokens.count(&text);
        Self::Seen { heading, text, tokens }
    }

    /// The text for JSON output. Data is printed separately.
    pub(crate) fn text(&self) -> Option<&str> {
        match self {
            Self::Seen { text, .. } | Self::Note(text) => Some(text),
            Self::Table { .. } | Self::Json(_) => None,
        }
    }
}

/// What the model sees in every call, as `show` says. Making it can unload skills.
pub(crate) async fn context(
    session: &SkillSession,
    show: Show,
    deltas: &mut Vec<SkillDelta>,
) -> Vec<OutputPart> {
    match show {
        Show::Answer => Vec::new(),
        Show::List => vec![OutputPart::seen(session, "list", session.view().overview().text)],
        Show::Prompt => {
            let section = session.loaded_section().await;
            deltas.extend(section.deltas);
            // Loaded texts come first, because making them can change the list.
            let prompt = session.prompt().text;
            let mut parts = vec![if prompt.is_empty() {
                OutputPart::Note(
                    "The prompt does not mention skills: `tools` shows what the model is told.".to_owned(),
                )
            } else {
                OutputPart::seen(session, "prompt", prompt)
            }];
            if !section.text.is_empty() {
                parts.push(OutputPart::seen(session, "loaded", section.text));
            }
            parts
        }
    }
}

/// The loaded skills, one row each.
pub(crate) fn rows(session: &SkillSession) -> Vec<Vec<String>> {
    let state = session.state();
    let row = |name: &str| {
        let documents = state.selection(name).map_or(0, |selection| selection.documents.len());
        vec![
            name.to_owned(),
            state.tokens_of(name).to_string(),
            documents.to_string(),
            state.resources(name).len().to_string(),
        ]
    };
    state.names().map(row).collect()
}

/// The loaded skills, as data.
pub(crate) fn loaded(session: &SkillSession) -> Value {
    let state = session.state();
    let skill = |name: &str| {
        let documents = state.selection(name).map_or(&[][..], |selection| &selection.documents);
        let documents: Vec<&str> = documents.iter().map(|document| document.path.as_str()).collect();
        let (tokens, resources) = (state.tokens_of(name), state.resources(name).len());
        json!({ "name": name, "tokens": tokens, "documents": documents, "resources": resources })
    };
    state.names().map(skill).collect()
}
