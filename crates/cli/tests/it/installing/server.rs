//! A small web server on loopback.

use std::collections::HashMap;
use std::io::{BufRead as _, BufReader, Write as _};
use std::net::{Ipv4Addr, TcpListener, TcpStream};
use std::sync::{Arc, Mutex};

/// What the server answers for a path.
#[derive(Clone)]
pub(super) enum Page {
    Body(Vec<u8>),
    Redirect(String),
}

/// A web server that runs until the test ends.
pub(super) struct Server {
    pub(super) url: String,
    pages: Arc<Mutex<HashMap<String, Page>>>,
    asked: Arc<Mutex<Vec<String>>>,
}

impl Server {
    pub(super) fn start() -> Self {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
        let url = format!("http://{}", listener.local_addr().unwrap());
        let (pages, asked) = (Arc::<Mutex<HashMap<_, _>>>::default(), Arc::<Mutex<Vec<_>>>::default());
        let server = Self { url, pages: Arc::clone(&pages), asked: Arc::clone(&asked) };
        std::thread::spawn(move || {
            for stream in listener.incoming().map_while(Result::ok) {
                let Some(path) = read(&stream) else { continue };
                let page = pages.lock().unwrap().get(&path).cloned();
                asked.lock().unwrap().push(path);
                answer(stream, page);
            }
        });
        server
    }

    /// Publishes a page.
    pub(super) fn page(&self, path: &str, body: impl Into<Vec<u8>>) -> &Self {
        self.pages.lock().unwrap().insert(path.to_owned(), Page::Body(body.into()));
        self
    }

    pub(super) fn redirect(&self, path: &str, to: &str) -> &Self {
        self.pages.lock().unwrap().insert(path.to_owned(), Page::Redirect(to.to_owned()));
        self
    }

    /// The paths that were asked for.
    pub(super) fn asked(&self) -> Vec<String> {
        self.asked.lock().unwrap().clone()
    }
}

/// The path of a request.
fn read(stream: &TcpStream) -> Option<String> {
    let mut lines = BufReader::new(stream).lines();
    let first = lines.next()?.ok()?;
    // The headers end with an empty line.
    lines.map_while(Result::ok).find(String::is_empty)?;
    let target = first.split(' ').nth(1)?;
    Some(target.split('?').next()?.to_owned())
}

fn answer(mut stream: TcpStream, page: Option<Page>) {
    let (status, header, body) = match page {
        Some(Page::Body(body)) => ("200 OK", String::new(), body),
        Some(Page::Redirect(to)) => ("302 Found", format!("location: {to}\r\n"), Vec::new()),
        None => ("404 Not Found", String::new(), b"<html>nothing here</html>".to_vec()),
    };
    let head =
        format!("HTTP/1.1 {status}\r\nconnection: close\r\n{header}content-length: {}\r\n\r\n", body.len());
    // The client may have seen enough.
    let _ = stream.write_all(head.as_bytes());
    let _ = stream.write_all(&body);
}
