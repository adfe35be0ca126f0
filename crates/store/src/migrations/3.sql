-- The queue of turns: which threads have work to do, and what people posted to threads.

CREATE TABLE prowess_queue (
    thread TEXT
    -- postgres: COLLATE "C"
    NOT NULL PRIMARY KEY,
    -- How often somebody posted since the thread was queued. A post changes this row, so that nobody overlooks the post.
    posted BIGINT NOT NULL,
    attempts BIGINT NOT NULL,
    -- Who claimed the thread.
    owner BYTEA,
    -- Until then nobody else can claim it: the claim lasts, or the thread was given back with a delay.
    until BIGINT NOT NULL
)
-- sqlite: WITHOUT ROWID
;

CREATE INDEX prowess_queue_until ON prowess_queue (until, thread);

CREATE TABLE prowess_inbox (
    thread TEXT
    -- postgres: COLLATE "C"
    NOT NULL,
    number BIGINT NOT NULL,
    -- The SHA-256 of the post's name.
    name BYTEA NOT NULL,
    -- CRC-32 of the body.
    checksum BIGINT NOT NULL,
    -- NULL once the post was taken. The row stays, so that the name is taken once.
    body BYTEA,
    PRIMARY KEY (thread, number),
    UNIQUE (thread, name)
);

-- What was posted to a thread goes with the thread.
-- sqlite: CREATE TRIGGER prowess_forget_posts AFTER DELETE ON prowess_threads BEGIN
-- sqlite:     DELETE FROM prowess_queue WHERE thread = OLD.id;
-- sqlite:     DELETE FROM prowess_inbox WHERE thread = OLD.id;
-- sqlite: END;
-- postgres: CREATE FUNCTION prowess_forget_posts() RETURNS TRIGGER LANGUAGE plpgsql SET search_path FROM CURRENT AS $$
-- postgres: BEGIN
-- postgres:     DELETE FROM prowess_queue WHERE thread = OLD.id;
-- postgres:     DELETE FROM prowess_inbox WHERE thread = OLD.id;
-- postgres:     RETURN NULL;
-- postgres: END $$;
-- postgres: CREATE TRIGGER prowess_forget_posts AFTER DELETE ON prowess_threads
-- postgres: FOR EACH ROW EXECUTE FUNCTION prowess_forget_posts();
