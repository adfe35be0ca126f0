//! `copy_file`: what the person saw is what is written, and nothing else.

use std::fs;
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex};

use async_trait::async_trait;
use bytes::Bytes;
use prowess_agent::middleware::Files;
use prowess_agent::tool::{ChangeKind, ToolData};
use prowess_agent::{
    Agent, CallReply, Event, NoWatcher, Thread, ThreadId, ThreadUpdate, TurnOutcome, TurnStatus, Watcher,
};
use prowess_backend::entry::Target;
use prowess_backend::{
    Backend, BackendError, CompositeBackend, Contents, Edit, Edited, Entry, Listing, LocalBackend, ReadRange,
    VirtualPath, WriteMode,
};
use prowess_permission::action::{CopyAction, CopyPreview};
use prowess_permission::{Action, Decision, Permissions, Policy, Question, Rule, RuleSource};
use serde_json::json;

use crate::agent::results;
use crate::says::{Says, calls, text};

/// A project at `/project`, results at `/work/out`, and a directory that belongs to neither.
struct Place(tempfile::TempDir);

impl Place {
    fn new() -> Self {
        let place = Self(tempfile::tempdir().unwrap());
        for name in ["project/docs", "work/out", "elsewhere"] {
            fs::create_dir_all(place.at(name)).unwrap();
        }
        place
    }

    fn at(&self, name: &str) -> PathBuf {
        self.0.path().join(name)
    }

    fn write(&self, name: &str, bytes: impl AsRef<[u8]>) {
        fs::write(self.at(name), bytes).unwrap();
    }

    fn read(&self, name: &str) -> String {
        fs::read_to_string(self.at(name)).unwrap()
    }

    fn backend(&self) -> CompositeBackend {
        let local = |name: &str| Arc::new(LocalBackend::open(self.at(name)).unwrap());
        let mount = |path: &str| VirtualPath::parse(path).unwrap();
        CompositeBackend::new(local("elsewhere"))
            .mount(mount("/project"), local("project"))
            .mount(mount("/work"), local("work"))
    }

    /// A thread whose model makes this call.
    async fn thread(&self, backend: Arc<dyn Backend>, arguments: serde_json::Value) -> Thread {
        let model = Says::new([calls(&[("1", "copy_file", &arguments.to_string())]), text("done")]);
        let rules = [Rule::new("read", "*", Decision::Allow), Rule::new("write", "*", Decision::Ask)];
        let permissions = Permissions::unattended(Policy::new().rules(RuleSource::User, rules));
        let files = Files::new(backend).permissions(permissions);
        let agent = Agent::builder(model).middleware(files).build().unwrap();
        agent.open(ThreadId::new()).await.unwrap()
    }

    async fn copying(&self, arguments: serde_json::Value) -> Thread {
        self.thread(Arc::new(self.backend()), arguments).await
    }
}

/// The question that the turn waits for.
fn question(status: TurnStatus) -> Question {
    match status {
        TurnStatus::Waiting(mut waiting) => waiting.remove(0).question,
        other => panic!("{other:?}"),
    }
}

fn copy(question: &Question) -> &CopyAction {
    match &question.action {
        Action::CopyFile(copy) => copy,
        other => panic!("{other:?}"),
    }
}

async fn asked(thread: &mut Thread) -> Question {
    question(thread.say("go", &NoWatcher).await.unwrap())
}

async fn approve(thread: &mut Thread) -> TurnStatus {
    thread.reply("1", CallReply::Approve, &NoWatcher).await.unwrap()
}

const ENDED: TurnStatus = TurnStatus::Ended(TurnOutcome::Responded);

/// Keeps the data of answers.
#[derive(Default)]
struct Data(Mutex<Vec<ToolData>>);

impl Watcher for Data {
    fn update(&self, update: ThreadUpdate<'_>) {
        if let ThreadUpdate::Stored(Event::ToolAnswered { answer, .. }) = update {
            self.0.lock().unwrap().extend(answer.data.clone());
        }
    }
}

#[tokio::test]
async fn a_result_comes_into_the_project() {
    let place = Place::new();
    place.write("work/out/a.md", "one\ntwo\n");
    let mut thread = place.copying(json!({"from": "/work/out/a.md", "to": "/project/docs/"})).await;
    let question = asked(&mut thread).await;
    let (from, to) = (place.at("work/out/a.md"), place.at("project/docs/a.md"));
    assert_eq!(question.wording().title, format!("copy {} to {}", from.display(), to.display()));
    assert_eq!(copy(&question).shown, CopyPreview::Text { text: "one\ntwo\n".to_owned(), left_out: 0 });
    assert!(question.always.is_empty() && !to.exists());
    let data = Data::default();
    assert_eq!(thread.reply("1", CallReply::Approve, &data).await.unwrap(), ENDED);
    assert_eq!(results(&thread), ["Copied /work/out/a.md to /project/docs/a.md (8 bytes)."]);
    assert_eq!(place.read("project/docs/a.md"), "one\ntwo\n");
    match data.0.into_inner().unwrap().as_slice() {
        [ToolData::ChangedFile(file)] => {
            assert_eq!((file.path.as_str(), file.bytes), ("/project/docs/a.md", 8));
            assert_eq!(
                (file.on_disk.as_deref().map(Path::new), file.change),
                (Some(&*to), ChangeKind::Created)
            );
        }
        other => panic!("{other:?}"),
    }
}

