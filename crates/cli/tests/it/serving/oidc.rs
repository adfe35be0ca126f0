//! Signing in with OpenID Connect. The tests are the browser.

use std::collections::HashMap;

use serde_json::{Value, json};

use super::Server;
use super::client::{Answered, Client};
use super::issuer::{CLIENT, Fault, Issuer, SECRET, parameters};
use crate::chat::{eventually, world};
use crate::model::FakeModel;
use crate::world::World;

/// The address of the server as browsers would reach it. The tests reach it directly.
const PUBLIC: &str = "http://localhost:8930";

fn configured(url: &str, users: &str) -> World {
    configured_with(url, users, ("CLIENT_SECRET_ENV", "AGENT_SECRET"))
}

fn configured_with(url: &str, users: &str, secret: (&str, &str)) -> World {
    let model = FakeModel::start(Vec::new());
    let mut world = world(&model);
    for (key, value) in [
        ("ISSUER", url),
        ("CLIENT_ID", CLIENT),
        secret,
        ("PUBLIC_URL", PUBLIC),
        ("LABEL", "Example"),
        ("USERS", users),
    ] {
        world.variable(&format!("PROWESS_SERVE_OIDC_{key}"), value);
    }
    world.variable("AGENT_SECRET", SECRET);
    world
}

/// A browser that began to sign in.
struct Begun {
    client: Client,
    /// What the server asks the issuer for.
    asked: HashMap<String, String>,
    /// The cookie, with its name.
    cookie: String,
}

/// The name of a cookie of a server.
fn named(word: &str, server: &Server<'_>) -> String {
    format!("{word}_{}", server.address.rsplit_once(':').unwrap().1)
}

fn begin_at(server: &Server<'_>, issuer: &Issuer, path: &str) -> Begun {
    let client = Client::anonymous(&server.address);
    let answered = client.request("GET", path, None, &[]);
    let location = answered.header("location").to_owned();
    let asked = location.strip_prefix(&format!("{}/authorize?", issuer.url));
    let asked = parameters(asked.unwrap_or_else(|| panic!("{answered:#?}")));
    let name = named("prowess_oidc", server);
    let value = answered.cookie(&name).unwrap().split(';').next().unwrap();
    Begun { client, asked, cookie: format!("cookie: {name}={value}") }
}

fn begin(server: &Server<'_>, issuer: &Issuer) -> Begun {
    begin_at(server, issuer, "/oidc/login")
}

impl Begun {
    /// The issuer leads the browser back.
    fn return_with(&self, query: &str) -> Answered {
        self.client.request("GET", &format!("/oidc/callback?{query}"), None, &[&self.cookie])
    }

    fn finish(&self, issuer: &Issuer, claims: Value) -> Answered {
        let code = issuer.sign_in(&self.asked, claims);
        self.return_with(&format!("code={code}&state={}", self.asked["state"]))
    }
}

/// The whole way, for a person.
fn sign_in(server: &Server<'_>, issuer: &Issuer, claims: Value) -> Answered {
    begin(server, issuer).finish(issuer, claims)
}

/// A browser with the session of an answer.
fn session(server: &Server<'_>, answered: &Answered) -> Client {
    let name = named("prowess_session", server);
    let cookie = answered.cookie(&name).unwrap_or_else(|| panic!("no session: {}", why(server, answered)));
    let value = cookie.split(';').next().unwrap();
    assert_eq!((answered.status, answered.header("location")), (303, "/"));
    Client::anonymous(&server.address).and(&format!("cookie: {name}={value}"))
}

fn name_of(client: &Client) -> String {
    client.get("/me")["user"]["name"].as_str().unwrap().to_owned()
}

/// Why the page says that somebody was refused.
fn why(server: &Server<'_>, answered: &Answered) -> String {
    assert_eq!((answered.status, answered.header("location")), (303, "/"), "{answered:#?}");
    assert_eq!(answered.cookie(&named("prowess_session", server)), None);
    let name = named("prowess_refused", server);
    let value = answered.cookie(&name).unwrap().split(';').next().unwrap();
    let told =
        Client::anonymous(&server.address).and(&format!("cookie: {name}={value}")).ask("GET", "/ways", None);
    // It is said once.
    assert!(told.cookie(&name).unwrap().contains("Max-Age=0"));
    told.json()["refused"].as_str().unwrap().to_owned()
}

