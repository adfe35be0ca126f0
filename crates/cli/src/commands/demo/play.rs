//! Runs the stages of the demo. Every stage is a command that a person could type.

use std::io::Write as _;
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use anyhow::{Context as _, Result, bail};

use super::examples;
use super::stages::{self, STAGES};
use crate::signals::Signals;
use crate::terminal::{Style, Terminal, styled, wrapped};

/// The pause between stages on a screen.
const PAUSE: Duration = Duration::from_millis(1_500);
/// How long to wait for a signal after a command failed, because both get the signal.
const SETTLED: Duration = Duration::from_millis(500);
/// Variables that would show the demo the user's own files.
const OURS: [&str; 6] = [
    "XDG_CONFIG_HOME",
    "XDG_STATE_HOME",
    "XDG_DATA_HOME",
    "XDG_CACHE_HOME",
    "SKILLS_ROOT",
    "CLAUDE_CONFIG_DIR",
];

/// A temporary home, project and skills for the demo.
struct Scratch {
    place: tempfile::TempDir,
}

/// Runs all stages. `level` is the weakest sandbox level to accept. Returns the exit code if a signal ended it.
pub(crate) fn play(level: Option<&str>, terminal: &mut Terminal) -> Result<Option<u8>> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
    let runtime = runtime.context("cannot run the demo")?;
    // Signals are caught, so that the temporary directory is removed.
    let mut signals = {
        let _within = runtime.enter();
        Signals::catch().context("signals cannot be caught")?
    };
    let mut signal_within =
        |time: Duration| runtime.block_on(async { tokio::time::timeout(time, signals.code()).await.ok() });
    let scratch = Scratch::new()?;
    for (number, stage) in STAGES.iter().enumerate() {
        if number > 0
            && terminal.is_screen()
            && let Some(code) = signal_within(PAUSE)
        {
            return Ok(Some(code));
        }
        let heading = format!("{}/{}  {}", number + 1, STAGES.len(), stage.name);
        writeln!(terminal, "\n{}", styled(heading, Style::Heading))?;
        writeln!(terminal, "{}", styled(wrapped(stage.what, terminal.width().min(100)), Style::Faint))?;
        for (line, code) in stage.commands {
            writeln!(terminal, "{} {line}", styled("$", Style::Good))?;
            terminal.flush()?;
            let played = scratch.run(line, *code, level);
            // The command may have failed because of a signal.
            if played.is_err()
                && let Some(code) = signal_within(SETTLED)
            {
                return Ok(Some(code));
            }
            played?;
        }
    }
    writeln!(
        terminal,
        "\n{} Try it yourself with `prowess chat`; `--model openai:NAME` uses a real model.",
        styled("That was the demo.", Style::Good)
    )?;
    Ok(None)
}

impl Scratch {
    fn new() -> Result<Self> {
        let failed = "cannot create a directory for the demo";
        let place = tempfile::Builder::new().prefix("prowess-demo-").tempdir().context(failed)?;
        // As root, commands run as the user nobody, who must be able to enter.
        std::fs::set_permissions(place.path(), std::fs::Permissions::from_mode(0o711)).context(failed)?;
        let scratch = Self { place };
        for name in ["home", "project"] {
            std::fs::create_dir(scratch.at(name)).context(failed)?;
            std::fs::set_permissions(scratch.at(name), std::fs::Permissions::from_mode(0o711))
                .context(failed)?;
        }
        examples::write(&scratch.at("skills")).context(failed)?;
        Ok(scratch)
    }

    fn at(&self, name: &str) -> PathBuf {
        self.place.path().join(name)
    }

    /// Runs a line with this same program.
    fn run(&self, line: &str, expected: i32, level: Option<&str>) -> Result<()> {
        let program = std::env::current_exe().context("cannot find the path of this program")?;
        let mut words = stages::words(line).into_iter();
        let name = words.next().unwrap_or_default();
        let mut command = Command::new(program);
        command.args(words);
        if let Some(level) = level.filter(|_| line.starts_with("prowess chat")) {
            command.args(["--sandbox", level]);
        }
        for (variable, _) in std::env::vars_os().filter(|(variable, _)| is_ours(&variable.to_string_lossy()))
        {
            command.env_remove(variable);
        }
        command
            .env("HOME", self.at("home"))
            .env("SKILLS_ROOT", self.at("skills"))
            .current_dir(self.at("project"))
            .stdin(std::process::Stdio::null());
        let status = command.status().with_context(|| format!("`{name}` cannot be started"))?;
        if status.code() != Some(expected) {
            bail!("the demo stopped: `{line}` ended with {status}");
        }
        Ok(())
    }
}

impl Drop for Scratch {
    fn drop(&mut self) {
        // Staged skills are read-only and must become writable before they can be removed.
        open_up(self.place.path());
    }
}

fn is_ours(variable: &str) -> bool {
    variable.starts_with("PROWESS_") || variable.starts_with("OTEL_") || OURS.contains(&variable)
}

/// Makes the directories below a path removable.
fn open_up(path: &Path) {
    for entry in std::fs::read_dir(path).into_iter().flatten().flatten() {
        if entry.file_type().is_ok_and(|kind| kind.is_dir()) {
            let _ = std::fs::set_permissions(entry.path(), std::fs::Permissions::from_mode(0o711 | 0o700));
            open_up(&entry.path());
        }
    }
}
