//! Setting a server up: the commands beside it, its address, and what happens if its files go.

use std::path::Path;

use serde_json::json;

use super::Server;
use super::client::Client;
use crate::chat::world;
use crate::model::{Answer, FakeModel};
use crate::uninstalling::apart;
use crate::world::World;

/// An administrator who reads the audit log.
fn auditor(server: &Server<'_>) -> Client {
    server.client_with("admin", &["--scope", "read", "--scope", "write", "--scope", "admin"])
}

#[test]
fn nothing_is_removed_while_a_server_runs() {
    let world = World::new();
    let elsewhere = world.path("data");
    let other = ["--data", elsewhere.to_str().unwrap()];
    let uninstall = |args: &[&str]| {
        let program = Path::new(env!("CARGO_BIN_EXE_prowess"));
        let output = apart(&world, program, &[&["uninstall"], args].concat()).output().unwrap();
        let told = [output.stdout, output.stderr].concat();
        (output.status.code(), String::from_utf8(told).unwrap())
    };
    // Its artifacts and workspaces are in the state directory also if its own directory is elsewhere.
    for args in [&[], other.as_slice()] {
        let server = Server::start_with(&world, args);
        let (code, told) = uninstall(&["--yes"]);
        assert_eq!(code, Some(2), "{told}");
        assert!(told.contains("a server runs: stop `prowess serve` first; nothing was removed"), "{told}");
        let ready = Client::anonymous(&server.address).request("GET", "/readyz", None, &[]);
        assert_eq!((ready.status, ready.text().as_str()), (200, "ready\n"));
    }
    let (code, told) = uninstall(&["--yes"]);
    assert_eq!(code, Some(0), "{told}");
    assert!(told.contains("the server's database, users and files"), "{told}");
    assert!(!world.path("home/.local/state/prowess").exists() && elsewhere.join("server.db").exists());
}

#[test]
fn a_server_whose_database_is_gone_is_not_ready() {
    let world = World::new();
    let server = Server::start(&world);
    let ready = || Client::anonymous(&server.address).request("GET", "/readyz", None, &[]);
    assert_eq!(ready().status, 200);
    let database = world.path("home/.local/state/prowess/serve/server.db");
    let aside = database.with_extension("aside");
    std::fs::rename(&database, &aside).unwrap();
    let gone = ready();
    assert_eq!(gone.status, 503);
    assert!(gone.text().contains("removed or replaced: restart the server"), "{}", gone.text());
    std::fs::copy(&aside, &database).unwrap();
    assert_eq!(ready().status, 503, "a copy is another file");
    std::fs::rename(&aside, &database).unwrap();
    assert_eq!(ready().status, 200);
}

#[test]
fn commands_beside_the_server_make_no_database() {
    let world = World::new();
    let data = world.path("data");
    let run = |words: &[&str]| world.run(&[&["serve"], words, &["--data", data.to_str().unwrap()]].concat());
    let commands: [&[&str]; 4] =
        [&["user", "add", "bob"], &["user", "list"], &["token", "add", "admin"], &["login", "admin"]];
    for words in commands {
        let told = run(words);
        assert!(
            told.contains("there is no server in") && told.contains("name --data or --database"),
            "{told}"
        );
    }
    assert!(!data.exists() && !world.path("home/.local/state/prowess/serve").exists());
    std::fs::create_dir(&data).unwrap();
    assert!(run(&["user", "add", "bob"]).contains("there is no server in"));
    assert_eq!(std::fs::read_dir(&data).unwrap().count(), 0);
    drop(Server::start_with(&world, &["--data", data.to_str().unwrap()]));
    assert!(run(&["user", "add", "bob"]).contains("added `bob`"));
    // Another place is still none.
    assert!(world.run(&["serve", "user", "list"]).contains("there is no server in"));
    // The notes of a server with its database in PostgreSQL.
    world.file("data/server.json", "{\"url\": \"https://agent.example.com\", \"database\": \"postgres\"}");
    let told = run(&["user", "list"]);
    assert!(told.contains("PostgreSQL") && told.contains("--database or PROWESS_DATABASE"), "{told}");
}

