//! The SQL of the queue of turns.

/// Notes that somebody posted to a thread, and queues it unless it is queued. A delay ends. Posts to one thread wait for each
/// other here.
pub(crate) const QUEUE: &str = "\
INSERT INTO prowess_queue AS queue (thread, posted, attempts, until) VALUES (?1, 1, 0, prowess_now())
ON CONFLICT (thread) DO UPDATE SET
    posted = queue.posted + 1,
    until = CASE WHEN queue.owner IS NULL AND queue.until > prowess_now() THEN prowess_now() ELSE queue.until END";

/// The same for a thread that rests. No row means that it does not rest.
pub(crate) const QUEUE_AT_REST: &str = "\
INSERT INTO prowess_queue (thread, posted, attempts, until) VALUES (?1, 1, 0, prowess_now())
ON CONFLICT (thread) DO NOTHING
RETURNING thread";

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

/// Whether a thread can be claimed.
pub(crate) const CAN_CLAIM: &str = concat!(
    "SELECT 1 FROM prowess_queue WHERE NOT ",
    lasts!(""),
    " LIMIT 1
-- postgres instead: SELECT 1 WHERE prowess_can_claim()"
);

/// Claims a thread. In PostgreSQL, workers pass over threads that others are about to claim.
pub(crate) const CLAIM: &str = concat!(
    "\
UPDATE prowess_queue SET owner = ?1, until = prowess_now() + ?2, attempts = attempts + 1
WHERE thread = (SELECT thread FROM prowess_queue WHERE NOT ",
    lasts!(""),
    " ORDER BY until, thread LIMIT 1)
RETURNING thread, attempts
-- postgres instead: SELECT thread, attempts FROM prowess_claim(?1, ?2)"
);

/// Claims one thread, whether it is queued or rests. No row means that another worker has it.
pub(crate) const CLAIM_THREAD: &str = concat!(
    "\
INSERT INTO prowess_queue AS queue (thread, posted, attempts, owner, until)
VALUES (?1, 0, 1, ?2, prowess_now() + ?3)
ON CONFLICT (thread) DO UPDATE SET owner = excluded.owner, until = excluded.until, attempts = queue.attempts + 1
WHERE ",
    is_free!("queue."),
    "
RETURNING thread, attempts"
);

/// Extends a claim. No row means that it is lost.
pub(crate) const KEEP: &str = "\
UPDATE prowess_queue SET until = prowess_now() + ?3 WHERE thread = ?1 AND owner = ?2 RETURNING thread";

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

/// A claim, which nobody takes before the transaction ends. No row means that it is lost.
pub(crate) const HOLD: &str = "\
SELECT posted FROM prowess_queue WHERE thread = ?1 AND owner = ?2
-- postgres: FOR UPDATE
";

/// Takes a post out of an inbox. Its name stays.
pub(crate) const TAKE: &str = "UPDATE prowess_inbox SET body = NULL WHERE thread = ?1 AND number = ?2";

/// Lets a claimed thread rest, unless somebody posted.
///
/// The number of posts is in the row that goes: PostgreSQL compares it again after it waited for a post. It would not look
/// into another table again.
pub(crate) const REST: &str = "\
DELETE FROM prowess_queue WHERE thread = ?1 AND owner = ?2 AND posted = ?3 RETURNING thread";

/// Queues a claimed thread again, as if it had rested. No row means that the claim is lost.
pub(crate) const QUEUE_AGAIN: &str = "\
UPDATE prowess_queue SET owner = NULL, until = prowess_now(), attempts = 0
WHERE thread = ?1 AND owner = ?2 RETURNING thread";

/// Ends a claim. The thread can be claimed after a delay. No row means that the claim is lost.
pub(crate) const GIVE_BACK: &str = "\
UPDATE prowess_queue SET owner = NULL, until = prowess_now() + ?3
WHERE thread = ?1 AND owner = ?2 RETURNING thread";

/// The same, unless somebody posted or woke the thread.
pub(crate) const POSTPONE: &str = "\
UPDATE prowess_queue SET owner = NULL, until = prowess_now() + ?3
WHERE thread = ?1 AND owner = ?2 AND posted = ?4 RETURNING thread";

/// Whether somebody has claimed a thread. No row means that it rests.
pub(crate) const QUEUE_STATE: &str =
    concat!("SELECT owner IS NOT NULL AND ", lasts!(""), " FROM prowess_queue WHERE thread = ?1");

/// Removes a thread from the queue.
pub(crate) const UNQUEUE: &str = "DELETE FROM prowess_queue WHERE thread = ?1";

/// Removes the inbox of a thread.
pub(crate) const EMPTY_INBOX: &str = "DELETE FROM prowess_inbox WHERE thread = ?1";
