//! Skills that users upload: nobody sees them before they are trusted, and nobody else ever.

use serde_json::{Value, json};
use tar::EntryType;

use super::Server;
use super::client::{Answered, Client};
use super::conversing::settled;
use crate::chat::world;
use crate::installing::archives::{gzip, tar, tar_files, zip};
use crate::model::{Answer, FakeModel, Gate};
use crate::world::World;

/// An archive with a skill that has a script.
pub(super) fn skill(name: &str, description: &str, says: &str) -> Vec<u8> {
    let manifest = format!("---\nname: {name}\ndescription: {description}\n---\n\nRun scripts/say.sh.\n");
    let script = format!("echo {says}\n");
    zip(&[
        (&format!("{name}/SKILL.md"), manifest.as_bytes()),
        (&format!("{name}/scripts/say.sh"), script.as_bytes()),
    ])
}

fn upload(client: &Client, archive: &[u8]) -> Answered {
    client.request("POST", "/api/v1/own-skills", Some(archive), &["content-type: application/octet-stream"])
}

/// Uploads a skill, and gives what a person sees of it.
pub(super) fn added(client: &Client, archive: &[u8]) -> Value {
    let answered = upload(client, archive);
    assert_eq!(answered.status, 201, "{}", answered.text());
    answered.json()
}

fn at(skill: &Value) -> String {
    format!("/own-skills/{}", skill["digest"].as_str().unwrap())
}

pub(super) fn trust(client: &Client, skill: &Value) -> Value {
    let answered = client.ask("PUT", &format!("{}/trust", at(skill)), None);
    assert_eq!(answered.status, 200, "{}", answered.text());
    answered.json()
}

/// The names and states of a user's own skills.
fn states(client: &Client) -> Vec<(String, String)> {
    let list = client.get("/own-skills");
    let text = |value: &Value| value.as_str().unwrap().to_owned();
    let items = list["items"].as_array().unwrap().iter();
    items.map(|skill| (text(&skill["name"]), text(&skill["state"]))).collect()
}

fn refusal(answered: &Answered, status: u16) -> String {
    assert_eq!(answered.status, status, "{}", answered.text());
    answered.json()["error"]["message"].as_str().unwrap().to_owned()
}

fn trees(world: &World) -> Vec<String> {
    let base = world.path("home/.local/state/prowess/serve/own-skills");
    let mut found = Vec::new();
    for user in std::fs::read_dir(base).into_iter().flatten().flatten() {
        let entries = std::fs::read_dir(user.path()).into_iter().flatten().flatten();
        found.extend(entries.map(|entry| entry.file_name().into_string().unwrap()));
    }
    found
}

