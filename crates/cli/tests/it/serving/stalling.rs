//! A database that makes a worker wait.

use std::time::{Duration, Instant};

use serde_json::json;
use tokio_postgres::{Client as Connection, NoTls};

use super::conversing::settled;
use super::{PATIENCE, Server, postgres};
use crate::chat::world;
use crate::model::{Answer, FakeModel};

/// Waits until a query returns at least one row.
async fn until(connection: &Connection, query: &str) {
    let begun = Instant::now();
    while connection.query(query, &[]).await.unwrap().is_empty() {
        assert!(begun.elapsed() < PATIENCE, "nothing waits: {query}");
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_message_whose_turn_could_not_begin_before_its_user_was_disabled_waits() {
    let (schema, url) = tokio::task::block_in_place(|| postgres::schema("stalling"));
    let model = FakeModel::start(vec![Answer::text("Here you are.")]);
    let mut world = world(&model);
    world.variable("PROWESS_DATABASE", &url);
    let server = Server::start(&world);
    let bob = server.new_user("bob");
    let thread = bob.thread();

    let (mut holder, holding) = tokio_postgres::connect(&postgres::server_url(), NoTls).await.unwrap();
    let (watcher, watching) = tokio_postgres::connect(&postgres::server_url(), NoTls).await.unwrap();
    let connected = [tokio::spawn(holding), tokio::spawn(watching)];
    let held = holder.transaction().await.unwrap();
    let events = format!("{schema}.prowess_events");
    held.batch_execute(&format!("LOCK TABLE {events} IN SHARE MODE")).await.unwrap();
    bob.post(&format!("/threads/{thread}/turns"), json!({"text": "Begin."}), 202);
    let appends = format!("SELECT pid FROM pg_locks WHERE NOT granted AND relation = '{events}'::regclass");
    until(&watcher, &appends).await;
    world.stdout(&["serve", "user", "disable", "bob"]);
    // The worker looks at its user, gives the turn up, and waits until the store is done with its beginning, which fails.
    let (mut other, others) = tokio_postgres::connect(&postgres::server_url(), NoTls).await.unwrap();
    let others = tokio::spawn(others);
    let users = format!("{schema}.prowess_users");
    let looks = format!("SELECT pid FROM pg_locks WHERE NOT granted AND relation = '{users}'::regclass");
    let kept = other.transaction().await.unwrap();
    kept.batch_execute(&format!("LOCK TABLE {users} IN ACCESS EXCLUSIVE MODE")).await.unwrap();
    until(&watcher, &looks).await;
    kept.rollback().await.unwrap();
    until(&watcher, &format!("SELECT 1 WHERE NOT EXISTS ({looks})")).await;
    watcher.query(&format!("SELECT pg_cancel_backend(pid) FROM ({appends}) AS waiting"), &[]).await.unwrap();
    held.rollback().await.unwrap();
    drop((holder, watcher, other));
    for connection in connected.into_iter().chain([others]) {
        connection.await.unwrap().unwrap();
    }

    // Its message waits, and is answered as soon as its user may go on.
    world.stdout(&["serve", "user", "enable", "bob"]);
    let bob = server.client("bob");
    bob.events(&thread, Some(0)).until("turn_ended");
    let whole = settled(&bob, &thread);
    let said: Vec<_> = whole["messages"].as_array().unwrap().iter().map(|message| &message["text"]).collect();
    assert_eq!(said, ["Begin.", "Here you are."]);
    drop(server);
    tokio::task::block_in_place(|| postgres::execute(&format!("DROP SCHEMA {schema} CASCADE")));
}
