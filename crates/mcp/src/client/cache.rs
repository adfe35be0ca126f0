//! A cache of skill files from servers.

use std::collections::HashSet;
use std::fs::{self, DirBuilder, File, OpenOptions};
use std::io::{self, Read as _, Write as _};
use std::os::unix::fs::{DirBuilderExt as _, MetadataExt as _, OpenOptionsExt as _, PermissionsExt as _};
use std::path::{Path, PathBuf};
use std::sync::{Mutex, PoisonError};
use std::time::SystemTime;

use prowess_base::hex::encode;
use prowess_catalog::Digest;
use rustix::fs::OFlags;

use super::label::ServerLabel;
use crate::skills_extension::MAX_SERVED_BYTES;
use prowess_catalog::published::PublishedFile;

/// How many bytes the cache keeps by default.
const DEFAULT_MAX_BYTES: u64 = 256 * 1024 * 1024;
/// The start of a file's name until the file is complete.
const UNFINISHED: &str = "unfinished-";

/// A directory with files from servers. Each server has a subdirectory with its configured label. No path contains a name
/// that a server chose: the cache finds a file by its address and digest, and hashes it again on every read.
///
/// ```
/// use prowess_mcp::client::Cache;
///
/// # let scratch = tempfile::tempdir()?;
/// # let (state, skills) = (scratch.path().join("state"), scratch.path().join("skills"));
/// # std::fs::create_dir_all(&skills)?;
/// let cache = Cache::open(&state.join("servers"), [&skills])?;
/// // Files in a root would be taken for local skills.
/// assert!(Cache::open(&skills.join("cache"), [&skills]).is_err());
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Debug)]
pub struct Cache {
    directory: PathBuf,
    most: u64,
    /// Held while the cache searches the whole directory for files to remove.
    making_room: Mutex<()>,
}

/// Why a directory cannot be a cache.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum CacheError {
    /// The directory is inside a root, or contains one.
    #[error("cannot cache files of servers in {}: prowess looks for skills in {}", .directory.display(), .root.display())]
    InRoot {
        /// The directory.
        directory: PathBuf,
        /// The root.
        root: PathBuf,
    },
    /// Another user owns the directory, or it is a link.
    #[error("cannot cache files of servers in {}: it is not a directory that you own", .0.display())]
    Foreign(PathBuf),
    /// The directory cannot be created or read.
    #[error("cannot cache files of servers in {}: {}", .0.display(), .1)]
    Io(PathBuf, #[source] io::Error),
}

impl Cache {
    /// Opens the cache in this directory. Creates the directory for this user alone if it does not exist. `roots` are all
    /// directories in which your program looks for skills.
    ///
    /// # Errors
    ///
    /// The directory is inside a root or contains one, belongs to another user, or cannot be created.
    pub fn open<P: AsRef<Path>>(
        directory: &Path,
        roots: impl IntoIterator<Item = P>,
    ) -> Result<Self, CacheError> {
        let failed = |error| CacheError::Io(directory.to_owned(), error);
        // Check before creating anything: a refusal leaves no trace.
        let place = resolved(directory).map_err(failed)?;
        // The target of a link may contain files that are not ours.
        if fs::symlink_metadata(directory).is_ok_and(|found| found.is_symlink()) {
            return Err(CacheError::Foreign(directory.to_owned()));
        }
        for root in roots {
            let root = resolved(root.as_ref()).map_err(failed)?;
            if place.starts_with(&root) || root.starts_with(&place) {
                return Err(CacheError::InRoot { directory: place, root });
            }
        }
        DirBuilder::new().recursive(true).mode(0o700).create(&place).map_err(failed)?;
        let found = fs::symlink_metadata(&place).map_err(failed)?;
        if !found.is_dir() || found.uid() != rustix::process::geteuid().as_raw() {
            return Err(CacheError::Foreign(place));
        }
        if found.mode() & 0o077 != 0 {
            fs::set_permissions(&place, fs::Permissions::from_mode(0o700)).map_err(failed)?;
        }
        Ok(Self { directory: place, most: DEFAULT_MAX_BYTES, making_room: Mutex::new(()) })
    }

    /// Sets how many bytes the cache keeps at most.
    #[must_use]
    pub fn max_bytes(mut self, most: u64) -> Self {
        self.most = most;
        self
    }

