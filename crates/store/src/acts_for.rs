//! For whom statements run.

/// For whom statements run. The row-level security of PostgreSQL shows them only what belongs to this user. SQLite has no
/// such wall.
#[derive(Clone, Debug, PartialEq, Eq)]
#[cfg_attr(
    not(all(feature = "postgres", feature = "serve")),
    allow(dead_code, reason = "one type for all builds")
)]
pub(crate) enum ActsFor {
    Nobody,
    /// The user with this id.
    User(String),
    /// The owner of this thread. A worker may work on any thread, but only on the one that it names.
    ThreadOwner(String),
    /// The owner of the token with this digest: it is not known yet who asks.
    TokenOwner(Vec<u8>),
    /// The owner of the token with this id.
    TokenIdOwner(String),
    /// The user to whom this person of an issuer is linked: it is not known yet who signs in.
    IdentityOwner {
        issuer: Vec<u8>,
        subject: Vec<u8>,
    },
}

#[cfg(feature = "postgres")]
impl ActsFor {
    /// The statement that says so, for the rest of its transaction.
    pub(crate) fn statement(&self) -> Option<crate::rows::Statement> {
        use crate::rows::Statement;
        use crate::sql::acts_for as sql;

        match self {
            Self::Nobody => None,
            Self::User(id) => Some(Statement::new(sql::USER, [id.as_str().into()])),
            Self::ThreadOwner(thread) => Some(Statement::new(sql::THREAD_OWNER, [thread.as_str().into()])),
            Self::TokenOwner(digest) => Some(Statement::new(sql::TOKEN_OWNER, [digest.as_slice().into()])),
            Self::IdentityOwner { issuer, subject } => Some(Statement::new(
                sql::IDENTITY_OWNER,
                [issuer.as_slice().into(), subject.as_slice().into()],
            )),
            Self::TokenIdOwner(id) => Some(Statement::new(sql::TOKEN_ID_OWNER, [id.as_str().into()])),
        }
    }
}
