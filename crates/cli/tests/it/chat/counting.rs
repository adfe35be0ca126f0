//! A window that is respected: what chat sends to servers that count in other ways, and what `/context` says.

use insta::assert_snapshot;

use super::*;

/// The tokens of a text, as prowess estimates.
fn tokens(text: &str) -> usize {
    text.chars().count().div_ceil(4)
}

/// The tokens of a request of chat completions, as prowess estimates.
fn estimated(request: &Value) -> usize {
    let text = |value: &Value| value.as_str().map_or(0, tokens);
    let tools = request["tools"].as_array().into_iter().flatten().map(|tool| {
        let function = &tool["function"];
        text(&function["name"])
            + text(&function["description"])
            + tokens(&function["parameters"].to_string())
            + 4
    });
    let messages = request["messages"].as_array().unwrap().iter().map(|message| {
        let calls = message["tool_calls"].as_array().into_iter().flatten().map(|call| {
            let function = &call["function"];
            text(&function["name"]) + text(&function["arguments"]) + 4
        });
        let overhead = if message["role"] == "system" { 0 } else { 4 };
        text(&message["content"]) + calls.sum::<usize>() + overhead
    });
    tools.sum::<usize>() + messages.sum::<usize>()
}

/// A message of so many tokens.
fn long(tokens: usize) -> String {
    "tide ".repeat(tokens * 4 / 5)
}

/// Names the model with this window, and whatever else is wanted.
fn within(world: &World, url: &str, window: usize, more: &str) {
    let text = format!(
        "[model]\nname = \"fake:m\"\ncontext_window = {window}\n{more}\n[provider.fake]\napi = \"openai\"\nbase_url = \"{url}\"\n"
    );
    world.file(CONFIG, &text);
}

/// The events of a line with `--json`, in the last thread.
fn events(world: &World, line: &str) -> Vec<Value> {
    let output = world.output(&["chat", "--resume", "last", "--json", line]);
    let text = String::from_utf8(output.stdout).unwrap();
    text.lines().map(|line| serde_json::from_str(line).unwrap()).collect()
}

/// What `/context` says as data.
fn shown_window(world: &World) -> Value {
    events(world, "/context").into_iter().find(|event| event["type"] == "window").unwrap()
}

/// The tokens of the parts of a kind.
fn of_kind(window: &Value, kind: &str) -> u64 {
    let parts = window["parts"].as_array().unwrap().iter().filter(|part| part["kind"] == kind);
    parts.map(|part| part["tokens"].as_u64().unwrap()).sum()
}

/// The tokens of the prompt and the tools of a chat.
fn base() -> usize {
    let model = FakeModel::start(vec![Answer::text("Hello.").usage(0, 0)]);
    let world = world(&model);
    said(&world, &["hello".to_owned()]);
    estimated(&model.requests()[0])
}

/// A server with a window of its own. It counts `percent` of what prowess estimates, says `error` about longer requests,
/// and reports what it counted if `reports` is true.
fn server(percent: usize, window: usize, error: &'static str, reports: bool) -> FakeModel {
    FakeModel::scripted(move |request| {
        let counted = estimated(request) * percent / 100;
        if counted > window {
            return Answer::status(
                400,
                &error.replace("{window}", &window.to_string()).replace("{tokens}", &counted.to_string()),
            );
        }
        let text = if is_summary(request) { "They talked about the tide." } else { "Understood." };
        Answer::text(text).usage(if reports { counted as u64 } else { 0 }, 10)
    })
}

const OPENAI: &str = "This model's maximum context length is {window} tokens. However, your messages resulted in {tokens} tokens.";
const ANTHROPIC: &str = "prompt is too long: {tokens} tokens > {window} maximum";
const NO_NUMBERS: &str = "Your input exceeds the context window of this model.";
const NO_REASON: &str = "Bad request.";

/// How many requests of the agent itself there were, and how many were rejected by a server that counts so.
fn sent(model: &FakeModel, percent: usize, window: usize) -> (usize, usize) {
    let requests = model.requests();
    let rejected = requests.iter().filter(|request| estimated(request) * percent / 100 > window).count();
    (requests.iter().filter(|request| !is_summary(request)).count(), rejected)
}

