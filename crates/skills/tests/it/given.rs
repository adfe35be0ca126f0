//! What a run sees of the project: what its request names, and nothing else.

use std::os::unix::fs::{PermissionsExt as _, symlink};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use prowess_permission::broker::PermissionEvent;
use prowess_permission::real_path::real_path;
use prowess_permission::secrets::secret_files;
use prowess_permission::{Broker, Decision, Permissions, Policy, Question, Reply, Rule, RuleSource};
use prowess_skills::{RunSetup, SkillSession};
use serde_json::{Value, json};

use crate::library::Library;
use crate::runs::{library, runs, session};

/// A project, and sessions that run commands on it.
struct Project {
    library: Library,
    runs: RunSetup,
    directory: PathBuf,
    _scratch: tempfile::TempDir,
}

impl Project {
    fn new() -> Self {
        let (mut runs, scratch) = runs();
        let directory = real_path(scratch.path()).join("site");
        std::fs::create_dir(&directory).unwrap();
        runs.tree = runs.tree.project(&directory);
        Self { library: library(), runs, directory, _scratch: scratch }
    }

    fn file(self, path: &str, text: &str) -> Self {
        self.write(path, text);
        self
    }

    fn write(&self, path: &str, text: &str) -> PathBuf {
        let path = self.directory.join(path);
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        std::fs::write(&path, text).unwrap();
        path
    }

    fn mode(&self, path: &str, mode: u32) {
        std::fs::set_permissions(self.directory.join(path), std::fs::Permissions::from_mode(mode)).unwrap();
    }

    /// Commands are allowed, and reading the project, except for secrets.
    fn policy(&self) -> Policy {
        let below = format!("{}*", self.directory.display());
        let rules = [Rule::new("run", "*", Decision::Allow), Rule::new("read", &below, Decision::Allow)];
        Policy::new().rules(RuleSource::BuiltInAgent, rules.into_iter().chain(secret_files()))
    }

    async fn session(&self) -> SkillSession {
        self.session_under(self.policy()).await
    }

    async fn session_under(&self, policy: Policy) -> SkillSession {
        session(&self.library, Permissions::unattended(policy), self.runs.clone()).await
    }

    async fn run(&self, command: &str) -> Value {
        report(&self.session().await, json!({"skill": "kit", "command": command})).await
    }

    async fn refusal(&self, command: &str) -> String {
        refusal(&self.session().await, json!({"skill": "kit", "command": command})).await
    }
}

#[track_caller]
fn parsed(text: &str) -> Value {
    serde_json::from_str(text).unwrap_or_else(|_| panic!("{text}"))
}

async fn report(session: &SkillSession, arguments: Value) -> Value {
    let reply = session.call("skill_run", arguments).await;
    assert!(!reply.is_error, "{}", reply.text);
    parsed(&reply.text)
}

async fn refusal(session: &SkillSession, arguments: Value) -> String {
    let reply = session.call("skill_run", arguments).await;
    assert!(reply.is_error, "{}", reply.text);
    reply.text
}

fn warnings(report: &Value) -> Vec<&str> {
    report["warnings"].as_array().unwrap().iter().map(|warning| warning.as_str().unwrap()).collect()
}

/// A command that lists a directory without naming it.
fn list_unnamed(rest: &str) -> String {
    format!("p=/proj; ls -A ${{p}}ect{rest}")
}

