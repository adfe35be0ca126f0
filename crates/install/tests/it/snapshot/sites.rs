//! Web sites with an index of skills, and direct downloads.

use std::net::Ipv4Addr;

use prowess_catalog::Digest;
use prowess_install::snapshot::fetch::{FetchError, FetchOptions, Fetched, fetch};
use prowess_install::snapshot::http::{BearerToken, NamedBy};
use prowess_install::snapshot::well_known::WellKnownError;
use prowess_install::source::{Source, SourceEnvironment};

use super::archives::{SKILL, zipped};
use super::run;
use super::server::{Answer, Server};

const NEW: &str = "/.well-known/agent-skills/index.json";
const OLD: &str = "/.well-known/skills/index.json";

/// An index of version 0.2.0 with these skills: name, type, URL and digest.
fn index(skills: &[(&str, &str, &str, Digest)]) -> String {
    let skills = skills.iter().map(|(name, kind, url, digest)| {
        format!(r#"{{"name":"{name}","type":"{kind}","description":"d","url":"{url}","digest":"{digest}"}}"#)
    });
    format!(
        r#"{{"$schema":"https://schemas.agentskills.io/discovery/0.2.0/schema.json","skills":[{}]}}"#,
        skills.collect::<Vec<_>>().join(",")
    )
}

fn site(pages: Vec<(&str, Vec<u8>)>) -> Server {
    let pages: Vec<(String, Vec<u8>)> =
        pages.into_iter().map(|(path, body)| (path.to_owned(), body)).collect();
    Server::start(move |request| match pages.iter().find(|(path, _)| *path == request.path) {
        Some((_, body)) => Answer::ok(body.clone()),
        None => Answer::missing(),
    })
}

fn add(url: &str, options: &FetchOptions) -> Result<Fetched, FetchError> {
    let source = Source::parse(url, &SourceEnvironment::default()).unwrap();
    run(fetch(&source, options))
}

fn paths(fetched: &Fetched) -> Vec<&str> {
    fetched.snapshot.entries().iter().map(|entry| entry.path.as_str()).collect()
}

#[test]
fn the_skills_of_an_index_get_a_directory_each() {
    let zip = zipped(&[("SKILL.md", 0o644, SKILL.as_bytes()), ("scripts/run.sh", 0o755, b"ls")]);
    let text = index(&[
        ("tide", "archive", "tide.zip", Digest::of(&zip)),
        ("moon", "skill-md", "/moon/SKILL.md", Digest::of(SKILL.as_bytes())),
    ]);
    let server = site(vec![
        (NEW, text.into_bytes()),
        ("/.well-known/agent-skills/tide.zip", zip.clone()),
        ("/moon/SKILL.md", SKILL.into()),
    ]);
    let mut fetched = add(&server.url, &FetchOptions::default()).unwrap();
    assert_eq!(paths(&fetched), ["moon/SKILL.md", "tide/SKILL.md", "tide/scripts/run.sh"]);
    assert_eq!(fetched.snapshot.read("moon/SKILL.md").unwrap(), SKILL.as_bytes());
    let site = fetched.site.unwrap();
    assert_eq!(site.skills[0].digest, Digest::of(&zip));
    assert_eq!(site.skills[0].url, format!("{}/.well-known/agent-skills/tide.zip", server.url));
    assert!(site.refused.is_empty());
    for request in server.requests() {
        assert_eq!(request.header("user-agent"), Some(concat!("prowess/", env!("CARGO_PKG_VERSION"))));
        assert!(request.headers.iter().all(|(name, _)| !name.starts_with("x-")), "{request:?}");
    }
    // Only the wanted skill is downloaded.
    let before = server.requests().len();
    let options = FetchOptions { skills: vec!["moon".to_owned()], ..FetchOptions::default() };
    assert_eq!(paths(&add(&server.url, &options).unwrap()), ["moon/SKILL.md"]);
    assert_eq!(server.requests().len(), before + 2);
    let options = FetchOptions { skills: vec!["sun".to_owned()], ..FetchOptions::default() };
    let error = add(&server.url, &options).unwrap_err().to_string();
    assert!(error.ends_with("has no skill \"sun\"; it has: tide, moon"), "{error}");
}

#[test]
fn an_older_index_names_single_files() {
    let text = r#"{"skills":[{"name":"tide","description":"d","files":["SKILL.md","refs/a b.md"]}]}"#;
    let server = site(vec![
        (OLD, text.into()),
        ("/.well-known/skills/tide/SKILL.md", SKILL.into()),
        ("/.well-known/skills/tide/refs/a%20b.md", b"text".to_vec()),
    ]);
    let fetched = add(&server.url, &FetchOptions::default()).unwrap();
    assert_eq!(paths(&fetched), ["tide/SKILL.md", "tide/refs/a b.md"]);
    let expected = Digest::of(format!("SKILL.md\0{SKILL}\0refs/a b.md\0text\0").as_bytes());
    assert_eq!(fetched.site.unwrap().skills[0].digest, expected);
}

#[test]
fn a_scoped_path_does_not_fall_back_to_the_index_of_the_site() {
    let text = index(&[("tide", "skill-md", "/tide.md", Digest::of(SKILL.as_bytes()))]);
    let server = site(vec![
        (NEW, text.clone().into()),
        (&format!("/docs{NEW}"), text.into()),
        ("/tide.md", SKILL.into()),
        ("/team/page", b"<html></html>".to_vec()),
    ]);
    assert!(add(&format!("{}/docs", server.url), &FetchOptions::default()).is_ok());
    let error = add(&format!("{}/team/page", server.url), &FetchOptions::default()).unwrap_err();
    assert!(matches!(error, FetchError::NothingThere(_)), "{error}");
    let error = add(&format!("{}/gone", server.url), &FetchOptions::default()).unwrap_err();
    assert!(matches!(error, FetchError::Http(_)), "{error}");
    assert!(!server.requests().iter().any(|request| request.path == NEW));
}

#[test]
fn without_an_index_the_url_itself_is_downloaded() {
    let zip = zipped(&[("tide/SKILL.md", 0o644, SKILL.as_bytes())]);
    let server = site(vec![
        ("/a/SKILL.md", SKILL.into()),
        ("/a/tide.skill", zip.clone()),
        ("/download", zip),
        ("/page", b"<html></html>".to_vec()),
    ]);
    for (path, expected) in
        [("/a/SKILL.md", "SKILL.md"), ("/a/tide.skill", "tide/SKILL.md"), ("/download", "tide/SKILL.md")]
    {
        let fetched = add(&format!("{}{path}", server.url), &FetchOptions::default()).unwrap();
        assert_eq!(paths(&fetched), [expected], "{path}");
        assert!(fetched.site.is_none());
    }
    let error = add(&format!("{}/page", server.url), &FetchOptions::default()).unwrap_err();
    assert!(matches!(error, FetchError::NothingThere(_)), "{error}");
    let mut options = FetchOptions::default();
    options.archive.download_bytes = 20;
    let error = add(&format!("{}/a/tide.skill", server.url), &options).unwrap_err();
    assert!(error.to_string().contains("more than 20 bytes"), "{error}");
}

#[test]
fn case_131_another_file_than_the_index_promises_is_refused() {
    let good = zipped(&[("SKILL.md", 0o644, SKILL.as_bytes())]);
    let evil = zipped(&[("SKILL.md", 0o644, b"---\nname: evil\n---\n")]);
    let text = index(&[
        ("tide", "archive", "/tide.zip", Digest::of(&good)),
        ("moon", "archive", "/moon.zip", Digest::of(&good)),
    ]);
    let server = site(vec![(NEW, text.clone().into()), ("/tide.zip", good), ("/moon.zip", evil.clone())]);
    let fetched = add(&server.url, &FetchOptions::default()).unwrap();
    assert_eq!(paths(&fetched), ["tide/SKILL.md"]);
    let refused = &fetched.site.as_ref().unwrap().refused;
    assert!(matches!(&refused[0], (name, WellKnownError::Digest { .. }) if name == "moon"), "{refused:?}");
    assert!(fetched.snapshot.notices()[0].starts_with("moon: left out: "));
    // If nothing is left, it is an error. What is no archive at all is not even looked at.
    for bad in [evil, b"PK\x03\x04 broken".to_vec()] {
        let server = site(vec![(NEW, text.clone().into()), ("/tide.zip", bad.clone()), ("/moon.zip", bad)]);
        let error = add(&server.url, &FetchOptions::default()).unwrap_err();
        assert!(matches!(error, FetchError::WellKnown(WellKnownError::Digest { .. })), "{error}");
    }
}

#[test]
fn case_132_an_index_cannot_name_private_addresses_or_other_schemes() {
    let other = Server::start_at(Ipv4Addr::new(127, 0, 0, 2), |_| Answer::ok(SKILL));
    let digest = Digest::of(SKILL.as_bytes());
    for url in [
        format!("{}/SKILL.md", other.url),
        "file:///etc/passwd".to_owned(),
        "http://169.254.169.254/latest".to_owned(),
        "http://localhost:1/x".to_owned(),
    ] {
        let text = index(&[("moon", "skill-md", &url, digest), ("tide", "skill-md", "/tide.md", digest)]);
        let server = site(vec![(NEW, text.into()), ("/tide.md", SKILL.into())]);
        let fetched = add(&server.url, &FetchOptions::default()).unwrap();
        assert_eq!(paths(&fetched), ["tide/SKILL.md"], "{url}");
        assert_eq!(fetched.snapshot.notices().len(), 1, "{url}");
    }
    assert!(other.requests().is_empty());
}

#[test]
fn case_132_a_token_reaches_the_typed_host_and_no_other() {
    let other = Server::start_at(Ipv4Addr::new(127, 0, 0, 2), |_| Answer::ok(SKILL));
    let away = format!("{}/SKILL.md", other.url);
    let text = index(&[
        ("moon", "skill-md", "/moved.md", Digest::of(SKILL.as_bytes())),
        ("tide", "skill-md", "/tide.md", Digest::of(SKILL.as_bytes())),
    ]);
    let server = Server::start(move |request| match request.path.as_str() {
        _ if request.header("authorization") != Some("Bearer s3cret") => Answer::missing(),
        NEW => Answer::ok(text.clone()),
        "/moved.md" => Answer::redirect(&away),
        _ => Answer::ok(SKILL),
    });
    let mut options = FetchOptions::default();
    options.tokens.insert("127.0.0.1".to_owned(), BearerToken::new("s3cret").into());
    let fetched = add(&server.url, &options).unwrap();
    assert_eq!(paths(&fetched), ["tide/SKILL.md"]);
    assert!(other.requests().is_empty());
    assert!(!format!("{fetched:?} {options:?}").contains("s3cret"));
    // A source from somebody else's list gets no token and no private address.
    let before = server.requests().len();
    options.named_by = NamedBy::Stranger;
    let error = add(&server.url, &options).unwrap_err();
    assert!(error.to_string().contains("private address"), "{error}");
    assert_eq!(server.requests().len(), before);
}

#[test]
fn case_129_an_index_cannot_ask_for_endless_downloads() {
    let files: Vec<String> = (0..600).map(|number| format!("\"f{number}\"")).collect();
    let skills: Vec<String> = (0..20)
        .map(|number| format!(r#"{{"name":"s{number}","description":"d","files":[{}]}}"#, files.join(",")))
        .collect();
    let server = site(vec![(NEW, format!(r#"{{"skills":[{}]}}"#, skills.join(",")).into())]);
    let error = add(&server.url, &FetchOptions::default()).unwrap_err();
    assert!(matches!(error, FetchError::WellKnown(WellKnownError::TooManyDownloads)), "{error}");
    assert_eq!(server.requests().len(), 1);
}
