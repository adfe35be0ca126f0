//! Where the parts of a long conversation meet: skills that change, go or are denied, summaries, limits and the window.

use super::*;

/// Sets rules and other lines after the model.
fn with(world: &World, model: &FakeModel, more: &str) {
    configure(world, &model.url(), more);
}

fn load() -> Answer {
    Answer::call("skill_load", json!({"skill": "tides"}))
}

#[test]
fn a_loaded_skill_that_changes_is_told_once() {
    let model =
        FakeModel::start(vec![load(), Answer::text("Loaded."), Answer::text("Two."), Answer::text("Three.")]);
    let world = world(&model);
    said(&world, &["load it".to_owned()]);
    world.file(
        "home/.prowess/skills/tides/SKILL.md",
        "---\nname: tides\ndescription: Looks up tides. Use before boat trips.\n---\n\nAsk the harbour.\n",
    );
    for line in ["second", "third"] {
        world.run(&["chat", "--yes", "--resume", "last", line]);
    }
    let requests = model.requests();
    let notice = "The loaded skill 'tides' has changed since it was loaded.";
    let told: Vec<usize> = requests.iter().map(|request| all(request).matches(notice).count()).collect();
    assert_eq!(told, [0, 0, 1, 1], "said once, and kept");
    assert!(last(&requests[2]).contains(notice), "at the end: {}", last(&requests[2]));
}

#[test]
fn a_denied_or_hidden_skill_is_in_no_summary_and_no_history() {
    for rule in ["[permission.skill]\ntides = \"deny\"\n", "[skills.mode]\ntides = \"off\"\n"] {
        let model = FakeModel::start(vec![
            Answer::text("They talked.").when(is_summary),
            load(),
            Answer::text("Loaded."),
        ]);
        let world = world(&model);
        said(&world, &["load it".to_owned()]);
        assert!(all(model.requests().last().unwrap()).contains("Run scripts/tides.sh."));
        with(&world, &model, rule);
        world.run(&["chat", "--yes", "--resume", "last", "/compact"]);
        let requests = model.requests();
        assert!(is_summary(requests.last().unwrap()), "a summary was made");
        assert!(!all(requests.last().unwrap()).contains("Run scripts/tides.sh."), "{rule}");
        let kept = std::process::Command::new("grep")
            .args(["-rl", "Run scripts/tides.sh."])
            .arg(world.path("home/.local/state"))
            .output()
            .unwrap();
        let kept = String::from_utf8(kept.stdout).unwrap();
        assert!(!kept.contains(".md"), "{rule}: {kept}");
    }
}

#[test]
fn a_summary_that_is_far_too_long_is_refused() {
    let model = FakeModel::start(vec![
        Answer::text(&"It was a long story. ".repeat(20_000)).when(is_summary),
        Answer::text("One.").usage(0, 0),
        Answer::text("Two.").usage(0, 0),
    ]);
    let world = world(&model);
    with(&world, &model, "");
    world.file(
        CONFIG,
        &format!(
            "[model]\nname = \"fake:m\"\ncontext_window = 20000\n[provider.fake]\napi = \"openai\"\nbase_url = \"{}\"\n",
            model.url()
        ),
    );
    said(&world, &["tide ".repeat(4_000), "second".to_owned()]);
    let told = world.run(&["chat", "--yes", "--resume", "last", "/compact"]);
    assert!(told.contains("nothing was summarised") && told.contains("were asked for"), "{told}");
    let used = world.run(&["chat", "--yes", "--resume", "last", "/context"]);
    assert!(used.contains("of 20.0k tokens"), "the thread is as it was: {used}");
}

#[test]
fn a_summary_takes_a_bounded_number_of_model_calls() {
    let is_long = |request: &Value| is_summary(request) && all(request).len() > 4_000;
    let error = "This model's maximum context length is 8192 tokens.";
    let mut answers: Vec<Answer> = (0..60).map(|_| Answer::status(400, error).when(is_long)).collect();
    answers.extend((0..200).map(|_| Answer::text("More.").when(is_summary)));
    answers.extend((0..4).map(|_| Answer::text("One.").usage(0, 0)));
    let model = FakeModel::start(answers);
    let world = world(&model);
    let long = "tide ".repeat(20_000);
    said(&world, &[long.clone(), long.clone(), long, "last".to_owned()]);
    let before = model.requests().len();
    let told = world.run(&["chat", "--yes", "--resume", "last", "/compact"]);
    let calls = model.requests().len() - before;
    assert!(calls <= 40, "{calls} calls: {told}");
}

#[test]
fn one_skill_cannot_fill_the_answer_of_a_search() {
    let model = FakeModel::start(vec![
        Answer::call("search_skills", json!({"query": "looks up tides"})),
        Answer::text("Found."),
    ]);
    let world = world(&model);
    let tools: String = (0..60).map(|number| format!("  - \"{}{number}\"\n", "<".repeat(200))).collect();
    world.file(
        "home/.prowess/skills/flood/SKILL.md",
        &format!("---\nname: flood\ndescription: Looks up tides, looks up tides.\nallowed-tools:\n{tools}---\nRead.\n"),
    );
    said(&world, &["search".to_owned()]);
    let answer = last(&model.requests()[1]);
    assert!(answer.len() < 8_000 && answer.contains("flood") && answer.contains("**tides**"), "{answer}");
}

#[test]
fn letter_case_does_not_lift_a_rule_or_a_mode() {
    for rule in ["[permission.skill]\ndeploy = \"deny\"\n", "[skills.mode]\ndeploy = \"off\"\n"] {
        let model = FakeModel::start(vec![Answer::text("Hello.")]);
        let world = world(&model);
        with(&world, &model, rule);
        world
            .file(
                "home/.prowess/skills/deploy/SKILL.md",
                "---\nname: deploy\ndescription: Deploys.\n---\nGo.\n",
            )
            .file(
                "project/.prowess/skills/Deploy/SKILL.md",
                "---\nname: Deploy\ndescription: Deploys all.\n---\nGo.\n",
            );
        said(&world, &["hello".to_owned()]);
        let request = model.requests().remove(0);
        assert!(
            !all(&request).contains("eploys") && all(&request).contains("tides"),
            "{rule} {}",
            all(&request)
        );
    }
}

#[test]
fn a_limit_that_cannot_be_kept_is_told() {
    let model = FakeModel::start(vec![Answer::text("Hello.").usage(0, 0)]);
    let world = world(&model);
    with(&world, &model, "[limits]\ntokens = 5000\n");
    let told = said(&world, &["hello".to_owned()]);
    assert!(
        told[0].contains("fake:m does not report tokens, so prowess cannot keep limits.tokens"),
        "{}",
        told[0]
    );
}

#[test]
fn without_skills_a_person_learns_how_to_get_some() {
    let world = World::new();
    let told = world.run(&["chat", "--yes", "hello"]);
    assert!(
        told.contains("`prowess add OWNER/REPO`") && !told.contains("/add OWNER/REPO` in a chat"),
        "{told}"
    );
    assert!(world.run(&["list"]).contains("`prowess add OWNER/REPO`"));
}
