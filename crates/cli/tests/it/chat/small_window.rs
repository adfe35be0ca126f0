//! A whole conversation with 5,000 skills in a window of 16,000 tokens.
//!
//! `make small-window SKILLS=DIRECTORY` has the same conversation with the skills in a directory, and prints its figures.

use std::path::PathBuf;
use std::sync::{Arc, Mutex};

use super::*;

/// The context window, in tokens.
const WINDOW: usize = 16_000;
/// The tasks of the person, one for each turn.
const TASKS: [&str; 8] = [
    "extract the tables from a pdf",
    "write unit tests for a react component",
    "review terraform modules",
    "summarise the transcript of a meeting",
    "tune a slow postgres query",
    "make a deck of slides",
    "check a web page for accessibility",
    "set up a github workflow for releases",
];

/// 5,000 skills, some of which do the tasks.
fn crowded(world: &World) {
    let verbs =
        ["extract", "write", "review", "summarise", "tune", "make", "check", "set-up", "plan", "count"];
    let things = [
        "tables",
        "tests",
        "modules",
        "transcripts",
        "queries",
        "slides",
        "pages",
        "workflows",
        "boats",
        "birds",
    ];
    for number in 0..5_000 {
        let (verb, thing) = (verbs[number % 10], things[number / 10 % 10]);
        let name = format!("{verb}-{thing}-{}", number / 100);
        let manifest = format!(
            "---\nname: {name}\ndescription: Use it to {verb} {thing}, in the manner of office {}.\n---\n\n# How to\n\n{}",
            number / 100,
            "Take care with every single step.\n".repeat(100)
        );
        world.file(&format!("home/.prowess/skills/{name}/SKILL.md"), &manifest);
    }
}

/// What the model does in a turn: it searches, loads the first hit, works, and unloads the skill in the next turn.
fn model() -> FakeModel {
    let (mut step, mut task) = (0, 0);
    let loaded = Arc::new(Mutex::new(String::new()));
    FakeModel::scripted(move |request| {
        if request.get("tools").is_none() {
            return Answer::text("They worked on several tasks, one after the other.");
        }
        step += 1;
        let known = Arc::clone(&loaded);
        let answer = match step {
            1 if task > 0 => Answer::call("skill_unload", json!({"skill": *loaded.lock().unwrap()})),
            1 | 2 => {
                step = 2;
                Answer::call("search_skills", json!({"query": TASKS[task], "limit": 5}))
            }
            3 => Answer::calls(move |request| {
                let found = last(request);
                let name = found.split("**").nth(1).unwrap_or_else(|| panic!("no hit: {found}")).to_owned();
                *known.lock().unwrap() = name.clone();
                vec![("skill_load", json!({"skill": name}))]
            }),
            4 => Answer::call("read_file", json!({"file_path": "/project/notes.txt"})),
            _ => {
                (step, task) = (0, task + 1);
                Answer::text("It is done.")
            }
        };
        answer.usage(tokens(request) as u64, 10)
    })
}

/// About how many tokens a value has.
fn tokens(value: &Value) -> usize {
    value.to_string().len() / 4
}

/// What both requests have in common, from their beginning: the tools, the system message and the messages.
fn common(before: &Value, after: &Value) -> usize {
    assert_eq!(before["tools"], after["tools"]);
    let (before, after) = (before["messages"].as_array().unwrap(), after["messages"].as_array().unwrap());
    before.iter().zip(after).take_while(|(one, other)| one == other).count()
}

/// Has the conversation, checks it, and returns a line for each request.
fn converse(world: &World, model: &FakeModel) -> String {
    let more = format!("[model]\nname = \"fake:m\"\ncontext_window = {WINDOW}\nmax_output_tokens = 1000\n");
    let provider = format!("[provider.fake]\napi = \"openai\"\nbase_url = \"{}\"\n", model.url());
    world.file(CONFIG, &format!("{more}{provider}"));
    world.file("project/notes.txt", &"Notes of the day, with some numbers.\n".repeat(80));
    for (at, task) in TASKS.iter().enumerate() {
        let resume: &[&str] = if at == 0 { &[] } else { &["--resume", "last"] };
        let line = format!("please {task}");
        let output = world.output(&[&["chat", "--yes"], resume, &[&line]].concat());
        assert!(output.status.success(), "{}", world.told(&output));
    }
    let requests: Vec<Value> = model.requests();
    let conversation: Vec<&Value> =
        requests.iter().filter(|request| request.get("tools").is_some()).collect();
    let mut figures = "request  tokens  in common with the one before\n".to_owned();
    let (mut largest, mut cuts) = (0, Vec::new());
    for (at, request) in conversation.iter().enumerate() {
        let size = tokens(request);
        largest = largest.max(size);
        let Some(before) = at.checked_sub(1).map(|at| conversation[at]) else {
            figures.push_str(&format!("{at:>7} {size:>7}\n"));
            continue;
        };
        let all = before["messages"].as_array().unwrap();
        let same = common(before, request);
        assert!(same >= 1, "the system message changed: {:#}\n{:#}", all[0], request["messages"][0]);
        let head = tokens(&before["tools"]) + all[..same].iter().map(tokens).sum::<usize>();
        let whole = tokens(before);
        figures.push_str(&format!(
            "{at:>7} {size:>7} {head:>7} of {whole} ({} %)\n",
            (100 * head / whole).min(100)
        ));
        if same < all.len() {
            cuts.push((at, all[same].to_string(), request["messages"][same].to_string()));
        }
    }
    let summaries = requests.len() - conversation.len();
    for (at, before, after) in &cuts {
        let is_unload = after.contains("was removed: it was unloaded or replaced.");
        let is_summary = after.contains("has been summarized");
        assert!(is_unload || is_summary, "request {at} begins to differ here: {before}\n{after}");
    }
    assert!(largest < WINDOW, "{largest}");
    figures.push_str(&format!(
        "largest request: about {largest} tokens in a window of {WINDOW}; {summaries} summaries, {} cuts\n",
        cuts.len()
    ));
    figures
}

#[test]
fn a_conversation_with_5_000_skills_fits_and_keeps_its_prefix() {
    let model = model();
    let world = World::new();
    crowded(&world);
    let figures = converse(&world, &model);
    let requests = model.requests();
    assert!(all(&requests[0]).contains("5000"), "{figures}");
    assert!(requests.len() > 5 * TASKS.len(), "{figures}");
}

#[test]
#[ignore = "needs PROWESS_MANY_SKILLS: make small-window SKILLS=DIRECTORY"]
fn a_conversation_with_the_skills_of_a_directory() {
    let place =
        std::env::var_os("PROWESS_MANY_SKILLS").expect("PROWESS_MANY_SKILLS names a directory of skills");
    let model = model();
    let world = World::new();
    let root = world.path("home/.prowess/skills");
    std::fs::create_dir_all(root.parent().unwrap()).unwrap();
    std::os::unix::fs::symlink(PathBuf::from(place), root).unwrap();
    println!("{}", converse(&world, &model));
}
