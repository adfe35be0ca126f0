//! A rule about a path holds for the file, however a model spells it.

use std::os::unix::fs::symlink;

use serde_json::json;

use super::*;

const ALLOW_RUNS: &str = "[permission.run]\n\"tides *\" = \"allow\"\n";
/// What is in the denied file, and nowhere else.
const WORD: &str = "HERON";

/// A home with a site that has a private directory, and links that lead there.
fn site(model: &FakeModel) -> World {
    let world = world(model);
    world
        .file("home/site/private/key.txt", "HERON\n")
        .file("home/site/open/note.txt", "egret\n")
        .file("home/site/.git/HEAD", "");
    symlink("private", world.path("home/site/alias")).unwrap();
    symlink("private/key.txt", world.path("home/site/open/key-link.txt")).unwrap();
    symlink("site", world.path("home/link")).unwrap();
    world
}

/// What `prowess chat` says, in a directory of the world.
fn chat_in(world: &World, directory: &str, args: &[&str]) -> String {
    let args = [&["chat"], args].concat();
    let output = world.command(&args).current_dir(world.path(directory)).output().unwrap();
    stable(world, &world.told(&output))
}

/// A run of a skill that shows all of an input.
fn shows(from: &str) -> serde_json::Value {
    json!({"skill": "tides", "command": "find -L work/inputs -type f | xargs cat", "inputs": [{"from": from}]})
}

/// Every way to the denied file that a model has, in calls at once.
fn every_way(world: &World) -> Answer {
    let host = |path: &str| shows(&format!("host://{}", world.path(path).display()));
    let mut answer = Answer::call("read_file", json!({"file_path": "/private/key.txt"}));
    for path in ["/alias/key.txt", "/open/key-link.txt"] {
        answer = answer.and_call("read_file", json!({"file_path": path}));
    }
    for path in ["/private/key.txt", "/alias/key.txt"] {
        let edit = json!({"file_path": path, "old_string": "HER", "new_string": "HAR"});
        answer = answer.and_call("edit_file", edit);
    }
    for path in ["/private/new.txt", "/alias/new.txt"] {
        answer = answer.and_call("write_file", json!({"file_path": path, "content": "x"}));
    }
    for path in ["/", "/private", "/alias", "/private/key.txt"] {
        answer = answer.and_call("grep", json!({"pattern": "HER.*", "path": path}));
    }
    for path in [
        "home/site/private/key.txt",
        "home/site/alias/key.txt",
        "home/site/open/key-link.txt",
        "home/link/private/key.txt",
        "home/site/private",
        "home/site/alias",
        "home/site",
        "home/link",
    ] {
        answer = answer.and_call("skill_run", host(path));
    }
    for from in ["host:///proc/self/cwd/private/key.txt", "host://proc/self/cwd//alias/./key.txt"] {
        answer = answer.and_call("skill_run", shows(from));
    }
    answer
}

#[test]
fn case_96_a_denied_path_is_denied_in_every_spelling() {
    let unused = FakeModel::start(Vec::new());
    let world = site(&unused);
    let at = |path: &str| world.path(path).to_string_lossy().into_owned();
    let spellings = [
        format!("{}/*", at("home/site/private")),
        at("home/site/private"),
        format!("{}/*", at("home/link/private")),
        format!("{}/*", at("home/site/alias")),
        format!("{}/*", at("home/site/open/../private")),
        "~/site/private/*".to_owned(),
        "~/link/private/*".to_owned(),
        "$HOME/site/private/*".to_owned(),
        "./private/*".to_owned(),
        "private/*".to_owned(),
        "./alias/*".to_owned(),
        "./private".to_owned(),
        "private/".to_owned(),
        "*/private/*".to_owned(),
        "key.txt".to_owned(),
        // As earlier versions read it in file tools.
        "/private/*".to_owned(),
    ];
    for spelling in spellings {
        let model = FakeModel::start(vec![every_way(&world), Answer::text("Done.")]);
        // A name alone says nothing of new files.
        let writes = if spelling == "key.txt" { "private/*" } else { &spelling };
        let rules = format!(
            "{ALLOW_RUNS}[permission.read]\n\"{spelling}\" = \"deny\"\n[permission.write]\n\"{writes}\" = \"deny\"\n"
        );
        configure(&world, &model.url(), &rules);
        let told = chat_in(&world, "home/site", &["--yes", "go"]);
        let answers = all(&model.requests()[1]);
        assert!(!answers.contains(WORD), "{spelling}: {answers}\n{told}");
        for name in ["private/new.txt", "private/key.txt"] {
            let text = std::fs::read_to_string(world.path("home/site").join(name)).unwrap_or_default();
            assert_eq!(text, if name == "private/new.txt" { "" } else { "HERON\n" }, "{spelling}: {name}");
        }
    }
}

