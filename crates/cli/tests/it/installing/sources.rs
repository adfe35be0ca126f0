//! Every form of a source is added for real: the typed text, what was installed, and what the locks say.

use std::fmt::Write as _;

use insta::assert_snapshot;

use super::archives::{gzip, tar_files, zip};
use super::server::Server;
use super::{Scene, manifest};

/// The URLs that the person's Git configuration leads to the repository of the test.
const REWRITTEN: [&str; 15] = [
    "https://github.com/o/r.git",
    "https://github.com/coinbase/agentic-wallet-skills.git",
    "https://github.com/vercel-labs/agent-skills.git",
    "https://git.corp.example/o/r.git",
    "https://gitlab.com/g/r.git",
    "https://gitlab.com/g/sub/r.git",
    "https://gitlab.example/g/r.git",
    "https://dev.azure.com/org/project/_git/r",
    "https://org.visualstudio.com/project/_git/r",
    "https://example.org/o/r.git",
    "http://example.org/o/r.git",
    "git@example.org:o/r.git",
    "git@github.com:o/r.git",
    "ssh://git@example.org/o/r.git",
    "git://example.org/r.git",
];

struct Table {
    scene: Scene,
    /// Texts of this run, and what stands for them in the table.
    names: Vec<(String, &'static str)>,
    text: String,
    rows: usize,
    github_host: Option<&'static str>,
}

impl Table {
    fn new() -> Self {
        let scene = Scene::new();
        let root = scene.path("").to_string_lossy().trim_end_matches('/').to_owned();
        Self { scene, names: vec![(root, "[WORLD]")], text: String::new(), rows: 0, github_host: None }
    }

    fn title(&mut self, title: &str) {
        writeln!(self.text, "## {title}").unwrap();
    }

    /// Adds a source in a project of its own, and writes what came of it.
    fn row(&mut self, source: &str) {
        self.rows += 1;
        let around = format!("rows/{}", self.rows);
        self.scene.enter(&format!("{around}/project"));
        for place in [format!("{around}/skills/tide"), format!("{around}/project/skills/tide")] {
            self.scene.files(&place, &[("SKILL.md", &manifest("tide", "Here."))]);
        }
        let mut command = self.scene.command(&["add", "--yes", "--", source]);
        if let Some(host) = self.github_host {
            command.env("GH_HOST", host);
        }
        let output = command.output().unwrap();
        let told = if output.status.success() {
            self.locked()
        } else {
            assert!(!self.scene.here(".agents/skills").exists(), "{source}");
            assert!(!self.scene.here("prowess-lock.json").exists(), "{source}");
            let err = String::from_utf8_lossy(&output.stderr);
            err.lines().map(|line| format!("    {line}\n")).collect()
        };
        let mut row = format!("{source}\n{told}");
        for (text, name) in self.names.iter().rev() {
            row = row.replace(text, name);
        }
        self.text += &row;
    }

