//! Where skills are looked for, which of them count, and what is said of the rest.

use std::collections::BTreeMap;
use std::fmt::Debug;
use std::path::PathBuf;
use std::sync::{Arc, Mutex};

use prowess_catalog::scan::Links;
use prowess_catalog::skill::MissingName;
use prowess_catalog::{
    Catalog, Code, Environment, OverviewOptions, Root, RootDirectory, RootKind, RootLayout, ScanOptions,
    Severity, Trust,
};
use tracing::field::{Field, Visit};
use tracing::span::{Attributes, Id, Record};
use tracing::{Event, Metadata, Subscriber};

use crate::tree::{Tree, manifest, names, options};

fn nothing() -> Vec<String> {
    Vec::new()
}

#[test]
fn the_later_root_wins_and_both_places_are_named() {
    let tree = Tree::new().skill("user/deploy").skill("user/notes").skill("project/deploy");
    let roots = [tree.root_at("user", RootKind::User), tree.root_at("project", RootKind::Project)];
    let catalog = Catalog::discover(&roots, &ScanOptions::default());
    assert_eq!(names(&catalog), ["deploy", "notes"]);
    let winner = catalog.get("deploy").unwrap();
    assert_eq!((&*winner.root, winner.root.label.as_str()), (&roots[1], "project"));

    let [shadowed] = catalog.shadowed() else { panic!("{:?}", catalog.shadowed()) };
    assert_eq!(*shadowed.entry.root, roots[0]);
    assert!(Arc::ptr_eq(&shadowed.by, winner));
    let [warning] = &catalog.diagnostics().collect::<Vec<_>>()[..] else { panic!() };
    assert_eq!((warning.code, warning.severity), (Code::Shadowed, Severity::Warning));
    assert_eq!(&*warning.file, tree.join("user/deploy/SKILL.md").to_str().unwrap());
    assert!(warning.message.contains(tree.join("project/deploy/SKILL.md").to_str().unwrap()));

    let [user, project] = roots;
    let turned = Catalog::discover(&[project, user], &ScanOptions::default());
    assert_eq!(turned.get("deploy").unwrap().root.label, "user");
}

#[test]
fn in_one_root_the_first_path_wins() {
    let tree = Tree::new().named("b", "same").named("a", "same").named("c/d", "same");
    let catalog = tree.discover();
    assert_eq!(catalog.get("same").unwrap().skill.location.directory_name(), Some("a"));
    let shadowed: Vec<_> =
        catalog.shadowed().iter().map(|shadowed| shadowed.entry.skill.location.directory_name()).collect();
    assert_eq!(shadowed, [Some("b"), Some("d")]);
}

#[test]
fn untrusted_skills_are_shown_to_people_and_shadow_nothing() {
    let tree = Tree::new().skill("user/deploy").skill("project/deploy").skill("project/extra");
    let roots =
        [tree.root_at("user", RootKind::User), tree.root_at("project", RootKind::Project).untrusted()];
    let catalog = Catalog::discover(&roots, &ScanOptions::default());
    assert_eq!(names(&catalog), ["deploy"]);
    assert_eq!(catalog.get("deploy").unwrap().root.label, "user");
    assert!(catalog.shadowed().is_empty());
    let untrusted: Vec<_> = catalog.untrusted().iter().map(|entry| entry.skill.name.as_str()).collect();
    assert_eq!(untrusted, ["deploy", "extra"]);
    assert_eq!(
        tree.findings(&catalog),
        ["untrusted project/deploy/SKILL.md", "untrusted project/extra/SKILL.md"]
    );
    let view = catalog.view_all();
    let shown = view.overview(&OverviewOptions::default()).text + &view.locations();
    assert!(!shown.contains("extra") && !shown.contains("project"), "{shown}");

    // Nothing but untrusted skills: a model is not sent to their root either.
    let only = Catalog::discover(&roots[1..], &ScanOptions::default());
    let shown = only.view_all().overview(&OverviewOptions::default()).text;
    assert_eq!(shown, "(No skills available yet.)");
}

#[test]
fn discovery_stops_inside_a_skill_unless_told_otherwise() {
    let tree = Tree::new().skill("outer").skill("outer/inner").skill("group/one");
    assert_eq!(names(&tree.discover()), ["one", "outer"]);
    let nested = tree.discover_with(|options| options.nested = true);
    assert_eq!(names(&nested), ["inner", "one", "outer"]);
    assert_eq!(tree.findings(&nested), nothing());
}

