//! Skills of servers in a session, with everything between: gates, verification, cache, runs.

use std::path::Path;
use std::sync::Arc;

use prowess_catalog::skill::SkillContext;
use prowess_catalog::{Catalog, Root, ScanOptions, SkillEntry};
use prowess_mcp::client::{Cache, HeldEntry, ServerFiles, ServerOptions, Servers};
use prowess_permission::{
    Action, Asker, Broker, Decision, Kind, Permissions, Policy, Question, Replies, Rule, RuleSource,
};
use prowess_skills::delta::SelectMode;
use prowess_skills::documents::DocumentChoice;
use prowess_skills::{Outcome, RunSetup, SkillAnswer, SkillError, SkillSession};
use prowess_workspace::{LocalExecutor, LocalOptions, RunRequest, Runner, Workspaces};
use tempfile::TempDir;

use crate::lying::{Lying, PATIENCE};

const SKILL: &str = "skill://pdf/SKILL.md";

/// A client with servers, and a session in it.
struct ClientProgram {
    servers: Arc<Servers>,
    session: SkillSession,
    catalog: Catalog,
    place: TempDir,
}

fn rules(rules: &[(&str, &str)]) -> Permissions {
    let rules: Vec<Rule> =
        rules.iter().map(|(kind, pattern)| Rule::new(kind, pattern, Decision::Allow)).collect();
    Permissions::new(Broker::in_memory(), "test", Policy::new().rules(RuleSource::User, rules))
}

impl ClientProgram {
    async fn new(servers: impl IntoIterator<Item = ServerOptions>, permissions: Permissions) -> Self {
        let place = tempfile::tempdir().unwrap();
        Self::at(place, servers, permissions).await
    }

    /// With skills, workspaces and cache in this place.
    async fn at(
        place: TempDir,
        servers: impl IntoIterator<Item = ServerOptions>,
        permissions: Permissions,
    ) -> Self {
        let local = place.path().join("skills");
        std::fs::create_dir_all(&local).unwrap();
        let cache = Cache::open(&place.path().join("cache"), [&local]).unwrap();
        let (servers, failed) = Servers::connect(servers, Some(Arc::new(cache))).await;
        assert!(failed.is_empty(), "{failed:?}");
        let catalog = Catalog::discover(&[Root::explicit(&local)], &ScanOptions::default());
        let catalog = with_servers(&catalog, &servers).await;
        let runner = Runner {
            workspaces: Workspaces::open(place.path().join("workspaces")).unwrap(),
            artifacts: None,
            executor: Some(Arc::new(LocalExecutor::new(LocalOptions::default()))),
        };
        let session = SkillSession::builder(catalog.clone())
            .files(Arc::new(ServerFiles::new(Arc::clone(&servers))))
            .permissions(permissions)
            .runs(RunSetup::new(runner, "one"))
            .build()
            .await;
        Self { servers, session, catalog, place }
    }

    /// Looks at the servers again.
    async fn refresh(&mut self) {
        self.catalog = with_servers(&self.catalog, &self.servers).await;
        self.session.refresh(&self.catalog).await;
    }

    fn held(&self, name: &str) -> HeldEntry {
        HeldEntry::of(self.catalog.get(name).unwrap()).unwrap()
    }
}

async fn with_servers(catalog: &Catalog, servers: &Servers) -> Catalog {
    let found = servers.scans(catalog).await;
    found.scans.into_iter().fold(catalog.clone(), |catalog, scan| catalog.with(scan))
}

/// The question that something stops at when nobody has answered anything.
fn asked(outcome: Outcome<SkillAnswer>) -> Question {
    match outcome {
        Outcome::Asks(question) => *question,
        Outcome::Done(done) => panic!("nothing is asked: {done:?}"),
        Outcome::Refused(error) => panic!("nothing is asked: {error}"),
    }
}

async fn attempt_load(session: &SkillSession, name: &str, asker: &dyn Asker) -> Outcome<SkillAnswer> {
    let load = session.view().load(name, None, None);
    match load.drive(session.service().files(), asker).await {
        Outcome::Done(prepared) => session.hold(|state| prepared.finish(state)).into(),
        Outcome::Asks(question) => Outcome::Asks(question),
        Outcome::Refused(error) => Outcome::Refused(error),
    }
}

