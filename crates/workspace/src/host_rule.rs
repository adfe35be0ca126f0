//! Host rules: which hosts a command may reach.

use std::fmt;
use std::net::{IpAddr, Ipv6Addr};
use std::str::FromStr;

/// The ports of a rule that names none.
const USUAL_PORTS: [u16; 2] = [80, 443];
/// The longest host name, in bytes.
const MAX_NAME: usize = 253;
/// The longest label of a host name, in bytes.
const MAX_LABEL: usize = 63;

/// A rule that allows one host, or all hosts below a domain.
///
/// | rule | allows |
/// |---|---|
/// | `example.com` | that host, not `www.example.com` |
/// | `*.example.com` | every host below the domain, at any depth, not `example.com` itself |
/// | `192.0.2.7`, `2001:db8::7` | that address, if the command uses the address itself |
/// | `localhost` | the loopback of this machine |
///
/// A rule with `:port` allows that port, and a rule without one allows 80 and 443. An IPv6 address with a port needs
/// brackets. Letter case and a final dot make no difference. Names are ASCII; write other names in their `xn--` form.
///
/// ```
/// use prowess_workspace::HostRule;
///
/// let rule: HostRule = "*.Example.com:8443".parse().unwrap();
/// assert_eq!(rule.to_string(), "*.example.com:8443");
/// assert!("*.com".parse::<HostRule>().is_err(), "that would be a large part of the internet");
/// ```
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct HostRule {
    hosts: Hosts,
    port: Option<u16>,
}

#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
enum Hosts {
    One(Host),
    Below(String),
}

/// A host as a request names it.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) enum Host {
    /// A name in lower case, without a final dot.
    Name(String),
    /// An address.
    Address(IpAddr),
}

impl HostRule {
    /// Whether the rule allows this port of this host.
    pub(crate) fn allows(&self, host: &Host, port: u16) -> bool {
        let port_fits = self.port.map_or(USUAL_PORTS.contains(&port), |own| own == port);
        port_fits && self.hosts.contain(host)
    }

    /// Whether this rule allows everything that the other rule allows.
    ///
    /// ```
    /// use prowess_workspace::HostRule;
    ///
    /// let rule = |text: &str| text.parse::<HostRule>().unwrap();
    /// assert!(rule("*.example.com").covers(&rule("api.example.com:443")));
    /// assert!(!rule("api.example.com:443").covers(&rule("api.example.com")));
    /// ```
    #[must_use]
    pub fn covers(&self, other: &Self) -> bool {
        let ports_fit = match (self.port, other.port) {
            (own, their) if own == their => true,
            (None, Some(port)) => USUAL_PORTS.contains(&port),
            _ => false,
        };
        let hosts_fit = match &other.hosts {
            Hosts::One(host) => self.hosts.contain(host),
            Hosts::Below(domain) => match &self.hosts {
                Hosts::One(_) => false,
                Hosts::Below(own) => own == domain || is_below(domain, own),
            },
        };
        ports_fit && hosts_fit
    }

    /// Whether the rule is for one host, and not for all hosts below a domain.
    #[must_use]
    pub fn is_exact(&self) -> bool {
        matches!(self.hosts, Hosts::One(_))
    }

    /// Whether the rule names this host, with any port.
    pub(crate) fn names(&self, host: &Host) -> bool {
        matches!(&self.hosts, Hosts::One(own) if own == host)
    }
}

impl Hosts {
    fn contain(&self, host: &Host) -> bool {
        match (self, host) {
            (Self::One(own), host) => own == host,
            (Self::Below(domain), Host::Name(name)) => is_below(name, domain),
            (Self::Below(_), Host::Address(_)) => false,
        }
    }
}

/// Whether a name is below a domain, but not the domain itself.
fn is_below(name: &str, domain: &str) -> bool {
    name.strip_suffix(domain).is_some_and(|rest| rest.len() > 1 && rest.ends_with('.'))
}

impl Host {
    /// Parses a name or an address. An IPv6 address can be in brackets.
    pub(crate) fn parse(text: &str) -> Result<Self, &'static str> {
        if let Some(inner) = text.strip_prefix('[') {
            let inner = inner.strip_suffix(']').ok_or("a bracket is not closed")?;
            let address: Ipv6Addr =
                inner.parse().map_err(|_| "the text in brackets is not an IPv6 address")?;
            return Ok(Self::Address(address.into()));
        }
        if let Ok(address) = text.parse() {
            return Ok(Self::Address(address));
        }
        let name = text.strip_suffix('.').unwrap_or(text).to_ascii_lowercase();
        check_name(&name)?;
        Ok(Self::Name(name))
    }

    /// Whether this is the name `localhost`.
    pub(crate) fn is_localhost(&self) -> bool {
        matches!(self, Self::Name(name) if name == "localhost")
    }
}

