//! `run`, `doctor` and `artifacts`, with real commands in a real sandbox: without bubblewrap they fail.

use std::os::unix::fs::PermissionsExt as _;
use std::process::{Command, Output};

use crate::world::{World, examples};

/// A world whose home commands can reach, whoever they run as.
fn reachable() -> World {
    let world = World::new();
    for path in ["", "home"] {
        std::fs::set_permissions(world.path(path), std::fs::Permissions::from_mode(0o711)).unwrap();
    }
    world
}

/// `prowess run` of an example with these options and this command.
fn args<'a>(examples: &'a str, options: &[&'a str], command: &[&'a str]) -> Vec<&'a str> {
    let mut args = vec!["run", "python-math", "--only", "--root", examples];
    args.extend(options);
    args.push("--");
    args.extend(command);
    args
}

fn run(world: &World, options: &[&str], command: &[&str]) -> Output {
    world.output(&args(&examples(), options, command))
}

fn stdout(output: &Output) -> String {
    assert!(output.status.success(), "{}", stderr(output));
    String::from_utf8(output.stdout.clone()).unwrap()
}

fn stderr(output: &Output) -> String {
    String::from_utf8_lossy(&output.stderr).into_owned()
}

/// The first example in a SKILL.md.
fn first_example(skill: &str) -> String {
    let text = std::fs::read_to_string(format!("{}/{skill}/SKILL.md", examples())).unwrap();
    let (_, after) = text.split_once("```bash\n").unwrap();
    after.split_once("```").unwrap().0.to_owned()
}

#[test]
fn the_first_example_of_every_skill_leaves_its_result() {
    let world = reachable();
    for entry in std::fs::read_dir(examples()).unwrap() {
        let skill = entry.unwrap().file_name().into_string().unwrap();
        let (examples, example) = (examples(), first_example(&skill));
        let to = world.path("results").join(&skill).to_string_lossy().into_owned();
        let output =
            world.output(&["run", &skill, "--only", "--root", &examples, "--to", &to, "--", example.trim()]);
        let said = stderr(&output);
        assert!(output.status.success(), "{skill}: {said}");
        assert!(said.contains("sandbox bwrap") && said.contains("  file       /"), "{skill}: {said}");
        let results = std::fs::read_dir(world.path("results").join(&skill).join("out")).unwrap();
        assert!(results.count() > 0, "{skill}: {said}");
    }
}

#[test]
fn the_summary_has_what_matters() {
    let world = reachable();
    let output =
        run(&world, &["--save"], &["python3 scripts/fib.py 5 | tee out/fib.txt; printf '\\0' > out/b"]);
    assert_eq!(stdout(&output), "0\n1\n1\n2\n3\n");
    let said = stderr(&output);
    let lines: Vec<&str> = said.lines().collect();
    assert!(lines[0].starts_with("exit 0 after 0.") && lines[0].ends_with(" s, sandbox bwrap"), "{said}");
    let workspace = said.lines().find_map(|line| line.strip_prefix("  workspace  ")).unwrap();
    let project = world.path("project").display().to_string();
    for line in [
        &*format!("  file       {workspace}/out/b (1 B, application/octet-stream)"),
        &*format!("  file       {workspace}/out/fib.txt (10 B, text/plain)"),
        &*format!("  saved      out/b@0: `prowess artifacts get out/b@0 --scope project:{project}`"),
        &*format!(
            "  saved      out/fib.txt@0: `prowess artifacts get out/fib.txt@0 --scope project:{project}`"
        ),
    ] {
        assert!(lines.contains(&line), "{line}: {said}");
    }
    assert_eq!(std::fs::read_to_string(format!("{workspace}/out/fib.txt")).unwrap(), "0\n1\n1\n2\n3\n");
}

