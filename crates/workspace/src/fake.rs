//! A fake executor without processes, for tests.

use std::borrow::Cow;
use std::collections::BTreeMap;
use std::io;
use std::path::{Component, Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use async_trait::async_trait;

use crate::command::{Captured, Command, Exit, Finished, Input, Level, Mount, Sandbox};
use crate::executor::{ExecuteError, Executor, OutputSink, Stream};
use crate::missing::Missing;
use crate::path::expand;

/// How many links one after the other are followed.
const MAX_LINKS: usize = 40;

/// A fake executor that interprets a small shell language on the files of the workspace, without processes.
///
/// Commands are separated by `;`, `&&` or a line break. Words can be quoted, `$NAME` and `${NAME}` are replaced, and
/// `>` and `>>` write output to a file. The commands are `echo`, `cat`, `cp`, `rm`, `mkdir -p`, `ln -s`, `touch`,
/// `pwd`, `true`, `false`, `exit` and `sleep`. `sleep` takes no time, but its seconds count towards the timeout. Each
/// run has its own directory in `runs/`, which stays if it is not empty. As in a real sandbox, `skills/` and linked
/// inputs are read-only, and other skills are hidden.
///
/// ```
/// use prowess_workspace::executor::NoSink;
/// use prowess_workspace::testing::FakeExecutor;
/// use prowess_workspace::{Command, Executor, Exit, Workspaces};
///
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
/// # let place = tempfile::tempdir()?;
/// let workspace = Workspaces::open(place.path())?.workspace("workspace-1")?;
/// let command = Command::new(workspace.path(), "work", "sleep 3600");
/// let finished = FakeExecutor.run(command, &NoSink).await?;
/// assert_eq!(finished.exit, Exit::TimedOut, "and no time has passed");
/// # Ok(())
/// # }
/// ```
#[derive(Clone, Copy, Debug, Default)]
pub struct FakeExecutor;

#[async_trait]
impl Executor for FakeExecutor {
    async fn run(&self, command: Command, output: &dyn OutputSink) -> Result<Finished, ExecuteError> {
        static COUNTER: AtomicU64 = AtomicU64::new(0);
        let _span = tracing::info_span!("workspace.run").entered();
        let run = format!("fake-{}", COUNTER.fetch_add(1, Ordering::Relaxed));
        let own = command.workspace.join("runs").join(&run);
        let failed =
            |error| ExecuteError::System { action: "make the directory of the run".to_owned(), error };
        std::fs::create_dir(&own).map_err(failed)?;
        let mut shell = Shell::new(command, &run);
        let exit = shell.run();
        // The system refuses this unless the directory is empty.
        let _ = std::fs::remove_dir(own);
        output.piece(Stream::Stdout, &shell.stdout);
        output.piece(Stream::Stderr, &shell.stderr);
        Ok(Finished {
            exit,
            stdout: captured(shell.stdout, shell.command.limits.output_kept),
            stderr: captured(shell.stderr, shell.command.limits.output_kept),
            duration: shell.slept,
            sandbox: sandbox(),
            run: Some(run),
            warnings: Vec::new(),
        })
    }

    async fn probe(&self) -> Result<Sandbox, ExecuteError> {
        Ok(sandbox())
    }
}

fn sandbox() -> Sandbox {
    Sandbox {
        level: Level::None,
        missing: vec![Missing::Other("everything: this executor runs no process".to_owned())],
    }
}

fn captured(bytes: Vec<u8>, kept: usize) -> Captured {
    let total = bytes.len() as u64;
    if bytes.len() <= kept {
        return Captured { head: bytes, tail: Vec::new(), total };
    }
    let (head, tail) = (bytes[..kept / 2].to_vec(), bytes[bytes.len() - kept / 2..].to_vec());
    Captured { head, tail, total }
}

struct Shell {
    command: Command,
    variables: BTreeMap<String, String>,
    stdout: Vec<u8>,
    stderr: Vec<u8>,
    slept: Duration,
}

/// How a single command ended.
enum Step {
    Status(i32),
    End(Exit),
}

impl Shell {
    fn new(command: Command, run: &str) -> Self {
        let mut variables = command.environment.clone();
        let workspace = command.workspace.display().to_string();
        for (name, directory) in [("SKILLS_DIR", "skills"), ("WORK_DIR", "work"), ("OUTPUT_DIR", "out")] {
            variables.insert(name.to_owned(), format!("{workspace}/{directory}"));
        }
        variables.insert("RUN_DIR".to_owned(), format!("{workspace}/runs/{run}"));
        variables.insert("WORKSPACE_DIR".to_owned(), workspace);
        Self { command, variables, stdout: Vec::new(), stderr: Vec::new(), slept: Duration::ZERO }
    }

    fn run(&mut self) -> Exit {
        let line = self.command.line.clone();
        let mut status = 0;
        for list in line.split([';', '\n']) {
            for one in list.split("&&") {
                match self.step(one) {
                    Step::Status(0) => status = 0,
                    Step::Status(failed) => {
                        status = failed;
                        break;
                    }
                    Step::End(exit) => return exit,
                }
            }
        }
        Exit::Code(status)
    }

    fn step(&mut self, text: &str) -> Step {
        let mut words = self.words(text);
        let mut target = None;
        if let Some(at) = words.iter().position(|word| word == ">" || word == ">>") {
            let mut rest = words.split_off(at).into_iter();
            let append = rest.next().as_deref() == Some(">>");
            target = rest.next().map(|path| (path, append));
        }
        let Some((name, arguments)) = words.split_first() else { return Step::Status(0) };
        let arguments: Vec<&str> = arguments.iter().map(String::as_str).collect();
        let (output, done) = match (name.as_str(), arguments.as_slice()) {
            ("exit", code) => {
                return Step::End(Exit::Code(code.first().and_then(|code| code.parse().ok()).unwrap_or(0)));
            }
            ("sleep", [seconds]) => {
                self.slept += Duration::from_secs_f64(seconds.parse().unwrap_or(0.0));
                if self.slept > self.command.limits.timeout {
                    self.slept = self.command.limits.timeout;
                    return Step::End(Exit::TimedOut);
                }
                (Vec::new(), Ok(()))
            }
            ("true", _) => (Vec::new(), Ok(())),
            ("false", _) => return Step::Status(1),
            ("echo", words) => (format!("{}\n", words.join(" ")).into_bytes(), Ok(())),
            ("pwd", []) => (format!("{}\n", self.inside("").display()).into_bytes(), Ok(())),
            ("cat", []) => (self.input(), Ok(())),
            ("cat", paths) => self.read(paths),
            (name, arguments) => (Vec::new(), self.change(name, arguments)),
        };
        let done = done.and_then(|()| match &target {
            Some((path, append)) => self.write(path, &output, *append),
            None => {
                self.stdout.extend_from_slice(&output);
                Ok(())
            }
        });
        match done {
            Ok(()) => Step::Status(0),
            Err(error) if error.kind() == io::ErrorKind::Unsupported => {
                self.stderr.extend(format!("{name}: command not found\n").into_bytes());
                Step::Status(127)
            }
            Err(error) => {
                self.stderr.extend(format!("{name}: {error}\n").into_bytes());
                Step::Status(1)
            }
        }
    }

    fn read(&self, paths: &[&str]) -> (Vec<u8>, io::Result<()>) {
        let mut all = Vec::new();
        for path in paths {
            match self.readable(path).and_then(std::fs::read) {
                Ok(bytes) => all.extend(bytes),
                Err(error) => return (all, Err(error)),
            }
        }
        (all, Ok(()))
    }

    fn write(&self, path: &str, bytes: &[u8], append: bool) -> io::Result<()> {
        let path = self.writable(path)?;
        let mut options = std::fs::OpenOptions::new();
        options.create(true).write(true).append(append).truncate(!append);
        io::Write::write_all(&mut options.open(path)?, bytes)
    }

    fn change(&self, name: &str, arguments: &[&str]) -> io::Result<()> {
        match (name, arguments) {
            ("mkdir", ["-p", path]) => std::fs::create_dir_all(self.writable(path)?),
            ("touch", [path]) => self.write(path, b"", true),
            ("rm", [path]) => std::fs::remove_file(self.writable(path)?),
            ("ln", ["-s", target, path]) => std::os::unix::fs::symlink(target, self.writable(path)?),
            ("cp", [from, to]) => std::fs::copy(self.readable(from)?, self.writable(to)?).map(drop),
            _ => Err(io::ErrorKind::Unsupported.into()),
        }
    }

    /// Returns the rest of the input. A pipe is always at its end, because no process can write to it.
    fn input(&mut self) -> Vec<u8> {
        match std::mem::take(&mut self.command.stdin) {
            Input::Bytes(bytes) => bytes.to_vec(),
            Input::Closed | Input::Pipe(_) => Vec::new(),
        }
    }

    /// Translates a path of the command to a path of this machine. It starts in the directory of the run, follows links
    /// one by one, and replaces places of the tree, mounts and linked inputs with the local files.
    fn inside(&self, path: &str) -> PathBuf {
        let mut at = match &self.command.apart {
            Some(own) => own.clone(),
            None => self.command.workspace.join(&*self.local(&self.command.directory)),
        };
        let path = self.local(path);
        for part in Path::new(&*path).components() {
            match part {
                Component::ParentDir => drop(at.pop()),
                Component::RootDir => at = PathBuf::from("/"),
                Component::Normal(name) => at.push(name),
                _ => {}
            }
            let mut links = 0..MAX_LINKS;
            while let Ok(target) = std::fs::read_link(&at)
                && target.is_relative()
                && links.next().is_some()
            {
                at.pop();
                for part in target.components() {
                    match part {
                        Component::ParentDir => drop(at.pop()),
                        other => at.push(other),
                    }
                }
            }
        }
        for (local, place) in &self.command.read_only {
            if let Ok(rest) = at.strip_prefix(self.command.workspace.join(place)) {
                return if rest.as_os_str().is_empty() { local.clone() } else { local.join(rest) };
            }
        }
        at
    }

    /// The local path of a mount or of a place of the tree; any other path as it is.
    fn local<'a>(&self, path: &'a str) -> Cow<'a, str> {
        for Mount { source, at } in &self.command.mounts {
            if let (Some(local), Ok(rest)) = (source.path(), Path::new(path).strip_prefix(at)) {
                return local.join(rest).to_string_lossy().into_owned().into();
            }
        }
        match expand(path) {
            inside if path.starts_with('/') && !inside.starts_with('/') => {
                self.command.workspace.join(&*inside).to_string_lossy().into_owned().into()
            }
            _ => path.into(),
        }
    }

    fn readable(&self, path: &str) -> io::Result<PathBuf> {
        let at = self.inside(path);
        let staged = at.strip_prefix(self.command.workspace.join("skills"));
        match staged.ok().and_then(|below| below.components().next()) {
            Some(skill) if !self.command.skills.iter().any(|name| skill.as_os_str() == name.as_str()) => {
                Err(io::ErrorKind::NotFound.into())
            }
            _ => Ok(at),
        }
    }

    fn writable(&self, path: &str) -> io::Result<PathBuf> {
        let at = self.inside(path);
        if let Some(own) = &self.command.apart {
            return if at.starts_with(own) { Ok(at) } else { Err(io::ErrorKind::ReadOnlyFilesystem.into()) };
        }
        match at.strip_prefix(&self.command.workspace) {
            Ok(inner) if !inner.starts_with("skills") => Ok(at),
            _ => Err(io::ErrorKind::ReadOnlyFilesystem.into()),
        }
    }

    fn words(&self, text: &str) -> Vec<String> {
        let mut words = Vec::new();
        let mut word: Option<String> = None;
        let mut quote = None;
        let mut characters = text.chars().peekable();
        while let Some(character) = characters.next() {
            match (character, quote) {
                (character, Some(open)) if character == open => quote = None,
                ('\'' | '"', None) => {
                    quote = Some(character);
                    word.get_or_insert_default();
                }
                ('$', quote) if quote != Some('\'') => {
                    let braced = characters.next_if_eq(&'{').is_some();
                    let mut name = String::new();
                    while let Some(next) =
                        characters.next_if(|next| next.is_ascii_alphanumeric() || *next == '_')
                    {
                        name.push(next);
                    }
                    if braced {
                        characters.next_if_eq(&'}');
                    }
                    let value = self.variables.get(&name).map(String::as_str).unwrap_or_default();
                    word.get_or_insert_default().push_str(value);
                }
                (character, None) if character.is_whitespace() => words.extend(word.take()),
                (character, _) => word.get_or_insert_default().push(character),
            }
        }
        words.extend(word);
        words
    }
}
