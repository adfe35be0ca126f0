//! Who users are elsewhere: persons of OpenID Connect issuers, each linked to one user.

use std::time::SystemTime;

use super::accounts::{AccountError, Accounts, TokenKind, User, check_name, failed, user};
use super::{id, new_id};
use crate::acts_for::ActsFor;
use crate::error::DatabaseError;
use crate::rows::{Cell, Row, Statement, first};
use crate::sql::serve as sql;

/// The longest issuer, in bytes.
const MAX_ISSUER: usize = 2048;
/// The longest subject, in bytes. OpenID Connect allows 255 ASCII characters.
const MAX_SUBJECT: usize = 255;

/// A person, as an OpenID Connect issuer names them: by a subject that it never gives to somebody else. Names and e-mail
/// addresses change hands, so they are no identity.
///
/// ```
/// use prowess_store::serve::Identity;
/// use prowess_store::{Database, SqliteStore};
///
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
/// let accounts = Database::from(SqliteStore::in_memory()?).accounts();
/// let anna = Identity { issuer: "https://login.example.com", subject: "248289761001" };
/// assert!(accounts.user_of(anna).await?.is_none());
/// let user = accounts.add_user_of(anna, "anna").await?;
/// assert_eq!(accounts.user_of(anna).await?, Some(user));
/// # Ok(())
/// # }
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Identity<'a> {
    /// The URL of the issuer.
    pub issuer: &'a str,
    /// The subject.
    pub subject: &'a str,
}

/// A stored identity.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct IdentityInfo {
    /// The id, to remove it.
    pub id: String,
    /// The id of the user to whom it is linked.
    pub user: String,
    /// The URL of the issuer.
    pub issuer: String,
    /// The subject.
    pub subject: String,
    /// When it was linked.
    pub created: SystemTime,
    /// When somebody last signed in with it.
    pub used: Option<SystemTime>,
}

impl Identity<'_> {
    fn check(self) -> Result<Self, AccountError> {
        let fits = |text: &str, most| (1..=most).contains(&text.len());
        if fits(self.issuer, MAX_ISSUER) && fits(self.subject, MAX_SUBJECT) {
            Ok(self)
        } else {
            Err(AccountError::InvalidIdentity)
        }
    }

    fn cells(self) -> [Cell; 2] {
        [self.issuer.as_bytes().into(), self.subject.as_bytes().into()]
    }

    /// Statements run for the user to whom it is linked.
    fn owner(self) -> ActsFor {
        ActsFor::IdentityOwner { issuer: self.issuer.into(), subject: self.subject.into() }
    }

    /// The statement that links it to the user with this id.
    fn added_to(self, user: &str) -> Statement {
        let [issuer, subject] = self.cells();
        Statement::required(sql::ADD_IDENTITY, [new_id().as_str().into(), id(user), issuer, subject])
    }
}

fn identity(row: &Row) -> Result<IdentityInfo, DatabaseError> {
    Ok(IdentityInfo {
        id: row.text(0)?,
        user: row.text(1)?,
        issuer: row.chosen_text(2)?,
        subject: row.chosen_text(3)?,
        created: row.time(4)?,
        used: row.maybe_time(5)?,
    })
}

impl Accounts {
    /// The user to whom an identity is linked, who may be disabled.
    ///
    /// # Errors
    ///
    /// [`AccountError::InvalidIdentity`], or the database failed.
    pub async fn user_of(&self, identity: Identity<'_>) -> Result<Option<User>, AccountError> {
        let failed = failed("look up an identity");
        let database = self.0.acting(identity.check()?.owner());
        let found = database.query(Statement::new(sql::IDENTITY, identity.cells())).await;
        found.map_err(&failed)?.first().map(user).transpose().map_err(failed)
    }

    /// Notes that somebody signed in with an identity.
    ///
    /// # Errors
    ///
    /// [`AccountError::InvalidIdentity`], or the database failed.
    pub async fn note_sign_in(&self, identity: Identity<'_>) -> Result<(), AccountError> {
        let database = self.0.acting(identity.check()?.owner());
        let done = database.transact(vec![Statement::new(sql::USE_IDENTITY, identity.cells())]).await;
        done.map(drop).map_err(failed("note a sign-in"))
    }

    /// Adds a user, who is no administrator, and links an identity to them: both or nothing.
    ///
    /// # Errors
    ///
    /// [`AccountError::NameTaken`], [`AccountError::InvalidName`], [`AccountError::IdentityTaken`],
    /// [`AccountError::InvalidIdentity`], or the database failed.
    pub async fn add_user_of(&self, identity: Identity<'_>, name: &str) -> Result<User, AccountError> {
        check_name(name)?;
        self.check_free(name).await?;
        let (identity, failed, own) = (identity.check()?, failed("add a user"), new_id());
        let values: [Cell; 3] = [own.as_str().into(), name.as_bytes().into(), 0.into()];
        let statements = vec![Statement::required(sql::ADD_USER, values), identity.added_to(&own)];
        match self.0.acting(super::user(&own)).transact(statements).await.map_err(&failed)? {
            Ok(rows) => first(&rows, 0).and_then(user).map_err(failed),
            Err(missing) if missing.0 == 0 => Err(AccountError::NameTaken(name.to_owned())),
            Err(_) => Err(AccountError::IdentityTaken),
        }
    }

    /// Uses up a token of the kind [`TokenKind::Identity`], and links an identity to its user: both or nothing. Returns the
    /// user, or `None` if the token does not work any more.
    ///
    /// # Errors
    ///
    /// [`AccountError::IdentityTaken`], [`AccountError::InvalidIdentity`], or the database failed.
    pub async fn link(
        &self,
        digest: &[u8; 32],
        identity: Identity<'_>,
    ) -> Result<Option<User>, AccountError> {
        let (identity, failed) = (identity.check()?, failed("link an identity"));
        let values: [Cell; 2] = [digest.as_slice().into(), TokenKind::Identity.as_str().into()];
        let database = self.0.acting(ActsFor::TokenOwner(digest.to_vec()));
        let found = database.query(Statement::new(sql::LOGIN, values.clone())).await.map_err(&failed)?;
        let Some(user) = found.first().map(user).transpose().map_err(&failed)? else { return Ok(None) };
        let statements = vec![Statement::required(sql::USE_UP_LOGIN, values), identity.added_to(&user.id)];
        match database.transact(statements).await.map_err(failed)? {
            Ok(_) => Ok(Some(user)),
            Err(missing) if missing.0 == 0 => Ok(None),
            Err(_) => Err(AccountError::IdentityTaken),
        }
    }

    /// The identities of the user with this id, in the order in which they were linked.
    ///
    /// # Errors
    ///
    /// The database failed.
    pub async fn identities(&self, user: &str) -> Result<Vec<IdentityInfo>, AccountError> {
        let failed = failed("list identities");
        let identities = Statement::new(sql::IDENTITIES, [id(user)]);
        let rows = self.0.acting(super::user(user)).query(identities).await.map_err(&failed)?;
        rows.iter().map(identity).collect::<Result<_, _>>().map_err(failed)
    }

    /// Removes an identity of a user, both by id. Returns whether the user had it.
    ///
    /// # Errors
    ///
    /// The database failed.
    pub async fn remove_identity(&self, user: &str, identity: &str) -> Result<bool, AccountError> {
        let remove = Statement::required(sql::REMOVE_IDENTITY, [id(user), id(identity)]);
        let done = self.0.acting(super::user(user)).transact(vec![remove]).await;
        Ok(done.map_err(failed("remove an identity"))?.is_ok())
    }
}
