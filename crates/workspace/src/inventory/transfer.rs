//! Stores the files of local directories, and fetches them, some at once.

use std::collections::{HashMap, HashSet};
use std::io;
use std::sync::Arc;

use bytes::Bytes;
use tokio::task::JoinSet;

use super::contents::quoted;
use super::known::KnownFile;
use super::open_tree::OpenTree;
use super::restore;
use super::{ContentDigest, FamilyContents, Inventory, InventoryError, InventoryFile, MAX_FILE_BYTES};
use crate::blocking::blocking;
use crate::dir::NoFile;

/// How many files are stored, fetched or removed at once.
const AT_ONCE: usize = 16;

/// Fetches and writes files.
pub(super) async fn fetch(
    tree: &Arc<OpenTree>,
    files: Vec<InventoryFile>,
    contents: &FamilyContents,
) -> Result<HashMap<String, KnownFile>, InventoryError> {
    let fetch = |file: InventoryFile| {
        let (tree, contents) = (Arc::clone(tree), contents.clone());
        async move {
            let _room = contents.room(file.bytes).await;
            let (bytes, path) = (contents.file_within(&file).await?, file.path.clone());
            let written = blocking(move || restore::write(&tree, &file, &bytes)).await.flatten();
            let known = written.map_err(InventoryError::local(format!("writing {}", quoted(&path))))?;
            Ok(Some((path, known)))
        }
    };
    Ok(all(files, fetch).await?.into_iter().collect())
}

/// Stores the contents that the inventory before did not have. A file that changed after it was listed is stored as it is
/// now.
pub(super) async fn store_new(
    tree: Arc<OpenTree>,
    before: &Inventory,
    inventory: Inventory,
    mut known: HashMap<String, KnownFile>,
    contents: &FamilyContents,
) -> Result<(Inventory, HashMap<String, KnownFile>), InventoryError> {
    let stored: HashSet<ContentDigest> = before.files().iter().map(|file| file.digest).collect();
    let mut seen = HashSet::new();
    let is_new = |file: &&InventoryFile| {
        file.bytes > 0 && !stored.contains(&file.digest) && !contents.is_known(&file.digest)
    };
    let new = inventory.files().iter().filter(is_new).filter(|file| seen.insert(file.digest));
    let new: Vec<InventoryFile> = new.cloned().collect();
    let store = |file: InventoryFile| {
        let (tree, contents) = (Arc::clone(&tree), contents.clone());
        async move {
            let _room = contents.room(file.bytes).await;
            let path = file.path.clone();
            let read = blocking(move || read(&tree, &path)).await.flatten();
            let read = read.map_err(InventoryError::local(format!("reading {}", quoted(&file.path))))?;
            let now = match read {
                Some(bytes) => {
                    let bytes_now = bytes.len() as u64;
                    let digest = contents.put_within(bytes, &quoted(&file.path)).await?;
                    Some(InventoryFile { bytes: bytes_now, digest, ..file.clone() })
                }
                None => None,
            };
            Ok((now.as_ref() != Some(&file)).then_some((file, now)))
        }
    };
    let changed = all(new, store).await?;
    if changed.is_empty() {
        return Ok((inventory, known));
    }
    // Other files may have had the same content when they were listed. They are stored, too.
    let gone: HashSet<ContentDigest> = changed.iter().map(|(before, _)| before.digest).collect();
    let mut files: HashMap<String, Option<InventoryFile>> =
        changed.into_iter().map(|(before, now)| (before.path, now)).collect();
    let twins = inventory.files().iter().filter(|file| gone.contains(&file.digest));
    let twins: Vec<InventoryFile> = twins.filter(|file| !files.contains_key(&file.path)).cloned().collect();
    files.extend(all(twins, store).await?.into_iter().map(|(before, now)| (before.path, now)));
    let now = |file: &InventoryFile| files.get(&file.path).cloned().unwrap_or_else(|| Some(file.clone()));
    let all = inventory.files().iter().filter_map(now).collect();
    known.retain(|path, _| !files.contains_key(path));
    let (empty, left_out) = (inventory.empty_directories().to_vec(), inventory.left_out().to_vec());
    Ok((Inventory::new(all, empty, left_out), known))
}

/// Reads a file that was listed; `None` if it is no longer a file that can be stored.
fn read(tree: &OpenTree, path: &str) -> io::Result<Option<Bytes>> {
    use std::io::Read as _;
    let Some((root, rest)) = tree.find(path) else { return Ok(None) };
    let file = match root.directory.file(rest) {
        Ok((file, _)) => file,
        Err(NoFile::Io(error)) if error.kind() != io::ErrorKind::NotFound => return Err(error),
        Err(_) => return Ok(None),
    };
    let mut bytes = Vec::new();
    file.take(MAX_FILE_BYTES + 1).read_to_end(&mut bytes)?;
    Ok(Some(Bytes::from(bytes)).filter(|bytes| bytes.len() as u64 <= MAX_FILE_BYTES))
}

/// Does something with each item, with some at once. The first error ends it.
pub(super) async fn all<I, T, F>(items: Vec<I>, each: impl Fn(I) -> F) -> Result<Vec<T>, InventoryError>
where
    T: Send + 'static,
    F: Future<Output = Result<Option<T>, InventoryError>> + Send + 'static,
{
    let mut waiting = items.into_iter();
    let mut working = JoinSet::new();
    let mut done = Vec::new();
    for item in waiting.by_ref().take(AT_ONCE) {
        working.spawn(each(item));
    }
    while let Some(finished) = working.join_next().await {
        let failed = |error: tokio::task::JoinError| {
            InventoryError::local("working with files")(io::Error::other(error))
        };
        done.extend(finished.map_err(failed)??);
        if let Some(item) = waiting.next() {
            working.spawn(each(item));
        }
    }
    Ok(done)
}
