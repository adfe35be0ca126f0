//! Keys and tokens that a program prints. prowess stores them nowhere.

use std::io::Read as _;
use std::process::{Command, Stdio};
use std::sync::mpsc;
use std::time::Duration;

use anyhow::{Context as _, Result, anyhow, bail};
use secrecy::SecretString;

use crate::config::CommandLine;
use crate::terminal::printable;

/// How long a program may take to print a key.
const TIME: Duration = Duration::from_secs(10);
/// The largest key, in bytes.
const MAX_KEY: u64 = 64 * 1024;

/// The key that the program of a `key_command` prints.
pub(crate) fn run(command: &CommandLine) -> Result<SecretString> {
    printed(&command.0, TIME)
}

/// What a program prints, without the end of the line. Its error output goes to the user.
fn printed(command: &[String], time: Duration) -> Result<SecretString> {
    let (program, arguments) = command.split_first().context("key_command names no program")?;
    let program = printable(program);
    let mut child = Command::new(&command[0])
        .args(arguments)
        .current_dir("/")
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .spawn()
        .with_context(|| format!("cannot start `{program}`; check key_command"))?;
    let output = child.stdout.take().context("cannot read its output")?;
    let (sender, receiver) = mpsc::channel();
    std::thread::spawn(move || {
        let mut bytes = Vec::new();
        let read = output.take(MAX_KEY + 1).read_to_end(&mut bytes).map(|_| bytes);
        let _ = sender.send(read);
    });
    let answer = receiver.recv_timeout(time);
    // A program that is late, or prints more than a key, is stopped.
    let is_over = !matches!(&answer, Ok(Ok(bytes)) if bytes.len() as u64 <= MAX_KEY);
    if is_over {
        let _ = child.kill();
    }
    let status = wait(&mut child, time);
    match answer {
        Err(_) => bail!("`{program}` printed no key within {} seconds; check key_command", time.as_secs()),
        Ok(Err(error)) => Err(anyhow!(error).context(format!("cannot read the output of `{program}`"))),
        Ok(Ok(_)) if is_over => bail!("`{program}` printed more than a key; check key_command"),
        Ok(Ok(bytes)) => {
            match status {
                Some(status) if status.success() => {}
                Some(status) => bail!("`{program}` ended with {status}; check key_command"),
                None => bail!("`{program}` did not end; check key_command"),
            }
            let key = String::from_utf8(bytes)
                .map_err(|_| anyhow!("the output of `{program}` is not valid UTF-8"))?;
            let key = key.strip_suffix('\n').unwrap_or(&key);
            let key = key.strip_suffix('\r').unwrap_or(key);
            if key.trim().is_empty() {
                bail!("`{program}` printed nothing; check key_command");
            }
            Ok(key.to_owned().into())
        }
    }
}

/// How a program ended after it closed its output. A program that goes on is killed.
fn wait(child: &mut std::process::Child, time: Duration) -> Option<std::process::ExitStatus> {
    let begun = std::time::Instant::now();
    let mut pause = Duration::from_millis(1);
    loop {
        match child.try_wait() {
            Ok(Some(status)) => return Some(status),
            Ok(None) if begun.elapsed() < time => {}
            _ => {
                let _ = child.kill();
                let _ = child.wait();
                return None;
            }
        }
        std::thread::park_timeout(pause);
        pause = (pause * 2).min(Duration::from_millis(50));
    }
}

#[cfg(test)]
mod tests {
    use secrecy::ExposeSecret as _;

    use super::*;

    fn shell(line: &str, time: Duration) -> Result<String, String> {
        let command = ["sh", "-c", line].map(ToOwned::to_owned);
        printed(&command, time)
            .map(|key| key.expose_secret().to_owned())
            .map_err(|error| format!("{error:#}"))
    }

    #[test]
    fn a_key_is_what_a_program_prints_without_the_end_of_the_line() {
        assert_eq!(shell("echo secret", TIME), Ok("secret".to_owned()));
        assert_eq!(shell("printf 'secret\\n\\n'", TIME), Ok("secret\n".to_owned()));
        assert_eq!(
            printed(&["no-such-program".to_owned()], TIME).unwrap_err().to_string(),
            "cannot start `no-such-program`; check key_command"
        );
    }

    #[test]
    fn an_error_names_the_program_and_never_repeats_its_output() {
        let told = |line: &str| shell(line, TIME).unwrap_err();
        assert_eq!(told("echo secret; exit 3"), "`sh` ended with exit status: 3; check key_command");
        assert_eq!(told("true"), "`sh` printed nothing; check key_command");
        assert_eq!(told("yes secret"), "`sh` printed more than a key; check key_command");
        assert_eq!(told("printf '\\377'"), "the output of `sh` is not valid UTF-8");
        assert_eq!(
            shell("exec sleep 60", Duration::from_millis(200)).unwrap_err(),
            "`sh` printed no key within 0 seconds; check key_command"
        );
    }
}
