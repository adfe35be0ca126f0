//! Prowess as a client, against a server of another SDK that lies. `make mcp` runs it: it needs the Python SDK.

#![allow(clippy::unwrap_used, reason = "a test that cannot go on should stop")]

mod bounds;
mod lying;
mod retrieval;
mod session;
mod tools;