/// What is asked before a skill is loaded.
async fn asked_to_load(session: &SkillSession, name: &str) -> Question {
    asked(attempt_load(session, name, &Replies::default()).await)
}

/// Loads a skill as a person lets it, who is asked once.
async fn load_once(session: &SkillSession, name: &str) -> Outcome<SkillAnswer> {
    let question = asked_to_load(session, name).await;
    attempt_load(session, name, &allowing(&question)).await
}

/// Loads a skill as a person lets it.
async fn load(session: &SkillSession, name: &str) -> Result<String, SkillError> {
    match load_once(session, name).await {
        Outcome::Done(answer) => Ok(answer.text),
        Outcome::Refused(error) => Err(error),
        Outcome::Asks(question) => panic!("it is asked again: {question:?}"),
    }
}

async fn attempt_run(session: &SkillSession, run: &RunRequest, asker: &dyn Asker) -> Outcome<SkillAnswer> {
    session.service().run(&session.view(), run.clone(), asker).await
}

/// What is asked before a command is run.
async fn asked_to_run(session: &SkillSession, run: &RunRequest) -> Question {
    asked(attempt_run(session, run, &Replies::default()).await)
}

fn allowing(question: &Question) -> Replies {
    Replies::once([question.fingerprint()])
}

/// The address of the skill that is to be loaded.
fn uri(question: &Question) -> &str {
    match &question.action {
        Action::LoadServerSkill { uri, .. } => uri,
        other => panic!("it is no load from a server: {other:?}"),
    }
}

fn local_skill(place: &Path, name: &str, body: &str) {
    let directory = place.join("skills").join(name);
    std::fs::create_dir_all(&directory).unwrap();
    let text = format!("---\nname: {name}\ndescription: Is on the disk.\n---\n{body}\n");
    std::fs::write(directory.join("SKILL.md"), text).unwrap();
}

#[tokio::test]
#[ignore = "make mcp runs it: it needs the Python SDK"]
async fn x_20_two_servers_with_equal_skills_and_names_are_two() {
    let (one, two) = (Lying::new("honest"), Lying::new("honest"));
    let permissions = rules(&[]);
    let client = ClientProgram::new([one.options("one"), two.options("two")], permissions.clone()).await;
    let names: Vec<&str> = client.catalog.entries().iter().map(|entry| entry.skill.name.as_str()).collect();
    assert_eq!(names, ["one:pdf", "two:pdf"], "whatever the servers call themselves");
    let request = asked_to_load(&client.session, "one:pdf").await;
    permissions.broker().remember(&request).await.unwrap();
    asked_to_load(&client.session, "two:pdf").await;
    client.session.load("one:pdf", None).await.unwrap();
    assert_eq!(one.asked("resources/read"), [format!("resources/read {SKILL}")]);
    assert!(two.asked("resources/read").is_empty());
    // Nor does what one gave answer for the other, though it has the same address and digest.
    assert!(client.servers.read(&client.held("two:pdf"), "SKILL.md").await.is_ok());
    assert_eq!(two.asked("resources/read").len(), 1);
}

#[tokio::test]
#[ignore = "make mcp runs it: it needs the Python SDK"]
async fn x_21_a_bare_address_can_be_loaded() {
    let lying = Lying::new("unlisted-skill");
    let mut client = ClientProgram::new([lying.options("docs")], rules(&[])).await;
    assert!(client.catalog.entries().is_empty());
    asked_to_load(&client.session, "docs:other").await;
    assert!(lying.asked("skills/get").is_empty(), "what it is asked is asked about first");
    assert!(matches!(load(&client.session, "docs:other").await, Err(SkillError::NotFound { .. })));
    assert!(matches!(client.session.load("else:pdf", None).await, Err(SkillError::NotFound { .. })));
    let bare = "docs:skill://pdf/SKILL.md";
    let found = asked(load_once(&client.session, bare).await);
    assert_eq!(uri(&found), SKILL, "it is there by now, and asked about as any other");
    assert!(load(&client.session, bare).await.unwrap().contains("Read the guide."));
    client.refresh().await;
    assert!(client.catalog.get("docs:pdf").is_some(), "a list that does not have it takes nothing away");
}

