//! Measures MCP servers from the client's side: the latency of a call, and the load of many clients.

pub(crate) mod echo;
mod http;
mod latency;
pub(crate) mod load;
mod server;
mod stdio;

pub(crate) use latency::{Over, echoed, loaded};

use serde_json::{Value, json};

/// The number of skills of the server.
pub(crate) const SKILLS: usize = 1_000;
/// The revision with sessions, and the one without.
const WITH_SESSIONS: &str = "2025-11-25";
const WITHOUT_SESSIONS: &str = "2026-07-28";

/// The parameters of `initialize`.
fn hello() -> Value {
    json!({"protocolVersion": WITH_SESSIONS, "capabilities": {}, "clientInfo": {"name": "bench", "version": "1"}})
}

fn initialized() -> Value {
    json!({"jsonrpc": "2.0", "method": "notifications/initialized"})
}

/// A request.
fn request(id: u64, method: &str, params: &Value) -> Value {
    json!({"jsonrpc": "2.0", "id": id, "method": method, "params": params})
}

/// A call of a tool.
fn call(tool: &str, arguments: &Value) -> Value {
    json!({"name": tool, "arguments": arguments})
}
