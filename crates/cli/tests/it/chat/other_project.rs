//! A second chat, on another project, sees neither the files nor the artifacts of the first.

use super::*;

const WORD: &str = "heron-of-the-first";

fn chat(world: &World, directory: &str, prompt: &str) {
    let args = ["chat", "--yes", prompt];
    let output = world.command(&args).current_dir(world.path(directory)).output().unwrap();
    assert!(output.status.success(), "{}", world.told(&output));
}

#[test]
fn a_second_chat_on_another_project_sees_nothing_of_the_first() {
    let saves = json!({
        "skill": "tides", "command": format!("echo {WORD} | tee $OUTPUT_DIR/r.txt $WORK_DIR/w.txt"),
        "output_files": ["out/r.txt"], "save_as_artifacts": true,
    });
    let mut script = vec![Answer::call("skill_run", saves), Answer::text("Saved.")];
    let world = World::new();
    let first = world.path("project");
    let secret = first.join("plan.md").display().to_string();
    let run = |command: &str| runs(command);
    let input = |from: &str| {
        Answer::call(
            "skill_run",
            json!({"skill": "tides", "command": "cat $WORK_DIR/inputs/*", "inputs": [{"from": from}]}),
        )
    };
    let read = |tool: &'static str, arguments: Value| Answer::call(tool, arguments);
    let attempts = vec![
        read("read_file", json!({"file_path": "/plan.md"})),
        read("read_file", json!({"file_path": secret})),
        read("read_file", json!({"file_path": "/project/plan.md"})),
        read("grep", json!({"pattern": WORD})),
        read("glob", json!({"pattern": "**/*"})),
        read("copy_file", json!({"from": "/project/plan.md", "to": "/mine.md"})),
        read("copy_file", json!({"from": secret, "to": "/mine.md"})),
        run(&format!("cat {secret} /project/plan.md /work/out/r.txt /work/work/w.txt")),
        run(&format!("ls -R / 2>/dev/null | grep -e plan.md -e '{}'; true", first.display())),
        run("grep -rs heron-of /work /skills /tmp /home /project; true"),
        input("artifact://out/r.txt"),
        input("artifact://out/r.txt@0"),
    ];
    let count = attempts.len();
    script.extend(attempts);
    script.push(Answer::text("Nothing there."));
    let model = FakeModel::start(script);
    configure(&world, &model.url(), "");
    world
        .file(
            "home/.prowess/skills/tides/SKILL.md",
            "---\nname: tides\ndescription: Looks up tides. Use before boat trips.\n---\n\nRun it.\n",
        )
        .file("project/plan.md", &format!("{WORD}\n"))
        .file("other/mine/.git/x", "");
    chat(&world, "project", "save it");
    assert!(last(&model.requests()[1]).contains(WORD), "{}", last(&model.requests()[1]));
    chat(&world, "other/mine", "find it");
    let requests = model.requests();
    assert_eq!(requests.len(), 2 + count + 1, "every attempt was answered");
    for request in &requests[3..] {
        let answer = last(request);
        assert!(!answer.contains(WORD), "{answer}");
    }
    assert!(!world.path("other/mine/mine.md").exists());
    assert_eq!(world.json(&["artifacts", "list", "--json"]).as_array().unwrap().len(), 1);
}
