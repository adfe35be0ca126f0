//! The memory that parsed JSON from models and hooks may take.

use prowess_catalog::json_cost::JsonRoom;

/// The memory that JSON of a model, a provider or a hook may take once parsed: 4 MiB plus four times its length.
///
/// A model can write anything. A few megabytes of tiny values would take a gigabyte of memory.
///
/// ```
/// use prowess_agent::json::MODEL_JSON;
///
/// assert!(MODEL_JSON.check(br#"{"path": "/notes.md"}"#).is_ok());
/// assert!(MODEL_JSON.check("[{}],".repeat(100_000).as_bytes()).is_err());
/// ```
pub const MODEL_JSON: JsonRoom = JsonRoom::new(4 << 20, 400);
