//! What else should be known about a run: what was left out, which limit bit.

use std::ffi::OsStr;
use std::fmt;

use serde::{Serialize, Serializer};

use crate::collect::CollectLimits;
use crate::command::Exit;
use crate::executor::Stream;
use crate::path::printable;
use crate::report::MAX_REPORT_BYTES;

/// So many files are named in one warning; the others are counted.
const MAX_NAMED: usize = 5;

/// Something that should be known about a run beside its outcome.
///
/// It is shown by `Display` and serialised as that text. Programs match on the variant.
///
/// ```
/// use prowess_workspace::RunWarning;
///
/// let warning = RunWarning::NoMatch { glob: "out/*.csv".to_owned() };
/// assert_eq!(warning.to_string(), "`out/*.csv` matched no file");
/// assert!(matches!(warning, RunWarning::NoMatch { glob } if glob == "out/*.csv"));
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum RunWarning {
    /// The request asked for more output files than can be collected.
    LimitsLowered {
        /// The limits that hold instead.
        most: CollectLimits,
    },
    /// The request asked for more time than a command can have.
    TimeoutLowered {
        /// How long the command may run instead.
        seconds: u64,
    },
    /// A file of the skill is not in the workspace.
    NotStaged {
        /// Its path in the skill, safe to show.
        path: String,
        /// Why not.
        reason: String,
    },
    /// Something of the skill could not even be listed.
    NotListed {
        /// Why not.
        reason: String,
    },
    /// More files of the skill are not in the workspace than are named.
    MoreNotStaged {
        /// How many more.
        count: usize,
    },
    /// The skill ships a directory that has the name of one of the workspace's.
    OwnDirectory {
        /// The skill's directory.
        own: &'static str,
        /// Where the workspace's directory of that name is.
        place: &'static str,
    },
    /// An artifact was to be linked, and was copied.
    ArtifactCopied {
        /// The artifact, as the request names it.
        from: String,
    },
    /// The command was killed. That its time was over has a field of its own in a report.
    Killed(Exit),
    /// The command went on after one of its processes was killed for its memory.
    ProcessOutOfMemory,
    /// A killed process may still be there.
    Hangs,
    /// The middle of an output stream was left out.
    OutputCut {
        /// Which stream.
        stream: Stream,
        /// How many bytes were left out.
        bytes: u64,
    },
    /// The workspace holds more than it may.
    WorkspaceFull {
        /// How many bytes it may hold.
        bytes: u64,
        /// How many files it may hold.
        entries: u64,
    },
    /// Some files may still have set-uid or set-gid bits.
    SetIdsUnseen {
        /// Why they could not be looked at.
        reason: String,
    },
    /// A container could not be removed.
    ContainerLeft {
        /// Why not.
        reason: String,
    },
    /// The proxy denied a request.
    Denied {
        /// What was denied, and why.
        what: String,
    },
    /// The proxy denied more requests than are named.
    MoreDenied {
        /// How many more.
        count: u64,
    },
    /// Nobody looked at an interactive run for so long that it was ended.
    Idle {
        /// For how long nobody looked.
        seconds: u64,
    },
    /// A file was left out.
    LeftOut {
        /// Its path, safe to show.
        path: String,
        /// What it is or why it cannot be had, as a sentence goes on after its name.
        reason: String,
    },
    /// More files were left out or flagged than are named.
    MoreLeftOut {
        /// How many more.
        count: usize,
    },
    /// A file with several names was collected.
    HardLinked {
        /// Its path, safe to show.
        path: String,
        /// How many names it has.
        names: u64,
    },
    /// A file changed while it was collected.
    Moving {
        /// Its path, safe to show.
        path: String,
    },
    /// Only the beginning of a file was collected.
    Truncated {
        /// Its path, safe to show.
        path: String,
        /// How many bytes were collected.
        read: u64,
        /// How many bytes the file has.
        size: u64,
    },
    /// A limit ended the collecting of files.
    Stopped {
        /// Which limit.
        reason: String,
    },
    /// A glob of the request matched no file.
    NoMatch {
        /// The glob, as the request has it.
        glob: String,
    },
    /// A glob of the request can match nothing: something other than `/` comes after `$RUN_DIR`.
    RunDirectoryGlob {
        /// The glob, as the request has it.
        glob: String,
    },
    /// A glob of the request can match nothing: it has `$RUN_DIR`, and the run has no directory of its own.
    NoRunDirectory {
        /// The glob, as the request has it.
        glob: String,
    },
    /// No file could be collected.
    NotCollected {
        /// Why not.
        reason: String,
    },
    /// A file has a secret in it.
    HasSecret {
        /// Its path, safe to show.
        path: String,
    },
    /// Files were to be saved, and there is no place for artifacts.
    NoArtifacts,
    /// A file was not saved as an artifact.
    NotSaved {
        /// Its path, safe to show.
        path: String,
        /// Why not.
        reason: String,
    },
    /// A report has no room for the whole text of some files.
    ShownInPart {
        /// The files, safe to show.
        paths: Vec<String>,
    },
    /// A report has no room for the names of some files.
    NotNamed {
        /// How many files.
        count: usize,
    },
    /// Something that a host adds about what it did with a report.
    Other(String),
}