#[test]
fn hidden_and_ignored_directories_are_passed_over_and_named() {
    let tree = Tree::new().skill("seen").skill(".hidden/a").skill("node_modules/b").skill("vendor/c");
    let catalog = tree.discover();
    assert_eq!(names(&catalog), ["c", "seen"]);
    assert_eq!(tree.findings(&catalog), ["hidden-directory .hidden", "ignored-directory node_modules"]);

    let other = tree.discover_with(|options| {
        options.hidden = true;
        options.ignored = vec!["vendor".into()];
    });
    assert_eq!(names(&other), ["a", "b", "seen"]);
    assert_eq!(tree.findings(&other), ["ignored-directory vendor"]);
}

#[test]
fn gitignore_is_honoured_when_asked_for() {
    let tree = Tree::new()
        .directory("repository/.git")
        .file(".gitignore", "skills/far\n")
        .file("repository/.gitignore", "drafts/\n!keep\n/skills/top\n")
        .file("repository/skills/.gitignore", "*.old\nkeep\n!drafts\n")
        .skill("repository/skills/live")
        .skill("repository/skills/drafts")
        .skill("repository/skills/group/drafts2")
        .skill("repository/skills/group/drafts/inner")
        .skill("repository/skills/a.old/inner")
        .skill("repository/skills/keep")
        .skill("repository/skills/top")
        .skill("repository/skills/far");
    let root = tree.root_at("repository/skills", RootKind::Project);
    let discover = |gitignore| {
        Catalog::discover(std::slice::from_ref(&root), &options(|options| options.gitignore = gitignore))
    };
    let catalog = discover(true);
    // The nearest file that speaks of a path decides; what stands above the repository says nothing.
    assert_eq!(names(&catalog), ["drafts", "drafts2", "far", "inner", "live"]);
    assert_eq!(
        tree.findings(&catalog),
        [
            "gitignored repository/skills/a.old",
            "gitignored repository/skills/keep",
            "gitignored repository/skills/top",
        ]
    );
    assert_eq!(discover(false).entries().len(), 7);
}

#[test]
fn a_repository_that_is_itself_the_root_has_no_rules_from_above() {
    let tree = Tree::new()
        .file(".gitignore", "*\n")
        .directory("repository/.git")
        .skill("repository/live")
        .file("repository/.gitignore", "drafts\n")
        .skill("repository/drafts");
    let root = tree.root_at("repository", RootKind::Explicit);
    let catalog = Catalog::discover(&[root], &options(|options| options.gitignore = true));
    assert_eq!(names(&catalog), ["live"]);
}

#[test]
fn deeper_than_the_cap_nothing_is_found_and_that_is_said() {
    let tree = Tree::new().skill("1/2/3/4/5/six").skill("1/2/3/4/5/6/seven");
    let catalog = tree.discover();
    assert_eq!(names(&catalog), ["six"]);
    assert_eq!(tree.findings(&catalog), ["depth-cap 1/2/3/4/5/6"]);
    assert_eq!(names(&tree.discover_with(|options| options.max_depth = 7)), ["seven", "six"]);
    let shallow = tree.discover_with(|options| options.max_depth = 1);
    assert_eq!(tree.findings(&shallow), ["depth-cap 1"]);
}

#[test]
fn more_skills_than_the_cap_are_left_and_that_is_said() {
    let tree = Tree::new().skill("a").skill("b").skill("c").skill("group/d");
    let catalog = tree.discover_with(|options| options.max_skills = 2);
    assert_eq!(names(&catalog), ["a", "b"]);
    assert_eq!(tree.findings(&catalog), ["skill-cap "]);
    let enough = tree.discover_with(|options| options.max_skills = 4);
    assert_eq!((enough.entries().len(), tree.findings(&enough)), (4, nothing()));
}

#[test]
fn a_root_that_is_a_skill_works_when_named_and_says_why_not_otherwise() {
    let tree = Tree::new().skill("lone").skill("lone/inner");
    let named = Catalog::discover(&[tree.root_at("lone", RootKind::Explicit)], &ScanOptions::default());
    assert_eq!(names(&named), ["lone"]);
    assert_eq!(tree.findings(&named), nothing());
    let with_slash = Catalog::discover(&[Root::explicit(tree.join("lone/"))], &ScanOptions::default());
    assert_eq!(names(&with_slash), ["lone"]);
    assert_eq!(with_slash.get("lone").unwrap().skill.location, named.get("lone").unwrap().skill.location);

    let conventional = Catalog::discover(&[tree.root_at("lone", RootKind::User)], &ScanOptions::default());
    assert_eq!(names(&conventional), ["inner"]);
    assert_eq!(tree.findings(&conventional), ["manifest-in-root lone/SKILL.md"]);
}

