//! The hosts that a command may reach, and the addresses that their names may have.

use std::io;
use std::net::{Ipv4Addr, Ipv6Addr, SocketAddr};
use std::time::Duration;

use tokio::net::TcpStream;
use tokio::time::timeout;

use super::address::is_public;
use super::denied::DeniedRequests;
use super::head::ProxyRequest;
use super::refusal::Refusal;
use crate::host_rule::{Host, HostRule};

/// How many addresses of one name are tried.
const MAX_ADDRESSES: usize = 4;

/// How long the proxy waits.
#[derive(Clone, Copy, Debug)]
pub(super) struct Timeouts {
    /// For the head of a request.
    pub(super) head: Duration,
    /// For the address of a name, and for a connection.
    pub(super) connect: Duration,
    /// For the next byte of a connection.
    pub(super) idle: Duration,
}

pub(super) const TIMEOUTS: Timeouts = Timeouts {
    head: Duration::from_secs(10),
    connect: Duration::from_secs(10),
    idle: Duration::from_secs(60),
};

/// The hosts that one run may reach, and the requests that were denied.
#[derive(Debug)]
pub(super) struct AllowedHosts {
    pub(super) rules: Vec<HostRule>,
    pub(super) denied: DeniedRequests,
    pub(super) resolver: Resolver,
    pub(super) timeouts: Timeouts,
}

/// Looks up the addresses of names.
#[derive(Clone, Debug)]
pub(super) enum Resolver {
    System,
    /// Every name has these addresses.
    #[cfg(test)]
    Fixed(Vec<std::net::IpAddr>),
}

impl Resolver {
    async fn look_up(&self, name: &str, port: u16) -> io::Result<Vec<SocketAddr>> {
        match self {
            Self::System => Ok(tokio::net::lookup_host((name, port)).await?.collect()),
            #[cfg(test)]
            Self::Fixed(addresses) => {
                Ok(addresses.iter().map(|address| SocketAddr::new(*address, port)).collect())
            }
        }
    }
}

impl AllowedHosts {
    /// Connects to the requested host, if a rule allows it.
    pub(super) async fn connect(&self, asked: &ProxyRequest) -> Result<TcpStream, Refusal> {
        let ProxyRequest { host, port, .. } = asked;
        if !self.rules.iter().any(|rule| rule.allows(host, *port)) {
            return Err(
                self.deny(&format!("{} is not on the list of allowed hosts", host_and_port(host, *port)))
            );
        }
        let unreachable = |why: &str| Refusal {
            status: "502 Bad Gateway",
            sentence: format!("{} {why}", host_and_port(host, *port)),
        };
        let found = match host {
            Host::Name(name) if !host.is_localhost() => {
                let looked_up = timeout(self.timeouts.connect, self.resolver.look_up(name, *port));
                let found = looked_up.await.ok().and_then(Result::ok);
                found.ok_or_else(|| unreachable("has no address"))?
            }
            Host::Name(_) => [Ipv4Addr::LOCALHOST.into(), Ipv6Addr::LOCALHOST.into()]
                .map(|address| SocketAddr::new(address, *port))
                .to_vec(),
            Host::Address(address) => vec![SocketAddr::new(*address, *port)],
        };
        // The checked addresses are the ones that are used: no name is looked up twice.
        for address in self.checked(host, *port, found)? {
            if let Ok(Ok(server)) = timeout(self.timeouts.connect, TcpStream::connect(address)).await {
                let _ = server.set_nodelay(true);
                return Ok(server);
            }
        }
        Err(unreachable("does not answer"))
    }

    /// The addresses of a host that may be connected to. The owner of a name decides its addresses, so a name must not
    /// lead to this machine or its network. Addresses that a rule names, and `localhost`, are allowed.
    pub(super) fn checked(
        &self,
        host: &Host,
        port: u16,
        found: Vec<SocketAddr>,
    ) -> Result<Vec<SocketAddr>, Refusal> {
        let is_explicit = host.is_localhost() || matches!(host, Host::Address(_));
        let is_allowed = |address: &SocketAddr| is_explicit || is_public(address.ip());
        let checked: Vec<SocketAddr> = found.into_iter().filter(is_allowed).take(MAX_ADDRESSES).collect();
        if checked.is_empty() {
            return Err(self.deny(&format!("{} has no public address", host_and_port(host, port))));
        }
        Ok(checked)
    }

    fn deny(&self, sentence: &str) -> Refusal {
        self.denied.note(sentence);
        Refusal { status: "403 Forbidden", sentence: sentence.to_owned() }
    }
}

/// A host and a port, as people write them.
fn host_and_port(host: &Host, port: u16) -> String {
    match host {
        Host::Address(std::net::IpAddr::V6(address)) => format!("[{address}]:{port}"),
        host => format!("{host}:{port}"),
    }
}
