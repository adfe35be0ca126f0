//! The rows of the table, and their bars.

use std::collections::HashMap;

use crate::report::{Bar, Row, Unit};
use crate::task::{Sample, Task};
use crate::{agent, running};

/// How many skills are discovered.
pub(crate) const SIZES: [usize; 3] = [100, 1_000, LARGE];
pub(crate) const LARGE: usize = 10_000;
pub(crate) const OVERVIEW_SIZE: usize = 1_000;
/// How many skills are loaded one after another.
pub(crate) const LOAD_SIZE: usize = 1_000;
/// The number of skills in the repository's examples.
pub(crate) const EXAMPLES: usize = 7;
/// The number of rules.
pub(crate) const RULES: usize = 1_000;

/// The bars. The goal of discovery is below its bar: twice the floor.
const COLD: Bar = Bar::Floors(4.0);
const WARM: Bar = Bar::Floors(0.5);
const OVERVIEW: Bar = Bar::Most(1.0);
/// Building the search index, relative to discovery, and milliseconds of one query.
const INDEX: Bar = Bar::Floors(5.0);
const SEARCH: Bar = Bar::Most(2.0);
/// Loading the search index, relative to building it.
const STORED: Bar = Bar::Floors(0.5);
/// A model call in which nothing changed, relative to one with few skills.
const UNCHANGED: Bar = Bar::Floors(1.5);
const LOAD: Bar = Bar::Floors(3.0);
/// Microseconds.
const PERMISSION: Bar = Bar::Most(20.0);
const PEAK: Bar = Bar::Most(60.0);
const RUN: Bar = Bar::Floors(1.25);
const STAGE: Bar = Bar::Floors(4.0);
const COLLECT: Bar = Bar::Floors(3.0);
const NOTHING: Bar = Bar::Most(0.0);
/// A call that loads a skill, relative to a call that returns the same bytes.
const CALL: Bar = Bar::Floors(2.0);
/// Per step, in microseconds.
const STEP: Bar = Bar::Most(50.0);
const STEP_DURABLE: Bar = Bar::Most(1_000.0);
const STEP_CLOCK: Bar = Bar::Floors(2.0);
const IDLE: Bar = Bar::Most(64.0);
const COMPACT: Bar = Bar::Most(20.0);
/// The limits of `prowess list`: a multiple of the library's time, and milliseconds.
const LIST_TIMES: f64 = 1.5;
const LIST_EXTRA_MS: f64 = 20.0;
/// The limits with few skills, as most people have: milliseconds, and memory in mebibytes.
const FEW_MS: Bar = Bar::Most(15.0);
const FEW_PEAK: Bar = Bar::Most(15.0);

/// The rows for the lowest sample of every task, and for a binary of this size.
pub(crate) fn of(least: &HashMap<(Task, usize), Sample>, binary: Option<u64>) -> Vec<Row> {
    let cpu = |task, size| least.get(&(task, size)).map(|sample| sample.ms);
    let timed =
        |what, task, size, bar| row(what, size, Unit::Ms, cpu(task, size), cpu(Task::Floor, size), bar);
    let short = |what, task, size, floor: Option<Task>, bar| {
        let us = |task| cpu(task, size).map(|ms| ms * 1_000.0);
        row(what, size, Unit::Us, us(task), floor.and_then(us), Some(bar))
    };
    let resident = |what, task| {
        let measured = least.get(&(task, LARGE)).map(|sample| sample.peak_mib);
        row(what, LARGE, Unit::MiB, measured, None, Some(PEAK))
    };
    let counted = |what, task, size| {
        let measured = least.get(&(task, size)).map(|sample| sample.counted as f64);
        row(what, size, Unit::Things, measured, None, Some(NOTHING))
    };
    let against = |what, task, floor, size, bar| {
        row(what, size, Unit::Ms, cpu(task, size), cpu(floor, size), Some(bar))
    };
    let clock = |task| least.get(&(task, LARGE)).map(|sample| sample.clock_ms);
    let mut rows = Vec::new();
    rows.extend(SIZES.map(|size| timed("discover, cold process", Task::Discover, size, Some(COLD))));
    rows.extend(SIZES.map(|size| {
        let bar = (size == LARGE).then_some(WARM);
        timed("refresh, nothing changed", Task::Refresh, size, bar)
    }));
    let library = cpu(Task::Discover, LARGE).unwrap_or_default();
    let list = Bar::Most(LIST_TIMES * library + LIST_EXTRA_MS);
    let prompt = cpu(Task::Prompt, LOAD_SIZE);
    rows.extend([
        timed("overview, nothing changed", Task::Overview, OVERVIEW_SIZE, Some(OVERVIEW)),
        timed("refresh and overview", Task::Turn, OVERVIEW_SIZE, None),
        against("search index, against discovery", Task::Index, Task::Discover, LARGE, INDEX),
        against("the same, loaded from the disk", Task::IndexStored, Task::Index, LARGE, STORED),
        row("search, one query", LARGE, Unit::Ms, cpu(Task::Search, LARGE), None, Some(SEARCH)),
        row("search, median", LARGE, Unit::Ms, cpu(Task::SearchTimes, LARGE), None, Some(SEARCH)),
        row("search, 99th percentile", LARGE, Unit::Ms, clock(Task::SearchTimes), None, Some(SEARCH)),
        row(
            "model call, skills unchanged",
            LARGE,
            Unit::Us,
            cpu(Task::CallsMany, LARGE).map(|ms| ms * 1_000.0),
            cpu(Task::CallsFew, agent::CALLS).map(|ms| ms * 1_000.0),
            Some(UNCHANGED),
        ),
        row("prompt, one more loaded", LOAD_SIZE, Unit::Ms, prompt, None, Some(OVERVIEW)),
        short("load and unload, each", Task::Load, LOAD_SIZE, Some(Task::LoadFloor), LOAD),
        short("permission, first rule matches", Task::PermissionFirst, RULES, None, PERMISSION),
        short("permission, no rule matches", Task::PermissionNone, RULES, None, PERMISSION),
        timed("`prowess list`", Task::List, LARGE, Some(list)),
        timed("`prowess check --format jsonl`", Task::Check, LARGE, None),
        resident("peak memory, library", Task::Discover),
        resident("peak memory, with index and overview", Task::Search),
        resident("peak memory, `prowess list`", Task::List),
        against("`skill_run` of `true`, clock", Task::Run, Task::RunByHand, 1, RUN),
        against(
            "the same, given ten files of a project",
            Task::RunGiven,
            Task::RunGivenByHand,
            running::GIVEN_FROM,
            RUN,
        ),
        against("stage again, nothing changed", Task::Stage, Task::StageFloor, running::STAGED, STAGE),
        counted("files copied by that", Task::Stage, running::STAGED),
        against("collect files of 100 KB", Task::Collect, Task::CollectFloor, running::COLLECTED, COLLECT),
        counted("left behind by runs, 8 at a time", Task::LeftBehind, running::RUNS),
    ]);
    rows.extend(of_the_program(least, binary));
    rows.extend(of_agents(least));
    rows.extend(of_servers(least));
    rows
}

