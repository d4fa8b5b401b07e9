//! Seals in a client's own place for seals, marked with their issuer.
//!
//! A client that speaks another protocol than the provider may have a place for a seal, and gives it back. Unmarked it
//! would be taken for one of the client's own provider. A marked seal is Base64, as some of these places demand.

use std::borrow::Cow;

use base64::Engine;
use base64::engine::general_purpose::STANDARD;

use crate::event::{AttachmentKind, JsonText};
use crate::request::ProviderSeal;

/// Every marked seal begins with it. Its length is a multiple of three, so that it is the same in Base64.
const MARK: &str = "callweave-seal:";

/// The mark in Base64.
pub(super) const ENCODED_MARK: &str = "Y2FsbHdlYXZlLXNlYWw6";

/// The separator between an issuer and its tag.
const AT: char = '@';

/// A seal with its mark. Places for signatures hold encrypted reasoning, too, and the reverse: the mark has the kind.
pub(super) fn marked(issuer: &str, tag: u64, kind: AttachmentKind, data: &str) -> String {
    STANDARD.encode(format!("{MARK}{}:{data}", issuer_with_tag(issuer, tag, kind)))
}

/// The seal under a mark: its issuer with the tag, and its data.
pub(in crate::request) fn unmarked(text: &str) -> Option<ProviderSeal> {
    text.strip_prefix(ENCODED_MARK)?;
    let text = String::from_utf8(STANDARD.decode(text).ok()?).ok()?;
    let (issuer, data) = text.strip_prefix(MARK)?.split_once(':')?;
    issuer.contains(AT).then(|| ProviderSeal { issuer: Cow::Owned(issuer.to_owned()), data: data.to_owned() })
}

/// Whether an attachment is a marked seal, which clients of every protocol may be given.
pub(crate) fn is_marked(value: &JsonText<'_>) -> bool {
    value.as_str().strip_prefix('"').is_some_and(|text| text.starts_with(ENCODED_MARK))
}

/// The issuer of a seal that came back under a mark, as it stands there.
pub(super) fn issuer_with_tag(issuer: &str, tag: u64, kind: AttachmentKind) -> String {
    let kind = if kind == AttachmentKind::Encrypted { "encrypted" } else { "signature" };
    format!("{issuer}{AT}{tag:x}-{kind}")
}

/// Whether a seal came back under a mark and is not resolved.
pub(super) fn is_unresolved(seal: &ProviderSeal) -> bool {
    seal.issuer.contains(AT)
}

/// The issuer's name without its tag.
pub(in crate::request) fn issuer_name(issuer: &str) -> &str {
    let name = issuer.split(AT).next().unwrap_or(issuer);
    if name.is_empty() { "an unknown provider" } else { name }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_marked_seal_comes_back() {
        let text = marked("google", 0xab, AttachmentKind::Encrypted, "a:b+/=");
        assert!(text.starts_with(ENCODED_MARK) && is_marked(&JsonText::from_text(&text)));
        let seal = unmarked(&text).expect("a seal");
        assert_eq!((&*seal.issuer, &*seal.data), ("google@ab-encrypted", "a:b+/="));
        assert_eq!(seal.issuer, issuer_with_tag("google", 0xab, AttachmentKind::Encrypted));
        assert_ne!(seal.issuer, issuer_with_tag("google", 0xab, AttachmentKind::Signature));
        for other in ["", "c2VhbA==", ENCODED_MARK, "Y2FsbHdlYXZlLXNlYWw6Z29vZ2xl"] {
            assert_eq!(unmarked(other), None, "{other}");
        }
    }
}
