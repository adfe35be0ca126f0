//! A model's response, assembled from its deltas.

use std::collections::{BTreeMap, BTreeSet};

use super::{Finish, ModelDelta, Usage};
use crate::id::CallId;
use crate::message::{AssistantPart, Message, Reasoning, ToolCall};

/// Assembles a response from its deltas.
///
/// ```
/// use prowess_agent::model::{Finish, ResponseAssembly};
/// use prowess_agent::ModelDelta;
///
/// let mut assembly = ResponseAssembly::new("scripted");
/// assembly.push(ModelDelta::Text("Hel".into()));
/// assembly.push(ModelDelta::Text("lo!".into()));
/// assembly.push(ModelDelta::Finish(Finish::Stop));
/// let response = assembly.finish();
/// assert_eq!(response.message.text(), "Hello!");
/// assert_eq!(response.finish, Some(Finish::Stop));
/// ```
#[derive(Clone, Debug)]
pub struct ResponseAssembly {
    model: String,
    parts: Vec<AssistantPart>,
    /// Where the tool calls are in `parts`, by their index.
    calls: BTreeMap<usize, usize>,
    usage: Usage,
    finish: Option<Finish>,
}

/// A complete response.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub struct ModelResponse {
    /// The model.
    pub model: String,
    /// The message.
    pub message: Message,
    /// The tokens.
    pub usage: Usage,
    /// Why the response ended. `None` if the stream did not say.
    pub finish: Option<Finish>,
}

impl ModelResponse {
    /// A response of the model `model`, without usage.
    pub fn new(model: impl Into<String>, message: Message) -> Self {
        Self { model: model.into(), message, usage: Usage::default(), finish: None }
    }
}

impl ResponseAssembly {
    /// An empty response of the model `model`.
    pub fn new(model: impl Into<String>) -> Self {
        Self {
            model: model.into(),
            parts: Vec::new(),
            calls: BTreeMap::new(),
            usage: Usage::default(),
            finish: None,
        }
    }

    /// Adds the next delta.
    pub fn push(&mut self, delta: ModelDelta) {
        match delta {
            ModelDelta::Text(piece) => match self.parts.last_mut() {
                Some(AssistantPart::Text { text }) => text.push_str(&piece),
                _ if piece.is_empty() => {}
                _ => self.parts.push(AssistantPart::Text { text: piece }),
            },
            ModelDelta::Reasoning(piece) => match self.parts.last_mut() {
                Some(AssistantPart::Reasoning(thought))
                    if thought.signature.is_none() && thought.redacted.is_none() =>
                {
                    thought.text.push_str(&piece);
                }
                _ if piece.is_empty() => {}
                _ => self.think(Reasoning { text: piece, ..Reasoning::default() }),
            },
            ModelDelta::ReasoningSignature(signature) => match self.parts.last_mut() {
                Some(AssistantPart::Reasoning(thought)) if thought.redacted.is_none() => {
                    thought.signature.get_or_insert_default().push_str(&signature);
                }
                _ => self.think(Reasoning { signature: Some(signature), ..Reasoning::default() }),
            },
            ModelDelta::RedactedReasoning(redacted) => {
                self.think(Reasoning { redacted: Some(redacted), ..Reasoning::default() });
            }
            ModelDelta::ToolCall { index, id, name } => {
                let call = self.call(index);
                // Some providers send the name in pieces, or repeat it with every piece.
                if call.id.as_str().is_empty() {
                    call.id = id.as_str().into();
                }
                if call.name.is_empty() {
                    call.name = name;
                }
            }
            ModelDelta::Arguments { index, piece } => self.call(index).arguments.push_str(&piece),
            ModelDelta::Usage(usage) => self.usage = usage,
            ModelDelta::Finish(finish) => self.finish = Some(finish),
        }
    }

    /// The response. Each tool call has its own id, even if the provider sent none.
    pub fn finish(self) -> ModelResponse {
        let mut parts = self.parts;
        name_calls(&mut parts);
        ModelResponse {
            model: self.model,
            message: Message::assistant(parts),
            usage: self.usage,
            finish: self.finish,
        }
    }

    fn think(&mut self, thought: Reasoning) {
        self.parts.push(AssistantPart::Reasoning(thought));
    }

