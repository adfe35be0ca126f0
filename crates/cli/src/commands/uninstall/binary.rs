//! The program itself: who installed it decides who removes it.

use std::io::Read as _;
use std::path::{Path, PathBuf};

use crate::shell::quote;
use crate::terminal::printable;

/// The files in which cargo lists installed programs, next to their `bin`.
const CARGO_NOTES: [&str; 2] = [".crates.toml", ".crates2.json"];
/// How many bytes of such a file are read.
const MAX_NOTES: u64 = 4 << 20;
/// A file that every build directory of cargo has.
const OF_BUILDS: &str = ".rustc_info.json";
/// Directories of the system's packages.
const OF_SYSTEM: [&str; 3] = ["/usr/bin", "/bin", "/nix/store"];

/// The program, and what happens to it.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Binary {
    /// It was copied there, and can be removed.
    Own(PathBuf),
    /// Another tool installed it; this says what to do.
    Others(String),
    /// It cannot be found.
    Unknown,
}

impl Binary {
    /// The running program.
    pub(crate) fn running() -> Self {
        let Ok(path) = std::env::current_exe() else { return Self::Unknown };
        Self::at(&path)
    }

    fn at(path: &Path) -> Self {
        let name = printable(&path.to_string_lossy());
        let Some(directory) = path.parent() else { return Self::Unknown };
        if let Some(root) = directory.parent().filter(|root| is_noted(root)) {
            let is_usual = crate::directories::home().is_some_and(|home| root == home.join(".cargo"))
                || std::env::var_os("CARGO_HOME").is_some_and(|usual| root == Path::new(&usual));
            let root = format!(" --root {}", quote(&root.to_string_lossy()));
            let root = if is_usual { "" } else { &root };
            return Self::Others(format!(
                "{name} was installed by cargo: `cargo uninstall prowess{root}` removes it"
            ));
        }
        if path.ancestors().any(|above| above.join(OF_BUILDS).is_file()) {
            return Self::Others(format!("{name} is a build in a source checkout: it stays"));
        }
        if OF_SYSTEM.iter().any(|system| path.starts_with(system)) {
            return Self::Others(format!(
                "{name} belongs to the system: remove it with your package manager"
            ));
        }
        match path.symlink_metadata() {
            Ok(found) if found.is_file() => Self::Own(path.to_owned()),
            _ => Self::Unknown,
        }
    }
}

/// Whether cargo lists `prowess` as installed below `root`.
fn is_noted(root: &Path) -> bool {
    CARGO_NOTES.iter().any(|name| {
        let mut text = String::new();
        let read = std::fs::File::open(root.join(name));
        let read = read.and_then(|file| file.take(MAX_NOTES).read_to_string(&mut text));
        read.is_ok() && text.contains("\"prowess ")
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn who_put_it_there_takes_it_away() {
        let place = tempfile::tempdir().unwrap();
        let make = |path: &str, text: &str| {
            let path = place.path().join(path);
            std::fs::create_dir_all(path.parent().unwrap()).unwrap();
            std::fs::write(&path, text).unwrap();
            path
        };
        let own = make("own/bin/prowess", "");
        assert_eq!(Binary::at(&own), Binary::Own(own));
        make("cargo/.crates.toml", "[v1]\n\"prowess 0.1.0 (path+file:///x)\" = [\"prowess\"]\n");
        let told = Binary::at(&make("cargo/bin/prowess", ""));
        let Binary::Others(told) = told else { panic!("{told:?}") };
        assert!(told.contains("`cargo uninstall prowess --root "), "{told}");
        // Cargo has others there, and somebody put this one beside them.
        make("mixed/.crates.toml", "[v1]\n\"ripgrep 14.0.0 (registry)\" = [\"rg\"]\n");
        assert!(matches!(Binary::at(&make("mixed/bin/prowess", "")), Binary::Own(_)));
        make("target/.rustc_info.json", "{}");
        assert!(matches!(Binary::at(&make("target/debug/prowess", "")), Binary::Others(_)));
        assert!(matches!(Binary::at(Path::new("/usr/bin/prowess")), Binary::Others(_)));
    }
}