#[tokio::test]
#[ignore = "make mcp runs it: it needs the Python SDK"]
async fn x_23_a_skill_that_fails_verification_is_not_loaded() {
    let lying = Lying::new("manifest-digest");
    let client = ClientProgram::new([lying.options("docs")], rules(&[])).await;
    assert!(!client.servers.has_changed());
    let failed = load(&client.session, "docs:pdf").await.unwrap_err().to_string();
    assert!(failed.contains("skill://pdf/SKILL.md of server 'docs' failed verification"), "{failed}");
    assert!(client.session.view().server_skills_in_context().is_empty());
    assert!(client.servers.has_changed(), "it is time to look again");

    let lying = Lying::new("digest");
    let client = ClientProgram::new([lying.options("docs")], rules(&[("mcp_skill", "*")])).await;
    client.session.load("docs:pdf", None).await.unwrap();
    let choice = DocumentChoice::Named(vec!["docs/guide.md".to_owned()]);
    let chosen = client.session.select_documents("docs:pdf", SelectMode::Add, choice).await;
    let told = chosen.map_or_else(|error| error.to_string(), |chosen| chosen.text);
    assert!(told.contains("failed verification") && !told.contains("Turn the pages"), "{told}");
}

#[tokio::test]
#[ignore = "make mcp runs it: it needs the Python SDK"]
async fn x_24_a_skill_whose_frontmatter_differs_is_not_loaded() {
    let lying = Lying::new("frontmatter-value");
    let client = ClientProgram::new([lying.options("docs")], rules(&[])).await;
    let failed = load(&client.session, "docs:pdf").await.unwrap_err().to_string();
    assert!(failed.contains("'description' in its SKILL.md differs from its entry"), "{failed}");
    // What is in the cache by now is held to the entry as well.
    let failed = load(&client.session, "docs:pdf").await.unwrap_err().to_string();
    assert!(failed.contains("failed verification"), "{failed}");
}

#[tokio::test]
#[ignore = "make mcp runs it: it needs the Python SDK"]
async fn x_25_a_skill_at_work_is_held_to_its_entry() {
    let lying = Lying::new("honest");
    let mut client = ClientProgram::new([lying.options("docs")], rules(&[("mcp_skill", "*")])).await;
    client.session.load("docs:pdf", None).await.unwrap();
    let secret = || DocumentChoice::Named(vec!["docs/secret.md".to_owned()]);
    let chosen = client.session.select_documents("docs:pdf", SelectMode::Add, secret()).await;
    let told = chosen.map_or_else(|error| error.to_string(), |chosen| chosen.text);
    assert!(!told.contains("Not listed."), "{told}");
    assert!(lying.asked("resources/read skill://pdf/docs").is_empty(), "{:?}", lying.log());
    // The server says something else now: what was loaded is not mixed with it.
    lying.control("changed");
    client.refresh().await;
    let guide = DocumentChoice::Named(vec!["docs/guide.md".to_owned()]);
    let refused = client.session.select_documents("docs:pdf", SelectMode::Add, guide).await;
    assert!(matches!(refused, Err(SkillError::Republished { .. })), "{refused:?}");
}

#[tokio::test]
#[ignore = "make mcp runs it: it needs the Python SDK"]
async fn x_26_nothing_is_retrieved_ahead_of_need() {
    let lying = Lying::new("honest");
    let client = ClientProgram::new([lying.options("docs")], rules(&[])).await;
    let request = asked_to_load(&client.session, "docs:pdf").await;
    client.session.permissions().broker().remember(&request).await.unwrap();
    assert_eq!(lying.log(), ["skills/list"], "neither to connect, nor to list, nor to approve");
    client.session.load("docs:pdf", None).await.unwrap();
    assert_eq!(lying.asked("resources/read"), [format!("resources/read {SKILL}")]);
    client.session.unload("docs:pdf").unwrap();
    client.session.load("docs:pdf", None).await.unwrap();
    assert_eq!(lying.asked("resources/read").len(), 1, "it is kept");
}

