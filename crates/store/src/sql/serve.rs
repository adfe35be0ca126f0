//! The SQL of users, access tokens, their threads and the audit log. Every statement about a thread names its owner, except
//! those that only workers run.

use super::queue::queue_state;

/// Whether a token has not expired.
macro_rules! is_valid {
    ($token:literal) => {
        concat!("(", $token, "expires IS NULL OR ", $token, "expires > prowess_now())")
    };
}

/// The columns of a user.
macro_rules! user {
    ($person:literal) => {
        concat!(
            $person,
            "id, ",
            $person,
            "name, ",
            $person,
            "is_admin, ",
            $person,
            "is_disabled, ",
            $person,
            "created, ",
            $person,
            "daily_tokens, ",
            $person,
            "daily_micro_dollars"
        )
    };
}

/// The columns of a token, without its digest.
macro_rules! token {
    ($token:literal) => {
        concat!(
            $token,
            "id, ",
            $token,
            "owner, ",
            $token,
            "kind, ",
            $token,
            "name, ",
            $token,
            "scopes, ",
            $token,
            "created, ",
            $token,
            "expires, ",
            $token,
            "used"
        )
    };
}

/// The columns of an owned thread, without the text that a search looks in.
macro_rules! thread {
    () => {
        "thread, owner, agent, title, created, changed, events, questions, tokens, cost"
    };
}

/// The state of a thread of a list in the queue. NULL: it rests.
macro_rules! state_in_queue {
    () => {
        concat!(
            "(SELECT ",
            queue_state!(),
            " FROM prowess_queue AS queue WHERE queue.thread = prowess_owned_threads.thread)"
        )
    };
}

/// Ends the delay of a user's queued threads. A worker that has one now looks at it again before it rests.
pub(crate) const WAKE_USER: &str = "\
UPDATE prowess_queue SET
    posted = posted + 1, until = CASE WHEN owner IS NULL THEN prowess_now() ELSE until END, not_before = NULL
WHERE (owner IS NOT NULL OR not_before IS NOT NULL)
    AND thread IN (SELECT thread FROM prowess_owned_threads AS owned WHERE owned.owner = ?1)";

/// Adds a user. No row means that the name is taken.
pub(crate) const ADD_USER: &str = concat!(
    "\
INSERT INTO prowess_users (id, name, is_admin, is_disabled, created) VALUES (?1, ?2, ?3, 0, prowess_now())
ON CONFLICT (name) DO NOTHING RETURNING ",
    user!(""),
    "
-- postgres instead: SELECT ",
    user!(""),
    " FROM prowess_add_user(?1, ?2, ?3)"
);

/// All users.
pub(crate) const USERS: &str = concat!(
    "SELECT ",
    user!(""),
    " FROM prowess_users ORDER BY created, id
-- postgres instead: SELECT ",
    user!(""),
    " FROM prowess_all_users() ORDER BY created, id"
);

/// The user with an id or a name. No name looks like an id.
pub(crate) const USER: &str = concat!(
    "SELECT ",
    user!(""),
    " FROM prowess_users WHERE id = ?1 OR name = ?2
-- postgres instead: SELECT ",
    user!(""),
    " FROM prowess_all_users() WHERE id = ?1 OR name = ?2"
);

/// Disables or enables a user.
pub(crate) const DISABLE: &str = "\
UPDATE prowess_users SET is_disabled = ?2 WHERE id = ?1 RETURNING id
-- postgres instead: SELECT id FROM prowess_disable_user(?1, ?2) AS id";

/// Sets how much a user may use in a day.
pub(crate) const LIMIT: &str = "\
UPDATE prowess_users SET daily_tokens = ?2, daily_micro_dollars = ?3 WHERE id = ?1 RETURNING id
-- postgres instead: SELECT id FROM prowess_limit_user(?1, ?2, ?3) AS id";

/// Whether there is a user.
pub(crate) const HAS_USER: &str = "SELECT id FROM prowess_users WHERE id = ?1";

/// Removes the tokens of a user that have expired.
pub(crate) const REMOVE_EXPIRED: &str =
    "DELETE FROM prowess_tokens WHERE owner = ?1 AND expires <= prowess_now()";