#[test]
fn only_skill_md_is_a_manifest() {
    let tree = Tree::new()
        .file("lower/skill.md", manifest("lower", "Written in the wrong case."))
        .file("mixed/Skill.md", manifest("mixed", "Written in the wrong case."))
        .file("other/SKILL.markdown", manifest("other", "Has another name altogether."))
        .file("README.md", "Not a skill.")
        .skill("both")
        .file("both/skill.md", "Not this one.");
    let catalog = tree.discover();
    assert_eq!(names(&catalog), ["both"]);
    assert_eq!(tree.findings(&catalog), ["file-name-case lower/skill.md", "file-name-case mixed/Skill.md"]);
}

#[test]
fn links_are_followed_by_the_policy() {
    let outside = Tree::new().skill("far");
    let tree = Tree::new()
        .skill("real/near")
        .link("again", "real/near")
        .link("broken", "nowhere")
        .link("far-away", outside.path())
        .link("to-a-file", "real/near/SKILL.md")
        .link("other/SKILL.md", "../real/near/SKILL.md");
    let look = |links| {
        let catalog = tree.discover_with(|options| options.links = links);
        let entries = catalog.entries().iter().map(|entry| entry.skill.name.to_string());
        (entries.collect::<Vec<_>>().join(" "), tree.findings(&catalog))
    };
    let never = "link-not-followed again; link-not-followed broken; link-not-followed far-away; \
                 link-not-followed to-a-file; not-a-file other/SKILL.md";
    assert_eq!(look(Links::Never), ("near".into(), never.split("; ").map(String::from).collect()));
    let within = "link-broken broken; link-duplicate again; link-outside-root far-away; \
                  name-dir-mismatch other/SKILL.md; shadowed other/SKILL.md";
    assert_eq!(look(Links::WithinRoot), ("near".into(), within.split("; ").map(String::from).collect()));
    let anywhere = "link-broken broken; link-duplicate again; name-dir-mismatch other/SKILL.md; \
                    shadowed other/SKILL.md";
    assert_eq!(look(Links::Anywhere), ("far near".into(), anywhere.split("; ").map(String::from).collect()));
}

#[test]
fn a_source_that_is_not_there_is_told_by_how_it_was_named() {
    let tree = Tree::new().file("plain-file", "x");
    let severity = |kind| {
        let catalog = Catalog::discover(&[tree.root_at("gone", kind)], &ScanOptions::default());
        assert_eq!(tree.findings(&catalog), ["root-missing gone"]);
        assert_eq!(catalog.roots().count(), 0);
        catalog.diagnostics().next().unwrap().severity
    };
    assert_eq!(severity(RootKind::User), Severity::Info);
    assert_eq!(severity(RootKind::Explicit), Severity::Warning);
    let file = Catalog::discover(&[tree.root_at("plain-file", RootKind::Explicit)], &ScanOptions::default());
    assert_eq!(tree.findings(&file), ["unreadable plain-file"]);
}

#[test]
fn a_manifest_without_a_name_takes_its_directory_s_or_is_skipped() {
    let tree = Tree::new().file("tides/SKILL.md", "---\ndescription: Reads tide tables for sailors.\n---\n");
    let catalog = tree.discover();
    assert_eq!(names(&catalog), ["tides"]);
    assert_eq!(tree.findings(&catalog), ["name-missing tides/SKILL.md"]);
    let skipping = tree.discover_with(|options| options.missing_name = MissingName::Skip);
    assert_eq!(names(&skipping), Vec::<&str>::new());
    assert_eq!(skipping.diagnostics().next().unwrap().severity, Severity::Error);
}

#[test]
fn the_answer_is_the_same_for_any_order_and_number_of_threads() {
    let paths: Vec<String> = (0..600).map(|number| format!("g{}/s{number}", number % 7)).collect();
    let build = |paths: &mut dyn Iterator<Item = &String>| {
        paths.fold(Tree::new().named("g0/dup", "s1").named("x/dup", "s1"), |tree, path| tree.skill(path))
    };
    let trees = [build(&mut paths.iter()), build(&mut paths.iter().rev())];
    let look = |tree: &Tree, threads| {
        let catalog = tree.discover_with(|options| options.threads = threads);
        let shadowed: Vec<String> =
            catalog.shadowed().iter().map(|shadowed| shadowed.entry.skill.location.to_string()).collect();
        let shown = names(&catalog).join(" ") + &shadowed.join(" ");
        let order: Vec<String> = catalog.diagnostics().map(ToString::to_string).collect();
        (shown + &order.join("\n")).replace(tree.path().to_str().unwrap(), "")
    };
    let first = look(&trees[0], 1);
    for (tree, threads) in [(&trees[0], 2), (&trees[0], 3), (&trees[1], 1), (&trees[1], 2)] {
        assert_eq!(look(tree, threads), first);
    }
}

