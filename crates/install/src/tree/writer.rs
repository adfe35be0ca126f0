//! Writes a tree to a new directory, and computes the digests on the way.

use std::collections::BTreeMap;
use std::fs::File;
use std::io::{self, Read as _, Write as _};
use std::os::fd::OwnedFd;

use prowess_base::beneath::{self, Follow, NotOpened};
use prowess_catalog::Digest;
use prowess_catalog::digest::Digester;
use rustix::io::Errno;

use super::{SkillTree, TreeDirectory, TreeFile};
use crate::disk;

/// The memory for copying a file.
const BUFFER_BYTES: usize = 64 * 1024;

/// A directory that is being filled. Nobody else writes to it.
pub(crate) struct TreeWriter {
    root: OwnedFd,
    /// The directories on the way to the last file. The next file is often in the same directory.
    open: Vec<(String, OwnedFd)>,
    files: BTreeMap<String, TreeFile>,
}

impl TreeWriter {
    /// Fills the empty directory `root`.
    pub(crate) fn new(root: OwnedFd) -> Self {
        Self { root, open: Vec::new(), files: BTreeMap::new() }
    }

    /// Writes a file. The caller has checked its path.
    pub(crate) fn add(&mut self, path: &str, is_executable: bool, bytes: &[u8]) -> io::Result<()> {
        self.create(path, is_executable)?.write_all(bytes)?;
        let file = TreeFile { digest: Digest::of(bytes), size: bytes.len() as u64, is_executable };
        self.files.insert(path.to_owned(), file);
        Ok(())
    }

    /// Copies all files of `tree` from `source`. Fails if `source` has other bytes than `tree` says.
    pub(crate) fn copy(&mut self, tree: &SkillTree, source: &TreeDirectory) -> io::Result<()> {
        let mut buffer = vec![0; BUFFER_BYTES];
        for (path, expected) in &tree.files {
            let opened = beneath::open_file(source.handle(), path, Follow::Never);
            let (file, _) = opened.map_err(|refused| match refused {
                NotOpened::Refused(Errno::NOENT) | NotOpened::NotAFile(_) => differs(path),
                NotOpened::Refused(error) => error.into(),
            })?;
            let mut from = File::from(file).take(expected.size.saturating_add(1));
            let mut to = self.create(path, expected.is_executable)?;
            let (mut digester, mut size) = (Digester::default(), 0);
            loop {
                let count = from.read(&mut buffer)?;
                if count == 0 {
                    break;
                }
                digester.update(&buffer[..count]);
                to.write_all(&buffer[..count])?;
                size += count as u64;
            }
            if size != expected.size || digester.digest() != expected.digest {
                return Err(differs(path));
            }
            self.files.insert(path.clone(), expected.clone());
        }
        Ok(())
    }

    /// The files that were written.
    pub(crate) fn finish(self) -> SkillTree {
        SkillTree { files: self.files }
    }

    fn create(&mut self, path: &str, is_executable: bool) -> io::Result<File> {
        let (directories, name) = path.rsplit_once('/').map_or((None, path), |(d, name)| (Some(d), name));
        let mut depth = 0;
        for directory in directories.into_iter().flat_map(|path| path.split('/')) {
            if self.open.get(depth).is_none_or(|(open, _)| open != directory) {
                self.open.truncate(depth);
                let at = self.open.last().map_or(&self.root, |(_, open)| open);
                disk::make_directory(at, directory)?;
                let opened = disk::open_directory(at, directory)?;
                self.open.push((directory.to_owned(), opened));
            }
            depth += 1;
        }
        self.open.truncate(depth);
        let at = self.open.last().map_or(&self.root, |(_, open)| open);
        let mode = if is_executable { 0o755 } else { 0o644 };
        Ok(File::from(beneath::create_file(at, name, mode)?))
    }
}

fn differs(path: &str) -> io::Error {
    io::Error::new(io::ErrorKind::InvalidData, format!("{path:?} is not the file that was shown"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_copy_has_the_same_digest_and_notices_a_change() {
        let scratch = tempfile::tempdir().unwrap();
        let new = |name: &str| {
            let path = scratch.path().join(name);
            std::fs::create_dir(&path).unwrap();
            TreeWriter::new(beneath::open_directory(&path).unwrap())
        };
        let mut writer = new("one");
        for (path, executable) in
            [("a/b/c", true), ("a/d", false), ("a-b", false), ("e", false), ("a/b/f", false)]
        {
            writer.add(path, executable, path.as_bytes()).unwrap();
        }
        let tree = writer.finish();
        let source = TreeDirectory::open(&scratch.path().join("one")).unwrap();
        assert_eq!(source.tree().unwrap(), tree);
        let mut copy = new("two");
        copy.copy(&tree, &source).unwrap();
        assert_eq!(SkillTree::read(&scratch.path().join("two")).unwrap(), copy.finish());

        for (number, text) in ["EVIL!", "long", "a/b/cc", ""].iter().enumerate() {
            std::fs::write(scratch.path().join("one/a/b/c"), text).unwrap();
            let refused = new(&number.to_string()).copy(&tree, &source).unwrap_err();
            assert_eq!(refused.to_string(), "\"a/b/c\" is not the file that was shown");
        }
    }
}
