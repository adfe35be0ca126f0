//! The paths that a model sees mean the same in all its tools, to all its agents, and wherever the project is.

use std::os::unix::fs::PermissionsExt;
use std::process::Command;

use super::*;

/// The user and group of a plain user in these tests.
const PLAIN: &str = "12345";

fn read(path: &str) -> Answer {
    Answer::call("read_file", json!({"file_path": path}))
}

fn write(path: &str, content: &str) -> Answer {
    Answer::call("write_file", json!({"file_path": path, "content": content}))
}

/// The answers to all tool calls of a conversation, in order.
fn answers(model: &FakeModel) -> Vec<String> {
    let requests = model.requests();
    let messages = requests.last().unwrap()["messages"].as_array().unwrap().iter();
    messages
        .filter(|message| message["role"] == "tool")
        .map(|message| message["content"].to_string())
        .collect()
}

/// What the program says, started with other paths mounted over those of this machine, as in the working directory `at`.
fn chat_at(world: &World, at: &str, args: &[&str]) -> String {
    // The program can be below a path that is mounted over.
    let program = world.path("prowess");
    std::fs::copy(env!("CARGO_BIN_EXE_prowess"), &program).unwrap();
    let plain = world.command(&[&["chat", "--yes"], args].concat());
    let mut chat = Command::new("bwrap");
    chat.args(["--dev-bind", "/", "/"]);
    // A directory of its own for the path, so that nothing of this machine is touched.
    let above = if at.starts_with("/work") { "/work" } else { "/usr/src" };
    chat.args(["--tmpfs", above, "--bind"]).arg(world.path("project")).arg(at);
    chat.args(["--chdir", at]).arg(&program).args(plain.get_args()).env_clear();
    chat.envs(plain.get_envs().filter_map(|(name, value)| Some((name, value?))));
    world.told(&chat.output().unwrap())
}

#[test]
fn a_sub_agent_and_its_parent_have_the_same_workspace() {
    let asks = |body: &Value| all(body).contains("Make it.") && !all(body).contains("hand it on");
    let model = FakeModel::start(vec![
        runs("echo first > /work/out/first.txt"),
        Answer::call("task", json!({"description": "Make it."})),
        read("/work/out/first.txt").when(asks),
        runs("cat /work/out/first.txt; echo second > /work/out/second.txt").when(asks),
        write("/work/work/third.txt", "third\n").when(asks),
        Answer::text("It is in /work/out/second.txt.").when(asks),
        read("/work/out/second.txt"),
        runs("cat /work/out/second.txt /work/work/third.txt"),
        Answer::text("Done."),
    ]);
    let world = world(&model);
    let told = world.run(&["chat", "--yes", "hand it on"]);
    let requests = model.requests();
    assert_eq!(requests.len(), 9, "{told}");
    let of_the_sub_agent = [3, 4].map(|at| last(&requests[at]));
    assert!(of_the_sub_agent.iter().all(|answer| answer.contains("first")), "{of_the_sub_agent:?}");
    let of_the_parent = [7, 8].map(|at| last(&requests[at]));
    assert!(of_the_parent.iter().all(|answer| answer.contains("second")), "{of_the_parent:?}");
    assert!(of_the_parent[1].contains("third"), "{of_the_parent:?}");
}

#[test]
fn a_command_reads_the_files_of_another_skill_that_it_names() {
    let command = "cat /skills/charts/maps/north.txt; bash /skills/charts/draw.sh; ls /skills";
    let model = FakeModel::start(vec![
        Answer::call("skill_load", json!({"skill": "tides"})),
        runs(command),
        runs("echo x > /skills/charts/maps/north.txt || echo refused"),
        runs("cat /skills/secret/SKILL.md"),
        Answer::text("Done."),
    ]);
    let world = world(&model);
    configure(&world, &model.url(), "[permission.skill]\n\"secret\" = \"deny\"\n");
    world
        .skill("home/.prowess/skills", "charts", "Draws charts. Use for maps.")
        .file("home/.prowess/skills/charts/maps/north.txt", "north\n")
        .file(
            "home/.prowess/skills/charts/draw.sh",
            "cat \"$(dirname \"$0\")\"/maps/north.txt | tr a-z A-Z\n",
        )
        .skill("home/.prowess/skills", "secret", "Is denied.");
    let told = world.run(&["chat", "--yes", "draw"]);
    let answers = answers(&model);
    assert_eq!(answers.len(), 4, "{told}");
    assert!(answers[1].contains(r"north\\nNORTH\\ncharts\\ntides\\n"), "{}", answers[1]);
    assert!(answers[2].contains("refused"), "{}", answers[2]);
    assert!(!answers[3].contains("Is denied."), "{}", answers[3]);
    let map = world.path("home/.prowess/skills/charts/maps/north.txt");
    assert_eq!(std::fs::read_to_string(map).unwrap(), "north\n");
}

