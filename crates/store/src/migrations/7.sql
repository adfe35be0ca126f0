-- Who a user is elsewhere: the people of an OpenID Connect issuer, each linked to one user.
-- Issuers and subjects are chosen by others, so they are bytes: no text of PostgreSQL holds a NUL.

CREATE TABLE prowess_identities (
    issuer BYTEA NOT NULL,
    subject BYTEA NOT NULL,
    id TEXT
    -- postgres: COLLATE "C"
    NOT NULL UNIQUE,
    owner TEXT
    -- postgres: COLLATE "C"
    NOT NULL REFERENCES prowess_users (id) ON DELETE CASCADE,
    created BIGINT NOT NULL,
    -- When somebody last signed in with it.
    used BIGINT,
    PRIMARY KEY (issuer, subject)
);

CREATE INDEX prowess_identities_owner ON prowess_identities (owner, id);

-- postgres: ALTER TABLE prowess_identities ENABLE ROW LEVEL SECURITY;
-- postgres: CREATE POLICY prowess_own ON prowess_identities USING (owner = current_setting('prowess.user', true));

-- Whose an identity is: it is not known yet who signs in.
-- postgres: CREATE FUNCTION prowess_identity_owner(BYTEA, BYTEA) RETURNS TEXT LANGUAGE sql STABLE SECURITY DEFINER AS $$
-- postgres:     SELECT owner FROM prowess_identities WHERE issuer = $1 AND subject = $2
-- postgres: $$;

-- A role that serves may use every table whose policies keep users apart. The other tables are as before.
-- postgres: CREATE OR REPLACE FUNCTION prowess_serve_grant(role TEXT) RETURNS VOID LANGUAGE plpgsql AS $$
-- postgres: DECLARE
-- postgres:     home TEXT := current_schema();
-- postgres:     one REGPROCEDURE;
-- postgres:     walled REGCLASS;
-- postgres: BEGIN
-- postgres:     IF EXISTS (SELECT 1 FROM pg_roles WHERE rolname = role AND (rolsuper OR rolbypassrls)) THEN
-- postgres:         RAISE EXCEPTION 'row-level security does not bind the role "%": take a role without SUPERUSER and BYPASSRLS', role;
-- postgres:     END IF;
-- postgres:     IF pg_has_role(role, (SELECT relowner FROM pg_class WHERE oid = 'prowess_threads'::REGCLASS), 'MEMBER') THEN
-- postgres:         RAISE EXCEPTION 'row-level security does not bind the role "%": take a role that does not own the tables', role;
-- postgres:     END IF;
-- postgres:     -- Often everybody may use the schema, and its owner is somebody else.
-- postgres:     IF NOT has_schema_privilege(role, home, 'USAGE') THEN
-- postgres:         EXECUTE format('GRANT USAGE ON SCHEMA %I TO %I', home, role);
-- postgres:     END IF;
-- postgres:     EXECUTE format('GRANT SELECT ON prowess_schema, prowess_users TO %I', role);
-- postgres:     EXECUTE format('GRANT SELECT, INSERT, UPDATE, DELETE ON
-- postgres:         prowess_approvals, prowess_scoped_names, prowess_scoped_artifacts TO %I', role);
-- postgres:     EXECUTE format('GRANT SELECT, INSERT, UPDATE ON prowess_usage TO %I', role);
-- postgres:     EXECUTE format('GRANT INSERT ON prowess_audit TO %I', role);
-- postgres:     FOR walled IN
-- postgres:         SELECT oid FROM pg_class
-- postgres:         WHERE relnamespace = home::REGNAMESPACE AND relkind = 'r' AND relname LIKE 'prowess\_%' AND relrowsecurity
-- postgres:             AND relname NOT IN ('prowess_users', 'prowess_usage', 'prowess_audit')
-- postgres:     LOOP
-- postgres:         EXECUTE format('GRANT SELECT, INSERT, UPDATE, DELETE ON %s TO %I', walled, role);
-- postgres:     END LOOP;
-- postgres:     FOR one IN
-- postgres:         SELECT oid FROM pg_proc
-- postgres:         WHERE pronamespace = home::REGNAMESPACE AND proname LIKE 'prowess\_%' AND proname <> 'prowess_serve_grant'
-- postgres:             AND prorettype <> 'TRIGGER'::REGTYPE
-- postgres:     LOOP
-- postgres:         EXECUTE format('GRANT EXECUTE ON FUNCTION %s TO %I', one, role);
-- postgres:     END LOOP;
-- postgres: END $$;

-- postgres: DO $$
-- postgres: BEGIN
-- postgres:     EXECUTE format(
-- postgres:         'ALTER FUNCTION prowess_identity_owner(BYTEA, BYTEA) SET search_path = %I, pg_temp', current_schema()
-- postgres:     );
-- postgres:     EXECUTE format('ALTER FUNCTION prowess_serve_grant(TEXT) SET search_path = %I, pg_temp', current_schema());
-- postgres: END $$;
-- postgres: REVOKE ALL ON FUNCTION prowess_identity_owner(BYTEA, BYTEA) FROM PUBLIC;
-- postgres: REVOKE ALL ON FUNCTION prowess_serve_grant(TEXT) FROM PUBLIC;