#[test]
fn what_a_rule_denies_does_not_run() {
    let world = reachable();
    let config = "home/.config/prowess/prowess.toml";
    world.file(config, "[permission.run]\n\"* git push *\" = \"deny\"\n");
    assert_eq!(run(&world, &[], &["echo git pull"]).status.code(), Some(0));
    let output = run(&world, &[], &["git push origin"]);
    assert_eq!(output.status.code(), Some(125), "{}", stderr(&output));
    assert!(
        stderr(&output)
            .contains("denied by [permission.run] \"* git push *\" = \"deny\" in your prowess.toml"),
        "{}",
        stderr(&output)
    );
    world.file(config, "[agent.run.permission]\nskill = \"deny\"\n");
    let output = run(&world, &[], &["echo hello"]);
    assert_eq!(output.status.code(), Some(125), "{}", stderr(&output));
    assert!(stderr(&output).contains("in [agent.run.permission]"), "{}", stderr(&output));
}

#[test]
fn exit_codes_are_those_of_the_command() {
    let world = reachable();
    for (command, code) in [("exit 0", 0), ("exit 7", 7), ("no-such-program", 127), ("kill -9 $$", 137)] {
        assert_eq!(run(&world, &[], &[command]).status.code(), Some(code), "{command}");
    }
}

#[test]
fn what_takes_too_long_is_stopped() {
    let world = reachable();
    let output = run(&world, &["--timeout", "1"], &["echo begun; sleep 30"]);
    assert_eq!((output.status.code(), output.stdout.as_slice()), (Some(124), &b"begun\n"[..]));
    assert!(stderr(&output).starts_with("timed out after 1."), "{}", stderr(&output));
    // The summary gives the reason, and no warning repeats it.
    assert_eq!(stderr(&output).matches("timed out").count(), 1, "{}", stderr(&output));
}

#[test]
fn when_nothing_ran_one_line_says_why_and_the_code_is_125() {
    let world = reachable();
    world.skill("project/.prowess/skills", "tide-tables", "Looks up tides. Use before boat trips.");
    let examples = examples();
    let python = |options: &[&'static str]| {
        args(&examples, options, &["true"]).into_iter().map(ToOwned::to_owned).collect::<Vec<_>>()
    };
    let words = |words: &[&str]| words.iter().map(|word| (*word).to_owned()).collect::<Vec<_>>();
    for (given, expected) in [
        (words(&["run", "tide", "--", "true"]), "did you mean `tide-tables`?"),
        (words(&["run", "tide-tables", "--", "true"]), "--trust-project"),
        (words(&["run", "tide-tables"]), "<COMMAND>"),
        (python(&["--timeout", "601"]), "1..=600"),
        (python(&["--sandbox", "hope"]), "bwrap-noproc"),
        (python(&["--env", "A"]), "NAME=VALUE"),
        (python(&["--env", "LD_PRELOAD=/x.so"]), "LD_PRELOAD"),
        (python(&["--input", "nowhere.txt"]), "nowhere.txt"),
        (python(&["--input", "artifact://none"]), "there is no artifact `none`"),
        (python(&["--stdin", "nowhere.txt"]), "nowhere.txt"),
        (python(&["--cwd", "../.."]), "../.."),
        (python(&["--out", "../*"]), "../*"),
        (python(&["--workspace", "/dev/null/x"]), "--workspace"),
    ] {
        let output = world.output(&given.iter().map(String::as_str).collect::<Vec<_>>());
        let said = stderr(&output);
        assert_eq!((output.status.code(), output.stdout.len()), (Some(125), 0), "{given:?}: {said}");
        assert!(said.contains(expected) && said.lines().count() == 1, "{given:?}: {said}");
    }
}

#[test]
fn a_project_s_skill_runs_when_it_is_trusted() {
    let world = reachable();
    world.skill("project/.prowess/skills", "tide-tables", "Looks up tides. Use before boat trips.");
    let output = world.output(&["run", "tide-tables", "--trust-project", "--", "cat", "SKILL.md"]);
    assert!(stdout(&output).contains("# tide-tables"));
}

#[test]
fn a_skill_s_own_shell_is_used_or_named() {
    let world = reachable();
    for shell in ["sh", "/bin/bash", "no-such-shell"] {
        let name = format!("in-{}", shell.replace('/', "-").trim_matches('-'));
        let text =
            format!("---\nname: {name}\ndescription: Uses a shell. Use for tests.\nshell: {shell}\n---\n");
        world.file(&format!("home/.prowess/skills/{name}/SKILL.md"), &text);
        let output = world.output(&["run", &name, "--", "echo ${BASH_VERSION:+bash}"]);
        match shell {
            "sh" => assert_eq!(stdout(&output), "\n"),
            "/bin/bash" => assert_eq!(stdout(&output), "bash\n"),
            _ => {
                assert_eq!(output.status.code(), Some(125));
                assert!(stderr(&output).contains("`no-such-shell`"), "{}", stderr(&output));
            }
        }
    }
}

