//! Warnings about a run: what was left out, and which limit was reached.

mod text;

use std::path::PathBuf;

use serde::{Serialize, Serializer};

use crate::collect::CollectLimits;
use crate::command::Exit;
use crate::executor::Stream;

/// A warning about a run: what was left out, or which limit was reached.
///
/// People and models see its `Display`, which is also how it is serialized. Programs match on the variant.
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
    /// The limits in the request's `outputs` were too high.
    LimitsLowered {
        /// The limits that apply.
        most: CollectLimits,
    },
    /// The request's timeout was too long.
    TimeoutLowered {
        /// The timeout that applies.
        seconds: u64,
    },
    /// A file of the skill was not staged.
    NotStaged {
        /// Its path in the skill, safe to print.
        path: String,
        /// Why not.
        reason: String,
    },
    /// Some files of the skill could not be listed.
    NotListed {
        /// Why not.
        reason: String,
    },
    /// More files of the skill were not staged than are named.
    MoreNotStaged {
        /// How many more.
        count: usize,
    },
    /// The skill has a directory with the name of one of the workspace's.
    OwnDirectory {
        /// The skill's directory.
        own: &'static str,
        /// The path of the workspace's directory, relative to the workspace.
        place: &'static str,
    },
    /// An artifact was copied although the request asked for a link.
    ArtifactCopied {
        /// The artifact, as the request names it.
        from: String,
    },
    /// A directory of the project cannot be written in this run, although the configuration names it.
    NotWritable {
        /// The directory, as commands see it.
        path: String,
        /// Why not.
        reason: String,
    },
    /// The copy of a writable directory lacks some files.
    NotInCopy {
        /// The directory, as commands see it.
        path: String,
        /// The first of these files, safe to print.
        names: Vec<String>,
    },
    /// A change of a run was not copied back to the project.
    NotCopiedBack {
        /// The file, as commands see it.
        path: String,
        /// Its real path in the project. The text of the warning does not name it.
        real: PathBuf,
        /// Why not.
        reason: String,
    },
    /// More changes were not copied back to the project than are named.
    MoreNotCopiedBack {
        /// How many more.
        count: usize,
    },
    /// More files were copied back to the project than are named.
    MoreCopiedBack {
        /// How many more.
        count: usize,
    },
    /// The request names files of the project that do not exist.
    NotInProject {
        /// Their paths, as the command sees them.
        paths: Vec<String>,
        /// Where the command can write files.
        out: String,
    },
    /// The request names more files of the project than were looked up.
    NotLookedUp,
    /// A text of the request names more of the project than a command can be given.
    TooMuchNamed {
        /// What is too much, and what to do.
        reason: String,
    },
    /// Parts of a directory were left out, because they are, contain or lead to files that commands do not see.
    Withheld {
        /// The directory.
        directory: String,
        /// What was left out.
        paths: Vec<String>,
        /// How much more was left out. Their names are not known to everybody.
        more: usize,
    },
    /// The user of commands cannot read everything in a directory.
    ReadableInPart {
        /// The directory, safe to print.
        path: String,
    },
    /// The command failed, and it or its output names files of the project that it was not given.
    NotGiven {
        /// Their paths, as a request can name them.
        paths: Vec<String>,
    },
    /// The request names files that only file tools open.
    OnlyForFileTools {
        /// Their paths, as the model knows them.
        paths: Vec<String>,
    },
    /// The command cannot list directories at this sandbox level, because they contain files that commands do not see.
    NotListable {
        /// The directories.
        paths: Vec<String>,
    },
    /// The command failed. It names a place by its real path, for which the sandbox has no room.
    NoAlias {
        /// The real path.
        link: String,
        /// The path by which commands see the place.
        target: String,
    },
    /// The command was killed. A timeout has its own field in a report instead.
    Killed(Exit),
    /// One process was killed for its memory, and the command went on.
    ProcessOutOfMemory,
    /// A killed process may still exist.
    Hangs,
    /// The middle of an output stream was left out.
    OutputCut {
        /// The stream.
        stream: Stream,
        /// How many bytes were left out.
        bytes: u64,
    },
    /// The workspace is larger than its limits.
    WorkspaceFull {
        /// The limit in bytes.
        bytes: u64,
        /// The limit in files and directories.
        entries: u64,
    },
    /// Some files may still have set-uid or set-gid bits.
    SetIdsUnseen {
        /// Why they could not be checked.
        reason: String,
    },
    /// A container could not be removed.
    ContainerLeft {
        /// Why not.
        reason: String,
    },
    /// The proxy denied a request.
    Denied {
        /// The denied request, and the reason.
        what: String,
    },
    /// The proxy denied more requests than are named.
    MoreDenied {
        /// How many more.
        count: u64,
    },
    /// An interactive run was ended because nobody used it.
    Idle {
        /// For how long nobody used it.
        seconds: u64,
    },
    /// A file was left out.
    LeftOut {
        /// Its path, safe to print.
        path: String,
        /// Why, as a sentence that goes on after "it": `is a FIFO`.
        reason: String,
    },
    /// More files were left out, or have warnings, than are named.
    MoreLeftOut {
        /// How many more.
        count: usize,
    },
    /// A collected file has several names.
    HardLinked {
        /// Its path, safe to print.
        path: String,
        /// How many names it has.
        names: u64,
    },
    /// A file changed while it was collected.
    Moving {
        /// Its path, safe to print.
        path: String,
    },
    /// Only the beginning of a file was collected.
    Truncated {
        /// Its path, safe to print.
        path: String,
        /// How many bytes were collected.
        read: u64,
        /// How many bytes the file has.
        size: u64,
    },
    /// A limit ended the collecting of files.
    Stopped {
        /// The limit.
        reason: String,
    },
    /// A glob matched no file.
    NoMatch {
        /// The glob from the request.
        glob: String,
    },
    /// A glob cannot match: `$RUN_DIR` is not followed by `/`.
    RunDirectoryGlob {
        /// The glob from the request.
        glob: String,
    },
    /// A glob cannot match: it has `$RUN_DIR`, but the run has no own directory.
    NoRunDirectory {
        /// The glob from the request.
        glob: String,
    },
    /// No file could be collected.
    NotCollected {
        /// Why not.
        reason: String,
    },
    /// A file contains a secret.
    HasSecret {
        /// Its path, safe to print.
        path: String,
    },
    /// Files were not saved, because there is no artifact store.
    NoArtifacts,
    /// A file was not saved as an artifact.
    NotSaved {
        /// Its path, safe to print.
        path: String,
        /// Why not.
        reason: String,
    },
    /// The report has no room for the whole text of some files.
    ShownInPart {
        /// The files, safe to print.
        paths: Vec<String>,
    },
    /// The report has no room for the names of some files.
    NotNamed {
        /// How many files.
        count: usize,
    },
    /// A warning that an embedder adds to a report.
    Other(String),
}

impl Serialize for RunWarning {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}
