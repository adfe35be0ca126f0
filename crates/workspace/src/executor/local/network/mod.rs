//! The network of one command: hosts on a list, through a proxy, and nothing else.
//!
//! ```text
//!  sandbox                     │ around it              │ our process
//!  HTTP_PROXY=127.0.0.1:3128 ──┼─▶ socat (the bridge) ──┼─▶ proxy ──▶ hosts on the list
//!  a network with loopback only, for both               │
//! ```
//!
//! The sandbox and the bridge share a network namespace that has nothing but loopback. The bridge is outside of the
//! sandbox's processes and files, and is the only one who can connect to the proxy: by a descriptor of a Unix socket
//! that has no path any more. The skill's processes still have no Unix sockets.

mod address;
mod bridge;
mod denied;
mod head;
mod proxy;
mod relay;
mod socket;

pub(super) use self::bridge::{AROUND, Bridge, variables};
pub(super) use self::proxy::Proxy;
