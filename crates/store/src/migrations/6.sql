-- How much a user may take in a day. NULL: as much as the server allows to everybody.
ALTER TABLE prowess_users ADD COLUMN daily_tokens BIGINT;
ALTER TABLE prowess_users ADD COLUMN daily_micro_dollars BIGINT;

-- postgres: CREATE FUNCTION prowess_limit_user(TEXT, BIGINT, BIGINT) RETURNS SETOF TEXT
-- postgres: LANGUAGE sql VOLATILE SECURITY DEFINER AS $$
-- postgres:     UPDATE prowess_users SET daily_tokens = $2, daily_micro_dollars = $3 WHERE id = $1 RETURNING id
-- postgres: $$;
-- postgres: DO $$
-- postgres: BEGIN
-- postgres:     EXECUTE format(
-- postgres:         'ALTER FUNCTION prowess_limit_user(TEXT, BIGINT, BIGINT) SET search_path = %I, pg_temp', current_schema()
-- postgres:     );
-- postgres: END $$;
-- postgres: REVOKE ALL ON FUNCTION prowess_limit_user(TEXT, BIGINT, BIGINT) FROM PUBLIC;
