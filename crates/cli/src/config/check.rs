//! Whether a value can be used, and what to write otherwise.

use prowess_agent::Prices;
use prowess_agent::cost::Price;
use prowess_catalog::Digest;
use prowess_mcp::client::{ServerLabel, ServerUrl};
use prowess_workspace::HostRule;
use serde_json::{Value, json};

use super::origin::key;
use super::settings::ModelName;
use super::shape::Kind;
use crate::terminal::{printable, printable_start};

/// How much of a wrong value is shown.
const MAX_SHOWN: usize = 60;

/// Whether `value` can be at `path`.
pub(crate) fn value(path: &[String], kind: &Kind, value: &Value) -> Result<(), String> {
    let fits = match kind {
        Kind::Text => value.is_string(),
        Kind::Texts => value.as_array().is_some_and(|list| list.iter().all(Value::is_string)),
        Kind::Whole(least) => value.as_u64().is_some_and(|number| number >= *least),
        Kind::Number => value.as_f64().is_some_and(|number| number.is_finite() && number >= 0.0),
        Kind::OneOf(words) => value.as_str().is_some_and(|word| words.iter().any(|known| known == word)),
    };
    if !fits {
        return Err(must_be(path, &kind.expected(), value));
    }
    let keys: Vec<&str> = path.iter().map(String::as_str).collect();
    let text = value.as_str().unwrap_or_default();
    match keys.as_slice() {
        ["model", "name"] => {
            text.parse::<ModelName>().map(drop).map_err(|expected| must_be(path, expected, value))
        }
        ["model" | "limits", "window" | "max_output" | "steps"] if value.as_u64() > Some(u32::MAX.into()) => {
            Err(must_be(path, &format!("a whole number of {} or less", u32::MAX), value))
        }
        ["sandbox", "hosts"] => {
            let rules = texts(value).map(str::parse::<HostRule>);
            rules.filter_map(Result::err).next().map_or(Ok(()), |error| Err(told(path, &error.to_string())))
        }
        ["skills", "roots"] => match texts(value)
            .find(|root| !root.starts_with('/') && !root.starts_with("~/"))
        {
            Some(root) => Err(told(path, &format!("write `{}` with its whole path, or with ~/", cut(root)))),
            None => Ok(()),
        },
        ["provider", _, "base_url"] | ["telemetry", "endpoint"] if !is_url(text) => {
            Err(must_be(path, "a URL with http:// or https://", value))
        }
        ["mcp", _, "url"] => {
            text.parse::<ServerUrl>().map(drop).map_err(|error| told(path, &error.to_string()))
        }
        ["mcp", _, "command"] if texts(value).next().is_none_or(str::is_empty) => {
            Err(told(path, "name a program and its arguments, such as [\"uvx\", \"some-server\"]"))
        }
        ["mcp", _, "command"] if texts(value).next().is_some_and(is_relative) => {
            Err(told(path, "write the program as a bare name, or with its whole path"))
        }
        ["mcp", _, "directory"] | ["sandbox", "engine_socket"]
            if !text.starts_with('/') && !text.starts_with("~/") =>
        {
            Err(told(path, &format!("write `{}` with its whole path, or with ~/", cut(text))))
        }
        ["mcp", _, "token_env"] if !is_variable(text) => Err(told(
            path,
            "write the name of an environment variable, such as DOCS_TOKEN, and not the token itself",
        )),
        ["sandbox", "allow_loaders"] if !texts(value).all(|name| !name.is_empty() && is_variable(name)) => {
            Err(told(path, "write names of environment variables, such as NODE_OPTIONS"))
        }
        ["mcp", _, "env"] if !texts(value).all(is_variable) => Err(told(
            path,
            "write names of environment variables, such as DOCS_TOKEN, and not what they hold",
        )),
        ["mcp", _, "grants"] => {
            let is_grant = |grant: &str| {
                grant
                    .split_once(' ')
                    .is_some_and(|(uri, digest)| !uri.is_empty() && digest.parse::<Digest>().is_ok())
            };
            match texts(value).find(|grant| !is_grant(grant)) {
                Some(grant) => Err(told(
                    path,
                    &format!(
                        "`{}` is no address and digest; `prowess servers LABEL` prints them",
                        cut(grant)
                    ),
                )),
                None => Ok(()),
            }
        }
        ["provider", _, "key_command"] if texts(value).next().is_none_or(str::is_empty) => {
            Err(told(path, "name a program and its arguments, such as [\"pass\", \"show\", \"openai\"]"))
        }
        // What lies in the working directory may be a stranger's.
        ["provider", _, "key_command"] if texts(value).next().is_some_and(is_relative) => {
            Err(told(path, "write the program as a bare name, or with its whole path"))
        }
        // It may be the key itself, and is not shown.
        ["provider", _, "key_env"] if !is_variable(text) => Err(told(
            path,
            "write the name of an environment variable, such as OPENAI_API_KEY, and not the key itself",
        )),
        ["price", ..] => serde_json::from_value::<Price>(value.clone())
            .map(drop)
            .map_err(|_| must_be(path, "dollars with six decimals at most", value)),
        _ => Ok(()),
    }
}

