//! The environment variables of a command.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};

use super::layout::InsidePaths;
use crate::executor::ExecuteError;

/// The longest string that the system passes to a program, less some space for a variable's name.
pub(super) const MAX_STRING: usize = 128 * 1024 - 256;

/// Variables that make a program load or run code before it starts.
const LOADERS: &[&str] = &[
    "BASHOPTS",
    "BASH_ENV",
    "ENV",
    "GCONV_PATH",
    "GLIBC_TUNABLES",
    "IFS",
    "JAVA_TOOL_OPTIONS",
    "JDK_JAVA_OPTIONS",
    "LOCPATH",
    "NODE_OPTIONS",
    "PERL5DB",
    "PERL5OPT",
    "PROMPT_COMMAND",
    "PS4",
    "PYTHONHOME",
    "PYTHONSTARTUP",
    "RUBYOPT",
    "SHELLOPTS",
    "_JAVA_OPTIONS",
];
const LOADER_PREFIXES: &[&str] = &["BASH_FUNC_", "DYLD_", "LD_"];

/// Variables that the workspace sets. `HOME` is one of them, because a login shell runs files from it.
const OURS: &[&str] = &["HOME", "OUTPUT_DIR", "RUN_DIR", "SKILLS_DIR", "TMPDIR", "WORKSPACE_DIR", "WORK_DIR"];

/// The user's options for variables.
#[derive(Clone, Copy, Debug)]
pub(super) struct VariableOptions<'a> {
    /// Variables that every command gets.
    pub(super) environment: &'a BTreeMap<String, String>,
    /// Variables that a request may set although they make a program load code.
    pub(super) allow_loaders: &'a BTreeSet<String>,
    /// Directories whose `bin` comes first in `PATH`.
    pub(super) prefixes: &'a [PathBuf],
}

/// Refuses variables that a request must not set.
pub(super) fn check_variables(
    options: VariableOptions<'_>,
    request: &BTreeMap<String, String>,
    sandboxed: bool,
) -> Result<(), ExecuteError> {
    request.iter().try_for_each(|(name, value)| check(options, name, value, sandboxed))
}

/// All variables of a command: those of the workspace, the user and the checked request.
pub(super) fn variables(
    options: VariableOptions<'_>,
    request: &BTreeMap<String, String>,
    inside: &InsidePaths,
    terminal: bool,
) -> BTreeMap<String, String> {
    let mut all = BTreeMap::from([
        ("LANG".to_owned(), "C.UTF-8".to_owned()),
        ("PATH".to_owned(), path(options.prefixes)),
    ]);
    if terminal {
        // Without control sequences, because the reader may be a model.
        all.insert("TERM".to_owned(), "dumb".to_owned());
    }
    all.extend(options.environment.clone());
    all.extend(request.clone());
    for (name, value) in inside.variables() {
        all.insert(name.to_owned(), value);
    }
    all
}

fn check(options: VariableOptions<'_>, name: &str, value: &str, sandboxed: bool) -> Result<(), ExecuteError> {
    let refuse = |why: &str| Err(ExecuteError::Refused(format!("variable {name:?}: {why}")));
    let mut characters = name.chars();
    let named = characters.next().is_some_and(|first| first == '_' || first.is_ascii_alphabetic())
        && characters.all(|other| other == '_' || other.is_ascii_alphanumeric());
    // Without a sandbox they would reach the programs that set the limits, which still have privileges.
    let allowed = sandboxed && options.allow_loaders.contains(name);
    if !named {
        return refuse("a name has letters, digits and `_` only");
    }
    if name.len() + value.len() > MAX_STRING || value.contains('\0') {
        return refuse("its value is too long or contains NUL; write it to a file or to standard input");
    }
    if OURS.contains(&name) {
        return refuse("the workspace sets it");
    }
    let loader = LOADERS.contains(&name) || LOADER_PREFIXES.iter().any(|prefix| name.starts_with(prefix));
    if loader && !allowed {
        return refuse("it makes programs load code, and the configuration does not allow it");
    }
    Ok(())
}

fn path(prefixes: &[impl AsRef<Path>]) -> String {
    let mut path = String::new();
    for prefix in prefixes {
        let bin = prefix.as_ref().join("bin");
        if let (true, Some(bin)) = (bin.is_dir(), bin.to_str()) {
            path.push_str(bin);
            path.push(':');
        }
    }
    path + "/usr/local/bin:/usr/bin:/bin"
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::command::Command;

    fn ask(name: &str, value: &str) -> Result<BTreeMap<String, String>, String> {
        let request = BTreeMap::from([(name.to_owned(), value.to_owned())]);
        let (environment, allow_loaders) = Default::default();
        let options =
            VariableOptions { environment: &environment, allow_loaders: &allow_loaders, prefixes: &[] };
        check_variables(options, &request, true).map_err(|error| error.to_string())?;
        Ok(variables(
            options,
            &request,
            &InsidePaths::sandboxed(&Command::new("/srv/w1", "work", "true"), "r1"),
            false,
        ))
    }

    #[test]
    fn a_plain_variable_passes() {
        assert_eq!(ask("SKILL_NAME", "pdf").unwrap()["SKILL_NAME"], "pdf");
        assert_eq!(ask("PATH", "/usr/bin").unwrap()["PATH"], "/usr/bin");
    }

    #[test]
    fn loaders_and_our_own_are_refused() {
        for name in
            ["LD_PRELOAD", "LD_AUDIT", "BASH_ENV", "ENV", "PYTHONSTARTUP", "NODE_OPTIONS", "HOME", "WORK_DIR"]
        {
            assert!(ask(name, "x").is_err(), "{name}");
        }
    }

    #[test]
    fn a_name_that_is_none_is_refused() {
        for name in ["", "1A", "A B", "A=B", "Ä", "A\0"] {
            assert!(ask(name, "x").is_err(), "{name:?}");
        }
    }

    #[test]
    fn a_loader_passes_when_it_is_allowed() {
        let environment = BTreeMap::new();
        let allow_loaders = BTreeSet::from(["NODE_OPTIONS".to_owned()]);
        let options =
            VariableOptions { environment: &environment, allow_loaders: &allow_loaders, prefixes: &[] };
        let request = BTreeMap::from([("NODE_OPTIONS".to_owned(), "--no-warnings".to_owned())]);
        assert!(check_variables(options, &request, true).is_ok());
        assert!(check_variables(options, &request, false).is_err());
    }
}