impl fmt::Display for RunWarning {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::LimitsLowered { most } => write!(
                f,
                "limits of `outputs` were lowered: at most {} files, {} bytes each, {} bytes in all",
                most.max_files, most.max_file_bytes, most.max_total_bytes
            ),
            Self::TimeoutLowered { seconds } => {
                write!(f, "the timeout was lowered to {seconds} seconds, the most there is")
            }
            Self::NotStaged { path, reason } => write!(f, "`{path}` of the skill is not staged: {reason}"),
            Self::NotListed { reason } => write!(f, "something of the skill is not staged: {reason}"),
            Self::MoreNotStaged { count } => write!(f, "{count} more of the skill are not staged"),
            Self::OwnDirectory { own, place } => write!(
                f,
                "the skill has its own `{own}`; the workspace's is `$WORKSPACE_DIR/{place}`, and outputs are \
                 collected from there"
            ),
            Self::ArtifactCopied { from } => write!(f, "`{from}` was copied: an artifact cannot be linked"),
            Self::Killed(exit) => match exit.killed_because() {
                Some(why) => write!(f, "it was killed: {why}"),
                None => f.write_str("it was killed"),
            },
            Self::ProcessOutOfMemory => f.write_str("a process was killed because it used too much memory"),
            Self::Hangs => f.write_str("a killed process hangs in the kernel and may still be there"),
            Self::OutputCut { stream, bytes } => {
                let name = match stream {
                    Stream::Stdout => "stdout",
                    Stream::Stderr => "stderr",
                };
                write!(f, "{name}: {bytes} bytes in its middle were left out")
            }
            Self::WorkspaceFull { bytes, entries } => write!(
                f,
                "the workspace holds more than {bytes} bytes or {entries} files, or a directory that cannot be \
                 looked into"
            ),
            Self::SetIdsUnseen { reason } => write!(
                f,
                "not all files could be looked at for set-uid and set-gid bits: {reason}; do not run programs from \
                 the workspace"
            ),
            Self::ContainerLeft { reason } => f.write_str(reason),
            Self::Denied { what } => write!(f, "network: {what}"),
            Self::MoreDenied { count } => {
                write!(f, "network: {count} more requests to other hosts were denied")
            }
            Self::Idle { seconds } => write!(f, "nobody asked for it for {seconds} seconds"),
            Self::LeftOut { path, reason } => write!(f, "`{path}` {reason}; left out"),
            Self::MoreLeftOut { count } => write!(f, "{count} more files were left out or flagged"),
            Self::HardLinked { path, names } => {
                write!(f, "`{path}` has {names} names (hard links) and was collected")
            }
            Self::Moving { path } => {
                write!(f, "`{path}` was written while it was collected: it may be a mix")
            }
            Self::Truncated { path, read, size } => {
                write!(f, "`{path}` is truncated: {read} of its {size} bytes")
            }
            Self::Stopped { reason } => write!(f, "collecting stopped: {reason}; the rest was left out"),
            Self::NoMatch { glob } => write!(f, "`{}` matched no file", printable(OsStr::new(glob))),
            Self::RunDirectoryGlob { glob } => write!(
                f,
                "`{}` matches nothing: `$RUN_DIR` has to be followed by `/`",
                printable(OsStr::new(glob))
            ),
            Self::NoRunDirectory { glob } => write!(
                f,
                "`{}` matches nothing: the run's own directory is not known",
                printable(OsStr::new(glob))
            ),
            Self::NotCollected { reason } => write!(f, "nothing was collected: {reason}"),
            Self::HasSecret { path } => write!(
                f,
                "`{path}` has a secret in it, which is not shown here; an artifact made of it has it still"
            ),
            Self::NoArtifacts => f.write_str("artifacts are not configured: nothing was saved"),
            Self::NotSaved { path, reason } => write!(f, "`{path}` was not saved: {reason}"),
            Self::ShownInPart { paths } => {
                write!(f, "an answer holds {} MiB: ", MAX_REPORT_BYTES >> 20)?;
                for (at, path) in paths.iter().take(MAX_NAMED).enumerate() {
                    let between = if at == 0 { "" } else { ", " };
                    write!(f, "{between}`{path}`")?;
                }
                if paths.len() > MAX_NAMED {
                    write!(f, " and {} more", paths.len() - MAX_NAMED)?;
                }
                f.write_str(" shown in part; save files as artifacts to keep them whole")
            }
            Self::NotNamed { count } => {
                write!(f, "{count} files more are not named: their names are too long")
            }
            Self::Other(text) => f.write_str(text),
        }
    }
}

