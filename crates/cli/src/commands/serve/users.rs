//! `prowess serve user`, `prowess serve token` and `prowess serve login`.

use std::io::Write as _;
use std::time::{Duration, SystemTime};

use anyhow::{Context as _, Result, anyhow, bail};
use clap::{Args, Subcommand};
use prowess_serve::view::time;
use prowess_serve::{AccessSecret, dollars, login_link, micro_dollars};
use prowess_store::serve::{
    AccountError, Accounts, Audit, DailyLimits, NewToken, Scope, Scopes, TokenInfo, TokenKind, User,
};
use serde_json::{Value, json};

use super::place::ServerPlace;
use super::{Command, price_is_missing, system_user};
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
    List {
        /// Print JSON
        #[arg(long)]
        json: bool,
    },
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
    /// Disable a user, revoke the tokens and sessions, and remove the links to OpenID Connect. The threads stay
    Remove {
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
        /// Print JSON
        #[arg(long)]
        json: bool,
    },
    /// Remove a link, and end the user's sessions in browsers
    Unlink {
        /// The name
        name: String,
        /// The id of the link
        link: String,
    },
    /// Set how much a user may use in a day. Limits that you leave out stay as they are
    Limit {
        /// The name
        name: String,
        /// The most tokens of models, or `default` for the server's limit
        #[arg(long, value_name = "N", value_parser = tokens_or_default)]
        daily_tokens: Option<LimitChange>,
        /// The most dollars that models may cost, or `default` for the server's limit; needs a price for the model
        #[arg(long, value_name = "DOLLARS", value_parser = amount_or_default)]
        daily_cost: Option<LimitChange>,
    },
}

/// A user's own limit, or none.
#[derive(Clone, Copy, Debug)]
pub(super) struct LimitChange(Option<u64>);

/// The word for a limit that the server sets.
const DEFAULT: &str = "default";

fn tokens_or_default(text: &str) -> Result<LimitChange, &'static str> {
    let wrong = "write a number of tokens, or `default` for the server's limit";
    let own = (text != DEFAULT).then(|| text.parse().map_err(|_| wrong));
    own.transpose().map(LimitChange)
}

fn amount_or_default(text: &str) -> Result<LimitChange, &'static str> {
    let wrong = "write an amount such as 2.50, or `default` for the server's limit";
    let own = (text != DEFAULT).then(|| micro_dollars(text).ok_or(wrong));
    own.transpose().map(LimitChange)
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
        /// Print JSON
        #[arg(long)]
        json: bool,
    },
    /// Revoke a token or a session
    Revoke {
        /// The user
        user: String,
        /// The id of the token
        token: String,
    },
}

/// Who administers a server that starts.
pub(super) enum Administrator {
    /// The first user, who gets a link at each start.
    First(User),
    /// Others.
    Others,
    /// Nobody: this administrator and all others are disabled.
    Disabled(User),
}

/// The administrator of a server that starts. A new server gets one with this name.
pub(super) async fn administrator(accounts: &Accounts, name: &str) -> Result<Administrator> {
    if let Some(user) = accounts.user(name).await?.filter(is_in_charge) {
        return Ok(Administrator::First(user));
    }
    let users = accounts.users().await?;
    if users.iter().any(is_in_charge) {
        return Ok(Administrator::Others);
    }
    // The first user, if there are several.
    let is_first = |user: &&User| user.name == name;
    let administrators = || users.iter().filter(|user| user.is_admin);
    if let Some(disabled) = administrators().find(is_first).or_else(|| administrators().next()) {
        return Ok(Administrator::Disabled(disabled.clone()));
    }
    if users.iter().any(|user| user.name == name) {
        return Ok(Administrator::Others);
    }
    // Others may have been added before the first start.
    match accounts.add_user(name, true).await {
        // Another process that starts now was first.
        Err(AccountError::NameTaken(_)) => match accounts.user(name).await?.filter(is_in_charge) {
            Some(user) => Ok(Administrator::First(user)),
            None => Ok(Administrator::Others),
        },
        added => Ok(Administrator::First(added?)),
    }
}

