//! Search by meaning: an embedding model finds skills that have no word of the query.

use serde_json::json;

use super::embedding_server::{EmbeddingServer, Reply, good};
use super::found;
use crate::mcp::Server;
use crate::model::{Answer, FakeModel};
use crate::world::World;

/// What a person asks for. No skill has one of these words.
const QUERY: &str = "prepare our yacht";

fn furnished(server: &EmbeddingServer) -> World {
    let world = World::new();
    server.configure(&world, "");
    world
        .skill("home/.prowess/skills", "mend-canvas", "Repairs torn cloth of a boat.")
        .skill("home/.prowess/skills", "sourdough", "Makes loaves with wild yeast.")
        .skill("home/.prowess/skills", "ledger", "Adds up what customers paid.");
    world
}

fn sent(server: &EmbeddingServer) -> Vec<String> {
    let requests = server.take_requests();
    let texts = requests.iter().flat_map(|request| request["input"].as_array().unwrap().clone());
    texts.map(|text| text.as_str().unwrap().to_owned()).collect()
}

#[test]
fn a_skill_is_found_by_meaning_and_embedded_once() {
    let server = EmbeddingServer::start();
    let world = furnished(&server);
    assert_eq!(found(&world, QUERY)[0], "mend-canvas");
    let first = sent(&server);
    assert_eq!(
        first,
        [
            "ledger: Adds up what customers paid.",
            "mend canvas: Repairs torn cloth of a boat.",
            "sourdough: Makes loaves with wild yeast.",
            QUERY
        ]
    );
    // Now the vectors of the skills are on the disk. A query costs one request.
    assert_eq!(found(&world, QUERY)[0], "mend-canvas");
    assert_eq!(sent(&server), [QUERY]);
    // A changed skill costs one more.
    world.skill("home/.prowess/skills", "sourdough", "Bakes bread for a regatta on a yacht.");
    assert_eq!(found(&world, QUERY)[0], "sourdough");
    assert_eq!(sent(&server), ["sourdough: Bakes bread for a regatta on a yacht.", QUERY]);
    // The exact name of a skill is first, whatever the model means.
    server.answers(|texts| {
        let data: Vec<_> = texts.iter().map(|_| json!({"embedding": [1.0, 0.0, 0.0, 0.0]})).collect();
        Reply::Json(json!({ "data": data }))
    });
    assert_eq!(found(&world, "ledger")[0], "ledger");
    // Words and meaning count together.
    server.answers(good);
    assert_eq!(found(&world, "customers paid")[0], "ledger");
}

#[test]
fn many_skills_are_sent_in_batches() {
    let server = EmbeddingServer::start();
    let world = furnished(&server);
    for number in 0..150 {
        let description = format!("Does the task {number}. {}", "x".repeat(3_000));
        world.skill("home/.prowess/skills", &format!("task-{number}"), &description);
    }
    assert_eq!(found(&world, QUERY)[0], "mend-canvas");
    let requests = server.take_requests();
    let sizes: Vec<usize> =
        requests.iter().map(|request| request["input"].as_array().unwrap().len()).collect();
    assert_eq!(sizes, [64, 64, 25, 1]);
    let longest =
        requests[0]["input"].as_array().unwrap().iter().map(|text| text.as_str().unwrap().len()).max();
    assert_eq!(longest, Some(2_000), "long texts are cut");
    assert_eq!(requests[0]["model"], "concepts");
}

#[test]
fn the_key_is_sent_to_the_provider_alone_and_is_never_shown() {
    let server = EmbeddingServer::start();
    let world = furnished(&server);
    server.configure(&world, "key_env = \"NEAR_KEY\"");
    // Without its key the provider is not asked. A person is told how to set it, and words find skills.
    let told = world.run(&["search", "torn cloth"]);
    assert!(told.contains("search uses words alone: there is no API key for near: set NEAR_KEY"), "{told}");
    assert!(told.starts_with("exit 0") && told.contains("mend-canvas"), "{told}");
    assert_eq!(server.take_requests().len(), 0);

    server.answers(|_| Reply::Status(401, "the key sk-very-secret is wrong"));
    let output = world.command(&["search", "torn cloth"]).env("NEAR_KEY", "sk-very-secret").output().unwrap();
    let told = world.told(&output);
    assert!(server.heads().to_lowercase().contains("authorization: bearer sk-very-secret"));
    assert!(told.contains("failed: not authorised: HTTP 401: the key [secret] is wrong"), "{told}");
    assert!(told.starts_with("exit 0") && told.contains("mend-canvas") && !told.contains("very"), "{told}");
}