/// Adds a token. No row means that another token has its digest.
pub(crate) const ADD_TOKEN: &str = concat!(
    "\
INSERT INTO prowess_tokens (id, owner, kind, name, scopes, digest, created, expires)
VALUES (?1, ?2, ?3, ?4, ?5, ?6, prowess_now(), prowess_now() + ?7)
ON CONFLICT (digest) DO NOTHING RETURNING ",
    token!("")
);

/// Whose token or session this is.
pub(crate) const WHO: &str = concat!(
    "SELECT ",
    user!("person."),
    ", ",
    token!("token."),
    "
FROM prowess_tokens AS token JOIN prowess_users AS person ON person.id = token.owner
WHERE token.digest = ?1 AND token.kind IN ('token', 'session') AND person.is_disabled = 0 AND ",
    is_valid!("token.")
);

/// Whose login or link this is. `?2` is its kind.
pub(crate) const LOGIN: &str = concat!(
    "SELECT ",
    user!("person."),
    "
FROM prowess_tokens AS token JOIN prowess_users AS person ON person.id = token.owner
WHERE token.digest = ?1 AND token.kind = ?2 AND person.is_disabled = 0 AND ",
    is_valid!("token.")
);

/// Uses a login or a link up. No row means that somebody used it.
pub(crate) const USE_UP_LOGIN: &str =
    "DELETE FROM prowess_tokens WHERE digest = ?1 AND kind = ?2 RETURNING id";

/// The columns of an identity.
macro_rules! identity {
    () => {
        "id, owner, issuer, subject, created, used"
    };
}

/// Links a person of an issuer to a user. No row means that the person is linked already.
pub(crate) const ADD_IDENTITY: &str = concat!(
    "\
INSERT INTO prowess_identities (id, owner, issuer, subject, created)
VALUES (?1, ?2, ?3, ?4, prowess_now())
ON CONFLICT (issuer, subject) DO NOTHING RETURNING ",
    identity!()
);

/// To whom a person of an issuer is linked.
pub(crate) const IDENTITY: &str = concat!(
    "SELECT ",
    user!("person."),
    "
FROM prowess_identities AS identity JOIN prowess_users AS person ON person.id = identity.owner
WHERE identity.issuer = ?1 AND identity.subject = ?2"
);

/// Notes that a person of an issuer signed in.
pub(crate) const USE_IDENTITY: &str =
    "UPDATE prowess_identities SET used = prowess_now() WHERE issuer = ?1 AND subject = ?2";

/// The identities of a user.
pub(crate) const IDENTITIES: &str =
    concat!("SELECT ", identity!(), " FROM prowess_identities WHERE owner = ?1 ORDER BY id");

/// Removes an identity of a user.
pub(crate) const REMOVE_IDENTITY: &str =
    "DELETE FROM prowess_identities WHERE owner = ?1 AND id = ?2 RETURNING id";

/// The tokens and sessions of a user.
pub(crate) const TOKENS: &str = concat!(
    "SELECT ",
    token!(""),
    " FROM prowess_tokens WHERE owner = ?1 AND kind IN ('token', 'session') AND ",
    is_valid!(""),
    " ORDER BY id"
);

/// Removes a token of a user.
pub(crate) const REVOKE: &str = "DELETE FROM prowess_tokens WHERE owner = ?1 AND id = ?2 RETURNING id";

/// Whether a use of a token is worth noting: the last one was noted more than a minute ago.
macro_rules! is_noteworthy {
    () => {
        "id = ?1 AND (used IS NULL OR used < prowess_now() - 60000000)"
    };
}

/// Whether to note the use of a token.
pub(crate) const NOTES_USE: &str = concat!("SELECT id FROM prowess_tokens WHERE ", is_noteworthy!());

/// Notes the use of a token.
pub(crate) const NOTE_USE: &str =
    concat!("UPDATE prowess_tokens SET used = prowess_now() WHERE ", is_noteworthy!());

