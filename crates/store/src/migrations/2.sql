-- Artifacts are kept apart by scope. Those of before have the scope `shared`.

-- How many versions were given of each name. It stays when they are removed.
CREATE TABLE prowess_scoped_names (
    scope TEXT
    -- postgres: COLLATE "C"
    NOT NULL,
    name TEXT
    -- postgres: COLLATE "C"
    NOT NULL,
    given BIGINT NOT NULL,
    PRIMARY KEY (scope, name)
);

INSERT INTO prowess_scoped_names (scope, name, given) SELECT 'shared', name, given FROM prowess_artifact_names;

DROP TABLE prowess_artifact_names;

CREATE TABLE prowess_scoped_artifacts (
    scope TEXT
    -- postgres: COLLATE "C"
    NOT NULL,
    name TEXT
    -- postgres: COLLATE "C"
    NOT NULL,
    version BIGINT NOT NULL,
    checksum BIGINT NOT NULL,
    body BYTEA NOT NULL,
    PRIMARY KEY (scope, name, version)
);

INSERT INTO prowess_scoped_artifacts (scope, name, version, checksum, body)
SELECT 'shared', name, version, checksum, body FROM prowess_artifacts;

DROP TABLE prowess_artifacts;