pub(super) async fn run(
    command: &Command,
    place: &ServerPlace,
    terminal: &mut Terminal,
) -> Result<CommandOutcome> {
    let (database, notes) = place.open_existing().await?;
    let (accounts, audit) = (database.accounts(), database.audit());
    let mut notes = notes;
    if let Some(noted) = &notes
        && !noted.is_of(&accounts).await?
    {
        notes = None;
    }
    match command {
        Command::User { command } => {
            let unpriced = notes.as_ref().and_then(|notes| notes.unpriced_model.as_deref());
            user(command, place, &accounts, &audit, unpriced, terminal).await?;
        }
        Command::Token { command } => token(command, place, &accounts, &audit, terminal).await?,
        Command::Login { name, url } => {
            let user = enabled(place, &accounts, name).await?;
            let link = login_link(&accounts, &user.id).await.map_err(|error| anyhow!(error))?;
            note(&audit, "make login link", &user, json!({})).await?;
            let noted = notes.map(|notes| notes.url);
            let is_known = url.is_some() || noted.is_some();
            let url = url.clone().or(noted).unwrap_or_else(|| USUAL_URL.to_owned());
            writeln!(terminal, "{}{link}", printable(&url))?;
            if !is_known {
                terminal.flush()?;
                writeln!(
                    anstream::stderr(),
                    "warning: the address of the server is not known here, so the link has the usual one; name it with --url"
                )?;
            }
        }
    }
    database.close().await.map_err(|error| anyhow!("{error}"))?;
    Ok(CommandOutcome::Done)
}

