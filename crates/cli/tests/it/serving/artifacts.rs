//! Artifacts that runs saved, over the wire.

use serde_json::{Value, json};

use super::Server;
use super::watching::permissive;
use crate::model::{Answer, FakeModel};

#[test]
fn all_versions_are_listed_and_read() {
    let save = |command: &str| {
        let run = json!({"skill": "tides", "command": command, "output_files": ["out/*"], "save_as_artifacts": true});
        Answer::call("skill_run", run)
    };
    let model = FakeModel::start(vec![
        save("mkdir -p out; echo low > out/tide.txt; echo once > out/note.txt"),
        save("rm out/note.txt; echo rising > out/tide.txt"),
        save("echo high > out/tide.txt"),
        Answer::text("High."),
    ]);
    let world = permissive(&model);
    let server = Server::start(&world);
    let ada = server.client("admin");
    let thread = ada.thread();
    ada.say(&thread, "Look up the tide.");
    let listed = |query: &str| -> Vec<(String, u64, u64)> {
        let listed = ada.get(&format!("/threads/{thread}/artifacts{query}"));
        let item = |item: &Value| {
            let name = item["name"].as_str().unwrap().to_owned();
            (name, item["version"].as_u64().unwrap(), item["bytes"].as_u64().unwrap())
        };
        listed["items"].as_array().unwrap().iter().map(item).collect()
    };
    let (note, tide) = ("out/note.txt".to_owned(), "out/tide.txt".to_owned());
    let latest = vec![(note.clone(), 0, 5), (tide.clone(), 2, 5)];
    assert_eq!(listed(""), latest);
    assert_eq!(listed("?versions=latest"), latest);
    assert_eq!(
        listed("?versions=all"),
        [(note, 0, 5), (tide.clone(), 2, 5), (tide.clone(), 1, 7), (tide, 0, 4)]
    );
    for (version, text) in ["low\n", "rising\n", "high\n"].iter().enumerate() {
        let path = format!("/threads/{thread}/artifacts/content?name=out/tide.txt&version={version}");
        assert_eq!(ada.ask("GET", &path, None).text(), *text);
    }
    assert_eq!(ada.ask("GET", &format!("/threads/{thread}/artifacts?versions=some"), None).status, 400);
}
