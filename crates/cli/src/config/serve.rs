//! `[serve.oidc]`

#![cfg_attr(not(feature = "oidc"), allow(dead_code, reason = "every build knows the keys"))]

use anyhow::{Result, bail};
use prowess_mcp::client::ServerUrl;

use super::read::section;
use super::setting::{EMPTY, FullPath, Parsed, Variable, words};
use super::value::Origin;

section! {
    /// Settings of `prowess serve`.
    pub(crate) struct ServeSettings {}
    tables {
        oidc: OidcSettings,
    }
}

section! {
    /// How people sign in to `prowess serve` with their account at an OpenID Connect issuer. prowess must be built with
    /// the feature `oidc`. See [sign in with OpenID Connect](serving.md#sign-in-with-openid-connect).
    pub(crate) struct OidcSettings {
        /// The URL of the issuer, exactly as the issuer writes it: https, or http on this machine. Without it, nobody signs
        /// in with OpenID Connect.
        User issuer: Option<Parsed<ServerUrl>>,
        /// The name of this server at the issuer.
        User client_id: Option<String>,
        /// The environment variable that holds the secret of this server at the issuer. A public client has none.
        User client_secret_env: Option<Parsed<Variable>>,
        /// The file that holds this secret, instead of `client_secret_env`.
        User client_secret_file: Option<Parsed<FullPath>>,
        /// The address of this server as browsers reach it, such as `https://agent.example.com`. The issuer must allow the
        /// address `/oidc/callback` below it.
        User public_url: Option<Parsed<ServerUrl>>,
        /// What the page calls the issuer.
        User label: String = "OpenID Connect",
        /// Who may sign in: only people whom an administrator linked to a user (`linked`), or everybody whom the issuer
        /// knows (`create`), who get a user if they have none.
        User users: OidcUsers = "linked",
        /// With `create`: only people with a verified e-mail address of one of these domains get a user.
        User email_domains: Vec<String> = EMPTY,
        /// The claim from which the name of a new user is made.
        User name_claim: String = "preferred_username",
        /// What to request from the issuer, besides `openid`.
        User scopes: Vec<String> = ["profile", "email"],
    }
}

words! {
    /// Who may sign in.
    enum OidcUsers { "linked" = Linked, "create" = Create }
}

impl OidcSettings {
    /// Checks that nothing is missing. `at` gives the origin of a key, or else of the table.
    pub(super) fn check<'a>(&self, at: impl Fn(&str) -> &'a Origin) -> Result<()> {
        let table = [
            ("issuer", self.issuer.is_some()),
            ("client_id", self.client_id.is_some()),
            ("public_url", self.public_url.is_some()),
        ];
        let set = table.iter().find(|(_, is_set)| *is_set);
        if let (Some((set, _)), Some((missing, _))) = (set, table.iter().find(|(_, is_set)| !is_set)) {
            bail!("{}: `serve.oidc` needs `{missing}` too", at(set));
        }
        if self.client_secret_env.is_some() && self.client_secret_file.is_some() {
            let (variable, file) = (at("client_secret_env"), at("client_secret_file"));
            bail!(
                "{variable}: `serve.oidc` has a `client_secret_env` here and a `client_secret_file` at {file}; remove one of them"
            );
        }
        if !self.email_domains.is_empty() && self.users == OidcUsers::Linked {
            bail!("{}: `serve.oidc.email_domains` needs `users = \"create\"`", at("email_domains"));
        }
        Ok(())
    }
}
