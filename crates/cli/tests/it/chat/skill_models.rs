//! `model` of a skill: aliases, families of models, and models that a provider does not have.

use super::*;

/// A skill that names this model.
fn skill(world: &World, name: &str, wanted: &str) {
    world.file(
        &format!("home/.prowess/skills/{name}/SKILL.md"),
        &format!("---\nname: {name}\ndescription: Goes {name}.\nmodel: {wanted}\n---\nGo.\n"),
    );
}

/// A turn in which the model loads the skill, looks around twice, and answers.
fn turn() -> Vec<Answer> {
    vec![
        Answer::call("skill_load", json!({"skill": "review"})),
        Answer::call("ls", json!({"path": "/"})),
        Answer::call("ls", json!({"path": "/"})),
        Answer::text("Reviewed."),
    ]
}

/// The models that the requests name.
fn models(model: &FakeModel) -> Vec<String> {
    model.requests().iter().map(|request| request["model"].as_str().unwrap().to_owned()).collect()
}

/// What a person reads in a pipe when they ask for a review.
fn reviewed(world: &World) -> String {
    let output = world.output(&["chat", "--yes", "Review it"]);
    assert_eq!(output.status.code(), Some(0), "{}", world.told(&output));
    assert!(String::from_utf8_lossy(&output.stdout).contains("Reviewed."));
    String::from_utf8(output.stderr).unwrap()
}

#[test]
fn a_family_of_another_provider_is_ignored_with_one_notice() {
    let model = FakeModel::start(turn());
    let world = world(&model);
    skill(&world, "review", "sonnet");
    let told = reviewed(&world);
    let notice = "skill 'review' asks for the model `sonnet`; fake:m is used instead: anthropic has that model, and this \
        conversation is with fake (to choose another, add [alias.sonnet])";
    assert_eq!(told.matches(notice).count(), 1, "{told}");
    assert_eq!(models(&model), ["m", "m", "m", "m"]);
}

#[test]
fn an_alias_is_the_model_that_the_user_says() {
    let model = FakeModel::start(turn());
    let world = world(&model);
    configure(&world, &model.url(), "[alias.sonnet]\nmodel = \"fake:large\"\n");
    skill(&world, "review", "sonnet");
    let told = reviewed(&world);
    assert!(!told.contains("asks for the model"), "{told}");
    assert_eq!(models(&model), ["m", "large", "large", "large"]);
}

#[test]
fn a_family_is_a_model_of_its_own_provider() {
    for (own, expected) in
        [("claude-opus-4-8", "claude-sonnet-5-5"), ("claude-sonnet-4-6", "claude-sonnet-4-6")]
    {
        let model = FakeModel::start(turn());
        let world = world(&model);
        let config = format!(
            "[model]\nname = \"anthropic:{own}\"\n[provider.anthropic]\napi = \"openai\"\nkey_env = \"\"\nbase_url = \"{}\"\n",
            model.url()
        );
        world.file(CONFIG, &config);
        skill(&world, "review", "sonnet");
        let told = reviewed(&world);
        assert!(!told.contains("asks for the model"), "{told}");
        assert_eq!(models(&model), [own, expected, expected, expected]);
    }
}

#[test]
fn inherit_is_the_model_of_the_thread() {
    let model = FakeModel::start(turn());
    let world = world(&model);
    skill(&world, "review", "inherit");
    assert!(!reviewed(&world).contains("asks for the model"));
    assert_eq!(models(&model), ["m", "m", "m", "m"]);
}

