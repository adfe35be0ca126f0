//! Properties that hold for any input and any sequence of operations.

use std::sync::Arc;

use bytes::Bytes;
use object_store::memory::InMemory;
use proptest::prelude::*;
use prowess_backend::path::MAX_PATH_BYTES;
use prowess_backend::{
    Backend, Edit, EditScope, GlobQuery, GrepQuery, LocalBackend, MemoryBackend, ObjectBackend, ReadRange,
    Result, VirtualPath, WriteMode,
};

use crate::cage::at;

fn config(cases: u32) -> ProptestConfig {
    ProptestConfig { cases, failure_persistence: None, ..ProptestConfig::default() }
}

/// Text from characters that paths contain, and from some that they must not contain.
fn path_like() -> impl Strategy<Value = String> {
    let piece = prop_oneof![
        Just("/".to_owned()),
        Just("..".to_owned()),
        Just(".".to_owned()),
        Just("\\".to_owned()),
        Just("\0".to_owned()),
        Just("%2e".to_owned()),
        "[a-c]{1,3}",
        any::<char>().prop_map(String::from),
    ];
    prop::collection::vec(piece, 0..12).prop_map(|pieces| pieces.concat())
}

proptest! {
    #![proptest_config(config(2000))]

    #[test]
    fn what_parses_is_clean_and_comes_back(text in prop_oneof![path_like(), path_like().prop_map(|text| format!("/{text}"))]) {
        if let Ok(path) = VirtualPath::parse(&text) {
            let shown = path.to_string();
            prop_assert_eq!(VirtualPath::parse(&shown).unwrap(), path.clone());
            prop_assert!(text.strip_suffix('/').unwrap_or(&text) == shown.trim_end_matches('/'));
            prop_assert!(shown.len() <= MAX_PATH_BYTES && shown.starts_with('/'));
            prop_assert!(!shown.contains(['\\', '\0']) && !shown.contains("//"));
            prop_assert!(path.components().all(|name| !matches!(name, "" | "." | "..")));
            // Checked with the path type of the standard library.
            let normal = std::path::Path::new(&shown).components().skip(1);
            prop_assert!(normal.into_iter().all(|part| matches!(part, std::path::Component::Normal(_))));
        }
    }

    #[test]
    fn joining_never_leads_out(base in "(/[a-c]{1,2}){0,3}", relative in path_like()) {
        let base = if base.is_empty() { VirtualPath::root() } else { at(&base) };
        if let Ok(joined) = base.join(&relative) {
            prop_assert!(joined.starts_with(&base) && joined != base);
            let below = joined.strip_prefix(&base).unwrap().to_owned();
            prop_assert_eq!(base.join(&below).unwrap(), joined.clone());
            prop_assert_eq!(joined.parent().unwrap().join(joined.name().unwrap()).unwrap(), joined);
        }
    }

    #[test]
    fn order_agrees_with_components(one in "(/[a.-]{1,2}){1,3}", other in "(/[a.-]{1,2}){1,3}") {
        if let (Ok(one), Ok(other)) = (VirtualPath::parse(&one), VirtualPath::parse(&other)) {
            prop_assert_eq!(one.cmp(&other), one.components().collect::<Vec<_>>().cmp(&other.components().collect()));
            prop_assert_eq!(one.cmp(&other).is_eq(), one == other);
        }
    }

    #[test]
    fn no_pattern_panics(pattern in "[a-c*?{},\\[\\]!./\\\\-]{0,20}", text in "[a-c/.]{0,12}") {
        if let Ok(query) = GlobQuery::new(&pattern) {
            // A walk must not skip the directory of a match.
            if let Ok(path) = VirtualPath::root().join(&text) && query.matches(&text) {
                let mut above = path.parent();
                while let Some(directory) = above {
                    prop_assert!(query.may_match_below(&directory.as_str()[1..]), "{pattern} {directory}");
                    above = directory.parent();
                }
            }
        }
    }
}