#[tokio::test]
async fn a_file_is_replaced_only_if_the_call_says_so() {
    let place = Place::new();
    place.write("work/out/a.png", b"\x89PNG\r\n\x1a\n\0\xff new");
    place.write("project/a.png", b"\x89PNG\r\n\x1a\n\0\xff old");
    let arguments = |replace| json!({"from": "/work/out/a.png", "to": "/project/a.png", "replace": replace});
    let mut thread = place.copying(arguments(false)).await;
    assert_eq!(thread.say("go", &NoWatcher).await.unwrap(), ENDED);
    assert!(
        results(&thread)[0].contains("/project/a.png already exists; choose another path, or set `replace`"),
        "{:?}",
        results(&thread)
    );
    let mut thread = place.copying(arguments(true)).await;
    let question = asked(&mut thread).await;
    assert!(question.wording().title.starts_with("replace "), "{:?}", question.wording());
    assert_eq!(copy(&question).shown, CopyPreview::Data { what: "PNG image".to_owned() });
    assert_eq!(approve(&mut thread).await, ENDED);
    assert_eq!(fs::read(place.at("project/a.png")).unwrap(), b"\x89PNG\r\n\x1a\n\0\xff new");
}

#[tokio::test]
async fn wrong_copies_are_refused_before_anybody_is_asked() {
    let place = Place::new();
    place.write("work/out/a.md", "a");
    fs::File::create(place.at("work/out/large")).unwrap().set_len(64 * 1024 * 1024 + 1).unwrap();
    symlink("docs", place.at("project/link")).unwrap();
    symlink("docs/none.md", place.at("project/dangling.md")).unwrap();
    for (from, to, why) in [
        ("/work/out/none", "/project/a", "/work/out/none does not exist"),
        ("/work/out", "/project/a", "/work/out is a directory"),
        ("/work/out/a.md", "/project/docs", "/project/docs is a directory"),
        ("/work/out/large", "/project/a", "/work/out/large is larger than 64 MiB, the limit for copies"),
        (
            "/work/out/a.md",
            "/project/link/a.md",
            "it is a link, or below one; it leads to /project/docs/a.md",
        ),
        ("/work/out/a.md", "/project/dangling.md", "it leads to /project/docs/none.md"),
        ("/work/out/a.md", "/project/../x", "is not a valid path"),
    ] {
        let mut thread = place.copying(json!({"from": from, "to": to, "replace": true})).await;
        assert_eq!(thread.say("go", &NoWatcher).await.unwrap(), ENDED, "{from} {to}");
        let answer = results(&thread).remove(0);
        assert!(answer.starts_with("Error: ") && answer.contains(why), "{answer}");
    }
    assert_eq!(fs::read_dir(place.at("project/docs")).unwrap().count(), 0);
}

/// A change of the files while the question waits.
type Swap = fn(&Place);

/// What changed after the question is asked about again, and what the person then refuses is not written.
#[tokio::test]
async fn case_114_a_file_swapped_after_the_question_is_asked_about_again() {
    let swaps: [(&str, Swap); 5] = [
        ("the source", |place| place.write("work/out/a.md", "evil\n")),
        ("the source, by a link", |place| {
            place.write("work/evil", "evil\n");
            fs::remove_file(place.at("work/out/a.md")).unwrap();
            symlink("../evil", place.at("work/out/a.md")).unwrap();
        }),
        ("the target", |place| place.write("project/a.md", "somebody else's\n")),
        ("the target, to nothing", |place| fs::remove_file(place.at("project/a.md")).unwrap()),
        ("the target's size alone", |place| place.write("project/a.md", "old\n\n")),
    ];
    for (what, swap) in swaps {
        let place = Place::new();
        place.write("work/out/a.md", "good\n");
        place.write("project/a.md", "old\n");
        let arguments = json!({"from": "/work/out/a.md", "to": "/project/a.md", "replace": true});
        let mut thread = place.copying(arguments).await;
        let first = asked(&mut thread).await;
        swap(&place);
        let left = fs::read_to_string(place.at("project/a.md")).ok();
        let second = question(approve(&mut thread).await);
        assert_ne!(first.fingerprint(), second.fingerprint(), "{what}");
        assert_eq!(fs::read_to_string(place.at("project/a.md")).ok(), left, "{what}: nothing is written");
        let no = CallReply::Reject { message: "no".to_owned() };
        assert_eq!(thread.reply("1", no, &NoWatcher).await.unwrap(), ENDED, "{what}");
        assert_eq!(fs::read_to_string(place.at("project/a.md")).ok(), left, "{what}");
    }
}

