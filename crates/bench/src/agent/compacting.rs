//! Measures the compaction of a long conversation with loaded skills.

use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use anyhow::{Result, ensure};
use prowess_agent::message::AssistantPart;
use prowess_agent::middleware::{Skills, Summarisation};
use prowess_agent::{
    Agent, Event, MemoryThreads, Message, Model, NoWatcher, ThreadId, ThreadStore, ToolAnswer, ToolCall,
    TurnOutcome, Usage,
};
use prowess_catalog::{Catalog, Root, ScanOptions};
use prowess_skills::SkillSession;

use super::fake::Notes;
use super::{Place, one_thread};
use crate::resources;
use crate::task::{Sample, cpu_so_far};

/// The number of messages, and the length of each. Together they have more than the 170,000 tokens at which an agent
/// compacts.
pub(crate) const MESSAGES: usize = 2_000;
const LENGTH: usize = 400;
/// The number of loaded skills, of 6 KB each.
const SKILLS: usize = 8;

/// Compacts the conversation, from the user's message to the next request to the model. The model's summary comes at
/// once, the agent writes the removed messages to a file, and it puts the loaded skills back.
pub(crate) fn compact(directory: &Path) -> Result<Sample> {
    let (runtime, place) = (one_thread()?, Place::new(directory)?);
    let root = place.0.path().join("skills");
    resources::write(&root, SKILLS)?;
    let catalog = Catalog::discover(&[Root::explicit(&root)], &ScanOptions::default());
    let names: Vec<String> = catalog.entries().iter().map(|entry| entry.skill.name.to_string()).collect();
    let skills = Skills::new(move |_| SkillSession::builder(catalog.clone()));
    let store = Arc::new(MemoryThreads::new());
    runtime.block_on(async {
        let id = ThreadId::new();
        let load = |name: &String| ("load_skill", format!("{{\"skill_name\": \"{name}\"}}"));
        let loader = Notes::calling(names.iter().map(load).collect());
        let loader =
            Agent::builder(loader).middleware(skills.clone()).store(Arc::<MemoryThreads>::clone(&store));
        let mut thread = loader.build()?.open(id.clone()).await?;
        thread.say("Load all skills.", &NoWatcher).await?;
        thread.close().await?;
        lengthen(&store, &id).await?;

        let model = Arc::new(Notes::default());
        let asked: Arc<dyn Model> = Arc::<Notes>::clone(&model);
        let agent = Agent::builder(Arc::clone(&asked))
            .middleware(Summarisation::new(asked, place.backend()?))
            .middleware(skills)
            .store(Arc::<MemoryThreads>::clone(&store))
            .build()?;
        let mut thread = agent.open(id.clone()).await?;
        let messages = thread.state().messages().len();
        let before = cpu_so_far();
        thread.say("Go on.", &NoWatcher).await?;

        // One request per piece of the summary, then the next question.
        let [_summary, .., next] = model.asked()[..] else { anyhow::bail!("nothing was compacted") };
        let history = place.0.path().join(format!("files/conversation_history/{id}.md"));
        let history = std::fs::metadata(history)?.len();
        ensure!(history > (MESSAGES * LENGTH) as u64, "the history has only {history} bytes");
        ensure!(thread.state().cut() > MESSAGES, "only {} messages were removed", thread.state().cut());
        Sample::of(next - before, messages)
    })
}

/// Adds turns of four messages each to a thread.
async fn lengthen(store: &MemoryThreads, id: &ThreadId) -> Result<()> {
    let lease = store.lease(id, "bench", Duration::from_secs(60)).await?;
    let mut stored = store.events(id, 0, usize::MAX).await?.len() as u64;
    let text = |what: &str, turn: usize| format!("{what} {turn}. {}", "Lorem ipsum ".repeat(LENGTH / 12));
    for turn in 0..MESSAGES / 4 {
        let arguments = format!("{{\"path\": \"{}\"}}", text("path", turn));
        let call = ToolCall { id: "c".into(), name: "ls".to_owned(), arguments };
        let asked = || Event::ModelCalled { model: "notes".to_owned() };
        let said = |part| Event::ModelResponded {
            model: "notes".to_owned(),
            message: Message::assistant(vec![part]),
            usage: Usage::default(),
            finish: None,
        };
        let answer = ToolAnswer::text(text("result", turn));
        let events = [
            Event::TurnStarted { messages: vec![Message::user(text("question", turn))] },
            asked(),
            said(AssistantPart::ToolCall(call)),
            Event::ToolStarted { call: "c".into() },
            Event::ToolAnswered { call: "c".into(), answer },
            asked(),
            said(AssistantPart::Text { text: text("answer", turn) }),
            Event::TurnEnded { outcome: TurnOutcome::Responded },
        ];
        store.append(&lease, stored, &events).await?;
        stored += events.len() as u64;
    }
    store.release(&lease).await?;
    Ok(())
}
