//! Runs `git` so that only the person's own configuration counts, and so that it ends.

use std::collections::BTreeSet;
use std::ffi::{OsStr, OsString};
use std::fs;
use std::io::{self, Read as _};
use std::os::unix::process::CommandExt as _;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::Duration;

use prowess_base::text::escape_unprintable;
use rustix::process::{Pid, Signal, kill_process_group};
use tokio::io::AsyncReadExt as _;
use tokio::time::{Instant, timeout};

use super::url::{Transport, secret, shown};
use super::{GitError, GitLimits};

/// How often a running `git` is looked at.
const POLL: Duration = Duration::from_millis(100);
/// The most bytes of Git's messages that are read.
const MAX_MESSAGE_BYTES: u64 = 64 * 1024;
/// The most lines of Git's messages that are shown.
const MAX_MESSAGE_LINES: usize = 4;
/// The most characters of a line that is shown.
const MAX_LINE_CHARS: usize = 300;

/// What Git may use, unless a person typed a source on this machine.
const PROTOCOLS: [&str; 4] = ["https", "http", "ssh", "git"];

/// Variables that would make Git work on another repository, or change what it stores.
const REMOVED: [&str; 25] = [
    "GIT_ALTERNATE_OBJECT_DIRECTORIES",
    "GIT_ATTR_SOURCE",
    "GIT_CEILING_DIRECTORIES",
    "GIT_COMMON_DIR",
    "GIT_CONFIG",
    "GIT_DEFAULT_HASH",
    "GIT_DEFAULT_REF_FORMAT",
    "GIT_DIR",
    "GIT_EXTERNAL_DIFF",
    "GIT_GRAFT_FILE",
    "GIT_IMPLICIT_WORK_TREE",
    "GIT_INDEX_FILE",
    "GIT_INDEX_VERSION",
    "GIT_INTERNAL_SUPER_PREFIX",
    "GIT_NAMESPACE",
    "GIT_OBJECT_DIRECTORY",
    "GIT_PREFIX",
    "GIT_PROTOCOL_FROM_USER",
    "GIT_QUARANTINE_PATH",
    "GIT_REF_PARANOIA",
    "GIT_REPLACE_REF_BASE",
    "GIT_SHALLOW_FILE",
    "GIT_TEMPLATE_DIR",
    "GIT_WORK_TREE",
    "GIT_DISCOVERY_ACROSS_FILESYSTEM",
];

/// Settings that win over the person's configuration. Proxies, credentials and rewrites stay as they are.
const SETTINGS: [&str; 21] = [
    "core.hooksPath=/dev/null",
    "core.fsmonitor=false",
    "core.autocrlf=false",
    // Larger files are streamed and not held in memory.
    "core.bigFileThreshold=32m",
    "protocol.ext.allow=never",
    "http.followRedirects=false",
    "transfer.fsckObjects=true",
    "fetch.fsckObjects=true",
    // Objects come from the server that was named, and from no other.
    "transfer.bundleURI=false",
    "fetch.bundleURI=",
    "fetch.uriProtocols=",
    // One pack and not many small files, whatever their number.
    "fetch.unpackLimit=1",
    "transfer.unpackLimit=1",
    "fetch.writeCommitGraph=false",
    "gc.auto=0",
    "maintenance.auto=false",
    "submodule.recurse=false",
    "fetch.recurseSubmodules=false",
    "filter.lfs.smudge=",
    "filter.lfs.process=",
    "filter.lfs.required=false",
];

/// The temporary directory of one repository.
#[derive(Debug)]
pub(super) struct Scratch {
    directory: tempfile::TempDir,
}

impl Scratch {
    pub(super) fn new() -> Result<Self, GitError> {
        let made = tempfile::Builder::new().prefix("prowess-git-").tempdir();
        let directory = made.map_err(|source| GitError::Io { command: "init", source })?;
        let scratch = Self { directory };
        fs::create_dir(scratch.repository()).map_err(|source| GitError::Io { command: "init", source })?;
        Ok(scratch)
    }

    fn repository(&self) -> PathBuf {
        self.directory.path().join("repository.git")
    }
}

