//! Reads files through one `git cat-file --batch` that runs as long as the snapshot.

use std::io::{self, BufRead as _, BufReader, Read as _, Write as _};
use std::process::{Child, ChildStdin, ChildStdout, Stdio};

use super::GitError;
use super::command::Git;
use super::listing::ObjectId;

/// The most bytes of the line before an object.
const MAX_HEADER_BYTES: u64 = 256;

/// A running `git cat-file --batch`.
#[derive(Debug)]
pub(super) struct Objects {
    child: Child,
    /// `None` after a failure: the answers would no longer fit the questions.
    pipes: Option<(ChildStdin, BufReader<ChildStdout>)>,
}

impl Objects {
    pub(super) fn start(git: &Git<'_>) -> Result<Self, GitError> {
        let failed = |source| GitError::Io { command: "cat-file", source };
        let mut command = git.command(&["cat-file", "--batch"]);
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::null());
        let mut child = command.spawn().map_err(failed)?;
        let pipes = child.stdin.take().zip(child.stdout.take());
        let pipes = pipes.map(|(input, output)| (input, BufReader::with_capacity(64 * 1024, output)));
        Ok(Self { child, pipes })
    }

    /// Reads a file that has `size` bytes.
    pub(super) fn read(&mut self, id: &ObjectId, size: u64) -> io::Result<Vec<u8>> {
        let Some((input, output)) = &mut self.pipes else {
            return Err(io::Error::other("an earlier read failed"));
        };
        let read = exchange(input, output, id, size);
        if read.is_err() {
            self.pipes = None;
        }
        read
    }
}

fn exchange(
    input: &mut ChildStdin,
    output: &mut BufReader<ChildStdout>,
    id: &ObjectId,
    size: u64,
) -> io::Result<Vec<u8>> {
    input.write_all(format!("{id}\n").as_bytes())?;
    let mut header = Vec::new();
    output.by_ref().take(MAX_HEADER_BYTES).read_until(b'\n', &mut header)?;
    if header != format!("{id} blob {size}\n").as_bytes() {
        return Err(io::Error::other("git cat-file gave another object"));
    }
    let length = usize::try_from(size).map_err(io::Error::other)?;
    let mut bytes = Vec::with_capacity(length);
    output.by_ref().take(size).read_to_end(&mut bytes)?;
    let mut end = [0];
    output.read_exact(&mut end)?;
    if bytes.len() != length || end != *b"\n" {
        return Err(io::Error::other("git cat-file ended too early"));
    }
    Ok(bytes)
}

impl Drop for Objects {
    fn drop(&mut self) {
        self.pipes = None;
        // It has nothing to finish. Waiting removes it from the list of processes.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}