#[test]
fn a_context_length_error_leads_to_one_compaction_and_one_more_attempt() {
    let window = base() + 6_000;
    for error in [OPENAI, ANTHROPIC, NO_NUMBERS] {
        let model = server(100, window, error, false);
        let world = world(&model);
        within(&world, &model.url(), 100_000, "");
        let told = said(&world, &[long(4_000), long(3_500), "short".to_owned(), long(3_500)]);
        assert!(told[1].contains("fake:m reads fewer tokens than expected"), "{error}: {}", told[1]);
        assert!(told[1].contains("summarised") && told[1].contains("Understood."), "{error}: {}", told[1]);
        // The other turns know the window, also in other processes.
        assert!(told[3].contains("Understood."), "{error}: {}", told[3]);
        assert_eq!(sent(&model, 100, window), (5, 1), "{error}");
    }
}

#[test]
fn an_error_without_a_reason_is_explained() {
    let window = base() + 6_000;
    let model = server(100, window, NO_REASON, false);
    let world = world(&model);
    within(&world, &model.url(), base() + 9_000, "");
    let told = said(&world, &[long(4_000), long(3_000)]);
    assert!(
        told[1].contains("Bad request.") && told[1].contains("set `model.context_window`"),
        "{}",
        told[1]
    );
    assert!(told[1].contains("`/compact` shortens this conversation"), "{}", told[1]);
    assert_eq!(model.requests().len(), 2, "it is not sent again");
}

#[test]
fn a_server_that_rejects_everything_is_asked_twice_and_no_more() {
    for error in [OPENAI, ANTHROPIC, NO_NUMBERS] {
        let mut turns = 0;
        let model = FakeModel::scripted(move |request| {
            if is_summary(request) {
                return Answer::text("They talked.").usage(0, 0);
            }
            turns += 1;
            match turns {
                1 | 2 => Answer::text("Understood.").usage(0, 0),
                _ => Answer::status(400, &error.replace("{window}", "1500").replace("{tokens}", "90000")),
            }
        });
        let world = world(&model);
        within(&world, &model.url(), 100_000, "");
        let told = said(&world, &[long(8_000), long(8_000), "and now?".to_owned()]);
        assert!(told[2].contains("does not fit into the model's context window"), "{error}: {}", told[2]);
        assert!(told[2].contains("the largest parts are"), "{error}: {}", told[2]);
        let (own, _) = sent(&model, 100, 0);
        assert!(own <= 4, "{error}: {own}");
        assert!(model.requests().len() <= 6, "{error}: {}", model.requests().len());
    }
}

#[test]
fn a_server_that_reports_nothing_never_gets_too_much() {
    let window = base() + 6_000;
    let model = server(100, window, OPENAI, false);
    let world = world(&model);
    within(&world, &model.url(), window, "");
    let told = said(&world, &vec![long(1_500); 8]);
    assert!(told.iter().all(|told| told.contains("Understood.")), "{told:?}");
    assert!(told.iter().any(|told| told.contains("summarised")), "{told:?}");
    assert_eq!(sent(&model, 100, window), (8, 0));
    let shown = shown_window(&world);
    assert_eq!((shown["counted"].as_str(), &shown["factor"]), (Some("estimate"), &Value::Null));
}

#[test]
fn a_server_that_counts_differently_teaches_a_factor() {
    for percent in [180, 60] {
        // In the server's tokens.
        let window = (base() + 6_000) * percent / 100;
        let model = server(percent, window, OPENAI, true);
        let world = world(&model);
        within(&world, &model.url(), window, "");
        let told = said(&world, &vec![long(1_500); 8]);
        assert!(told.iter().all(|told| told.contains("Understood.")), "{percent}: {told:?}");
        assert!(told.iter().any(|told| told.contains("summarised")), "{percent}: {told:?}");
        assert_eq!(sent(&model, percent, window), (8, 0), "{percent}");
        // The window is used, and not half of it.
        let most = model.requests().iter().map(|request| estimated(request) * percent / 100).max().unwrap();
        assert!(most > window * 7 / 10, "{percent}: {most} of {window}");
        // Another process counts as the server does.
        let shown = shown_window(&world);
        let context = world.run(&["chat", "--resume", "last", "/context"]);
        assert!(context.contains("learned"), "{percent}: {context}");
        let (factor, taught) = (shown["factor"].as_f64().unwrap(), percent as f64 / 100.0);
        assert!((factor - taught).abs() < 0.05, "{percent}: {factor}");
        world.run(&["chat", "--resume", "last", "ok"]);
        let counted = estimated(model.requests().last().unwrap()) * percent / 100;
        let (guess, counted) = (shown["tokens"].as_u64().unwrap(), counted as u64);
        assert!(guess.abs_diff(counted) < counted / 20, "{percent}: {guess} and {counted}");
    }
}

