//! An agent behind standard streams: one JSON object on each line, in and out. From the top of the repository:
//!
//! `cargo run -p prowess-agent --example lines -- STORE SKILLS THREAD MODEL`
//!
//! STORE is a directory for threads and workspaces, SKILLS one of skills, THREAD the thread's name. MODEL is `offline`,
//! `script:FILE`, or a model at `OPENAI_BASE_URL`. Started again, it goes on where it was and asks what is open.
//!
//! | in | out |
//! |---|---|
//! | `{"say": "Hi."}` | `{"text": …}` for each piece, `{"event": …}` for all that is stored, `{"ended": …}` |
//! | `{"answer": {"call": "c1", "number": 7, "reply": "approve"}}` | the same; what has to be asked is `{"question": …}` |
//! | `{"skills": {}}` or `{"unload": "pdf"}` | `{"skills": […]}`: what is loaded |
//! | `{"files": {}}` | `{"files": […]}`: the thread's own files |

#![allow(clippy::print_stdout, reason = "an example shows what it does")]

use std::error::Error;
use std::io::stdin;
use std::path::Path;
use std::sync::Arc;

use prowess_agent::id::CallId;
use prowess_agent::middleware::{Skills, SkillsState, StateFiles};
use prowess_agent::{Agent, CallReply, Event, Model, Thread, ThreadUpdate, TurnStatus, WaitingCall};
use prowess_models::{Offline, OpenAi, Scripted};
use prowess_skills::prowess_catalog::{Catalog, Root, ScanOptions};
use prowess_skills::prowess_permission::{Decision, Permissions, Policy, Rule, RuleSource};
use prowess_skills::{Capabilities, Dialect, RunSetup, SessionOptions, SkillSession};
use prowess_store::SqliteStore;
use prowess_workspace::Runner;
use serde::Deserialize;
use serde_json::{Value, json};

/// A line that comes in.
#[derive(Deserialize)]
#[serde(rename_all = "snake_case")]
enum Line {
    Say(String),
    Answer {
        call: CallId,
        number: u64,
        #[serde(flatten)]
        reply: CallReply,
    },
    Unload(String),
    Skills {},
    Files {},
}

type Failed = Box<dyn Error + Send + Sync>;

#[tokio::main]
async fn main() -> Result<(), Failed> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let [store, skills, thread, model] = &arguments[..] else {
        return Err("usage: lines STORE SKILLS THREAD MODEL".into());
    };
    let agent = agent(Path::new(store), skills, self::model(model)?).await?;
    let mut thread = agent.open(thread.parse()?).await?;
    // A turn that was cut off goes on; one that waits asks again.
    show(&thread.go_on(&see).await?);
    // While a person thinks, the thread stays this program's.
    let next_line = || tokio::task::spawn_blocking(|| stdin().lines().next().transpose());
    while let Some(line) = thread.keep_while(next_line()).await??? {
        if let Err(error) = obey(&mut thread, &line).await {
            out(&json!({"error": error.to_string()}));
        }
    }
    Ok(thread.close().await?)
}

/// An agent that runs commands of skills in the sandbox, when a person says so.
async fn agent(store: &Path, skills: &str, model: Arc<dyn Model>) -> Result<Agent, Failed> {
    std::fs::create_dir_all(store)?;
    let catalog = Catalog::discover(&[Root::explicit(skills)], &ScanOptions::default());
    let runner = Runner::local(store.join("workspaces"))?;
    let rules = ["tool", "read", "write"].map(|kind| Rule::new(kind, "*", Decision::Allow));
    let permissions = Permissions::unattended(Policy::new().rules(RuleSource::User, rules));
    let mut options = SessionOptions::new(Dialect::DeepAgents);
    options.capabilities = Capabilities::all();
    let skills = Skills::new(move |thread| {
        let runs = RunSetup::new(runner.clone(), thread.as_str());
        SkillSession::builder(catalog.clone()).options(options.clone()).runs(runs)
    });
    let threads = SqliteStore::open(store.join("threads.db")).await?;
    let agent = Agent::deep_builder(model).skills(skills).permissions(permissions).store(Arc::new(threads));
    Ok(agent.build()?)
}

fn model(name: &str) -> Result<Arc<dyn Model>, Failed> {
    Ok(match name.strip_prefix("script:") {
        Some(file) => Arc::new(Scripted::parse(&std::fs::read_to_string(file)?)?),
        None if name == "offline" => Arc::new(Offline),
        None => {
            let (key, base) = (std::env::var("OPENAI_API_KEY")?, std::env::var("OPENAI_BASE_URL")?);
            Arc::new(OpenAi::builder(name).key(key.into()).base_url(base).build()?)
        }
    })
}

async fn obey(thread: &mut Thread, line: &str) -> Result<(), Failed> {
    match serde_json::from_str(line)? {
        Line::Say(text) => show(&thread.say(text, &see).await?),
        Line::Answer { call, number, reply } => {
            let asked = |waiting: &WaitingCall| waiting.call.id == call && waiting.number == number;
            let waiting = thread.waiting().into_iter().find(asked).ok_or("nobody waits for this answer")?;
            show(&thread.reply(&waiting, reply, &see).await?);
        }
        Line::Unload(name) => {
            thread.change(Skills::unload(&name)).await?;
            skills(thread);
        }
        Line::Skills {} => skills(thread),
        Line::Files {} => {
            let files = StateFiles::of(thread.states()).map(|(path, _)| path.to_string());
            out(&json!({"files": files.collect::<Vec<_>>()}));
        }
    }
    Ok(())
}

fn skills(thread: &Thread) {
    let loaded = SkillsState::of(thread.states()).map(SkillsState::loaded).unwrap_or_default();
    out(&json!({"skills": loaded.iter().map(|skill| &skill.name).collect::<Vec<_>>()}));
}

/// What the agent does, while it does it.
fn see(sight: ThreadUpdate<'_>) {
    match sight {
        ThreadUpdate::Text(text) => out(&json!({"text": text})),
        ThreadUpdate::Stored(Event::StateChanged { .. }) => {} // what parts keep for themselves
        ThreadUpdate::Stored(event) => out(&json!({"event": event})),
        _ => {}
    }
}

/// How far a turn came.
fn show(turn: &TurnStatus) {
    match turn {
        TurnStatus::Ended(outcome) => out(&json!({"ended": outcome})),
        TurnStatus::Waiting(all) => all.iter().for_each(|waiting| {
            let (call, words) = (&waiting.call, waiting.question.wording());
            out(&json!({"question": {"call": call.id, "number": waiting.number, "tool": call.name, "words": words}}));
        }),
        _ => {}
    }
}

fn out(line: &Value) {
    println!("{line}");
}
