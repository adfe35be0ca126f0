-- The text is for both databases. A line that begins with `-- sqlite:` or `-- postgres:` is for that one alone.
-- Times are microseconds since 1970. Texts that others choose are bytes: no text of PostgreSQL holds a NUL.

-- The clock of the database. In SQLite every connection brings it along.
-- postgres: CREATE FUNCTION prowess_now() RETURNS BIGINT LANGUAGE SQL VOLATILE
-- postgres: AS 'SELECT (extract(epoch FROM clock_timestamp()) * 1000000)::BIGINT';

CREATE TABLE prowess_threads (
    id TEXT
    -- postgres: COLLATE "C"
    NOT NULL PRIMARY KEY,
    created BIGINT NOT NULL,
    changed BIGINT NOT NULL,
    -- How many events there are.
    events BIGINT NOT NULL,
    -- Which lease is the last one, whose it is, and until when. It has no owner once it is given back.
    epoch BIGINT NOT NULL,
    owner BYTEA,
    until BIGINT NOT NULL
)
-- sqlite: WITHOUT ROWID
;

CREATE INDEX prowess_threads_changed ON prowess_threads (changed DESC, id DESC);

CREATE TABLE prowess_events (
    thread TEXT
    -- postgres: COLLATE "C"
    NOT NULL REFERENCES prowess_threads (id) ON DELETE CASCADE,
    number BIGINT NOT NULL,
    stored BIGINT NOT NULL,
    version BIGINT NOT NULL,
    -- CRC-32 of all that is in the row, without the thread.
    checksum BIGINT NOT NULL,
    body BYTEA NOT NULL,
    PRIMARY KEY (thread, number)
);

-- Projects and approvals are found by their SHA-256: they are longer than what an index holds.
CREATE TABLE prowess_approvals (
    -- sqlite: place INTEGER NOT NULL PRIMARY KEY,
    -- postgres: place BIGINT NOT NULL PRIMARY KEY GENERATED ALWAYS AS IDENTITY,
    project BYTEA NOT NULL,
    digest BYTEA NOT NULL,
    body BYTEA NOT NULL,
    UNIQUE (project, digest)
);

-- How many versions were given of each name. It stays when they are removed.
CREATE TABLE prowess_artifact_names (
    name TEXT
    -- postgres: COLLATE "C"
    NOT NULL PRIMARY KEY,
    given BIGINT NOT NULL
);

CREATE TABLE prowess_artifacts (
    name TEXT
    -- postgres: COLLATE "C"
    NOT NULL,
    version BIGINT NOT NULL,
    checksum BIGINT NOT NULL,
    body BYTEA NOT NULL,
    PRIMARY KEY (name, version)
);
