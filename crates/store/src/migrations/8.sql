-- The skills that users of a server uploaded. Their bytes are artifacts.

CREATE TABLE prowess_own_skills (
    owner TEXT
    -- postgres: COLLATE "C"
    NOT NULL REFERENCES prowess_users (id) ON DELETE CASCADE,
    -- The SHA-256 of all files.
    digest BYTEA NOT NULL,
    -- Bytes, because a text of PostgreSQL holds no NUL.
    name BYTEA NOT NULL,
    description BYTEA NOT NULL,
    files BIGINT NOT NULL,
    -- The bytes of the files and of the archive.
    bytes BIGINT NOT NULL,
    uploaded BIGINT NOT NULL,
    -- When somebody trusted exactly this digest, and who. NULL: nobody does.
    trusted BIGINT,
    trusted_by TEXT
    -- postgres: COLLATE "C"
    ,
    -- Whether an administrator decided, as one.
    by_admin BIGINT NOT NULL,
    PRIMARY KEY (owner, digest)
);

-- postgres: CREATE FUNCTION prowess_waiting_skills(BIGINT) RETURNS SETOF prowess_own_skills
-- postgres: LANGUAGE sql STABLE SECURITY DEFINER AS $$
-- postgres:     SELECT * FROM prowess_own_skills WHERE trusted IS NULL OR by_admin = 0 ORDER BY uploaded, owner, digest LIMIT $1
-- postgres: $$;

-- postgres: ALTER TABLE prowess_own_skills ENABLE ROW LEVEL SECURITY;
-- postgres: CREATE POLICY prowess_own ON prowess_own_skills USING (owner = current_setting('prowess.user', true));

-- The rights of a role that serves, for the tables until now and for this one.
-- postgres: ALTER FUNCTION prowess_serve_grant(TEXT) RENAME TO prowess_serve_grant_before_8;
-- postgres: CREATE FUNCTION prowess_serve_grant(role TEXT) RETURNS VOID LANGUAGE plpgsql AS $$
-- postgres: BEGIN
-- postgres:     PERFORM prowess_serve_grant_before_8(role);
-- postgres:     EXECUTE format('REVOKE ALL ON FUNCTION prowess_serve_grant_before_8(TEXT) FROM %I', role);
-- postgres:     EXECUTE format('GRANT SELECT, INSERT, UPDATE, DELETE ON prowess_own_skills TO %I', role);
-- postgres: END $$;

-- postgres: DO $$
-- postgres: DECLARE
-- postgres:     one REGPROCEDURE;
-- postgres: BEGIN
-- postgres:     FOREACH one IN ARRAY ARRAY['prowess_waiting_skills(BIGINT)', 'prowess_serve_grant(TEXT)']::REGPROCEDURE[] LOOP
-- postgres:         EXECUTE format('ALTER FUNCTION %s SET search_path = %I, pg_temp', one, current_schema());
-- postgres:         EXECUTE format('REVOKE ALL ON FUNCTION %s FROM PUBLIC', one);
-- postgres:     END LOOP;
-- postgres: END $$;
