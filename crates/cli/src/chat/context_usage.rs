//! How full the model's context window is: the rows of `/context` and `/context tools`.

use std::collections::BTreeMap;

use prowess_agent::middleware::{Counting, WindowPart, WindowPartKind, WindowUse};

use super::describe::tokens;
use crate::rows::columns;
use crate::terminal::{count, printable, printable_start};

/// How many rows of one kind are shown. One more row has the others.
const MAX_ROWS: usize = 5;
/// How many loaded skills have a row. One more row has the others.
const MAX_SKILLS: usize = 20;
/// How many tools `/context tools` lists. One more row has the others.
const MAX_TOOLS: usize = 200;
/// How many names a note has.
const MAX_NAMES: usize = 3;
/// How many characters of a name are shown.
const MAX_NAME: usize = 40;
/// The answers of a tool have a row if they have at least this part of the conversation.
const LARGE_ANSWER: u64 = 10;

/// One part of a request.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Row {
    /// Whether it is a part of the row above.
    pub(super) is_inner: bool,
    pub(super) what: String,
    pub(super) tokens: u64,
    pub(super) note: Note,
}

/// What a row says besides its tokens.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Note {
    Text(String),
    /// What the row consists of: the largest parts, and how many parts there are in all.
    Parts {
        largest: Vec<String>,
        all: usize,
    },
}

impl Note {
    /// The note in at most `room` columns: whole names, and the number of the others, as in "grep (300), 3 more". A note
    /// without any name has the number of all parts.
    pub(super) fn within(&self, room: Option<usize>) -> String {
        let (largest, all) = match self {
            Self::Text(text) => return text.clone(),
            Self::Parts { largest, all } => (largest, *all),
        };
        let named = |names: usize| {
            let more = all - names;
            let more = (more > 0)
                .then(|| if names == 0 { format!("{more} in all") } else { format!("{more} more") });
            largest.iter().take(names).cloned().chain(more).collect::<Vec<_>>().join(", ")
        };
        let mut notes = (0..=largest.len()).rev().map(named);
        notes.find(|note| room.is_none_or(|room| columns(note) <= room)).unwrap_or_default()
    }
}

/// The rows of a request: what makes it up, and what is free.
pub(super) fn rows(used: &WindowUse) -> Vec<Row> {
    let of = |kind| used.parts.iter().filter(move |part| part.kind == kind).collect::<Vec<_>>();
    let total = |kind| used.of_kind(kind);
    let prompts = of(WindowPartKind::Prompt);
    let mut rows = vec![row("system prompt", total(WindowPartKind::Prompt), names(&prompts))];
    rows.push(row("skills overview", total(WindowPartKind::Overview), none()));
    let tools = of(WindowPartKind::Tool);
    rows.push(row("tools", total(WindowPartKind::Tool), Note::Text(count(tools.len(), "tool"))));
    rows.extend(limited(groups(&tools).into_iter().map(|group| group.row()).collect(), "group", MAX_ROWS));
    let skills = of(WindowPartKind::Skill).into_iter();
    let skills =
        skills.map(|part| row(&shown(&part.name), part.tokens, Note::Text("loaded".to_owned()))).collect();
    rows.extend(limited(skills, "skill", MAX_SKILLS));
    for (kind, what) in [(WindowPartKind::Summary, "summary"), (WindowPartKind::Request, "your message")] {
        if total(kind) > 0 {
            rows.push(row(what, total(kind), none()));
        }
    }
    let messages = of(WindowPartKind::Message);
    let said = total(WindowPartKind::Message);
    rows.push(row("conversation", said, Note::Text(count(messages.len(), "message"))));
    rows.extend(limited(answers(&messages, said / LARGE_ANSWER), "tool", MAX_ROWS));
    if let Some(free) = used.free() {
        rows.push(row("free", free, none()));
    }
    rows
}

/// The rows of all tools: each group, the largest first, with each of its tools.
pub(super) fn tool_rows(used: &WindowUse) -> Vec<Row> {
    let tools: Vec<&WindowPart> =
        used.parts.iter().filter(|part| part.kind == WindowPartKind::Tool).collect();
    let mut groups = groups(&tools);
    groups.sort_by_key(|group| std::cmp::Reverse(group.tokens()));
    let (mut rows, mut left) = (Vec::new(), MAX_TOOLS);
    for group in groups {
        rows.push(row(&group.what, group.tokens(), Note::Text(count(group.tools.len(), "tool"))));
        let tools = group.tools.iter().map(|tool| inner(&shown(&tool.name), tool.tokens, none())).collect();
        let listed = limited(tools, "tool", left);
        left = left.saturating_sub(listed.len());
        rows.extend(listed);
    }
    rows
}

/// A row for the answers of each tool, if they have many tokens together.
fn answers(messages: &[&WindowPart], least: u64) -> Vec<Row> {
    let mut tools: BTreeMap<&str, (u64, usize)> = BTreeMap::new();
    for answer in messages.iter().filter(|part| part.group == "tool") {
        let (tokens, count) = tools.entry(&answer.name).or_default();
        (*tokens, *count) = (*tokens + answer.tokens, *count + 1);
    }
    let large = tools.into_iter().filter(|(_, (tokens, _))| *tokens > least);
    large
        .map(|(tool, (tokens, answers))| {
            inner(&format!("from {}", shown(tool)), tokens, Note::Text(count(answers, "answer")))
        })
        .collect()
}