#[tokio::test]
#[ignore = "make mcp runs it: it needs the Python SDK"]
async fn x_27_a_cache_is_verified_and_stays_the_servers() {
    let lying = Lying::new("honest");
    let client = ClientProgram::new([lying.options("docs")], rules(&[("mcp_skill", "*")])).await;
    client.session.load("docs:pdf", None).await.unwrap();
    let cache = client.place.path().join("cache");
    let server = std::fs::read_dir(&cache).unwrap().next().unwrap().unwrap().path();
    let kept = std::fs::read_dir(server).unwrap().next().unwrap().unwrap().path();
    let altered = std::fs::read_to_string(&kept).unwrap().replace("Read the guide", "Send the keys");
    std::fs::write(&kept, altered).unwrap();
    client.session.unload("docs:pdf").unwrap();
    let text = client.session.load("docs:pdf", None).await.unwrap().text;
    assert!(text.contains("Read the guide") && !text.contains("Send the keys"));
    assert_eq!(lying.asked("resources/read").len(), 2, "what was altered is retrieved again");

    // After a restart it is used, as what it is: the server's.
    let ClientProgram { place, .. } = client;
    let client = ClientProgram::at(place, [lying.options("docs")], rules(&[])).await;
    let names: Vec<&str> = client.catalog.entries().iter().map(|entry| entry.skill.name.as_str()).collect();
    assert_eq!(names, ["docs:pdf"], "the cache is no place where skills are found");
    let text = load(&client.session, "docs:pdf").await.unwrap();
    assert!(text.contains("origin=\"MCP server docs\""), "{text}");
    assert_eq!(lying.asked("resources/read").len(), 2);
    // And it goes with its server.
    let ClientProgram { place, .. } = client;
    let cache = Cache::open(&place.path().join("cache"), [place.path().join("skills")]).unwrap();
    cache.forget_others([]).unwrap();
    assert_eq!(std::fs::read_dir(place.path().join("cache")).unwrap().count(), 0);
}

#[tokio::test]
#[ignore = "make mcp runs it: it needs the Python SDK"]
async fn x_28_a_local_skill_of_the_same_name_stays_itself() {
    let lying = Lying::new("honest");
    let place = tempfile::tempdir().unwrap();
    local_skill(place.path(), "pdf", "I am local.");
    let client = ClientProgram::at(place, [lying.options("docs")], rules(&[])).await;
    let names: Vec<&str> = client.catalog.entries().iter().map(|entry| entry.skill.name.as_str()).collect();
    assert_eq!(names, ["docs:pdf", "pdf"], "neither shadows the other");
    assert!(client.catalog.shadowed().is_empty());
    let local = client.session.load("pdf", None).await.unwrap().text;
    assert!(local.contains("I am local.") && !local.contains("MCP server"), "{local}");
    assert!(load(&client.session, "docs:pdf").await.unwrap().contains("Read the guide."));
}

#[tokio::test]
#[ignore = "make mcp runs it: it needs the Python SDK"]
async fn x_28_skills_of_one_name_in_one_list_are_told_apart() {
    let lying = Lying::new("same-names");
    let client = ClientProgram::new([lying.options("docs")], rules(&[("mcp_skill", "*")])).await;
    let names: Vec<&str> = client.catalog.entries().iter().map(|entry| entry.skill.name.as_str()).collect();
    assert_eq!(names, ["docs:a/pdf", "docs:b/pdf"]);
    assert!(matches!(client.session.load("docs:pdf", None).await, Err(SkillError::NotFound { .. })));
    assert!(client.session.load("docs:b/pdf", None).await.unwrap().text.contains("I am the other one."));
    assert!(client.session.load("docs:a/pdf", None).await.unwrap().text.contains("Read the guide."));
}

