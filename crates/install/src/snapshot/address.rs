//! Which addresses are private: those that a stranger must not make this machine talk to.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

/// Whether the address belongs to this machine, to a private network, or to nobody.
///
/// ```
/// use prowess_install::snapshot::address::is_private;
///
/// assert!(is_private("127.0.0.1".parse().unwrap()));
/// assert!(is_private("::ffff:169.254.169.254".parse().unwrap()));
/// assert!(!is_private("140.82.121.3".parse().unwrap()));
/// ```
pub fn is_private(address: IpAddr) -> bool {
    match address.to_canonical() {
        IpAddr::V4(address) => is_private_v4(address),
        IpAddr::V6(address) => is_private_v6(address),
    }
}

fn is_private_v4(address: Ipv4Addr) -> bool {
    let [a, b, c, _] = address.octets();
    address.is_private()
        || address.is_loopback()
        || address.is_link_local()
        || address.is_multicast()
        || address.is_documentation()
        || a == 0
        // Shared by the customers of a provider.
        || (a == 100 && b & 0xc0 == 64)
        // Protocol assignments, and networks for benchmarks.
        || (a == 192 && b == 0 && c == 0)
        || (a == 198 && b & 0xfe == 18)
        // Reserved, and broadcast.
        || a >= 240
}

fn is_private_v6(address: Ipv6Addr) -> bool {
    let [a, b, c, d, e, f, g, h] = address.segments();
    let embedded = |high: u16, low: u16| {
        let ([a, b], [c, d]) = (high.to_be_bytes(), low.to_be_bytes());
        is_private_v4(Ipv4Addr::new(a, b, c, d))
    };
    match (a, b) {
        // Unspecified, loopback, and IPv4 addresses in an old form.
        (0, 0) => true,
        // Translated to IPv4 by a gateway: the well-known prefix, and the one for local use.
        (0x64, 0xff9b) if [c, d, e, f] == [0; 4] => embedded(g, h),
        (0x64, 0xff9b) => true,
        // Teredo and documentation.
        (0x2001, 0 | 0xdb8) => true,
        // 6to4.
        (0x2002, _) => embedded(b, c),
        // Only 2000::/3 is in use on the Internet.
        _ => a & 0xe000 != 0x2000,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn private_addresses_are_known_in_every_form() {
        for address in [
            "127.0.0.1",
            "127.9.9.9",
            "10.0.0.1",
            "172.16.0.1",
            "192.168.1.1",
            "169.254.169.254",
            "100.64.0.1",
            "0.0.0.0",
            "255.255.255.255",
            "224.0.0.1",
            "198.18.0.1",
            "::1",
            "::",
            "::127.0.0.1",
            "::ffff:10.0.0.1",
            "fe80::1",
            "fc00::1",
            "fd12::1",
            "fec0::1",
            "ff02::1",
            "64:ff9b::10.0.0.1",
            "64:ff9b:1::1",
            "2002:7f00:1::",
            "2001::1",
            "2001:db8::1",
        ] {
            assert!(is_private(address.parse().unwrap()), "{address}");
        }
        for address in [
            "1.1.1.1",
            "140.82.121.3",
            "100.128.0.1",
            "172.32.0.1",
            "2606:4700::1111",
            "64:ff9b::1.1.1.1",
            "2002:101:101::",
        ] {
            assert!(!is_private(address.parse().unwrap()), "{address}");
        }
    }
}
