//! `prowess serve --print-unit`

use anyhow::{Context as _, Result, anyhow, bail};

use super::Options;
use crate::directories;
use crate::shell::quote_if_needed;

/// Variables that keep their values in the unit's own file, because they are secret.
const SECRETS: &str = "/etc/prowess/serve.env";

/// Where the service keeps its files.
const DATA: &str = "/var/lib/prowess";

/// A unit for systemd.
pub(super) struct Unit {
    pub(super) text: String,
    /// Why it would not start.
    pub(super) warning: Option<String>,
}

/// A unit for systemd, with the options of this command line.
pub(super) fn unit(options: &Options) -> Result<Unit> {
    let given = std::env::args_os().skip(1).map(std::ffi::OsString::into_string);
    let given: Vec<String> =
        given.collect::<Result<_, _>>().map_err(|_| anyhow!("an option is not valid UTF-8"))?;
    if given.iter().any(|word| word == "--database" || word.starts_with("--database=")) {
        bail!(
            "a unit is readable by everybody: leave --database out here, and write PROWESS_DATABASE=… into {SECRETS}"
        );
    }
    let program = std::env::current_exe().context("the path of prowess cannot be found")?;
    let mut words = vec![program.to_string_lossy().into_owned()];
    words.extend(given.into_iter().filter(|word| word != "--print-unit"));
    if options.place.data.is_none() {
        words.extend(["--data".to_owned(), DATA.to_owned()]);
    }
    let command: Vec<String> = words.iter().map(|word| quoted(word)).collect::<Result<_>>()?;
    let is_at_home = |word: &String| word.contains("/home/") || word.contains("/root/");
    let home = if words.iter().any(is_at_home) { "read-only" } else { "yes" };
    let own_home = directories::home().filter(|home| home.parent().is_some());
    let is_below_home =
        own_home.is_some_and(|home| program.starts_with(home)) || words.first().is_some_and(is_at_home);
    let warning = is_below_home.then(|| {
        let program = quote_if_needed(&program.to_string_lossy());
        format!(
            "the service's user cannot reach {program}: copy it with `sudo install {program} /usr/local/bin/`, and print the unit with /usr/local/bin/prowess"
        )
    });
    let text = format!(
        "\
[Unit]
Description=prowess: an agent with skills
Wants=network-online.target
After=network-online.target

[Service]
Type=exec
User=prowess
ExecStart={}
EnvironmentFile=-{SECRETS}
Environment=HOME={DATA}
StateDirectory=prowess
StateDirectoryMode=0700
Restart=on-failure
TimeoutStopSec=30
# Commands of skills run in a sandbox of their own, which needs namespaces and a control group.
Delegate=yes
ProtectHome={home}
PrivateTmp=yes
LimitNOFILE=65536

[Install]
WantedBy=multi-user.target
",
        command.join(" ")
    );
    Ok(Unit { text, warning })
}

/// A word of a command line, as systemd reads it.
fn quoted(word: &str) -> Result<String> {
    if word.chars().any(char::is_control) {
        bail!("systemd cannot start a command with control characters");
    }
    let escaped = word.replace('\\', "\\\\").replace('"', "\\\"").replace('$', "$$").replace('%', "%%");
    let is_plain = |c: char| c.is_ascii_alphanumeric() || "/-_.:,@=+".contains(c);
    Ok(if escaped.chars().all(is_plain) { escaped } else { format!("\"{escaped}\"") })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_keep_their_meaning() {
        assert_eq!(quoted("/srv/skills").unwrap(), "/srv/skills");
        assert_eq!(quoted("a b").unwrap(), "\"a b\"");
        assert_eq!(quoted("50% of $HOME \"x\"").unwrap(), "\"50%% of $$HOME \\\"x\\\"\"");
        assert!(quoted("a\nExecStart=evil").is_err());
    }
}