#[test]
fn a_skill_is_seen_once_its_owner_trusts_it() {
    let run = |command: &str| json!({"skill": "knots", "command": command});
    let model = FakeModel::start(vec![
        Answer::text("No such skill."),
        Answer::call("skill_load", json!({"skill": "knots"})),
        Answer::call("skill_run", run("sh scripts/say.sh")),
        Answer::text("A bowline."),
    ]);
    let world = world(&model);
    let server = Server::start(&world);
    let ada = server.client("admin");
    let archive = skill("knots", "Ties knots of sailors.", "bowline");
    let look = added(&ada, &archive);
    assert_eq!((&look["name"], &look["state"]), (&json!("knots"), &json!("waiting")));
    assert_eq!(look["scripts"], json!([{"path": "scripts/say.sh", "bytes": 13}]));
    assert_eq!(look["instructions"], "Run scripts/say.sh.");
    assert_eq!(ada.get(&at(&look))["scripts"], look["scripts"]);
    assert_eq!(trees(&world), Vec::<String>::new(), "nothing of it is kept unpacked");

    // No door leads to it.
    assert_eq!(ada.ask("GET", "/skills/knots", None).status, 404);
    assert!(!ada.get("/skills").to_string().contains("knots"));
    assert_eq!(ada.get("/skills?search=knots")["items"].as_array().unwrap().len(), 0);
    let thread = ada.thread();
    assert_eq!(ada.ask("POST", &format!("/threads/{thread}/skills/knots"), Some(json!({}))).status, 404);
    ada.say(&thread, "Tie a knot.");
    settled(&ada, &thread);
    assert!(!model.requests()[0].to_string().contains("Ties knots"));

    // Trust needs the scope `approve`.
    let writer = server.client_with("admin", &["--scope", "read", "--scope", "write"]);
    assert_eq!(writer.ask("PUT", &format!("{}/trust", at(&look)), None).status, 403);
    assert_eq!(trust(&ada, &look)["state"], "in_use");
    let found = &ada.get("/skills?search=knots")["items"];
    assert_eq!((&found[0]["name"], &found[0]["origin"]), (&json!("knots"), &json!("yours")));
    assert_eq!(ada.get("/skills/knots")["instructions"], "Run scripts/say.sh.");

    // The same thread uses it, with a question.
    let mut stream = ada.events(&thread, None);
    ada.post(&format!("/threads/{thread}/turns"), json!({"text": "Tie a knot."}), 202);
    let number = stream.until("asked").last().unwrap().data["number"].clone();
    settled(&ada, &thread);
    let mut stream = ada.events(&thread, None);
    ada.post(&format!("/threads/{thread}/questions/{number}"), json!({"reply": "approve"}), 202);
    let events = stream.until("turn_ended");
    let answered = events.iter().find(|event| event.name == "tool_answered").unwrap();
    assert!(answered.data["text"].as_str().unwrap().contains("bowline"), "{:#}", answered.data);
    let whole = settled(&ada, &thread);
    assert_eq!(whole["skills"][0]["name"], "knots");
    let log = ada.get(&format!("/threads/{thread}/log")).to_string();
    assert!(!log.contains("own-skills"), "no path of the server: {log}");

    let audit = server.client_with("admin", &["--scope", "read", "--scope", "admin"]).get("/audit");
    let actions: Vec<_> = audit["items"].as_array().unwrap().iter().map(|entry| &entry["action"]).collect();
    assert!(
        actions.contains(&&json!("trust skill")) && actions.contains(&&json!("add skill")),
        "{actions:?}"
    );
}

#[test]
fn an_approval_is_for_one_version_and_a_new_version_waits() {
    let run = || Answer::call("skill_run", json!({"skill": "knots", "command": "sh scripts/say.sh"}));
    let model = FakeModel::start(vec![run(), Answer::text("One."), run(), Answer::text("Two."), run()]);
    let world = world(&model);
    let server = Server::start(&world);
    let ada = server.client("admin");
    let first = added(&ada, &skill("knots", "Ties knots.", "bowline"));
    trust(&ada, &first);
    let thread = ada.thread();
    let mut stream = ada.events(&thread, None);
    ada.post(&format!("/threads/{thread}/turns"), json!({"text": "Tie."}), 202);
    let number = stream.until("asked").last().unwrap().data["number"].clone();
    settled(&ada, &thread);
    let mut stream = ada.events(&thread, None);
    ada.post(&format!("/threads/{thread}/questions/{number}"), json!({"reply": "always"}), 202);
    stream.until("turn_ended");
    settled(&ada, &thread);

    // Until the new version is trusted, the old one is in use, with its approval.
    let second = added(&ada, &skill("knots", "Ties knots.", "sheepshank"));
    assert_ne!(first["digest"], second["digest"]);
    let both = [("knots".to_owned(), "in_use".to_owned()), ("knots".to_owned(), "waiting".to_owned())];
    assert_eq!(states(&ada), both);
    let again = ada.thread();
    let events = ada.say(&again, "Again.");
    assert!(!events.iter().any(|event| event.name == "asked"), "{events:#?}");
    let said = events.iter().find(|event| event.name == "tool_answered").unwrap();
    assert!(said.data["text"].as_str().unwrap().contains("bowline"), "{:#}", said.data);
    settled(&ada, &again);

    trust(&ada, &second);
    assert_eq!(states(&ada), [("knots".to_owned(), "in_use".to_owned())]);
    assert_eq!(ada.ask("GET", &at(&first), None).status, 404);
    let third = ada.thread();
    let mut stream = ada.events(&third, None);
    ada.post(&format!("/threads/{third}/turns"), json!({"text": "And again."}), 202);
    stream.until("asked");
}

