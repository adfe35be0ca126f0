//! The SQL statements of both databases. `?1` is the first parameter. A line that starts with `-- postgres:` is only for
//! PostgreSQL. What follows `-- postgres instead:` is the statement for PostgreSQL.
//!
//! Conditional writes carry their condition in the SQL, so that check and change are atomic.

/// Whether a lease has not expired. No lease is longer than [`crate::lease::MAX_LEASE`], so one that ends later was taken
/// while the clock was wrong, and counts as expired.
macro_rules! lasts {
    ($thread:literal) => {
        concat!($thread, "until BETWEEN prowess_now() + 1 AND prowess_now() + 86400000000")
    };
}

/// Whether nobody holds the lease of a thread.
macro_rules! is_free {
    ($thread:literal) => {
        concat!("(", $thread, "owner IS NULL OR NOT ", lasts!($thread), ")")
    };
}

#[cfg(feature = "postgres")]
pub(crate) mod acts_for;
pub(crate) mod queue;
#[cfg(feature = "serve")]
pub(crate) mod serve;

/// Limits the time of the rest of a transaction, in milliseconds.
#[cfg(all(feature = "postgres", feature = "serve"))]
pub(crate) const STATEMENT_TIMEOUT: &str = "SELECT set_config('statement_timeout', ?1, true)";

/// The secret part of the names of channels.
#[cfg(feature = "postgres")]
pub(crate) const CHANNEL: &str = "SELECT channel FROM prowess_schema";

/// Whether the database answers.
pub(crate) const PING: &str = "SELECT CAST(1 AS BIGINT)";

/// Takes a lease: of a new thread, of a free one, or again by the same owner. No row means that another owner has it.
///
/// An owner that takes its lease again keeps its epoch if nobody had the lease in between. The first epoch is the time, so
/// that no lease of a deleted thread is valid for a new thread with the same id.
pub(crate) const LEASE: &str = concat!(
    "\
INSERT INTO prowess_threads AS thread (id, created, changed, events, epoch, owner, until)
VALUES (?1, prowess_now(), prowess_now(), 0, prowess_now(), ?2, prowess_now() + ?3)
ON CONFLICT (id) DO UPDATE SET
    epoch = thread.epoch + CASE WHEN thread.owner = excluded.owner THEN 0 ELSE 1 END,
    owner = excluded.owner,
    until = excluded.until
WHERE thread.owner = excluded.owner OR ",
    is_free!("thread."),
    "
RETURNING epoch"
);

/// Releases a lease.
pub(crate) const RELEASE: &str = "\
UPDATE prowess_threads SET owner = NULL, until = 0 WHERE id = ?1 AND epoch = ?2 AND owner = ?3";

/// Reserves numbers for events.
///
/// An expired lease that nobody took is still valid, because its epoch is the last one. So the clock never decides whether
/// a writer may write. The lease is extended to at least `?6` from now.
macro_rules! extend {
    () => {
        concat!(
            "\
UPDATE prowess_threads SET
    events = events + ?5,
    answered = answered + ?7,
    changed = CASE WHEN changed < prowess_now() THEN prowess_now() ELSE changed END,
    until = CASE WHEN until > prowess_now() + ?6 AND ",
            lasts!(""),
            " THEN until ELSE prowess_now() + ?6 END
WHERE id = ?1 AND epoch = ?2 AND owner = ?3 AND events = ?4
RETURNING changed"
        )
    };
}

/// Reserves numbers for events, and returns the time. No row means refusal; [`STATE`] tells why.
pub(crate) const EXTEND: &str = extend!();

/// The same, and stores the events, in one statement: their numbers, versions, checksums and bodies are lists.
#[cfg(feature = "postgres")]
pub(crate) const APPEND: &str = concat!(
    "WITH extended AS (",
    extend!(),
    ")
INSERT INTO prowess_events (thread, number, stored, version, checksum, body)
SELECT ?1, event.number, extended.changed, event.version, event.checksum, event.body
FROM extended CROSS JOIN unnest(?8, ?9, ?10, ?11) AS event(number, version, checksum, body)
RETURNING number"
);