fn users(server: &Server<'_>) -> Vec<String> {
    let users = server.world.json(&["serve", "user", "list", "--json"]);
    users.as_array().unwrap().iter().map(|user| user["name"].as_str().unwrap().to_owned()).collect()
}

#[test]
fn somebody_signs_in_and_stays_the_same_user() {
    let issuer = Issuer::start();
    let world = configured(&issuer.url, "create");
    let server = Server::start(&world);
    let nobody = Client::anonymous(&server.address);
    let ways = nobody.get("/ways");
    assert_eq!(
        ways,
        json!({"oidc": {"label": "Example", "url": format!("{PUBLIC}/oidc/login")}, "refused": null})
    );

    let begun = begin(&server, &issuer);
    let asked = |name: &str| begun.asked[name].as_str();
    assert_eq!((asked("response_type"), asked("client_id")), ("code", CLIENT));
    assert_eq!(asked("redirect_uri"), format!("{PUBLIC}/oidc/callback"));
    assert_eq!(asked("scope"), "openid profile email");
    assert_eq!(asked("code_challenge_method"), "S256");
    let first = nobody.request("GET", "/oidc/login?next=https://evil.example", None, &[]);
    let cookie = first.cookie(&named("prowess_oidc", &server)).unwrap();
    assert!(cookie.ends_with("; Path=/; HttpOnly; SameSite=Lax; Max-Age=600"), "{cookie}");
    assert!(!first.header("location").contains("evil"));

    let ada = json!({"sub": "42", "preferred_username": "Ada", "email": "ada@example.com"});
    let answered = begun.finish(&issuer, ada);
    for (name, value) in
        [("location", "/"), ("referrer-policy", "no-referrer"), ("cache-control", "no-store")]
    {
        assert_eq!(answered.header(name), value);
    }
    let cookie = answered.cookie(&named("prowess_session", &server)).unwrap();
    assert!(cookie.contains("; HttpOnly; SameSite=Strict"), "{cookie}");
    assert!(answered.cookie(&named("prowess_oidc", &server)).unwrap().contains("Max-Age=0"));
    let browser = session(&server, &answered);
    let me = browser.get("/me");
    assert_eq!((&me["user"]["name"], &me["user"]["is_admin"]), (&json!("ada"), &json!(false)));
    assert_eq!(me["scopes"], json!(["read", "write", "approve"]));
    let own = ["content-type: application/json", "x-prowess: 1"];
    assert_eq!(browser.request("POST", "/api/v1/threads", Some(b"{}"), &own).status, 201);

    // Names and addresses change; the person does not.
    let renamed = json!({"sub": "42", "preferred_username": "admin", "email": "root@example.com"});
    assert_eq!(name_of(&session(&server, &sign_in(&server, &issuer, renamed))), "ada");
    assert_eq!(users(&server), ["admin", "ada"]);
    // Both are in the audit log.
    let admin = server.client_with("admin", &["--scope", "read", "--scope", "admin"]);
    let audit = admin.get("/audit");
    let own = audit["items"].as_array().unwrap().iter().filter(|entry| entry["user"] == me["user"]["id"]);
    let own: Vec<_> =
        own.map(|entry| (entry["action"].as_str().unwrap(), &entry["detail"]["subject"])).collect();
    let subject = json!("42");
    assert_eq!(own, [("sign in", &subject), ("sign in", &subject), ("add user", &subject)]);
    // The issuer was asked for its addresses and keys once.
    assert_eq!((issuer.requests("/.well-known/openid-configuration"), issuer.requests("/jwks")), (1, 1));
}