#[tokio::test]
async fn a_run_sees_what_its_request_names_at_the_same_place() {
    let project = Project::new()
        .file("plan.json", "{}\n")
        .file("my notes.txt", "notes\n")
        .file("src/a.py", "a\n")
        .file("src/b.py", "b\n")
        .file("other.txt", "other\n");
    let real = project.directory.display();
    for (command, stdout) in [
        ("cat /project/plan.json".to_owned(), "{}\n"),
        (format!("cat {real}/plan.json"), "{}\n"),
        ("cat '/project/my notes.txt'".to_owned(), "notes\n"),
        (r"cat /project/my\ notes.txt".to_owned(), "notes\n"),
        ("cat /project/src/*.py".to_owned(), "a\nb\n"),
        ("for n in a b; do cat /project/src/$n.py; done".to_owned(), "a\nb\n"),
        ("cat /project/src/../plan.json".to_owned(), "{}\n"),
        ("ls /project/src".to_owned(), "a.py\nb.py\n"),
        ("ls /project".to_owned(), "my notes.txt\nother.txt\nplan.json\nsrc\n"),
        (format!("true /project/src/a.py; {}", list_unnamed("/src")), "a.py\n"),
        (format!("true /project/plan.json; {}", list_unnamed("")), "plan.json\n"),
    ] {
        let report = project.run(&command).await;
        assert_eq!(report["stdout"], stdout, "{command}: {report}");
        assert_eq!(warnings(&report), [""; 0], "{command}");
    }
    let session = project.session().await;
    for (request, stdout) in [
        (json!({"command": "cat $FILE", "env": {"FILE": "/project/plan.json"}}), "{}\n"),
        (json!({"command": "xargs cat", "stdin": "/project/plan.json\n"}), "{}\n"),
        (json!({"command": "pwd; ls", "cwd": "/project/src"}), "/project/src\na.py\nb.py\n"),
        (json!({"command": "pwd; ls", "cwd": format!("{real}/src")}), "/project/src\na.py\nb.py\n"),
        (json!({"command": list_unnamed(""), "inputs": [{"from": "/project/plan.json"}]}), "plan.json\n"),
        (
            json!({"command": "cat $WORK_DIR/p.json", "inputs": [{"from": "/project/plan.json", "to": "work/p.json"}]}),
            "{}\n",
        ),
    ] {
        let mut arguments = request.clone();
        arguments["skill"] = "kit".into();
        let report = report(&session, arguments).await;
        assert_eq!(report["stdout"], stdout, "{request}: {report}");
    }
}

#[tokio::test]
async fn a_run_cannot_write_what_it_is_given() {
    let project = Project::new().file("a.txt", "old\n").file("src/b.txt", "old\n");
    for command in
        ["echo new > /project/a.txt", "echo new > /project/src/b.txt; ls /project/src", "rm -r /project/src"]
    {
        let report = project.run(command).await;
        assert!(report["stderr"].as_str().unwrap().contains("Read-only"), "{command}: {report}");
    }
    let report = project.run("echo new > /project/new.txt").await;
    assert_ne!(report["exit_code"], 0);
    assert_eq!(
        warnings(&report),
        [
            "`/project/new.txt` does not exist; the project is read-only for commands, so write new files to `/work/out`"
        ]
    );
    assert_eq!(std::fs::read_to_string(project.directory.join("a.txt")).unwrap(), "old\n");
    assert!(!project.directory.join("new.txt").exists());
}

#[tokio::test]
async fn a_directory_or_input_must_exist() {
    let project = Project::new().file("a.txt", "");
    let session = project.session().await;
    for (request, why) in [
        (json!({"command": "true", "cwd": "/project/gone"}), "'/project/gone' does not exist"),
        (json!({"command": "true", "cwd": "/project/a.txt"}), "'/project/a.txt' is not a directory"),
        (json!({"command": "true", "inputs": [{"from": "/project/gone"}]}), "'/project/gone' does not exist"),
    ] {
        let mut arguments = request.clone();
        arguments["skill"] = "kit".into();
        let text = refusal(&session, arguments).await;
        assert!(text.contains(why), "{request}: {text}");
    }
}

/// After a failure, the answer names files of the project that the command did not see.
#[tokio::test]
async fn a_failure_names_the_files_that_were_not_given() {
    let project =
        Project::new().file("plan.json", "").file("src/x.py", "").file(".env", "").file("kept.txt", "");
    for (command, named) in [
        ("cat plan.json", "`/project/plan.json`"),
        ("cat ./src/x.py", "`/project/src/x.py`"),
        ("echo 'cannot open \"src/x.py\"' >&2; exit 1", "`/project/src/x.py`"),
        ("p=/proj; cat ${p}ect/plan.json", "`/project/plan.json`"),
        ("cd src", "`/project/src`"),
    ] {
        let report = project.run(command).await;
        assert_ne!(report["exit_code"], 0, "{command}");
        let expected = format!(
            "the command did not see {named}; it sees only the files whose whole paths are in `command`, `env`, `stdin`, \
             `inputs` or `cwd`"
        );
        assert_eq!(warnings(&report), [expected.as_str()], "{command}: {report}");
    }
    // Not after a success, not about what it saw, not about its own files, and not about what it must not read.
    for command in [
        "echo plan.json",
        "cat /project/plan.json; false",
        "sh scripts/say.sh; false",
        "cat .env",
        "echo kept; exit 1",
    ] {
        let report = project.run(command).await;
        assert_eq!(warnings(&report), [""; 0], "{command}");
    }
}