/// Whether a text can be the name of a variable, or says that there is none.
fn is_variable(text: &str) -> bool {
    let begins = |c: char| c.is_ascii_uppercase() || c == '_';
    let fits = |c: char| begins(c) || c.is_ascii_digit();
    text.is_empty() || (text.starts_with(begins) && text.chars().all(fits))
}

/// Whether which program is meant depends on the working directory.
fn is_relative(program: &str) -> bool {
    program.contains('/') && !program.starts_with('/')
}

/// Whether a name of the user's choice can be one.
pub(crate) fn name(path: &[String]) -> Result<(), String> {
    match path {
        [section, name] if section == "provider" => {
            let fits = |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit() || b"-_".contains(&byte);
            if name == "offline" || name.is_empty() || !name.bytes().all(fits) {
                let name = cut(name);
                return Err(format!(
                    "`{name}` cannot be a provider's name: use lowercase letters, digits, `-` and `_`, not `offline`"
                ));
            }
            Ok(())
        }
        [section, name] if section == "mcp" => {
            name.parse::<ServerLabel>().map(drop).map_err(|error| error.to_string())
        }
        [section, name] if section == "price" => {
            let alone = json!({ name: { "input": 0, "output": 0 } });
            serde_json::from_value::<Prices>(alone).map(drop).map_err(|error| printable(&error.to_string()))
        }
        _ => Ok(()),
    }
}

fn texts(value: &Value) -> impl Iterator<Item = &str> {
    value.as_array().into_iter().flatten().filter_map(Value::as_str)
}

/// Good enough to be asked; whether somebody answers there shows then.
fn is_url(text: &str) -> bool {
    let rest = text.strip_prefix("http://").or_else(|| text.strip_prefix("https://"));
    rest.is_some_and(|rest| !rest.is_empty() && !rest.starts_with('/') && !rest.contains(char::is_whitespace))
}

fn told(path: &[String], problem: &str) -> String {
    format!("`{}`: {}", cut(&key(path)), printable(problem))
}

fn must_be(path: &[String], expected: &str, value: &Value) -> String {
    // Somebody may have put a key where the name of its variable belongs.
    let is_secret =
        path.last().is_some_and(|last| last.starts_with("key_") || last == "token_env" || last == "env");
    let found = match value {
        _ if is_secret => "something else".to_owned(),
        Value::String(text) if text.contains('@') => "something else".to_owned(),
        Value::Null => "a number that is too large".to_owned(),
        Value::Object(_) => "a table".to_owned(),
        Value::String(text) => format!("`{}`", cut(text)),
        other => cut(&other.to_string()),
    };
    format!("`{}` must be {expected}, and is {found}", cut(&key(path)))
}

fn cut(text: &str) -> String {
    printable_start(text, MAX_SHOWN)
}
