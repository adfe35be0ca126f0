//! What this machine knows about its files, so that an unchanged file is not read again.

use std::collections::HashMap;
use std::io;
use std::path::Path;
use std::time::{SystemTime, UNIX_EPOCH};

use rustix::fs::Stat;
use serde::{Deserialize, Serialize};

use super::ContentDigest;
use crate::dir::Dir;

/// A file that changed so shortly before it was read can change again without a new time. It is read once more.
const COARSE_NANOSECONDS: i128 = 100_000_000;
/// The most bytes of a note.
const MAX_NOTE: u64 = 32 << 20;

/// The files that this machine has read.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub(super) struct KnownFiles {
    /// The start of the machine. After a crash of the machine, files can have other bytes than their times say.
    boot: String,
    pub(super) files: HashMap<String, KnownFile>,
    /// Whether the directories have files from before the thread was followed, as far as is known. They are kept until the
    /// log names an inventory that has them.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub(super) from_before: bool,
    /// The last inventory that was captured since.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) captured: Option<ContentDigest>,
    /// Whether there was no note.
    #[serde(skip)]
    pub(super) is_new: bool,
}

/// A file as it was when it was read.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct KnownFile {
    device: u64,
    inode: u64,
    bytes: u64,
    /// When it changed, in nanoseconds. No program can set this time.
    changed: i128,
    /// When it was read.
    read: i128,
    pub(super) digest: ContentDigest,
}

impl KnownFile {
    /// A file that had this digest when it was read at `read`.
    pub(super) fn new(stat: &Stat, read: SystemTime, digest: ContentDigest) -> Self {
        let read = read.duration_since(UNIX_EPOCH).unwrap_or_default().as_nanos();
        Self {
            device: stat.st_dev,
            inode: stat.st_ino,
            bytes: stat.st_size.unsigned_abs(),
            changed: changed(stat),
            read: i128::try_from(read).unwrap_or_default(),
            digest,
        }
    }

    /// The digest of the file, if it is certainly still the same.
    pub(super) fn digest_of(&self, stat: &Stat) -> Option<ContentDigest> {
        let is_same = (self.device, self.inode, self.bytes, self.changed)
            == (stat.st_dev, stat.st_ino, stat.st_size.unsigned_abs(), changed(stat));
        (is_same && self.read - self.changed > COARSE_NANOSECONDS).then_some(self.digest)
    }
}

/// When a file changed, in nanoseconds since 1970.
pub(super) fn changed(stat: &Stat) -> i128 {
    // The types differ between architectures.
    #[allow(clippy::unnecessary_cast, clippy::useless_conversion)]
    let (seconds, nanoseconds) = (i128::from(stat.st_ctime), stat.st_ctime_nsec as i128);
    seconds * 1_000_000_000 + nanoseconds
}

impl KnownFiles {
    /// Reads the note at `path`. Without one, or with one of an earlier start of the machine, no file is known.
    pub(super) fn read(path: &Path) -> Self {
        use std::io::Read as _;
        let read = || -> Option<Self> {
            let directory = Dir::open(path.parent()?).ok()?;
            let (file, _) = directory.file(path.file_name()?).ok()?;
            let mut bytes = Vec::new();
            file.take(MAX_NOTE).read_to_end(&mut bytes).ok()?;
            serde_json::from_slice(&bytes).ok()
        };
        let boot = boot();
        match read() {
            Some(known) if known.boot == boot && !boot.is_empty() => known,
            Some(known) => Self { boot, files: HashMap::new(), ..known },
            None => Self { boot, is_new: true, ..Self::default() },
        }
    }

    /// Writes the note at `path`.
    pub(super) fn write(&self, path: &Path) -> io::Result<()> {
        write_beside(path, &serde_json::to_vec(self)?)
    }
}

/// Writes a file of this user alone, and its directory.
pub(super) fn write_beside(path: &Path, bytes: &[u8]) -> io::Result<()> {
    use std::os::unix::fs::DirBuilderExt as _;
    let missing = || io::Error::other("a note needs a directory and a name");
    let (parent, name) = (path.parent().ok_or_else(missing)?, path.file_name().ok_or_else(missing)?);
    std::fs::DirBuilder::new().recursive(true).mode(0o700).create(parent)?;
    let name = name.to_str().ok_or_else(missing)?;
    Dir::open(parent)?.replace(name, bytes, 0o600, None)
}

/// The id of the machine's start.
fn boot() -> String {
    let id = std::fs::read_to_string("/proc/sys/kernel/random/boot_id");
    id.map(|id| id.trim().to_owned()).unwrap_or_default()
}
