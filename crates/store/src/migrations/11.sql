-- Only for PostgreSQL.
--
-- What workers do with the queue of all users.

-- Whose a thread is, and its place in the line: behind the user's other threads, and not before the next one.
CREATE FUNCTION prowess_line(TEXT) RETURNS TABLE (belongs_to TEXT, place BIGINT)
LANGUAGE sql STABLE SECURITY DEFINER AS $$
    SELECT known.person, GREATEST(
        (SELECT MAX(own.place) + 1 FROM prowess_queue AS own WHERE own.belongs_to = known.person),
        COALESCE(
            (
                SELECT next.place FROM prowess_queue AS next WHERE next.owner IS NULL AND next.dead IS NULL
                ORDER BY next.place - 100 * next.priority, next.until, next.thread LIMIT 1
            ),
            (SELECT MAX(held.place) FROM prowess_queue AS held WHERE held.owner IS NOT NULL),
            0
        )
    )
    FROM (SELECT COALESCE(prowess_thread_owner($1), '') AS person) AS known
$$;

-- Ends the claims of workers that vanished: both the claim and the lease have run out.
CREATE FUNCTION prowess_lose_claims(problem BYTEA, most_failures BIGINT) RETURNS VOID
LANGUAGE sql VOLATILE SECURITY DEFINER AS $$
    UPDATE prowess_queue AS queue SET
        owner = NULL,
        lost = 1,
        failures = CASE WHEN known.answered > queue.answered THEN 0 ELSE queue.failures END,
        dead = CASE
            WHEN queue.failures >= $2 AND NOT COALESCE(known.answered > queue.answered, false) THEN prowess_now()
        END,
        problem = CASE
            WHEN queue.failures >= $2 AND NOT COALESCE(known.answered > queue.answered, false) THEN $1
            ELSE queue.problem
        END
    FROM (
        SELECT expired.thread FROM prowess_queue AS expired
        WHERE expired.owner IS NOT NULL
            AND NOT expired.until BETWEEN prowess_now() + 1 AND prowess_now() + 86400000000
        ORDER BY expired.until LIMIT 100
        FOR UPDATE SKIP LOCKED
    ) AS expired
    LEFT JOIN prowess_threads AS known ON known.id = expired.thread
    WHERE queue.thread = expired.thread
        AND (
            known.owner IS NULL
            OR NOT known.until BETWEEN prowess_now() + 1 AND prowess_now() + 86400000000
        )
$$;

DROP FUNCTION prowess_can_claim();
DROP FUNCTION prowess_claim(BYTEA, BIGINT);

-- Claims the next thread, and takes its lease. Limits of users are exact: workers that claim for the same user wait for each
-- other.
CREATE FUNCTION prowess_claim(new_owner BYTEA, lasts BIGINT, per_user BIGINT, in_all BIGINT, why BYTEA, most_failures BIGINT)
RETURNS TABLE (claimed TEXT, attempt BIGINT, takes_over BIGINT, lease BIGINT)
LANGUAGE plpgsql VOLATILE SECURITY DEFINER AS $$
DECLARE
    one RECORD;
    full_users TEXT[] := '{}';
    is_locked BOOLEAN := false;
    epoch_now BIGINT;
BEGIN
    IF EXISTS (
        SELECT 1 FROM prowess_queue AS held
        WHERE held.owner IS NOT NULL AND NOT held.until BETWEEN prowess_now() + 1 AND prowess_now() + 86400000000
    ) THEN
        PERFORM prowess_lose_claims(why, most_failures);
    END IF;
    IF in_all < 9223372036854775807 THEN
        PERFORM pg_advisory_xact_lock(1886547831, 'prowess_queue'::REGCLASS::OID::INT4);
        IF (SELECT COUNT(*) FROM prowess_queue AS held WHERE held.owner IS NOT NULL) >= in_all THEN
            RETURN;
        END IF;
    END IF;
    FOR one IN
        SELECT queue.thread, queue.belongs_to FROM prowess_queue AS queue
        WHERE queue.owner IS NULL AND queue.dead IS NULL
            AND NOT queue.until BETWEEN prowess_now() + 1 AND prowess_now() + 86400000000
        ORDER BY queue.place - 100 * queue.priority, queue.until, queue.thread
    LOOP
        CONTINUE WHEN one.belongs_to = ANY (full_users);
        IF one.belongs_to <> '' AND per_user < 9223372036854775807 THEN
            IF (
                SELECT COUNT(*) FROM prowess_queue AS held WHERE held.belongs_to = one.belongs_to AND held.owner IS NOT NULL
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
                SELECT COUNT(*) FROM prowess_queue AS held WHERE held.belongs_to = one.belongs_to AND held.owner IS NOT NULL
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
END $$;

-- For those who look after a server.
CREATE FUNCTION prowess_list_queue(BIGINT) RETURNS SETOF prowess_queue LANGUAGE sql STABLE SECURITY DEFINER AS $$
    SELECT * FROM prowess_queue ORDER BY dead IS NULL, queued, thread LIMIT $1
$$;
CREATE FUNCTION prowess_queue_numbers()
RETURNS TABLE (queued BIGINT, waiting BIGINT, working BIGINT, dead BIGINT, first BIGINT)
LANGUAGE sql STABLE SECURITY DEFINER AS $$
    SELECT
        COUNT(*) FILTER (WHERE queue.owner IS NULL AND queue.dead IS NULL AND queue.until <= prowess_now()),
        COUNT(*) FILTER (WHERE queue.owner IS NULL AND queue.dead IS NULL AND queue.until > prowess_now()),
        COUNT(*) FILTER (WHERE queue.owner IS NOT NULL),
        COUNT(*) FILTER (WHERE queue.dead IS NOT NULL),
        MIN(queue.until) FILTER (WHERE queue.owner IS NULL AND queue.dead IS NULL)
    FROM prowess_queue AS queue
$$;

DO $$
DECLARE
    one REGPROCEDURE;
BEGIN
    FOREACH one IN ARRAY ARRAY[
        'prowess_line(TEXT)', 'prowess_lose_claims(BYTEA, BIGINT)',
        'prowess_claim(BYTEA, BIGINT, BIGINT, BIGINT, BYTEA, BIGINT)', 'prowess_list_queue(BIGINT)',
        'prowess_queue_numbers()'
    ]::REGPROCEDURE[] LOOP
        EXECUTE format('ALTER FUNCTION %s SET search_path = %I, pg_temp', one, current_schema());
        EXECUTE format('REVOKE ALL ON FUNCTION %s FROM PUBLIC', one);
    END LOOP;
END $$;

-- Roles that could claim before can claim now.
DO $$
DECLARE
    served REGROLE;
BEGIN
    FOR served IN
        SELECT DISTINCT allowed.grantee::REGROLE FROM pg_proc AS known, aclexplode(known.proacl) AS allowed
        WHERE known.oid = 'prowess_all_users()'::REGPROCEDURE AND allowed.grantee <> known.proowner AND allowed.grantee <> 0
    LOOP
        EXECUTE format(
            'GRANT EXECUTE ON FUNCTION prowess_line(TEXT), prowess_claim(BYTEA, BIGINT, BIGINT, BIGINT, BYTEA, BIGINT),
                prowess_list_queue(BIGINT), prowess_queue_numbers() TO %s', served
        );
    END LOOP;
END $$;
