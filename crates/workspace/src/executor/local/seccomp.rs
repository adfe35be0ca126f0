//! The system call filter, as the bytes that bubblewrap loads. This file does no I/O.
//!
//! The filter refuses calls that sandboxed programs do not need and calls that could break out. It allows the rest. Calls
//! newer than this file do not exist for the program.

use std::collections::BTreeMap;

use libc::c_long;
use seccompiler::{
    BpfProgram, SeccompAction, SeccompCmpArgLen as Width, SeccompCmpOp as Is, SeccompCondition,
    SeccompFilter, SeccompRule, TargetArch, sock_filter,
};

/// The last call that was reviewed, `mseal`. Later ones return "not implemented", which programs expect.
const LAST_KNOWN: u32 = 462;
/// The bit that marks a call of the x32 ABI, which would reach the same kernel under other numbers.
#[cfg(target_arch = "x86_64")]
const X32: u32 = 0x4000_0000;
/// Calls with the same number on every machine, which some C libraries do not name.
const MEMFD_SECRET: c_long = 447;
const FCHMODAT2: c_long = 452;

/// How the memory of a command is counted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::executor) enum Memory {
    /// By a control group, which counts everything.
    Counted,
    /// By checks of its processes. Calls that make memory which no process shows are refused.
    Watched,
}

/// The system call filter for `bwrap --seccomp`; `None` if there is none for this machine.
pub fn filter() -> Option<Vec<u8>> {
    filter_for(Memory::Counted)
}

/// The filter for a command whose memory is counted in this way.
pub(super) fn filter_for(memory: Memory) -> Option<Vec<u8>> {
    Some(program(rules().ok()?, memory)?.iter().flat_map(bytes).collect())
}

/// The filter without sockets, for commands without a network namespace.
pub(super) fn without_sockets(memory: Memory) -> Option<BpfProgram> {
    let mut rules = rules().ok()?;
    rules.insert(libc::SYS_socket, Vec::new());
    program(rules, memory)
}

fn program(rules: Rules, memory: Memory) -> Option<BpfProgram> {
    let arch = TargetArch::try_from(std::env::consts::ARCH).ok()?;
    let refuse = SeccompAction::Errno(u32::try_from(libc::EPERM).ok()?);
    let filter = SeccompFilter::new(rules, SeccompAction::Allow, refuse, arch).ok()?;
    let rules = BpfProgram::try_from(filter).ok()?;
    Some(prefix(&not_implemented(memory)).into_iter().chain(rules).collect())
}

fn bytes(instruction: &sock_filter) -> [u8; 8] {
    let [c0, c1] = instruction.code.to_ne_bytes();
    let [k0, k1, k2, k3] = instruction.k.to_ne_bytes();
    [c0, c1, instruction.jt, instruction.jf, k0, k1, k2, k3]
}

/// Calls that return "not implemented", with their names. Programs that use them have a fallback.
///
/// clone3 and openat2 have arguments in memory that a filter cannot read. Without them, programs use clone and openat,
/// whose arguments are checked. The others make memory that no process shows.
pub(in crate::executor) fn not_implemented(memory: Memory) -> Vec<(&'static str, c_long)> {
    let mut calls = vec![("clone3", libc::SYS_clone3), ("openat2", libc::SYS_openat2)];
    if memory == Memory::Watched {
        calls.extend([
            ("memfd_create", libc::SYS_memfd_create),
            ("memfd_secret", MEMFD_SECRET),
            ("shmget", libc::SYS_shmget),
        ]);
    }
    calls
}

/// The start of the filter: unknown numbers and these calls are not implemented. Rules for single calls cannot express
/// this.
///
/// The rules that follow check the architecture and kill a foreign program. Before that it gets only "not implemented".
fn prefix(calls: &[(&str, c_long)]) -> Vec<sock_filter> {
    const LOAD: u16 = 0x20;
    const EQUAL: u16 = 0x15;
    const GREATER: u16 = 0x25;
    const RETURN: u16 = 0x06;
    let step = |code, jt, jf, k| sock_filter { code, jt, jf, k };
    let answer = libc::SECCOMP_RET_ERRNO | libc::ENOSYS.unsigned_abs();
    #[cfg(target_arch = "x86_64")]
    const _: () = assert!(X32 > LAST_KNOWN, "calls of the x32 ABI are unknown numbers");
    // How many calls are left to compare, which is also the distance to the answer.
    let mut left = u8::try_from(calls.len()).unwrap_or(u8::MAX);
    let mut program = vec![step(LOAD, 0, 0, 0), step(GREATER, left, 0, LAST_KNOWN)];
    for (_, call) in calls {
        left -= 1;
        // If the last call does not match, skip the answer.
        program.push(step(EQUAL, left, u8::from(left == 0), u32::try_from(*call).unwrap_or(u32::MAX)));
    }
    program.push(step(RETURN, 0, 0, answer));
    program
}