#[test]
fn case_136_a_skill_of_another_user_is_behind_no_door() {
    let read = || Answer::call("read_file", json!({"file_path": "/skills/secret-knots/SKILL.md"}));
    let gate = Gate::default();
    let model = FakeModel::start(vec![
        read(),
        Answer::text("Yes."),
        Answer::call("skill_load", json!({"skill": "secret-knots"})),
        Answer::text("No."),
        read().held(&gate),
        Answer::text("No."),
    ]);
    let world = world(&model);
    let server = Server::start(&world);
    let (ada, bob) = (server.client("admin"), server.new_user("bob"));
    let hers = added(&ada, &skill("secret-knots", "Ties sextants.", "sextant"));
    trust(&ada, &hers);
    let own = ada.thread();
    // Files of her own skill need no question.
    ada.say(&own, "Read it.");
    settled(&ada, &own);
    assert!(ada.get(&format!("/threads/{own}/log")).to_string().contains("Ties sextants."));
    let of_ada = model.requests().len();
    let thread = bob.thread();
    let doors = [
        ("GET", at(&hers)),
        ("DELETE", at(&hers)),
        ("PUT", format!("{}/trust", at(&hers))),
        ("DELETE", format!("{}/trust", at(&hers))),
        ("GET", "/skills/secret-knots".to_owned()),
        ("POST", format!("/threads/{thread}/skills/secret-knots")),
    ];
    for (method, path) in doors {
        let answered = bob.ask(method, &path, Some(json!({})));
        assert_eq!(answered.status, 404, "{method} {path}: {}", answered.text());
        assert!(!answered.text().contains("sextant"));
    }
    let me = ada.get("/me")["user"]["id"].as_str().unwrap().to_owned();
    for path in ["/waiting-skills".to_owned(), format!("/users/{me}{}", at(&hers))] {
        assert_eq!(bob.ask("GET", &path, None).status, 403, "{path}");
        // Administrators have no part in it either, unless they decide.
        let admin = server.client_with("admin", &["--scope", "read", "--scope", "admin"]);
        assert_eq!(admin.ask("GET", &path, None).status, 403, "{path}");
    }
    for list in ["/own-skills", "/skills", "/skills?search=sextants"] {
        assert!(!bob.get(list).to_string().contains("secret-knots"), "{list}");
    }
    bob.say(&thread, "Load it.");
    settled(&bob, &thread);
    // While he works, she uses hers.
    let mut stream = bob.events(&thread, None);
    bob.post(&format!("/threads/{thread}/turns"), json!({"text": "Read it."}), 202);
    model.wait_for_requests(of_ada + 3);
    assert_eq!(ada.get("/skills/secret-knots")["name"], "secret-knots");
    gate.open();
    let events = stream.until("turn_ended");
    let answered = events.iter().find(|event| event.name == "tool_answered").unwrap();
    assert_eq!(answered.data["is_error"], true, "{:#}", answered.data);
    settled(&bob, &thread);
    model.then(vec![Answer::text("No.")]);
    bob.say(&thread, "/secret-knots");
    settled(&bob, &thread);
    assert!(!bob.get(&format!("/threads/{thread}/log")).to_string().contains("sextant"));
    assert!(!model.requests()[of_ada..].iter().any(|request| request.to_string().contains("extant")));
    // Bob can have a skill of the same name. It is his own.
    let his = added(&bob, &skill("secret-knots", "Ties nothing.", "nothing"));
    trust(&bob, &his);
    assert_eq!(bob.get("/skills/secret-knots")["description"], "Ties nothing.");
    assert_eq!(ada.get("/skills/secret-knots")["description"], "Ties sextants.");
    assert_eq!(bob.ask("DELETE", &at(&his), None).status, 204);
    assert_eq!(ada.get("/skills/secret-knots")["description"], "Ties sextants.");
}

