//! Names that no run writes into a project: files that other programs execute or obey on their own.

use std::ffi::OsStr;

use prowess_base::text::is_unprintable;

/// The names, in lowercase. The permission crate protects the same files, and more.
pub const PROTECTED_NAMES: &[&str] = &[
    // Version control: a hook or a setting in it runs programs.
    ".git",
    ".gitmodules",
    ".hg",
    ".svn",
    ".jj",
    ".husky",
    // A directory with this file, `objects` and `refs` is a repository, whatever its name, and its `config` names programs.
    "head",
    // Instructions, settings and skills of prowess and of other agents.
    ".agents",
    ".claude",
    ".codex",
    ".cursor",
    ".cursorrules",
    ".gemini",
    ".mcp.json",
    ".opencode",
    ".prowess",
    ".windsurf",
    "agents.md",
    "agents.override.md",
    "claude.md",
    "claude.local.md",
    "gemini.md",
    "opencode.json",
    "opencode.jsonc",
    "prowess.toml",
    // Tasks and settings that an editor or a shell uses when a person opens or enters the directory.
    ".devcontainer",
    ".devcontainer.json",
    ".dir-locals.el",
    ".dir-locals-2.el",
    ".direnv",
    ".envrc",
    ".exrc",
    ".fleet",
    ".idea",
    ".lvimrc",
    ".mise.toml",
    ".nvim.lua",
    ".nvimrc",
    ".vimrc",
    ".vs",
    ".vscode",
    ".zed",
    "mise.toml",
];
/// What else the names of tasks and settings of editors can end with.
pub const PROTECTED_ENDINGS: &[&str] = &[".code-workspace", ".sublime-project", ".iml"];

/// Whether a run never writes a file or directory of this name, at any depth. Letter case does not count, nor do dots and
/// spaces at the end, which some file systems drop. Names that are not UTF-8, or have unprintable characters, are protected
/// too: they can look like others.
///
/// ```
/// use std::ffi::OsStr;
/// use prowess_workspace::writable::is_protected;
///
/// assert!([".git", ".GIT", "Agents.md", ".git ", ".git.", ".vscode", "a.code-workspace"]
///     .iter().all(|name| is_protected(OsStr::new(name))));
/// assert!(["git", "agents.md.txt", ".gitignore", "Makefile", "index.html"]
///     .iter().all(|name| !is_protected(OsStr::new(name))));
/// ```
pub fn is_protected(name: &OsStr) -> bool {
    let Some(name) = name.to_str() else { return true };
    if name.chars().any(is_unprintable) || name.contains(['\\', ':']) {
        return true;
    }
    // First to uppercase: the long s and the Kelvin sign become the plain letters that file systems compare.
    let folded = name.to_uppercase().to_lowercase();
    let folded = folded.trim_end_matches(['.', ' ']);
    // The short name that Windows gives to `.git`.
    let is_short = folded.starts_with("git~");
    let is_known = PROTECTED_NAMES.contains(&folded);
    is_short || is_known || PROTECTED_ENDINGS.iter().any(|end| folded.ends_with(end))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_compared_as_file_systems_do() {
        for name in [
            ".git",
            ".Git",
            ".GIT...",
            ".git .",
            "GIT~1",
            ".agent\u{17f}",
            ".prowess",
            ".CLAUDE",
            ".agents",
            "AGENTS.md",
            "agents.MD",
            "CLAUDE.md",
            "prowess.toml",
            "Prowess.TOML ",
            ".envrc",
            ".idea",
            "x.iml",
            ".g\u{200c}it",
            "a\nb",
            ".git\\hooks",
            ".git::$INDEX_ALLOCATION",
        ] {
            assert!(is_protected(OsStr::new(name)), "{name:?}");
        }
        for name in
            [".gitignore", ".gitattributes", "agents", "README.md", "Makefile", "ü.txt", "a b", "git", "…"]
        {
            assert!(!is_protected(OsStr::new(name)), "{name:?}");
        }
        use std::os::unix::ffi::OsStrExt as _;
        assert!(is_protected(OsStr::from_bytes(b"a\xff")));
    }
}