type Rules = BTreeMap<i64, Vec<SeccompRule>>;

fn rules() -> Result<Rules, seccompiler::BackendError> {
    let mut rules: Rules = ALWAYS.iter().map(|(_, call)| (*call, Vec::new())).collect();
    // Only internet sockets, which cannot leave the empty network namespace.
    rules.insert(
        libc::SYS_socket,
        vec![rule([
            (0, Is::Ne, libc::AF_INET.unsigned_abs().into()),
            (0, Is::Ne, libc::AF_INET6.unsigned_abs().into()),
        ])?],
    );
    // Python and Node need connected pairs, which are like pipes. Datagram sockets could send to any socket.
    let mut pairs = vec![rule([(0, Is::Ne, libc::AF_UNIX.unsigned_abs().into())])?];
    let connected = [libc::SOCK_STREAM.unsigned_abs().into(), libc::SOCK_SEQPACKET.unsigned_abs().into()];
    for kind in (0..16).filter(|kind| !connected.contains(kind)) {
        pairs.push(rule([(1, Is::MaskedEq(0xf), kind)])?);
    }
    rules.insert(libc::SYS_socketpair, pairs);
    let mut namespaces = Vec::new();
    for flag in NAMESPACES {
        let flag = u64::from(flag.unsigned_abs());
        namespaces.push(rule([(0, Is::MaskedEq(flag), flag)])?);
    }
    rules.insert(libc::SYS_clone, namespaces);
    // Calls that type into the terminal of the parent.
    let mut terminal = Vec::new();
    for request in [libc::TIOCSTI, libc::TIOCLINUX] {
        terminal.push(rule([(1, Is::Eq, request)])?);
    }
    rules.insert(libc::SYS_ioctl, terminal);
    // The usual personalities of Linux, and the query.
    let usual = [0, 0x8, 0x2_0000, 0x2_0008, 0x4_0000, 0xffff_ffff];
    let mut unusual = Vec::new();
    for value in usual {
        unusual.push(SeccompCondition::new(0, Width::Dword, Is::Ne, value)?);
    }
    rules.insert(libc::SYS_personality, vec![SeccompRule::new(unusual)?]);
    // Set-uid and set-gid files: files of the workspace are local files.
    for (_, call, mode) in MODES {
        let mut set_ids = Vec::new();
        for bit in SET_IDS {
            set_ids.push(rule([(*mode, Is::MaskedEq(bit), bit)])?);
        }
        rules.insert(*call, set_ids);
    }
    for (_, call, flags) in OPENS {
        let mut set_ids = Vec::new();
        for (makes, bit) in MAKES.into_iter().flat_map(|makes| SET_IDS.map(|bit| (makes, bit))) {
            set_ids.push(rule([(*flags, Is::MaskedEq(makes), makes), (*flags + 1, Is::MaskedEq(bit), bit)])?);
        }
        rules.insert(*call, set_ids);
    }
    Ok(rules)
}

/// A rule for arguments of which the kernel reads 32 bits, so that the upper half cannot fool it.
fn rule<const N: usize>(conditions: [(u8, Is, u64); N]) -> Result<SeccompRule, seccompiler::BackendError> {
    let mut list = Vec::with_capacity(N);
    for (argument, is, value) in conditions {
        list.push(SeccompCondition::new(argument, Width::Dword, is, value)?);
    }
    SeccompRule::new(list)
}

pub(in crate::executor) const NAMESPACES: [i32; 8] = [
    libc::CLONE_NEWNS,
    libc::CLONE_NEWCGROUP,
    libc::CLONE_NEWUTS,
    libc::CLONE_NEWIPC,
    libc::CLONE_NEWUSER,
    libc::CLONE_NEWPID,
    libc::CLONE_NEWNET,
    0x80, /* CLONE_NEWTIME */
];

/// The set-uid and set-gid bits.
pub(in crate::executor) const SET_IDS: [u64; 2] = [0o4000, 0o2000];

/// Calls that set the mode of a file, with the number of that argument. `mkdir` ignores the refused bits.
pub(in crate::executor) const MODES: &[(&str, c_long, u8)] = &[
    #[cfg(target_arch = "x86_64")]
    ("chmod", libc::SYS_chmod, 1),
    ("fchmod", libc::SYS_fchmod, 1),
    ("fchmodat", libc::SYS_fchmodat, 2),
    ("fchmodat2", FCHMODAT2, 2),
    #[cfg(target_arch = "x86_64")]
    ("creat", libc::SYS_creat, 1),
    #[cfg(target_arch = "x86_64")]
    ("mknod", libc::SYS_mknod, 1),
    ("mknodat", libc::SYS_mknodat, 2),
];

