//! Addresses: of the gateway itself, and of upstreams.

use std::fmt;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr, ToSocketAddrs, UdpSocket};

use callweave::exchange::http::shown_url;
use http::Uri;
use serde::de::{Deserializer, Error, Visitor};

use super::PORT;

/// Reads where to listen as people write it: `127.0.0.1:2255`, `[::1]:2255`, `localhost:2255`, a port alone, which is
/// one of this machine's own, or an address alone, with the usual port.
///
/// ```
/// use callweave_gateway::config::listen_address;
///
/// assert_eq!(listen_address("8080").unwrap().to_string(), "127.0.0.1:8080");
/// assert_eq!(listen_address("localhost").unwrap().to_string(), "127.0.0.1:2255");
/// assert!(listen_address("example.com:80").is_err());
/// ```
pub fn listen_address(text: &str) -> Result<SocketAddr, String> {
    let text = text.trim();
    if let Ok(address) = text.parse() {
        return Ok(address);
    }
    let loopback = IpAddr::from(Ipv4Addr::LOCALHOST);
    if let Ok(port) = text.strip_prefix(':').unwrap_or(text).parse() {
        return Ok(SocketAddr::new(loopback, port));
    }
    let (host, port) = match text.rsplit_once(':') {
        Some((host, port)) if !host.contains(':') || host.ends_with(']') => {
            (host, port.parse().map_err(|_| unfit(text))?)
        }
        _ => (text, PORT),
    };
    listen_host(host).map(|host| SocketAddr::new(host, port)).map_err(|_| unfit(text))
}

/// Reads an address to listen on, without a port: an IP address, or `localhost`.
pub fn listen_host(text: &str) -> Result<IpAddr, String> {
    let bare = text.strip_prefix('[').and_then(|text| text.strip_suffix(']')).unwrap_or(text);
    match bare.eq_ignore_ascii_case("localhost") {
        true => Ok(Ipv4Addr::LOCALHOST.into()),
        false => {
            bare.parse().map_err(|_| format!("{text:?} is no IP address of this machine, and not localhost"))
        }
    }
}

fn unfit(text: &str) -> String {
    format!(
        "{text:?} is no address to listen on; write 127.0.0.1:{PORT}, [::1]:{PORT}, localhost:{PORT} or a port"
    )
}

pub(super) fn deserialize<'de, D: Deserializer<'de>>(deserializer: D) -> Result<SocketAddr, D::Error> {
    struct HostAddress;

    impl Visitor<'_> for HostAddress {
        type Value = SocketAddr;

        fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
            f.write_str("an address to listen on")
        }

        fn visit_str<E: Error>(self, text: &str) -> Result<SocketAddr, E> {
            listen_address(text).map_err(E::custom)
        }

        fn visit_i64<E: Error>(self, port: i64) -> Result<SocketAddr, E> {
            listen_address(&port.to_string()).map_err(E::custom)
        }
    }

    deserializer.deserialize_any(HostAddress)
}

/// The URL that is meant without a scheme: `localhost:8000` is asked without TLS, `api.example.com` with.
pub fn completed_url(text: &str) -> String {
    let text = text.trim();
    if text.is_empty() || text.contains("://") || text.starts_with("demo:") {
        return text.to_owned();
    }
    let text = match text.strip_prefix(':').unwrap_or(text) {
        port if port.parse::<u16>().is_ok() => format!("localhost:{port}"),
        _ => text.to_owned(),
    };
    let host = format!("http://{text}").parse::<Uri>().ok();
    let is_near = host.is_none_or(|uri| {
        let host = uri.host().unwrap_or_default();
        uri.port().is_some() || is_localhost(host) || ip(host).is_some()
    });
    format!("{}://{text}", if is_near { "http" } else { "https" })
}

/// Returns the fault of an upstream's URL.
pub(super) fn fault(url: &str) -> Option<String> {
    let shown = shown_url(url);
    if url.is_empty() {
        return Some("is missing; it is where to ask, such as \"http://127.0.0.1:8000/v1\"".to_owned());
    }
    if !url.starts_with("http://") && !url.starts_with("https://") {
        let meant = completed_url(url);
        let meant =
            if meant != url { format!("; did you mean {:?}?", shown_url(&meant)) } else { String::new() };
        return Some(format!("{shown:?} is neither http:// nor https://{meant}"));
    }
    let Ok(uri) = url.parse::<Uri>() else { return Some(format!("{shown:?} is no URL")) };
    let authority = uri.authority().map(|it| it.as_str()).unwrap_or_default();
    let behind = authority.rsplit_once('@').map_or(authority, |(_, host)| host);
    match uri.host() {
        None | Some("") => Some(format!("{shown:?} names no host")),
        // A port that is there and is none.
        Some(host) if behind.len() > host.len() && uri.port_u16().is_none_or(|port| port == 0) => {
            Some(format!("{shown:?} has no port from 1 to 65535"))
        }
        Some(_) => None,
    }
}

/// Whether a URL names a user, which is not sent: only keys are.
pub(super) fn has_user(url: &str) -> bool {
    url.parse::<Uri>().is_ok_and(|uri| uri.authority().is_some_and(|it| it.as_str().contains('@')))
}

