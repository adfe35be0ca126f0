//! Tab in real shells: names of the moment, and nothing that runs.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::SystemTime;

use crate::pty::Pty;
use crate::world::{World, subcommands};

/// A home with skills, a thread, models and a server.
fn world() -> World {
    let world = World::new();
    world
        .skill("home/.prowess/skills", "pdf", "Reads PDF files. Use for PDFs.")
        .skill("home/.prowess/skills", "paint", "Paints. Use for pictures.")
        .skill("home/.prowess/skills", "tides", "Looks up tides. Use before boat trips.")
        .skill("project/.prowess/skills", "project-own", "Is not trusted. Use for tests.")
        .skill("elsewhere", "kites", "Builds kites. Use on windy days.")
        .file(
            "home/.config/prowess/prowess.toml",
            "[provider.local]\napi = \"openai\"\nbase_url = \"http://127.0.0.1:9/v1\"\nkey_command = [\"touch\", \"asked-for-key\"]\n\
             [price.\"local:tiny\"]\ninput = 0\noutput = 0\n\
             [skills.kit]\nwriting = [\"docs-*\"]\n\
             [mcp.docs]\ncommand = [\"touch\", \"started-server\"]\n",
        );
    world
}

fn path() -> std::ffi::OsString {
    let binaries = Path::new(env!("CARGO_BIN_EXE_prowess")).parent().unwrap().to_owned();
    let path = std::env::var_os("PATH").unwrap_or_default();
    std::env::join_paths([binaries].into_iter().chain(std::env::split_paths(&path))).unwrap()
}

/// A shell in the world's project that finds the program.
fn shell(world: &World, program: &str, args: &[&str]) -> Command {
    let mut command = Command::new(program);
    command
        .args(args)
        .current_dir(world.path("project"))
        .env_clear()
        .env("HOME", world.path("home"))
        .env("TERM", "xterm-256color")
        .env("LANG", "C.UTF-8")
        .env("PATH", path())
        .stdin(Stdio::null());
    command
}

/// What bash would offer for a line with the cursor at its end, by the function that it calls.
fn offered(world: &World, line: &str) -> Vec<String> {
    // As readline cuts it: at blanks, and at `:` and `=`.
    let mut words: Vec<String> = vec![String::new()];
    for c in line.chars() {
        let is_mark = matches!(c, ':' | '=');
        let was_mark = words.last().is_some_and(|word| matches!(word.as_str(), ":" | "="));
        if c == ' ' {
            words.push(String::new());
        } else if (is_mark || was_mark) && !words.last().unwrap().is_empty() {
            words.push(c.to_string());
        } else {
            words.last_mut().unwrap().push(c);
        }
    }
    let quoted: Vec<String> = words.iter().map(|word| format!("'{}'", word.replace('\'', r"'\''"))).collect();
    let script = format!(
        "source <(prowess completions bash)\ncompopt() {{ :; }}\nCOMP_WORDS=({})\nCOMP_CWORD={}\nCOMP_LINE='{}'\n\
         COMP_POINT=${{#COMP_LINE}}\n_prowess_complete\nprintf '%s\\n' \"${{COMPREPLY[@]}}\"",
        quoted.join(" "),
        words.len() - 1,
        line.replace('\'', r"'\''"),
    );
    let output = shell(world, "bash", &["--norc", "-c", &script]).output().unwrap();
    assert_eq!(String::from_utf8_lossy(&output.stderr), "", "{line}");
    String::from_utf8(output.stdout)
        .unwrap()
        .lines()
        .map(str::to_owned)
        .filter(|line| !line.is_empty())
        .collect()
}

