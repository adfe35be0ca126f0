//! Skills of MCP servers: permission, published digests, and asking each time until the thread ends.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};

use async_trait::async_trait;
use prowess_catalog::document::{DocumentError, DocumentText};
use prowess_catalog::published::{Offer, Published, PublishedFile, scan_published};
use prowess_catalog::{Catalog, Digest, Documents, ReadError, Resources, Root, SkillEntry, SkillText};
use prowess_permission::{
    Action, Broker, Decision, Kind, Permissions, Policy, Question, Replies, Rule, RuleSource,
};
use prowess_skills::delta::SelectMode;
use prowess_skills::documents::DocumentChoice;
use prowess_skills::load::PreparedLoad;
use prowess_skills::options::Placement;
use prowess_skills::{
    Capabilities, Dialect, Operation, Outcome, RunSetup, SavedState, SessionOptions, SkillAnswer, SkillError,
    SkillFiles, SkillSession,
};
use prowess_workspace::stage::{SkillListing, StageFile, StageFiles as StagedFiles, StageSource};
use prowess_workspace::{LocalExecutor, LocalOptions, RunRequest, Runner, Workspaces};
use serde_json::json;

/// The files of servers, by label and address.
#[derive(Clone, Debug, Default)]
pub(crate) struct Shelf {
    files: Arc<Mutex<BTreeMap<(String, String), String>>>,
    fetched: Arc<Mutex<Vec<String>>>,
    unlisted: Option<Offer>,
}

impl Shelf {
    /// Adds a skill, and publishes it as its server would.
    pub(crate) fn offer(&self, server: &str, name: &str, body: &str, files: &[(&str, &str)]) -> Offer {
        let document = format!("---\nname: {name}\ndescription: From {server}.\n---\n{body}\n");
        let all = [("SKILL.md", document.as_str())].into_iter().chain(files.iter().copied());
        let mut published = Vec::new();
        for (path, text) in all {
            let uri = format!("skill://{name}/{path}");
            let (digest, size) = (Digest::of(text.as_bytes()), text.len() as u64);
            published.push(PublishedFile { path: path.to_owned(), uri: uri.clone(), digest, size });
            self.files.lock().unwrap().insert((server.to_owned(), uri), text.to_owned());
        }
        let uri = format!("skill://{name}/SKILL.md");
        Offer {
            frontmatter: format!(r#"{{"name":"{name}","description":"From {server}."}}"#),
            published: Published { server: server.to_owned(), uri, files: published },
            is_granted: false,
        }
    }

    fn fetch(&self, published: &Published, path: &str) -> Vec<u8> {
        let file = published.file(path).unwrap();
        let key = (published.server.clone(), file.uri.clone());
        self.fetched.lock().unwrap().push(format!("{}:{}", key.0, key.1));
        self.files.lock().unwrap()[&key].clone().into_bytes()
    }

    fn fetched(&self) -> Vec<String> {
        std::mem::take(&mut *self.fetched.lock().unwrap())
    }
}

#[async_trait]
impl SkillFiles for Shelf {
    async fn text(&self, entry: &Arc<SkillEntry>) -> Result<SkillText, ReadError> {
        entry.text_from(self.fetch(entry.published().unwrap(), "SKILL.md"))
    }

    async fn resources(&self, entry: &Arc<SkillEntry>, depth: usize) -> Resources {
        entry.resources(depth)
    }

    async fn documents(&self, entry: &Arc<SkillEntry>) -> Documents {
        entry.documents()
    }

    async fn document(&self, entry: &Arc<SkillEntry>, path: &str) -> Result<DocumentText, DocumentError> {
        let bytes = self.fetch(entry.published().unwrap(), path);
        let size = bytes.len() as u64;
        entry.document_from(path, bytes, size)
    }

    async fn look_up(&self, name: &str, catalog: &Catalog) -> Option<Catalog> {
        let is_it = |offer: &Offer| {
            let address = format!("{}:{}", offer.published.server, offer.published.uri);
            offer.published.name() == name || address == name
        };
        let offer = self.unlisted.clone().filter(is_it)?;
        Some(catalog.assembled([scan(vec![offer])]))
    }

