-- Only for PostgreSQL.
--
-- A second wall between the users of a server: row-level security. A role that does not own the tables sees the rows of the
-- user in the setting `prowess.user`, and the threads that belong to nobody. What workers and admins do for all users are
-- the functions below. They run with the rights of the role that owns the tables.

-- Whose a thread is. NULL: nobody's, as are all threads of programs without users.
ALTER TABLE prowess_threads ADD COLUMN belongs_to TEXT COLLATE "C";

UPDATE prowess_threads SET belongs_to = known.owner FROM prowess_owned_threads AS known WHERE known.thread = id;

-- Whose a thread is. The thread of a sub-agent has no entry of its own, but belongs to the user for whom it was made.
CREATE FUNCTION prowess_thread_owner(TEXT) RETURNS TEXT LANGUAGE sql STABLE SECURITY DEFINER AS $$
    SELECT COALESCE(
        (SELECT owner FROM prowess_owned_threads WHERE thread = $1),
        (SELECT belongs_to FROM prowess_threads WHERE id = $1)
    )
$$;

-- Whether the user in the setting may use what belongs to a thread.
CREATE FUNCTION prowess_may_use(TEXT) RETURNS BOOLEAN LANGUAGE sql STABLE SECURITY DEFINER AS $$
    SELECT owner IS NULL OR owner = current_setting('prowess.user', true) FROM prowess_thread_owner($1) AS owner
$$;

-- Whose a token is, by its digest or its id.
CREATE FUNCTION prowess_token_owner(BYTEA) RETURNS TEXT LANGUAGE sql STABLE SECURITY DEFINER AS $$
    SELECT owner FROM prowess_tokens WHERE digest = $1
$$;
CREATE FUNCTION prowess_token_id_owner(TEXT) RETURNS TEXT LANGUAGE sql STABLE SECURITY DEFINER AS $$
    SELECT owner FROM prowess_tokens WHERE id = $1
$$;

-- A new thread belongs to its owner. Without an owner, it belongs to the user in the setting, as that of a sub-agent.
CREATE FUNCTION prowess_own_thread() RETURNS TRIGGER LANGUAGE plpgsql SECURITY DEFINER AS $$
BEGIN
    NEW.belongs_to := COALESCE(
        prowess_thread_owner(NEW.id), NEW.belongs_to, NULLIF(current_setting('prowess.user', true), '')
    );
    RETURN NEW;
END $$;
CREATE TRIGGER prowess_own_thread BEFORE INSERT ON prowess_threads
FOR EACH ROW EXECUTE FUNCTION prowess_own_thread();

ALTER FUNCTION prowess_forget_posts() SECURITY DEFINER;
ALTER FUNCTION prowess_forget_owner() SECURITY DEFINER;

-- For workers: the claim of a thread.
CREATE FUNCTION prowess_can_claim() RETURNS BOOLEAN LANGUAGE sql VOLATILE SECURITY DEFINER AS $$
    SELECT EXISTS (
        SELECT 1 FROM prowess_queue
        WHERE NOT until BETWEEN prowess_now() + 1 AND prowess_now() + 86400000000
    )
$$;
CREATE FUNCTION prowess_claim(BYTEA, BIGINT) RETURNS TABLE (thread TEXT, attempts BIGINT)
LANGUAGE sql VOLATILE SECURITY DEFINER AS $$
    UPDATE prowess_queue AS queue
    SET owner = $1, until = prowess_now() + $2, attempts = queue.attempts + 1
    WHERE queue.thread = (
        SELECT waiting.thread FROM prowess_queue AS waiting
        WHERE NOT waiting.until BETWEEN prowess_now() + 1 AND prowess_now() + 86400000000
        ORDER BY waiting.until, waiting.thread LIMIT 1
        FOR UPDATE SKIP LOCKED
    )
    RETURNING queue.thread, queue.attempts
$$;

-- For admins: users, the audit log, and the deletion of old threads.
CREATE FUNCTION prowess_all_users() RETURNS SETOF prowess_users LANGUAGE sql STABLE SECURITY DEFINER AS $$
    SELECT * FROM prowess_users
$$;
CREATE FUNCTION prowess_add_user(TEXT, BYTEA, BIGINT) RETURNS SETOF prowess_users
LANGUAGE sql VOLATILE SECURITY DEFINER AS $$
    INSERT INTO prowess_users (id, name, is_admin, is_disabled, created) VALUES ($1, $2, $3, 0, prowess_now())
    ON CONFLICT (name) DO NOTHING RETURNING *
$$;
CREATE FUNCTION prowess_disable_user(TEXT, BIGINT) RETURNS SETOF TEXT LANGUAGE sql VOLATILE SECURITY DEFINER AS $$
    UPDATE prowess_users SET is_disabled = $2 WHERE id = $1 RETURNING id
$$;
CREATE FUNCTION prowess_list_audit(BIGINT, BIGINT) RETURNS SETOF prowess_audit
LANGUAGE sql STABLE SECURITY DEFINER AS $$
    SELECT * FROM prowess_audit WHERE number < $1 ORDER BY number DESC LIMIT $2
$$;
CREATE FUNCTION prowess_last_kept(BIGINT) RETURNS TABLE (changed BIGINT, id TEXT)
LANGUAGE sql STABLE SECURITY DEFINER AS $$
    SELECT known.changed, known.id FROM prowess_threads AS known
    ORDER BY known.changed DESC, known.id DESC LIMIT 1 OFFSET $1
