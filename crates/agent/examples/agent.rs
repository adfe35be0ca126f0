//! A whole agent, as the README shows it. From the top of the repository:
//! `cargo run -p prowess-agent --example agent`.

#![allow(clippy::print_stdout, reason = "an example shows what it does")]

use std::sync::Arc;

use prowess_agent::middleware::Skills;
use prowess_agent::{Agent, NoWatcher, ThreadId};
use prowess_models::Offline;
use prowess_skills::prowess_catalog::{Catalog, Root, ScanOptions};
use prowess_skills::prowess_permission::{Decision, Permissions, Policy, Rule, RuleSource};
use prowess_skills::{Dialect, RunSetup, SessionOptions, SkillSession};
use prowess_workspace::Runner;

#[tokio::main]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    let catalog = Catalog::discover(&[Root::explicit("examples/skills")], &ScanOptions::default());
    let runner = Runner::local(std::env::temp_dir().join("prowess-example"))?; // runs commands in the sandbox
    let rules = [Rule::new("run", "*", Decision::Allow)]; // without this rule a person is asked
    let permissions = Permissions::unattended(Policy::new().rules(RuleSource::User, rules));
    let skills = Skills::new(move |thread| {
        let session = SkillSession::builder(catalog.clone()).options(SessionOptions::new(Dialect::Trpc));
        session.runs(RunSetup::new(runner.clone(), thread.as_str())).permissions(permissions.clone())
    });
    let agent = Agent::deep_builder(Arc::new(Offline)).skills(skills).build()?; // or OpenAi, Anthropic, Scripted
    let mut thread = agent.open(ThreadId::new()).await?;
    thread.say("Compute the first Fibonacci numbers.", &NoWatcher).await?;
    println!("{}", thread.last_response().unwrap_or_default());
    Ok(thread.close().await?)
}