/// A link in the place of the target, or of its directory, is not followed.
#[tokio::test]
async fn case_114_a_link_that_appears_after_the_question_is_not_followed() {
    for (name, to) in [("project/docs/a.md", "/project/docs/a.md"), ("project/docs", "/project/docs/a.md")] {
        let place = Place::new();
        place.write("work/out/a.md", "good\n");
        place.write("elsewhere/a.md", "mine\n");
        let mut thread = place.copying(json!({"from": "/work/out/a.md", "to": to, "replace": true})).await;
        asked(&mut thread).await;
        let _ = fs::remove_dir(place.at(name));
        let target = if name.ends_with(".md") { "elsewhere/a.md" } else { "elsewhere" };
        symlink(place.at(target), place.at(name)).unwrap();
        assert_eq!(approve(&mut thread).await, ENDED, "{name}");
        assert!(results(&thread)[0].starts_with("Error: "), "{:?}", results(&thread));
        assert_eq!(place.read("elsewhere/a.md"), "mine\n");
    }
}

/// A change of the files below a directory.
type Meddle = fn(&Path);

/// Something that happens between the last look at the files and the write.
type Meddling = Box<dyn Fn() + Send + Sync>;

/// A backend in whose files somebody meddles just before each write.
struct Meddled(CompositeBackend, Meddling);

impl std::fmt::Debug for Meddled {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_tuple("Meddled").field(&self.0).finish()
    }
}

#[async_trait]
impl Backend for Meddled {
    async fn ls(&self, path: &VirtualPath) -> Result<Listing, BackendError> {
        self.0.ls(path).await
    }

    async fn stat(&self, path: &VirtualPath) -> Result<Entry, BackendError> {
        self.0.stat(path).await
    }

    async fn read(&self, path: &VirtualPath, range: ReadRange) -> Result<Contents, BackendError> {
        self.0.read(path, range).await
    }

    async fn write(&self, path: &VirtualPath, bytes: Bytes, mode: WriteMode) -> Result<Entry, BackendError> {
        (self.1)();
        self.0.write(path, bytes, mode).await
    }

    async fn swap(&self, path: &VirtualPath, before: Bytes, after: Bytes) -> Result<Entry, BackendError> {
        (self.1)();
        self.0.swap(path, before, after).await
    }

    async fn append(&self, path: &VirtualPath, bytes: Bytes) -> Result<Entry, BackendError> {
        self.0.append(path, bytes).await
    }

    async fn edit(&self, path: &VirtualPath, edit: &Edit) -> Result<Edited, BackendError> {
        self.0.edit(path, edit).await
    }

    async fn delete(&self, path: &VirtualPath) -> Result<(), BackendError> {
        self.0.delete(path).await
    }

    async fn target(&self, path: &VirtualPath) -> Target {
        self.0.target(path).await
    }
}

/// Even a swap at the last moment writes nothing but the approved bytes, and replaces nothing but the approved file.
#[tokio::test]
async fn case_114_a_swap_during_the_call_changes_nothing() {
    let meddlings: [(&str, bool, Meddle, Option<&str>); 6] = [
        ("the source", true, |at| fs::write(at.join("work/out/a.md"), "evil\n").unwrap(), None),
        (
            "a present target",
            true,
            |at| fs::write(at.join("project/docs/a.md"), "theirs\n").unwrap(),
            Some("changed"),
        ),
        ("a present target, by a link", true, by_link, Some("not a regular file")),
        (
            "a new target",
            false,
            |at| fs::write(at.join("project/docs/a.md"), "theirs\n").unwrap(),
            Some("already exists"),
        ),
        ("a new target, by a link", false, by_link, Some("not a regular file")),
        (
            "its directory, by a link",
            false,
            |at| {
                fs::remove_dir(at.join("project/docs")).unwrap();
                symlink(at.join("elsewhere"), at.join("project/docs")).unwrap();
            },
            Some("does not write through links"),
        ),
    ];
    for (what, is_present, meddle, refused) in meddlings {
        let place = Place::new();
        place.write("work/out/a.md", "good\n");
        place.write("elsewhere/b.md", "mine\n");
        if is_present {
            place.write("project/docs/a.md", "old\n");
        }
        let root = place.0.path().to_owned();
        let backend = Arc::new(Meddled(place.backend(), Box::new(move || meddle(&root))));
        let arguments = json!({"from": "/work/out/a.md", "to": "/project/docs/a.md", "replace": true});
        let mut thread = place.thread(backend, arguments).await;
        asked(&mut thread).await;
        assert_eq!(approve(&mut thread).await, ENDED, "{what}");
        let answer = results(&thread).remove(0);
        match refused {
            None => assert_eq!(place.read("project/docs/a.md"), "good\n", "{what}"),
            Some(why) => {
                assert!(answer.contains(why), "{what}: {answer}");
                let left = fs::read_to_string(place.at("project/docs/a.md")).ok();
                assert_ne!(left.as_deref(), Some("good\n"), "{what}");
            }
        }
        assert_eq!(place.read("elsewhere/b.md"), "mine\n", "{what}");
        assert!(!place.at("elsewhere/a.md").exists(), "{what}");
    }
}

fn by_link(at: &Path) {
    let _ = fs::remove_file(at.join("project/docs/a.md"));
    symlink(at.join("elsewhere/b.md"), at.join("project/docs/a.md")).unwrap();
}
