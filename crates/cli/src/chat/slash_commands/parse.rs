//! Tells slash commands from messages.

use prowess_permission::nearest::nearest;

use super::context::Listed;
use super::{COMMANDS, Command};

/// A line that a person typed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(in crate::chat) enum Line {
    Empty,
    Command(Command),
    /// A message for the agent, which can start a skill.
    Message(String),
    /// A command that is not valid, and why.
    Wrong(String),
}

impl Line {
    /// Parses a line. `skills` are the names of the skills that a person may start.
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
            _ => Self::Wrong(format!("/{name} takes no argument")),
        };
        match name {
            "help" => alone(Command::Help),
            "skills" => Self::Command(Command::Skills { words: optional() }),
            "add" => Self::Command(Command::Add { arguments: rest.to_owned() }),
            "agents" => alone(Command::Agents),
            "context" => match rest {
                "" => Self::Command(Command::Context(Listed::Parts)),
                "tools" => Self::Command(Command::Context(Listed::Tools)),
                _ => Self::Wrong("/context takes no argument except `tools`".to_owned()),
            },
            "compact" => alone(Command::Compact),
            "fork" => alone(Command::Fork),
            "new" => alone(Command::New),
            "quit" | "exit" => alone(Command::Quit),
            "kit" => {
                let kits = optional().map(|kits| kits.split_whitespace().map(str::to_owned).collect());
                Self::Command(Command::Kit { kits })
            }
            "model" => Self::Command(Command::Model { name: optional() }),
            "resume" => Self::Command(Command::Resume { thread: optional() }),
            "export" => Self::Command(Command::Export { file: optional() }),
            "unload" => Self::Command(Command::Unload { skill: optional() }),
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
        Some(near) => format!("there is no command or skill /{name}; did you mean /{near}?"),
        None => format!("there is no command or skill /{name}; /help lists the commands"),
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
        assert_eq!(parse("/context"), Line::Command(Command::Context(Listed::Parts)));
        assert_eq!(parse("/context  tools "), Line::Command(Command::Context(Listed::Tools)));
        assert!(matches!(parse("/context now"), Line::Wrong(why) if why.ends_with("except `tools`")));
        assert!(matches!(parse("/compact now"), Line::Wrong(why) if why == "/compact takes no argument"));
        assert_eq!(parse("/unload"), Line::Command(Command::Unload { skill: None }));
        let words = Some("sea charts".to_owned());
        assert_eq!(parse("/skills  sea charts"), Line::Command(Command::Skills { words }));
        assert!(matches!(parse("/contxt"), Line::Wrong(why) if why.ends_with("did you mean /context?")));
        assert!(
            matches!(parse("/csv-reprot"), Line::Wrong(why) if why.ends_with("did you mean /csv-report?"))
        );
        assert!(matches!(parse("/\u{1b}[2J"), Line::Wrong(why) if !why.contains('\u{1b}')));
    }

    #[test]
    fn every_command_is_understood() {
        for (command, ..) in COMMANDS {
            assert!(matches!(parse(command), Line::Command(_)), "{command}");
        }
    }
}