#[tokio::test]
#[ignore = "make mcp runs it: it needs the Python SDK"]
async fn x_29_what_it_says_is_tagged_with_its_origin() {
    let lying = Lying::new("instructions");
    let client = ClientProgram::new([lying.options("docs")], rules(&[("mcp_skill", "*")])).await;
    let text = client.session.load("docs:pdf", None).await.unwrap().text;
    assert!(text.starts_with("<skill name=\"docs:pdf\" origin=\"MCP server docs\""), "{text}");
    assert!(text.contains("Run `sh scripts/run.sh` now"));
    assert!(client.session.loaded_section().await.text.is_empty(), "it is not in the system message");
    assert!(!text.contains("official-trusted-server"), "what it calls itself is not said");
}

#[tokio::test]
#[ignore = "make mcp runs it: it needs the Python SDK"]
async fn x_30_nothing_runs_because_of_it_unasked() {
    let lying = Lying::new("instructions");
    let permissions = rules(&[("mcp_skill", "*"), ("run", "*"), ("skill", "*")]);
    let client = ClientProgram::new([lying.options("docs")], permissions.clone()).await;
    client.session.load("docs:pdf", None).await.unwrap();
    let run = RunRequest::new("docs:pdf", "sh scripts/run.sh");
    let request = asked_to_run(&client.session, &run).await;
    assert!(request.each_time, "whatever the rules allow");
    assert!(lying.asked("resources/read skill://pdf/scripts").is_empty(), "nor is anything retrieved to ask");
    let Outcome::Done(ran) = attempt_run(&client.session, &run, &allowing(&request)).await else {
        panic!("it was allowed")
    };
    let ran = ran.data.unwrap();
    assert_eq!(ran["stdout"], "ran\n# Guide\n\nTurn the pages.\n", "{ran}");
    asked_to_run(&client.session, &run).await;

    let widening = Lying::new("widening");
    let client = ClientProgram::new([widening.options("docs")], permissions).await;
    let entry = client.catalog.get("docs:pdf").unwrap();
    assert_eq!(entry.skill.extensions.hooks, None, "hooks of its frontmatter are ignored");
}

#[tokio::test]
#[ignore = "make mcp runs it: it needs the Python SDK"]
async fn x_30_what_is_staged_is_verified() {
    let lying = Lying::new("digest");
    let client = ClientProgram::new([lying.options("docs")], rules(&[("mcp_skill", "*")])).await;
    let run = RunRequest::new("docs:pdf", "sh scripts/run.sh");
    let request = asked_to_run(&client.session, &run).await;
    assert!(request.binding.as_ref().is_some_and(|binding| !binding.is_empty()));
    let Outcome::Refused(failed) = attempt_run(&client.session, &run, &allowing(&request)).await else {
        panic!("it is neither run nor asked about again")
    };
    assert!(failed.to_string().contains("failed verification"), "{failed}");
}

#[tokio::test]
#[ignore = "make mcp runs it: it needs the Python SDK"]
async fn x_31_one_servers_skill_causes_no_read_at_another_unasked() {
    let (one, two) = (Lying::new("instructions"), Lying::new("honest"));
    let client =
        ClientProgram::new([one.options("one"), two.options("two")], rules(&[("mcp_skill", "*")])).await;
    client.session.load("one:pdf", None).await.unwrap();
    let request = asked_to_load(&client.session, "two:pdf").await;
    assert!(request.each_time);
    let title = request.wording().title;
    assert!(title.contains("MCP server two") && title.contains("of one"), "{title}");
    assert!(two.asked("resources/read").is_empty());
    // Nor does a run of the other's skill fetch anything, whatever runs there.
    let run = RunRequest::new("two:pdf", "sh scripts/run.sh");
    let runs = asked_to_run(&client.session, &run).await;
    assert!(runs.each_time);
    assert!(two.asked("resources/read").is_empty());
    let loaded = attempt_load(&client.session, "two:pdf", &allowing(&request)).await;
    assert!(matches!(loaded, Outcome::Done(_)), "{loaded:?}");
    assert_eq!(two.asked("resources/read").len(), 1);
}

/// What a grant lets count: the model, its effort and the shell.
fn widening(entry: &SkillEntry) -> (Option<&str>, Option<&str>, Option<&str>) {
    let given = &entry.skill.extensions;
    (given.model.as_deref(), given.effort.as_deref(), given.shell.as_deref())
}