#[test]
fn bash_offers_commands_skills_threads_and_models() {
    let world = world();
    world.stdout(&["chat", "hello"]);
    let thread = world.json(&["threads", "list", "--json"])[0]["id"].as_str().unwrap().to_owned();
    let commands = offered(&world, "prowess ");
    for name in subcommands(&world, &[]) {
        assert!(commands.contains(&name), "{name}: {commands:?}");
    }
    assert_eq!(offered(&world, "prowess info p"), ["paint", "pdf", "project-own"]);
    assert_eq!(offered(&world, "prowess run ti"), ["tides"]);
    assert_eq!(offered(&world, "prowess check pd"), ["pdf"]);
    assert_eq!(offered(&world, "prowess prompt --loaded ti"), ["tides"]);
    assert_eq!(offered(&world, "prowess info --root ../elsewhere k"), ["kites"]);
    assert_eq!(offered(&world, "prowess info --root ../elsewhere --only "), ["kites"]);
    for line in ["prowess artifacts list --thread ", "prowess run tides --thread "] {
        assert_eq!(offered(&world, line), [thread.clone(), "last".to_owned()], "{line}");
    }
    assert_eq!(offered(&world, "prowess chat --resume "), [thread.clone(), "last".to_owned()]);
    assert_eq!(offered(&world, &format!("prowess threads show {}", &thread[..8])), [thread]);
    let models = offered(&world, "prowess chat --model ");
    for name in ["offline", "openai:gpt-5.1", "anthropic:claude-sonnet-4-5", "local:tiny"] {
        assert!(models.iter().any(|model| model == name), "{name}: {models:?}");
    }
    // Bash cuts words at a colon, and puts in what comes after it.
    assert_eq!(offered(&world, "prowess chat --model local:t"), ["tiny"]);
    assert_eq!(offered(&world, "prowess chat --model local:"), ["tiny"]);
    assert_eq!(offered(&world, "prowess chat --model=local:t"), ["tiny"]);
    assert_eq!(offered(&world, "prowess servers d"), ["docs"]);
    assert_eq!(offered(&world, "prowess chat --kit "), ["writing", "off"]);
    assert_eq!(offered(&world, "prowess info zzz"), Vec::<String>::new());
}

/// Typed into a real bash, by keys.
#[test]
fn tab_completes_in_bash() {
    let world = world();
    let mut command = shell(&world, "bash", &["--norc", "--noprofile", "-i"]);
    command.env("PS1", "$ ").env("INPUTRC", "/dev/null");
    let pty = Pty::run(command, 100, 30);
    pty.wait_for("$");
    pty.type_line("source <(prowess completions bash); echo re''ady");
    pty.wait_for("ready");
    pty.press("prowess info td\x08i\t");
    pty.wait_for("prowess info tides");
    pty.press("\x15prowess info p\t\t");
    pty.wait_for("paint");
    pty.wait_for("project-own");
    pty.press("\x15prowess chat --model local:t\t");
    pty.wait_for("--model local:tiny");
    pty.press("\x15exit\r");
}

/// A hostile name is put in as a word, and is never run.
#[test]
fn a_hostile_name_runs_nothing() {
    let world = world();
    let names = [
        "evil$(touch pwned)",
        "evil`touch pwned`",
        "evil;touch pwned",
        "evil|touch pwned",
        "evil\"$(touch pwned)\"",
        "evil' && touch pwned '",
        "evil & touch pwned",
        "evil *",
    ];
    for (number, name) in names.iter().enumerate() {
        let name = serde_json::Value::from(*name).to_string();
        world.file(
            &format!("project/.prowess/skills/h{number}/SKILL.md"),
            &format!("---\nname: {name}\ndescription: \"$(touch pwned) `touch pwned`\"\n---\nBody.\n"),
        );
    }
    world.file("project/evil-path;touch pwned/SKILL.md", "");
    world.file("project/$(touch pwned)/SKILL.md", "");
    let listed = world.json(&["list", "--json"]);
    let hostile: Vec<&str> = listed["skills"]
        .as_array()
        .unwrap()
        .iter()
        .map(|skill| skill["name"].as_str().unwrap())
        .filter(|name| name.contains("touch"))
        .collect();
    assert!(!hostile.is_empty(), "{listed}");
    for line in ["prowess info evil", "prowess check ", "prowess check evil", "prowess info "] {
        for word in offered(&world, line) {
            // What bash would run if the person pressed Enter: one word, and nothing else.
            let script = format!("count() {{ echo $#; }}; count {word}");
            let output = shell(&world, "bash", &["--norc", "-c", &script]).output().unwrap();
            assert_eq!(String::from_utf8_lossy(&output.stdout), "1\n", "{line}: {word}");
        }
    }
    let mut command = shell(&world, "bash", &["--norc", "--noprofile", "-i"]);
    command.env("PS1", "$ ").env("INPUTRC", "/dev/null");
    let pty = Pty::run(command, 100, 40);
    pty.wait_for("$");
    pty.type_line("source <(prowess completions bash); echo re''ady");
    pty.wait_for("ready");
    for begun in ["evil$", "evil", "h", "\\$"] {
        pty.press(format!("prowess check {begun}\t\t\r"));
    }
    pty.type_line("echo en''ded");
    pty.wait_for("ended");
    assert!(!world.path("project/pwned").exists(), "{}", pty.everything());
    for (program, script) in [
        (
            "zsh",
            "setopt menu_complete; autoload -U compinit; compinit -D; source <(prowess completions zsh); echo re''ady",
        ),
        ("fish", "prowess completions fish | source; echo re''ady"),
    ] {
        needs(program);
        let pty = Pty::run(interactive(&world, program), 100, 40);
        pty.type_line(script);
        pty.wait_for("ready");
        pty.press("prowess info evil\t");
        pty.wait_for("touch");
        // One takes what is chosen, and one runs it, if that was not the same.
        pty.press("\r\r");
        pty.wait_until("an answer", |screen| {
            ["digest", "no skill", "unexpected"].iter().any(|word| screen.contains(word))
        });
        pty.press("\x15");
        pty.type_line("echo en''ded");
        pty.wait_for("ended");
        assert!(!world.path("project/pwned").exists(), "{program}: {}", pty.everything());
    }
}

