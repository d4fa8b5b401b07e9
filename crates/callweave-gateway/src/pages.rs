//! Access from browsers: the hosts that the gateway is known by, and the pages whose scripts may read its responses.
//!
//! A page in a browser can send requests to this machine. The browser says so in `Origin`; and a page whose own name
//! was pointed at this machine is given away by `Host`. Without keys nothing else tells it from a client.

use std::net::IpAddr;

use callweave::upstream::ErrorClass;
use http::{HeaderMap, HeaderName, HeaderValue, Method, Response, StatusCode, header, request};

use crate::body::ResponseBody;
use crate::config::{Config, ip, unmapped};
use crate::failure::RequestFailure;

/// The hosts and pages that are let in.
pub(crate) struct AllowedPages {
    hosts: Vec<String>,
    origins: Vec<String>,
    listen: IpAddr,
    /// Whether clients need a key, which no page has that was not given one.
    has_keys: bool,
}

/// The longest name that is repeated to a client.
const LONGEST: usize = 100;

impl AllowedPages {
    pub(crate) fn new(config: &Config) -> Self {
        Self {
            hosts: config.allowed_hosts.iter().map(|host| host.to_ascii_lowercase()).collect(),
            origins: config.allowed_origins.iter().map(|origin| spelled(origin)).collect(),
            listen: unmapped(config.listen.ip()),
            has_keys: !config.client_keys.is_empty(),
        }
    }

    /// Whether a request may be served. If it comes from a page that may read the response, the page's origin.
    pub(crate) fn admit(&self, parts: &request::Parts) -> Result<Option<HeaderValue>, RequestFailure> {
        let text = |value: &HeaderValue| String::from_utf8_lossy(value.as_bytes()).into_owned();
        if !self.has_keys {
            let named = parts.headers.get_all(header::HOST).iter().map(HeaderValue::as_bytes);
            let asked = parts.uri.authority().map(|authority| authority.as_str().as_bytes());
            for host in named.chain(asked) {
                let host = String::from_utf8_lossy(host);
                if !self.knows_host(&host) {
                    return Err(unknown_host(&host));
                }
            }
        }
        let mut admitted = None;
        for origin in parts.headers.get_all(header::ORIGIN) {
            let page = text(origin);
            if self.origins.iter().any(|allowed| fits(allowed, &page.to_ascii_lowercase())) {
                admitted = Some(origin.clone());
            } else if !is_same(&page, parts) {
                return Err(unknown_origin(&page));
            }
        }
        Ok(admitted)
    }

    fn knows_host(&self, host: &str) -> bool {
        let name = without_port(host);
        let is_own = match ip(name).map(unmapped) {
            // A page cannot be under an address that is not its own, only under a name.
            Some(address) => address.is_loopback() || address == self.listen || self.listen.is_unspecified(),
            None => name.eq_ignore_ascii_case("localhost"),
        };
        is_own || {
            let (host, name) = (host.to_ascii_lowercase(), name.to_ascii_lowercase());
            self.hosts.iter().any(|allowed| match allowed.strip_prefix('*') {
                Some(ending) => ending.is_empty() || name.ends_with(ending),
                None => *allowed == host || *allowed == name,
            })
        }
    }

    /// Whether a browser asks if a page may send a request.
    pub(crate) fn is_preflight(parts: &request::Parts) -> bool {
        let is_asked = parts.headers.contains_key(header::ACCESS_CONTROL_REQUEST_METHOD);
        parts.method == Method::OPTIONS && is_asked
    }

    /// The response to that, for a page that was admitted: a client that needs a key shows it with the request itself.
    pub(crate) fn preflight(asked: &HeaderMap) -> Response<ResponseBody> {
        let mut response = Response::new(ResponseBody::complete(""));
        *response.status_mut() = StatusCode::NO_CONTENT;
        let headers = response.headers_mut();
        let mut put = |name: HeaderName, value: HeaderValue| headers.insert(name, value);
        put(header::ACCESS_CONTROL_ALLOW_METHODS, HeaderValue::from_static("GET, HEAD, POST, DELETE"));
        if let Some(names) = asked.get(header::ACCESS_CONTROL_REQUEST_HEADERS) {
            put(header::ACCESS_CONTROL_ALLOW_HEADERS, names.clone());
        }
        // A page from elsewhere that asks for this machine is asked twice by some browsers.
        if asked.contains_key("access-control-request-private-network") {
            let name = HeaderName::from_static("access-control-allow-private-network");
            put(name, HeaderValue::from_static("true"));
        }
        put(header::ACCESS_CONTROL_MAX_AGE, HeaderValue::from_static("600"));
        response
    }

