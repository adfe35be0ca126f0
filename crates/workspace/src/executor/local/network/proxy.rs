//! The proxy: hears what a command asks for, and connects it to hosts on the list.
//!
//! It says who is refused, and nothing of what is said: no header, path or body is in any span, event or warning.

use std::convert::Infallible;
use std::io;
use std::net::{Ipv4Addr, Ipv6Addr, SocketAddr};
use std::os::fd::OwnedFd;
use std::sync::Arc;
use std::time::Duration;

use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::{TcpStream, UnixListener, UnixStream};
use tokio::sync::Semaphore;
use tokio::task::JoinSet;
use tokio::time::{sleep, timeout};

use super::address::is_public;
use super::denied::DeniedRequests;
use super::head::{self, Asked, MAX_HEAD, What};
use super::relay::{Upward, relay};
use super::socket;
use crate::host_rule::{Host, HostRule};
use crate::warning::RunWarning;

/// So many connections at once; the next ones wait.
pub(super) const MAX_CONNECTIONS: usize = 64;
/// So many addresses of one name are tried.
const MAX_ADDRESSES: usize = 4;
/// What a client still says while it is told no, in bytes: read, so that it hears the answer.
const UNHEARD: u64 = 64 * 1024;
/// How long it has for that.
const UNHEARD_FOR: Duration = Duration::from_millis(500);

/// How long things may take.
#[derive(Clone, Copy, Debug)]
struct Timeouts {
    /// A request has to be there.
    head: Duration,
    /// A name has to have an address, and an address has to answer.
    connect: Duration,
    /// A connection without a byte is closed.
    idle: Duration,
}

const TIMEOUTS: Timeouts = Timeouts {
    head: Duration::from_secs(10),
    connect: Duration::from_secs(10),
    idle: Duration::from_secs(60),
};

/// The proxy of one run.
#[derive(Debug)]
pub(in super::super) struct Proxy {
    listener: UnixListener,
    list: Arc<AllowedHosts>,
}

/// What may be reached, and what was asked for in vain.
#[derive(Debug)]
struct AllowedHosts {
    rules: Vec<HostRule>,
    denied: DeniedRequests,
    names: Resolver,
    timeouts: Timeouts,
}

/// Who knows the addresses of names.
#[derive(Clone, Debug)]
enum Resolver {
    System,
    /// Every name leads here.
    #[cfg(test)]
    Leading(Vec<std::net::IpAddr>),
}

impl Resolver {
    async fn look_up(&self, name: &str, port: u16) -> io::Result<Vec<SocketAddr>> {
        match self {
            Self::System => Ok(tokio::net::lookup_host((name, port)).await?.collect()),
            #[cfg(test)]
            Self::Leading(to) => Ok(to.iter().map(|address| SocketAddr::new(*address, port)).collect()),
        }
    }
}

/// An answer that is no.
#[derive(Debug, PartialEq, Eq)]
struct Refusal {
    status: &'static str,
    sentence: String,
}

impl Proxy {
    /// A proxy for these rules, and the way to it.
    pub(in super::super) fn open(rules: Vec<HostRule>) -> io::Result<(Self, OwnedFd)> {
        Self::with(rules, Resolver::System, TIMEOUTS)
    }

    fn with(rules: Vec<HostRule>, names: Resolver, timeouts: Timeouts) -> io::Result<(Self, OwnedFd)> {
        let (listener, proxy_socket) = socket::open()?;
        let list = Arc::new(AllowedHosts { rules, denied: DeniedRequests::default(), names, timeouts });
        Ok((Self { listener: UnixListener::from_std(listener)?, list }, proxy_socket))
    }

    /// Serves until it is dropped, and all connections with it.
    pub(in super::super) async fn serve(&self) -> Infallible {
        let mut connections = JoinSet::new();
        let turns = Arc::new(Semaphore::new(MAX_CONNECTIONS));
        loop {
            let turn = Arc::clone(&turns).acquire_owned().await;
            while connections.try_join_next().is_some() {}
            match self.listener.accept().await {
                Ok((client, _)) => {
                    let list = Arc::clone(&self.list);
                    connections.spawn(async move {
                        let _turn = turn;
                        list.converse(client).await;
                    });
                }
                // Out of descriptors, most likely: others end.
                Err(_) => sleep(Duration::from_millis(50)).await,
            }
        }
    }

