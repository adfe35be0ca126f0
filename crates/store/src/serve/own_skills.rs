//! The skills that users of a server uploaded, and who trusts them. Their bytes are somewhere else.

use std::time::SystemTime;

use super::{id, user};
use crate::database::Database;
use crate::error::DatabaseError;
use crate::event::signed;
use crate::rows::{Cell, Row, Statement, first};
use crate::sql::serve as sql;

/// The SHA-256 of all files of a skill.
pub type SkillDigest = [u8; 32];

/// A skill that a user uploaded.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct OwnSkill {
    /// The id of the user.
    pub owner: String,
    /// The digest of all files.
    pub digest: SkillDigest,
    /// The name of the skill.
    pub name: String,
    /// The description of the skill.
    pub description: String,
    /// How many files it has.
    pub files: u64,
    /// The bytes of the files and of the archive.
    pub bytes: u64,
    /// When it was uploaded.
    pub uploaded: SystemTime,
    /// Who trusts it. `None`: nobody.
    pub trust: Option<OwnSkillTrust>,
}

/// Somebody's decision to trust a digest.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct OwnSkillTrust {
    /// When it was made.
    pub at: SystemTime,
    /// The id of the user who made it.
    pub by: String,
    /// Whether an administrator made it, as one.
    pub by_admin: bool,
}

/// A skill to add.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NewOwnSkill {
    /// The digest of all files.
    pub digest: SkillDigest,
    /// The name of the skill.
    pub name: String,
    /// The description of the skill.
    pub description: String,
    /// How many files it has.
    pub files: u64,
    /// The bytes of the files and of the archive.
    pub bytes: u64,
}

/// How much one user may have.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct OwnSkillLimits {
    /// How many skills, in all versions.
    pub skills: u64,
    /// How many bytes, in all skills.
    pub bytes: u64,
}

/// Why a user's own skills could not be changed or read.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum OwnSkillError {
    /// The user has no skill with this digest.
    #[error("the user has no such skill")]
    NotFound,
    /// The user has as much as a user may have, or there is no such user.
    #[error("the user has too many skills, or they are too large")]
    NoRoom,
    /// The database failed.
    #[error("could not {action}: {source}")]
    Database {
        /// What failed.
        action: &'static str,
        /// The error of the database.
        source: DatabaseError,
    },
}

fn failed(action: &'static str) -> impl Fn(DatabaseError) -> OwnSkillError {
    move |source| OwnSkillError::Database { action, source }
}

/// The skills that users uploaded. A new one is not trusted.
///
/// ```
/// use prowess_store::serve::{NewOwnSkill, OwnSkillLimits};
/// use prowess_store::{Database, SqliteStore};
///
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
/// let database = Database::from(SqliteStore::in_memory()?);
/// let anna = database.accounts().add_user("anna", false).await?;
/// let skills = database.own_skills();
/// let digest = [7; 32];
/// let (name, description) = ("tides".to_owned(), "Looks up tides.".to_owned());
/// let new = NewOwnSkill { digest, name, description, files: 1, bytes: 100 };
/// skills.add(&anna.id, &new, OwnSkillLimits { skills: 10, bytes: 1000 }).await?;
/// assert!(skills.list(&anna.id).await?[0].trust.is_none());
/// skills.trust(&anna.id, &digest, &anna.id, false).await?;
/// assert!(skills.list(&anna.id).await?[0].trust.is_some());
/// # Ok(())
/// # }
/// ```
#[derive(Clone, Debug)]
pub struct OwnSkillRows(Database);

fn own_skill(row: &Row) -> Result<OwnSkill, DatabaseError> {
    let trust = match row.maybe_time(7)? {
        Some(at) => {
            let by = row.maybe_text(8)?.unwrap_or_default();
            Some(OwnSkillTrust { at, by, by_admin: row.number(9)? != 0 })
        }
        None => None,
    };
    Ok(OwnSkill {
        owner: row.text(0)?,
        digest: digest(row, 1)?,
        name: row.chosen_text(2)?,
        description: row.chosen_text(3)?,
        files: row.count(4)?,
        bytes: row.count(5)?,
        uploaded: row.time(6)?,
        trust,
    })
}

fn digest(row: &Row, column: usize) -> Result<SkillDigest, DatabaseError> {
    row.bytes(column)?.try_into().map_err(|_| row.damaged("the digest of a skill has not 32 bytes"))
}

fn digests(rows: &[Row]) -> Result<Vec<SkillDigest>, DatabaseError> {
    rows.iter().map(|row| digest(row, 0)).collect()
}

fn key(owner: &str, digest: &SkillDigest) -> [Cell; 2] {
    [id(owner), digest.as_slice().into()]
}

impl OwnSkillRows {
    pub(crate) fn new(database: Database) -> Self {
        Self(database)
    }

    /// Statements run for this user.
    fn of(&self, owner: &str) -> Database {
        self.0.acting(user(owner))
    }

