//! What a run reads: the options `--input`, `--link` and `--stdin`.

use std::io::Read as _;
use std::path::{Component, Path, PathBuf};

use anyhow::{Context as _, Result, bail};
use bytes::Bytes;
use prowess_workspace::{InputMode, RunInput};

use crate::directories::real_path;
use crate::terminal::{printable, size};

/// The largest standard input of a command, in bytes.
const MAX_STDIN: u64 = 64 << 20;

/// Parses `FROM` or `FROM=TO`. A file that exists may have a `=` in its name.
pub(super) fn input(given: &str, mode: InputMode) -> Result<RunInput> {
    let (from, to) = match given.rsplit_once('=') {
        Some((from, to)) if !Path::new(given).exists() => (from, Some(to)),
        _ => (given, None),
    };
    let mut input = RunInput { mode, ..RunInput::copy(from) };
    input.to = to.filter(|to| !to.is_empty()).map(ToOwned::to_owned);
    if !from.contains("://") {
        let path = absolute_path(Path::new(from))
            .with_context(|| format!("the input {} cannot be read", printable(from)))?;
        let path = path.to_str().map(|path| format!("host://{path}"));
        input.from = path.with_context(|| format!("the path of {} is not valid text", printable(from)))?;
    }
    Ok(input)
}

/// The absolute path of a file, without `..`, which keeps the last name that was given.
fn absolute_path(path: &Path) -> std::io::Result<PathBuf> {
    let path = std::path::absolute(path)?;
    std::fs::metadata(&path)?;
    match (path.parent(), path.file_name()) {
        _ if !path.components().any(|part| part == Component::ParentDir) => Ok(path),
        (Some(parent), Some(name)) => Ok(real_path(parent)?.join(name)),
        _ => real_path(&path),
    }
}

/// Reads the standard input of a command from a file, or from our own.
pub(super) fn stdin(from: &str) -> Result<Bytes> {
    let source: Box<dyn std::io::Read> = if from == "-" {
        Box::new(std::io::stdin())
    } else {
        Box::new(std::fs::File::open(from).with_context(|| format!("{} cannot be read", printable(from)))?)
    };
    let mut bytes = Vec::new();
    let read = source.take(MAX_STDIN + 1).read_to_end(&mut bytes);
    read.with_context(|| format!("{} cannot be read", printable(from)))?;
    if bytes.len() as u64 > MAX_STDIN {
        bail!("{} is larger than {}: use --input instead", printable(from), size(MAX_STDIN));
    }
    Ok(bytes.into())
}
