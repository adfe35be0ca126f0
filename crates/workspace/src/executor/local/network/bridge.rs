//! The bridge: carries bytes from a sandbox to the proxy. This file does no I/O.

use std::ffi::OsString;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::os::fd::OwnedFd;
use std::path::{Path, PathBuf};

use super::super::profile::descriptor;
use super::proxy::MAX_CONNECTIONS;
use crate::host_rule::{Host, HostRule};

/// The port of the proxy inside the sandbox.
const PORT: u16 = 3128;
/// How long a half-closed connection stays open, in seconds.
const HALF_CLOSED: u32 = 60;

/// The bridge between a sandbox and the proxy.
#[derive(Debug)]
pub(in super::super) struct Bridge {
    /// The program that carries the bytes.
    pub(in super::super) socat: PathBuf,
    /// A descriptor of the proxy's socket.
    pub(in super::super) proxy_socket: OwnedFd,
}

impl Bridge {
    /// The program and arguments that make the network namespace, start the bridge in it, and then run what follows.
    ///
    /// The namespace belongs to a bubblewrap around the sandbox, so the sandbox sees neither the bridge's processes nor
    /// its descriptors. The bridge is in the process group of that bubblewrap and is killed with it.
    pub(in super::super) fn command_line(&self, bwrap: &Path) -> Vec<OsString> {
        let mut line: Vec<OsString> = vec![bwrap.into()];
        // `--hostname` is an error without the other arguments: if their writer is dead, bubblewrap ends at once.
        let around = descriptor::AROUND.to_string();
        line.extend(["--hostname", "sandbox", "--args", &around, "--", "/bin/sh", "-c"].map(Into::into));
        line.extend([script().into(), "sh".into(), self.socat.clone().into_os_string()]);
        line
    }
}

/// The arguments of the bubblewrap around the sandbox.
pub(in super::super) const AROUND: [&str; 7] =
    ["--unshare-user", "--unshare-net", "--unshare-uts", "--die-with-parent", "--dev-bind", "/", "/"];

/// Starts the bridge, waits until it listens, runs the sandbox, and ends and reaps the bridge. In a container there may be
/// nobody else to reap it.
///
/// A new network namespace has no other sockets, so one socket in use means that the bridge listens. Reading the list of
/// sockets would take milliseconds.
///
/// The bridge keeps only the proxy's socket, and the files of `/etc` for the sandbox, whose descriptors a shell cannot
/// name. The descriptor of the socket is then reused for the sandbox's standard error, because the shell must not write
/// to it when a process is killed.
fn script() -> String {
    use descriptor::{ARGUMENTS, FILTER, GATE, HERE, PROXY_SOCKET, STATUS, WRITTEN};
    format!(
        "socat=$1; shift; \
         \"$socat\" -t {HALF_CLOSED} TCP4-LISTEN:{PORT},bind=127.0.0.1,fork,max-children={MAX_CONNECTIONS},backlog=128 \
         UNIX-CONNECT:/proc/self/fd/{PROXY_SOCKET} </dev/null >/dev/null 2>&1 \
         {ARGUMENTS}<&- {STATUS}>&- {GATE}<&- {HERE}>&- {FILTER}<&- {WRITTEN}<&- & \
         bridge=$!; up=; until [ \"$up\" ]; do \
         while read -r line; do case $line in 'TCP: inuse '[1-9]*) up=1;; esac; done </proc/net/sockstat; \
         kill -s 0 $bridge 2>/dev/null || {{ echo 'the bridge to the proxy did not start' >&2; exit 125; }}; \
         [ \"$up\" ] || /bin/sleep 0.001; done; \
         exec {PROXY_SOCKET}>&2 2>/dev/null; \"$@\" 2>&{PROXY_SOCKET} {PROXY_SOCKET}>&-; code=$?; \
         kill -s KILL $bridge; wait $bridge; exit $code"
    )
}

/// The variables that point programs at the proxy. Programs reach the sandbox's own loopback without it, unless a rule
/// names that host.
pub(in super::super) fn variables(rules: &[HostRule]) -> Vec<(&'static str, String)> {
    let proxy = format!("http://127.0.0.1:{PORT}");
    let own: [Host; 3] = [
        Host::Name("localhost".to_owned()),
        Host::Address(IpAddr::V4(Ipv4Addr::LOCALHOST)),
        Host::Address(IpAddr::V6(Ipv6Addr::LOCALHOST)),
    ];
    let without: Vec<String> = own
        .iter()
        .filter(|host| !rules.iter().any(|rule| rule.names(host)))
        .map(ToString::to_string)
        .collect();
    let mut all: Vec<(&str, String)> =
        ["HTTP_PROXY", "HTTPS_PROXY", "ALL_PROXY", "http_proxy", "https_proxy", "all_proxy"]
            .map(|name| (name, proxy.clone()))
            .to_vec();
    all.extend(["NO_PROXY", "no_proxy"].map(|name| (name, without.join(","))));
    all
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_sandbox_s_own_loopback_needs_no_proxy_unless_a_rule_names_it() {
        let without = |rules: &[&str]| {
            let rules: Vec<HostRule> = rules.iter().map(|rule| rule.parse().unwrap()).collect();
            let all = variables(&rules);
            all.iter().find(|(name, _)| *name == "NO_PROXY").unwrap().1.clone()
        };
        assert_eq!(without(&["example.com"]), "localhost,127.0.0.1,::1");
        assert_eq!(without(&["localhost:8080"]), "127.0.0.1,::1");
        assert_eq!(without(&["127.0.0.1:8080", "localhost"]), "::1");
    }
}