fn check_name(name: &str) -> Result<(), &'static str> {
    if !name.is_ascii() {
        return Err("write a name that is not ASCII in its xn-- form");
    }
    let is_label = |label: &str| {
        let fits = !label.is_empty() && label.len() <= MAX_LABEL;
        let plain = label.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'-');
        fits && plain && !label.starts_with('-') && !label.ends_with('-')
    };
    if name.len() > MAX_NAME || !name.split('.').all(is_label) {
        return Err("a name has letters, digits and hyphens, separated by dots");
    }
    // Many programs read `127.1`, `0x7f.1` and `2130706433` as addresses.
    let last = name.rsplit('.').next().unwrap_or(name);
    if !last.starts_with(|first: char| first.is_ascii_alphabetic()) {
        return Err("the last label of a name starts with a letter; write an address in its usual form");
    }
    Ok(())
}

/// Splits `host`, `host:port` or `[address]:port`.
pub(crate) fn split_port(text: &str) -> Result<(&str, Option<u16>), &'static str> {
    let (host, port) = match text.rsplit_once(':') {
        // An IPv6 address without a port.
        Some((before, _)) if before.contains(':') && !before.ends_with(']') => (text, None),
        Some((host, port)) if !text.ends_with(']') => (host, Some(port)),
        _ => (text, None),
    };
    let Some(port) = port else { return Ok((host, None)) };
    let is_number = !port.is_empty() && port.bytes().all(|byte| byte.is_ascii_digit());
    let port = port.parse().ok().filter(|port| is_number && *port > 0);
    Ok((host, Some(port.ok_or("a port is a number from 1 to 65535")?)))
}

impl FromStr for HostRule {
    type Err = HostRuleError;

    fn from_str(text: &str) -> Result<Self, HostRuleError> {
        let refused = |why| HostRuleError { rule: text.to_owned(), why };
        let (host, port) = split_port(text).map_err(refused)?;
        let hosts = match host.strip_prefix("*.") {
            None if host.contains('*') => {
                return Err(refused("a star must be a whole label before a domain: *.example.com"));
            }
            None => Hosts::One(Host::parse(host).map_err(refused)?),
            Some(domain) => match Host::parse(domain).map_err(refused)? {
                Host::Name(name) if name.contains('.') => Hosts::Below(name),
                Host::Name(_) => {
                    return Err(refused("a star needs at least two labels after it: *.example.com"));
                }
                Host::Address(_) => return Err(refused("a star cannot be used with an address")),
            },
        };
        Ok(Self { hosts, port })
    }
}

impl fmt::Display for HostRule {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match (&self.hosts, self.port) {
            (Hosts::Below(domain), _) => write!(f, "*.{domain}")?,
            (Hosts::One(Host::Address(IpAddr::V6(address))), Some(_)) => write!(f, "[{address}]")?,
            (Hosts::One(host), _) => write!(f, "{host}")?,
        }
        self.port.map_or(Ok(()), |port| write!(f, ":{port}"))
    }
}

impl fmt::Display for Host {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Name(name) => f.write_str(name),
            Self::Address(address) => write!(f, "{address}"),
        }
    }
}

/// The error for a text that is not a host rule.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{rule:?} is not a host rule: {why}")]
pub struct HostRuleError {
    rule: String,
    why: &'static str,
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn rule(text: &str) -> HostRule {
        text.parse().unwrap()
    }

    fn allows(text: &str, host: &str, port: u16) -> bool {
        rule(text).allows(&Host::parse(host).unwrap(), port)
    }

    #[test]
    fn a_name_is_itself_on_the_usual_ports() {
        assert!(allows("example.com", "Example.COM.", 443) && allows("EXAMPLE.com.", "example.com", 80));
        assert!(!allows("example.com", "example.com", 8080));
        assert!(allows("example.com:8080", "example.com", 8080));
        assert!(!allows("example.com:8080", "example.com", 443));
        for other in ["www.example.com", "example.com.evil.org", "notexample.com", "example.co", "com"] {
            assert!(!allows("example.com", other, 443), "{other}");
        }
    }

