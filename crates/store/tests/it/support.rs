//! Helpers for several tests.

use std::process::Command;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use prowess_agent::thread::Lease;
use prowess_agent::{Event, Message, ThreadId, ThreadStore};
use prowess_store::{Database, PostgresStore};
use tokio_postgres::{Client, NoTls};

/// Longer than any test takes.
pub(crate) const LONG: Duration = Duration::from_secs(600);

/// A variable that `scripts/test-postgres.sh start` printed.
pub(crate) fn variable(name: &str) -> String {
    std::env::var(name).unwrap_or_else(|_| {
        panic!("{name} is not set: run `make unit`, or `eval \"$(scripts/test-postgres.sh start)\"` before the tests")
    })
}

/// The pooler between the store and PostgreSQL, if the tests use one: `scripts/test-pgbouncer.sh start` printed it.
fn pooler() -> Option<String> {
    std::env::var("PROWESS_TEST_PGBOUNCER").ok()
}

/// The address of a new schema in the PostgreSQL of the tests. With a pooler, it is the pooler's address.
pub(crate) async fn postgres_url() -> String {
    static COUNT: AtomicUsize = AtomicUsize::new(0);
    let url = variable("PROWESS_TEST_POSTGRES");
    let schema = format!("test_{}_{}", std::process::id(), COUNT.fetch_add(1, Ordering::Relaxed));
    let (client, connection) = tokio_postgres::connect(&url, NoTls)
        .await
        .expect("the server that PROWESS_TEST_POSTGRES names does not answer");
    let connected = tokio::spawn(connection);
    let made = format!("DROP SCHEMA IF EXISTS {schema} CASCADE; CREATE SCHEMA {schema}");
    client.batch_execute(&made).await.unwrap();
    // A pooler takes no `options`, so the schema is a setting of a role.
    let pooled = pooler().map(|pooler| of_role(&pooler, &format!("through_{schema}")));
    if pooled.is_some() {
        let role = format!(
            "DROP ROLE IF EXISTS through_{schema}; CREATE ROLE through_{schema} LOGIN SUPERUSER;
            ALTER ROLE through_{schema} SET search_path = {schema}"
        );
        client.batch_execute(&role).await.unwrap();
    }
    drop(client);
    connected.await.unwrap().unwrap();
    pooled.unwrap_or_else(|| format!("{url}&options=-c%20search_path%3D{schema}"))
}

/// The same address for another role.
fn of_role(url: &str, role: &str) -> String {
    let (_, rest) = url.split_once('@').unwrap();
    format!("postgres://{role}@{rest}")
}

/// The same address without the pooler, if there is one. The name of the role ends in that of the schema.
pub(crate) fn direct(url: &str) -> String {
    let Some(pooler) = pooler() else { return url.to_owned() };
    let (_, at_pooler) = pooler.split_once('@').unwrap();
    let Some((role, more)) = url.strip_prefix("postgres://").and_then(|url| url.split_once('@')) else {
        return url.to_owned();
    };
    let Some(more) = more.strip_prefix(at_pooler) else { return url.to_owned() };
    let (_, schema) = role.split_once('_').unwrap();
    let server = of_role(&variable("PROWESS_TEST_POSTGRES"), role);
    format!("{server}{more}&options=-c%20search_path%3D{schema}")
}

/// A store in a new schema.
pub(crate) async fn postgres() -> PostgresStore {
    PostgresStore::connect(&postgres_url().await).await.unwrap()
}

/// The address of a new schema for a role that may serve users, and that does not own the tables. Neither role is a superuser.
pub(crate) async fn runtime_url() -> String {
    let url = postgres_url().await;
    let super_user = client(&url).await;
    let schema: String = super_user.query_one("SELECT current_schema()", &[]).await.unwrap().get(0);
    let [owner, runtime] = [format!("owner_{schema}"), format!("runtime_{schema}")];
    let made = format!(
        "DROP ROLE IF EXISTS {owner}, {runtime}; CREATE ROLE {owner} LOGIN; CREATE ROLE {runtime} LOGIN;
        ALTER SCHEMA {schema} OWNER TO {owner};
        ALTER ROLE {owner} SET search_path = {schema}; ALTER ROLE {runtime} SET search_path = {schema}"
    );
    super_user.batch_execute(&made).await.unwrap();
    let url_of = |role: &str| of_role(&url, role);
    drop(PostgresStore::connect(&url_of(&owner)).await.unwrap());
    let granted = format!("SELECT prowess_serve_grant('{runtime}')");
    client(&url_of(&owner)).await.batch_execute(&granted).await.unwrap();
    url_of(&runtime)
}

/// The address of the superuser in the same schema.
pub(crate) fn super_url(url: &str) -> String {
    of_role(&direct(url), "prowess")
}

/// The names of a new SQLite file and of two new PostgreSQL schemas. The second one is for a role that does not own the tables.
pub(crate) async fn places(place: &tempfile::TempDir) -> [String; 3] {
    [place.path().join("a.db").display().to_string(), postgres_url().await, runtime_url().await]
}

/// A new SQLite file and two new PostgreSQL schemas; see [`places`].
pub(crate) async fn databases(place: &tempfile::TempDir) -> Vec<Database> {
    let mut databases = Vec::new();
    for at in places(place).await {
        databases.push(Database::open(&at).await.unwrap());
    }
    databases
}

/// Runs SQL beside the store.
pub(crate) async fn execute(at: &str, statement: &str) {
    if at.starts_with("postgres:") {
        client(&super_url(at)).await.batch_execute(statement).await.unwrap();
    } else {
        rusqlite::Connection::open(at).unwrap().execute_batch(statement).unwrap();
    }
}

/// A connection of its own to PostgreSQL itself, for SQL that no store runs.
pub(crate) async fn client(url: &str) -> Client {
    let (client, connection) = tokio_postgres::connect(&direct(url), NoTls).await.unwrap();
    tokio::spawn(connection);
    client
}

/// Waits until a process of the server waits for a lock, and returns its id. It has the application name of `client`.
pub(crate) async fn waiting(client: &Client) -> i32 {
    let waits = "SELECT pid FROM pg_locks WHERE NOT granted AND pid IN (
            SELECT pid FROM pg_stat_activity WHERE application_name = current_setting('application_name')
        ) AND pid <> pg_backend_pid() LIMIT 1";
    for _ in 0..2000 {
        if let Some(row) = client.query_opt(waits, &[]).await.unwrap() {
            return row.get(0);
        }
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
    panic!("nobody waits");
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
