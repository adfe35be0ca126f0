//! `[mcp.NAME]`

use std::str::FromStr;

use anyhow::{Result, bail};
use prowess_catalog::Digest;
use prowess_mcp::client::ServerUrl;

use super::read::{quoted, section};
use super::setting::{CommandLine, EMPTY, FullPath, Parsed, Variable, VariableOrNone};
use super::value::Origin;

section! {
    /// Another MCP server, under a label of your choice. `prowess chat` has its skills as `LABEL:PATH` and its tools as
    /// `LABEL__TOOL`. See [mcp](mcp.md#skills-and-tools-of-other-servers).
    pub(crate) struct McpSettings {
        /// The program that is the server, with its arguments. It talks on standard input and output, and runs without a
        /// shell.
        User command: Option<CommandLine>,
        /// The names of your environment variables that the program gets, besides `PATH`, `HOME` and the like.
        User env: Vec<Parsed<Variable>> = EMPTY,
        /// The directory in which the program starts, as an absolute path or with a leading `~/`. The default is your
        /// home directory.
        User directory: Option<Parsed<FullPath>>,
        /// The URL of the server, instead of `command`: https, or http on this machine.
        User url: Option<Parsed<ServerUrl>>,
        /// The environment variable that holds the bearer token for `url`.
        User token_env: Option<Parsed<VariableOrNone>>,
        /// Skills whose `allowed-tools`, `model`, `effort` and `shell` take effect: the address and the digest of each,
        /// as `prowess servers LABEL` prints them. A skill that changes loses its grant.
        User grants: Vec<Parsed<Grant>> = EMPTY,
    }
}

/// The address and the digest of a skill.
#[derive(Clone, Debug)]
pub(crate) struct Grant {
    pub(crate) uri: String,
    pub(crate) digest: Digest,
}

impl FromStr for Grant {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let given = quoted(text);
        let wrong =
            format!("write an address and a digest, as `prowess servers LABEL` prints them, not `{given}`");
        let parts = text.split_once(' ').filter(|(uri, _)| !uri.is_empty());
        let digest = parts.and_then(|(uri, digest)| Some((uri.to_owned(), digest.parse().ok()?)));
        digest.map(|(uri, digest)| Self { uri, digest }).ok_or(wrong)
    }
}

impl McpSettings {
    /// Checks that there is one way to reach the server. `at` gives the origin of a key, or else of the table.
    pub(super) fn check<'a>(&self, name: &str, at: impl Fn(&str) -> &'a Origin) -> Result<()> {
        let (command, url) = (at("command"), at("url"));
        match (&self.command, &self.url) {
            (Some(_), Some(_)) => {
                bail!("{command}: `mcp.{name}` has a `command` here and a `url` at {url}; remove one of them")
            }
            (None, None) => bail!(
                "{command}: `mcp.{name}` needs a `command` (a program) or a `url` (the address of a server)"
            ),
            _ => Ok(()),
        }
    }
}
