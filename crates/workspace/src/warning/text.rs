//! The text of each warning.

use std::ffi::OsStr;
use std::fmt;

use super::RunWarning;
use crate::executor::Stream;
use crate::path::escaped_name;
use crate::report::MAX_REPORT_BYTES;

/// How many files one warning names; more are only counted.
const MAX_NAMED: usize = 5;

impl fmt::Display for RunWarning {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::LimitsLowered { .. }
            | Self::TimeoutLowered { .. }
            | Self::NotStaged { .. }
            | Self::NotListed { .. }
            | Self::MoreNotStaged { .. }
            | Self::OwnDirectory { .. }
            | Self::NotWritable { .. }
            | Self::NotInCopy { .. }
            | Self::ArtifactCopied { .. } => self.fmt_request(f),
            Self::NotInProject { .. }
            | Self::NotLookedUp
            | Self::TooMuchNamed { .. }
            | Self::Withheld { .. }
            | Self::ReadableInPart { .. }
            | Self::NotGiven { .. }
            | Self::OnlyForFileTools { .. }
            | Self::NotListable { .. }
            | Self::NoAlias { .. } => self.fmt_given(f),
            Self::Killed(_)
            | Self::ProcessOutOfMemory
            | Self::Hangs
            | Self::OutputCut { .. }
            | Self::WorkspaceFull { .. }
            | Self::SetIdsUnseen { .. }
            | Self::ContainerLeft { .. }
            | Self::Denied { .. }
            | Self::MoreDenied { .. }
            | Self::Idle { .. } => self.fmt_command(f),
            Self::LeftOut { .. }
            | Self::MoreLeftOut { .. }
            | Self::HardLinked { .. }
            | Self::Moving { .. }
            | Self::Truncated { .. }
            | Self::Stopped { .. }
            | Self::NoMatch { .. }
            | Self::RunDirectoryGlob { .. }
            | Self::NoRunDirectory { .. }
            | Self::NotCollected { .. } => self.fmt_collecting(f),
            Self::HasSecret { .. }
            | Self::NotCopiedBack { .. }
            | Self::MoreNotCopiedBack { .. }
            | Self::MoreCopiedBack { .. }
            | Self::NoArtifacts
            | Self::NotSaved { .. }
            | Self::ShownInPart { .. }
            | Self::NotNamed { .. }
            | Self::Other(_) => self.fmt_report(f),
        }
    }
}