/// Stores an event.
pub(crate) const STORE_EVENT: &str = "\
INSERT INTO prowess_events (thread, number, stored, version, checksum, body) VALUES (?1, ?2, ?3, ?4, ?5, ?6)";

/// The state of a thread: its number of events, its epoch, its owner, and whether the lease has not expired.
pub(crate) const STATE: &str =
    concat!("SELECT events, epoch, owner, ", lasts!(""), " FROM prowess_threads WHERE id = ?1");

/// Events after `?2`, at most `?3`, each with the number of all events. One row without an event means that there are none.
pub(crate) const EVENTS: &str = "\
SELECT thread.events, event.number, event.stored, event.version, event.checksum, event.body
FROM prowess_threads AS thread
LEFT JOIN prowess_events AS event ON event.thread = thread.id AND event.number > ?2
WHERE thread.id = ?1
ORDER BY event.number LIMIT ?3";

/// The threads that changed last.
pub(crate) const LIST: &str = "\
SELECT id, events, created, changed FROM prowess_threads ORDER BY changed DESC, id DESC LIMIT ?1";

/// The threads that did not change for `?1` microseconds, oldest change first.
pub(crate) const LIST_OLD: &str = "\
SELECT id, events, created, changed FROM prowess_threads WHERE changed < prowess_now() - ?1
ORDER BY changed, id LIMIT ?2";

/// Makes the thread `?2` for `?3` events of `?1`, which are paid already. No row means that `?1` is missing or `?2` exists.
pub(crate) const FORK: &str = "\
INSERT INTO prowess_threads (id, created, changed, events, epoch, until, counted)
SELECT ?2, prowess_now(), prowess_now(), ?3, prowess_now(), 0, ?3
FROM prowess_threads WHERE id = ?1 AND events >= ?3
ON CONFLICT (id) DO NOTHING
-- postgres: RETURNING id";

/// Copies events.
pub(crate) const COPY_EVENTS: &str = "\
INSERT INTO prowess_events (thread, number, stored, version, checksum, body)
SELECT ?2, number, stored, version, checksum, body FROM prowess_events WHERE thread = ?1 AND number <= ?3
-- postgres instead: WITH copied AS (\
    INSERT INTO prowess_events (thread, number, stored, version, checksum, body) \
    SELECT ?2, number, stored, version, checksum, body FROM prowess_events WHERE thread = ?1 AND number <= ?3 \
    RETURNING number\
) SELECT COUNT(*) FROM copied";

/// Deletes a thread that nobody has leased, with its events.
pub(crate) const DELETE: &str = concat!("DELETE FROM prowess_threads WHERE id = ?1 AND ", is_free!(""));

/// The time now.
pub(crate) const NOW: &str = "SELECT prowess_now()";

/// The last thread that is kept, if `?1` threads are kept before it.
pub(crate) const LAST_KEPT: &str = "\
SELECT changed, id FROM prowess_threads ORDER BY changed DESC, id DESC LIMIT 1 OFFSET ?1
-- postgres instead: SELECT changed, id FROM prowess_last_kept(?1)";

/// Deletes at most `?3` threads that nobody has leased, that changed before (`?1`, `?2`), and that have no work to do.
///
/// The conditions appear twice in PostgreSQL: if somebody takes a lease meanwhile, it checks only those of the outer
/// statement again.
pub(crate) const PRUNE: &str = concat!(
    "\
DELETE FROM prowess_threads
WHERE id IN (
    SELECT id FROM prowess_threads
    WHERE (changed, id) < (?1, ?2) AND ",
    is_free!(""),
    "
        AND id NOT IN (SELECT thread FROM prowess_queue)
    ORDER BY changed, id LIMIT ?3
)
-- postgres instead: SELECT id FROM prowess_prune(?1, ?2, ?3) AS id"
);