    /// The bytes of a file, if the cache has them and their size and digest match. Removes a file that was changed.
    pub fn get(&self, server: &ServerLabel, file: &PublishedFile) -> Option<Vec<u8>> {
        let path = self.path(server, file);
        let bytes = read(&path, file.size).ok()?;
        if bytes.len() as u64 == file.size && Digest::of(&bytes) == file.digest {
            return Some(bytes);
        }
        tracing::warn!(%server, "A file in the cache was changed; prowess retrieves it again");
        let _ = fs::remove_file(path);
        None
    }

    /// Keeps the bytes of a file, whole or not at all. Logs a failure to write; the file is then retrieved again.
    pub fn put(&self, server: &ServerLabel, file: &PublishedFile, bytes: &[u8]) {
        if let Err(error) = self.try_put(server, file, bytes) {
            tracing::warn!(%server, %error, "Cannot cache a file of the server");
        }
    }

    fn try_put(&self, server: &ServerLabel, file: &PublishedFile, bytes: &[u8]) -> io::Result<()> {
        let size = bytes.len() as u64;
        if size > self.most {
            return Ok(());
        }
        self.make_room(size)?;
        let path = self.path(server, file);
        let directory = self.of_server(server);
        DirBuilder::new().recursive(true).mode(0o700).create(&directory)?;
        if !is_servers(&directory) {
            return Err(io::Error::other("the server's place in the cache is not a directory"));
        }
        let mut random = [0; 8];
        getrandom::fill(&mut random).map_err(io::Error::other)?;
        let unfinished = directory.join(format!("{UNFINISHED}{}", encode(&random)));
        let written = OpenOptions::new()
            .write(true)
            .create_new(true)
            .mode(0o600)
            .open(&unfinished)
            .and_then(|mut to| to.write_all(bytes))
            .and_then(|()| fs::rename(&unfinished, path));
        written.inspect_err(|_| drop(fs::remove_file(&unfinished)))
    }

    /// Removes the files of all servers except these.
    ///
    /// # Errors
    ///
    /// A file cannot be removed.
    pub fn forget_others<'a>(&self, labels: impl IntoIterator<Item = &'a ServerLabel>) -> io::Result<()> {
        let known: HashSet<PathBuf> = labels.into_iter().map(|label| self.of_server(label)).collect();
        for entry in fs::read_dir(&self.directory)? {
            let path = entry?.path();
            // Remove only what the cache created.
            if !known.contains(&path) && is_servers(&path) {
                fs::remove_dir_all(&path)?;
            }
        }
        Ok(())
    }

    fn of_server(&self, server: &ServerLabel) -> PathBuf {
        self.directory.join(server.as_str())
    }

    fn path(&self, server: &ServerLabel, file: &PublishedFile) -> PathBuf {
        let key = Digest::of(format!("{}\0{}", file.uri, file.digest).as_bytes());
        self.of_server(server).join(encode(key.as_bytes()))
    }

    /// Removes the oldest files until this many more bytes fit.
    fn make_room(&self, bytes: u64) -> io::Result<()> {
        let _one_at_a_time = self.making_room.lock().unwrap_or_else(PoisonError::into_inner);
        let mut files: Vec<(SystemTime, u64, PathBuf)> = Vec::new();
        for server in fs::read_dir(&self.directory)? {
            let server = server?.path();
            if !is_servers(&server) {
                continue;
            }
            let Ok(entries) = fs::read_dir(server) else { continue };
            for entry in entries.flatten() {
                let Ok(found) = entry.metadata() else { continue };
                if !found.is_file() {
                    continue;
                }
                files.push((found.modified()?, found.len(), entry.path()));
            }
        }
        let mut sum = files.iter().fold(bytes, |sum, (_, size, _)| sum.saturating_add(*size));
        files.sort();
        for (_, size, path) in files {
            if sum <= self.most {
                break;
            }
            fs::remove_file(path)?;
            sum = sum.saturating_sub(size);
        }
        Ok(())
    }
}

/// Whether this is a real directory whose name is a server's label.
fn is_servers(path: &Path) -> bool {
    let name = path.file_name().and_then(|name| name.to_str());
    name.is_some_and(|name| name.parse::<ServerLabel>().is_ok())
        && fs::symlink_metadata(path).is_ok_and(|found| found.is_dir())
}