impl RunWarning {
    /// Warnings about the request, its skill and its inputs.
    fn fmt_request(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::LimitsLowered { most } => write!(
                f,
                "the limits in `outputs` were lowered to the maximum: {} files, {} bytes each, {} bytes in total",
                most.max_files, most.max_file_bytes, most.max_total_bytes
            ),
            Self::TimeoutLowered { seconds } => {
                write!(f, "the timeout was lowered to {seconds} seconds, the maximum")
            }
            Self::NotStaged { path, reason } => write!(f, "`{path}` of the skill was not staged: {reason}"),
            Self::NotListed { reason } => write!(f, "some files of the skill were not staged: {reason}"),
            Self::MoreNotStaged { count } => write!(f, "{count} more files of the skill were not staged"),
            Self::OwnDirectory { own, place } => write!(
                f,
                "the skill's own `{own}` hides the workspace's, which is `$WORKSPACE_DIR/{place}`; outputs are \
                 collected from the workspace only"
            ),
            Self::NotWritable { path, reason } => {
                write!(f, "{path} cannot be written in this run: {reason}")
            }
            Self::NotInCopy { path, names } => {
                let named = names[..names.len().min(MAX_NAMED)].join(", ");
                let more = if names.len() > MAX_NAMED { ", and more" } else { "" };
                write!(
                    f,
                    "{path} is a copy without {named}{more}: links, roots of skills, and secret and protected files stay out"
                )
            }
            Self::ArtifactCopied { from } => {
                write!(f, "`{from}` was copied, because an artifact cannot be linked")
            }
            _ => Ok(()),
        }
    }

    /// Warnings about what the command was given of the project.
    fn fmt_given(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::NotInProject { paths, out } => {
                list(f, paths, paths.len(), MAX_NAMED)?;
                let do_not = if paths.len() == 1 { "does not" } else { "do not" };
                write!(
                    f,
                    " {do_not} exist; the project is read-only for commands, so write new files to `{out}`"
                )
            }
            Self::NotLookedUp => f.write_str(
                "the request names too many files of the project; the command may not see all of them",
            ),
            Self::TooMuchNamed { reason } => {
                write!(f, "the command does not see all that the request names: {reason}")
            }
            Self::Withheld { directory, paths, more } => {
                let directory = escaped_name(OsStr::new(directory));
                let why = "because they are, contain or lead to files that commands do not see";
                write!(f, "left out of `{directory}`, {why}: ")?;
                list(f, paths, paths.len() + more, paths.len())
            }
            Self::ReadableInPart { path } => {
                write!(f, "commands run as `nobody`, who cannot read everything in `{path}`")
            }
            Self::NotGiven { paths } => {
                f.write_str("the command did not see ")?;
                list(f, paths, paths.len(), MAX_NAMED)?;
                f.write_str(
                    "; it sees only the files whose whole paths are in `command`, `env`, `stdin`, `inputs` or `cwd`",
                )
            }
            Self::OnlyForFileTools { paths } => {
                f.write_str("commands cannot open ")?;
                list(f, paths, paths.len(), MAX_NAMED)?;
                f.write_str("; read and change memory files with the file tools")
            }
            Self::NotListable { paths } => {
                f.write_str("at this sandbox level, commands cannot list ")?;
                list(f, paths, paths.len(), MAX_NAMED)?;
                let it = if paths.len() == 1 { "it" } else { "them" };
                write!(
                    f,
                    ", because something in {it} is not for commands; list {it} with the file tools, and name files \
                     by their whole paths"
                )
            }
            Self::NoAlias { link, target } => {
                let [link, target] = [link, target].map(|path| escaped_name(OsStr::new(path)));
                write!(f, "commands do not see `{link}`; write `{target}` instead")
            }
            _ => Ok(()),
        }
    }

    /// Warnings about the command, its processes and its network.
    fn fmt_command(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Killed(exit) => match exit.killed_because() {
                Some(why) => write!(f, "the command was killed: {why}"),
                None => f.write_str("the command was killed"),
            },
            Self::ProcessOutOfMemory => f.write_str("a process was killed because it used too much memory"),
            Self::Hangs => f.write_str("a killed process hangs in the kernel and may still exist"),
            Self::OutputCut { stream, bytes } => {
                let name = match stream {
                    Stream::Stdout => "stdout",
                    Stream::Stderr => "stderr",
                };
                write!(f, "{name}: {bytes} bytes in the middle were left out")
            }
            Self::WorkspaceFull { bytes, entries } => write!(
                f,
                "the workspace has more than {bytes} bytes or {entries} files, or a directory that cannot be read"
            ),
            Self::SetIdsUnseen { reason } => write!(
                f,
                "not all files could be checked for set-uid and set-gid bits: {reason}; do not run programs from \
                 the workspace"
            ),
            Self::ContainerLeft { reason } => f.write_str(reason),
            Self::Denied { what } => write!(f, "network: {what}"),
            Self::MoreDenied { count } => {
                write!(f, "network: {count} more requests to other hosts were denied")
            }
            Self::Idle { seconds } => {
                write!(f, "the command was ended because nobody used it for {seconds} seconds")
            }
            _ => Ok(()),
        }
    }

    /// Warnings about collected files.
    fn fmt_collecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::LeftOut { path, reason } => write!(f, "`{path}` was left out: it {reason}"),
            Self::MoreLeftOut { count } => write!(f, "{count} more files were left out or have warnings"),
            Self::HardLinked { path, names } => {
                write!(f, "`{path}` was collected, and has {names} names (hard links)")
            }
            Self::Moving { path } => {
                write!(f, "`{path}` changed while it was collected: it may mix two versions")
            }
            Self::Truncated { path, read, size } => {
                write!(f, "`{path}` is truncated: {read} of its {size} bytes")
            }
            Self::Stopped { reason } => write!(f, "collecting stopped: {reason}; other files were left out"),
            Self::NoMatch { glob } => write!(f, "`{}` matched no file", escaped_name(OsStr::new(glob))),
            Self::RunDirectoryGlob { glob } => {
                write!(f, "`{}` matches nothing: write `/` after `$RUN_DIR`", escaped_name(OsStr::new(glob)))
            }
            Self::NoRunDirectory { glob } => {
                write!(f, "`{}` matches nothing: this run has no `$RUN_DIR`", escaped_name(OsStr::new(glob)))
            }
            Self::NotCollected { reason } => write!(f, "no files were collected: {reason}"),
            _ => Ok(()),
        }
    }

    /// Warnings about artifacts and the report.
    fn fmt_report(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::HasSecret { path } => write!(
                f,
                "`{path}` contains a secret, which was replaced here; an artifact of it still contains the secret"
            ),
            Self::NotCopiedBack { path, reason, .. } => {
                write!(f, "{path} was not copied back to the project: {reason}")
            }
            Self::MoreNotCopiedBack { count } => {
                write!(f, "{count} more changes were not copied back to the project")
            }
            Self::MoreCopiedBack { count } => {
                write!(f, "{count} more files of the project were changed")
            }
            Self::NoArtifacts => f.write_str("nothing was saved: artifacts are not configured"),
            Self::NotSaved { path, reason } => write!(f, "`{path}` was not saved: {reason}"),
            Self::ShownInPart { paths } => {
                write!(f, "a report is limited to {} MiB; cut to fit: ", MAX_REPORT_BYTES >> 20)?;
                // Already safe to print.
                for (at, path) in paths.iter().take(MAX_NAMED).enumerate() {
                    let between = if at == 0 { "" } else { ", " };
                    write!(f, "{between}`{path}`")?;
                }
                if paths.len() > MAX_NAMED {
                    write!(f, " and {} more", paths.len() - MAX_NAMED)?;
                }
                f.write_str(". Save files as artifacts to keep them whole")
            }
            Self::NotNamed { count } => {
                write!(f, "{count} more files are not listed: their names are too long")
            }
            Self::Other(text) => f.write_str(text),
            _ => Ok(()),
        }
    }
}

