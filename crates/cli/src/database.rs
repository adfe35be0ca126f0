//! The option `--database`: where threads, approvals and users are.

use anyhow::{Result, anyhow, bail};
use clap::Args;
use prowess_store::{Database, DatabaseError};

/// The database that is used instead of files of this user.
#[derive(Args, Clone, Debug, Default)]
#[command(next_help_heading = "Storage")]
pub(crate) struct DatabaseArgs {
    /// Keep threads and approvals in PostgreSQL: postgres://USER:PASSWORD@HOST/NAME. The variable PROWESS_DATABASE does the same, and shows no password in the list of processes
    #[arg(long, value_name = "URL", env = "PROWESS_DATABASE", hide_env_values = true, global = true)]
    database: Option<String>,
}

impl DatabaseArgs {
    /// Opens the database, if one is named.
    pub(crate) async fn open(&self) -> Result<Option<Database>> {
        let Some(url) = &self.database else { return Ok(None) };
        // A file is not for several processes with different versions of prowess, and has its usual place.
        if !url.contains("://") {
            bail!("--database needs a URL: postgres://USER:PASSWORD@HOST/NAME");
        }
        Ok(Some(Database::open(url).await.map_err(|error| match &error {
            DatabaseError::Unreachable { .. } => {
                anyhow!(
                    "{error}\ncheck that PostgreSQL runs there, and the URL in --database or PROWESS_DATABASE"
                )
            }
            error => anyhow!("{error}"),
        })?))
    }
}