#[test]
fn links_have_the_address_with_which_the_server_started() {
    let world = World::new();
    let login = |args: &[&str]| world.run(&[&["serve", "login", "admin"], args].concat());
    let server = Server::start(&world);
    let local = format!("http://{}/login/prowess_", server.address);
    assert!(login(&[]).contains(&local));
    drop(server);
    let server = Server::start_with(&world, &["--url", "http://agent.example.com:81/"]);
    assert_eq!(server.address, "agent.example.com:81");
    assert!(
        server.said.iter().any(|line| line.contains(" · listens on http://127.0.0.1:")),
        "{:?}",
        server.said
    );
    assert!(login(&[]).contains("http://agent.example.com:81/login/prowess_"));
    assert!(
        login(&["--url", "https://other.example.com"]).contains("https://other.example.com/login/prowess_")
    );
    for wrong in ["agent.example.com", "ftp://a", "https://a?b=c", "https://a#b", "https://a/b"] {
        assert!(login(&["--url", wrong]).contains("invalid value"), "{wrong}");
        assert!(world.run(&["serve", "--url", wrong]).contains("invalid value"), "{wrong}");
    }
}

#[test]
fn the_audit_log_says_who_did_it() {
    let world = World::new();
    let server = Server::start(&world);
    let admin = auditor(&server);
    for words in [
        &["user", "add", "carol"] as &[&str],
        &["user", "limit", "carol", "--daily-cost", "2"],
        &["login", "carol"],
    ] {
        world.stdout(&[&["serve"], words].concat());
    }
    let id = admin.get("/users")["items"][1]["id"].clone();
    let entries = admin.get("/audit")["items"].as_array().unwrap().clone();
    let told: Vec<_> = entries.iter().take(3).map(|entry| entry["action"].as_str().unwrap()).collect();
    assert_eq!(told, ["make login link", "change user", "add user"]);
    for entry in &entries[..3] {
        assert_eq!((&entry["user"], &entry["affected"]), (&json!("command line"), &id), "{entry}");
        assert!(entry["detail"]["system_user"].as_str().is_some_and(|name| !name.is_empty()), "{entry}");
    }
    assert_eq!(entries[1]["detail"]["daily"]["cost"], "2.00");
    // In a browser.
    let link = world.stdout(&["serve", "login", "carol"]);
    let path = link.trim().split_once("/login/").map(|(_, code)| format!("/login/{code}")).unwrap();
    let nobody = Client::anonymous(&server.address);
    assert_eq!(nobody.request("POST", &path, None, &["sec-fetch-site: same-origin"]).status, 303);
    let secret = world.stdout(&["serve", "token", "add", "carol"]);
    let body = json!({"token": secret.trim()}).to_string();
    let signed = nobody.request(
        "POST",
        "/api/v1/login",
        Some(body.as_bytes()),
        &["content-type: application/json", "x-prowess: 1"],
    );
    assert_eq!(signed.status, 204);
    let made = admin.post("/users", json!({"name": "dora"}), 201)["id"].clone();
    let entries = admin.get("/audit")["items"].as_array().unwrap().clone();
    let me = admin.get("/me")["user"]["id"].clone();
    let told: Vec<_> =
        entries.iter().take(5).map(|entry| (&entry["action"], &entry["user"], &entry["affected"])).collect();
    let (none, line) = (json!(null), json!("command line"));
    let [link, user, sign, token] =
        ["make login link", "add user", "sign in", "add token"].map(|action| json!(action));
    assert_eq!(
        told,
        [
            (&link, &me, &made),
            (&user, &me, &made),
            (&sign, &id, &none),
            (&token, &line, &id),
            (&sign, &id, &none)
        ]
    );
    assert_eq!(
        (&entries[2]["detail"]["with"], &entries[4]["detail"]["with"]),
        (&json!("token"), &json!("login link"))
    );
    assert!(!entries.iter().any(|entry| entry.to_string().contains("prowess_")), "no secret is in it");
}

