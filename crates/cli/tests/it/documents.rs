//! The documents hold together: every page is reached, every link leads somewhere, every block is what it says.

use std::collections::{BTreeMap, BTreeSet};
use std::io::Write as _;
use std::path::{Component, Path, PathBuf};
use std::process::{Command, Stdio};

use crate::document::{Block, Document, documents, top};
use crate::world::World;

#[test]
fn every_page_is_reached_from_the_readme() {
    let documents: BTreeMap<PathBuf, Document> =
        documents().into_iter().map(|document| (document.path.clone(), document)).collect();
    let mut reached = BTreeSet::new();
    let mut next = vec![PathBuf::from("README.md")];
    while let Some(path) = next.pop() {
        let Some(document) = documents.get(&path) else { continue };
        if reached.insert(path) {
            next.extend(document.links.iter().filter_map(|link| Some(target(document, link)?.0)));
        }
    }
    let orphans: Vec<_> = documents.keys().filter(|path| !reached.contains(*path)).collect();
    assert!(orphans.is_empty(), "no link leads from the README to {orphans:?}");
}

#[test]
fn every_link_leads_somewhere() {
    let documents = documents();
    let mut wrong = Vec::new();
    for document in &documents {
        for link in &document.links {
            let Some((path, anchor)) = target(document, link) else { continue };
            let is_there = path.is_relative() && !path.starts_with("..") && top().join(&path).exists();
            let to = documents.iter().find(|other| other.path == path);
            // Lines of source files have anchors too, which move; only those of documents are known.
            let has_anchor = anchor.is_none_or(|anchor| to.is_some_and(|to| to.anchors.contains(anchor)));
            if !is_there || !has_anchor {
                wrong.push(format!("{}: {link}", document.path.display()));
            }
        }
    }
    assert!(wrong.is_empty(), "these lead nowhere:\n{}", wrong.join("\n"));
}

#[test]
fn every_block_is_what_it_says() {
    let mut wrong = Vec::new();
    for document in documents() {
        for block in &document.blocks {
            let is_readme = document.path == Path::new("README.md");
            let checked = match check(block) {
                Ok(()) if is_readme && block.language.is_empty() => {
                    Err("it does not say what it is, and would be a test in Rust".to_owned())
                }
                checked => checked,
            };
            if let Err(error) = checked {
                wrong.push(format!("{}:{}: {error}", document.path.display(), block.line));
            }
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

#[test]
fn every_configuration_that_is_shown_is_one() {
    let mut wrong = Vec::new();
    let mut shown = 0;
    for document in documents() {
        for block in document.blocks.iter().filter(|block| is_configuration(block)) {
            let world = World::new();
            world.file("home/.config/prowess/prowess.toml", &block.text);
            let output = world.output(&["config", "show"]);
            // A rule for an act that there is not is told, and is no error.
            if !output.status.success() || !output.stderr.is_empty() {
                let told = String::from_utf8_lossy(&output.stderr).into_owned();
                wrong.push(format!("{}:{}: {told}", document.path.display(), block.line));
            }
            shown += 1;
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
    assert!(shown > 0, "no document shows a configuration");
}

#[test]
fn anchors_are_those_of_github() {
    let document = Document::parse(
        "# What's `new`, today?\n\n## A – B\n\n## Same\n\n### Same\n\nCafé\n---\n\n## snake_case & kebab-case\n",
    );
    let anchors: Vec<&str> = document.anchors.iter().map(String::as_str).collect();
    assert_eq!(anchors, ["a--b", "café", "same", "same-1", "snake_case--kebab-case", "whats-new-today"]);
}

/// What a link leads to, seen from the top of the repository, and the anchor in it. None for what is elsewhere.
fn target<'a>(document: &Document, link: &'a str) -> Option<(PathBuf, Option<&'a str>)> {
    if ["http://", "https://", "mailto:"].iter().any(|scheme| link.starts_with(scheme)) {
        return None;
    }
    let (path, anchor) = match link.split_once('#') {
        Some((path, anchor)) => (path, Some(anchor)),
        None => (link, None),
    };
    if path.is_empty() {
        return Some((document.path.clone(), anchor));
    }
    let from = document.path.parent().unwrap_or(Path::new(""));
    let mut whole = PathBuf::new();
    for part in from.join(path).components() {
        match part {
            Component::ParentDir if whole.file_name().is_some() => drop(whole.pop()),
            Component::CurDir => {}
            part => whole.push(part),
        }
    }
    Some((whole, anchor))
}

fn check(block: &Block) -> Result<(), String> {
    match block.language.as_str() {
        "toml" => toml::de::DeTable::parse(&block.text).map(drop).map_err(|error| error.to_string()),
        "json" => serde_json::from_str::<serde_json::Value>(&block.text)
            .map(drop)
            .map_err(|error| error.to_string()),
        "sh" | "bash" => bash(&block.text),
        // Blocks of `console` are run, and those of `rust` are tests of their own, in the README at least.
        "console" | "rust" | "text" | "yaml" | "markdown" | "" => Ok(()),
        other => Err(format!("nothing is known of blocks of `{other}`")),
    }
}

/// Whether a block is a prowess.toml, as every block of TOML is that is no part of a Cargo.toml.
fn is_configuration(block: &Block) -> bool {
    let is_manifest = |text: &str| {
        let table = toml::de::DeTable::parse(text);
        table.is_ok_and(|table| table.get_ref().keys().any(|key| key.get_ref() == "dependencies"))
    };
    block.language == "toml" && !is_manifest(&block.text)
}

/// Whether bash understands a script.
pub(crate) fn bash(script: &str) -> Result<(), String> {
    let mut bash = Command::new("bash")
        .arg("-n")
        .stdin(Stdio::piped())
        .stdout(Stdio::null())
        .stderr(Stdio::piped())
        .spawn()
        .map_err(|error| format!("bash cannot be started: {error}"))?;
    bash.stdin.take().unwrap().write_all(script.as_bytes()).unwrap();
    let output = bash.wait_with_output().unwrap();
    if output.status.success() { Ok(()) } else { Err(String::from_utf8_lossy(&output.stderr).into_owned()) }
}