/// Where the numbers come from.
pub(super) fn source(used: &WindowUse) -> String {
    let learned = |factor: Option<u64>| match factor {
        Some(factor) => format!(", ×{}.{:02} learned", factor / 1000, factor % 1000 / 10),
        None => String::new(),
    };
    match &used.counting {
        Counting::Provider => "counted by the provider".to_owned(),
        Counting::Tokenizer { name, factor } => {
            format!("counted with {}{}", printable(name), learned(*factor))
        }
        Counting::Estimate { factor } => format!("estimated{}", learned(*factor)),
        _ => "estimated".to_owned(),
    }
}

/// Tools that belong together.
struct Group<'a> {
    what: String,
    tools: Vec<&'a WindowPart>,
}

impl Group<'_> {
    fn tokens(&self) -> u64 {
        self.tools.iter().map(|tool| tool.tokens).sum()
    }

    fn row(&self) -> Row {
        inner(&self.what, self.tokens(), names(&self.tools))
    }
}

fn groups<'a>(tools: &[&'a WindowPart]) -> Vec<Group<'a>> {
    let mut groups: Vec<Vec<&WindowPart>> = Vec::new();
    for tool in tools {
        match groups.iter_mut().find(|group| group[0].group == tool.group) {
            Some(group) => group.push(tool),
            None => groups.push(vec![tool]),
        }
    }
    let group = |tools: Vec<&'a WindowPart>| {
        let what = match tools[0].server() {
            Some(server) => format!("MCP server {}", shown(server)),
            None => match tools[0].group.as_str() {
                "files" => "file tools".to_owned(),
                "skills" => "skill tools".to_owned(),
                _ => "other tools".to_owned(),
            },
        };
        Group { what, tools }
    };
    groups.into_iter().map(group).collect()
}

/// The names of the largest parts with their tokens, as in "grep (300)".
fn names(parts: &[&WindowPart]) -> Note {
    let mut parts = parts.to_vec();
    parts.sort_by_key(|part| std::cmp::Reverse(part.tokens));
    let name = |part: &&WindowPart| format!("{} ({})", shown(&part.name), tokens(part.tokens));
    Note::Parts { largest: parts.iter().take(MAX_NAMES).map(name).collect(), all: parts.len() }
}

/// The largest rows, at most `most`, and one row for the others.
fn limited(mut rows: Vec<Row>, what: &str, most: usize) -> Vec<Row> {
    rows.sort_by_key(|row| std::cmp::Reverse(row.tokens));
    // One row for the others takes as much room as the last of them.
    if rows.len() > most + 1 {
        let others = rows.split_off(most);
        let tokens = others.iter().map(|row| row.tokens).sum();
        let is_inner = others.iter().all(|row| row.is_inner);
        rows.push(Row { is_inner, ..row(&format!("{} more", count(others.len(), what)), tokens, none()) });
    }
    rows
}

fn none() -> Note {
    Note::Text(String::new())
}

fn row(what: &str, tokens: u64, note: Note) -> Row {
    Row { is_inner: false, what: what.to_owned(), tokens, note }
}

fn inner(what: &str, tokens: u64, note: Note) -> Row {
    Row { is_inner: true, ..row(what, tokens, note) }
}

fn shown(name: &str) -> String {
    printable_start(name, MAX_NAME)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn used(kind: &str, count: u64) -> WindowUse {
        let part = |number: u64| json!({"kind": kind, "group": "server docs", "name": format!("n{number}"), "count": 1, "tokens": number + 1});
        let parts: Vec<serde_json::Value> = (0..count).map(part).collect();
        serde_json::from_value(json!({"parts": parts})).unwrap()
    }

    #[test]
    fn a_note_drops_whole_names_and_counts_them() {
        let parts = used("prompt", 5);
        let note = &rows(&parts)[0].note;
        let all = "n4 (5), n3 (4), n2 (3), 2 more";
        assert_eq!((note.within(None), note.within(Some(all.len()))), (all.to_owned(), all.to_owned()));
        assert_eq!(note.within(Some(all.len() - 1)), "n4 (5), n3 (4), 3 more");
        assert_eq!(note.within(Some(14)), "n4 (5), 4 more");
        assert_eq!(note.within(Some(13)), "5 in all");
        assert_eq!(note.within(Some(3)), "");
    }

    #[test]
    fn skills_and_tools_have_a_row_each_within_bounds() {
        let named = |rows: &[Row]| rows.iter().filter(|row| row.what.starts_with('n')).count();
        for (skills, own, others) in [(19, 19, None), (21, 21, None), (22, 20, Some("2 skills more"))] {
            let rows = rows(&used("skill", skills));
            assert_eq!(named(&rows), own);
            let more = rows.iter().find(|row| row.what.ends_with("more"));
            assert_eq!(more.map(|row| row.what.as_str()), others);
        }
        for (tools, own) in [(150, 150), (10_000, MAX_TOOLS)] {
            let used = used("tool", tools);
            let rows = tool_rows(&used);
            assert_eq!((named(&rows), rows[0].what.as_str()), (own, "MCP server docs"));
            let sum: u64 = rows.iter().filter(|row| row.is_inner).map(|row| row.tokens).sum();
            assert_eq!((sum, rows[0].tokens), (used.total(), used.total()), "the rows add up");
        }
    }
}
