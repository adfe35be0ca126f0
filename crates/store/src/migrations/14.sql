-- Only for PostgreSQL.
--
-- A claim, and a post, take about the same time however long the queue is and however many threads are claimed.

-- Whether a thread is claimed. With `owner IS NOT NULL`, PostgreSQL may take any index of claimed threads, if statistics say that there
-- are none. No two of the indexes fit a condition on this column.
ALTER TABLE prowess_queue ADD COLUMN held BIGINT NOT NULL
    GENERATED ALWAYS AS (CASE WHEN owner IS NULL THEN 0 ELSE 1 END) STORED;
DROP INDEX prowess_queue_user;
CREATE INDEX prowess_queue_user ON prowess_queue (belongs_to, held, place);
CREATE INDEX prowess_queue_held_place ON prowess_queue (place) WHERE held = 1;

-- Whose a thread is, and its place in the line: behind the user's other threads, and not before the next one.
CREATE OR REPLACE FUNCTION prowess_line(TEXT) RETURNS TABLE (belongs_to TEXT, place BIGINT)
LANGUAGE sql STABLE SECURITY DEFINER AS $$
    SELECT known.person, GREATEST(
        (SELECT MAX(own.place) + 1 FROM prowess_queue AS own WHERE own.belongs_to = known.person AND own.held = 0),
        (SELECT MAX(own.place) + 1 FROM prowess_queue AS own WHERE own.belongs_to = known.person AND own.held = 1),
        COALESCE(
            (
                SELECT next.place FROM prowess_queue AS next WHERE next.owner IS NULL AND next.dead IS NULL
                ORDER BY next.place - 100 * next.priority, next.until, next.thread LIMIT 1
            ),
            (SELECT MAX(other.place) FROM prowess_queue AS other WHERE other.held = 1),
            0
        )
    )
    FROM (SELECT COALESCE(prowess_thread_owner($1), '') AS person) AS known
$$;

-- Claims the next thread, and takes its lease. Limits of users are exact: workers that claim for the same user wait for each
-- other.
--
-- No index helps with the time of a volatile function, so the time is read once. Without LIMIT, PostgreSQL would sort the whole
-- line for each claim. Its plan must not depend on statistics: a queue that was empty when they were made can be long now.
CREATE OR REPLACE FUNCTION prowess_claim(
    new_owner BYTEA, lasts BIGINT, per_user BIGINT, in_all BIGINT, why BYTEA, most_failures BIGINT
)
RETURNS TABLE (claimed TEXT, attempt BIGINT, takes_over BIGINT, lease BIGINT)
LANGUAGE plpgsql VOLATILE SECURITY DEFINER
SET enable_seqscan = off SET enable_bitmapscan = off SET enable_sort = off AS $$
DECLARE
    moment BIGINT := prowess_now();
    -- Nothing is delayed until after this.
    latest BIGINT := moment + 86400000000;
    one RECORD;
    -- What of the line was looked at: up to this rank, time and thread.
    last_rank BIGINT;
    last_until BIGINT;
    last_thread TEXT COLLATE "C";
    found_any BOOLEAN;
    full_users TEXT[] := '{}';
    is_locked BOOLEAN := false;
    epoch_now BIGINT;
