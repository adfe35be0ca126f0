//! Users, and the access tokens by which a server knows them.

use std::time::{Duration, SystemTime};

use serde::{Deserialize, Serialize};

use super::{Audit, Scopes, id, is_id, new_id, possible_id};
use crate::acts_for::ActsFor;
use crate::database::Database;
use crate::error::DatabaseError;
use crate::event::signed;
use crate::rows::{Cell, Row, Statement, first};
use crate::sql::serve as sql;

/// The longest name of a user or a token, in characters.
const MAX_NAME: usize = 100;

/// A person with an account.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct User {
    /// The id, which never changes.
    pub id: String,
    /// The name. Two users have two names.
    pub name: String,
    /// Whether the user manages others.
    pub is_admin: bool,
    /// When the user was added.
    pub created: SystemTime,
    /// Whether all tokens of the user are refused.
    pub is_disabled: bool,
    /// How much the user may use in a day.
    pub daily: DailyLimits,
}

/// How much a user may use in a day, which begins at midnight UTC. `None`: as much as the server allows to everybody.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct DailyLimits {
    /// Tokens of models.
    pub tokens: Option<u64>,
    /// What they cost, in millionths of a dollar.
    pub micro_dollars: Option<u64>,
}

impl DailyLimits {
    /// These limits, with those of `other` where there are none.
    pub fn or(self, other: Self) -> Self {
        Self {
            tokens: self.tokens.or(other.tokens),
            micro_dollars: self.micro_dollars.or(other.micro_dollars),
        }
    }
}

/// What an access token is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum TokenKind {
    /// A token that the user made, for programs.
    Token,
    /// The session of a browser.
    Session,
    /// A login link, which works once.
    Login,
    /// A link by which a person of an OpenID Connect issuer becomes an identity of the user. It works once.
    Identity,
}

impl TokenKind {
    /// The word for it.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Token => "token",
            Self::Session => "session",
            Self::Login => "login",
            Self::Identity => "identity",
        }
    }
}

/// A token to add.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NewToken {
    /// What it is.
    pub kind: TokenKind,
    /// What the user calls it.
    pub name: String,
    /// What it is good for.
    pub scopes: Scopes,
    /// The SHA-256 of its secret. The secret itself is never stored.
    pub digest: [u8; 32],
    /// After how long it ends.
    pub expires: Option<Duration>,
}

/// A stored token.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct TokenInfo {
    /// The id.
    pub id: String,
    /// The id of its user.
    pub user: String,
    /// What it is.
    pub kind: TokenKind,
    /// What the user calls it.
    pub name: String,
    /// What it is good for.
    pub scopes: Scopes,
    /// When it was added.
    pub created: SystemTime,
    /// When it ends.
    pub expires: Option<SystemTime>,
    /// When it was last used, to the minute.
    pub used: Option<SystemTime>,
}

/// Why a change of users or tokens failed.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum AccountError {
    /// Another user has the name.
    #[error("there is a user `{0}` already")]
    NameTaken(String),
    /// The name cannot be used.
    #[error(
        "a name must have 1 to {MAX_NAME} characters, no control characters, no blank at its ends, and must not look like an id"
    )]
    InvalidName,
    /// There is no such user.
    #[error("there is no user `{0}`")]
    NoUser(String),
    /// The person of an issuer is linked to a user already.
    #[error("this person of the issuer is linked to a user already")]
    IdentityTaken,
    /// The issuer or the subject cannot be used.
    #[error("the issuer or the subject of an identity is empty, or too long")]
    InvalidIdentity,
    /// Another token has the digest.
    #[error("another token has this digest")]
    DigestTaken,
    /// The database failed.
    #[error("could not {action}: {source}")]
    Database {
        /// What failed.
        action: &'static str,
        /// The error of the database.
        source: DatabaseError,
    },
}

