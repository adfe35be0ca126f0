//! `prowess serve --print-unit`

use anyhow::{Context as _, Result, bail};

use super::Options;

/// Variables that keep their values in the unit's own file, because they are secret.
const SECRETS: &str = "/etc/prowess/serve.env";

/// A unit for systemd.
pub(super) fn unit(options: &Options) -> Result<String> {
    if options.place.database.is_given() {
        bail!(
            "a unit is readable by everybody: leave --database out here, and write PROWESS_DATABASE=… into {SECRETS}"
        );
    }
    let program = std::env::current_exe().context("the path of prowess cannot be found")?;
    let mut words = vec![program.to_string_lossy().into_owned(), "serve".to_owned()];
    words.extend(["--listen".to_owned(), options.listen.to_string()]);
    if options.allow_remote {
        words.push("--allow-remote".to_owned());
    }
    if let Some(model) = &options.model {
        words.extend(["--model".to_owned(), model.clone()]);
    }
    if let Some(most) = &options.max_cost {
        words.extend(["--max-cost".to_owned(), most.clone()]);
    }
    words.extend(["--turns".to_owned(), options.turns.to_string()]);
    words.extend(["--lease".to_owned(), options.lease.to_string()]);
    words.extend(["--data".to_owned(), "/var/lib/prowess".to_owned()]);
    for root in &options.root_args.root {
        let root = std::path::absolute(root)?;
        words.extend(["--root".to_owned(), root.to_string_lossy().into_owned()]);
    }
    let command: Vec<String> = words.iter().map(|word| quoted(word)).collect::<Result<_>>()?;
    Ok(format!(
        "\
[Unit]
Description=prowess: an agent with skills
Documentation=man:prowess(1)
Wants=network-online.target
After=network-online.target

[Service]
Type=exec
ExecStart={}
EnvironmentFile=-{SECRETS}
Environment=HOME=/var/lib/prowess
DynamicUser=yes
StateDirectory=prowess
StateDirectoryMode=0700
Restart=on-failure
TimeoutStopSec=30
# Commands of skills run in a sandbox of their own, which needs namespaces and a control group.
Delegate=yes
ProtectHome=yes
PrivateTmp=yes
LimitNOFILE=65536

[Install]
WantedBy=multi-user.target
",
        command.join(" ")
    ))
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
