//! File tools, as a model meets them.

use std::sync::Arc;

use prowess_agent::parts::Files;
use prowess_agent::{Agent, NoWatcher, ThreadId};
use prowess_backend::MemoryBackend;

use crate::agent::results;
use crate::says::{Says, calls, text};

async fn said(steps: &[&[(&str, &str, &str)]]) -> Vec<String> {
    let turns = steps.iter().map(|step| calls(step)).chain([text("done")]);
    let files = Files::new(Arc::new(MemoryBackend::new()));
    let agent = Agent::builder(Says::new(turns)).with(files).build().unwrap();
    let mut thread = agent.open(ThreadId::new()).await.unwrap();
    thread.say("go", &NoWatcher).await.unwrap();
    results(&thread)
}

#[tokio::test]
async fn a_file_from_beginning_to_end() {
    let answers = said(&[
        &[("1", "write_file", r#"{"file_path": "/notes/a.md", "content": "one\ntwo\nthree\n"}"#)],
        &[
            ("2", "write_file", r#"{"file_path": "/notes/a.md", "content": "again"}"#),
            ("3", "read_file", r#"{"file_path": "/notes/a.md"}"#),
            ("4", "read_file", r#"{"file_path": "/notes/a.md", "offset": 1, "limit": 1}"#),
            ("5", "read_file", r#"{"file_path": "/notes/a.md", "offset": 9}"#),
        ],
        &[("6", "edit_file", r#"{"file_path": "/notes/a.md", "old_string": "two", "new_string": "zwei"}"#)],
        &[
            ("7", "edit_file", r#"{"file_path": "/notes/a.md", "old_string": "nowhere", "new_string": "x"}"#),
            ("8", "grep", r#"{"pattern": "z.ei"}"#),
            ("9", "glob", r#"{"pattern": "**/*.md"}"#),
            ("10", "ls", r#"{"path": "/"}"#),
            ("11", "ls", r#"{"path": "/nowhere"}"#),
            ("12", "read_file", r#"{"file_path": "../../etc/passwd"}"#),
            ("13", "execute", r#"{"command": "true"}"#),
        ],
    ])
    .await;
    insta::assert_snapshot!(answers.join("\n---\n"));
}
