//! `prowess serve user`, `prowess serve token` and `prowess serve login`.

use std::io::Write as _;
use std::time::{Duration, SystemTime};

use anyhow::{Context as _, Result, anyhow, bail};
use clap::{Args, Subcommand};
use prowess_serve::{AccessSecret, dollars, login_link, micro_dollars};
use prowess_store::serve::{Accounts, Audit, DailyLimits, NewToken, Scope, Scopes, TokenKind, User};
use serde_json::{Value, json};

use super::place::ServerPlace;
use super::{Command, system_user};
use crate::commands::CommandOutcome;
use crate::config::{Config, OfProject};
use crate::shell::quote_if_needed;
use crate::terminal::{Terminal, printable};
use crate::threads::ago;

/// The address of a server that noted none.
const USUAL_URL: &str = "http://127.0.0.1:8930";

#[derive(Debug, Subcommand)]
pub(super) enum UserCommand {
    /// Add a user
    Add {
        /// The name
        name: String,
        /// Make the user an administrator, who can add users and see the audit log
        #[arg(long)]
        admin: bool,
    },
    /// List the users
    List,
    /// Refuse the tokens and sessions of a user
    Disable {
        /// The name
        name: String,
    },
    /// Accept the tokens and sessions of a user again
    Enable {
        /// The name
        name: String,
    },
    /// Print a link, which works once within a day: whoever opens it and signs in with OpenID Connect is this user from then on
    Link {
        /// The name
        name: String,
    },
    /// List the people of OpenID Connect issuers who are linked to users
    Links {
        /// The name of one user
        name: Option<String>,
    },
    /// Remove a link, and end the user's sessions in browsers
    Unlink {
        /// The name
        name: String,
        /// The id of the link
        link: String,
    },
    /// Set how much a user may use in a day. The server's limits apply to anything you leave out
    Limit {
        /// The name
        name: String,
        #[command(flatten)]
        daily: DailyArgs,
    },
}

/// How much a user may use in a day.
#[derive(Args, Clone, Copy, Debug)]
pub(super) struct DailyArgs {
    /// The most tokens of models that a user may use in a day. The limit resets at midnight UTC
    #[arg(long, value_name = "N")]
    daily_tokens: Option<u64>,
    /// The most dollars that a user may spend on models in a day; needs a price for the model in prowess.toml
    #[arg(long, value_name = "DOLLARS", value_parser = amount)]
    daily_cost: Option<u64>,
}

fn amount(text: &str) -> Result<u64, &'static str> {
    micro_dollars(text).ok_or("write an amount such as 2.50")
}

impl From<DailyArgs> for DailyLimits {
    fn from(args: DailyArgs) -> Self {
        Self { tokens: args.daily_tokens, micro_dollars: args.daily_cost }
    }
}

#[derive(Debug, Subcommand)]
pub(super) enum TokenCommand {
    /// Make a token, and print it once
    Add {
        /// The user
        user: String,
        /// What the token is for
        #[arg(long, value_name = "NAME", default_value = "token")]
        name: String,
        /// What the token may do: read, write, approve or admin; can be repeated [default: read, write and approve]
        #[arg(long = "scope", value_name = "SCOPE")]
        scopes: Vec<String>,
        /// After how many days the token ends
        #[arg(long, value_name = "DAYS", value_parser = clap::value_parser!(u32).range(1..))]
        days: Option<u32>,
    },
    /// List the tokens and sessions of a user
    List {
        /// The user
        user: String,
    },
    /// Revoke a token or a session
    Revoke {
        /// The user
        user: String,
        /// The id of the token
        token: String,
    },
}

/// The user who administers a new server. `None` if the server has users, and this is none of them.
pub(super) async fn first_user(accounts: &Accounts, name: &str) -> Result<Option<User>> {
    if let Some(user) = accounts.user(name).await? {
        return Ok(Some(user).filter(|user| user.is_admin && !user.is_disabled));
    }
    // Others may have been added before the first start.
    if accounts.users().await?.iter().all(|user| !user.is_admin) {
        return Ok(Some(accounts.add_user(name, true).await?));
    }
    Ok(None)
}

pub(super) async fn run(
    command: &Command,
    place: &ServerPlace,
    terminal: &mut Terminal,
) -> Result<CommandOutcome> {
    let (database, notes) = place.open_existing().await?;
    let (accounts, audit) = (database.accounts(), database.audit());
    match command {
        Command::User { command } => user(command, &accounts, &audit, terminal).await?,
        Command::Token { command } => token(command, &accounts, &audit, terminal).await?,
        Command::Login { name, url } => {
            let user = found(&accounts, name).await?;
            if user.is_disabled {
                bail!("the user `{}` is disabled", printable(name));
            }
            let link = login_link(&accounts, &user.id).await.map_err(|error| anyhow!(error))?;
            note(&audit, "make login link", &user, json!({})).await?;
            let noted = notes.map(|notes| notes.url);
            let url = url.clone().or(noted).unwrap_or_else(|| USUAL_URL.to_owned());
            writeln!(terminal, "{}{link}", printable(&url))?;
        }
    }
    database.close().await.map_err(|error| anyhow!("{error}"))?;
    Ok(CommandOutcome::Done)
}