#[test]
fn a_factor_from_another_process_keeps_a_request_from_being_sent() {
    let window = (base() + 6_000) * 2;
    let model = server(180, window, OPENAI, true);
    let world = world(&model);
    within(&world, &model.url(), window, "");
    // By the estimate this fits, and by the server's count it does not.
    let message = window * 100 / 180 - base() + 1_000;
    let told = said(&world, &[long(1_000), long(message)]);
    assert!(told[1].contains("does not fit into the model's context window"), "{}", told[1]);
    assert!(told[1].contains("your message") && told[1].contains("Send a shorter message"), "{}", told[1]);
    assert_eq!(sent(&model, 180, window), (1, 0), "nothing was sent in vain");
}

#[test]
fn nonsense_reports_teach_nothing() {
    for usage in [
        json!({"prompt_tokens": 0, "completion_tokens": 0}),
        json!({"prompt_tokens": -5, "completion_tokens": -1}),
        json!({"prompt_tokens": 12, "completion_tokens": 3}),
        json!({"prompt_tokens": 4_000_000_000_u64, "completion_tokens": 3}),
        json!({"prompt_tokens": u64::MAX, "completion_tokens": u64::MAX}),
        json!({"prompt_tokens": 300, "completion_tokens": 3, "prompt_tokens_details": {"cached_tokens": 200}}),
        json!("many"),
    ] {
        let reported = usage.clone();
        let model = FakeModel::scripted(move |_| Answer::text("Understood.").reports(reported.clone()));
        let world = world(&model);
        within(&world, &model.url(), base() + 6_000, "");
        let told = said(&world, &[long(1_000), long(1_000)]);
        assert!(told[1].contains("Understood.") && !told[1].contains("summarised"), "{usage}: {}", told[1]);
        let shown = shown_window(&world);
        assert_eq!(shown["factor"], Value::Null, "{usage}: {shown}");
        assert_eq!(model.requests().len(), 2);
    }
}

#[test]
fn prompt_and_tools_that_exceed_the_window_are_told_and_not_sent() {
    let model = server(100, 1_500, OPENAI, true);
    let world = world(&model);
    within(&world, &model.url(), 1_500, "");
    let told = said(&world, &["hello".to_owned(), "again".to_owned()]);
    for told in &told {
        assert!(told.contains("does not fit into the model's context window"), "{told}");
        assert!(told.contains("the skill tools (") && told.contains("`/model NAME`"), "{told}");
    }
    assert!(model.requests().is_empty(), "neither a request nor a summary");
}

#[test]
fn a_thread_can_be_resumed_with_a_smaller_window() {
    let base = base();
    let model = server(100, 100_000, OPENAI, true);
    let world = world(&model);
    within(&world, &model.url(), 100_000, "");
    said(&world, &vec![long(3_000); 5]);
    let window = base + 5_000;
    within(&world, &model.url(), window, "");
    let before = model.requests().len();
    let told = world.run(&["chat", "--resume", "last", "go on"]);
    assert!(told.contains("summarised") && told.contains("Understood."), "{told}");
    let requests = model.requests();
    assert!(requests[before..].iter().all(|request| estimated(request) <= window), "summaries too");
    assert!(requests.len() > before + 1);
}

#[test]
fn a_sub_agents_request_is_not_sent_either() {
    let window = base() + 6_000;
    let model = FakeModel::start(vec![
        Answer::call("task", json!({"description": "Look.", "subagent_type": "reader"})).usage(0, 0),
        Answer::text("It could not.").usage(0, 0),
    ]);
    let world = world(&model);
    let prompt = long(window + 1_000);
    within(&world, &model.url(), window, "");
    world.file(
        "home/.prowess/agents/reader.md",
        &format!("---\nname: reader\ndescription: Reads.\n---\n{prompt}\n"),
    );
    let told = said(&world, &["look".to_owned()]);
    assert!(told[0].contains("It could not."), "{}", told[0]);
    let requests = model.requests();
    assert_eq!(requests.len(), 2, "the sub-agent sent nothing");
    let answer = last(&requests[1]);
    assert!(answer.contains("does not fit into the model's context window"), "{answer}");
    assert!(answer.contains("the largest parts are the system prompt"), "{answer}");
}