$$;
CREATE FUNCTION prowess_prune(BIGINT, TEXT, BIGINT) RETURNS SETOF TEXT LANGUAGE sql VOLATILE SECURITY DEFINER AS $$
    DELETE FROM prowess_threads
    WHERE id IN (
        SELECT id FROM prowess_threads
        WHERE (changed, id) < ($1, $2)
            AND (owner IS NULL OR NOT until BETWEEN prowess_now() + 1 AND prowess_now() + 86400000000)
            AND id NOT IN (SELECT thread FROM prowess_queue)
        ORDER BY changed, id LIMIT $3
    )
        AND (changed, id) < ($1, $2)
        AND (owner IS NULL OR NOT until BETWEEN prowess_now() + 1 AND prowess_now() + 86400000000)
    RETURNING id
$$;

ALTER TABLE prowess_threads ENABLE ROW LEVEL SECURITY;
ALTER TABLE prowess_events ENABLE ROW LEVEL SECURITY;
ALTER TABLE prowess_queue ENABLE ROW LEVEL SECURITY;
ALTER TABLE prowess_inbox ENABLE ROW LEVEL SECURITY;
ALTER TABLE prowess_owned_threads ENABLE ROW LEVEL SECURITY;
ALTER TABLE prowess_users ENABLE ROW LEVEL SECURITY;
ALTER TABLE prowess_tokens ENABLE ROW LEVEL SECURITY;
ALTER TABLE prowess_usage ENABLE ROW LEVEL SECURITY;
ALTER TABLE prowess_audit ENABLE ROW LEVEL SECURITY;

CREATE POLICY prowess_own ON prowess_threads
USING (belongs_to IS NULL OR belongs_to = current_setting('prowess.user', true));
-- The policy of threads applies to the inner statement. It looks up one thread for each event, about a microsecond. With
-- EXISTS, PostgreSQL may read all threads first.
CREATE POLICY prowess_own ON prowess_events
USING ((SELECT true FROM prowess_threads AS known WHERE known.id = prowess_events.thread));
CREATE POLICY prowess_own ON prowess_queue USING (prowess_may_use(thread));
CREATE POLICY prowess_own ON prowess_inbox USING (prowess_may_use(thread));
CREATE POLICY prowess_own ON prowess_owned_threads USING (owner = current_setting('prowess.user', true));
CREATE POLICY prowess_own ON prowess_users FOR SELECT USING (id = current_setting('prowess.user', true));
CREATE POLICY prowess_own ON prowess_tokens USING (owner = current_setting('prowess.user', true));
CREATE POLICY prowess_own ON prowess_usage USING (owner = current_setting('prowess.user', true));
CREATE POLICY prowess_own ON prowess_audit FOR INSERT WITH CHECK (person = current_setting('prowess.user', true));

-- Lets a role serve users. The role that owns the tables calls it, again after each migration.
CREATE FUNCTION prowess_serve_grant(role TEXT) RETURNS VOID LANGUAGE plpgsql AS $$
DECLARE
    home TEXT := current_schema();
    one REGPROCEDURE;
BEGIN
    IF EXISTS (SELECT 1 FROM pg_roles WHERE rolname = role AND (rolsuper OR rolbypassrls)) THEN
        RAISE EXCEPTION 'row-level security does not bind the role "%": take a role without SUPERUSER and BYPASSRLS', role;
    END IF;
    IF pg_has_role(role, (SELECT relowner FROM pg_class WHERE oid = 'prowess_threads'::REGCLASS), 'MEMBER') THEN
        RAISE EXCEPTION 'row-level security does not bind the role "%": take a role that does not own the tables', role;
    END IF;
    -- Often everybody may use the schema, and its owner is somebody else.
    IF NOT has_schema_privilege(role, home, 'USAGE') THEN
        EXECUTE format('GRANT USAGE ON SCHEMA %I TO %I', home, role);
    END IF;
    EXECUTE format('GRANT SELECT ON prowess_schema, prowess_users TO %I', role);
    EXECUTE format('GRANT SELECT, INSERT, UPDATE, DELETE ON prowess_threads, prowess_events, prowess_queue, prowess_inbox,
        prowess_owned_threads, prowess_tokens, prowess_approvals, prowess_scoped_names, prowess_scoped_artifacts TO %I', role);
    EXECUTE format('GRANT SELECT, INSERT, UPDATE ON prowess_usage TO %I', role);
    EXECUTE format('GRANT INSERT ON prowess_audit TO %I', role);
    FOR one IN
        SELECT oid FROM pg_proc
        WHERE pronamespace = home::REGNAMESPACE AND proname LIKE 'prowess\_%' AND proname <> 'prowess_serve_grant'
            AND prorettype <> 'TRIGGER'::REGTYPE
    LOOP
        EXECUTE format('GRANT EXECUTE ON FUNCTION %s TO %I', one, role);
    END LOOP;
END $$;

-- Functions with the rights of their owner look for tables in this schema alone, and nobody else may call them.
DO $$
DECLARE
    one REGPROCEDURE;
BEGIN
    FOR one IN
        SELECT oid FROM pg_proc
        WHERE pronamespace = current_schema()::REGNAMESPACE AND proname LIKE 'prowess\_%' AND proname <> 'prowess_now'
    LOOP
        EXECUTE format('ALTER FUNCTION %s SET search_path = %I, pg_temp', one, current_schema());
        EXECUTE format('REVOKE ALL ON FUNCTION %s FROM PUBLIC', one);
    END LOOP;
END $$;
