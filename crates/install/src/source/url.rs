//! A URL that keeps its password and never prints it.

use std::fmt;

use reqwest::Url;

use super::error::SourceError;
use super::text::percent_decode;

/// Words in the names of query parameters whose values are secret.
const SECRET_WORDS: [&str; 10] = [
    "token",
    "key",
    "apikey",
    "secret",
    "signature",
    "sig",
    "password",
    "credential",
    "accesstoken",
    "authtoken",
];

/// The address of a source: a URL, or `user@host:path` for Git over SSH.
///
/// It may have a password or an access token. [`SourceUrl::as_str`] has it, for the program that connects. `Display` and
/// `Debug` hide it, and [`SourceUrl::without_secrets`] is for lock files.
///
/// ```
/// use prowess_install::source::{Source, SourceEnvironment};
///
/// let source = Source::parse("https://ada:hunter2@example.com/tide.git", &SourceEnvironment::default())?;
/// let Source::Git(git) = source else { panic!("a Git repository") };
/// assert_eq!(git.url.to_string(), "https://***@example.com/tide.git");
/// assert_eq!(git.url.without_secrets(), "https://example.com/tide.git");
/// # Ok::<(), prowess_install::source::SourceError>(())
/// ```
#[derive(Clone, PartialEq, Eq, Hash)]
pub struct SourceUrl(String);

impl SourceUrl {
    /// Takes a text that was checked before.
    pub(super) fn checked(text: impl Into<String>) -> Self {
        Self(text.into())
    }

    /// The whole URL, with its password. Never print it.
    pub fn as_str(&self) -> &str {
        &self.0
    }

    /// The parsed URL. `None` for `user@host:path`.
    pub fn parsed(&self) -> Option<Url> {
        if self.0.contains("://") { Url::parse(&self.0).ok() } else { None }
    }

    /// The host. `None` if there is none, as in `file:///srv/tide.git`.
    pub fn host(&self) -> Option<String> {
        match self.parsed() {
            Some(url) => url.host_str().filter(|host| !host.is_empty()).map(str::to_ascii_lowercase),
            None => {
                let (place, _) = self.0.split_once(':')?;
                Some(place.rsplit('@').next()?.to_ascii_lowercase())
            }
        }
    }

    /// The URL without a user, a password and secret query parameters, for lock files. The user of an SSH address stays: it
    /// is no secret.
    pub fn without_secrets(&self) -> String {
        let Some(mut url) = self.parsed() else { return self.0.clone() };
        let has_secret = url.query().is_some_and(|query| query.split('&').any(is_secret));
        if url.username().is_empty() && url.password().is_none() && !has_secret {
            return self.0.clone();
        }
        if has_secret {
            let query = url.query().unwrap_or_default().split('&');
            let kept = query.filter(|parameter| !is_secret(parameter)).collect::<Vec<_>>().join("&");
            url.set_query((!kept.is_empty()).then_some(&kept));
        }
        // A URL that has a user can lose it.
        let _ = url.set_password(None);
        if url.scheme() != "ssh" {
            let _ = url.set_username("");
        }
        url.into()
    }
}

impl fmt::Display for SourceUrl {
    /// The URL with `***` for the user and password, and for secret query parameters.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&hide_secrets(&self.0))
    }
}

impl fmt::Debug for SourceUrl {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:?}", hide_secrets(&self.0))
    }
}

/// `text` with `***` for what may be a password. It works on text that is no valid URL too, for error messages.
pub(super) fn hide_secrets(text: &str) -> String {
    let Some((scheme, rest)) = text.split_once("://") else {
        // `ada:password@host/path` is no source, but may be shown in an error.
        return match text.rsplit_once('@') {
            Some((user, host)) if user.contains(':') => format!("***@{host}"),
            _ => text.to_owned(),
        };
    };
    let mut end = rest.find(['/', '?', '#', '\\']).unwrap_or(rest.len());
    // A password with a slash ends the host too early. Then the port is no number.
    let has_port = rest[..end].rsplit_once(':').is_none_or(|(_, port)| port.parse::<u16>().is_ok());
    if let (false, false, Some(at)) = (has_port, rest[..end].contains('@'), rest.rfind('@')) {
        end = rest[at..].find(['/', '?', '#']).map_or(rest.len(), |after| at + after);
    }
    let (authority, rest) = rest.split_at(end);
    let shown = match authority.rsplit_once('@') {
        None => authority.to_owned(),
        Some((user, host)) => match user.split_once(':') {
            // `git` in `ssh://git@host` is no secret. A lone user of an HTTP URL often is an access token.
            None if scheme.eq_ignore_ascii_case("ssh") => authority.to_owned(),
            Some((user, _)) if scheme.eq_ignore_ascii_case("ssh") => format!("{user}:***@{host}"),
            _ => format!("***@{host}"),
        },
    };
    let (path, query) = rest.split_once('?').map_or((rest, None), |(path, query)| (path, Some(query)));
    let mut hidden = format!("{scheme}://{shown}{path}");
    if let Some(query) = query {
        let (query, fragment) = query.split_once('#').map_or((query, None), |(q, f)| (q, Some(f)));
        let parameters: Vec<String> = query.split('&').map(hide_parameter).collect();
        hidden = format!("{hidden}?{}", parameters.join("&"));
        if let Some(fragment) = fragment {
            hidden = format!("{hidden}#{fragment}");
        }
    }
    hidden
}

