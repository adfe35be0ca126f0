//! The commands of a session, and their parser.

use prowess_skills::delta::SelectMode;
use prowess_skills::documents::DocumentChoice;
use serde_json::Value;

use crate::terminal::printable_start;

/// How many characters of a wrong line are repeated.
const MAX_ECHO: usize = 60;

/// A command of a session.
#[derive(Debug, PartialEq)]
pub(crate) enum Command {
    Load {
        name: String,
        arguments: Option<String>,
    },
    Unload {
        name: String,
    },
    Docs {
        name: String,
    },
    Select {
        name: String,
        mode: SelectMode,
        choice: DocumentChoice,
    },
    /// A skill that a person starts: the whole line, with its slash.
    Invoke {
        line: String,
    },
    Call {
        tool: String,
        arguments: Value,
    },
    Prompt,
    Tools,
    Loaded,
    History,
    Files {
        paths: Vec<String>,
    },
    Compact {
        budget: Option<usize>,
    },
    Step,
    Turn,
    Refresh,
    Tool {
        name: String,
        argument: Option<String>,
    },
    State,
    Help,
    Quit,
}

/// The commands, as `help` shows them.
pub(crate) const COMMANDS: &[(&str, &str)] = &[
    ("load NAME [ARGUMENTS…]", "load a skill, as the model would"),
    ("unload NAME", "unload it"),
    ("docs NAME", "list a skill's documents"),
    ("select NAME add|replace|clear [DOC…|*]", "choose documents of a loaded skill"),
    ("/NAME [ARGUMENTS…]", "start a skill as a person"),
    ("call TOOL [JSON]", "call a tool for skills, as the model would"),
    ("prompt", "show what the model sees now"),
    ("tools", "show the tools for skills, as JSON"),
    ("loaded", "show what is loaded, and how much room is left"),
    ("history", "show the messages so far"),
    ("files PATH…", "tell the session that these files are used"),
    ("compact [TOKENS]", "forget all messages except the last, and show what is put back"),
    ("step", "end a model call (see --lifetime once)"),
    ("turn", "end the turn (see --lifetime turn)"),
    ("refresh", "look for skills again"),
    ("tool NAME [ARGUMENT]", "check a tool call against allowed-tools"),
    ("state", "show what --state saves, as JSON"),
    ("help", "show this"),
    ("quit", "end the session"),
];

/// Parses a line. `None` for a blank line or a comment. The error says what to write instead.
pub(crate) fn parse(line: &str) -> Result<Option<Command>, String> {
    let line = line.trim();
    if line.is_empty() || line.starts_with('#') {
        return Ok(None);
    }
    if line.starts_with('/') {
        return Ok(Some(Command::Invoke { line: line.to_owned() }));
    }
    let (word, rest) = split(line);
    let usage = || match COMMANDS.iter().find(|(usage, _)| split(usage).0 == word) {
        Some((usage, _)) => format!("`{}` is not valid; write `{usage}`", echo(line)),
        None => unknown(word),
    };
    let bare = |command| if rest.is_empty() { Ok(command) } else { Err(usage()) };
    let name = || match split(rest) {
        ("", _) => Err(usage()),
        (name, rest) => Ok((name.to_owned(), Some(rest.to_owned()).filter(|rest| !rest.is_empty()))),
    };
    let only_name = || name().and_then(|(name, rest)| if rest.is_none() { Ok(name) } else { Err(usage()) });
    let command = match word {
        "load" => name().map(|(name, arguments)| Command::Load { name, arguments })?,
        "unload" => Command::Unload { name: only_name()? },
        "docs" => Command::Docs { name: only_name()? },
        "select" => select(&words(rest)?).ok_or_else(usage)?,
        "call" => {
            let (tool, json) = name()?;
            let arguments = json.map_or(Ok(Value::Null), |json| serde_json::from_str(&json));
            let arguments =
                arguments.map_err(|error| format!("the arguments of `call` are not JSON: {error}"))?;
            Command::Call { tool, arguments }
        }
        "prompt" => bare(Command::Prompt)?,
        "tools" => bare(Command::Tools)?,
        "loaded" => bare(Command::Loaded)?,
        "history" => bare(Command::History)?,
        "files" => match words(rest)? {
            paths if paths.is_empty() => return Err(usage()),
            paths => Command::Files { paths },
        },
        "compact" if rest.is_empty() => Command::Compact { budget: None },
        "compact" => Command::Compact { budget: Some(rest.parse().map_err(|_| usage())?) },
        "step" => bare(Command::Step)?,
        "turn" => bare(Command::Turn)?,
        "refresh" => bare(Command::Refresh)?,
        "tool" => name().map(|(name, argument)| Command::Tool { name, argument })?,
        "state" => bare(Command::State)?,
        "help" | "?" => Command::Help,
        "quit" | "exit" => bare(Command::Quit)?,
        _ => return Err(unknown(word)),
    };
    Ok(Some(command))
}

