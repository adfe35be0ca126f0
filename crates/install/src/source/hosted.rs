//! The URLs of GitHub, GitLab and Azure DevOps.

use reqwest::Url;

use super::error::SourceError;
use super::parse::Fragment;
use super::text;
use super::url::{SourceUrl, hide_secrets};
use super::{GITHUB, GitHost, GitSource};

/// Whether the URL is that of a file which GitHub or GitLab serves, not of a repository.
pub(super) fn is_artifact(url: &Url) -> bool {
    let names: Vec<&str> = names(url).collect();
    match url.host_str().unwrap_or_default() {
        "raw.githubusercontent.com" | "codeload.github.com" | "objects.githubusercontent.com" => true,
        GITHUB | "www.github.com" => matches!(
            names.as_slice(),
            [_, _, "archive" | "raw", _, ..]
                | [_, _, "releases", "download", _, ..]
                | [_, _, "releases", "latest", "download", ..]
        ),
        "gitlab.com" => names.windows(2).any(|pair| matches!(pair, ["-", "archive" | "raw"])),
        _ => false,
    }
}

/// A repository on GitHub, or on the GitHub Enterprise host of the environment.
pub(super) fn github(url: &Url, fragment: Fragment) -> Result<GitSource, SourceError> {
    let shown = hide_secrets(url.as_str());
    let names: Vec<&str> = names(url).collect();
    let [owner, repository, page @ ..] = names.as_slice() else {
        return Err(SourceError::NotARepository(shown));
    };
    let owner = text::host_name(owner, &shown)?;
    let repository = text::host_name(repository.strip_suffix(".git").unwrap_or(repository), &shown)?;
    let (reference, subpath) = page_of(page, &shown)?;
    let mut base = url.clone();
    let host = match url.host_str() {
        Some(GITHUB | "www.github.com") => {
            // `http` and `www` only redirect. Neither call fails for a URL with a host.
            let _ = base.set_scheme("https");
            let _ = base.set_host(Some(GITHUB));
            GitHost::GitHub
        }
        _ => GitHost::Other,
    };
    let url = repository_url(base, &format!("/{owner}/{repository}.git"));
    Ok(GitSource { url, reference: reference.or(fragment.reference), subpath, skill: fragment.skill, host })
}

/// A repository on `gitlab.com`, or any URL with `/-/tree/`. `None` for another URL.
pub(super) fn gitlab(url: &Url, fragment: Fragment) -> Result<Option<GitSource>, SourceError> {
    let shown = hide_secrets(url.as_str());
    let names: Vec<&str> = names(url).collect();
    let dash = names.windows(2).position(|pair| matches!(pair, ["-", "tree" | "blob"]));
    let is_gitlab = url.host_str() == Some("gitlab.com");
    let (project, page) = match dash {
        Some(at) => (&names[..at], &names[at + 1..]),
        None if is_gitlab && !names.contains(&"-") => (names.as_slice(), &[][..]),
        None if is_gitlab => return Err(SourceError::NotARepository(shown)),
        None => return Ok(None),
    };
    if project.is_empty() || (is_gitlab && project.len() < 2) {
        return Err(SourceError::NotARepository(shown));
    }
    let project = project.iter().map(|name| text::host_name(name, &shown)).collect::<Result<Vec<_>, _>>()?;
    let (reference, subpath) = page_of(page, &shown)?;
    let path = project.join("/");
    let mut base = url.clone();
    if is_gitlab {
        let _ = base.set_scheme("https");
    }
    let url = repository_url(base, &format!("/{}.git", path.strip_suffix(".git").unwrap_or(&path)));
    Ok(Some(GitSource {
        url,
        reference: reference.or(fragment.reference),
        subpath,
        skill: fragment.skill,
        host: GitHost::GitLab,
    }))
}

/// A repository on Azure DevOps: `…/_git/REPO?path=/P&version=GBbranch`. `None` for another URL.
pub(super) fn azure(url: &Url, fragment: Fragment) -> Result<Option<GitSource>, SourceError> {
    let names: Vec<&str> = names(url).collect();
    let Some(at) = names.iter().position(|name| *name == "_git") else { return Ok(None) };
    let Some(repository) = names.get(at + 1) else { return Ok(None) };
    let repository = repository.strip_suffix(".git").unwrap_or(repository);
    if repository.is_empty() || repository.starts_with('-') {
        return Err(SourceError::NotARepository(hide_secrets(url.as_str())));
    }
    let (mut reference, mut subpath) = (None, None);
    for (key, value) in url.query_pairs() {
        match &*key {
            "path" => subpath = text::plain_subpath(&value)?,
            "version" => reference = azure_version(&value).map(text::reference).transpose()?,
            _ => {}
        }
    }
    let path: Vec<&str> = names[..at].iter().copied().chain(["_git", repository]).collect();
    let url = repository_url(url.clone(), &format!("/{}", path.join("/")));
    Ok(Some(GitSource {
        url,
        reference: reference.or(fragment.reference),
        subpath,
        skill: fragment.skill,
        host: GitHost::Azure,
    }))
}

/// The name after `GB` (a branch), `GT` (a tag) or `GC` (a commit).
fn azure_version(version: &str) -> Option<&str> {
    let kind = version.get(..2)?;
    let is_known = ["GB", "GT", "GC"].iter().any(|known| known.eq_ignore_ascii_case(kind));
    is_known.then(|| &version[2..]).filter(|name| !name.is_empty())
}

/// What follows the repository: nothing, `tree/REF[/PATH]`, or `blob/REF/PATH/SKILL.md` for the directory of that file.
fn page_of(page: &[&str], shown: &str) -> Result<(Option<String>, Option<String>), SourceError> {
    match page {
        [] => Ok((None, None)),
        ["tree", reference, path @ ..] => {
            Ok((Some(text::reference(reference)?), text::subpath(&path.join("/"))?))
        }
        ["blob", reference, path @ .., "SKILL.md"] => {
            Ok((Some(text::reference(reference)?), text::subpath(&path.join("/"))?))
        }
        _ => Err(SourceError::NotARepository(shown.to_owned())),
    }
}

/// The names in the path of a URL, still percent-encoded.
fn names(url: &Url) -> impl Iterator<Item = &str> {
    url.path().split('/').filter(|name| !name.is_empty())
}

/// `base` with another path, and without a query and a fragment.
fn repository_url(mut base: Url, path: &str) -> SourceUrl {
    base.set_path(path);
    base.set_query(None);
    base.set_fragment(None);
    SourceUrl::checked(base.as_str())
}
