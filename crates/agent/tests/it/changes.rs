//! Changes of files, as a watcher learns of them.

use std::sync::{Arc, Mutex};

use async_trait::async_trait;
use prowess_agent::middleware::{ChangeAllowed, ChangeWatcher, FileChange, Files};
use prowess_agent::{Agent, NoWatcher, ThreadId};
use prowess_backend::{LocalBackend, MemoryBackend};
use prowess_permission::{Decision, Permissions, Policy, Rule, RuleSource};

use crate::says::{Says, calls, text};

/// Keeps what it is told, and what the file contained at that time.
#[derive(Debug, Default)]
struct Told(Mutex<Vec<(FileChange, String)>>);

#[async_trait]
impl ChangeWatcher for Told {
    async fn changed(&self, change: FileChange) {
        // Another change would come here, if it could.
        tokio::task::yield_now().await;
        let now = std::fs::read_to_string(&change.path).unwrap();
        self.0.lock().unwrap().push((change, now));
    }
}

async fn go(files: Files, steps: &[&[(&str, &str, &str)]]) {
    let turns = steps.iter().map(|step| calls(step)).chain([text("done")]);
    let agent = Agent::builder(Says::new(turns)).middleware(files).build().unwrap();
    let mut thread = agent.open(ThreadId::new()).await.unwrap();
    thread.say("go", &NoWatcher).await.unwrap();
}

#[tokio::test]
async fn a_watcher_learns_of_each_change_by_itself() {
    let directory = tempfile::tempdir().unwrap();
    std::fs::write(directory.path().join("a.md"), "one two").unwrap();
    let told = Arc::new(Told::default());
    let rule = Rule::new("write", "*.md", Decision::Allow);
    let rules = [Rule::new("read", "*", Decision::Allow), rule.clone()];
    let permissions = Permissions::unattended(Policy::empty().rules(RuleSource::User, rules));
    let files = Files::new(Arc::new(LocalBackend::open(directory.path()).unwrap()))
        .permissions(permissions)
        .watch_changes(told.clone());
    go(
        files,
        &[
            &[
                ("1", "edit_file", r#"{"file_path": "/a.md", "old_string": "one", "new_string": "1"}"#),
                ("2", "edit_file", r#"{"file_path": "/a.md", "old_string": "two", "new_string": "2"}"#),
                ("3", "write_file", r#"{"file_path": "/b/c/d.md", "content": "new"}"#),
            ],
            // Nothing changes: refused, or not possible.
            &[
                ("4", "write_file", r#"{"file_path": "/e.txt", "content": "new"}"#),
                ("5", "write_file", r#"{"file_path": "/a.md", "content": "new"}"#),
                ("6", "edit_file", r#"{"file_path": "/a.md", "old_string": "nowhere", "new_string": "x"}"#),
            ],
        ],
    )
    .await;
    let mut told = std::mem::take(&mut *told.0.lock().unwrap());
    assert_eq!(told.len(), 3);
    for (change, now) in &told {
        assert_eq!(change.after, now.as_bytes(), "nobody else changed it meanwhile");
        assert_eq!(change.allowed, ChangeAllowed::Rule(RuleSource::User, rule.clone()));
    }
    told.sort_by_key(|(change, _)| change.path.clone());
    let new = &told.iter().find(|(change, _)| change.before.is_none()).unwrap().0;
    assert_eq!((new.new_directories, &*new.after), (2, &b"new"[..]));
    let edits: Vec<_> = told.iter().filter_map(|(change, _)| change.before.as_deref()).collect();
    assert!(edits.contains(&&b"one two"[..]), "one of the edits was the first: {edits:?}");
    assert_eq!(std::fs::read_to_string(directory.path().join("a.md")).unwrap(), "1 2");
}

#[tokio::test]
async fn files_that_are_not_on_this_machine_are_not_watched() {
    let write: &[&[(&str, &str, &str)]] =
        &[&[("1", "write_file", r#"{"file_path": "/a.md", "content": "x"}"#)]];
    let told = Arc::new(Told::default());
    go(Files::new(Arc::new(MemoryBackend::new())).watch_changes(told.clone()), write).await;
    assert!(told.0.lock().unwrap().is_empty());
}