    fn stage_source(&self, entry: &Arc<SkillEntry>) -> Option<StageSource> {
        let published = Arc::clone(entry.published()?);
        Some(StageSource::Files(Arc::new(Staged(self.clone(), published))))
    }
}

/// A skill's files, for a run.
struct Staged(Shelf, Arc<Published>);

#[async_trait]
impl StagedFiles for Staged {
    async fn list(&self) -> std::io::Result<SkillListing> {
        let mut listing = SkillListing::default();
        listing.files.extend(self.1.files.iter().map(|file| StageFile {
            path: prowess_workspace::InnerPath::parse(&file.path).unwrap(),
            size: file.size,
            stamp: Some(file.digest.to_string()),
            executable: true,
        }));
        Ok(listing)
    }

    async fn read(
        &self,
        path: &prowess_workspace::InnerPath,
        _max: u64,
    ) -> std::io::Result<Option<bytes::Bytes>> {
        Ok(Some(self.0.fetch(&self.1, path.as_str()).into()))
    }
}

pub(crate) fn scan(offers: Vec<Offer>) -> prowess_catalog::RootScan {
    let root = Arc::new(Root::server(&offers[0].published.server));
    scan_published(&root, offers, None)
}

fn rules(rules: &[(&str, &str)]) -> Permissions {
    let rules: Vec<Rule> =
        rules.iter().map(|(kind, pattern)| Rule::new(kind, pattern, Decision::Allow)).collect();
    Permissions::new(Broker::in_memory(), "test", Policy::new().rules(RuleSource::User, rules))
}

async fn session(shelf: &Shelf, catalog: Catalog, permissions: Permissions) -> SkillSession {
    SkillSession::builder(catalog).files(Arc::new(shelf.clone())).permissions(permissions).build().await
}

/// The question at which an operation stops without a reply.
fn asked<T: std::fmt::Debug>(outcome: Outcome<T>) -> Question {
    match outcome {
        Outcome::Asks(question) => *question,
        Outcome::Done(done) => panic!("nothing is asked: {done:?}"),
        Outcome::Refused(error) => panic!("nothing is asked: {error}"),
    }
}

async fn drive<T: Send + 'static>(
    session: &SkillSession,
    operation: Operation<T>,
    replies: &Replies,
) -> Outcome<T> {
    operation.drive(session.service().files(), replies).await
}

async fn question<T: std::fmt::Debug + Send + 'static>(
    session: &SkillSession,
    operation: Operation<T>,
) -> Question {
    asked(drive(session, operation, &Replies::default()).await)
}

fn loading(session: &SkillSession, name: &str) -> Operation<PreparedLoad> {
    session.view().load(name, None, None)
}

fn allowing(question: &Question) -> Replies {
    Replies::once([question.fingerprint()])
}

/// Loads a skill with a person's approval.
async fn load(session: &SkillSession, name: &str) -> String {
    let replies = allowing(&question(session, loading(session, name)).await);
    let Outcome::Done(prepared) = drive(session, loading(session, name), &replies).await else {
        panic!("{name} was asked about, and allowed")
    };
    session.hold(|state| prepared.finish(state)).unwrap().text
}

/// Runs a command with these replies.
async fn run(session: &SkillSession, request: &RunRequest, replies: &Replies) -> Outcome<SkillAnswer> {
    session.service().run(&session.view(), request.clone(), replies).await
}