    /// Adds a skill. It replaces what the user uploaded under the same name and nobody trusts. Returns the digests of these
    /// uploads. A skill that the user has already stays as it is.
    ///
    /// # Errors
    ///
    /// [`OwnSkillError::NoRoom`] if the user would have more than `limits`, or the database failed.
    pub async fn add(
        &self,
        owner: &str,
        new: &NewOwnSkill,
        limits: OwnSkillLimits,
    ) -> Result<Vec<SkillDigest>, OwnSkillError> {
        let failed = failed("add a skill");
        if self.get(owner, &new.digest).await?.is_some() {
            return Ok(Vec::new());
        }
        let name = || Cell::from(new.name.as_bytes());
        let replace = [id(owner), name(), new.digest.as_slice().into()];
        let add: [Cell; 8] = [
            id(owner),
            new.digest.as_slice().into(),
            name(),
            new.description.as_bytes().into(),
            signed(new.files).into(),
            signed(new.bytes).into(),
            signed(limits.skills).into(),
            signed(limits.bytes).into(),
        ];
        let statements = vec![
            Statement::new(sql::REPLACE_OWN_SKILL, replace),
            Statement::required(sql::ADD_OWN_SKILL, add),
        ];
        match self.of(owner).transact(statements).await.map_err(&failed)? {
            Ok(rows) => {
                first(&rows, 1).map_err(&failed)?;
                digests(&rows[0]).map_err(failed)
            }
            Err(_) => Err(OwnSkillError::NoRoom),
        }
    }

    /// The skills of a user, by name. The trusted version of a name and a newer one are two entries.
    ///
    /// # Errors
    ///
    /// The database failed.
    pub async fn list(&self, owner: &str) -> Result<Vec<OwnSkill>, OwnSkillError> {
        let failed = failed("list skills");
        let rows =
            self.of(owner).query(Statement::new(sql::OWN_SKILLS, [id(owner)])).await.map_err(&failed)?;
        rows.iter().map(own_skill).collect::<Result<_, _>>().map_err(failed)
    }

    /// A skill of a user.
    ///
    /// # Errors
    ///
    /// The database failed.
    pub async fn get(&self, owner: &str, digest: &SkillDigest) -> Result<Option<OwnSkill>, OwnSkillError> {
        // A user has few.
        Ok(self.list(owner).await?.into_iter().find(|skill| skill.digest == *digest))
    }

    /// The skills of all users that no administrator trusts, the oldest first.
    ///
    /// # Errors
    ///
    /// The database failed.
    pub async fn waiting(&self, limit: usize) -> Result<Vec<OwnSkill>, OwnSkillError> {
        let failed = failed("list skills");
        let statement = Statement::new(sql::WAITING_SKILLS, [signed(limit as u64).into()]);
        let rows = self.0.query(statement).await.map_err(&failed)?;
        rows.iter().map(own_skill).collect::<Result<_, _>>().map_err(failed)
    }

    /// Trusts exactly this digest. It replaces the version of the same name that was trusted before. Returns the digests of
    /// what it replaced.
    ///
    /// # Errors
    ///
    /// [`OwnSkillError::NotFound`] if the user has no such skill, or the database failed.
    pub async fn trust(
        &self,
        owner: &str,
        digest: &SkillDigest,
        by: &str,
        by_admin: bool,
    ) -> Result<Vec<SkillDigest>, OwnSkillError> {
        let failed = failed("trust a skill");
        let [own, of_skill] = key(owner, digest);
        let trust = [own, of_skill, id(by), i64::from(by_admin).into()];
        let statements = vec![
            Statement::required(sql::TRUST_OWN_SKILL, trust),
            Statement::new(sql::REPLACE_TRUSTED, key(owner, digest)),
        ];
        match self.of(owner).transact(statements).await.map_err(&failed)? {
            Ok(rows) => digests(&rows[1]).map_err(failed),
            Err(_) => Err(OwnSkillError::NotFound),
        }
    }

    /// Trusts a digest no more.
    ///
    /// # Errors
    ///
    /// [`OwnSkillError::NotFound`] if the user has no such skill, or the database failed.
    pub async fn distrust(&self, owner: &str, digest: &SkillDigest) -> Result<(), OwnSkillError> {
        self.change(owner, digest, sql::DISTRUST_OWN_SKILL).await
    }

    /// Removes a skill.
    ///
    /// # Errors
    ///
    /// [`OwnSkillError::NotFound`] if the user has no such skill, or the database failed.
    pub async fn remove(&self, owner: &str, digest: &SkillDigest) -> Result<(), OwnSkillError> {
        self.change(owner, digest, sql::REMOVE_OWN_SKILL).await
    }

    async fn change(
        &self,
        owner: &str,
        digest: &SkillDigest,
        sql: &'static str,
    ) -> Result<(), OwnSkillError> {
        let statement = Statement::required(sql, key(owner, digest));
        let done = self.of(owner).transact(vec![statement]).await.map_err(failed("change a skill"))?;
        done.map(drop).map_err(|_| OwnSkillError::NotFound)
    }
}
