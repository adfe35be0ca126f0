//! The long conversation: 150 turns in a window of 20,000 tokens, with a kill in the middle. The server checks each request.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::mpsc::{Sender, channel};
use std::sync::{Arc, Mutex};

use super::*;

const TURNS: usize = 150;
/// The turn in which the program is killed, and after how many of its calls.
const KILLED: (usize, usize) = (75, 9);
/// The window by the server's own count: four bytes of the body are a token.
const WINDOW: usize = 20_000;
/// The file that the model reads again and again.
const NOTES: &str = "/notes.md";

/// What the model does in a turn, before it responds.
#[derive(Clone, Copy)]
enum Act {
    Load(&'static str),
    Unload(&'static str),
    Read,
}

/// What the person types in a turn.
fn line(turn: usize) -> String {
    let skill = if turn == 30 { "/gamma " } else { "" };
    format!("{skill}REQUEST-{turn}: read the notes, compare them with turn {}, and say 'done'", turn * 7)
}

fn plan(turn: usize) -> Vec<Act> {
    let mut acts = match turn {
        1 => vec![Act::Load("alpha")],
        2 => vec![Act::Load("beta")],
        50 => vec![Act::Unload("alpha")],
        90 => vec![Act::Load("alpha")],
        _ => Vec::new(),
    };
    let reads = match turn {
        turn if turn == KILLED.0 => 12,
        turn if turn % 10 == 0 => 8,
        _ => 1,
    };
    acts.resize(acts.len() + reads, Act::Read);
    acts
}

/// The text of a skill, which must be in every request while it is loaded.
fn skill_text(name: &str) -> String {
    (1..40).map(|number| format!("Rule {number} of {name}: measure the tide twice.\n")).collect()
}

/// The server's side of the conversation.
struct Script {
    turn: usize,
    step: usize,
    loaded: BTreeSet<&'static str>,
    /// The summaries that it wrote, and the different ones that came back.
    summaries: usize,
    seen: BTreeSet<String>,
    requests: usize,
    /// The most tokens of a request.
    most: usize,
    wrong: Vec<String>,
    hangs: Option<Sender<()>>,
}

impl Script {
    fn answer(&mut self, body: &Value) -> Answer {
        self.requests += 1;
        let size = (body["messages"].to_string().len() + body["tools"].to_string().len()) / 4;
        self.most = self.most.max(size);
        if size > WINDOW {
            return self.refuse(&format!("the request has {size} tokens"));
        }
        if body["tools"].as_array().is_none_or(Vec::is_empty) {
            self.summaries += 1;
            return Answer::text(&format!("Summary {}: the person wants the notes.", self.summaries))
                .usage(0, 0);
        }
        let acts = plan(self.turn);
        match (self.turn, self.step.checked_sub(1).and_then(|last| acts.get(last))) {
            (30, None) => drop(self.loaded.insert("gamma")),
            (_, Some(Act::Load(name))) => drop(self.loaded.insert(name)),
            (_, Some(Act::Unload(name))) => drop(self.loaded.remove(name)),
            _ => {}
        }
        if let Err(wrong) = self.check(body["messages"].as_array().unwrap()) {
            return self.refuse(&wrong);
        }
        if (self.turn, self.step) == KILLED
            && let Some(hangs) = self.hangs.take()
        {
            hangs.send(()).unwrap();
            return Answer::hang();
        }
        let answer = match acts.get(self.step) {
            Some(Act::Load(name)) => Answer::call("skill_load", json!({"skill": name})),
            Some(Act::Unload(name)) => Answer::call("skill_unload", json!({"skill": name})),
            Some(Act::Read) => Answer::call("read_file", json!({"file_path": NOTES})),
            None => Answer::text(&format!("All done-{}.", self.turn)),
        };
        self.step += 1;
        if self.step > acts.len() {
            (self.turn, self.step) = (self.turn + 1, 0);
        }
        // In the second half it does not say what it counted.
        let counted = if self.turn < KILLED.0 { size as u64 } else { 0 };
        answer.usage(counted, 20)
    }

    fn refuse(&mut self, wrong: &str) -> Answer {
        let wrong = format!("turn {}, step {}: {wrong}", self.turn, self.step);
        self.wrong.push(wrong.clone());
        Answer::status(400, &format!("INVALID: {wrong}"))
    }

    /// What every request must have, whatever was compacted.
    fn check(&mut self, messages: &[Value]) -> Result<(), String> {
        let text = |message: &Value| message["content"].as_str().unwrap_or_default().to_owned();
        well_formed(messages)?;
        let request = line(self.turn);
        // Messages of a user that follow each other become one.
        let said = messages.iter().filter(|message| message["role"] == "user").map(text);
        if said.map(|said| said.lines().filter(|said| *said == request).count()).sum::<usize>() != 1 {
            return Err(format!("the current request is missing: {}", json!(messages)));
        }
        let all: String = messages.iter().map(text).collect::<Vec<_>>().join("\n");
        for name in &self.loaded {
            let count = all.matches(skill_text(name).trim_end()).count();
            if count != 1 {
                return Err(format!("the text of {name} is there {count} times: {all}"));
            }
        }
        if let Some((_, rest)) = all.split_once("<summary>Summary ") {
            self.seen.insert(rest.split(':').next().unwrap().to_owned());
        }
        Ok(())
    }
}

/// A system message, then others, in which each answer follows the response that called for it.
fn well_formed(messages: &[Value]) -> Result<(), String> {
    let mut open: BTreeMap<&str, ()> = BTreeMap::new();
    for (place, message) in messages.iter().enumerate() {
        let role = message["role"].as_str().unwrap_or_default();
        match (role, place) {
            ("system", 0) => {}
            ("tool", 1..) => {
                let id = message["tool_call_id"].as_str().unwrap_or_default();
                open.remove(id).ok_or_else(|| format!("message {place} answers no call: {message}"))?;
            }
            ("user" | "assistant", 1..) if open.is_empty() => {
                let calls = message["tool_calls"].as_array().into_iter().flatten();
                open = calls.filter_map(|call| Some((call["id"].as_str()?, ()))).collect();
            }
            _ => return Err(format!("message {place} cannot stand here: {message}")),
        }
    }
    match messages.last().map(|last| &last["role"]) {
        Some(role) if open.is_empty() && (role == "user" || role == "tool") => Ok(()),
        _ => Err(format!("the request does not end with something to respond to: {}", json!(messages))),
    }
}

#[test]
fn every_request_is_valid_and_has_the_skills_and_the_current_request() {
    let (hangs, hung) = channel();
    let script = Arc::new(Mutex::new(Script {
        turn: 1,
        step: 0,
        loaded: BTreeSet::new(),
        summaries: 0,
        seen: BTreeSet::new(),
        requests: 0,
        most: 0,
        wrong: Vec::new(),
        hangs: Some(hangs),
    }));
    let shared = Arc::clone(&script);
    let model = FakeModel::scripted(move |body| shared.lock().unwrap().answer(body));
    let world = world(&model);
    let url = model.url();
    world.file(
        CONFIG,
        &format!(
            "[model]\nname = \"fake:m\"\ncontext_window = {WINDOW}\n[provider.fake]\napi = \"openai\"\n\
             base_url = \"{url}\"\n[limits]\nmodel_calls = 100\n"
        ),
    );
    for name in ["alpha", "beta", "gamma"] {
        let text = format!("---\nname: {name}\ndescription: Rules of {name}.\n---\n{}", skill_text(name));
        world.file(&format!("home/.prowess/skills/{name}/SKILL.md"), &text);
    }
    let notes: String =
        (1..170).map(|number| format!("Line {number}: the tide was at {number} metres.\n")).collect();
    world.file("project/notes.md", &notes);

    let nothing_is_wrong = || assert_eq!(script.lock().unwrap().wrong, Vec::<String>::new());
    let mut pty = begun(&world, &[], 110, 40);
    for turn in 1..=TURNS {
        pty.type_line(&line(turn));
        if turn == KILLED.0 {
            hung.recv_timeout(Duration::from_secs(60)).unwrap();
            pty.kill();
            pty = Pty::start(&world, &["chat", "--resume", "last"], 110, 40);
        }
        let end = format!("All done-{turn}.");
        pty.wait_until("the end of the turn", |screen| screen.contains(&end) || screen.contains("INVALID"));
        nothing_is_wrong();
        at_prompt(&pty);
    }
    pty.type_line("/quit");
    assert_eq!(pty.wait(), Some(0));
    nothing_is_wrong();
    let script = script.lock().unwrap();
    assert_eq!((script.turn, script.loaded.len()), (TURNS + 1, 3));
    assert!(script.seen.len() >= 30, "{} compactions", script.seen.len());
    assert!(script.most > WINDOW / 2, "the window was never full: {}", script.most);
    println!(
        "{} requests, {} compactions, {} tokens at most",
        script.requests,
        script.seen.len(),
        script.most
    );
}
