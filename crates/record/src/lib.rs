//! Records the terminal output of a command as an animated SVG.
//!
//! This is a tool for development: `make demo-svg` uses it to make `docs/demo.svg`. No shipped crate depends on it.

mod film;
mod paint;
mod row;
mod svg;

use std::io::Read as _;
use std::path::Path;
use std::process::{Command, ExitStatus};
use std::time::Instant;

use anyhow::Context as _;

use self::film::Film;

/// How a recording looks.
#[derive(Clone, Copy, Debug)]
pub struct Picture<'t> {
    /// The width of the screen, in characters.
    pub columns: u16,
    /// The height of the screen, in lines.
    pub rows: u16,
    /// The text above the screen.
    pub title: &'t str,
    /// The whole recording, or its last screen.
    pub kind: Kind,
}

/// What a recording shows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// The whole recording, played once. The last screen stays.
    Moving,
    /// The last screen.
    Still,
}

/// Runs a command in a pseudo-terminal until its output ends, and writes the output as an SVG, even if the command fails.
///
/// # Errors
///
/// The command cannot be started, or the file cannot be written.
pub fn record(mut command: Command, picture: Picture<'_>, to: &Path) -> anyhow::Result<ExitStatus> {
    let (mut terminal, other) = pty_process::blocking::open().context("cannot open a pseudo terminal")?;
    terminal.resize(pty_process::Size::new(picture.rows, picture.columns))?;
    let mut film = Film::new(picture.columns, picture.rows)?;
    command.env("TERM", "xterm-256color");
    for name in ["NO_COLOR", "COLUMNS", "LINES"] {
        command.env_remove(name);
    }
    let name = command.get_program().to_string_lossy().into_owned();
    let mut child = pty_process::blocking::Command::from(command)
        .spawn(other)
        .with_context(|| format!("cannot start {name}"))?;
    let start = Instant::now();
    let mut bytes = [0; 16 * 1024];
    // Reading fails when no process has the other end open.
    while let Ok(read @ 1..) = terminal.read(&mut bytes) {
        film.write(start.elapsed(), &bytes[..read]);
    }
    let status = child.wait().with_context(|| format!("cannot wait for {name}"))?;
    std::fs::write(to, svg::draw(&film, picture))
        .with_context(|| format!("cannot write {}", to.display()))?;
    Ok(status)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn recorded(script: &str, kind: Kind) -> (ExitStatus, String) {
        let directory = tempfile::tempdir().unwrap();
        let file = directory.path().join("picture.svg");
        let mut command = Command::new("sh");
        command.args(["-c", script]);
        let status =
            record(command, Picture { columns: 40, rows: 5, title: "a <test>", kind }, &file).unwrap();
        let text = std::fs::read_to_string(file).unwrap();
        svg::check(&text);
        (status, text)
    }

    #[test]
    fn a_command_is_recorded_on_a_terminal_of_its_own() {
        let script =
            "test -t 0 && test -t 1 && stty size; printf '\\033[1;31mred & <b>\\033[0m\\n'; seq 9; exit 3";
        let (status, text) = recorded(script, Kind::Still);
        assert_eq!(status.code(), Some(3));
        assert!(text.contains(">9</") && !text.contains("red"), "{text}");
        let (_, text) = recorded(script, Kind::Moving);
        assert!(text.contains("a &lt;test&gt;"), "{text}");
        let (_, text) = recorded("stty size; printf '\\033[1;31mred & <b>\\033[0m\\n'", Kind::Moving);
        assert!(text.contains(">5 40</") && text.contains(">red &amp; &lt;b&gt;</"), "{text}");
    }

    #[test]
    fn a_failed_recording_is_an_error() {
        let picture = Picture { columns: 40, rows: 5, title: "", kind: Kind::Still };
        let error = record(Command::new("/nowhere/at all"), picture, Path::new("/dev/null")).unwrap_err();
        assert!(error.to_string().contains("cannot start /nowhere/at all"), "{error:#}");
        let error = record(Command::new("true"), picture, Path::new("/nowhere/picture.svg")).unwrap_err();
        assert!(error.to_string().contains("cannot write /nowhere/picture.svg"), "{error:#}");
        let picture = Picture { columns: 0, ..picture };
        assert!(record(Command::new("true"), picture, Path::new("/dev/null")).is_err());
    }
}