#[test]
fn case_96_a_denied_path_is_denied_to_sub_agents_and_in_artifacts() {
    let unused = FakeModel::start(Vec::new());
    let world = site(&unused);
    let is_of_sub_agent =
        |body: &Value| all(body).contains("Look at the key.") && !all(body).contains("go on");
    let saved = json!({
        "skill": "tides", "command": "mkdir -p out; cat work/inputs/* > out/all.txt", "output_files": ["out/*"],
        "save_as_artifacts": true,
        "inputs": [{"from": format!("host://{}", world.path("home/link/private/key.txt").display())}],
    });
    let model = FakeModel::start(vec![
        Answer::call("task", json!({"description": "Look at the key."})).and_call("skill_run", saved),
        every_way(&world).when(is_of_sub_agent),
        Answer::text("I looked.").when(is_of_sub_agent),
        Answer::text("Done."),
    ]);
    let rules = "[permission.read]\n\"~/site/private/*\" = \"deny\"\n[permission.write]\n\"~/site/private/*\" = \"deny\"\n";
    configure(&world, &model.url(), &format!("{ALLOW_RUNS}{rules}"));
    let told = chat_in(&world, "home/site", &["--yes", "go on"]);
    assert_eq!(model.requests().len(), 4, "{told}");
    for request in model.requests() {
        assert!(!all(&request).contains(WORD), "{}", all(&request));
    }
    assert!(!world.path("home/site/private/new.txt").exists());
    // Of all threads and projects.
    assert_eq!(world.json(&["artifacts", "list", "--json"]), json!([]));
}

/// A mount that ignores case shows one file under names in other letters. So do two hard links, which need no mount.
#[test]
fn case_96_another_case_of_a_denied_path_is_denied_where_case_does_not_count() {
    let unused = FakeModel::start(Vec::new());
    let world = site(&unused);
    let denied = world.path("home/site/private/key.txt");
    std::fs::hard_link(&denied, world.path("home/site/private/KEY.TXT")).unwrap();
    let from = format!("host://{}", world.path("home/site/private/KEY.TXT").display());
    let model = FakeModel::start(vec![
        Answer::call("read_file", json!({"file_path": "/private/KEY.TXT"}))
            .and_call("grep", json!({"pattern": "HER.*"}))
            .and_call("skill_run", shows(&from)),
        Answer::text("Done."),
    ]);
    configure(
        &world,
        &model.url(),
        &format!("{ALLOW_RUNS}[permission.read]\n\"~/site/private/key.txt\" = \"deny\"\n"),
    );
    let told = chat_in(&world, "home/site", &["--yes", "go"]);
    let answers = all(&model.requests()[1]);
    assert!(!answers.contains(WORD), "{answers}\n{told}");
}

