//! Files of a thread: those of its tree, and artifacts.

use std::sync::Arc;

use axum::Json;
use axum::body::Body;
use axum::extract::{FromRequest as _, Request, State};
use axum::response::Response;
use bytes::Bytes;
use http::header::{CONTENT_DISPOSITION, CONTENT_SECURITY_POLICY, CONTENT_TYPE, X_CONTENT_TYPE_OPTIONS};
use http::{HeaderValue, StatusCode};
use prowess_agent::middleware::FollowedFiles;
use prowess_agent::queue::{Post, PostIf, Posted, QueueState};
use prowess_agent::thread_state::StateChange;
use prowess_backend::{Backend, BackendError, EntryKind, VirtualPath, WriteMode};
use prowess_store::serve::OwnedThread;
use prowess_workspace::artifact::ArtifactRecord;
use prowess_workspace::tree::PROJECT;
use prowess_workspace::{ArtifactError, ArtifactName, ArtifactStore as _, Artifacts};
use serde::{Deserialize, Serialize};
use utoipa::{IntoParams, ToSchema};

use super::threads::owned;
use super::{ApiBytes, ApiError, ApiPath, ApiQuery, Items};
use crate::agents::ServedFiles;
use crate::app::App;
use crate::auth::{Reader, Writer};
use crate::view::time;

/// The most files and directories of one listing.
const MAX_LISTED: usize = 2000;
/// The most posts of a thread that wait while people change files.
const MAX_WAITING: u64 = 1000;
/// The most parts of a path that a person may change.
const MAX_DEPTH: usize = 48;
/// The most versions of artifacts of one listing.
const MAX_VERSIONS: usize = 1000;
/// What a browser may do with the content of a file: show it, and nothing else.
const CONTENT_POLICY: &str = "default-src 'none'; style-src 'unsafe-inline'; sandbox; frame-ancestors 'self'";

#[derive(Debug, Deserialize, IntoParams)]
#[into_params(parameter_in = Query)]
pub(super) struct FileAt {
    /// A path of the tree, such as `/project/plan.md`.
    path: String,
    /// Whether a browser should save the file.
    #[serde(default)]
    download: Option<String>,
}

#[derive(Debug, Default, Deserialize, IntoParams)]
#[into_params(parameter_in = Query)]
#[serde(default)]
pub(super) struct DirectoryAt {
    /// A directory of the tree, by default `/project`.
    path: Option<String>,
}

/// A directory of a thread's tree.
#[derive(Debug, Serialize, ToSchema)]
pub(super) struct Directory {
    /// Its path.
    path: String,
    /// Its entries.
    items: Vec<FileView>,
    /// Whether there are more.
    more: bool,
}

/// A file or a directory.
#[derive(Debug, Serialize, ToSchema)]
pub(super) struct FileView {
    /// Its name.
    name: String,
    /// Its path.
    path: String,
    /// `file` or `directory`.
    kind: &'static str,
    /// Its size.
    bytes: Option<u64>,
    /// When it was changed.
    changed: Option<String>,
}

fn parsed(path: &str) -> Result<VirtualPath, ApiError> {
    VirtualPath::parse(path).map_err(|error| ApiError::bad_request(error.to_string()))
}

fn refused(error: &BackendError) -> ApiError {
    match error {
        BackendError::NotFound { path, .. } => ApiError::not_found(format_args!("file {path}")),
        error => ApiError::bad_request(error.to_string()),
    }
}

/// Lists a directory of a thread's tree.
#[utoipa::path(get, path = "/threads/{thread}/files", tag = "files", params(("thread" = String, Path), DirectoryAt), responses((status = 200, body = Directory)))]
pub(super) async fn list(
    State(app): State<Arc<App>>,
    Reader(caller): Reader,
    ApiPath(id): ApiPath<String>,
    ApiQuery(DirectoryAt { path }): ApiQuery<DirectoryAt>,
) -> Result<Json<Directory>, ApiError> {
    let thread = owned(&app, &caller, &id).await?;
    let path = parsed(path.as_deref().unwrap_or(PROJECT))?;
    let listing = files_of(&app, &thread).await?.ls(&path).await.map_err(|error| refused(&error))?;
    let more = listing.entries.len() > MAX_LISTED;
    let item = |entry: &prowess_backend::Entry| FileView {
        name: entry.path.as_str().rsplit('/').next().unwrap_or_default().to_owned(),
        path: entry.path.as_str().to_owned(),
        kind: if entry.kind == EntryKind::Directory { "directory" } else { "file" },
        bytes: (entry.kind != EntryKind::Directory).then_some(entry.size),
        changed: entry.modified.map(time),
    };
    let items = listing.entries.iter().take(MAX_LISTED).map(item).collect();
    Ok(Json(Directory { path: path.as_str().to_owned(), items, more }))
}

