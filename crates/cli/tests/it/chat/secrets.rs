//! Files that mostly have secrets are asked about wherever they lie.

use serde_json::json;

use super::*;

/// Files of a home that nobody should read unasked, the program's own first.
const SECRETS: [&str; 40] = [
    ".local/state/prowess/mcp-token",
    ".local/state/prowess/trust.json",
    ".local/state/prowess/history",
    ".config/prowess/other.toml",
    ".aws/credentials",
    ".netrc",
    ".kube/config",
    ".docker/config.json",
    ".npmrc",
    ".pypirc",
    ".mozilla/firefox/abc.default/logins.json",
    ".config/google-chrome/Default/Cookies",
    ".config/chromium/Default/History",
    ".config/BraveSoftware/Brave-Browser/Default/Login Data",
    ".config/microsoft-edge/Default/Cookies",
    ".ssh/id_rsa",
    ".ssh/config",
    ".gnupg/private-keys-v1.d/a.key",
    ".git-credentials",
    ".pgpass",
    ".my.cnf",
    ".config/gcloud/application_default_credentials.json",
    ".azure/accessTokens.json",
    ".terraform.d/credentials.tfrc.json",
    ".cargo/credentials.toml",
    ".gem/credentials",
    ".config/gh/hosts.yml",
    ".vault-token",
    ".local/share/keyrings/login.keyring",
    ".local/share/kwalletd/kdewallet.kwl",
    ".password-store/bank.gpg",
    "site/Server.PEM",
    "site/tls/server.key",
    "site/store.p12",
    "site/store.jks",
    "site/vault.kdbx",
    "site/.env",
    "site/.ENV.production",
    "site/config/secrets.yaml",
    ".bash_history",
];

fn home(model: &FakeModel) -> World {
    let world = world(model);
    for path in SECRETS {
        world.file(&format!("home/{path}"), "line one\nHERON\n");
    }
    world.file("home/site/notes.md", "an egret\n");
    world
}

fn chat_at_home(world: &World, args: &[&str]) -> String {
    let args = [&["chat"], args].concat();
    let output = world.command(&args).current_dir(world.path("home")).output().unwrap();
    stable(world, &world.told(&output))
}

#[test]
fn case_108_secret_files_are_asked_about() {
    // All in one turn: each call that is let pass has its answer in the thread.
    let mut answer = Answer::call("read_file", json!({"file_path": "/site/notes.md"}));
    for path in SECRETS {
        answer = answer.and_call("read_file", json!({"file_path": format!("/project/{path}")}));
    }
    let model = FakeModel::start(vec![answer, Answer::text("Done.")]);
    let world = home(&model);
    let told = chat_at_home(&world, &["--json", "look"]);
    let read: Vec<&str> = told.lines().filter(|line| line.contains("HERON")).collect();
    assert!(read.is_empty(), "{}", read.join("\n"));
    assert!(told.contains("an egret"), "{told}");
    assert_eq!(model.requests().len(), 1, "all others wait: {told}");
    // Each of them is read once somebody says yes.
    let told = chat_at_home(&world, &["--resume", "last", "--yes"]);
    let read = all(&model.requests()[1]);
    assert_eq!(read.matches("HERON").count(), SECRETS.len(), "{read}\n{told}");
}

#[test]
fn case_108_a_search_prints_no_line_of_a_secret_file() {
    for rules in ["", "[permission]\nread = \"allow\"\n", "[permission]\nread = \"ask\"\n"] {
        let model = FakeModel::start(vec![
            Answer::call("grep", json!({"pattern": "HER.*|egre."}))
                .and_call("grep", json!({"pattern": "HER.*", "path": "/site"})),
            Answer::text("Done."),
        ]);
        let world = home(&model);
        configure(&world, &model.url(), rules);
        let told = chat_at_home(&world, &["--yes", "look"]);
        let found = all(&model.requests()[1]);
        assert!(!found.contains("HERON"), "{rules}: {found}\n{told}");
        assert!(found.contains("an egret") && found.contains("needs permission"), "{rules}: {found}");
    }
}

#[test]
fn case_108_secret_files_come_into_no_run_unasked() {
    for (rules, from) in [
        ("", "home/.aws/credentials"),
        ("", "home/.local/state/prowess/mcp-token"),
        ("", "home/site"),
        ("[permission.read]\n\"*\" = \"allow\"\n", "home/.kube/config"),
        ("[permission.read]\n\"*\" = \"allow\"\n", "home"),
    ] {
        let unused = FakeModel::start(Vec::new());
        let world = home(&unused);
        let input = json!({"from": format!("host://{}", world.path(from).display())});
        let call =
            json!({"skill": "tides", "command": "find work/inputs -type f | xargs cat", "inputs": [input]});
        let model = FakeModel::start(vec![Answer::call("skill_run", call), Answer::text("Done.")]);
        configure(&world, &model.url(), &format!("[permission.run]\n\"tides *\" = \"allow\"\n{rules}"));
        let told = chat_at_home(&world, &["look"]);
        assert!(told.contains("a question is waiting"), "{from}: {told}");
    }
}

/// What was taken out of a model's sight is kept among the program's own files, and read by that model without a question.
#[test]
fn what_was_put_away_for_the_model_is_its_own() {
    let model = FakeModel::start(vec![
        Answer::call("ls", json!({"path": "/large_tool_results"}))
            .and_call("ls", json!({"path": "/conversation_history"})),
        Answer::text("Done."),
    ]);
    let world = home(&model);
    let told = chat_at_home(&world, &["look"]);
    assert!(told.starts_with("exit 0"), "{told}");
    assert_eq!(all(&model.requests()[1]).matches("(the directory is empty)").count(), 2, "{told}");
}

/// Workspaces and artifacts of other threads are the program's own, wherever the person has them kept.
#[test]
fn case_108_files_of_other_threads_are_asked_about_where_they_are_kept() {
    let unused = FakeModel::start(Vec::new());
    let world = world(&unused);
    std::fs::set_permissions(world.path(""), std::os::unix::fs::PermissionsExt::from_mode(0o711)).unwrap();
    for kept in ["artifacts", "workspaces"] {
        world.file(&format!("project/ws/{kept}/other/note.txt"), "HERON\n");
    }
    world.file("project/ws/own.txt", "an egret\n");
    for path in ["ws/artifacts/other/note.txt", "ws/workspaces/other/note.txt"] {
        let host = format!("host://{}", world.path("project").join(path).display());
        let shows = json!({"skill": "tides", "command": "cat work/inputs/*", "inputs": [{"from": host}]});
        for call in [
            Answer::call("read_file", json!({"file_path": format!("/project/{path}")})),
            Answer::call("skill_run", shows),
        ] {
            let model = FakeModel::start(vec![
                call.and_call("read_file", json!({"file_path": "/project/ws/own.txt"})),
                Answer::text("Done."),
            ]);
            let rules = "[permission]\nread = \"allow\"\nrun = \"allow\"\n";
            configure(&world, &model.url(), rules);
            let told = world.run(&["chat", "--json", "--workspace", "ws", "look"]);
            assert!(told.contains("an egret") && !told.contains("HERON"), "{path}: {told}");
            assert_eq!(model.requests().len(), 1, "it waits: {told}");
        }
    }
}
