//! A collector on loopback that keeps what it is sent.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::{TcpListener, TcpStream};
use std::sync::{Arc, Mutex};

use opentelemetry_proto::tonic::collector::trace::v1::ExportTraceServiceRequest;
use opentelemetry_proto::tonic::common::v1::any_value::Value;
use opentelemetry_proto::tonic::common::v1::{AnyValue, KeyValue};
use opentelemetry_proto::tonic::trace::v1::Span;
use prost::Message as _;

/// A request: its first line and headers, and its body.
pub(super) type Request = (String, Vec<u8>);

#[derive(Clone, Default)]
pub(super) struct Collector {
    pub(super) requests: Arc<Mutex<Vec<Request>>>,
}

impl Collector {
    /// Listens until the process ends. Gives the address.
    pub(super) fn start() -> (Self, String) {
        Self::answering("HTTP/1.1 200 OK\r\ncontent-length: 0\r\n\r\n".to_owned())
    }

    /// The same with another answer to everything.
    pub(super) fn answering(answer: String) -> (Self, String) {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = format!("http://{}", listener.local_addr().unwrap());
        let collector = Self::default();
        let keeping = collector.clone();
        std::thread::spawn(move || {
            for stream in listener.incoming().flatten() {
                let (keeping, answer) = (keeping.clone(), answer.clone());
                std::thread::spawn(move || keeping.serve(&stream, &answer));
            }
        });
        (collector, address)
    }

    fn serve(&self, stream: &TcpStream, answer: &str) {
        let mut reader = BufReader::new(stream);
        loop {
            let mut head = String::new();
            while !head.ends_with("\r\n\r\n") {
                if reader.read_line(&mut head).unwrap_or(0) == 0 {
                    return;
                }
            }
            let length = head.to_lowercase().lines().find_map(|line| {
                line.strip_prefix("content-length: ").and_then(|length| length.trim().parse().ok())
            });
            let mut body = vec![0; length.unwrap_or(0)];
            reader.read_exact(&mut body).unwrap();
            self.requests.lock().unwrap().push((head, body));
            (&*stream).write_all(answer.as_bytes()).unwrap();
        }
    }

    /// All spans that came.
    pub(super) fn spans(&self) -> Vec<Span> {
        let requests = self.requests.lock().unwrap();
        let sent = requests.iter().map(|(_, body)| ExportTraceServiceRequest::decode(&body[..]).unwrap());
        let scopes = sent.flat_map(|sent| sent.resource_spans).flat_map(|sent| sent.scope_spans);
        scopes.flat_map(|scope| scope.spans).collect()
    }

    /// What the sender says of itself.
    pub(super) fn resource(&self, key: &str) -> Option<String> {
        let requests = self.requests.lock().unwrap();
        let sent = ExportTraceServiceRequest::decode(&requests.first()?.1[..]).unwrap();
        attribute(&sent.resource_spans.first()?.resource.as_ref()?.attributes, key)
    }

    /// Whether some bytes are anywhere in what came.
    pub(super) fn has(&self, text: &str) -> bool {
        let requests = self.requests.lock().unwrap();
        requests.iter().any(|(_, body)| body.windows(text.len()).any(|window| window == text.as_bytes()))
    }
}

/// A value as text.
pub(super) fn attribute(attributes: &[KeyValue], key: &str) -> Option<String> {
    let found = attributes.iter().find(|attribute| attribute.key == key)?;
    Some(shown(found.value.as_ref()))
}

pub(super) fn shown(value: Option<&AnyValue>) -> String {
    match value.and_then(|value| value.value.as_ref()) {
        Some(Value::StringValue(text)) => text.clone(),
        Some(Value::IntValue(number)) => number.to_string(),
        Some(Value::BoolValue(is)) => is.to_string(),
        Some(Value::ArrayValue(list)) => {
            format!("[{}]", list.values.iter().map(|value| shown(Some(value))).collect::<Vec<_>>().join(", "))
        }
        other => format!("{other:?}"),
    }
}