async fn user(
    command: &UserCommand,
    place: &ServerPlace,
    accounts: &Accounts,
    audit: &Audit,
    unpriced: Option<&str>,
    terminal: &mut Terminal,
) -> Result<()> {
    match command {
        UserCommand::Add { name, admin } => {
            check_name(name)?;
            let user = accounts.add_user(name, *admin).await?;
            let detail = json!({"name": user.name, "is_admin": user.is_admin});
            note(audit, "add user", &user, detail).await?;
            let login = place.command(&format!("serve login {}", quote_if_needed(&user.name)));
            writeln!(terminal, "added `{}`; {login} prints a link to sign in", user.name)?;
        }
        UserCommand::List { json: true } => {
            terminal.json(&accounts.users().await?.iter().map(user_json).collect::<Vec<_>>())?;
        }
        UserCommand::List { json: false } => {
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
            terminal.headed_table(&["NAME", "KIND", "ADDED", "DAILY LIMITS", "ID"], rows)?;
        }
        UserCommand::Disable { name } | UserCommand::Enable { name } => {
            let is_disabled = matches!(command, UserCommand::Disable { .. });
            let user = found(place, accounts, name).await?;
            if is_disabled {
                check_other_administrator(accounts, &user).await?;
            }
            accounts.set_disabled(&user.id, is_disabled).await?;
            note(audit, "change user", &user, json!({"is_disabled": is_disabled})).await?;
            let done = if is_disabled { "disabled" } else { "enabled" };
            writeln!(terminal, "{done} `{}`", printable(&user.name))?;
        }
        UserCommand::Remove { name } => {
            let user = found(place, accounts, name).await?;
            check_other_administrator(accounts, &user).await?;
            accounts.set_disabled(&user.id, true).await?;
            for token in accounts.tokens(&user.id).await? {
                accounts.revoke(&user.id, &token.id).await?;
            }
            for link in accounts.identities(&user.id).await? {
                accounts.remove_identity(&user.id, &link.id).await?;
            }
            note(audit, "remove user", &user, json!({"name": user.name})).await?;
            let enable = place.command(&format!("serve user enable {}", quote_if_needed(&user.name)));
            writeln!(
                terminal,
                "removed `{}`: the tokens, sessions and links are gone. The threads and files stay, and nobody else sees them. \
                 The name stays taken; {enable} brings the user back",
                printable(&user.name)
            )?;
        }
        UserCommand::Link { name } => {
            let user = enabled(place, accounts, name).await?;
            let link = identity_link(accounts, &user).await?;
            note(audit, "add identity link", &user, json!({})).await?;
            writeln!(terminal, "{link}")?;
        }
        UserCommand::Links { name, json } => {
            let users = match name {
                Some(name) => vec![found(place, accounts, name).await?],
                None => accounts.users().await?,
            };
            let mut rows = Vec::new();
            let mut listed = Vec::new();
            for user in users {
                for link in accounts.identities(&user.id).await? {
                    let used = link.used.map_or_else(|| "never".to_owned(), ago);
                    listed.push(json!({
                        "id": link.id,
                        "user": user.name,
                        "issuer": link.issuer,
                        "subject": link.subject,
                        "created": time(link.created),
                        "used": link.used.map(time),
                    }));
                    rows.push(vec![
                        printable(&user.name),
                        printable(&link.issuer),
                        printable(&link.subject),
                        ago(link.created),
                        used,
                        link.id,
                    ]);
                }
            }
            if *json {
                terminal.json(&listed)?;
            } else {
                terminal.headed_table(&["USER", "ISSUER", "SUBJECT", "ADDED", "USED", "ID"], rows)?;
            }
        }
        UserCommand::Unlink { name, link } => {
            let user = found(place, accounts, name).await?;
            if !accounts.remove_identity(&user.id, link).await? {
                let word = quote_if_needed(&user.name);
                let links = place.command(&format!("serve user links {word}"));
                bail!("`{}` has no link with this id; {links} shows them", printable(&user.name));
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
        UserCommand::Limit { name, daily_tokens, daily_cost } => {
            let user = found(place, accounts, name).await?;
            let mut daily = user.daily;
            if let Some(LimitChange(tokens)) = daily_tokens {
                daily.tokens = *tokens;
            }
            if let Some(LimitChange(cost)) = daily_cost {
                daily.micro_dollars = *cost;
            }
            if daily_tokens.is_some() || daily_cost.is_some() {
                accounts.set_daily(&user.id, daily).await?;
                let cost = daily.micro_dollars.map(dollars);
                note(audit, "change user", &user, json!({"daily": {"tokens": daily.tokens, "cost": cost}}))
                    .await?;
            }
            let name = printable(&user.name);
            match limits(daily) {
                Some(limits) => writeln!(terminal, "`{name}` may use {limits} a day")?,
                None => writeln!(terminal, "`{name}` has no limits of its own: those of the server apply")?,
            }
            if let (Some(_), Some(model)) = (daily.micro_dollars, unpriced) {
                terminal.flush()?;
                writeln!(
                    anstream::stderr(),
                    "warning: {}; then restart the server. Until then it refuses every message of `{name}`",
                    price_is_missing(model)
                )?;
            }
        }
    }
    Ok(())
}

async fn token(
    command: &TokenCommand,
    place: &ServerPlace,
    accounts: &Accounts,
    audit: &Audit,
    terminal: &mut Terminal,
) -> Result<()> {
    match command {
        TokenCommand::Add { user, name, scopes, days } => {
            let user = enabled(place, accounts, user).await?;
            let secret = AccessSecret::random().map_err(|error| anyhow!("{error}"))?;
            let token = NewToken {
                kind: TokenKind::Token,
                name: name.clone(),
                scopes: parsed(scopes)?,
                digest: secret.digest(),
                expires: days.map(|days| Duration::from_secs(u64::from(days) * 24 * 3600)),
            };
            let is_in_vain = token.scopes.contains(Scope::Admin) && !user.is_admin;
            let token = accounts.add_token(&user.id, token).await?;
            note(audit, "add token", &user, json!({"token": token.id, "name": token.name})).await?;
            writeln!(terminal, "{}", secret.expose())?;
            terminal.flush()?;
            writeln!(anstream::stderr(), "This token is not shown again.")?;
            if is_in_vain {
                writeln!(
                    anstream::stderr(),
                    "warning: `{}` is no administrator, so the scope `admin` allows nothing",
                    printable(&user.name)
                )?;
            }
        }
        TokenCommand::List { user, json } => {
            let user = found(place, accounts, user).await?;
            let tokens = accounts.tokens(&user.id).await?;
            if *json {
                terminal.json(&tokens.iter().map(token_json).collect::<Vec<_>>())?;
                return Ok(());
            }
            let rows: Vec<_> = tokens
                .iter()
                .map(|token| {
                    let scopes: Vec<String> = token.scopes.iter().map(|scope| scope.to_string()).collect();
                    let used = token.used.map_or_else(|| "never".to_owned(), ago);
                    let ends = token.expires.map_or_else(|| "never".to_owned(), day);
                    let scopes = scopes.join(" ");
                    vec![printable(&token.name), kind(token).to_owned(), scopes, used, ends, token.id.clone()]
                })
                .collect();
            terminal.headed_table(&["NAME", "KIND", "SCOPES", "USED", "ENDS", "ID"], rows)?;
        }
        TokenCommand::Revoke { user, token } => {
            let user = found(place, accounts, user).await?;
            if !accounts.revoke(&user.id, token).await? {
                let list = place.command(&format!("serve token list {}", quote_if_needed(&user.name)));
                bail!("`{}` has no token with this id; {list} shows them", printable(&user.name));
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
    Ok(audit.note(Audit::COMMAND_LINE, action, None, &system_user::noted(detail)).await?)
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

/// The user with this name, in whatever case, or with this id.
async fn found(place: &ServerPlace, accounts: &Accounts, name: &str) -> Result<User> {
    if let Some(user) = accounts.user(name).await? {
        return Ok(user);
    }
    let folded = name.to_lowercase();
    let same = accounts.users().await?.into_iter().find(|user| user.name.to_lowercase() == folded);
    same.with_context(|| {
        format!("there is no user `{}`; {} shows all", printable(name), place.command("serve user list"))
    })
}

/// The user with this name, who must not be disabled.
async fn enabled(place: &ServerPlace, accounts: &Accounts, name: &str) -> Result<User> {
    let user = found(place, accounts, name).await?;
    if user.is_disabled {
        bail!("the user `{}` is disabled", printable(name));
    }
    Ok(user)
}

/// Checks that somebody can manage users if this user no longer can.
async fn check_other_administrator(accounts: &Accounts, user: &User) -> Result<()> {
    let is_other = |other: &User| other.id != user.id && is_in_charge(other);
    if is_in_charge(user) && !accounts.users().await?.iter().any(is_other) {
        bail!("`{}` is the only administrator: add another one first", printable(&user.name));
    }
    Ok(())
}

/// Whether a user can manage others.
fn is_in_charge(user: &User) -> bool {
    user.is_admin && !user.is_disabled
}

/// A user as the API shows it.
fn user_json(user: &User) -> Value {
    json!({
        "id": user.id,
        "name": user.name,
        "is_admin": user.is_admin,
        "is_disabled": user.is_disabled,
        "created": time(user.created),
        "daily": {"tokens": user.daily.tokens, "cost": user.daily.micro_dollars.map(dollars)},
    })
}

/// A token as the API shows it.
fn token_json(token: &TokenInfo) -> Value {
    json!({
        "id": token.id,
        "kind": kind(token),
        "name": token.name,
        "scopes": token.scopes.iter().map(|scope| scope.to_string()).collect::<Vec<_>>(),
        "created": time(token.created),
        "expires": token.expires.map(time),
        "used": token.used.map(time),
    })
}

fn kind(token: &TokenInfo) -> &'static str {
    if token.kind == TokenKind::Session { "session" } else { "token" }
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