/// Approvals of a project.
#[cfg(feature = "approvals")]
pub(crate) const APPROVALS: &str = "\
SELECT digest, body FROM prowess_approvals WHERE project = ?1 ORDER BY place";

/// Adds an approval, unless it exists.
#[cfg(feature = "approvals")]
pub(crate) const ADD_APPROVAL: &str = "\
INSERT INTO prowess_approvals (project, digest, body) VALUES (?1, ?2, ?3) ON CONFLICT (project, digest) DO NOTHING";

/// Removes an approval.
#[cfg(feature = "approvals")]
pub(crate) const REMOVE_APPROVAL: &str = "DELETE FROM prowess_approvals WHERE project = ?1 AND digest = ?2";

/// Returns the next version of an artifact. A number is never used twice.
#[cfg(feature = "artifacts")]
pub(crate) const NEXT_VERSION: &str = "\
INSERT INTO prowess_scoped_names (scope, name, given) VALUES (?1, ?2, 1)
ON CONFLICT (scope, name) DO UPDATE SET given = prowess_scoped_names.given + 1
RETURNING given - 1";

/// Takes a version of an artifact, unless it or a later one was used. `?3` is the number after it.
#[cfg(feature = "artifacts")]
pub(crate) const TAKE_VERSION: &str = "\
INSERT INTO prowess_scoped_names (scope, name, given) VALUES (?1, ?2, ?3)
ON CONFLICT (scope, name) DO UPDATE SET given = excluded.given
WHERE prowess_scoped_names.given < excluded.given
RETURNING given - 1";

/// Adds a version of an artifact.
#[cfg(feature = "artifacts")]
pub(crate) const ADD_VERSION: &str = "\
INSERT INTO prowess_scoped_artifacts (scope, name, version, checksum, body) VALUES (?1, ?2, ?3, ?4, ?5)";

/// One version of an artifact.
#[cfg(feature = "artifacts")]
pub(crate) const VERSION: &str = "\
SELECT name, version, checksum, body FROM prowess_scoped_artifacts
WHERE scope = ?1 AND name = ?2 AND version = ?3";

/// The latest version of an artifact.
#[cfg(feature = "artifacts")]
pub(crate) const LATEST: &str = "\
SELECT name, version, checksum, body FROM prowess_scoped_artifacts
WHERE scope = ?1 AND name = ?2 ORDER BY version DESC LIMIT 1";

/// Every version of an artifact.
#[cfg(feature = "artifacts")]
pub(crate) const VERSIONS: &str = "\
SELECT name, version, checksum, body FROM prowess_scoped_artifacts
WHERE scope = ?1 AND name = ?2 ORDER BY version";

/// The latest version of every artifact of a scope.
#[cfg(feature = "artifacts")]
pub(crate) const ARTIFACTS: &str = "\
SELECT name, version, checksum, body FROM prowess_scoped_artifacts AS one
WHERE scope = ?1 AND version = (
    SELECT MAX(version) FROM prowess_scoped_artifacts AS other
    WHERE other.scope = one.scope AND other.name = one.name
)";

/// Every scope of artifacts.
#[cfg(feature = "artifacts")]
pub(crate) const SCOPES: &str = "SELECT DISTINCT scope FROM prowess_scoped_names";

/// Removes an artifact.
#[cfg(feature = "artifacts")]
pub(crate) const REMOVE_ARTIFACT: &str = "\
DELETE FROM prowess_scoped_artifacts WHERE scope = ?1 AND name = ?2 RETURNING name, version, checksum, body";

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_longest_lease_is_the_one_that_is_given() {
        let most = crate::lease::micros(std::time::Duration::MAX);
        assert!(STATE.contains(&format!("prowess_now() + {most}")), "{STATE}");
    }
}
