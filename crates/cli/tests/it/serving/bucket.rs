//! A bucket on this machine, as far as prowess uses one: S3 over plain HTTP, with a key and a secret that nobody checks.

use std::collections::BTreeMap;
use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::net::{TcpListener, TcpStream};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard};

use crate::world::World;

/// The name of the bucket.
pub(super) const NAME: &str = "prowess";

/// A bucket.
#[derive(Clone)]
pub(super) struct Bucket(Arc<Shared>);

struct Shared {
    address: String,
    objects: Mutex<BTreeMap<String, Vec<u8>>>,
    /// Whether it refuses to write below `threads/` and `removed/`.
    refuses: AtomicBool,
    /// Whether it refuses to read below `threads/`.
    hides: AtomicBool,
    /// Whether a tenth of the requests fails.
    is_flaky: AtomicBool,
    requests: AtomicU64,
}

struct Request {
    method: String,
    /// The path without the bucket, and what follows a question mark.
    key: String,
    query: String,
    headers: BTreeMap<String, String>,
    body: Vec<u8>,
}

impl Bucket {
    pub(super) fn start() -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let bucket = Self(Arc::new(Shared {
            address: listener.local_addr().unwrap().to_string(),
            objects: Mutex::default(),
            refuses: AtomicBool::new(false),
            hides: AtomicBool::new(false),
            is_flaky: AtomicBool::new(false),
            requests: AtomicU64::new(0),
        }));
        let served = bucket.clone();
        std::thread::spawn(move || {
            for stream in listener.incoming().flatten() {
                let served = served.clone();
                std::thread::spawn(move || served.serve(&stream));
            }
        });
        bucket
    }

    /// Has the servers of a world keep their files here.
    pub(super) fn give_to(&self, world: &mut World) {
        for (name, value) in [
            ("PROWESS_FILES", format!("s3://{NAME}/here").as_str()),
            ("AWS_ENDPOINT_URL", &format!("http://{}", self.0.address)),
            ("AWS_ALLOW_HTTP", "true"),
            ("AWS_ACCESS_KEY_ID", "test"),
            ("AWS_SECRET_ACCESS_KEY", "test"),
            ("AWS_REGION", "us-east-1"),
        ] {
            world.variable(name, value);
        }
    }

    /// The keys of the objects.
    pub(super) fn keys(&self) -> Vec<String> {
        self.objects().keys().cloned().collect()
    }

    /// Changes the last byte of every object whose key contains this.
    pub(super) fn damage(&self, part: &str) {
        let mut objects = self.objects();
        let found = objects.iter_mut().filter(|(key, _)| key.contains(part));
        found.filter_map(|(_, object)| object.last_mut()).for_each(|byte| *byte ^= 1);
    }

    pub(super) fn refuse(&self, refuses: bool) {
        self.0.refuses.store(refuses, Ordering::Relaxed);
    }

    pub(super) fn hide(&self, hides: bool) {
        self.0.hides.store(hides, Ordering::Relaxed);
    }

    pub(super) fn be_flaky(&self) {
        self.0.is_flaky.store(true, Ordering::Relaxed);
    }

    /// How many requests there were.
    pub(super) fn requests(&self) -> u64 {
        self.0.requests.load(Ordering::Relaxed)
    }

    fn objects(&self) -> MutexGuard<'_, BTreeMap<String, Vec<u8>>> {
        self.0.objects.lock().unwrap()
    }

    fn serve(&self, stream: &TcpStream) {
        let mut reader = BufReader::new(stream);
        while let Some(request) = read(&mut reader) {
            let (status, headers, body) = self.answer(&request);
            let mut head = format!("HTTP/1.1 {status} X\r\n{headers}");
            if !headers.contains("content-length") {
                head.push_str(&format!("content-length: {}\r\n", body.len()));
            }
            let sent = (&*stream).write_all(format!("{head}\r\n").as_bytes());
            if sent.and_then(|()| (&*stream).write_all(&body)).is_err() {
                return;
            }
        }
    }

    fn answer(&self, request: &Request) -> (u16, String, Vec<u8>) {
        let number = self.0.requests.fetch_add(1, Ordering::Relaxed);
        if self.0.is_flaky.load(Ordering::Relaxed) && number % 10 == 3 {
            return (500, String::new(), b"<Error><Code>InternalError</Code></Error>".to_vec());
        }
        let Request { method, key, query, headers, body } = request;
        let mut objects = self.objects();
        match method.as_str() {
            "PUT"
                if self.0.refuses.load(Ordering::Relaxed)
                    && (key.contains("/threads/") || key.contains("/removed/")) =>
            {
                (403, String::new(), b"<Error><Code>AccessDenied</Code></Error>".to_vec())
            }
            "PUT" if headers.contains_key("if-none-match") && objects.contains_key(key) => {
                (412, String::new(), b"<Error><Code>PreconditionFailed</Code></Error>".to_vec())
            }
            "PUT" => {
                objects.insert(key.clone(), body.clone());
                (200, "etag: \"1\"\r\n".to_owned(), Vec::new())
            }
            "POST" if query.starts_with("delete") => {
                let text = String::from_utf8_lossy(body);
                let mut deleted = String::new();
                for key in text.split("<Key>").skip(1).filter_map(|part| part.split("</Key>").next()) {
                    objects.remove(key);
                    deleted.push_str(&format!("<Deleted><Key>{key}</Key></Deleted>"));
                }
                (200, String::new(), format!("<DeleteResult>{deleted}</DeleteResult>").into_bytes())
            }
            "DELETE" => {
                objects.remove(key);
                (204, String::new(), Vec::new())
            }
            "GET" if self.0.hides.load(Ordering::Relaxed) && key.contains("/threads/") => {
                (403, String::new(), b"<Error><Code>AccessDenied</Code></Error>".to_vec())
            }
            "GET" if query.contains("list-type=2") => (200, String::new(), list(&objects, query)),
            "GET" | "HEAD" => match objects.get(key) {
                None => (404, String::new(), Vec::new()),
                Some(object) => found(method, headers.get("range"), object),
            },
            _ => (400, String::new(), Vec::new()),
        }
    }
}

