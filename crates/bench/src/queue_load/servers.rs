//! The servers of the simulation: one web process, and workers. All are in this process, each with a database of its own.

use std::net::SocketAddr;
use std::sync::Arc;

use anyhow::{Context as _, Result, ensure};
use prowess_serve::{Process, Role, ServeLimits, Server};
use prowess_store::signals::Signals;
use prowess_store::{Database, DatabaseCounters};
use tokio::io::{AsyncBufReadExt as _, AsyncReadExt as _, AsyncWriteExt as _, BufReader};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::oneshot;
use tokio::task::JoinHandle;

use super::agents::{Behaviour, Counted, SimulatedAgents};

/// A server that runs.
pub(super) struct Running {
    pub(super) address: SocketAddr,
    database: Database,
    stop: Option<oneshot::Sender<()>>,
    serving: JoinHandle<()>,
}

/// How a server is set up.
#[derive(Clone, Debug)]
pub(super) struct Setup {
    pub(super) url: String,
    pub(super) behaviour: Behaviour,
    pub(super) limits: ServeLimits,
    pub(super) counted: Arc<Counted>,
}

impl Running {
    pub(super) async fn start(setup: &Setup, role: Role, name: &str) -> Result<Self> {
        let database = Database::open(&setup.url).await?;
        let signals = Signals::of(&database, None, role.audiences()).await?;
        let agents = SimulatedAgents::new(setup.behaviour, &database, &setup.counted);
        let process = Process { role, host: name.to_owned(), signals };
        let server = Server::of(Arc::new(agents), &database, setup.limits.clone(), process);
        let listener = TcpListener::bind("127.0.0.1:0").await?;
        let address = listener.local_addr()?;
        let (stop, stopped) = oneshot::channel();
        let serving = tokio::spawn(async move {
            // A sender that is gone stops it, too.
            server.serve(listener, async { drop(stopped.await) }).await;
        });
        Ok(Self { address, database, stop: Some(stop), serving })
    }

    /// What the server asked the database so far.
    pub(super) fn counters(&self) -> DatabaseCounters {
        self.database.counters()
    }

    /// A number of `/metrics`.
    pub(super) async fn metric(&self, name: &str) -> Result<f64> {
        let text = Client::connect(self.address).await?.get("/metrics").await?;
        let value = text.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(' '));
        Ok(value.with_context(|| format!("there is no {name}"))?.parse()?)
    }

    /// Stops it. Its turns come to rest first.
    pub(super) async fn stop(mut self) -> Result<()> {
        drop(self.stop.take());
        self.serving.await.context("a server crashed")
    }
}

/// A client with one connection.
pub(super) struct Client {
    stream: BufReader<TcpStream>,
    line: String,
    body: Vec<u8>,
}

impl Client {
    pub(super) async fn connect(address: SocketAddr) -> Result<Self> {
        let stream = TcpStream::connect(address).await?;
        stream.set_nodelay(true)?;
        Ok(Self { stream: BufReader::new(stream), line: String::new(), body: Vec::new() })
    }

    /// Posts JSON for a user.
    pub(super) async fn post(&mut self, path: &str, token: &str, body: &str) -> Result<String> {
        let length = body.len();
        self.send(&format!(
            "POST {path} HTTP/1.1\r\nhost: localhost\r\nauthorization: Bearer {token}\r\n\
             content-type: application/json\r\ncontent-length: {length}\r\n\r\n{body}"
        ))
        .await
    }

    async fn get(&mut self, path: &str) -> Result<String> {
        self.send(&format!("GET {path} HTTP/1.1\r\nhost: localhost\r\n\r\n")).await
    }

    async fn send(&mut self, request: &str) -> Result<String> {
        self.stream.get_mut().write_all(request.as_bytes()).await?;
        let status = self.line().await?;
        let is_good = status.split(' ').nth(1).is_some_and(|code| code.starts_with('2'));
        let mut length = None;
        loop {
            let line = self.line().await?;
            let Some((name, value)) = line.split_once(": ") else { break };
            if name.eq_ignore_ascii_case("content-length") {
                length = Some(value.parse()?);
            }
        }
        self.body.clear();
        self.body.resize(length.context("an answer has no length")?, 0);
        self.stream.read_exact(&mut self.body).await.context("an answer was cut off")?;
        let body = String::from_utf8_lossy(&self.body).into_owned();
        ensure!(is_good, "{status}: {body}");
        Ok(body)
    }

    async fn line(&mut self) -> Result<String> {
        self.line.clear();
        let read = self.stream.read_line(&mut self.line).await?;
        ensure!(read > 0, "the server closed the connection");
        Ok(self.line.trim_end().to_owned())
    }
}