/// What a rule that allows was for in earlier versions is not allowed by it on the machine, nor by the new reading here.
#[test]
fn old_spellings_are_told_with_the_new_one() {
    let model = FakeModel::start(vec![
        Answer::call("write_file", json!({"file_path": "/open/new.txt", "content": "x"})),
        Answer::text("Done."),
    ]);
    let world = site(&model);
    configure(
        &world,
        &model.url(),
        "[permission.read]\n\"/private/*\" = \"deny\"\n\"/usr/*\" = \"ask\"\n[permission.write]\n\"/open/*\" = \"allow\"\n",
    );
    let told = chat_in(&world, "home/site", &["go"]);
    let notices: Vec<&str> = told.lines().filter(|line| line.starts_with("warning: ")).collect();
    assert_eq!(notices.len(), 2, "{told}");
    for (notice, parts) in notices.iter().zip([
        ["prowess.toml:8:1", "`/private/*` = \"deny\"", "`./private/*`"],
        ["prowess.toml:11:1", "`/open/*` = \"allow\"", "`./open/*`"],
    ]) {
        assert!(parts.iter().all(|part| notice.contains(part)), "{notice}");
    }
    assert!(told.contains("a question is waiting"), "{told}");
    assert!(!world.path("home/site/open/new.txt").exists());
    // The new spelling allows it.
    let again = FakeModel::start(vec![
        Answer::call("write_file", json!({"file_path": "/open/new.txt", "content": "x"})),
        Answer::text("Done."),
    ]);
    configure(&world, &again.url(), "[permission.write]\n\"*\" = \"deny\"\n\"./open/*\" = \"allow\"\n");
    let told = chat_in(&world, "home/site", &["go"]);
    assert!(world.path("home/site/open/new.txt").exists(), "{told}");
    assert!(!told.contains("warning: "), "{told}");
}

#[test]
fn case_98_files_of_denied_and_untrusted_skills_do_not_come_in() {
    let unused = FakeModel::start(Vec::new());
    let world = world(&unused);
    let text = |name: &str| format!("---\nname: {name}\ndescription: Is {name}.\n---\n\nHERON\n");
    world
        .file("home/.prowess/skills/hushed/SKILL.md", &text("hushed"))
        .file("project/.prowess/skills/strange/SKILL.md", &text("strange"))
        .file("project/.prowess/skills/strange/scripts/x.sh", "echo HERON\n")
        .file("dotfiles/skills/linked/SKILL.md", &text("linked"));
    symlink(world.path("dotfiles/skills"), world.path("home/.claude-skills")).unwrap();
    std::fs::create_dir_all(world.path("home/.claude")).unwrap();
    symlink(world.path("dotfiles/skills"), world.path("home/.claude/skills")).unwrap();
    symlink(world.path("project/.prowess/skills/strange"), world.path("project/way")).unwrap();
    symlink(world.path("home/.prowess/skills/hushed/SKILL.md"), world.path("project/hushed.md")).unwrap();
    let rules = format!(
        "{ALLOW_RUNS}[permission.skill]\n\"*\" = \"allow\"\n\"hushed\" = \"deny\"\n\"linked\" = \"deny\"\n"
    );
    for from in [
        "home/.prowess/skills/hushed/SKILL.md",
        "home/.prowess/skills/hushed",
        "home/.prowess/skills",
        "home/.prowess",
        "project/hushed.md",
        "project/.prowess/skills/strange/scripts/x.sh",
        "project/.prowess/skills/strange",
        "project/.prowess",
        "project/way",
        "project/way/SKILL.md",
        "home/.claude/skills/linked/SKILL.md",
        "home/.claude-skills/linked/SKILL.md",
        "dotfiles/skills/linked/SKILL.md",
        "dotfiles",
    ] {
        let host = format!("host://{}", world.path(from).display());
        let model = FakeModel::start(vec![
            Answer::call("skill_run", shows(&host))
                .and_call("skill_run", shows("skill://strange/scripts/x.sh")),
            Answer::text("Done."),
        ]);
        configure(&world, &model.url(), &rules);
        let told = chat_in(&world, "project", &["--yes", "go"]);
        let answers = all(&model.requests()[1]);
        assert!(!answers.contains(WORD), "{from}: {answers}\n{told}");
    }
    // The model does not read them with its own tools either.
    let model = FakeModel::start(vec![
        Answer::call("read_file", json!({"file_path": "/.prowess/skills/strange/SKILL.md"}))
            .and_call("read_file", json!({"file_path": "/way/SKILL.md"}))
            .and_call("grep", json!({"pattern": "HER.*"})),
        Answer::text("Done."),
    ]);
    configure(&world, &model.url(), &rules);
    let told = chat_in(&world, "project", &["--yes", "go"]);
    assert!(!all(&model.requests()[1]).contains(WORD), "{}\n{told}", all(&model.requests()[1]));
}