BEGIN
    IF EXISTS (SELECT 1 FROM prowess_queue AS held WHERE held.owner IS NOT NULL AND held.until <= moment)
        OR EXISTS (SELECT 1 FROM prowess_queue AS held WHERE held.owner IS NOT NULL AND held.until > latest)
    THEN
        PERFORM prowess_lose_claims(why, most_failures);
    END IF;
    IF in_all < 9223372036854775807 THEN
        PERFORM pg_advisory_xact_lock(1886547831, 'prowess_queue'::REGCLASS::OID::INT4);
        IF (SELECT COUNT(*) FROM prowess_queue AS other WHERE other.held = 1) >= in_all THEN
            RETURN;
        END IF;
    END IF;
    -- Threads whose time has come, and then those with a time that was written while the clock was wrong.
    FOR is_wrong IN 0..1 LOOP
        last_rank := -9223372036854775808;
        last_until := -9223372036854775808;
        last_thread := '';
        LOOP
            found_any := false;
            FOR one IN
                SELECT queue.thread, queue.belongs_to, queue.until, queue.place - 100 * queue.priority AS rank
                FROM prowess_queue AS queue
                WHERE queue.owner IS NULL AND queue.dead IS NULL
                    AND queue.until > CASE WHEN is_wrong = 1 THEN latest ELSE -9223372036854775808 END
                    AND queue.until <= CASE WHEN is_wrong = 1 THEN 9223372036854775807 ELSE moment END
                    AND (queue.place - 100 * queue.priority, queue.until, queue.thread)
                        > (last_rank, last_until, last_thread)
                    AND queue.belongs_to <> ALL (full_users)
                ORDER BY queue.place - 100 * queue.priority, queue.until, queue.thread
                LIMIT 100
            LOOP
                found_any := true;
                last_rank := one.rank;
                last_until := one.until;
                last_thread := one.thread;
                CONTINUE WHEN one.belongs_to = ANY (full_users);
                IF one.belongs_to <> '' AND per_user < 9223372036854775807 THEN
                    IF (
                        SELECT COUNT(*) FROM prowess_queue AS own WHERE own.belongs_to = one.belongs_to AND own.held = 1
                    ) >= per_user THEN
                        full_users := full_users || one.belongs_to;
                        CONTINUE;
                    END IF;
                    -- Whoever has a lock waits for no other, so nobody waits in a circle.
                    IF NOT is_locked THEN
                        PERFORM pg_advisory_xact_lock('prowess_queue'::REGCLASS::OID::INT4, hashtext(one.belongs_to));
                        is_locked := true;
                    ELSIF NOT pg_try_advisory_xact_lock('prowess_queue'::REGCLASS::OID::INT4, hashtext(one.belongs_to)) THEN
                        CONTINUE;
                    END IF;
                    IF (
                        SELECT COUNT(*) FROM prowess_queue AS own WHERE own.belongs_to = one.belongs_to AND own.held = 1
                    ) >= per_user THEN
                        full_users := full_users || one.belongs_to;
                        CONTINUE;
                    END IF;
                END IF;
                PERFORM 1 FROM prowess_queue AS queue
                WHERE queue.thread = one.thread AND queue.owner IS NULL AND queue.dead IS NULL
                    AND NOT queue.until BETWEEN prowess_now() + 1 AND prowess_now() + 86400000000
                FOR UPDATE SKIP LOCKED;
                CONTINUE WHEN NOT FOUND;
                INSERT INTO prowess_threads AS known (id, created, changed, events, epoch, owner, until)
                VALUES (one.thread, prowess_now(), prowess_now(), 0, prowess_now(), new_owner, prowess_now() + lasts)
                ON CONFLICT (id) DO UPDATE SET
                    epoch = known.epoch + 1, owner = excluded.owner, until = excluded.until
                WHERE known.owner IS NULL OR NOT known.until BETWEEN prowess_now() + 1 AND prowess_now() + 86400000000
                RETURNING known.epoch INTO epoch_now;
                -- Somebody else works on the thread.
                CONTINUE WHEN NOT FOUND;
                RETURN QUERY
                UPDATE prowess_queue AS queue SET
                    owner = new_owner,
                    until = prowess_now() + lasts,
                    attempts = queue.attempts + 1,
                    failures = queue.failures + 1,
                    answered = (SELECT known.answered FROM prowess_threads AS known WHERE known.id = queue.thread)
                WHERE queue.thread = one.thread
                RETURNING queue.thread, queue.attempts, queue.lost, epoch_now;
                RETURN;
            END LOOP;
            EXIT WHEN NOT found_any;
        END LOOP;
    END LOOP;
END $$;

DO $$
DECLARE
    one REGPROCEDURE;
BEGIN
    FOREACH one IN ARRAY ARRAY[
        'prowess_line(TEXT)', 'prowess_claim(BYTEA, BIGINT, BIGINT, BIGINT, BYTEA, BIGINT)'
    ]::REGPROCEDURE[] LOOP
        EXECUTE format('ALTER FUNCTION %s SET search_path = %I, pg_temp', one, current_schema());
    END LOOP;
END $$;