/// Whether a URL leads to the address this gateway listens on.
pub(super) fn is_own(url: &str, listen: SocketAddr) -> bool {
    let Ok(uri) = url.parse::<Uri>() else { return false };
    let usual = if uri.scheme_str() == Some("https") { 443 } else { 80 };
    let Some(host) = uri.host().filter(|_| uri.port_u16().unwrap_or(usual) == listen.port()) else {
        return false;
    };
    let own = unmapped(listen.ip());
    let hears = |asked: IpAddr| match unmapped(asked) {
        // The unspecified address reaches this machine.
        asked if asked.is_unspecified() => own.is_unspecified() || own.is_loopback(),
        asked if own.is_unspecified() => is_here(asked),
        asked => asked == own,
    };
    match ip(host) {
        Some(asked) => hears(asked),
        None if is_localhost(host) => own.is_unspecified() || own.is_loopback(),
        // Another name of this machine's. It has the same port, so that is not asked for nothing.
        None => (host, 0).to_socket_addrs().is_ok_and(|mut all| all.any(|asked| hears(asked.ip()))),
    }
}

/// Whether that is an address of this machine's: nobody else can take it.
fn is_here(address: IpAddr) -> bool {
    address.is_loopback() || UdpSocket::bind((address, 0)).is_ok()
}

/// Whether a host is one of the names of this machine's own.
fn is_localhost(host: &str) -> bool {
    let host = host.strip_suffix('.').unwrap_or(host).to_ascii_lowercase();
    host == "localhost" || host.ends_with(".localhost")
}

/// The address that a host is, if it is none by name.
pub(crate) fn ip(host: &str) -> Option<IpAddr> {
    let bare = host.strip_prefix('[').and_then(|host| host.strip_suffix(']'));
    match bare {
        Some(six) => six.parse::<Ipv6Addr>().ok().map(IpAddr::from),
        None => host.parse::<Ipv4Addr>().ok().map(IpAddr::from),
    }
}

/// An address of version 4 that was written as one of version 6, as what it is.
pub(crate) fn unmapped(address: IpAddr) -> IpAddr {
    match address {
        IpAddr::V6(six) => six.to_ipv4_mapped().map_or(address, IpAddr::from),
        IpAddr::V4(_) => address,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn where_to_listen_is_read_as_people_write_it() {
        for (text, address) in [
            ("2255", "127.0.0.1:2255"),
            (":81", "127.0.0.1:81"),
            ("0.0.0.0:81", "0.0.0.0:81"),
            ("localhost:81", "127.0.0.1:81"),
            ("localhost", "127.0.0.1:2255"),
            ("::1", "[::1]:2255"),
            ("[::1]", "[::1]:2255"),
            ("[::]:9", "[::]:9"),
            ("10.0.0.1", "10.0.0.1:2255"),
        ] {
            assert_eq!(
                listen_address(text).map(|address| address.to_string()),
                Ok(address.to_owned()),
                "{text}"
            );
        }
        for text in ["", "http://127.0.0.1:1", "example.com:1", "127.0.0.1:99999", "99999", "127.0.0.1:"] {
            assert!(listen_address(text).is_err(), "{text}");
        }
    }

    #[test]
    fn a_scheme_is_added_where_people_leave_it_out() {
        for (text, url) in [
            ("localhost:8000", "http://localhost:8000"),
            ("127.0.0.1/v1", "http://127.0.0.1/v1"),
            ("8000", "http://localhost:8000"),
            ("box:8000/v1", "http://box:8000/v1"),
            ("api.example.com/v1", "https://api.example.com/v1"),
            ("https://a", "https://a"),
        ] {
            assert_eq!(completed_url(text), url, "{text}");
        }
    }

    #[test]
    fn an_upstream_is_this_gateway_if_its_port_and_machine_are() {
        for (url, listen, is) in [
            ("http://127.0.0.1:2255", "127.0.0.1:2255", true),
            ("http://localhost:2255/v1", "127.0.0.1:2255", true),
            ("http://LOCALHOST:2255/v1", "[::1]:2255", true),
            ("http://u:p@127.0.0.1:2255", "127.0.0.1:2255", true),
            ("http://[::ffff:127.0.0.1]:2255", "127.0.0.1:2255", true),
            ("http://0.0.0.0:2255", "127.0.0.1:2255", true),
            ("http://127.0.0.1:2255", "0.0.0.0:2255", true),
            ("http://127.8.0.1:2255", "[::]:2255", true),
            ("http://[::1]:2255", "[::]:2255", true),
            ("http://localhost", "127.0.0.1:80", true),
            ("https://localhost", "127.0.0.1:443", true),
            ("http://127.0.0.1:2256", "127.0.0.1:2255", false),
            ("http://127.0.0.2:2255", "127.0.0.1:2255", false),
            ("http://192.0.2.1:2255", "0.0.0.0:2255", false),
            ("http://localhost", "127.0.0.1:2255", false),
        ] {
            assert_eq!(is_own(url, listen.parse().expect("an address")), is, "{url} {listen}");
        }
    }
}
