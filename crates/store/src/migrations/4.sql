-- Users of a server, their access tokens, their threads and their usage, and the audit log.
-- Names and titles that people choose are bytes: no text of PostgreSQL holds a NUL.

CREATE TABLE prowess_users (
    id TEXT
    -- postgres: COLLATE "C"
    NOT NULL PRIMARY KEY,
    name BYTEA NOT NULL UNIQUE,
    is_admin BIGINT NOT NULL,
    is_disabled BIGINT NOT NULL,
    created BIGINT NOT NULL
);

CREATE TABLE prowess_tokens (
    id TEXT
    -- postgres: COLLATE "C"
    NOT NULL PRIMARY KEY,
    owner TEXT
    -- postgres: COLLATE "C"
    NOT NULL REFERENCES prowess_users (id) ON DELETE CASCADE,
    kind TEXT NOT NULL,
    name BYTEA NOT NULL,
    scopes TEXT NOT NULL,
    -- The SHA-256 of the secret.
    digest BYTEA NOT NULL UNIQUE,
    created BIGINT NOT NULL,
    expires BIGINT,
    -- When it was last used, give or take a minute.
    used BIGINT
);

CREATE INDEX prowess_tokens_owner ON prowess_tokens (owner, id);

CREATE TABLE prowess_owned_threads (
    thread TEXT
    -- postgres: COLLATE "C"
    NOT NULL PRIMARY KEY,
    owner TEXT
    -- postgres: COLLATE "C"
    NOT NULL REFERENCES prowess_users (id),
    agent BYTEA NOT NULL,
    title BYTEA NOT NULL,
    created BIGINT NOT NULL,
    changed BIGINT NOT NULL,
    -- The summary: how many events it covers, the open questions, and what the thread used.
    events BIGINT NOT NULL,
    waiting BIGINT NOT NULL,
    questions BYTEA NOT NULL,
    tokens BIGINT NOT NULL,
    cost TEXT,
    -- What a search looks in, in lower case.
    found_title TEXT NOT NULL,
    found_text TEXT NOT NULL
);

CREATE INDEX prowess_owned_threads_changed ON prowess_owned_threads (owner, changed DESC, thread DESC);

CREATE INDEX prowess_owned_threads_waiting ON prowess_owned_threads (owner) WHERE waiting > 0;

-- Who owned a thread is forgotten with the thread.
-- sqlite: CREATE TRIGGER prowess_forget_owner AFTER DELETE ON prowess_threads BEGIN
-- sqlite:     DELETE FROM prowess_owned_threads WHERE thread = OLD.id;
-- sqlite: END;
-- postgres: CREATE FUNCTION prowess_forget_owner() RETURNS TRIGGER LANGUAGE plpgsql SET search_path FROM CURRENT AS $$
-- postgres: BEGIN
-- postgres:     DELETE FROM prowess_owned_threads WHERE thread = OLD.id;
-- postgres:     RETURN NULL;
-- postgres: END $$;
-- postgres: CREATE TRIGGER prowess_forget_owner AFTER DELETE ON prowess_threads
-- postgres: FOR EACH ROW EXECUTE FUNCTION prowess_forget_owner();

CREATE TABLE prowess_usage (
    owner TEXT
    -- postgres: COLLATE "C"
    NOT NULL REFERENCES prowess_users (id) ON DELETE CASCADE,
    -- Days since 1970, in UTC.
    day BIGINT NOT NULL,
    tokens BIGINT NOT NULL,
    micro_dollars BIGINT NOT NULL,
    PRIMARY KEY (owner, day)
);

CREATE TABLE prowess_audit (
    -- sqlite: number INTEGER NOT NULL PRIMARY KEY AUTOINCREMENT,
    -- postgres: number BIGINT NOT NULL PRIMARY KEY GENERATED ALWAYS AS IDENTITY,
    noted BIGINT NOT NULL,
    person TEXT NOT NULL,
    action TEXT NOT NULL,
    thread TEXT,
    detail BYTEA NOT NULL
);
