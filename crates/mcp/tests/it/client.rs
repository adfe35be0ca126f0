//! A client that writes and reads the protocol's messages itself.

use std::collections::{HashMap, VecDeque};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use prowess_mcp::SkillServer;
use prowess_mcp::rmcp::ServiceExt as _;
use serde_json::{Value, json};
use tokio::io::{AsyncBufReadExt as _, AsyncWriteExt as _, BufReader, DuplexStream, WriteHalf};
use tokio::sync::{mpsc, oneshot};

/// No answer of these tests takes as long.
pub(crate) const PATIENCE: Duration = Duration::from_secs(20);

/// The revisions that begin with a handshake.
pub(crate) const OLDER: [&str; 2] = ["2025-06-18", "2025-11-25"];
pub(crate) const NEWEST: &str = "2026-07-28";

type Answers = Arc<Mutex<HashMap<i64, oneshot::Sender<Value>>>>;

pub(crate) struct Client {
    writer: Arc<tokio::sync::Mutex<WriteHalf<DuplexStream>>>,
    answers: Answers,
    next: std::sync::atomic::AtomicI64,
    revision: &'static str,
    capabilities: Value,
    /// What the server said of itself.
    pub(crate) info: Value,
    notifications: tokio::sync::Mutex<mpsc::UnboundedReceiver<Value>>,
    /// What the person answers to forms, one after the other.
    pub(crate) replies: Arc<Mutex<VecDeque<Value>>>,
    /// The forms that the person was shown.
    pub(crate) forms: Arc<Mutex<Vec<Value>>>,
    /// The forms that the person has not answered yet, whole.
    unanswered: Arc<Mutex<Vec<Value>>>,
}

/// What an error says.
pub(crate) type Failure = (i64, String);

impl Client {
    /// A client of the newest revision that shows forms.
    pub(crate) async fn newest(server: SkillServer) -> Self {
        Self::connect(server, NEWEST, json!({"elicitation": {"form": {}}})).await
    }

    pub(crate) async fn connect(server: SkillServer, revision: &'static str, capabilities: Value) -> Self {
        let (ours, theirs) = tokio::io::duplex(1 << 20);
        tokio::spawn(async move {
            if let Ok(running) = server.serve(theirs).await {
                let _ = running.waiting().await;
            }
        });
        let (reader, writer) = tokio::io::split(ours);
        let (notify, notifications) = mpsc::unbounded_channel();
        let mut client = Self {
            writer: Arc::new(tokio::sync::Mutex::new(writer)),
            answers: Answers::default(),
            next: 0.into(),
            revision,
            capabilities,
            info: Value::Null,
            notifications: tokio::sync::Mutex::new(notifications),
            replies: Arc::default(),
            forms: Arc::default(),
            unanswered: Arc::default(),
        };
        let (answers, writer) = (Arc::clone(&client.answers), Arc::clone(&client.writer));
        let (replies, forms) = (Arc::clone(&client.replies), Arc::clone(&client.forms));
        let unanswered = Arc::clone(&client.unanswered);
        tokio::spawn(async move {
            let mut lines = BufReader::new(reader).lines();
            while let Ok(Some(line)) = lines.next_line().await {
                let message: Value = serde_json::from_str(&line).unwrap();
                if message["method"] == "elicitation/create" {
                    forms.lock().unwrap().push(message["params"].clone());
                    let reply = replies.lock().unwrap().pop_front();
                    // A person who says nothing keeps the call waiting.
                    let Some(reply) = reply else {
                        unanswered.lock().unwrap().push(message);
                        continue;
                    };
                    let answer = json!({"jsonrpc": "2.0", "id": message["id"], "result": reply});
                    writer.lock().await.write_all(format!("{answer}\n").as_bytes()).await.unwrap();
                } else if message["method"].is_string() {
                    let _ = notify.send(message);
                } else if let Some(answer) =
                    answers.lock().unwrap().remove(&message["id"].as_i64().unwrap_or(-1))
                {
                    let _ = answer.send(message);
                }
            }
        });
        if revision == NEWEST {
            client.info = client.request("server/discover", json!({})).await.unwrap();
        } else {
            let about = json!({"name": "test", "version": "1"});
            let hello = json!({"protocolVersion": revision, "capabilities": client.capabilities, "clientInfo": about});
            client.info = client.request("initialize", hello).await.unwrap();
            client.notify("notifications/initialized", json!({})).await;
        }
        client
    }