#[test]
fn case_140_a_name_is_one_plain_part_of_a_path() {
    let world = World::new();
    let server = Server::start(&world);
    let ada = server.client("admin");
    // Names are YAML in double quotes, and end up normalised: `／` is a slash, too.
    for name in ["a/b", "/etc", ".", "..", "../../up", "a\\\\b", "a\\u0007b", "a\\u202eb", "a\u{ff0f}b"] {
        let manifest = format!("---\nname: \"{name}\"\ndescription: Mine.\n---\n\nDo it.\n");
        for path in ["SKILL.md", "skills/x/SKILL.md"] {
            let refused = refusal(&upload(&ada, &zip(&[(path, manifest.as_bytes())])), 400);
            // No YAML has control characters in it, so such a SKILL.md is left out before.
            let is_left_out = refused.contains("SKILL.md is left out");
            assert!(refused.contains("cannot be used") || is_left_out, "{name}: {refused}");
        }
    }
    assert_eq!(states(&ada), []);
    assert_eq!(trees(&world), Vec::<String>::new());
}

#[test]
fn a_name_of_the_server_or_of_its_rules_cannot_be_taken() {
    let model = FakeModel::start(Vec::new());
    let world = world(&model);
    let config = "home/.config/prowess/prowess.toml";
    let text = std::fs::read_to_string(world.path(config)).unwrap();
    world.file(config, &format!("{text}\n[permission.run]\n\"deploy *\" = \"allow\"\n"));
    let mut server = Server::start(&world);
    let ada = server.client("admin");
    for name in ["tides", "Tides", "TIDES", "\u{ff54}ides"] {
        let refused = refusal(&upload(&ada, &skill(name, "Mine.", "x")), 409);
        assert!(refused.starts_with("This server has a skill"), "{name}: {refused}");
    }
    // The server has no such skill now, but its rule is not for a stranger's.
    for name in ["deploy", "Deploy"] {
        let refused = refusal(&upload(&ada, &skill(name, "Mine.", "x")), 409);
        assert!(refused.starts_with("A rule of this server"), "{refused}");
    }
    trust(&ada, &added(&ada, &skill("knots", "Ties knots.", "x")));
    let twin = refusal(&upload(&ada, &skill("KNOTS", "Ties knots.", "x")), 409);
    assert!(twin.contains("letter case"), "{twin}");
    assert_eq!(ada.get("/skills/knots")["origin"], "yours");

    // A later skill of the server hides it.
    server.kill();
    world.skill("home/.prowess/skills", "knots", "The server's knots.");
    let server = Server::start(&world);
    let ada = server.client("admin");
    assert_eq!(states(&ada), [("knots".to_owned(), "hidden".to_owned())]);
    let hidden = ada.get("/own-skills")["items"][0]["hidden_by"].clone();
    assert!(hidden.as_str().unwrap().starts_with("This server has a skill"), "{hidden}");
    assert_eq!(ada.get("/skills/knots")["description"], "The server's knots.");
}

