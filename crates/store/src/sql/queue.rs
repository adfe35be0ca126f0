//! The SQL of the queue of turns.

/// Whether a queued thread waits (0), is claimed (1) or is a dead letter (2).
macro_rules! queue_state {
    () => {
        concat!(
            "CAST(CASE WHEN queue.dead IS NOT NULL THEN 2 WHEN queue.owner IS NOT NULL AND ",
            lasts!("queue."),
            " THEN 1 ELSE 0 END AS BIGINT)"
        )
    };
}
#[cfg(feature = "serve")]
pub(crate) use queue_state;

/// The columns of a queued thread.
macro_rules! queued_thread {
    () => {
        concat!(
            "queue.thread, ",
            queue_state!(),
            ", queue.belongs_to, queue.owner, queue.queued, \
            CASE WHEN queue.owner IS NULL AND queue.dead IS NULL AND queue.not_before > prowess_now() THEN queue.not_before END, \
            queue.attempts, queue.failures, queue.problem"
        )
    };
}

/// Whose a thread is: nobody's, if it has no owner.
macro_rules! belongs_to {
    () => {
        "COALESCE((SELECT owned.owner FROM prowess_owned_threads AS owned WHERE owned.thread = ?1), '')"
    };
}

/// Whether a delay has not ended. No delay is longer than a day; see [`lasts`].
macro_rules! is_delayed {
    () => {
        "not_before BETWEEN prowess_now() + 1 AND prowess_now() + 86400000000"
    };
}

/// Whether a thread is in the line: the condition of its index.
macro_rules! in_line {
    ($queue:literal) => {
        concat!($queue, "owner IS NULL AND ", $queue, "dead IS NULL AND ", $queue, "not_before IS NULL")
    };
}

