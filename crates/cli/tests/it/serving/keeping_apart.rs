//! Users, tokens and browsers: nobody reaches what is not theirs.

use serde_json::json;

use super::Server;
use super::client::Client;
use super::conversing::settled;
use crate::chat::world;
use crate::model::{Answer, FakeModel};

#[test]
fn case_136_another_users_data_is_behind_no_door() {
    let run = json!({"skill": "tides", "command": "scripts/tides.sh", "save_as_artifacts": true});
    let model = FakeModel::start(vec![Answer::call("skill_run", run)]);
    let world = world(&model);
    let server = Server::start(&world);
    let (ada, bob) = (server.client("admin"), server.new_user("bob"));
    let thread = ada.thread();
    let mut stream = ada.events(&thread, None);
    ada.post(&format!("/threads/{thread}/turns"), json!({"text": "My secret sextant."}), 202);
    let question = stream.until("asked").last().unwrap().data["number"].as_u64().unwrap();
    settled(&ada, &thread);
    let file = format!("/threads/{thread}/files/content?path=/project/secret.md");
    assert_eq!(ada.request("PUT", &format!("/api/v1{file}"), Some(b"sextant"), &[]).status, 201);

    let say = json!({"text": "Hello."});
    let doors = [
        ("GET", format!("/threads/{thread}"), None),
        ("PATCH", format!("/threads/{thread}"), Some(json!({"title": "mine"}))),
        ("DELETE", format!("/threads/{thread}"), None),
        ("POST", format!("/threads/{thread}/fork"), Some(json!({}))),
        ("GET", format!("/threads/{thread}/export"), None),
        ("GET", format!("/threads/{thread}/export?format=json"), None),
        ("POST", format!("/threads/{thread}/turns"), Some(say)),
        ("POST", format!("/threads/{thread}/cancel"), Some(json!({}))),
        ("GET", format!("/threads/{thread}/events"), None),
        ("GET", format!("/threads/{thread}/events?after=0"), None),
        ("GET", format!("/threads/{thread}/log"), None),
        ("POST", format!("/threads/{thread}/questions/{question}"), Some(json!({"reply": "approve"}))),
        ("GET", format!("/threads/{thread}/skills"), None),
        ("POST", format!("/threads/{thread}/skills/tides"), Some(json!({}))),
        ("DELETE", format!("/threads/{thread}/skills/tides"), None),
        ("GET", format!("/threads/{thread}/files"), None),
        ("GET", file.clone(), None),
        ("PUT", file.clone(), Some(json!("mine"))),
        ("DELETE", file.clone(), None),
        ("GET", format!("/threads/{thread}/artifacts"), None),
        ("GET", format!("/threads/{thread}/artifacts?versions=all"), None),
        ("GET", format!("/threads/{thread}/artifacts/content?name=tide.txt"), None),
        ("GET", format!("/threads/{thread}/context"), None),
        ("GET", format!("/threads/{thread}/usage"), None),
    ];
    let missing = "00000000000000000000000000000000";
    for (method, path, body) in doors {
        let answered = bob.ask(method, &path, body.clone());
        assert_eq!(answered.status, 404, "{method} {path}: {}", answered.text());
        // It is the same answer as for a thread that does not exist.
        let other = bob.ask(method, &path.replace(&thread, missing), body.clone());
        assert_eq!(answered.text().replace(&thread, missing), other.text(), "{method} {path}");
        let nobody = Client::anonymous(&server.address).ask(method, &path, body);
        assert_eq!(nobody.status, 401, "{method} {path}");
        assert!(!nobody.text().contains(&thread));
    }
    for list in ["/threads", "/threads?search=sextant", "/questions", "/tokens", "/usage"] {
        let listed = bob.get(list).to_string();
        assert!(!listed.contains(&thread) && !listed.contains("sextant"), "{list}: {listed}");
    }
    let own = ada.get("/tokens")["items"][0]["id"].as_str().unwrap().to_owned();
    assert_eq!(bob.ask("DELETE", &format!("/tokens/{own}"), None).status, 404);
    for (method, path) in [("GET", "/users"), ("POST", "/users"), ("GET", "/audit")] {
        assert_eq!(
            bob.ask(method, path, Some(json!({"name": "eve", "is_admin": true}))).status,
            403,
            "{path}"
        );
    }
    // Nothing changed for ada.
    let whole = settled(&ada, &thread);
    assert_eq!((&whole["title"], &whole["status"]), (&json!("My secret sextant."), &json!("waiting")));
    assert_eq!(ada.request("GET", &format!("/api/v1{file}"), None, &[]).text(), "sextant");
}