#[test]
fn json_is_the_report_alone() {
    let world = reachable();
    let output = run(&world, &["--json"], &["echo out; echo err >&2; echo text > out/a.txt; exit 3"]);
    assert_eq!((output.status.code(), stderr(&output)), (Some(3), String::new()));
    let report: serde_json::Value = serde_json::from_slice(&output.stdout).unwrap();
    assert_eq!(
        [&report["stdout"], &report["stderr"], &report["sandbox"]["level"], &report["warnings"]],
        [&"out\n".into(), &"err\n".into(), &"bwrap".into(), &serde_json::json!([])]
    );
    assert_eq!(report["output_files"][0]["content"], "text\n");
    assert_eq!((&report["exit_code"], &report["timed_out"]), (&3.into(), &false.into()));
}

#[test]
fn only_a_pattern_that_was_given_is_warned_about() {
    let world = reachable();
    let said = |options: &[&str]| stderr(&run(&world, options, &["true"]));
    let reported = |options: &[&str]| {
        let output = run(&world, &[&["--json"], options].concat(), &["true"]);
        let report: serde_json::Value = serde_json::from_slice(&output.stdout).unwrap();
        report["warnings"].clone()
    };
    assert!(!said(&[]).contains("matched no file"), "{}", said(&[]));
    assert_eq!(reported(&[]), serde_json::json!([]));
    // Also when it is the very pattern that is taken when none is given.
    for pattern in ["out/**", "out/*.csv"] {
        let (warning, options) = (format!("`{pattern}` matched no file"), ["--out", pattern]);
        assert!(said(&options).contains(&format!("  warning    {warning}\n")), "{}", said(&options));
        assert_eq!(reported(&options), serde_json::json!([warning]));
    }
}

#[test]
fn who_saw_all_of_the_output_is_not_told_that_a_report_has_less() {
    let world = reachable();
    let long = ["head -c 5000000 /dev/zero | tr '\\0' x"];
    let output = run(&world, &[], &long);
    assert_eq!(output.stdout.len(), 5_000_000);
    assert!(!stderr(&output).contains("left out"), "{}", stderr(&output));
    let report: serde_json::Value = serde_json::from_slice(&run(&world, &["--json"], &long).stdout).unwrap();
    let warning = report["warnings"][0].as_str().unwrap();
    assert!(
        warning.starts_with("stdout: ") && warning.ends_with(" bytes in the middle were left out"),
        "{warning}"
    );
}

#[test]
fn words_input_and_variables_reach_the_command_as_they_are() {
    let world = reachable();
    world.file("project/a=b.txt", "from a file\n").file("project/sub/c.txt", "c\n");
    let examples = examples();
    let output = run(&world, &[], &["printf", "%s|", "it's", "$HOME", "a  b", ""]);
    assert_eq!(stdout(&output), "it's|$HOME|a  b||");
    let output = world.fed(&args(&examples, &["--stdin", "-"], &["cat"]), "fed\n");
    assert_eq!(stdout(&output), "fed\n");
    assert_eq!(stdout(&run(&world, &["--stdin", "a=b.txt"], &["cat"])), "from a file\n");
    assert_eq!(stdout(&run(&world, &[], &["cat; echo end"])), "end\n");
    let inputs = ["--input", "a=b.txt", "--input", "sub/../sub/c.txt=work/d.txt", "--env", "A=b c"];
    let output = run(&world, &inputs, &["cat inputs/a=b.txt $WORK_DIR/d.txt; echo \"$A\""]);
    assert_eq!(stdout(&output), "from a file\nc\nb c\n");
}

