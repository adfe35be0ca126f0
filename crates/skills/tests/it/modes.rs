//! Modes and kits: what the model of a session sees, finds and loads, and what a person can still start.

use std::sync::{Arc, Mutex};

use prowess_catalog::SkillEntry;
use prowess_catalog::overview::SkillMode;
use prowess_permission::Pattern;
use prowess_skills::modes::{Kit, SkillModes};
use prowess_skills::options::Prompt;
use prowess_skills::uses::{SkillUses, UsedSkill};
use prowess_skills::{Dialect, SessionOptions, SkillSession};
use serde_json::json;

use crate::library::Library;

fn pattern(text: &str) -> Pattern {
    Pattern::parse(text).unwrap()
}

fn modes(all: &[(&str, SkillMode)]) -> SkillModes {
    all.iter().fold(SkillModes::default(), |modes, (name, mode)| modes.set(pattern(name), *mode))
}

fn harbour() -> Library {
    let add = |library: Library, name| library.skill(name, "", &format!("The {name} text."));
    ["anchor", "buoy", "chart", "dock"].into_iter().fold(Library::new(), add)
}

fn searching(dialect: Dialect, modes: SkillModes) -> SessionOptions {
    let mut options = SessionOptions::new(dialect);
    options.capabilities.search = true;
    options.modes = modes;
    options
}

async fn session(library: &Library, options: SessionOptions) -> SkillSession {
    SkillSession::builder(library.catalog()).options(options).build().await
}

#[tokio::test]
async fn the_model_neither_sees_nor_finds_nor_loads_what_is_manual_or_off() {
    let library = harbour();
    let hidden = modes(&[("anchor", SkillMode::Manual), ("buoy", SkillMode::Off)]);
    for dialect in [Dialect::DeepAgents, Dialect::Trpc, Dialect::OpenCode] {
        let session = session(&library, searching(dialect, hidden.clone())).await;
        let mut told = session.prompt().text;
        session.tools().iter().for_each(|tool| told.push_str(&json!(tool).to_string()));
        told.push_str(&session.view().search("anchor buoy chart", None).text);
        assert!(told.contains("chart") && told.contains("dock"), "{told}");
        assert!(!told.contains("after anchor") && !told.contains("after buoy"), "{told}");
        assert!(!told.contains("**anchor**") && !told.contains("**buoy**"), "{told}");
        assert!(!told.contains("<name>\nanchor") && !told.contains("<name>\nbuoy"), "{told}");
        for name in ["anchor", "buoy"] {
            let error = session.load(name, None).await.unwrap_err().to_string();
            assert!(error.contains("not found") || error.contains("unknown"), "{error}");
            assert!(error.contains("chart") && !error.contains("anchor, "), "{error}");
        }
        // A person starts a manual skill; one that is off is not there.
        session.invoke("/anchor").await.unwrap();
        assert!(session.state().get("anchor").is_some());
        session.invoke("/buoy").await.unwrap_err();
        let menu: Vec<String> = session.view().commands().into_iter().map(|command| command.name).collect();
        assert_eq!(menu, ["anchor", "chart", "dock"]);
    }
}

#[tokio::test]
async fn a_skill_by_name_is_found_and_loaded() {
    let library = harbour();
    let session = session(&library, searching(Dialect::DeepAgents, modes(&[("*", SkillMode::Name)]))).await;
    let prompt = session.prompt().text;
    assert!(prompt.contains("By name only (4): anchor, buoy, chart, dock. Use `search_skills`"), "{prompt}");
    assert!(!prompt.contains("Looks after"), "{prompt}");
    assert!(session.view().search("buoy", None).text.contains("- **buoy**: Looks after buoy."));
    session.load("buoy", None).await.unwrap();
}

#[tokio::test]
async fn a_kit_leaves_its_skills_and_pinned_ones() {
    let kit = Kit::new(vec![pattern("ch*"), pattern("nothing")]);
    let options =
        searching(Dialect::DeepAgents, modes(&[("dock", SkillMode::Pinned)]).only(vec![kit.clone()]));
    let session = session(&harbour(), options).await;
    let names: Vec<String> = session.engine().catalog_view().names().map(str::to_owned).collect();
    assert_eq!(names, ["chart", "dock"]);
    assert!(session.view().search("anchor", None).text.starts_with("None of the 2 skills"));
    session.load("anchor", None).await.unwrap_err();
    session.invoke("/anchor").await.unwrap_err();
}

