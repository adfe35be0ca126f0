//! What lists and searches show of a thread.

use prowess_store::serve::{OwnedThreads, Summary};

use crate::view::Replay;

/// How much of a conversation the search of threads looks in, in bytes: half of it for the beginning, the rest for the end.
const SEARCHED: usize = OwnedThreads::SEARCHED_BYTES;
/// The longest title that is made from a message, in characters.
const MAX_TITLE: usize = 80;

/// The title of a thread that begins with this message.
pub(crate) fn title_of(text: &str) -> String {
    let line = text.lines().find(|line| !line.trim().is_empty()).unwrap_or_default();
    line.trim().chars().take(MAX_TITLE).collect()
}

/// What lists and searches show of a thread.
pub(super) fn summary_of(replay: &Replay, tokens: u64, cost: Option<String>) -> Summary {
    let text = searched(replay.texts());
    let questions = replay.questions();
    let waiting = questions.iter().filter_map(|question| serde_json::to_value(question).ok()).collect();
    Summary { waiting, tokens, cost, text, window_use: None, events: replay.last }
}

/// What searches look in: the beginning and the end of the conversation.
fn searched(mut texts: impl DoubleEndedIterator<Item = String>) -> String {
    const HALF: usize = SEARCHED / 2;
    let mut first = String::new();
    while first.len() < HALF {
        let Some(text) = texts.next() else { return first };
        first.push_str(&text[..text.floor_char_boundary(HALF - first.len())]);
        first.push('\n');
    }
    let (mut last, mut room) = (Vec::new(), HALF);
    while room > 0
        && let Some(mut text) = texts.next_back()
    {
        text.truncate(text.floor_char_boundary(room));
        room = room.saturating_sub(text.len() + 1);
        last.push(text);
    }
    last.reverse();
    first + &last.join("\n")
}

/// What a person said first.
pub(super) fn first_words(replay: &Replay) -> Option<String> {
    let mut said = replay.state.messages().iter().filter(|message| message.is_by_person());
    said.find_map(|message| Some(message.text()).filter(|text| !text.is_empty()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_search_looks_at_the_beginning_and_the_end() {
        let texts = |count: usize| (0..count).map(|number| format!("message {number} é"));
        assert_eq!(searched(texts(2)), "message 0 é\nmessage 1 é\n");
        let long = searched(texts(100_000));
        assert!(long.len() <= SEARCHED + 1, "{}", long.len());
        for found in ["message 0 ", "message 1000 ", "message 99999 ", "message 99000 "] {
            assert!(long.contains(found), "{found}");
        }
        assert!(!long.contains("message 50000 "));
        // In the order of the conversation.
        assert!(long.find("message 99000 ") < long.find("message 99999 "));
        assert!(searched(["é".repeat(SEARCHED), "é".repeat(SEARCHED)].into_iter()).len() <= SEARCHED + 1);
    }
}