/// Reads a file of a thread's tree. A browser shows nothing of it that runs.
#[utoipa::path(get, path = "/threads/{thread}/files/content", tag = "files", params(("thread" = String, Path), FileAt), responses((status = 200, content((String = "text/plain"), (Vec<u8> = "application/octet-stream"), (Vec<u8> = "image/png"), (Vec<u8> = "image/jpeg"), (Vec<u8> = "image/gif"), (Vec<u8> = "image/webp"), (Vec<u8> = "application/pdf")))))]
pub(super) async fn read(
    State(app): State<Arc<App>>,
    Reader(caller): Reader,
    ApiPath(id): ApiPath<String>,
    ApiQuery(FileAt { path, download }): ApiQuery<FileAt>,
) -> Result<Response, ApiError> {
    let thread = owned(&app, &caller, &id).await?;
    caller.read_file(&app)?;
    let files = files_of(&app, &thread).await?;
    let path = parsed(&path)?;
    let entry = files.stat(&path).await.map_err(|error| refused(&error))?;
    if entry.size > app.limits.upload_bytes as u64 {
        return Err(ApiError::too_large(format!(
            "Files of more than {} bytes cannot be read here.",
            app.limits.upload_bytes
        )));
    }
    let read = files.download(std::slice::from_ref(&path)).await.into_iter().next();
    let bytes = read.unwrap_or(Ok(Bytes::new())).map_err(|error| refused(&error))?;
    let name = path.as_str().rsplit('/').next().unwrap_or_default();
    Ok(content(bytes, name, download.is_some()))
}

/// Writes a file below `/project`. The body is the file.
#[utoipa::path(put, path = "/threads/{thread}/files/content", tag = "files", params(("thread" = String, Path), FileAt), request_body(content = Vec<u8>, content_type = "application/octet-stream"), responses((status = 201), (status = 413, description = "The file is too large", body = super::error::ApiErrorBody)))]
pub(super) async fn write(
    State(app): State<Arc<App>>,
    Writer(caller): Writer,
    ApiPath(id): ApiPath<String>,
    ApiQuery(FileAt { path, .. }): ApiQuery<FileAt>,
    request: Request,
) -> Result<StatusCode, ApiError> {
    let thread = owned(&app, &caller, &id).await?;
    let ApiBytes(body) = ApiBytes::from_request(request, &app).await?;
    let path = own_path(&path)?;
    if let Some(followed) = app.agents.followed_files() {
        write_followed(&app, &thread, followed, &path, body).await?;
        return Ok(StatusCode::CREATED);
    }
    let served = app.agents.thread(&thread.owner, &thread.id).await?;
    served.files.write(&path, body, WriteMode::Replace).await.map_err(|error| refused(&error))?;
    Ok(StatusCode::CREATED)
}

/// Deletes a file below `/project`.
#[utoipa::path(delete, path = "/threads/{thread}/files/content", tag = "files", params(("thread" = String, Path), FileAt), responses((status = 204)))]
pub(super) async fn delete(
    State(app): State<Arc<App>>,
    Writer(caller): Writer,
    ApiPath(id): ApiPath<String>,
    ApiQuery(FileAt { path, .. }): ApiQuery<FileAt>,
) -> Result<StatusCode, ApiError> {
    let thread = owned(&app, &caller, &id).await?;
    let path = own_path(&path)?;
    if let Some(followed) = app.agents.followed_files() {
        let now = followed_now(&app, &thread).await?;
        let files = followed.files(&thread.owner, &thread.id, &now).await?;
        if files.stat(&path).await.map_err(|error| refused(&error))?.kind == EntryKind::Directory {
            return Err(refused(&BackendError::IsDirectory { path }));
        }
        let change = followed.remove(&thread.owner, &thread.id, &now, &path).await?;
        post_change(&app, &thread, change).await?;
        return Ok(StatusCode::NO_CONTENT);
    }
    // A command that works with the file would see it vanish.
    if app.queue.state(&thread.id).await? == QueueState::Claimed {
        return Err(ApiError::conflict("The agent works. Delete the file when it rests."));
    }
    let served = app.agents.thread(&thread.owner, &thread.id).await?;
    served.files.delete(&path).await.map_err(|error| refused(&error))?;
    Ok(StatusCode::NO_CONTENT)
}