#[test]
fn roots_resolve_from_built_in_to_explicit() {
    let tree = Tree::new()
        .directory("home/.agents/skills")
        .directory("home/.tool/skill")
        .directory("home/work/.git")
        .directory("home/work/.claude/skills")
        .directory("home/work/.tool/skills")
        .directory("home/work/part/.tool/skills")
        .directory("home/work/part/deep");
    let mut layout = RootLayout::default();
    layout.built_in = vec!["/usr/share/tool/skills".into()];
    layout.user = vec![RootDirectory::new(".tool", "Mine")];
    layout.project = vec![RootDirectory::new(".tool", "Ours")];
    layout.project_trust = Trust::Trusted;
    let mut environment = Environment::default();
    environment.working_directory = tree.join("home/work/part/deep");
    environment.home = Some(tree.join("home"));
    environment.explicit = vec!["given".into()];
    let resolved: Vec<(PathBuf, RootKind, String)> =
        layout.resolve(&environment).into_iter().map(|root| (root.path, root.kind, root.label)).collect();
    let expected = [
        ("/usr/share/tool/skills".into(), RootKind::BuiltIn, "Built-in"),
        (tree.join("home/.agents/skills"), RootKind::UserCompatibility, "Agents"),
        (tree.join("home/.tool/skill"), RootKind::User, "Mine"),
        (tree.join("home/work/.claude/skills"), RootKind::ProjectCompatibility, "Claude"),
        (tree.join("home/work/.tool/skills"), RootKind::Project, "Ours"),
        (tree.join("home/work/part/.tool/skills"), RootKind::Project, "Ours"),
        (tree.join("home/work/part/deep/given"), RootKind::Explicit, "Explicit"),
    ];
    assert_eq!(resolved, expected.map(|(path, kind, label)| (path, kind, label.to_owned())));
}

/// Keeps the fields of every event.
#[derive(Clone, Default)]
struct Recorder(Arc<Mutex<Vec<BTreeMap<&'static str, String>>>>);

#[derive(Default)]
struct Fields(BTreeMap<&'static str, String>);

impl Visit for Fields {
    fn record_debug(&mut self, field: &Field, value: &dyn Debug) {
        self.0.insert(field.name(), format!("{value:?}"));
    }
}

impl Subscriber for Recorder {
    fn enabled(&self, _: &Metadata<'_>) -> bool {
        true
    }

    fn new_span(&self, _: &Attributes<'_>) -> Id {
        Id::from_u64(1)
    }

    fn record(&self, _: &Id, _: &Record<'_>) {}

    fn record_follows_from(&self, _: &Id, _: &Id) {}

    fn event(&self, event: &Event<'_>) {
        let mut fields = Fields::default();
        event.record(&mut fields);
        fields.0.insert("level", event.metadata().level().to_string());
        self.0.lock().unwrap().push(fields.0);
    }

    fn enter(&self, _: &Id) {}

    fn exit(&self, _: &Id) {}
}

#[test]
fn what_was_discovered_is_logged_with_its_figures() {
    let skill = |tree: Tree, number: usize| tree.skill(&format!("{}/s{number}", ["a", "b"][number % 2]));
    let tree = (0..15).fold(Tree::new().skill("b/s0"), skill);
    let roots = ["a", "b", "gone"].map(|path| tree.root_at(path, RootKind::User));
    let recorder = Recorder::default();
    tracing::subscriber::with_default(recorder.clone(), || {
        Catalog::discover(&roots, &ScanOptions::default())
    });
    let events = recorder.0.lock().unwrap();
    let expected = [
        ("diagnostics", "2"),
        ("level", "INFO"),
        ("message", "Discovered 15 skills from 2 sources"),
        ("shadowed", "1"),
        ("skills", "15"),
        ("sources", "2"),
        ("untrusted", "0"),
    ];
    assert_eq!(*events, [expected.map(|(key, value)| (key, value.to_owned())).into()]);
}
