//! jiter driven by hand: objects as a walk over their members.

use jiter::{Jiter, NumberInt, Peek};

/// Gives each member's key to `member`, which takes its value.
pub(super) fn object<K>(
    jiter: &mut Jiter<'_>,
    key: fn(&str) -> K,
    mut member: impl FnMut(K, &mut Jiter<'_>) -> Option<()>,
) -> Option<()> {
    // jiter's keys borrow the parser; a word is enough to go on.
    let mut next = jiter.next_object().ok()?.map(key);
    while let Some(name) = next {
        member(name, jiter)?;
        next = jiter.next_key().ok()?.map(key);
    }
    Some(())
}

/// Gives each element to `element`.
pub(super) fn array(
    jiter: &mut Jiter<'_>,
    mut element: impl FnMut(&mut Jiter<'_>) -> Option<()>,
) -> Option<()> {
    let mut next = jiter.next_array().ok()?;
    while next.is_some() {
        element(jiter)?;
        next = jiter.array_step().ok()?;
    }
    Some(())
}

/// Appends a string; anything else is passed over.
pub(super) fn append(jiter: &mut Jiter<'_>, to: &mut String) -> Option<()> {
    match jiter.peek().ok()? {
        Peek::String => to.push_str(jiter.known_str().ok()?),
        _ => jiter.next_skip().ok()?,
    }
    Some(())
}

pub(super) fn index(jiter: &mut Jiter<'_>) -> Option<usize> {
    match jiter.next_int().ok()? {
        NumberInt::Int(number) => usize::try_from(number).ok(),
        NumberInt::BigInt(_) => None,
    }
}

pub(super) fn skip(jiter: &mut Jiter<'_>) -> Option<()> {
    jiter.next_skip().ok()
}
