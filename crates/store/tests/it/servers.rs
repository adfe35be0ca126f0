//! What is PostgreSQL's own.

use std::time::Duration;

use prowess_agent::ThreadStore;
use prowess_store::{DatabaseError, PostgresStore};
use tokio_postgres::{Client, NoTls};

use crate::support::{postgres_url, said, thread_of};

async fn client(url: &str) -> Client {
    let (client, connection) = tokio_postgres::connect(url, NoTls).await.unwrap();
    tokio::spawn(connection);
    client
}

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
    client(&url).await.batch_execute("UPDATE prowess_schema SET version = 99").await.unwrap();
    let refused = PostgresStore::connect(&url).await.unwrap_err();
    assert!(matches!(refused, DatabaseError::Newer { found: 99, known: 1, .. }), "{refused:?}");
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
async fn a_lost_connection_is_told_and_made_anew() {
    let url = postgres_url().await + "&application_name=to-be-cut";
    let store = PostgresStore::connect(&url).await.unwrap();
    let lease = thread_of(&store, 2).await;
    let cut = "SELECT pg_terminate_backend(pid) FROM pg_stat_activity \
        WHERE application_name = 'to-be-cut' AND pid <> pg_backend_pid()";
    assert!(!client(&url).await.query(cut, &[]).await.unwrap().is_empty());
    // They end a little later; whoever is on one of them then is told.
    for _ in 0..50 {
        match store.events(&lease.thread, 0, 9).await {
            Ok(events) => assert_eq!(events.len(), 2),
            Err(error) => {
                let cause = DatabaseError::of(&error);
                assert!(matches!(cause, Some(DatabaseError::Unreachable { .. })), "{error:?}");
            }
        }
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
    store.append(&lease, 2, &[said("as if nothing had been")]).await.unwrap();
    assert_eq!(store.events(&lease.thread, 0, 9).await.unwrap().len(), 3);
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

    /// In a process of its own, which trusts the server's certificate.
    #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
    async fn talks_in_secret() {
        if std::env::var_os(TRUSTS).is_none() {
            return;
        }
        // To the schema of everybody, where no other test is.
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
