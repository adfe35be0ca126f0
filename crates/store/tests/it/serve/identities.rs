//! Tests of the identities of users.

use prowess_store::serve::{AccountError, Identity, NewToken, Scopes, TokenKind};

use super::two_users;
use crate::support::{LONG, databases};

const ISSUER: &str = "https://login.example.com";

fn person(subject: &str) -> Identity<'_> {
    Identity { issuer: ISSUER, subject }
}

fn link(digest: u8) -> NewToken {
    NewToken {
        kind: TokenKind::Identity,
        name: "link".to_owned(),
        scopes: Scopes::default(),
        digest: [digest; 32],
        expires: Some(LONG),
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_person_of_an_issuer_is_one_user() {
    let place = tempfile::tempdir().unwrap();
    for database in databases(&place).await {
        let accounts = database.accounts();
        let [anna, _] = two_users(&database).await;
        assert_eq!(accounts.user_of(person("1")).await.unwrap(), None);
        let carl = accounts.add_user_of(person("1"), "carl").await.unwrap();
        assert!(!carl.is_admin);
        assert_eq!(accounts.user_of(person("1")).await.unwrap(), Some(carl.clone()));
        // The same subject of another issuer, and what only looks alike, is somebody else.
        for (issuer, subject) in
            [("https://evil.example.com", "1"), (ISSUER, "1 "), (ISSUER, "1\0"), (ISSUER, "anna")]
        {
            assert_eq!(accounts.user_of(Identity { issuer, subject }).await.unwrap(), None, "{subject:?}");
        }
        // Nothing is left of a user whose name or whose person is taken.
        let taken = accounts.add_user_of(person("2"), "anna").await;
        assert!(matches!(taken, Err(AccountError::NameTaken(name)) if name == "anna"));
        let taken = accounts.add_user_of(person("1"), "dora").await;
        assert!(matches!(taken, Err(AccountError::IdentityTaken)), "{taken:?}");
        assert_eq!(accounts.user("dora").await.unwrap(), None);
        assert_eq!(accounts.identities(&anna.id).await.unwrap(), []);
        for (issuer, subject) in [("", "1"), (ISSUER, ""), (ISSUER, &"1".repeat(256))] {
            let refused = accounts.user_of(Identity { issuer, subject }).await;
            assert!(matches!(refused, Err(AccountError::InvalidIdentity)), "{refused:?}");
        }

        let known = accounts.identities(&carl.id).await.unwrap();
        assert_eq!((known[0].issuer.as_str(), known[0].subject.as_str(), known[0].used), (ISSUER, "1", None));
        accounts.note_sign_in(person("1")).await.unwrap();
        assert!(accounts.identities(&carl.id).await.unwrap()[0].used >= Some(known[0].created));
        // Only of the user who has it.
        assert!(!accounts.remove_identity(&anna.id, &known[0].id).await.unwrap());
        assert!(accounts.remove_identity(&carl.id, &known[0].id).await.unwrap());
        assert_eq!(accounts.user_of(person("1")).await.unwrap(), None);
        assert!(!accounts.remove_identity(&carl.id, &known[0].id).await.unwrap());
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_link_works_once_and_for_nothing_else() {
    let place = tempfile::tempdir().unwrap();
    for database in databases(&place).await {
        let accounts = database.accounts();
        let [anna, ben] = two_users(&database).await;
        accounts.add_token(&anna.id, link(1)).await.unwrap();
        let login = NewToken { kind: TokenKind::Login, ..link(2) };
        accounts.add_token(&anna.id, login).await.unwrap();
        assert_eq!(accounts.who(&[1; 32]).await.unwrap(), None, "it is no token");
        assert_eq!(accounts.use_login(&[1; 32]).await.unwrap(), None, "it is no login");
        assert_eq!(accounts.link(&[2; 32], person("1")).await.unwrap(), None, "a login links nobody");
        assert_eq!(accounts.tokens(&anna.id).await.unwrap(), []);
        // A person who is linked already does not use it up.
        accounts.add_user_of(person("9"), "carl").await.unwrap();
        let taken = accounts.link(&[1; 32], person("9")).await;
        assert!(matches!(taken, Err(AccountError::IdentityTaken)), "{taken:?}");
        assert_eq!(accounts.link(&[1; 32], person("1")).await.unwrap(), Some(anna.clone()));
        assert_eq!(accounts.link(&[1; 32], person("2")).await.unwrap(), None);
        assert_eq!(accounts.user_of(person("1")).await.unwrap(), Some(anna));
        assert_eq!(accounts.user_of(person("2")).await.unwrap(), None);
        // A disabled user gets no identity.
        accounts.add_token(&ben.id, link(3)).await.unwrap();
        accounts.set_disabled(&ben.id, true).await.unwrap();
        assert_eq!(accounts.link(&[3; 32], person("3")).await.unwrap(), None);
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn of_first_sign_ins_at_the_same_time_one_makes_the_user() {
    let place = tempfile::tempdir().unwrap();
    for database in databases(&place).await {
        let accounts = database.accounts();
        let first: Vec<_> = (0..8)
            .map(|number| {
                let accounts = accounts.clone();
                tokio::spawn(
                    async move { accounts.add_user_of(person("1"), &format!("carl-{number}")).await },
                )
            })
            .collect();
        let mut made = Vec::new();
        for one in first {
            match one.await.unwrap() {
                Ok(user) => made.push(user),
                Err(error) => assert!(matches!(error, AccountError::IdentityTaken), "{error:?}"),
            }
        }
        assert_eq!(accounts.users().await.unwrap(), made);
        assert_eq!(made.len(), 1);
    }
}
