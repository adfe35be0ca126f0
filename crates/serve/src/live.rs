//! What happens in threads right now, for those who watch: pieces of text, progress, and that events were stored.
//!
//! Pieces are not stored. Whoever begins to watch gets what was said so far, and then the pieces after it. A watcher that is
//! too slow loses pieces, and is told so; it never holds more than [`ROOM`] of them.

use std::collections::{BTreeMap, HashMap};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};

use prowess_agent::{Event, ThreadId, ThreadUpdate, Watcher};
use tokio::sync::{Notify, broadcast};

use crate::app::lock;
use crate::relay::Relay;

/// How many pieces a thread keeps for a slow watcher.
const ROOM: usize = 128;
/// The most bytes of text that a newcomer gets at once.
const MAX_SO_FAR: usize = 4 << 20;
/// The most bytes of a call's progress that are kept: its last lines.
const MAX_PROGRESS: usize = 64 << 10;

/// The threads that somebody watches or works on.
#[derive(Debug)]
pub(crate) struct Live {
    threads: Mutex<HashMap<ThreadId, Arc<LiveThread>>>,
    relay: Arc<Relay>,
}

/// Something that happens now.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Piece {
    /// Events were stored.
    Stored,
    /// A piece of the response that follows so many ends.
    Text(u64, String),
    /// A piece of the model's reasoning, in the same way.
    Reasoning(u64, String),
    /// A tool reports progress, in the same way.
    Progress(u64, String, String),
    /// A notice for the person.
    Notice(String),
    /// The status of the thread may have changed.
    Status,
    /// What was said so far counts no more, and begins again. The log has so many ends.
    Again(u64),
}

/// What was said since the last stored response.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct SoFar {
    /// How many [ends](ends_response) the log had when it was said. A watcher that has read more of them has no use for it.
    pub(crate) ends: u64,
    pub(crate) text: String,
    pub(crate) reasoning: String,
    pub(crate) progress: BTreeMap<String, String>,
}

impl Live {
    pub(crate) fn new(relay: Arc<Relay>) -> Self {
        Self { threads: Mutex::default(), relay }
    }

    /// A thread. It is forgotten when nobody has it any more.
    pub(crate) fn of(&self, thread: &ThreadId) -> Arc<LiveThread> {
        let mut threads = lock(&self.threads);
        // Those that nobody has.
        if threads.len() > 64 {
            threads.retain(|_, live| Arc::strong_count(live) > 1);
        }
        let make = || Arc::new(LiveThread::new(thread.clone(), Arc::clone(&self.relay)));
        Arc::clone(threads.entry(thread.clone()).or_insert_with(make))
    }

    fn filter(&self, thread: &ThreadId, is: impl FnOnce(&LiveThread) -> bool) -> Option<Arc<LiveThread>> {
        lock(&self.threads).get(thread).filter(|live| is(live)).cloned()
    }

    /// A thread that a worker of this process works on.
    pub(crate) fn working(&self, thread: &ThreadId) -> Option<Arc<LiveThread>> {
        self.filter(thread, LiveThread::is_worked_on)
    }

    /// A thread that somebody watches here, and that a worker of another process may work on.
    pub(crate) fn watched_one(&self, thread: &ThreadId) -> Option<Arc<LiveThread>> {
        self.filter(thread, |live| live.is_watched() && !live.is_worked_on())
    }

    /// The threads that somebody watches here.
    pub(crate) fn watched(&self) -> Vec<ThreadId> {
        let threads = lock(&self.threads);
        threads.iter().filter(|(_, live)| live.is_watched()).map(|(id, _)| id.clone()).collect()
    }

    /// The threads that workers of this process work on.
    pub(crate) fn all_working(&self) -> Vec<Arc<LiveThread>> {
        lock(&self.threads).values().filter(|live| live.is_worked_on()).cloned().collect()
    }
}

/// What happens in one thread.
#[derive(Debug)]
pub(crate) struct LiveThread {
    id: ThreadId,
    relay: Arc<Relay>,
    pieces: broadcast::Sender<Piece>,
    said: Mutex<Said>,
    /// The number of the lease with which this process works on it; 0 if it does not.
    lease: AtomicU64,
    /// Somebody posted to it while a worker works on it.
    pub(crate) posted: Notify,
}

#[derive(Debug, Default)]
struct Said {
    /// What watchers were told.
    so_far: SoFar,
    /// What they were not told yet.
    fresh: SoFar,
    /// The number of the lease of whoever said it, if it was another process.
    lease: u64,
}

impl LiveThread {
    fn new(id: ThreadId, relay: Arc<Relay>) -> Self {
        Self {
            id,
            relay,
            pieces: broadcast::Sender::new(ROOM),
            said: Mutex::default(),
            lease: AtomicU64::new(0),
            posted: Notify::new(),
        }
    }

