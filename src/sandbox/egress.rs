//! A network of named hosts only: the rules of an allow-list, and what the receipt says of the requests.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// The most requests that a receipt lists; the others are counted.
pub const MAX_REQUESTS: usize = 200;

/// The longest name of a host (RFC 1035, section 2.3.4).
const MAX_HOST: usize = 253;

/// Who may be spoken to: `host:port`, `*.domain:port`, `address:port` or `[address]:port`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Rule {
    host: HostRule,
    port: u16,
}

#[derive(Debug, Clone, PartialEq, Eq)]
enum HostRule {
    /// This name.
    Name(String),
    /// Every name below this domain, not the domain itself.
    Below(String),
    /// This address. Only a rule that spells it out leads to an address of this machine or of a private network.
    Address(IpAddr),
}

/// Whom a command wants to speak to.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Target {
    /// A name in lower case without a dot at its end, or an address without brackets.
    pub host: String,
    /// The port.
    pub port: u16,
}

impl Rule {
    /// Reads a rule; the error says what is wrong with it.
    pub fn parse(text: &str) -> Result<Self, &'static str> {
        if text.contains("://") {
            return Err("is an address of the web, not a host and a port");
        }
        let (below, rest) = match text.strip_prefix("*.") {
            Some(rest) => (true, rest),
            None => (false, text),
        };
        let Some(Target { host, port }) = Target::parse(rest, None) else {
            return Err("is no host and port");
        };
        if let Ok(address) = host.parse::<IpAddr>() {
            if below {
                return Err("has a wildcard in front of an address");
            }
            return Ok(Self { host: HostRule::Address(address), port });
        }
        // `127.1` and `0x7f.1` are addresses to a resolver.
        let last = host.rsplit('.').next().unwrap_or_default();
        if last.starts_with(|first: char| first.is_ascii_digit()) {
            return Err("has an address in a form that is not the usual one");
        }
        if host == "localhost" || host.ends_with(".localhost") {
            return Err("names this machine: write its address, such as 127.0.0.1");
        }
        if below && !host.contains('.') {
            return Err("lets a whole top-level domain in");
        }
        Ok(Self { host: if below { HostRule::Below(host) } else { HostRule::Name(host) }, port })
    }

    /// Whether it spells this address out.
    pub fn is_address(&self, address: IpAddr) -> bool {
        self.host == HostRule::Address(address)
    }

    fn allows(&self, target: &Target) -> bool {
        self.port == target.port
            && match &self.host {
                HostRule::Name(name) => *name == target.host,
                HostRule::Below(domain) => target
                    .host
                    .strip_suffix(domain.as_str())
                    .and_then(|rest| rest.strip_suffix('.'))
                    .is_some_and(|rest| !rest.is_empty()),
                HostRule::Address(address) => target.host.parse() == Ok(*address),
            }
    }
}

impl Target {
    /// Reads `host:port`, with an IPv6 address in brackets. Without a port it is `default`.
    pub fn parse(text: &str, default: Option<u16>) -> Option<Self> {
        let (host, port) = if let Some(rest) = text.strip_prefix('[') {
            let (address, rest) = rest.split_once(']')?;
            let address: Ipv6Addr = address.parse().ok()?;
            (address.to_string(), rest.strip_prefix(':').or_else(|| (!rest.is_empty()).then_some("")))
        } else {
            let (host, port) = match text.split_once(':') {
                Some((host, port)) => (host, Some(port)),
                None => (text, None),
            };
            let host = host.strip_suffix('.').unwrap_or(host).to_ascii_lowercase();
            if host.is_empty() || host.len() > MAX_HOST || !host.split('.').all(is_label) {
                return None;
            }
            (host, port)
        };
        let port = match port {
            // `parse` alone would take a sign.
            Some(port) if port.bytes().all(|byte| byte.is_ascii_digit()) => port.parse().ok()?,
            Some(_) => return None,
            None => default?,
        };
        (port != 0).then_some(Self { host, port })
    }

    /// Whether one of the rules allows it.
    pub fn allowed_by(&self, rules: &[Rule]) -> bool {
        rules.iter().any(|rule| rule.allows(self))
    }
}

fn is_label(label: &str) -> bool {
    let word = |byte: u8| byte.is_ascii_alphanumeric() || byte == b'-' || byte == b'_';
    !label.is_empty() && label.len() <= 63 && label.bytes().all(word)
}

/// Whether an address belongs to the internet at large. A name that leads to any other, of this machine or of a private network, is
/// refused: whoever owns a name decides what it leads to.
pub fn is_public(address: IpAddr) -> bool {
    match address {
        IpAddr::V4(address) => is_public_v4(address),
        IpAddr::V6(address) => {
            let parts = address.segments();
            let inner = |high: u16, low: u16| Ipv4Addr::from((u32::from(high) << 16) | u32::from(low));
            match parts {
                // Mapped, compatible, translated (NAT64) and 6to4: what counts is the address inside.
                [0, 0, 0, 0, 0, 0xffff | 0, high, low] | [0x64, 0xff9b, 0, 0, 0, 0, high, low] => {
                    is_public_v4(inner(high, low))
                }
                [0x2002, high, low, ..] => is_public_v4(inner(high, low)),
                // Of what is left, only global unicast.
                [first, ..] => first & 0xe000 == 0x2000,
            }
        }
    }
}