#[tokio::test]
async fn a_writable_directory_is_neither_read_only_nor_unseen() {
    let mut project = Project::new().file("src/a.txt", "a\n");
    project.runs.writable = vec!["dist".parse().unwrap()];
    let report = project.run("echo new > /project/dist/new.txt; echo no > /project/src/no.txt").await;
    assert_eq!(report["project_files"][0]["path"], "/project/dist/new.txt", "{report}");
    let all = warnings(&report);
    assert!(!all.iter().any(|warning| warning.contains("/project/dist")), "{all:?}");
    assert!(all.iter().any(|warning| warning.starts_with("`/project/src/no.txt` does not exist")), "{all:?}");
    let failed =
        project.run("cd /project; echo part > dist/part.txt; echo dist/part.txt src/a.txt; exit 3").await;
    let all = warnings(&failed);
    assert!(!all.iter().any(|warning| warning.contains("did not see")), "{all:?}");
    let failed = project
        .run("D=/project/dist; echo part > $D/more.txt; echo dist/more.txt src/a.txt >&2; exit 3")
        .await;
    let all = warnings(&failed);
    assert!(
        all.iter().any(|warning| warning.starts_with("the command did not see `/project/src/a.txt`; ")),
        "{all:?}"
    );
}

#[tokio::test]
async fn case_112_withheld_files_are_refused_by_name_by_link_and_by_alias() {
    let project = Project::new()
        .file(".env", "KEY=1\n")
        .file("sub/private.txt", "no\n")
        .file("keys/server.key", "no\n");
    symlink(".env", project.directory.join("settings.txt")).unwrap();
    symlink("sub", project.directory.join("alias")).unwrap();
    let denied = format!("{}/sub/private.txt", project.directory.display());
    let policy = project.policy().rules(RuleSource::User, [Rule::new("read", &denied, Decision::Deny)]);
    let session = project.session_under(policy).await;
    let real = project.directory.display().to_string();
    let secrets =
        ["/project/.env", "/project/./.env", "/project/sub/../.env", "/project/settings.txt", "/project/.e*"];
    let keys = ["/project/keys/server.key", "/project/keys/*.key", "/project/*/server.key"];
    for path in secrets.into_iter().chain(keys).map(str::to_owned).chain([format!("{real}/.env")]) {
        for request in [
            json!({"command": format!("cat {path}")}),
            json!({"command": "cat \"$F\"", "env": {"F": path}}),
            json!({"command": "cat", "stdin": path}),
        ] {
            let mut arguments = request.clone();
            arguments["skill"] = "kit".into();
            let text = refusal(&session, arguments).await;
            assert!(text.contains("usually holds secrets, so commands do not see it"), "{request}: {text}");
        }
    }
    for path in ["/project/sub/private.txt", "/project/alias/private.txt"] {
        let text = refusal(&session, json!({"skill": "kit", "command": format!("cat {path}")})).await;
        assert!(text.contains("private.txt' must not be read"), "{path}: {text}");
        assert!(!text.contains("deny") && !text.contains(&real), "{path}: {text}");
    }
    // Nobody learns whether a denied file exists, not by a pattern either.
    let patterns = ["/project/sub/priv*", "/project/{sub,x}/private.txt", "/project/*/private.txt"];
    let mut seen = Vec::new();
    for _ in 0..2 {
        for pattern in patterns {
            let found = report(&session, json!({"skill": "kit", "command": format!("cat {pattern}")})).await;
            assert_eq!(found["stdout"], "", "{pattern}: {found}");
            seen.push([found["stderr"].clone(), found["warnings"].clone()]);
        }
        let _ = std::fs::remove_file(project.directory.join("sub/private.txt"));
    }
    let (with, without) = seen.split_at(patterns.len());
    assert_eq!(with, without);
    let text = refusal(&session, json!({"skill": "kit", "command": "cat /project/sub/private.txt"})).await;
    assert!(text.contains("'/project/sub/private.txt' must not be read"), "{text}");
}