    fn call(&mut self, index: usize) -> &mut ToolCall {
        let next = self.parts.len();
        let at = *self.calls.entry(index).or_insert(next);
        if at == next {
            let call = ToolCall { id: "".into(), name: String::new(), arguments: String::new() };
            self.parts.push(AssistantPart::ToolCall(call));
        }
        match &mut self.parts[at] {
            AssistantPart::ToolCall(call) => call,
            AssistantPart::Text { .. } | AssistantPart::Reasoning(_) => {
                unreachable!("the index of a call always leads to a call")
            }
        }
    }
}

/// Gives each call its own id, if it has none or that of another call.
pub(crate) fn name_calls(parts: &mut [AssistantPart]) {
    let mut known = BTreeSet::new();
    let calls = parts.iter_mut().filter_map(|part| match part {
        AssistantPart::ToolCall(call) => Some(call),
        AssistantPart::Text { .. } | AssistantPart::Reasoning(_) => None,
    });
    for (number, call) in calls.enumerate() {
        let mut id = call.id.as_str().to_owned();
        while id.is_empty() || known.contains(&id) {
            id = format!("{id}call_{number}");
        }
        call.id = CallId::from(id.as_str());
        known.insert(id);
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn assembled(deltas: impl IntoIterator<Item = ModelDelta>) -> Vec<AssistantPart> {
        let mut assembly = ResponseAssembly::new("test");
        deltas.into_iter().for_each(|delta| assembly.push(delta));
        match assembly.finish().message.content {
            crate::message::Content::Assistant { parts } => parts,
            other => panic!("{other:?}"),
        }
    }

    fn begin(index: usize, id: &str) -> ModelDelta {
        ModelDelta::ToolCall { index, id: id.to_owned(), name: "ls".to_owned() }
    }

    fn ids(parts: &[AssistantPart]) -> Vec<&str> {
        parts
            .iter()
            .filter_map(|part| match part {
                AssistantPart::ToolCall(call) => Some(call.id.as_str()),
                _ => None,
            })
            .collect()
    }

    #[test]
    fn calls_have_names_of_their_own() {
        let parts = assembled([begin(0, ""), begin(1, "a"), begin(2, "a"), begin(3, "")]);
        let ids = ids(&parts);
        assert_eq!(ids.len(), 4);
        assert_eq!(ids.iter().collect::<BTreeSet<_>>().len(), 4, "{ids:?}");
    }

    #[test]
    fn pieces_of_two_calls_may_alternate() {
        let piece = |index, piece: &str| ModelDelta::Arguments { index, piece: piece.to_owned() };
        let parts =
            assembled([begin(0, "a"), begin(1, "b"), piece(0, "{\"x\""), piece(1, "{}"), piece(0, ": 1}")]);
        let arguments: Vec<&str> = parts
            .iter()
            .filter_map(|part| match part {
                AssistantPart::ToolCall(call) => Some(call.arguments.as_str()),
                _ => None,
            })
            .collect();
        assert_eq!(arguments, ["{\"x\": 1}", "{}"]);
    }

    #[test]
    fn a_signed_thought_is_closed() {
        let parts = assembled([
            ModelDelta::Reasoning("a".to_owned()),
            ModelDelta::ReasoningSignature("s".to_owned()),
            ModelDelta::Reasoning("b".to_owned()),
        ]);
        assert_eq!(parts.len(), 2, "{parts:?}");
    }

    proptest! {
        /// However a text is cut, it is the same.
        #[test]
        fn cuts_do_not_matter(text in "\\PC{0,40}", cuts in proptest::collection::vec(0usize..40, 0..6)) {
            let letters: Vec<char> = text.chars().collect();
            let mut cuts: Vec<usize> = cuts.into_iter().map(|cut| cut.min(letters.len())).collect();
            cuts.extend([0, letters.len()]);
            cuts.sort_unstable();
            let pieces: Vec<String> = cuts.windows(2).map(|cut| letters[cut[0]..cut[1]].iter().collect()).collect();
            let whole = assembled(pieces.into_iter().map(ModelDelta::Text));
            let expected: Vec<AssistantPart> =
                if text.is_empty() { Vec::new() } else { vec![AssistantPart::Text { text }] };
            prop_assert_eq!(whole, expected);
        }
    }
}
