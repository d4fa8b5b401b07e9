//! Arguments that come leaf by leaf, each addressed by a JSON path (Vertex `partialArgs`).

use crate::event::NoticeCode;
use crate::json::{Array, Object, Value};

/// Arguments under construction.
#[derive(Clone, Default)]
pub(super) struct ArgumentLeaves {
    root: Value,
    /// The path of the string that will be continued.
    growing: Option<String>,
    /// The number of elements made only because a later one was named.
    gaps: usize,
    /// Whether a leaf was lost because its path does not fit.
    pub(super) has_lost: bool,
}

/// The maximum number of such elements. Leaves come nearly in order: a hostile index must not allocate.
const MAX_GAPS: usize = 10_000;

/// The maximum depth. No real arguments are nested more deeply, and code that walks them recurses.
const MAX_DEPTH: usize = 100;

impl ArgumentLeaves {
    /// Puts a leaf in its place, or appends to the string that is growing there.
    pub(super) fn put(&mut self, path: &str, value: Value, continues: bool) -> Result<(), NoticeCode> {
        let is_continued = self.growing.as_deref() == Some(path);
        let Some(place) = self.walk(path) else {
            self.has_lost = true;
            return Err(NoticeCode::MalformedCall);
        };
        match (place, value) {
            (Value::String(text), Value::String(more)) if is_continued => text.push_str(&more),
            // An empty string closes the value that it continues, whatever that is.
            (_, Value::String(more)) if is_continued && more.is_empty() => {}
            (place, value) => *place = value,
        }
        self.growing = continues.then(|| path.to_owned());
        Ok(())
    }

    /// The value at `path`, made where it is missing.
    fn walk(&mut self, path: &str) -> Option<&mut Value> {
        let Self { root: at, gaps, .. } = self;
        let mut at = at;
        let mut rest = path.strip_prefix('$').unwrap_or(path);
        for _ in 0..MAX_DEPTH {
            if rest.is_empty() {
                return Some(at);
            }
            let (step, after) = step(rest)?;
            rest = after;
            at = match step {
                LeafStep::Member(key) => member(at, key)?,
                LeafStep::Element(index) => element(at, index, gaps)?,
            };
        }
        None
    }

    /// Whether a string has not ended.
    pub(super) fn is_growing(&self) -> bool {
        self.growing.is_some()
    }

    /// The arguments as JSON text.
    pub(super) fn to_text(&self) -> String {
        if self.root.is_null() { "{}".to_owned() } else { self.root.to_string() }
    }
}

/// One step of a path.
enum LeafStep<'p> {
    Member(&'p str),
    Element(usize),
}

/// The first step of a path and the rest of it.
fn step(path: &str) -> Option<(LeafStep<'_>, &str)> {
    let Some(after) = path.strip_prefix('[') else {
        let name = path.strip_prefix('.').unwrap_or(path);
        let end = name.find(['.', '[']).unwrap_or(name.len());
        return Some((LeafStep::Member(&name[..end]), &name[end..]));
    };
    let quote = after.chars().next().filter(|&quote| quote == '\'' || quote == '"');
    if let Some(quote) = quote {
        let (key, rest) = after[1..].split_once(quote)?;
        return Some((LeafStep::Member(key), rest.strip_prefix(']')?));
    }
    let (index, rest) = after.split_once(']')?;
    Some((LeafStep::Element(index.parse().ok()?), rest))
}

fn member<'v>(at: &'v mut Value, key: &str) -> Option<&'v mut Value> {
    if at.is_null() {
        *at = Value::Object(Object::new());
    }
    let object = at.as_object_mut()?;
    Some(object.get_or_insert_with(key, || Value::Null))
}

fn element<'v>(at: &'v mut Value, index: usize, gaps: &mut usize) -> Option<&'v mut Value> {
    if at.is_null() {
        *at = Value::Array(Array::new());
    }
    let array = at.as_array_mut()?;
    let gap = index.saturating_sub(array.len());
    if gap > MAX_GAPS - *gaps {
        return None;
    }
    *gaps += gap;
    if array.len() <= index {
        array.resize(index + 1, Value::Null);
    }
    array.get_mut(index)
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn strings_grow_and_close() {
        let mut leaves = ArgumentLeaves::default();
        for (path, value, continues) in [
            ("$.a", json!("Bos"), true),
            ("$.a", json!("ton"), true),
            ("$.a", json!(""), false),
            ("$.b[0].c", json!(1), false),
            ("$.b[1]['d e']", json!(true), false),
            ("$.a2", json!("x"), false),
        ] {
            leaves.put(path, value.into(), continues).expect("a good path");
        }
        assert_eq!(leaves.to_text(), r#"{"a":"Boston","b":[{"c":1},{"d e":true}],"a2":"x"}"#);
        assert!(leaves.put("$.a[999999999]", json!(1).into(), false).is_err());
    }
}