#[tokio::test]
async fn case_112_a_directory_brings_in_nothing_withheld() {
    let project = Project::new()
        .file(".env", "KEY=1\n")
        .file("a.txt", "a\n")
        .file("src/x.py", "x\n")
        .file("keys/deep/server.key", "no\n")
        .file("keys/ok.txt", "ok\n")
        .file("venv/certifi/cacert.pem", "public\n");
    symlink(".env", project.directory.join("link-to-secret")).unwrap();
    symlink("a.txt", project.directory.join("link-to-a")).unwrap();
    symlink("/etc/passwd", project.directory.join("link-outside")).unwrap();
    let report = project.run("cd /project; find . | sort; cat link-to-a").await;
    assert_eq!(
        report["stdout"],
        ".\n./a.txt\n./link-to-a\n./src\n./src/x.py\n./venv\n./venv/certifi\n./venv/certifi/cacert.pem\na\n"
    );
    assert_eq!(
        warnings(&report),
        ["left out of `/project`, because they are, contain or lead to files that commands do not see: \
          `/project/.env`, `/project/keys`, `/project/link-outside`, `/project/link-to-secret`"]
    );
    // What lies beside a withheld file can still be named.
    let report = project.run("ls /project; cat /project/keys/ok.txt").await;
    assert!(report["stdout"].as_str().unwrap().ends_with("ok\n"), "{report}");
    // A directory that is named itself is not left out, except for the secret in it.
    let ran = project.run("ls /project/keys /project").await;
    let all = warnings(&ran);
    assert!(all[0].starts_with("left out of `/project`, ") && !all[0].contains("keys"), "{all:?}");
    assert!(
        all[1].starts_with("left out of `/project/keys`, ") && all[1].ends_with(": `/project/keys/deep`"),
        "{all:?}"
    );
    let whole = project.run("find /project/src /project/venv -type f | wc -l").await;
    assert_eq!((&whole["stdout"], warnings(&whole)), (&json!("2\n"), vec![]));
    // A variable does not get more.
    let report = project.run("n=.env; cat /project/$n").await;
    assert_ne!(report["exit_code"], 0, "{report}");
    assert!(!report.to_string().contains("KEY=1"));
}

#[tokio::test]
async fn case_98_files_of_denied_and_untrusted_skills_are_not_given() {
    let mut project = Project::new().file("a.txt", "a\n");
    for name in ["kit", "hushed"] {
        let text = format!("---\nname: {name}\ndescription: Looks after {name}.\n---\nsecret of {name}\n");
        project.write(&format!(".prowess/skills/{name}/SKILL.md"), &text);
    }
    // The library is in the project.
    let skills = project.directory.join(".prowess/skills");
    project.library = Library::new();
    let catalog = prowess_catalog::Catalog::discover(
        &[prowess_catalog::Root::explicit(&skills)],
        &prowess_catalog::ScanOptions::default(),
    );
    let policy = project.policy().rules(RuleSource::User, [Rule::new("skill", "hushed", Decision::Deny)]);
    let session = SkillSession::builder(catalog)
        .options(prowess_skills::SessionOptions::new(prowess_skills::Dialect::Trpc))
        .permissions(Permissions::unattended(policy))
        .runs(project.runs.clone())
        .build()
        .await;
    for path in ["/project/.prowess/skills/hushed/SKILL.md", "/project/.prowess/skills/hushed"] {
        let text = refusal(&session, json!({"skill": "kit", "command": format!("cat {path}")})).await;
        assert!(text.contains(&format!("'{path}' must not be read")), "{text}");
    }
    let found =
        report(&session, json!({"skill": "kit", "command": "grep -r secret /project/.prowess/skills"})).await;
    assert_eq!(found["stdout"], "/project/.prowess/skills/kit/SKILL.md:secret of kit\n");
    let text = found.to_string();
    assert!(!text.contains("hushed"), "the name is hidden too: {text}");
    assert!(text.contains("commands do not see: 1 files or directories"), "{text}");
    let found = report(&session, json!({"skill": "kit", "command": "ls -A /project"})).await;
    assert_eq!(found["stdout"], "a.txt\n");
    assert!(warnings(&found)[0].contains("`/project/.prowess`"), "{found}");
}

