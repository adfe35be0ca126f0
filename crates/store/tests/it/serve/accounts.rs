//! Tests of users and access tokens.

use std::time::Duration;

use prowess_agent::ThreadId;
use prowess_store::Database;
use prowess_store::serve::{AccountError, DailyLimits, NewToken, Scope, Scopes, TokenKind};

use super::two_users;
use crate::support::{LONG, databases, execute, places};

fn token(kind: TokenKind, digest: u8) -> NewToken {
    let scopes = Scopes::from([Scope::Read, Scope::Approve]);
    NewToken { kind, name: "laptop".to_owned(), scopes, digest: [digest; 32], expires: None }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn users_are_found_by_id_and_by_name() {
    let place = tempfile::tempdir().unwrap();
    for database in databases(&place).await {
        let accounts = database.accounts();
        assert_eq!(accounts.users().await.unwrap(), []);
        let admin = accounts.add_user("Ödön & Söhne", true).await.unwrap();
        let [anna, ben] = two_users(&database).await;
        assert!(admin.is_admin && !anna.is_admin && !anna.is_disabled);
        assert_eq!(accounts.users().await.unwrap(), [admin.clone(), anna.clone(), ben]);
        for key in [&admin.id, &admin.name] {
            assert_eq!(accounts.user(key).await.unwrap().as_ref(), Some(&admin), "{key}");
        }
        let nobody = ["carl", "ANNA", "", "a\u{0}b", "%", &ThreadId::new().to_string()];
        for key in nobody {
            assert_eq!(accounts.user(key).await.unwrap(), None, "{key:?}");
        }
        let taken = accounts.add_user("anna", true).await.unwrap_err();
        assert_eq!(taken.to_string(), "there is a user `anna` already");
        assert!(matches!(taken, AccountError::NameTaken(name) if name == "anna"));
        // One could be taken for the other, or for the command line in the audit log.
        for taken in ["ANNA", "ödön & SÖHNE", "Command line"] {
            let refused = accounts.add_user(taken, false).await;
            assert!(matches!(refused, Err(AccountError::NameTaken(_))), "{taken}: {refused:?}");
        }
        for name in ["", " anna", "an\nna", "an\u{0}na", &"a".repeat(101), &anna.id] {
            let refused = accounts.add_user(name, false).await;
            assert!(matches!(refused, Err(AccountError::InvalidName)), "{name:?}: {refused:?}");
        }
        assert_eq!(accounts.users().await.unwrap().len(), 3);
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_user_can_have_limits() {
    let place = tempfile::tempdir().unwrap();
    for database in databases(&place).await {
        let accounts = database.accounts();
        let [anna, ben] = two_users(&database).await;
        assert_eq!(anna.daily, DailyLimits::default());
        for daily in [
            DailyLimits { tokens: Some(0), micro_dollars: None },
            DailyLimits { tokens: Some(7), micro_dollars: Some(u64::MAX >> 1) },
            DailyLimits::default(),
        ] {
            assert!(accounts.set_daily(&anna.id, daily).await.unwrap());
            assert_eq!(accounts.user("anna").await.unwrap().unwrap().daily, daily);
        }
        assert_eq!(accounts.user("ben").await.unwrap(), Some(ben));
        assert!(!accounts.set_daily("anna", DailyLimits::default()).await.unwrap(), "a name is no id");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_token_says_who_somebody_is() {
    let place = tempfile::tempdir().unwrap();
    for database in databases(&place).await {
        let accounts = database.accounts();
        let [anna, ben] = two_users(&database).await;
        let made = accounts.add_token(&anna.id, token(TokenKind::Token, 1)).await.unwrap();
        assert_eq!((&made.user, made.scopes.to_string().as_str()), (&anna.id, "read approve"));
        assert_eq!((made.kind, made.name.as_str(), made.used), (TokenKind::Token, "laptop", None));
        let long = NewToken { expires: Some(LONG), ..token(TokenKind::Session, 2) };
        let session = accounts.add_token(&anna.id, long).await.unwrap();
        let lasts = session.expires.unwrap().duration_since(session.created).unwrap();
        assert!(lasts >= LONG && lasts < LONG + Duration::from_secs(60), "{lasts:?}");
        let other = accounts.add_token(&ben.id, token(TokenKind::Token, 3)).await.unwrap();
        let endless = NewToken { expires: Some(Duration::MAX), ..token(TokenKind::Token, 4) };
        accounts.add_token(&ben.id, endless).await.unwrap();

        assert_eq!(accounts.who(&[1; 32]).await.unwrap(), Some((anna.clone(), made.clone())));
        assert_eq!(accounts.who(&[2; 32]).await.unwrap(), Some((anna.clone(), session.clone())));
        assert_eq!(accounts.who(&[3; 32]).await.unwrap(), Some((ben.clone(), other.clone())));
        assert_eq!(accounts.who(&[5; 32]).await.unwrap(), None);
        assert_eq!(accounts.tokens(&anna.id).await.unwrap(), [made.clone(), session]);
        assert_eq!(accounts.tokens("a\u{0}b").await.unwrap(), []);

        let taken = accounts.add_token(&ben.id, token(TokenKind::Token, 1)).await;
        assert!(matches!(taken, Err(AccountError::DigestTaken)), "{taken:?}");
        let nobody = accounts.add_token("nobody", token(TokenKind::Token, 6)).await;
        assert!(matches!(nobody, Err(AccountError::NoUser(_))), "{nobody:?}");
        let unnamed = NewToken { name: String::new(), ..token(TokenKind::Token, 6) };
        let unnamed = accounts.add_token(&ben.id, unnamed).await;
        assert!(matches!(unnamed, Err(AccountError::InvalidName)), "{unnamed:?}");
        assert_eq!(accounts.who(&[6; 32]).await.unwrap(), None);
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn case_139_a_revoked_token_is_nobodys() {
    let place = tempfile::tempdir().unwrap();
    for database in databases(&place).await {
        let accounts = database.accounts();
        let [anna, ben] = two_users(&database).await;
        let made = accounts.add_token(&anna.id, token(TokenKind::Token, 1)).await.unwrap();
        // Somebody else cannot revoke it.
        assert!(!accounts.revoke(&ben.id, &made.id).await.unwrap());
        assert!(accounts.who(&[1; 32]).await.unwrap().is_some());
        assert!(accounts.revoke(&anna.id, &made.id).await.unwrap());
        assert_eq!(accounts.who(&[1; 32]).await.unwrap(), None);
        assert_eq!(accounts.tokens(&anna.id).await.unwrap(), []);
        assert!(!accounts.revoke(&anna.id, &made.id).await.unwrap());
        for wrong in ["", "a\u{0}b", "' OR 1 = 1 --"] {
            assert!(!accounts.revoke(&anna.id, wrong).await.unwrap());
        }
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn case_139_a_disabled_user_is_nobody() {
    let place = tempfile::tempdir().unwrap();
    for database in databases(&place).await {
        let accounts = database.accounts();
        let [anna, ben] = two_users(&database).await;
        for (user, digest) in [(&anna, 1), (&ben, 3)] {
            accounts.add_token(&user.id, token(TokenKind::Token, digest)).await.unwrap();
            accounts.add_token(&user.id, token(TokenKind::Login, digest + 1)).await.unwrap();
        }
        assert!(accounts.set_disabled(&anna.id, true).await.unwrap());
        assert!(accounts.user("anna").await.unwrap().unwrap().is_disabled);
        assert_eq!(accounts.who(&[1; 32]).await.unwrap(), None);
        assert_eq!(accounts.use_login(&[2; 32]).await.unwrap(), None);
        assert!(accounts.who(&[3; 32]).await.unwrap().is_some(), "others are not");
        assert!(accounts.set_disabled(&anna.id, false).await.unwrap());
        assert!(accounts.who(&[1; 32]).await.unwrap().is_some());
        assert_eq!(accounts.use_login(&[2; 32]).await.unwrap(), Some(anna), "it was not used up");
        assert!(!accounts.set_disabled("nobody", true).await.unwrap());
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_token_that_expired_is_nobodys() {
    let place = tempfile::tempdir().unwrap();
    for at in places(&place).await {
        let database = Database::open(&at).await.unwrap();
        let accounts = database.accounts();
        let [anna, _] = two_users(&database).await;
        for (kind, digest) in [(TokenKind::Token, 1), (TokenKind::Session, 2), (TokenKind::Login, 3)] {
            let made = NewToken { expires: Some(LONG), ..token(kind, digest) };
            accounts.add_token(&anna.id, made).await.unwrap();
        }
        assert!(accounts.who(&[1; 32]).await.unwrap().is_some());
        execute(&at, "UPDATE prowess_tokens SET expires = created").await;
        for digest in [1, 2, 3] {
            assert_eq!(accounts.who(&[digest; 32]).await.unwrap(), None);
            assert_eq!(accounts.use_login(&[digest; 32]).await.unwrap(), None);
        }
        assert_eq!(accounts.tokens(&anna.id).await.unwrap(), []);
        // The next token sweeps them out.
        accounts.add_token(&anna.id, token(TokenKind::Token, 1)).await.unwrap();
        assert_eq!(accounts.tokens(&anna.id).await.unwrap().len(), 1);
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn case_138_a_login_works_once() {
    let place = tempfile::tempdir().unwrap();
    for database in databases(&place).await {
        let accounts = database.accounts();
        let [anna, _] = two_users(&database).await;
        accounts.add_token(&anna.id, token(TokenKind::Login, 1)).await.unwrap();
        accounts.add_token(&anna.id, token(TokenKind::Token, 2)).await.unwrap();
        assert_eq!(accounts.who(&[1; 32]).await.unwrap(), None, "a login is no token");
        assert_eq!(accounts.use_login(&[2; 32]).await.unwrap(), None, "a token is no login");
        assert_eq!(accounts.tokens(&anna.id).await.unwrap().len(), 1, "nobody lists logins");
        for (digest, whose) in [([1; 32], Some(anna.clone())), ([2; 32], None), ([3; 32], None)] {
            assert_eq!(accounts.whose_login(&digest).await.unwrap(), whose, "it is not used up");
        }
        let using: Vec<_> = (0..8)
            .map(|_| {
                let accounts = accounts.clone();
                tokio::spawn(async move { accounts.use_login(&[1; 32]).await.unwrap() })
            })
            .collect();
        let mut used = Vec::new();
        for one in using {
            used.extend(one.await.unwrap());
        }
        assert_eq!(used, [anna]);
        assert_eq!(accounts.whose_login(&[1; 32]).await.unwrap(), None);
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_use_is_noted_at_most_once_a_minute() {
    let place = tempfile::tempdir().unwrap();
    for at in places(&place).await {
        let database = Database::open(&at).await.unwrap();
        let accounts = database.accounts();
        let [anna, _] = two_users(&database).await;
        let made = accounts.add_token(&anna.id, token(TokenKind::Token, 1)).await.unwrap();
        let used = async || accounts.who(&[1; 32]).await.unwrap().unwrap().1.used;
        accounts.note_use(&made.id).await.unwrap();
        let first = used().await.unwrap();
        assert!(first >= made.created);
        accounts.note_use(&made.id).await.unwrap();
        assert_eq!(used().await, Some(first));
        execute(&at, "UPDATE prowess_tokens SET used = used - 61000000").await;
        accounts.note_use(&made.id).await.unwrap();
        assert!(used().await.unwrap() > first);
        accounts.note_use("a\u{0}b").await.unwrap();
    }
}
