//! A model on this machine that says what it was told to: chat completions as OpenAI streams them.

use std::collections::VecDeque;
use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::sync::{Arc, Condvar, Mutex};
use std::time::Duration;

use serde_json::{Value, json};

/// How long a test waits for what must come.
const PATIENCE: Duration = Duration::from_secs(20);

/// The number of the next call, which is its name.
static CALLS: AtomicUsize = AtomicUsize::new(1);

/// Has the calls from now on begin with this number, so that no other process gives them the same names.
pub(crate) fn number_calls_from(number: usize) {
    CALLS.store(number, Ordering::Relaxed);
}

/// Which requests an answer is for.
type Choice = Box<dyn Fn(&Value) -> bool + Send>;

/// Derives calls of tools from a request.
type Derive = dyn Fn(&Value) -> Vec<(&'static str, Value)> + Send;

/// One answer of the model.
pub(crate) struct Answer {
    saying: Saying,
    usage: (u64, u64),
    /// What is reported instead.
    report: Option<Value>,
    chosen: Option<Choice>,
    gate: Option<Gate>,
}

/// Holds answers back until a test opens it.
#[derive(Clone, Default)]
pub(crate) struct Gate(Arc<(Mutex<bool>, Condvar)>);

impl Gate {
    pub(crate) fn open(&self) {
        *self.0.0.lock().unwrap() = true;
        self.0.1.notify_all();
    }

    fn pass(&self) {
        let is_open = self.0.0.lock().unwrap();
        let _unused = self.0.1.wait_timeout_while(is_open, PATIENCE, |is_open| !*is_open).unwrap();
    }
}

enum Saying {
    /// Pieces of text and calls, with a pause after each piece.
    Parts(Vec<Part>, Duration),
    /// Calls that depend on what the model was shown.
    Calls(Box<Derive>),
    /// No answer but an error.
    Status(u16, String),
    /// A whole body of this type, as it is.
    Body(&'static str, String),
    /// The beginning of an answer, and nothing more until the client goes.
    Hang,
}

enum Part {
    Text(String),
    /// Nothing, until the test says so.
    Wait(Receiver<()>),
    Call(&'static str, Value),
}

impl Answer {
    fn new(saying: Saying) -> Self {
        Self { saying, usage: (100, 10), report: None, chosen: None, gate: None }
    }

    /// Says this, word for word.
    pub(crate) fn text(text: &str) -> Self {
        Self::slow(text, Duration::ZERO)
    }

    /// Says this with a pause after each word.
    pub(crate) fn slow(text: &str, pause: Duration) -> Self {
        let words = text.split_inclusive(' ').map(|word| Part::Text(word.to_owned())).collect();
        Self::new(Saying::Parts(words, pause))
    }

    /// Says the first word of this, and the others once the test sends something.
    pub(crate) fn paused(text: &str) -> (Self, Sender<()>) {
        let (go_on, held) = channel();
        let mut words: Vec<Part> =
            text.split_inclusive(' ').map(|word| Part::Text(word.to_owned())).collect();
        words.insert(1, Part::Wait(held));
        (Self::new(Saying::Parts(words, Duration::ZERO)), go_on)
    }

    /// Calls a tool.
    pub(crate) fn call(name: &'static str, arguments: Value) -> Self {
        Self::new(Saying::Parts(vec![Part::Call(name, arguments)], Duration::ZERO))
    }

    /// Calls a tool after what it says or calls already.
    pub(crate) fn and_call(mut self, name: &'static str, arguments: Value) -> Self {
        if let Saying::Parts(parts, _) = &mut self.saying {
            parts.push(Part::Call(name, arguments));
        }
        self
    }

    /// Makes the calls that a function derives from the request.
    pub(crate) fn calls(calls: impl Fn(&Value) -> Vec<(&'static str, Value)> + Send + 'static) -> Self {
        Self::new(Saying::Calls(Box::new(calls)))
    }

    /// Refuses with a status and a message.
    pub(crate) fn status(status: u16, message: &str) -> Self {
        Self::new(Saying::Status(status, message.to_owned()))
    }

    /// Says this as Anthropic's Messages stream it, after it has read so many tokens.
    pub(crate) fn messages(text: &str, input: u64) -> Self {
        let events = [
            json!({"type": "message_start", "message": {"usage": {"input_tokens": input, "output_tokens": 1}}}),
            json!({"type": "content_block_start", "index": 0, "content_block": {"type": "text", "text": text}}),
            json!({"type": "content_block_stop", "index": 0}),
            json!({"type": "message_delta", "delta": {"stop_reason": "end_turn"}, "usage": {"output_tokens": 9}}),
            json!({"type": "message_stop"}),
        ];
        let event = |event: &Value| format!("event: {}\ndata: {event}\n\n", event["type"].as_str().unwrap());
        Self::new(Saying::Body("text/event-stream", events.iter().map(event).collect()))
    }

    /// Answers with JSON.
    pub(crate) fn json(value: &Value) -> Self {
        Self::new(Saying::Body("application/json", value.to_string()))
    }

    /// Begins to answer and never goes on.
    pub(crate) fn hang() -> Self {
        Self::new(Saying::Hang)
    }

    /// The tokens that the answer says it took.
    pub(crate) fn usage(mut self, input: u64, output: u64) -> Self {
        self.usage = (input, output);
        self
    }

    /// Is not begun before the gate is open.
    pub(crate) fn held(mut self, gate: &Gate) -> Self {
        self.gate = Some(gate.clone());
        self
    }

    /// Is for the first request that is like this, and not for whichever comes next.
    pub(crate) fn when(mut self, chosen: impl Fn(&Value) -> bool + Send + 'static) -> Self {
        self.chosen = Some(Box::new(chosen));
        self
    }

    /// The same, with these numbers of tokens as they are: a report may be nonsense.
    pub(crate) fn reports(mut self, usage: Value) -> Self {
        self.report = Some(usage);
        self
    }

    fn play(self, stream: &mut TcpStream, request: &Value) -> std::io::Result<()> {
        if let Some(gate) = &self.gate {
            gate.pass();
        }
        let model = request["model"].as_str().unwrap_or_default();
        let (parts, pause) = match self.saying {
            Saying::Calls(calls) => {
                let calls = calls(request).into_iter().map(|(name, arguments)| Part::Call(name, arguments));
                (calls.collect(), Duration::ZERO)
            }
            Saying::Parts(parts, pause) => (parts, pause),
            Saying::Status(status, message) => {
                let body = json!({"error": {"message": message}}).to_string();
                let head = format!("HTTP/1.1 {status} Refused\r\nContent-Type: application/json\r\n");
                return write!(
                    stream,
                    "{head}Content-Length: {}\r\nConnection: close\r\n\r\n{body}",
                    body.len()
                );
            }
            Saying::Body(kind, body) => {
                let head = format!("HTTP/1.1 200 OK\r\nContent-Type: {kind}\r\nConnection: close\r\n");
                return write!(stream, "{head}Content-Length: {}\r\n\r\n{body}", body.len());
            }
            Saying::Hang => {
                stream.write_all(HEAD.as_bytes())?;
                return until_gone(stream);
            }
        };
        stream.write_all(HEAD.as_bytes())?;
        let mut event = |delta: Value, reason: Option<&str>| {
            let choice = json!({"index": 0, "delta": delta, "finish_reason": reason});
            let chunk =
                json!({"id": "c", "object": "chat.completion.chunk", "model": model, "choices": [choice]});
            send(stream, &chunk.to_string())?;
            if pause.is_zero() { Ok(()) } else { paused(stream, pause) }
        };
        event(json!({"role": "assistant"}), None)?;
        let (mut calls, mut reason) = (0, "stop");
        for part in parts {
            match part {
                Part::Text(text) => event(json!({"content": text}), None)?,
                // A test that failed sends nothing, and nobody reads on.
                Part::Wait(held) => drop(held.recv_timeout(PATIENCE)),
                Part::Call(name, arguments) => {
                    let id = format!("call_{}", CALLS.fetch_add(1, Ordering::Relaxed));
                    let function = json!({"name": name, "arguments": arguments.to_string()});
                    let call = json!({"index": calls, "id": id, "type": "function", "function": function});
                    event(json!({"tool_calls": [call]}), None)?;
                    (calls, reason) = (calls + 1, "tool_calls");
                }
            }
        }
        event(json!({}), Some(reason))?;
        let (input, output) = self.usage;
        let usage =
            json!({"prompt_tokens": input, "completion_tokens": output, "total_tokens": input + output});
        let usage = self.report.unwrap_or(usage);
        send(stream, &json!({"choices": [], "usage": usage}).to_string())?;
        send(stream, "[DONE]")
    }
}

/// The body ends with the connection.
const HEAD: &str = "HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nConnection: close\r\n\r\n";

fn send(stream: &mut TcpStream, data: &str) -> std::io::Result<()> {
    stream.write_all(format!("data: {data}\n\n").as_bytes())
}

/// Waits, unless the client goes meanwhile.
fn paused(stream: &mut TcpStream, pause: Duration) -> std::io::Result<()> {
    stream.set_read_timeout(Some(pause))?;
    // Only a client that goes ends this before its time.
    match stream.read_exact(&mut [0]) {
        Err(error) if error.kind() == std::io::ErrorKind::UnexpectedEof => Err(error),
        _ => Ok(()),
    }
}

fn until_gone(stream: &mut TcpStream) -> std::io::Result<()> {
    while stream.read(&mut [0; 64])? > 0 {}
    Ok(())
}

/// A server that gives its answers in turn, and keeps what it was asked.
pub(crate) struct FakeModel {
    address: SocketAddr,
    state: Arc<(Mutex<State>, Condvar)>,
}

/// Gives an answer to each request.
type Script = Box<dyn FnMut(&Value) -> Answer + Send>;

#[derive(Default)]
struct State {
    answers: VecDeque<Answer>,
    script: Option<Script>,
    requests: Vec<Value>,
    /// How many answers have ended, by themselves or because the client went.
    ended: usize,
}

impl FakeModel {
    /// Gives these answers in turn; whoever asks more often is refused.
    pub(crate) fn start(answers: Vec<Answer>) -> Self {
        Self::run(State { answers: answers.into(), ..State::default() })
    }

    /// Gives the answers of a script, which sees each request.
    pub(crate) fn scripted(script: impl FnMut(&Value) -> Answer + Send + 'static) -> Self {
        Self::run(State { script: Some(Box::new(script)), ..State::default() })
    }

    fn run(state: State) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap();
        let state = Arc::new((Mutex::new(state), Condvar::new()));
        let shared = Arc::clone(&state);
        // Ends with the test's process.
        std::thread::spawn(move || {
            for stream in listener.incoming().flatten() {
                let shared = Arc::clone(&shared);
                std::thread::spawn(move || serve(stream, &shared));
            }
        });
        Self { address, state }
    }

    /// Gives these answers after all others.
    pub(crate) fn then(&self, answers: Vec<Answer>) {
        self.state.0.lock().unwrap().answers.extend(answers);
    }

    /// Gives these answers in place of those that nobody asked for.
    pub(crate) fn instead(&self, answers: Vec<Answer>) {
        self.state.0.lock().unwrap().answers = answers.into();
    }

    /// What a configuration has as `base_url`.
    pub(crate) fn url(&self) -> String {
        format!("http://{}/v1", self.address)
    }

    /// The bodies of the requests so far.
    pub(crate) fn requests(&self) -> Vec<Value> {
        self.state.0.lock().unwrap().requests.clone()
    }

    /// Waits until it was asked so often.
    pub(crate) fn wait_for_requests(&self, count: usize) {
        self.wait("was not asked", |state| state.requests.len() >= count);
    }

    /// Waits until so many answers have ended: a client that goes ends one.
    pub(crate) fn wait_for_ends(&self, count: usize) {
        self.wait("was not left", |state| state.ended >= count);
    }

    fn wait(&self, otherwise: &str, is_there: impl Fn(&State) -> bool) {
        let (state, changed) = &*self.state;
        let state = state.lock().unwrap();
        let (state, _) = changed.wait_timeout_while(state, PATIENCE, |state| !is_there(state)).unwrap();
        assert!(
            is_there(&state),
            "the model {otherwise}: {} requests, {} ended",
            state.requests.len(),
            state.ended
        );
    }
}

fn serve(mut stream: TcpStream, shared: &(Mutex<State>, Condvar)) {
    let Some(body) = received(&stream) else { return };
    let (state, changed) = shared;
    let answer = {
        let mut state = state.lock().unwrap();
        let chosen = state
            .answers
            .iter()
            .position(|answer| answer.chosen.as_ref().is_some_and(|chosen| chosen(&body)));
        let next = chosen.or_else(|| state.answers.iter().position(|answer| answer.chosen.is_none()));
        state.requests.push(body.clone());
        changed.notify_all();
        let answer = next.and_then(|at| state.answers.remove(at));
        answer.or_else(|| state.script.as_mut().map(|script| script(&body)))
    };
    let answer = answer.unwrap_or_else(|| Answer::status(400, "the fake model has no answer left"));
    // A client may go in the middle of an answer.
    let _ = answer.play(&mut stream, &body);
    state.lock().unwrap().ended += 1;
    changed.notify_all();
}

/// The body of a request, in JSON.
fn received(stream: &TcpStream) -> Option<Value> {
    let mut reader = BufReader::new(stream);
    let mut length = 0;
    loop {
        let mut line = String::new();
        if reader.read_line(&mut line).ok()? == 0 {
            return None;
        }
        let line = line.trim().to_lowercase();
        if line.is_empty() {
            break;
        }
        if let Some(given) = line.strip_prefix("content-length:") {
            length = given.trim().parse().ok()?;
        }
    }
    let mut body = vec![0; length];
    reader.read_exact(&mut body).ok()?;
    serde_json::from_slice(&body).ok()
}

/// Sends a request, and gives what comes back until the connection ends.
fn asked(model: &FakeModel, body: &Value) -> String {
    let mut stream = begun(model, body);
    let mut answer = String::new();
    stream.read_to_string(&mut answer).unwrap();
    answer
}

fn begun(model: &FakeModel, body: &Value) -> TcpStream {
    let mut stream = TcpStream::connect(model.address).unwrap();
    stream.set_read_timeout(Some(PATIENCE)).unwrap();
    let body = body.to_string();
    write!(stream, "POST /v1/chat/completions HTTP/1.1\r\nContent-Length: {}\r\n\r\n{body}", body.len())
        .unwrap();
    stream
}

#[test]
fn answers_come_in_turn_unless_they_are_chosen() {
    let model = FakeModel::start(vec![
        Answer::text("first words").usage(7, 3),
        Answer::text("a summary").when(|body| body["messages"] == "summarise"),
        Answer::slow("and", Duration::from_millis(1)).and_call("ls", json!({"path": "/"})),
        Answer::status(401, "no such key"),
    ]);
    let first = asked(&model, &json!({"model": "m", "messages": "a"}));
    assert!(first.contains(r#""content":"first ""#) && first.contains(r#""content":"words""#), "{first}");
    assert!(first.contains(r#""prompt_tokens":7"#) && first.ends_with("data: [DONE]\n\n"), "{first}");
    let call = asked(&model, &json!({"messages": "b"}));
    assert!(call.contains(r#""name":"ls","arguments":"{\"path\":\"/\"}""#), "{call}");
    assert!(call.contains(r#""finish_reason":"tool_calls""#), "{call}");
    assert!(asked(&model, &json!({"messages": "summarise"})).contains("summary"));
    assert!(asked(&model, &json!({})).starts_with("HTTP/1.1 401 "));
    assert!(asked(&model, &json!({})).contains("no answer left"));
    assert_eq!(model.requests()[1], json!({"messages": "b"}));
    assert_eq!(model.requests().len(), 5);
}

#[test]
fn an_answer_that_hangs_ends_when_the_client_goes() {
    let model = FakeModel::start(vec![Answer::hang()]);
    let mut stream = begun(&model, &json!({}));
    model.wait_for_requests(1);
    let mut start = [0; 8];
    stream.read_exact(&mut start).unwrap();
    assert_eq!(&start, b"HTTP/1.1");
    drop(stream);
    model.wait_for_ends(1);
}