#[tokio::test]
async fn case_113_a_project_may_be_a_link_a_submodule_or_a_worktree() {
    let mut project = Project::new().file("a.txt", "a\n").file(".git", "gitdir: ../.git/modules/site\n");
    let link = project.directory.with_file_name("link");
    symlink(&project.directory, &link).unwrap();
    // A person's working directory is a link: the tree has its real path.
    project.runs.tree = prowess_workspace::tree::Tree::new("/nowhere").project(real_path(&link));
    let seen = project.run("cat /project/a.txt /project/.git; ls -A /project").await;
    assert_eq!(seen["stdout"], "a\ngitdir: ../.git/modules/site\n.git\na.txt\n", "{seen}");
    // A directory and a file of the project that are links.
    std::fs::create_dir(project.directory.with_file_name("elsewhere")).unwrap();
    std::fs::write(project.directory.with_file_name("elsewhere").join("b.txt"), "b\n").unwrap();
    symlink("../elsewhere", project.directory.join("linked")).unwrap();
    symlink("../elsewhere/b.txt", project.directory.join("b.txt")).unwrap();
    let refused = project.refusal("cat /project/linked/b.txt").await;
    assert!(refused.contains("elsewhere/b.txt"), "the rules are for the real path: {refused}");
    let elsewhere = format!("{}*", project.directory.with_file_name("elsewhere").display());
    let policy = project.policy().rules(RuleSource::User, [Rule::new("read", &elsewhere, Decision::Allow)]);
    let session = project.session_under(policy).await;
    let command = "cat /project/linked/b.txt /project/b.txt; ls /project/linked";
    let report = report(&session, json!({"skill": "kit", "command": command})).await;
    assert_eq!(report["stdout"], "b\nb\nb.txt\n", "{report}");
}

/// Files that only their owner can read. As root, commands run as nobody and get copies.
#[tokio::test]
async fn private_files_are_given_too() {
    let project =
        Project::new().file("private.txt", "mine\n").file("closed/a.txt", "a\n").file("mixed/b.txt", "b\n");
    project.mode("private.txt", 0o600);
    project.mode("closed/a.txt", 0o600);
    project.mode("closed", 0o700);
    project.mode("mixed/b.txt", 0o600);
    let report = project
        .run("cat /project/private.txt; ls /project/closed; cat /project/closed/a.txt /project/mixed/b.txt")
        .await;
    assert_eq!(report["stdout"], "mine\na.txt\na\nb\n", "{report}");
    let report = project.run("cd /project; cat mixed/b.txt; echo x > private.txt").await;
    assert_eq!(report["stdout"], "b\n", "{report}");
    assert!(report["stderr"].as_str().unwrap().contains("Read-only"), "{report}");
    let workspaces = project.runs.runner.workspaces.path_of("one");
    let copies = std::fs::read_dir(workspaces.with_file_name("given")).unwrap().count();
    assert_eq!(copies, 0, "copies go when the run has ended");
}