#[test]
fn a_model_that_the_provider_does_not_have_is_called_once() {
    for refusal in [
        Answer::status(404, "The model `gone` does not exist or you do not have access to it."),
        Answer::status(404, "model 'gone' not found"),
        Answer::status(400, "gone is not a valid model ID"),
    ] {
        let mut answers = turn();
        answers.insert(1, refusal);
        answers.push(Answer::text("Still there."));
        let model = FakeModel::start(answers);
        let world = world(&model);
        skill(&world, "review", "gone");
        let pty = begun(&world, &[], 100, 40);
        pty.type_line("Review it");
        pty.wait_for("Reviewed.");
        at_prompt(&pty);
        // Other skills do not make prowess ask again.
        skill(&world, "other", "inherit");
        pty.type_line("And now?");
        pty.wait_for("Still there.");
        at_prompt(&pty);
        assert_eq!(models(&model), ["m", "gone", "m", "m", "m", "m"]);
        // Both calls were made for the same step of the conversation.
        assert_eq!(model.requests()[1]["messages"], model.requests()[2]["messages"]);
        let screen = pty.screen();
        assert_eq!(screen.matches("skill 'review' asks for the model").count(), 1, "{screen}");
        assert!(screen.contains("fake:m is used instead: HTTP 40"), "{screen}");
    }
}

/// Other failures of the model that a skill chose are failures.
#[test]
fn a_refusal_for_another_reason_is_not_hidden() {
    let mut answers = turn();
    answers.insert(1, Answer::status(401, "wrong key for model `large`"));
    let model = FakeModel::start(answers);
    let world = world(&model);
    skill(&world, "review", "large");
    let output = world.output(&["chat", "--yes", "Review it"]);
    assert_ne!(output.status.code(), Some(0));
    assert_eq!(models(&model), ["m", "large"]);
}

/// An alias of the user leads a person to another provider, and a skill to none.
#[test]
fn an_alias_does_not_take_a_skill_to_another_provider() {
    let other = FakeModel::start(vec![Answer::text("You asked for me.")]);
    let model = FakeModel::start(turn());
    let world = world(&model);
    let more = format!(
        "[provider.other]\napi = \"openai\"\nbase_url = \"{}\"\n[alias.quick]\nmodel = \"other:q\"\n",
        other.url()
    );
    configure(&world, &model.url(), &more);
    skill(&world, "review", "quick");
    let told = reviewed(&world);
    assert!(
        told.contains("fake:m is used instead: other has that model, and this conversation is with fake"),
        "{told}"
    );
    assert_eq!((models(&model).len(), other.requests().len()), (4, 0));

    let pty = begun(&world, &[], 90, 30);
    pty.type_line("/model quick");
    pty.wait_for("switched to other:q");
    at_prompt(&pty);
    pty.type_line("Hello?");
    pty.wait_for("You asked for me.");
    at_prompt(&pty);
    assert_eq!(models(&other), ["q"]);
}

#[test]
fn an_option_names_a_model_by_its_alias() {
    let model = FakeModel::start(vec![Answer::text("Hello.")]);
    let world = world(&model);
    configure(&world, &model.url(), "[alias.quick]\nmodel = \"fake:q\"\n");
    let output = world.output(&["chat", "--model", "quick", "Hi"]);
    assert_eq!(output.status.code(), Some(0), "{}", world.told(&output));
    assert_eq!(models(&model), ["q"]);
    let told = world.run(&["chat", "--model", "slow", "Hi"]);
    assert!(told.contains("--model: write PROVIDER:NAME"), "{told}");
}

#[test]
fn if_the_thread_s_own_model_is_missing_the_person_reads_what_to_do() {
    let model = FakeModel::start(vec![Answer::status(404, "The model `m` does not exist.")]);
    let world = world(&model);
    let told = world.run(&["chat", "Hi"]);
    assert!(told.contains("check the name of the model with fake, or switch to another model"), "{told}");
}

/// A name is text of a stranger.
#[test]
fn a_hostile_name_is_shown_on_one_line_and_never_sent() {
    let model = FakeModel::start(turn());
    let world = world(&model);
    skill(&world, "review", &format!("\"a\\e[2J\\nb{}\"", "x".repeat(5000)));
    let told = reviewed(&world);
    let notice = told.lines().find(|line| line.contains("asks for the model")).unwrap();
    assert!(notice.contains("no name of a model") && notice.len() < 400, "{notice}");
    assert!(!told.contains('\u{1b}'), "{told}");
    assert_eq!(models(&model), ["m", "m", "m", "m"]);
}