#[test]
fn bytes_links_and_prefixes_reach_the_command() {
    let world = reachable();
    world.file("project/data.txt", "data\n").file("tools/bin/greet", "#!/bin/sh\necho greeted\n");
    for path in ["project", "tools", "tools/bin", "tools/bin/greet"] {
        std::fs::set_permissions(world.path(path), std::fs::Permissions::from_mode(0o755)).unwrap();
    }
    std::fs::write(world.path("project/bytes"), [0, 159, 146, 150, 255]).unwrap();
    assert_eq!(run(&world, &["--stdin", "bytes"], &["cat"]).stdout, [0, 159, 146, 150, 255]);
    let output = run(
        &world,
        &["--link", "data.txt=work/d"],
        &["cat $WORK_DIR/d; (echo x >> $WORK_DIR/d) 2>/dev/null || echo kept"],
    );
    assert_eq!(stdout(&output), "data\nkept\n");
    let tools = world.path("tools").to_string_lossy().into_owned();
    assert_eq!(stdout(&run(&world, &["--prefix", &tools], &["greet"])), "greeted\n");
    assert!(stderr(&run(&world, &["--prefix", "nowhere"], &["true"])).contains("nowhere is not a directory"));
}

#[test]
fn a_named_session_keeps_its_files_and_others_do_not() {
    let world = reachable();
    run(&world, &["--session", "one"], &["echo kept > work/a"]);
    assert_eq!(stdout(&run(&world, &["--session", "one"], &["cat work/a"])), "kept\n");
    assert!(!run(&world, &["--session", "two"], &["cat work/a"]).status.success());
    assert!(!run(&world, &[], &["cat work/a"]).status.success());
}

#[test]
fn nothing_of_this_machine_is_seen() {
    let world = reachable();
    world.file("home/secret", "hunter2");
    let examples = examples();
    let secret = world.path("home/secret").to_string_lossy().into_owned();
    let mut command = world.command(&args(&examples, &[], &["cat", &secret]));
    let output = command.env("MY_TOKEN", "hunter2").output().unwrap();
    assert!(!output.status.success() && !stderr(&output).contains("hunter2"), "{}", stderr(&output));
    let mut command = world.command(&args(&examples, &[], &["env"]));
    let output = command.env("MY_TOKEN", "hunter2").output().unwrap();
    assert!(!stdout(&output).contains("hunter2"));
}

#[test]
fn output_is_raw_in_a_pipe_and_harmless_on_a_screen() {
    let world = reachable();
    let command = "printf 'a\\033[2J\\377'; printf '\\033]0;x\\007' >&2; touch \"out/$(printf 'n\\033[2J')\"";
    let output = run(&world, &[], &[command]);
    assert_eq!(output.stdout, b"a\x1b[2J\xff");
    assert!(output.stderr.starts_with(b"\x1b]0;x\x07\nexit 0"), "{}", stderr(&output));
    // `script` belongs to every Debian; it gives what it runs a terminal of its own.
    let quoted = |word: &str| format!("'{}'", word.replace('\'', r"'\''"));
    let examples = examples();
    let words: Vec<String> =
        args(&examples, &["--color", "never"], &[command]).into_iter().map(quoted).collect();
    let line = format!("{} {}", quoted(env!("CARGO_BIN_EXE_prowess")), words.join(" "));
    let home = world.path("home");
    let screen = Command::new("script")
        .args(["-qec", &line, "/dev/null"])
        .env("HOME", home)
        .env_remove("XDG_STATE_HOME")
        .stdin(std::process::Stdio::null())
        .output()
        .unwrap();
    let seen = String::from_utf8(screen.stdout).unwrap();
    assert!(screen.status.success(), "{seen}");
    assert!(seen.contains("a\\u{1b}[2J\u{fffd}") && seen.contains("\\u{1b}]0;x\\u{7}"), "{seen:?}");
    assert!(seen.contains("exit 0") && !seen.contains('\u{1b}'), "{seen:?}");
}

#[test]
fn who_stops_reading_stops_the_command() {
    let world = reachable();
    let examples = examples();
    let mut command = world.command(&args(&examples, &[], &["yes"]));
    let mut child =
        command.stdout(std::process::Stdio::piped()).stderr(std::process::Stdio::piped()).spawn().unwrap();
    drop(child.stdout.take());
    let output = child.wait_with_output().unwrap();
    assert_eq!((output.status.code(), stderr(&output)), (Some(141), String::new()));
}