#[test]
fn commands_say_what_they_did() {
    let world = World::new();
    let server = Server::start(&world);
    let run = |words: &[&str]| world.run(&[&["serve"], words].concat());
    let added = run(&["user", "add", "Ada Lovelace"]);
    assert!(added.contains("`prowess serve login 'Ada Lovelace'` prints"), "{added}");
    for taken in ["ADMIN", "ada lovelace", "Command Line"] {
        assert!(run(&["user", "add", taken]).contains("already"), "{taken}");
    }
    let listed = run(&["user", "list"]);
    assert!(listed.contains("\nNAME\tKIND\tADDED\tDAILY LIMITS\tID\n"), "{listed}");
    let tokens = run(&["token", "list", "admin"]);
    assert!(tokens.contains("\nNAME\tKIND\tSCOPES\tUSED\tENDS\tID\n"), "{tokens}");
    assert!(run(&["token", "list", "ada LOVELACE"]).starts_with("exit 0"), "in whatever case");
    assert!(run(&["token", "add", "admin", "--days", "0"]).contains("invalid value '0'"));
    assert!(run(&["token", "add", "admin", "--name", "for ever"]).contains("prowess_"));
    assert!(run(&["token", "add", "admin", "--name", "short", "--days", "1"]).contains("prowess_"));
    let tokens = run(&["token", "list", "admin"]);
    let of = |name: &str| tokens.lines().find(|line| line.contains(name)).unwrap().to_owned();
    let ends = regex::Regex::new(r"never\t\d{4}-\d\d-\d\d\t").unwrap();
    assert!(of("for ever").contains("never\tnever\t") && ends.is_match(&of("short")), "{tokens}");
    let missing = run(&["token", "revoke", "Ada Lovelace", "0"]);
    assert!(missing.contains("`prowess serve token list 'Ada Lovelace'`"), "{missing}");
    let admin = auditor(&server);
    admin.post("/tokens", json!({"name": "a", "scopes": ["read"], "days": 0}), 400);
    admin.post("/users", json!({"name": "Admin"}), 409);

    let other = world.path("other");
    let busy = world.run(&["serve", "--listen", &server.address, "--data", other.to_str().unwrap()]);
    assert!(busy.contains("cannot listen on") && busy.contains("another program may use the port"), "{busy}");
}

/// A PostgreSQL that refuses every connection with this code and message.
fn refusing(code: &'static str, message: &'static str) -> std::net::SocketAddr {
    use std::io::{Read as _, Write as _};
    let server = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let address = server.local_addr().unwrap();
    std::thread::spawn(move || {
        for stream in server.incoming() {
            let mut stream = stream.unwrap();
            let _ = stream.read(&mut [0; 4096]);
            let fields = format!("SFATAL\0C{code}\0M{message}\0\0");
            let length = u32::try_from(fields.len() + 4).unwrap().to_be_bytes();
            let _ = stream.write_all(&[b"E".as_slice(), &length, fields.as_bytes()].concat());
        }
    });
    address
}

#[test]
fn an_error_of_the_database_says_what_to_do() {
    let world = World::new();
    let at = |address: std::net::SocketAddr| format!("postgres://me:secret@{address}/team?sslmode=disable");
    let password = at(refusing("28P01", "password authentication failed for user \"me\""));
    let missing = at(refusing("3D000", "database \"team\" does not exist"));
    let cases = [
        (
            "mysql://me:secret@db/team",
            "--database needs a URL of PostgreSQL: postgres://USER:PASSWORD@HOST/NAME.",
        ),
        (
            "postgres://me:sec ret@db:x/team",
            "the URL of PostgreSQL could not be read: it is not valid; write postgres://",
        ),
        ("postgres://", "the URL of PostgreSQL could not be read: it has no host; write postgres://"),
        (
            "postgres://me:secret@127.0.0.1:1/team",
            "cannot be reached: error connecting to server: Connection refused (os error 111); check that PostgreSQL runs there",
        ),
        (
            &password,
            "the database `team` of PostgreSQL at 127.0.0.1 refuses the connection: FATAL: password authentication failed for user \
             \"me\"; check the user and the password in --database",
        ),
        (
            &missing,
            "the database `team` of PostgreSQL at 127.0.0.1 does not exist: create it with `createdb`, or name another",
        ),
    ];
    let commands: [&[&str]; 2] = [&["--listen", ":0"], &["user", "list"]];
    for (url, text) in cases {
        for command in commands {
            let told = world.run(&[&["serve"], command, &["--database", url]].concat());
            let told = told.strip_prefix("exit 2\n--- out\n--- err\nprowess: ").expect(&told);
            assert!(told.contains(text) && told.lines().count() == 1, "{told}");
            assert!(!told.contains("secret") && !told.contains("ret@"), "{told}");
        }
    }
    world.file("file", "");
    for data in ["/proc/prowess", world.path("file/data").to_str().unwrap()] {
        let told = world.run(&["serve", "--listen", ":0", "--data", data]);
        assert!(told.starts_with("exit 2\n") && told.contains("; choose another --data DIR: "), "{told}");
    }
}