/// The users of a server and their access tokens.
///
/// ```
/// use prowess_store::{Database, SqliteStore};
///
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
/// let accounts = Database::from(SqliteStore::in_memory()?).accounts();
/// let anna = accounts.add_user("anna", true).await?;
/// assert!(accounts.add_user("anna", false).await.is_err(), "the name is taken");
/// assert_eq!(accounts.user("anna").await?, Some(anna));
/// # Ok(())
/// # }
/// ```
#[derive(Clone, Debug)]
pub struct Accounts(pub(super) Database);

pub(super) fn failed(action: &'static str) -> impl Fn(DatabaseError) -> AccountError {
    move |source| AccountError::Database { action, source }
}

/// The columns that a user has in a row.
const USER_COLUMNS: usize = 7;

pub(super) fn user(row: &Row) -> Result<User, DatabaseError> {
    Ok(User {
        id: row.text(0)?,
        name: row.chosen_text(1)?,
        is_admin: row.number(2)? != 0,
        is_disabled: row.number(3)? != 0,
        created: row.time(4)?,
        daily: DailyLimits { tokens: row.maybe_count(5)?, micro_dollars: row.maybe_count(6)? },
    })
}

/// A token, whose columns begin at `first`.
fn token(row: &Row, first: usize) -> Result<TokenInfo, DatabaseError> {
    let kind = match row.text(first + 2)?.as_str() {
        "token" => TokenKind::Token,
        "session" => TokenKind::Session,
        "login" => TokenKind::Login,
        "identity" => TokenKind::Identity,
        other => return Err(row.damaged(format!("{other:?} is not a kind of token"))),
    };
    Ok(TokenInfo {
        id: row.text(first)?,
        user: row.text(first + 1)?,
        kind,
        name: row.chosen_text(first + 3)?,
        scopes: row.text(first + 4)?.parse().map_err(|problem| row.damaged(format!("{problem}")))?,
        created: row.time(first + 5)?,
        expires: row.maybe_time(first + 6)?,
        used: row.maybe_time(first + 7)?,
    })
}

/// Checks a name that somebody chose.
pub(super) fn check_name(name: &str) -> Result<(), AccountError> {
    let fits = (1..=MAX_NAME).contains(&name.chars().count());
    if fits && !name.chars().any(char::is_control) && name.trim() == name && !is_id(name) {
        Ok(())
    } else {
        Err(AccountError::InvalidName)
    }
}

impl Accounts {
    pub(crate) fn new(database: Database) -> Self {
        Self(database)
    }

    /// Adds a user. Names that differ only in the case of letters are the same name.
    ///
    /// # Errors
    ///
    /// [`AccountError::NameTaken`], [`AccountError::InvalidName`], or the database failed.
    pub async fn add_user(&self, name: &str, is_admin: bool) -> Result<User, AccountError> {
        check_name(name)?;
        self.check_free(name).await?;
        let values: [Cell; 3] =
            [new_id().as_str().into(), name.as_bytes().into(), i64::from(is_admin).into()];
        let failed = failed("add a user");
        let done = self.0.transact(vec![Statement::required(sql::ADD_USER, values)]).await;
        let Ok(rows) = done.map_err(&failed)? else { return Err(AccountError::NameTaken(name.to_owned())) };
        first(&rows, 0).and_then(user).map_err(failed)
    }

    /// Checks that no user has the name, in whatever case, and that it does not stand for the command line.
    pub(super) async fn check_free(&self, name: &str) -> Result<(), AccountError> {
        let folded = name.to_lowercase();
        let is_taken = |taken: &str| taken.to_lowercase() == folded;
        if is_taken(Audit::COMMAND_LINE) || self.users().await?.iter().any(|user| is_taken(&user.name)) {
            return Err(AccountError::NameTaken(name.to_owned()));
        }
        Ok(())
    }

