-- The queue for many processes: whose turn it is, attempts that made no progress, and dead letters.

ALTER TABLE prowess_queue ADD COLUMN belongs_to TEXT
    -- postgres: COLLATE "C"
    NOT NULL DEFAULT '';
-- The place in the line. Each thread of a user is one place behind the one before, so users take turns.
ALTER TABLE prowess_queue ADD COLUMN place BIGINT NOT NULL DEFAULT 0;
ALTER TABLE prowess_queue ADD COLUMN priority BIGINT NOT NULL DEFAULT 0;
ALTER TABLE prowess_queue ADD COLUMN queued BIGINT NOT NULL DEFAULT 0;
-- How many of the last attempts made no progress, and how many answers the log had when the last one began.
ALTER TABLE prowess_queue ADD COLUMN failures BIGINT NOT NULL DEFAULT 0;
ALTER TABLE prowess_queue ADD COLUMN answered BIGINT NOT NULL DEFAULT 0;
-- Since when it is a dead letter, and why.
ALTER TABLE prowess_queue ADD COLUMN dead BIGINT;
ALTER TABLE prowess_queue ADD COLUMN problem BYTEA;
-- Whether the last worker vanished.
ALTER TABLE prowess_queue ADD COLUMN lost BIGINT NOT NULL DEFAULT 0;

UPDATE prowess_queue SET
    queued = prowess_now(),
    belongs_to = COALESCE((SELECT owner FROM prowess_owned_threads AS owned WHERE owned.thread = prowess_queue.thread), '');

-- How many answers of models and tools the log has.
ALTER TABLE prowess_threads ADD COLUMN answered BIGINT NOT NULL DEFAULT 0;

DROP INDEX prowess_queue_until;
CREATE INDEX prowess_queue_line ON prowess_queue ((place - 100 * priority), until, thread)
    WHERE owner IS NULL AND dead IS NULL;
CREATE INDEX prowess_queue_held ON prowess_queue (until) WHERE owner IS NOT NULL;
CREATE INDEX prowess_queue_user ON prowess_queue (belongs_to, place);

-- The oldest version whose programs can use these tables, and the name of the channel on which processes tell each other what
-- happens. Nobody else knows the name.
-- postgres: ALTER TABLE prowess_schema ADD COLUMN works_with BIGINT NOT NULL DEFAULT 11;
-- postgres: ALTER TABLE prowess_schema ADD COLUMN channel TEXT NOT NULL DEFAULT replace(gen_random_uuid()::TEXT, '-', '');
