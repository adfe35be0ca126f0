//! Tests of interactive runs: input, output, end and cleanup.

use std::time::Duration;

use prowess_workspace::live::{LiveError, LiveStatus, PromptKind};
use prowess_workspace::stage::StageSource;
use prowess_workspace::{LiveOptions, LiveOutput, LiveRuns, RunContext, RunError, RunRequest};

use crate::whole::{Machine, examples};

/// Longer than any step here takes.
const LONG: Duration = Duration::from_secs(20);

struct Table {
    machine: Machine,
    runs: LiveRuns,
}

impl Table {
    fn new() -> Self {
        Self::with(LiveOptions::default())
    }

    fn with(options: LiveOptions) -> Self {
        Self { machine: Machine::new(), runs: LiveRuns::new(options) }
    }

    async fn try_start(&self, request: RunRequest, terminal: bool) -> Result<String, LiveError> {
        let sources =
            |name: &str| Some(examples(name)).filter(|path| path.is_dir()).map(StageSource::Directory);
        self.runs.start(&self.machine.runner, "one", request, &RunContext::new(&sources), terminal).await
    }

    async fn start(&self, line: &str) -> String {
        self.try_start(RunRequest::new("python-math", line), false).await.unwrap()
    }

    async fn read(&self, id: &str) -> LiveOutput {
        self.runs.read(id, None, LONG).await.unwrap()
    }

    async fn say(&self, id: &str, line: &str) {
        self.runs.write(id, line.as_bytes(), false).await.unwrap();
    }
}

fn options(change: impl FnOnce(&mut LiveOptions)) -> LiveOptions {
    let mut options = LiveOptions::default();
    change(&mut options);
    options
}

/// Whether a process with these words in its command line exists.
fn is_there(words: &str) -> bool {
    std::fs::read_dir("/proc").unwrap().flatten().any(|entry| {
        let line = std::fs::read(entry.path().join("cmdline")).unwrap_or_default();
        // The test runner may have the words in its own command line.
        line.starts_with(b"sleep\0") && String::from_utf8_lossy(&line).contains(words)
    })
}