    pub(crate) fn thread(&self) -> &ThreadId {
        &self.id
    }

    fn is_watched(&self) -> bool {
        self.pieces.receiver_count() > 0
    }

    fn lease(&self) -> u64 {
        self.lease.load(Ordering::Relaxed)
    }

    fn is_worked_on(&self) -> bool {
        self.lease() > 0
    }

    /// A worker of this process works on it, with the lease of this number.
    pub(crate) fn work(&self, lease: u64) {
        self.lease.store(lease, Ordering::Relaxed);
    }

    /// The worker of this process works on it no more, unless it has another lease now.
    pub(crate) fn rest(&self, lease: u64) {
        let _ = self.lease.compare_exchange(lease, 0, Ordering::Relaxed, Ordering::Relaxed);
    }

    /// What was said here counts no more, because another worker has the thread. If it is in another process, that process says the
    /// rest.
    pub(crate) fn lose(&self, lease: u64) {
        self.rest(lease);
        if self.is_worked_on() {
            return;
        }
        let ends = lock(&self.said).so_far.ends;
        self.reset(ends);
        if self.is_watched() {
            self.relay.watch(&self.id);
        }
    }

    /// Tells watchers here and in other processes.
    fn emit(&self, piece: Piece) {
        self.relay.tell(&self.id, self.lease(), &piece);
        let _ = self.pieces.send(piece);
    }

    /// Begins to watch. If nobody watched here before, other processes say what was said so far.
    pub(crate) fn begin_to_watch(&self) -> broadcast::Receiver<Piece> {
        let mut said = lock(&self.said);
        if !self.is_watched() {
            if !self.is_worked_on() {
                // Nobody took in what was said meanwhile.
                *said =
                    Said { so_far: SoFar { ends: said.so_far.ends, ..SoFar::default() }, ..Said::default() };
            }
            self.relay.watch(&self.id);
        }
        self.pieces.subscribe()
    }

    /// What was said so far, and what comes after it.
    pub(crate) fn watch(&self) -> (SoFar, broadcast::Receiver<Piece>) {
        let said = lock(&self.said);
        (said.so_far.clone(), self.pieces.subscribe())
    }

    /// Tells another process what was said so far. What is said next comes after it.
    pub(crate) fn catch_up(&self, to: &str) {
        let mut said = lock(&self.said);
        self.flush_locked(&mut said);
        self.relay.catch_up(&self.id, self.lease(), to, &said.so_far);
    }

    /// Tells watchers what was said since the last time.
    pub(crate) fn flush(&self) {
        self.flush_locked(&mut lock(&self.said));
    }

    fn flush_locked(&self, said: &mut Said) {
        let fresh = std::mem::take(&mut said.fresh);
        if !fresh.reasoning.is_empty() {
            push(&mut said.so_far.reasoning, &fresh.reasoning, MAX_SO_FAR);
            self.emit(Piece::Reasoning(said.so_far.ends, fresh.reasoning));
        }
        if !fresh.text.is_empty() {
            push(&mut said.so_far.text, &fresh.text, MAX_SO_FAR);
            self.emit(Piece::Text(said.so_far.ends, fresh.text));
        }
        for (call, text) in fresh.progress {
            push_lines(said.so_far.progress.entry(call.clone()).or_default(), &text, MAX_PROGRESS);
            self.emit(Piece::Progress(said.so_far.ends, call, text));
        }
    }

    /// Tells watchers that events were stored.
    pub(crate) fn stored(&self, event: &Event) {
        let mut said = lock(&self.said);
        self.flush_locked(&mut said);
        if ends_response(event) {
            said.so_far.ends += 1;
        }
        match event {
            Event::ModelResponded { .. } | Event::ModelFailed { .. } => {
                (said.so_far.text, said.so_far.reasoning) = (String::new(), String::new());
            }
            Event::ToolAnswered { call, .. } => {
                said.so_far.progress.remove(call.as_str());
            }
            Event::TurnEnded { .. } => said.so_far = SoFar { ends: said.so_far.ends, ..SoFar::default() },
            _ => {}
        }
        self.emit(Piece::Stored);
    }

    /// A worker begins to work on the thread, whose log has so many ends.
    pub(crate) fn begin(&self, ends: u64) {
        // The worker before may have been in another process.
        self.relay.tell(&self.id, self.lease(), &Piece::Again(ends));
        self.reset(ends);
    }

    /// Forgets what was said: the model call is made again, or nobody works on the thread any more.
    pub(crate) fn restart(&self) {
        let ends = lock(&self.said).so_far.ends;
        self.begin(ends);
    }