#[test]
fn only_people_whom_an_administrator_linked_come_in() {
    let issuer = Issuer::start();
    let world = configured(&issuer.url, "linked");
    let server = Server::start(&world);
    server.new_user("bob");
    let bob = || json!({"sub": "7", "preferred_username": "bob", "email": "bob@example.com"});
    // The right name is not enough.
    let told = why(&server, &sign_in(&server, &issuer, bob()));
    assert_eq!(
        told,
        "This server does not know your account of Example. Ask an administrator of this server for a link."
    );
    let link = world.stdout(&["serve", "user", "link", "bob"]);
    let path = link.trim().strip_prefix(PUBLIC).unwrap().to_owned();
    // Programs, prefetching and other sites do not use it up.
    let nobody = Client::anonymous(&server.address);
    for (method, header) in
        [("GET", "sec-purpose: prefetch"), ("GET", "sec-fetch-site: cross-site"), ("HEAD", "a: b")]
    {
        assert_eq!(nobody.request(method, &path, None, &[header]).status, 400, "{header}");
    }
    // It does not sign in by itself.
    assert_eq!(
        nobody.request("GET", &path.replace("/oidc/link/", "/login/"), None, &[]).header("location"),
        "/?login=used"
    );
    let answered = begin_at(&server, &issuer, &path).finish(&issuer, bob());
    assert_eq!(name_of(&session(&server, &answered)), "bob");
    // From now on without it, and it works once.
    let browser = session(&server, &sign_in(&server, &issuer, bob()));
    assert_eq!(name_of(&browser), "bob");
    let eve = json!({"sub": "8", "preferred_username": "bob"});
    let told = why(&server, &begin_at(&server, &issuer, &path).finish(&issuer, eve));
    assert_eq!(told, "This link was used before, or it is too old. Ask an administrator for another one.");
    // A person is one user.
    let second = world.stdout(&["serve", "user", "link", "admin"]);
    let second = second.trim().strip_prefix(PUBLIC).unwrap();
    let told = why(&server, &begin_at(&server, &issuer, second).finish(&issuer, bob()));
    assert_eq!(told, "Your account of Example belongs to a user of this server already.");

    // A disabled user does not come in.
    world.stdout(&["serve", "user", "disable", "bob"]);
    assert_eq!(browser.ask("GET", "/me", None).status, 401);
    let told = why(&server, &sign_in(&server, &issuer, bob()));
    assert_eq!(told, "An administrator disabled your user.");
    world.stdout(&["serve", "user", "enable", "bob"]);
    assert_eq!(name_of(&browser), "bob");

    let links = world.stdout(&["serve", "user", "links"]);
    assert!(links.contains(&format!("\nbob\t{}\t7\t", issuer.url)), "{links}");
    let link = &world.json(&["serve", "user", "links", "bob", "--json"])[0];
    assert_eq!(
        [&link["user"], &link["issuer"], &link["subject"]],
        [&json!("bob"), &json!(issuer.url), &json!("7")]
    );
    world.stdout(&["serve", "user", "unlink", "bob", link["id"].as_str().unwrap()]);
    assert_eq!(browser.ask("GET", "/me", None).status, 401, "the sessions ended");
    assert!(why(&server, &sign_in(&server, &issuer, bob())).contains("does not know your account"));
}

#[test]
fn a_chosen_name_makes_nobody_somebody_else() {
    let issuer = Issuer::start();
    let world = configured(&issuer.url, "create");
    let server = Server::start(&world);
    server.new_user("bob");
    for (subject, claimed, name) in [
        ("1", "admin", "admin-2"),
        ("2", " ADMIN\n", "admin-3"),
        ("3", "bob", "bob-2"),
        ("admin", "<img src=x onerror=alert(1)>", "imgsrcxonerroralert1"),
        ("bob", "", "user"),
        // A subject that is the id of nobody, and the name of one.
        ("' OR 1 = 1 --", "root", "root-2"),
    ] {
        let claims =
            json!({"sub": subject, "preferred_username": claimed, "is_admin": true, "groups": ["admin"]});
        let me = session(&server, &sign_in(&server, &issuer, claims)).get("/me");
        assert_eq!((&me["user"]["name"], &me["user"]["is_admin"]), (&json!(name), &json!(false)));
    }
    // Without a name, or with one of another kind.
    let named = |claims| name_of(&session(&server, &sign_in(&server, &issuer, claims)));
    assert_eq!(named(json!({"sub": "10"})), "user-2");
    let too_long = json!({"sub": "x".repeat(256), "preferred_username": "ada"});
    let told = why(&server, &sign_in(&server, &issuer, too_long));
    assert_eq!(told, "The issuer's name for you cannot be used.");
}