async fn gone(words: &str) -> bool {
    for _ in 0..200 {
        if !is_there(words) {
            return true;
        }
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
    false
}

#[tokio::test]
async fn a_conversation() {
    let table = Table::new();
    let line = "printf 'Name? '; read -r name; printf 'Sure, %s [y/N]? ' \"$name\"; read -r sure; echo \"$name:$sure\"; \
                echo done > out/answer.txt";
    let mut request = RunRequest::new("python-math", line);
    request.output_files = vec!["out/*".to_owned()];
    let id = table.try_start(request, false).await.unwrap();
    let asked = table.read(&id).await;
    assert_eq!((asked.status, asked.output.as_str()), (LiveStatus::NeedsInput, "Name? "));
    assert_eq!((asked.offset, asked.next_offset), (0, 6));
    table.say(&id, "Ferris\n").await;
    let asked = table.read(&id).await;
    assert_eq!((asked.output.as_str(), asked.offset), ("Sure, Ferris [y/N]? ", 6));
    assert_eq!(asked.prompt.map(|prompt| prompt.kind), Some(PromptKind::Confirm));
    table.say(&id, "y\n").await;
    let ended = table.read(&id).await;
    assert_eq!((ended.status, ended.output.as_str()), (LiveStatus::Ended, "Ferris:y\n"));
    let report = ended.report.unwrap();
    assert_eq!(
        (report.exit_code, report.output_files[0].content.as_deref()),
        (0, Some("done\n")),
        "{report:?}"
    );
    assert!(matches!(table.runs.write(&id, b"more", false).await, Err(LiveError::Ended(_))));
    assert_eq!(table.read(&id).await.output, "", "a read after the end returns nothing twice");
    assert_eq!(
        table.runs.read(&id, Some(6), LONG).await.unwrap().offset,
        6,
        "but the output can be read again"
    );
}

#[tokio::test]
async fn programs_that_ask_only_people_are_asked_in_a_terminal() {
    let table = Table::new();
    let request = RunRequest::new("python-math", "python3 -c 'print(int(input(\"n = \")) * 2)'");
    let id = table.try_start(request, true).await.unwrap();
    // An equals sign does not look like a question.
    while table.runs.read(&id, Some(0), Duration::from_millis(100)).await.unwrap().output != "n = " {}
    table.say(&id, "21\n").await;
    assert_eq!(table.read(&id).await.report.unwrap().stdout, "n = 42\n");
}

#[tokio::test]
async fn an_interpreter_is_talked_with() {
    let table = Table::new();
    let id = table.try_start(RunRequest::new("python-math", "python3 -qi"), true).await.unwrap();
    assert_eq!(table.read(&id).await.prompt.unwrap().kind, PromptKind::Command);
    table.say(&id, "6 * 7\n").await;
    assert_eq!(table.read(&id).await.output, "42\n>>> ");
    table.runs.write(&id, b"exit(4)\n", false).await.unwrap();
    assert_eq!(table.read(&id).await.report.unwrap().exit_code, 4);
}

#[tokio::test]
async fn an_answered_question_is_not_asked_again() {
    let table = Table::new();
    let id = table.start("printf 'Name? '; read -r name; sleep 1; echo $name").await;
    assert_eq!(table.read(&id).await.status, LiveStatus::NeedsInput);
    table.say(&id, "Ferris\n").await;
    let read = table.read(&id).await;
    assert_eq!((read.status, read.output.as_str()), (LiveStatus::Ended, "Ferris\n"));
}

#[tokio::test]
async fn input_comes_to_its_end() {
    let table = Table::new();
    let mut request = RunRequest::new("python-math", "cat; echo end");
    request.stdin = Some("first ".to_owned());
    let id = table.try_start(request, false).await.unwrap();
    table.runs.write(&id, b"second ", true).await.unwrap();
    assert_eq!(table.read(&id).await.output, "first second end\n");
    assert!(table.runs.write(&id, b"third", false).await.is_err());
}

#[tokio::test]
async fn a_look_waits_no_longer_than_it_is_told() {
    let table = Table::new();
    let id = table.start("echo begun; sleep 1000.5").await;
    let read = table.runs.read(&id, None, Duration::from_millis(400)).await.unwrap();
    assert_eq!(read.status, LiveStatus::Running);
    assert_eq!(table.runs.running(), std::slice::from_ref(&id));
    let killed = table.runs.kill(&id).await.unwrap();
    assert_eq!((killed.status, killed.report.unwrap().exit_code), (LiveStatus::Ended, 137));
    assert!(!is_there("1000.5"));
    assert!(matches!(table.runs.kill(&id).await, Err(LiveError::Unknown(_))));
    assert!(table.runs.running().is_empty());
}

#[tokio::test]
async fn long_output_comes_in_parts_and_says_what_is_gone() {
    let table = Table::with(options(|options| (options.kept_bytes, options.read_bytes) = (1000, 400)));
    let id = table.start("seq 1 1000").await;
    let mut seen = String::new();
    let mut first = None;
    loop {
        let read = table.read(&id).await;
        first.get_or_insert(read.missed_bytes);
        seen.push_str(&read.output);
        if read.report.is_some() && read.more_bytes == 0 {
            break;
        }
    }
    assert!(seen.ends_with("999\n1000\n"), "{seen}");
    let again = table.runs.read(&id, Some(0), LONG).await.unwrap();
    assert_eq!((again.missed_bytes, again.offset, again.more_bytes), (2893, 2893, 600));
}

#[tokio::test]
async fn who_is_forgotten_is_ended() {
    let idle = Duration::from_secs(2);
    let table = Table::with(options(|options| options.idle_timeout = idle));
    let id = table.start("echo begun; sleep 1000.25").await;
    // A run that is read stays.
    for _ in 0..6 {
        tokio::time::sleep(idle / 4).await;
        let read = table.runs.read(&id, None, Duration::ZERO).await.unwrap();
        assert_eq!(read.status, LiveStatus::Running);
    }
    tokio::time::sleep(idle).await;
    assert!(gone("1000.25").await);
    // Its end can be read for the same time again, then it is forgotten.
    let read = table.runs.read(&id, Some(0), LONG).await.unwrap();
    assert!(
        read.report
            .unwrap()
            .warnings
            .iter()
            .any(|warning| matches!(warning, prowess_workspace::RunWarning::Idle { .. }))
    );
    tokio::time::sleep(idle * 2).await;
    assert!(matches!(table.runs.read(&id, None, LONG).await, Err(LiveError::Unknown(_))));
}

#[tokio::test]
async fn nothing_outlives_its_owner() {
    let table = Table::new();
    for number in 0..3 {
        let id = table.start(&format!("echo begun; setsid sleep 2000.{number}")).await;
        while table.runs.read(&id, Some(0), Duration::from_millis(50)).await.unwrap().output.is_empty() {}
    }
    let (kept, machine) = (table.runs.clone(), table.machine);
    drop(table.runs);
    tokio::time::sleep(Duration::from_millis(300)).await;
    assert_eq!(kept.running().len(), 3);
    drop(kept);
    assert!(gone("2000.").await);
    drop(machine);
}

#[tokio::test]
async fn there_are_not_too_many() {
    let table = Table::with(options(|options| options.max_runs = 2));
    let first = table.start("sleep 3000").await;
    table.start("sleep 3000").await;
    let refused = table.try_start(RunRequest::new("python-math", "true"), false).await;
    assert!(matches!(refused, Err(LiveError::TooMany { most: 2 })), "{refused:?}");
    table.runs.kill(&first).await.unwrap();
    for _ in 0..6 {
        let id = table.start("true").await;
        assert_eq!(table.read(&id).await.status, LiveStatus::Ended);
    }
}

#[tokio::test]
async fn who_does_not_read_is_told_of() {
    let table = Table::new();
    let id = table.start("sleep 3000").await;
    let error = table.runs.write(&id, &vec![b'x'; 200_000], false).await.unwrap_err();
    let LiveError::NotReading { taken, all, .. } = error else { panic!("{error}") };
    assert!(taken < all && all == 200_000);
}

/// A command that does not read its first input is ended, so that no run is left without a known id.
#[tokio::test]
async fn who_does_not_read_the_first_words_is_ended() {
    let table = Table::new();
    let mut request = RunRequest::new("python-math", "exec sleep 3000.75");
    request.stdin = Some("x".repeat(200_000));
    let refused = table.try_start(request, false).await;
    assert!(matches!(refused, Err(LiveError::NotReading { .. })), "{refused:?}");
    assert!(table.runs.running().is_empty() && gone("3000.75").await);
    let mut quick = RunRequest::new("python-math", "echo done");
    quick.stdin = Some("x".repeat(200_000));
    let id = table.try_start(quick, false).await.unwrap();
    assert_eq!(table.read(&id).await.report.unwrap().stdout, "done\n");
}

#[tokio::test]
async fn a_terminal_takes_no_line_that_it_would_cut() {
    let table = Table::new();
    let request = RunRequest::new("python-math", "read -r line; echo ${#line}");
    let id = table.try_start(request, true).await.unwrap();
    let long = table.runs.write(&id, &[b'x'; 5000], false).await;
    assert!(matches!(long, Err(LiveError::LineTooLong(_))), "{long:?}");
    table.say(&id, &"x".repeat(4000)).await;
    assert!(matches!(table.runs.write(&id, &[b'x'; 100], false).await, Err(LiveError::LineTooLong(_))));
    table.say(&id, "\n").await;
    assert_eq!(table.read(&id).await.report.unwrap().stdout, "4000\n");
}

/// The last read shows the end of the output of a killed command, and how much is missing.
#[tokio::test]
async fn the_last_look_shows_the_end() {
    let table = Table::with(options(|options| options.read_bytes = 100));
    let id = table.start("seq 1 1000; echo end; exec sleep 3000").await;
    while table.runs.read(&id, Some(3890), Duration::from_millis(50)).await.unwrap().output.is_empty() {}
    table.runs.read(&id, Some(0), Duration::ZERO).await.unwrap();
    let killed = table.runs.kill(&id).await.unwrap();
    assert!(killed.output.ends_with("1000\nend\n"), "{killed:?}");
    assert_eq!((killed.offset, killed.missed_bytes, killed.more_bytes), (3797, 3697, 0));
}

#[tokio::test]
async fn what_cannot_start_says_why() {
    let table = Table::new();
    let unknown = table.try_start(RunRequest::new("nobody", "true"), false).await.unwrap_err();
    assert_eq!(unknown.to_string(), "unknown skill: nobody");
    let mut request = RunRequest::new("python-math", "true");
    request.env.insert("LD_PRELOAD".to_owned(), "x".to_owned());
    let id = table.try_start(request, false).await.unwrap();
    let error = table.runs.read(&id, None, LONG).await.unwrap_err();
    let LiveError::NotStarted(error) = error else { panic!("{error}") };
    assert!(matches!(*error, RunError::Execute(_)), "{error}");
}

#[tokio::test]
async fn many_can_look_and_write_at_once() {
    let table = Table::new();
    let id = table.start("cat").await;
    let writers: Vec<_> = (0..20)
        .map(|number| {
            let (runs, id) = (table.runs.clone(), id.clone());
            tokio::spawn(async move {
                runs.write(&id, format!("line {number:02}\n").as_bytes(), false).await.unwrap()
            })
        })
        .collect();
    for writer in writers {
        writer.await.unwrap();
    }
    table.runs.write(&id, b"", true).await.unwrap();
    let report = table.read(&id).await.report.unwrap();
    let mut lines: Vec<&str> = report.stdout.lines().collect();
    lines.sort_unstable();
    let expected: Vec<String> = (0..20).map(|number| format!("line {number:02}")).collect();
    assert_eq!(lines, expected);
}
