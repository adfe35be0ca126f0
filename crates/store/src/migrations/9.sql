-- Up to which event it is noted what models were paid for a thread.

ALTER TABLE prowess_threads ADD COLUMN counted BIGINT NOT NULL DEFAULT 0;

UPDATE prowess_threads SET counted = events;