/// A shell that is not installed is a failure, and not a test less.
fn needs(program: &str) {
    let is_there = std::env::split_paths(&path()).any(|directory| directory.join(program).is_file());
    assert!(is_there, "{program} is missing: apt-get install {program}");
}

fn interactive(world: &World, program: &str) -> Command {
    match program {
        "zsh" => {
            let mut command = shell(world, "zsh", &["-f", "-i"]);
            command.env("PS1", "$ ");
            command
        }
        _ => shell(world, "fish", &["--no-config", "-i"]),
    }
}

#[test]
fn zsh_and_fish_offer_names_as_well() {
    let world = world();
    needs("zsh");
    let pty = Pty::run(interactive(&world, "zsh"), 100, 30);
    pty.type_line("autoload -U compinit; compinit -D; source <(prowess completions zsh); echo re''ady");
    pty.wait_for("ready");
    pty.press("prowess info ti\t");
    pty.wait_for("prowess info tides");
    pty.press("\x15prowess chat --model local:t\t");
    pty.wait_for("local:tiny");
    needs("fish");
    let script = "prowess completions fish | source; complete -C 'prowess info p'";
    let output = shell(&world, "fish", &["--no-config", "-c", script]).output().unwrap();
    let told = String::from_utf8(output.stdout).unwrap();
    assert!(told.lines().any(|line| line.starts_with("pdf\t")), "{told}");
}

/// Every file below a directory, and when it changed.
fn stamps(top: PathBuf) -> BTreeMap<PathBuf, SystemTime> {
    let (mut found, mut pending) = (BTreeMap::new(), vec![top]);
    while let Some(path) = pending.pop() {
        let stat = path.symlink_metadata().unwrap();
        if stat.is_dir() {
            pending.extend(std::fs::read_dir(&path).unwrap().map(|entry| entry.unwrap().path()));
        }
        found.insert(path, stat.modified().unwrap());
    }
    found
}

#[test]
fn a_completion_writes_and_starts_nothing_and_is_silent() {
    let world = world();
    let ask = |words: &[&str]| {
        let mut command = world.command(&[&["--", "prowess"], words].concat());
        command.env("_PROWESS_COMPLETE", "bash").output().unwrap()
    };
    for with_threads in [false, true] {
        if with_threads {
            world.stdout(&["chat", "hello"]);
        }
        let before = (stamps(world.path("home")), stamps(world.path("project")));
        for words in [
            &["info", ""][..],
            &["chat", "--resume", ""],
            &["chat", "--model", ""],
            &["servers", ""],
            &["info", "--root", "/nowhere", ""],
            &["info", "--root"],
            &[""],
            &[],
            &["nonsense", "--", "x"],
        ] {
            let output = ask(words);
            assert_eq!(String::from_utf8_lossy(&output.stderr), "", "{words:?}");
        }
        assert_eq!((stamps(world.path("home")), stamps(world.path("project"))), before);
    }
    // What is broken is not told about here.
    world.file("home/.config/prowess/prowess.toml", "this is = no configuration [");
    world.file("home/.local/state/prowess/threads.db", "no database");
    for words in [&["info", ""][..], &["chat", "--resume", ""], &["chat", "--model", ""]] {
        let output = ask(words);
        let told = String::from_utf8(output.stdout).unwrap();
        assert!(told.lines().all(|line| line.starts_with("--")), "{words:?}: {told}");
        assert_eq!(output.stderr.len(), 0, "{words:?}");
    }
    let unknown = world.command(&["--", "prowess", ""]).env("_PROWESS_COMPLETE", "tcsh").output().unwrap();
    assert_eq!((unknown.stdout.len(), unknown.stderr.len()), (0, 0));
}