#[test]
fn a_sub_agent_counts_as_its_parent_learned() {
    let base = base();
    let mut turns = 0;
    let model = FakeModel::scripted(move |request| {
        let counted = estimated(request) as u64 * 2;
        turns += 1;
        match turns {
            1 => Answer::text("Hello.").usage(counted, 10),
            2 => Answer::call("task", json!({"description": "Look.", "subagent_type": "reader"}))
                .usage(counted, 10),
            _ => Answer::text("It could not.").usage(counted, 10),
        }
    });
    let world = world(&model);
    // By the estimate the sub-agent's prompt fits, and by the server's count it does not.
    within(&world, &model.url(), base * 4, "");
    let prompt = long(base * 2);
    world.file(
        "home/.prowess/agents/reader.md",
        &format!("---\nname: reader\ndescription: Reads.\n---\n{prompt}\n"),
    );
    let told = said(&world, &["hello".to_owned(), "look".to_owned()]);
    assert!(told[1].contains("It could not."), "{}", told[1]);
    let requests = model.requests();
    assert_eq!(requests.len(), 3, "the sub-agent sent nothing");
    assert!(
        last(&requests[2]).contains("does not fit into the model's context window"),
        "{}",
        last(&requests[2])
    );
}

#[test]
fn the_response_gets_the_room_that_is_left() {
    let window = base() + 6_000;
    let model = server(100, 100_000, OPENAI, false);
    let world = world(&model);
    within(&world, &model.url(), window, "max_output_tokens = 3000");
    let told = said(&world, &[long(500), long(4_500)]);
    assert!(told.iter().all(|told| told.contains("Understood.")), "{told:?}");
    let requests = model.requests();
    assert_eq!(requests[0]["max_completion_tokens"], 3_000);
    let request = requests.iter().rfind(|request| !is_summary(request)).unwrap();
    let output = request["max_completion_tokens"].as_u64().unwrap();
    assert!(
        (256..3_000).contains(&output) && estimated(request) as u64 + output <= window as u64,
        "{output}"
    );
}

/// A server that speaks Anthropic's Messages. It counts by an endpoint, unless `counted` is `None`.
fn messages_server(counted: Option<u64>) -> FakeModel {
    FakeModel::scripted(move |request| match (request["stream"] == true, counted) {
        (true, _) => Answer::messages("Understood.", 0),
        (false, Some(tokens)) => Answer::json(&json!({"input_tokens": tokens})),
        (false, None) => Answer::status(404, "Not Found"),
    })
}

fn speaks_messages(world: &World, url: &str, window: usize) {
    let url = url.trim_end_matches("/v1");
    let text = format!(
        "[model]\nname = \"fake:m\"\ncontext_window = {window}\nmax_output_tokens = 1000\n[provider.fake]\napi = \"anthropic\"\nbase_url = \"{url}\"\n"
    );
    world.file(CONFIG, &text);
}

#[test]
fn the_provider_counts_a_request_that_is_near_the_window() {
    let window = base() + 6_000;
    let counts =
        |model: &FakeModel| model.requests().iter().filter(|request| request["stream"] != true).count();
    // By the estimate the second message does not fit. The provider counts fewer tokens.
    let model = messages_server(Some(5_000));
    let world = world(&model);
    speaks_messages(&world, &model.url(), window);
    let told = said(&world, &[long(1_000), long(6_000)]);
    assert!(told[1].contains("Understood.") && !told[1].contains("summarised"), "{}", told[1]);
    assert_eq!(
        (model.requests().len(), counts(&model)),
        (3, 1),
        "it counted once, and not in the first turn"
    );
    let counted = model.requests().into_iter().find(|request| request["stream"] != true).unwrap();
    let mut fields: Vec<&String> = counted.as_object().unwrap().keys().collect();
    fields.sort();
    assert_eq!(fields, ["messages", "model", "system", "tools"]);
    let context = world.run(&["chat", "--resume", "last", "/context"]);
    assert!(context.contains("5.0k  of") && context.contains("counted by the provider"), "{context}");
}