/// What the log of a thread and the changes that wait in its inbox say about its files.
async fn followed_now(app: &App, thread: &OwnedThread) -> Result<FollowedFiles, ApiError> {
    // The inbox first: a change that is taken in meanwhile is in both, which does no harm.
    let waiting = app.inbox_of(&thread.owner).waiting(&thread.id).await?;
    let mut files = app.look_at(thread, |replay| replay.files.clone()).await?;
    for entry in &waiting {
        if let Post::Change { change, .. } = &entry.post {
            files.read(change);
        }
    }
    Ok(files)
}

/// The files of a thread. If they follow it, they are those of its log, and on no disk of this machine.
pub(crate) async fn files_of(app: &App, thread: &OwnedThread) -> Result<Arc<dyn Backend>, ApiError> {
    match app.agents.followed_files() {
        Some(followed) => {
            let now = followed_now(app, thread).await?;
            Ok(followed.files(&thread.owner, &thread.id, &now).await?)
        }
        None => Ok(app.agents.thread(&thread.owner, &thread.id).await?.files),
    }
}

/// Stores a file, and tells the thread. The next worker that has it puts the file into its directory.
async fn write_followed(
    app: &App,
    thread: &OwnedThread,
    followed: &dyn ServedFiles,
    path: &VirtualPath,
    bytes: Bytes,
) -> Result<(), ApiError> {
    let now = followed_now(app, thread).await?;
    let files = followed.files(&thread.owner, &thread.id, &now).await?;
    check_place(&*files, path).await.map_err(|error| refused(&error))?;
    let change = followed.write(&thread.owner, &thread.id, &now, path, bytes).await?;
    let full =
        || ApiError::too_large("The thread has no room for this file. Delete files that it no longer needs.");
    post_change(app, thread, change.ok_or_else(full)?).await
}

/// Checks that a file can be at `path`: no directory is there, and no file is in the place of a directory.
async fn check_place(files: &dyn Backend, path: &VirtualPath) -> Result<(), BackendError> {
    let is = async |path: &VirtualPath, kind: EntryKind| match files.stat(path).await {
        Ok(found) => Ok(found.kind == kind),
        Err(BackendError::NotFound { .. }) => Ok(false),
        Err(error) => Err(error),
    };
    if is(path, EntryKind::Directory).await? {
        return Err(BackendError::IsDirectory { path: path.clone() });
    }
    let mut above = path.parent();
    while let Some(directory) =
        above.filter(|directory| directory.as_str() != PROJECT && !directory.is_root())
    {
        if is(&directory, EntryKind::File).await? {
            return Err(BackendError::NotADirectory { path: directory });
        }
        above = directory.parent();
    }
    Ok(())
}

/// Posts a change of the files to the thread.
async fn post_change(app: &App, thread: &OwnedThread, change: StateChange) -> Result<(), ApiError> {
    let full = || {
        let text = "Too many changes of files wait in your threads. Reply to their questions, or wait.";
        Err(ApiError::too_many(text).retry_after(1))
    };
    if app.threads.posts(&thread.owner).await?.changes >= MAX_WAITING {
        return full();
    }
    let post = Post::Change { id: uuid::Uuid::now_v7().simple().to_string(), change };
    // Others may have posted since.
    let most = PostIf::FewerWait(MAX_WAITING + app.limits.waiting_posts);
    if app.inbox_of(&thread.owner).post_if(&thread.id, &post, most).await? == Posted::Refused {
        return full();
    }
    app.tell_posted(&thread.id);
    Ok(())
}

/// A path that a person may change.
fn own_path(path: &str) -> Result<VirtualPath, ApiError> {
    let path = parsed(path)?;
    if path.as_str().split('/').count() > MAX_DEPTH {
        return Err(ApiError::bad_request(format!("A path has at most {MAX_DEPTH} parts.")));
    }
    let below =
        path.as_str().strip_prefix(PROJECT).is_some_and(|rest| rest.starts_with('/') && rest.len() > 1);
    if below {
        Ok(path)
    } else {
        Err(ApiError::bad_request(format!("Only files below {PROJECT} can be changed.")))
    }
}

