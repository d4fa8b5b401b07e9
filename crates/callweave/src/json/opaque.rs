//! A text or value that a protocol passes on without knowing it.

use super::Str;

/// The contents of a JSON string, or a JSON value as written, that its reader passes on and cannot inspect.
///
/// A protocol reads a value as [`Str`] if its meaning depends on it, and as an `Opaque` if it only forwards it: a frame
/// that differs from another only in such values has the same fragments with other contents. Nothing but emptiness can
/// be asked. Readers of fragments [reveal](Opaque::reveal) the contents; inside `protocol/` that is a lint error.
#[derive(Clone, Copy, Debug)]
pub struct Opaque<'a>(Str<'a>);

impl<'a> Opaque<'a> {
    /// Whether there is nothing in it.
    #[inline]
    pub fn is_empty(self) -> bool {
        self.0.is_empty()
    }

    /// The contents, for readers of fragments.
    #[inline]
    pub fn reveal(self) -> Str<'a> {
        self.0
    }

    /// The contents as they are written: the value, if it is one.
    #[inline]
    pub(crate) fn reveal_json(self) -> &'a str {
        self.0.written()
    }
}

/// Contents that were inspected, or that no frame holds.
impl<'a> From<Str<'a>> for Opaque<'a> {
    #[inline]
    fn from(text: Str<'a>) -> Self {
        Self(text)
    }
}

impl<'a> From<&'a str> for Opaque<'a> {
    #[inline]
    fn from(text: &'a str) -> Self {
        Self(Str::Plain(text))
    }
}