/// One operation on a backend.
#[derive(Debug, Clone)]
enum Operation {
    Write(VirtualPath, String, WriteMode),
    Append(VirtualPath, String),
    Edit(VirtualPath, Edit),
    Delete(VirtualPath),
    Read(VirtualPath, ReadRange),
    ReadMany(Vec<VirtualPath>, u64),
    Upload(Vec<(VirtualPath, String)>),
    List(VirtualPath),
    Stat(VirtualPath),
    Glob(VirtualPath, &'static str, usize),
    Grep(VirtualPath, &'static str, usize),
}

/// Paths of files that come and go, of directories, and below a file. The directory that exists at the start has a file
/// that stays, because each backend decides whether it remembers an empty one.
fn path() -> impl Strategy<Value = VirtualPath> {
    let paths =
        ["/", "/a", "/a-b", "/d", "/d/a", "/d/e", "/d/e/é", "/d/e/.h", "/file", "/file/below", "/d/keep/x/y"];
    prop::sample::select(paths.to_vec()).prop_map(at)
}

/// Like `path`, and paths at which no file ever exists.
fn any_path() -> impl Strategy<Value = VirtualPath> {
    prop_oneof![4 => path(), 1 => prop::sample::select(vec!["/no", "/no/thing", "/d/no"]).prop_map(at)]
}

fn operation() -> impl Strategy<Value = Operation> {
    let text = || "[ab\n]{0,6}";
    let mode = prop_oneof![Just(WriteMode::Replace), Just(WriteMode::CreateNew)];
    let scope = prop_oneof![Just(EditScope::Unique), Just(EditScope::All)];
    let edit =
        ("[ab]{0,2}", "[abc]{0,2}", scope).prop_map(|(find, replace, scope)| Edit { find, replace, scope });
    let pattern = prop::sample::select(vec!["**", "*", "**/a", "d/**", "*/*", "{a,d/e/*}", "?", "**/[!a]*"]);
    let range = (0_u64..8, 0_u64..8).prop_map(|(offset, max)| ReadRange::first(max).at(offset));
    prop_oneof![
        3 => (path(), text(), mode).prop_map(|(path, text, mode)| Operation::Write(path, text, mode)),
        2 => (path(), text()).prop_map(|(path, text)| Operation::Append(path, text)),
        2 => (any_path(), edit).prop_map(|(path, edit)| Operation::Edit(path, edit)),
        2 => any_path().prop_map(|path| {
            // This file stays.
            if path.as_str() == "/file" { Operation::Stat(path) } else { Operation::Delete(path) }
        }),
        2 => (any_path(), range).prop_map(|(path, range)| Operation::Read(path, range)),
        1 => (prop::collection::vec(any_path(), 0..5), 0_u64..6).prop_map(|(paths, max)| Operation::ReadMany(paths, max)),
        1 => prop::collection::vec((path(), text().prop_map(String::from)), 0..4).prop_map(Operation::Upload),
        2 => any_path().prop_map(Operation::List),
        1 => any_path().prop_map(Operation::Stat),
        1 => (any_path(), pattern, 0_usize..6).prop_map(|(path, pattern, cap)| Operation::Glob(path, pattern, cap)),
        1 => (any_path(), prop::sample::select(vec!["a", "^b*$", "c"]), 0_usize..6)
            .prop_map(|(path, pattern, cap)| Operation::Grep(path, pattern, cap)),
    ]
}

/// An answer without details in which backends may differ: times, stamps and the wording of errors.
fn comparable<T: std::fmt::Debug>(answer: Result<T>) -> String {
    match answer {
        Ok(value) => format!("{value:?}"),
        Err(error) => format!("{} {:?}", error.code(), error.path()),
    }
}

async fn perform(backend: &dyn Backend, operation: &Operation) -> String {
    let facts = |entry: prowess_backend::Entry| (entry.path, entry.kind, entry.size);
    match operation.clone() {
        Operation::Write(path, text, mode) => {
            comparable(backend.write(&path, text.into(), mode).await.map(facts))
        }
        Operation::Append(path, text) => comparable(backend.append(&path, text.into()).await.map(facts)),
        Operation::Edit(path, edit) => comparable(
            backend.edit(&path, &edit).await.map(|edited| (facts(edited.entry), edited.replacements)),
        ),
        Operation::Delete(path) => comparable(backend.delete(&path).await),
        Operation::Read(path, range) => comparable(
            backend.read(&path, range).await.map(|read| (read.path, read.bytes, read.offset, read.more)),
        ),
        Operation::ReadMany(paths, max) => {
            let reads = backend.read_many(&paths, max).await.into_iter();
            reads
                .map(|read| comparable(read.map(|read| (read.path, read.bytes, read.more))))
                .collect::<Vec<_>>()
                .join("; ")
        }
        Operation::Upload(files) => {
            let files = files.into_iter().map(|(path, text)| (path, Bytes::from(text))).collect();
            let writes = backend.upload(files).await.into_iter();
            writes.map(|write| comparable(write.map(facts))).collect::<Vec<_>>().join("; ")
        }
        Operation::List(path) => comparable(
            backend.ls(&path).await.map(|listing| listing.into_iter().map(facts).collect::<Vec<_>>()),
        ),
        Operation::Stat(path) => comparable(backend.stat(&path).await.map(facts)),
        Operation::Glob(path, pattern, cap) => {
            let query = GlobQuery::new(pattern).unwrap().max_results(cap);
            let report = backend.glob(&path, &query).await;
            comparable(
                report.map(|report| {
                    (report.entries.into_iter().map(facts).collect::<Vec<_>>(), report.stopped)
                }),
            )
        }
        Operation::Grep(path, pattern, cap) => {
            let query = GrepQuery::regex(pattern).unwrap().max_matches(cap);
            comparable(
                backend
                    .grep(&path, &query)
                    .await
                    .map(|report| (report.matches, report.partial, report.stopped)),
            )
        }
    }
}

proptest! {
    #![proptest_config(config(150))]

    #[test]
    fn memory_disk_and_store_give_the_same_answers(operations in prop::collection::vec(operation(), 1..40)) {
        let directory = tempfile::tempdir().unwrap();
        let backends: [Arc<dyn Backend>; 3] = [
            Arc::new(MemoryBackend::new()),
            Arc::new(LocalBackend::open(directory.path()).unwrap()),
            Arc::new(ObjectBackend::new(Arc::new(InMemory::new()), at("/prefix"))),
        ];
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        runtime.block_on(async {
            for backend in &backends {
                for stays in ["/file", "/d/keep/x/stays", "/d/e/stays"] {
                    backend.write(&at(stays), "a\nb\n".into(), WriteMode::Replace).await.unwrap();
                }
            }
            for operation in &operations {
                let mut answers = Vec::new();
                for backend in &backends {
                    answers.push(perform(&**backend, operation).await);
                }
                prop_assert_eq!(&answers[0], &answers[1], "memory and disk: {:?}", operation);
                prop_assert_eq!(&answers[0], &answers[2], "memory and store: {:?}", operation);
            }
            Ok(())
        })?;
    }
}