#[tokio::test]
async fn what_is_too_large_is_refused_with_advice_or_left_out() {
    let project = Project::new().file(".env", "");
    for number in 0..300 {
        project.write(&format!("many/{number}.txt"), "");
        project.write(&format!("mixed/{number}.txt"), "");
    }
    project.write("mixed/.env", "");
    assert_eq!(project.run("ls /project/many | wc -l").await["stdout"], "300\n");
    // Of too many files, none is given: the command would compute with some of them.
    let ran = project.run("cat /project/many/*.txt").await;
    assert_ne!(ran["exit_code"], 0, "{ran}");
    let too_many = "the command does not see all that the request names: the request names more than 256 files of the \
                    project; name their directory instead";
    assert!(warnings(&ran).contains(&too_many), "{ran}");
    let mixed = "'/project/mixed' contains files that must not be read, and too many others";
    let ran = project.run("echo /project/mixed; cat /project/many/1.txt").await;
    assert_eq!(ran["exit_code"], 0, "{ran}");
    assert!(warnings(&ran)[0].contains(mixed), "{ran}");
    let session = project.session().await;
    for extra in [json!({"cwd": "/project/mixed"}), json!({"inputs": [{"from": "/project/mixed"}]})] {
        let mut arguments = json!({"skill": "kit", "command": "ls /project/mixed"});
        arguments.as_object_mut().unwrap().extend(extra.as_object().unwrap().clone());
        let text = refusal(&session, arguments).await;
        assert!(text.contains(mixed), "{text}");
    }
    assert_eq!(project.run("ls /project/mixed/1.txt").await["stdout"], "/project/mixed/1.txt\n");
    for number in 0..50_001 {
        std::fs::File::create(project.directory.join(format!("many/x{number}"))).unwrap();
    }
    let large = "'/project/many' has more than 50000 files; name the files";
    let text = refusal(&session, json!({"skill": "kit", "command": "ls", "cwd": "/project/many"})).await;
    assert!(text.contains(large), "{text}");
    let prose = json!({"skill": "kit", "command": "cat; cat /project/mixed/1.txt /project/small/a.txt",
        "stdin": "It reads files below /project/many\n"});
    project.write("small/a.txt", "small\n");
    let ran = report(&session, prose).await;
    assert_eq!(ran["stdout"], "It reads files below /project/many\nsmall\n", "{ran}");
    assert!(warnings(&ran)[0].contains(large), "{ran}");
}

/// A front end that gives the same reply to every question, and remembers them.
async fn asked(broker: &Arc<Broker>, reply: Reply, questions: usize) -> Vec<Question> {
    let mut front_end = broker.subscribe();
    let mut all = Vec::new();
    while all.len() < questions {
        if let Some(PermissionEvent::Asked(asked)) = front_end.next().await {
            broker.reply(asked.id, reply.clone()).await.unwrap();
            all.push(asked.question.clone());
        }
    }
    all
}

#[tokio::test]
async fn the_question_lists_what_is_given_and_always_covers_the_same_files() {
    let project = Project::new()
        .file("plan.json", "{}\n")
        .file("other.json", "{}\n")
        .file("src/x.py", "")
        .file("src/.env", "");
    symlink("plan.json", project.directory.join("current.json")).unwrap();
    let below = format!("{}*", project.directory.display());
    let rules = [Rule::new("run", "*", Decision::Ask), Rule::new("read", &below, Decision::Allow)];
    let policy = Policy::new().rules(RuleSource::BuiltInAgent, rules.into_iter().chain(secret_files()));
    let broker = Broker::in_memory();
    let permissions = Permissions::new(Arc::clone(&broker), "one", policy);
    let session = session(&project.library, permissions, project.runs.clone()).await;
    let arguments = json!({"skill": "kit", "command": "cat /project/current.json; ls /project/src"});
    let (questions, _) =
        tokio::join!(asked(&broker, Reply::Always, 1), async { report(&session, arguments.clone()).await });
    let details = questions[0].wording().details;
    let detail =
        |name: &str| details.iter().find(|detail| detail.name == name).map(|detail| detail.text.clone());
    let real = project.directory.display();
    assert_eq!(detail("can read").unwrap(), format!("{real}/plan.json\n{real}/src/"));
    assert_eq!(detail("except").unwrap(), format!("{real}/src/.env"));
    // The same files: no question.
    report(&session, arguments.clone()).await;
    // The link leads to another file: the approval does not cover it.
    std::fs::remove_file(project.directory.join("current.json")).unwrap();
    symlink("other.json", project.directory.join("current.json")).unwrap();
    assert!(refusal(&session, arguments).await.contains("Permission for run"));
}