fn is_public_v4(address: Ipv4Addr) -> bool {
    let [a, b, c, _] = address.octets();
    !(address.is_private()
        || address.is_loopback()
        || address.is_link_local()
        || address.is_documentation()
        || a == 0
        || a >= 224
        || (a == 100 && b & 0xc0 == 64)
        || (a == 192 && b == 0 && c == 0)
        || (a == 198 && b & 0xfe == 18))
}

/// What a command asked for through its allow-list; part of the receipt.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Egress {
    /// The first 200 requests, in the order in which they came.
    pub requests: Vec<EgressRequest>,
    /// How many more there were.
    pub more: u64,
}

impl Egress {
    /// Adds what another run asked for.
    pub fn append(&mut self, other: Self) {
        self.requests.extend(other.requests);
        let surplus = self.requests.len().saturating_sub(MAX_REQUESTS);
        self.requests.truncate(MAX_REQUESTS);
        self.more += other.more + surplus as u64;
    }
}

/// One request.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct EgressRequest {
    /// The host, as it was asked for; empty if that could not be read.
    pub host: String,
    /// The port; 0 if that could not be read.
    pub port: u16,
    /// Whether a connection was made.
    pub allowed: bool,
    /// Why it was not; null if it was.
    pub why: Option<EgressProblem>,
    /// Bytes from the command to the host.
    pub sent: u64,
    /// Bytes from the host to the command.
    pub received: u64,
}

/// Why a request came to nothing.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum EgressProblem {
    /// It is no request of a proxy.
    Malformed,
    /// The contract does not list it.
    NotListed,
    /// Its name leads to this machine or to a private network.
    PrivateAddress,
    /// Its name leads nowhere.
    Unresolved,
    /// Nobody answers there.
    Unreachable,
    /// Too many connections were open.
    TooMany,
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn target(text: &str) -> Target {
        Target::parse(text, None).unwrap()
    }

    #[test]
    fn a_rule_allows_its_host_and_port_and_nothing_like_it() {
        let rules = ["api.example.com:443", "*.Example.org:8443", "127.0.0.1:8080", "[2001:db8::1]:443"];
        let rules: Vec<Rule> = rules.iter().map(|rule| Rule::parse(rule).unwrap()).collect();
        for yes in [
            "api.example.com:443",
            "API.example.COM.:443",
            "a.example.org:8443",
            "a.b.example.org:8443",
            "127.0.0.1:8080",
            "[2001:db8:0::1]:443",
        ] {
            assert!(target(yes).allowed_by(&rules), "{yes}");
        }
        for no in [
            "api.example.com:80",
            "example.com:443",
            "x.api.example.com:443",
            "api.example.com.evil.net:443",
            "example.org:8443",
            "evilexample.org:8443",
            ".example.org:8443",
            "127.0.0.1:80",
            "127.1:8080",
            "[::ffff:127.0.0.1]:8080",
        ] {
            let allowed = Target::parse(no, None).is_some_and(|target| target.allowed_by(&rules));
            assert!(!allowed, "{no}");
        }
    }

    #[test]
    fn rules_that_would_not_mean_what_they_say_are_refused() {
        for bad in [
            "",
            "host",
            "host:",
            "host:0",
            "host:65536",
            "host:+80",
            ":443",
            "https://host:443",
            "a b:443",
            "user@host:443",
            "*:443",
            "*.com:443",
            "*.127.0.0.1:80",
            "a*.example.com:443",
            "127.1:80",
            "0x7f.1:80",
            "2130706433:80",
            "::1:80",
            "[::1]",
            "[::1]x:80",
            "localhost:80",
            "ä.example:443",
        ] {
            assert!(Rule::parse(bad).is_err(), "{bad:?}");
        }
    }

    #[test]
    fn only_addresses_of_the_internet_are_public() {
        for public in ["1.1.1.1", "100.128.0.1", "172.32.0.1", "2606:4700::1111", "64:ff9b::101:101"] {
            assert!(is_public(public.parse().unwrap()), "{public}");
        }
        for private in [
            "127.0.0.1",
            "0.0.0.0",
            "10.1.2.3",
            "172.16.0.1",
            "192.168.0.1",
            "169.254.169.254",
            "100.64.0.1",
            "192.0.0.1",
            "198.18.0.1",
            "203.0.113.1",
            "224.0.0.1",
            "255.255.255.255",
            "::",
            "::1",
            "::127.0.0.1",
            "::ffff:10.0.0.1",
            "64:ff9b::7f00:1",
            "2002:7f00:1::",
            "fe80::1",
            "fc00::1",
            "ff02::1",
        ] {
            assert!(!is_public(private.parse().unwrap()), "{private}");
        }
    }

    proptest! {
        #[test]
        fn any_text_is_read_or_refused(text in "\\PC{0,40}|[a-z0-9.:*\\[\\]-]{0,30}") {
            if let Some(target) = Target::parse(&text, Some(80)) {
                prop_assert!(target.port != 0 && !target.host.is_empty());
                prop_assert!(target.host.bytes().all(|byte| byte.is_ascii_graphic() && !byte.is_ascii_uppercase()));
            }
            let _ = Rule::parse(&text);
        }
    }
}