#[test]
fn case_138_browsers_are_safe_from_other_sites() {
    let model = FakeModel::start(Vec::new());
    let world = world(&model);
    let server = Server::start(&world);
    let nobody = Client::anonymous(&server.address);
    // Whoever opens the link does not use it up: a click from elsewhere, or a program that looks at links.
    for from in ["sec-fetch-site: cross-site", "sec-purpose: prefetch", "user-agent: preview"] {
        let shown = nobody.request("GET", &server.login, None, &[from]);
        assert_eq!(
            (shown.status, shown.header("cache-control"), shown.header("set-cookie")),
            (200, "no-store", "")
        );
        assert!(
            shown.text().contains("Sign in to prowess as <strong><bdi>admin</bdi></strong>?"),
            "{}",
            shown.text()
        );
        assert_eq!(shown.header("referrer-policy"), "strict-origin");
        let policy = shown.header("content-security-policy");
        assert!(
            policy.contains("form-action 'self'") && policy.contains("frame-ancestors 'none'"),
            "{policy}"
        );
    }
    assert_eq!(nobody.request("HEAD", &server.login, None, &[]).status, 200);
    // Somebody who guesses learns nothing.
    let guessed = nobody.request("GET", "/login/prowess_0", None, &[]);
    assert_eq!((guessed.status, guessed.header("location")), (303, "/?login=used"));
    // Another site cannot sign a person in as somebody else.
    for from in [
        "sec-fetch-site: cross-site",
        "sec-fetch-site: none",
        "origin: https://evil.example",
        "origin: null",
        "x: y",
    ] {
        let refused = nobody.request("POST", &server.login, None, &[from]);
        assert_eq!((refused.status, refused.header("set-cookie")), (403, ""), "{from}");
    }
    let page = ["sec-fetch-site: same-origin", "origin: null"];
    let entered = nobody.request("POST", &server.login, None, &page);
    assert_eq!((entered.status, entered.header("location")), (303, "/"));
    let cookie = entered.header("set-cookie").to_owned();
    for flag in ["HttpOnly", "SameSite=Strict", "Path=/"] {
        assert!(cookie.contains(flag), "{cookie}");
    }
    assert_eq!(entered.header("cache-control"), "no-store");
    // The link works once.
    for (method, headers) in [("POST", page.as_slice()), ("POST", &[]), ("GET", &[])] {
        let again = nobody.request(method, &server.login, None, headers);
        assert_eq!((again.header("location"), again.header("set-cookie")), ("/?login=used", ""));
    }
    // Over https, the cookie stays there.
    let link = world.stdout(&["serve", "login", "admin", "--url", "https://prowess.example.com"]);
    let path = link.trim().strip_prefix("https://prowess.example.com").unwrap();
    let own = format!("origin: https://{}", server.address);
    let secure = nobody.request("POST", path, None, &["x-forwarded-proto: https", &own]);
    assert!(secure.header("set-cookie").contains("; Secure"), "{}", secure.header("set-cookie"));

    let cookie = cookie.split(';').next().unwrap();
    let browser = nobody.and(&format!("cookie: {cookie}"));
    assert_eq!(browser.ask("GET", "/me", None).status, 200);
    let own = format!("origin: http://{}", server.address);
    let create = |headers: &[&str]| {
        let headers = [headers, &["content-type: application/json"]].concat();
        browser.request("POST", "/api/v1/threads", Some(b"{}"), &headers).status
    };
    assert_eq!(create(&["x-prowess: 1", &own]), 201);
    assert_eq!(create(&[&own]), 403);
    assert_eq!(create(&["x-prowess: 1", "origin: https://evil.example"]), 403);
    assert_eq!(create(&["x-prowess: 1", "origin: null"]), 403);
    // What a form of another site can send.
    let form = browser.request("POST", "/api/v1/threads", Some(b"{}"), &["content-type: text/plain"]);
    assert_eq!(form.status, 403);
    assert_eq!(browser.request("POST", "/api/v1/logout", None, &[&own]).status, 403);

    // The page cannot be framed, and runs nothing but its own files.
    let page = nobody.request("GET", "/", None, &[]);
    let policy = page.header("content-security-policy");
    assert!(policy.contains("frame-ancestors 'none'") && policy.contains("script-src 'self'"), "{policy}");
    assert!(!policy.contains("unsafe"), "{policy}");
    assert_eq!(page.header("x-frame-options"), "DENY");

    assert_eq!(browser.request("POST", "/api/v1/logout", None, &[&own, "x-prowess: 1"]).status, 204);
    assert_eq!(browser.ask("GET", "/me", None).status, 401);
}

