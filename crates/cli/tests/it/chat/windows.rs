//! The context window of a chat: what counts, what is learned, what is told, and what can be set.

use super::*;

/// An answer of a server that does not say what it counted.
fn uncounted(text: &str) -> Answer {
    Answer::text(text).usage(0, 0)
}

fn summary() -> Answer {
    uncounted("They talked.").when(is_summary)
}

/// A message of so many tokens, as prowess counts: four characters are one.
fn long(tokens: usize, letter: &str) -> String {
    letter.repeat(tokens * 4)
}

/// A window of this size, and whatever else is wanted.
fn within(world: &World, model: &FakeModel, window: usize, more: &str) {
    let url = model.url();
    let text = format!(
        "[model]\nname = \"fake:m\"\ncontext_window = {window}\n[provider.fake]\napi = \"openai\"\nbase_url = \"{url}\"\n{more}"
    );
    world.file(CONFIG, &text);
}

/// The tokens of the prompt and the tools of a chat, as prowess counts.
fn base() -> usize {
    let model = FakeModel::start(vec![uncounted("Hello.")]);
    let world = world(&model);
    said(&world, &["hello".to_owned()]);
    let request = model.requests().remove(0);
    let tokens = |text: &str| text.chars().count().div_ceil(4);
    let tools = request["tools"].as_array().unwrap().iter().map(|tool| {
        let function = &tool["function"];
        let texts = ["name", "description"].map(|key| tokens(function[key].as_str().unwrap()));
        texts.iter().sum::<usize>() + tokens(&function["parameters"].to_string()) + 4
    });
    tokens(request["messages"][0]["content"].as_str().unwrap()) + tools.sum::<usize>()
}

#[test]
fn a_message_that_is_longer_than_the_window_is_not_sent() {
    // The long message is summarised in pieces.
    let mut answers: Vec<Answer> = (0..20).map(|_| summary()).collect();
    answers.extend([uncounted("One."), uncounted("Two.")]);
    let model = FakeModel::start(answers);
    let world = world(&model);
    let window = base() + 6_000;
    within(&world, &model, window, "");
    let told = said(&world, &["hello".to_owned(), long(window + 1_000, "x"), "again".to_owned()]);
    let longest = &told[1];
    assert!(longest.contains("does not fit into the model's context window"), "{longest}");
    assert!(
        longest.contains("the largest parts are your message (")
            && longest.contains("Send a shorter message"),
        "{longest}"
    );
    // The long message is summarised once it is no longer the current one.
    assert!(told[2].contains("summarised") && told[2].contains("Two."), "{}", told[2]);
    let requests = model.requests();
    assert!(
        !all(&requests[0]).contains("xxxx") && is_summary(&requests[1]),
        "nothing was sent in the second turn"
    );
}

#[test]
fn a_compaction_that_frees_too_little_is_not_made_and_is_told_once() {
    let model = FakeModel::start(vec![
        Answer::call("skill_load", json!({"skill": "tides"})).usage(0, 0),
        uncounted("Loaded."),
        uncounted("Two."),
        uncounted("Three."),
    ]);
    let world = world(&model);
    let window = base() + 8_000;
    within(&world, &model, window, "");
    // With it the window is nearly full.
    let rules: String = (0..).map(|number| format!("Rule {number} of the tides.\n")).take(1_400).collect();
    let rules: String = rules.chars().take((window * 9 / 10 - base()) * 4).collect();
    let text = format!("---\nname: tides\ndescription: Looks up tides.\n---\n{rules}");
    world.file("home/.prowess/skills/tides/SKILL.md", &text);
    let lines = ["load it", "second", "third"].map(str::to_owned);
    let told = said(&world, &lines);
    let notice = "a summary would free too little of the context window";
    assert_eq!(
        told.iter().map(|told| told.matches(notice).count()).collect::<Vec<_>>(),
        [1, 0, 0],
        "{told:?}"
    );
    assert!(
        told[0].contains("the text of skill `tides`") && told[0].contains("`/unload tides` frees about"),
        "{}",
        told[0]
    );
    let requests = model.requests();
    assert!(requests.len() == 4 && !requests.iter().any(is_summary), "no summary was made");
    for (request, line) in requests[2..].iter().zip(&lines[1..]) {
        assert!(all(request).contains("load it"), "all is still there");
        assert_eq!(all(request).matches("Rule 7 of the tides.").count(), 1, "{line}");
    }
}