/// The first `named` of some paths, and how many more there are in all.
fn list(f: &mut fmt::Formatter<'_>, paths: &[String], all: usize, named: usize) -> fmt::Result {
    for (at, path) in paths.iter().take(named).enumerate() {
        let between = if at == 0 { "" } else { ", " };
        write!(f, "{between}`{}`", escaped_name(OsStr::new(path)))?;
    }
    match (all.saturating_sub(named), named.min(paths.len())) {
        (0, _) => Ok(()),
        (more, 0) => write!(f, "{more} files or directories"),
        (more, _) => write!(f, " and {more} more"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::collect::CollectLimits;
    use crate::command::Exit;

    /// The variant after this one. A new variant does not compile until it is added here, and so to the snapshot.
    fn next(warning: &RunWarning) -> Option<RunWarning> {
        let text = |text: &str| text.to_owned();
        Some(match warning {
            RunWarning::LimitsLowered { .. } => RunWarning::TimeoutLowered { seconds: 600 },
            RunWarning::TimeoutLowered { .. } => {
                RunWarning::NotStaged { path: text("a/b"), reason: text("it is a FIFO") }
            }
            RunWarning::NotStaged { .. } => RunWarning::NotListed { reason: text("too deep") },
            RunWarning::NotListed { .. } => RunWarning::MoreNotStaged { count: 3 },
            RunWarning::MoreNotStaged { .. } => {
                RunWarning::OwnDirectory { own: "inputs", place: "work/inputs" }
            }
            RunWarning::OwnDirectory { .. } => RunWarning::ArtifactCopied { from: text("artifact://a") },
            RunWarning::ArtifactCopied { .. } => {
                RunWarning::NotInProject { paths: vec![text("/project/new.txt")], out: text("/work/out") }
            }
            RunWarning::NotInProject { .. } => RunWarning::NotLookedUp,
            RunWarning::NotLookedUp => RunWarning::TooMuchNamed { reason: text("'/project' is too large") },
            RunWarning::TooMuchNamed { .. } => RunWarning::Withheld {
                directory: text("/project"),
                paths: vec![text("/project/.env"), text("/project/keys")],
                more: 2,
            },
            RunWarning::Withheld { .. } => RunWarning::ReadableInPart { path: text("/project/src") },
            RunWarning::ReadableInPart { .. } => {
                RunWarning::NotGiven { paths: vec![text("/project/plan.json"), text("/project/a b")] }
            }
            RunWarning::NotGiven { .. } => {
                RunWarning::OnlyForFileTools { paths: vec![text("/memory/home/ada/.prowess/AGENTS.md")] }
            }
            RunWarning::OnlyForFileTools { .. } => {
                RunWarning::NotListable { paths: vec![text("/home/ada/site")] }
            }
            RunWarning::NotListable { .. } => {
                RunWarning::NoAlias { link: text("/usr/src/site"), target: text("/project") }
            }
            RunWarning::NoAlias { .. } => RunWarning::Killed(Exit::TooMuchOutput),
            RunWarning::Killed(_) => RunWarning::ProcessOutOfMemory,
            RunWarning::ProcessOutOfMemory => RunWarning::Hangs,
            RunWarning::Hangs => RunWarning::OutputCut { stream: Stream::Stderr, bytes: 10 },
            RunWarning::OutputCut { .. } => RunWarning::WorkspaceFull { bytes: 20, entries: 2 },
            RunWarning::WorkspaceFull { .. } => RunWarning::SetIdsUnseen { reason: text("no such file") },
            RunWarning::SetIdsUnseen { .. } => {
                RunWarning::ContainerLeft { reason: text("cannot remove the container: busy") }
            }
            RunWarning::ContainerLeft { .. } => {
                RunWarning::Denied { what: text("a.org:80 is not on the list of allowed hosts") }
            }
            RunWarning::Denied { .. } => RunWarning::MoreDenied { count: 4 },
            RunWarning::MoreDenied { .. } => RunWarning::Idle { seconds: 60 },
            RunWarning::Idle { .. } => RunWarning::LeftOut { path: text("out/a"), reason: text("is a FIFO") },
            RunWarning::LeftOut { .. } => RunWarning::MoreLeftOut { count: 5 },
            RunWarning::MoreLeftOut { .. } => RunWarning::HardLinked { path: text("out/a"), names: 2 },
            RunWarning::HardLinked { .. } => RunWarning::Moving { path: text("out/a") },
            RunWarning::Moving { .. } => RunWarning::Truncated { path: text("out/a"), read: 5, size: 20 },
            RunWarning::Truncated { .. } => RunWarning::Stopped { reason: text("more than 2 files match") },
            RunWarning::Stopped { .. } => RunWarning::NoMatch { glob: text("out/\n*") },
            RunWarning::NoMatch { .. } => RunWarning::RunDirectoryGlob { glob: text("$RUN_DIR*") },
            RunWarning::RunDirectoryGlob { .. } => RunWarning::NoRunDirectory { glob: text("$RUN_DIR/*") },
            RunWarning::NoRunDirectory { .. } => RunWarning::NotCollected { reason: text("no thread") },
            RunWarning::NotCollected { .. } => RunWarning::HasSecret { path: text("out/a") },
            RunWarning::HasSecret { .. } => {
                RunWarning::NotWritable { path: text("/project/dist"), reason: text("it is not a directory") }
            }
            RunWarning::NotWritable { .. } => RunWarning::NotInCopy {
                path: text("/project/dist"),
                names: ["a", "b", "c", "d", "e", "f"].map(text).into(),
            },
            RunWarning::NotInCopy { .. } => RunWarning::NotCopiedBack {
                path: text("/project/dist/a"),
                real: "/home/ada/site/dist/a".into(),
                reason: text("it is a link"),
            },
            RunWarning::NotCopiedBack { .. } => RunWarning::MoreNotCopiedBack { count: 2 },
            RunWarning::MoreNotCopiedBack { .. } => RunWarning::MoreCopiedBack { count: 3 },
            RunWarning::MoreCopiedBack { .. } => RunWarning::NoArtifacts,
            RunWarning::NoArtifacts => {
                RunWarning::NotSaved { path: text("out/a"), reason: text("it is truncated") }
            }
            RunWarning::NotSaved { .. } => {
                RunWarning::ShownInPart { paths: ["a", "b", "c", "d", "e", "f", "g"].map(text).to_vec() }
            }
            RunWarning::ShownInPart { .. } => RunWarning::NotNamed { count: 6 },
            RunWarning::NotNamed { .. } => RunWarning::Other(text("`out/a` was not copied: it is there")),
            RunWarning::Other(_) => return None,
        })
    }

    #[test]
    fn the_text_of_each_warning() {
        let first = RunWarning::LimitsLowered { most: CollectLimits::default() };
        let all: Vec<RunWarning> = std::iter::successors(Some(first), next).collect();
        let texts: Vec<String> = all.iter().map(ToString::to_string).collect();
        assert_eq!(serde_json::to_value(&all).unwrap(), serde_json::to_value(&texts).unwrap());
        assert!(texts.iter().all(|text| !text.is_empty()));
        insta::assert_snapshot!(texts.join("\n"), @r"
        the limits in `outputs` were lowered to the maximum: 100 files, 4194304 bytes each, 67108864 bytes in total
        the timeout was lowered to 600 seconds, the maximum
        `a/b` of the skill was not staged: it is a FIFO
        some files of the skill were not staged: too deep
        3 more files of the skill were not staged
        the skill's own `inputs` hides the workspace's, which is `$WORKSPACE_DIR/work/inputs`; outputs are collected from the workspace only
        `artifact://a` was copied, because an artifact cannot be linked
        `/project/new.txt` does not exist; the project is read-only for commands, so write new files to `/work/out`
        the request names too many files of the project; the command may not see all of them
        the command does not see all that the request names: '/project' is too large
        left out of `/project`, because they are, contain or lead to files that commands do not see: `/project/.env`, `/project/keys` and 2 more
        commands run as `nobody`, who cannot read everything in `/project/src`
        the command did not see `/project/plan.json`, `/project/a b`; it sees only the files whose whole paths are in `command`, `env`, `stdin`, `inputs` or `cwd`
        commands cannot open `/memory/home/ada/.prowess/AGENTS.md`; read and change memory files with the file tools
        at this sandbox level, commands cannot list `/home/ada/site`, because something in it is not for commands; list it with the file tools, and name files by their whole paths
        commands do not see `/usr/src/site`; write `/project` instead
        the command was killed: it wrote too much output
        a process was killed because it used too much memory
        a killed process hangs in the kernel and may still exist
        stderr: 10 bytes in the middle were left out
        the workspace has more than 20 bytes or 2 files, or a directory that cannot be read
        not all files could be checked for set-uid and set-gid bits: no such file; do not run programs from the workspace
        cannot remove the container: busy
        network: a.org:80 is not on the list of allowed hosts
        network: 4 more requests to other hosts were denied
        the command was ended because nobody used it for 60 seconds
        `out/a` was left out: it is a FIFO
        5 more files were left out or have warnings
        `out/a` was collected, and has 2 names (hard links)
        `out/a` changed while it was collected: it may mix two versions
        `out/a` is truncated: 5 of its 20 bytes
        collecting stopped: more than 2 files match; other files were left out
        `out/\n*` matched no file
        `$RUN_DIR*` matches nothing: write `/` after `$RUN_DIR`
        `$RUN_DIR/*` matches nothing: this run has no `$RUN_DIR`
        no files were collected: no thread
        `out/a` contains a secret, which was replaced here; an artifact of it still contains the secret
        /project/dist cannot be written in this run: it is not a directory
        /project/dist is a copy without a, b, c, d, e, and more: links, roots of skills, and secret and protected files stay out
        /project/dist/a was not copied back to the project: it is a link
        2 more changes were not copied back to the project
        3 more files of the project were changed
        nothing was saved: artifacts are not configured
        `out/a` was not saved: it is truncated
        a report is limited to 14 MiB; cut to fit: `a`, `b`, `c`, `d`, `e` and 2 more. Save files as artifacts to keep them whole
        6 more files are not listed: their names are too long
        `out/a` was not copied: it is there
        ");
    }

    #[test]
    fn few_cut_files_are_all_named() {
        let one = RunWarning::ShownInPart { paths: vec!["a".to_owned()] };
        insta::assert_snapshot!(one, @"a report is limited to 14 MiB; cut to fit: `a`. Save files as artifacts to keep them whole");
    }

    #[test]
    fn several_directories_are_them() {
        let paths = ["/project/a", "/project/b"].map(str::to_owned).to_vec();
        let told = RunWarning::NotListable { paths }.to_string();
        assert!(told.contains("something in them is") && told.contains("list them with"), "{told}");
    }
}
