//! A server on a port of this machine, and clients of each revision.

use std::net::SocketAddr;
use std::sync::Arc;

use prowess_mcp::{
    HttpLimits, HttpServerOptions, LiveSkills, SkillServer, Token, serve_http, session_options,
};
use prowess_permission::{Decision, Permissions};
use prowess_skills::{Dialect, SkillSession};
use serde_json::{Value, json};
use tokio::net::TcpListener;
use tokio::sync::oneshot;
use tokio::task::JoinHandle;

use super::wire::{Whole, Wire};
use crate::client::{Failure, NEWEST, PATIENCE};
use crate::library::{Library, permissions};

pub(crate) const SECRET: &str = "open-sesame-0123456789";

pub(crate) struct Served {
    pub(crate) address: SocketAddr,
    pub(crate) live: Arc<LiveSkills>,
    stop: oneshot::Sender<()>,
    serving: JoinHandle<()>,
}

impl Served {
    /// Skills that are not watched, and rules beside the defaults.
    pub(crate) async fn start(library: &Library, rules: &[(&'static str, &'static str, Decision)]) -> Self {
        Self::with(library, rules, HttpLimits::default()).await
    }

    pub(crate) async fn with(
        library: &Library,
        rules: &[(&'static str, &'static str, Decision)],
        limits: HttpLimits,
    ) -> Self {
        let live = LiveSkills::new(library.catalog(&Default::default()));
        let permissions = permissions(rules);
        let made = Arc::clone(&live);
        Self::serve(live, limits, move || make(Arc::clone(&made), permissions.clone())).await
    }

    pub(crate) async fn serve<F, Made>(live: Arc<LiveSkills>, limits: HttpLimits, make_server: F) -> Self
    where
        F: Fn() -> Made + Send + Sync + 'static,
        Made: Future<Output = SkillServer> + Send + 'static,
    {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let mut options = HttpServerOptions::new(Token::new(SECRET).unwrap());
        options.hosts = vec!["mcp.example.com".to_owned()];
        options.origins = vec!["https://app.example.com".to_owned()];
        options.limits = limits;
        let (stop, stopped) = oneshot::channel();
        let until = async {
            let _ = stopped.await;
        };
        let serving = tokio::spawn(serve_http(listener, options, make_server, until));
        Self { address, live, stop, serving }
    }

    /// Ends it, and waits until it has.
    pub(crate) async fn end(self) {
        self.stop.send(()).unwrap();
        tokio::time::timeout(PATIENCE, self.serving).await.unwrap().unwrap();
    }

    /// The beginning of a request with everything that is right.
    pub(crate) fn request(&self, method: &str, more: &str) -> String {
        let address = self.address;
        format!(
            "{method} /mcp HTTP/1.1\r\nhost: {address}\r\nauthorization: Bearer {SECRET}\r\n\
             accept: application/json, text/event-stream\r\ncontent-type: application/json\r\n{more}"
        )
    }

    /// What is answered to these bytes on a connection of their own.
    pub(crate) async fn raw(&self, bytes: impl AsRef<[u8]>) -> Whole {
        let mut wire = Wire::connect(self.address).await;
        wire.write(bytes).await;
        wire.whole().await.expect("it was closed without an answer")
    }

    /// What is answered to this body.
    pub(crate) async fn post(&self, more: &str, body: impl AsRef<[u8]>) -> Whole {
        let body = body.as_ref();
        let mut bytes = self.request("POST", more).into_bytes();
        bytes.extend(format!("content-length: {}\r\n\r\n", body.len()).into_bytes());
        bytes.extend(body);
        self.raw(bytes).await
    }

    pub(crate) async fn client(&self, revision: &'static str) -> HttpClient<'_> {
        HttpClient::connect(self, revision, json!({"elicitation": {}})).await
    }
}

async fn make(live: Arc<LiveSkills>, permissions: Permissions) -> SkillServer {
    let session = SkillSession::builder(live.catalog())
        .options(session_options(Dialect::DeepAgents))
        .permissions(permissions)
        .build()
        .await;
    SkillServer::new(live, session)
}

/// A client that has done what its revision begins with.
pub(crate) struct HttpClient<'a> {
    served: &'a Served,
    revision: &'static str,
    capabilities: Value,
    pub(crate) session: Option<String>,
}

