//! What an administrator decides about signing in with OpenID Connect.

use std::net::IpAddr;

use openidconnect::url::Url;
use secrecy::SecretString;

/// Who may come in whom no user is linked to yet.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub enum Admits {
    /// Nobody: an administrator links people to users before.
    #[default]
    Linked,
    /// Everybody whom the issuer knows: they get a new user, who is no administrator.
    Everybody,
    /// As [`Admits::Everybody`], but only people with a verified e-mail address of one of these domains.
    Domains(Vec<String>),
}

/// What an administrator decides about signing in with OpenID Connect.
///
/// ```
/// use prowess_serve::{Admits, OidcOptions};
///
/// let mut options = OidcOptions::new("https://login.example.com", "prowess", "https://agent.example.com");
/// options.admits = Admits::Domains(vec!["example.com".to_owned()]);
/// ```
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct OidcOptions {
    /// The URL of the issuer, exactly as the issuer writes it: https, or http on this machine.
    pub issuer: String,
    /// The name of this server at the issuer.
    pub client_id: String,
    /// The secret of this server at the issuer. A public client has none.
    pub client_secret: Option<SecretString>,
    /// The address of this server as browsers reach it, without a path.
    pub public_url: String,
    /// What the page calls the issuer.
    pub label: String,
    /// The claim from which the name of a new user is made.
    pub name_claim: String,
    /// The scopes to request, besides `openid`.
    pub scopes: Vec<String>,
    /// Who may come in.
    pub admits: Admits,
}

/// Why signing in with OpenID Connect cannot be set up.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum OidcError {
    /// The URL of the issuer cannot be used.
    #[error("the issuer must be a URL with https, or with http on this machine, without a user, `?` or `#`")]
    Issuer,
    /// The address of this server cannot be used.
    #[error("the public URL must be https://HOST, or http://HOST on this machine, without a path")]
    PublicUrl,
    /// There is no client id.
    #[error("the client id is empty")]
    ClientId,
    /// A domain cannot be used.
    #[error("`{0}` is not a domain such as example.com")]
    Domain(String),
    /// The system failed.
    #[error("the connection to the issuer cannot be prepared: {0}")]
    System(String),
}

impl OidcOptions {
    /// Options with nothing but what is needed.
    pub fn new(
        issuer: impl Into<String>,
        client_id: impl Into<String>,
        public_url: impl Into<String>,
    ) -> Self {
        Self {
            issuer: issuer.into(),
            client_id: client_id.into(),
            client_secret: None,
            public_url: public_url.into(),
            label: "OpenID Connect".to_owned(),
            name_claim: "preferred_username".to_owned(),
            scopes: ["profile", "email"].map(str::to_owned).to_vec(),
            admits: Admits::default(),
        }
    }

    /// The same options, if they can be used.
    pub(super) fn checked(mut self) -> Result<Self, OidcError> {
        let issuer = Url::parse(&self.issuer).ok().filter(is_safe).filter(|url| url.query().is_none());
        issuer.ok_or(OidcError::Issuer)?;
        let public = Url::parse(&self.public_url).ok().filter(is_safe);
        let public = public.filter(|url| url.path() == "/" && url.query().is_none());
        self.public_url = public.ok_or(OidcError::PublicUrl)?.origin().ascii_serialization();
        if self.client_id.trim().is_empty() {
            return Err(OidcError::ClientId);
        }
        if let Admits::Domains(domains) = &mut self.admits {
            for domain in domains {
                let is_domain = |c: char| c.is_alphanumeric() || matches!(c, '.' | '-');
                if domain.is_empty() || domain.starts_with('.') || !domain.chars().all(is_domain) {
                    return Err(OidcError::Domain(domain.clone()));
                }
                *domain = domain.to_lowercase();
            }
        }
        Ok(self)
    }

    /// Where a browser begins to sign in.
    pub(super) fn begin_url(&self) -> String {
        format!("{}/oidc/login", self.public_url)
    }

    /// Where the issuer sends a browser back to.
    pub(super) fn callback_url(&self) -> String {
        format!("{}/oidc/callback", self.public_url)
    }

    /// Whether browsers speak https to this server.
    pub(super) fn is_encrypted(&self) -> bool {
        self.public_url.starts_with("https:")
    }
}

/// Whether nobody on the way can read what is sent to a URL.
pub(super) fn is_safe(url: &Url) -> bool {
    let has_user = !url.username().is_empty() || url.password().is_some();
    let is_private = match url.scheme() {
        "https" => true,
        "http" => is_loopback(url),
        _ => false,
    };
    is_private && !has_user && url.fragment().is_none() && url.has_host()
}

/// Whether a URL is of this machine.
pub(super) fn is_loopback(url: &Url) -> bool {
    let host = url.host_str().unwrap_or_default();
    let address = host.trim_start_matches('[').trim_end_matches(']').parse::<IpAddr>();
    host == "localhost" || address.is_ok_and(|address| address.is_loopback())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn checked(issuer: &str, public: &str) -> Result<OidcOptions, OidcError> {
        OidcOptions::new(issuer, "prowess", public).checked()
    }

    #[test]
    fn addresses_are_safe_and_whole() {
        let (issuer, public) = ("https://login.example.com/realms/one", "https://agent.example.com");
        let good = checked(issuer, "https://Agent.example.com:443/").unwrap();
        assert_eq!(good.callback_url(), "https://agent.example.com/oidc/callback");
        assert_eq!(good.issuer, issuer, "an issuer is compared as it is written");
        for local in ["http://127.0.0.1:1", "http://localhost:1", "http://[::1]:1"] {
            assert!(checked(local, local).is_ok(), "{local}");
        }
        for wrong in [
            "",
            "login.example.com",
            "http://login.example.com",
            "http://127.0.0.1.evil.example",
            "https://me:secret@login.example.com",
            "https://login.example.com/#a",
            "https://login.example.com/?a",
            "file:///etc/passwd",
        ] {
            assert_eq!(checked(wrong, public).unwrap_err(), OidcError::Issuer, "{wrong}");
            assert_eq!(checked(issuer, wrong).unwrap_err(), OidcError::PublicUrl, "{wrong}");
        }
        assert_eq!(checked(issuer, "https://a.example/path").unwrap_err(), OidcError::PublicUrl);
    }

    #[test]
    fn domains_are_domains() {
        let with = |domain: &str| {
            let mut options = OidcOptions::new("https://a.example", "x", "https://b.example");
            options.admits = Admits::Domains(vec![domain.to_owned()]);
            options.checked()
        };
        assert_eq!(with("Example.COM").unwrap().admits, Admits::Domains(vec!["example.com".to_owned()]));
        for wrong in ["", ".example.com", "@example.com", "a@example.com", "*.example.com"] {
            assert_eq!(with(wrong).unwrap_err(), OidcError::Domain(wrong.to_owned()));
        }
    }
}
