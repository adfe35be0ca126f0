//! `prowess config`, and what is configured in other commands.

use std::os::unix::fs::{PermissionsExt as _, symlink};
use std::path::Path;
use std::process::Command;

use insta::assert_snapshot;

use crate::world::World;

const USER: &str = "home/.config/prowess/prowess.toml";

/// What a command says when it is refused: one line.
fn refused(world: &World, args: &[&str]) -> String {
    let output = world.output(args);
    let told = world.told(&output);
    assert_eq!((output.status.code(), output.stdout.len()), (Some(2), 0), "{told}");
    let line = told.split("--- err\n").nth(1).unwrap().to_owned();
    assert_eq!(line.lines().count(), 1, "{line}");
    line
}

#[test]
fn show_says_where_each_value_came_from() {
    let world = World::new();
    world
        .file(
            USER,
            "[model]\nname = \"local:llama\"\neffort = \"high\"\n[provider.local]\napi = \"openai\"\n\
             base_url = \"http://me:hush@127.0.0.1:11434/v1\"\nkey_command = [\"pass\", \"show\", \"hush\"]\n\
             [permission]\nrun = \"ask\"\nrn = \"ask\"\n[[hooks.Stop]]\nhooks = [{ type = \"prompt\", prompt = \"x\" }]\n",
        )
        .file("project/prowess.toml", "[skills]\nmax_loaded_skills = 20\n");
    let shown = |args: &[&str]| {
        let mut command = world.command(args);
        command.env("PROWESS_LIMITS_TOKENS", "1000").env("OPENAI_API_KEY", "hush");
        world.told(&command.output().unwrap())
    };
    let all = shown(&["config", "show", "--trust-project"]);
    assert!(!all.contains("hush"), "{all}");
    assert_snapshot!(all);
    let untrusted = shown(&["config", "show"]);
    assert!(
        untrusted.contains("skills.max_loaded_skills\t10\tdefault"),
        "a project that is not trusted sets nothing: {untrusted}"
    );
    assert!(untrusted.contains("this project is not trusted: its prowess.toml is not used"), "{untrusted}");
    let json = world.json(&["config", "show", "--json"]);
    let name = json.as_array().unwrap().iter().find(|row| row["key"] == "model.name").unwrap();
    assert_eq!(
        (name["value"].as_str(), name["origin"].as_str(), name["line"].as_u64()),
        (Some("local:llama"), Some("user"), Some(2))
    );
}

#[test]
fn path_is_where_the_user_s_file_belongs() {
    let world = World::new();
    assert_eq!(world.stdout(&["config", "path"]).trim(), world.path(USER).to_string_lossy());
    let mut command = world.command(&["config", "path"]);
    let output = command.env("XDG_CONFIG_HOME", "/etc/xdg").output().unwrap();
    assert_eq!(String::from_utf8(output.stdout).unwrap(), "/etc/xdg/prowess/prowess.toml\n");
}

#[test]
fn the_page_of_the_configuration_is_made_from_the_types() {
    let reference = World::new().stdout(&["config", "reference"]);
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/configuration.md");
    let written = std::fs::read_to_string(&path).unwrap();
    let mark = "<!-- From here on: `prowess config reference`. -->\n";
    let (head, rest) = written.split_once(mark).unwrap();
    if std::env::var_os("PROWESS_WRITE_DOCS").is_some() {
        std::fs::write(&path, format!("{head}{mark}\n{reference}")).unwrap();
        return;
    }
    assert!(
        rest.trim_start() == reference,
        "docs/configuration.md is out of date: run this test with PROWESS_WRITE_DOCS=1"
    );
}

#[test]
fn a_broken_file_stops_what_would_use_it_with_one_line() {
    let world = World::new();
    world.file(USER, "\n[model]\nnmae = \"offline\"\n").skill(
        "skills",
        "tides",
        "Looks up tides. Use at sea.",
    );
    for args in
        [&["list"][..], &["prompt"], &["search", "x"], &["session", "-c", "skills"], &["config", "show"]]
    {
        let line = refused(&world, args);
        assert_eq!(
            line,
            "prowess: [WORLD]/home/.config/prowess/prowess.toml:3: there is no key `model.nmae`; did you mean `model.name`?\n"
        );
    }
    let doctor = world.told(&world.output(&["doctor"]));
    assert!(doctor.starts_with("exit 1") && doctor.contains("there is no key `model.nmae`"), "{doctor}");
    let skills = world.path("skills").to_string_lossy().into_owned();
    world.stdout(&["list", "--only", "--root", &skills]);
    world.stdout(&["check", &skills]);
}

#[test]
fn hostile_files_are_refused_with_one_line() {
    let world = World::new();
    let path = world.path(USER);
    let mut told = String::new();
    let mut tell =
        |what: &str| told.push_str(&format!("{what}\n    {}", refused(&world, &["config", "show"])));
    std::fs::create_dir_all(&path).unwrap();
    tell("a directory");
    std::fs::remove_dir(&path).unwrap();
    assert!(Command::new("mkfifo").arg(&path).status().unwrap().success());
    tell("a FIFO");
    std::fs::remove_file(&path).unwrap();
    symlink("/dev/zero", &path).unwrap();
    tell("a device");
    std::fs::remove_file(&path).unwrap();
    std::fs::write(&path, "# ".to_owned() + &"x".repeat(2 << 20)).unwrap();
    tell("too large");
    std::fs::write(&path, b"[model]\nname = \"\xff\"\n").unwrap();
    tell("no text");
    std::fs::write(&path, "a = ".to_owned() + &"[".repeat(10_000)).unwrap();
    tell("deep");
    std::fs::write(&path, "").unwrap();
    std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o666)).unwrap();
    tell("everybody's");
    assert_snapshot!(told);
    // A link to a file of the user's is how many keep their settings.
    world.file("home/dotfiles/prowess.toml", "[limits]\nmodel_calls = 7\n");
    std::fs::remove_file(&path).unwrap();
    symlink(world.path("home/dotfiles/prowess.toml"), &path).unwrap();
    assert!(world.stdout(&["config", "show"]).contains("limits.model_calls\t7\t"));
}