/// The response with the content of a file. Its type follows from its bytes, never from its name or a stored type, and no
/// type that a browser would run is sent.
fn content(bytes: Bytes, name: &str, download: bool) -> Response {
    let mime = safe_mime(&bytes);
    let shown = if download || mime == "application/octet-stream" { "attachment" } else { "inline" };
    let disposition = format!("{shown}; filename*=UTF-8''{}", percent_encoded(name));
    let mut response = Response::new(Body::from(bytes));
    let headers = response.headers_mut();
    headers.insert(CONTENT_TYPE, HeaderValue::from_static(mime));
    headers.insert(X_CONTENT_TYPE_OPTIONS, HeaderValue::from_static("nosniff"));
    headers.insert(CONTENT_SECURITY_POLICY, HeaderValue::from_static(CONTENT_POLICY));
    if let Ok(disposition) = disposition.parse() {
        headers.insert(CONTENT_DISPOSITION, disposition);
    }
    response
}

fn safe_mime(bytes: &[u8]) -> &'static str {
    let starts = |magic: &[u8]| bytes.starts_with(magic);
    if starts(b"\x89PNG\r\n\x1a\n") {
        "image/png"
    } else if starts(b"\xff\xd8\xff") {
        "image/jpeg"
    } else if starts(b"GIF87a") || starts(b"GIF89a") {
        "image/gif"
    } else if starts(b"RIFF") && bytes.get(8..12) == Some(b"WEBP") {
        "image/webp"
    } else if starts(b"%PDF-") {
        "application/pdf"
    } else if !bytes.contains(&0) && std::str::from_utf8(bytes).is_ok() {
        "text/plain; charset=utf-8"
    } else {
        "application/octet-stream"
    }
}

fn percent_encoded(name: &str) -> String {
    use std::fmt::Write as _;
    let mut text = String::new();
    for byte in name.bytes() {
        if byte.is_ascii_alphanumeric() || matches!(byte, b'.' | b'-' | b'_') {
            text.push(char::from(byte));
        } else {
            let _ = write!(text, "%{byte:02X}");
        }
    }
    text
}

/// An artifact.
#[derive(Debug, Serialize, ToSchema)]
pub(super) struct ArtifactView {
    /// Its name.
    name: String,
    /// Its version.
    version: u64,
    /// Its size.
    bytes: u64,
    /// Its media type, as its bytes say.
    mime: String,
}

#[derive(Debug, Default, Deserialize, IntoParams)]
#[into_params(parameter_in = Query)]
#[serde(default)]
pub(super) struct WhichVersions {
    /// Which versions to list. By default the latest one of each artifact.
    versions: Versions,
}

/// Which versions of artifacts are listed.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize, ToSchema)]
#[serde(rename_all = "snake_case")]
pub(super) enum Versions {
    /// The latest one of each.
    #[default]
    Latest,
    /// The newest ones of each, at most 1,000 together.
    All,
}

/// Lists the artifacts that runs in a thread saved, by name, the newest version of each first.
#[utoipa::path(get, path = "/threads/{thread}/artifacts", tag = "files", params(("thread" = String, Path), WhichVersions), responses((status = 200, body = Items<ArtifactView>)))]
pub(super) async fn artifacts(
    State(app): State<Arc<App>>,
    Reader(caller): Reader,
    ApiPath(id): ApiPath<String>,
    ApiQuery(WhichVersions { versions }): ApiQuery<WhichVersions>,
) -> Result<Json<Items<ArtifactView>>, ApiError> {
    let thread = owned(&app, &caller, &id).await?;
    let served = app.agents.thread(&thread.owner, &thread.id).await?;
    let mut list = served.artifacts.list().await.map_err(|error| ApiError::internal(&error))?;
    if versions == Versions::All {
        list = all_versions(&served.artifacts, &list).await.map_err(|error| ApiError::internal(&error))?;
    }
    let view = |record: &ArtifactRecord| ArtifactView {
        name: record.name.clone(),
        version: record.version,
        bytes: record.size,
        mime: record.mime_type.clone(),
    };
    Ok(Json(list.iter().map(view).collect::<Vec<_>>().into()))
}

/// The newest versions of these artifacts. If there are too many, the latest ones come before older ones.
async fn all_versions(
    artifacts: &Artifacts,
    latest: &[ArtifactRecord],
) -> Result<Vec<ArtifactRecord>, ArtifactError> {
    let mut room = MAX_VERSIONS.saturating_sub(latest.len());
    let mut listed = Vec::new();
    for record in latest {
        listed.push(record.clone());
        // The first version has the number 0. Without earlier ones, there is nothing to look up.
        let Some(name) = ArtifactName::parse(&record.name).ok().filter(|_| room > 0 && record.version > 0)
        else {
            continue;
        };
        let records = artifacts.version_records(&name).await?;
        let earlier = records.into_iter().rev().filter(|earlier| earlier.version < record.version);
        let before = listed.len();
        listed.extend(earlier.take(room));
        room -= listed.len() - before;
    }
    Ok(listed)
}