#[test]
fn archives_that_could_do_harm_are_refused() {
    let model = FakeModel::start(Vec::new());
    let world = world(&model);
    let server = Server::start(&world);
    let ada = server.client("admin");
    let manifest = "---\nname: knots\ndescription: Ties knots.\n---\n";
    let zeros = vec![0; 30 << 20];
    let regular = EntryType::Regular;
    let with = |path: &str, kind, text: &str| tar(&[("SKILL.md", regular, manifest), (path, kind, text)]);
    let bytes = manifest.as_bytes();
    let archives = [
        ("a bomb", zip(&[("SKILL.md", bytes), ("zeros", &zeros)]), "have more than"),
        ("no archive", b"# Hello".to_vec(), "not a zip, tar or tar.gz"),
        ("nothing", Vec::new(), "not a zip"),
        ("a link", with("passwd", EntryType::Symlink, "/etc/passwd"), "a link"),
        ("a hard link", with("passwd", EntryType::Link, "/etc/passwd"), "link"),
        ("an absolute name", with("/etc/passwd", regular, "x"), "absolute"),
        ("a name that leads out", zip(&[("SKILL.md", bytes), ("../../x", b"x")]), "`..`"),
        ("case twins", zip(&[("SKILL.md", bytes), ("a.md", b"1"), ("A.md", b"2")]), "one file"),
        ("no skill", zip(&[("README.md", b"Hello.")]), "has no skill"),
        (
            "a model",
            zip(&[("SKILL.md", b"---\nname: knots\ndescription: d\nmodel: gpt-9-pro\n---\n")]),
            "chooses the model `gpt-9-pro`",
        ),
        ("no name", zip(&[("SKILL.md", b"# Knots\n")]), "has no skill"),
        (
            "two skills",
            zip(&[
                ("one/SKILL.md", b"---\nname: one\ndescription: d\n---\n"),
                ("two/SKILL.md", b"---\nname: two\ndescription: d\n---\n"),
            ]),
            "has 2 skills",
        ),
    ];
    for (what, archive, why) in archives {
        for archive in [archive.clone(), gzip(&archive)] {
            let answered = upload(&ada, &archive);
            let refused = refusal(&answered, 400);
            let home = world.path("home");
            assert!(!refused.contains(home.to_str().unwrap()), "{what}: {refused}");
            if !archive.starts_with(b"\x1f\x8b") {
                assert!(refused.contains(why), "{what}: {refused}");
            }
        }
    }
    assert_eq!(upload(&ada, &vec![0; (10 << 20) + 1]).status, 413);
    assert_eq!(states(&ada), []);
    assert_eq!(trees(&world), Vec::<String>::new(), "nothing is left");
    assert_eq!(ada.ask("GET", "/own-skills/nonsense", None).status, 404);
    // A tar.gz without anything of that is fine, and shows what is in it.
    let hidden = format!("{manifest}Be kind.\u{200b}\n");
    let files = [("SKILL.md", hidden.as_str()), ("notes.md", "x"), ("__pycache__/x", "x")];
    let look = added(&ada, &gzip(&tar_files(&files)));
    assert!(look["findings"].to_string().contains("SKILL.md:5"), "{look:#}");
    assert_eq!(look["left_out"], json!(["__pycache__"]));
}

#[test]
fn a_removed_skill_is_gone_with_its_bytes() {
    let model =
        FakeModel::start(vec![Answer::call("skill_load", json!({"skill": "knots"})), Answer::text("No.")]);
    let world = world(&model);
    let mut server = Server::start(&world);
    let ada = server.client("admin");
    let artifacts = || world.stdout(&["artifacts", "list", "--json"]);
    let look = added(&ada, &skill("knots", "Ties knots.", "bowline"));
    trust(&ada, &look);
    assert_eq!(trees(&world).len(), 1);
    // The files are made again from the archive, also if somebody changed them.
    server.kill();
    let user = ada_trees(&world);
    std::fs::write(user.join(&trees(&world)[0]).join("scripts/say.sh"), "echo evil").unwrap();
    let server = Server::start(&world);
    let ada = server.client("admin");
    assert_eq!(states(&ada), [("knots".to_owned(), "in_use".to_owned())]);
    let script = std::fs::read_to_string(user.join(&trees(&world)[0]).join("scripts/say.sh")).unwrap();
    assert_eq!(script, "echo bowline\n");

    // Nobody trusts it: the files are gone, and can be trusted again.
    assert_eq!(ada.ask("DELETE", &format!("{}/trust", at(&look)), None).json()["state"], "waiting");
    assert_eq!(ada.ask("GET", "/skills/knots", None).status, 404);
    assert_eq!(trees(&world), Vec::<String>::new());
    trust(&ada, &look);
    assert_eq!(ada.get("/skills/knots")["name"], "knots");
    assert_eq!(ada.ask("DELETE", &at(&look), None).status, 204);
    assert_eq!(ada.ask("DELETE", &at(&look), None).status, 404);
    assert_eq!(trees(&world), Vec::<String>::new());
    assert_eq!(states(&ada), []);
    assert!(!artifacts().contains("skills/"), "{}", artifacts());
    let thread = ada.thread();
    let events = ada.say(&thread, "Tie a knot.");
    let answered = events.iter().find(|event| event.name == "tool_answered").unwrap();
    assert!(!answered.data["text"].as_str().unwrap().contains("say.sh"), "{:#}", answered.data);
}