#[test]
fn a_project_s_file_must_be_its_own_and_set_only_what_it_may() {
    let world = World::new();
    world.file("project/prowess.toml", "[sandbox]\nlevel = \"none\"\n");
    let show = ["config", "show", "--trust-project"];
    let mut told = refused(&world, &show);
    world.file("project/prowess.toml", "[provider.local]\n");
    told.push_str(&refused(&world, &show));
    std::fs::remove_file(world.path("project/prowess.toml")).unwrap();
    world.file("home/secret.toml", "[limits]\nmodel_calls = 1\n");
    symlink(world.path("home/secret.toml"), world.path("project/prowess.toml")).unwrap();
    told.push_str(&refused(&world, &show));
    assert_snapshot!(told);
    assert!(world.output(&["list"]).status.success(), "who does not trust it does not read it");
}

#[test]
fn roots_and_budgets_are_taken_from_the_file_and_options_win() {
    let world = World::new();
    world
        .skill("home/shelf", "tides", "Looks up tides. Use at sea.")
        .skill("home/shelf", "kites", "Builds kites. Use in wind.")
        .file(
            USER,
            "[skills]\nroots = [\"~/shelf\"]\nmax_loaded_skills = 1\n[permission.skill]\nkites = \"deny\"\n",
        );
    let listed = world.stdout(&["list"]);
    assert!(listed.contains("tides\texplicit") && listed.contains("kites\texplicit"), "{listed}");
    let deny = world.told(&world.output(&["session", "--show", "answer", "-c", "load kites"]));
    assert!(
        deny.starts_with("exit 1") && deny.contains("'kites' not found. Available skills: tides"),
        "{deny}"
    );
    let skills = ["session", "--show", "list", "--max-skills", "2", "-c", "load tides"];
    assert!(world.output(&skills).status.success());
    let output = world.command(&["list"]).env("PROWESS_SKILLS_ROOTS", "").output().unwrap();
    assert!(String::from_utf8_lossy(&output.stdout).starts_with("No skills were found."));
}

#[test]
fn what_holds_commands_is_taken_from_the_file() {
    let world = World::new();
    world
        .skill("home/.prowess/skills", "tides", "Looks up tides. Use at sea.")
        .file(USER, "[sandbox]\nexecutor = \"container\"\nimage = \"no-such-image-here\"\n");
    let mut command = world.command(&["run", "tides", "--", "true"]);
    let output = command.env("DOCKER_HOST", "unix:///nowhere.sock").output().unwrap();
    let told = world.told(&output);
    assert!(told.starts_with("exit 125") && told.contains("/nowhere.sock"), "{told}");
    let mut command = world.command(&["doctor", "--json"]);
    let output = command.env("DOCKER_HOST", "unix:///nowhere.sock").output().unwrap();
    let report: serde_json::Value = serde_json::from_slice(&output.stdout).unwrap();
    assert_eq!(report["containers"]["image"], "no-such-image-here");
}

#[test]
fn a_misspelt_variable_is_told() {
    let world = World::new();
    let told = |name: &str| {
        let output = world.command(&["config", "show"]).env(name, "3").output().unwrap();
        (output.status.code(), String::from_utf8(output.stderr).unwrap())
    };
    for (name, meant) in [
        ("PROWESS_MODLE_NAME", "PROWESS_MODEL_NAME"),
        ("PROWESS_LIMIT_STEPS", "PROWESS_LIMITS_MODEL_CALLS"),
        ("PROWESS_SKILL_ROOTS", "PROWESS_SKILLS_ROOTS"),
    ] {
        let line = format!("notice: the environment variable {name} sets no key; did you mean {meant}?\n");
        assert_eq!(told(name), (Some(0), line));
    }
    let line = "prowess: the environment variable PROWESS_PERMISSION_RUN sets no key; only a prowess.toml can have \
                rules and hooks\n";
    assert_eq!(told("PROWESS_PERMISSION_RUN"), (Some(2), line.to_owned()));
    let line = "prowess: the environment variable PROWESS_MODEL_NMAE sets no key; did you mean PROWESS_MODEL_NAME?\n";
    assert_eq!(told("PROWESS_MODEL_NMAE"), (Some(2), line.to_owned()));
    // It may belong to another program.
    assert_eq!(told("PROWESS_FOO"), (Some(0), String::new()));
}

#[test]
fn a_message_about_a_missing_key_says_what_the_key_is() {
    let world = World::new();
    world.file(USER, "[provider.local]\napi = \"openai\"\n");
    assert_eq!(
        refused(&world, &["config", "show"]),
        "prowess: [WORLD]/home/.config/prowess/prowess.toml:1: `provider.local.base_url` (the URL of the provider's API) \
         is missing; add it: text in quotes\n"
    );
}
