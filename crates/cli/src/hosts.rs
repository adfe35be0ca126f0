//! How programs that use MCP servers are told of this one.

use clap::ValueEnum;
use serde_json::{Value, json};

/// A program that uses MCP servers.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum Host {
    ClaudeCode,
    Codex,
    Cursor,
    Opencode,
    Vscode,
    Zed,
}

impl Host {
    /// Where its configuration is.
    pub(crate) fn place(self) -> &'static str {
        match self {
            Self::ClaudeCode => ".mcp.json at the top of a project",
            Self::Codex => "~/.codex/config.toml",
            Self::Cursor => "~/.cursor/mcp.json, or .cursor/mcp.json in a project",
            Self::Opencode => "~/.config/opencode/opencode.json, or opencode.json in a project",
            Self::Vscode => ".vscode/mcp.json in a workspace",
            Self::Zed => "settings.json",
        }
    }

    /// The configuration that has it start `program` with `arguments`.
    pub(crate) fn configuration(self, program: &str, arguments: &[String]) -> String {
        let server = json!({"type": "stdio", "command": program, "args": arguments});
        let value = match self {
            Self::Codex => return toml(program, arguments),
            Self::ClaudeCode | Self::Cursor => json!({"mcpServers": {"prowess": server}}),
            Self::Vscode => json!({"servers": {"prowess": server}}),
            Self::Opencode => {
                let command: Vec<&str> =
                    std::iter::once(program).chain(arguments.iter().map(String::as_str)).collect();
                let server = json!({"type": "local", "command": command, "enabled": true});
                json!({"$schema": "https://opencode.ai/config.json", "mcp": {"prowess": server}})
            }
            Self::Zed => {
                let server = json!({"command": program, "args": arguments, "env": {}});
                json!({"context_servers": {"prowess": server}})
            }
        };
        format!("{value:#}\n")
    }
}

/// A string of JSON is one of TOML, but for one character that TOML wants escaped.
fn toml(program: &str, arguments: &[String]) -> String {
    let quoted = |text: &str| Value::from(text).to_string().replace('\u{7f}', "\\u007f");
    let arguments: Vec<String> = arguments.iter().map(|argument| quoted(argument)).collect();
    format!("[mcp_servers.prowess]\ncommand = {}\nargs = [{}]\n", quoted(program), arguments.join(", "))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_configuration_is_what_its_host_reads() {
        let arguments = ["mcp", "--root", "/a \"b\"\\\u{7f}\n/ü"].map(str::to_owned);
        for host in Host::value_variants() {
            let text = host.configuration("/opt/pro wess", &arguments);
            let value: Value = match host {
                Host::Codex => {
                    let table: toml::Table = text.parse().unwrap();
                    serde_json::to_value(table).unwrap()
                }
                _ => serde_json::from_str(&text).unwrap(),
            };
            let under = match host {
                Host::ClaudeCode | Host::Cursor => "/mcpServers/prowess",
                Host::Codex => "/mcp_servers/prowess",
                Host::Opencode => "/mcp/prowess",
                Host::Vscode => "/servers/prowess",
                Host::Zed => "/context_servers/prowess",
            };
            let server = value.pointer(under).unwrap();
            let mut words: Vec<Value> = match &server["command"] {
                Value::Array(words) => words.clone(),
                program => vec![program.clone()],
            };
            words.extend(server["args"].as_array().into_iter().flatten().cloned());
            let expected: Vec<Value> = std::iter::once("/opt/pro wess")
                .chain(arguments.iter().map(String::as_str))
                .map(Value::from)
                .collect();
            assert_eq!(words, expected, "{host:?}");
        }
    }
}