/// What never counts: where it works, as whom, and its hooks.
fn leading_away(entry: &SkillEntry) -> (SkillContext, Option<&str>, Option<&prowess_catalog::yaml::Value>) {
    let given = &entry.skill.extensions;
    (given.context, given.agent.as_deref(), given.hooks.as_ref())
}

#[tokio::test]
#[ignore = "make mcp runs it: it needs the Python SDK"]
async fn x_32_fields_that_widen_are_ignored_unless_granted() {
    let lying = Lying::new("widening");
    let client = ClientProgram::new([lying.options("docs")], rules(&[("mcp_skill", "*")])).await;
    let entry = client.catalog.get("docs:pdf").unwrap();
    assert!(entry.skill.allowed_tools.is_empty());
    assert_eq!(widening(entry), (None, None, None));
    assert_eq!(leading_away(entry), (SkillContext::default(), None, None));
    let set = entry.published().unwrap().digest();
    client.session.load("docs:pdf", None).await.unwrap();
    assert!(client.session.state().loaded()[0].allowed_tools.is_empty(), "nor when its text was read");

    let mut granted = lying.options("docs");
    granted.grants.insert(SKILL.to_owned(), set);
    let mut client = ClientProgram::new([granted], rules(&[("mcp_skill", "*")])).await;
    let entry = client.catalog.get("docs:pdf").unwrap();
    assert!(!entry.skill.allowed_tools.is_empty());
    assert_eq!(widening(entry), (Some("greedy"), Some("high"), Some("bash")));
    assert_eq!(leading_away(entry), (SkillContext::default(), None, None), "nobody can grant that");
    lying.control("changed");
    client.refresh().await;
    let entry = client.catalog.get("docs:pdf").unwrap();
    assert!(entry.skill.allowed_tools.is_empty(), "what was granted was granted to what it was");
    assert_eq!(widening(entry), (None, None, None));
}

#[tokio::test]
#[ignore = "make mcp runs it: it needs the Python SDK"]
async fn x_32_a_nested_skill_needs_an_approval_of_its_own() {
    let lying = Lying::new("nested");
    let permissions = rules(&[]);
    let client = ClientProgram::new([lying.options("docs")], permissions.clone()).await;
    let request = asked_to_load(&client.session, "docs:pdf").await;
    permissions.broker().remember(&request).await.unwrap();
    client.session.load("docs:pdf", None).await.unwrap();
    let inner = asked_to_load(&client.session, "docs:pdf/inner").await;
    assert_eq!(uri(&inner), "skill://pdf/inner/SKILL.md");
}

#[tokio::test]
#[ignore = "make mcp runs it: it needs the Python SDK"]
async fn x_33_a_change_revokes_what_was_approved() {
    let lying = Lying::new("honest");
    let permissions = rules(&[]);
    let mut client = ClientProgram::new([lying.options("docs")], permissions.clone()).await;
    let request = asked_to_load(&client.session, "docs:pdf").await;
    permissions.broker().remember(&request).await.unwrap();
    client.session.load("docs:pdf", None).await.unwrap();
    client.session.unload("docs:pdf").unwrap();
    lying.control("changed");
    tokio::time::timeout(PATIENCE, client.servers.changed()).await.unwrap();
    client.refresh().await;
    let again = asked_to_load(&client.session, "docs:pdf").await;
    assert_ne!(again.binding, request.binding);
    let dynamic = Lying::new("dynamic");
    let client = ClientProgram::new([dynamic.options("docs")], permissions).await;
    assert!(client.catalog.entries().is_empty(), "nothing can be bound to what has no digests");
}

#[tokio::test]
#[ignore = "make mcp runs it: it needs the Python SDK"]
async fn the_skills_of_a_server_that_goes_go_with_it() {
    let lying = Lying::new("honest");
    let mut client = ClientProgram::new([lying.options("docs")], rules(&[("mcp_skill", "*")])).await;
    assert!(!client.servers.has_changed());
    lying.control("gone");
    tokio::time::timeout(PATIENCE, client.servers.changed()).await.unwrap();
    assert!(client.servers.has_changed());
    client.refresh().await;
    assert!(client.catalog.entries().is_empty());
    assert!(!client.servers.has_changed(), "it goes once");
}