/// "Always" for a project's file is nothing for the machine's file of the same spelling.
#[test]
fn case_99_always_binds_the_real_path() {
    let unused = FakeModel::start(Vec::new());
    let world = world(&unused);
    world.file("elsewhere/.env", "HERON\n");
    let machine = world.path("elsewhere/.env");
    let inside = format!("project{}", machine.display());
    world.file(&inside, "egret\n");
    let read = || Answer::call("read_file", json!({"file_path": machine}));
    let model = FakeModel::start(vec![read(), read(), Answer::text("Read twice.")]);
    configure(&world, &model.url(), ALLOW_RUNS);
    let mut pty = begun(&world, &[], 200, 40);
    pty.type_line("look");
    pty.wait_for("allow it? [y/a/n]");
    pty.type_line("a");
    pty.wait_for("Read twice.");
    assert!(last(&model.requests()[2]).contains("egret"), "not asked again");
    at_prompt(&pty);
    pty.press("\x04");
    assert_eq!(pty.wait(), Some(0));
    let approvals = std::fs::read_to_string(world.path("home/.local/state/prowess/approvals.json")).unwrap();
    assert!(approvals.contains(&*world.path(&inside).to_string_lossy()), "{approvals}");

    let host = format!("host://{}", machine.display());
    let model = FakeModel::start(vec![Answer::call("skill_run", shows(&host)), Answer::text("Done.")]);
    configure(&world, &model.url(), ALLOW_RUNS);
    let told = chat_in(&world, "project", &["look"]);
    assert!(told.contains("a question is waiting"), "{told}");
    assert!(!model.requests().iter().any(|request| all(request).contains(WORD)), "{told}");
}

/// Approvals of earlier versions name a path from the working directory. They count while that is the only reading.
#[test]
fn case_99_old_approvals_count_for_one_reading_alone() {
    let unused = FakeModel::start(Vec::new());
    let world = world(&unused);
    let machine = world.path("elsewhere/notes.txt");
    let inside = format!("project{}", machine.display());
    world
        .file("elsewhere/notes.txt", "HERON\n")
        .file(&inside, "one\n")
        .file("project/plain-notes.txt", "one\n");
    let project = world.path("project");
    let old = |pattern: &str| json!({"project": project, "kind": "write", "pattern": pattern});
    let stored =
        json!({"version": 1, "approvals": [old("/plain-notes.txt"), old(&machine.to_string_lossy())]});
    let file = "home/.local/state/prowess/approvals.json";
    world.file(file, &stored.to_string());
    std::fs::set_permissions(world.path(file), std::os::unix::fs::PermissionsExt::from_mode(0o600)).unwrap();
    let edit = |path: &str| json!({"file_path": path, "old_string": "one", "new_string": "two"});
    let model = FakeModel::start(vec![
        Answer::call("edit_file", edit("/plain-notes.txt")),
        Answer::call("edit_file", edit(&machine.to_string_lossy())),
        Answer::text("Done."),
    ]);
    configure(&world, &model.url(), "");
    let told = chat_in(&world, "project", &["change both"]);
    assert_eq!(std::fs::read_to_string(world.path("project/plain-notes.txt")).unwrap(), "two\n", "{told}");
    assert!(told.contains("a question is waiting"), "{told}");
    assert_eq!(std::fs::read_to_string(world.path(&inside)).unwrap(), "one\n", "{told}");
    assert!(told.contains("approvals.json") && told.contains("is ignored"), "{told}");
}
