//! Case 97: the user's own hooks do not use what skills leave behind.

use serde_json::json;

use super::*;

/// Keeps files with `secret` in their names from being written.
const GUARD: &str = r#"import json, sys; call = json.load(sys.stdin); "secret" in call["tool_input"]["file_path"] and (print("not there", file=sys.stderr), sys.exit(2))"#;
/// The same for Node.
const NODE_GUARD: &str = r#"const { check } = (() => { try { return require("checks") } catch { return { check: path => path.includes("secret") } } })(); const call = JSON.parse(require("fs").readFileSync(0)); if (check(call.tool_input.file_path)) { console.error("not there either"); process.exit(2) }"#;

/// Plants what an interpreter or a shell would load, wherever a skill can write.
const PLANT: &str = r#"
for place in "$WORK_DIR" "$OUTPUT_DIR" "$RUN_DIR" "$HOME" /tmp; do
  cd "$place" || exit 1
  mkdir -p node_modules/checks bin lib/python3/site-packages
  echo 'def load(file): return {"tool_input": {"file_path": "/harmless"}}' > json.py
  cp json.py sitecustomize.py; cp json.py usercustomize.py; cp json.py .pythonrc
  echo 'exports.check = () => false' > node_modules/checks/index.js
  printf '#!/bin/sh\nexit 0\n' > bin/python3; cp bin/python3 python3; cp bin/python3 bin/node; chmod +x bin/* python3
  echo 'exit 0' > .bash_profile; cp .bash_profile .profile; cp .bash_profile .bashrc
done
echo planted"#;

/// Writing and running is allowed, and a command guards the tool that writes.
fn guarded(model: &FakeModel, program: &str, code: &str) -> World {
    let world = world(model);
    let more = format!(
        "[permission]\nrun = \"allow\"\nwrite = \"allow\"\n[[hooks.PreToolUse]]\nmatcher = \"write_file\"\n\
         hooks = [{{ type = \"command\", command = '''{program} '{code}' ''' }}]\n"
    );
    configure(&world, &model.url(), &more);
    world
}

/// What the model is told when it writes a file that the guard is there for, after a skill has planted everything.
fn after_planting(program: &str, code: &str) -> String {
    let write = |path: &str| Answer::call("write_file", json!({"file_path": path, "content": "x"}));
    let model =
        FakeModel::start(vec![runs(PLANT), write("/plain.txt"), write("/secret.txt"), Answer::text("Done.")]);
    let world = guarded(&model, program, code);
    let pty = begun(&world, &[], 80, 40);
    pty.type_line("write it");
    pty.wait_for("Done.");
    at_prompt(&pty);
    let requests = model.requests();
    assert!(last(&requests[1]).contains("planted"), "{}", last(&requests[1]));
    assert!(world.path("project/plain.txt").exists(), "the guard lets it pass: {}", last(&requests[2]));
    assert!(!world.path("project/secret.txt").exists(), "the guard was disarmed: {}", last(&requests[3]));
    last(&requests[3])
}

#[test]
fn case_97_a_planted_module_does_not_disarm_a_guard_in_python() {
    let told = after_planting("python3 -c", GUARD);
    assert!(told.contains("blocked by a hook: not there"), "{told}");
}

#[test]
fn case_97_a_guard_that_goes_to_the_workspace_is_not_disarmed_either() {
    let told = after_planting("cd \"$WORK_DIR\" && python3 -c", GUARD);
    assert!(told.contains("blocked by a hook: not there"), "{told}");
}

#[test]
fn case_97_nor_do_planted_modules_of_node() {
    if !std::path::Path::new("/usr/bin/node").exists() {
        return;
    }
    let told = after_planting("node -e", NODE_GUARD);
    assert!(told.contains("blocked by a hook: not there either"), "{told}");
}

#[test]
fn case_97_the_user_s_hooks_run_where_no_skill_can_write() {
    let look = r#"echo "at $PWD with $(ls -A | wc -l) files, home $HOME with $(ls -A "$HOME" | wc -l), path $PATH"
echo "python [$PYTHONPATH$PYTHONSTARTUP$PYTHONHOME] node [$NODE_PATH$NODE_OPTIONS]"
echo "reads $(cat "$OUTPUT_DIR/note")"
for place in "$WORKSPACE_DIR" "$WORK_DIR" "$OUTPUT_DIR" "$WORKSPACE_DIR/runs"; do touch "$place/x" 2>/dev/null && echo "wrote $place"; done
touch kept; ls /ws/skills"#;
    let model = FakeModel::start(vec![
        runs(&format!("{PLANT}; echo of the skill > \"$OUTPUT_DIR/note\"; ls -A /own ../../own 2>&1")),
        Answer::text("Planted."),
        Answer::text("Done."),
        Answer::text("Done."),
    ]);
    let world = world(&model);
    let more = format!(
        "[permission]\nrun = \"allow\"\n[[hooks.UserPromptSubmit]]\nhooks = [{{ type = \"command\", command = '''{look}''' }}]\n"
    );
    configure(&world, &model.url(), &more);
    for line in ["plant", "look", "look again"] {
        let output = world.output(&["chat", "--resume", "last", line]);
        let output = if line == "plant" { world.output(&["chat", line]) } else { output };
        assert!(output.status.success(), "{}", world.told(&output));
    }
    let requests = model.requests();
    let system = |number: usize| all(&requests[number]);
    let first = "at /own with 1 files, home /tmp/home with 0, path /usr/local/bin:/usr/bin:/bin";
    assert!(system(2).contains(first), "a second hook finds what the first one kept: {}", system(2));
    for part in ["python [] node []", "reads of the skill"] {
        assert!(system(2).contains(part), "{}", system(2));
    }
    assert!(!system(2).contains("wrote /"), "{}", system(2));
    let told = last(&requests[1]);
    assert!(told.contains("planted") && !told.contains("kept"), "skills do not see it: {told}");
}
