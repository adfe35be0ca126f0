//! Which URLs and references Git gets to see.

use prowess_base::text::escaped_start;

use super::GitError;

/// The most bytes of a URL.
const MAX_URL_BYTES: usize = 4096;
/// The most bytes of the name of a branch or tag.
pub const MAX_REFERENCE_BYTES: usize = 512;

/// How Git reaches a repository.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Transport {
    /// `https://` or `http://`.
    Http,
    /// `ssh://` or `user@host:path`.
    Ssh,
    /// `git://`.
    Git,
    /// `file://` or an absolute path.
    File,
}

/// How Git would reach the repository at `url`.
///
/// ```
/// use prowess_install::snapshot::git::{Transport, transport};
///
/// assert_eq!(transport("git@example.com:ada/tide.git").unwrap(), Transport::Ssh);
/// assert!(transport("ext::sh -c id").is_err());
/// assert!(transport("--upload-pack=id").is_err());
/// ```
///
/// # Errors
///
/// Git would run a program for it, take it for an option, or not understand it.
pub fn transport(url: &str) -> Result<Transport, GitError> {
    let refused = |reason| GitError::Url { url: shown(url), reason };
    if url.is_empty() || url.len() > MAX_URL_BYTES {
        return Err(refused("it is empty or too long"));
    }
    if url.starts_with('-') {
        return Err(refused("it begins with `-`"));
    }
    // Spaces are for local paths. Line breaks would be headers, and lines for credential helpers.
    if url.chars().any(char::is_control) {
        return Err(refused("it has control characters"));
    }
    let lower = url.to_ascii_lowercase();
    if ["%0a", "%0d", "%00"].iter().any(|code| lower.contains(code)) {
        return Err(refused("it has encoded control characters"));
    }
    if url.starts_with('/') {
        return Ok(Transport::File);
    }
    if let Some((scheme, rest)) = url.split_once("://") {
        let transport = match scheme.to_ascii_lowercase().as_str() {
            "https" | "http" => Transport::Http,
            "ssh" => Transport::Ssh,
            "git" => Transport::Git,
            "file" if rest.starts_with('/') => return Ok(Transport::File),
            "file" => return Err(refused("write file:///PATH")),
            _ => return Err(refused("its scheme is not https, http, ssh, git or file")),
        };
        let place = rest.split(['/', '?', '#']).next().unwrap_or_default();
        let host = place.rsplit('@').next().unwrap_or_default();
        check_host(host, place).map_err(refused)?;
        return Ok(transport);
    }
    // What is left is `host:path`. A colon pair or a slash before the colon means something else.
    let Some((place, path)) = url.split_once(':') else {
        return Err(refused("it is neither a URL nor user@host:path"));
    };
    if path.starts_with(':') {
        return Err(refused("it names a program to run"));
    }
    let host = place.rsplit('@').next().unwrap_or_default();
    if ["file", "http", "https", "ssh", "git"].contains(&place.to_ascii_lowercase().as_str()) {
        return Err(refused("write SCHEME://, with two slashes"));
    }
    if place.contains('/') || path.is_empty() || path.starts_with('-') {
        return Err(refused("it is neither a URL nor user@host:path"));
    }
    check_host(host, place).map_err(refused)?;
    Ok(Transport::Ssh)
}

fn check_host(host: &str, place: &str) -> Result<(), &'static str> {
    let is_plain = |c: char| c.is_alphanumeric() || matches!(c, '.' | '-' | '_' | ':' | '[' | ']');
    if host.is_empty() || host.starts_with('-') || place.starts_with('-') || !host.chars().all(is_plain) {
        return Err("its host is not a host name");
    }
    Ok(())
}

/// The host of a URL that [`transport`] accepts. `None` for files.
pub(super) fn host(url: &str) -> Option<&str> {
    let place = match url.split_once("://") {
        Some((_, rest)) => rest.split(['/', '?', '#']).next()?,
        None if url.starts_with('/') => return None,
        None => url.split_once(':')?.0,
    };
    place.rsplit('@').next().filter(|host| !host.is_empty())
}

/// The URL without a password, for messages.
pub(super) fn shown(url: &str) -> String {
    let hidden = match url.split_once("://") {
        Some((scheme, rest)) => {
            let end = rest.find('/').unwrap_or(rest.len());
            match rest[..end].rfind('@') {
                Some(at) => format!("{scheme}://***{}", &rest[at..]),
                None => url.to_owned(),
            }
        }
        None => url.to_owned(),
    };
    escaped_start(&hidden)
}

