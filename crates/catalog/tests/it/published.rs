//! Skills that servers publish, in a catalog with others.

use std::sync::Arc;

use prowess_catalog::published::{Offer, Published, PublishedFile, scan_published};
use prowess_catalog::{Catalog, Code, Digest, OverviewOptions, Root, RootScan, ScanOptions};

fn offer(server: &str, uri: &str, frontmatter: &str, files: &[(&str, &str)]) -> Offer {
    let base = uri.trim_end_matches("SKILL.md");
    let file = |(path, text): &(&str, &str)| PublishedFile {
        path: (*path).to_owned(),
        uri: format!("{base}{path}"),
        digest: Digest::of(text.as_bytes()),
        size: text.len() as u64,
    };
    let files = files.iter().map(file).collect();
    let published = Published { server: server.to_owned(), uri: uri.to_owned(), files };
    Offer { frontmatter: frontmatter.to_owned(), published, is_granted: false }
}

fn pdf(server: &str, path: &str) -> Offer {
    let frontmatter = r#"{"name":"pdf","description":"Reads PDFs."}"#;
    offer(server, &format!("skill://{path}/SKILL.md"), frontmatter, &[("SKILL.md", "x")])
}

fn scan(server: &str, offers: Vec<Offer>, previous: Option<&RootScan>) -> RootScan {
    scan_published(&Arc::new(Root::server(server)), offers, previous)
}

fn names(catalog: &Catalog) -> Vec<&str> {
    catalog.entries().iter().map(|entry| entry.skill.name.as_str()).collect()
}

#[test]
fn equal_names_of_different_origins_stand_side_by_side() {
    let place = tempfile::tempdir().unwrap();
    for (directory, name) in [("pdf", "pdf"), ("odd", "docs:pdf")] {
        std::fs::create_dir(place.path().join(directory)).unwrap();
        let document = format!("---\nname: \"{name}\"\ndescription: Mine.\n---\nLocal.\n");
        std::fs::write(place.path().join(directory).join("SKILL.md"), document).unwrap();
    }
    let local =
        prowess_catalog::scan_local(&Arc::new(Root::explicit(place.path())), &ScanOptions::default(), None);
    let docs = scan("docs", vec![pdf("docs", "pdf"), pdf("docs", "team/pdf")], None);
    let wiki = scan("wiki", vec![pdf("wiki", "pdf")], None);
    // Servers last, where a local root would take precedence.
    let catalog = Catalog::empty().assembled([local, docs, wiki]);
    assert_eq!(names(&catalog), ["docs:pdf", "docs:team/pdf", "pdf", "wiki:pdf"]);
    let servers = catalog.get("docs:pdf").unwrap();
    assert!(servers.published().is_some(), "nobody takes a server's name");
    assert!(catalog.shadowed().is_empty());
    let told = catalog.diagnostics().find(|found| found.code == Code::Shadowed).unwrap();
    assert!(told.message.contains("names that begin with `docs:` belong to an MCP server"), "{told}");
}

#[test]
fn a_model_reads_whose_words_they_are() {
    let catalog = Catalog::empty().assembled([scan("docs", vec![pdf("docs", "pdf")], None)]);
    let overview = catalog.view_all().overview(&OverviewOptions::default()).text;
    insta::assert_snapshot!(overview, @r#"
    - **docs:pdf**: Reads PDFs. (From: MCP server docs)
      -> Use `load_skill("docs:pdf")` to read full instructions
    "#);
    assert_eq!(catalog.get("docs:pdf").unwrap().skill.location.as_str(), "docs:skill://pdf/SKILL.md");
    let view = catalog.view_all();
    assert!(view.overview_xml().text.contains("<origin>\nMCP server docs\n</origin>"));
    assert_eq!(view.overview_compact().text, "- docs:pdf: Reads PDFs. (From: MCP server docs)");
}

#[test]
fn fields_that_widen_are_there_when_they_were_granted() {
    let frontmatter = r#"{"name":"kit","description":"d","allowed-tools":"Bash Read","model":"big","effort":"max",
        "context":"fork","agent":"root","shell":"bash","hooks":{"PreToolUse":[]},"argument-hint":"FILE","when_to_use":"Always."}"#;
    let frontmatter = frontmatter.replace('\n', " ");
    let document =
        "---\nname: kit\ndescription: d\nallowed-tools: Bash Read\nmodel: big\nhooks: {}\n---\nRun it.\n";
    for is_granted in [false, true] {
        let offer = Offer {
            is_granted,
            ..offer("docs", "skill://kit/SKILL.md", &frontmatter, &[("SKILL.md", document)])
        };
        let catalog = Catalog::empty().assembled([scan("docs", vec![offer], None)]);
        let entry = catalog.get("docs:kit").unwrap();
        let text = entry.text_from(document.as_bytes().to_vec()).unwrap();
        assert_eq!(text.skill.name.as_str(), "docs:kit");
        for skill in [&*entry.skill, &text.skill] {
            assert_eq!(skill.allowed_tools.len(), if is_granted { 2 } else { 0 });
            assert_eq!(skill.extensions.model.is_some(), is_granted);
            assert!(skill.extensions.hooks.is_none() && skill.extensions.when_to_use.is_none());
        }
        assert_eq!(entry.skill.extensions.shell.is_some(), is_granted);
        assert!(entry.skill.extensions.agent.is_none());
        assert_eq!(entry.skill.extensions.context, prowess_catalog::skill::SkillContext::Inline);
        assert_eq!(entry.skill.extensions.argument_hint.as_deref(), Some("FILE"));
    }
}

