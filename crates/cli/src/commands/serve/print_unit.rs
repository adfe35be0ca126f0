//! `prowess serve --print-unit`

use std::path::{Component, Path, PathBuf};

use anyhow::{Context as _, Result, anyhow, bail};

use super::{Options, price_is_missing};
use crate::config::{Config, OfProject};
use crate::directories;
use crate::serving::has_price;
use crate::shell::quote_if_needed;

/// Variables that keep their values in the unit's own file, because they are secret.
const SECRETS: &str = "/etc/prowess/serve.env";

/// Where the service keeps its files.
const DATA: &str = "/var/lib/prowess";

/// Where systemd makes directories for services.
const STATE: &str = "/var/lib";

/// Directories that are others for the service, because it has a `/tmp` of its own.
const PRIVATE: [&str; 2] = ["/tmp", "/var/tmp"];

/// Directories that the service may at most read.
const HOMES: [&str; 2] = ["/home", "/root"];

/// The options with a path, which a service reads from another directory.
const PATHS: [&str; 3] = ["--data", "--root", "--workspace"];

/// A unit for systemd.
pub(super) struct Unit {
    pub(super) text: String,
    /// Why it would not start.
    pub(super) warnings: Vec<String>,
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
    words.extend(absolute(given.into_iter().filter(|word| word != "--print-unit"))?);
    if options.place.data.is_none() {
        words.extend(["--data".to_owned(), DATA.to_owned()]);
    }
    let command: Vec<String> = words.iter().map(|word| quoted(word)).collect::<Result<_>>()?;
    let is_at_home = |word: &String| word.contains("/home/") || word.contains("/root/");
    let home = if words.iter().any(is_at_home) { "read-only" } else { "yes" };
    let (directory, read_write) = directories_of(&data(options)?)?;
    let own_home = directories::home().filter(|home| home.parent().is_some());
    let is_below_home =
        own_home.is_some_and(|home| program.starts_with(home)) || words.first().is_some_and(is_at_home);
    let is_private = PRIVATE.iter().any(|directory| program.starts_with(directory));
    let mut warnings = Vec::new();
    if is_below_home || is_private {
        let program = quote_if_needed(&program.to_string_lossy());
        warnings.push(format!(
            "the service's user cannot reach {program}: copy it with `sudo install {program} /usr/local/bin/`, and print the unit with /usr/local/bin/prowess"
        ));
    }
    warnings.extend(price_warning(options)?);
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
{directory}\
Restart=on-failure
TimeoutStopSec=30
# Commands of skills run in a sandbox of their own, which needs namespaces and a control group.
Delegate=yes
ProtectHome={home}
{read_write}\
PrivateTmp=yes
LimitNOFILE=65536

[Install]
WantedBy=multi-user.target
",
        command.join(" ")
    );
    Ok(Unit { text, warnings })
}

/// The directory of the server that the unit starts.
fn data(options: &Options) -> Result<PathBuf> {
    let data = options.place.data.as_deref().unwrap_or(Path::new(DATA));
    std::path::absolute(data).with_context(|| format!("`{}` is no path", data.display()))
}

/// The lines of a unit about the directory of the server: who makes it, and that it may be written.
fn directories_of(data: &Path) -> Result<(String, String)> {
    let path = data.to_str().context("the path in --data is not valid UTF-8")?;
    let is_direct = data.components().all(|part| part != Component::ParentDir);
    let below = data.strip_prefix(STATE).ok().filter(|below| is_direct && !below.as_os_str().is_empty());
    let is_at_home = HOMES.iter().any(|home| data.starts_with(home));
    let writable = if is_at_home { format!("ReadWritePaths={}\n", setting(path)?) } else { String::new() };
    Ok(match below {
        Some(below) => {
            // Skills and configuration are in the home directory of the service.
            let own = Path::new("prowess");
            let other = (!below.starts_with(own)).then(|| setting(&below.to_string_lossy())).transpose()?;
            let all = other.map_or_else(|| "prowess".to_owned(), |other| format!("prowess {other}"));
            (format!("StateDirectory={all}\nStateDirectoryMode=0700\n"), writable)
        }
        None => {
            let make = format!("sudo install -d -m 700 -o prowess -g prowess {}", quote_if_needed(path));
            (format!("# systemd does not make the directory of --data: {make}\n"), writable)
        }
    })
}

/// Why the server would not start with these limits, as far as it can be known here.
fn price_warning(options: &Options) -> Result<Option<String>> {
    if options.limits().daily.micro_dollars.is_none() {
        return Ok(None);
    }
    let config = Config::load(&OfProject::Nothing, &options.flags())?;
    let model = config.settings.model.name.to_string();
    Ok((!has_price(&config.settings, &model)).then(|| {
        format!("{}. The service reads {DATA}/.config/prowess/prowess.toml instead", price_is_missing(&model))
    }))
}

/// The words of a command line, with absolute paths.
fn absolute(words: impl Iterator<Item = String>) -> Result<Vec<String>> {
    let full = |path: &str| -> Result<String> {
        let full = std::path::absolute(path).with_context(|| format!("`{path}` is no path"))?;
        full.into_os_string().into_string().map_err(|_| anyhow!("the working directory is not valid UTF-8"))
    };
    let mut is_path = false;
    let mut done = Vec::new();
    for word in words {
        let option =
            PATHS.iter().find(|option| word.starts_with(**option) && word[option.len()..].starts_with('='));
        done.push(match option {
            _ if is_path => full(&word)?,
            Some(option) => format!("{option}={}", full(&word[option.len() + 1..])?),
            None => word.clone(),
        });
        is_path = !is_path && PATHS.contains(&word.as_str());
    }
    Ok(done)
}

/// A word of a setting, as systemd reads it.
fn setting(word: &str) -> Result<String> {
    Ok(quoted(word)?.replace("$$", "$"))
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
    use clap::Args as _;

    use super::*;

    #[test]
    fn paths_are_absolute() {
        let words =
            ["serve", "--root", "a b", "--data=x", "--root", "/srv", "--model", "a"].map(str::to_owned);
        let here = std::env::current_dir().unwrap();
        let [root, data] = ["a b", "x"].map(|path| here.join(path).to_str().unwrap().to_owned());
        let expected =
            ["serve", "--root", &root, &format!("--data={data}"), "--root", "/srv", "--model", "a"];
        assert_eq!(absolute(words.into_iter()).unwrap(), expected);
    }

    #[test]
    fn every_option_with_a_path_is_known() {
        let command = Options::augment_args(clap::Command::new("serve"));
        let is_path = |arg: &&clap::Arg| {
            arg.get_value_names()
                .is_some_and(|names| names.iter().any(|name| name == "DIR" || name == "PATH"))
        };
        let found: std::collections::BTreeSet<String> = command
            .get_arguments()
            .filter(is_path)
            .filter_map(|arg| Some(format!("--{}", arg.get_long()?)))
            .collect();
        assert_eq!(found, PATHS.map(str::to_owned).into());
    }

    #[test]
    fn words_keep_their_meaning() {
        assert_eq!(quoted("/srv/skills").unwrap(), "/srv/skills");
        assert_eq!(quoted("a b").unwrap(), "\"a b\"");
        assert_eq!(quoted("50% of $HOME \"x\"").unwrap(), "\"50%% of $$HOME \\\"x\\\"\"");
        assert!(quoted("a\nExecStart=evil").is_err());
    }
}
