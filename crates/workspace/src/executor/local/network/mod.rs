//! The network of one run: a proxy that connects to allowed hosts, and nothing else.
//!
//! ```text
//!  sandbox                     │ around it              │ our process
//!  HTTP_PROXY=127.0.0.1:3128 ──┼─▶ socat (the bridge) ──┼─▶ proxy ──▶ hosts on the list
//!  a network with loopback only, for both               │
//! ```
//!
//! The sandbox and the bridge share a network namespace that has only a loopback. The bridge runs outside the sandbox,
//! and only the bridge can connect to the proxy: it has a descriptor of a Unix socket without a path. The skill's
//! processes cannot use Unix sockets.

mod address;
mod allowed_hosts;
mod bridge;
mod denied;
mod head;
mod proxy;
mod refusal;
mod relay;
mod socket;

pub(super) use self::bridge::{AROUND, Bridge, variables};
pub(super) use self::proxy::Proxy;
