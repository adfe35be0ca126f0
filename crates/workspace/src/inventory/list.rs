//! An inventory: the list of a thread's files.

use std::collections::BTreeSet;

use serde::{Deserialize, Serialize};

use super::{ContentDigest, LeftOut, MAX_BYTES, MAX_DEPTH, MAX_FILE_BYTES, MAX_FILES, MAX_PATH};

/// The form of inventories.
const VERSION: u32 = 1;
/// The most bytes of a stored inventory: room for every path that fits.
pub(super) const MAX_INVENTORY_BYTES: u64 = 64 << 20;
/// The most empty directories.
pub(super) const MAX_DIRECTORIES: usize = MAX_FILES;

/// One file of an inventory.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct InventoryFile {
    /// Its path in the tree, without the first slash, such as `project/plan.md`.
    pub path: String,
    /// Its size in bytes.
    pub bytes: u64,
    /// The digest of its bytes.
    pub digest: ContentDigest,
    /// Whether it is a program.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub executable: bool,
}

/// The files of a thread at one moment, sorted by path. Its digest is its identity.
///
/// ```
/// use prowess_workspace::inventory::{ContentDigest, Inventory, InventoryFile};
///
/// let plan = InventoryFile {
///     path: "project/plan.md".to_owned(),
///     bytes: 6,
///     digest: ContentDigest::of(b"- rest"),
///     executable: false,
/// };
/// let inventory = Inventory::default().with(plan);
/// assert_eq!(inventory.file("project/plan.md").map(|file| file.bytes), Some(6));
/// assert_eq!(inventory.without("project/plan.md"), Inventory::default());
/// ```
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Inventory {
    version: u32,
    files: Vec<InventoryFile>,
    /// The directories in which nothing is.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    empty_directories: Vec<String>,
    /// What is left out.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    left_out: Vec<LeftOut>,
}

impl Default for Inventory {
    fn default() -> Self {
        Self { version: VERSION, files: Vec::new(), empty_directories: Vec::new(), left_out: Vec::new() }
    }
}

impl Inventory {
    pub(super) fn new(
        mut files: Vec<InventoryFile>,
        mut empty_directories: Vec<String>,
        left_out: Vec<LeftOut>,
    ) -> Self {
        files.sort_unstable_by(|one, other| one.path.cmp(&other.path));
        empty_directories.sort_unstable();
        Self { version: VERSION, files, empty_directories, left_out }
    }

    /// The files, sorted by path.
    pub fn files(&self) -> &[InventoryFile] {
        &self.files
    }

    /// The directories in which nothing is, sorted.
    pub fn empty_directories(&self) -> &[String] {
        &self.empty_directories
    }

    /// What the inventory lacks, and why.
    pub fn left_out(&self) -> &[LeftOut] {
        &self.left_out
    }

    /// The file at this path.
    pub fn file(&self, path: &str) -> Option<&InventoryFile> {
        let at = self.files.binary_search_by(|file| file.path.as_str().cmp(path)).ok()?;
        self.files.get(at)
    }

    /// The inventory with this file, in place of what is at its path. A file in the place of one of its directories goes.
    #[must_use]
    pub fn with(mut self, file: InventoryFile) -> Self {
        let below = format!("{}/", file.path);
        let is_in_the_way = |path: &str| {
            path == file.path || path.starts_with(&below) || file.path.starts_with(&format!("{path}/"))
        };
        self.files.retain(|known| !is_in_the_way(&known.path));
        self.empty_directories.retain(|known| !is_in_the_way(known));
        let at = self.files.partition_point(|known| known.path < file.path);
        self.files.insert(at, file);
        self
    }

    /// The inventory without the file at this path.
    #[must_use]
    pub fn without(mut self, path: &str) -> Self {
        self.files.retain(|known| known.path != path);
        self
    }

    /// Whether there is nothing: no file, no directory, and nothing that is left out.
    pub(super) fn is_bare(&self) -> bool {
        self.files.is_empty() && self.empty_directories.is_empty() && self.left_out.is_empty()
    }

    pub(super) fn to_bytes(&self) -> Vec<u8> {
        // Strings, numbers and lists can always be written.
        serde_json::to_vec(self).unwrap_or_default()
    }

    /// Reads a stored inventory. Nothing in it is trusted.
    pub(super) fn from_bytes(bytes: &[u8]) -> Result<Self, String> {
        #[derive(Deserialize)]
        struct Version {
            version: u32,
        }
        let Version { version } = serde_json::from_slice(bytes).map_err(|error| error.to_string())?;
        if version != VERSION {
            return Err(format!("it has version {version}, which this prowess does not know"));
        }
        let inventory: Self = serde_json::from_slice(bytes).map_err(|error| error.to_string())?;
        inventory.check()?;
        Ok(inventory)
    }