    fn reset(&self, ends: u64) {
        self.reset_locked(&mut lock(&self.said), ends);
    }

    fn reset_locked(&self, said: &mut Said, ends: u64) {
        let nothing = SoFar { ends, ..SoFar::default() };
        let had_said = SoFar { ends, ..said.so_far.clone() } != nothing || said.fresh != SoFar::default();
        (said.so_far, said.fresh) = (nothing, SoFar::default());
        if had_said {
            let _ = self.pieces.send(Piece::Again(ends));
        }
    }

    /// Takes in what happens in a thread that another process works on, with the lease of this number. What a process says that has
    /// lost the lease counts no more.
    pub(crate) fn take_in(&self, lease: u64, piece: Piece) {
        let mut said = lock(&self.said);
        if let Piece::Again(ends)
        | Piece::Text(ends, _)
        | Piece::Reasoning(ends, _)
        | Piece::Progress(ends, ..) = &piece
        {
            let ends = *ends;
            if lease < said.lease {
                return;
            }
            if lease > said.lease || matches!(piece, Piece::Again(_)) {
                said.lease = lease;
                self.reset_locked(&mut said, ends);
            }
            let so_far = &mut said.so_far;
            if ends < so_far.ends {
                return;
            }
            // A stored response took the place of what was said before.
            if ends > so_far.ends {
                *so_far = SoFar { ends, ..SoFar::default() };
            }
            match &piece {
                Piece::Text(_, text) => push(&mut so_far.text, text, MAX_SO_FAR),
                Piece::Reasoning(_, text) => push(&mut so_far.reasoning, text, MAX_SO_FAR),
                Piece::Progress(_, call, text) => {
                    push_lines(so_far.progress.entry(call.clone()).or_default(), text, MAX_PROGRESS);
                }
                // It was told.
                _ => return,
            }
        }
        let _ = self.pieces.send(piece);
    }

    /// Tells watchers something at once.
    pub(crate) fn tell(&self, piece: Piece) {
        self.flush();
        self.emit(piece);
    }
}

impl Watcher for LiveThread {
    fn update(&self, update: ThreadUpdate<'_>) {
        match update {
            ThreadUpdate::Stored(event) => self.stored(event),
            ThreadUpdate::Text(text) => lock(&self.said).fresh.text.push_str(text),
            ThreadUpdate::Reasoning(text) => lock(&self.said).fresh.reasoning.push_str(text),
            ThreadUpdate::Progress(call, text) => {
                let mut said = lock(&self.said);
                let progress = said.fresh.progress.entry(call.as_str().to_owned()).or_default();
                // A report has whole lines.
                push_lines(progress, &format!("{}\n", text.trim_end_matches('\n')), MAX_PROGRESS);
            }
            ThreadUpdate::Notice(text) => self.tell(Piece::Notice(text.to_owned())),
            _ => {}
        }
    }
}

/// Whether an event ends what was said before it: a stored response or the end of a turn takes its place.
pub(crate) fn ends_response(event: &Event) -> bool {
    matches!(event, Event::ModelResponded { .. } | Event::ModelFailed { .. } | Event::TurnEnded { .. })
}

/// Appends a text, unless that makes it too long.
fn push(text: &mut String, more: &str, most: usize) {
    if text.len() + more.len() <= most {
        text.push_str(more);
    }
}

/// Appends lines, and drops the first ones if that makes the text too long.
fn push_lines(text: &mut String, more: &str, most: usize) {
    text.push_str(more);
    if text.len() > most {
        let surplus = text.ceil_char_boundary(text.len() - most);
        let kept = text[surplus..].find('\n').map_or(text.len(), |at| surplus + at + 1);
        text.drain(..kept);
    }
}

#[cfg(test)]
mod tests {
    use prowess_agent::id::CallId;
    use prowess_agent::thread_state::TurnOutcome;

    use prowess_store::signals::Signals;

    use super::*;

    fn alone() -> LiveThread {
        LiveThread::new(ThreadId::new(), Arc::new(Relay::new(Signals::none())))
    }