#[test]
fn prompt_and_tools_count_right_after_a_restart() {
    // The messages alone are far below the trigger.
    let window = (base() + 4_500) * 100 / 85;
    for (first, is_cut) in [(2_500, true), (1_500, false)] {
        let model = FakeModel::start(vec![uncounted("One."), summary(), uncounted("Two.")]);
        let world = world(&model);
        within(&world, &model, window, "");
        said(&world, &[long(first, "a"), long(2_500, "b")]);
        let requests = model.requests();
        assert_eq!(is_summary(&requests[1]), is_cut);
        assert_eq!(all(requests.last().unwrap()).contains("aaaa"), !is_cut);
        assert!(all(requests.last().unwrap()).contains(&long(2_500, "b")));
    }
}

#[test]
fn an_error_teaches_the_thread_its_window() {
    let base = base();
    let window = base + 7_000;
    let error = format!(
        "This model's maximum context length is {window} tokens. However, your messages resulted in more."
    );
    let model = FakeModel::start(vec![
        uncounted("One."),
        Answer::status(400, &error),
        summary(),
        uncounted("Two."),
        summary(),
        uncounted("Three."),
    ]);
    let world = world(&model);
    within(&world, &model, 100_000, "");
    let told = said(&world, &[long(4_000, "a"), long(3_500, "b"), "/context".to_owned(), long(3_500, "c")]);
    assert!(told[1].contains("fake:m reads fewer tokens than expected"), "{}", told[1]);
    assert!(told[1].contains("summarised") && told[1].contains("Two."), "{}", told[1]);
    let shown = format!("of {:.1}k tokens", window as f64 / 1_000.0);
    assert!(told[2].contains(&shown), "{shown}: {}", told[2]);
    // Another process knows it too, and does not wait for an error.
    assert!(told[3].contains("summarised") && told[3].contains("Three."), "{}", told[3]);
    let kinds: Vec<bool> = model.requests().iter().map(is_summary).collect();
    assert_eq!(kinds, [false, false, true, false, true, false]);
    assert!(all(&model.requests()[3]).contains(&long(3_500, "b")), "the current request is whole");
}

#[test]
fn triggers_and_keep_can_be_set() {
    let base = base();
    let lines = [long(2_500, "a"), long(2_500, "b"), long(2_500, "c")];
    for (settings, kept) in [
        ("trigger = \"5 messages\"\nkeep = \"1 message\"".to_owned(), "c"),
        ("trigger = \"5 messages\"\nkeep = \"3 messages\"".to_owned(), "bc"),
        (format!("trigger = \"{} tokens\"\nkeep = \"5100 tokens\"", base + 7_000), "bc"),
        ("trigger = \"50%\"\nkeep = \"1%\"".to_owned(), "c"),
        // By default there is room for all.
        (String::new(), "abc"),
    ] {
        for in_project in [false, true] {
            let model =
                FakeModel::start(vec![uncounted("One."), uncounted("Two."), summary(), uncounted("Three.")]);
            let world = world(&model);
            let table = format!("[compaction]\n{settings}\n");
            within(&world, &model, 2 * (base + 7_000), if in_project { "" } else { &table });
            if in_project {
                world.file("project/prowess.toml", &table);
            }
            said(&world, &lines);
            let last = all(model.requests().last().unwrap());
            let seen: String =
                "abc".chars().filter(|letter| last.contains(&letter.to_string().repeat(4))).collect();
            assert_eq!(seen, kept, "{settings}, {in_project}");
        }
    }
}

