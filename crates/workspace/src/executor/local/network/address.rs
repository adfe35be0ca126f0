//! Tells public internet addresses from others.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

/// IPv4 networks that are not on the public internet: private, shared, loopback, link-local (where clouds serve their
/// metadata), documentation, tests, multicast and reserved.
const NOT_PUBLIC_V4: [([u8; 4], u32); 15] = [
    ([0, 0, 0, 0], 8),
    ([10, 0, 0, 0], 8),
    ([100, 64, 0, 0], 10),
    ([127, 0, 0, 0], 8),
    ([169, 254, 0, 0], 16),
    ([172, 16, 0, 0], 12),
    ([192, 0, 0, 0], 24),
    ([192, 0, 2, 0], 24),
    ([192, 88, 99, 0], 24),
    ([192, 168, 0, 0], 16),
    ([198, 18, 0, 0], 15),
    ([198, 51, 100, 0], 24),
    ([203, 0, 113, 0], 24),
    ([224, 0, 0, 0], 4),
    ([240, 0, 0, 0], 4),
];

/// Networks in `2000::/3` that are not on the public internet: Teredo and its neighbours, documentation, and 6to4, which
/// could hide an IPv4 address.
const NOT_PUBLIC_V6: [([u16; 2], u32); 4] =
    [([0x2001, 0], 23), ([0x2001, 0xdb8], 32), ([0x2002, 0], 16), ([0x3fff, 0], 20)];

/// Whether an address is on the public internet. An IPv4 address inside an IPv6 address counts as the IPv4 address.
pub(super) fn is_public(address: IpAddr) -> bool {
    match address {
        IpAddr::V4(address) => is_public_v4(address),
        IpAddr::V6(address) => match embedded(address) {
            Some(inner) => is_public_v4(inner),
            None => is_public_v6(address),
        },
    }
}

fn is_public_v4(address: Ipv4Addr) -> bool {
    let is_in = |(network, length): &([u8; 4], u32)| {
        (address.to_bits() ^ u32::from_be_bytes(*network)) >> (32 - length) == 0
    };
    !NOT_PUBLIC_V4.iter().any(is_in)
}

fn is_public_v6(address: Ipv6Addr) -> bool {
    let [first, second, ..] = address.segments();
    let start = u32::from(first) << 16 | u32::from(second);
    let is_in = |([first, second], length): &([u16; 2], u32)| {
        (start ^ (u32::from(*first) << 16 | u32::from(*second))) >> (32 - length) == 0
    };
    first >> 13 == 0b001 && !NOT_PUBLIC_V6.iter().any(is_in)
}

/// The IPv4 address that an IPv6 address stands for: mapped, or translated (NAT64).
fn embedded(address: Ipv6Addr) -> Option<Ipv4Addr> {
    let translated = || match address.segments() {
        [0x64, 0xff9b, 0, 0, 0, 0, high, low] => {
            Some(Ipv4Addr::from_bits(u32::from(high) << 16 | u32::from(low)))
        }
        _ => None,
    };
    address.to_ipv4_mapped().or_else(translated)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[rustfmt::skip]
    const PUBLIC: [&str; 17] = [
        "1.1.1.1", "9.255.255.255", "11.0.0.0", "100.63.255.255", "100.128.0.0", "169.253.255.255",
        "172.15.0.1", "172.32.0.1", "192.167.255.255", "198.17.0.1", "198.20.0.1", "223.255.255.255",
        "2606:4700::1111", "2a00:1450::1", "::ffff:1.1.1.1", "64:ff9b::1.1.1.1", "2001:4860:4860::8888",
    ];
    #[rustfmt::skip]
    const NOT_PUBLIC: [&str; 43] = [
        "0.0.0.0", "0.1.2.3", "10.0.0.1", "100.64.0.1", "100.127.255.255", "127.0.0.1", "127.255.0.1",
        "169.254.169.254", "172.16.0.1", "172.31.255.255", "192.0.0.8", "192.0.2.1", "192.88.99.1",
        "192.168.1.1", "198.18.0.1", "198.19.255.255", "198.51.100.1", "203.0.113.1", "224.0.0.1",
        "239.255.255.255", "240.0.0.1", "255.255.255.255", "::", "::1", "::127.0.0.1", "::ffff:127.0.0.1",
        "::ffff:169.254.169.254", "::ffff:10.0.0.1", "64:ff9b::7f00:1", "64:ff9b::a9fe:a9fe",
        "64:ff9b:1::1", "100::1", "fc00::1", "fd00:ec2::254", "fe80::1", "fec0::1", "ff02::1", "2001::1",
        "2001:1ff::1", "2001:db8::1", "2002:7f00:1::", "3fff::1", "4000::1",
    ];

    #[test]
    fn only_the_public_internet_is_public() {
        let public = |text: &str| is_public(text.parse().unwrap());
        for yes in PUBLIC {
            assert!(public(yes), "{yes}");
        }
        for no in NOT_PUBLIC {
            assert!(!public(no), "{no}");
        }
    }
}
