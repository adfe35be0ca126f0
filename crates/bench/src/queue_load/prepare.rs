//! Users, and many threads with a log of a few turns.
//!
//! The first thread is made by the server itself. The others are copies of its rows: a row of a log has nothing of the thread's name in it.

use std::net::SocketAddr;

use anyhow::{Context as _, Result, ensure};
use prowess_agent::ThreadId;
use prowess_serve::AccessSecret;
use prowess_store::Database;
use prowess_store::serve::{NewToken, Scopes, TokenKind};
use serde_json::json;
use tokio::time::{Duration, Instant, sleep};

use super::agents::text;
use super::observe::Observer;
use super::servers::Client;

/// How many threads one statement copies.
const AT_ONCE: usize = 1_000;
/// How long a turn may take.
const PATIENCE: Duration = Duration::from_secs(30);

/// A user with a token.
#[derive(Clone, Debug)]
pub(super) struct Person {
    pub(super) id: String,
    pub(super) token: String,
}

/// Who has which threads. The first user has more than the others.
#[derive(Debug)]
pub(super) struct Population {
    pub(super) people: Vec<Person>,
    pub(super) threads: Vec<(ThreadId, usize)>,
    /// How many of the first threads belong to the first user.
    pub(super) of_first: usize,
}

/// Adds users.
pub(super) async fn people(database: &Database, count: usize) -> Result<Vec<Person>> {
    let accounts = database.accounts();
    let mut people = Vec::with_capacity(count);
    for number in 0..count {
        let user = accounts.add_user(&format!("user-{number}"), false).await?;
        let secret = AccessSecret::random()?;
        let token = NewToken {
            kind: TokenKind::Token,
            name: "simulation".to_owned(),
            scopes: Scopes::all(),
            digest: secret.digest(),
            expires: None,
        };
        accounts.add_token(&user.id, token).await?;
        people.push(Person { id: user.id, token: secret.expose().to_owned() });
    }
    Ok(people)
}

/// Makes a thread with so many turns, through the server.
pub(super) async fn first_thread(
    database: &Database,
    web: SocketAddr,
    person: &Person,
    turns: usize,
    bytes: usize,
) -> Result<ThreadId> {
    let mut client = Client::connect(web).await?;
    let (threads, queue) = (database.owned_threads(), database.queue());
    let id = threads.create(&person.id, &ThreadId::new(), "simulated", "").await?.id;
    for _ in 0..turns {
        let body = json!({"text": text(bytes), "mode": "queue"}).to_string();
        client.post(&format!("/api/v1/threads/{id}/turns"), &person.token, &body).await?;
        let begun = Instant::now();
        while queue.state(&id).await? != prowess_agent::queue::QueueState::Rests {
            ensure!(begun.elapsed() < PATIENCE, "the first thread does not come to rest");
            sleep(Duration::from_millis(20)).await;
        }
    }
    Ok(id)
}

/// Copies the thread for all users: `of_first` times for the first one, and in turn for the others.
pub(super) async fn copies(
    observer: &Observer,
    template: &ThreadId,
    people: Vec<Person>,
    count: usize,
    of_first: usize,
) -> Result<Population> {
    const COPY: [&str; 4] = [
        "INSERT INTO prowess_owned_threads (thread, owner, agent, title, created, changed, events, waiting, questions, \
            tokens, cost, found_title, found_text) \
         SELECT new.id, new.owner, agent, title, created, changed, events, waiting, questions, tokens, cost, found_title, \
            found_text FROM unnest($2::TEXT[], $3::TEXT[]) AS new(id, owner) CROSS JOIN prowess_owned_threads WHERE thread = $1",
        "INSERT INTO prowess_threads (id, created, changed, events, epoch, owner, until, counted, answered) \
         SELECT new.id, created, changed, events, epoch, NULL, 0, counted, answered \
         FROM unnest($2::TEXT[], $3::TEXT[]) AS new(id, owner) CROSS JOIN prowess_threads WHERE prowess_threads.id = $1",
        "INSERT INTO prowess_events (thread, number, stored, version, checksum, body) \
         SELECT new.id, number, stored, version, checksum, body \
         FROM unnest($2::TEXT[], $3::TEXT[]) AS new(id, owner) CROSS JOIN prowess_events WHERE thread = $1",
        "INSERT INTO prowess_inbox (thread, number, name, checksum, body) \
         SELECT new.id, number, name, checksum, body \
         FROM unnest($2::TEXT[], $3::TEXT[]) AS new(id, owner) CROSS JOIN prowess_inbox WHERE thread = $1",
    ];
    let others =
        people.len().checked_sub(1).filter(|others| *others > 0).context("there are too few users")?;
    let owner = |number: usize| if number < of_first { 0 } else { 1 + number % others };
    let threads: Vec<_> = (0..count).map(|number| (ThreadId::new(), owner(number))).collect();
    for some in threads.chunks(AT_ONCE) {
        let ids: Vec<&str> = some.iter().map(|(id, _)| id.as_str()).collect();
        let owners: Vec<&str> = some.iter().map(|(_, owner)| people[*owner].id.as_str()).collect();
        for statement in COPY {
            let copied = observer.client.execute(statement, &[&template.as_str(), &ids, &owners]).await?;
            ensure!(copied > 0, "nothing was copied");
        }
    }
    // As in a database that has been there for a while.
    observer.client.batch_execute("VACUUM (ANALYZE)").await?;
    observer.client.batch_execute("CHECKPOINT").await?;
    Ok(Population { people, threads, of_first })
}