/// Calls that open a file, with the number of the flags argument. The mode follows it, and matters only if a flag creates
/// a file.
pub(in crate::executor) const OPENS: &[(&str, c_long, u8)] = &[
    #[cfg(target_arch = "x86_64")]
    ("open", libc::SYS_open, 1),
    ("openat", libc::SYS_openat, 2),
];

/// Flags that create a file: with a name, and without one.
pub(in crate::executor) const MAKES: [u64; 2] = [0o100, 0o20_000_000];

/// Calls with their names.
macro_rules! calls {
    ($($(#[$when:meta])? $name:ident),* $(,)?) => {
        &[$($(#[$when])? (stringify!($name), libc::$name)),*]
    };
}

/// Calls that are always refused. The names start with `SYS_`.
#[rustfmt::skip]
pub(in crate::executor) const ALWAYS: &[(&str, c_long)] = calls![
    // Other processes.
    SYS_ptrace, SYS_process_vm_readv, SYS_process_vm_writev, SYS_process_madvise,
    SYS_pidfd_getfd, SYS_kcmp,
    // Ways around this filter, and large surfaces of the kernel.
    SYS_io_uring_setup, SYS_io_uring_enter, SYS_io_uring_register, SYS_bpf,
    SYS_perf_event_open, SYS_userfaultfd, SYS_fanotify_init, SYS_fanotify_mark,
    // Keys, which no namespace separates.
    SYS_keyctl, SYS_add_key, SYS_request_key,
    // Namespaces and mounts.
    SYS_unshare, SYS_setns, SYS_mount, SYS_umount2, SYS_pivot_root, SYS_chroot,
    SYS_open_tree, SYS_move_mount, SYS_fsopen, SYS_fsconfig, SYS_fsmount,
    SYS_fspick, SYS_mount_setattr, SYS_name_to_handle_at, SYS_open_by_handle_at,
    SYS_quotactl, SYS_quotactl_fd,
    // The machine.
    SYS_reboot, SYS_kexec_load, SYS_init_module, SYS_finit_module, SYS_delete_module,
    SYS_swapon, SYS_swapoff, SYS_acct, SYS_syslog, SYS_sethostname,
    SYS_setdomainname, SYS_settimeofday, SYS_clock_settime, SYS_clock_adjtime,
    SYS_adjtimex, SYS_vhangup, SYS_lookup_dcookie, SYS_nfsservctl,
    // Memory of other nodes.
    SYS_move_pages, SYS_migrate_pages,
    #[cfg(target_arch = "x86_64")] SYS_kexec_file_load,
    #[cfg(target_arch = "x86_64")] SYS_iopl,
    #[cfg(target_arch = "x86_64")] SYS_ioperm,
    #[cfg(target_arch = "x86_64")] SYS_modify_ldt,
    #[cfg(target_arch = "x86_64")] SYS_uselib,
    #[cfg(target_arch = "x86_64")] SYS_ustat,
    #[cfg(target_arch = "x86_64")] SYS_sysfs,
    #[cfg(target_arch = "x86_64")] SYS__sysctl,
];

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_filter_is_whole_instructions_and_short_enough_for_the_kernel() {
        for memory in [Memory::Counted, Memory::Watched] {
            let filter = filter_for(memory).unwrap();
            assert_eq!(filter.len() % 8, 0);
            assert!(filter.len() / 8 < 4096);
        }
    }

    #[test]
    fn flags_are_the_systems_own() {
        assert_eq!(MAKES[0], u64::from(libc::O_CREAT.unsigned_abs()));
        assert_eq!(MAKES[1], u64::from((libc::O_TMPFILE & !libc::O_DIRECTORY).unsigned_abs()));
        let set_ids = [libc::S_ISUID, libc::S_ISGID].map(u64::from);
        assert_eq!(SET_IDS, set_ids);
    }

    /// Checks that every jump of the prefix leads to the answer or past it.
    #[test]
    fn calls_that_are_not_implemented_lead_to_the_answer() {
        let calls = not_implemented(Memory::Watched);
        let program = prefix(&calls);
        let answer = program.len() - 1;
        for (at, step) in program.iter().enumerate().skip(1).take(calls.len() + 1) {
            assert_eq!(at + 1 + usize::from(step.jt), answer);
            let is_last = at + 1 == answer;
            assert_eq!(usize::from(step.jf), usize::from(is_last));
        }
    }

    #[test]
    fn calls_that_are_always_refused_have_no_conditions() {
        let rules = rules().unwrap();
        assert!(ALWAYS.iter().all(|(_, call)| rules[call].is_empty()));
    }
}
