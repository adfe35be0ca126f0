//! Whose a person of the issuer is: the user to whom they are linked, or a new one.

use prowess_store::serve::{AccountError, AuditError, Identity, User};
use serde_json::{Map, Value, json};

use super::issuer::Person;
use super::options::{Admits, OidcOptions};
use crate::api::ApiError;
use crate::app::App;

/// The longest name of a new user, in characters, before a number that makes it unique.
const MAX_NAME: usize = 60;
/// How many names are tried.
const MAX_TRIES: usize = 50;
/// Names that a new user never gets, because others would trust them.
const RESERVED: [&str; 5] = ["admin", "administrator", "prowess", "root", "system"];

/// Why somebody does not get in.
pub(super) enum NotIn {
    /// For this reason, which the person may read.
    Refused(String),
    /// The server failed.
    Failed(ApiError),
}

impl From<AccountError> for NotIn {
    fn from(error: AccountError) -> Self {
        match error {
            AccountError::InvalidIdentity => {
                Self::Refused("The issuer's name for you cannot be used.".to_owned())
            }
            error => Self::Failed(error.into()),
        }
    }
}

impl From<AuditError> for NotIn {
    fn from(error: AuditError) -> Self {
        Self::Failed(error.into())
    }
}

fn refused<T>(why: impl Into<String>) -> Result<T, NotIn> {
    Err(NotIn::Refused(why.into()))
}

/// The user who a person is. `link` is the digest of the link with which the person began.
pub(super) async fn user(
    app: &App,
    options: &OidcOptions,
    person: &Person,
    link: Option<&[u8; 32]>,
) -> Result<User, NotIn> {
    let identity = Identity { issuer: &options.issuer, subject: &person.subject };
    let detail = json!({"issuer": identity.issuer, "subject": identity.subject});
    if let Some(digest) = link {
        return match app.accounts.link(digest, identity).await {
            Ok(Some(user)) => {
                app.audit.note(&user.id, "link identity", None, &detail).await?;
                Ok(user)
            }
            Ok(None) => {
                refused("This link was used before, or it is too old. Ask an administrator for another one.")
            }
            Err(AccountError::IdentityTaken) => refused(format!(
                "Your account of {} belongs to a user of this server already.",
                options.label
            )),
            Err(error) => Err(error.into()),
        };
    }
    let known = app.accounts.user_of(identity).await?;
    let user = match known {
        Some(user) => user,
        None => {
            admit(options, &person.claims)?;
            added(app, options, person, identity).await?
        }
    };
    if user.is_disabled {
        return refused("An administrator disabled your user.");
    }
    app.accounts.note_sign_in(identity).await?;
    Ok(user)
}

/// Whether a person comes in to whom no user is linked.
fn admit(options: &OidcOptions, claims: &Map<String, Value>) -> Result<(), NotIn> {
    match &options.admits {
        Admits::Everybody => Ok(()),
        Admits::Domains(domains) if is_of(domains, claims) => Ok(()),
        Admits::Domains(domains) => refused(format!(
            "Only people with a verified e-mail address of {} come in. Ask an administrator of this server for a link.",
            domains.join(" or ")
        )),
        Admits::Linked => refused(format!(
            "This server does not know your account of {}. Ask an administrator of this server for a link.",
            options.label
        )),
    }
}

/// Whether the issuer checked that an e-mail address of one of these domains is the person's.
fn is_of(domains: &[String], claims: &Map<String, Value>) -> bool {
    let email = claims.get("email").and_then(Value::as_str).unwrap_or_default();
    let is_verified = claims.get("email_verified") == Some(&Value::Bool(true));
    let domain = email.rsplit_once('@').map(|(_, domain)| domain.to_lowercase());
    is_verified && domain.is_some_and(|domain| domains.contains(&domain))
}

/// A new user for a person.
async fn added(
    app: &App,
    options: &OidcOptions,
    person: &Person,
    identity: Identity<'_>,
) -> Result<User, NotIn> {
    let claimed = person.claims.get(&options.name_claim).and_then(Value::as_str).unwrap_or_default();
    for name in names(claimed).take(MAX_TRIES) {
        match app.accounts.add_user_of(identity, &name).await {
            Ok(user) => {
                let detail = json!({
                    "user": user.id, "name": user.name, "is_admin": false,
                    "issuer": identity.issuer, "subject": identity.subject,
                });
                app.audit.note(&user.id, "add user", None, &detail).await?;
                return Ok(user);
            }
            Err(AccountError::NameTaken(_)) => {}
            // The same person signs in twice at the same time.
            Err(AccountError::IdentityTaken) => {
                let user = app.accounts.user_of(identity).await?;
                return user.map_or_else(|| refused("Sign in again."), Ok);
            }
            Err(error) => return Err(error.into()),
        }
    }
    refused("Too many users have your name. Ask an administrator of this server to add you.")
}

/// Names for a new user, the best one first. The person chose the claim, perhaps to look like somebody else.
fn names(claimed: &str) -> impl Iterator<Item = String> {
    let is_plain = |c: &char| c.is_ascii_alphanumeric() || matches!(c, '.' | '-' | '_' | '@');
    let plain: String = claimed.to_lowercase().chars().filter(is_plain).take(MAX_NAME).collect();
    // An id has 32 hexadecimal digits. No name may look like one.
    let is_id = plain.len() == 32 && plain.bytes().all(|byte| byte.is_ascii_hexdigit());
    let base = if plain.is_empty() || is_id { "user".to_owned() } else { plain };
    let first = (!RESERVED.contains(&base.as_str())).then(|| base.clone());
    first.into_iter().chain((2..).map(move |number: usize| format!("{base}-{number}")))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_is_plain_and_nobody_else_s() {
        let first = |claimed: &str| names(claimed).next().unwrap();
        assert_eq!(first("ada"), "ada");
        assert_eq!(first("Ada.Lovelace@Example.com"), "ada.lovelace@example.com");
        assert_eq!(first(" <b>ada</b>\u{202e}\n"), "badab");
        // These look like `admin`, or would be.
        for admin in ["admin", "Admin", "ADMIN ", "ad\u{200b}min"] {
            assert_eq!(first(admin), "admin-2", "{admin:?}");
        }
        assert_eq!(first("аdmin"), "dmin", "this begins with a Cyrillic letter");
        for none in ["", "阿达", "\u{0}", "0123456789abcdef0123456789abcdef"] {
            assert_eq!(first(none), "user", "{none:?}");
        }
        assert_eq!(first(&"a".repeat(1000)).len(), MAX_NAME);
        let next: Vec<_> = names("ada").take(3).collect();
        assert_eq!(next, ["ada", "ada-2", "ada-3"]);
    }

    #[test]
    fn a_domain_counts_only_if_the_issuer_checked_the_address() {
        let domains = ["example.com".to_owned()];
        let is_of = |claims: Value| is_of(&domains, claims.as_object().unwrap());
        assert!(is_of(json!({"email": "ada@Example.com", "email_verified": true})));
        for wrong in [
            json!({"email": "ada@example.com"}),
            json!({"email": "ada@example.com", "email_verified": false}),
            json!({"email": "ada@example.com", "email_verified": "true"}),
            json!({"email": "ada@sub.example.com", "email_verified": true}),
            json!({"email": "ada@evilexample.com", "email_verified": true}),
            json!({"email": "ada@example.com@evil.example", "email_verified": true}),
            json!({"email": "example.com", "email_verified": true}),
            json!({"email_verified": true}),
        ] {
            assert!(!is_of(wrong.clone()), "{wrong}");
        }
    }
}
