//! Checks that all executors make before they run a command.

use std::path::{Component, Path};

use super::ExecuteError;
use super::environment::MAX_STRING;
use super::layout::check_relative;
use crate::command::{Command, Mount};
use crate::path::InnerPath;

/// Refuses paths that lead out of the workspace, and strings that the system cannot pass to a program.
pub(super) fn check_command(command: &Command) -> Result<(), ExecuteError> {
    let refuse = |why: String| Err(ExecuteError::Refused(why));
    if !command.directory.starts_with('/') {
        check_relative("directory", &command.directory)?;
    } else if !is_mounted(command, &command.directory) {
        return refuse(format!("directory {:?} is not one that this command sees", command.directory));
    }
    for Mount { source, at } in &command.mounts {
        if !is_plain(at) || source.path().is_some_and(|path| !path.is_absolute()) {
            return refuse(format!("mount {at:?} must be an absolute path without `..`"));
        }
    }
    for name in &command.skills {
        let is_name = InnerPath::parse(name).is_ok_and(|path| path.as_str() == name && path.top() == name);
        if !is_name {
            return refuse(format!("skill {name:?} must be the name of a directory in `skills/`"));
        }
    }
    let mut parts = Path::new(&command.directory).components().filter(|part| *part != Component::CurDir);
    if parts.next() == Some(Component::Normal("skills".as_ref()))
        && let Some(Component::Normal(skill)) = parts.next()
        && !command.skills.iter().any(|name| skill == name.as_str())
    {
        return refuse(format!(
            "directory {:?} is in a skill that this command does not see",
            command.directory
        ));
    }
    for (_, to) in &command.read_only {
        check_relative("input", to)?;
    }
    if let Some(own) = &command.apart
        && (!own.is_absolute()
            || own.file_name().is_none()
            || own.to_str().is_none_or(|own| own.contains('\0')))
    {
        return refuse(format!("the command's own directory {own:?} must be an absolute UTF-8 path"));
    }
    if command.line.len() > MAX_STRING || command.line.contains('\0') {
        return refuse(format!(
            "the command is longer than {MAX_STRING} bytes or contains NUL; put it into a file"
        ));
    }
    if !command.shell.starts_with('/') || command.shell.contains('\0') {
        return refuse(format!("shell {:?} must be an absolute path", command.shell));
    }
    Ok(())
}

/// Whether an absolute path is at or below one of the command's mounts.
fn is_mounted(command: &Command, path: &str) -> bool {
    is_plain(path) && command.mounts.iter().any(|mount| Path::new(path).starts_with(&mount.at))
}

/// Whether a path is absolute and has only names.
fn is_plain(path: &str) -> bool {
    let mut parts = Path::new(path).components();
    parts.next() == Some(Component::RootDir)
        && parts.all(|part| matches!(part, Component::Normal(_)))
        && !path.contains('\0')
}