    #[test]
    fn what_another_process_says_is_said_here() {
        let live = alone();
        let (_, mut pieces) = live.watch();
        live.take_in(1, Piece::Text(3, "One, ".to_owned()));
        live.take_in(1, Piece::Text(2, "late".to_owned()));
        live.take_in(1, Piece::Text(3, "two.".to_owned()));
        assert_eq!(live.watch().0, SoFar { ends: 3, text: "One, two.".to_owned(), ..SoFar::default() });
        // Another worker takes over, and begins again.
        live.take_in(1, Piece::Again(3));
        live.take_in(1, Piece::Text(3, "Three.".to_owned()));
        // A response was stored.
        live.take_in(1, Piece::Text(4, "Four.".to_owned()));
        assert_eq!(live.watch().0, SoFar { ends: 4, text: "Four.".to_owned(), ..SoFar::default() });
        let text = |ends, text: &str| Piece::Text(ends, text.to_owned());
        let told = [text(3, "One, "), text(3, "two."), Piece::Again(3), text(3, "Three."), text(4, "Four.")];
        for piece in told {
            assert_eq!(pieces.try_recv(), Ok(piece));
        }
        assert!(pieces.try_recv().is_err());
    }

    #[test]
    fn a_process_that_lost_the_lease_is_not_heard() {
        let live = alone();
        let mut pieces = live.begin_to_watch();
        let text = |ends, text: &str| Piece::Text(ends, text.to_owned());
        live.take_in(7, text(3, "One, "));
        // Its first word was lost.
        live.take_in(8, text(3, "three."));
        live.take_in(7, text(3, "two."));
        live.take_in(7, Piece::Again(3));
        live.take_in(7, Piece::Stored);
        assert_eq!(live.watch().0.text, "three.");
        let told = [text(3, "One, "), Piece::Again(3), text(3, "three."), Piece::Stored];
        for piece in told {
            assert_eq!(pieces.try_recv(), Ok(piece));
        }
        assert!(pieces.try_recv().is_err());
        // Whoever comes when nobody watches any more begins anew.
        drop(pieces);
        let _pieces = live.begin_to_watch();
        assert_eq!(live.watch().0, SoFar { ends: 3, ..SoFar::default() });
    }

    #[test]
    fn a_newcomer_gets_what_was_said_and_then_the_rest() {
        let live = alone();
        live.update(ThreadUpdate::Text("One, "));
        live.flush();
        live.update(ThreadUpdate::Text("two, "));
        let (so_far, mut pieces) = live.watch();
        assert_eq!(so_far.text, "One, ");
        live.update(ThreadUpdate::Text("three."));
        live.flush();
        live.flush();
        assert_eq!(pieces.try_recv(), Ok(Piece::Text(0, "two, three.".to_owned())));
        assert!(pieces.try_recv().is_err());
    }

    #[test]
    fn pieces_come_before_the_event_that_replaces_them() {
        let live = alone();
        let (_, mut pieces) = live.watch();
        live.update(ThreadUpdate::Text("Done."));
        live.update(ThreadUpdate::Stored(&Event::TurnEnded { outcome: TurnOutcome::Responded }));
        assert_eq!(pieces.try_recv(), Ok(Piece::Text(0, "Done.".to_owned())));
        assert_eq!(pieces.try_recv(), Ok(Piece::Stored));
        assert_eq!(live.watch().0, SoFar { ends: 1, ..SoFar::default() });
    }

    #[test]
    fn case_142_a_slow_watcher_is_bounded() {
        let live = alone();
        let (_, mut pieces) = live.watch();
        for _ in 0..10 * ROOM {
            live.update(ThreadUpdate::Text("x"));
            live.flush();
        }
        assert!(matches!(pieces.try_recv(), Err(broadcast::error::TryRecvError::Lagged(_))));
    }

    #[test]
    fn the_last_lines_of_a_calls_output_are_kept() {
        let live = alone();
        let call = CallId::from("c1");
        live.update(ThreadUpdate::Progress(&call, "one\ntwo"));
        live.update(ThreadUpdate::Progress(&call, "three"));
        live.flush();
        let (so_far, mut pieces) = live.watch();
        assert_eq!(so_far.progress["c1"], "one\ntwo\nthree\n");
        for number in 0..20_000 {
            live.update(ThreadUpdate::Progress(&call, &format!("é {number}")));
            if number == 10_000 {
                live.flush();
            }
        }
        live.flush();
        let progress = live.watch().0.progress.remove("c1").unwrap();
        assert!(progress.starts_with("é 1") && progress.ends_with("\né 19999\n"), "{progress:.20}");
        assert!(progress.len() <= MAX_PROGRESS && progress.len() > MAX_PROGRESS - 10);
        for _ in 0..2 {
            let Ok(Piece::Progress(_, _, text)) = pieces.try_recv() else { panic!("a piece is missing") };
            assert!(text.starts_with("é ") && text.len() <= MAX_PROGRESS);
        }
    }

    #[test]
    fn threads_that_nobody_has_are_forgotten() {
        let live = Live::new(Arc::new(Relay::new(Signals::none())));
        for _ in 0..1000 {
            live.of(&ThreadId::new());
        }
        assert!(lock(&live.threads).len() < 100);
    }
}
