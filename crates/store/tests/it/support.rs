//! Helpers for several tests.

use std::process::Command;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use prowess_agent::thread::Lease;
use prowess_agent::{Event, Message, ThreadId, ThreadStore};
use prowess_store::PostgresStore;

/// Longer than any test takes.
pub(crate) const LONG: Duration = Duration::from_secs(600);

/// A variable that `scripts/test-postgres.sh start` printed.
pub(crate) fn variable(name: &str) -> String {
    std::env::var(name).unwrap_or_else(|_| {
        panic!("{name} is not set: run `make unit`, or `eval \"$(scripts/test-postgres.sh start)\"` before the tests")
    })
}

/// The address of a new schema in the PostgreSQL of the tests.
pub(crate) async fn postgres_url() -> String {
    static COUNT: AtomicUsize = AtomicUsize::new(0);
    let url = variable("PROWESS_TEST_POSTGRES");
    let schema = format!("test_{}_{}", std::process::id(), COUNT.fetch_add(1, Ordering::Relaxed));
    let (client, connection) = tokio_postgres::connect(&url, tokio_postgres::NoTls)
        .await
        .expect("the server that PROWESS_TEST_POSTGRES names does not answer");
    let connected = tokio::spawn(connection);
    let made = format!("DROP SCHEMA IF EXISTS {schema} CASCADE; CREATE SCHEMA {schema}");
    client.batch_execute(&made).await.unwrap();
    drop(client);
    connected.await.unwrap().unwrap();
    format!("{url}&options=-c%20search_path%3D{schema}")
}

/// A store in a new schema.
pub(crate) async fn postgres() -> PostgresStore {
    PostgresStore::connect(&postgres_url().await).await.unwrap()
}

pub(crate) fn said(text: impl Into<String>) -> Event {
    Event::TurnStarted { messages: vec![Message::user(text)] }
}

/// Creates a thread with this many events.
pub(crate) async fn thread_of(store: &dyn ThreadStore, events: usize) -> Lease {
    let lease = store.lease(&ThreadId::new(), "one", LONG).await.unwrap();
    let events: Vec<Event> = (1..=events).map(|number| said(number.to_string())).collect();
    store.append(&lease, 0, &events).await.unwrap();
    lease
}

/// The texts of a thread.
pub(crate) async fn texts(store: &dyn ThreadStore, thread: &ThreadId) -> Vec<String> {
    let events = store.events(thread, 0, usize::MAX).await.unwrap();
    let text = |event| match event {
        Event::TurnStarted { messages } => messages.iter().map(Message::text).collect(),
        other => format!("{other:?}"),
    };
    events.into_iter().map(|stored| text(stored.event)).collect()
}

/// The command that runs one test of this binary in its own process. `wrapper` starts it.
pub(crate) fn again(wrapper: &[&str], test: &str) -> Command {
    let program = std::env::current_exe().unwrap();
    let mut words = wrapper.iter().map(std::ffi::OsString::from).chain([program.into_os_string()]);
    let mut command = Command::new(words.next().unwrap());
    command.args(words).args(["--exact", test, "--nocapture", "--test-threads=1"]);
    command
}
