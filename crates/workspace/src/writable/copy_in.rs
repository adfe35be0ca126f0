//! Copies a directory of the project for a run.

use std::ffi::OsString;
use std::io::Read as _;
use std::path::Path;

use rustix::fs::FileType;
use rustix::io::Errno;

use super::{Known, MAX_WARNINGS, MAX_WRITABLE_BYTES, MAX_WRITABLE_ENTRIES, Withheld, is_protected};
use crate::digest::digest;
use crate::dir::{Dir, Owner};
use crate::path::escaped_name;

/// Copies the directory `inside` of the project `root` to the new directory `name` of `copies`. `real` is its real path.
///
/// Returns the digests of all files, and the names of entries that stay out.
pub(super) fn copy(
    root: &Dir,
    inside: &str,
    real: &Path,
    (copies, name, owner): (&Dir, &str, Owner),
    withheld: &Withheld,
) -> Result<(Known, Vec<String>), String> {
    let failed = |error: std::io::Error| format!("it cannot be copied: {error}");
    let to = copies.make_dir(name, 0o755, owner).map_err(failed)?;
    let mut copy =
        CopyIn { owner, withheld, known: Known::new(), left_out: Vec::new(), entries: 0, bytes: 0 };
    match root.dir(inside) {
        Ok(from) => copy.directory(&from, &to, (real, ""))?,
        // The run may make it.
        Err(Errno::NOENT) => {}
        Err(Errno::LOOP | Errno::XDEV | Errno::NOTDIR) => {
            return Err("it is a link or a file, or below one".to_owned());
        }
        Err(error) => return Err(failed(error.into())),
    }
    copy.left_out.truncate(MAX_WARNINGS);
    Ok((copy.known, copy.left_out))
}

struct CopyIn<'a> {
    owner: Owner,
    withheld: &'a Withheld,
    known: Known,
    left_out: Vec<String>,
    entries: usize,
    bytes: u64,
}

impl CopyIn<'_> {
    /// Copies the entries of a directory. `real` is its real path, and `path` its path in the writable directory.
    fn directory(&mut self, from: &Dir, to: &Dir, (real, path): (&Path, &str)) -> Result<(), String> {
        let failed = |error: std::io::Error| format!("it cannot be copied: {error}");
        let (entries, more) = from.entries(MAX_WRITABLE_ENTRIES - self.entries).map_err(failed)?;
        self.entries += entries.len();
        if more {
            return Err(format!("it has more than {MAX_WRITABLE_ENTRIES} files"));
        }
        for (name, kind) in entries {
            let real = real.join(&name);
            let is_left_out = is_protected(&name) || (self.withheld)(&real);
            let Some(plain) = name.to_str().filter(|_| !is_left_out) else {
                self.leave_out(path, &name);
                continue;
            };
            let path = if path.is_empty() { plain.to_owned() } else { format!("{path}/{plain}") };
            match kind {
                FileType::Directory => {
                    let below = from.dir(&name).map_err(|error| failed(error.into()))?;
                    let to = to.make_dir(plain, 0o755, self.owner).map_err(failed)?;
                    self.directory(&below, &to, (&real, &path))?;
                }
                FileType::RegularFile => self.file(from, to, plain, path)?,
                _ => self.leave_out("", &OsString::from(path)),
            }
        }
        Ok(())
    }

    fn file(&mut self, from: &Dir, to: &Dir, name: &str, path: String) -> Result<(), String> {
        let failed = |error: std::io::Error| format!("`{path}` cannot be copied: {error}");
        let (file, stat) = from.file(name).map_err(|refused| format!("`{path}` {}", refused.reason()))?;
        let mut bytes = Vec::new();
        file.take(MAX_WRITABLE_BYTES - self.bytes + 1).read_to_end(&mut bytes).map_err(failed)?;
        self.bytes += bytes.len() as u64;
        if self.bytes > MAX_WRITABLE_BYTES {
            return Err(format!("it has more than {MAX_WRITABLE_BYTES} bytes"));
        }
        to.replace(name, &bytes, 0o644 | (stat.st_mode & 0o111), self.owner).map_err(failed)?;
        self.known.insert(path, digest(&bytes));
        Ok(())
    }

    fn leave_out(&mut self, path: &str, name: &std::ffi::OsStr) {
        let name = escaped_name(name);
        self.left_out.push(if path.is_empty() { name } else { format!("{path}/{name}") });
    }
}
