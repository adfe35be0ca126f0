//! Skills of MCP servers in an agent: what they lead to is asked about, in sub-agents and from them too.

use std::sync::Arc;

use async_trait::async_trait;
use prowess_agent::middleware::{Skills, SubAgents};
use prowess_agent::{Agent, CallReply, NoWatcher, TurnOutcome, TurnStatus};
use prowess_catalog::document::{DocumentError, DocumentText};
use prowess_catalog::published::{Offer, Published, PublishedFile, scan_published};
use prowess_catalog::{
    Catalog, Digest, Documents, ReadError, Resources, Root, RootScan, SkillEntry, SkillText,
};
use prowess_permission::{Decision, Permissions, Policy, Rule, RuleSource};
use prowess_skills::{SkillFiles, SkillSession};

use crate::says::{Says, calls, text};
use crate::world::{World, open};

const DOCUMENT: &str = "---\nname: pdf\ndescription: Reads.\n---\nDo as I say.\n";
const TASK: &str = r#"{"description": "Do it."}"#;

/// Every server has the same skill.
#[derive(Debug)]
struct Shelf;

#[async_trait]
impl SkillFiles for Shelf {
    async fn text(&self, entry: &Arc<SkillEntry>) -> Result<SkillText, ReadError> {
        entry.text_from(DOCUMENT.into())
    }

    async fn resources(&self, entry: &Arc<SkillEntry>, depth: usize) -> Resources {
        entry.resources(depth)
    }

    async fn documents(&self, entry: &Arc<SkillEntry>) -> Documents {
        entry.documents()
    }

    async fn document(&self, entry: &Arc<SkillEntry>, path: &str) -> Result<DocumentText, DocumentError> {
        entry.document_from(path, Vec::new(), 0)
    }
}

fn scan(server: &str) -> RootScan {
    let uri = "skill://pdf/SKILL.md".to_owned();
    let (digest, size) = (Digest::of(DOCUMENT.as_bytes()), DOCUMENT.len() as u64);
    let files = vec![PublishedFile { path: "SKILL.md".to_owned(), uri: uri.clone(), digest, size }];
    let published = Published { server: server.to_owned(), uri, files };
    let frontmatter = r#"{"name":"pdf","description":"Reads."}"#.to_owned();
    scan_published(
        &Arc::new(Root::server(server)),
        vec![Offer { frontmatter, published, is_granted: false }],
        None,
    )
}

/// The skills of two servers, which rules let be loaded.
fn skills() -> Skills {
    let catalog = Catalog::empty().assembled([scan("docs"), scan("wiki")]);
    Skills::new(move |_| {
        let rules = [Rule::new("mcp_skill", "*", Decision::Allow), Rule::new("run", "*", Decision::Allow)];
        SkillSession::builder(catalog.clone())
            .files(Arc::new(Shelf))
            .permissions(Permissions::unattended(Policy::new().rules(RuleSource::User, rules)))
    })
}

fn load(server: &str) -> String {
    format!("{{\"skill_name\": \"{server}:pdf\"}}")
}

#[tokio::test]
async fn a_sub_agent_is_led_by_what_its_parent_read() {
    let world = World::new(&[]).await;
    let child = Says::new([calls(&[("x", "load_skill", &load("wiki"))]), text("done")]);
    let model = Says::new([
        calls(&[("a", "load_skill", &load("docs"))]),
        calls(&[("b", "task", TASK)]),
        text("done"),
    ]);
    let worker = Agent::builder(child).middleware(skills()).build().unwrap();
    let agent = world.agent(model).middleware(skills()).middleware(SubAgents::new(worker)).build().unwrap();
    let mut thread = open(&agent).await;
    let turn = thread.say("go", &NoWatcher).await.unwrap();
    let TurnStatus::Waiting(waiting) = turn else { panic!("{turn:?}") };
    let title = waiting[0].question.wording().title;
    assert_eq!(
        title,
        "sub-agent general-purpose: load the skill 'wiki:pdf' of the MCP server wiki, while the model works with \
         'docs:pdf' of docs"
    );
    let turn = thread.reply(&waiting[0].call.id, CallReply::Approve, &NoWatcher).await.unwrap();
    assert_eq!(turn, TurnStatus::Ended(TurnOutcome::Responded));
}

#[tokio::test]
async fn a_parent_is_led_by_what_its_sub_agent_read() {
    let world = World::new(&[]).await;
    let child = Says::new([calls(&[("x", "load_skill", &load("docs"))]), text("done")]);
    let model = Says::new([calls(&[("a", "task", TASK)]), calls(&[("b", "load_skill", &load("wiki"))])]);
    let worker = Agent::builder(child).middleware(skills()).build().unwrap();
    let agent = world.agent(model).middleware(skills()).middleware(SubAgents::new(worker)).build().unwrap();
    let mut thread = open(&agent).await;
    let turn = thread.say("go", &NoWatcher).await.unwrap();
    let TurnStatus::Waiting(waiting) = turn else { panic!("{turn:?}") };
    let title = waiting[0].question.wording().title;
    assert!(title.ends_with("while the model works with 'docs:pdf' of docs"), "{title}");
}

/// A person calls for it, and says none of it.
#[tokio::test]
async fn a_servers_text_is_not_the_persons() {
    let world = World::new(&[]).await;
    let agent = world.agent(Says::new([text("done")])).middleware(skills()).build().unwrap();
    let mut thread = open(&agent).await;
    assert_eq!(thread.say("/docs:pdf", &NoWatcher).await.unwrap(), TurnStatus::Ended(TurnOutcome::Responded));
    let by_person: Vec<String> = thread
        .state()
        .messages()
        .iter()
        .filter(|message| message.is_by_person())
        .map(|message| message.text())
        .collect();
    assert_eq!(by_person, ["/docs:pdf"]);
    assert!(thread.state().messages().iter().any(|message| message.text().contains("Do as I say.")));
}
