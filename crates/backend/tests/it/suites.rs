//! Runs the shared suite for each backend and for combinations of backends.

use std::sync::Arc;

use object_store::memory::InMemory;
use prowess_backend::testing::{self, Subject};
use prowess_backend::{CompositeBackend, LocalBackend, MemoryBackend, ObjectBackend, VirtualPath};
use tempfile::{TempDir, tempdir};

fn local() -> (LocalBackend, TempDir) {
    let directory = tempdir().unwrap();
    (LocalBackend::open(directory.path()).unwrap(), directory)
}

fn object(prefix: &str) -> ObjectBackend {
    ObjectBackend::new(Arc::new(InMemory::new()), path(prefix))
}

fn path(text: &str) -> VirtualPath {
    VirtualPath::parse(text).unwrap()
}

testing::suite!(memory, Subject::new(MemoryBackend::new()));

testing::suite!(local_directory, {
    let (backend, directory) = local();
    Subject::new(backend).guard(directory)
});

testing::suite!(store, Subject::new(object("/")));

testing::suite!(store_below_a_prefix, Subject::new(object("/tenants/one")));

// The suite uses `tree` and `tree/branch`, so its searches span both backends.
testing::suite!(composite_spanning, {
    let (branch, directory) = local();
    let composite =
        CompositeBackend::new(Arc::new(MemoryBackend::new())).mount(path("/tree/branch"), Arc::new(branch));
    Subject::new(composite).guard(directory)
});

testing::suite!(composite_below_a_local_mount, {
    let (mounted, directory) = local();
    let composite =
        CompositeBackend::new(Arc::new(MemoryBackend::new())).mount(path("/mnt/disk"), Arc::new(mounted));
    Subject::new(composite).below(path("/mnt/disk")).guard(directory)
});

testing::suite!(composite_below_an_object_mount, {
    let composite = CompositeBackend::new(Arc::new(MemoryBackend::new()))
        .mount(path("/far"), Arc::new(object("/prefix")));
    Subject::new(composite).below(path("/far"))
});

#[test]
fn every_behaviour_is_in_the_suite() {
    // The macro lists each behaviour. A behaviour missing from it would never run.
    let macro_text = include_str!("../../src/testing/mod.rs");
    let modules = [
        include_str!("../../src/testing/batches.rs"),
        include_str!("../../src/testing/concurrency.rs"),
        include_str!("../../src/testing/editing.rs"),
        include_str!("../../src/testing/globbing.rs"),
        include_str!("../../src/testing/grepping.rs"),
        include_str!("../../src/testing/listing.rs"),
        include_str!("../../src/testing/reading.rs"),
        include_str!("../../src/testing/writing.rs"),
    ];
    let behaviours = modules
        .iter()
        .flat_map(|module| module.lines())
        .filter_map(|line| line.strip_prefix("pub async fn ").and_then(|rest| rest.split('(').next()));
    for behaviour in behaviours {
        assert!(
            macro_text.split_whitespace().any(|word| word.trim_end_matches(';') == behaviour),
            "{behaviour}"
        );
    }
}