    /// All users, in the order in which they were added.
    ///
    /// # Errors
    ///
    /// The database failed.
    pub async fn users(&self) -> Result<Vec<User>, AccountError> {
        let failed = failed("list users");
        let rows = self.0.query(Statement::new(sql::USERS, [])).await.map_err(&failed)?;
        rows.iter().map(user).collect::<Result<_, _>>().map_err(failed)
    }

    /// The user with this id or name.
    ///
    /// # Errors
    ///
    /// The database failed.
    pub async fn user(&self, id_or_name: &str) -> Result<Option<User>, AccountError> {
        let failed = failed("find a user");
        let values = [id(id_or_name), id_or_name.as_bytes().into()];
        let rows = self.0.query(Statement::new(sql::USER, values)).await.map_err(&failed)?;
        rows.first().map(user).transpose().map_err(failed)
    }

    /// Disables or enables the user with this id. Returns whether there is one. What waited for a user who is enabled goes on.
    ///
    /// # Errors
    ///
    /// The database failed.
    pub async fn set_disabled(&self, user: &str, is_disabled: bool) -> Result<bool, AccountError> {
        let values: [Cell; 2] = [id(user), i64::from(is_disabled).into()];
        let done = self.0.transact(vec![Statement::required(sql::DISABLE, values)]).await;
        let is_known = done.map_err(failed("disable a user"))?.is_ok();
        self.wake(user).await?;
        Ok(is_known)
    }

    /// Lets threads go on that wait until their user may go on.
    async fn wake(&self, user: &str) -> Result<(), AccountError> {
        let wake = Statement::new(sql::WAKE_USER, [id(user)]);
        let woken = self.0.acting_for(user).transact(vec![wake]).await;
        woken.map(drop).map_err(failed("wake the threads of a user"))
    }

    /// Sets how much the user with this id may use in a day. Returns whether there is one. What waited because of a limit goes
    /// on.
    ///
    /// # Errors
    ///
    /// The database failed.
    pub async fn set_daily(&self, user: &str, daily: DailyLimits) -> Result<bool, AccountError> {
        let number = |number: Option<u64>| Cell::Number(number.map(signed));
        let values = [id(user), number(daily.tokens), number(daily.micro_dollars)];
        let done = self.0.transact(vec![Statement::required(sql::LIMIT, values)]).await;
        let is_known = done.map_err(failed("limit a user"))?.is_ok();
        self.wake(user).await?;
        Ok(is_known)
    }

    /// Adds a token for the user with this id, and removes those of this user that have expired.
    ///
    /// # Errors
    ///
    /// [`AccountError::NoUser`], [`AccountError::InvalidName`], [`AccountError::DigestTaken`], or the database failed.
    pub async fn add_token(&self, user: &str, new: NewToken) -> Result<TokenInfo, AccountError> {
        check_name(&new.name)?;
        let failed = failed("add a token");
        // Adding it to the time now must not overflow.
        let lasts = |lasts: Duration| i64::try_from(lasts.as_micros()).unwrap_or(i64::MAX).min(i64::MAX / 2);
        let values: [Cell; 7] = [
            new_id().as_str().into(),
            id(user),
            new.kind.as_str().into(),
            new.name.as_bytes().into(),
            new.scopes.to_string().as_str().into(),
            new.digest.as_slice().into(),
            Cell::Number(new.expires.map(lasts)),
        ];
        let statements = vec![
            Statement::required(sql::HAS_USER, [id(user)]),
            Statement::new(sql::REMOVE_EXPIRED, [id(user)]),
            Statement::required(sql::ADD_TOKEN, values),
        ];
        match self.0.acting(super::user(user)).transact(statements).await.map_err(&failed)? {
            Ok(rows) => first(&rows, 2).and_then(|row| token(row, 0)).map_err(failed),
            Err(missing) if missing.0 == 0 => Err(AccountError::NoUser(user.to_owned())),
            Err(_) => Err(AccountError::DigestTaken),
        }
    }

