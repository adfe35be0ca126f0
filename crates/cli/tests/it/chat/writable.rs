//! Runs write only the directories of the project that the user named, and some names never.

use insta::assert_snapshot;

use super::*;

const HOSTILE: &str = "cd /project/dist && echo new > new.txt && echo changed > old.txt && rm gone.txt \
    && mkdir -p .git/hooks .prowess/skills/x a/.claude .agents .vscode && echo evil > .git/hooks/pre-commit \
    && echo evil > .prowess/skills/x/SKILL.md && echo evil > a/.claude/settings.json && echo evil > .agents/x \
    && echo evil > .vscode/tasks.json && echo evil > AGENTS.md && echo evil > a/agents.MD && echo evil > prowess.toml \
    && echo evil > secrets.json && ln -s /project/.git link && ln -s ../../home escape && cat /project/dist/kept.txt";

fn writable(world: &World, model: &FakeModel, directories: &str) {
    configure(world, &model.url(), &format!("[run]\nwritable = {directories}\n"));
}

fn project(world: &World) {
    world
        .file("project/dist/old.txt", "old\n")
        .file("project/dist/gone.txt", "gone\n")
        .file("project/dist/kept.txt", "kept\n")
        .file("project/dist/AGENTS.md", "mine\n")
        .file("project/src/main.rs", "fn main() {}\n");
}

fn text(world: &World, path: &str) -> Option<String> {
    std::fs::read_to_string(world.path(path)).ok()
}

/// A chat whose model made one run, which the person allowed.
fn built(world: &World) -> Pty {
    let pty = begun(world, &[], 100, 70);
    pty.type_line("build it");
    pty.wait_for("allow it?");
    pty.type_line("y");
    pty.wait_for("Built.");
    at_prompt(&pty);
    pty
}

#[test]
fn case_115_a_run_writes_named_directories_and_never_protected_names() {
    let model =
        FakeModel::start(vec![runs(HOSTILE), runs("echo x > /project/src/main.rs"), Answer::text("Built.")]);
    let world = world(&model);
    writable(&world, &model, "[\"dist\"]");
    project(&world);
    let mut pty = begun(&world, &[], 100, 70);
    pty.type_line("build it");
    let screen = pty.wait_for("allow it?");
    let dist = world.path("project/dist").display().to_string();
    assert!(screen.replace('\n', "").contains(&format!("may write {dist}")), "{screen}");
    pty.type_line("y");
    pty.wait_until("another question", |screen| screen.matches("allow it?").count() == 2);
    pty.type_line("y");
    pty.wait_for("Built.");
    at_prompt(&pty);
    assert_snapshot!(stable(&world, &pty.screen()));
    let gone = format!("→ {dist}/gone.txt  removed");
    assert!(pty.screen().contains(&gone), "{gone}:\n{}", pty.screen());
    let tools = model.requests()[0]["tools"].to_string();
    assert!(tools.contains("It may also write /project/dist."), "{tools}");
    let prompt = model.requests()[0]["messages"][0].to_string();
    assert!(
        prompt.contains(
            "They cannot change the project, except in `/project/dist`: let them write to `/work/out`"
        ),
        "{prompt}"
    );
    let answer = last(&model.requests()[1]);
    assert!(answer.contains("kept"), "{answer}");
    for named in ["/project/dist/new.txt", "/project/dist/old.txt", "/project/dist/gone.txt"] {
        assert!(answer.contains(named), "{named}: {answer}");
    }
    assert!(answer.contains("/project/dist/.git was not copied back to the project"), "{answer}");
    assert_eq!(text(&world, "project/dist/new.txt").as_deref(), Some("new\n"));
    assert_eq!(text(&world, "project/dist/old.txt").as_deref(), Some("changed\n"));
    assert_eq!(text(&world, "project/dist/gone.txt"), None);
    assert_eq!(text(&world, "project/dist/AGENTS.md").as_deref(), Some("mine\n"));
    assert_eq!(text(&world, "project/src/main.rs").as_deref(), Some("fn main() {}\n"), "not named");
    for name in [
        ".git",
        ".prowess",
        "a/.claude",
        ".agents",
        ".vscode",
        "a/agents.MD",
        "prowess.toml",
        "secrets.json",
        "link",
        "escape",
    ] {
        let found = std::fs::symlink_metadata(world.path(&format!("project/dist/{name}")));
        assert!(found.is_err(), "{name} was written");
    }
    pty.press("\x04");
    assert_eq!(pty.wait(), Some(0));
}

