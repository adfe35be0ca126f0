//! Thousands of skills: the overview keeps to its budget, and the model finds the others.

use super::*;

/// The number of skills besides `tides`.
const SKILLS: usize = 1_000;

/// A world with many skills, one of which makes sails.
fn crowded(model: &FakeModel) -> World {
    let world = world(model);
    for number in 0..SKILLS {
        let (name, description) = match number {
            700 => {
                ("mend-canvas".to_owned(), "Repairs torn sails of a boat, by hand or by machine.".to_owned())
            }
            _ => (
                format!("task-{number}"),
                format!("Does the task with the number {number}. Use when somebody asks for it."),
            ),
        };
        let manifest = format!("---\nname: {name}\ndescription: {description}\n---\n\nDo it.\n");
        world.file(&format!("home/.prowess/skills/{name}/SKILL.md"), &manifest);
    }
    world
}

fn system(request: &Value) -> &str {
    request["messages"][0]["content"].as_str().unwrap()
}

#[test]
fn a_model_finds_and_loads_a_skill_that_the_overview_leaves_out() {
    let model = FakeModel::start(vec![
        Answer::call("search_skills", json!({"query": "repair a torn sail", "limit": 3})),
        Answer::call("skill_load", json!({"skill": "mend-canvas"})),
        Answer::text("Done."),
    ]);
    let told = crowded(&model).run(&["chat", "my sail is torn"]);
    let requests = model.requests();
    assert_eq!(requests.len(), 3, "{told}");
    let first = system(&requests[0]);
    assert!(first.contains(&format!("User ({}): mend-canvas, task-0, task-1, ", SKILLS + 1)), "{first}");
    assert!(first.contains("use `search_skills` to find skills by what they do"), "{first}");
    assert!(!first.contains("Does the task"), "{first}");
    assert!(first.len() < 4 * 5_000, "{} characters", first.len());
    // The first hit, with the call that loads it.
    let found = last(&requests[1]);
    assert!(found.starts_with("\"- **mend-canvas**: Repairs torn sails"), "{found}");
    assert!(found.contains("skill_load"), "{found}");
    assert!(all(&requests[2]).contains("Do it."), "{}", requests[2]);
}

#[test]
fn a_small_window_and_the_configuration_make_the_overview_shorter() {
    let model = FakeModel::start(vec![Answer::text("Done."), Answer::text("Done.")]);
    let world = world(&model);
    for number in 0..40 {
        let manifest = format!(
            "---\nname: task-{number}\ndescription: Does the task with the number {number}. Use when somebody asks for it.\n---\n\nDo it.\n"
        );
        world.file(&format!("home/.prowess/skills/task-{number}/SKILL.md"), &manifest);
    }
    world.run(&["chat", "go"]);
    configure(&world, &model.url(), "[skills.overview]\nbudget = 200\n");
    world.run(&["chat", "go"]);
    let requests = model.requests();
    assert!(system(&requests[0]).contains("- **task-39**: Does the task"), "{}", system(&requests[0]));
    assert!(system(&requests[1]).contains("User (41): task-0, task-1,"), "{}", system(&requests[1]));
}

/// Skills that match a message are named at its end, once, and only if they match it well.
#[test]
fn skills_that_match_a_message_are_suggested_once() {
    let note = "These skills may fit the request:";
    let told = |settings: &str, lines: &[&str]| {
        let model = FakeModel::start(lines.iter().map(|_| Answer::text("Yes.")).collect());
        let world = crowded(&model);
        configure(&world, &model.url(), settings);
        for (at, line) in lines.iter().enumerate() {
            let resumed: &[&str] = if at == 0 { &[] } else { &["--resume", "last"] };
            world.run(&[&["chat"], resumed, &[*line]].concat());
        }
        model.requests().iter().map(last).collect::<Vec<_>>()
    };
    let said = told("", &["the sails of my boat are torn", "thanks, go on", "my torn sails!", "hello there"]);
    assert!(
        said[0].contains(&format!("{note}\\n- **mend-canvas**: Repairs torn sails of a boat")),
        "{said:?}"
    );
    assert!(said[1..].iter().all(|said| !said.contains(note)), "{said:?}");
    for settings in [
        "suggestions = 0",
        "mode.mend-canvas = \"manual\"",
        "mode.mend-canvas = \"off\"",
        "kits = [\"k\"]\nkit.k = [\"task-*\"]",
    ] {
        let said = told(&format!("[skills]\n{settings}\n"), &["the sails of my boat are torn"]);
        assert!(!said[0].contains("mend-canvas"), "{settings}: {said:?}");
    }
}
