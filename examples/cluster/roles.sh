#!/bin/sh
# Runs once, when PostgreSQL makes its database: adds the role that serves. It owns no tables, so row-level security holds for it.
set -eu
psql --set=ON_ERROR_STOP=1 --username "$POSTGRES_USER" --dbname "$POSTGRES_DB" --set=password="$SERVER_PASSWORD" <<'END'
CREATE ROLE prowess_server LOGIN PASSWORD :'password';
END