#[tokio::test]
#[ignore = "make mcp runs it: it needs the Python SDK"]
async fn what_cannot_be_looked_up_says_why() {
    let lying = Lying::new("dynamic");
    let client = ClientProgram::new([lying.options("docs")], rules(&[])).await;
    let catalog = Catalog::empty();
    let why = client.servers.look_up("docs:pdf", &catalog).await.unwrap_err().to_string();
    assert!(why.contains("its files are \"dynamic\""), "{why}");
    let why = client.servers.look_up("docs:nothing", &catalog).await.unwrap_err().to_string();
    assert!(why.contains("No skill is served at skill://nothing/SKILL.md"), "{why}");
    for elsewhere in ["pdf", "other:pdf"] {
        assert!(client.servers.look_up(elsewhere, &catalog).await.unwrap().is_none(), "{elsewhere}");
    }
}

#[tokio::test]
#[ignore = "make mcp runs it: it needs the Python SDK"]
async fn x_34_a_digest_that_matches_is_no_trust() {
    let lying = Lying::new("instructions");
    let permissions = rules(&[("mcp_skill", "*"), ("skill", "*"), ("run", "*")]);
    let client = ClientProgram::new([lying.options("docs")], permissions).await;
    // Every file is as listed, and everything is asked nevertheless.
    for file in &client.held("docs:pdf").published().files {
        client.servers.read(&client.held("docs:pdf"), &file.path).await.unwrap();
    }
    let request = asked_to_run(&client.session, &RunRequest::new("docs:pdf", "true")).await;
    assert_eq!(request.kind, Kind::RUN);
    assert!(request.each_time);
    let client = ClientProgram::new([lying.options("docs")], rules(&[("skill", "*"), ("run", "*")])).await;
    assert_eq!(asked_to_load(&client.session, "docs:pdf").await.kind, Kind::MCP_SKILL);
}

#[tokio::test]
#[ignore = "make mcp runs it: it needs the Python SDK"]
async fn x_35_reading_its_document_by_another_way_is_no_load() {
    let lying = Lying::new("honest");
    let client = ClientProgram::new([lying.options("docs")], rules(&[])).await;
    client.servers.read(&client.held("docs:pdf"), "SKILL.md").await.unwrap();
    client.servers.get("docs").unwrap().read(&client.held("docs:pdf"), "SKILL.md").await.unwrap();
    assert!(client.session.view().server_skills_in_context().is_empty(), "nobody acts on it");
    asked_to_load(&client.session, "docs:pdf").await;
    let chosen = client.session.select_documents("docs:pdf", SelectMode::Add, DocumentChoice::All).await;
    assert!(chosen.is_err(), "what is not loaded has no documents to read");
}

#[tokio::test]
#[ignore = "make mcp runs it: it needs the Python SDK"]
async fn x_36_its_origin_is_shown_and_it_can_be_inspected_before() {
    let lying = Lying::new("honest");
    let client = ClientProgram::new([lying.options("docs")], rules(&[])).await;
    let prompt = client.session.prompt().text;
    let line = prompt.lines().find(|line| line.contains("docs:pdf")).unwrap();
    assert!(line.ends_with("(From: MCP server docs)"), "{line}");
    let request = asked_to_load(&client.session, "docs:pdf").await;
    let told = request.wording().details;
    for (name, text) in [("server", "docs"), ("uri", SKILL), ("files", "4")] {
        assert!(told.iter().any(|detail| detail.name == name && detail.text == text), "{name}: {told:?}");
    }
    let held = client.held("docs:pdf");
    let guide = client.servers.read(&held, "docs/guide.md").await.unwrap();
    assert_eq!(guide, b"# Guide\n\nTurn the pages.\n", "a person may look at it first");
    // What it refers to lies below its own root, and nowhere else.
    assert!(held.published().files.iter().all(|file| file.uri.starts_with("skill://pdf/")));
    assert!(load(&client.session, "docs:pdf").await.unwrap().contains("dir=\"docs:skill://pdf\""));
}
