//! Secret files: files that usually hold secrets, in any directory. File tools, searches and inputs of runs all use this
//! list.

use std::sync::LazyLock;

use crate::{Kind, Rule};

/// Files that hold private keys or public certificates. Their names tell which.
const KEYS_AND_CERTIFICATES: &str = "*.pem";

/// The names of files that hold only public certificates or public keys.
const PUBLIC_NAMES: [&str; 22] = [
    "ca.pem",
    "ca-bundle.pem",
    "ca_bundle.pem",
    "ca-cert.pem",
    "ca-certs.pem",
    "ca-certificates.pem",
    "cacert.pem",
    "cacerts.pem",
    "cert.pem",
    "certs.pem",
    "certificate.pem",
    "certificates.pem",
    "chain.pem",
    "fullchain.pem",
    "pubkey.pem",
    "public.pem",
    "public-key.pem",
    "public_key.pem",
    "root-ca.pem",
    "rootca.pem",
    "roots.pem",
    "tls-ca-bundle.pem",
];

/// How the names of other such files end.
const PUBLIC_ENDINGS: [&str; 9] = [
    "-cert.pem",
    "_cert.pem",
    ".cert.pem",
    ".crt.pem",
    "-chain.pem",
    "-ca.pem",
    "_ca.pem",
    "-public.pem",
    ".pub.pem",
];

/// Whether a path in lower case names a file that holds only public certificates or public keys. Every Python environment
/// has one.
pub(crate) fn is_public_certificate(path: &str) -> bool {
    let name = path.rsplit_once('/').map_or(path, |(_, name)| name);
    PUBLIC_NAMES.contains(&name) || PUBLIC_ENDINGS.iter().any(|ending| name.ends_with(ending))
}

/// Patterns of the real paths of well-known secret files. They ignore letter case.
///
/// Of the files that end with `.pem`, the rules spare those whose names say that they hold public certificates.
pub const SECRET_FILES: &[&str] = &[
    // Environment files.
    "*/.env",
    "*/.env.*",
    "*.env",
    "*/.envrc",
    "*/.env~",
    "*/.flaskenv",
    "*/secrets.*",
    "*/secret.*",
    "*/credentials.json",
    "*/client_secret*.json",
    "*/service-account*.json",
    "*/service_account*.json",
    // Keys and certificates.
    "*/.ssh/*",
    "*/.ssh.*/*",
    "*/.gnupg/*",
    "*/id_rsa*",
    "*/id_dsa*",
    "*/id_ecdsa*",
    "*/id_ed25519*",
    "*/ssh_host_*_key",
    KEYS_AND_CERTIFICATES,
    "*.key",
    "*.p12",
    "*.pfx",
    "*.p8",
    "*.ppk",
    "*.jks",
    "*.keystore",
    "*.kdbx",
    "*.kdb",
    "*.asc",
    "*/.age/*",
    "*/age/keys.txt",
    "*/.minisign/*",
    // Clouds and clusters.
    "*/.aws/*",
    "*/.azure/*",
    "*/.config/gcloud/*",
    "*/.boto",
    "*/.s3cfg",
    "*/.config/rclone/*",
    "*/.oci/*",
    "*/.aliyun/*",
    "*/.config/doctl/*",
    "*/.config/hcloud/*",
    "*/.kube/*",
    "*/.helm/*",
    "*/.docker/config.json",
    "*/.dockercfg",
    "*/.config/containers/auth.json",
    "*/.terraform.d/credentials*",
    "*/.terraformrc",
    "*.tfstate",
    "*.tfstate.backup",
    "*/.pulumi/credentials.json",
    "*/.vault-token",
    "*/.fly/config.yml",
    "*/.netlify/*",
    "*/.config/netlify/*",
    "*/.heroku/*",
    // Code hosts and package registries.
    "*/.git-credentials",
    "*/.config/git/credentials",
    "*/.config/gh/hosts.yml",
    "*/.config/glab-cli/*",
    "*/.config/hub",
    "*/.npmrc",
    "*/.yarnrc",
    "*/.yarnrc.yml",
    "*/.pypirc",
    "*/pip.conf",
    "*/.cargo/credentials",
    "*/.cargo/credentials.toml",
    "*/.gem/credentials",
    "*/.bundle/config",
    "*/.m2/settings.xml",
    "*/.m2/settings-security.xml",
    "*/.gradle/gradle.properties",
    "*/.nuget/nuget.config",
    "*/.composer/auth.json",
    "*/.config/composer/auth.json",
    "*/.hex/hex.config",
    "*/.config/pypoetry/auth.toml",
    // Networks, mail and databases.
    "*/.netrc",
    "*/_netrc",
    "*/.authinfo",
    "*/.authinfo.gpg",
    "*/.pgpass",
    "*/.pg_service.conf",
    "*/.my.cnf",
    "*/.mylogin.cnf",
    "*/.msmtprc",
    "*/.muttrc",
    "*/.mbsyncrc",
    "*/.fetchmailrc",
    "*/.thunderbird/*",
    "*/.htpasswd",
    "*/wireguard/*.conf",
    "*.ovpn",
    "*.nmconnection",
    // Other agents and models.
    "*/.claude.json",
    "*/.claude/.credentials.json",
    "*/.codex/auth.json",
    "*/.local/share/opencode/auth.json",
    "*/.gemini/oauth_creds.json",
    "*/.config/openai/*",
    "*/.huggingface/token",
    "*/.cache/huggingface/token",
    "*/.kaggle/kaggle.json",
    // Password stores.
    "*/.password-store/*",
    "*/.local/share/keyrings/*",
    "*/.gnome2/keyrings/*",
    "*/.local/share/kwalletd/*",
    "*/.kde*/share/apps/kwallet/*",
    "*/library/keychains/*",
    "*/.config/op/*",
    "*/.config/bitwarden*/*",
    "*/.config/keepassxc/*",
    // Browser profiles: cookies, logins, histories.
    "*/.mozilla/*",
    "*/.librewolf/*",
    "*/.config/google-chrome*/*",
    "*/.config/chromium*/*",
    "*/.config/bravesoftware/*",
    "*/.config/microsoft-edge*/*",
    "*/.config/vivaldi*/*",
    "*/.config/opera*/*",
    "*/snap/firefox/*",
    "*/snap/chromium/*",
    "*/.var/app/org.mozilla.*",
    "*/.var/app/org.chromium.*",
    "*/.var/app/com.google.chrome*",
    "*/.var/app/com.brave.*",
    "*/.var/app/com.microsoft.edge*",
    "*/library/application support/firefox/*",
    "*/library/application support/google/chrome*/*",
    "*/library/application support/chromium/*",
    "*/library/application support/bravesoftware/*",
    "*/library/application support/microsoft edge*/*",
    "*/library/safari/*",
    "*/library/cookies/*",
    // Other programs.
    "*/.databrickscfg",
    "*/.snowsql/*",
    "*/.snowflake/*",
    "*/.step/secrets/*",
    "*/.subversion/auth/*",
    "*/.vnc/passwd",
    "*/.xauthority",
    "*/.iceauthority",
    "*/.bitcoin/*",
    "*/wallet.dat",
    "*/.config/solana/*",
    "*/.config/github-copilot/*",
    "*/.config/filezilla/*",
    "*/.config/anthropic/*",
    "*/.config/mcp/*",
    "*/.config/slack/*",
    "*/.config/discord/*",
    "*/.config/signal/*",
    "*/.curlrc",
    "*/.wgetrc",
    "*/.aider.conf.yml",
    "*/.jupyter/*",
    "*/.netrc~",
    "*/.netrc.*",
    // Shell histories, which often contain passwords.
    "*/.bash_history?*",
    "*/.bash_sessions/*",
    "*/.zsh_sessions/*",
    "*/.zhistory",
    "*/.viminfo",
    "*/.lesshst",
    "*/atuin/history.db*",
    "*/.bash_history",
    "*/.zsh_history",
    "*/.histfile",
    "*/.history",
    "*/.sh_history",
    "*/fish/fish_history",
    "*/.python_history",
    "*/.node_repl_history",
    "*/.psql_history",
    "*/.mysql_history",
    "*/.sqlite_history",
    "*/.rediscli_history",
    // System files.
    "/etc/shadow*",
    "/etc/gshadow*",
    "/etc/sudoers*",
    "/etc/krb5.keytab",
    "/etc/networkmanager/system-connections/*",
    "/proc/*/environ",
    "/proc/*/mem",
];