/// Runs Git commands on one repository.
#[derive(Debug)]
pub(super) struct Git<'a> {
    scratch: &'a Scratch,
    url: &'a str,
    environment: &'a [(OsString, OsString)],
    limits: &'a GitLimits,
    deadline: Instant,
    protocols: BTreeSet<&'static str>,
    ssh: Option<&'static str>,
}

impl<'a> Git<'a> {
    pub(super) fn new(
        scratch: &'a Scratch,
        url: &'a str,
        environment: &'a [(OsString, OsString)],
        limits: &'a GitLimits,
    ) -> Self {
        let deadline = Instant::now() + limits.timeout;
        Self { scratch, url, environment, limits, deadline, protocols: PROTOCOLS.into(), ssh: None }
    }

    /// Allows a transport that a person typed, or that the person's configuration chose.
    pub(super) fn allow(&mut self, transport: Transport) {
        if transport == Transport::File {
            self.protocols.insert("file");
        }
    }

    /// Makes SSH fail instead of asking, unless the person chose an SSH command. Git runs in a process group of its own, so a
    /// question would wait for an answer that cannot come.
    pub(super) async fn ask_nothing_over_ssh(&mut self) {
        let is_chosen = self.variable("GIT_SSH_COMMAND").or_else(|| self.variable("GIT_SSH")).is_some();
        let configured = self.run("config", &["config", "--get", "core.sshCommand"], 8 * 1024).await;
        if !is_chosen && !configured.is_ok_and(|command| !command.is_empty()) {
            self.ssh = Some("ssh -o BatchMode=yes");
        }
    }

    fn variable(&self, name: &str) -> Option<OsString> {
        let given = self.environment.iter().rev().find(|(key, _)| key == name);
        given.map(|(_, value)| value.clone()).or_else(|| std::env::var_os(name))
    }

    /// A Git command for the repository.
    pub(super) fn command(&self, arguments: &[&str]) -> Command {
        let mut command = Command::new("git");
        command.current_dir(self.scratch.directory.path());
        REMOVED.iter().for_each(|name| _ = command.env_remove(name));
        command.envs(self.environment.iter().map(|(name, value)| (name, value)));
        // A person may allow less than we do.
        let allowed = self.variable("GIT_ALLOW_PROTOCOL");
        let allowed = allowed.as_deref().map(OsStr::to_string_lossy);
        let is_allowed =
            |name: &&str| allowed.as_ref().is_none_or(|list| list.split(':').any(|one| one == *name));
        let protocols: Vec<&str> = self.protocols.iter().copied().filter(is_allowed).collect();
        command.env("GIT_ALLOW_PROTOCOL", protocols.join(":"));
        command.env("GIT_TERMINAL_PROMPT", "0");
        command.env("GIT_LFS_SKIP_SMUDGE", "1");
        command.env("GIT_NO_LAZY_FETCH", "1");
        command.env("GIT_NO_REPLACE_OBJECTS", "1");
        command.env("GIT_OPTIONAL_LOCKS", "0");
        // The messages are searched for known words.
        command.env("LC_ALL", "C");
        if let Some(ssh) = self.ssh {
            command.env("GIT_SSH_COMMAND", ssh);
        }
        SETTINGS.iter().for_each(|setting| _ = command.args(["-c", setting]));
        command.arg("--no-pager").arg("--git-dir").arg(self.scratch.repository());
        command.args(arguments);
        command
    }

