//! Races with somebody who changes the local directory at the worst moment.

use std::fs::{self, File, OpenOptions};
use std::io::Write;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;

use prowess_backend::{Backend, Edit, GlobQuery, GrepQuery, LocalBackend, ReadRange, VirtualPath, WriteMode};
use rustix::fs::{CWD, RenameFlags, renameat_with};

use crate::cage::{Cage, SECRET, at, code};

/// How often each race runs.
const ROUNDS: usize = 1500;

/// Repeats `act` on its own thread until dropped.
struct Meanwhile {
    stop: Arc<AtomicBool>,
    thread: Option<thread::JoinHandle<()>>,
}

impl Meanwhile {
    fn new(mut act: impl FnMut() + Send + 'static) -> Self {
        let stop = Arc::new(AtomicBool::new(false));
        let stopped = Arc::clone(&stop);
        let thread = thread::spawn(move || {
            while !stopped.load(Ordering::Relaxed) {
                act();
            }
        });
        Self { stop, thread: Some(thread) }
    }
}

impl Drop for Meanwhile {
    fn drop(&mut self) {
        self.stop.store(true, Ordering::Relaxed);
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}

/// A cage in which `/dir` switches between a directory and a link to the outside.
fn swapping() -> (Cage, Meanwhile) {
    let cage = Cage::new();
    fs::create_dir(cage.inside("dir")).unwrap();
    fs::write(cage.inside("dir/secret"), "harmless").unwrap();
    cage.link("link", "../outside");
    let (dir, link) = (cage.inside("dir"), cage.inside("link"));
    let swap = Meanwhile::new(move || renameat_with(CWD, &dir, CWD, &link, RenameFlags::EXCHANGE).unwrap());
    (cage, swap)
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_directory_swapped_for_a_link_never_leaks_to_a_reader() {
    let (cage, _swap) = swapping();
    let (secret, everything) = (GrepQuery::literal(SECRET).unwrap(), GlobQuery::new("**").unwrap());
    let (mut harmless, mut denied) = (0, 0);
    // Both outcomes must occur; otherwise there was no race.
    for round in 0.. {
        match cage.read("/dir/secret").await {
            Ok(text) => {
                assert_eq!(text, "harmless");
                harmless += 1;
            }
            Err(error) => {
                assert!(matches!(error.code(), "permission_denied" | "not_found"), "{error:?}");
                denied += 1;
            }
        }
        if round % 10 == 0 {
            let found = cage.backend.grep(&VirtualPath::root(), &secret).await.unwrap();
            assert!(found.matches.is_empty(), "{found:?}");
            cage.backend.glob(&VirtualPath::root(), &everything).await.unwrap();
        }
        if round >= ROUNDS && harmless > 0 && denied > 0 {
            break;
        }
        assert!(round < 100 * ROUNDS, "{harmless} harmless reads, {denied} denied");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_directory_swapped_for_a_link_never_leaks_a_write() {
    let (cage, swap) = swapping();
    for round in 0..ROUNDS {
        let path = at(&format!("/dir/{}", round % 3));
        let _ = cage.backend.write(&path, "x".into(), WriteMode::Replace).await;
        let _ = cage.backend.append(&path, "x".into()).await;
        let _ = cage.backend.edit(&at("/dir/secret"), &Edit::all("SECRET", "x")).await;
        let _ = cage.backend.delete(&path).await;
    }
    drop(swap);
    cage.assert_untouched();
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_file_swapped_for_a_fifo_keeps_nobody_waiting() {
    let cage = Cage::new();
    fs::write(cage.inside("file"), "text").unwrap();
    let mode = rustix::fs::Mode::from_raw_mode(0o666);
    rustix::fs::mknodat(CWD, cage.inside("fifo"), rustix::fs::FileType::Fifo, mode, 0).unwrap();
    let (file, fifo) = (cage.inside("file"), cage.inside("fifo"));
    let _swap = Meanwhile::new(move || renameat_with(CWD, &file, CWD, &fifo, RenameFlags::EXCHANGE).unwrap());
    let reads = async {
        for _ in 0..ROUNDS {
            match cage.read("/file").await {
                Ok(text) => assert_eq!(text, "text"),
                Err(error) => assert_eq!(error.code(), "not_a_file", "{error:?}"),
            }
        }
    };
    tokio::time::timeout(std::time::Duration::from_secs(60), reads).await.expect("it does not hang");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_file_that_grows_while_it_is_read_stays_within_the_limit() {
    let cage = Cage::new();
    fs::write(cage.inside("log"), "").unwrap();
    let mut log = OpenOptions::new().append(true).open(cage.inside("log")).unwrap();
    let _grow = Meanwhile::new(move || {
        // Limited, so that a slow reader does not fill the disk.
        if log.metadata().unwrap().len() < 1 << 24 {
            log.write_all(&[b'x'; 500]).unwrap();
        }
    });
    for _ in 0..300 {
        let contents = cage.backend.read(&at("/log"), ReadRange::first(1000)).await.unwrap();
        assert!(contents.bytes.len() <= 1000);
    }
}

/// Two backends over one directory behave like two processes.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn separate_backends_over_one_directory_lose_nothing() {
    const BACKENDS: usize = 4;
    const CHANGES: usize = 25;
    let cage = Cage::new();
    // Large enough that rewriting it takes a while.
    let padding = "x".repeat(400_000);
    fs::write(cage.inside("file"), format!("count: \n{padding}\n")).unwrap();
    let tasks: Vec<_> = (0..BACKENDS)
        .map(|number| {
            let backend = LocalBackend::open(cage.inside("")).unwrap();
            tokio::spawn(async move {
                for round in 0..CHANGES {
                    if number % 2 == 0 {
                        backend.edit(&at("/file"), &Edit::unique("count: ", "count: I")).await.unwrap();
                    } else {
                        backend.append(&at("/file"), format!("{number}:{round}\n").into()).await.unwrap();
                    }
                }
            })
        })
        .collect();
    for task in tasks {
        task.await.unwrap();
    }
    let text = fs::read_to_string(cage.inside("file")).unwrap();
    let changes = BACKENDS / 2 * CHANGES;
    assert_eq!(text.lines().next(), Some(format!("count: {}", "I".repeat(changes)).as_str()));
    assert_eq!(text.lines().count(), 2 + changes);
}

#[tokio::test(start_paused = true)]
async fn a_lock_that_is_never_released_is_a_conflict() {
    let cage = Cage::new();
    fs::write(cage.inside("file"), "text").unwrap();
    let held = File::open(cage.inside("file")).unwrap();
    held.lock().unwrap();
    let (backend, path) = (&cage.backend, at("/file"));
    assert_eq!(code(backend.append(&path, "x".into())).await, "conflict");
    assert_eq!(code(backend.edit(&path, &Edit::unique("text", "x"))).await, "conflict");
    assert_eq!(code(backend.write(&path, "x".into(), WriteMode::Replace)).await, "conflict");
    assert_eq!(code(backend.delete(&path)).await, "conflict");
    assert_eq!(cage.read("/file").await.unwrap(), "text", "reading asks for no lock");
    drop(held);
    backend.append(&path, "x".into()).await.unwrap();
}
