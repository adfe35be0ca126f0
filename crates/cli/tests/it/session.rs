//! `session`: what a person sees of one that they drive by hand.

use std::path::Path;
use std::process::Stdio;

use insta::assert_snapshot;
use serde_json::{Value, json};

use crate::world::World;

/// Two skills of the user's, one of them with documents, and one that waits for a file.
fn furnished() -> World {
    let world = World::new();
    world
        .skill("home/.prowess/skills", "tide-tables", "Looks up tides. Use before boat trips.")
        .file(
            "home/.prowess/skills/kite-maker/SKILL.md",
            "---\nname: kite-maker\ndescription: Builds kites. Use on windy days.\nallowed-tools: Bash(knot:*)\n---\nTie $ARGUMENTS.\n",
        )
        .file("home/.prowess/skills/kite-maker/references/tail.md", "Long tails fly.\n")
        .file("home/.prowess/skills/kite-maker/references/my frame.md", "Light frames fly.\n")
        .file(
            "home/.prowess/skills/chart-reader/SKILL.md",
            "---\nname: chart-reader\ndescription: Reads charts. Use for maps.\npaths: '*.chart'\n---\nRead.\n",
        );
    world
}

/// The text of a run, without what the secret of a session and the length of a path change.
fn stable(text: &str) -> String {
    let mut stable = String::new();
    let mut rest = text;
    while let Some(at) = rest.find("nonce=\"") {
        let (before, after) = rest.split_at(at + "nonce=\"".len());
        stable.push_str(before);
        stable.push_str("[NONCE]");
        rest = after.find('"').map_or("", |end| &after[end..]);
    }
    stable.push_str(rest);
    let lines: Vec<String> = stable.lines().map(uncounted).collect();
    lines.join("\n")
}

/// A line without numbers of tokens: those before the word, and the second column of a table.
fn uncounted(line: &str) -> String {
    if let [name, _, rest @ ..] = line.split('\t').collect::<Vec<_>>().as_slice() {
        return [&[*name, "[N]"][..], rest].concat().join("\t");
    }
    let words: Vec<&str> = line.split(' ').collect();
    let word = |(at, word): (usize, &&str)| {
        let is_counted = words.get(at + 1).is_some_and(|next| next.starts_with("token"));
        let number = word.trim_start_matches('(');
        let is_number = !number.is_empty() && number.bytes().all(|byte| byte.is_ascii_digit());
        if is_counted && is_number { word.replace(number, "[N]") } else { (*word).to_owned() }
    };
    words.iter().enumerate().map(word).collect::<Vec<_>>().join(" ")
}

/// The same with short lines, and with only the ends of skills' texts.
fn brief(text: &str) -> String {
    let mut lines = Vec::new();
    let mut is_inside = false;
    for line in stable(text).lines() {
        is_inside &= !line.starts_with("</skill nonce=");
        if is_inside {
            continue;
        }
        lines.push(match line.char_indices().nth(110) {
            Some((end, _)) => format!("{}…", &line[..end]),
            None => line.to_owned(),
        });
        if line.starts_with("<skill name=") {
            is_inside = true;
            lines.push("[…]".to_owned());
        }
    }
    lines.join("\n")
}

/// The objects that a run with --json prints.
fn objects(output: &std::process::Output) -> Vec<Value> {
    let text = std::str::from_utf8(&output.stdout).unwrap();
    text.lines().map(|line| serde_json::from_str(line).unwrap()).collect()
}

#[test]
fn the_walk_through_tells_a_story() {
    let world = World::new();
    let examples = Path::new(env!("CARGO_MANIFEST_DIR")).ancestors().nth(2).unwrap().join("examples");
    let skills = examples.join("skills").to_string_lossy().into_owned();
    let script = std::fs::read(examples.join("session.txt")).unwrap();
    let output = world.fed(&["session", "--only", "--root", &skills, "--show", "list"], script);
    let told = world.told(&output).replace(&skills, "[EXAMPLES]");
    assert_snapshot!(brief(&told));
}

#[test]
fn every_command_does_what_help_says() {
    let world = furnished();
    let script = "help\n\
        load kite-maker two knots\n\
        docs kite-maker\n\
        select kite-maker replace 'references/my frame.md'\n\
        select kite-maker add *\n\
        loaded\n\
        select kite-maker clear\n\
        history\n\
        files sea.chart shore.txt\n\
        files shore.txt\n\
        compact\n\
        tool bash knot -t\n\
        tool bash rm x\n\
        tool python\n\
        /tide-tables\n\
        unload tide-tables\n\
        call unload_skill {\"skill_name\": \"tide-tables\"}\n\
        call fly\n\
        step\n\
        turn\n\
        refresh\n\
        loaded\n\
        quit\n\
        load never\n";
    let args = ["session", "--show", "answer", "--lifetime", "turn", "--allowed-tools", "restrict", "--stub"];
    assert_snapshot!(brief(&world.told(&world.fed(&args, script))));
}

