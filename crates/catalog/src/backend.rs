//! Scans a root in a backend.