/// `/work` is the workspace, also if the person works in a directory of that name.
#[test]
fn a_project_at_a_place_of_the_tree_has_its_own_name() {
    for at in ["/work", "/work/site"] {
        let model = FakeModel::start(vec![
            read("/project/plan.txt").and_call("ls", json!({"path": "/project"})),
            runs("cat /project/plan.txt; cp /project/plan.txt /work/out/copy.txt"),
            read("/work/out/copy.txt").and_call("glob", json!({"pattern": "/project/**/*.txt"})),
            Answer::call("copy_file", json!({"from": "/work/out/copy.txt", "to": "/project/made.txt"})),
            read("/work/plan.txt"),
            Answer::text("Done."),
        ]);
        let world = world(&model);
        world.file("project/plan.txt", "sail at dawn\n");
        let told = chat_at(&world, at, &["go"]);
        let answers = answers(&model);
        assert_eq!(answers.len(), 7, "{at}: {told}");
        for answer in [0, 2, 3] {
            assert!(answers[answer].contains("sail at dawn"), "{at}: {answer}: {answers:#?}");
        }
        assert!(answers[1].contains("/project/plan.txt"), "{at}: {answers:#?}");
        assert!(answers[4].contains("/project/plan.txt"), "{at}: {answers:#?}");
        assert!(!answers[6].contains("sail at dawn"), "{at}: {answers:#?}");
        let made = std::fs::read_to_string(world.path("project/made.txt"));
        assert_eq!(made.unwrap_or_default(), "sail at dawn\n", "{at}: {answers:#?}");
    }
}

/// Commands see the whole system read-only. A project in it is no part of the system.
#[test]
fn a_project_in_a_directory_of_the_system_is_seen_only_as_far_as_it_is_given() {
    let model = FakeModel::start(vec![
        runs("cat /project/plan.txt"),
        runs("ls -a /usr/src/site; cat /usr/src/site/.env; cat /usr/src/site/plan.txt"),
        runs("cd /usr/src/site && cat .env other.txt"),
        Answer::text("Done."),
    ]);
    let world = world(&model);
    world.file("project/plan.txt", "sail at dawn\n").file("project/.env", "KEY=hunter2\n");
    world.file("project/other.txt", "nobody gave this\n");
    let told = chat_at(&world, "/usr/src/site", &["go"]);
    let answers = answers(&model);
    assert_eq!(answers.len(), 3, "{told}");
    assert!(answers[0].contains("sail at dawn"), "{answers:#?}");
    let all = answers.join("\n");
    assert!(!all.contains("hunter2") && !all.contains("nobody gave this"), "{all}");
}

/// A person reads real paths at the end of a turn, and may say one of them to the model.
#[test]
fn the_real_path_of_a_result_works_in_file_tools() {
    let first = FakeModel::start(vec![runs("echo high > /work/out/tide.txt"), Answer::text("Done.")]);
    let world = world(&first);
    let told = world.run(&["chat", "--yes", "look it up"]);
    let start = told.find("/home/.local/state").unwrap_or_else(|| panic!("{told}"));
    let start = told[..start].rfind(char::is_whitespace).unwrap() + 1;
    let path = told[start..].split_whitespace().next().unwrap().to_owned();
    assert!(path.ends_with("/out/tide.txt"), "{told}");
    let path = path.replace("[WORLD]/", &world.path("").to_string_lossy());
    let model = FakeModel::start(vec![read(&path), Answer::text("Done.")]);
    configure(&world, &model.url(), "");
    world.run(&["chat", "--yes", "--resume", "last", &format!("open {path}")]);
    assert!(answers(&model)[1].contains("high"), "{:#?}", answers(&model));
}

#[test]
fn patterns_may_be_absolute() {
    let model = FakeModel::start(vec![
        Answer::call("glob", json!({"pattern": "/project/**/*.rs"}))
            .and_call("glob", json!({"pattern": "/project/src/*.rs"}))
            .and_call("glob", json!({"pattern": "/work/out/*.txt"}))
            .and_call("glob", json!({"pattern": "**/*.rs", "path": "/project"}))
            .and_call("grep", json!({"pattern": "fn", "path": "/project", "glob": "**/*.rs"})),
        Answer::text("Done."),
    ]);
    let world = world(&model);
    world
        .file("project/src/main.rs", "fn main() {}\n")
        .file("project/src/deep/tide.rs", "fn tide() {}\n")
        .file("project/notes.md", "fn of notes\n");
    let told = world.run(&["chat", "--yes", "look"]);
    let answers = answers(&model);
    assert_eq!(answers.len(), 5, "{told}");
    let (main, deep) = ("/project/src/main.rs", "/project/src/deep/tide.rs");
    for all in [0, 3, 4] {
        let answer = &answers[all];
        assert!(
            answer.contains(main) && answer.contains(deep) && !answer.contains("notes"),
            "{all}: {answer}"
        );
    }
    assert!(answers[1].contains(main) && !answers[1].contains(deep), "{}", answers[1]);
    assert!(answers[2].contains("no file matches"), "{}", answers[2]);
}