    /// What was denied, as warnings.
    pub(in super::super) fn warnings(&self) -> Vec<RunWarning> {
        self.list.denied.warnings()
    }
}

impl AllowedHosts {
    /// One request, from its first byte to its end.
    async fn converse(&self, mut client: UnixStream) {
        let heard = timeout(self.timeouts.head, read_request(&mut client)).await;
        let (asked, rest) = match heard {
            Ok(Ok(heard)) => heard,
            // It left.
            Ok(Err(None)) => return,
            Ok(Err(Some(no))) => return no.say(client).await,
            Err(_) => {
                let sentence = "the request did not come in time".to_owned();
                return Refusal { status: "408 Request Timeout", sentence }.say(client).await;
            }
        };
        let server = match self.connect(&asked).await {
            Ok(server) => server,
            Err(no) => return no.say(client).await,
        };
        match asked.what {
            What::Tunnel => {
                if client.write_all(b"HTTP/1.1 200 Connection established\r\n\r\n").await.is_ok() {
                    relay(client, server, &rest, Upward::All, self.timeouts.idle).await;
                }
            }
            What::Plain { mut head, body } => {
                let here = usize::try_from(body).map_or(rest.len(), |body| body.min(rest.len()));
                head.extend_from_slice(&rest[..here]);
                let left = Upward::Exactly(body - here as u64);
                relay(client, server, &head, left, self.timeouts.idle).await;
            }
        }
    }

    /// Connects to what is asked for, if the list has it.
    async fn connect(&self, asked: &Asked) -> Result<TcpStream, Refusal> {
        let Asked { host, port, .. } = asked;
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
                let looked_up = timeout(self.timeouts.connect, self.names.look_up(name, *port));
                let found = looked_up.await.ok().and_then(Result::ok);
                found.ok_or_else(|| unreachable("has no address"))?
            }
            Host::Name(_) => [Ipv4Addr::LOCALHOST.into(), Ipv6Addr::LOCALHOST.into()]
                .map(|address| SocketAddr::new(address, *port))
                .to_vec(),
            Host::Address(address) => vec![SocketAddr::new(*address, *port)],
        };
        // What is connected to is what was checked: no name is looked up twice.
        for address in self.checked(host, *port, found)? {
            if let Ok(Ok(server)) = timeout(self.timeouts.connect, TcpStream::connect(address)).await {
                let _ = server.set_nodelay(true);
                return Ok(server);
            }
        }
        Err(unreachable("does not answer"))
    }

    /// Of the addresses of a host, those that it may lead to. Who owns a name decides where it leads: it shall not be
    /// the machine or the network that the runtime is in. Addresses that the list names, and `localhost`, may be.
    fn checked(&self, host: &Host, port: u16, found: Vec<SocketAddr>) -> Result<Vec<SocketAddr>, Refusal> {
        let by_itself = host.is_localhost() || matches!(host, Host::Address(_));
        let may_be = |address: &SocketAddr| by_itself || is_public(address.ip());
        let checked: Vec<SocketAddr> = found.into_iter().filter(may_be).take(MAX_ADDRESSES).collect();
        if checked.is_empty() {
            return Err(self.deny(&format!("{} leads to no public address", host_and_port(host, port))));
        }
        Ok(checked)
    }

    fn deny(&self, sentence: &str) -> Refusal {
        self.denied.note(sentence);
        Refusal { status: "403 Forbidden", sentence: sentence.to_owned() }
    }
}

/// Reads a request's head, and what came with it. Nothing is the answer to who leaves.
async fn read_request(client: &mut UnixStream) -> Result<(Asked, Vec<u8>), Option<Refusal>> {
    let mut bytes = Vec::with_capacity(1024);
    loop {
        if let Some(length) = head::length(&bytes) {
            let rest = bytes.split_off(length);
            let asked = head::parse(&bytes);
            return asked
                .map(|asked| (asked, rest))
                .map_err(|bad| Some(Refusal { status: bad.status, sentence: bad.why.to_owned() }));
        }
        let room = MAX_HEAD.saturating_sub(bytes.len());
        if room == 0 {
            let status = "431 Request Header Fields Too Large";
            return Err(Some(Refusal { status, sentence: "the head of the request is too long".to_owned() }));
        }
        match client.take(room as u64).read_buf(&mut bytes).await {
            Ok(1..) => {}
            Ok(0) | Err(_) => return Err(None),
        }
    }
}