#[test]
fn what_did_not_change_is_the_very_same_entry() {
    let first = scan("docs", vec![pdf("docs", "a/pdf"), pdf("docs", "b/pdf")], None);
    let catalog = Catalog::empty().assembled([first]);
    let root = Root::server("docs");
    let again = scan("docs", vec![pdf("docs", "a/pdf"), pdf("docs", "b/pdf")], catalog.scan_of(&root));
    assert!(catalog.assembled([again]).is_same(&catalog));
    let mut other = pdf("docs", "b/pdf");
    other.published.files[0].digest = Digest::of(b"y");
    let newer = scan("docs", vec![pdf("docs", "a/pdf"), other], catalog.scan_of(&root));
    let newer = catalog.assembled([newer]);
    assert_eq!(catalog.diff(&newer).changed, ["docs:b/pdf"]);
    // A look at the local disk leaves servers as they are.
    assert!(newer.refreshed(&[root], &ScanOptions::default()).is_same(&newer));
}

#[test]
fn files_are_those_that_the_server_lists() {
    let files = [
        ("SKILL.md", "x"),
        ("notes.md", "Notes."),
        ("scripts/a.py", "1"),
        ("scripts/deep/b.py", "2"),
        ("references/r.txt", "r"),
        ("inner/SKILL.md", "y"),
        ("inner/secret.md", "z"),
    ];
    let frontmatter = r#"{"name":"kit","description":"d"}"#;
    let offers = vec![offer("docs", "skill://kit/SKILL.md", frontmatter, &files)];
    let catalog = Catalog::empty().assembled([scan("docs", offers, None)]);
    let entry = catalog.get("docs:kit").unwrap();
    let documents: Vec<_> = entry.documents().files.into_iter().map(|found| found.path).collect();
    assert_eq!(documents, ["notes.md", "references/r.txt"], "those of a skill inside are not its own");
    let resources: Vec<_> = entry.resources(1).files.into_iter().map(|found| found.path).collect();
    assert_eq!(resources, ["notes.md", "references/r.txt", "scripts/a.py"]);
    let text = entry.document_from("notes.md", b"Notes.".to_vec(), 6).unwrap();
    assert_eq!(text.text, "Notes.");
    for path in ["other.md", "../notes.md", "/notes.md", "skill://kit/notes.md"] {
        assert!(entry.document_from(path, b"Notes.".to_vec(), 6).is_err(), "{path}");
    }
    assert!(
        entry.read_text().is_err() && entry.read_document("notes.md").is_err(),
        "nothing is on this disk"
    );
}

#[test]
fn offers_that_make_no_skill_say_why() {
    let good = r#"{"name":"pdf","description":"Reads PDFs."}"#;
    let odd = [
        offer("docs", "skill://p df/SKILL.md", good, &[]),
        offer("docs", "skill://p\u{e9}/SKILL.md", good, &[]),
        offer("docs", &format!("skill://{}/SKILL.md", "p".repeat(300)), good, &[]),
        offer("docs", "skill://a/SKILL.md", "{\"name\":\"a\",\n---\nfree: text", &[]),
        offer("docs", "skill://b/SKILL.md", r#"{"name":"b"}"#, &[]),
        offer("docs", "skill://c/SKILL.md", "[1, 2]", &[]),
        offer(
            "docs",
            "skill://d/SKILL.md",
            &format!(r#"{{"name":"d","description":"{}"}}"#, "x".repeat(1025)),
            &[],
        ),
    ];
    let count = odd.len();
    let catalog = Catalog::empty().assembled([scan("docs", odd.into(), None)]);
    assert_eq!(names(&catalog), [""; 0]);
    assert!(catalog.diagnostics().count() >= count);
}