#[test]
fn truncation_of_arguments_can_be_set() {
    for (settings, is_cut) in [
        ("truncate_arguments = \"on\"\ntruncate_max_length = 100\ntruncate_text = \"[cut]\"", true),
        ("truncate_max_length = 100", false),
        ("truncate_arguments = \"on\"\ntruncate_max_length = 1000", false),
    ] {
        let content = "w".repeat(500);
        let model = FakeModel::start(vec![
            Answer::call("write_file", json!({"file_path": "/new.txt", "content": content})),
            Answer::text("Written."),
            Answer::text("Two."),
        ]);
        let world = world(&model);
        let more = "truncate_trigger = \"2 messages\"\ntruncate_keep = \"1 message\"";
        within(&world, &model, 100_000, &format!("[compaction]\n{settings}\n{more}\n"));
        said(&world, &["write it".to_owned(), "and now".to_owned()]);
        let last = all(model.requests().last().unwrap());
        assert_eq!((last.contains(&content), last.contains("[cut]")), (!is_cut, is_cut), "{settings}");
    }
}

/// A skill with a model of its own, in a turn that reads a long file again and again.
fn reads_with_another_model(world: &World, window: usize, model: &FakeModel) {
    within(world, model, window, "[alias.other]\nmodel = \"fake:other\"\n");
    world.file(
        "home/.prowess/skills/tides/SKILL.md",
        "---\nname: tides\ndescription: Looks up tides.\nmodel: other\n---\nRead them.\n",
    );
    world.file("project/tides.txt", &"high and low\n".repeat(600));
}

#[test]
fn the_window_holds_while_a_skill_uses_another_model() {
    let read = || Answer::call("read_file", json!({"file_path": "/project/tides.txt"})).usage(0, 0);
    let mut answers: Vec<Answer> = (0..20).map(|_| summary()).collect();
    answers.push(Answer::call("skill_load", json!({"skill": "tides"})).usage(0, 0));
    answers.extend((0..12).map(|_| read()));
    answers.push(uncounted("All read."));
    let model = FakeModel::start(answers);
    let world = world(&model);
    let window = base() + 9_000;
    reads_with_another_model(&world, window, &model);
    let told = said(&world, &["read the tides".to_owned()]);
    assert!(told[0].contains("All read."), "{}", told[0]);
    let requests = model.requests();
    assert!(requests.iter().any(|request| request["model"] == "other"), "the skill's model was called");
    assert!(requests.iter().any(is_summary), "the conversation was summarised");
    let longest = requests.iter().map(|request| request["messages"].to_string().len() / 4).max().unwrap();
    assert!(longest < window, "{longest} of {window}");
}

#[test]
fn a_request_that_is_too_long_for_the_model_of_a_skill_goes_to_the_own_model() {
    let error =
        "This model's maximum context length is 2000 tokens. However, your messages resulted in 9000 tokens.";
    let is_other = |request: &Value| request["model"] == "other";
    let model = FakeModel::start(vec![
        Answer::status(400, error).when(is_other),
        Answer::call("skill_load", json!({"skill": "tides"})).usage(0, 0),
        uncounted("Done by m."),
    ]);
    let world = world(&model);
    reads_with_another_model(&world, base() + 30_000, &model);
    let told = said(&world, &["read the tides".to_owned()]);
    let models: Vec<String> = model.requests().iter().map(|request| request["model"].to_string()).collect();
    assert!(told[0].contains("Done by m."), "{models:?} {}", told[0]);
    assert!(told[0].contains("the request is too long for its context window"), "{}", told[0]);
}

#[test]
fn a_response_that_is_too_long_is_asked_for_again_with_less() {
    let error = "'max_tokens' or 'max_completion_tokens' is too large: 4096. This model's maximum context length is 12192 \
        tokens and your request has 9705 input tokens (4096 > 12192 - 9705).";
    let model = FakeModel::start(vec![Answer::status(400, error), uncounted("Shorter.")]);
    let world = world(&model);
    let url = model.url();
    let text = format!(
        "[model]\nname = \"fake:m\"\nmax_output_tokens = 4096\n[provider.fake]\napi = \"openai\"\nbase_url = \"{url}\"\n"
    );
    world.file(CONFIG, &text);
    let long = long(9_705 - base(), "a");
    let told = said(&world, &[long]);
    let requests = model.requests();
    assert!(told[0].contains("Shorter."), "{} {}", requests.len(), told[0]);
    let most = |request: &Value| request["max_completion_tokens"].as_u64().or(request["max_tokens"].as_u64());
    assert!(most(&requests[1]).unwrap() < 4_096 && requests.len() == 2, "{:?}", most(&requests[1]));
}
