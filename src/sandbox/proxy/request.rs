//! The requests that a proxy gets: `CONNECT host:port`, and plain HTTP in the absolute form (RFC 9112, sections 3.2.2 and 3.2.3).

use super::super::egress::Target;

/// The longest head of a request, in bytes.
pub(super) const MAX_HEAD: usize = 16 << 10;

/// What a command wants.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Request {
    /// From whom.
    pub target: Target,
    /// What is sent there first: nothing for a tunnel, else the head in the form that a server expects.
    pub head: Vec<u8>,
    /// Whether a tunnel was asked for.
    pub tunnel: bool,
}

/// The end of the head in `bytes`: behind the first empty line.
pub(super) fn end_of_head(bytes: &[u8]) -> Option<usize> {
    bytes.windows(4).position(|window| window == b"\r\n\r\n").map(|at| at + 4)
}

/// Reads a whole head, its empty line included. `None` if it is no request to a proxy.
pub(super) fn parse(head: &[u8]) -> Option<Request> {
    let text = std::str::from_utf8(head).ok()?.strip_suffix("\r\n\r\n")?;
    let mut lines = text.split("\r\n");
    let mut words = lines.next()?.split(' ');
    let (method, uri, version) = (words.next()?, words.next()?, words.next()?);
    let token = !method.is_empty() && method.bytes().all(|byte| byte.is_ascii_alphabetic());
    if words.next().is_some() || !token || !matches!(version, "HTTP/1.1" | "HTTP/1.0") {
        return None;
    }
    if method == "CONNECT" {
        return Some(Request { target: Target::parse(uri, None)?, head: Vec::new(), tunnel: true });
    }
    let scheme = uri.get(..7).filter(|scheme| scheme.eq_ignore_ascii_case("http://"))?;
    let rest = &uri[scheme.len()..];
    let end = rest.find(['/', '?', '#']).unwrap_or(rest.len());
    let (authority, path) = rest.split_at(end);
    let target = Target::parse(authority, Some(80))?;
    let path = path.split('#').next().unwrap_or_default();
    let slash = if path.starts_with('/') { "" } else { "/" };
    let mut sent = format!("{method} {slash}{path} {version}\r\nHost: {authority}\r\n");
    for line in lines {
        let (name, value) = line.split_once(':')?;
        let token = |byte: u8| byte.is_ascii_graphic();
        if name.is_empty() || !name.bytes().all(token) || value.contains(['\r', '\n', '\0']) {
            return None;
        }
        let hop = ["host", "connection", "keep-alive", "upgrade", "te"];
        let name = name.to_ascii_lowercase();
        if !hop.contains(&name.as_str()) && !name.starts_with("proxy-") {
            sent.push_str(line);
            sent.push_str("\r\n");
        }
    }
    // One request for each connection: a second one might be meant for somebody else.
    sent.push_str("Connection: close\r\n\r\n");
    Some(Request { target, head: sent.into_bytes(), tunnel: false })
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn tunnels_and_plain_requests_are_read() {
        let tunnel = parse(b"CONNECT Api.Example.com:443 HTTP/1.1\r\nHost: other\r\n\r\n").unwrap();
        assert_eq!(tunnel.target, Target { host: "api.example.com".into(), port: 443 });
        assert!(tunnel.tunnel && tunnel.head.is_empty());
        let plain = parse(
            b"GET http://127.0.0.1:8080/a?b#c HTTP/1.1\r\nHost: evil\r\nProxy-Authorization: x\r\nAccept: */*\r\nConnection: keep-alive\r\n\r\n",
        );
        let plain = plain.unwrap();
        assert_eq!(plain.target, Target { host: "127.0.0.1".into(), port: 8080 });
        assert_eq!(
            String::from_utf8(plain.head).unwrap(),
            "GET /a?b HTTP/1.1\r\nHost: 127.0.0.1:8080\r\nAccept: */*\r\nConnection: close\r\n\r\n"
        );
        let bare = parse(b"GET HTTP://example.com?x HTTP/1.0\r\n\r\n").unwrap();
        assert_eq!(bare.target.port, 80);
        assert!(bare.head.starts_with(b"GET /?x HTTP/1.0\r\n"));
    }

    #[test]
    fn whatever_else_is_said_is_no_request() {
        for bad in [
            "",
            "GET / HTTP/1.1\r\n\r\n",
            "GET https://example.com/ HTTP/1.1\r\n\r\n",
            "GET http://user@example.com/ HTTP/1.1\r\n\r\n",
            "GET http://example.com/ HTTP/2\r\n\r\n",
            "GET http://example.com/ x HTTP/1.1\r\n\r\n",
            "GET http://example.com/ HTTP/1.1\r\nno header\r\n\r\n",
            "GET http://example.com/ HTTP/1.1\r\n folded: x\r\n\r\n",
            "CONNECT example.com HTTP/1.1\r\n\r\n",
            "CONNECT http://example.com:80 HTTP/1.1\r\n\r\n",
            "CONNECT example.com:443 HTTP/1.1\r\n",
            "\r\n\r\n",
        ] {
            assert_eq!(parse(bad.as_bytes()), None, "{bad:?}");
        }
        assert_eq!(end_of_head(b"a\r\n\r\nb"), Some(5));
        assert_eq!(end_of_head(b"a\r\n\r"), None);
    }

    proptest! {
        #[test]
        fn any_bytes_are_read_or_refused(bytes in proptest::collection::vec(any::<u8>(), 0..200)) {
            let _ = parse(&bytes);
        }

        #[test]
        fn a_head_that_is_sent_has_one_end(uri in "http://[a-z.]{1,10}[!-~]{0,20}", header in "[!-~ \r\n]{0,30}") {
            let head = format!("GET {uri} HTTP/1.1\r\nA: {header}\r\n\r\n");
            if let Some(request) = parse(head.as_bytes()) {
                prop_assert_eq!(end_of_head(&request.head), Some(request.head.len()));
            }
        }
    }
}
