//! Whatever an embedding endpoint answers, words find skills, and the person is told why the meaning did not.

use serde_json::{Value, json};

use super::embedding_server::{EmbeddingServer, Reply, good, vector};
use super::found;
use crate::world::World;

fn furnished(server: &EmbeddingServer) -> World {
    let world = World::new();
    server.configure(&world, "");
    world.skill("home/.prowess/skills", "mend-canvas", "Repairs torn cloth of a boat.").skill(
        "home/.prowess/skills",
        "sourdough",
        "Makes loaves with wild yeast.",
    );
    world
}

fn vectors(of: impl Fn(usize) -> Value) -> impl Fn(&[String]) -> Reply {
    move |texts: &[String]| {
        let data: Vec<Value> = (0..texts.len()).map(|at| json!({"index": at, "embedding": of(at)})).collect();
        Reply::Json(json!({ "data": data }))
    }
}

#[test]
fn answers_that_are_no_vectors_are_ignored() {
    let server = EmbeddingServer::start();
    type Hostile = Box<dyn Fn(&[String]) -> Reply + Send + Sync>;
    let hostile: Vec<(&str, Hostile)> = vec![
        ("0 vectors for 2 texts", Box::new(|_: &[String]| Reply::Json(json!({"data": []})))),
        (
            "3 vectors for 2 texts",
            Box::new(|_: &[String]| vectors(|_| json!([1.0]))(&vec![String::new(); 3])),
        ),
        ("vectors of different lengths", Box::new(vectors(|at| json!(vec![1.0; at + 1])))),
        ("not a vector", Box::new(vectors(|_| json!([])))),
        ("not a vector", Box::new(vectors(|_| json!([0.0, 0.0])))),
        ("the response has no vectors", Box::new(vectors(|_| json!([1e300, 1.0])))),
        ("not a vector", Box::new(vectors(|_| json!(vec![0.5; 5_000])))),
        ("the response has no vectors", Box::new(vectors(|_| json!(["a", "b"])))),
        ("the response has no vectors", Box::new(vectors(|_| json!([null])))),
        (
            "the response has no vectors",
            Box::new(|_: &[String]| Reply::Raw("{\"data\": [{\"embedding\": [NaN]}]}".into())),
        ),
        ("the response has no vectors", Box::new(|_: &[String]| Reply::Raw("<html>".into()))),
        (
            "not numbered in order",
            Box::new(|_: &[String]| {
                let item = json!({"index": 1, "embedding": [1.0]});
                Reply::Json(json!({"data": [item, item]}))
            }),
        ),
        ("the response is longer than", Box::new(|_: &[String]| Reply::Endless(9 * 1024 * 1024))),
        ("the response has no vectors", Box::new(|_: &[String]| Reply::Endless(1024 * 1024))),
        ("bad [31m news", Box::new(|_: &[String]| Reply::Status(400, "bad\u{1b}[31m news"))),
        ("took too long", Box::new(|_: &[String]| Reply::Silence)),
    ];
    for (why, answering) in hostile {
        let world = furnished(&server);
        server.answers(answering);
        let told = world.run(&["search", "torn cloth"]);
        assert!(told.starts_with("exit 0") && told.contains("mend-canvas"), "{why}: {told}");
        assert_eq!(told.matches("search uses words alone").count(), 1, "{why}: {told}");
        assert!(told.contains(why) && !told.contains('\u{1b}'), "{why}: {told}");
    }
}

#[test]
fn another_model_under_the_same_name_is_noticed() {
    let server = EmbeddingServer::start();
    let world = furnished(&server);
    assert_eq!(found(&world, "prepare our yacht")[0], "mend-canvas");
    // Its vectors are longer now. The stored ones cannot be compared with them, so all are made again.
    server.answers(|texts| {
        let Reply::Json(mut answer) = good(texts) else { unreachable!() };
        for (item, text) in answer["data"].as_array_mut().unwrap().iter_mut().zip(texts) {
            item["embedding"] = json!([vector(text), vec![0.01]].concat());
        }
        Reply::Json(answer)
    });
    server.take_requests();
    assert_eq!(found(&world, "prepare our yacht")[0], "mend-canvas");
    let sizes: Vec<usize> =
        server.take_requests().iter().map(|request| request["input"].as_array().unwrap().len()).collect();
    assert_eq!(sizes, [1, 2], "the query, then all skills");
    assert_eq!(found(&world, "prepare our yacht")[0], "mend-canvas");
    assert_eq!(server.take_requests().len(), 1);
}

#[test]
fn damaged_vectors_on_the_disk_are_made_again() {
    let server = EmbeddingServer::start();
    let world = furnished(&server);
    found(&world, "prepare our yacht");
    let directory = world.path("home/.cache/prowess/vectors");
    let file = std::fs::read_dir(directory).unwrap().next().unwrap().unwrap().path();
    let good = std::fs::read(&file).unwrap();
    for bytes in [&b""[..], &good[..good.len() - 1], &[0xFF; 300]] {
        std::fs::write(&file, bytes).unwrap();
        server.take_requests();
        assert_eq!(found(&world, "prepare our yacht")[0], "mend-canvas");
        assert_eq!(server.take_requests().len(), 2);
        assert_eq!(std::fs::read(&file).unwrap(), good);
    }
}
