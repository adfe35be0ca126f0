//! Finds out where a repository moved on its own host, because Git itself follows no redirects here.

use std::time::Duration;

use reqwest::Url;

use super::GitError;
use crate::snapshot::http::{HttpClient, HttpError, MAX_REDIRECTS, NamedBy, Step};

/// The path that Git asks for first.
const PROBE: &str = "/info/refs";
/// How long one answer may take. Only redirects matter, so a slow server is left to Git.
const PROBE_TIMEOUT: Duration = Duration::from_secs(20);

/// The URL that the repository moved to, if the server redirects. Errors that are none of a redirect are left to Git, which
/// knows the person's proxies and credentials.
pub(super) async fn resolve(url: &str) -> Result<Option<String>, GitError> {
    let Ok(typed) = Url::parse(url) else { return Ok(None) };
    let mut probe = typed.clone();
    probe.set_path(&format!("{}{PROBE}", typed.path().trim_end_matches('/')));
    probe.set_query(Some("service=git-upload-pack"));
    probe.set_fragment(None);
    // The password is for Git only: it may be a token of another kind than a server of redirects expects.
    let _ = probe.set_username("");
    let _ = probe.set_password(None);
    let client = HttpClient::new(&probe, None).map_err(GitError::Redirect)?;
    let mut at = probe.clone();
    for _ in 0..=MAX_REDIRECTS {
        let step = tokio::time::timeout(PROBE_TIMEOUT, client.step(&at, NamedBy::Typed)).await;
        match step {
            Ok(Ok(Step::Redirect(next))) => {
                let (from, to) = (host(&typed), host(&next));
                if typed.host_str() != next.host_str() {
                    return Err(GitError::Redirect(HttpError::OtherHost { from, to }));
                }
                at = next;
            }
            Ok(Ok(Step::Answer(_))) => return Ok(moved(&typed, &probe, &at)),
            Ok(Err(HttpError::Failed { .. } | HttpError::Address { .. })) | Err(_) if at == probe => {
                return Ok(None);
            }
            Ok(Err(error)) => return Err(GitError::Redirect(error)),
            Err(_) => return Ok(None),
        }
    }
    Err(GitError::Redirect(HttpError::Redirects(crate::snapshot::http::shown(&typed))))
}

/// The URL of the repository whose probe ended at `at`.
fn moved(typed: &Url, probe: &Url, at: &Url) -> Option<String> {
    if at == probe {
        return None;
    }
    // A redirect to something else, such as a page for logging in, is no repository. Git will say so.
    let path = at.path().strip_suffix(PROBE)?.to_owned();
    let mut moved = at.clone();
    moved.set_path(&path);
    moved.set_query(None);
    moved.set_fragment(None);
    let _ = moved.set_username(typed.username());
    let _ = moved.set_password(typed.password());
    Some(moved.into())
}

fn host(url: &Url) -> String {
    url.host_str().unwrap_or_default().to_owned()
}