impl<'a> HttpClient<'a> {
    pub(crate) async fn connect(served: &'a Served, revision: &'static str, capabilities: Value) -> Self {
        let mut client = Self { served, revision, capabilities, session: None };
        if revision != NEWEST {
            let begun = client.begin().await;
            assert_eq!(begun.status, 200, "{begun:?}");
            assert_eq!(begun.message()["result"]["protocolVersion"], revision);
            client.session = begun.headers.get("mcp-session-id").cloned();
            let told = json!({"jsonrpc": "2.0", "method": "notifications/initialized"});
            assert_eq!(served.post(&client.headers("", &json!({})), told.to_string()).await.status, 202);
        }
        client
    }

    /// What is answered to a handshake.
    async fn begin(&self) -> Whole {
        self.served.post("", hello(self.revision, &self.capabilities).to_string()).await
    }

    /// The headers that a request of this revision has.
    pub(crate) fn headers(&self, method: &str, params: &Value) -> String {
        let mut headers = format!("mcp-protocol-version: {}\r\n", self.revision);
        if let Some(session) = &self.session {
            headers += &format!("mcp-session-id: {session}\r\n");
        }
        if self.revision == NEWEST {
            headers += &format!("mcp-method: {method}\r\n");
            if let Some(name) = params["name"].as_str().or(params["uri"].as_str()) {
                headers += &format!("mcp-name: {name}\r\n");
            }
        }
        headers
    }

    pub(crate) fn body(&self, method: &str, mut params: Value) -> String {
        if self.revision == NEWEST {
            params["_meta"]["io.modelcontextprotocol/protocolVersion"] = NEWEST.into();
            params["_meta"]["io.modelcontextprotocol/clientInfo"] = json!({"name": "test", "version": "1"});
            params["_meta"]["io.modelcontextprotocol/clientCapabilities"] = self.capabilities.clone();
        }
        json!({"jsonrpc": "2.0", "id": 7, "method": method, "params": params}).to_string()
    }

    pub(crate) async fn request(&self, method: &str, params: Value) -> Result<Value, Failure> {
        let headers = self.headers(method, &params);
        let whole = self.served.post(&headers, self.body(method, params)).await;
        let answer = whole.message();
        match answer.get("error") {
            Some(error) => {
                Err((error["code"].as_i64().unwrap(), error["message"].as_str().unwrap().to_owned()))
            }
            None => Ok(answer["result"].clone()),
        }
    }

    /// Begins a request whose answer is a stream, or waits for something.
    pub(crate) async fn open(&self, method: &str, params: Value) -> Wire {
        let headers = self.headers(method, &params);
        let body = self.body(method, params);
        let mut wire = Wire::connect(self.served.address).await;
        let head = self.served.request("POST", &headers);
        wire.write(format!("{head}content-length: {}\r\n\r\n{body}", body.len())).await;
        wire
    }

    /// The stream of what the server says on its own.
    pub(crate) async fn stream(&self) -> Wire {
        let mut wire = Wire::connect(self.served.address).await;
        wire.write(self.served.request("GET", &self.headers("", &json!({}))) + "\r\n").await;
        assert_eq!(wire.head().await.unwrap().status, 200);
        wire
    }

    /// Sends an answer to something that the server asked.
    pub(crate) async fn reply(&self, id: &Value, result: Value) {
        let reply = json!({"jsonrpc": "2.0", "id": id, "result": result});
        let headers = self.headers("", &json!({}));
        assert_eq!(self.served.post(&headers, reply.to_string()).await.status, 202);
    }

    pub(crate) async fn call(&self, tool: &str, arguments: Value) -> Value {
        self.request("tools/call", json!({"name": tool, "arguments": arguments})).await.unwrap()
    }
}

/// The handshake of a revision.
pub(crate) fn hello(revision: &str, capabilities: &Value) -> Value {
    let params = json!({"protocolVersion": revision, "capabilities": capabilities, "clientInfo": {"name": "test", "version": "1"}});
    json!({"jsonrpc": "2.0", "id": 1, "method": "initialize", "params": params})
}