#[test]
fn a_provider_that_cannot_count_leaves_the_estimate() {
    let window = base() + 6_000;
    let model = messages_server(None);
    let world = world(&model);
    speaks_messages(&world, &model.url(), window);
    let told = said(&world, &[long(1_000), long(6_500), "/context".to_owned()]);
    assert!(told[1].contains("does not fit into the model's context window"), "{}", told[1]);
    assert!(told[2].contains("estimated") && !told[2].contains("404"), "{}", told[2]);
}

#[test]
fn the_tokenizer_can_be_chosen() {
    let model = server(100, 100_000, OPENAI, false);
    let world = world(&model);
    let url = model.url();
    let text = format!(
        "[model]\nname = \"fake:m\"\ncontext_window = 100000\n[provider.fake]\napi = \"openai\"\nbase_url = \"{url}\"\ntokenizer = \"o200k\"\n"
    );
    world.file(CONFIG, &text);
    said(&world, &["hello".to_owned()]);
    let context = world.run(&["chat", "--resume", "last", "/context"]);
    assert!(context.contains("counted with o200k"), "{context}");
    let exact = shown_window(&world);
    assert_eq!((exact["counted"].as_str(), exact["tokenizer"].as_str()), (Some("tokenizer"), Some("o200k")));
    world.file(CONFIG, &text.replace("\"o200k\"", "\"estimate\""));
    let rough = shown_window(&world);
    assert_eq!((rough["counted"].as_str(), &rough["tokenizer"]), (Some("estimate"), &Value::Null));
    assert_ne!(exact["tokens"], rough["tokens"]);
}

#[test]
fn context_accounts_for_each_part_and_follows_an_unload() {
    let rules: String = (0..300).map(|number| format!("Rule {number} of the tides.\n")).collect();
    let model = FakeModel::start(vec![
        Answer::call("skill_load", json!({"skill": "tides"})).usage(0, 0),
        Answer::call("read_file", json!({"file_path": "/project/big.txt"})).usage(0, 0),
        Answer::text("Loaded.").usage(0, 0),
    ]);
    let world = world(&model);
    world.file(
        "home/.prowess/skills/tides/SKILL.md",
        &format!("---\nname: tides\ndescription: Looks up tides.\n---\n{rules}"),
    );
    world.file("project/big.txt", &"A line of a large file.\n".repeat(200));
    said(&world, &["load it and read".to_owned()]);
    let loaded = shown_window(&world);
    let context = |window: &Value| -> (u64, u64) {
        let parts = window["parts"].as_array().unwrap();
        let sum = parts.iter().map(|part| part["tokens"].as_u64().unwrap()).sum();
        (window["tokens"].as_u64().unwrap(), sum)
    };
    let (total, sum) = context(&loaded);
    assert_eq!(total, sum, "the parts add up");
    assert_eq!(loaded["free"].as_u64(), Some(100_000 - total));
    for kind in ["prompt", "overview", "tool", "skill", "message"] {
        assert!(of_kind(&loaded, kind) > 0, "{kind}: {loaded}");
    }
    assert!(of_kind(&loaded, "skill") > tokens(&rules) as u64, "its text as it is in the request");
    assert_snapshot!("context_with_a_skill", told(&world, &["chat", "--resume", "last", "/context"]));
    world.run(&["chat", "--resume", "last", "/unload tides"]);
    let unloaded = shown_window(&world);
    assert_eq!(of_kind(&unloaded, "skill"), 0);
    let (after, sum) = context(&unloaded);
    assert_eq!(after, sum);
    assert!(total - after > tokens(&rules) as u64 * 9 / 10, "{total} and {after}: the text is gone");
    assert_snapshot!("context_after_an_unload", told(&world, &["chat", "--resume", "last", "/context"]));
}

/// The numbers of a message that a request does not fit: its tokens, the room for the response, and the window.
fn too_many(told: &str) -> Option<[u64; 3]> {
    let text = told.split_once("does not fit into the model's context window: ")?.1;
    let pattern = r"has about (\d+) tokens, a response needs at least (\d+), and the window has (\d+); the largest parts are";
    let found = regex::Regex::new(pattern).unwrap().captures(text).unwrap_or_else(|| panic!("{told}"));
    Some([1, 2, 3].map(|number| found[number].parse().unwrap()))
}