/// Starts a run that would take long, sends it a signal once its command is up, and gives what became of it.
fn interrupted(mut prowess: Command, mark: &str, signal: &str) -> Output {
    let mut child =
        prowess.stdout(std::process::Stdio::piped()).stderr(std::process::Stdio::piped()).spawn().unwrap();
    let mut first = [0; 3];
    std::io::Read::read_exact(child.stdout.as_mut().unwrap(), &mut first).unwrap();
    assert!(!processes_with(mark).is_empty());
    let number = child.id().to_string();
    assert!(Command::new("kill").args(["-s", signal, &number]).status().unwrap().success());
    child.wait_with_output().unwrap()
}

/// The processes of this machine with a word in their command lines.
fn processes_with(word: &str) -> Vec<std::path::PathBuf> {
    let all = std::fs::read_dir("/proc").unwrap().flatten().map(|entry| entry.path());
    let has = |process: &std::path::PathBuf| {
        let line = std::fs::read(process.join("cmdline")).unwrap_or_default();
        String::from_utf8_lossy(&line).contains(word)
    };
    all.filter(has).collect()
}

#[test]
fn a_signal_ends_the_command_with_all_it_started() {
    let (world, examples) = (reachable(), examples());
    for (signal, code) in [("INT", 130), ("TERM", 143), ("HUP", 129)] {
        let mark = format!("mark-{signal}-{}", std::process::id());
        let line = format!(
            "setsid bash -c 'trap \"\" INT TERM HUP; exec -a {mark} sleep 600' & \
             until grep -qz '^{mark}$' /proc/$!/cmdline; do sleep 0.05; done; echo up; sleep 600"
        );
        let given = args(&examples, &["--session", "one"], &[&line]);
        let output = interrupted(world.command(&given), &mark, signal);
        assert_eq!(output.status.code(), Some(code), "{signal}: {}", stderr(&output));
        assert!(processes_with(&mark).is_empty(), "{signal}");
    }
    let output = run(&world, &["--session", "one"], &["ls $WORKSPACE_DIR/runs | wc -l"]);
    assert_eq!(stdout(&output), "1\n", "only its own");
}

#[test]
fn a_signal_that_is_ignored_stays_so() {
    let (world, examples) = (reachable(), examples());
    let given = args(&examples, &[], &["echo up; sleep 1; echo end"]);
    let prowess = world.command(&given);
    let mut ignoring = Command::new("/bin/bash");
    ignoring
        .args(["-c", "trap '' HUP; exec \"$@\"", "bash"])
        .arg(prowess.get_program())
        .args(prowess.get_args());
    ignoring.env_clear().envs(prowess.get_envs().filter_map(|(name, value)| Some((name, value?))));
    ignoring.current_dir(prowess.get_current_dir().unwrap());
    let output = interrupted(ignoring, "prowess", "HUP");
    assert_eq!((output.status.code(), &output.stdout[..]), (Some(0), &b"end\n"[..]), "{}", stderr(&output));
}

#[test]
fn a_signal_ends_the_container_too() {
    if waived("a_signal_ends_the_container_too") {
        return;
    }
    let (world, examples) = (reachable(), examples());
    let (_, image) = with_engine(&world, &[]);
    let mark = format!("mark-container-{}", std::process::id());
    let line = format!(": {mark}; echo up; sleep 600");
    let given =
        args(&examples, &["--executor", "container", "--image", &image, "--env", "TOKEN=hunter2"], &[&line]);
    let output = interrupted(with_engine(&world, &given).0, &mark, "INT");
    assert_eq!(output.status.code(), Some(130), "{}", stderr(&output));
    assert!(processes_with(&mark).is_empty());
}