/// The place of a thread in the line, for SQLite: behind the user's other threads, behind the user's last thread that had its turn, and
/// not before the place to which the line has come. PostgreSQL has the function `prowess_line`.
macro_rules! place {
    () => {
        concat!(
            "MAX(
    COALESCE((SELECT last.place + 1 FROM prowess_places AS last WHERE last.person = ",
            belongs_to!(),
            "), 0),
    COALESCE((SELECT MAX(own.place) + 1 FROM prowess_queue AS own WHERE own.belongs_to = ",
            belongs_to!(),
            "), 0),
    COALESCE((SELECT MAX(others.line) FROM prowess_places AS others), 0),
    COALESCE((
        SELECT MIN(next.place, next.place - 100 * next.priority) FROM prowess_queue AS next WHERE ",
            in_line!("next."),
            "
        ORDER BY next.place - 100 * next.priority, next.queued, next.thread LIMIT 1
    ), 0)
)"
        )
    };
}

/// What a post changes in a thread that is queued: a delay ends, and an end of a turn brings a dead letter back.
macro_rules! queued_again {
    () => {
        " ON CONFLICT (thread) DO UPDATE SET \
            posted = queue.posted + 1, \
            until = CASE WHEN queue.owner IS NULL AND queue.until > prowess_now() THEN prowess_now() ELSE queue.until END, \
            not_before = NULL, \
            priority = CASE WHEN queue.priority < excluded.priority THEN excluded.priority ELSE queue.priority END, \
            failures = CASE WHEN queue.dead IS NOT NULL AND ?3 = 1 THEN 0 ELSE queue.failures END, \
            dead = CASE WHEN ?3 = 1 THEN NULL ELSE queue.dead END"
    };
}

/// The columns and values of a thread that is queued, for SQLite.
macro_rules! queue {
    () => {
        concat!(
            "INSERT INTO prowess_queue AS queue (thread, posted, attempts, until, queued, belongs_to, place, priority)
SELECT ?1, 1, 0, prowess_now(), prowess_now(), ",
            belongs_to!(),
            ", ",
            place!(),
            ", ?2 WHERE ?3 = ?3"
        )
    };
}

/// The same for PostgreSQL.
macro_rules! queue_in_line {
    () => {
        "INSERT INTO prowess_queue AS queue (thread, posted, attempts, until, queued, belongs_to, place, priority) \
            SELECT ?1, 1, 0, prowess_now(), prowess_now(), line.belongs_to, line.place, ?2 \
            FROM prowess_line(?1) AS line WHERE ?3 = ?3"
    };
}

// The text for PostgreSQL is one line, as SQLite's comment must be.

/// Notes that somebody posted to a thread with the priority `?2`, and queues it unless it is queued. `?3` is 1 if the post brings a
/// dead letter back. Posts to one thread wait for each other here.
pub(crate) const QUEUE: &str =
    concat!(queue!(), queued_again!(), "\n-- postgres instead: ", queue_in_line!(), queued_again!());

/// The same for a thread that rests. No row means that it does not rest.
pub(crate) const QUEUE_AT_REST: &str = concat!(
    queue!(),
    " ON CONFLICT (thread) DO NOTHING RETURNING thread\n-- postgres instead: ",
    queue_in_line!(),
    " ON CONFLICT (thread) DO NOTHING RETURNING thread"
);

/// Adds a post to an inbox in which fewer than `?5` wait. No row means that more wait, or that the inbox has or had a post of
/// this name.
pub(crate) const POST: &str = "\
INSERT INTO prowess_inbox (thread, number, name, checksum, body)
SELECT ?1, COALESCE(MAX(number), 0) + 1, ?2, ?3, ?4 FROM prowess_inbox WHERE thread = ?1
HAVING COUNT(body) < ?5
ON CONFLICT (thread, name) DO NOTHING
RETURNING number";

/// Whether an inbox has or had a post of this name.
pub(crate) const IS_KNOWN: &str = "SELECT number FROM prowess_inbox WHERE thread = ?1 AND name = ?2";

/// Whether the last attempt at a thread got answers.
macro_rules! has_progressed {
    ($queue:literal) => {
        concat!(
            "EXISTS (SELECT 1 FROM prowess_threads AS known WHERE known.id = ",
            $queue,
            ".thread AND known.answered > ",
            $queue,
            ".answered)"
        )
    };
}

/// Whether an attempt without progress was the last one: `$most` of them are too many.
macro_rules! was_last {
    ($most:literal) => {
        concat!("failures >= ", $most, " AND NOT ", has_progressed!("prowess_queue"))
    };
}

/// Which attempt without progress begins. Progress of the last one ends the row.
macro_rules! next_failure {
    ($queue:literal) => {
        concat!("CASE WHEN ", has_progressed!($queue), " THEN 1 ELSE ", $queue, ".failures + 1 END")
    };
}

/// How many answers the log of a thread has.
macro_rules! answers {
    ($thread:literal) => {
        concat!(
            "COALESCE((SELECT known.answered FROM prowess_threads AS known WHERE known.id = ",
            $thread,
            "), 0)"
        )
    };
}

/// Ends the claims of workers that vanished, in SQLite: both the claim and the lease have run out. `?1` is the reason, `?2` how many
/// attempts may make no progress, and `?3` the time. Returns each thread, and whether it became a dead letter.
pub(crate) const LOSE_CLAIMS: &str = concat!(
    "UPDATE prowess_queue SET
    owner = NULL,
    lost = 1,
    dead = CASE WHEN ",
    was_last!("?2"),
    " THEN COALESCE(dead, ?3) END,
    problem = CASE WHEN ",
    was_last!("?2"),
    " THEN ?1 ELSE problem END,
    failures = CASE WHEN ",
    has_progressed!("prowess_queue"),
    " THEN 0 ELSE failures END
WHERE owner IS NOT NULL AND NOT ",
    lasts!(""),
    " AND NOT EXISTS (
        SELECT 1 FROM prowess_threads AS known
        WHERE known.id = prowess_queue.thread AND known.owner IS NOT NULL AND ",
    lasts!("known."),
    "
    )
RETURNING thread, COALESCE(dead = ?3, 0)"
);

/// Ends delays whose time is over, in SQLite.
pub(crate) const END_DELAYS: &str = concat!(
    "UPDATE prowess_queue SET not_before = NULL WHERE not_before IS NOT NULL AND NOT ",
    is_delayed!()
);

/// The users who have `?1` claims or more.
macro_rules! full_users {
    () => {
        "
        SELECT held.belongs_to FROM prowess_queue AS held WHERE held.owner IS NOT NULL AND held.belongs_to <> ''
        GROUP BY held.belongs_to HAVING COUNT(*) >= ?1
    "
    };
}

/// The next thread that can be claimed, in SQLite, if a user may have `?1` claims, and all together `?2`. The users at their limit are
/// counted once.
macro_rules! next {
    () => {
        concat!(
            "SELECT queue.thread FROM prowess_queue AS queue
WHERE ",
            in_line!("queue."),
            "
    AND queue.belongs_to NOT IN (",
            full_users!(),
            ")
    AND (SELECT COUNT(*) FROM prowess_queue AS held WHERE held.owner IS NOT NULL) < ?2
    AND NOT EXISTS (
        SELECT 1 FROM prowess_threads AS known
        WHERE known.id = queue.thread AND known.owner IS NOT NULL AND ",
            lasts!("known."),
            "
    )
ORDER BY queue.place - 100 * queue.priority, queue.queued, queue.thread LIMIT 1"
        )
    };
}

/// See [`next`].
pub(crate) const NEXT: &str = next!();

/// Whether a thread can be claimed, or a claim or a delay has ended, in SQLite. The parameters are those of [`NEXT`].
pub(crate) const CAN_CLAIM: &str = concat!(
    "SELECT 1 WHERE EXISTS (SELECT 1 FROM prowess_queue WHERE not_before IS NOT NULL AND NOT ",
    is_delayed!(),
    ") OR EXISTS (SELECT 1 FROM prowess_queue WHERE owner IS NOT NULL AND NOT ",
    lasts!(""),
    ") OR EXISTS (",
    next!(),
    ")"
);

/// Claims a thread that can be claimed, in SQLite.
pub(crate) const CLAIM_NEXT: &str = concat!(
    "\
UPDATE prowess_queue SET
    owner = ?2,
    until = prowess_now() + ?3,
    had_turn = 1,
    attempts = attempts + 1,
    failures = ",
    next_failure!("prowess_queue"),
    ",
    answered = ",
    answers!("prowess_queue.thread"),
    "
WHERE thread = ?1 RETURNING attempts, lost"
);

/// Claims the next thread, and takes its lease, in PostgreSQL. Workers pass over threads that others are about to claim. A row without
/// an attempt is a thread that became a dead letter.
#[cfg(feature = "postgres")]
pub(crate) const CLAIM: &str =
    "SELECT claimed, attempt, takes_over, lease FROM prowess_claim_next(?1, ?2, ?3, ?4, ?5, ?6)";

/// What claims a thread that has a row. A dead letter stays one: whoever gives it back has changed nothing.
macro_rules! claimed_again {
    () => {
        concat!(
            " ON CONFLICT (thread) DO UPDATE SET owner = excluded.owner, until = excluded.until, not_before = NULL, \
            attempts = queue.attempts + 1, failures = ",
            next_failure!("queue"),
            ", answered = excluded.answered, lost = CASE WHEN queue.owner IS NULL THEN queue.lost ELSE 1 END \
            WHERE ",
            is_free!("queue."),
            " RETURNING attempts, lost"
        )
    };
}

/// Claims one thread, whether it is queued, is a dead letter, or rests. No row means that another worker has it. Returns how often it
/// was claimed, and whether its last worker vanished. A thread that rested gets the lowest priority: a post may raise it.
pub(crate) const CLAIM_THREAD: &str = concat!(
    "\
INSERT INTO prowess_queue AS queue
    (thread, posted, attempts, failures, answered, owner, until, queued, belongs_to, place, priority)
SELECT ?1, 0, 1, 1, ",
    answers!("?1"),
    ", ?2, prowess_now() + ?3, prowess_now(), ",
    belongs_to!(),
    ", ",
    place!(),
    ", -1 WHERE ?3 = ?3",
    claimed_again!(),
    "\n-- postgres instead: INSERT INTO prowess_queue AS queue \
        (thread, posted, attempts, failures, answered, owner, until, queued, belongs_to, place, priority) \
        SELECT ?1, 0, 1, 1, ",
    answers!("?1"),
    ", ?2, prowess_now() + ?3, prowess_now(), line.belongs_to, line.place, -1 FROM prowess_line(?1) AS line",
    claimed_again!(),
);

/// Extends a claim. No row means that it is lost.
pub(crate) const KEEP: &str = "\
UPDATE prowess_queue SET until = prowess_now() + ?3 WHERE thread = ?1 AND owner = ?2 RETURNING thread";

/// Extends the lease of a claim that was just extended. The lease of a lost claim ends in its time: else nobody could claim the thread.
pub(crate) const KEEP_LEASE: &str = "\
UPDATE prowess_threads SET until = prowess_now() + ?3
WHERE id = ?1 AND owner = ?2 AND EXISTS (SELECT 1 FROM prowess_queue WHERE thread = ?1 AND owner = ?2)";

/// The posts of a claimed thread, each with how often somebody posted. One row without a post means that there are none;
/// no row means that the claim is lost.
pub(crate) const INBOX: &str = "\
SELECT queue.posted, inbox.number, inbox.name, inbox.checksum, inbox.body
FROM prowess_queue AS queue
LEFT JOIN prowess_inbox AS inbox ON inbox.thread = queue.thread AND inbox.body IS NOT NULL
WHERE queue.thread = ?1 AND queue.owner = ?2
ORDER BY inbox.number";

/// The number of the post of a name, if it waits in a claimed thread. One row without a number means that it does not; no row
/// means that the claim is lost.
pub(crate) const WAITS: &str = "\
SELECT inbox.number
FROM prowess_queue AS queue
LEFT JOIN prowess_inbox AS inbox ON inbox.thread = queue.thread AND inbox.name = ?3 AND inbox.body IS NOT NULL
WHERE queue.thread = ?1 AND queue.owner = ?2";

/// The posts that wait in a thread, in the columns of [`INBOX`].
pub(crate) const WAITING: &str = "\
SELECT number, number, name, checksum, body FROM prowess_inbox WHERE thread = ?1 AND body IS NOT NULL ORDER BY number";

/// Takes a post out of the inbox of a claimed thread. Its name stays. No row means that the claim is lost.
pub(crate) const TAKE: &str = "\
UPDATE prowess_inbox SET body = NULL
WHERE thread = ?1 AND number = ?3 AND EXISTS (SELECT 1 FROM prowess_queue WHERE thread = ?1 AND owner = ?2) RETURNING number
-- postgres instead: WITH held AS (SELECT 1 FROM prowess_queue WHERE thread = ?1 AND owner = ?2 FOR UPDATE) \
UPDATE prowess_inbox SET body = NULL WHERE thread = ?1 AND number = ?3 AND EXISTS (SELECT 1 FROM held) RETURNING number";

/// Lets a claimed thread rest, unless somebody posted.
///
/// The number of posts is in the row that goes: PostgreSQL compares it again after it waited for a post. It would not look
/// into another table again.
pub(crate) const REST: &str = "\
DELETE FROM prowess_queue WHERE thread = ?1 AND owner = ?2 AND posted = ?3 RETURNING thread";

/// Queues a claimed thread again, as if it had rested. No row means that the claim is lost.
pub(crate) const QUEUE_AGAIN: &str = concat!(
    "\
UPDATE prowess_queue SET
    owner = NULL, dead = NULL, until = prowess_now(), queued = prowess_now(), attempts = 0, failures = 0, lost = 0, had_turn = 0, place = ",
    place!(),
    "
WHERE thread = ?1 AND owner = ?2 RETURNING thread
-- postgres instead: UPDATE prowess_queue SET \
    owner = NULL, dead = NULL, until = prowess_now(), queued = prowess_now(), attempts = 0, failures = 0, lost = 0, had_turn = 0, \
    place = (SELECT line.place FROM prowess_line(?1) AS line) \
WHERE thread = ?1 AND owner = ?2 RETURNING thread"
);

/// What becomes of a thread whose attempt does not count.
macro_rules! given_back {
    () => {
        "\
UPDATE prowess_queue SET
    owner = NULL,
    until = prowess_now() + ?3,
    not_before = CASE WHEN ?3 > 0 AND dead IS NULL THEN prowess_now() + ?3 END,
    lost = 0,
    failures = CASE WHEN failures > 0 THEN failures - 1 ELSE 0 END
WHERE thread = ?1 AND owner = ?2"
    };
}

/// Ends a claim. The thread can be claimed after a delay. No row means that the claim is lost.
pub(crate) const GIVE_BACK: &str = concat!(given_back!(), " RETURNING thread");

/// The same, unless somebody posted or woke the thread.
pub(crate) const POSTPONE: &str = concat!(given_back!(), " AND posted = ?4 RETURNING thread");

/// Ends a claim whose attempt failed because of `?4`, and returns whether the thread is a dead letter: `?5` attempts made no
/// progress. No row means that the claim is lost.
pub(crate) const FAIL: &str = concat!(
    "\
UPDATE prowess_queue SET
    owner = NULL,
    until = prowess_now() + ?3,
    not_before = CASE WHEN ?3 > 0 AND NOT (",
    was_last!("?5"),
    ") THEN prowess_now() + ?3 END,
    lost = 0,
    problem = ?4,
    dead = CASE WHEN ",
    was_last!("?5"),
    " THEN COALESCE(dead, prowess_now()) END,
    failures = CASE WHEN ",
    has_progressed!("prowess_queue"),
    " THEN 0 ELSE failures END
WHERE thread = ?1 AND owner = ?2 RETURNING dead IS NOT NULL"
);

/// Forgets the attempts of a claimed thread that made no progress. No row means that the claim is lost.
pub(crate) const PROGRESSED: &str =
    "UPDATE prowess_queue SET failures = 0 WHERE thread = ?1 AND owner = ?2 RETURNING thread";

/// Queues a dead letter again. No row means that the thread is none, or that somebody has claimed it by its name.
pub(crate) const RETRY: &str = "\
UPDATE prowess_queue SET dead = NULL, failures = 0, until = prowess_now(), not_before = NULL, queued = prowess_now()
WHERE thread = ?1 AND dead IS NOT NULL AND owner IS NULL RETURNING thread";

/// Drops what was posted to a thread. The names stay.
pub(crate) const DROP_POSTS: &str =
    "UPDATE prowess_inbox SET body = NULL WHERE thread = ?1 AND body IS NOT NULL";

/// The threads in the queue, for those who look after a server.
pub(crate) const LIST: &str = concat!(
    "SELECT ",
    queued_thread!(),
    " FROM prowess_queue AS queue ORDER BY dead IS NULL, queued, thread LIMIT ?1
-- postgres instead: SELECT ",
    queued_thread!(),
    " FROM prowess_list_queue(?1) AS queue"
);

/// How full the queue is, if a user may have `?1` claims, and all together `?2`: threads that can be claimed, that wait for a delay or a
/// limit, that are claimed, dead letters, and for how long the first one that can be claimed has waited.
pub(crate) const NUMBERS: &str = concat!(
    "SELECT
    COUNT(CASE WHEN can = 1 THEN 1 END),
    COUNT(CASE WHEN can = 0 THEN 1 END),
    COUNT(CASE WHEN owner IS NOT NULL AND dead IS NULL THEN 1 END),
    COUNT(dead),
    COALESCE(prowess_now() - MIN(CASE WHEN can = 1 THEN until END), 0)
FROM (
    SELECT owner, dead, until, CASE WHEN owner IS NULL AND dead IS NULL THEN
        (not_before IS NULL OR NOT ",
    is_delayed!(),
    ")
        AND (SELECT COUNT(*) FROM prowess_queue AS held WHERE held.owner IS NOT NULL) < ?2
        AND belongs_to NOT IN (",
    full_users!(),
    ")
    END AS can
    FROM prowess_queue
)
-- postgres instead: SELECT queued, waiting, working, dead, COALESCE(prowess_now() - first, 0) FROM prowess_queue_numbers(?1, ?2)"
);

/// Whether a thread is queued (0), claimed (1) or a dead letter (2). No row means that it rests.
pub(crate) const QUEUE_STATE: &str =
    concat!("SELECT ", queue_state!(), " FROM prowess_queue AS queue WHERE queue.thread = ?1");

/// Removes a thread from the queue.
pub(crate) const UNQUEUE: &str = "DELETE FROM prowess_queue WHERE thread = ?1";

/// Removes the inbox of a thread.
pub(crate) const EMPTY_INBOX: &str = "DELETE FROM prowess_inbox WHERE thread = ?1";