    pub(crate) async fn notify(&self, method: &str, params: Value) {
        self.write(&json!({"jsonrpc": "2.0", "method": method, "params": params})).await;
    }

    async fn write(&self, message: &Value) {
        self.writer.lock().await.write_all(format!("{message}\n").as_bytes()).await.unwrap();
    }

    /// Sends a request, and gives its id and what will be its answer.
    pub(crate) async fn begin(&self, method: &str, mut params: Value) -> (i64, oneshot::Receiver<Value>) {
        let id = self.next.fetch_add(1, std::sync::atomic::Ordering::Relaxed);
        if self.revision == NEWEST {
            params["_meta"]["io.modelcontextprotocol/protocolVersion"] = NEWEST.into();
            params["_meta"]["io.modelcontextprotocol/clientInfo"] = json!({"name": "test", "version": "1"});
            params["_meta"]["io.modelcontextprotocol/clientCapabilities"] = self.capabilities.clone();
        }
        let (answer, answered) = oneshot::channel();
        self.answers.lock().unwrap().insert(id, answer);
        self.write(&json!({"jsonrpc": "2.0", "id": id, "method": method, "params": params})).await;
        (id, answered)
    }

    pub(crate) async fn request(&self, method: &str, params: Value) -> Result<Value, Failure> {
        let (_, answered) = self.begin(method, params).await;
        let answer = tokio::time::timeout(PATIENCE, answered).await.unwrap().unwrap();
        match answer.get("error") {
            Some(error) => {
                Err((error["code"].as_i64().unwrap(), error["message"].as_str().unwrap().to_owned()))
            }
            None => Ok(answer["result"].clone()),
        }
    }

    /// A request whose questions a person answers as [`Client::replies`] say, whatever the revision.
    pub(crate) async fn attended(&self, method: &str, params: Value) -> Result<Value, Failure> {
        let mut params = params;
        loop {
            let result = self.request(method, params.clone()).await?;
            if result["resultType"] != "input_required" {
                return Ok(result);
            }
            let form = result["inputRequests"]["permission"].clone();
            assert_eq!(form["method"], "elicitation/create");
            self.forms.lock().unwrap().push(form["params"].clone());
            let reply = self.replies.lock().unwrap().pop_front().unwrap();
            params["inputResponses"] = json!({"permission": reply});
            params["requestState"] = result["requestState"].clone();
        }
    }

    pub(crate) async fn call(&self, tool: &str, arguments: Value) -> Value {
        self.attended("tools/call", json!({"name": tool, "arguments": arguments})).await.unwrap()
    }

    pub(crate) async fn read(&self, uri: &str) -> Result<Value, Failure> {
        let read = self.attended("resources/read", json!({"uri": uri})).await?;
        Ok(read["contents"][0].clone())
    }

    /// The person's next answers.
    pub(crate) fn will_reply(&self, replies: impl IntoIterator<Item = Value>) {
        self.replies.lock().unwrap().extend(replies);
    }

    /// Waits for a form that says `word` and that nobody answers, and gives the id that its answer has to have.
    pub(crate) async fn shown(&self, word: &str) -> Value {
        let wait = async {
            loop {
                let found = {
                    let mut forms = self.unanswered.lock().unwrap();
                    let says = |form: &Value| form["params"]["message"].as_str().unwrap().contains(word);
                    forms.iter().position(says).map(|at| forms.remove(at)["id"].clone())
                };
                if let Some(id) = found {
                    return id;
                }
                tokio::time::sleep(Duration::from_millis(5)).await;
            }
        };
        tokio::time::timeout(PATIENCE, wait).await.unwrap()
    }

    /// Answers a form after all, or something that is none.
    pub(crate) async fn answer(&self, id: &Value, reply: Value) {
        self.write(&json!({"jsonrpc": "2.0", "id": id, "result": reply})).await;
    }

    /// Says nothing any more.
    pub(crate) async fn leave(&self) {
        self.writer.lock().await.shutdown().await.unwrap();
    }

    /// Waits for a notification of this method.
    pub(crate) async fn heard(&self, method: &str) -> Value {
        let mut notifications = self.notifications.lock().await;
        let wait = async {
            loop {
                let message = notifications.recv().await.unwrap();
                if message["method"] == method {
                    return message;
                }
            }
        };
        tokio::time::timeout(PATIENCE, wait).await.unwrap()
    }
}

/// The person accepts, with this decision.
pub(crate) fn decided(decision: &str) -> Value {
    json!({"action": "accept", "content": {"decision": decision}})
}
