//! `[source.HOST]`

use anyhow::{Result, bail};

use super::read::section;
use super::setting::{CommandLine, Parsed, Variable, text};
use super::value::{Origin, key};

section! {
    /// A web site with skills that needs a token. NAME is its host in quotes, without a port:
    /// `[source."skills.example.com"]`. prowess sends the token to this host only, and only over https or to this machine.
    /// Git repositories do not use it: `git` has its own credentials.
    pub(crate) struct SourceSettings {
        /// The environment variable that holds the bearer token.
        User key_env: Option<Parsed<Variable>>,
        /// A program that prints the bearer token, with its arguments, instead of `key_env`. It runs without a shell, has
        /// ten seconds, and runs only if prowess downloads something from the host.
        User key_command: Option<CommandLine>,
    }
}

text!(
    /// The host of a source.
    SourceHost: |host| is_host(host),
    "write the host of a URL in lowercase, without a scheme, port and path, such as [source.\"skills.example.com\"]"
);

/// Whether a URL can have this host: a name, an IPv4 address, or an IPv6 address in brackets.
fn is_host(host: &str) -> bool {
    let is_of = |text: &str, more: &[u8]| {
        let is_known = |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit() || more.contains(&byte);
        !text.is_empty() && text.bytes().all(is_known)
    };
    match host.strip_prefix('[').and_then(|host| host.strip_suffix(']')) {
        Some(address) => is_of(address, b":."),
        None => is_of(host, b".-_"),
    }
}

impl SourceSettings {
    /// Checks that there is one way to get the token. `at` gives the origin of a key, or else of the table.
    pub(super) fn check<'a>(&self, host: &str, at: impl Fn(&str) -> &'a Origin) -> Result<()> {
        let (table, command, variable) = (key(&["source", host]), at("key_command"), at("key_env"));
        match (&self.key_command, &self.key_env) {
            (Some(_), Some(_)) => bail!(
                "{command}: `{table}` has a key_command here and a key_env at {variable}; remove one of them"
            ),
            (None, None) => {
                bail!("{variable}: `{table}` needs a `key_env` (a variable) or a `key_command` (a program)")
            }
            _ => Ok(()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_host_has_no_other_part_of_a_url() {
        for host in
            ["skills.example.com", "localhost", "127.0.0.1", "[::1]", "xn--bcher-kva.example", "my_host"]
        {
            assert!(is_host(host), "{host}");
        }
        for other in
            ["", "Example.com", "a:80", "https://a", "a/b", "a b", "me@a", "::1", "[]", "bücher.example"]
        {
            assert!(!is_host(other), "{other}");
        }
    }
}
