//! Behaviours of concurrent operations.

use std::collections::BTreeSet;
use std::future::Future;

use bytes::Bytes;
use tokio::task::JoinHandle;

use super::Subject;
use crate::{Edit, ReadRange, WriteMode};

const TASKS: usize = 16;
const ROUNDS: usize = 20;

/// Starts a task for each number and returns the results in order.
async fn crowd<T, F>(size: usize, task: impl Fn(usize) -> F) -> Vec<T>
where
    T: Send + 'static,
    F: Future<Output = T> + Send + 'static,
{
    let tasks: Vec<JoinHandle<T>> = (0..size).map(|number| tokio::spawn(task(number))).collect();
    let mut answers = Vec::with_capacity(size);
    for task in tasks {
        answers.push(task.await.expect("no task panics"));
    }
    answers
}

/// Sixteen writers append twenty lines each. Every line is there once, whole, and in the order of its writer.
pub async fn appends_lose_nothing(subject: &Subject) {
    crowd(TASKS, |writer| {
        let (backend, path) = (subject.shared(), subject.at("dir/log"));
        async move {
            for round in 0..ROUNDS {
                let line = format!("{writer}:{round}:{}\n", "x".repeat(writer * 7));
                backend.append(&path, line.into()).await.expect("it can be appended to");
            }
        }
    })
    .await;
    let log = subject.text("dir/log").await;
    assert_eq!(log.lines().count(), TASKS * ROUNDS);
    for writer in 0..TASKS {
        let beginning = format!("{writer}:");
        let own: Vec<&str> = log.lines().filter(|line| line.starts_with(&beginning)).collect();
        let expected: Vec<String> =
            (0..ROUNDS).map(|round| format!("{writer}:{round}:{}", "x".repeat(writer * 7))).collect();
        assert_eq!(own, expected);
    }
}

/// Concurrent edits of different words in one file all take effect.
pub async fn edits_lose_nothing(subject: &Subject) {
    let words = |state: &str| (0..TASKS).map(|number| format!("<{number}:{state}>\n")).collect::<String>();
    subject.put("file", words("before")).await;
    crowd(TASKS, |number| {
        let (backend, path) = (subject.shared(), subject.at("file"));
        let edit = Edit::unique(format!("<{number}:before>"), format!("<{number}:after>"));
        async move { backend.edit(&path, &edit).await.expect("the word is there") }
    })
    .await;
    assert_eq!(subject.text("file").await, words("after"));
}

/// An edit does not undo a concurrent append, and an append does not undo an edit.
pub async fn appends_and_edits_lose_nothing(subject: &Subject) {
    subject.put("file", "count: \n").await;
    crowd(TASKS, |number| {
        let (backend, path) = (subject.shared(), subject.at("file"));
        async move {
            for round in 0..ROUNDS / 4 {
                if number % 2 == 0 {
                    let edit = Edit::unique("count: ", "count: I");
                    backend.edit(&path, &edit).await.expect("the word is there");
                } else {
                    let line = format!("{number}:{round}\n");
                    backend.append(&path, line.into()).await.expect("it can be appended to");
                }
            }
        }
    })
    .await;
    let text = subject.text("file").await;
    let changes = TASKS / 2 * (ROUNDS / 4);
    assert_eq!(text.lines().next(), Some(format!("count: {}", "I".repeat(changes)).as_str()));
    assert_eq!(text.lines().skip(1).collect::<BTreeSet<_>>().len(), changes, "{text}");
}

/// Of several concurrent creators one wins, and the others get an error.
pub async fn one_creator_wins(subject: &Subject) {
    let answers = crowd(TASKS, |number| {
        let (backend, path) = (subject.shared(), subject.at("dir/file"));
        async move { backend.write(&path, Bytes::from(number.to_string()), WriteMode::CreateNew).await }
    })
    .await;
    let winners: Vec<String> = answers
        .iter()
        .enumerate()
        .filter_map(|(number, answer)| match answer {
            Ok(_) => Some(number.to_string()),
            Err(error) => {
                assert_eq!(error.code(), "already_exists");
                None
            }
        })
        .collect();
    assert_eq!(winners, [subject.text("dir/file").await]);
}

/// A reader sees the old file or the new one, of the right length and made of one letter.
pub async fn readers_see_whole_files(subject: &Subject) {
    let version = |number: usize| {
        let letter = if number.is_multiple_of(2) { b'a' } else { b'b' };
        vec![letter; if number.is_multiple_of(2) { 50_000 } else { 70_000 }]
    };
    subject.put("file", version(0)).await;
    let (backend, path) = (subject.shared(), subject.at("file"));
    let writer = tokio::spawn(async move {
        for number in 1..=60 {
            backend
                .write(&path, version(number).into(), WriteMode::Replace)
                .await
                .expect("it can be written");
        }
    });
    let mut reads = 0;
    while !writer.is_finished() || reads == 0 {
        let read = subject.backend().read(&subject.at("file"), ReadRange::first(1 << 20)).await;
        let bytes = read.expect("there is always a file").bytes;
        assert!(bytes == version(0) || bytes == version(1), "{} bytes of a mixture", bytes.len());
        reads += 1;
    }
    writer.await.expect("the writer does not panic");
}

/// Concurrent writers create the directories that all of them need.
pub async fn writers_share_new_directories(subject: &Subject) {
    crowd(TASKS, |number| {
        let (backend, path) = (subject.shared(), subject.at(&format!("a/b/c/{number:02}")));
        async move { backend.write(&path, Bytes::new(), WriteMode::Replace).await.expect("it can be written") }
    })
    .await;
    assert_eq!(subject.names("a/b/c").await.len(), TASKS);
}