    #[test]
    fn a_star_is_everything_below_and_not_the_domain_itself() {
        for below in ["www.example.com", "a.b.example.com"] {
            assert!(allows("*.example.com", below, 443), "{below}");
        }
        for other in ["example.com", "evilexample.com", "example.com.evil.org"] {
            assert!(!allows("*.example.com", other, 443), "{other}");
        }
    }

    #[test]
    fn an_address_is_only_itself() {
        assert!(allows("127.0.0.1:8080", "127.0.0.1", 8080));
        assert!(allows("[::1]:80", "[::1]", 80) && allows("::1", "[0:0::1]", 443));
        assert!(!allows("127.0.0.1", "127.0.0.2", 80) && !allows("127.0.0.1", "localhost", 80));
        assert!(!allows("127.0.0.1", "[::ffff:127.0.0.1]", 80));
        assert!(!allows("*.example.com", "127.0.0.1", 80));
    }

    #[test]
    fn what_is_no_rule_is_refused() {
        for bad in [
            "",
            ".",
            "*",
            "*.",
            "*.com",
            "*.*.example.com",
            "a.*.example.com",
            "ex*mple.com",
            "exämple.com",
            "example.com:",
            "example.com:0",
            "example.com:65536",
            "example.com:+80",
            "example.com:80:80",
            "http://example.com",
            "example.com/x",
            "user@example.com",
            "exam ple.com",
            " example.com",
            "example..com",
            ".example.com",
            "-a.com",
            "a-.com",
            "a_b.com",
            "127.1",
            "0x7f.0.0.1",
            "2130706433",
            "1.2.3.4.5",
            "0177.0.0.1",
            "[::1",
            "::1]",
            "[127.0.0.1]",
            "*.127.0.0.1",
            "fe80::1%eth0",
            "a\0b.com",
            "example.com..",
            "example.com\n",
        ] {
            assert!(bad.parse::<HostRule>().is_err(), "{bad:?}");
        }
        assert!(format!("{}.com", "a".repeat(64)).parse::<HostRule>().is_err());
        assert!(vec!["a"; 200].join(".").parse::<HostRule>().is_err());
        let said = "exämple.com".parse::<HostRule>().unwrap_err().to_string();
        assert_eq!(
            said,
            "\"exämple.com\" is not a host rule: write a name that is not ASCII in its xn-- form"
        );
    }

    #[test]
    fn a_wider_rule_covers_a_narrower_one() {
        for (wide, narrow) in [
            ("example.com", "example.com"),
            ("example.com", "example.com:443"),
            ("*.example.com", "www.example.com"),
            ("*.example.com", "*.api.example.com"),
            ("*.example.com:8443", "www.example.com:8443"),
        ] {
            assert!(rule(wide).covers(&rule(narrow)), "{wide} {narrow}");
            assert!(wide == narrow || !rule(narrow).covers(&rule(wide)), "{narrow} {wide}");
        }
        for (one, other) in
            [("example.com", "example.com:8080"), ("*.example.com", "example.com"), ("*.a.com", "*.b.a.org")]
        {
            assert!(!rule(one).covers(&rule(other)), "{one} {other}");
        }
    }

    proptest! {
        #[test]
        fn what_is_read_is_written_and_read_again(text in r"(\*\.)?[a-zA-Z0-9.:\[\]-]{0,24}(:[0-9]{1,6})?") {
            if let Ok(rule) = text.parse::<HostRule>() {
                let again: HostRule = rule.to_string().parse().unwrap();
                prop_assert_eq!(&again, &rule);
                prop_assert!(rule.covers(&again));
            }
        }

        #[test]
        fn no_text_is_too_odd(text in any::<String>()) {
            if let Ok(rule) = text.parse::<HostRule>() {
                prop_assert!(rule.to_string().is_ascii());
            }
        }

        #[test]
        fn a_rule_that_covers_another_allows_what_it_allows(
            wide in r"(\*\.)?([ab]\.){1,3}com(:443)?", narrow in r"(\*\.)?([ab]\.){1,3}com(:443)?",
            host in r"([ab]\.){1,4}com", port in prop::sample::select(vec![80u16, 443, 8080]),
        ) {
            let host = Host::parse(&host).unwrap();
            if rule(&wide).covers(&rule(&narrow)) && rule(&narrow).allows(&host, port) {
                prop_assert!(rule(&wide).allows(&host, port));
            }
        }
    }
}
