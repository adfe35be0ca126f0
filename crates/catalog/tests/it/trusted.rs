//! Entries of untrusted roots that are trusted one by one, and links between a project's roots.

use std::sync::Arc;

use prowess_catalog::scan::Links;
use prowess_catalog::trusted::TrustedEntries;
use prowess_catalog::{Catalog, Environment, Root, RootKind, RootLayout, ScanOptions, SkillEntry, Trust};

use crate::tree::{Tree, options};

fn names(entries: &[Arc<SkillEntry>]) -> Vec<&str> {
    entries.iter().map(|entry| entry.skill.name.as_str()).collect()
}

fn trusting(tree: &Tree, root: &str, entries: &[&str]) -> TrustedEntries {
    let mut trusted = TrustedEntries::default();
    entries.iter().for_each(|entry| trusted.insert(tree.join(root), *entry));
    trusted
}

#[test]
fn each_entry_is_trusted_by_its_exact_name() {
    let tree = Tree::new()
        .skill("project/deploy")
        .named("project/Deploy", "deploy")
        .named("project/a", "deploy")
        .skill("project/shelf/inner")
        .skill("project/new");
    let roots = [tree.root_at("project", RootKind::Project).untrusted()];
    let trusted = trusting(&tree, "project", &["deploy", "shelf"]);
    let catalog = Catalog::empty().refreshed_trusting(&roots, &ScanOptions::default(), trusted);
    assert_eq!(names(catalog.entries()), ["deploy", "inner"]);
    assert_eq!(catalog.get("deploy").unwrap().skill.location.directory_name(), Some("deploy"));
    assert!(catalog.shadowed().is_empty());
    let untrusted: Vec<_> =
        catalog.untrusted().iter().map(|entry| entry.skill.location.directory_name().unwrap()).collect();
    assert_eq!(untrusted, ["Deploy", "a", "new"]);
    assert!(catalog.entries().iter().all(|entry| entry.trust == Trust::Trusted));
    assert!(catalog.untrusted().iter().all(|entry| entry.trust == Trust::Untrusted));
    // A model may know the root of what it sees.
    assert!(catalog.view_all().locations().contains("/project`"));
}

#[test]
fn what_stays_trusted_stays_the_same_entry() {
    let tree = Tree::new().skill("project/deploy").skill("project/new");
    let roots = [tree.root_at("project", RootKind::Project).untrusted()];
    let options = ScanOptions::default();
    let first =
        Catalog::empty().refreshed_trusting(&roots, &options, trusting(&tree, "project", &["deploy"]));
    let second = first.refreshed_trusting(&roots, &options, trusting(&tree, "project", &["deploy", "new"]));
    assert!(Arc::ptr_eq(first.get("deploy").unwrap(), second.get("deploy").unwrap()));
    let diff = first.diff(&second);
    assert_eq!((diff.added.len(), diff.changed.len(), diff.removed.len()), (1, 0, 0));
    assert!(second.is_same(&second.refreshed(&roots, &options)), "names stay trusted");
    let none = second.refreshed_trusting(&roots, &options, TrustedEntries::default());
    assert_eq!((none.entries().len(), none.untrusted().len()), (0, 2));
}

fn project(tree: &Tree) -> Vec<Root> {
    let mut environment = Environment::default();
    environment.working_directory = tree.path().into();
    let mut layout = RootLayout::default();
    layout.project_trust = Trust::Trusted;
    layout.resolve(&environment)
}

#[test]
fn a_link_into_another_root_of_the_project_is_found_in_its_own_place() {
    let tree = Tree::new()
        .directory(".git")
        .skill(".agents/skills/nets")
        .skill("elsewhere/saws")
        .link(".claude/skills/nets", "../../.agents/skills/nets")
        .link(".claude/skills/saws", "../../elsewhere/saws");
    let roots = project(&tree);
    let catalog = Catalog::discover(&roots, &ScanOptions::default());
    assert_eq!(names(catalog.entries()), ["nets"]);
    assert_eq!(
        tree.findings(&catalog),
        ["link-duplicate .claude/skills/nets", "link-outside-root .claude/skills/saws"]
    );
    // Also where links may lead anywhere.
    let catalog = Catalog::discover(&roots, &options(|options| options.links = Links::Anywhere));
    assert_eq!(names(catalog.entries()), ["nets", "saws"]);
    assert_eq!(catalog.get("nets").unwrap().root.label, "Agents");
    assert!(catalog.shadowed().is_empty());
    assert_eq!(tree.findings(&catalog), ["link-duplicate .claude/skills/nets"]);
}

#[test]
fn a_root_that_is_a_link_to_another_counts_once() {
    let tree = Tree::new()
        .directory(".git")
        .skill(".agents/skills/nets")
        .link(".claude", ".agents")
        .link(".prowess/skills", "../.agents/skills")
        .link(".opencode/skill", "../.agents/skills");
    let labels: Vec<String> = project(&tree).into_iter().map(|root| root.label).collect();
    assert_eq!(labels, ["Agents"]);
}
