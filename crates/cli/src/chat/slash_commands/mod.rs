//! Lines that begin with a slash.

pub(super) mod act;
pub(super) mod fork;

use prowess_permission::nearest::nearest;

/// What a person can do besides talking.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(in crate::chat) enum Command {
    Help,
    Skills,
    Context,
    Compact,
    Unload { skill: String },
    Model { name: Option<String> },
    Resume { thread: Option<String> },
    Fork,
    Export { file: Option<String> },
    New,
    Quit,
}

/// Each command, what follows it, and what it does.
pub(in crate::chat) const COMMANDS: [(&str, &str, &str); 11] = [
    ("/help", "", "this list"),
    ("/skills", "", "the skills there are, and which are loaded"),
    ("/context", "", "what fills the model's window"),
    ("/compact", "", "summarise the conversation now; loaded skills stay"),
    ("/unload", "SKILL", "take a skill out of the model's visible_skills"),
    ("/model", "[NAME]", "which model answers; another one: provider:name, or offline"),
    ("/resume", "[THREAD]", "the threads there are; go on with another one"),
    ("/fork", "", "go on in a copy of this thread"),
    ("/export", "[FILE]", "write the conversation into a file: .md or .json"),
    ("/new", "", "begin another thread"),
    ("/quit", "", "leave; the thread stays"),
];

/// What a line is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(in crate::chat) enum Line {
    /// Nothing.
    Empty,
    /// Something for the program.
    Command(Command),
    /// Something for the agent.
    Message(String),
    /// A command that cannot be followed, and why.
    Wrong(String),
}

impl Line {
    /// What was typed, where these are the names of skills that a person may start.
    pub(in crate::chat) fn parse(text: &str, skills: &[String]) -> Self {
        let text = text.trim();
        if text.is_empty() {
            return Self::Empty;
        }
        let Some(line) = text.strip_prefix('/') else { return Self::Message(text.to_owned()) };
        let (name, rest) = line.split_once(char::is_whitespace).unwrap_or((line, ""));
        let rest = rest.trim();
        let optional = || (!rest.is_empty()).then(|| rest.to_owned());
        let alone = |command: Command| match rest {
            "" => Self::Command(command),
            _ => Self::Wrong(format!("/{name} takes nothing after it")),
        };
        match name {
            "help" => alone(Command::Help),
            "skills" => alone(Command::Skills),
            "context" => alone(Command::Context),
            "compact" => alone(Command::Compact),
            "fork" => alone(Command::Fork),
            "new" => alone(Command::New),
            "quit" | "exit" => alone(Command::Quit),
            "model" => Self::Command(Command::Model { name: optional() }),
            "resume" => Self::Command(Command::Resume { thread: optional() }),
            "export" => Self::Command(Command::Export { file: optional() }),
            "unload" => match optional() {
                Some(skill) => Self::Command(Command::Unload { skill }),
                None => {
                    Self::Wrong("/unload needs the name of a loaded skill; /skills shows them".to_owned())
                }
            },
            name if skills.iter().any(|skill| skill == name) => Self::Message(text.to_owned()),
            // A path, for one, is something to conversation about.
            name if name.contains('/') => Self::Message(text.to_owned()),
            name => Self::Wrong(unknown(name, skills)),
        }
    }
}

fn unknown(name: &str, skills: &[String]) -> String {
    let name = crate::terminal::printable(name);
    let known = COMMANDS.iter().map(|(command, ..)| &command[1..]).chain(skills.iter().map(String::as_str));
    match nearest(&name, known) {
        Some(near) => format!("there is no command and no skill /{name}; did you mean /{near}?"),
        None => format!("there is no command and no skill /{name}; /help shows what there is"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(text: &str) -> Line {
        Line::parse(text, &["csv-report".to_owned()])
    }

    #[test]
    fn lines_are_told_apart() {
        assert_eq!(parse("  "), Line::Empty);
        assert_eq!(parse("hello /help"), Line::Message("hello /help".to_owned()));
        assert_eq!(parse("/csv-report a.csv"), Line::Message("/csv-report a.csv".to_owned()));
        assert_eq!(parse("/etc/hosts is what?"), Line::Message("/etc/hosts is what?".to_owned()));
        assert_eq!(
            parse("/model openai:x"),
            Line::Command(Command::Model { name: Some("openai:x".to_owned()) })
        );
        assert_eq!(parse("/resume"), Line::Command(Command::Resume { thread: None }));
        assert!(
            matches!(parse("/context now"), Line::Wrong(why) if why == "/context takes nothing after it")
        );
        assert!(matches!(parse("/unload"), Line::Wrong(_)));
        assert!(matches!(parse("/contxt"), Line::Wrong(why) if why.ends_with("did you mean /context?")));
        assert!(
            matches!(parse("/csv-reprot"), Line::Wrong(why) if why.ends_with("did you mean /csv-report?"))
        );
        assert!(matches!(parse("/\u{1b}[2J"), Line::Wrong(why) if !why.contains('\u{1b}')));
    }

    #[test]
    fn every_command_is_understood() {
        for (command, after, _) in COMMANDS {
            let line = format!("{command} {}", if after == "SKILL" { "x" } else { "" });
            assert!(matches!(parse(&line), Line::Command(_)), "{line}");
        }
    }
}