    /// What the locks say, a line for each source.
    fn locked(&self) -> String {
        let own = self.scene.lock("prowess-lock.json");
        let shared = self.scene.lock("skills-lock.json");
        let mut lines: Vec<(String, Vec<&str>)> = Vec::new();
        for (name, skill) in own["skills"].as_object().unwrap() {
            let file = self.scene.here(".agents/skills").join(name).join("SKILL.md");
            assert!(file.is_file(), "{name} is not installed");
            let text = |value: &serde_json::Value| value.as_str().map(str::to_owned);
            let commit = if skill["commit"].is_string() { "commit" } else { "no commit" };
            let reference = text(&skill["ref"]).map(|name| format!(" ref={name}")).unwrap_or_default();
            let of_skills = &shared["skills"][name];
            let of_skills = text(&of_skills["source"]).unwrap_or_else(|| "not locked".to_owned());
            let kind = text(&skill["sourceType"]).unwrap();
            let line = format!(
                "{commit}, {kind} {}{reference}, skills-lock.json: {of_skills}",
                text(&skill["source"]).unwrap()
            );
            match lines.iter_mut().find(|(known, _)| *known == line) {
                Some((_, names)) => names.push(name),
                None => lines.push((line, vec![name])),
            }
        }
        self.scene.succeed(&["verify"]);
        lines.iter().map(|(line, names)| format!("    {}: {line}\n", names.join(", "))).collect()
    }
}

#[test]
fn every_form_of_a_source_is_installed_or_refused() {
    let mut table = Table::new();
    let (tide, wave) = (manifest("tide", "High at noon."), manifest("wave", "Two metres."));
    let files = [("skills/tide/SKILL.md", tide.as_str()), ("skills/wave/SKILL.md", wave.as_str())];
    let repository = table.scene.repository("r", &files);
    repository.git(&["tag", "v1"]);
    repository.git(&["branch", "feature/x"]);
    let first = repository.commit(&[("README.md", "Skills.")]);
    let lines: String = REWRITTEN.iter().map(|from| format!("\tinsteadOf = {from}\n")).collect();
    let config = format!("[url \"{}\"]\n{lines}", repository.url());
    std::fs::write(table.scene.path("gitconfig"), config).unwrap();
    table.names.push((first.clone(), "[COMMIT]"));

    let zipped = zip(&[("tide/SKILL.md", tide.as_bytes()), ("tide/scripts/run.sh", b"echo high\n")]);
    let tarred = tar_files(&[("SKILL.md", &tide), ("notes.md", "Spring tides.\n")]);
    let archives = [
        ("tide.skill", zipped.clone()),
        ("tide.zip", zipped),
        ("tide.tar", tarred.clone()),
        ("tide.tar.gz", gzip(&tarred)),
        ("tide.tgz", gzip(&tarred)),
    ];
    table.scene.files("local", &files);
    for (name, bytes) in &archives {
        std::fs::write(table.scene.path("local").join(name), bytes).unwrap();
    }

    table.title("1 local");
    let local = table.scene.path("local").to_string_lossy().into_owned();
    table.row(&local);
    table.row(&format!("{local}/skills/wave"));
    for source in [".", "..", "./skills", "./skills/tide", "../skills", "../../../local"] {
        table.row(source);
    }
    for (name, _) in &archives {
        table.row(&format!("{local}/{name}"));
    }
    table.row("../../../local/tide.skill");

    table.title("2 fragments");
    let url = repository.url();
    for fragment in ["main", "v1", "feature/x", "feature%2Fx@wave", "v1@wave", "@wave", &first] {
        table.row(&format!("{url}#{fragment}"));
    }
    table.row("o/r#v1");
    table.row("github:o/r#v1@tide");

    table.title("3 aliases");
    table.row("coinbase/agentWallet");
    table.row("vercel-labs/vercel-skills");

    table.title("4 prefixes");
    for source in ["github:o/r", "github:o/r/skills/tide", "github:o/r@tide", "gitlab:g/r", "gitlab:g/sub/r"]
    {
        table.row(source);
    }

    table.title("6 GH_HOST=git.corp.example");
    table.github_host = Some("git.corp.example");
    table.row("o/r@tide");
    table.row("https://git.corp.example/o/r/tree/main/skills/wave");
    table.github_host = None;

    table.title("7 GitHub");
    for source in [
        "https://github.com/o/r",
        "https://github.com/o/r.git",
        "https://github.com/o/r/tree/v1",
        "https://github.com/o/r/tree/main/skills/tide",
        "https://github.com/o/r/blob/main/skills/tide/SKILL.md",
        "https://github.com/o/r#feature/x@tide",
    ] {
        table.row(source);
    }

    table.title("8 GitLab");
    for source in [
        "https://gitlab.com/g/r",
        "https://gitlab.com/g/sub/r",
        "https://gitlab.com/g/r/-/tree/v1",
        "https://gitlab.com/g/r/-/tree/main/skills/tide",
        "https://gitlab.example/g/r/-/tree/main/skills",
    ] {
        table.row(source);
    }

    table.title("9 Azure");
    table.row("https://dev.azure.com/org/project/_git/r");
    table.row("https://dev.azure.com/org/project/_git/r?path=/skills/tide&version=GBmain");
    table.row("https://org.visualstudio.com/project/_git/r?version=GTv1");

    table.title("10 shorthand");
    for source in ["o/r@tide", "o/r", "o/r/skills/tide", "o/r@tide#v1"] {
        table.row(source);
    }

    table.title("11 web sites and downloads");
    let site = site_020(&wave, &archives[3].1);
    let old = site_010(&tide);
    table.names.push((old.url.clone(), "http://[OLD-SITE]"));
    table.names.push((site.url.clone(), "http://[SITE]"));
    for (name, bytes) in &archives {
        site.page(&format!("/files/{name}"), bytes.clone());
    }
    site.page("/files/tide/SKILL.md", tide.as_bytes()).page("/files/page", "<html>no skill</html>");
    table.row(&site.url);
    table.row(&format!("{}/", old.url));
    table.row(&format!("{}/files/tide/SKILL.md", site.url));
    for (name, _) in &archives {
        table.row(&format!("{}/files/{name}", site.url));
    }
    table.row(&format!("{}/files/page", site.url));

    table.title("12 Git URLs");
    table.row(&url);
    for source in [
        "https://example.org/o/r.git",
        "http://example.org/o/r.git#v1",
        "git@example.org:o/r.git",
        "git@github.com:o/r.git#@tide",
        "ssh://git@example.org/o/r.git#v1@wave",
        "git://example.org/r.git",
    ] {
        table.row(source);
    }

    table.title("13 refused");
    for source in [
        "",
        "npm:left-pad",
        "ext::sh -c 'touch marker'",
        "fd::17",
        "https://www.notion.so/Skill-0123456789abcdef0123456789abcdef",
        "--upload-pack=touch",
        "-c",
        "ftp://example.org/r.git",
        "o/r/../../etc",
        "o/r/skills/../..",
        "https://github.com/o/r/tree/main/%2e%2e%2fx",
        "https://github.com/o",
        "skills",
        "./gone",
        "o/r@gone",
        "o/r/gone",
        "o/r#gone",
        "file:///nowhere/r.git",
    ] {
        table.row(source);
    }
    assert_snapshot!(table.text);
}

#[test]
fn a_skill_that_another_one_shadows_is_installed_with_a_warning() {
    let scene = Scene::new();
    scene.files("local/tide", &[("SKILL.md", &manifest("tide", "High at noon."))]);
    scene.files("local/reef", &[("SKILL.md", &manifest("reef", "Red."))]);
    scene.files("home/.prowess/skills/tide", &[("SKILL.md", &manifest("tide", "Low at noon."))]);
    let add = |name: &str, more: &[&str]| {
        scene.succeed(&[&["add", "../local", "--global", "--yes", "--skill", name], more].concat())
    };
    let warning = "warning: the installed `tide` is shadowed by [WORLD]/home/.prowess/skills/tide/SKILL.md, so nobody sees it here\n";
    for _ in ["new", "installed already"] {
        let told = add("tide", &[]);
        assert!(told.contains(warning) && told.contains("installed"), "{told}");
    }
    // A link of another agent leads to the same skill.
    let told = add("reef", &["--agent", "claude-code"]);
    assert!(!told.contains("shadowed"), "{told}");
}

#[test]
fn skills_of_a_person_are_added_updated_and_removed() {
    let scene = Scene::new();
    let repository = scene.repository("r", &[("skills/tide/SKILL.md", &manifest("tide", "High at noon."))]);
    let config = format!("[url \"{}\"]\n\tinsteadOf = https://github.com/o/r.git\n", repository.url());
    std::fs::write(scene.path("gitconfig"), config).unwrap();
    scene.succeed(&["add", "o/r", "--global", "--yes", "--agent", "claude-code"]);
    let read = |path: &str| std::fs::read_to_string(scene.path("home").join(path)).unwrap();
    let lock = || -> serde_json::Value { serde_json::from_str(&read(".agents/.skill-lock.json")).unwrap() };
    let first = lock()["skills"]["tide"].clone();
    assert_eq!(first["skillFolderHash"], repository.git(&["rev-parse", "HEAD:skills/tide"]));
    assert_eq!((&first["source"], &first["sourceType"]), (&"o/r".into(), &"github".into()));
    assert_eq!(read(".claude/skills/tide/SKILL.md"), manifest("tide", "High at noon."));
    scene.succeed(&["verify", "--global"]);
    assert_eq!(scene.state().keys().collect::<Vec<_>>(), [".git/"], "the project is as it was");
    repository.commit(&[("skills/tide/SKILL.md", &manifest("tide", "Low at noon."))]);
    scene.fail(&["outdated", "--global"], "tide");
    scene.succeed(&["update", "--global", "--yes"]);
    assert_eq!(read(".claude/skills/tide/SKILL.md"), manifest("tide", "Low at noon."));
    let second = lock()["skills"]["tide"].clone();
    assert_eq!(second["installedAt"], first["installedAt"]);
    assert_eq!(second["skillFolderHash"], repository.git(&["rev-parse", "HEAD:skills/tide"]));
    scene.succeed(&["outdated", "--global"]);
    scene.succeed(&["remove", "tide", "--global", "--yes"]);
    assert_eq!(lock()["skills"], serde_json::json!({}));
    assert!(!scene.path("home/.agents/skills/tide").exists());
    assert!(scene.path("home/.claude/skills/tide").symlink_metadata().is_err());
}

#[test]
fn skills_of_a_web_site_are_updated() {
    let scene = Scene::new();
    let site = Server::start();
    let publish = |text: &str| {
        let digest = prowess_catalog::Digest::of(text.as_bytes()).to_string();
        let index = serde_json::json!({
            "$schema": "https://schemas.agentskills.io/discovery/0.2.0/schema.json",
            "skills": [{
                "name": "tide", "type": "skill-md", "description": "Knows tides.", "url": "tide/SKILL.md",
                "digest": digest,
            }],
        });
        site.page("/.well-known/agent-skills/index.json", index.to_string())
            .page("/.well-known/agent-skills/tide/SKILL.md", text);
        digest
    };
    let locked = || scene.lock("skills-lock.json")["skills"]["tide"]["wellKnownDigest"].clone();
    let digest = publish(&manifest("tide", "High at noon."));
    scene.succeed(&["add", &site.url, "--yes"]);
    assert_eq!(locked(), digest);
    scene.succeed(&["outdated"]);
    let digest = publish(&manifest("tide", "Low at noon."));
    scene.fail(&["outdated"], "tide");
    scene.succeed(&["update", "--yes"]);
    assert_eq!(locked(), digest);
    assert_eq!(scene.text(".agents/skills/tide/SKILL.md"), manifest("tide", "Low at noon."));
    scene.succeed(&["verify"]);
    // What the lock pins is no longer published, and comes from the cache.
    publish(&manifest("tide", "EVIL"));
    scene.forget_skills();
    scene.succeed(&["install"]);
    assert_eq!(scene.text(".agents/skills/tide/SKILL.md"), manifest("tide", "Low at noon."));
    scene.forget_skills();
    scene.forget_cache();
    scene.fail(&["install"], "the source has other files now");
    assert!(!scene.here(".agents/skills/tide").exists());
}

/// A site with an index of version 0.2.0: a single file and an archive.
fn site_020(wave: &str, archive: &[u8]) -> Server {
    let site = Server::start();
    let digest = |bytes: &[u8]| prowess_catalog::Digest::of(bytes).to_string();
    let index = serde_json::json!({
        "$schema": "https://schemas.agentskills.io/discovery/0.2.0/schema.json",
        "skills": [
            {
                "name": "wave", "type": "skill-md", "description": "Knows waves.", "url": "wave/SKILL.md",
                "digest": digest(wave.as_bytes()),
            },
            {
                "name": "tide", "type": "archive", "description": "Knows tides.",
                "url": "/.well-known/agent-skills/tide.tar.gz", "digest": digest(archive),
            },
        ],
    });
    site.page("/.well-known/agent-skills/index.json", index.to_string())
        .page("/.well-known/agent-skills/wave/SKILL.md", wave)
        .page("/.well-known/agent-skills/tide.tar.gz", archive);
    site
}

/// A site with an index of version 0.1.0: single files without digests.
fn site_010(tide: &str) -> Server {
    let site = Server::start();
    let index = serde_json::json!({
        "skills": [{ "name": "tide", "description": "Knows tides.", "files": ["SKILL.md", "notes.md"] }],
    });
    site.page("/.well-known/skills/index.json", index.to_string())
        .page("/.well-known/skills/tide/SKILL.md", tide)
        .page("/.well-known/skills/tide/notes.md", "Spring tides.\n");
    site
}

#[test]
fn a_directory_that_is_gone_is_no_private_source() {
    let scene = Scene::new();
    scene.files("upstream/kelp", &[("SKILL.md", manifest("kelp", "Green.").as_str())]);
    scene.succeed(&["add", "../upstream/kelp", "--yes"]);
    std::fs::remove_dir_all(scene.path("upstream")).unwrap();
    for command in [["outdated"].as_slice(), &["update", "--yes"]] {
        let told = scene.fail(command, "upstream/kelp is gone: there is no such file or directory any more");
        assert!(!told.contains("is not public"), "{told}");
    }
}
