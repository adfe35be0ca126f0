//! Which files of a skill are made to be run.

use std::path::Path;

use crate::tree::{ReadFiles, TreeError, TreeFile};

/// The file types that interpreters run, even if nobody may execute the file.
const TYPES: [&str; 18] = [
    "bash", "bat", "cjs", "cmd", "fish", "js", "lua", "mjs", "php", "pl", "ps1", "psm1", "py", "rb", "sh",
    "ts", "tsx", "zsh",
];
/// The start of a file that names its interpreter.
const INTERPRETER: &[u8] = b"#!";

/// Whether a path is that of a script: by its type, or because it is below a directory `scripts`.
///
/// ```
/// use prowess_install::script::is_script_path;
///
/// assert!(is_script_path("scripts/run"));
/// assert!(is_script_path("lib/tool.PY"));
/// assert!(!is_script_path("references/scripts.md"));
/// ```
pub fn is_script_path(path: &str) -> bool {
    let path = Path::new(path);
    let ending = path.extension().and_then(|ending| ending.to_str()).map(str::to_ascii_lowercase);
    path.parent().is_some_and(|above| above.iter().any(|part| part == "scripts"))
        || ending.is_some_and(|ending| TYPES.contains(&&*ending))
}

/// Whether a file is a script: by its mode, its path or its first bytes.
///
/// ```
/// use prowess_install::script::is_script;
/// use prowess_install::tree::TreeDirectory;
///
/// # let scratch = tempfile::tempdir()?;
/// std::fs::write(scratch.path().join("run"), "#!/bin/sh\n")?;
/// let directory = TreeDirectory::open(scratch.path())?;
/// assert!(is_script("run", &directory.tree()?.files["run"], &directory)?);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
///
/// # Errors
///
/// The file cannot be read.
pub fn is_script(path: &str, file: &TreeFile, files: &dyn ReadFiles) -> Result<bool, TreeError> {
    Ok(file.is_executable
        || is_script_path(path)
        || files.read_start(path, INTERPRETER.len())? == INTERPRETER)
}
