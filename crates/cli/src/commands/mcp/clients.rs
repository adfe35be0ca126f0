//! The MCP clients for which `--print-config` prints a configuration.

use clap::ValueEnum;
use serde_json::{Value, json};

/// A known MCP client.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum McpClient {
    ClaudeCode,
    Codex,
    Cursor,
    Opencode,
    Vscode,
    Zed,
}

impl McpClient {
    /// Where the client keeps its configuration.
    pub(crate) fn config_file(self) -> &'static str {
        match self {
            Self::ClaudeCode => ".mcp.json at the top of a project",
            Self::Codex => "~/.codex/config.toml",
            Self::Cursor => "~/.cursor/mcp.json, or .cursor/mcp.json in a project",
            Self::Opencode => "~/.config/opencode/opencode.json, or opencode.json in a project",
            Self::Vscode => ".vscode/mcp.json in a workspace",
            Self::Zed => "~/.config/zed/settings.json",
        }
    }

    /// The configuration with which the client starts `program` with `arguments`.
    pub(crate) fn stdio_config(self, program: &str, arguments: &[String]) -> String {
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

impl McpClient {
    /// The configuration with which the client connects to a server at `url`. The token comes from the environment
    /// variable `variable`; clients that cannot read it ask for the token, or have a placeholder for it.
    pub(crate) fn http_config(self, url: &str, variable: &str) -> String {
        let bearer = |token: &str| json!({"Authorization": format!("Bearer {token}")});
        let value = match self {
            Self::Codex => {
                let (url, variable) = (quoted(url), quoted(variable));
                return format!("[mcp_servers.prowess]\nurl = {url}\nbearer_token_env_var = {variable}\n");
            }
            Self::ClaudeCode => {
                let headers = bearer(&format!("${{{variable}}}"));
                json!({"mcpServers": {"prowess": {"type": "http", "url": url, "headers": headers}}})
            }
            Self::Cursor => {
                let headers = bearer(&format!("${{env:{variable}}}"));
                json!({"mcpServers": {"prowess": {"url": url, "headers": headers}}})
            }
            Self::Opencode => {
                let headers = bearer(&format!("{{env:{variable}}}"));
                let server = json!({"type": "remote", "url": url, "oauth": false, "headers": headers, "enabled": true});
                json!({"$schema": "https://opencode.ai/config.json", "mcp": {"prowess": server}})
            }
            Self::Vscode => {
                let asked = json!({"type": "promptString", "id": "prowess-token", "description": "Token of prowess mcp", "password": true});
                let headers = bearer("${input:prowess-token}");
                json!({"inputs": [asked], "servers": {"prowess": {"type": "http", "url": url, "headers": headers}}})
            }
            Self::Zed => json!({"context_servers": {"prowess": {"url": url, "headers": bearer("TOKEN")}}}),
        };
        format!("{value:#}\n")
    }

    /// How the client gets the token.
    pub(crate) fn token_advice(self, variable: &str) -> String {
        match self {
            Self::ClaudeCode | Self::Codex | Self::Cursor | Self::Opencode => {
                format!("the client reads the token from {variable}: set it where you start the client")
            }
            Self::Vscode => "the client asks for the token and remembers it".to_owned(),
            Self::Zed => "replace TOKEN with the token".to_owned(),
        }
    }
}

/// A TOML string. JSON strings are TOML strings, except for one character that TOML wants escaped.
fn quoted(text: &str) -> String {
    Value::from(text).to_string().replace('\u{7f}', "\\u007f")
}

fn toml(program: &str, arguments: &[String]) -> String {
    let arguments: Vec<String> = arguments.iter().map(|argument| quoted(argument)).collect();
    format!("[mcp_servers.prowess]\ncommand = {}\nargs = [{}]\n", quoted(program), arguments.join(", "))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_client_gets_an_address_and_no_token() {
        let mut printed = String::new();
        for client in McpClient::value_variants() {
            let text = client.http_config("http://127.0.0.1:8931/mcp", "PROWESS_MCP_TOKEN");
            match client {
                McpClient::Codex => assert!(text.parse::<toml::Table>().is_ok()),
                _ => assert!(serde_json::from_str::<Value>(&text).is_ok()),
            }
            printed += &format!("{client:?}: {text}{}\n\n", client.token_advice("PROWESS_MCP_TOKEN"));
        }
        insta::assert_snapshot!(printed);
    }

    #[test]
    fn every_configuration_is_what_its_client_reads() {
        let arguments = ["mcp", "--root", "/a \"b\"\\\u{7f}\n/ü"].map(str::to_owned);
        for client in McpClient::value_variants() {
            let text = client.stdio_config("/opt/pro wess", &arguments);
            let value: Value = match client {
                McpClient::Codex => {
                    let table: toml::Table = text.parse().unwrap();
                    serde_json::to_value(table).unwrap()
                }
                _ => serde_json::from_str(&text).unwrap(),
            };
            let under = match client {
                McpClient::ClaudeCode | McpClient::Cursor => "/mcpServers/prowess",
                McpClient::Codex => "/mcp_servers/prowess",
                McpClient::Opencode => "/mcp/prowess",
                McpClient::Vscode => "/servers/prowess",
                McpClient::Zed => "/context_servers/prowess",
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
            assert_eq!(words, expected, "{client:?}");
        }
    }
}