impl Serialize for RunWarning {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The variant after this one. A new variant does not compile until it stands here, and so in the snapshot.
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
            RunWarning::ArtifactCopied { .. } => RunWarning::Killed(Exit::TooMuchOutput),
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
            RunWarning::HasSecret { .. } => RunWarning::NoArtifacts,
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
    fn the_words_of_each_warning() {
        let first = RunWarning::LimitsLowered { most: CollectLimits::default() };
        let all: Vec<RunWarning> = std::iter::successors(Some(first), next).collect();
        let words: Vec<String> = all.iter().map(ToString::to_string).collect();
        assert_eq!(serde_json::to_value(&all).unwrap(), serde_json::to_value(&words).unwrap());
        insta::assert_snapshot!(words.join("\n"), @r"
        limits of `outputs` were lowered: at most 100 files, 4194304 bytes each, 67108864 bytes in all
        the timeout was lowered to 600 seconds, the most there is
        `a/b` of the skill is not staged: it is a FIFO
        something of the skill is not staged: too deep
        3 more of the skill are not staged
        the skill has its own `inputs`; the workspace's is `$WORKSPACE_DIR/work/inputs`, and outputs are collected from there
        `artifact://a` was copied: an artifact cannot be linked
        it was killed: it wrote more output than it may
        a process was killed because it used too much memory
        a killed process hangs in the kernel and may still be there
        stderr: 10 bytes in its middle were left out
        the workspace holds more than 20 bytes or 2 files, or a directory that cannot be looked into
        not all files could be looked at for set-uid and set-gid bits: no such file; do not run programs from the workspace
        cannot remove the container: busy
        network: a.org:80 is not on the list of allowed hosts
        network: 4 more requests to other hosts were denied
        nobody asked for it for 60 seconds
        `out/a` is a FIFO; left out
        5 more files were left out or flagged
        `out/a` has 2 names (hard links) and was collected
        `out/a` was written while it was collected: it may be a mix
        `out/a` is truncated: 5 of its 20 bytes
        collecting stopped: more than 2 files match; the rest was left out
        `out/\n*` matched no file
        `$RUN_DIR*` matches nothing: `$RUN_DIR` has to be followed by `/`
        `$RUN_DIR/*` matches nothing: the run's own directory is not known
        nothing was collected: no thread
        `out/a` has a secret in it, which is not shown here; an artifact made of it has it still
        artifacts are not configured: nothing was saved
        `out/a` was not saved: it is truncated
        an answer holds 14 MiB: `a`, `b`, `c`, `d`, `e` and 2 more shown in part; save files as artifacts to keep them whole
        6 files more are not named: their names are too long
        `out/a` was not copied: it is there
        ");
    }

    #[test]
    fn few_files_that_are_shown_in_part_are_all_named() {
        let one = RunWarning::ShownInPart { paths: vec!["a".to_owned()] };
        insta::assert_snapshot!(one, @"an answer holds 14 MiB: `a` shown in part; save files as artifacts to keep them whole");
    }
}
