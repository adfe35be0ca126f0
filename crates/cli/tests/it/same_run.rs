//! `prowess run` and a model's `skill_run` in chat are the same run: the same command in the same skill has the same
//! surroundings, results and refusals.

use std::os::unix::fs::PermissionsExt as _;

use serde_json::{Value, json};

use crate::model::{Answer, FakeModel};
use crate::pty::Pty;
use crate::world::World;

const CONFIG: &str = "home/.config/prowess/prowess.toml";

/// A home with a model, these rules, and skills: one for everybody, and two that name shells.
fn world(model: &FakeModel, rules: &str) -> World {
    let world = World::new();
    for path in ["", "home"] {
        std::fs::set_permissions(world.path(path), std::fs::Permissions::from_mode(0o711)).unwrap();
    }
    let text =
        |name: &str, more: &str| format!("---\nname: {name}\ndescription: Is {name}.\n{more}---\n\nRun.\n");
    for (name, more) in [("tides", ""), ("plain", "shell: sh\n"), ("odd", "shell: zsh\n")] {
        world.file(&format!("home/.prowess/skills/{name}/SKILL.md"), &text(name, more));
    }
    world
        .file("home/.prowess/skills/tides/scripts/tide.sh", "echo high\n")
        .file("home/.prowess/skills/plain/data.txt", "egret\n")
        .file("project/note.txt", "heron\n")
        .file("project/mixed/note.txt", "heron\n")
        .file("project/mixed/.env", "HUSH=1\n")
        .file("project/private/key.txt", "HERON\n")
        .file(
            CONFIG,
            &format!(
                "[model]\nname = \"fake:m\"\ncontext_window = 100000\n[provider.fake]\napi = \"openai\"\nbase_url = \"{}\"\n\
                 [sandbox]\nhosts = [\"allowed.example\", \"denied.example\"]\n{rules}",
                model.url()
            ),
        );
    world
}

/// What came of a request: a report, or nothing ran.
#[derive(Debug)]
enum Ran {
    Report(Value),
    Nothing(String),
}

impl Ran {
    fn report(&self) -> &Value {
        match self {
            Self::Report(report) => report,
            Self::Nothing(why) => panic!("nothing ran: {why}"),
        }
    }

    fn why(&self) -> &str {
        match self {
            Self::Nothing(why) => why,
            Self::Report(report) => panic!("it ran: {report}"),
        }
    }
}

/// The same request, typed by a person and called by a model, whom the person allows everything.
fn both(rules: &str, skill: &str, command: &str, options: &[&str], arguments: &Value) -> [Ran; 2] {
    let mut call = json!({"skill": skill, "command": command, "output_files": ["out/**"]});
    for (name, value) in arguments.as_object().unwrap() {
        call[name] = value.clone();
    }
    let model = FakeModel::start(vec![Answer::call("skill_run", Value::Null), Answer::text("Done.")]);
    let world = world(&model, rules);
    // Paths of this world are known only now.
    let here = world.path("project").to_string_lossy().into_owned();
    let call: Value = serde_json::from_str(&call.to_string().replace("HERE", &here)).unwrap();
    let model = FakeModel::start(vec![Answer::call("skill_run", call), Answer::text("Done.")]);
    let config = std::fs::read_to_string(world.path(CONFIG)).unwrap();
    let line = config.lines().find(|line| line.starts_with("base_url")).unwrap().to_owned();
    world.file(CONFIG, &config.replace(&line, &format!("base_url = \"{}\"", model.url())));

    let args = [&["run", skill, "--json", "--out", "out/**"], options, &["--", command]].concat();
    let output = world.output(&args);
    let typed = match output.status.code() {
        Some(125) => Ran::Nothing(String::from_utf8(output.stderr).unwrap()),
        _ => Ran::Report(serde_json::from_slice(&output.stdout).unwrap()),
    };
    let output = world.output(&["chat", "--yes", "Run it"]);
    let requests = model.requests();
    assert_eq!(requests.len(), 2, "{}", world.told(&output));
    let answer = requests[1]["messages"].as_array().unwrap().last().unwrap()["content"].as_str().unwrap();
    let called = match serde_json::from_str::<Value>(answer) {
        Ok(report) => Ran::Report(report),
        Err(_) => Ran::Nothing(answer.to_owned()),
    };
    [typed, called]
}

/// The parts of two reports that do not depend on when and where they were made.
fn assert_same(both: &[Ran; 2]) {
    let [typed, mut called] = both.each_ref().map(|ran| ran.report().clone());
    // A person reads where the workspace is, and a model the paths that its other tools take.
    for file in called["output_files"].as_array_mut().into_iter().flatten() {
        file.as_object_mut().unwrap().remove("path");
    }
    for part in ["stdout", "stderr", "exit_code", "timed_out", "output_files", "warnings", "sandbox"] {
        assert_eq!(typed[part], called[part], "{part}: {typed}\n{called}");
    }
}

