//! The key of a provider, which is kept nowhere.

use std::io::Read as _;
use std::process::{Command, Stdio};
use std::sync::mpsc;
use std::time::Duration;

use anyhow::{Context as _, Result, anyhow, bail};
use secrecy::SecretString;

use super::settings::ProviderSettings;
use super::source::user_path;
use crate::terminal::printable;

/// How long a program may take to print a key.
const TIME: Duration = Duration::from_secs(10);
/// The largest key, in bytes.
const MAX_KEY: u64 = 64 * 1024;

impl ProviderSettings {
    /// The provider's key, if it needs one.
    pub(crate) fn key(&self) -> Result<Option<SecretString>> {
        let name = printable(&self.name);
        if let Some(command) = &self.key_command {
            return printed(command, TIME).map(Some).with_context(|| format!("there is no key for {name}"));
        }
        let Some(variable) = self.key_env.as_deref().filter(|variable| !variable.is_empty()) else {
            return Ok(None);
        };
        let file = user_path().map_or_else(|| "prowess.toml".to_owned(), |path| path.display().to_string());
        match std::env::var(variable) {
            Ok(key) if !key.trim().is_empty() => Ok(Some(key.trim().to_owned().into())),
            Err(std::env::VarError::NotUnicode(_)) => {
                bail!("{variable} has a key for {name} that is no text")
            }
            _ => bail!(
                "there is no key for {name}: set {}, or add to {file} under [provider.{name}] key_command = \
                 [\"PROGRAM\", \"ARGUMENT\"]",
                printable(variable)
            ),
        }
    }
}

/// What a program prints, without the line's end. What it says besides is for the user's eyes.
fn printed(command: &[String], time: Duration) -> Result<SecretString> {
    let (program, arguments) = command.split_first().context("key_command names no program")?;
    let program = printable(program);
    let mut child = Command::new(&command[0])
        .args(arguments)
        .current_dir("/")
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .spawn()
        .with_context(|| format!("`{program}` cannot be started; check key_command"))?;
    let output = child.stdout.take().context("its output cannot be read")?;
    let (sender, receiver) = mpsc::channel();
    std::thread::spawn(move || {
        let mut bytes = Vec::new();
        let read = output.take(MAX_KEY + 1).read_to_end(&mut bytes).map(|_| bytes);
        let _ = sender.send(read);
    });
    let answer = receiver.recv_timeout(time);
    // Who has not answered, or says more than a key, is not waited for.
    let is_over = !matches!(&answer, Ok(Ok(bytes)) if bytes.len() as u64 <= MAX_KEY);
    if is_over {
        let _ = child.kill();
    }
    let status = wait(&mut child, time);
    match answer {
        Err(_) => bail!("`{program}` printed no key within {} seconds; check key_command", time.as_secs()),
        Ok(Err(error)) => Err(anyhow!(error).context(format!("what `{program}` prints cannot be read"))),
        Ok(Ok(_)) if is_over => bail!("`{program}` prints more than a key; check key_command"),
        Ok(Ok(bytes)) => {
            match status {
                Some(status) if status.success() => {}
                Some(status) => bail!("`{program}` ended with {status}; check key_command"),
                None => bail!("`{program}` did not end; check key_command"),
            }
            let key = String::from_utf8(bytes).map_err(|_| anyhow!("what `{program}` prints is no text"))?;
            let key = key.strip_suffix('\n').unwrap_or(&key);
            let key = key.strip_suffix('\r').unwrap_or(key);
            if key.trim().is_empty() {
                bail!("`{program}` printed nothing; check key_command");
            }
            Ok(key.to_owned().into())
        }
    }
}

/// How a program ended that has closed its output; it is killed when it does not.
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
            "`no-such-program` cannot be started; check key_command"
        );
    }

    #[test]
    fn a_key_that_is_missing_says_where_to_put_it() {
        let provider = |key_env: Option<&str>| ProviderSettings {
            name: "local".to_owned(),
            api: super::super::Api::Openai,
            base_url: "http://127.0.0.1".to_owned(),
            key_env: key_env.map(ToOwned::to_owned),
            key_command: None,
            output_limit: None,
            thinking: None,
        };
        assert!(provider(None).key().unwrap().is_none());
        assert!(provider(Some("")).key().unwrap().is_none());
        assert!(provider(Some("PATH")).key().unwrap().is_some());
        let error = provider(Some("NO_SUCH_KEY")).key().unwrap_err().to_string();
        assert!(error.starts_with("there is no key for local: set NO_SUCH_KEY, or add to "), "{error}");
        assert!(
            error.contains("prowess.toml under [provider.local] key_command = [\"PROGRAM\", \"ARGUMENT\"]")
        );
    }

    #[test]
    fn a_program_that_does_not_print_a_key_is_told_and_its_words_are_not() {
        let told = |line: &str| shell(line, TIME).unwrap_err();
        assert_eq!(told("echo secret; exit 3"), "`sh` ended with exit status: 3; check key_command");
        assert_eq!(told("true"), "`sh` printed nothing; check key_command");
        assert_eq!(told("yes secret"), "`sh` prints more than a key; check key_command");
        assert_eq!(told("printf '\\377'"), "what `sh` prints is no text");
        assert_eq!(
            shell("exec sleep 60", Duration::from_millis(200)).unwrap_err(),
            "`sh` printed no key within 0 seconds; check key_command"
        );
    }
}
