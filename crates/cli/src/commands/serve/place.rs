//! Where a server keeps its data, and how the commands beside it find the same place.

use std::io::Write as _;
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};

use anyhow::{Context as _, Result, anyhow, bail};
use clap::Args;
use prowess_store::Database;
use prowess_store::serve::Accounts;
use serde::{Deserialize, Serialize};

use crate::artifacts::directory_option;
use crate::database::{DatabaseArgs, DatabaseHint};
use crate::directories;
use crate::shell::quote_if_needed;
use crate::terminal::printable;

/// The directory of a server, below the state directory.
const DATA: &str = "serve";
/// The database in that directory, unless another one is named.
const DATABASE: &str = "server.db";
/// What a server notes in that directory.
const NOTES: &str = "server.json";
/// The longest notes that are read.
const MAX_NOTES: u64 = 64 << 10;

/// Where a server keeps threads, users and files.
#[derive(Args, Clone, Debug)]
pub(crate) struct ServerPlace {
    /// The directory with the server's files, and the database unless --database names one [default: ~/.local/state/prowess/serve]
    #[arg(long, value_name = "DIR", global = true, help_heading = "Storage")]
    pub(super) data: Option<PathBuf>,
    #[command(flatten)]
    database: DatabaseArgs,
}

/// What a server notes in its directory for commands such as `prowess serve login`. It has no secret.
#[derive(Clone, Debug, Deserialize, PartialEq, Eq, Serialize)]
pub(crate) struct ServerNotes {
    /// The address of the server, as browsers reach it.
    pub(super) url: String,
    /// Where its database is.
    pub(super) database: NotedDatabase,
    /// The id of the first user in the database, which no other database has.
    #[serde(default)]
    pub(super) first_user: Option<String>,
    /// The model, if the server knows no price for it.
    #[serde(default)]
    pub(super) unpriced_model: Option<String>,
}

#[derive(Clone, Copy, Debug, Deserialize, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub(super) enum NotedDatabase {
    /// In the directory.
    File,
    /// In PostgreSQL.
    Postgres,
}

impl ServerNotes {
    /// The notes in a directory, if there are any that can be read.
    pub(super) fn read(directory: &Path) -> Option<Self> {
        use std::io::Read as _;
        let mut bytes = Vec::new();
        let file = std::fs::File::open(directory.join(NOTES)).ok()?;
        file.take(MAX_NOTES).read_to_end(&mut bytes).ok()?;
        serde_json::from_slice(&bytes).ok()
    }

    /// Whether they are about the server of this database. Another one may have been started with the same directory.
    pub(super) async fn is_of(&self, accounts: &Accounts) -> Result<bool> {
        // A file is in the directory of the notes. Earlier versions noted no user.
        Ok(match &self.first_user {
            Some(first) => first_user(accounts).await?.as_ref() == Some(first),
            None => self.database == NotedDatabase::File,
        })
    }

    /// Writes them. A reader sees the old notes or the new ones.
    pub(super) fn write(&self, directory: &Path) -> Result<()> {
        let path = directory.join(NOTES);
        let write = || -> Result<()> {
            let mut file = tempfile::NamedTempFile::new_in(directory)?;
            file.write_all(&serde_json::to_vec(self)?)?;
            file.persist(&path)?;
            Ok(())
        };
        write().with_context(|| format!("cannot write {}", path.display()))
    }
}

/// The id of the first user in a database.
pub(super) async fn first_user(accounts: &Accounts) -> Result<Option<String>> {
    Ok(accounts.users().await?.into_iter().next().map(|user| user.id))
}

impl ServerPlace {
    /// A command about this server, as somebody can type it.
    pub(crate) fn command(&self, words: &str) -> String {
        let data = self.data.as_deref().map(|data| directory_option("--data", data)).unwrap_or_default();
        let (database, also) = match self.database.hint() {
            DatabaseHint::Nothing => (String::new(), ""),
            DatabaseHint::Option(option) => (option, ""),
            DatabaseHint::Secret => (String::new(), " with the same --database"),
        };
        format!("`prowess {words}{data}{database}`{also}")
    }

    fn path(&self) -> Result<PathBuf> {
        match &self.data {
            Some(data) => Ok(std::path::absolute(data)?),
            None => Ok(directories::state()
                .context("there is no home directory: set HOME, or use --data")?
                .join(DATA)),
        }
    }

    /// The directory of a server that starts. Only this user can read it.
    pub(super) fn directory(&self) -> Result<PathBuf> {
        let directory = self.path()?;
        directories::make_directory(&directory)
            .with_context(|| format!("cannot create {}; choose another --data DIR", directory.display()))?;
        check_own(&directory, "use another directory with --data")?;
        Ok(directory)
    }

    /// Opens the database of a server that starts.
    pub(super) async fn open(&self, directory: &Path) -> Result<(Database, NotedDatabase)> {
        match self.database.open().await? {
            Some(database) => Ok((database, NotedDatabase::Postgres)),
            None => Ok((open_file(directory).await?, NotedDatabase::File)),
        }
    }

    /// Opens the database of a server that was started before, and returns it with the notes in the directory. It makes no new
    /// file: users in it would never reach the server. In PostgreSQL it makes the tables, as the role that owns them must do
    /// for a server whose role cannot.
    pub(crate) async fn open_existing(&self) -> Result<(Database, Option<ServerNotes>)> {
        let directory = self.path()?;
        let shown = quote_if_needed(&printable(&directory.to_string_lossy()));
        let is_there = directory.symlink_metadata().is_ok();
        if let Some(database) = self.database.open().await? {
            let is_own = is_there && check_own(&directory, "").is_ok();
            let notes = is_own.then(|| ServerNotes::read(&directory)).flatten();
            return Ok((database, notes.filter(|notes| notes.database == NotedDatabase::Postgres)));
        }
        if is_there {
            check_own(&directory, "run this command as that user, for example with `sudo -u USER`")?;
        }
        let notes = ServerNotes::read(&directory);
        if notes.as_ref().is_some_and(|notes| notes.database == NotedDatabase::Postgres) {
            bail!(
                "the server in {shown} has its database in PostgreSQL: name it with --database or PROWESS_DATABASE, as the server does"
            );
        }
        if !directory.join(DATABASE).exists() {
            bail!(
                "there is no server in {shown}: start it once, or name --data or --database as the server does"
            );
        }
        Ok((open_file(&directory).await?, notes))
    }
}

async fn open_file(directory: &Path) -> Result<Database> {
    let opened = Database::open(&directory.join(DATABASE).to_string_lossy()).await;
    opened.map_err(|error| anyhow!("{error}"))
}

/// Checks that a directory belongs to this user alone.
fn check_own(directory: &Path, remedy: &str) -> Result<()> {
    let found = std::fs::metadata(directory);
    let found = found.with_context(|| format!("{} cannot be read", directory.display()))?;
    if found.uid() != rustix::process::geteuid().as_raw() {
        bail!("{} belongs to another user: {remedy}", directory.display());
    }
    // A link, or a directory that others may write to.
    directories::check_owned(directory).map_err(|_| {
        anyhow!(
            "{} must be a directory that only you can write to: use `chmod 700`, or --data",
            directory.display()
        )
    })
}