#[test]
fn a_limit_that_is_not_named_stays() {
    let world = World::new();
    let server = Server::start(&world);
    world.stdout(&["serve", "user", "add", "Ada"]);
    let limit = |args: &[&str]| world.stdout(&[&["serve", "user", "limit", "Ada"], args].concat());
    assert_eq!(limit(&[]), "`Ada` has no limits of its own: those of the server apply\n");
    assert_eq!(limit(&["--daily-cost", "1.5"]), "`Ada` may use $1.50 a day\n");
    assert_eq!(limit(&["--daily-tokens", "2000"]), "`Ada` may use 2000 tokens and $1.50 a day\n");
    assert_eq!(limit(&[]), "`Ada` may use 2000 tokens and $1.50 a day\n");
    assert!(world.stdout(&["serve", "user", "list"]).contains("\t2000 tokens and $1.50\t"));
    let users = world.json(&["serve", "user", "list", "--json"]);
    assert_eq!(users, auditor(&server).get("/users")["items"], "the same as in the API");
    assert_eq!(limit(&["--daily-cost", "default"]), "`Ada` may use 2000 tokens a day\n");
    for wrong in [["--daily-tokens", "none"], ["--daily-cost", "1,5"]] {
        let told = world.run(&[&["serve", "user", "limit", "Ada"], wrong.as_slice()].concat());
        assert!(
            told.starts_with("exit 2\n") && told.contains("or `default` for the server's limit"),
            "{told}"
        );
    }
    let free = limit(&["--daily-tokens", "default"]);
    assert_eq!(free, "`Ada` has no limits of its own: those of the server apply\n");
}

#[test]
fn a_removed_user_keeps_threads_alone() {
    let world = World::new();
    let server = Server::start(&world);
    let run = |words: &[&str]| world.run(&[&["serve"], words].concat());
    let bob = server.new_user("bob");
    let thread = bob.thread();
    for word in ["remove", "disable"] {
        let refused = run(&["user", word, "admin"]);
        assert!(refused.starts_with("exit 2\n"), "{refused}");
        assert!(refused.contains("`admin` is the only administrator: add another one first"), "{refused}");
    }
    let removed = run(&["user", "remove", "bob"]);
    assert!(removed.contains("The threads and files stay, and nobody else sees them"), "{removed}");
    assert_eq!(world.json(&["serve", "token", "list", "bob", "--json"]), json!([]));
    let refused = [&["login", "bob"] as &[&str], &["token", "add", "bob"]].map(run);
    assert_eq!(refused[0], refused[1]);
    assert!(
        refused[0].starts_with("exit 2\n") && refused[0].contains("the user `bob` is disabled"),
        "{refused:?}"
    );
    assert_eq!(world.json(&["serve", "token", "list", "bob", "--json"]), json!([]));
    assert!(run(&["user", "enable", "bob"]).contains("enabled `bob`"));
    assert_eq!(bob.ask("GET", "/me", None).status, 401, "the old token is gone");
    assert_eq!(server.client("bob").get("/threads")["items"][0]["id"], thread.as_str());
    let entries = auditor(&server).get("/audit")["items"].clone();
    assert!(entries.as_array().unwrap().iter().any(|entry| entry["action"] == "remove user"), "{entries}");
}

#[test]
fn a_token_says_if_a_scope_is_in_vain() {
    let world = World::new();
    let _server = Server::start(&world);
    world.stdout(&["serve", "user", "add", "bob"]);
    let add = |user: &str| world.run(&["serve", "token", "add", user, "--scope", "read", "--scope", "admin"]);
    let warning = "warning: `bob` is no administrator, so the scope `admin` allows nothing";
    assert!(add("bob").contains(warning));
    assert!(!add("admin").contains("warning"));
    let listed = world.json(&["serve", "token", "list", "bob", "--json"]);
    assert_eq!(listed[0]["scopes"], json!(["read", "admin"]), "{listed}");
}

