//! Signing in with OpenID Connect, as the configuration says.

use std::io::Read as _;
use std::path::Path;
use std::sync::Arc;

use anyhow::{Context as _, Result, anyhow, bail};
use prowess_serve::{Admits, Oidc, OidcOptions};
use secrecy::SecretString;

use crate::config::{OidcSettings, OidcUsers};
use crate::terminal::printable;

/// The largest secret, in bytes.
const MAX_SECRET: u64 = 64 * 1024;

/// Signing in with OpenID Connect, if it is configured.
pub(crate) fn configured(settings: &OidcSettings) -> Result<Option<Arc<Oidc>>> {
    let (Some(issuer), Some(client_id), Some(public_url)) =
        (&settings.issuer, &settings.client_id, &settings.public_url)
    else {
        return Ok(None);
    };
    let mut options = OidcOptions::new(issuer.to_string(), client_id.clone(), public_url.to_string());
    options.client_secret = secret(settings)?;
    options.label = printable(&settings.label);
    options.name_claim = settings.name_claim.clone();
    options.scopes = settings.scopes.clone();
    options.admits = match settings.users {
        OidcUsers::Linked => Admits::Linked,
        OidcUsers::Create if settings.email_domains.is_empty() => Admits::Everybody,
        OidcUsers::Create => Admits::Domains(settings.email_domains.clone()),
    };
    let oidc =
        Oidc::new(options).map_err(|error| anyhow!("[serve.oidc]: {}", printable(&error.to_string())))?;
    Ok(Some(Arc::new(oidc)))
}

/// The secret of this server at the issuer.
fn secret(settings: &OidcSettings) -> Result<Option<SecretString>> {
    let text = match (&settings.client_secret_env, &settings.client_secret_file) {
        (None, None) => return Ok(None),
        (Some(variable), _) => {
            let variable: &str = variable;
            std::env::var(variable).with_context(|| {
                format!("[serve.oidc]: there is no client secret: set the environment variable {variable}")
            })?
        }
        (_, Some(file)) => read(&file.value.0).with_context(|| {
            format!("[serve.oidc]: cannot read the client secret from {}", printable(&file.to_string()))
        })?,
    };
    match text.trim() {
        "" => bail!("[serve.oidc]: the client secret is empty"),
        secret => Ok(Some(secret.to_owned().into())),
    }
}

fn read(path: &Path) -> std::io::Result<String> {
    let mut text = String::new();
    std::fs::File::open(path)?.take(MAX_SECRET).read_to_string(&mut text)?;
    Ok(text)
}
