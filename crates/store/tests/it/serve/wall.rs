//! Tests of the second wall: in PostgreSQL, row-level security keeps users apart even if a statement names no owner.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use prowess_agent::queue::{ClaimLimits, Post};
use prowess_agent::testing::{thread_store_suite, turn_queue_suite};
use prowess_agent::thread::ThreadError;
use prowess_agent::{Message, ThreadId};
use prowess_store::serve::{
    AccountError, Identity, NewOwnSkill, NewToken, OwnSkillLimits, OwnedThreadError, Scopes, TokenKind,
    UsageSum, User,
};
use prowess_store::{Database, DatabaseError, PostgresStore, Retention};
use serde_json::json;
use tokio_postgres::error::SqlState;
use tokio_postgres::{Client, Error};

use super::{thread, two_users};
use crate::support::{LONG, client, postgres_url, runtime_url, said, super_url};

/// The tables that have something of a user.
const WALLED: [&str; 12] = [
    "prowess_audit",
    "prowess_events",
    "prowess_identities",
    "prowess_inbox",
    "prowess_own_skills",
    "prowess_owned_threads",
    "prowess_places",
    "prowess_queue",
    "prowess_threads",
    "prowess_tokens",
    "prowess_usage",
    "prowess_users",
];

/// Stores something of a user in every table.
async fn fill(database: &Database, user: &User, digest: u8) -> ThreadId {
    let own = thread(database, user, "Tides").await.id;
    let store = database.acting_for(&user.id).threads();
    let lease = store.lease(&own, "worker", LONG).await.unwrap();
    store.append(&lease, 0, &[said("a secret")]).await.unwrap();
    store.release(&lease).await.unwrap();
    let post = Post::say(Message::user("a secret"));
    let queue = database.acting_for(&user.id).queue();
    // The thread had its turn once, so the user has a place.
    queue.wake(&own).await.unwrap();
    let mut others = Vec::new();
    loop {
        let claim = database.queue().claim("worker", LONG, ClaimLimits::default()).await.unwrap().unwrap();
        if claim.thread() == &own {
            queue.finish(&claim, 1).await.unwrap();
            break;
        }
        others.push(claim);
    }
    for claim in &others {
        database.queue().give_back(claim, Duration::ZERO).await.unwrap();
    }
    queue.post(&own, &post).await.unwrap();
    let token = NewToken {
        kind: TokenKind::Token,
        name: "laptop".to_owned(),
        scopes: Scopes::all(),
        digest: [digest; 32],
        expires: None,
    };
    database.accounts().add_token(&user.id, token.clone()).await.unwrap();
    // A token that is used up when it links somebody.
    let link = NewToken { kind: TokenKind::Identity, digest: [digest + 100; 32], ..token };
    database.accounts().add_token(&user.id, link).await.unwrap();
    let subject = digest.to_string();
    let identity = Identity { issuer: "https://login.example.com", subject: &subject };
    assert!(database.accounts().link(&[digest + 100; 32], identity).await.unwrap().is_some());
    let skill = NewOwnSkill {
        digest: [digest; 32],
        name: "tides".to_owned(),
        description: "a secret".to_owned(),
        files: 1,
        bytes: 1,
    };
    database.own_skills().add(&user.id, &skill, OwnSkillLimits { skills: 1, bytes: 1 }).await.unwrap();
    database
        .owned_threads()
        .note_usage(&user.id, None, UsageSum { tokens: 10, micro_dollars: 10 })
        .await
        .unwrap();
    database.audit().note(&user.id, "approved", Some(&own), &json!({})).await.unwrap();
    own
}

/// How many rows of each table a statement without conditions finds.
async fn seen(client: &Client) -> Vec<(&'static str, i64)> {
    let mut seen = Vec::new();
    for table in WALLED {
        // Nobody lists the audit log without its function.
        if table == "prowess_audit" {
            assert!(client.query("SELECT * FROM prowess_audit", &[]).await.is_err());
            continue;
        }
        let count = client.query_one(&format!("SELECT COUNT(*) FROM {table}"), &[]).await.unwrap();
        seen.push((table, count.get(0)));
    }
    seen
}

/// Whether PostgreSQL refused it for lack of a right, or because of a policy.
fn is_denied(error: &Error) -> bool {
    error.code() == Some(&SqlState::INSUFFICIENT_PRIVILEGE)
}