#[test]
fn the_prompt_is_shown_after_every_change() {
    let world = furnished();
    let output = world.output(&["session", "-c", "load tide-tables", "-c", "docs tide-tables"]);
    assert_snapshot!(stable(&world.told(&output)));
}

#[test]
fn the_system_message_has_loaded_text_where_that_is_its_place() {
    let world = furnished();
    let output = world.output(&[
        "session",
        "--dialect",
        "trpc",
        "-c",
        "load tide-tables",
        "-c",
        "prompt",
        "-c",
        "turn",
    ]);
    assert_snapshot!(stable(&world.told(&output)));
}

#[test]
fn a_dialect_without_a_prompt_says_where_to_look() {
    let world = furnished();
    let output = world.output(&["session", "--dialect", "opencode", "-c", "prompt", "-c", "tools"]);
    assert_snapshot!(world.told(&output));
}

#[test]
fn refresh_says_what_changed() {
    let world = furnished();
    let mut child = world
        .command(&["session", "--json", "--show", "list"])
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let mut input = child.stdin.take().unwrap();
    let mut output = std::io::BufReader::new(child.stdout.take().unwrap());
    let mut say = |line: &str| -> Value {
        use std::io::{BufRead as _, Write as _};
        writeln!(input, "{line}").unwrap();
        let mut answer = String::new();
        output.read_line(&mut answer).unwrap();
        serde_json::from_str(&answer).unwrap()
    };
    assert_eq!(say("load tide-tables")["is_error"], false);
    assert_eq!(say("refresh")["text"], "Nothing changed.");
    world.skill("home/.prowess/skills", "lamp-reset", "Resets lamps. Use at dusk.");
    std::fs::remove_dir_all(world.path("home/.prowess/skills/tide-tables")).unwrap();
    let refreshed = say("refresh");
    assert_eq!(
        refreshed["text"],
        "Added: lamp-reset\n\nRemoved: tide-tables\n\n`tide-tables` is loaded, but no longer exists."
    );
    assert_eq!(refreshed["data"]["stale"], json!([{"name": "tide-tables", "why": "gone"}]));
    assert!(refreshed["prompt"].as_str().unwrap().contains("lamp-reset"));
    drop(input);
    assert_eq!(child.wait().unwrap().code(), Some(0));
}

#[test]
fn json_is_one_object_a_command_and_nothing_else() {
    let world = furnished();
    let output = world.fed(
        &["session", "--json"],
        "# a comment\nload kite-maker x\nselect kite-maker add *\nloaded\ntools\nstate\nprompt\nhistory\nlod\n\nunload nobody\n",
    );
    let objects = objects(&output);
    let brief: Vec<Value> = objects
        .iter()
        .map(|object| {
            let changes: Vec<&str> = object["deltas"]
                .as_array()
                .unwrap()
                .iter()
                .map(|delta| delta["change"].as_str().unwrap())
                .collect();
            json!([object["command"], object["is_error"], changes, object.get("prompt").is_some()])
        })
        .collect();
    assert_eq!(
        json!(brief),
        json!([
            ["load kite-maker x", false, ["loaded"], true],
            ["select kite-maker add *", false, ["selected"], true],
            ["loaded", false, [], false],
            ["tools", false, [], false],
            ["state", false, [], false],
            ["prompt", false, [], false],
            ["history", false, [], false],
            ["lod", true, [], false],
            ["unload nobody", true, [], false],
        ])
    );
    assert_eq!(objects[2]["data"]["slots"], json!({"used": 1, "most": 10}));
    assert_eq!(objects[2]["loaded"][0]["documents"].as_array().unwrap().len(), 2);
    assert_eq!(objects[3]["data"][0]["name"], "load_skill");
    assert_eq!(objects[4]["data"]["skills_loaded"], json!(["kite-maker"]));
    assert!(objects[5]["text"].as_str().unwrap().contains("[Loaded]"));
    assert_eq!((output.status.code(), output.stderr.len()), (Some(1), 0));
}

