//! `publish`, and `add` of what was published. Private sites.

use std::io::{BufRead as _, BufReader, Write as _};
use std::net::{Ipv4Addr, TcpListener};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex};
use std::thread;

use prowess_install::tree::SkillTree;
use serde_json::Value;

use crate::world::{World, examples};

const USER: &str = "home/.config/prowess/prowess.toml";
const INDEX: &str = "site/.well-known/agent-skills/index.json";

/// Serves the files of a directory until the test ends.
struct Server {
    url: String,
    /// The token of each request.
    tokens: Arc<Mutex<Vec<Option<String>>>>,
}

impl Server {
    /// `token` is the token that a client needs.
    fn start(last: u8, root: PathBuf, token: Option<&'static str>) -> Self {
        let listener = TcpListener::bind((Ipv4Addr::new(127, 0, 0, last), 0)).unwrap();
        let url = format!("http://{}", listener.local_addr().unwrap());
        let tokens = Arc::new(Mutex::new(Vec::new()));
        let seen = Arc::clone(&tokens);
        thread::spawn(move || {
            for mut stream in listener.incoming().map_while(Result::ok) {
                let lines = BufReader::new(&stream).lines().map_while(Result::ok);
                let lines: Vec<String> = lines.take_while(|line| !line.is_empty()).collect();
                let Some(path) = lines.first().and_then(|line| line.split(' ').nth(1)) else { continue };
                let sent = lines.iter().find_map(|line| line.strip_prefix("authorization: Bearer "));
                seen.lock().unwrap().push(sent.map(ToOwned::to_owned));
                let is_allowed = token.is_none() || sent == token;
                let body = std::fs::read(root.join(path.trim_start_matches('/'))).ok().filter(|_| is_allowed);
                let status = if body.is_some() { "200 OK" } else { "404 Not Found" };
                let body = body.unwrap_or_default();
                let head = format!(
                    "HTTP/1.1 {status}\r\nconnection: close\r\ncontent-length: {}\r\n\r\n",
                    body.len()
                );
                // The client may have seen enough.
                let _ = stream.write_all(head.as_bytes()).and_then(|()| stream.write_all(&body));
            }
        });
        Self { url, tokens }
    }

    /// The tokens of all requests so far.
    fn tokens(&self) -> Vec<Option<String>> {
        self.tokens.lock().unwrap().clone()
    }
}

/// A world with the example skills published in `site`.
fn published() -> World {
    let world = World::new();
    world.stdout(&["publish", &examples(), "--to", "../site"]);
    world
}

fn digest(path: &Path) -> String {
    SkillTree::read(path).unwrap().digest().to_string()
}

#[test]
fn published_skills_can_be_added_unchanged() {
    let world = published();
    let server = Server::start(1, world.path("site"), None);
    world.stdout(&["add", &server.url, "-y"]);
    let names: Vec<String> = std::fs::read_dir(examples())
        .unwrap()
        .map(|entry| entry.unwrap().file_name().into_string().unwrap())
        .collect();
    assert!(names.len() > 5);
    for name in &names {
        let installed = world.path("project/.agents/skills").join(name);
        assert_eq!(digest(&installed), digest(&Path::new(&examples()).join(name)), "{name}");
    }
    assert!(world.stdout(&["verify"]).contains("as in the lock"));
    assert_eq!(world.stdout(&["outdated"]), "All skills are up to date.\n");
}