    /// Whose token or session this is: `None` if it was revoked, has expired, or belongs to a disabled user. A login is not a
    /// token.
    ///
    /// # Errors
    ///
    /// The database failed.
    pub async fn who(&self, digest: &[u8; 32]) -> Result<Option<(User, TokenInfo)>, AccountError> {
        let failed = failed("look up a token");
        let found = Statement::new(sql::WHO, [digest.as_slice().into()]);
        let database = self.0.acting(ActsFor::TokenOwner(digest.to_vec()));
        let rows = database.query(found).await.map_err(&failed)?;
        let found = |row: &Row| Ok((user(row)?, token(row, USER_COLUMNS)?));
        rows.first().map(found).transpose().map_err(failed)
    }

    /// Uses up a login, and returns whose it was. Only one caller gets the user.
    ///
    /// # Errors
    ///
    /// The database failed.
    pub async fn use_login(&self, digest: &[u8; 32]) -> Result<Option<User>, AccountError> {
        let failed = failed("use a login");
        let kind = TokenKind::Login.as_str();
        let of_digest = |sql| Statement::required(sql, [digest.as_slice().into(), kind.into()]);
        let database = self.0.acting(ActsFor::TokenOwner(digest.to_vec()));
        let done = database.transact(vec![of_digest(sql::LOGIN), of_digest(sql::USE_UP_LOGIN)]).await;
        match done.map_err(&failed)? {
            Ok(rows) => first(&rows, 0).and_then(user).map(Some).map_err(failed),
            Err(_) => Ok(None),
        }
    }

    /// Whose login this is. It is not used up.
    ///
    /// # Errors
    ///
    /// The database failed.
    pub async fn whose_login(&self, digest: &[u8; 32]) -> Result<Option<User>, AccountError> {
        let failed = failed("look up a login");
        let kind = TokenKind::Login.as_str();
        let found = Statement::new(sql::LOGIN, [digest.as_slice().into(), kind.into()]);
        let database = self.0.acting(ActsFor::TokenOwner(digest.to_vec()));
        let rows = database.query(found).await.map_err(&failed)?;
        rows.first().map(user).transpose().map_err(failed)
    }

    /// The valid tokens and sessions of the user with this id, in the order in which they were added.
    ///
    /// # Errors
    ///
    /// The database failed.
    pub async fn tokens(&self, user: &str) -> Result<Vec<TokenInfo>, AccountError> {
        let failed = failed("list tokens");
        let tokens = Statement::new(sql::TOKENS, [id(user)]);
        let rows = self.0.acting(super::user(user)).query(tokens).await.map_err(&failed)?;
        rows.iter().map(|row| token(row, 0)).collect::<Result<_, _>>().map_err(failed)
    }

    /// Removes a token of a user, both by id. Returns whether the user had it.
    ///
    /// # Errors
    ///
    /// The database failed.
    pub async fn revoke(&self, user: &str, token: &str) -> Result<bool, AccountError> {
        let revoke = Statement::required(sql::REVOKE, [id(user), id(token)]);
        let done = self.0.acting(super::user(user)).transact(vec![revoke]).await;
        Ok(done.map_err(failed("revoke a token"))?.is_ok())
    }

    /// Notes that the token with this id was used. It writes at most once a minute.
    ///
    /// # Errors
    ///
    /// The database failed.
    pub async fn note_use(&self, token: &str) -> Result<(), AccountError> {
        let failed = failed("note the use of a token");
        let database = self.0.acting(ActsFor::TokenIdOwner(possible_id(token).to_owned()));
        let statement = |sql| Statement::new(sql, [id(token)]);
        // A read disturbs nobody who writes.
        if !database.query(statement(sql::NOTES_USE)).await.map_err(&failed)?.is_empty() {
            database.transact_later(vec![statement(sql::NOTE_USE)]).await.map_err(failed)?.ok();
        }
        Ok(())
    }
}
