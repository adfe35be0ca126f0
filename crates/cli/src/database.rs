//! The option `--database`: where threads, approvals and users are.

use anyhow::{Result, anyhow, bail};
use clap::Args;
use prowess_store::{Database, DatabaseError};

use crate::shell::quote_if_needed;

/// The database that is used instead of files of this user.
#[derive(Args, Clone, Debug, Default)]
#[command(next_help_heading = "Storage")]
pub(crate) struct DatabaseArgs {
    /// Keep threads and approvals in PostgreSQL: postgres://USER:PASSWORD@HOST/NAME. The variable PROWESS_DATABASE does the same, and shows no password in the list of processes
    #[arg(long, value_name = "URL", env = VARIABLE, hide_env_values = true, global = true)]
    database: Option<String>,
}

/// The variable that names the database, too.
const VARIABLE: &str = "PROWESS_DATABASE";

/// How a URL of PostgreSQL begins.
const SCHEMES: [&str; 2] = ["postgres", "postgresql"];

/// The database, for command lines that prowess prints.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum DatabaseHint {
    /// The command line works without it: there is none, or it is in a variable.
    Nothing,
    /// An option that follows the other words.
    Option(String),
    /// A person must add the option, because it has a secret.
    Secret,
}

impl DatabaseArgs {
    /// The database, for command lines that prowess prints.
    pub(crate) fn hint(&self) -> DatabaseHint {
        let Some(url) = &self.database else { return DatabaseHint::Nothing };
        if std::env::var(VARIABLE).is_ok_and(|value| value == *url) {
            return DatabaseHint::Nothing;
        }
        if has_password(url) {
            return DatabaseHint::Secret;
        }
        DatabaseHint::Option(format!(" --database {}", quote_if_needed(url)))
    }

    /// Opens the database, if one is named.
    pub(crate) async fn open(&self) -> Result<Option<Database>> {
        let Some(url) = &self.database else { return Ok(None) };
        // A file is not for several processes with different versions of prowess, and has its usual place.
        let is_known = url
            .split_once("://")
            .is_some_and(|(scheme, _)| SCHEMES.iter().any(|known| scheme.eq_ignore_ascii_case(known)));
        if !is_known {
            bail!(
                "--database needs a URL of PostgreSQL: postgres://USER:PASSWORD@HOST/NAME. Without it, prowess uses a file of its own"
            );
        }
        let opened = Database::open(url).await;
        Ok(Some(opened.map_err(|error| {
            let hint = match &error {
                DatabaseError::Unreachable { .. } => {
                    "; check that PostgreSQL runs there, and the URL in --database or PROWESS_DATABASE"
                }
                DatabaseError::Refused { .. } => {
                    "; check the user and the password in --database or PROWESS_DATABASE"
                }
                _ => "",
            };
            anyhow!("{error}{hint}")
        })?))
    }
}

/// Whether a URL has a password before its host or among its parameters.
fn has_password(url: &str) -> bool {
    let rest = url.split_once("://").map_or(url, |(_, rest)| rest);
    let (place, parameters) = rest.split_once('?').unwrap_or((rest, ""));
    let user = place.rsplit_once('@').map_or("", |(user, _)| user);
    user.contains(':') || parameters.to_ascii_lowercase().contains("password")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_hint_has_a_password() {
        let hint = |url: &str| DatabaseArgs { database: Some(url.to_owned()) }.hint();
        let plain = "postgres://me@db:5432/prowess?sslmode=require";
        assert_eq!(hint(plain), DatabaseHint::Option(format!(" --database '{plain}'")));
        for secret in
            ["postgres://me:secret@db/x", "postgres://me@db/x?Password=secret", "postgres://me:a@b@db/x"]
        {
            assert_eq!(hint(secret), DatabaseHint::Secret, "{secret}");
        }
    }
}
