//! Tries the forms of a source, in the order in which `skills` tries them.

use std::path::Path;

use reqwest::Url;

use super::error::SourceError;
use super::hosted;
use super::text::{self, is_archive};
use super::url::{self, SourceUrl, hide_secrets, parse_url};
use super::{GITHUB, GitHost, GitSource, MAX_SOURCE_BYTES, Source, SourceEnvironment};

/// Two repositories that moved. `skills` knows their old names.
const ALIASES: [(&str, &str); 2] = [
    ("coinbase/agentWallet", "coinbase/agentic-wallet-skills"),
    ("vercel-labs/vercel-skills", "vercel-labs/agent-skills"),
];

/// What stands after `#`: `REF`, `REF@SKILL` or `@SKILL`.
#[derive(Clone, Default)]
pub(super) struct Fragment {
    pub(super) reference: Option<String>,
    pub(super) skill: Option<String>,
}

pub(super) fn parse(text: &str, environment: &SourceEnvironment) -> Result<Source, SourceError> {
    let text = text.trim();
    if text.is_empty() {
        return Err(SourceError::Empty);
    }
    if text.len() > MAX_SOURCE_BYTES {
        return Err(SourceError::TooLong);
    }
    if let Some(c) = text.chars().find(|c| c.is_control()) {
        return Err(SourceError::Unprintable(c));
    }
    if text.starts_with('-') {
        return Err(SourceError::LooksLikeOption(hide_secrets(text)));
    }
    if is_local(text) {
        return Ok(Source::local(Path::new(text)));
    }
    if let Some(c) = text.chars().find(|&c| prowess_base::text::is_unprintable(c)) {
        return Err(SourceError::Unprintable(c));
    }
    refuse_foreign(text)?;

    let (text, fragment) = split_fragment(text)?;
    let text = ALIASES.iter().find(|(old, _)| *old == text).map_or(text, |(_, new)| *new);
    if let Some(rest) = text.strip_prefix("github:") {
        let git = shorthand(rest, environment, fragment)?;
        return git.map(Source::Git).ok_or_else(|| SourceError::NotARepository(hide_secrets(text)));
    }
    if let Some(rest) = text.strip_prefix("gitlab:") {
        let url = parse_url(&format!("https://gitlab.com/{}", rest.trim_start_matches('/')))?;
        let git = hosted::gitlab(&url, fragment)?;
        return git.map(Source::Git).ok_or_else(|| SourceError::NotARepository(hide_secrets(text)));
    }
    if text.contains("://") {
        return from_url(&parse_url(text)?, text, environment, fragment);
    }
    // People copy addresses without the scheme.
    if ["github.com/", "www.github.com/", "gitlab.com/"].iter().any(|host| text.starts_with(host)) {
        let text = format!("https://{text}");
        return from_url(&parse_url(&text)?, &text, environment, fragment);
    }
    if is_archive(text) && !text.contains(':') {
        return Ok(Source::local(Path::new(text)));
    }
    if let Some(git) = secure_copy_form(text, &fragment)? {
        return Ok(Source::Git(git));
    }
    match shorthand(text, environment, fragment)? {
        Some(git) => Ok(Source::Git(git)),
        None => Err(SourceError::Unknown(hide_secrets(text))),
    }
}

/// An absolute path, `.`, `..`, `./x`, `../x` or `C:\x`.
fn is_local(text: &str) -> bool {
    let bytes = text.as_bytes();
    let has_drive = bytes.first().is_some_and(u8::is_ascii_alphabetic)
        && bytes.get(1) == Some(&b':')
        && matches!(bytes.get(2), Some(b'/' | b'\\'));
    has_drive || matches!(text, "." | "..") || ["/", "./", "../"].iter().any(|start| text.starts_with(start))
}

/// Refuses `<transport>::…`, npm packages and Notion pages.
fn refuse_foreign(text: &str) -> Result<(), SourceError> {
    if let Some((transport, _)) = text.split_once("::")
        && transport.chars().all(|c| c.is_ascii_alphanumeric() || matches!(c, '+' | '.' | '-' | '_'))
    {
        return Err(SourceError::Transport(format!("{transport}::")));
    }
    if text.get(..4).is_some_and(|start| start.eq_ignore_ascii_case("npm:")) {
        return Err(SourceError::Npm(text.to_owned()));
    }
    if text.eq_ignore_ascii_case("notion") {
        return Err(SourceError::Notion);
    }
    Ok(())
}

/// Splits `SRC#REF@SKILL`, if `SRC` looks like a Git repository. The fragment of another URL stays.
fn split_fragment(text: &str) -> Result<(&str, Fragment), SourceError> {
    let Some((before, fragment)) = text.split_once('#') else { return Ok((text, Fragment::default())) };
    if fragment.is_empty() {
        return Ok((before, Fragment::default()));
    }
    if !looks_like_git(before) {
        return Ok((text, Fragment::default()));
    }
    let (reference, skill) = match fragment.split_once('@') {
        Some((reference, skill)) => (Some(reference), Some(skill)),
        None => (Some(fragment), None),
    };
    let some = |part: Option<&str>, check: fn(&str) -> Result<String, SourceError>| {
        part.filter(|part| !part.is_empty()).map(check).transpose()
    };
    Ok((
        before,
        Fragment { reference: some(reference, text::reference)?, skill: some(skill, text::skill_name)? },
    ))
}