    /// Lets a page read a response. Where pages are let in at all, caches between must not give one page's response to
    /// another.
    pub(crate) fn dress(&self, headers: &mut HeaderMap, origin: Option<HeaderValue>) {
        if self.origins.is_empty() {
            return;
        }
        headers.append(header::VARY, HeaderValue::from_static("origin"));
        if let Some(origin) = origin {
            headers.insert(header::ACCESS_CONTROL_ALLOW_ORIGIN, origin);
            headers.insert(header::ACCESS_CONTROL_EXPOSE_HEADERS, HeaderValue::from_static("*"));
        }
    }
}

/// Returns the fault of a host that a configuration names.
pub(crate) fn host_fault(text: &str) -> Option<String> {
    let name = text.split_once("://").map_or(text, |(_, rest)| rest).split('/').next().unwrap_or_default();
    let ending = text.strip_prefix('*').unwrap_or(text);
    let is_name = |char: char| char.is_ascii_alphanumeric() || "-._:[]".contains(char);
    match () {
        () if text.is_empty() => Some("a host has a name, such as \"gateway.example\"".to_owned()),
        () if name != text => Some(format!("{text:?} is no host; did you mean {name:?}?")),
        () if !ending.chars().all(is_name)
            || (ending != text && !ending.is_empty() && !ending.starts_with('.')) =>
        {
            Some(format!("{text:?} is no host; write \"gateway.example\", \"*.example\" or \"*\""))
        }
        () => None,
    }
}

/// Returns the fault of an origin that a configuration names.
pub(crate) fn origin_fault(text: &str) -> Option<String> {
    if matches!(text, "*" | "null") {
        return None;
    }
    let Some((scheme, rest)) = text.split_once(':') else {
        return Some(format!("{text:?} is no origin; did you mean \"https://{text}\"?"));
    };
    let is_word = |char: char| char.is_ascii_alphanumeric() || "+-.".contains(char);
    let rest = rest.strip_prefix("//").unwrap_or(rest);
    match () {
        () if scheme.is_empty() || !scheme.chars().all(is_word) => {
            Some(format!("{text:?} is no origin; write \"https://app.example\" or a scheme such as \"app:\""))
        }
        // A port: the scheme is missing.
        () if !rest.is_empty()
            && rest.chars().all(|char| char.is_ascii_digit() || char == '*')
            && rest != "*" =>
        {
            Some(format!("{text:?} is no origin; did you mean \"http://{text}\"?"))
        }
        () if rest.trim_end_matches('/').contains(['/', '?', '#', '@']) => {
            Some(format!("{text:?} has more than a scheme, a host and a port"))
        }
        () => None,
    }
}

/// An origin as it is compared.
fn spelled(origin: &str) -> String {
    let origin = origin.to_ascii_lowercase();
    match origin.strip_suffix("://*").or_else(|| origin.strip_suffix("://")) {
        Some(scheme) => format!("{scheme}:"),
        None => origin.trim_end_matches('/').to_owned(),
    }
}

/// Whether a page is one of those that were allowed.
fn fits(allowed: &str, origin: &str) -> bool {
    if allowed == "*" || allowed == origin {
        return true;
    }
    // A scheme.
    if let Some(scheme) = allowed.strip_suffix(':').filter(|scheme| !scheme.contains(':')) {
        return origin.split_once(':').is_some_and(|(own, _)| own == scheme);
    }
    // Any port.
    if let Some(start) = allowed.strip_suffix(":*") {
        let port = origin.strip_prefix(start).and_then(|rest| rest.strip_prefix(':'));
        return origin == start || port.is_some_and(|port| port.chars().all(|char| char.is_ascii_digit()));
    }
    // Any name under a name.
    match (allowed.split_once("://*."), origin.split_once("://")) {
        (Some((scheme, ending)), Some((own, host))) => {
            scheme == own && host.strip_suffix(ending).is_some_and(|before| before.ends_with('.'))
        }
        _ => false,
    }
}