#[test]
fn a_weaker_sandbox_needs_the_user_s_word() {
    let world = reachable();
    // The programs of the executor without bubblewrap.
    for program in ["setpriv", "bash", "python3"] {
        let found = std::env::split_paths(&std::env::var_os("PATH").unwrap())
            .map(|place| place.join(program))
            .find(|path| path.is_file());
        std::fs::create_dir_all(world.path("bin")).unwrap();
        if let Some(found) = found {
            std::os::unix::fs::symlink(found, world.path("bin").join(program)).unwrap();
        }
    }
    let examples = examples();
    let without = |args: &[&str]| world.command(args).env("PATH", world.path("bin")).output().unwrap();
    let output = without(&args(&examples, &[], &["true"]));
    let said = stderr(&output);
    assert_eq!(output.status.code(), Some(125), "{said}");
    assert!(said.contains("Install the package `bubblewrap`") && said.lines().count() == 1, "{said}");
    let output = without(&args(&examples, &["--sandbox", "none"], &["echo", "ran"]));
    assert_eq!(stdout(&output), "ran\n");
    assert!(stderr(&output).contains("  missing    "), "{}", stderr(&output));
    let output = without(&["doctor"]);
    let told = String::from_utf8(output.stdout.clone()).unwrap();
    assert_eq!(output.status.code(), Some(1), "{told}");
    assert!(told.contains("install the Debian package bubblewrap"), "{told}");
    let output = without(&["doctor", "--json"]);
    let report: serde_json::Value = serde_json::from_slice(&output.stdout).unwrap();
    assert_eq!((&report["can_run"], report["problems"].as_array().unwrap().len()), (&false.into(), 1));
}

#[test]
fn hosts_that_are_named_can_be_reached() {
    let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let host = listener.local_addr().unwrap().to_string();
    std::thread::spawn(move || {
        let (mut client, _) = listener.accept().unwrap();
        let _ = std::io::Read::read(&mut client, &mut [0; 4096]);
        std::io::Write::write_all(&mut client, b"HTTP/1.0 200 OK\r\n\r\nhello from outside\n").unwrap();
    });
    let world = reachable();
    let get = |host: &str| {
        let program =
            "import sys, urllib.request as r; print(r.urlopen(sys.argv[1]).read().decode(), end='')";
        format!("/usr/bin/python3 -c \"{program}\" http://{host}/")
    };
    let output = run(&world, &["--allow-host", &host, "--allow-host", "*.example.com"], &[&get(&host)]);
    assert_eq!(stdout(&output), "hello from outside\n");
    let output = run(&world, &["--allow-host", "*.example.com"], &[&get("example.org")]);
    assert_ne!(output.status.code(), Some(0));
    let said = stderr(&output);
    assert!(
        said.contains("  warning    network: example.org:80 is not on the list of allowed hosts\n"),
        "{said}"
    );
    let output = run(&world, &["--allow-host", "http://example.org"], &["true"]);
    assert!(stderr(&output).contains("is not a host rule"), "{}", stderr(&output));
    let output = run(&world, &["--allow-host", "a.org", "--sandbox", "bwrap"], &["echo $HTTP_PROXY"]);
    assert_eq!(stdout(&output), "http://127.0.0.1:3128\n");
}

#[test]
fn doctor_says_what_holds_commands_here() {
    let world = reachable();
    let told = world.stdout(&["doctor"]);
    assert!(told.starts_with("Skills can run here.\n"), "{told}");
    assert!(told.contains("sandbox      bwrap: ") && told.contains("/workspaces (writable)"), "{told}");
    let report = world.json(&["doctor", "--json"]);
    assert_eq!((&report["can_run"], &report["sandbox"]["level"]), (&true.into(), &"bwrap".into()));
    assert_eq!(report["allowed_hosts"], true);
    assert!(told.contains("network      none, or the hosts of --allow-host"), "{told}");
    assert!(report["bubblewrap"]["version"].as_str().unwrap().starts_with(|c: char| c.is_ascii_digit()));
}

/// Whether this machine may go without containers. Says so, if it does.
#[allow(clippy::print_stderr, reason = "what was not tried is told")]
fn waived(test: &str) -> bool {
    let waived = std::env::var_os("PROWESS_WAIVE_CONTAINERS").is_some_and(|value| value == "1");
    if waived {
        eprintln!("{test}: without containers, by PROWESS_WAIVE_CONTAINERS=1");
    }
    waived
}

