//! Processes that are killed at any moment of a run.

use std::hash::{BuildHasher as _, Hasher as _, RandomState};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use prowess_agent::middleware::{TodoStatus, Todos};
use prowess_agent::{NoWatcher, TurnStatus};
use prowess_store::SqliteStore;

use super::checks::{Look, Tally};
use super::driver::opened;
use super::moments::Moments;
use super::process::{End, Fate, Process};
use super::script::{Place, agent};

/// How many kills there are. `PROWESS_KILLS` sets another number, and `PROWESS_SEED` what chance begins with.
const KILLS: usize = 200;
/// How many runs go on at the same time.
const LANES: u64 = 4;
/// What a killed process leaves: the next one waits so long.
const LEASE: Duration = Duration::from_millis(100);
/// About how many moments a process has before it needs a person.
const MOMENTS: u64 = 60;
/// Before each of these is stored something was done that nobody knows, and after it something is known that was not
/// done. In every run a process is killed at each of both, in the run itself and in a task, if it comes by.
const STORED: [&str; 10] = [
    "turn_started",
    "model_asked",
    "model_answered",
    "tool_started",
    "tool_answered",
    "asked",
    "replied",
    "state_changed",
    "compacted",
    "turn_ended",
];
/// Processes of one run above which something is wrong.
const MOST_PROCESSES: usize = 500;

/// Numbers by chance, the same for the same seed.
struct Chance(u64);

impl Chance {
    fn below(&mut self, end: u64) -> u64 {
        // SplitMix64.
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        (z ^ (z >> 31)) % end.max(1)
    }

    /// At a time from the start of the process to somewhat after its end, at any of its moments, or at a delicate one
    /// that is still to come.
    fn fate(&mut self, usual: Duration, delicate: &[String]) -> Fate {
        let most = u64::try_from(usual.as_micros()).unwrap() * 2;
        match self.below(4) {
            0 => Fate::Killed(Duration::from_micros(self.below(most))),
            1 => Fate::KilledAt(self.below(MOMENTS).to_string()),
            _ => Fate::KilledAt(delicate.join("|")),
        }
    }
}

fn delicate_moments() -> Vec<String> {
    let all = STORED.iter().flat_map(|event| {
        let of = |when| [format!("{when} {event} of run"), format!("{when} {event} of task")];
        [of("before"), of("after")].concat()
    });
    all.chain(["leased", "asked", "release"].map(str::to_owned)).collect()
}

/// What came of one run.
#[derive(Debug, Default)]
struct Told {
    processes: usize,
    /// Kills after which there was more in the log than before the process.
    kills_in_work: usize,
    tally: Tally,
}

/// One run to its end, by as many processes as it takes, each with the fate that it is given. Counts those that are
/// killed.
async fn run(kills: &AtomicUsize, mut fate: impl FnMut(&[String]) -> Fate) -> Told {
    let directory = tempfile::tempdir().unwrap();
    let place = Place::at(directory.path(), LEASE);
    let mut told = Told::default();
    let mut look: Option<Look> = None;
    let mut delicate = delicate_moments();
    while !look.as_ref().is_some_and(Look::is_over) {
        let (at, fate) = (place.clone(), fate(&delicate));
        let end = tokio::task::spawn_blocking(move || Process::run(&at, &fate)).await.unwrap();
        if let End::Killed(Some(moment)) = &end {
            delicate.retain(|delicate| delicate != moment);
        }
        let killed = end != End::ByItself;
        told.processes += 1;
        assert!(told.processes < MOST_PROCESSES, "it does not come on: {told:?}");
        kills.fetch_add(usize::from(killed), Ordering::SeqCst);
        if !place.database.exists() {
            assert!(killed);
            continue;
        }
        let now = Look::at(&place).await;
        now.check(look.as_ref());
        let grew = now.events() > look.as_ref().map_or(0, Look::events);
        told.kills_in_work += usize::from(killed && grew);
        look = Some(now);
    }
    told.tally = look.unwrap().check_whole();
    // Nothing is left to do, and the middleware have their states.
    let store = SqliteStore::open(&place.database).await.unwrap();
    store.check().await.unwrap();
    let mut thread = opened(&agent(&place, Arc::new(store), &Moments::quiet())).await;
    assert_eq!(thread.go_on(&NoWatcher).await.unwrap(), TurnStatus::Idle);
    let todos = Todos::of(thread.states());
    assert_eq!(todos.iter().map(|todo| todo.status).collect::<Vec<_>>(), [TodoStatus::Completed]);
    thread.close().await.unwrap();
    told
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn case_80_two_hundred_kills() {
    let number = |name: &str| std::env::var(name).ok().map(|text| text.parse::<u64>().unwrap());
    let kills = number("PROWESS_KILLS").map_or(KILLS, |kills| usize::try_from(kills).unwrap());
    let seed = number("PROWESS_SEED").unwrap_or_else(|| RandomState::new().build_hasher().finish());
    println!("PROWESS_SEED={seed}");

    // How it is when nobody is killed, and how long a process takes here.
    let began = Instant::now();
    let calm = run(&AtomicUsize::new(0), |_| Fate::Lives).await;
    assert_eq!(calm.tally, Tally::default());
    let usual = began.elapsed() / u32::try_from(calm.processes).unwrap();
    println!("{} processes of {usual:?} each", calm.processes);

    let killed = Arc::new(AtomicUsize::new(0));
    let lanes: Vec<_> = (0..LANES)
        .map(|lane| {
            let killed = Arc::clone(&killed);
            tokio::spawn(async move {
                let mut chance = Chance(seed.wrapping_add(lane));
                let mut all = Vec::new();
                let are_enough = || killed.load(Ordering::SeqCst) >= kills;
                while !are_enough() {
                    let fate = |delicate: &[String]| match are_enough() {
                        true => Fate::Lives,
                        false => chance.fate(usual, delicate),
                    };
                    all.push(run(&killed, fate).await);
                }
                all
            })
        })
        .collect();
    let mut all = Vec::new();
    for lane in lanes {
        all.extend(lane.await.unwrap());
    }
    let sum = |count: fn(&Told) -> usize| all.iter().map(count).sum::<usize>();
    let (killed, in_work) = (killed.load(Ordering::SeqCst), sum(|told| told.kills_in_work));
    let (unknown, repeated) = (sum(|told| told.tally.unknown), sum(|told| told.tally.repeated));
    println!(
        "{} runs, {} processes, {killed} killed, {in_work} of them after they stored something; \
         {unknown} calls of unknown outcome, {repeated} made again; {:?}",
        all.len(),
        sum(|told| told.processes),
        began.elapsed(),
    );
    assert!(killed >= kills);
    // The kills were where they matter.
    assert!(in_work >= killed / 4);
    assert!(kills < KILLS || (unknown > 0 && repeated > 0));
}
