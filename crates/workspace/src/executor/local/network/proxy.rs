//! The proxy of a run: reads what a command requests, and connects it to allowed hosts.
//!
//! Warnings name refused hosts. No header, path or body of a request is in any span, event or warning.

use std::convert::Infallible;
use std::io;
use std::os::fd::OwnedFd;
use std::sync::Arc;
use std::time::Duration;

use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::{UnixListener, UnixStream};
use tokio::sync::Semaphore;
use tokio::task::JoinSet;
use tokio::time::{sleep, timeout};

use super::allowed_hosts::{AllowedHosts, Resolver, TIMEOUTS, Timeouts};
use super::denied::DeniedRequests;
use super::head::{self, MAX_HEAD, ProxyRequest, RequestKind};
use super::refusal::Refusal;
use super::relay::{Upward, relay};
use super::socket;
use crate::host_rule::HostRule;
use crate::warning::RunWarning;

/// How many connections can be open at once; more wait.
pub(super) const MAX_CONNECTIONS: usize = 64;

/// The proxy of one run.
#[derive(Debug)]
pub(in super::super) struct Proxy {
    listener: UnixListener,
    allowed: Arc<AllowedHosts>,
}

impl Proxy {
    /// A proxy for these rules, and the socket to connect to it.
    pub(in super::super) fn open(rules: Vec<HostRule>) -> io::Result<(Self, OwnedFd)> {
        Self::with(rules, Resolver::System, TIMEOUTS)
    }

    fn with(rules: Vec<HostRule>, resolver: Resolver, timeouts: Timeouts) -> io::Result<(Self, OwnedFd)> {
        let (listener, proxy_socket) = socket::open()?;
        let allowed = Arc::new(AllowedHosts { rules, denied: DeniedRequests::default(), resolver, timeouts });
        Ok((Self { listener: UnixListener::from_std(listener)?, allowed }, proxy_socket))
    }

    /// Serves until the future is dropped, which also closes all connections.
    pub(in super::super) async fn serve(&self) -> Infallible {
        let mut connections = JoinSet::new();
        let slots = Arc::new(Semaphore::new(MAX_CONNECTIONS));
        loop {
            let slot = Arc::clone(&slots).acquire_owned().await;
            while connections.try_join_next().is_some() {}
            match self.listener.accept().await {
                Ok((client, _)) => {
                    let allowed = Arc::clone(&self.allowed);
                    connections.spawn(async move {
                        let _slot = slot;
                        serve_client(&allowed, client).await;
                    });
                }
                // Most likely there are no descriptors left, until other connections end.
                Err(_) => sleep(Duration::from_millis(50)).await,
            }
        }
    }

    /// Warnings about denied requests.
    pub(in super::super) fn warnings(&self) -> Vec<RunWarning> {
        self.allowed.denied.warnings()
    }
}

/// Serves one request from its first byte to its end.
async fn serve_client(allowed: &AllowedHosts, mut client: UnixStream) {
    let request = timeout(allowed.timeouts.head, read_request(&mut client)).await;
    let (asked, rest) = match request {
        Ok(Ok(request)) => request,
        // The client left.
        Ok(Err(None)) => return,
        Ok(Err(Some(refusal))) => return refusal.send(client).await,
        Err(_) => {
            let sentence = "the request took too long".to_owned();
            return Refusal { status: "408 Request Timeout", sentence }.send(client).await;
        }
    };
    let server = match allowed.connect(&asked).await {
        Ok(server) => server,
        Err(refusal) => return refusal.send(client).await,
    };
    match asked.kind {
        RequestKind::Tunnel => {
            if client.write_all(b"HTTP/1.1 200 Connection established\r\n\r\n").await.is_ok() {
                relay(client, server, &rest, Upward::All, allowed.timeouts.idle).await;
            }
        }
        RequestKind::Plain { mut head, body } => {
            let here = usize::try_from(body).map_or(rest.len(), |body| body.min(rest.len()));
            head.extend_from_slice(&rest[..here]);
            let left = Upward::Exactly(body - here as u64);
            relay(client, server, &head, left, allowed.timeouts.idle).await;
        }
    }
}

/// Reads the head of a request, and the bytes that came with it. The error is `None` if the client left.
async fn read_request(client: &mut UnixStream) -> Result<(ProxyRequest, Vec<u8>), Option<Refusal>> {
    let mut bytes = Vec::with_capacity(1024);
    loop {
        if let Some(length) = head::length(&bytes) {
            let rest = bytes.split_off(length);
            let asked = head::parse(&bytes);
            return asked
                .map(|asked| (asked, rest))
                .map_err(|error| Some(Refusal { status: error.status, sentence: error.reason.to_owned() }));
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

#[cfg(test)]
mod tests {
    use std::net::{Ipv4Addr, Ipv6Addr, SocketAddr};
    use std::os::fd::AsRawFd as _;
    use std::time::Instant;

    use tokio::net::TcpListener;

    use super::*;
    use crate::host_rule::Host;

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

    /// Reads everything that the proxy sends until it closes the connection.
    async fn answer(client: &mut UnixStream) -> String {
        let mut said = String::new();
        client.read_to_string(&mut said).await.unwrap();
        said
    }

    /// Runs `work` while the proxy serves.
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
        let (proxy, _socket) = proxy(&["example.com", "10.0.0.1"]);
        let checked = |host: &str, found: &[&str]| {
            proxy
                .allowed
                .checked(&Host::parse(host).unwrap(), 443, addresses(found))
                .map_err(|refusal| refusal.sentence)
        };
        let refused = Err("example.com:443 has no public address".to_owned());
        for private in
            ["127.0.0.1", "10.0.0.1", "169.254.169.254", "100.64.0.1", "::1", "::ffff:127.0.0.1", "fd00::1"]
        {
            assert_eq!(checked("example.com", &[private]), refused, "{private}");
        }
        // Of several addresses only the public ones are tried.
        assert_eq!(checked("example.com", &["127.0.0.1", "1.1.1.1"]), Ok(addresses(&["1.1.1.1"])));
        assert_eq!(checked("10.0.0.1", &["10.0.0.1"]), Ok(addresses(&["10.0.0.1"])));
        assert_eq!(denied(&proxy), ["network: example.com:443 has no public address"]);
    }

    /// An allowed name whose owner points it at this machine is denied.
    #[tokio::test]
    async fn a_name_that_leads_home_is_forbidden() {
        let home = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let port = home.local_addr().unwrap().port();
        let names = Resolver::Fixed(vec![Ipv4Addr::LOCALHOST.into(), Ipv6Addr::LOCALHOST.into()]);
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
                assert!(said.ends_with(&format!("\r\n\r\n{host} has no public address\n")), "{said}");
            }
            // A server listens there: its address is allowed, so the request succeeds.
            let (said, reached) =
                tokio::join!(says(format!("CONNECT {local} HTTP/1.1\r\n\r\n")), home.accept());
            assert!(said.starts_with("HTTP/1.1 200 ") && reached.is_ok(), "{said}");
        })
        .await;
        let more = timeout(Duration::from_millis(50), home.accept()).await;
        assert!(more.is_err(), "nobody else came: {more:?}");
        assert_eq!(denied(&proxy), [format!("network: {host} has no public address")]);
    }

    #[tokio::test]
    async fn slow_clients_are_not_waited_for() {
        let (proxy, proxy_socket) = proxy(&["example.com"]);
        let started = Instant::now();
        let said = served(&proxy, async {
            let mut slow = client(&proxy_socket).await;
            // A client that sends single bytes gets no more time.
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
