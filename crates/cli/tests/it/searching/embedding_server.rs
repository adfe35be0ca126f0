//! An embedding model on this machine, as OpenAI's `/v1/embeddings` answers.

use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::sync::{Arc, Mutex};

use serde_json::{Value, json};

use crate::world::World;

/// Words that belong together, whatever their spelling: the dimensions of the vectors.
const CONCEPTS: [&[&str]; 3] = [
    &["sail", "boat", "canvas", "regatta", "yacht"],
    &["bread", "oven", "bake", "sourdough", "loaf"],
    &["invoice", "tax", "owe", "ledger"],
];

/// How the server answers.
pub(super) type Answering = Box<dyn Fn(&[String]) -> Reply + Send + Sync>;

pub(super) enum Reply {
    Json(Value),
    Raw(String),
    Status(u16, &'static str),
    /// A body of so many bytes, which never becomes JSON.
    Endless(usize),
    /// Nothing, until the client goes.
    Silence,
}

/// A server, and the requests that it got.
pub(super) struct EmbeddingServer {
    address: SocketAddr,
    requests: Arc<Mutex<Vec<Value>>>,
    heads: Arc<Mutex<Vec<String>>>,
    answering: Arc<Mutex<Answering>>,
}

/// The vector of a text.
pub(super) fn vector(text: &str) -> Vec<f64> {
    let text = text.to_lowercase();
    let count = |words: &&[&str]| words.iter().filter(|word| text.contains(**word)).count() as f64;
    CONCEPTS.iter().map(count).chain([0.01]).collect()
}

pub(super) fn good(texts: &[String]) -> Reply {
    let data = texts.iter().enumerate();
    let data: Vec<Value> = data
        .map(|(at, text)| json!({"object": "embedding", "index": at, "embedding": vector(text)}))
        .collect();
    Reply::Json(json!({"object": "list", "data": data, "model": "concepts", "usage": {"prompt_tokens": 1}}))
}

impl EmbeddingServer {
    pub(super) fn start() -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap();
        let server = Self {
            address,
            requests: Arc::default(),
            heads: Arc::default(),
            answering: Arc::new(Mutex::new(Box::new(good))),
        };
        let (requests, heads, answering) =
            (Arc::clone(&server.requests), Arc::clone(&server.heads), Arc::clone(&server.answering));
        // Ends with the test's process.
        std::thread::spawn(move || {
            for mut stream in listener.incoming().flatten() {
                let Some((head, body)) = received(&stream) else { continue };
                heads.lock().unwrap().push(head);
                let texts = body["input"].as_array().unwrap();
                let texts: Vec<String> = texts.iter().map(|text| text.as_str().unwrap().to_owned()).collect();
                requests.lock().unwrap().push(body);
                let reply = answering.lock().unwrap()(&texts);
                // The client may go in the middle of an answer.
                let _ = play(reply, &mut stream);
            }
        });
        server
    }

    pub(super) fn answers(&self, answering: impl Fn(&[String]) -> Reply + Send + Sync + 'static) {
        *self.answering.lock().unwrap() = Box::new(answering);
    }

    /// Names this model in the user's configuration.
    pub(super) fn configure(&self, world: &World, more: &str) {
        let text = format!(
            "[provider.near]\napi = \"openai\"\nbase_url = \"http://{}/v1\"\n{more}\n[search]\nembeddings = \"near:concepts\"\ntimeout = 2\n",
            self.address
        );
        world.file("home/.config/prowess/prowess.toml", &text);
    }

    /// The bodies of the requests since this was last called.
    pub(super) fn take_requests(&self) -> Vec<Value> {
        std::mem::take(&mut *self.requests.lock().unwrap())
    }

    /// The heads of all requests.
    pub(super) fn heads(&self) -> String {
        self.heads.lock().unwrap().concat()
    }
}

fn play(reply: Reply, stream: &mut TcpStream) -> std::io::Result<()> {
    let (status, body) = match reply {
        Reply::Json(value) => (200, value.to_string()),
        Reply::Raw(text) => (200, text),
        Reply::Status(status, message) => (status, json!({"error": {"message": message}}).to_string()),
        Reply::Endless(length) => (200, "[".repeat(length)),
        Reply::Silence => {
            while stream.read(&mut [0; 64])? > 0 {}
            return Ok(());
        }
    };
    let head = format!("HTTP/1.1 {status} X\r\nContent-Type: application/json\r\nConnection: close\r\n");
    write!(stream, "{head}Content-Length: {}\r\n\r\n{body}", body.len())
}

/// The head and the body of a request.
fn received(stream: &TcpStream) -> Option<(String, Value)> {
    let mut reader = BufReader::new(stream);
    let (mut head, mut length) = (String::new(), 0);
    loop {
        let mut line = String::new();
        reader.read_line(&mut line).ok().filter(|read| *read > 0)?;
        if let Some(value) = line.to_lowercase().strip_prefix("content-length:") {
            length = value.trim().parse().ok()?;
        }
        head.push_str(&line);
        if line == "\r\n" {
            break;
        }
    }
    let mut body = vec![0; length];
    reader.read_exact(&mut body).ok()?;
    Some((head, serde_json::from_slice(&body).ok()?))
}
