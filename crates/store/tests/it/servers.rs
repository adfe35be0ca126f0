//! Tests of PostgreSQL only.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use prowess_agent::testing::turn_queue_suite;
use prowess_agent::thread::ThreadError;
use prowess_agent::{ThreadId, ThreadStore};
use prowess_store::signals::{Audience, Heard, Signals};
use prowess_store::{Database, DatabaseError, PostgresStore};
use tokio::io::{AsyncRead, AsyncReadExt as _, AsyncWrite, AsyncWriteExt as _};
use tokio::net::{TcpListener, UnixStream};

use crate::queue::version_9;
use crate::support::{client, direct as direct_url, postgres_url, said, thread_of, waiting};

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn many_make_the_tables_at_once() {
    let url = postgres_url().await;
    let opening: Vec<_> = (0..8)
        .map(|_| {
            let url = url.clone();
            tokio::spawn(async move {
                thread_of(&PostgresStore::connect(&url).await.unwrap(), 2).await;
            })
        })
        .collect();
    for opened in opening {
        opened.await.unwrap();
    }
    assert_eq!(PostgresStore::connect(&url).await.unwrap().list(99).await.unwrap().len(), 8);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_newer_one_is_refused() {
    let url = postgres_url().await;
    drop(PostgresStore::connect(&url).await.unwrap());
    let direct = client(&url).await;
    direct.batch_execute("UPDATE prowess_schema SET version = 99").await.unwrap();
    // What a newer prowess added does no harm to this one, unless it says so.
    let older = Database::open(&url).await.unwrap();
    older.check_tables().await.unwrap();
    direct.batch_execute("UPDATE prowess_schema SET works_with = 99").await.unwrap();
    assert!(matches!(older.check_tables().await, Err(DatabaseError::Newer { found: 99, .. })));
    let refused = PostgresStore::connect(&url).await.unwrap_err();
    assert!(matches!(refused, DatabaseError::Newer { found: 99, known: 14, .. }), "{refused:?}");
    assert!(refused.to_string().contains("use a newer prowess"), "{refused}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_server_that_is_told_to_answer_early_flushes_all_the_same() {
    let url = postgres_url().await;
    let url = url.replace("options=", "options=-c%20synchronous_commit%3Doff%20");
    let own = client(&url).await.query_one("SHOW synchronous_commit", &[]).await.unwrap();
    assert_eq!(own.get::<_, String>(0), "off");
    let store = PostgresStore::connect(&url).await.unwrap();
    let watch = "CREATE TABLE seen (setting TEXT);
        CREATE FUNCTION note() RETURNS TRIGGER LANGUAGE plpgsql AS $$ BEGIN
            INSERT INTO seen VALUES (current_setting('synchronous_commit')); RETURN NULL;
        END $$;
        CREATE TRIGGER note AFTER INSERT ON prowess_events EXECUTE FUNCTION note();";
    let client = client(&url).await;
    client.batch_execute(watch).await.unwrap();
    thread_of(&store, 1).await;
    let seen = client.query_one("SELECT setting FROM seen", &[]).await.unwrap();
    assert_eq!(seen.get::<_, String>(0), "on");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_server_with_another_isolation_level_keeps_ours() {
    let url = postgres_url().await;
    let url = url.replace("options=", "options=-c%20default_transaction_isolation%3Dserializable%20");
    let own = client(&url).await.query_one("SHOW transaction_isolation", &[]).await.unwrap();
    assert_eq!(own.get::<_, String>(0), "serializable");
    let database = Database::open(&url).await.unwrap();
    turn_queue_suite(database.queue(), database.threads()).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_tables_do_not_change_under_an_older_server() {
    let url = postgres_url().await;
    drop(PostgresStore::connect(&url).await.unwrap());
    let older = client(&url).await;
    let lock = "UPDATE prowess_schema SET version = 9;
        SELECT pg_advisory_lock(1886547831, 'prowess_schema'::regclass::oid::int4)";
    older.batch_execute(lock).await.unwrap();
    let refused = PostgresStore::connect(&url).await.unwrap_err();
    assert!(matches!(refused, DatabaseError::Served { .. }), "{refused:?}");
    assert!(refused.to_string().contains("pg_stat_activity"), "{refused}");
}

/// A server of an older version that starts during a migration does not get its lock, so it does not use tables that change.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn no_older_server_starts_while_the_tables_change() {
    let url = postgres_url().await + "&application_name=to-be-migrated";
    let older = client(&url).await;
    let tables = version_9("postgres")
        + "CREATE TABLE prowess_schema (version BIGINT NOT NULL); INSERT INTO prowess_schema VALUES (9)";
    older.batch_execute(&tables).await.unwrap();
    older.batch_execute("BEGIN; LOCK TABLE prowess_queue").await.unwrap();
    let at = url.clone();
    let migrating = tokio::spawn(async move { PostgresStore::connect(&at).await.map(drop) });
    waiting(&older).await;
    let lock = "SELECT pg_try_advisory_lock(1886547831, 'prowess_schema'::regclass::oid::int4)";
    let is_locked: bool = client(&url).await.query_one(lock, &[]).await.unwrap().get(0);
    assert!(!is_locked);
    older.batch_execute("ROLLBACK").await.unwrap();
    migrating.await.unwrap().unwrap();
}

/// Channels belong to a database. A connection to another one answers, and hears nothing.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_listener_at_another_database_does_not_hear() {
    let url = postgres_url().await;
    let direct = client(&url).await;
    let schema: String = direct.query_one("SELECT current_schema()", &[]).await.unwrap().get(0);
    let other = format!("other_{schema}");
    let made = format!("DROP DATABASE IF EXISTS {other}");
    direct.batch_execute(&made).await.unwrap();
    direct.batch_execute(&format!("CREATE DATABASE {other}")).await.unwrap();
    let database = Database::open(&url).await.unwrap();
    let listen = direct_url(&url);
    let elsewhere = listen.replacen("/prowess?", &format!("/{other}?"), 1);
    assert_ne!(elsewhere, listen);
    let wrong = Signals::of(&database, Some(&elsewhere), &[Audience::Workers]).await.unwrap();
    let right = Signals::of(&database, Some(&listen), &[Audience::Workers]).await.unwrap();
    // The first thing that a listener hears is that it may have missed something: its own test arrived.
    assert_eq!(right.hear().await, Heard::Missed);
    right.send(Audience::Workers, "one".to_owned());
    assert_eq!(right.hear().await, Heard::Signal("one".to_owned()));
    assert!(right.are_heard() && !wrong.are_heard());
    drop(wrong);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_lost_connection_is_told_and_made_anew() {
    let url = postgres_url().await + "&application_name=to-be-cut";
    let store = PostgresStore::connect(&url).await.unwrap();
    let lease = thread_of(&store, 2).await;
    let other = client(&url).await;
    other.batch_execute("BEGIN; SELECT * FROM prowess_threads FOR UPDATE").await.unwrap();
    let (writer, by) = (store.clone(), lease.clone());
    let under_way = tokio::spawn(async move { writer.append(&by, 2, &[said("cut")]).await });
    let pid = waiting(&other).await;
    other.query_one("SELECT pg_terminate_backend($1)", &[&pid]).await.unwrap();
    let error = under_way.await.unwrap().unwrap_err();
    let cause = DatabaseError::of(&error);
    assert!(matches!(cause, Some(DatabaseError::Unreachable { .. })), "{error:?}");
    other.batch_execute("ROLLBACK").await.unwrap();
    store.append(&lease, 2, &[said("as if nothing had been")]).await.unwrap();
    assert_eq!(store.events(&lease.thread, 0, 9).await.unwrap().len(), 3);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn nobody_waits_for_others_without_end() {
    let url = postgres_url().await;
    let store = PostgresStore::connect(&url).await.unwrap();
    let lease = thread_of(&store, 1).await;
    let other = client(&url).await;
    other.batch_execute("BEGIN; SELECT * FROM prowess_threads FOR UPDATE").await.unwrap();
    let error = store.append(&lease, 1, &[said("kept waiting")]).await.unwrap_err();
    let cause = DatabaseError::of(&error);
    assert!(matches!(cause, Some(DatabaseError::Busy { seconds: 10, .. })), "{error:?}");
    other.batch_execute("ROLLBACK").await.unwrap();
    store.append(&lease, 1, &[said("its turn")]).await.unwrap();
}

/// A relay to the server that can drop all data, like a network that lost its other side.
async fn relay_to(url: &str, is_lost: Arc<AtomicBool>) -> String {
    let (_, query) = url.split_once('?').unwrap();
    let value = |name: &str| query.split('&').find_map(|pair| pair.strip_prefix(name)).unwrap().to_owned();
    let (host, port, options) = (value("host="), value("port="), value("options="));
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let at = listener.local_addr().unwrap();
    tokio::spawn(async move {
        while let Ok((client, _)) = listener.accept().await {
            let server = UnixStream::connect(format!("{host}/.s.PGSQL.{port}")).await.unwrap();
            let (from_client, to_client) = client.into_split();
            let (from_server, to_server) = server.into_split();
            tokio::spawn(pour(from_client, to_server, Arc::clone(&is_lost)));
            tokio::spawn(pour(from_server, to_client, Arc::clone(&is_lost)));
        }
    });
    format!("postgres://prowess@{at}/prowess?sslmode=disable&options={options}")
}

async fn pour(
    mut from: impl AsyncRead + Unpin,
    mut to: impl AsyncWrite + Unpin,
    is_lost: Arc<AtomicBool>,
) -> std::io::Result<()> {
    let mut bytes = [0; 8192];
    loop {
        let count = from.read(&mut bytes).await?;
        if count == 0 {
            return Ok(());
        }
        if !is_lost.load(Ordering::Relaxed) {
            to.write_all(&bytes[..count]).await?;
        }
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_server_that_went_away_without_a_word_is_not_waited_for() {
    let is_lost = Arc::new(AtomicBool::new(false));
    let url = relay_to(&postgres_url().await, Arc::clone(&is_lost)).await;
    let store = PostgresStore::connect(&url).await.unwrap();
    let lease = thread_of(&store, 2).await;
    is_lost.store(true, Ordering::Relaxed);
    let reading = tokio::time::timeout(Duration::from_secs(60), store.events(&lease.thread, 0, 9));
    let error = reading.await.expect("it is waited for without end").unwrap_err();
    let cause = DatabaseError::of(&error);
    assert!(matches!(cause, Some(DatabaseError::Unreachable { .. })), "{error:?}");
    is_lost.store(false, Ordering::Relaxed);
    assert_eq!(store.events(&lease.thread, 0, 9).await.unwrap().len(), 2);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_fork_of_what_is_deleted_meanwhile_is_of_nothing() {
    let url = postgres_url().await + "&application_name=to-be-forked";
    let store = PostgresStore::connect(&url).await.unwrap();
    let lease = thread_of(&store, 3).await;
    store.release(&lease).await.unwrap();
    let other = client(&url).await;
    // The fork waits between its two statements.
    let wait = "CREATE FUNCTION wait() RETURNS TRIGGER LANGUAGE plpgsql AS $$ BEGIN
            PERFORM pg_advisory_xact_lock(815); RETURN NULL;
        END $$;
        CREATE TRIGGER wait AFTER INSERT ON prowess_threads EXECUTE FUNCTION wait();
        SELECT pg_advisory_lock(815);";
    other.batch_execute(wait).await.unwrap();
    let (forking, from) = (store.clone(), lease.thread.clone());
    let forked = tokio::spawn(async move { forking.fork(&from, 3, &ThreadId::new()).await });
    waiting(&other).await;
    store.delete(&lease.thread).await.unwrap();
    other.batch_execute("SELECT pg_advisory_unlock(815)").await.unwrap();
    let refused = forked.await.unwrap();
    assert!(matches!(refused, Err(ThreadError::NotFound(_))), "{refused:?}");
    assert_eq!(store.list(9).await.unwrap(), []);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_a_disk_did_not_keep_is_seen() {
    let url = postgres_url().await;
    let store = PostgresStore::connect(&url).await.unwrap();
    let lease = thread_of(&store, 3).await;
    let client = client(&url).await;
    let spoil = "UPDATE prowess_events SET body = set_byte(body, 40, 33) WHERE number = 2";
    client.batch_execute(spoil).await.unwrap();
    let error = store.events(&lease.thread, 0, 9).await.unwrap_err();
    assert!(error.to_string().contains("event 2"), "{error}");
    client.batch_execute("DELETE FROM prowess_events WHERE number = 3").await.unwrap();
    let error = store.events(&lease.thread, 2, 9).await.unwrap_err();
    assert!(error.to_string().contains("event 3") && error.to_string().contains("missing"), "{error}");
}

#[cfg(feature = "postgres-tls")]
mod tls {
    use prowess_store::{DatabaseError, PostgresStore};

    use crate::support::{again, thread_of, variable};

    const TRUSTS: &str = "PROWESS_TEST_TLS_TRUSTS";

    /// Runs in its own process, which trusts the certificate of the server.
    #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
    async fn talks_in_secret() {
        if std::env::var_os(TRUSTS).is_none() {
            return;
        }
        // Uses the public schema, where no other test is.
        let store = PostgresStore::connect(&variable("PROWESS_TEST_POSTGRES_TLS")).await.unwrap();
        thread_of(&store, 3).await;
        println!("\nit talked in secret");
    }

    #[test]
    fn a_server_that_is_trusted_is_talked_to_in_secret() {
        let mut command = again(&[], "servers::tls::talks_in_secret");
        command.env(TRUSTS, "yes").env("SSL_CERT_FILE", variable("PROWESS_TEST_POSTGRES_CERTIFICATE"));
        let ran = command.output().unwrap();
        let out = String::from_utf8_lossy(&ran.stdout).into_owned() + &String::from_utf8_lossy(&ran.stderr);
        assert!(ran.status.success() && out.contains("it talked in secret"), "{out}");
    }

    #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
    async fn a_server_that_is_not_trusted_is_told_nothing() {
        let refused = PostgresStore::connect(&variable("PROWESS_TEST_POSTGRES_TLS")).await.unwrap_err();
        assert!(matches!(refused, DatabaseError::Unreachable { .. }), "{refused:?}");
        assert!(refused.to_string().contains("certificate"), "{refused}");
    }
}