/// The directory with the unpacked skills of the only user who has some.
fn ada_trees(world: &World) -> std::path::PathBuf {
    let base = world.path("home/.local/state/prowess/serve/own-skills");
    let mut users = std::fs::read_dir(base).unwrap().flatten().map(|entry| entry.path());
    users.find(|user| !user.ends_with("looked-at")).unwrap()
}

#[test]
fn an_administrator_decides_if_the_server_says_so() {
    let model = FakeModel::start(Vec::new());
    let world = world(&model);
    let server = Server::start(&world);
    let bob = server.new_user("bob");
    let id = bob.get("/me")["user"]["id"].as_str().unwrap().to_owned();
    // What bob trusted himself counts for nothing then.
    let look = added(&bob, &skill("knots", "Ties knots.", "bowline"));
    trust(&bob, &look);
    drop(server);
    let server = Server::start_with(&world, &["--own-skills", "admin"]);
    let bob = server.client("bob");
    let admin = server.client_with("admin", &["--scope", "read", "--scope", "admin"]);
    assert_eq!(bob.get("/own-skills")["decider"], "admin");
    assert_eq!(states(&bob), [("knots".to_owned(), "waiting".to_owned())]);
    assert_eq!(bob.ask("GET", "/skills/knots", None).status, 404);
    let refused = refusal(&bob.ask("PUT", &format!("{}/trust", at(&look)), None), 403);
    assert!(refused.contains("administrator"), "{refused}");
    assert_eq!(admin.get("/waiting-skills?limit=1")["items"].as_array().unwrap().len(), 1);
    let waiting = &admin.get("/waiting-skills")["items"];
    assert_eq!((&waiting[0]["owner"], &waiting[0]["owner_name"]), (&json!(id), &json!("bob")));
    assert_eq!(waiting[0]["name"], "knots");
    let of_bob = format!("/users/{id}{}", at(&look));
    assert_eq!(admin.get(&of_bob)["scripts"][0]["path"], "scripts/say.sh");
    let wrong = admin.ask("GET", &format!("/users/{}{}", "0".repeat(32), at(&look)), None);
    assert_eq!(wrong.status, 404);
    assert_eq!(admin.ask("PUT", &format!("{of_bob}/trust"), None).json()["state"], "in_use");
    assert_eq!(admin.get("/waiting-skills")["items"], json!([]));
    assert_eq!(bob.get("/skills/knots")["origin"], "yours");
    assert_eq!(admin.ask("GET", "/skills/knots", None).status, 404);
    let entry = &admin.get("/audit")["items"][0];
    assert_eq!((&entry["action"], &entry["detail"]["owner"]), (&json!("trust skill"), &json!(id)));
    // A new version waits, and an administrator can refuse it.
    let second = added(&bob, &skill("knots", "Ties knots.", "evil"));
    assert_eq!(admin.ask("DELETE", &format!("/users/{id}{}", at(&second)), None).status, 204);
    assert_eq!(states(&bob), [("knots".to_owned(), "in_use".to_owned())]);
    drop(server);

    let server = Server::start_with(&world, &["--own-skills", "off"]);
    let bob = server.client("bob");
    assert_eq!(bob.get("/own-skills"), json!({"decider": "off", "items": []}));
    assert_eq!(bob.ask("GET", "/skills/knots", None).status, 404);
    assert_eq!(upload(&bob, &skill("more", "More.", "x")).status, 403);
}
