//! Connections that have not sent the token yet.
//!
//! They share a small pool of their own, so that they never keep a client out. If the pool is full, a new connection
//! replaces an old one: the oldest connection of the address that has the most. So a machine that opens many connections
//! only displaces its own.

use std::collections::{HashMap, VecDeque};
use std::net::{IpAddr, Ipv6Addr};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use tokio_util::sync::CancellationToken;

/// The most unauthenticated connections at once, by default.
pub(super) const DEFAULT_UNAUTHENTICATED: usize = 256;
/// How long a connection may take to send the token, by default.
pub(super) const DEFAULT_TOKEN_TIME: Duration = Duration::from_secs(10);

/// The pool of unauthenticated connections.
#[derive(Debug)]
pub(crate) struct Unauthenticated {
    known: Mutex<AdmissionQueue>,
    most: usize,
}

#[derive(Debug, Default)]
struct AdmissionQueue {
    last: u64,
    /// The oldest first.
    waiting: VecDeque<Waiting>,
}

#[derive(Debug)]
struct Waiting {
    number: u64,
    from: IpAddr,
    leave: CancellationToken,
}

impl Unauthenticated {
    /// A pool of this size, and at least of one.
    pub(crate) fn new(most: usize) -> Self {
        Self { known: Mutex::default(), most: most.max(1) }
    }

    /// Adds a connection, and ends another one if there are too many.
    pub(crate) fn enter(self: &Arc<Self>, from: IpAddr) -> UnauthenticatedConnection {
        while self.lock().waiting.len() >= self.most && self.end_one() {}
        let leave = CancellationToken::new();
        let mut known = self.lock();
        known.last += 1;
        let number = known.last;
        known.waiting.push_back(Waiting { number, from: network(from), leave: leave.clone() });
        UnauthenticatedConnection { unauthenticated: Arc::clone(self), number, leave }
    }

    /// Ends the oldest connection of the address that has the most, and says whether there was one.
    pub(crate) fn end_one(&self) -> bool {
        let mut known = self.lock();
        let mut counts = HashMap::new();
        for waiting in &known.waiting {
            *counts.entry(waiting.from).or_insert(0_usize) += 1;
        }
        let most = counts.values().max();
        let oldest = known.waiting.iter().position(|waiting| counts.get(&waiting.from) == most);
        let Some(ended) = oldest.and_then(|at| known.waiting.remove(at)) else { return false };
        ended.leave.cancel();
        true
    }

    fn lock(&self) -> MutexGuard<'_, AdmissionQueue> {
        self.known.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// The network that counts as one address: a machine owns a whole /64 of IPv6.
fn network(address: IpAddr) -> IpAddr {
    match address.to_canonical() {
        IpAddr::V6(address) => {
            let [a, b, c, d, ..] = address.segments();
            Ipv6Addr::new(a, b, c, d, 0, 0, 0, 0).into()
        }
        address @ IpAddr::V4(_) => address,
    }
}

/// A place in the pool, until it is dropped.
#[derive(Debug)]
pub(crate) struct UnauthenticatedConnection {
    unauthenticated: Arc<Unauthenticated>,
    number: u64,
    leave: CancellationToken,
}

impl UnauthenticatedConnection {
    /// Is cancelled when the connection has to end.
    pub(crate) fn leave(&self) -> CancellationToken {
        self.leave.clone()
    }
}

impl Drop for UnauthenticatedConnection {
    fn drop(&mut self) {
        self.unauthenticated.lock().waiting.retain(|waiting| waiting.number != self.number);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_oldest_connection_of_the_busiest_address_ends() {
        let unauthenticated = Arc::new(Unauthenticated::new(4));
        let enter = |address: &str| unauthenticated.enter(address.parse().unwrap());
        let quiet = enter("192.0.2.1");
        let loud: Vec<UnauthenticatedConnection> =
            (1..=3).map(|host| enter(&format!("2001:db8::{host}"))).collect();
        let next = enter("192.0.2.2");
        assert!(loud[0].leave.is_cancelled() && !loud[1].leave.is_cancelled());
        let more = enter("::ffff:192.0.2.3");
        assert!(loud[1].leave.is_cancelled() && !loud[2].leave.is_cancelled());
        // When nobody has more than others, the oldest goes.
        let last = enter("192.0.2.4");
        assert!(quiet.leave.is_cancelled());
        assert!([&loud[2], &next, &more, &last].iter().all(|connection| !connection.leave.is_cancelled()));
        drop((next, more, last, loud));
        assert!(unauthenticated.lock().waiting.is_empty());
        assert!(!unauthenticated.end_one());
    }
}
