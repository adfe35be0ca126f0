//! What a trusted prowess.toml forbids holds after the file was changed, until somebody trusts the change.

use super::*;

const FILE: &str = "project/prowess.toml";
const RULES: &str = "[permission.run]\n\"tides *\" = \"deny\"\n\"tides echo *\" = \"allow\"\n\
                     [[hooks.PreToolUse]]\nmatcher = \"write_file\"\n\
                     hooks = [{ type = \"command\", command = \"exit 2\" }]\n";

/// A project that denies runs of a skill, which the user allows.
fn project(model: &FakeModel) -> World {
    let world = world(model);
    configure(&world, &model.url(), "[permission]\nrun = \"allow\"\nwrite = \"allow\"\n");
    world.file(FILE, RULES);
    world
}

/// What became of a run that says HERON, in a conversation of its own.
fn tried(world: &World) -> String {
    let model = FakeModel::start(vec![runs("printf 'HER%s' ON"), Answer::text("Done.")]);
    configure(world, &model.url(), "[permission]\nrun = \"allow\"\nwrite = \"allow\"\n");
    let told = world.run(&["chat", "go"]);
    format!("{}\n{told}", last(&model.requests()[1]))
}

#[test]
fn what_a_trusted_configuration_forbids_outlives_a_change_to_it() {
    let unused = FakeModel::start(Vec::new());
    let world = project(&unused);
    assert!(tried(&world).contains("HERON"), "nobody trusts it");
    world.stdout(&["trust", "--yes"]);
    assert!(!tried(&world).contains("HERON"));
    let changed = [format!("# a comment\n{RULES}"), String::new(), "[permission\n".to_owned()];
    for text in changed {
        world.file(FILE, &text);
        let told = tried(&world);
        assert!(!told.contains("HERON"), "{text}: {told}");
        assert!(
            told.contains("its prowess.toml is not used, except the hooks and the `deny` and `ask` rules that you trusted before"),
            "{told}"
        );
        // Two rules are the user's.
        let shown = world.stdout(&["config", "show"]);
        assert!(shown.contains("and 3 permission rules\nand 1 hook"), "{shown}");
    }
    // Who trusts the change, or nothing of the project, has said so.
    world.file(FILE, "# nothing is forbidden\n");
    world.stdout(&["trust", "--yes"]);
    assert!(tried(&world).contains("HERON"));
    world.file(FILE, RULES);
    world.stdout(&["trust", "--yes"]);
    world.file(FILE, "");
    world.stdout(&["trust", "--revoke"]);
    assert!(tried(&world).contains("HERON"));
}

#[test]
fn a_model_is_not_rid_of_rules_and_hooks_by_writing_to_the_file() {
    let edit = json!({"file_path": "/prowess.toml", "old_string": "[permission.run]", "new_string": "[permission.tool]"});
    let model = FakeModel::start(vec![
        Answer::call("edit_file", edit),
        Answer::text("Edited."),
        runs("printf 'HER%s' ON").and_call("write_file", json!({"file_path": "/new.txt", "content": "x"})),
        Answer::text("Tried."),
    ]);
    let world = project(&model);
    world.stdout(&["trust", "--yes"]);
    let pty = begun(&world, &[], 100, 40);
    pty.type_line("edit it");
    pty.wait_for("Edited.");
    at_prompt(&pty);
    assert!(std::fs::read_to_string(world.path(FILE)).unwrap().contains("[permission.tool]"));
    pty.type_line("try");
    pty.wait_for("Tried.");
    at_prompt(&pty);
    let said = all(&model.requests()[3]);
    assert!(!said.contains("HERON"), "{said}");
    assert!(!world.path("project/new.txt").exists(), "{said}");
}