async fn user(
    command: &UserCommand,
    accounts: &Accounts,
    audit: &Audit,
    terminal: &mut Terminal,
) -> Result<()> {
    match command {
        UserCommand::Add { name, admin } => {
            check_name(name)?;
            let user = accounts.add_user(name, *admin).await?;
            let detail = json!({"name": user.name, "is_admin": user.is_admin});
            note(audit, "add user", &user, detail).await?;
            let word = quote_if_needed(&user.name);
            writeln!(
                terminal,
                "added `{}`; `prowess serve login {word}` prints a link to sign in",
                user.name
            )?;
        }
        UserCommand::List => {
            let row = |user: &User| {
                let kind = match (user.is_disabled, user.is_admin) {
                    (true, _) => "disabled",
                    (false, true) => "admin",
                    (false, false) => "user",
                };
                let limits = limits(user.daily).unwrap_or_else(|| "-".to_owned());
                vec![printable(&user.name), kind.to_owned(), ago(user.created), limits, user.id.clone()]
            };
            let rows: Vec<_> = accounts.users().await?.iter().map(row).collect();
            terminal.table(&["NAME", "KIND", "ADDED", "DAILY LIMITS", "ID"], &rows)?;
        }
        UserCommand::Disable { name } | UserCommand::Enable { name } => {
            let is_disabled = matches!(command, UserCommand::Disable { .. });
            let user = found(accounts, name).await?;
            accounts.set_disabled(&user.id, is_disabled).await?;
            note(audit, "change user", &user, json!({"is_disabled": is_disabled})).await?;
            let done = if is_disabled { "disabled" } else { "enabled" };
            writeln!(terminal, "{done} `{}`", printable(&user.name))?;
        }
        UserCommand::Link { name } => {
            let user = found(accounts, name).await?;
            if user.is_disabled {
                bail!("the user `{}` is disabled", printable(name));
            }
            let link = identity_link(accounts, &user).await?;
            note(audit, "add identity link", &user, json!({})).await?;
            writeln!(terminal, "{link}")?;
        }
        UserCommand::Links { name } => {
            let users = match name {
                Some(name) => vec![found(accounts, name).await?],
                None => accounts.users().await?,
            };
            let mut rows = Vec::new();
            for user in users {
                rows.extend(accounts.identities(&user.id).await?.into_iter().map(|link| {
                    let used = link.used.map_or_else(|| "never".to_owned(), ago);
                    vec![
                        printable(&user.name),
                        printable(&link.issuer),
                        printable(&link.subject),
                        ago(link.created),
                        used,
                        link.id,
                    ]
                }));
            }
            terminal.table(&["USER", "ISSUER", "SUBJECT", "ADDED", "USED", "ID"], &rows)?;
        }
        UserCommand::Unlink { name, link } => {
            let user = found(accounts, name).await?;
            if !accounts.remove_identity(&user.id, link).await? {
                bail!(
                    "`{}` has no link with this id; `prowess serve user links` shows them",
                    printable(&user.name)
                );
            }
            note(audit, "unlink identity", &user, json!({"link": link})).await?;
            // They may have begun by this link.
            for token in accounts.tokens(&user.id).await? {
                if token.kind == TokenKind::Session {
                    accounts.revoke(&user.id, &token.id).await?;
                }
            }
            writeln!(terminal, "removed the link, and ended the sessions of `{}`", printable(&user.name))?;
        }
        UserCommand::Limit { name, daily } => {
            let user = found(accounts, name).await?;
            let daily = DailyLimits::from(*daily);
            accounts.set_daily(&user.id, daily).await?;
            let cost = daily.micro_dollars.map(dollars);
            note(audit, "change user", &user, json!({"daily": {"tokens": daily.tokens, "cost": cost}}))
                .await?;
            let name = printable(&user.name);
            match limits(daily) {
                Some(limits) => writeln!(terminal, "limited `{name}` to {limits} a day")?,
                None => writeln!(terminal, "removed the limits of `{name}`: those of the server apply")?,
            }
        }
    }
    Ok(())
}