#[test]
fn case_115_a_run_writes_no_file_that_tools_protect() {
    let model = FakeModel::start(vec![
        runs(
            "cd /project/dist && mkdir -p .github/workflows && echo evil > SKILL.md && echo evil > .bashrc \
              && echo evil > .github/workflows/ci.yml && echo evil > sitecustomize.py && echo evil > .pre-commit-config.yaml \
              && echo good > page.html",
        ),
        Answer::text("Built."),
    ]);
    let world = world(&model);
    writable(&world, &model, "[\"dist\"]");
    project(&world);
    let mut pty = built(&world);
    assert_eq!(text(&world, "project/dist/page.html").as_deref(), Some("good\n"));
    let answer = last(&model.requests()[1]);
    for name in
        ["SKILL.md", ".bashrc", ".github/workflows/ci.yml", "sitecustomize.py", ".pre-commit-config.yaml"]
    {
        assert_eq!(text(&world, &format!("project/dist/{name}")), None, "{name}");
        assert!(answer.contains(&format!("/project/dist/{name} was not copied back")), "{name}: {answer}");
    }
    pty.press("\x04");
    assert_eq!(pty.wait(), Some(0));
}

#[test]
fn a_run_writes_into_no_root_of_skills() {
    let plant = "cd /project && echo good > dist/page.html && mkdir -p dist/skills/evil dist/later/evil && \
        for at in dist/skills dist/later; do \
          printf -- '---\\nname: evil\\ndescription: Evil.\\n---\\n' > $at/evil/SKILL.md; echo evil > $at/evil/run.sh; done; \
        echo evil > dist/skills/half/run.sh; echo evil > tools/run.sh; ls tools";
    let model = FakeModel::start(vec![runs(plant), Answer::text("Built."), Answer::text("Hello.")]);
    let world = world(&model);
    let roots = "[skills]\nroots = [\"ROOT/dist/skills\", \"ROOT/dist/later\", \"ROOT/tools\"]\n"
        .replace("ROOT", &world.path("project").to_string_lossy());
    configure(&world, &model.url(), &format!("[run]\nwritable = [\"dist\", \"tools\"]\n{roots}"));
    project(&world);
    // It is not a skill yet, so no skill owns its files.
    world.file("project/dist/skills/half/run.sh", "mine\n").file("project/tools/mine.sh", "mine\n");
    let mut pty = built(&world);
    let answer = last(&model.requests()[1]);
    assert_eq!(text(&world, "project/dist/page.html").as_deref(), Some("good\n"), "{answer}");
    assert_eq!(text(&world, "project/dist/skills/half/run.sh").as_deref(), Some("mine\n"));
    for path in ["dist/skills/evil/SKILL.md", "dist/skills/evil/run.sh", "dist/later/evil/run.sh"] {
        assert_eq!(text(&world, &format!("project/{path}")), None, "{path}");
        assert!(answer.contains(&format!("/project/{path} was not copied back")), "{path}: {answer}");
    }
    assert_eq!(text(&world, "project/tools/run.sh"), None);
    assert!(answer.contains("/project/tools") && answer.contains("a directory of skills"), "{answer}");
    pty.type_line("hello");
    pty.wait_for("Hello.");
    assert!(!model.requests()[2]["messages"][0].to_string().contains("Evil."), "no skill was found");
    pty.press("\x04");
    pty.wait();
}

#[test]
fn an_always_covers_no_run_that_may_write_more() {
    let model = FakeModel::start(vec![
        runs("echo one"),
        Answer::text("Done."),
        runs("echo one"),
        Answer::text("Done."),
        runs("echo one"),
        Answer::text("Never."),
    ]);
    let world = world(&model);
    project(&world);
    let run = |answer: Option<&str>| {
        let mut pty = begun(&world, &[], 100, 60);
        pty.type_line("go");
        if let Some(answer) = answer {
            pty.wait_for("allow it?");
            pty.type_line(answer);
        }
        pty.wait_for("one");
        at_prompt(&pty);
        pty.press("\x04");
        pty.wait();
    };
    run(Some("a"));
    run(None);
    writable(&world, &model, "[\"dist\"]");
    run(Some("n no more"));
}