    /// Runs a command and returns what it prints, at most `most` bytes.
    pub(super) async fn run(
        &self,
        name: &'static str,
        arguments: &[&str],
        most: usize,
    ) -> Result<Vec<u8>, GitError> {
        let failed = |source: io::Error| GitError::Io { command: name, source };
        let messages = tempfile::tempfile_in(self.scratch.directory.path()).map_err(failed)?;
        let mut command = self.command(arguments);
        command.stdin(Stdio::null()).stdout(Stdio::piped()).process_group(0);
        command.stderr(messages.try_clone().map_err(failed)?);
        let mut child = tokio::process::Command::from(command).spawn().map_err(|source| {
            if source.kind() == io::ErrorKind::NotFound { GitError::NotInstalled } else { failed(source) }
        })?;
        let group = Group::of(child.id());
        let output = child.stdout.take();
        let reading = async {
            let mut printed = Vec::new();
            if let Some(output) = output {
                output.take(most as u64 + 1).read_to_end(&mut printed).await?;
            }
            Ok(printed)
        };
        let mut reading = std::pin::pin!(reading);
        let printed = loop {
            match timeout(POLL, &mut reading).await {
                Ok(read) => break read.map_err(failed)?,
                Err(_) => self.check(name, &messages)?,
            }
        };
        if printed.len() > most {
            // `group` ends Git. Only the list of entries can be that long.
            return Err(GitError::TooMany { most: self.limits.entries });
        }
        let status = loop {
            match timeout(POLL, child.wait()).await {
                Ok(status) => break status.map_err(failed)?,
                Err(_) => self.check(name, &messages)?,
            }
        };
        group.forget();
        self.check(name, &messages)?;
        if status.success() {
            return Ok(printed);
        }
        let reason = self.reason(messages).map_err(failed)?;
        Err(GitError::Failed { command: name, url: shown(self.url), reason })
    }

    /// Checks the time and the bytes on the disk.
    fn check(&self, name: &'static str, messages: &fs::File) -> Result<(), GitError> {
        let url = || shown(self.url);
        if Instant::now() >= self.deadline {
            let seconds = self.limits.timeout.as_secs();
            return Err(GitError::TimedOut { command: name, url: url(), seconds });
        }
        let said = messages.metadata().map_or(0, |metadata| metadata.len());
        if said.saturating_add(bytes_below(self.scratch.directory.path())) > self.limits.fetch_bytes {
            return Err(GitError::TooLarge { url: url(), most: self.limits.fetch_bytes });
        }
        Ok(())
    }

    /// The lines of Git's messages that say what is wrong, without the password of the URL.
    fn reason(&self, mut messages: fs::File) -> io::Result<String> {
        use std::io::Seek as _;
        messages.rewind()?;
        let mut bytes = Vec::new();
        messages.take(MAX_MESSAGE_BYTES).read_to_end(&mut bytes)?;
        let mut text = String::from_utf8_lossy(&bytes).into_owned();
        if let Some(secret) = secret(self.url) {
            text = text.replace(secret, "***");
        }
        let lines: Vec<&str> = text.lines().map(str::trim).filter(|line| !line.is_empty()).collect();
        let is_telling =
            |line: &&&str| ["fatal:", "error:", "remote:"].iter().any(|word| line.starts_with(word));
        let mut telling: Vec<&&str> = lines.iter().filter(is_telling).take(MAX_MESSAGE_LINES).collect();
        if telling.is_empty() {
            telling = lines.iter().take(MAX_MESSAGE_LINES).collect();
        }
        if telling.is_empty() {
            return Ok("it said nothing".to_owned());
        }
        let shown =
            telling.iter().map(|line| escape_unprintable(&prowess_base::text::cut(line, MAX_LINE_CHARS)));
        Ok(shown.collect::<Vec<_>>().join("\n"))
    }
}

/// The bytes of all files below a directory. Files that vanish meanwhile count nothing.
fn bytes_below(directory: &Path) -> u64 {
    let mut bytes = 0_u64;
    let mut pending = vec![directory.to_owned()];
    while let Some(directory) = pending.pop() {
        let Ok(entries) = fs::read_dir(&directory) else { continue };
        for entry in entries.flatten() {
            match entry.metadata() {
                Ok(metadata) if metadata.is_dir() => pending.push(entry.path()),
                Ok(metadata) => bytes = bytes.saturating_add(metadata.len()),
                Err(_) => {}
            }
        }
    }
    bytes
}

/// The process group of a running command. It is killed if the command is given up.
struct Group(Option<Pid>);

impl Group {
    fn of(id: Option<u32>) -> Self {
        Self(id.and_then(|id| i32::try_from(id).ok()).and_then(Pid::from_raw))
    }

    /// The command has ended.
    fn forget(mut self) {
        self.0 = None;
    }
}

impl Drop for Group {
    fn drop(&mut self) {
        if let Some(group) = self.0 {
            // It may have ended by itself.
            let _ = kill_process_group(group, Signal::KILL);
        }
    }
}
