//! The example skills that are built into the program.

use std::io;
use std::os::unix::fs::PermissionsExt as _;
use std::path::Path;

/// The files, by their paths below `examples/skills`. The build script makes this list.
const FILES: &[(&str, &[u8])] = include!(concat!(env!("OUT_DIR"), "/examples.rs"));

/// Writes the skills to a new directory.
pub(super) fn write(directory: &Path) -> io::Result<()> {
    if FILES.is_empty() {
        return Err(io::Error::other("this program was built without the example skills"));
    }
    for (path, contents) in FILES {
        let path = directory.join(path);
        if let Some(parent) = path.parent() {
            std::fs::create_dir_all(parent)?;
        }
        std::fs::write(&path, contents)?;
        std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o644))?;
    }
    Ok(())
}