#[derive(Debug, Deserialize, IntoParams)]
#[into_params(parameter_in = Query)]
pub(super) struct ArtifactAt {
    /// The artifact's name.
    name: String,
    /// The version, by default the latest.
    #[serde(default)]
    version: Option<u64>,
}

/// Reads an artifact.
#[utoipa::path(get, path = "/threads/{thread}/artifacts/content", tag = "files", params(("thread" = String, Path), ArtifactAt), responses((status = 200, content((String = "text/plain"), (Vec<u8> = "application/octet-stream"), (Vec<u8> = "image/png"), (Vec<u8> = "image/jpeg"), (Vec<u8> = "image/gif"), (Vec<u8> = "image/webp"), (Vec<u8> = "application/pdf")))))]
pub(super) async fn artifact(
    State(app): State<Arc<App>>,
    Reader(caller): Reader,
    ApiPath(id): ApiPath<String>,
    ApiQuery(ArtifactAt { name, version }): ApiQuery<ArtifactAt>,
) -> Result<Response, ApiError> {
    let thread = owned(&app, &caller, &id).await?;
    caller.read_file(&app)?;
    let served = app.agents.thread(&thread.owner, &thread.id).await?;
    let parsed =
        ArtifactName::parse(&name).map_err(|_| ApiError::bad_request("This is no name of an artifact."))?;
    let missing =
        || ApiError::not_found(format_args!("artifact `{}`", prowess_base::text::escaped_start(&name)));
    let loaded = served.artifacts.load(&parsed, version).await.map_err(|error| match error {
        ArtifactError::NotFound { .. } => missing(),
        error => ApiError::internal(&error),
    })?;
    let name = name.rsplit('/').next().unwrap_or_default();
    Ok(content(loaded.bytes, name, false))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nothing_that_a_browser_runs_keeps_its_type() {
        for text in ["<html><script>1</script>", "<?xml version='1.0'?><svg onload='1'/>", "GIF8 <script>"] {
            assert_eq!(safe_mime(text.as_bytes()), "text/plain; charset=utf-8");
        }
        assert_eq!(safe_mime(b"\0<html>"), "application/octet-stream");
        assert_eq!(safe_mime(b"GIF89a<script>"), "image/gif");
    }

    #[tokio::test]
    async fn the_newest_versions_are_listed_and_latest_ones_first_of_all() {
        let artifacts = Artifacts::in_memory();
        for (name, versions) in [("a.txt", MAX_VERSIONS + 5), ("b.txt", 3), ("c.txt", 1)] {
            let name = ArtifactName::parse(name).unwrap();
            for _ in 0..versions {
                artifacts.save(&name, "x".into(), "text/plain").await.unwrap();
            }
        }
        let latest = artifacts.list().await.unwrap();
        let listed = |records: &[ArtifactRecord]| -> Vec<String> {
            records.iter().map(|record| format!("{}@{}", record.name, record.version)).collect()
        };
        let all = listed(&all_versions(&artifacts, &latest).await.unwrap());
        assert_eq!(all.len(), MAX_VERSIONS);
        assert_eq!(all[..2], ["a.txt@1004", "a.txt@1003"]);
        assert_eq!(all[MAX_VERSIONS - 2..], ["b.txt@2", "c.txt@0"]);
        let few = listed(&all_versions(&artifacts, &latest[1..]).await.unwrap());
        assert_eq!(few, ["b.txt@2", "b.txt@1", "b.txt@0", "c.txt@0"]);
    }

    #[test]
    fn a_name_cannot_leave_its_header() {
        assert_eq!(percent_encoded("a\"; x=\r\n\u{202e}.md"), "a%22%3B%20x%3D%0D%0A%E2%80%AE.md");
    }

    #[test]
    fn only_the_project_can_be_changed() {
        assert!(own_path("/project/a.md").is_ok());
        for path in ["/project", "/project/", "/projects/a", "/work/a", "/project/../work/a", "/etc/passwd"] {
            assert!(own_path(path).is_err(), "{path}");
        }
    }
}