/// The command between backquotes in a message.
fn command_in(told: &str) -> Vec<String> {
    let command = told.split('`').find(|part| part.starts_with("prowess serve")).unwrap();
    let words =
        std::process::Command::new("sh").args(["-c", &format!("printf '%s\\n' {command}")]).output().unwrap();
    String::from_utf8(words.stdout).unwrap().lines().skip(1).map(str::to_owned).collect()
}

#[test]
fn a_command_that_is_printed_works() {
    let world = World::new();
    // A relative path is another one in another directory.
    let data = world.path("project/../my data");
    let place = ["--data", "../my data"];
    let server = Server::start_with(&world, &place);
    let run = |words: &[&str]| world.run(&[&["serve"], words, &place].concat());
    let elsewhere = |told: &str| {
        let words = command_in(told);
        assert!(words.ends_with(&["--data".to_owned(), data.to_str().unwrap().to_owned()]), "{told}");
        let words: Vec<&str> = words.iter().map(String::as_str).collect();
        let ran = world.command(&words).current_dir(world.path("home")).output().unwrap();
        assert!(ran.status.success(), "{words:?}: {}", world.told(&ran));
    };
    // Messages have the directory of the test in them, which `run` replaces.
    let told = |words: &[&str]| {
        run(words).replace("[WORLD]", world.path("").to_str().unwrap().trim_end_matches('/'))
    };
    elsewhere(&told(&["user", "add", "Ada L"]));
    elsewhere(&told(&["login", "nobody"]));
    elsewhere(&told(&["token", "revoke", "Ada L", "0"]));
    elsewhere(&told(&["user", "unlink", "Ada L", "0"]));
    elsewhere(&told(&["user", "remove", "Ada L"]));
    drop(server);
}

#[test]
fn a_start_says_how_to_sign_in_if_there_is_no_admin() {
    let world = World::new();
    let place = ["--data", "data"];
    let server = Server::start_with(&world, &place);
    for words in [&["user", "add", "ada", "--admin"] as &[&str], &["user", "disable", "admin"]] {
        world.stdout(&[&["serve"], words, &place].concat());
    }
    drop(server);
    let mut server = Server::begin(&world, &place);
    let told = server.line("no link for `admin`: ");
    assert!(told.starts_with("`prowess serve login NAME --data /"), "{told}");
    assert!(told.ends_with("/data` prints one for another user"), "{told}");
}

#[test]
fn a_start_says_how_to_enable_the_only_administrator() {
    let world = World::new();
    world.file(
        "home/.prowess/skills/tides/SKILL.md",
        "---\nname: tides\ndescription: Looks up tides.\n---\nLook.\n",
    );
    let server = Server::start(&world);
    let said = server.said.iter().any(|line| line.contains(" · 1 skill · "));
    assert!(said, "{:?}", server.said);
    drop(server);
    // An earlier version did not refuse it.
    let file = world.path("home/.local/state/prowess/serve/server.db");
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    runtime.block_on(async {
        let database = prowess_store::Database::open(file.to_str().unwrap()).await.unwrap();
        let accounts = database.accounts();
        let admin = accounts.user("admin").await.unwrap().unwrap();
        assert!(accounts.set_disabled(&admin.id, true).await.unwrap());
        database.close().await.unwrap();
    });
    let mut server = Server::begin(&world, &[]);
    let told = server.line("no administrator is enabled: ");
    assert_eq!(told, "`prowess serve user enable admin` brings one back");
    drop(server);
    world.stdout(&["serve", "user", "enable", "admin"]);
    drop(Server::start(&world));
}