/// The secret part of a URL: all between `://` and the last `@` of its host.
pub(super) fn secret(url: &str) -> Option<&str> {
    let (_, rest) = url.split_once("://")?;
    let end = rest.find('/').unwrap_or(rest.len());
    rest[..end].rfind('@').map(|at| &rest[..at]).filter(|secret| !secret.is_empty())
}

/// What is fetched.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Wanted {
    Default,
    Name(String),
    Commit(String),
}

impl Wanted {
    pub(super) fn parse(reference: Option<&str>) -> Result<Self, GitError> {
        let Some(reference) = reference else { return Ok(Self::Default) };
        if reference.len() == 40 && reference.bytes().all(|byte| byte.is_ascii_hexdigit()) {
            return Ok(Self::Commit(reference.to_ascii_lowercase()));
        }
        check_reference(reference)?;
        Ok(Self::Name(reference.to_owned()))
    }

    /// The left side of a refspec.
    pub(super) fn as_str(&self) -> &str {
        match self {
            Self::Default => "HEAD",
            Self::Name(text) | Self::Commit(text) => text,
        }
    }
}

/// Checks that `reference` can be the name of a branch or tag. The rules are those of `git check-ref-format`, and a name
/// cannot begin with `-` or `+`.
///
/// # Errors
///
/// It cannot be such a name.
pub fn check_reference(reference: &str) -> Result<(), GitError> {
    let is_bad = |c: char| c.is_control() || matches!(c, ' ' | '~' | '^' | ':' | '?' | '*' | '[' | '\\');
    let is_bad_part = |part: &str| part.is_empty() || part.starts_with('.') || part.ends_with(".lock");
    if reference.len() > MAX_REFERENCE_BYTES
        || reference.starts_with(['-', '+'])
        || reference.ends_with('.')
        || reference == "@"
        || reference.contains("..")
        || reference.contains("@{")
        || reference.chars().any(is_bad)
        || reference.split('/').any(is_bad_part)
    {
        return Err(GitError::Reference(escaped_start(reference)));
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_known_transports_pass() {
        for (url, expected) in [
            ("https://github.com/o/r.git", Transport::Http),
            ("HTTPS://u:p@example.com:8443/r", Transport::Http),
            ("http://[::1]:80/r", Transport::Http),
            ("ssh://git@example.com:22/r", Transport::Ssh),
            ("git@example.com:o/r.git", Transport::Ssh),
            ("example.com:r", Transport::Ssh),
            ("git://127.0.0.1:9/r", Transport::Git),
            ("file:///srv/a b", Transport::File),
            ("/srv/a b", Transport::File),
        ] {
            assert_eq!(transport(url).unwrap(), expected, "{url}");
        }
        for url in [
            "",
            "ext::sh -c id",
            "EXT::sh",
            "fd::17",
            "-c",
            "--upload-pack=id",
            "ftp://example.com/r",
            "git+ssh://example.com/r",
            "file://host/r",
            "file:r",
            "ssh://-oProxyCommand=id/r",
            "ssh://u@-oProxyCommand=id/r",
            "ssh://-oProxyCommand=id@host/r",
            "-oProxyCommand=id:r",
            "u@-oProxyCommand=id:r",
            "host:-r",
            "https:///r",
            "https://a b/r",
            "https://a/r\nhost=b",
            "https://a/r%0ahost=b",
            "relative/path",
            "./r:x",
            "r",
        ] {
            assert!(matches!(transport(url), Err(GitError::Url { .. })), "{url}");
        }
    }

    #[test]
    fn references_are_names_and_not_options() {
        for reference in ["main", "feature/x", "v1.2", "refs/pull/1/head", "a-b", "é"] {
            assert!(check_reference(reference).is_ok(), "{reference}");
        }
        for reference in [
            "",
            "-x",
            "--upload-pack=id",
            "+main",
            "^main",
            "a b",
            "a:b",
            "a..b",
            "a@{1}",
            "@",
            "a/",
            "/a",
            "a//b",
            ".a",
            "a/.b",
            "a.lock",
            "a.",
            "a*",
            "a\nb",
            "a\\b",
            "a~1",
        ] {
            assert!(check_reference(reference).is_err(), "{reference}");
        }
        let commit = "ABCDEF0123456789ABCDEF0123456789ABCDEF01";
        assert_eq!(Wanted::parse(Some(commit)).unwrap(), Wanted::Commit(commit.to_lowercase()));
    }

    #[test]
    fn passwords_are_hidden() {
        assert_eq!(shown("https://ada:pw@example.com/r@x"), "https://***@example.com/r@x");
        assert_eq!(shown("git@example.com:r"), "git@example.com:r");
        assert_eq!(secret("https://ada:p@w@example.com/r"), Some("ada:p@w"));
        assert_eq!(secret("https://example.com/r@x"), None);
    }
}
