-- What fills the context window of a thread, so that every process can show it: JSON with the number of events that it is about.
ALTER TABLE prowess_owned_threads ADD COLUMN window_use BYTEA;