async fn token(
    command: &TokenCommand,
    accounts: &Accounts,
    audit: &Audit,
    terminal: &mut Terminal,
) -> Result<()> {
    match command {
        TokenCommand::Add { user, name, scopes, days } => {
            let user = found(accounts, user).await?;
            let secret = AccessSecret::random().map_err(|error| anyhow!("{error}"))?;
            let token = NewToken {
                kind: TokenKind::Token,
                name: name.clone(),
                scopes: parsed(scopes)?,
                digest: secret.digest(),
                expires: days.map(|days| Duration::from_secs(u64::from(days) * 24 * 3600)),
            };
            let token = accounts.add_token(&user.id, token).await?;
            note(audit, "add token", &user, json!({"token": token.id, "name": token.name})).await?;
            writeln!(terminal, "{}", secret.expose())?;
            writeln!(anstream::stderr(), "This token is not shown again.")?;
        }
        TokenCommand::List { user } => {
            let user = found(accounts, user).await?;
            let tokens = accounts.tokens(&user.id).await?;
            let rows: Vec<_> = tokens
                .iter()
                .map(|token| {
                    let kind = if token.kind == TokenKind::Session { "session" } else { "token" };
                    let scopes: Vec<String> = token.scopes.iter().map(|scope| scope.to_string()).collect();
                    let used = token.used.map_or_else(|| "never".to_owned(), ago);
                    let ends = token.expires.map_or_else(|| "never".to_owned(), day);
                    let scopes = scopes.join(" ");
                    vec![printable(&token.name), kind.to_owned(), scopes, used, ends, token.id.clone()]
                })
                .collect();
            terminal.table(&["NAME", "KIND", "SCOPES", "USED", "ENDS", "ID"], &rows)?;
        }
        TokenCommand::Revoke { user, token } => {
            let user = found(accounts, user).await?;
            if !accounts.revoke(&user.id, token).await? {
                let word = quote_if_needed(&printable(&user.name));
                bail!(
                    "`{}` has no token with this id; `prowess serve token list {word}` shows them",
                    printable(&user.name)
                );
            }
            note(audit, "revoke token", &user, json!({"token": token})).await?;
            writeln!(terminal, "revoked")?;
        }
    }
    Ok(())
}

/// Notes in the audit log what was done to a user here.
pub(super) async fn note(audit: &Audit, action: &str, user: &User, mut detail: Value) -> Result<()> {
    detail["user"] = json!(user.id);
    detail["system_user"] = json!(system_user::name());
    if let Some(before) = system_user::before_sudo() {
        detail["sudo_user"] = json!(before);
    }
    Ok(audit.note(Audit::COMMAND_LINE, action, None, &detail).await?)
}

/// A user's own limits, for people.
fn limits(daily: DailyLimits) -> Option<String> {
    let tokens = daily.tokens.map(|tokens| format!("{tokens} tokens"));
    let cost = daily.micro_dollars.map(|micros| format!("${}", dollars(micros)));
    let limits: Vec<String> = tokens.into_iter().chain(cost).collect();
    (!limits.is_empty()).then(|| limits.join(" and "))
}

/// A day in UTC.
fn day(at: SystemTime) -> String {
    jiff::Timestamp::try_from(at)
        .map_or_else(|_| "never".to_owned(), |at| at.strftime("%Y-%m-%d").to_string())
}

/// The address by which a person of the configured issuer is linked to a user.
async fn identity_link(accounts: &Accounts, user: &User) -> Result<String> {
    let config = Config::load(&OfProject::Nothing, &[])?;
    let settings = &config.settings.serve.oidc;
    let Some(url) = &settings.public_url else {
        bail!("OpenID Connect is not set up: add [serve.oidc] to your prowess.toml; docs/serving.md says how")
    };
    #[cfg(feature = "oidc")]
    {
        let path = prowess_serve::identity_link(accounts, &user.id).await.map_err(|error| anyhow!(error))?;
        Ok(format!("{}{path}", url.trim_end_matches('/')))
    }
    #[cfg(not(feature = "oidc"))]
    {
        let _ = (accounts, user, url);
        crate::serving::check_oidc(settings)?;
        bail!("OpenID Connect is not set up")
    }
}

async fn found(accounts: &Accounts, name: &str) -> Result<User> {
    let user = accounts.user(name).await?;
    user.with_context(|| {
        format!("there is no user `{}`; `prowess serve user list` shows all", printable(name))
    })
}

fn parsed(scopes: &[String]) -> Result<Scopes> {
    if scopes.is_empty() {
        return Ok(Scopes::from([Scope::Read, Scope::Write, Scope::Approve]));
    }
    let parse = |scope: &String| {
        scope
            .parse::<Scope>()
            .map_err(|_| anyhow!("`{}` is not a scope; use read, write, approve or admin", printable(scope)))
    };
    scopes.iter().map(parse).collect()
}

fn check_name(name: &str) -> Result<()> {
    let is_plain = |c: char| c.is_alphanumeric() || matches!(c, '.' | '-' | '_' | '@' | ' ');
    if name.trim() != name || name.is_empty() || name.len() > 100 || !name.chars().all(is_plain) {
        bail!("a name has up to 100 letters, digits, blanks inside, and `.`, `-`, `_`, `@`");
    }
    Ok(())
}