    /// Checks everything on which a restore relies.
    fn check(&self) -> Result<(), String> {
        let quoted = prowess_base::text::escaped_start;
        if self.files.len() > MAX_FILES || self.empty_directories.len() > MAX_DIRECTORIES {
            return Err(format!("it has more than {MAX_FILES} files or directories"));
        }
        let mut bytes = 0_u64;
        let mut directories = BTreeSet::new();
        for file in &self.files {
            check_path(&file.path)?;
            if file.bytes > MAX_FILE_BYTES {
                return Err(format!("`{}` is too large", quoted(&file.path)));
            }
            bytes += file.bytes;
            directories.extend(above(&file.path));
        }
        if bytes > MAX_BYTES {
            return Err(format!("its files have more than {MAX_BYTES} bytes"));
        }
        for directory in &self.empty_directories {
            check_path(directory)?;
            directories.extend(above(directory));
        }
        let is_sorted = self.files.is_sorted_by(|one, other| one.path < other.path)
            && self.empty_directories.is_sorted_by(|one, other| one < other);
        if !is_sorted {
            return Err("its paths are not in order".to_owned());
        }
        let all = self.files.iter().map(|file| &file.path).chain(&self.empty_directories);
        for path in all {
            if directories.contains(path.as_str()) {
                return Err(format!("`{}` is a file and a directory", quoted(path)));
            }
        }
        let both = self.empty_directories.iter().find(|path| self.file(path).is_some());
        both.map_or(Ok(()), |path| Err(format!("`{}` is a file and a directory", quoted(path))))
    }
}

/// The directories above a path.
pub(super) fn above(path: &str) -> impl Iterator<Item = &str> {
    path.match_indices('/').map(|(at, _)| &path[..at])
}

/// Checks that a path stays below its start, and has no other form.
pub(super) fn check_path(path: &str) -> Result<(), String> {
    let is_name = |name: &str| !matches!(name, "" | "." | "..") && !name.contains('\0');
    let is_path = path.len() <= MAX_PATH && path.split('/').all(is_name);
    // The root of the tree and of a place are no part of the depth.
    if is_path && path.split('/').count() <= MAX_DEPTH + 3 {
        return Ok(());
    }
    Err(format!("`{}` is no path", prowess_base::text::escaped_start(path)))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn file(path: &str) -> InventoryFile {
        InventoryFile { path: path.to_owned(), bytes: 1, digest: ContentDigest::of(b"a"), executable: false }
    }

    fn read(files: Vec<InventoryFile>, directories: &[&str]) -> Result<Inventory, String> {
        let empty_directories = directories.iter().map(|path| (*path).to_owned()).collect();
        let inventory = Inventory { files, empty_directories, ..Inventory::default() };
        Inventory::from_bytes(&inventory.to_bytes())
    }

    #[test]
    fn a_hostile_inventory_is_refused() {
        read(vec![file("project/a"), file("project/b c\n")], &["project/d"]).unwrap();
        let deep = vec!["d"; MAX_DEPTH + 4].join("/");
        let long = "l".repeat(MAX_PATH + 1);
        for path in
            ["..", "../x", "a/../b", "/etc/passwd", "a//b", "a/", "./a", "a/.", "", "a\0b", &deep, &long]
        {
            let refused = read(vec![file(path)], &[]).unwrap_err();
            assert!(refused.ends_with("is no path"), "{path}: {refused}");
            read(Vec::new(), &[path]).unwrap_err();
        }
        for (files, directories) in [
            (vec![file("b"), file("a")], &[][..]),
            (vec![file("a"), file("a")], &[]),
            (vec![file("a"), file("a/b")], &[]),
            (vec![file("a")], &["a"]),
            (vec![file("a/b")], &["a"]),
            (vec![file("a")], &["a/b"]),
            (Vec::new(), &["b", "a"]),
            (vec![InventoryFile { bytes: MAX_FILE_BYTES + 1, ..file("a") }], &[]),
        ] {
            read(files.clone(), directories).expect_err(&format!("{files:?} {directories:?}"));
        }
        let many = (0..=MAX_BYTES / MAX_FILE_BYTES)
            .map(|number| InventoryFile { bytes: MAX_FILE_BYTES, ..file(&format!("f{number:03}")) });
        assert!(read(many.collect(), &[]).unwrap_err().contains("bytes"));
        let newer = Inventory { version: 2, ..Inventory::default() };
        assert!(Inventory::from_bytes(&newer.to_bytes()).unwrap_err().contains("version 2"));
        Inventory::from_bytes(b"{}").unwrap_err();
    }

    #[test]
    fn a_file_takes_the_place_of_what_is_there() {
        let inventory =
            Inventory::new(vec![file("p/a"), file("p/b/c"), file("p/d")], vec!["p/e".into()], vec![]);
        let paths = |inventory: &Inventory| {
            inventory.files().iter().map(|file| file.path.clone()).collect::<Vec<_>>().join(" ")
        };
        assert_eq!(paths(&inventory.clone().with(file("p/b"))), "p/a p/b p/d");
        assert_eq!(paths(&inventory.clone().with(file("p/a/x"))), "p/a/x p/b/c p/d");
        let below = inventory.with(file("p/e/f"));
        assert_eq!(paths(&below), "p/a p/b/c p/d p/e/f");
        assert!(below.empty_directories().is_empty());
    }
}