/// An object, or a part of it.
fn found(method: &str, range: Option<&String>, object: &[u8]) -> (u16, String, Vec<u8>) {
    let kind = "etag: \"1\"\r\nlast-modified: Thu, 01 Jan 2026 00:00:00 GMT\r\n";
    if let Some((from, to)) = range.and_then(|range| range.strip_prefix("bytes=")?.split_once('-')) {
        let from: usize = from.parse().unwrap();
        let to = to.parse().map_or(object.len(), |to: usize| object.len().min(to + 1));
        let head = format!("{kind}content-range: bytes {from}-{}/{}\r\n", to - 1, object.len());
        return (206, head, object[from..to].to_vec());
    }
    let head = format!("{kind}content-length: {}\r\n", object.len());
    (200, head, if method == "HEAD" { Vec::new() } else { object.to_vec() })
}

fn list(objects: &BTreeMap<String, Vec<u8>>, query: &str) -> Vec<u8> {
    let value = |name: &str| query.split('&').find_map(|pair| pair.strip_prefix(name)?.strip_prefix('='));
    let prefix = value("prefix").unwrap_or_default().replace("%2F", "/");
    let mut text = String::from("<ListBucketResult><IsTruncated>false</IsTruncated>");
    for (key, object) in objects.iter().filter(|(key, _)| key.starts_with(&prefix)) {
        text.push_str(&format!(
            "<Contents><Key>{key}</Key><LastModified>2026-01-01T00:00:00.000Z</LastModified><ETag>\"1\"</ETag><Size>{}</Size></Contents>",
            object.len()
        ));
    }
    text.push_str("</ListBucketResult>");
    text.into_bytes()
}

fn read(reader: &mut BufReader<&TcpStream>) -> Option<Request> {
    let mut line = String::new();
    reader.read_line(&mut line).ok().filter(|length| *length > 0)?;
    let mut words = line.split_whitespace();
    let (method, target) = (words.next()?.to_owned(), words.next()?.to_owned());
    let mut headers = BTreeMap::new();
    loop {
        let mut line = String::new();
        reader.read_line(&mut line).ok()?;
        let Some((name, value)) = line.trim_end().split_once(':') else { break };
        headers.insert(name.to_lowercase(), value.trim().to_owned());
    }
    let length = headers.get("content-length").map_or(0, |length| length.parse().unwrap());
    let mut body = vec![0; length];
    reader.read_exact(&mut body).ok()?;
    let (path, query) = target.split_once('?').unwrap_or((&target, ""));
    let key = path.trim_start_matches('/').strip_prefix(NAME)?.trim_start_matches('/').to_owned();
    Some(Request { method, key, query: query.to_owned(), headers, body })
}
