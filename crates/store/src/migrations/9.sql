-- Up to which event it is noted what models were paid for a thread, and which posts wait.

ALTER TABLE prowess_threads ADD COLUMN counted BIGINT NOT NULL DEFAULT 0;

UPDATE prowess_threads SET counted = events;

CREATE INDEX prowess_inbox_waiting ON prowess_inbox (thread) WHERE body IS NOT NULL;