/// Whether a page is of the gateway's own.
fn is_same(page: &str, parts: &request::Parts) -> bool {
    let host = parts.headers.get(header::HOST).and_then(|host| host.to_str().ok());
    let page = page.strip_prefix("http://").or_else(|| page.strip_prefix("https://"));
    page.zip(host).is_some_and(|(page, host)| page.eq_ignore_ascii_case(host))
}

/// A host without its port.
fn without_port(host: &str) -> &str {
    match host.rsplit_once(':') {
        Some((name, port)) if port.bytes().all(|byte| byte.is_ascii_digit()) && !name.ends_with(':') => {
            // The colons of an address stand in brackets.
            if name.contains(':') && !name.ends_with(']') { host } else { name }
        }
        _ => host,
    }
}

fn unknown_host(host: &str) -> RequestFailure {
    let host: String = host.chars().take(LONGEST).collect();
    refused(format!(
        "this gateway is not known as {host:?}; if clients may ask for it by that name, put it into allowed_hosts \
         of the configuration (--allow-host), or set client_keys"
    ))
}

fn unknown_origin(origin: &str) -> RequestFailure {
    let origin: String = origin.chars().take(LONGEST).collect();
    refused(format!(
        "pages of {origin:?} may not ask this gateway; if they may, put that into allowed_origins of the configuration \
         (--allow-origin)"
    ))
}

fn refused(what: String) -> RequestFailure {
    RequestFailure::new(ErrorClass::Permission, what).with_status(StatusCode::FORBIDDEN)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn origins_are_allowed_whole_by_scheme_by_port_and_by_ending() {
        for (allowed, origin, is) in [
            ("https://app.example", "https://app.example", true),
            ("https://App.example/", "https://app.example", true),
            ("https://app.example", "http://app.example", false),
            ("https://app.example", "https://app.example.evil", false),
            ("https://app.example", "https://app.example:8443", false),
            ("vscode-webview:", "vscode-webview://1a2b", true),
            ("vscode-webview://", "vscode-webview://1a2b", true),
            ("app://*", "app://obsidian.md", true),
            ("app:", "apple://x", false),
            ("http://localhost:*", "http://localhost:3000", true),
            ("http://localhost:*", "http://localhost", true),
            ("http://localhost:*", "http://localhost.evil:3000", false),
            ("http://localhost:*", "http://localhost:3000.evil", false),
            ("https://*.example", "https://a.example", true),
            ("https://*.example", "https://evilexample", false),
            ("https://*.example", "https://example", false),
            ("null", "null", true),
            ("https:", "null", false),
            ("*", "null", true),
        ] {
            assert_eq!(fits(&spelled(allowed), origin), is, "{allowed} {origin}");
        }
    }

    #[test]
    fn what_is_no_host_or_origin_is_told() {
        for host in ["", "http://h", "h/x", "a*b", "*b", "a b"] {
            assert!(host_fault(host).is_some(), "{host}");
        }
        for host in ["h", "h:1", "*.h", "*", "[::1]", "10.0.0.1"] {
            assert!(host_fault(host).is_none(), "{host}");
        }
        for origin in ["", "example", "localhost:3000", "https://h/x", "https://u@h", "a b:"] {
            assert!(origin_fault(origin).is_some(), "{origin}");
        }
        for origin in
            ["*", "null", "https://h", "https://h:1", "http://localhost:*", "app:", "app://", "app://x"]
        {
            assert!(origin_fault(origin).is_none(), "{origin}: {:?}", origin_fault(origin));
        }
    }

    #[test]
    fn a_port_is_no_part_of_a_host() {
        for (host, name) in
            [("h:1", "h"), ("h", "h"), ("[::1]:1", "[::1]"), ("[::1]", "[::1]"), ("::1", "::1")]
        {
            assert_eq!(without_port(host), name);
        }
    }
}