/// Gives a new thread to a user. No row means that the thread is somebody's, that it has events, or that there is no such
/// user.
pub(crate) const CREATE: &str = concat!(
    "\
INSERT INTO prowess_owned_threads (
    thread, owner, agent, title, created, changed, events, waiting, questions, tokens, found_title, found_text
)
SELECT ?1, person.id, ?3, ?4, prowess_now(), prowess_now(), 0, 0, ?5, 0, ?6, ''
FROM prowess_users AS person
WHERE person.id = ?2 AND NOT EXISTS (SELECT 1 FROM prowess_threads AS known WHERE known.id = ?1)
    -- postgres: AND prowess_thread_owner(?1) IS NULL
ON CONFLICT (thread) DO NOTHING RETURNING ",
    thread!()
);

/// A thread of a user.
pub(crate) const GET: &str =
    concat!("SELECT ", thread!(), " FROM prowess_owned_threads WHERE owner = ?1 AND thread = ?2");

/// How many threads a user has.
pub(crate) const COUNT: &str = "SELECT COUNT(*) FROM prowess_owned_threads WHERE owner = ?1";

/// A thread and its owner, for workers.
pub(crate) const OWNED: &str = concat!("SELECT ", thread!(), " FROM prowess_owned_threads WHERE thread = ?1");

/// The threads of a user that changed before (`?2`, `?3`), last change first.
pub(crate) const LIST: &str = concat!(
    "SELECT ",
    thread!(),
    ", ",
    state_in_queue!(),
    " FROM prowess_owned_threads
WHERE owner = ?1 AND (changed, thread) < (?2, ?3)
ORDER BY changed DESC, thread DESC LIMIT ?4"
);

/// The same, with letters that the title or the text must have. It is one line, as SQLite's comment about PostgreSQL must be.
macro_rules! search {
    ($has_letters:literal) => {
        concat!(
            "SELECT ",
            thread!(),
            ", ",
            state_in_queue!(),
            " FROM prowess_owned_threads WHERE owner = ?1 AND (changed, thread) < (?2, ?3) AND (",
            $has_letters,
            ") ORDER BY changed DESC, thread DESC LIMIT ?4"
        )
    };
}

/// See [`LIST`]. The letters are no pattern.
pub(crate) const SEARCH: &str = concat!(
    search!("prowess_has(found_title, ?5) OR prowess_has(found_text, ?5)"),
    "
-- postgres instead: ",
    search!("strpos(found_title, ?5) > 0 OR strpos(found_text, ?5) > 0")
);

/// How many posts wait in the threads of a user. SQLite keeps the order of the join: few posts wait.
///
/// Returns how many there are, and how many of them begin with `?2`.
pub(crate) const POSTS: &str = "\
SELECT COUNT(*), COUNT(CASE WHEN substr(inbox.body, 1, length(?2)) = ?2 THEN 1 END)
FROM prowess_inbox AS inbox CROSS JOIN prowess_owned_threads AS owned
WHERE inbox.body IS NOT NULL AND owned.thread = inbox.thread AND owned.owner = ?1";

/// The threads of a user with open questions, last change first.
pub(crate) const WAITING: &str = concat!(
    "SELECT ",
    thread!(),
    " FROM prowess_owned_threads WHERE owner = ?1 AND waiting > 0 ORDER BY changed DESC, thread DESC"
);

/// Renames a thread of a user.
pub(crate) const RENAME: &str = "\
UPDATE prowess_owned_threads SET title = ?3, found_title = ?4 WHERE owner = ?1 AND thread = ?2 RETURNING thread";

/// Gives a thread a title, unless somebody gave it one meanwhile.
pub(crate) const GIVE_TITLE: &str = "\
UPDATE prowess_owned_threads SET title = ?3, found_title = ?4
WHERE owner = ?1 AND thread = ?2 AND found_title = ''";

/// Stores what lists show of a thread, for workers. A summary of fewer events than the last one is late, and dropped.
pub(crate) const SUMMARISE: &str = "\
UPDATE prowess_owned_threads SET
    events = ?2, waiting = ?3, questions = ?4, tokens = ?5, cost = ?6, found_text = ?7,
    window_use = COALESCE(?8, window_use),
    changed = CASE WHEN changed < prowess_now() THEN prowess_now() ELSE changed END
