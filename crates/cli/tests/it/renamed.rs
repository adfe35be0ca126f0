//! Keys, variables and options that were renamed: the old names still work, and a notice says the new ones.

use std::process::Output;

use crate::world::World;

const USER: &str = "home/.config/prowess/prowess.toml";

/// Each key in a file under its old and its new name, with a value and the lines before and after it.
const KEYS: [(&str, &str, &str, &str, &str); 6] = [
    ("limits.steps", "limits.model_calls", "7", "[limits]\n", ""),
    ("skills.max_loaded", "skills.max_loaded_skills", "3", "[skills]\n", ""),
    ("skills.max_tokens", "skills.max_loaded_tokens", "5000", "[skills]\n", ""),
    ("model.window", "model.context_window", "32768", "[model]\n", ""),
    ("model.max_output", "model.max_output_tokens", "800", "[model]\n", ""),
    ("price.gpt.cache_written", "price.gpt.cache_write", "3.75", "[price.gpt]\n", "input = 3\noutput = 15\n"),
];

fn errors(output: &Output) -> String {
    assert!(output.status.success(), "{output:?}");
    String::from_utf8(output.stderr.clone()).unwrap()
}

fn last(key: &str) -> &str {
    key.rsplit('.').next().unwrap()
}

#[test]
fn an_old_key_in_a_file_works_and_one_notice_names_the_new_key() {
    let world = World::new();
    let file = world.path(USER).display().to_string();
    for (old, new, value, before, after) in KEYS {
        world.file(USER, &format!("{before}{} = {value}\n{after}", last(old)));
        let output = world.output(&["config", "show"]);
        let shown = String::from_utf8(output.stdout.clone()).unwrap();
        assert!(shown.contains(&format!("{new}\t{value}\t{file}:2\n")), "{shown}");
        assert!(!shown.contains(&format!("{old}\t")), "{shown}");
        let notice = format!("notice: {file}:2: `{old}` is now called `{new}`; please rename it\n");
        assert_eq!(errors(&output), notice);
        // The new key is silent.
        world.file(USER, &format!("{before}{} = {value}\n{after}", last(new)));
        assert_eq!(errors(&world.output(&["config", "show"])), "");
    }
}

#[test]
fn the_new_key_wins_over_the_old_one_in_the_same_file() {
    let world = World::new();
    let file = world.path(USER).display().to_string();
    for (old, new, value, before, after) in KEYS {
        let lines = format!("{before}{} = 1000\n{} = {value}\n{after}", last(old), last(new));
        world.file(USER, &lines);
        let output = world.output(&["config", "show"]);
        let shown = String::from_utf8(output.stdout.clone()).unwrap();
        assert!(shown.contains(&format!("{new}\t{value}\t{file}:3\n")), "{shown}");
        let notice = format!(
            "notice: {file}:2: `{old}` is ignored: `{new}`, its new name, is set too; remove the old one\n"
        );
        assert_eq!(errors(&output), notice);
    }
}

#[test]
fn an_old_variable_works_and_one_notice_names_the_new_variable() {
    let world = World::new();
    let variable = |key: &str| format!("PROWESS_{}", key.replace('.', "_").to_uppercase());
    // Prices have no variables.
    for (old, new, value, ..) in &KEYS[..5] {
        let (old, variable_of_new) = (variable(old), variable(new));
        let output = world.command(&["config", "show"]).env(&old, value).output().unwrap();
        let shown = String::from_utf8(output.stdout.clone()).unwrap();
        assert!(shown.contains(&format!("{new}\t{value}\t{old}\n")), "{shown}");
        assert_eq!(
            errors(&output),
            format!("notice: {old} is now called {variable_of_new}; please rename it\n")
        );
        let mut command = world.command(&["config", "show"]);
        let output = command.env(&old, "1000").env(&variable_of_new, value).output().unwrap();
        let shown = String::from_utf8(output.stdout.clone()).unwrap();
        assert!(shown.contains(&format!("{new}\t{value}\t{variable_of_new}\n")), "{shown}");
        assert_eq!(
            errors(&output),
            format!(
                "notice: {old} is ignored: {variable_of_new}, its new name, is set too; remove the old one\n"
            )
        );
    }
}

#[test]
fn a_notice_comes_once_per_start_and_never_on_standard_output_or_in_completions() {
    let world = World::new();
    world.file(USER, "[skills]\nmax_loaded = 3\n").skill(
        "home/.prowess/skills",
        "tides",
        "Looks up tides. Use at sea.",
    );
    // These commands load the configuration more than once.
    for args in
        [&["list", "--json"][..], &["session", "--json", "-c", "prompt"], &["config", "show", "--json"]]
    {
        let output = world.output(args);
        assert_eq!(errors(&output).matches("notice: ").count(), 1, "{args:?}: {}", errors(&output));
        assert!(!String::from_utf8_lossy(&output.stdout).contains("notice"), "{args:?}");
    }
    for words in [&["info", "ti"][..], &["chat", "--model", "off"]] {
        let mut command = world.command(&["--"]);
        command.arg("prowess").args(words).env("_PROWESS_COMPLETE", "fish");
        let output = command.output().unwrap();
        assert_eq!(errors(&output), "");
        assert!(!output.stdout.is_empty(), "{words:?}");
    }
}

#[test]
fn an_old_key_in_a_project_s_file_is_told_only_if_the_file_counts() {
    let world = World::new();
    world.file("project/prowess.toml", "[skills]\nmax_loaded = 3\n");
    let untrusted = errors(&world.output(&["config", "show"]));
    assert!(!untrusted.contains("notice: "), "{untrusted}");
    let output = world.output(&["config", "show", "--trust-project"]);
    assert!(String::from_utf8_lossy(&output.stdout).contains("skills.max_loaded_skills\t3\t"));
    assert!(errors(&output).contains("`skills.max_loaded` is now called `skills.max_loaded_skills`"));
}

#[test]
fn a_message_about_an_old_key_says_both_names() {
    let world = World::new();
    let refused = |args: &[&str]| {
        let output = world.output(args);
        assert_eq!(output.status.code(), Some(2), "{output:?}");
        String::from_utf8(output.stderr).unwrap()
    };
    world.file("project/prowess.toml", "[limits]\nsteps = 5\n");
    let forbidden = refused(&["config", "show", "--trust-project"]);
    assert!(forbidden.contains("/project/prowess.toml:2: only your own file"), "{forbidden}");
    assert!(forbidden.contains(" may set `limits.steps` (now called `limits.model_calls`); move it there"));
    world.file(USER, "[model]\nwindow = 1\n");
    let wrong = refused(&["config", "show"]);
    assert!(
        wrong.ends_with(
            "prowess.toml:2: `model.window` (now called `model.context_window`) must be a whole number of 1000 or \
             more, not 1\n"
        ),
        "{wrong}"
    );
}