#[test]
fn a_user_has_a_bounded_number_of_sessions() {
    let model = FakeModel::start(Vec::new());
    let world = world(&model);
    let server = Server::start(&world);
    let nobody = Client::anonymous(&server.address);
    let browsers: Vec<Client> = (0..52)
        .map(|_| {
            let link = world.stdout(&["serve", "login", "admin", "--url", "http://a"]);
            let path = link.trim().strip_prefix("http://a").unwrap();
            let entered = nobody.request("POST", path, None, &["sec-fetch-site: same-origin"]);
            let cookie = entered.header("set-cookie").split(';').next().unwrap().to_owned();
            nobody.and(&format!("cookie: {cookie}"))
        })
        .collect();
    let status = |browser: &Client| browser.ask("GET", "/me", None).status;
    let all: Vec<u16> = browsers.iter().map(status).collect();
    assert_eq!((&all[..2], &all[2..]), (&[401, 401][..], &[200; 50][..]));
}

#[test]
fn case_139_a_revoked_token_stops() {
    let model = FakeModel::start(Vec::new());
    let world = world(&model);
    let server = Server::start(&world);
    let (ada, bob) = (server.client("admin"), server.new_user("bob"));
    let thread = bob.thread();
    let mut stream = bob.events(&thread, None);
    let id = bob.get("/tokens")["items"][0]["id"].as_str().unwrap().to_owned();
    // From another process.
    world.stdout(&["serve", "token", "revoke", "bob", &id]);
    assert_eq!(bob.ask("GET", "/me", None).status, 401);
    assert_eq!(stream.rest().last().unwrap().name, "resume");
    assert_eq!(bob.events(&thread, None).status, 401);
    // A disabled user has no valid token.
    let again = server.client("bob");
    let mut stream = again.events(&thread, None);
    world.stdout(&["serve", "user", "disable", "bob"]);
    assert_eq!(again.ask("GET", "/me", None).status, 401);
    stream.rest();
    assert_eq!(ada.ask("GET", "/me", None).status, 200);
    world.stdout(&["serve", "user", "enable", "bob"]);
    assert_eq!(again.ask("GET", "/me", None).status, 200);
}

#[test]
fn a_token_has_no_more_rights_than_the_one_that_makes_it() {
    let model = FakeModel::start(Vec::new());
    let world = world(&model);
    let server = Server::start(&world);
    let ada = server.client("admin");
    ada.post("/tokens", json!({"name": "all", "scopes": ["admin"]}), 403);
    let made = ada.post("/tokens", json!({"name": "look", "scopes": ["read"], "days": 1}), 201);
    let reader = Client::with_token(&server.address, made["token"].as_str().unwrap());
    assert_eq!(reader.ask("GET", "/threads", None).status, 200);
    assert_eq!(reader.ask("POST", "/threads", Some(json!({}))).status, 403);
    // The database has no secret.
    let files = std::fs::read_dir(world.path("home/.local/state/prowess/serve")).unwrap().flatten();
    for file in files.filter(|file| file.path().is_file()) {
        let bytes = std::fs::read(file.path()).unwrap();
        let secret = made["token"].as_str().unwrap().as_bytes();
        assert!(!bytes.windows(secret.len()).any(|part| part == secret), "{:?}", file.path());
    }
}