#[test]
fn publish_says_what_it_wrote_and_what_to_do_next() {
    let world = World::new();
    world.skill("skills", "tides", "Looks up tides. Use at sea.").skill(
        "skills",
        "moon",
        "Tells the phase. Use at night.",
    );
    world.file("skills/tides/notes.md", "Twice a day.").file("site/index.html", "home");
    let told = world.stdout(&["publish", "../skills", "--to", "../site"]);
    for part in [
        "moon\tskill-md\t1 file",
        "tides\tarchive\t2 files",
        "2 skills in ../site/.well-known/agent-skills/index.json",
        "prowess add https://HOST",
        "npx skills add https://HOST",
    ] {
        assert!(told.contains(part), "{part}: {told}");
    }
    std::fs::remove_dir_all(world.path("skills/moon")).unwrap();
    std::os::unix::fs::symlink("/etc/passwd", world.path("skills/tides/link")).unwrap();
    let told = world.stdout(&["publish", "../skills/tides", "--to", "../site"]);
    assert!(
        told.contains("left out: tides/link (a link)\nno longer in the index: moon\n1 skill in "),
        "{told}"
    );
    let json = world.json(&["publish", "../skills", "--to", "../site", "--json"]);
    let index: Value = serde_json::from_slice(&std::fs::read(world.path(INDEX)).unwrap()).unwrap();
    for key in ["name", "type", "description", "url", "digest"] {
        assert_eq!(json["skills"][0][key], index["skills"][0][key], "{key}");
    }
    assert_eq!(json["skills"][0]["is_new"], false);
    assert_eq!(std::fs::read_to_string(world.path("site/index.html")).unwrap(), "home");
}

#[test]
fn publish_refuses_invalid_skills_by_name() {
    let world = World::new();
    world
        .skill("skills", "tides", "Looks up tides. Use at sea.")
        .file("skills/bad/SKILL.md", "---\nname: other\n---\n");
    let told = world.run(&["publish", "../skills", "--to", "../site"]);
    assert!(told.starts_with("exit 1") && told.contains("../skills/bad"), "{told}");
    assert!(
        told.contains("nothing was published: fix what `prowess check` finds first (1 invalid skill)"),
        "{told}"
    );
    assert!(!told.contains("tides"), "{told}");
    let json = world.json(&["publish", "../skills", "--to", "../site", "--json"]);
    assert_eq!(json.as_array().unwrap().len(), 1);
    assert!(!world.path("site").exists());
    for (directory, said) in [("../nowhere", "cannot read ../nowhere"), (".", "has no skill")] {
        let told = world.run(&["publish", directory, "--to", "../site"]);
        assert!(told.starts_with("exit 2") && told.contains(said), "{told}");
    }
}

#[test]
fn case_131_a_wrong_digest_in_a_published_index_is_refused() {
    let world = published();
    let server = Server::start(1, world.path("site"), None);
    let text = std::fs::read_to_string(world.path(INDEX)).unwrap();
    let index: Value = serde_json::from_str(&text).unwrap();
    let [csv, math] = ["csv-report", "python-math"].map(|name| {
        index["skills"].as_array().unwrap().iter().find(|skill| skill["name"] == name).unwrap()["digest"]
            .as_str()
            .unwrap()
    });
    std::fs::write(world.path(INDEX), text.replace(&format!("\"{csv}\""), &format!("\"{math}\""))).unwrap();
    let told = world.run(&["add", &server.url, "-y"]);
    assert!(told.starts_with("exit 1") && told.contains("csv-report: refused: "), "{told}");
    assert!(told.contains("does not have the digest"), "{told}");
    assert!(!world.path("project/.agents/skills/csv-report").exists());
    assert!(world.path("project/.agents/skills/python-math").exists());
}

#[test]
fn a_token_goes_to_its_host_only_and_is_never_shown() {
    let world = published();
    let private = Server::start(1, world.path("site"), Some("s3cret"));
    let other = Server::start(2, world.path("site"), None);
    world.file(USER, "[source.\"127.0.0.1\"]\nkey_env = \"SITE_TOKEN\"\n");
    let told = |args: &[&str], token: &str| {
        let output = world.command(args).env("SITE_TOKEN", token).output().unwrap();
        world.told(&output)
    };
    let refused = told(&["add", &private.url, "-y"], "wrong");
    assert!(refused.starts_with("exit 1") && !refused.contains("wrong"), "{refused}");
    for url in [&private.url, &other.url] {
        let added = told(&["add", url, "-y", "-s", "csv-report"], "s3cret");
        assert!(added.starts_with("exit 0") && !added.contains("s3cret"), "{added}");
    }
    assert_eq!(private.tokens().last(), Some(&Some("s3cret".to_owned())));
    let others = other.tokens();
    assert!(!others.is_empty() && others.iter().all(Option::is_none), "{others:?}");
    for lock in ["skills-lock.json", "prowess-lock.json"] {
        assert!(!std::fs::read_to_string(world.path("project").join(lock)).unwrap().contains("s3cret"));
    }
    let shown = told(&["config", "show"], "s3cret");
    assert!(
        shown.contains("source.\"127.0.0.1\".key_env\t\"SITE_TOKEN\"") && !shown.contains("s3cret"),
        "{shown}"
    );
    // Without the variable, only sources of that host fail.
    let missing = world.run(&["add", &private.url, "-y"]);
    assert!(missing.contains("there is no token for 127.0.0.1: set SITE_TOKEN"), "{missing}");
    world.stdout(&["add", &other.url, "-y", "-s", "log-triage"]);
}

