//! The system call filter for engines whose own filter allows too much. This file does no I/O.
//!
//! Podman's filter lets every program make user namespaces, which give access to most of the kernel. This filter refuses
//! the same calls as the [local one](crate::executor::local::system_call_filter), except unusual personalities and newer
//! calls, which the engines' format cannot express. Docker's own filter refuses namespaces and lists all calls that it
//! allows, so it stays in place, unless it was turned off or replaced.

use serde_json::{Value, json};

use crate::executor::local::seccomp::{
    ALWAYS, MAKES, MODES, Memory, NAMESPACES, OPENS, SET_IDS, not_implemented,
};

/// The last socket family.
const LAST_FAMILY: u64 = 46;
/// Masks arguments of which the kernel reads 32 bits, so that the upper half cannot fool it.
const HALF: u64 = 0xffff_ffff;

/// The filter in the engines' format, for a command whose memory is counted in this way; `None` if there is none for this
/// machine.
pub(super) fn filter(memory: Memory) -> Option<String> {
    let machine = match std::env::consts::ARCH {
        "x86_64" => "SCMP_ARCH_X86_64",
        "aarch64" => "SCMP_ARCH_AARCH64",
        _ => return None,
    };
    let always: Vec<_> = ALWAYS.iter().map(|(name, _)| name.trim_start_matches("SYS_")).collect();
    let mut rules = vec![refused(&always, &[])];
    // Only internet sockets, which cannot leave the empty network.
    let internet = [libc::AF_INET, libc::AF_INET6].map(|family| u64::from(family.unsigned_abs()));
    rules.extend(families(&internet).map(|family| refused(&["socket"], &[(0, HALF, family)])));
    // Connected pairs are like pipes. Datagram sockets could send to any socket.
    let pairs = [u64::from(libc::AF_UNIX.unsigned_abs())];
    rules.extend(families(&pairs).map(|family| refused(&["socketpair"], &[(0, HALF, family)])));
    let connected = [libc::SOCK_STREAM, libc::SOCK_SEQPACKET].map(|kind| u64::from(kind.unsigned_abs()));
    let kinds = (0..16).filter(|kind| !connected.contains(kind));
    rules.extend(kinds.map(|kind| refused(&["socketpair"], &[(1, 0xf, kind)])));
    for flag in NAMESPACES.map(|flag| u64::from(flag.unsigned_abs())) {
        rules.push(refused(&["clone"], &[(0, flag, flag)]));
    }
    for request in [libc::TIOCSTI, libc::TIOCLINUX] {
        rules.push(refused(&["ioctl"], &[(1, HALF, request)]));
    }
    for (name, _, mode) in MODES {
        rules.extend(SET_IDS.map(|bit| refused(&[name], &[(*mode, bit, bit)])));
    }
    for (name, _, flags) in OPENS {
        for makes in MAKES {
            let set_id = |bit| refused(&[name], &[(*flags, makes, makes), (*flags + 1, bit, bit)]);
            rules.extend(SET_IDS.map(set_id));
        }
    }
    let missing: Vec<_> = not_implemented(memory).into_iter().map(|(name, _)| name).collect();
    rules.push(json!({ "names": missing, "action": "SCMP_ACT_ERRNO", "errnoRet": libc::ENOSYS }));
    let filter = json!({ "defaultAction": "SCMP_ACT_ALLOW", "architectures": [machine], "syscalls": rules });
    Some(filter.to_string())
}

fn families(but: &[u64]) -> impl Iterator<Item = u64> {
    (0..=LAST_FAMILY).filter(move |family| !but.contains(family))
}

/// A rule that refuses calls whose arguments match these bits, as (argument, mask, bits).
fn refused(names: &[&str], only: &[(u8, u64, u64)]) -> Value {
    let mut rule = json!({ "names": names, "action": "SCMP_ACT_ERRNO", "errnoRet": libc::EPERM });
    if !only.is_empty() {
        let condition = |(index, mask, bits): &(u8, u64, u64)| json!({ "index": index, "value": mask, "valueTwo": bits, "op": "SCMP_CMP_MASKED_EQ" });
        rule["args"] = only.iter().map(condition).collect();
    }
    rule
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_always_refused_has_the_kernel_s_names() {
        let filter: Value = serde_json::from_str(&filter(Memory::Counted).unwrap()).unwrap();
        let always = filter["syscalls"][0]["names"].as_array().unwrap();
        assert_eq!(always.len(), ALWAYS.len());
        assert!(always.contains(&"unshare".into()) && always.contains(&"ptrace".into()));
        assert!(always.iter().all(|name| !name.as_str().unwrap().starts_with("SYS")));
    }
}