impl Refusal {
    /// Says it, and hears the client out for a moment.
    async fn say(self, mut client: UnixStream) {
        let Self { status, sentence } = self;
        let answer = format!(
            "HTTP/1.1 {status}\r\nContent-Type: text/plain; charset=utf-8\r\nContent-Length: {}\r\n\
             Connection: close\r\n\r\n{sentence}\n",
            sentence.len() + 1
        );
        let said = async {
            client.write_all(answer.as_bytes()).await?;
            client.shutdown().await?;
            tokio::io::copy(&mut client.take(UNHEARD), &mut tokio::io::sink()).await
        };
        let _ = timeout(UNHEARD_FOR, said).await;
    }
}

/// A host and a port, as a person writes them.
fn host_and_port(host: &Host, port: u16) -> String {
    match host {
        Host::Address(std::net::IpAddr::V6(address)) => format!("[{address}]:{port}"),
        host => format!("{host}:{port}"),
    }
}

#[cfg(test)]
mod tests {
    use std::os::fd::AsRawFd as _;
    use std::time::Instant;

    use tokio::net::TcpListener;

    use super::*;

    const HASTE: Timeouts = Timeouts {
        head: Duration::from_millis(200),
        connect: Duration::from_secs(10),
        idle: Duration::from_millis(300),
    };

    fn proxy(rules: &[&str]) -> (Proxy, OwnedFd) {
        knowing(Resolver::System, rules)
    }

    fn knowing(names: Resolver, rules: &[&str]) -> (Proxy, OwnedFd) {
        Proxy::with(rules.iter().map(|rule| rule.parse().unwrap()).collect(), names, HASTE).unwrap()
    }

    fn denied(proxy: &Proxy) -> Vec<String> {
        proxy.warnings().iter().map(ToString::to_string).collect()
    }

    async fn client(proxy_socket: &OwnedFd) -> UnixStream {
        UnixStream::connect(format!("/proc/self/fd/{}", proxy_socket.as_raw_fd())).await.unwrap()
    }

    /// What the proxy says until it closes the connection.
    async fn answer(client: &mut UnixStream) -> String {
        let mut said = String::new();
        client.read_to_string(&mut said).await.unwrap();
        said
    }

    /// Does something while the proxy serves.
    async fn served<T>(proxy: &Proxy, work: impl Future<Output = T>) -> T {
        tokio::select! {
            done = work => done,
            never = proxy.serve() => match never {},
        }
    }

    fn addresses(list: &[&str]) -> Vec<SocketAddr> {
        list.iter().map(|address| SocketAddr::new(address.parse().unwrap(), 443)).collect()
    }

    #[tokio::test]
    async fn a_name_never_leads_to_the_machine_or_its_network() {
        let (proxy, _way) = proxy(&["example.com", "10.0.0.1"]);
        let checked = |host: &str, found: &[&str]| {
            proxy.list.checked(&Host::parse(host).unwrap(), 443, addresses(found)).map_err(|no| no.sentence)
        };
        let refused = Err("example.com:443 leads to no public address".to_owned());
        for private in
            ["127.0.0.1", "10.0.0.1", "169.254.169.254", "100.64.0.1", "::1", "::ffff:127.0.0.1", "fd00::1"]
        {
            assert_eq!(checked("example.com", &[private]), refused, "{private}");
        }
        // Of several addresses only the public ones are tried.
        assert_eq!(checked("example.com", &["127.0.0.1", "1.1.1.1"]), Ok(addresses(&["1.1.1.1"])));
        assert_eq!(checked("10.0.0.1", &["10.0.0.1"]), Ok(addresses(&["10.0.0.1"])));
        assert_eq!(denied(&proxy), ["network: example.com:443 leads to no public address"]);
    }

