//! The filter of system calls for engines whose own lets too much pass. Nothing here touches the system.
//!
//! Podman's lets every program make user namespaces, and with them reach most of the kernel. This one refuses what the
//! [local one](crate::executor::local::system_call_filter) does, but for unusual personalities and calls that are newer
//! than either: the words that engines understand cannot say that. Docker's own refuses namespaces and knows all calls
//! that it lets pass, so it is left in place, unless whoever set the engine up has turned it off or chosen another.

use serde_json::{Value, json};

use crate::executor::local::seccomp::{
    ALWAYS, MAKES, MODES, Memory, NAMESPACES, OPENS, SET_IDS, not_implemented,
};

/// The last family of sockets that there is.
const LAST_FAMILY: u64 = 46;
/// Arguments that the kernel reads as 32 bits: it must not be fooled by the upper half.
const HALF: u64 = 0xffff_ffff;

/// The filter, as a file for an engine, for a command whose memory is counted in this way; none when there is none for
/// this machine.
pub(super) fn filter(memory: Memory) -> Option<String> {
    let machine = match std::env::consts::ARCH {
        "x86_64" => "SCMP_ARCH_X86_64",
        "aarch64" => "SCMP_ARCH_AARCH64",
        _ => return None,
    };
    let always: Vec<_> = ALWAYS.iter().map(|(name, _)| name.trim_start_matches("SYS_")).collect();
    let mut rules = vec![refused(&always, &[])];
    // Only the internet families, which have no way out of a network with nothing in it.
    let internet = [libc::AF_INET, libc::AF_INET6].map(|family| u64::from(family.unsigned_abs()));
    rules.extend(families(&internet).map(|family| refused(&["socket"], &[(0, HALF, family)])));
    // A connected pair is a pipe; a pair of datagram sockets can send to any other.
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

/// A rule that refuses calls: those whose arguments have all of these bits, as (argument, mask, bits).
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