#[test]
fn only_verified_addresses_of_the_domains_come_in() {
    let issuer = Issuer::start();
    let mut world = configured(&issuer.url, "create");
    world.variable("PROWESS_SERVE_OIDC_EMAIL_DOMAINS", "Example.com, example.org");
    let server = Server::start(&world);
    let claims = |subject: &str, email: &str, verified: Value| json!({"sub": subject, "preferred_username": "ada", "email": email, "email_verified": verified});
    for (email, verified) in [
        ("ada@evil.example", json!(true)),
        ("ada@example.com", json!(false)),
        ("ada@example.com", Value::Null),
        ("ada@example.com.evil.example", json!(true)),
        ("example.com", json!(true)),
    ] {
        let told = why(&server, &sign_in(&server, &issuer, claims("1", email, verified)));
        assert!(
            told.starts_with("Only people with a verified e-mail address of example.com or example.org"),
            "{told}"
        );
    }
    assert_eq!(users(&server), ["admin"]);
    let answered = sign_in(&server, &issuer, claims("1", "ada@EXAMPLE.com", json!(true)));
    assert_eq!(name_of(&session(&server, &answered)), "ada");
    // Some issuers say it only when they are asked.
    let begun = begin(&server, &issuer);
    let code = issuer.sign_in(&begun.asked, json!({"sub": "2"}));
    issuer.say_more(&code, claims("2", "bob@example.org", json!(true)));
    let answered = begun.return_with(&format!("code={code}&state={}", begun.asked["state"]));
    assert_eq!(name_of(&session(&server, &answered)), "ada-2");
    // What they say about somebody else does not count.
    let begun = begin(&server, &issuer);
    let code = issuer.sign_in(&begun.asked, json!({"sub": "3"}));
    issuer.say_more(&code, claims("2", "bob@example.org", json!(true)));
    let told = why(&server, &begun.return_with(&format!("code={code}&state={}", begun.asked["state"])));
    assert!(told.starts_with("Only people with"), "{told}");
    assert_eq!(users(&server), ["admin", "ada", "ada-2"]);
}

#[test]
fn what_a_dishonest_issuer_sends_lets_nobody_in() {
    let issuer = Issuer::start();
    let world = configured(&issuer.url, "create");
    let server = Server::start(&world);
    let faults = [
        (Fault::WrongNonce, "Invalid nonce"),
        (Fault::NoNonce, "Invalid nonce"),
        (Fault::WrongAudience, "Invalid audiences"),
        (Fault::OneMoreAudience, "not a trusted audience"),
        (Fault::WrongIssuer, "Invalid issuer"),
        (Fault::Expired, "Expired"),
        (Fault::OtherKey, "Crypto error"),
        (Fault::UnknownKey, "No matching key found"),
        (Fault::Unsigned, "No signature found"),
        (Fault::SharedSecret, "Disallowed signature algorithm"),
        (Fault::KeyAsSecret, "Disallowed signature algorithm"),
        (Fault::OtherAccessToken, "belongs to another access token"),
        (Fault::NoIdToken, "its answer has no ID token"),
        (Fault::NotJson, "its answer cannot be understood"),
        (Fault::RefusesCode, "it refused: invalid_grant: <b>The code is not valid.</b>"),
        (Fault::TooMuch, "its answer has more than 1048576 bytes"),
        (Fault::Redirects, "its answer is a redirect"),
    ];
    for (fault, says) in faults {
        issuer.fail(fault);
        let told = why(&server, &sign_in(&server, &issuer, json!({"sub": "1", "preferred_username": "eve"})));
        assert!(told.starts_with("Example cannot be used now: ") && told.contains(says), "{fault:?}: {told}");
        assert_eq!(users(&server), ["admin"], "{fault:?}");
    }
    assert_eq!(issuer.requests("/elsewhere"), 0);
    // An honest one lets the same person in.
    issuer.fail(Fault::Nothing);
    let answered = sign_in(&server, &issuer, json!({"sub": "1", "preferred_username": "eve"}));
    assert_eq!(name_of(&session(&server, &answered)), "eve");
}