/// Rules that ask about reading also ask about files that a run is given, once for each.
#[tokio::test]
async fn files_that_rules_ask_about_need_their_own_question() {
    let project = Project::new().file("a.txt", "a\n").file("src/b.txt", "b\n");
    let rules = [Rule::new("run", "*", Decision::Allow), Rule::new("read", "*", Decision::Ask)];
    let broker = Broker::in_memory();
    let policy = Policy::new().rules(RuleSource::User, rules);
    let permissions = Permissions::new(Arc::clone(&broker), "one", policy);
    let session = session(&project.library, permissions, project.runs.clone()).await;
    let arguments = json!({"skill": "kit", "command": "cat /project/a.txt; ls /project/src"});
    let (questions, report) =
        tokio::join!(asked(&broker, Reply::Once, 2), async { report(&session, arguments.clone()).await });
    let titles: Vec<String> = questions.iter().map(|question| question.wording().title).collect();
    let real = project.directory.display();
    assert_eq!(
        titles,
        [
            format!("let skill 'kit' read the file {real}/a.txt"),
            format!("let skill 'kit' read all files in {real}/src")
        ]
    );
    assert_eq!(report["stdout"], "a\nb.txt\n");
    let (_, text) =
        tokio::join!(asked(&broker, Reply::Reject { message: None }, 1), refusal(&session, arguments));
    assert!(text.contains("Error"), "{text}");
    // What is left out of a directory is a part of the question.
    project.write("src/deep/private.txt", "no\n");
    let denied = Rule::new("read", &format!("{real}/src/deep/*"), Decision::Deny);
    let rules = [Rule::new("run", "*", Decision::Allow), Rule::new("read", "*", Decision::Ask), denied];
    let policy = Policy::new().rules(RuleSource::User, rules);
    let permissions = Permissions::new(Arc::clone(&broker), "two", policy);
    let session = crate::runs::session(&project.library, permissions, project.runs.clone()).await;
    let arguments = json!({"skill": "kit", "command": "ls /project/src"});
    let (questions, _) = tokio::join!(asked(&broker, Reply::Once, 1), async {
        crate::given::report(&session, arguments).await
    });
    let wording = questions[0].wording();
    assert_eq!(wording.title, format!("let skill 'kit' read files in {real}/src"));
    let details: Vec<_> =
        wording.details.iter().map(|detail| (detail.name.as_str(), detail.text.as_str())).collect();
    let left_out = format!("[\"{real}/src/deep\"]");
    assert_eq!(details, [("command", "ls /project/src"), ("left out", left_out.as_str())]);
}

#[tokio::test]
async fn interactive_commands_see_the_same() {
    let project = Project::new().file("plan.json", "{}\n").file(".env", "KEY=1\n");
    let session = project.session().await;
    let start = async |command: &str| {
        session.call("skill_exec", json!({"skill": "kit", "command": command, "yield_ms": 30_000})).await
    };
    let answer = start("cat /project/plan.json").await;
    assert!(answer.text.contains(r#""output":"{}\n""#), "{}", answer.text);
    let answer = start("cat plan.json").await;
    assert!(answer.text.contains("the command did not see `/project/plan.json`"), "{}", answer.text);
    let answer = start("cat /project/.env").await;
    assert!(answer.is_error && answer.text.contains("usually holds secrets"), "{}", answer.text);
}

/// Files of the conversation, such as large answers, are the agent's own.
#[tokio::test]
async fn a_place_of_the_conversation_is_given_without_a_question() {
    let mut project = Project::new();
    let kept = project.directory.with_file_name("large");
    std::fs::create_dir(&kept).unwrap();
    std::fs::write(kept.join("1.txt"), "large\n").unwrap();
    project.runs.tree = project.runs.tree.place("/work/large_tool_results", &kept);
    let session = project.session().await;
    let request =
        json!({"skill": "kit", "command": "cat /work/large_tool_results/1.txt; ls /work/large_tool_results"});
    assert_eq!(report(&session, request.clone()).await["stdout"], "large\n1.txt\n");
    let denied = format!("{}*", kept.display());
    let policy = project.policy().rules(RuleSource::User, [Rule::new("read", &denied, Decision::Deny)]);
    let text = refusal(&project.session_under(policy).await, request).await;
    assert!(text.contains("must not be read"), "{text}");
}

/// Without a project in the tree, a path is only text.
#[tokio::test]
async fn without_a_project_nothing_is_given() {
    let mut project = Project::new().file("a.txt", "a\n");
    project.runs.tree = prowess_workspace::tree::Tree::new(Path::new("/nowhere"));
    let report = project.run("cat /project/a.txt").await;
    assert_ne!(report["exit_code"], 0);
    assert_eq!(warnings(&report), [""; 0]);
}