/// A program that asks is started, answered and ended by hand, each step past the gate.
#[test]
fn commands_are_run_by_hand() {
    let world = World::new();
    world.skill("home/.prowess/skills", "kite-maker", "Builds kites.");
    world.file("project/rules.toml", "[permission.run]\n\"kite-maker *\" = \"ask\"\n");
    let place = tempfile::tempdir().unwrap();
    std::fs::set_permissions(place.path(), std::os::unix::fs::PermissionsExt::from_mode(0o711)).unwrap();
    let place = place.path().to_str().unwrap();
    let args =
        |more: &[&'static str]| [&["session", "--json", "--run", "--workspace", place][..], more].concat();
    let arguments = json!({"skill": "kite-maker", "command": "read -p 'Wind? ' wind; echo $wind", "tty": true,
        "yield_ms": 20_000});
    let script = format!("call skill_exec {arguments}\nyes\n");
    let output = world.fed(&args(&["--dialect", "trpc", "--permissions", "rules.toml"]), script);
    let asked = objects(&output).remove(0);
    assert_eq!((&asked["is_error"], &asked["data"]["output"]), (&json!(false), &json!("Wind? ")), "{asked}");
    // Every dialect has tools that run commands.
    for dialect in ["deepagents", "opencode"] {
        let arguments = json!({"skill": "kite-maker", "command": "echo flies"});
        let script = format!("call skill_run {arguments}\nyes\n");
        let output = world.fed(&args(&["--dialect", dialect, "--permissions", "rules.toml"]), script);
        let ran = objects(&output).remove(0);
        assert_eq!((&ran["is_error"], &ran["data"]["stdout"]), (&json!(false), &json!("flies\n")), "{ran}");
    }
}

const ASKING: &str = "[permission.skill]\n\"*\" = \"ask\"\n\"chart-reader\" = \"deny\"\n";

#[test]
fn a_script_answers_what_is_asked() {
    let world = furnished();
    world.file("project/rules.toml", ASKING);
    let script = "load kite-maker x\n\
        no not in this wind\n\
        load kite-maker x\n\
        yes\n\
        unload kite-maker\n\
        load kite-maker x\n\
        always\n\
        unload kite-maker\n\
        # Remembered, so that this line is no answer:\n\
        load kite-maker x\n\
        load chart-reader\n\
        load tide-tables\n\
        loaded\n\
        load tide-tables\n";
    let output = world.fed(&["session", "--show", "answer", "--permissions", "rules.toml"], script);
    assert_snapshot!(brief(&world.told(&output)));
}

#[test]
fn approvals_are_kept_in_a_file() {
    let world = furnished();
    world.file("project/rules.toml", ASKING);
    let args = ["session", "--json", "--permissions", "rules.toml", "--approvals", "kept/approvals.json"];
    let first = objects(&world.fed(&args, "load tide-tables\nalways\n"));
    assert_eq!(first[0]["asked"][0]["reply"], "always");
    assert_eq!(first[0]["asked"][0]["always"], json!(["tide-tables"]));
    let second = objects(&world.fed(&args, "load tide-tables\n"));
    assert_eq!((&second[0]["is_error"], second[0].get("asked")), (&json!(false), None));
    // What was approved is the skill as it was.
    world.file(
        "home/.prowess/skills/tide-tables/SKILL.md",
        "---\nname: tide-tables\ndescription: x\n---\nOther.\n",
    );
    let third = objects(&world.fed(&args, "load tide-tables\nno\n"));
    assert_eq!(third[0]["is_error"], true);
}

#[test]
fn with_commands_as_options_there_is_nobody_to_ask() {
    let world = furnished();
    world.file("project/rules.toml", ASKING);
    let args = ["session", "--permissions", "rules.toml", "-c", "load tide-tables"];
    assert_snapshot!(world.told(&world.fed(&args, "yes\n")), @r#"
    exit 1
    --- out
    > load tide-tables
    ── error (47 tokens)
    Error: Cannot load skill 'tide-tables'. Permission for skill 'tide-tables' is needed, and nobody can be asked. To allow it, add at the end of [permission.skill]: "tide-tables" = "allow"
    --- err
    "#);
}

#[test]
fn a_state_survives_the_process() {
    let world = furnished();
    let args = |command| ["session", "--json", "--state", "state.json", "-c", command];
    assert_eq!(world.json(&args("loaded"))["loaded"], json!([]));
    assert!(!world.path("project/state.json").exists(), "nothing has changed, so nothing is saved");
    world.stdout(&[
        "session",
        "--state",
        "state.json",
        "-c",
        "load kite-maker x",
        "-c",
        "select kite-maker add *",
    ]);
    let loaded = world.json(&args("loaded"));
    assert_eq!(
        (&loaded["loaded"][0]["name"], &loaded["loaded"][0]["resources"]),
        (&json!("kite-maker"), &json!(2))
    );
    // Of the messages none is left, so everything is put back.
    let text = world.json(&args("compact"))["text"].to_string();
    assert!(text.contains("Tie x.") && text.contains("Long tails fly."), "{text}");
    world.stdout(&["session", "--state", "state.json", "-c", "unload kite-maker"]);
    assert_eq!(world.json(&args("loaded"))["loaded"], json!([]));
    let left: Vec<_> =
        std::fs::read_dir(world.path("project")).unwrap().map(|found| found.unwrap().file_name()).collect();
    assert_eq!(left.len(), 2, "{left:?}");
}

#[test]
fn what_cannot_be_read_is_said_with_its_place() {
    let world = furnished();
    world
        .file("project/cut.json", "{\"version\": 1, \"skills_loa")
        .file("project/newer.json", "{\"version\": 99}")
        .file("project/approvals.json", "[]")
        .file("project/rules.toml", "[permission]\nskill = \"alow\"\n")
        .file("project/broken.toml", "[permission\n");
    let mut told = String::new();
    for (option, file) in [
        ("--state", "cut.json"),
        ("--state", "newer.json"),
        ("--approvals", "approvals.json"),
        ("--permissions", "rules.toml"),
        ("--permissions", "broken.toml"),
        ("--state", "nowhere/state.json"),
    ] {
        let output =
            world.output(&["session", option, file, "--show", "answer", "--json", "-c", "load tide-tables"]);
        let error = String::from_utf8(output.stderr).unwrap();
        assert_eq!(
            (output.status.code(), error.lines().count(), output.stdout.len()),
            (Some(2), 1, 0),
            "{error}"
        );
        told.push_str(&error);
    }
    assert_eq!(
        std::fs::read_to_string(world.path("project/cut.json")).unwrap(),
        "{\"version\": 1, \"skills_loa"
    );
    assert_snapshot!(told);
}

#[test]
fn nonsense_gets_an_answer_each() {
    let world = furnished();
    let mut script = b"\0\xff\xfe\x1b[2J load\n\n   \r\n\t\nlod\r\nload tide-tables\r\n/\n/ x\ncall load_skill {\ncall load_skill 7\n".to_vec();
    script.extend("load ".bytes().chain(std::iter::repeat_n(b'x', 1_000_000)).chain([b'\n']));
    script.extend(std::iter::repeat_n(b'y', 3_000_000).chain([b'\n']));
    script.extend(std::iter::repeat_n(b'z', 1_000_000).chain([b'\n']));
    script.extend(b"loaded");
    let output = world.fed(&["session", "--show", "answer"], &script);
    assert_snapshot!(brief(&world.told(&output)));
    let output = world.fed(&["session", "--json"], &script);
    assert_eq!((objects(&output).len(), output.status.code()), (11, Some(0)));
}

#[test]
fn hidden_characters_of_a_skill_are_spelled_out() {
    let world = World::new();
    world.file(
        "home/.prowess/skills/evil/SKILL.md",
        "---\nname: evil\ndescription: \"a\\e[31mb. Use never.\"\n---\r\nOne\r\n\u{1b}]0;x\u{7}\u{1b}[2Jtwo\u{202E}\n",
    );
    world.file("project/rules.toml", ASKING);
    let args = ["session", "--show", "list", "--color", "always", "--permissions", "rules.toml"];
    let output = world.fed(&args, "load evil\nyes\n/evil \u{1b}[2J\n\u{1b}[2J\n");
    for bytes in [&output.stdout, &output.stderr] {
        let text = String::from_utf8_lossy(bytes);
        for theirs in ["\u{1b}]", "\u{1b}[2J", "\u{1b}[31mb", "\u{7}", "\u{202E}", "\r"] {
            assert!(!text.contains(theirs), "{text:?}");
        }
    }
    let text = String::from_utf8_lossy(&output.stdout);
    assert!(text.contains("\\u{1b}]0;x\\u{7}\\u{1b}[2Jtwo\\u{202e}"), "{text}");
}

#[test]
fn a_reader_that_goes_away_ends_the_session_quietly() {
    let world = furnished();
    let mut child = world
        .command(&["session"])
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    drop(child.stdout.take());
    let mut input = child.stdin.take().unwrap();
    let writing = std::thread::spawn(move || {
        use std::io::Write as _;
        // It stops reading at some point, and then writing fails.
        while input.write_all(b"prompt\n").is_ok() {}
    });
    let output = child.wait_with_output().unwrap();
    writing.join().unwrap();
    assert_eq!((output.status.code(), String::from_utf8(output.stderr).unwrap()), (Some(0), String::new()));
}