pub(crate) fn echo(text: &str) -> String {
    printable_start(text, MAX_ECHO)
}

fn split(text: &str) -> (&str, &str) {
    let (word, rest) = text.split_once(char::is_whitespace).unwrap_or((text, ""));
    (word, rest.trim())
}

fn select(words: &[String]) -> Option<Command> {
    let [name, mode, documents @ ..] = words else { return None };
    let mode = match mode.as_str() {
        "add" => SelectMode::Add,
        "replace" => SelectMode::Replace,
        "clear" if documents.is_empty() => SelectMode::Clear,
        _ => return None,
    };
    let choice = match documents {
        [all] if all == "*" => DocumentChoice::All,
        [] if mode != SelectMode::Clear => return None,
        documents => DocumentChoice::Named(documents.to_vec()),
    };
    Some(Command::Select { name: name.clone(), mode, choice })
}

/// Splits text into words. Single or double quotes keep spaces together.
fn words(text: &str) -> Result<Vec<String>, String> {
    let mut words = Vec::new();
    let mut word: Option<String> = None;
    let mut quote = None;
    for c in text.chars() {
        match quote {
            Some(closing) if c == closing => quote = None,
            Some(_) => word.get_or_insert_default().push(c),
            None if matches!(c, '"' | '\'') => {
                quote = Some(c);
                word.get_or_insert_default();
            }
            None if c.is_whitespace() => words.extend(word.take()),
            None => word.get_or_insert_default().push(c),
        }
    }
    words.extend(word);
    match quote {
        Some(quote) => Err(format!("`{}` has an open quote: close it with {quote}", echo(text))),
        None => Ok(words),
    }
}

fn unknown(word: &str) -> String {
    let word = echo(word);
    let names = COMMANDS.iter().map(|(usage, _)| split(usage).0).filter(|name| !name.starts_with('/'));
    match prowess_permission::nearest::nearest(&word, names) {
        Some(name) => format!("there is no command `{word}`; did you mean `{name}`? `help` shows all"),
        None => format!("there is no command `{word}`; `help` shows all"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_help_shows_is_understood() {
        for (usage, _) in COMMANDS {
            let word = split(usage).0;
            let line = match word {
                "select" => "select pdf add *".to_owned(),
                "compact" => "compact 100".to_owned(),
                "call" => "call load_skill {\"skill_name\": \"pdf\"}".to_owned(),
                word if usage.contains(' ') => format!("{word} pdf"),
                word => word.to_owned(),
            };
            assert!(matches!(parse(&line), Ok(Some(_))), "{line}");
        }
    }

    #[test]
    fn arguments_are_kept_as_they_are() {
        let load = |name: &str, arguments: Option<&str>| {
            let (name, arguments) = (name.to_owned(), arguments.map(str::to_owned));
            Ok(Some(Command::Load { name, arguments }))
        };
        assert_eq!(parse(" load\tpdf \r"), load("pdf", None));
        assert_eq!(parse("load pdf  \"a  b\" 'c "), load("pdf", Some("\"a  b\" 'c")));
        assert_eq!(parse("/pdf a b"), Ok(Some(Command::Invoke { line: "/pdf a b".to_owned() })));
        assert_eq!(parse(""), Ok(None));
        assert_eq!(parse("  # a story"), Ok(None));
    }

    #[test]
    fn documents_may_have_blanks_in_their_names() {
        let choice = DocumentChoice::Named(vec!["my notes.md".to_owned(), "b.md".to_owned()]);
        let select = Command::Select { name: "pdf".to_owned(), mode: SelectMode::Replace, choice };
        assert_eq!(parse("select pdf replace 'my notes.md' b.md"), Ok(Some(select)));
    }

    #[test]
    fn what_is_not_understood_says_what_would_be() {
        for (line, told) in [
            ("lod pdf", "there is no command `lod`; did you mean `load`? `help` shows all"),
            ("zeppelin", "there is no command `zeppelin`; `help` shows all"),
            ("load", "`load` is not valid; write `load NAME [ARGUMENTS…]`"),
            ("turn now", "`turn now` is not valid; write `turn`"),
            ("compact -1", "`compact -1` is not valid; write `compact [TOKENS]`"),
            (
                "select pdf add",
                "`select pdf add` is not valid; write `select NAME add|replace|clear [DOC…|*]`",
            ),
            ("files 'a", "`'a` has an open quote: close it with '"),
        ] {
            assert_eq!(parse(line), Err(told.to_owned()));
        }
        assert!(
            parse("call load_skill {").unwrap_err().starts_with("the arguments of `call` are not JSON: EOF")
        );
        assert!(parse(&"x".repeat(1 << 20)).unwrap_err().len() < 300);
    }
}