WHERE thread = ?1 AND events <= ?2";

/// What fills the context window of a thread.
pub(crate) const WINDOW_USE: &str = "SELECT window_use FROM prowess_owned_threads WHERE owner = ?1 AND thread = ?2 AND window_use IS NOT NULL";

/// Whether a thread has no events and no lease.
pub(crate) const IS_GONE: &str = "SELECT 1 WHERE NOT EXISTS (SELECT 1 FROM prowess_threads WHERE id = ?1)";

/// Forgets whose a thread is.
pub(crate) const DISOWN: &str = "DELETE FROM prowess_owned_threads WHERE owner = ?1 AND thread = ?2";

/// Notes that an event of a thread is counted. No row means that it was, or that there is no such thread.
pub(crate) const COUNT_EVENT: &str =
    "UPDATE prowess_threads SET counted = ?2 WHERE id = ?1 AND counted < ?2 RETURNING id";

/// Up to which event a thread is counted.
pub(crate) const COUNTED: &str = "SELECT counted FROM prowess_threads WHERE id = ?1";

/// Adds to what a user used today.
pub(crate) const NOTE_USAGE: &str = "\
INSERT INTO prowess_usage AS known (owner, day, tokens, micro_dollars)
SELECT id, prowess_now() / 86400000000, ?2, ?3 FROM prowess_users WHERE id = ?1
ON CONFLICT (owner, day) DO UPDATE SET
    tokens = known.tokens + excluded.tokens,
    micro_dollars = known.micro_dollars + excluded.micro_dollars";

/// Adds to what a user used today, unless the event `?4` of the thread `?5` is counted. No row means that it is.
#[cfg(feature = "postgres")]
pub(crate) const NOTE_USAGE_OF_EVENT: &str = "\
WITH new AS (UPDATE prowess_threads SET counted = ?4 WHERE id = ?5 AND counted < ?4 RETURNING id)
INSERT INTO prowess_usage AS known (owner, day, tokens, micro_dollars)
SELECT id, prowess_now() / 86400000000, ?2, ?3 FROM prowess_users WHERE id = ?1 AND EXISTS (SELECT 1 FROM new)
ON CONFLICT (owner, day) DO UPDATE SET
    tokens = known.tokens + excluded.tokens,
    micro_dollars = known.micro_dollars + excluded.micro_dollars
RETURNING owner";

/// What a user used today, and in all.
pub(crate) const USAGE: &str = "\
SELECT
    CAST(COALESCE(SUM(CASE WHEN day = prowess_now() / 86400000000 THEN tokens END), 0) AS BIGINT),
    CAST(COALESCE(SUM(CASE WHEN day = prowess_now() / 86400000000 THEN micro_dollars END), 0) AS BIGINT),
    CAST(COALESCE(SUM(tokens), 0) AS BIGINT),
    CAST(COALESCE(SUM(micro_dollars), 0) AS BIGINT)
FROM prowess_usage WHERE owner = ?1";

/// The columns of a user's own skill.
macro_rules! own_skill {
    () => {
        "owner, digest, name, description, files, bytes, uploaded, trusted, trusted_by, by_admin"
    };
}

/// Removes the uploads of a name that nobody trusts, except one digest.
pub(crate) const REPLACE_OWN_SKILL: &str = "\
DELETE FROM prowess_own_skills WHERE owner = ?1 AND name = ?2 AND digest <> ?3 AND trusted IS NULL RETURNING digest";

/// Adds an own skill, which nobody trusts yet. No row means that the user has too many, or that there is no such user.
pub(crate) const ADD_OWN_SKILL: &str = concat!(
    "\
INSERT INTO prowess_own_skills (owner, digest, name, description, files, bytes, uploaded, by_admin)
SELECT person.id, ?2, ?3, ?4, ?5, ?6, prowess_now(), 0 FROM prowess_users AS person
WHERE person.id = ?1
    AND (SELECT COUNT(*) FROM prowess_own_skills WHERE owner = ?1) < ?7
    AND (SELECT CAST(COALESCE(SUM(bytes), 0) AS BIGINT) FROM prowess_own_skills WHERE owner = ?1) + ?6 <= ?8
ON CONFLICT (owner, digest) DO UPDATE SET name = excluded.name RETURNING ",
    own_skill!()
);