/// The rows about calls of an MCP server.
fn of_servers(least: &HashMap<(Task, usize), Sample>) -> Vec<Row> {
    let clock = |task| least.get(&(task, LOAD_SIZE)).map(|sample: &Sample| sample.clock_ms * 1_000.0);
    let call = |what, task, floor| row(what, LOAD_SIZE, Unit::Us, clock(task), clock(floor), Some(CALL));
    vec![
        call("`load_skill` on stdio, clock", Task::LoadStdio, Task::EchoStdio),
        call("`load_skill` over HTTP, clock", Task::LoadHttp, Task::EchoHttp),
        call("the same without a session, clock", Task::LoadSessionless, Task::EchoSessionless),
    ]
}

/// The rows about the program: its start, and a short list.
fn of_the_program(least: &HashMap<(Task, usize), Sample>, binary: Option<u64>) -> Vec<Row> {
    let sample = |task, count| least.get(&(task, count));
    let cpu = |what, task, count, bar| {
        row(what, count, Unit::Ms, sample(task, count).map(|sample| sample.ms), None, bar)
    };
    let peak = |what, task, count, bar| {
        row(what, count, Unit::MiB, sample(task, count).map(|sample| sample.peak_mib), None, bar)
    };
    let size = binary.map(|bytes| bytes as f64 / (1_024.0 * 1_024.0));
    vec![
        cpu("`prowess list`, the examples", Task::ListExamples, EXAMPLES, Some(FEW_MS)),
        peak("peak memory, the same", Task::ListExamples, EXAMPLES, Some(FEW_PEAK)),
        cpu("`prowess --version`", Task::Version, 1, None),
        peak("peak memory, `prowess --version`", Task::Version, 1, None),
        row("size of the binary", 1, Unit::MiB, size, None, None),
    ]
}

/// The rows about the loop of an agent.
fn of_agents(least: &HashMap<(Task, usize), Sample>) -> Vec<Row> {
    use agent::{MESSAGES, STEPS, THREADS};
    let sample = |task, size| least.get(&(task, size));
    let cpu = |task, size| sample(task, size).map(|sample| sample.ms * 1_000.0);
    let clock = |task, size| sample(task, size).map(|sample| sample.clock_ms * 1_000.0);
    let step = |what, task, size, bar| row(what, size, Unit::Us, cpu(task, size), None, bar);
    let on_clock = |what, task, size, floor, bar| row(what, size, Unit::Us, clock(task, size), floor, bar);
    let each = |what, task| {
        row(what, THREADS, Unit::KiB, sample(task, THREADS).map(|sample| sample.kib), None, Some(IDLE))
    };
    let once = |what, task, size, bar| {
        row(what, size, Unit::Ms, sample(task, size).map(|sample| sample.ms), None, bar)
    };
    let raw = clock(Task::StepsRaw, STEPS);
    vec![
        step("step of a bare agent", Task::StepsBare, STEPS, Some(STEP)),
        step("step", Task::Steps, STEPS, Some(STEP)),
        step("step, SQLite", Task::StepsDurable, STEPS, Some(STEP_DURABLE)),
        on_clock("step, SQLite, clock", Task::StepsDurable, STEPS, raw, Some(STEP_CLOCK)),
        step("step, threads at once", Task::AtOnce, THREADS, None),
        on_clock("step, threads at once, clock", Task::AtOnce, THREADS, None, None),
        step("step, threads at once, SQLite", Task::AtOnceDurable, THREADS, None),
        on_clock("step, threads at once, SQLite, clock", Task::AtOnceDurable, THREADS, None, None),
        each("memory of an idle thread", Task::Idle),
        each("memory of an idle thread, SQLite", Task::IdleDurable),
        once("start of an agent", Task::Start, 1, None),
        once("start of an agent, SQLite", Task::StartDurable, 1, None),
        once("compaction of messages", Task::Compact, MESSAGES, Some(COMPACT)),
    ]
}

fn row(
    what: &str,
    count: usize,
    unit: Unit,
    measured: Option<f64>,
    floor: Option<f64>,
    bar: Option<Bar>,
) -> Row {
    let ratio = measured.zip(floor).map(|(measured, floor)| measured / floor);
    Row { what: what.to_owned(), count, unit, measured, floor, ratio, bar }
}
