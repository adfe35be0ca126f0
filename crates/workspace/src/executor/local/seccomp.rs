//! The filter of system calls, as the bytes that bubblewrap loads. Nothing here touches the system.
//!
//! What a sandboxed program has no use for, and what opens ways out, is refused; the rest passes. Numbers that
//! are newer than this file do not exist for the program.

use std::collections::BTreeMap;

use libc::c_long;
use seccompiler::{
    BpfProgram, SeccompAction, SeccompCmpArgLen as Width, SeccompCmpOp as Is, SeccompCondition,
    SeccompFilter, SeccompRule, TargetArch, sock_filter,
};

/// The last call that was looked at, `mseal`. Later ones answer "not implemented", which programs expect.
const LAST_KNOWN: u32 = 462;
/// The bit that marks a call of the x32 ABI, which would reach the same kernel under other numbers.
#[cfg(target_arch = "x86_64")]
const X32: u32 = 0x4000_0000;

/// The filter of system calls, as `bwrap --seccomp` reads it; none when there is none for this machine.
pub fn filter() -> Option<Vec<u8>> {
    Some(program(rules().ok()?)?.iter().flat_map(bytes).collect())
}

/// The same without any socket, for where no namespace holds the network.
pub(super) fn without_sockets() -> Option<BpfProgram> {
    let mut rules = rules().ok()?;
    rules.insert(libc::SYS_socket, Vec::new());
    program(rules)
}

fn program(rules: Rules) -> Option<BpfProgram> {
    let arch = TargetArch::try_from(std::env::consts::ARCH).ok()?;
    let refuse = SeccompAction::Errno(u32::try_from(libc::EPERM).ok()?);
    let filter = SeccompFilter::new(rules, SeccompAction::Allow, refuse, arch).ok()?;
    let rules = BpfProgram::try_from(filter).ok()?;
    Some(prefix().into_iter().chain(rules).collect())
}

fn bytes(instruction: &sock_filter) -> [u8; 8] {
    let [c0, c1] = instruction.code.to_ne_bytes();
    let [k0, k1, k2, k3] = instruction.k.to_ne_bytes();
    [c0, c1, instruction.jt, instruction.jf, k0, k1, k2, k3]
}

/// What rules over single numbers cannot say: unknown numbers and clone3 are not implemented.
///
/// clone3 hides its flags in memory that a filter cannot read; without it the C library uses clone, whose flags
/// are checked. The machine's architecture is checked by what follows: a foreign one is killed there, and has
/// got no more than "not implemented" here.
fn prefix() -> Vec<sock_filter> {
    const LOAD: u16 = 0x20;
    const EQUAL: u16 = 0x15;
    const GREATER: u16 = 0x25;
    const RETURN: u16 = 0x06;
    let step = |code, jt, jf, k| sock_filter { code, jt, jf, k };
    let not_implemented = libc::SECCOMP_RET_ERRNO | libc::ENOSYS.unsigned_abs();
    #[cfg(target_arch = "x86_64")]
    const _: () = assert!(X32 > LAST_KNOWN, "calls of the x32 ABI are unknown numbers");
    vec![
        step(LOAD, 0, 0, 0),
        step(GREATER, 1, 0, LAST_KNOWN),
        step(EQUAL, 0, 1, u32::try_from(libc::SYS_clone3).unwrap_or(435)),
        step(RETURN, 0, 0, not_implemented),
    ]
}

type Rules = BTreeMap<i64, Vec<SeccompRule>>;

fn rules() -> Result<Rules, seccompiler::BackendError> {
    let mut rules: Rules = ALWAYS.iter().map(|(_, call)| (*call, Vec::new())).collect();
    // Only the internet families, which the empty network namespace leaves without a way out.
    rules.insert(
        libc::SYS_socket,
        vec![rule([
            (0, Is::Ne, libc::AF_INET.unsigned_abs().into()),
            (0, Is::Ne, libc::AF_INET6.unsigned_abs().into()),
        ])?],
    );
    // A connected pair is a pipe, which Python and Node need; a pair of datagram sockets can send to any other.
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
    // Typing into the terminal of whoever started the program.
    let mut terminal = Vec::new();
    for request in [libc::TIOCSTI, libc::TIOCLINUX] {
        terminal.push(rule([(1, Is::Eq, request)])?);
    }
    rules.insert(libc::SYS_ioctl, terminal);
    // Linux, the same with legacy or uniform addresses, or a question.
    let usual = [0, 0x8, 0x2_0000, 0x2_0008, 0x4_0000, 0xffff_ffff];
    let mut unusual = Vec::new();
    for value in usual {
        unusual.push(SeccompCondition::new(0, Width::Dword, Is::Ne, value)?);
    }
    rules.insert(libc::SYS_personality, vec![SeccompRule::new(unusual)?]);
    Ok(rules)
}

/// A rule over arguments that the kernel reads as 32 bits: it must not be fooled by the upper half.
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

/// Calls with their names.
macro_rules! calls {
    ($($(#[$when:meta])? $name:ident),* $(,)?) => {
        &[$($(#[$when])? (stringify!($name), libc::$name)),*]
    };
}

/// Refused whatever their arguments. The names begin with `SYS_`.
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
        let filter = filter().unwrap();
        assert_eq!(filter.len() % 8, 0);
        assert!(filter.len() / 8 < 4096);
    }

    #[test]
    fn calls_that_are_always_refused_have_no_conditions() {
        let rules = rules().unwrap();
        assert!(ALWAYS.iter().all(|(_, call)| rules[call].is_empty()));
    }
}
