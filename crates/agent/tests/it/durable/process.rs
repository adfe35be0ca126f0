//! A process that works on the run until a person is needed, and the one who starts and kills it.

use std::io::{BufRead as _, BufReader};
use std::os::unix::process::ExitStatusExt as _;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::sync::mpsc::{Receiver, RecvTimeoutError, channel};
use std::time::{Duration, Instant};

use prowess_store::SqliteStore;

use super::driver::{opened, work};
use super::moments::{Moments, What, When, say};
use super::script::{Place, agent};

const DATABASE: &str = "PROWESS_TEST_RUN_DATABASE";
const DIRECTORY: &str = "PROWESS_TEST_RUN_DIRECTORY";
const LEASE: &str = "PROWESS_TEST_RUN_LEASE";
const STOP: &str = "PROWESS_TEST_RUN_STOP";
const FREEZE: &str = "PROWESS_TEST_RUN_FREEZE";

/// Longer than any process needs.
pub(super) const LONG: Duration = Duration::from_secs(100);

/// The process.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn works_until_a_person_is_needed() {
    let variable = |name| std::env::var(name).ok();
    let (Some(database), Some(directory)) = (variable(DATABASE), variable(DIRECTORY)) else { return };
    let lease = Duration::from_millis(variable(LEASE).unwrap().parse().unwrap());
    let place = Place::on(database.into(), Path::new(&directory), lease);
    let names = |text: &str| When::In(text.split('|').map(str::to_owned).collect());
    let when = |text: String| text.parse().map_or_else(|_| names(&text), When::At);
    let moments = match (variable(STOP), variable(FREEZE)) {
        (Some(stop), _) => Moments::new(when(stop), What::Stop),
        (None, Some(freeze)) => Moments::new(when(freeze), What::Freeze),
        (None, None) => Moments::quiet(),
    };
    let store = SqliteStore::open(&place.database).await.unwrap();
    let mut thread = opened(&agent(&place, std::sync::Arc::new(store), &moments)).await;
    match work(&mut thread).await {
        Ok(()) => thread.close().await.unwrap(),
        Err(error) => say(&format!("refused: {error}")),
    }
}

/// What happens to a process.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Fate {
    Lives,
    /// It is killed after a while.
    Killed(Duration),
    /// It is killed at a moment: of this number, or the first of one of these names, separated by `|`.
    KilledAt(String),
}

/// How a process ended.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum End {
    ByItself,
    /// It was killed, at a moment of this name if it was at one.
    Killed(Option<String>),
}

/// A process that works.
#[derive(Debug)]
pub(super) struct Process {
    child: Child,
    lines: Receiver<String>,
}

impl Process {
    /// Starts one that stops, or freezes, at a moment.
    pub(super) fn start(place: &Place, stop: Option<&str>, freeze: Option<&str>) -> Self {
        let mut command = again(&[], "durable::process::works_until_a_person_is_needed");
        command.env(DATABASE, &place.database).env(DIRECTORY, place.ledger.parent().unwrap());
        command.env(LEASE, place.lease.as_millis().to_string());
        command.envs(stop.map(|stop| (STOP, stop))).envs(freeze.map(|freeze| (FREEZE, freeze)));
        let mut child = command.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap();
        let (sender, lines) = channel();
        let out = BufReader::new(child.stdout.take().unwrap());
        std::thread::spawn(move || {
            for line in out.lines().map_while(Result::ok) {
                let _ = sender.send(line);
            }
        });
        Self { child, lines }
    }

    pub(super) fn id(&self) -> u32 {
        self.child.id()
    }

    /// Waits until it says something that begins so, for so long at most. None: it ended, or its time did.
    pub(super) fn says(&self, beginning: &str, within: Duration) -> Result<String, RecvTimeoutError> {
        let until = Instant::now() + within;
        loop {
            let line = self.lines.recv_timeout(until.saturating_duration_since(Instant::now()))?;
            if line.starts_with(beginning) {
                return Ok(line);
            }
        }
    }

    /// Lets go on what is frozen.
    pub(super) fn thaw(&mut self) {
        drop(self.child.stdin.take());
    }

    /// Kills it.
    pub(super) fn kill(mut self, moment: Option<String>) -> End {
        self.child.kill().unwrap();
        let status = self.child.wait().unwrap();
        assert!(status.success() || status.signal() == Some(9), "{status}");
        if status.success() { End::ByItself } else { End::Killed(moment) }
    }

    /// Waits until it ends by itself.
    pub(super) fn ends(mut self) -> End {
        let ended = self.says("refused", LONG);
        assert_eq!(ended, Err(RecvTimeoutError::Disconnected));
        assert!(self.child.wait().unwrap().success());
        End::ByItself
    }

    /// Runs one to its end.
    pub(super) fn run(place: &Place, fate: &Fate) -> End {
        match fate {
            Fate::Lives => Self::start(place, None, None).ends(),
            Fate::Killed(after) => {
                let process = Self::start(place, None, None);
                match process.says("refused", *after) {
                    Ok(line) => panic!("{line}"),
                    Err(_) => process.kill(None),
                }
            }
            Fate::KilledAt(moment) => {
                let process = Self::start(place, Some(moment), None);
                match process.says("stopped ", LONG) {
                    Ok(line) => process.kill(line.strip_prefix("stopped ").map(str::to_owned)),
                    Err(RecvTimeoutError::Disconnected) => process.ends(),
                    Err(RecvTimeoutError::Timeout) => panic!("it neither stops nor ends"),
                }
            }
        }
    }
}

/// This test binary, to run one test of it in a process of its own. `wrapper` is what starts it.
pub(super) fn again(wrapper: &[&str], test: &str) -> Command {
    let program = std::env::current_exe().unwrap();
    let mut words = wrapper.iter().map(std::ffi::OsString::from).chain([program.into_os_string()]);
    let mut command = Command::new(words.next().unwrap());
    command.args(words).args(["--exact", test, "--nocapture", "--test-threads=1"]);
    command
}