#[test]
fn new_files_in_the_workspace_are_in_out_and_work() {
    let model = FakeModel::start(vec![
        write("/work/report.txt", "x")
            .and_call("write_file", json!({"file_path": "/work/other/report.txt", "content": "x"}))
            .and_call("write_file", json!({"file_path": "/skills/report.txt", "content": "x"}))
            .and_call("copy_file", json!({"from": "/project/plan.txt", "to": "/work/plan.txt"})),
        write("/work/out/report.txt", "high\n")
            .and_call("write_file", json!({"file_path": "/work/work/deep/report.txt", "content": "low\n"})),
        runs("cat /work/out/report.txt /work/work/deep/report.txt; ls /work"),
        Answer::text("Done."),
    ]);
    let world = world(&model);
    world.file("project/plan.txt", "sail\n");
    let told = world.run(&["chat", "--yes", "write"]);
    let answers = answers(&model);
    assert_eq!(answers.len(), 7, "{told}");
    for refused in [&answers[0], &answers[1], &answers[3]] {
        assert!(refused.contains("write it to /work/out or to /work/work"), "{refused}");
    }
    assert!(answers[2].contains("skills are read-only"), "{}", answers[2]);
    assert!(answers[6].contains("high") && answers[6].contains("low"), "{}", answers[6]);
    assert!(!answers[6].contains("report.txt\\\\n") && !answers[6].contains("other"), "{}", answers[6]);
}

/// A directory with `HEAD`, `objects` and `refs` is a repository whatever its name, and git runs programs that its `config`
/// names.
#[test]
fn case_115_a_run_plants_no_repository() {
    let plant = "mkdir -p /project/dist/bare/objects /project/dist/bare/refs && cd /project/dist/bare && \
        printf 'ref: refs/heads/main\\n' > HEAD && \
        printf '[core]\\n\\trepositoryformatversion = 0\\n\\tbare = false\\n\\tworktree = \"..\"\\n\\tfsmonitor = \"touch ../owned\"\\n' > config \
        && echo good > ../page.html";
    let model = FakeModel::start(vec![runs(plant), Answer::text("Built.")]);
    let world = world(&model);
    configure(&world, &model.url(), "[run]\nwritable = [\"dist\"]\n");
    world.file("project/dist/old.txt", "old\n");
    let told = world.run(&["chat", "--yes", "build"]);
    let answer = last(&model.requests()[1]);
    assert!(world.path("project/dist/page.html").is_file(), "{told}: {answer}");
    assert!(!world.path("project/dist/bare/HEAD").exists(), "{answer}");
    assert!(answer.contains("/project/dist/bare/HEAD was not copied back"), "{answer}");
    let git = Command::new("git")
        .args(["rev-parse", "--git-dir"])
        .current_dir(world.path("project/dist/bare"))
        .env("HOME", world.path("home"))
        .env("GIT_CEILING_DIRECTORIES", world.path("project/dist"))
        .output()
        .unwrap();
    assert!(!git.status.success(), "git takes it for a repository: {git:?}");
}

/// Root reads everything, so this needs a plain user.
#[test]
fn a_directory_that_cannot_be_read_is_left_out_of_what_is_given() {
    if !rustix::process::geteuid().is_root() {
        assert!(std::env::var_os("PROWESS_WAIVE_ROOT").is_some(), "this test starts as root");
        return;
    }
    let model = FakeModel::start(vec![
        runs("cat /project/data/open/a.txt; ls /project/data; cat /project/data/closed/b.txt"),
        Answer::text("Done."),
    ]);
    let world = world(&model);
    world.file("project/data/open/a.txt", "open tide\n").file("project/data/closed/b.txt", "closed tide\n");
    let program = world.path("prowess");
    std::fs::copy(env!("CARGO_BIN_EXE_prowess"), &program).unwrap();
    let owner = format!("{PLAIN}:{PLAIN}");
    assert!(Command::new("chown").args(["-R", &owner]).arg(world.path("")).status().unwrap().success());
    let closed = world.path("project/data/closed");
    std::fs::set_permissions(&closed, PermissionsExt::from_mode(0o000)).unwrap();
    let ours = world.command(&["chat", "--yes", "look"]);
    let mut chat = Command::new("setpriv");
    chat.args(["--reuid", PLAIN, "--regid", PLAIN, "--clear-groups", "--inh-caps=-all", "--"]).arg(&program);
    chat.args(ours.get_args()).current_dir(world.path("project")).env_clear();
    chat.envs(ours.get_envs().filter_map(|(name, value)| Some((name, value?))));
    let told = world.told(&chat.output().unwrap());
    let requests = model.requests();
    assert_eq!(requests.len(), 2, "{told}");
    let answer = last(&requests[1]);
    assert!(answer.contains("open tide") && !answer.contains("closed tide"), "{answer}");
    assert!(
        answer.contains("left out of `/project/data`") && answer.contains("`/project/data/closed`"),
        "{answer}"
    );
}