#[test]
fn an_issuer_that_never_answers_is_given_up() {
    let issuer = Issuer::start();
    let world = configured(&issuer.url, "create");
    let server = Server::start(&world);
    issuer.fail(Fault::NeverAnswers);
    let told = why(&server, &sign_in(&server, &issuer, json!({"sub": "1"})));
    assert_eq!(
        told,
        "Example cannot be used now: it did not answer within 10 seconds. Try again, or sign in another way."
    );
    assert_eq!(users(&server), ["admin"]);
}

#[test]
fn an_attempt_belongs_to_its_browser_and_works_once() {
    let issuer = Issuer::start();
    let world = configured(&issuer.url, "create");
    let server = Server::start(&world);
    let (eve, ada) = (begin(&server, &issuer), begin(&server, &issuer));
    let code = issuer.sign_in(&eve.asked, json!({"sub": "eve"}));
    let elsewhere = "This sign-in took too long, or it began in another browser or tab. Sign in again.";
    // Eve leads Ada's browser to the end of Eve's attempt, so that Ada would work as Eve.
    let query = format!("code={code}&state={}", eve.asked["state"]);
    assert_eq!(why(&server, &ada.return_with(&query)), elsewhere);
    let none =
        Client::anonymous(&server.address).request("GET", &format!("/oidc/callback?{query}"), None, &[]);
    assert_eq!(why(&server, &none), elsewhere);
    // Ada's attempt goes on, but not with Eve's code.
    let told = why(&server, &ada.return_with(&format!("code={code}&state={}", ada.asked["state"])));
    assert!(
        told.contains("it refused: invalid_grant: <b>The verifier or the address is wrong.</b>"),
        "{told}"
    );
    let told = why(&server, &ada.finish(&issuer, json!({"sub": "ada"})));
    assert_eq!(told, "This sign-in has ended already. Sign in again.");
    for query in ["", "state=", "code=1", "state=0&code=1", "error=access_denied&error_description=Call+555"]
    {
        assert_eq!(why(&server, &eve.return_with(query)), elsewhere, "{query}");
    }
    assert_eq!(users(&server), ["admin"]);
    // A used one, and one of another issuer.
    let used = begin(&server, &issuer);
    assert_eq!(used.finish(&issuer, json!({"sub": "1"})).header("location"), "/");
    assert!(why(&server, &used.finish(&issuer, json!({"sub": "1"}))).contains("has ended already"));
    let mixed = begin(&server, &issuer);
    let query = format!("code=1&state={}&iss=https://evil.example", mixed.asked["state"]);
    assert_eq!(
        why(&server, &mixed.return_with(&query)),
        "The answer comes from another issuer. Sign in again."
    );
    // What the issuer says about a refusal is text.
    let refused = begin(&server, &issuer);
    let said = "error=access_denied&error_description=%3Cscript%3Ealert(1)%3C/script%3E%0A%E2%80%AEno";
    let told = why(&server, &refused.return_with(&format!("{said}&state={}", refused.asked["state"])));
    assert_eq!(told, r"Example refused: <script>alert(1)</script>\u{a}\u{202e}no");
}

#[test]
fn new_keys_of_the_issuer_count_at_once() {
    let issuer = Issuer::start();
    let world = configured(&issuer.url, "create");
    let server = Server::start(&world);
    let ada = || json!({"sub": "1", "preferred_username": "ada"});
    assert_eq!(name_of(&session(&server, &sign_in(&server, &issuer, ada()))), "ada");
    issuer.rotate();
    assert_eq!(name_of(&session(&server, &sign_in(&server, &issuer, ada()))), "ada");
    assert_eq!(issuer.requests("/jwks"), 2);
    assert_eq!(name_of(&session(&server, &sign_in(&server, &issuer, ada()))), "ada");
    assert_eq!(issuer.requests("/jwks"), 2, "the new ones are known now");
}

