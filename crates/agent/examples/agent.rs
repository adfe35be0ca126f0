//! A whole agent, as the README shows it. From the top of the repository:
//! `cargo run -p prowess-agent --example agent`.

#![allow(clippy::print_stdout, reason = "an example shows what it does")]

use std::sync::Arc;

use prowess_agent::parts::Skills;
use prowess_agent::{AgentError, DeepAgent, Outcome, Sight, ThreadId, Turn};
use prowess_models::Offline;
use prowess_skills::SkillSession;
use prowess_skills::prowess_catalog::{Catalog, Root, ScanOptions};

#[tokio::main]
async fn main() -> Result<(), AgentError> {
    let catalog = Catalog::discover(&[Root::explicit("examples/skills")], &ScanOptions::default());
    let agent = DeepAgent::new(Arc::new(Offline)) // or OpenAi, Anthropic, Scripted
        .skills(Skills::new(move |_| SkillSession::builder(catalog.clone())))
        .build()?;
    let mut thread = agent.open(ThreadId::new()).await?;
    let watch = |sight: Sight<'_>| {
        if let Sight::Text(text) = sight {
            print!("{text}"); // while the model says it
        }
    };
    let turn = thread.say("Compute the first Fibonacci numbers.", &watch).await?;
    println!("\n{}", if turn == Turn::Ended(Outcome::Answered) { "Done." } else { "There is more to do." });
    thread.close().await
}