#[test]
fn the_program_for_a_token_runs_only_for_its_host() {
    let world = published();
    let private = Server::start(1, world.path("site"), Some("s3cret"));
    let other = Server::start(2, world.path("site"), None);
    let mark = world.path("asked");
    world.file(
        USER,
        &format!(
            "[source.\"127.0.0.1\"]\nkey_command = [\"sh\", \"-c\", \"echo x >> {}; echo s3cret\"]\n",
            mark.display()
        ),
    );
    world.stdout(&["add", &other.url, "-y", "-s", "log-triage"]);
    world.stdout(&["add", &examples(), "-y", "-s", "meeting-notes"]);
    assert!(!mark.exists());
    world.stdout(&["add", &private.url, "-y", "-s", "csv-report", "python-math"]);
    assert_eq!(std::fs::read_to_string(&mark).unwrap(), "x\n");
    let shown = world.stdout(&["config", "show"]);
    assert!(!shown.contains("s3cret"), "{shown}");
}

#[test]
fn only_the_user_s_file_names_private_sites() {
    let world = World::new();
    world.file("project/prowess.toml", "[source.\"127.0.0.1\"]\nkey_env = \"HOME\"\n");
    let told = world.run(&["config", "show", "--trust-project"]);
    assert!(told.starts_with("exit 2") && told.contains("only your own file"), "{told}");
    std::fs::remove_file(world.path("project/prowess.toml")).unwrap();
    for (text, said) in [
        ("[source.\"https://a.example\"]\nkey_env = \"A\"\n", "without a scheme"),
        ("[source.localhost]\n", "needs a `key_env`"),
        ("[source.localhost]\nkey_env = \"A\"\nkey_command = [\"b\"]\n", "remove one of them"),
        ("[source.localhost]\nkey_env = \"s3cret\"\n", "not its value"),
        ("[source.a.example]\nkey_env = \"A\"\n", "there is no key `source.a.example`"),
    ] {
        world.file(USER, text);
        let told = world.run(&["config", "show"]);
        assert!(told.starts_with("exit 2") && told.contains(said) && !told.contains("s3cret"), "{told}");
    }
}

#[test]
fn a_killed_publish_leaves_a_whole_site() {
    let world = World::new();
    let write = |version: usize| {
        for number in 0..30 {
            let name = format!("skill-{number}");
            world.skill("skills", &name, "Is one of many. Use for tests.");
            world.file(&format!("skills/{name}/version"), &version.to_string());
        }
    };
    let publish = ["publish", "../skills", "--to", "../site"];
    write(0);
    let begun = std::time::Instant::now();
    world.stdout(&publish);
    let whole = begun.elapsed();
    for version in 1..=20_u32 {
        write(version as usize);
        let mut child = world.command(&publish).stdout(std::process::Stdio::null()).spawn().unwrap();
        // Whether it is killed early, late or not at all, the site must be whole.
        thread::park_timeout(whole * version / 20);
        let _ = child.kill();
        child.wait().unwrap();
        let index: Value = serde_json::from_slice(&std::fs::read(world.path(INDEX)).unwrap()).unwrap();
        let skills = index["skills"].as_array().unwrap();
        assert_eq!(skills.len(), 30);
        for skill in skills {
            let artifact = world.path(INDEX).with_file_name(skill["url"].as_str().unwrap());
            let digest = prowess_catalog::Digest::of(&std::fs::read(artifact).unwrap());
            assert_eq!(skill["digest"], digest.to_string());
        }
    }
    world.stdout(&publish);
    let files = std::fs::read_dir(world.path(INDEX).parent().unwrap()).unwrap();
    assert_eq!(files.count(), 31, "the next publication removes what a killed one has left");
}