    /// A name on the list whose owner lets it lead to this machine.
    #[tokio::test]
    async fn a_name_that_leads_home_is_forbidden() {
        let home = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let port = home.local_addr().unwrap().port();
        let names = Resolver::Leading(vec![Ipv4Addr::LOCALHOST.into(), Ipv6Addr::LOCALHOST.into()]);
        let (host, local) = (format!("example.com:{port}"), format!("127.0.0.1:{port}"));
        let (proxy, proxy_socket) = knowing(names, &[&host, &local]);
        let says = async |request: String| {
            let mut there = client(&proxy_socket).await;
            there.write_all(request.as_bytes()).await.unwrap();
            answer(&mut there).await
        };
        served(&proxy, async {
            for request in [
                format!("GET http://{host}/ HTTP/1.1\r\nHost: {host}\r\n\r\n"),
                format!("CONNECT {host} HTTP/1.1\r\n\r\n"),
            ] {
                let said = says(request).await;
                assert!(said.starts_with("HTTP/1.1 403 Forbidden\r\n"), "{said}");
                assert!(said.ends_with(&format!("\r\n\r\n{host} leads to no public address\n")), "{said}");
            }
            // Somebody is at home: by its address, which the list has, it is reached.
            let (said, reached) =
                tokio::join!(says(format!("CONNECT {local} HTTP/1.1\r\n\r\n")), home.accept());
            assert!(said.starts_with("HTTP/1.1 200 ") && reached.is_ok(), "{said}");
        })
        .await;
        let more = timeout(Duration::from_millis(50), home.accept()).await;
        assert!(more.is_err(), "nobody else came: {more:?}");
        assert_eq!(denied(&proxy), [format!("network: {host} leads to no public address")]);
    }

    #[tokio::test]
    async fn slow_clients_are_not_waited_for() {
        let (proxy, proxy_socket) = proxy(&["example.com"]);
        let started = Instant::now();
        let said = served(&proxy, async {
            let mut slow = client(&proxy_socket).await;
            // Byte by byte is no way to gain time.
            for byte in b"GET http://" {
                if slow.write_all(&[*byte]).await.is_err() {
                    break;
                }
                sleep(Duration::from_millis(30)).await;
            }
            answer(&mut slow).await
        })
        .await;
        assert!(said.starts_with("HTTP/1.1 408 Request Timeout\r\n"), "{said}");
        assert!(started.elapsed() < Duration::from_secs(5));
    }

    #[tokio::test]
    async fn a_connection_without_a_word_is_closed() {
        let silent = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let rule = silent.local_addr().unwrap().to_string();
        let (proxy, proxy_socket) = proxy(&[&rule]);
        served(&proxy, async {
            let mut there = client(&proxy_socket).await;
            there.write_all(format!("CONNECT {rule} HTTP/1.1\r\n\r\n").as_bytes()).await.unwrap();
            assert_eq!(answer(&mut there).await, "HTTP/1.1 200 Connection established\r\n\r\n");
        })
        .await;
    }

    #[tokio::test]
    async fn one_direction_that_speaks_keeps_the_other_open() {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let rule = listener.local_addr().unwrap().to_string();
        let (proxy, proxy_socket) = proxy(&[&rule]);
        let server = tokio::spawn(async move {
            let (mut there, _) = listener.accept().await.unwrap();
            for _ in 0..10 {
                there.write_all(b"x").await.unwrap();
                sleep(Duration::from_millis(100)).await;
            }
        });
        let said = served(&proxy, async {
            let mut there = client(&proxy_socket).await;
            there.write_all(format!("CONNECT {rule} HTTP/1.1\r\n\r\n").as_bytes()).await.unwrap();
            answer(&mut there).await
        })
        .await;
        server.await.unwrap();
        assert!(said.ends_with("\r\n\r\nxxxxxxxxxx"), "{said}");
    }

    #[tokio::test]
    async fn its_connections_end_with_it() {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let rule = listener.local_addr().unwrap().to_string();
        let (proxy, proxy_socket) = proxy(&[&rule]);
        let mut there = served(&proxy, async {
            let mut there = client(&proxy_socket).await;
            there.write_all(format!("CONNECT {rule} HTTP/1.1\r\n\r\n").as_bytes()).await.unwrap();
            there.read_exact(&mut [0; 39]).await.unwrap();
            there
        })
        .await;
        assert_eq!(answer(&mut there).await, "");
    }

    #[tokio::test]
    async fn who_does_not_answer_is_a_bad_gateway() {
        let port = {
            let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
            listener.local_addr().unwrap().port()
        };
        let rule = format!("localhost:{port}");
        let (proxy, proxy_socket) = proxy(&[&rule]);
        let said = served(&proxy, async {
            let mut there = client(&proxy_socket).await;
            there.write_all(format!("CONNECT {rule} HTTP/1.1\r\n\r\n").as_bytes()).await.unwrap();
            answer(&mut there).await
        })
        .await;
        assert!(said.ends_with(&format!("\r\n\r\nlocalhost:{port} does not answer\n")), "{said}");
        assert!(proxy.warnings().is_empty());
    }
}