#[tokio::test]
async fn loading_is_asked_about_and_nothing_is_fetched_before() {
    let shelf = Shelf::default();
    let catalog = Catalog::empty().assembled([scan(vec![shelf.offer("docs", "pdf", "Read it.", &[])])]);
    // Rules about skills on the disk are none about those of servers.
    let session = session(&shelf, catalog, rules(&[("skill", "*")])).await;
    let request = question(&session, loading(&session, "docs:pdf")).await;
    assert_eq!(request.kind, Kind::MCP_SKILL);
    assert_eq!(request.wording().title, "load the skill 'docs:pdf' of the MCP server docs");
    let Action::LoadServerSkill { uri, .. } = &request.action else { panic!("{request:?}") };
    assert_eq!(uri, "skill://pdf/SKILL.md");
    assert_eq!(shelf.fetched(), [""; 0]);
    let answer = load(&session, "docs:pdf").await;
    assert!(
        answer.starts_with("<skill name=\"docs:pdf\" origin=\"MCP server docs\" dir=\"docs:skill://pdf\""),
        "{answer}"
    );
    assert_eq!(shelf.fetched(), ["docs:skill://pdf/SKILL.md"], "only what is needed");
}

#[tokio::test]
async fn an_approval_is_for_all_files_as_they_were() {
    let shelf = Shelf::default();
    let one = scan(vec![shelf.offer("docs", "pdf", "Read it.", &[("notes.md", "One.")])]);
    let catalog = Catalog::empty().assembled([one]);
    let permissions = rules(&[]);
    let session = session(&shelf, catalog.clone(), permissions.clone()).await;
    let request = question(&session, loading(&session, "docs:pdf")).await;
    permissions.broker().remember(&request).await.unwrap();
    session.load("docs:pdf", None).await.unwrap();
    session.select_documents("docs:pdf", SelectMode::Add, DocumentChoice::All).await.unwrap();

    // Another file changes, and the document that was approved does not.
    let two = scan(vec![shelf.offer("docs", "pdf", "Read it.", &[("notes.md", "Two.")])]);
    let newer = catalog.assembled([two]);
    session.refresh(&newer).await;
    let select =
        session.select_documents("docs:pdf", SelectMode::Replace, DocumentChoice::All).await.unwrap_err();
    assert!(matches!(select, SkillError::Republished { .. }), "{select}");
    assert!(matches!(session.list_documents("docs:pdf").await, Err(SkillError::Republished { .. })));
    session.unload("docs:pdf").unwrap();
    question(&session, loading(&session, "docs:pdf")).await;
    // And what it was is what was approved.
    session.refresh(&catalog).await;
    shelf.offer("docs", "pdf", "Read it.", &[("notes.md", "One.")]);
    session.load("docs:pdf", None).await.unwrap();
}

async fn with_runs(
    shelf: &Shelf,
    catalog: Catalog,
    permissions: &Permissions,
) -> (SkillSession, tempfile::TempDir) {
    let place = tempfile::tempdir().unwrap();
    let runner = Runner {
        workspaces: Workspaces::open(place.path().join("workspaces")).unwrap(),
        artifacts: None,
        executor: Some(Arc::new(LocalExecutor::new(LocalOptions::default()))),
    };
    let mut options = SessionOptions::default();
    options.capabilities = Capabilities::all();
    let session = SkillSession::builder(catalog)
        .files(Arc::new(shelf.clone()))
        .options(options)
        .permissions(permissions.clone())
        .runs(RunSetup::new(runner, "one"))
        .build()
        .await;
    (session, place)
}