#[test]
fn untrusted_skills_are_not_sent_and_a_project_cannot_name_a_server() {
    let server = EmbeddingServer::start();
    let world = furnished(&server);
    world.skill("project/.prowess/skills", "secret-regatta", "Wins the regatta with a yacht.");
    let names = found(&world, "wins the regatta");
    assert_eq!(names[0], "secret-regatta", "words find it, for a person");
    assert!(sent(&server).iter().all(|text| !text.contains("secret")));
    // Once it is trusted, it is sent like the others.
    assert!(world.output(&["trust", "--yes"]).status.success());
    found(&world, QUERY);
    assert!(sent(&server).iter().any(|text| text.contains("secret regatta")));

    let other = EmbeddingServer::start();
    let text = std::fs::read_to_string(world.path("home/.config/prowess/prowess.toml")).unwrap();
    other.configure(&world, "");
    let theirs = std::fs::read_to_string(world.path("home/.config/prowess/prowess.toml")).unwrap();
    world.file("project/prowess.toml", &theirs).file("home/.config/prowess/prowess.toml", &text);
    world.output(&["trust", "--yes"]);
    let told = world.run(&["search", "yacht"]);
    assert_eq!(other.take_requests().len(), 0, "{told}");
}

/// A skill that no model sees does not reach the embedding model either.
#[test]
fn denied_off_and_manual_skills_are_not_sent() {
    let server = EmbeddingServer::start();
    let world = furnished(&server);
    for name in ["secret-denied", "secret-off", "secret-manual"] {
        world.skill("home/.prowess/skills", name, "Wins the regatta with a yacht.");
    }
    let hidden = "[skills.mode]\nsecret-off = \"off\"\nsecret-manual = \"manual\"\n[permission.skill]\nsecret-denied = \"deny\"\n";
    server.configure(&world, hidden);
    let names = found(&world, "wins the regatta");
    assert!(names.iter().any(|name| name == "secret-denied"), "words find it, for a person: {names:?}");
    let sent = sent(&server);
    assert!(!sent.is_empty() && sent.iter().all(|text| !text.contains("secret")), "{sent:?}");
}

#[test]
fn a_wrong_model_is_a_mistake_in_the_configuration() {
    let world = World::new();
    for (model, why) in [
        ("offline", "write PROVIDER:NAME, such as openai:text-embedding-3-small, not `offline`"),
        ("nomic", "write PROVIDER:NAME, such as openai:text-embedding-3-small, not `nomic`"),
        ("anthropic:x", "needs a provider with the api `openai`"),
        ("nowhere:x", "there is no provider `nowhere`"),
    ] {
        let text = format!("[search]\nembeddings = \"{model}\"\n");
        world.file("home/.config/prowess/prowess.toml", &text);
        let told = world.run(&["search", "x"]);
        assert!(
            told.starts_with("exit 2") && told.contains(why) && told.contains("prowess.toml:2"),
            "{told}"
        );
    }
}

#[test]
fn a_model_in_a_chat_finds_by_meaning_and_a_person_is_told_if_it_cannot() {
    let server = EmbeddingServer::start();
    let world = furnished(&server);
    let model = FakeModel::start(vec![
        Answer::call("search_skills", json!({"query": QUERY, "limit": 1})),
        Answer::text("Done."),
    ]);
    let config = "home/.config/prowess/prowess.toml";
    let mut text = std::fs::read_to_string(world.path(config)).unwrap();
    text.push_str(&format!(
        "[model]\nname = \"fake:m\"\ncontext_window = 100000\n[provider.fake]\napi = \"openai\"\nbase_url = \"{}\"\n",
        model.url()
    ));
    world.file(config, &text);
    world.run(&["chat", "go"]);
    let answer = |at: usize| model.requests()[at]["messages"].as_array().unwrap().last().unwrap().to_string();
    assert!(answer(1).contains("- **mend-canvas**"), "{}", answer(1));

    // The endpoint breaks. The model gets what words find, and only the person is told.
    server.answers(|_| Reply::Status(500, "out of order"));
    model.then(vec![
        Answer::call("search_skills", json!({"query": "wild yeast", "limit": 1})),
        Answer::call("search_skills", json!({"query": "what customers paid", "limit": 1})),
        Answer::text("Done."),
    ]);
    let told = world.run(&["chat", "go"]);
    assert!(told.starts_with("exit 0"), "{told}");
    assert_eq!(told.matches("search uses words alone").count(), 1, "{told}");
    assert!(told.contains("out of order"), "{told}");
    assert!(answer(3).contains("- **sourdough**") && answer(4).contains("- **ledger**"), "{}", answer(4));
    assert!(!model.requests()[4].to_string().contains("out of order"));
}

#[test]
fn a_client_of_mcp_finds_by_meaning_and_by_words_if_the_endpoint_is_silent() {
    let server = EmbeddingServer::start();
    let world = furnished(&server);
    let mut client = Server::start(&world, &[]);
    let answer = client.call("search_skills", &json!({"query": QUERY, "limit": 1}));
    assert_eq!(answer["structuredContent"]["skills"], json!(["mend-canvas"]), "{answer}");
    server.answers(|_| Reply::Silence);
    let answer = client.call("search_skills", &json!({"query": "wild yeast", "limit": 1}));
    assert_eq!(answer["structuredContent"]["skills"], json!(["sourdough"]), "{answer}");
    assert_ne!(answer["isError"], json!(true));
    let (_, errors) = client.end();
    assert!(
        errors.contains("search uses words alone: the embedding model concepts at http://127.0.0.1:"),
        "{errors}"
    );
}