fn hide_parameter(parameter: &str) -> String {
    match parameter.split_once('=') {
        Some((name, _)) if is_secret(parameter) => format!("{name}=***"),
        _ => parameter.to_owned(),
    }
}

/// Whether a parameter such as `access_token=x` is secret.
fn is_secret(parameter: &str) -> bool {
    let name = parameter.split_once('=').map_or(parameter, |(name, _)| name).to_ascii_lowercase();
    name.split(['_', '-', '.']).any(|word| SECRET_WORDS.contains(&word))
}

/// Parses a URL with one of the schemes that prowess fetches, and checks its user and host.
pub(super) fn parse_url(text: &str) -> Result<Url, SourceError> {
    let refuse = |reason| SourceError::Url { url: hide_secrets(text), reason };
    let url = Url::parse(text).map_err(|_| refuse("it cannot be parsed"))?;
    if !matches!(url.scheme(), "https" | "http" | "ssh" | "git" | "file") {
        return Err(SourceError::Scheme(url.scheme().to_owned()));
    }
    // Git decodes `%2D`, so what it sees counts.
    let seen = |part: &str| percent_decode(part).ok_or_else(|| refuse("its user or host is not UTF-8"));
    let user = seen(url.username())?;
    let host = seen(url.host_str().unwrap_or_default())?;
    if user.starts_with('-') || host.starts_with('-') {
        return Err(SourceError::LooksLikeOption(if host.starts_with('-') { host } else { user }));
    }
    if url.scheme() == "file" {
        if !matches!(host.as_str(), "" | "localhost") {
            return Err(refuse("a file URL has no host: write file:///PATH"));
        }
    } else if !is_host(&host) {
        return Err(refuse("its host is not a name or an address"));
    }
    if !user.chars().all(|c| !c.is_whitespace() && !c.is_control()) {
        return Err(refuse("its user has a blank or a control character"));
    }
    let path = percent_decode(url.path()).ok_or_else(|| refuse("its path is not UTF-8"))?;
    match path.chars().find(|&c| prowess_base::text::is_unprintable(c)) {
        Some(c) => Err(SourceError::Unprintable(c)),
        None => Ok(url),
    }
}

/// Whether this is a host name, an IPv4 address or an IPv6 address in brackets.
pub(super) fn is_host(host: &str) -> bool {
    let is_name = |text: &str| {
        !text.is_empty()
            && !text.starts_with('-')
            && text.chars().all(|c| c.is_ascii_alphanumeric() || matches!(c, '.' | '-' | '_'))
    };
    match host.strip_prefix('[').and_then(|rest| rest.strip_suffix(']')) {
        Some(address) => address.parse::<std::net::Ipv6Addr>().is_ok(),
        None => is_name(host),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn secrets_are_never_shown() {
        for (text, shown, locked) in [
            ("https://u:pw@h/p", "https://***@h/p", "https://h/p"),
            ("https://token@h/p?a=1", "https://***@h/p?a=1", "https://h/p?a=1"),
            ("ssh://git@h/p", "ssh://git@h/p", "ssh://git@h/p"),
            ("ssh://git:pw@h/p", "ssh://git:***@h/p", "ssh://git@h/p"),
            ("https://h/p?Access_Token=pw&b=2#c", "https://h/p?Access_Token=***&b=2#c", "https://h/p?b=2#c"),
            ("https://u:p/w@h/p", "https://***@h/p", "https://u:p/w@h/p"),
            ("http://h:8080/a@b", "http://h:8080/a@b", "http://h:8080/a@b"),
            ("git@h:p", "git@h:p", "git@h:p"),
            ("u:pw@h/p", "***@h/p", "u:pw@h/p"),
            ("file:///srv/a", "file:///srv/a", "file:///srv/a"),
        ] {
            let url = SourceUrl::checked(text);
            assert_eq!(url.to_string(), shown);
            assert_eq!(format!("{url:?}"), format!("{shown:?}"));
            assert_eq!(url.without_secrets(), locked);
            assert_eq!(url.as_str(), text);
        }
    }

    #[test]
    fn the_host_is_found_in_every_form() {
        for (text, host) in [
            ("https://u:p@GitHub.com:8443/o/r", Some("github.com")),
            ("git@GitHub.com:o/r.git", Some("github.com")),
            ("ssh://git@h.example/r", Some("h.example")),
            ("file:///srv/a", None),
        ] {
            assert_eq!(SourceUrl::checked(text).host().as_deref(), host, "{text}");
        }
    }
}