#[test]
fn the_environment_the_shell_the_directory_and_the_limits_are_the_same() {
    let look = "env | grep -v '^_=\\|^RUN_DIR=' | sort; pwd; \
                ulimit -a; id -u; echo $0 ${BASH_VERSION:+bash}; ls -a . work out; cat < /dev/null; ls /home /root 2>&1";
    let both = both("", "tides", look, &["--env", "TIDE=low"], &json!({"env": {"TIDE": "low"}}));
    assert_same(&both);
    let seen = both[0].report()["stdout"].as_str().unwrap();
    assert!(seen.contains("TIDE=low\n") && seen.contains("SKILL_NAME=tides\n"), "{seen}");
    assert!(seen.contains("WORK_DIR=/work/work\n") && seen.contains("OUTPUT_DIR=/work/out\n"), "{seen}");
    assert!(seen.contains("\n/skills/tides\n") && seen.contains("bash\n"), "{seen}");
}

#[test]
fn a_pattern_without_a_file_is_warned_about_alike() {
    let ran = both("", "tides", "true", &[], &json!({}));
    assert_same(&ran);
    assert_eq!(ran[1].report()["warnings"], json!(["`out/**` matched no file"]));
}

#[test]
fn a_shell_that_a_skill_names_is_the_same_or_refused_alike() {
    let shell = "echo ${BASH_VERSION:-none}";
    let ran = both("", "plain", shell, &[], &json!({}));
    assert_same(&ran);
    assert_eq!(ran[0].report()["stdout"], "none\n");
    for refused in both("", "odd", shell, &[], &json!({})) {
        let why = refused.why().replace('`', "'");
        assert!(why.contains("asks for the shell 'zsh'; only bash and sh are possible"), "{refused:?}");
    }
}

#[test]
fn directories_inputs_and_outputs_are_the_same() {
    let command = "cat ../work/inputs/note.txt ../work/other; pwd | sed \"s#$WORKSPACE_DIR#WS#\"; echo low > $OUTPUT_DIR/a.txt; exit 3";
    let both = both(
        "",
        "tides",
        &command.replace("../", "$WORKSPACE_DIR/"),
        &["--cwd", "scripts", "--input", "note.txt", "--link", "skill://plain/data.txt=work/other"],
        &json!({"cwd": "scripts", "inputs": [
            {"from": "host://HERE/note.txt"},
            {"from": "skill://plain/data.txt", "to": "work/other", "mode": "link"},
        ]}),
    );
    assert_same(&both);
    let report = both[0].report();
    assert_eq!(report["stdout"], "heron\negret\n/skills/tides/scripts\n");
    assert_eq!((&report["exit_code"], &report["output_files"][0]["content"]), (&json!(3), &json!("low\n")));
}

#[test]
fn time_ends_both_alike() {
    let both = both("", "tides", "echo begun; sleep 30", &["--timeout", "1"], &json!({"timeout": 1}));
    assert_same(&both);
    assert_eq!(both[0].report()["timed_out"], true);
}

#[test]
fn what_rules_deny_is_denied_to_both() {
    for (rules, command, options, arguments) in [
        ("[permission.run]\n\"* push *\" = \"deny\"\n", "echo push it", &[][..], json!({})),
        // What gives a command another meaning has subjects of its own.
        (
            "[permission.run]\n\"tides env TIDE=*\" = \"deny\"\n",
            "true",
            &["--env", "TIDE=low"],
            json!({"env": {"TIDE": "low"}}),
        ),
        (
            "[permission.run]\n\"tides cwd scripts\" = \"deny\"\n",
            "true",
            &["--cwd", "scripts"],
            json!({"cwd": "scripts"}),
        ),
        (
            "[permission.network]\n\"denied.example\" = \"deny\"\n",
            "true",
            &["--allow-host", "denied.example"],
            json!({"network": ["denied.example"]}),
        ),
        (
            "[permission.read]\n\"./private/*\" = \"deny\"\n",
            "cat work/inputs/*",
            &["--input", "private/key.txt"],
            json!({"inputs": [{"from": "host://HERE/private/key.txt"}]}),
        ),
        (
            "[permission.read]\n\"./private/*\" = \"deny\"\n",
            "cat work/inputs/*/*",
            &["--input", "private"],
            json!({"inputs": [{"from": "host://HERE/private"}]}),
        ),
        (
            "[permission.skill]\n\"plain\" = \"deny\"\n",
            "cat work/inputs/*",
            &["--input", "skill://plain/data.txt"],
            json!({"inputs": [{"from": "skill://plain/data.txt"}]}),
        ),
        (
            "",
            "true",
            &["--input", "workspace://skills/plain/data.txt"],
            json!({"inputs": [{"from": "workspace://skills/plain/data.txt"}]}),
        ),
        ("", "true", &["--env", "LD_PRELOAD=/x.so"], json!({"env": {"LD_PRELOAD": "/x.so"}})),
        ("", "true", &["--cwd", "../.."], json!({"cwd": "../.."})),
    ] {
        for ran in both(rules, "tides", command, options, &arguments) {
            let why = ran.why();
            assert!(!why.contains("HERON") && !why.is_empty(), "{rules}: {why}");
        }
        // Without the rule it runs, for the person as for the model.
        if !rules.is_empty() && !rules.contains("network") {
            assert_same(&both("", "tides", command, options, &arguments));
        }
    }
}