#[test]
fn a_request_that_leaves_no_room_for_a_response_says_so() {
    let window = base() + 1_000;
    let model = server(100, window, OPENAI, false);
    let world = world(&model);
    within(&world, &model.url(), window, "");
    let told = said(&world, &[long(900)]);
    let [tokens, response, named] = too_many(&told[0]).unwrap_or_else(|| panic!("{}", told[0]));
    assert_eq!((response, named), (256, window as u64));
    assert!(tokens < named && tokens + response > named, "{}", told[0]);
    assert!(model.requests().is_empty());
}

#[test]
fn a_server_that_counts_more_and_more_does_not_end_the_thread() {
    // The second report is beyond the window: the server counts more than twice as much as before. With the shortest
    // messages, a compaction frees less than a tenth of the window, and the request fits only after it.
    let base = base();
    let short = || "go on".to_owned();
    for (window, longest, later, ends) in [
        (base * 24 / 10, base / 6, short(), Some(false)),
        (base * 24 / 10, base / 6, long(base / 6), Some(true)),
        (base * 22 / 10, base / 30, short(), None),
    ] {
        let mut lines = vec![long(longest), long(longest)];
        lines.extend(vec![later; 6]);
        let mut turns = 0;
        let model = FakeModel::scripted(move |request| {
            if is_summary(request) {
                return Answer::text("They talked about the tide.").usage(0, 0);
            }
            turns += 1;
            let percent = if turns == 1 { 90 } else { 210 };
            Answer::text("Understood.").usage(estimated(request) as u64 * percent / 100, 10)
        });
        let world = world(&model);
        within(&world, &model.url(), window, "");
        let told = said(&world, &lines);
        assert!(told[2].contains("summarised") && told[2].contains("Understood."), "{}", told[2]);
        for told in &told {
            match too_many(told) {
                Some([tokens, response, window]) => assert!(tokens + response > window, "{told}"),
                None => assert!(told.contains("Understood."), "{told}"),
            }
        }
        // A short message always fits. Long ones no longer do, once the server's count is known.
        let is_refused = told.iter().any(|told| too_many(told).is_some());
        assert!(ends.is_none_or(|ends| is_refused == ends), "{told:?}");
    }
}

#[test]
fn context_lists_each_tool_and_each_loaded_skill() {
    let names: Vec<String> = (0..7).map(|number| format!("skill-{number}")).collect();
    let mut answers: Vec<Answer> =
        names.iter().map(|name| Answer::call("skill_load", json!({"skill": name})).usage(0, 0)).collect();
    answers.push(Answer::text("Loaded.").usage(0, 0));
    let model = FakeModel::start(answers);
    let world = world(&model);
    for name in &names {
        world.skill("home/.prowess/skills", name, "Helps with the tides.");
    }
    said(&world, &["load them".to_owned()]);
    let context = world.run(&["chat", "--resume", "last", "/context"]);
    for name in &names {
        assert!(
            context.lines().any(|line| line.contains(name) && line.ends_with("loaded")),
            "{name}: {context}"
        );
    }
    let listed = world.run(&["chat", "--resume", "last", "/context tools"]);
    let request = model.requests().pop().unwrap();
    for tool in request["tools"].as_array().unwrap() {
        let name = tool["function"]["name"].as_str().unwrap();
        let row = listed.lines().find(|line| line.split_whitespace().next() == Some(name));
        let tokens = row.unwrap_or_else(|| panic!("{name}: {listed}")).split_whitespace().nth(1).unwrap();
        assert!(tokens.trim_end_matches('k').parse::<f64>().unwrap() > 0.0, "{name}: {listed}");
    }
    assert_snapshot!("context_tools", told(&world, &["chat", "--resume", "last", "/context tools"]));
    // On a screen, whole names are dropped, and the number of the others is always there.
    let pty = begun(&world, &["--resume", "last"], 80, 40);
    pty.type_line("/context");
    let screen = pty.wait_until("the last row", |screen| screen.contains("  free "));
    let row = screen.lines().find(|line| line.contains("skill tools")).unwrap();
    assert!(row.ends_with(" more") && !row.contains('…'), "{row}");
}
