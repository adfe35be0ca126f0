//! What a turn may take, and what is wrong on the command line.

use insta::assert_snapshot;
use serde_json::json;

use super::*;

#[test]
fn a_turn_ends_at_its_limits() {
    let looks = || Answer::call("ls", json!({"path": "/"})).usage(1_000_000, 0);
    let model = FakeModel::start((0..20).map(|_| looks()).collect());
    let world = world(&model);
    let mut all = String::new();
    for args in [&["--max-model-calls", "2"][..], &["--max-cost", "0.5"]] {
        all.push_str(&format!("{args:?} {}", told(&world, &[&["chat", "look"], args].concat())));
    }
    configure(&world, &model.url(), "[price.\"fake:*\"]\ninput = 1\noutput = 10\n");
    for args in [&["--max-cost", "0.5"][..], &["--max-cost", "2.5"]] {
        all.push_str(&format!("{args:?} {}", told(&world, &[&["chat", "look"], args].concat())));
    }
    // The model counts more than its window has, and still responds, so the window ends no turn.
    let notice = regex::Regex::new("a summary would free too little.*\n").unwrap();
    assert_snapshot!(notice.replace_all(&all, ""));
}

/// `--max-turns` is the old name of `--max-model-calls`.
#[test]
fn the_old_option_works_and_a_notice_names_the_new_one() {
    let looks = || Answer::call("ls", json!({"path": "/"}));
    let model = FakeModel::start((0..10).map(|_| looks()).collect());
    let world = world(&model);
    let chat = |args: &[&str]| told(&world, &[&["chat", "look", "--json"], args].concat());
    let calls = |before: usize| model.requests().len() - before;
    let old = chat(&["--max-turns", "2"]);
    assert_eq!(calls(0), 2, "{old}");
    let (output, errors) = old.split_once("--- err\n").unwrap();
    assert!(!output.contains("notice"), "{output}");
    assert!(
        errors.contains("notice: --max-turns is now called --max-model-calls; please rename it"),
        "{errors}"
    );
    let both = chat(&["--max-turns", "1", "--max-model-calls", "3"]);
    assert_eq!(calls(2), 3, "{both}");
    assert!(
        both.contains(
            "notice: --max-turns is ignored: --max-model-calls, its new name, is set too; remove the old one"
        ),
        "{both}"
    );
    assert!(!world.stdout(&["chat", "--help"]).contains("--max-turns"));
}

#[test]
fn nonsense_is_told_in_one_line() {
    let model = FakeModel::start(vec![Answer::text("Hello."), Answer::text("Hello.")]);
    let world = world(&model);
    for _ in 0..2 {
        assert_eq!(world.output(&["chat", "hello"]).status.code(), Some(0));
    }
    let day = thread(&world)[..4].to_owned();
    let mistakes: &[&[&str]] = &[
        &["--sandbox", "concrete", "x"],
        &["--max-model-calls", "many", "x"],
        &["--max-model-calls", "0", "x"],
        &["--max-cost", "-1", "x"],
        &["--max-cost", "nan", "x"],
        &["--model", "gpt", "x"],
        &["--model", "nobody:gpt", "x"],
        &["--resume", "zeppelin", "x"],
        &["--resume", "", "x"],
        &["--resume", &day, "x"],
        &["--resume", "../../etc", "x"],
        &["--root", "nowhere", "x"],
        &["--jsn", "x"],
        &["--max-turn", "3", "x"],
        &["/contxt"],
        &["/resume zeppelin"],
        &["x", "y"],
        &[" "],
    ];
    let mut all = String::new();
    for args in mistakes {
        let output = world.output(&[&["chat"], *args].concat());
        let error = stable(&world, &String::from_utf8(output.stderr).unwrap());
        assert_eq!(
            (output.status.code(), output.stdout.len(), error.lines().count()),
            (Some(2), 0, 1),
            "{args:?}: {error}"
        );
        let args = args.join(" ").replace(&day, "[YEAR]");
        all.push_str(&format!("{args}\n    {}", error.replace(&format!("`{day}`"), "`[YEAR]`")));
    }
    assert_snapshot!(all);
    assert_eq!(model.requests().len(), 2);
}

#[test]
fn a_keyboard_needs_a_screen() {
    let model = FakeModel::start(Vec::new());
    let world = world(&model);
    let mut pty = Pty::start(&world, &["chat", "--json"], 80, 10);
    assert_eq!(pty.wait(), Some(2));
    assert_snapshot!(pty.screen());
}