#[test]
fn only_the_user_names_directories() {
    let model = FakeModel::start(vec![Answer::text("Hello.")]);
    let world = world(&model);
    for (directories, why) in [
        ("[\"../x\"]", "it is not a directory below the working directory: it has a `..`"),
        ("[\"/etc\"]", "it is absolute"),
        ("[\".\"]", "it is empty"),
        ("[\"docs/.git\"]", "commands never write `.git`"),
    ] {
        writable(&world, &model, directories);
        let output = world.output(&["chat", "hello"]);
        let told = world.told(&output);
        assert!(
            output.status.code() == Some(2) && told.contains("run.writable") && told.contains(why),
            "{told}"
        );
    }
    configure(&world, &model.url(), "");
    world.file("project/prowess.toml", "[run]\nwritable = [\"dist\"]\n");
    world.output(&["chat", "hello"]);
    let prompt = model.requests()[0]["messages"][0].to_string();
    assert!(prompt.contains("They cannot change the project: let them write"), "{prompt}");
    let output = world.output(&["chat", "--trust-project", "hello"]);
    let told = world.told(&output);
    assert!(output.status.code() == Some(2) && told.contains("run.writable"), "{told}");
}

#[test]
fn a_person_learns_which_changes_were_not_copied_back() {
    let plant = "cd /project/dist && echo evil > AGENTS.md && echo evil > .bashrc && echo new > new.txt";
    let model = FakeModel::start(
        (0..2).flat_map(|_| [runs(plant), Answer::text("Built.")]).chain([runs(plant)]).collect(),
    );
    let world = world(&model);
    writable(&world, &model, "[\"dist\"]");
    project(&world);
    let dist = world.path("project/dist").display().to_string();
    let output = world.output(&["chat", "--yes", "build it"]);
    let told = String::from_utf8(output.stderr).unwrap();
    let protected =
        format!("{dist}/AGENTS.md was not copied back to the project: commands never write this name");
    assert!(told.contains(&protected), "{told}");
    let kept = told.lines().find(|line| line.starts_with(&format!("{dist}/.bashrc was not copied back")));
    let kept = kept.and_then(|line| line.split(" is at ").nth(1)).expect(&told);
    assert_eq!(std::fs::read_to_string(kept).unwrap(), "evil\n", "{told}");
    let output = world.output(&["chat", "--yes", "--json", "build it"]);
    let events = String::from_utf8(output.stdout).unwrap();
    let events: Vec<Value> = events.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    let is_told = |event: &Value| {
        event["type"] == "note" && event["text"].as_str().is_some_and(|text| text.starts_with(&protected))
    };
    assert!(events.iter().any(is_told), "{events:?}");
    let result = events.iter().find(|event| event["type"] == "result").unwrap();
    let paths = result["data"]["not_copied_back"].as_array().unwrap().iter().map(|change| &change["path"]);
    let mut paths: Vec<&str> = paths.filter_map(Value::as_str).collect();
    // A directory lists its files in any order.
    paths.sort_unstable();
    assert_eq!(paths, [format!("{dist}/.bashrc"), format!("{dist}/AGENTS.md")], "{result}");
}

#[test]
fn a_long_list_says_only_what_is_true_of_the_rest() {
    let many = "cd /project/dist && rm old.txt gone.txt && for i in $(seq 1 30); do echo $i > $i.txt; done; \
        for i in $(seq 1 3); do echo $i > /work/out/$i.txt; done";
    let more = "cd /project/dist && for i in $(seq 1 130); do echo $i > more-$i.txt; done";
    let model =
        FakeModel::start(vec![runs(many), Answer::text("Built."), runs(more), Answer::text("Built.")]);
    let world = world(&model);
    writable(&world, &model, "[\"dist\"]");
    project(&world);
    let output = world.output(&["chat", "--yes", "build it"]);
    let told = String::from_utf8(output.stderr).unwrap();
    assert!(told.contains("20 more  created, changed or removed\n"), "{told}");
    assert!(told.contains("3 more  in /") && told.contains("/ws/out\n"), "{told}");
    let output = world.output(&["chat", "--yes", "--json", "build it"]);
    let events = String::from_utf8(output.stdout).unwrap();
    let events = events.lines().map(|line| serde_json::from_str::<Value>(line).unwrap());
    let made = events.into_iter().find(|event| event["type"] == "made").unwrap();
    assert_eq!(made["left_out"], json!({"in_directory": 0, "elsewhere": 118, "saved": 0}), "{made}");
    assert_eq!((&made["more"], &made["directory"]), (&json!(118), &Value::Null), "{made}");
}
