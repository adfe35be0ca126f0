//! Starts a program with exactly the given descriptors.

use std::collections::BTreeSet;
use std::ffi::{CString, OsStr, OsString};
use std::io::{self, Write as _};
use std::os::fd::{AsFd, AsRawFd, OwnedFd, RawFd};
use std::os::unix::ffi::OsStrExt as _;

use nix::spawn::{PosixSpawnAttr, PosixSpawnFileActions, PosixSpawnFlags, posix_spawn};
use nix::sys::signal::SigSet;
use rustix::fs::{MemfdFlags, OFlags, SealFlags};
use rustix::io::fcntl_dupfd_cloexec;
use rustix::process::{Pid, Resource, getrlimit};

/// The first number for copies of descriptors, so that none is where the program expects another.
const ABOVE: RawFd = 64;
/// How many free numbers are closed too, because other threads open files meanwhile. A new descriptor gets the lowest
/// free number.
const MARGIN: usize = 64;

/// The process group of a new program.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum ProcessGroup {
    /// The group of this process.
    Ours,
    /// A new group that the program leads.
    New,
}

/// Starts a program with only these variables and descriptors, and without blocked signals.
///
/// A program that asks to die with its parent dies with the **thread** that calls this.
pub(super) fn spawn(
    line: &[OsString],
    variables: &[(String, String)],
    descriptors: &[(&OwnedFd, RawFd)],
    group: ProcessGroup,
) -> io::Result<Pid> {
    spawn_without(&in_use()?, line, variables, descriptors, group)
}

/// Like [`spawn`], if the descriptors in use are known.
pub(super) fn spawn_without(
    in_use: &BTreeSet<RawFd>,
    line: &[OsString],
    variables: &[(String, String)],
    descriptors: &[(&OwnedFd, RawFd)],
    group: ProcessGroup,
) -> io::Result<Pid> {
    let mut actions = PosixSpawnFileActions::init()?;
    let mut copies = Vec::with_capacity(descriptors.len());
    for (descriptor, number) in descriptors {
        let copy = fcntl_dupfd_cloexec(descriptor.as_fd(), ABOVE)?;
        actions.add_dup2(copy.as_raw_fd(), *number)?;
        copies.push(copy);
    }
    // The parent of this process, or a library, may have left descriptors open for children. The copies are closed
    // when the program starts.
    let is_given = |number: &RawFd| descriptors.iter().any(|(_, given)| given == number);
    let limit = getrlimit(Resource::Nofile).current.unwrap_or(u64::MAX);
    let free = (3..).filter(|number| !in_use.contains(number)).take(MARGIN);
    for number in in_use.range(3..).copied().chain(free).filter(|number| !is_given(number)) {
        // A number above the limit of this process cannot be closed like this.
        if u64::try_from(number).is_ok_and(|number| number < limit) {
            actions.add_close(number)?;
        } else if in_use.contains(&number) && !closes_itself(number) {
            return Err(io::Error::other(format!(
                "descriptor {number} is open for other programs and above the limit of open files; raise the limit (ulimit -n)"
            )));
        }
    }
    let mut attributes = PosixSpawnAttr::init()?;
    let mut flags = PosixSpawnFlags::POSIX_SPAWN_SETSIGMASK | PosixSpawnFlags::POSIX_SPAWN_SETSIGDEF;
    flags.set(PosixSpawnFlags::POSIX_SPAWN_SETPGROUP, group == ProcessGroup::New);
    attributes.set_flags(flags)?;
    attributes.set_pgroup(nix::unistd::Pid::from_raw(0))?;
    attributes.set_sigmask(&SigSet::empty())?;
    attributes.set_sigdefault(&SigSet::all())?;
    let line: Vec<CString> =
        line.iter().map(|part| CString::new(part.as_bytes())).collect::<Result<_, _>>()?;
    let program = line.first().ok_or(io::ErrorKind::InvalidInput)?.clone();
    let environment: Vec<CString> = variables
        .iter()
        .map(|(name, value)| CString::new(format!("{name}={value}")))
        .collect::<Result<_, _>>()?;
    let pid = posix_spawn(program.as_c_str(), &actions, &attributes, &line, &environment)?;
    Pid::from_raw(pid.as_raw()).ok_or_else(|| io::ErrorKind::NotFound.into())
}

/// Whether a descriptor is closed when another program starts. One that nobody knows about is not.
fn closes_itself(number: RawFd) -> bool {
    let text = match std::fs::read_to_string(format!("/proc/self/fdinfo/{number}")) {
        Ok(text) => text,
        // It was closed meanwhile.
        Err(error) => return error.kind() == io::ErrorKind::NotFound,
    };
    let flags = text.lines().find_map(|line| line.strip_prefix("flags:"));
    let flags = flags.and_then(|flags| u32::from_str_radix(flags.trim(), 8).ok()).unwrap_or(0);
    OFlags::from_bits_retain(flags).contains(OFlags::CLOEXEC)
}

/// The descriptors in use.
pub(super) fn in_use() -> io::Result<BTreeSet<RawFd>> {
    let mut numbers = BTreeSet::new();
    for entry in std::fs::read_dir("/proc/self/fd")? {
        numbers.extend(entry?.file_name().to_str().and_then(|name| name.parse::<RawFd>().ok()));
    }
    Ok(numbers)
}

/// A file in memory that nobody can change, positioned at its start.
pub(super) fn sealed(name: &str, bytes: &[u8]) -> io::Result<OwnedFd> {
    let descriptor = rustix::fs::memfd_create(name, MemfdFlags::CLOEXEC | MemfdFlags::ALLOW_SEALING)?;
    let mut file = std::fs::File::from(descriptor);
    file.write_all(bytes)?;
    let descriptor = OwnedFd::from(file);
    rustix::fs::fcntl_add_seals(
        &descriptor,
        SealFlags::WRITE | SealFlags::GROW | SealFlags::SHRINK | SealFlags::SEAL,
    )?;
    rustix::fs::seek(&descriptor, rustix::fs::SeekFrom::Start(0))?;
    Ok(descriptor)
}

/// Arguments as bubblewrap reads them from a descriptor.
pub(super) fn nul_separated(arguments: &[OsString]) -> Vec<u8> {
    arguments.iter().flat_map(|part| OsStr::as_bytes(part).iter().copied().chain([0])).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_below_and_between_the_given_ones_are_closed() {
        let null = OwnedFd::from(std::fs::File::open("/dev/null").unwrap());
        // A careless library leaves such descriptors open for children.
        let careless = rustix::io::dup(&null).unwrap();
        rustix::io::fcntl_setfd(&careless, rustix::io::FdFlags::empty()).unwrap();
        let (near, far) = rustix::pipe::pipe_with(rustix::pipe::PipeFlags::CLOEXEC).unwrap();
        let given = careless.as_raw_fd() + 3;
        let script =
            format!("for n in {} {given}; do [ -e /proc/self/fd/$n ] && echo $n; done", careless.as_raw_fd());
        let line = ["/bin/sh", "-c", &script].map(Into::into);
        let descriptors = [(&null, 0), (&far, 1), (&null, 2), (&null, given)];
        let pid = spawn(&line, &[], &descriptors, ProcessGroup::Ours).unwrap();
        drop(far);
        let said = std::io::read_to_string(std::fs::File::from(near)).unwrap();
        rustix::process::waitpid(Some(pid), rustix::process::WaitOptions::empty()).unwrap();
        assert_eq!(said, format!("{given}\n"));
    }
}
