//! Configuration: what is read, in which order, and what is wrong with it.

use prowess_permission::{Decision, Kind, PathBase, PermissionConfig, Rule};

fn rules(text: &str) -> Vec<String> {
    let config = PermissionConfig::parse(text, "prowess.toml").unwrap();
    config.rules.iter().map(|r| format!("{} {} {}", r.kind, r.pattern, r.decision)).collect()
}

fn error(text: &str) -> String {
    PermissionConfig::parse(text, "prowess.toml").unwrap_err().to_string()
}

#[test]
fn rules_stand_in_the_order_of_the_file() {
    let expected = ["run z allow", "run a deny", "run m ask"];
    assert_eq!(rules("[permission.run]\nz = 'allow'\n'a' = 'deny' # why\nm = \"ask\"\n"), expected);
    assert_eq!(rules("permission.run = { z = 'allow', a = 'deny', m = 'ask' }"), expected);
    assert_eq!(rules("[permission]\nrun.z = 'allow'\nrun.a = 'deny'\nrun.m = 'ask'\n"), expected);
    assert_eq!(
        rules("[permission.write]\n'b' = 'ask'\n[permission]\nskill = 'deny'\n'*' = 'ask'\n"),
        ["write b ask", "skill * deny", "* * ask"],
        "also when a part comes before its whole"
    );
    assert_eq!(
        rules("[permission]\nrun.a = 'allow'\n'*' = 'deny'\nrun.b = 'allow'\n"),
        ["run a allow", "* * deny", "run b allow"],
        "also when a table is split"
    );
    assert_eq!(rules(""), [""; 0]);
    assert_eq!(rules("[permission]\n[permission.run]\n"), [""; 0]);
}

#[test]
fn agents_have_rules_of_their_own() {
    let config = PermissionConfig::parse(
        "[agent.reviewer.permission]\nwrite = 'deny'\n[agent.'a b'.permission.run]\n'*' = 'ask'\n",
        "prowess.toml",
    )
    .unwrap();
    assert!(config.rules.is_empty());
    assert_eq!(config.agents["reviewer"], [Rule::new("write", "*", Decision::Deny)]);
    assert_eq!(config.agents["a b"], [Rule::new("run", "*", Decision::Ask)]);
}

#[test]
fn a_larger_file_says_what_is_not_ours() {
    let text = "model = 'x'\n[permission]\nrun = 'ask'\n[agent.a]\nmodel = 'y'\n";
    let config = PermissionConfig::from_document(text, "prowess.toml", &["model", "agent.*.model"]).unwrap();
    assert_eq!(config.rules.len(), 1);
    let error = PermissionConfig::from_document(text, "prowess.toml", &["model"]).unwrap_err();
    assert_eq!((error.line, error.column), (5, 1));
}

#[test]
fn paths_are_read_from_their_places() {
    let text = "[permission.read]\n'~/notes/*' = 'allow'\n[agent.a.permission.read]\n'$HOME' = 'deny'\n\
                [permission.run]\n'~/bin/x *' = 'allow'\n";
    let base = PathBase::new("/nowhere/site").home("/nowhere/a");
    let config = PermissionConfig::located(text, "prowess.toml", &[], &base).unwrap();
    assert!(config.rules[0].applies(&Kind::READ, "/nowhere/a/notes/x"));
    assert_eq!(config.rules[0].pattern.as_str(), "~/notes/*", "as it was written");
    let denied = &config.agents["a"][0];
    assert!(denied.applies(&Kind::READ, "/nowhere/a") && denied.applies(&Kind::READ, "/nowhere/a/x"));
    assert!(config.rules[1].applies(&Kind::RUN, "/nowhere/a/bin/x y"));
}

#[test]
fn a_kind_that_is_probably_misspelt_is_a_warning() {
    let config = PermissionConfig::parse("permission.skil = 'deny'", "prowess.toml").unwrap();
    insta::assert_snapshot!(config.warnings[0], @"prowess.toml:1:12: `skil` is not a built-in kind; did you mean `skill`?");
    let own = PermissionConfig::parse("permission.deploy = 'deny'", "prowess.toml").unwrap();
    assert_eq!(own.warnings, []);
}

#[test]
fn errors_say_where_and_what_to_do() {
    let long = "*a".repeat(2100);
    let texts = [
        "[permission]\nrun = \"alow\"",
        "[permission]\nrun = \"yes\"",
        "[permission.run]\n\"é\" = \"Allow\"",
        "[permission.run]\n\"ls\" = true",
        "[permission.run]\n\"ls\" = 1",
        "[permission.run.ls]\nx = \"allow\"",
        "[permission]\nrun = [\"ls\"]",
        "permission = \"allow\"",
        "[permision]\nrun = \"ask\"",
        "[model]\nname = \"x\"",
        "[agent]\nreviewer = \"strict\"",
        "agent = 3",
        "[agent.reviewer]\npermissions = {}",
        "[agent.reviewer]\nmodel = \"x\"",
        "[permission]\nRun = \"ask\"",
        "[permission]\n\"r n*\" = \"ask\"",
        "[permission]\n\"\" = \"ask\"",
        "[permission.run]\n\"ls\" = \"ask\"\n\"ls\" = \"allow\"",
        "[permission.run\n",
        "[permission]\nrun = ",
        "[permission]\r\nrun = \"ask\"\r\ntool = \"nope\"",
        &format!("[permission.run]\n\"{long}\" = \"allow\""),
    ];
    let all: Vec<String> = texts.into_iter().map(error).collect();
    insta::assert_snapshot!(all.join("\n"));
    assert_eq!(
        error(&"#".repeat((1 << 20) + 1)),
        "prowess.toml:1:1: the file is larger than 1048576 bytes; shorten it"
    );
}