/// Rules that ask before anything reads a secret file.
///
/// ```
/// use prowess_permission::secrets::secret_files;
/// use prowess_permission::{Kind, Policy, RuleSource};
///
/// let policy = Policy::new().rules(RuleSource::Defaults, secret_files());
/// assert!(policy.decide(&Kind::READ, "/home/ada/.aws/credentials").rule.is_some());
/// assert!(policy.decide(&Kind::READ, "/home/ada/notes.md").rule.is_none());
/// ```
pub fn secret_files() -> impl Iterator<Item = Rule> {
    static RULES: LazyLock<Vec<Rule>> = LazyLock::new(|| {
        let rules = SECRET_FILES.iter().map(|pattern| match *pattern {
            KEYS_AND_CERTIFICATES => Rule::key_guard(&Kind::READ, pattern),
            pattern => Rule::guard(&Kind::READ, pattern),
        });
        rules.collect()
    });
    RULES.iter().cloned()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Decision, Policy, RuleSource};

    #[test]
    fn secrets_are_found_in_any_case_and_plain_files_are_not() {
        let allow = Rule::new("read", "*", Decision::Allow);
        let policy =
            Policy::new().rules(RuleSource::Defaults, secret_files()).rules(RuleSource::User, [allow]);
        let decision = |path: &str| policy.decide(&Kind::READ, path).decision;
        for path in
            ["/a/.env", "/a/.Env.local", "/srv/TLS/Server.KEY", "/home/a/.SSH/known_hosts", "/proc/7/environ"]
        {
            assert_eq!(decision(path), Decision::Ask, "{path}");
        }
        for path in ["/a/env", "/a/src/environment.rs", "/a/keys.rs", "/a/ssh/notes", "/a/secretary.md"] {
            assert_eq!(decision(path), Decision::Allow, "{path}");
        }
        for path in
            ["/a/server.pem", "/a/privkey.pem", "/etc/certs/key.PEM", "/a/cert.pem/x.pem", "/a/.ssh/cert.pem"]
        {
            assert_eq!(decision(path), Decision::Ask, "{path}");
        }
        for path in
            ["/v/site-packages/certifi/cacert.pem", "/a/CA.pem", "/a/server-cert.pem", "/a/ca-bundle.crt"]
        {
            assert_eq!(decision(path), Decision::Allow, "{path}");
        }
        assert_eq!(policy.decide(&Kind::WRITE, "/a/.env").rule, None, "other rules ask about writing");
    }
}