#[test]
fn without_its_issuer_a_server_starts_and_says_why() {
    // Nobody else gets this port.
    let reserved = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let address = reserved.local_addr().unwrap();
    drop(reserved);
    let world = configured(&format!("http://{address}"), "create");
    let mut server = Server::start(&world);
    let warned =
        server.line("warning: nobody can sign in with OpenID Connect now: the issuer cannot be used: ");
    assert!(warned.ends_with("; prowess tries again when somebody signs in"), "{warned}");
    let client = server.client("admin");
    assert_eq!(name_of(&client), "admin");
    let begun = Client::anonymous(&server.address).request("GET", "/oidc/login", None, &[]);
    let told = why(&server, &begun);
    assert!(told.starts_with("Example cannot be used now: "), "{told}");
    // When it is there again, it is used.
    let issuer = Issuer::on(std::net::TcpListener::bind(address).unwrap());
    eventually("somebody can sign in", || {
        let begun = Client::anonymous(&server.address).request("GET", "/oidc/login", None, &[]);
        begun.header("location").starts_with(&issuer.url)
    });
    assert_eq!(name_of(&session(&server, &sign_in(&server, &issuer, json!({"sub": "1"})))), "user");
}

#[test]
fn over_https_no_other_site_can_set_the_cookie() {
    let issuer = Issuer::start();
    let mut world = configured(&issuer.url, "create");
    world.variable("PROWESS_SERVE_OIDC_PUBLIC_URL", "https://agent.example.com/");
    let server = Server::start(&world);
    let client = Client::anonymous(&server.address);
    assert_eq!(client.get("/ways")["oidc"]["url"], "https://agent.example.com/oidc/login");
    let begun = client.request("GET", "/oidc/login", None, &[]);
    let cookie = begun.cookie(&named("__Host-prowess_oidc", &server)).unwrap();
    assert!(cookie.ends_with("; Path=/; HttpOnly; SameSite=Lax; Max-Age=600; Secure"), "{cookie}");
}

#[test]
fn settings_that_cannot_work_are_told_before_the_server_listens() {
    let issuer = Issuer::start();
    let world = configured(&issuer.url, "create");
    let told = |name: &str, value: &str| {
        let mut command = world.command(&["serve", "--listen", ":0"]);
        command.env(name, value);
        let output = command.output().unwrap();
        assert!(!output.status.success(), "{output:?}");
        let text = String::from_utf8(output.stderr).unwrap();
        assert!(!text.contains(SECRET), "{text}");
        text
    };
    let missing = told("PROWESS_SERVE_OIDC_CLIENT_SECRET_ENV", "NO_SUCH_SECRET");
    assert!(missing.contains("set the environment variable NO_SUCH_SECRET"), "{missing}");
    let path = told("PROWESS_SERVE_OIDC_PUBLIC_URL", "https://agent.example.com/prowess");
    assert!(path.contains("the public URL must be https://HOST"), "{path}");
    let plain = told("PROWESS_SERVE_OIDC_ISSUER", "http://login.example.com");
    assert!(plain.contains("must begin with https"), "{plain}");
    let domain = told("PROWESS_SERVE_OIDC_EMAIL_DOMAINS", "@example.com");
    assert!(domain.contains("`@example.com` is not a domain"), "{domain}");
    let secret = told("PROWESS_SERVE_OIDC_CLIENT_SECRET_ENV", SECRET);
    assert!(secret.contains("write the name of an environment variable"), "{secret}");
}

#[test]
fn a_secret_can_be_in_a_file() {
    let issuer = Issuer::start();
    let place = tempfile::NamedTempFile::new().unwrap();
    std::fs::write(place.path(), format!("{SECRET}\n")).unwrap();
    let world =
        configured_with(&issuer.url, "create", ("CLIENT_SECRET_FILE", place.path().to_str().unwrap()));
    let server = Server::start(&world);
    assert_eq!(name_of(&session(&server, &sign_in(&server, &issuer, json!({"sub": "1"})))), "user");
}