#[tokio::test]
async fn whatever_runs_while_a_servers_skill_is_at_work_is_asked_about() {
    let shelf = Shelf::default();
    let offers = vec![shelf.offer("docs", "kit", "Run it.", &[("scripts/a.sh", "echo from the server\n")])];
    let catalog = Catalog::empty().assembled([scan(offers)]);
    let permissions = rules(&[("run", "*"), ("mcp_skill", "docs:*")]);
    let (session, _place) = with_runs(&shelf, catalog.clone(), &permissions).await;
    let command = RunRequest::new("docs:kit", "sh scripts/a.sh");
    let exec = json!({"skill": "docs:kit", "command": "cat"});
    let nobody = Replies::default();
    // What it brings is a server's, whether it is loaded or not.
    let request = asked(session.attempt("skill_exec", exec.clone(), &nobody).await);
    assert!(request.kind == Kind::RUN && request.each_time);
    let Outcome::Done(begun) = session.attempt("skill_exec", exec, &allowing(&request)).await else {
        panic!("it was allowed")
    };
    assert_eq!(session.view().server_skills_in_context(), ["docs:kit"], "what it says is the server's");
    assert_eq!(begun.deltas.len(), 1);
    let before = begun.data.unwrap();
    session.load("docs:kit", None).await.unwrap();

    let request = asked(run(&session, &command, &nobody).await);
    assert!(request.each_time && request.always.is_empty());
    let Action::Run(action) = &request.action else { panic!("{request:?}") };
    assert_eq!(action.because_of, ["docs:kit"]);
    // What goes on since before is typed into as little.
    for (chars, says) in [("rm -rf out", "rm -rf out\n"), ("", "\n")] {
        let arguments = json!({"session_id": before["session_id"], "chars": chars});
        let question = asked(session.attempt("skill_write_stdin", arguments, &nobody).await);
        let Action::TypeIntoRun { typed, because_of, .. } = &question.action else { panic!("{question:?}") };
        assert_eq!((typed.as_str(), because_of.as_slice()), (says, &["docs:kit".to_owned()][..]));
    }

    let Outcome::Done(ran) = run(&session, &command, &allowing(&request)).await else {
        panic!("it was allowed")
    };
    assert_eq!(ran.data.unwrap()["stdout"], "from the server\n");
    asked(run(&session, &command, &nobody).await);

    // What was read is not what would run.
    let offers = vec![shelf.offer("docs", "kit", "Run it.", &[("scripts/a.sh", "echo something else\n")])];
    session.refresh(&catalog.assembled([scan(offers)])).await;
    assert!(matches!(session.run(command.clone()).await, Err(SkillError::Republished { .. })));
    session.refresh(&catalog).await;

    // Unloading does not remove its text from the conversation, and a new process does not either.
    session.unload("docs:kit").unwrap();
    asked(run(&session, &command, &nobody).await);
    let saved: SavedState = serde_json::from_str(&serde_json::to_string(&session.save()).unwrap()).unwrap();
    let later = SkillSession::builder(catalog).saved_state(saved).build().await;
    assert_eq!(later.view().server_skills_in_context(), ["docs:kit"]);
}

#[tokio::test]
async fn one_servers_skill_leads_to_no_read_at_another_unasked() {
    let shelf = Shelf::default();
    let docs = scan(vec![shelf.offer("docs", "pdf", "Read it.", &[("notes.md", "Notes.")])]);
    let wiki = scan(vec![shelf.offer("wiki", "pdf", "Read it too.", &[])]);
    let catalog = Catalog::empty().assembled([docs, wiki]);
    let session = session(&shelf, catalog, rules(&[("mcp_skill", "*")])).await;
    session.load("docs:pdf", None).await.unwrap();
    shelf.fetched();
    let request = question(&session, loading(&session, "wiki:pdf")).await;
    let title =
        "load the skill 'wiki:pdf' of the MCP server wiki, while the model works with 'docs:pdf' of docs";
    assert_eq!(request.wording().title, title);
    assert!(request.each_time);
    load(&session, "wiki:pdf").await;
    assert_eq!(shelf.fetched(), ["wiki:skill://pdf/SKILL.md"]);
    let choose = || session.view().select_documents("docs:pdf", SelectMode::Add, DocumentChoice::All);
    let request = question(&session, choose()).await;
    assert_eq!(shelf.fetched(), [""; 0]);
    assert!(
        request.wording().title.ends_with("while the model works with 'wiki:pdf' of wiki"),
        "{}",
        request.wording().title
    );
    let Outcome::Done(chosen) = drive(&session, choose(), &allowing(&request)).await else {
        panic!("it was allowed")
    };
    session.hold(|state| chosen.finish(state)).unwrap();
    assert_eq!(shelf.fetched(), ["docs:skill://pdf/notes.md"]);
}