async fn set_user(client: &Client, user: &str) {
    client.execute("SELECT set_config('prowess.user', $1, false)", &[&user]).await.unwrap();
}

/// Two users with something in every table, seen by the role that serves.
async fn filled() -> (String, Database, [User; 2], [ThreadId; 2]) {
    let url = runtime_url().await;
    let database = Database::open(&url).await.unwrap();
    assert!(database.separates_users());
    let [anna, ben] = two_users(&database).await;
    let threads = [fill(&database, &anna, 1).await, fill(&database, &ben, 2).await];
    (url, database, [anna, ben], threads)
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn case_136_a_statement_without_conditions_finds_nothing_of_others() {
    let (url, _database, [anna, ben], [hers, _]) = filled().await;
    let direct = client(&url).await;
    assert!(seen(&direct).await.iter().all(|(_, rows)| *rows == 0), "nobody: {:?}", seen(&direct).await);
    for wrong in ["", "%", "nobody"] {
        set_user(&direct, wrong).await;
        assert!(seen(&direct).await.iter().all(|(_, rows)| *rows == 0), "{wrong}: {:?}", seen(&direct).await);
    }
    for user in [&anna, &ben] {
        set_user(&direct, &user.id).await;
        assert!(seen(&direct).await.iter().all(|(_, rows)| *rows == 1), "{:?}", seen(&direct).await);
        let owners = "SELECT owner FROM prowess_owned_threads UNION SELECT owner FROM prowess_tokens
            UNION SELECT owner FROM prowess_usage UNION SELECT owner FROM prowess_own_skills UNION SELECT id FROM prowess_users
            UNION SELECT belongs_to FROM prowess_threads UNION SELECT owner FROM prowess_identities
            UNION SELECT person FROM prowess_places";
        let owners = direct.query(owners, &[]).await.unwrap();
        let owners: Vec<String> = owners.iter().map(|row| row.get(0)).collect();
        assert_eq!(owners, std::slice::from_ref(&user.id));
    }
    // A thread that is restored from a dump still belongs to its user, and nobody can give one away.
    let threads = "INSERT INTO prowess_threads VALUES ($1, 0, 0, 0, 0, NULL, 0, $2)";
    let error = direct.execute(threads, &[&"forged", &anna.id]).await.unwrap_err();
    assert!(is_denied(&error), "{error:?}");
    // Ben cannot change what is Anna's, put something beside it, or give his own to her.
    for changes_nothing in [
        "UPDATE prowess_owned_threads SET title = '' WHERE thread = $1",
        "DELETE FROM prowess_owned_threads WHERE thread = $1",
        "DELETE FROM prowess_threads WHERE id = $1",
        "DELETE FROM prowess_events WHERE thread = $1",
        "DELETE FROM prowess_inbox WHERE thread = $1",
        "UPDATE prowess_queue SET owner = 'me' WHERE thread = $1",
    ] {
        assert_eq!(direct.execute(changes_nothing, &[&hers.as_str()]).await.unwrap(), 0, "{changes_nothing}");
    }
    for refused in [
        "UPDATE prowess_owned_threads SET owner = $1",
        "UPDATE prowess_tokens SET owner = $1",
        "UPDATE prowess_identities SET owner = $1",
        "INSERT INTO prowess_identities VALUES ('issuer', 'forged', 'id', $1, 0, NULL)",
        "UPDATE prowess_own_skills SET owner = $1",
        "INSERT INTO prowess_own_skills VALUES ($1, '', '', '', 0, 0, 0, NULL, NULL, 0)",
        "UPDATE prowess_threads SET belongs_to = $1",
        "INSERT INTO prowess_usage VALUES ($1, 7, 0, 0)",
        "INSERT INTO prowess_audit (noted, person, action, detail) VALUES (0, $1, '', '')",
    ] {
        let error = direct.execute(refused, &[&anna.id]).await.unwrap_err();
        assert!(is_denied(&error), "{refused}: {error:?}");
    }
    for refused in [
        "INSERT INTO prowess_inbox VALUES ($1, 9, '', 0, '')",
        "INSERT INTO prowess_events VALUES ($1, 9, 0, 0, 0, '')",
        "INSERT INTO prowess_queue VALUES ($1, 9, 0, NULL, 0)",
    ] {
        let error = direct.execute(refused, &[&hers.as_str()]).await.unwrap_err();
        assert!(is_denied(&error), "{refused}: {error:?}");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn somebody_who_signs_in_is_found_and_added_behind_the_wall() {
    let (_url, database, [anna, ben], _) = filled().await;
    let accounts = database.accounts();
    let person = |subject| Identity { issuer: "https://login.example.com", subject };
    assert_eq!(accounts.user_of(person("1")).await.unwrap(), Some(anna.clone()));
    accounts.note_sign_in(person("1")).await.unwrap();
    let own = accounts.identities(&anna.id).await.unwrap();
    assert!(own.len() == 1 && own[0].used.is_some(), "{own:?}");
    let carl = accounts.add_user_of(person("3"), "carl").await.unwrap();
    assert_eq!(accounts.user_of(person("3")).await.unwrap(), Some(carl));
    assert!(matches!(accounts.add_user_of(person("1"), "eve").await, Err(AccountError::IdentityTaken)));
    assert!(!accounts.remove_identity(&ben.id, &own[0].id).await.unwrap());
    assert!(accounts.remove_identity(&anna.id, &own[0].id).await.unwrap());
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_role_that_serves_changes_no_tables_and_no_users() {
    let (url, _database, [anna, _], _) = filled().await;
    let direct = client(&url).await;
    set_user(&direct, &anna.id).await;
    for refused in [
        "UPDATE prowess_users SET is_admin = 1",
        "ALTER TABLE prowess_threads DISABLE ROW LEVEL SECURITY",
        "DROP POLICY prowess_own ON prowess_threads",
        "UPDATE prowess_schema SET version = 0",
        "SELECT prowess_serve_grant(current_user)",
        "SELECT prowess_serve_grant_before_8(current_user)",
        "CREATE TABLE mine ()",
    ] {
        let error = direct.batch_execute(refused).await.unwrap_err();
        assert!(is_denied(&error), "{refused}: {error:?}");
    }
    // Without row-level security, a statement fails instead of seeing more.
    direct.batch_execute("SET row_security = off").await.unwrap();
    assert!(direct.query("SELECT * FROM prowess_threads", &[]).await.is_err());
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn every_table_and_every_function_is_on_a_list() {
    let url = runtime_url().await;
    let owner = client(&super_url(&url)).await;
    let names = async |statement: &str| -> BTreeSet<String> {
        owner.query(statement, &[]).await.unwrap().iter().map(|row| row.get(0)).collect()
    };
    let tables = "SELECT relname::TEXT FROM pg_class WHERE relnamespace = current_schema()::REGNAMESPACE
        AND relkind = 'r' AND relrowsecurity = ";
    assert_eq!(names(&format!("{tables} true")).await, BTreeSet::from(WALLED.map(str::to_owned)));
    // These have no owner. Approvals and artifacts are kept apart by their project and their scope.
    let open = [
        "prowess_approvals",
        "prowess_processes",
        "prowess_schema",
        "prowess_scoped_artifacts",
        "prowess_scoped_names",
    ];
    assert_eq!(names(&format!("{tables} false")).await, BTreeSet::from(open.map(str::to_owned)));

    let functions = "SELECT proname::TEXT FROM pg_proc
        WHERE pronamespace = current_schema()::REGNAMESPACE AND proname LIKE 'prowess%' AND ";
    let definers = [
        "prowess_add_user",
        "prowess_all_users",
        "prowess_claim",
        "prowess_claim_next",
        "prowess_disable_user",
        "prowess_forget_owner",
        "prowess_forget_posts",
        "prowess_identity_owner",
        "prowess_last_kept",
        "prowess_limit_user",
        "prowess_line",
        "prowess_list_audit",
        "prowess_list_queue",
        "prowess_lose_claims",
        "prowess_may_use",
        "prowess_own_thread",
        "prowess_prune",
        "prowess_queue_numbers",
        "prowess_remember_place",
        "prowess_thread_owner",
        "prowess_token_id_owner",
        "prowess_token_owner",
        "prowess_waiting_skills",
    ];
    let definers = BTreeSet::from(definers.map(str::to_owned));
    assert_eq!(names(&format!("{functions} prosecdef")).await, definers);
    let schema: String = owner.query_one("SELECT current_schema()", &[]).await.unwrap().get(0);
    let fixed = format!("{functions} prosecdef AND proconfig = '{{\"search_path={schema}, pg_temp\"}}'");
    assert_eq!(names(&fixed).await, definers);
    let public = names(&format!("{functions} has_function_privilege('public', oid, 'EXECUTE')")).await;
    assert_eq!(public, BTreeSet::from(["prowess_now".to_owned()]));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn no_table_of_a_session_stands_in_for_a_real_one() {
    let (url, database, [anna, _], [hers, _]) = filled().await;
    let direct = client(&url).await;
    let fakes = "CREATE TEMP TABLE prowess_owned_threads (thread TEXT, owner TEXT);
        CREATE TEMP TABLE prowess_queue (thread TEXT, owner BYTEA, until BIGINT, attempts BIGINT)";
    direct.batch_execute(fakes).await.unwrap();
    direct
        .execute("INSERT INTO pg_temp.prowess_owned_threads VALUES ($1, 'me')", &[&hers.as_str()])
        .await
        .unwrap();
    let owner = direct.query_one("SELECT prowess_thread_owner($1)", &[&hers.as_str()]).await.unwrap();
    assert_eq!(owner.get::<_, String>(0), anna.id);
    let claimed =
        direct.query("SELECT claimed FROM prowess_claim('me', 1, 9, 9, 'why', 9)", &[]).await.unwrap();
    assert_eq!(claimed[0].get::<_, String>(0), hers.as_str());
    drop(database);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn case_136_the_events_and_the_inbox_of_another_user_do_not_exist() {
    let (_url, database, [anna, ben], [hers, his]) = filled().await;
    let lease = database.acting_for(&anna.id).threads().lease(&hers, "worker", LONG).await.unwrap();
    for other in [database.acting_for(&ben.id), database.acting_for("nobody"), database.clone()] {
        let store = other.threads();
        let missing = |error: ThreadError| matches!(error, ThreadError::NotFound(id) if id == hers);
        assert!(store.events(&hers, 0, 9).await.is_err_and(missing));
        assert!(store.lease(&hers, "worker", LONG).await.is_err_and(missing));
        assert!(store.append(&lease, 1, &[said("forged")]).await.is_err_and(missing));
        assert!(store.append(&lease, 1, &[]).await.is_err_and(missing));
        assert!(store.fork(&hers, 1, &ThreadId::new()).await.is_err_and(missing));
        store.release(&lease).await.unwrap();
        store.delete(&hers).await.unwrap();
        assert!(!store.list(99).await.unwrap().iter().any(|info| info.id == hers));
    }
    let other = database.acting_for(&ben.id).queue();
    let refused = other.post(&hers, &Post::Cancel { turn: 1 }).await.unwrap_err();
    assert!(matches!(DatabaseError::of(&refused), Some(DatabaseError::Denied { .. })), "{refused:?}");
    other.forget(&hers).await.unwrap();
    // Nothing of it happened.
    let own = database.acting_for(&anna.id).threads();
    own.append(&lease, 1, &[said("the lease is held")]).await.unwrap();
    assert_eq!(own.events(&hers, 0, 9).await.unwrap().len(), 2);
    let listed: Vec<_> = own.list(99).await.unwrap().into_iter().map(|info| info.id).collect();
    assert_eq!(listed, std::slice::from_ref(&hers));
    own.release(&lease).await.unwrap();
    // A worker claims the threads of all users, and sees one inbox at a time.
    let mut claimed = BTreeSet::new();
    while let Some(claim) = database.queue().claim("worker", LONG, ClaimLimits::default()).await.unwrap() {
        assert_eq!(database.queue().inbox(&claim).await.unwrap().entries.len(), 1);
        claimed.insert(claim.lease.thread);
    }
    assert_eq!(claimed, BTreeSet::from([hers, his]));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn case_136_the_thread_of_a_sub_agent_belongs_to_its_user() {
    let (_url, database, [anna, ben], [hers, _]) = filled().await;
    let store = database.acting_for(&anna.id).threads();
    let task: ThreadId = "task-1".parse().unwrap();
    let lease = store.lease(&task, "worker", LONG).await.unwrap();
    store.append(&lease, 0, &[said("a secret")]).await.unwrap();
    let fork = ThreadId::new();
    store.fork(&hers, 1, &fork).await.unwrap();
    for id in [&task, &fork] {
        for other in [database.acting_for(&ben.id).threads(), database.threads()] {
            assert!(matches!(other.events(id, 0, 9).await, Err(ThreadError::NotFound(_))));
            assert!(matches!(other.lease(id, "worker", LONG).await, Err(ThreadError::NotFound(_))));
        }
        let refused = database.owned_threads().create(&ben.id, id, "default", "").await;
        assert!(matches!(refused, Err(OwnedThreadError::NotFound(_))), "{refused:?}");
        assert_eq!(store.events(id, 0, 9).await.unwrap().len(), 1);
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn no_connection_remembers_for_whom_it_worked() {
    let (_url, database, [anna, _], [hers, _]) = filled().await;
    // More calls than connections.
    for _ in 0..20 {
        let (own, plain) = (database.acting_for(&anna.id).threads(), database.threads());
        let (own, plain) = tokio::join!(own.events(&hers, 0, 9), plain.events(&hers, 0, 9));
        assert!(own.is_ok() && plain.is_err());
        assert_eq!(database.threads().list(9).await.unwrap(), []);
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn threads_without_an_owner_are_as_without_users() {
    let url = runtime_url().await;
    thread_store_suite(Arc::new(PostgresStore::connect(&url).await.unwrap())).await;
    let url = runtime_url().await;
    let database = Database::open(&url).await.unwrap();
    turn_queue_suite(database.queue(), database.threads()).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_store_for_a_user_passes_the_suites() {
    let database = Database::open(&runtime_url().await).await.unwrap();
    let [anna, _] = two_users(&database).await;
    thread_store_suite(database.acting_for(&anna.id).threads()).await;
    let hers = database.acting_for(&anna.id);
    turn_queue_suite(hers.queue(), hers.threads()).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn old_threads_of_all_users_are_pruned() {
    let (_url, database, _, threads) = filled().await;
    let keep = |threads| Retention::default().keep_last(threads);
    assert_eq!(database.prune(keep(0)).await.unwrap(), 0, "they have work to do");
    for thread in &threads {
        database.queue().forget(thread).await.unwrap();
    }
    assert_eq!(database.prune(keep(1)).await.unwrap(), 1);
    assert_eq!(database.prune(keep(0)).await.unwrap(), 1);
    for thread in &threads {
        assert_eq!(database.owned_threads().owner_of(thread).await.unwrap(), None);
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn only_the_owner_of_the_tables_migrates() {
    let url = runtime_url().await;
    let owner = client(&super_url(&url)).await;
    owner.batch_execute("UPDATE prowess_schema SET version = 4").await.unwrap();
    let refused = Database::open(&url).await.unwrap_err();
    assert!(matches!(refused, DatabaseError::Denied { .. }), "{refused:?}");
    assert!(refused.to_string().contains("open it once with the role that owns them"), "{refused}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_role_that_passes_the_wall_by_is_refused() {
    let url = postgres_url().await;
    let database = Database::open(&url).await.unwrap();
    assert!(!database.separates_users(), "it owns the tables");
    let owner = client(&url).await;
    let schema: String = owner.query_one("SELECT current_schema()", &[]).await.unwrap().get(0);
    let grant = async |role: &str| {
        let refused = owner.execute("SELECT prowess_serve_grant($1)", &[&role]).await.unwrap_err();
        refused.as_db_error().unwrap().message().to_owned()
    };
    assert!(grant("prowess").await.contains("without SUPERUSER and BYPASSRLS"));
    let own: String = owner.query_one("SELECT current_user::text", &[]).await.unwrap().get(0);
    for (options, says) in [
        ("BYPASSRLS".to_owned(), "without SUPERUSER and BYPASSRLS"),
        (format!("IN ROLE {own}"), "does not own"),
    ] {
        let role = format!("passes_{schema}");
        owner
            .batch_execute(&format!("DROP ROLE IF EXISTS {role}; CREATE ROLE {role} {options}"))
            .await
            .unwrap();
        let refused = grant(&role).await;
        assert!(refused.contains(says), "{refused}");
        owner.batch_execute(&format!("DROP ROLE {role}")).await.unwrap();
    }
}
