//! Spans of `prowess run` and `prowess chat`, as a collector gets them.

use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::net::{TcpListener, TcpStream};
use std::sync::{Arc, Mutex};

use serde_json::json;

use crate::chat::world;
use crate::model::{Answer, FakeModel};
use crate::world::World;

/// A collector on loopback that keeps what it is sent. Names and values are readable in protobuf.
#[derive(Clone, Default)]
struct Collector(Arc<Mutex<Vec<u8>>>);

impl Collector {
    fn start() -> (Self, String) {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = format!("http://{}", listener.local_addr().unwrap());
        let collector = Self::default();
        let keeping = collector.clone();
        std::thread::spawn(move || {
            for stream in listener.incoming().flatten() {
                let keeping = keeping.clone();
                std::thread::spawn(move || keeping.serve(&stream));
            }
        });
        (collector, address)
    }

    fn serve(&self, stream: &TcpStream) {
        let mut reader = BufReader::new(stream);
        loop {
            let mut length = 0;
            loop {
                let mut line = String::new();
                if reader.read_line(&mut line).unwrap_or(0) == 0 {
                    return;
                }
                if let Some(told) = line.to_lowercase().strip_prefix("content-length: ") {
                    length = told.trim().parse().unwrap();
                }
                if line == "\r\n" {
                    break;
                }
            }
            let mut body = vec![0; length];
            reader.read_exact(&mut body).unwrap();
            self.0.lock().unwrap().extend(body);
            (&*stream).write_all(b"HTTP/1.1 200 OK\r\ncontent-length: 0\r\n\r\n").unwrap();
        }
    }

    fn has(&self, text: &str) -> bool {
        self.0.lock().unwrap().windows(text.len()).any(|window| window == text.as_bytes())
    }
}

const CONFIG: &str = "home/.config/prowess/prowess.toml";
const RUN: [&str; 4] = ["run", "tides", "--", "echo hidden-words; exit 3"];

fn configured(world: &World, more: &str) {
    let config = std::fs::read_to_string(world.path(CONFIG)).unwrap();
    world.file(CONFIG, &format!("{config}\n[telemetry]\n{more}"));
}

#[test]
fn a_run_sends_its_steps_before_it_ends() {
    let world = world(&FakeModel::start(Vec::new()));
    let (collector, address) = Collector::start();
    configured(&world, &format!("endpoint = \"{address}\""));
    let output = world.output(&RUN);
    assert_eq!(output.status.code(), Some(3));
    assert_eq!(String::from_utf8_lossy(&output.stdout), "hidden-words\n");
    for span in ["prowess run", "workspace.create", "workspace.stage.skill", "workspace.run", "exit_code"] {
        assert!(collector.has(span), "{span}");
    }
    assert!(!String::from_utf8_lossy(&output.stderr).contains("telemetry"));
    for absent in ["hidden-words", "tides", "gen_ai.skill"] {
        assert!(!collector.has(absent), "{absent}");
    }
    // One that does not begin says so.
    let refused = world.output(&["run", "tides", "--input", "artifact://missing", "--", "true"]);
    assert_eq!(refused.status.code(), Some(125), "{refused:?}");
    assert!(collector.has("nothing_ran"));
}

#[test]
fn names_of_skills_are_sent_if_the_user_says_so() {
    let (collector, address) = Collector::start();
    let world = world(&FakeModel::start(Vec::new()));
    configured(&world, &format!("endpoint = \"{address}\"\nskills = \"on\""));
    assert_eq!(world.output(&RUN).status.code(), Some(3));
    assert!(collector.has("gen_ai.skill.name") && collector.has("tides") && !collector.has("hidden-words"));

    let model = FakeModel::start(vec![
        Answer::call("skill_load", json!({"skill": "tides"})),
        Answer::call("skill_load", json!({"skill": "hidden-words"})),
        Answer::text("Loaded."),
    ]);
    let (collector, address) = Collector::start();
    let world = crate::chat::world(&model);
    configured(&world, &format!("endpoint = \"{address}\"\nskills = \"on\""));
    world.stdout(&["chat", "--yes", "load it"]);
    for sent in
        ["execute_tool skill_load", "gen_ai.skill.operation", "gen_ai.skill.digest", "sha256:", "tides"]
    {
        assert!(collector.has(sent), "{sent}");
    }
    assert!(!collector.has("hidden-words"), "only names of skills are sent");
}

#[test]
fn a_collector_that_is_down_fails_nothing() {
    let world = world(&FakeModel::start(Vec::new()));
    let free = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
    configured(&world, &format!("endpoint = \"http://{free}\""));
    let output = world.output(&RUN);
    assert_eq!((output.status.code(), &output.stdout[..]), (Some(3), &b"hidden-words\n"[..]));
    let told = String::from_utf8_lossy(&output.stderr);
    assert!(told.contains("telemetry: ") && told.contains("spans were not sent"), "{told}");

    // Settings that are wrong are no reason either.
    let mut world = crate::chat::world(&FakeModel::start(Vec::new()));
    world.variable("OTEL_EXPORTER_OTLP_ENDPOINT", "nowhere");
    let output = world.output(&RUN);
    assert_eq!(output.status.code(), Some(3));
    let told = String::from_utf8_lossy(&output.stderr);
    assert!(told.contains("telemetry: ") && told.contains("no spans are sent"), "{told}");
}