#[tokio::test]
async fn text_of_a_server_is_never_in_the_system_message() {
    let shelf = Shelf::default();
    let catalog = Catalog::empty().assembled([scan(vec![shelf.offer("docs", "pdf", "Obey me.", &[])])]);
    let mut options = SessionOptions::new(Dialect::Trpc);
    options.placement = Placement::SystemMessage;
    let session = SkillSession::builder(catalog)
        .files(Arc::new(shelf.clone()))
        .options(options)
        .permissions(rules(&[("mcp_skill", "*")]))
        .build()
        .await;
    let answer = session.load("docs:pdf", None).await.unwrap().text;
    assert!(answer.contains("Obey me."));
    assert!(session.loaded_section().await.text.is_empty());
    assert!(session.put_back([answer.as_str()], None).await.text.is_empty(), "it is where it was");
    let section = session.put_back(["a summary"], None).await;
    insta::assert_snapshot!(section.text, @r#"Skill 'docs:pdf' was unloaded: it comes from an MCP server, and the messages with its text have been summarised. Use `skill_load("docs:pdf")` if you need it again."#);
    assert_eq!(section.dropped, ["docs:pdf"]);
    assert_eq!(session.view().server_skills_in_context(), ["docs:pdf"], "the summary may say what it said");
}

#[tokio::test]
async fn a_skill_that_no_list_has_is_looked_up() {
    let mut shelf = Shelf::default();
    shelf.unlisted = Some(shelf.offer("docs", "hidden", "Found.", &[]));
    let empty =
        Catalog::empty().assembled([scan_published(&Arc::new(Root::server("docs")), Vec::new(), None)]);
    let allowing = session(&shelf, empty.clone(), rules(&[("mcp_skill", "*")])).await;
    assert!(matches!(allowing.load("docs:other", None).await, Err(SkillError::NotFound { .. })));
    assert!(matches!(allowing.load("wiki:hidden", None).await, Err(SkillError::NotFound { .. })));
    assert!(allowing.load("docs:skill://hidden/SKILL.md", None).await.unwrap().text.contains("Found."));
    // While its text is in the conversation, no server is asked for a name that the model made up.
    let request = question(&allowing, loading(&allowing, "docs:secrets-of-the-user")).await;
    assert_eq!(request.wording().title, "ask the MCP server docs for a skill 'docs:secrets-of-the-user'");
    assert!(request.each_time);

    let asking = session(&shelf, empty.clone(), rules(&[])).await;
    question(&asking, loading(&asking, "docs:hidden")).await;
    let deny = Policy::new().rules(RuleSource::User, [Rule::new("mcp_skill", "docs:*", Decision::Deny)]);
    let denying = session(&shelf, empty, Permissions::unattended(deny)).await;
    assert!(matches!(denying.load("docs:hidden", None).await, Err(SkillError::NotFound { .. })));
}

#[tokio::test]
async fn a_servers_skill_takes_no_loaded_ones_place() {
    let shelf = Shelf::default();
    let place = tempfile::tempdir().unwrap();
    std::fs::create_dir(place.path().join("mine")).unwrap();
    std::fs::write(
        place.path().join("mine/SKILL.md"),
        "---\nname: \"docs:pdf\"\ndescription: Mine.\n---\nMine.\n",
    )
    .unwrap();
    let docs = || scan(vec![shelf.offer("docs", "pdf", "Theirs.", &[])]);
    let local = Root::explicit(place.path());
    let mine = Catalog::discover(&[local], &prowess_catalog::ScanOptions::default());
    let session = session(&shelf, mine, Permissions::default()).await;
    let files = prowess_skills::LocalFiles;
    assert!(files.text(session.engine().catalog_view().get("docs:pdf").unwrap()).await.is_ok());
    let saved = r#"{"version":1,"skills_loaded":["docs:pdf"]}"#;
    let restored = SkillSession::builder(Catalog::empty().assembled([docs()]))
        .files(Arc::new(shelf.clone()))
        .saved_state(serde_json::from_str(saved).unwrap())
        .build()
        .await;
    let section = restored.put_back(["nothing"], None).await;
    assert!(!section.text.contains("Theirs.") && section.dropped == ["docs:pdf"], "{}", section.text);
    assert_eq!(shelf.fetched(), [""; 0]);
}