/// Reads a regular file up to one byte more than its expected size, to notice a longer one.
fn read(path: &Path, size: u64) -> io::Result<Vec<u8>> {
    let no_links = (OFlags::NOFOLLOW | OFlags::NONBLOCK).bits().cast_signed();
    let file: File = OpenOptions::new().read(true).custom_flags(no_links).open(path)?;
    if !file.metadata()?.is_file() {
        return Err(io::Error::other("it is not a regular file"));
    }
    let mut bytes = Vec::new();
    file.take(size.min(MAX_SERVED_BYTES).saturating_add(1)).read_to_end(&mut bytes)?;
    Ok(bytes)
}

/// Resolves the links of a path, even if its end does not exist yet.
#[expect(
    clippy::disallowed_methods,
    reason = "compares directories once, at the start, after resolving links"
)]
fn resolved(path: &Path) -> io::Result<PathBuf> {
    let path = std::path::absolute(path)?;
    for above in path.ancestors() {
        if let Ok(real) = above.canonicalize() {
            return Ok(match path.strip_prefix(above) {
                Ok(rest) if rest.as_os_str().is_empty() => real,
                Ok(rest) => real.join(rest),
                Err(_) => real,
            });
        }
    }
    Ok(path)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn file(uri: &str, bytes: &[u8]) -> PublishedFile {
        let digest = Digest::of(bytes);
        PublishedFile { path: "x".to_owned(), uri: uri.to_owned(), digest, size: bytes.len() as u64 }
    }

    fn label(text: &str) -> ServerLabel {
        text.parse().unwrap()
    }

    fn all_files(directory: &Path) -> Vec<PathBuf> {
        let servers = fs::read_dir(directory).unwrap().map(|server| server.unwrap().path());
        servers.flat_map(|server| fs::read_dir(server).unwrap().map(|file| file.unwrap().path())).collect()
    }

    #[test]
    fn x_20_what_one_server_gave_is_not_found_for_another() {
        let scratch = tempfile::tempdir().unwrap();
        let cache = Cache::open(&scratch.path().join("c"), [""; 0]).unwrap();
        let wave = file("skill://greet/SKILL.md", b"Wave.");
        cache.put(&label("one"), &wave, b"Wave.");
        assert_eq!(cache.get(&label("one"), &wave).as_deref(), Some(&b"Wave."[..]));
        assert_eq!(cache.get(&label("two"), &wave), None);
        assert_eq!(cache.get(&label("one"), &file("skill://other/SKILL.md", b"Wave.")), None);
        assert_eq!(cache.get(&label("one"), &file("skill://greet/SKILL.md", b"Bow.")), None);
    }

    #[test]
    fn x_27_what_is_not_the_caches_own_stays() {
        let scratch = tempfile::tempdir().unwrap();
        let (other, place) = (scratch.path().join("other"), scratch.path().join("c"));
        fs::create_dir(&other).unwrap();
        fs::write(other.join("mine"), "mine").unwrap();
        std::os::unix::fs::symlink(&other, &place).unwrap();
        assert!(matches!(Cache::open(&place, [""; 0]), Err(CacheError::Foreign(_))));
        fs::remove_file(&place).unwrap();
        let cache = Cache::open(&place, [""; 0]).unwrap().max_bytes(4);
        std::os::unix::fs::symlink(&other, place.join("docs")).unwrap();
        fs::write(place.join("README.txt"), "notes").unwrap();
        cache.put(&label("docs"), &file("skill://x/SKILL.md", b"Bow."), b"Bow.");
        cache.put(&label("wiki"), &file("skill://x/SKILL.md", b"Bow."), b"Bow.");
        cache.forget_others([&label("none")]).unwrap();
        assert_eq!(fs::read_dir(&other).unwrap().count(), 1);
        assert!(place.join("README.txt").exists() && !place.join("wiki").exists());
    }

    #[test]
    fn x_27_what_was_changed_on_the_disk_is_not_used() {
        let scratch = tempfile::tempdir().unwrap();
        let cache = Cache::open(&scratch.path().join("c"), [""; 0]).unwrap();
        let wave = file("skill://greet/SKILL.md", b"Wave.");
        type Change = fn(&Path);
        let cases: [(&str, Change); 4] = [
            ("other bytes", |path| fs::write(path, "Bow!!").unwrap()),
            ("fewer bytes", |path| fs::write(path, "W").unwrap()),
            ("more bytes", |path| fs::write(path, "Wave. And run.").unwrap()),
            ("a link", |path| {
                fs::rename(path, path.with_extension("moved")).unwrap();
                std::os::unix::fs::symlink(path.with_extension("moved"), path).unwrap();
            }),
        ];
        for (case, change) in cases {
            cache.forget_others([]).unwrap();
            cache.put(&label("one"), &wave, b"Wave.");
            let kept = all_files(&cache.directory);
            assert_eq!(kept.len(), 1);
            change(&kept[0]);
            assert_eq!(cache.get(&label("one"), &wave), None, "{case}");
            cache.put(&label("one"), &wave, b"Wave.");
            assert_eq!(cache.get(&label("one"), &wave).as_deref(), Some(&b"Wave."[..]), "{case}");
        }
    }

    #[test]
    fn x_27_a_cache_lies_outside_of_every_root_and_is_the_users_alone() {
        let scratch = tempfile::tempdir().unwrap();
        let root = scratch.path().join("skills");
        fs::create_dir_all(&root).unwrap();
        let linked = scratch.path().join("linked");
        std::os::unix::fs::symlink(&root, &linked).unwrap();
        for inside in [root.clone(), root.join("a/b"), scratch.path().to_owned(), linked.join("c")] {
            let refused = Cache::open(&inside, [&root]);
            assert!(matches!(refused, Err(CacheError::InRoot { .. })), "{}", inside.display());
        }
        assert!(!root.join("a").exists(), "what is refused is not made");
        let place = scratch.path().join("state/servers");
        let cache = Cache::open(&place, [&root]).unwrap();
        assert_eq!(fs::metadata(&place).unwrap().mode() & 0o777, 0o700);
        let odd = file("skill://greet/../../../etc/passwd", b"x");
        cache.put(&label("one"), &odd, b"x");
        let kept = all_files(&place);
        assert_eq!(kept.len(), 1);
        assert_eq!(fs::metadata(&kept[0]).unwrap().mode() & 0o777, 0o600);
        let plain =
            |path: &Path| path.file_name().unwrap().to_str().unwrap().chars().all(|c| c.is_ascii_hexdigit());
        assert!(plain(&kept[0]), "no name that a server thought of is in a path");
        assert_eq!(kept[0].parent().unwrap(), cache.directory.join("one"), "whose it is can be told");
        fs::set_permissions(&place, fs::Permissions::from_mode(0o755)).unwrap();
        Cache::open(&place, [&root]).unwrap();
        assert_eq!(fs::metadata(&place).unwrap().mode() & 0o777, 0o700);
    }

    #[test]
    fn x_27_what_a_server_gave_goes_with_it() {
        let scratch = tempfile::tempdir().unwrap();
        let cache = Cache::open(&scratch.path().join("c"), [""; 0]).unwrap();
        let wave = file("skill://greet/SKILL.md", b"Wave.");
        cache.put(&label("one"), &wave, b"Wave.");
        cache.put(&label("two"), &wave, b"Wave.");
        cache.forget_others([&label("two")]).unwrap();
        assert_eq!(cache.get(&label("one"), &wave), None);
        assert!(cache.get(&label("two"), &wave).is_some());
        assert_eq!(all_files(&cache.directory).len(), 1);
    }

    #[test]
    fn a_full_cache_lets_the_oldest_go() {
        let scratch = tempfile::tempdir().unwrap();
        let cache = Cache::open(&scratch.path().join("c"), [""; 0]).unwrap().max_bytes(10);
        let files: Vec<_> = (0..3_u8).map(|at| (file(&format!("skill://{at}"), &[at; 4]), [at; 4])).collect();
        for (at, (file, bytes)) in files.iter().enumerate() {
            cache.put(&label("one"), file, bytes);
            let path = cache.path(&label("one"), file);
            let then = SystemTime::UNIX_EPOCH + std::time::Duration::from_secs(at as u64);
            File::options().write(true).open(path).unwrap().set_modified(then).unwrap();
        }
        let kept: Vec<bool> =
            files.iter().map(|(file, _)| cache.get(&label("one"), file).is_some()).collect();
        assert_eq!(kept, [false, true, true]);
        let large = file("skill://large", &[7; 11]);
        cache.put(&label("one"), &large, &[7; 11]);
        assert_eq!(cache.get(&label("one"), &large), None, "what does not fit is not kept");
        assert_eq!(all_files(&cache.directory).len(), 2);
    }
}
