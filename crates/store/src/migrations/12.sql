-- The processes of a server. A process that was not seen for a while is gone.

CREATE TABLE prowess_processes (
    id TEXT
    -- postgres: COLLATE "C"
    NOT NULL PRIMARY KEY,
    role TEXT NOT NULL,
    -- Bytes, because a text of PostgreSQL holds no NUL.
    host BYTEA NOT NULL,
    pid BIGINT NOT NULL,
    version TEXT NOT NULL,
    -- The SHA-256 of where it keeps files.
    files BYTEA NOT NULL,
    started BIGINT NOT NULL,
    seen BIGINT NOT NULL,
    -- Whether it should hand its threads over and stop.
    drains BIGINT NOT NULL
);

-- The rights of a role that serves, for the tables until now and for this one. They are also given to roles that have them already.
-- postgres: ALTER FUNCTION prowess_serve_grant(TEXT) RENAME TO prowess_serve_grant_before_12;
-- postgres: CREATE FUNCTION prowess_serve_grant(role TEXT) RETURNS VOID LANGUAGE plpgsql AS $$
-- postgres: BEGIN
-- postgres:     PERFORM prowess_serve_grant_before_12(role);
-- postgres:     EXECUTE format('REVOKE ALL ON FUNCTION prowess_serve_grant_before_12(TEXT) FROM %I', role);
-- postgres:     EXECUTE format('GRANT SELECT, INSERT, UPDATE, DELETE ON prowess_processes TO %I', role);
-- postgres: END $$;
-- postgres: DO $$
-- postgres: DECLARE
-- postgres:     served REGROLE;
-- postgres: BEGIN
-- postgres:     EXECUTE format('ALTER FUNCTION prowess_serve_grant(TEXT) SET search_path = %I, pg_temp', current_schema());
-- postgres:     FOR served IN
-- postgres:         SELECT DISTINCT allowed.grantee::REGROLE FROM pg_proc AS known, aclexplode(known.proacl) AS allowed
-- postgres:         WHERE known.oid = 'prowess_all_users()'::REGPROCEDURE AND allowed.grantee NOT IN (known.proowner, 0)
-- postgres:     LOOP
-- postgres:         EXECUTE format('GRANT SELECT, INSERT, UPDATE, DELETE ON prowess_processes TO %s', served);
-- postgres:     END LOOP;
-- postgres: END $$;
-- postgres: REVOKE ALL ON FUNCTION prowess_serve_grant(TEXT) FROM PUBLIC;