/// The own skills of a user.
pub(crate) const OWN_SKILLS: &str = concat!(
    "SELECT ",
    own_skill!(),
    " FROM prowess_own_skills WHERE owner = ?1 ORDER BY name, uploaded, digest"
);

/// The own skills of all users that wait for an administrator, for administrators.
pub(crate) const WAITING_SKILLS: &str = concat!(
    "SELECT ",
    own_skill!(),
    " FROM prowess_own_skills WHERE trusted IS NULL OR by_admin = 0 ORDER BY uploaded, owner, digest LIMIT ?1
-- postgres instead: SELECT ",
    own_skill!(),
    " FROM prowess_waiting_skills(?1)"
);

/// Trusts a digest of a user. No row means that the user has no such skill.
pub(crate) const TRUST_OWN_SKILL: &str = "\
UPDATE prowess_own_skills SET trusted = prowess_now(), trusted_by = ?3, by_admin = ?4
WHERE owner = ?1 AND digest = ?2 RETURNING digest";

/// Removes the trusted versions that a newly trusted one replaces.
pub(crate) const REPLACE_TRUSTED: &str = "\
DELETE FROM prowess_own_skills
WHERE owner = ?1 AND digest <> ?2 AND trusted IS NOT NULL
    AND name = (SELECT name FROM prowess_own_skills WHERE owner = ?1 AND digest = ?2)
RETURNING digest";

/// Trusts a digest no more.
pub(crate) const DISTRUST_OWN_SKILL: &str = "\
UPDATE prowess_own_skills SET trusted = NULL, trusted_by = NULL, by_admin = 0
WHERE owner = ?1 AND digest = ?2 RETURNING digest";

/// Removes an own skill.
pub(crate) const REMOVE_OWN_SKILL: &str =
    "DELETE FROM prowess_own_skills WHERE owner = ?1 AND digest = ?2 RETURNING digest";

/// Adds an entry to the audit log.
pub(crate) const NOTE: &str = "\
INSERT INTO prowess_audit (noted, person, action, thread, detail) VALUES (prowess_now(), ?1, ?2, ?3, ?4)";

/// The entries of the audit log before `?1`, last one first.
pub(crate) const AUDIT: &str = "\
SELECT number, noted, person, action, thread, detail FROM prowess_audit
WHERE number < ?1 ORDER BY number DESC LIMIT ?2
-- postgres instead: SELECT number, noted, person, action, thread, detail FROM prowess_list_audit(?1, ?2)";

/// Notes that a process is there. Returns whether it should stop.
pub(crate) const SEEN: &str = "\
INSERT INTO prowess_processes AS known (id, role, host, pid, version, files, started, seen, drains)
VALUES (?1, ?2, ?3, ?4, ?5, ?6, prowess_now(), prowess_now(), 0)
ON CONFLICT (id) DO UPDATE SET seen = prowess_now()
RETURNING drains";

/// Forgets a process, and those that were not seen for a day.
pub(crate) const GONE: &str =
    "DELETE FROM prowess_processes WHERE id = ?1 OR seen < prowess_now() - 86400000000";

/// The processes that were seen in this time.
pub(crate) const PROCESSES: &str = "\
SELECT id, role, host, pid, version, files, started, seen, drains FROM prowess_processes
WHERE seen > prowess_now() - ?1 ORDER BY started, id";

/// Orders all processes to stop.
pub(crate) const DRAIN: &str =
    "UPDATE prowess_processes SET drains = 1 WHERE seen > prowess_now() - ?1 RETURNING id";

/// The same for the processes of a host.
pub(crate) const DRAIN_HOST: &str = "\
UPDATE prowess_processes SET drains = 1 WHERE seen > prowess_now() - ?1 AND host = ?2 RETURNING id";