/// `prowess` with the engine of the tests, and the name of its image.
fn with_engine(world: &World, args: &[&str]) -> (Command, String) {
    let given = |name: &str| {
        std::env::var(name).unwrap_or_else(|_| {
            panic!("{name} is not set: use `make test`, or `eval \"$(scripts/test-engine.sh start)\"` before")
        })
    };
    let mut command = world.command(args);
    command.env("DOCKER_HOST", format!("unix://{}", given("PROWESS_TEST_ENGINE")));
    (command, given("PROWESS_TEST_IMAGE"))
}

#[test]
fn a_container_gives_the_same_answer() {
    if waived("a_container_gives_the_same_answer") {
        return;
    }
    let world = reachable();
    let (examples, command) = (examples(), "python3 scripts/fib.py 5 | tee out/fib.txt; exit 3");
    let (_, image) = with_engine(&world, &[]);
    let given = args(&examples, &["--executor", "container", "--image", &image], &[command]);
    let output = with_engine(&world, &given).0.output().unwrap();
    let said = stderr(&output);
    assert_eq!((output.status.code(), &output.stdout[..]), (Some(3), &b"0\n1\n1\n2\n3\n"[..]), "{said}");
    assert!(said.contains(" s, sandbox container\n"), "{said}");
    assert!(said.contains("/out/fib.txt (10 B, text/plain)\n"), "{said}");
}

#[test]
fn without_engine_or_image_no_container_runs() {
    if waived("without_engine_or_image_no_container_runs") {
        return;
    }
    let world = reachable();
    let examples = examples();
    let given = args(&examples, &["--executor", "container", "--image", "localhost/none"], &["true"]);
    let socket = world.path("none.sock").to_string_lossy().into_owned();
    let nowhere = world.command(&given).env("DOCKER_HOST", format!("unix://{socket}")).output().unwrap();
    let missing = with_engine(&world, &given).0.output().unwrap();
    for (output, expected) in [(nowhere, socket.as_str()), (missing, "pull localhost/none`")] {
        let said = stderr(&output);
        assert_eq!(output.status.code(), Some(125), "{said}");
        assert!(said.contains(expected) && said.lines().count() == 1, "{said}");
    }
    let output = run(&world, &["--image", "python:3-slim"], &["true"]);
    assert_eq!(output.status.code(), Some(125));
    assert!(stderr(&output).contains("--executor container"), "{}", stderr(&output));
    for given in [["--sandbox", "bwrap"], ["--sandbox", "none"], ["--prefix", "/usr"]] {
        let output = run(&world, &[&["--executor", "container"], &given[..]].concat(), &["true"]);
        let said = stderr(&output);
        assert_eq!(output.status.code(), Some(125), "{said}");
        assert!(said.contains(given[0]) && said.contains("local executor"), "{said}");
    }
}

#[test]
fn doctor_says_whether_containers_can_run() {
    if waived("doctor_says_whether_containers_can_run") {
        return;
    }
    let world = reachable();
    let (_, image) = with_engine(&world, &[]);
    let told = with_engine(&world, &["doctor", "--image", &image]).0.output().unwrap();
    let told = stdout(&told);
    assert!(told.contains(&format!("containers   can run, with the image {image}")), "{told}");
    let report = with_engine(&world, &["doctor", "--json", "--image", "localhost/none"]).0.output().unwrap();
    let report: serde_json::Value = serde_json::from_slice(&report.stdout).unwrap();
    let containers = &report["containers"];
    assert_eq!((&report["can_run"], &containers["can_run"]), (&true.into(), &false.into()));
    assert!(containers["problem"].as_str().unwrap().contains("pull localhost/none"), "{containers}");
    assert!(containers["engine"]["socket"].as_str().unwrap().ends_with(".sock"), "{containers}");
    let mut nowhere = world.command(&["doctor"]);
    let told = nowhere.env("DOCKER_HOST", "unix:///nowhere.sock").output().unwrap();
    assert!(stdout(&told).contains("no container engine answers at /nowhere.sock"), "{told:?}");
}