#[test]
fn a_person_is_told_which_rule_denies_a_host_or_a_variable() {
    let model = FakeModel::start(Vec::new());
    let world = world(
        &model,
        "[permission.network]\n\"*.example\" = \"deny\"\n[permission.run]\n\"tides env TIDE=*\" = \"deny\"\n",
    );
    for (options, expected) in [
        (
            ["--allow-host", "denied.example"],
            "nothing ran: the host denied.example is denied by [permission.network] \"*.example\" = \"deny\" in your prowess.toml",
        ),
        (
            ["--env", "TIDE=low"],
            "nothing ran: run `tides env TIDE=low` is denied by [permission.run] \"tides env TIDE=*\" = \"deny\" in your \
             prowess.toml",
        ),
    ] {
        let output = world.output(&[&["run", "tides"], &options[..], &["--", "true"]].concat());
        let told = String::from_utf8(output.stderr).unwrap();
        assert_eq!(output.status.code(), Some(125), "{told}");
        assert!(told.contains(expected), "{told}");
    }
}

/// Whoever named a directory has not named the secrets in it.
#[test]
fn secrets_in_a_directory_are_asked_about_and_a_file_that_was_named_is_given() {
    let model = FakeModel::start(Vec::new());
    let world = world(&model, "");
    let show = ["--", "find work/inputs -type f | sort | xargs cat"];
    let run = |input: &str| world.output(&[&["run", "tides", "--input", input], &show[..]].concat());
    let output = run("mixed");
    let told = String::from_utf8(output.stderr).unwrap();
    assert_eq!((output.status.code(), output.stdout.len()), (Some(125), 0), "{told}");
    assert!(told.contains("/project/mixed/.env, which usually holds secrets"), "{told}");
    assert!(told.contains("[permission.read]"), "{told}");
    // Named, it is given; so it is where a rule names it.
    let named = run("mixed/.env");
    assert_eq!(String::from_utf8(named.stdout).unwrap(), "HUSH=1\n");
    let config = std::fs::read_to_string(world.path(CONFIG)).unwrap();
    world.file(CONFIG, &format!("{config}[permission.read]\n\"./mixed/.env\" = \"allow\"\n"));
    assert_eq!(String::from_utf8(run("mixed").stdout).unwrap(), "HUSH=1\nheron\n");
    world.file(CONFIG, &config);
    // At a terminal the person is asked, and sees which.
    for (answer, code, expected) in
        [("y\r", Some(0), "HUSH=1"), ("n\r", Some(125), "you said no, so the command")]
    {
        let mut pty =
            Pty::start(&world, &[&["run", "tides", "--input", "mixed"], &show[..]].concat(), 120, 20);
        let asked = pty.wait_for("Give them to the command? [y/N]");
        assert!(asked.contains("mixed/.env"), "{asked}");
        pty.press(answer);
        assert_eq!(pty.wait(), code, "{}", pty.everything());
        assert!(pty.everything().contains(expected), "{}", pty.everything());
    }
}

/// A person may start what a model must not, and give a skill its own files.
#[test]
fn a_person_runs_skills_that_models_do_not_start() {
    let model = FakeModel::start(Vec::new());
    let world = world(&model, "[permission]\nskill = \"ask\"\nrun = \"ask\"\nread = \"ask\"\n");
    world
        .file(
            "home/.prowess/skills/launch/SKILL.md",
            "---\nname: launch\ndescription: Starts.\ndisable-model-invocation: true\nuser-invocable: false\n---\n\nGo.\n",
        )
        .file("home/.prowess/skills/launch/own.txt", "own\n");
    let own = world.path("home/.prowess/skills/launch/own.txt").to_string_lossy().into_owned();
    let args = [
        "run",
        "launch",
        "--input",
        &own,
        "--input",
        "skill://tides/SKILL.md",
        "--",
        "cat work/inputs/own.txt",
    ];
    assert_eq!(world.stdout(&args), "own\n");
}

#[test]
fn a_variable_that_loads_code_passes_for_both_if_the_configuration_says_so() {
    let (options, arguments) =
        (["--env", "NODE_OPTIONS=--no-warnings"], json!({"env": {"NODE_OPTIONS": "--no-warnings"}}));
    for refused in both("", "tides", "true", &options, &arguments) {
        assert!(refused.why().contains("NODE_OPTIONS"), "{refused:?}");
    }
    let allowed = "allow_loaders = [\"NODE_OPTIONS\"]\n";
    let ran = both(allowed, "tides", "echo $NODE_OPTIONS", &options, &arguments);
    assert_same(&ran);
    assert_eq!(ran[0].report()["stdout"], "--no-warnings\n");
}