#[test]
fn what_a_server_needs_is_looked_for_at_the_start() {
    let start = |world: &World, args: &[&str]| world.run(&[&["serve", "--listen", ":0"], args].concat());
    let mut world = World::new();
    let socket = world.path("nothing.sock");
    world.variable("DOCKER_HOST", &format!("unix://{}", socket.display()));
    let told = start(&world, &["--executor", "container"]);
    assert!(told.starts_with("exit 2\n") && told.contains("no container engine answers at "), "{told}");
    assert!(
        told.contains("no command can run in a container") && told.contains("Start one: Docker"),
        "{told}"
    );

    // A store that refuses the keys.
    let store = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let address = store.local_addr().unwrap();
    std::thread::spawn(move || {
        use std::io::{Read as _, Write as _};
        for stream in store.incoming() {
            let mut stream = stream.unwrap();
            let _ = stream.read(&mut [0; 8192]);
            let body = "<Error><Code>InvalidAccessKeyId</Code><Message>No such key.</Message></Error>";
            let head = format!(
                "HTTP/1.1 403 Forbidden\r\ncontent-length: {}\r\nconnection: close\r\n\r\n",
                body.len()
            );
            let _ = stream.write_all(format!("{head}{body}").as_bytes());
        }
    });
    world.variable("AWS_ENDPOINT_URL", &format!("http://{address}"));
    world.variable("AWS_ACCESS_KEY_ID", "me");
    world.variable("AWS_SECRET_ACCESS_KEY", "not-to-be-shown");
    let told = start(&world, &["--files", "s3://reports/here"]);
    assert!(
        told.starts_with("exit 2\n") && told.contains("; AWS_ENDPOINT_URL begins with http://"),
        "{told}"
    );
    world.variable("AWS_ALLOW_HTTP", "true");
    let told = start(&world, &["--files", "s3://reports/here"]);
    assert!(
        told.starts_with("exit 2\n") && told.contains("the bucket s3://reports/here cannot be used"),
        "{told}"
    );
    assert!(told.contains("check the bucket, AWS_ACCESS_KEY_ID, AWS_SECRET_ACCESS_KEY"), "{told}");
    assert!(!told.contains("not-to-be-shown") && told.lines().count() == 4, "{told}");
}

#[test]
fn a_limit_of_cost_names_the_price_that_is_missing() {
    let world = World::new();
    let told = world.run(&["serve", "--listen", ":0", "--daily-cost", "1"]);
    assert!(told.starts_with("exit 2\n"), "{told}");
    let price = told.split('`').find(|part| part.starts_with("price.")).unwrap();
    assert_eq!(price, "price.\"offline\" = { input = 1.25, output = 10.0 }");
    // The server that runs does not know it either, so it would refuse every message.
    let server = Server::start(&world);
    world.stdout(&["serve", "user", "add", "bob"]);
    let limit = |args: &[&str]| world.run(&[&["serve", "user", "limit", "bob"], args].concat());
    assert!(!limit(&["--daily-tokens", "1"]).contains("warning"));
    let told = limit(&["--daily-cost", "1"]);
    assert!(told.starts_with("exit 0\n") && told.contains("`bob` may use 1 token"), "{told}");
    let warning = told.lines().find(|line| line.starts_with("warning: --daily-cost needs a price")).unwrap();
    assert!(warning.contains(&format!("`{price}`")), "{told}");
    assert!(
        warning.ends_with("then restart the server. Until then it refuses every message of `bob`"),
        "{told}"
    );
    drop(server);
    world.file("home/.config/prowess/prowess.toml", price);
    drop(Server::start_with(&world, &["--daily-cost", "1"]));
    assert!(!limit(&[]).contains("warning"));
}