#[test]
fn a_place_that_commands_cannot_reach_is_told() {
    if std::fs::metadata("/proc/self").map(|own| std::os::unix::fs::MetadataExt::uid(&own)).unwrap() != 0 {
        // Only root's commands run as another.
        return;
    }
    let world = reachable();
    std::fs::create_dir(world.path("closed")).unwrap();
    std::fs::set_permissions(world.path("closed"), std::fs::Permissions::from_mode(0o700)).unwrap();
    let closed = world.path("closed/state").to_string_lossy().into_owned();
    let output = run(&world, &["--workspace", &closed], &["true"]);
    assert_eq!(output.status.code(), Some(125));
    assert!(stderr(&output).contains("chmod o+x"), "{}", stderr(&output));
    let examples = examples();
    let mut command = world.command(&args(&examples, &[], &["echo ran | tee out/ran"]));
    let output = command.env("XDG_STATE_HOME", world.path("closed")).output().unwrap();
    assert_eq!(stdout(&output), "ran\n");
    let said = stderr(&output);
    assert!(said.contains("workspaces are in /var/tmp/prowess-0"), "{said}");
    let workspace = said.lines().find_map(|line| line.strip_prefix("  workspace  ")).unwrap();
    std::fs::remove_dir_all(std::path::Path::new(workspace).parent().unwrap()).unwrap();
}

#[test]
fn artifacts_can_be_listed_fetched_used_and_removed() {
    let world = reachable();
    let none = world.output(&["artifacts", "list"]);
    assert_eq!((none.status.code(), none.stdout.len()), (Some(0), 0));
    for text in ["first", "second"] {
        let command = format!("printf '{text}\\033' > out/a.txt");
        assert!(run(&world, &["--save"], &[&command]).status.success());
    }
    let scope = format!("project:{}", world.path("project").display());
    let row = format!("out/a.txt\t1\t7 B\ttext/plain\t{scope}\n");
    assert_eq!(world.stdout(&["artifacts", "list"]), row);
    let listed = world.json(&["artifacts", "list", "--json"]);
    assert_eq!((&listed[0]["name"], &listed[0]["versions"]), (&"out/a.txt".into(), &2.into()));
    assert_eq!(world.stdout(&["artifacts", "get", "out/a.txt"]), "second\u{1b}");
    assert_eq!(world.stdout(&["artifacts", "get", "out/a.txt@0"]), "first\u{1b}");
    world.stdout(&["artifacts", "get", "out/a.txt", "-o", "copy.txt"]);
    assert_eq!(std::fs::read(world.path("project/copy.txt")).unwrap(), b"second\x1b");
    let output = run(&world, &["--input", "artifact://out/a.txt@0=work/b"], &["cat $WORK_DIR/b"]);
    assert_eq!(stdout(&output), "first\u{1b}");
    for wrong in
        [&["artifacts", "get", "out/a.txt@2"], &["artifacts", "get", "../a"], &["artifacts", "rm", "b"]]
    {
        let output = world.output(wrong);
        assert_eq!((output.status.code(), stderr(&output).lines().count()), (Some(2), 1), "{wrong:?}");
    }
    world.stdout(&["artifacts", "rm", "out/a.txt"]);
    assert_eq!(world.output(&["artifacts", "get", "out/a.txt"]).status.code(), Some(2));
}

/// A parent may open a file, and then lower its limit of open files below the file's descriptor.
#[test]
fn a_descriptor_above_the_limit_reaches_no_command() {
    let world = reachable();
    world.file("private.txt", "nobody gave this\n");
    let examples = examples();
    let plain = world.command(&args(&examples, &[], &["cat <&5000"]));
    let script = "exec 5000<\"$PRIVATE\"; ulimit -Sn 1024; exec \"$@\"";
    let mut command = Command::new("bash");
    command.args(["-c", script, "bash"]).arg(plain.get_program()).args(plain.get_args()).env_clear();
    command.envs(plain.get_envs().filter_map(|(name, value)| Some((name, value?))));
    command.current_dir(plain.get_current_dir().unwrap()).env("PRIVATE", world.path("private.txt"));
    let output = command.output().unwrap();
    let told = format!("{}{}", String::from_utf8_lossy(&output.stdout), stderr(&output));
    assert!(!told.contains("nobody gave this"), "{told}");
    assert!(told.contains("descriptor 5000 is open for other programs"), "{told}");
}
