//! Tests of what a server keeps. Each test runs on both databases.

mod accounts;
mod audit;
mod identities;
mod own_skills;
mod owned_threads;
mod turns;
mod wall;

use prowess_agent::ThreadId;
use prowess_store::Database;
use prowess_store::serve::{OwnedThread, Summary, User};

/// Two users: one who has threads, and one who must see nothing of them.
async fn two_users(database: &Database) -> [User; 2] {
    let accounts = database.accounts();
    [accounts.add_user("anna", false).await.unwrap(), accounts.add_user("ben", false).await.unwrap()]
}

/// A new thread of a user.
async fn thread(database: &Database, owner: &User, title: &str) -> OwnedThread {
    database.owned_threads().create(&owner.id, &ThreadId::new(), "default", title).await.unwrap()
}

fn summary(text: &str, events: u64) -> Summary {
    Summary { text: text.to_owned(), events, ..Summary::default() }
}