#[test]
fn a_unit_starts_as_the_server_would() {
    let world = World::new();
    let unit = |args: &[&str]| world.run(&[&["serve", "--print-unit"], args].concat());
    let refused = unit(&["--listen", "0.0.0.0:80"]);
    assert!(refused.starts_with("exit 2\n") && refused.contains("add --allow-remote"), "{refused}");
    assert!(unit(&["--listen", "0.0.0.0:80", "--allow-remote"]).starts_with("exit 0\n"));
    let missing = unit(&["--root", "../skills"]);
    assert_eq!(missing, world.run(&["serve", "--listen", ":0", "--root", "../skills"]));
    assert!(missing.starts_with("exit 2\n") && missing.contains("skills"), "{missing}");
    std::fs::create_dir(world.path("skills")).unwrap();
    let unpriced = unit(&["--daily-cost", "1"]);
    assert!(
        unpriced.contains("warning: --daily-cost needs a price for `offline`: add `price."),
        "{unpriced}"
    );
    assert!(
        unpriced.contains("The service reads /var/lib/prowess/.config/prowess/prowess.toml"),
        "{unpriced}"
    );
    let paths = unit(&["--root", "../skills", "--workspace=files", "--data", "data"]);
    let given = "serve --root [WORLD]/project/../skills --workspace=[WORLD]/project/files --data [WORLD]/project/data";
    assert!(paths.contains(given), "{paths}");
    let copy = tempfile::Builder::new().tempdir_in("/tmp").unwrap();
    let program = copy.path().join("prowess");
    std::fs::copy(env!("CARGO_BIN_EXE_prowess"), &program).unwrap();
    let ran = std::process::Command::new(&program).args(["serve", "--print-unit"]).output().unwrap();
    let told = String::from_utf8(ran.stderr).unwrap();
    assert!(told.contains("the service's user cannot reach /tmp/"), "{told}");
}

#[test]
fn a_unit_makes_only_directories_that_systemd_makes() {
    let world = World::new();
    let cases = [
        (None, &["StateDirectory=prowess", "StateDirectoryMode=0700"] as &[&str]),
        (Some("/var/lib/prowess/a"), &["StateDirectory=prowess", "StateDirectoryMode=0700"]),
        (
            Some("/var/lib/my agents/a"),
            &["StateDirectory=prowess \"my agents/a\"", "StateDirectoryMode=0700"],
        ),
        (Some("/srv/p"), &[]),
        (Some("/var/lib/prowess/../../../srv/p"), &[]),
        (Some("/home/50% $p"), &["ReadWritePaths=\"/home/50%% $p\""]),
    ];
    for (data, lines) in cases {
        let data = data.map(|data| ["--data", data]);
        let args = data.as_ref().map_or(&[] as &[&str], |data| data);
        let unit = world.stdout(&[&["serve", "--print-unit"], args].concat());
        let settings =
            unit.lines().filter(|line| line.starts_with("StateDir") || line.starts_with("ReadWrite"));
        assert_eq!(settings.collect::<Vec<_>>(), lines, "{unit}");
        let is_made = lines.iter().any(|line| line.starts_with("StateDirectory="));
        assert_eq!(
            unit.contains("# systemd does not make the directory of --data: sudo install -d "),
            !is_made
        );
        super::verify_unit(&world, &unit);
    }
}

#[test]
fn the_model_on_a_server_knows_where_it_is() {
    let model = FakeModel::start(vec![Answer::text("Hello.")]);
    let world = world(&model);
    let server = Server::start(&world);
    let ada = server.client("admin");
    let thread = ada.thread();
    ada.say(&thread, "Hello?");
    let told = model.requests()[0]["messages"][0]["content"].to_string();
    assert!(
        told.contains("You are an agent on a server. A person talks to you through a web page"),
        "{told}"
    );
    assert!(told.contains("files that the person uploads") && !told.contains("terminal"), "{told}");
}

#[test]
fn a_unit_warns_about_a_program_that_its_user_cannot_reach() {
    let mut world = World::new();
    let program = Path::new(env!("CARGO_BIN_EXE_prowess"));
    let warned = |world: &World| {
        let output = world.output(&["serve", "--print-unit"]);
        assert!(output.status.success() && !String::from_utf8_lossy(&output.stdout).contains("warning"));
        String::from_utf8(output.stderr).unwrap()
    };
    world.variable("HOME", program.parent().unwrap().to_str().unwrap());
    let told = warned(&world);
    assert!(told.contains("the service's user cannot reach") && told.contains("/usr/local/bin/"), "{told}");
    // Unless these tests are below somebody's home, or in a temporary directory.
    world.variable("HOME", world.path("home").to_str().unwrap());
    let is_at_home = ["/home/", "/root/"].iter().any(|home| program.to_str().unwrap().contains(home));
    let is_temporary = ["/tmp", "/var/tmp"].iter().any(|directory| program.starts_with(directory));
    assert_eq!(warned(&world).is_empty(), !is_at_home && !is_temporary);
}