fn looks_like_git(text: &str) -> bool {
    let Some((scheme, _)) = text.split_once("://") else { return true };
    if !scheme.eq_ignore_ascii_case("https") && !scheme.eq_ignore_ascii_case("http") {
        return true;
    }
    let Ok(url) = Url::parse(text) else { return true };
    let is_known = matches!(url.host_str(), Some(GITHUB | "www.github.com" | "gitlab.com"));
    (is_known && !hosted::is_artifact(&url))
        || url.path().trim_end_matches('/').ends_with(".git")
        || url.path().contains("/_git/")
        || url.path().contains("/-/tree/")
}

fn from_url(
    url: &Url,
    text: &str,
    environment: &SourceEnvironment,
    fragment: Fragment,
) -> Result<Source, SourceError> {
    if !matches!(url.scheme(), "https" | "http") {
        return Ok(Source::Git(plain_git(text, fragment)));
    }
    let host = url.host_str().unwrap_or_default();
    if host == "notion.so"
        || host == "notion.com"
        || host.ends_with(".notion.so")
        || host.ends_with(".notion.com")
    {
        return Err(SourceError::Notion);
    }
    if hosted::is_artifact(url) {
        return Ok(Source::Download(SourceUrl::checked(url.as_str())));
    }
    if host == environment.github_host() || matches!(host, GITHUB | "www.github.com") {
        return hosted::github(url, fragment).map(Source::Git);
    }
    if let Some(git) = hosted::gitlab(url, fragment.clone())? {
        return Ok(Source::Git(git));
    }
    if let Some(git) = hosted::azure(url, fragment.clone())? {
        return Ok(Source::Git(git));
    }
    if url.path().ends_with(".git") {
        return Ok(Source::Git(plain_git(text, fragment)));
    }
    let is_file = is_archive(url.path()) || url.path().ends_with("/SKILL.md");
    let url = SourceUrl::checked(url.as_str());
    Ok(if is_file { Source::Download(url) } else { Source::WellKnown(url) })
}

/// A repository at a URL that is used as it is.
fn plain_git(url: &str, fragment: Fragment) -> GitSource {
    let url = SourceUrl::checked(url);
    let host = match url.host().as_deref() {
        Some(GITHUB) => GitHost::GitHub,
        Some("gitlab.com") => GitHost::GitLab,
        Some("ssh.dev.azure.com") => GitHost::Azure,
        _ => GitHost::Other,
    };
    let Fragment { reference, skill } = fragment;
    GitSource { url, reference, subpath: None, skill, host }
}

/// `user@host:path`, which Git takes for SSH.
fn secure_copy_form(text: &str, fragment: &Fragment) -> Result<Option<GitSource>, SourceError> {
    let Some((place, path)) = text.split_once(':') else { return Ok(None) };
    let Some((user, host)) = place.split_once('@') else { return Ok(None) };
    if let Some(part) = [user, host, path].into_iter().find(|part| part.starts_with('-')) {
        return Err(SourceError::LooksLikeOption(part.to_owned()));
    }
    let is_user =
        !user.is_empty() && user.chars().all(|c| c.is_ascii_alphanumeric() || matches!(c, '.' | '-' | '_'));
    if !is_user || !url::is_host(host) || path.trim_matches('/').is_empty() {
        return Err(SourceError::Url {
            url: hide_secrets(text),
            reason: "write USER@HOST:PATH or ssh://USER@HOST/PATH",
        });
    }
    Ok(Some(plain_git(text, fragment.clone())))
}

/// `OWNER/REPO`, `OWNER/REPO/SUBPATH` or `OWNER/REPO@SKILL` on GitHub. `None` if the text has another form.
fn shorthand(
    text: &str,
    environment: &SourceEnvironment,
    fragment: Fragment,
) -> Result<Option<GitSource>, SourceError> {
    let Some((owner, rest)) = text.split_once('/') else { return Ok(None) };
    if text.contains(':') || text.starts_with('.') || owner.is_empty() {
        return Ok(None);
    }
    let (repository, subpath, skill) = match (rest.find('@'), rest.find('/')) {
        (Some(at), slash) if slash.is_none_or(|slash| at < slash) => {
            (&rest[..at], None, Some(&rest[at + 1..]))
        }
        (_, Some(slash)) => (&rest[..slash], Some(&rest[slash + 1..]), None),
        (_, None) => (rest, None, None),
    };
    let owner = text::host_name(owner, text)?;
    let repository = text::host_name(repository.strip_suffix(".git").unwrap_or(repository), text)?;
    let host = environment.github_host();
    let url = SourceUrl::checked(format!("https://{host}/{owner}/{repository}.git"));
    let skill = match fragment.skill {
        Some(skill) => Some(skill),
        None => skill.map(text::skill_name).transpose()?,
    };
    Ok(Some(GitSource {
        url,
        reference: fragment.reference,
        subpath: subpath.map(text::plain_subpath).transpose()?.flatten(),
        skill,
        host: if host == GITHUB { GitHost::GitHub } else { GitHost::Other },
    }))
}