#[test]
fn other_modes_can_only_narrow() {
    let all = SkillMode::ALL;
    for own in all {
        for other in all {
            let modes = modes(&[("a*", own)]).narrowed_by(modes(&[("*", other)]));
            assert_eq!(modes.of("anchor"), own.min(other));
            assert_eq!(modes.of("buoy"), other.min(SkillMode::Auto), "it has no mode of its own");
        }
    }
    // Kits, too: a skill must be in both.
    let (own, other) =
        (Kit::new(vec![pattern("a*"), pattern("b*")]), Kit::new(vec![pattern("b*"), pattern("c*")]));
    let modes = SkillModes::default().only(vec![own]).narrowed_by(SkillModes::default().only(vec![other]));
    let seen = ["anchor", "buoy", "chart"].map(|name| modes.of(name));
    assert_eq!(seen, [SkillMode::Off, SkillMode::Auto, SkillMode::Off]);
    // A kit without skills leaves nothing.
    assert_eq!(SkillModes::default().only(vec![]).of("anchor"), SkillMode::Off);
}

#[test]
fn the_most_exact_pattern_decides() {
    let modes = modes(&[
        ("docs-*", SkillMode::Name),
        ("*", SkillMode::Full),
        ("docs-a*", SkillMode::Off),
        ("docs-api", SkillMode::Pinned),
        ("x?z", SkillMode::Off),
        ("xy?", SkillMode::Pinned),
    ]);
    assert_eq!(modes.of("docs-guide"), SkillMode::Name);
    assert_eq!(modes.of("docs-all"), SkillMode::Off);
    assert_eq!(modes.of("docs-api"), SkillMode::Pinned);
    assert_eq!(modes.of("pdf"), SkillMode::Full);
    assert_eq!(modes.of("xyz"), SkillMode::Off, "of two equally long patterns, the less visible mode counts");
}

#[derive(Debug, Default)]
struct Uses(Mutex<Vec<UsedSkill>>);

impl SkillUses for Uses {
    fn note(&self, entry: &SkillEntry) {
        self.0.lock().unwrap().insert(0, UsedSkill::of(entry));
    }

    fn recent(&self) -> Vec<UsedSkill> {
        self.0.lock().unwrap().clone()
    }
}

fn order(text: &str) -> Vec<&str> {
    text.lines().filter_map(|line| line.strip_prefix("- **")?.split("**").next()).collect()
}

#[tokio::test]
async fn the_order_follows_recent_use_and_stays_until_the_prompt_is_frozen_again() {
    let (library, uses) = (harbour(), Arc::new(Uses::default()));
    let mut options = searching(Dialect::DeepAgents, SkillModes::default());
    options.uses = Some(uses.clone());
    options.prompt = Prompt::Frozen;
    let session = session(&library, options.clone()).await;
    let before = session.view().freeze();
    session.load("dock", None).await.unwrap();
    session.load("chart", None).await.unwrap();
    assert_eq!(order(&session.view().overview().text), ["anchor", "buoy", "chart", "dock"]);
    assert!(session.view().may_use(&before), "the order does not make a prompt useless");
    let after = session.view().freeze();
    assert_eq!(order(&session.view().overview().text), ["chart", "dock", "anchor", "buoy"]);
    assert_ne!(before.text, after.text);

    // Modes and kits do.
    for modes in [
        modes(&[("anchor", SkillMode::Name)]),
        SkillModes::default().only(vec![Kit::new(vec![pattern("*")])]),
    ] {
        let mut other = options.clone();
        other.modes = modes;
        let other = SkillSession::builder(library.catalog()).options(other).build().await;
        assert!(!other.view().may_use(&after));
    }
}

#[tokio::test]
async fn a_skill_of_the_same_name_in_another_root_does_not_count_as_used() {
    let (library, uses) = (harbour(), Arc::new(Uses::default()));
    uses.0.lock().unwrap().push(UsedSkill { name: "dock".to_owned(), root: "/elsewhere".to_owned() });
    let mut options = searching(Dialect::DeepAgents, SkillModes::default());
    options.uses = Some(uses);
    let session = session(&library, options).await;
    assert_eq!(order(&session.view().overview().text), ["anchor", "buoy", "chart", "dock"]);
}
