//! Arguments that come leaf by leaf, each addressed by a JSON path (Vertex `partialArgs`).

use serde_json::Value;

use crate::event::NoticeCode;

/// Arguments under construction.
#[derive(Clone, Default)]
pub(super) struct Leaves {
    root: Value,
    /// The path of the string that will be continued.
    growing: Option<String>,
}

/// No real tool has longer lists; a hostile index must not allocate.
const MAX_INDEX: usize = 100_000;

impl Leaves {
    /// Puts a leaf in its place, or appends to the string that is growing there.
    pub(super) fn put(&mut self, path: &str, value: Value, continues: bool) -> Result<(), NoticeCode> {
        let place = walk(&mut self.root, path).ok_or(NoticeCode::MalformedCall)?;
        let is_continued = self.growing.as_deref() == Some(path);
        match (place, value) {
            (Value::String(text), Value::String(more)) if is_continued => text.push_str(&more),
            // An empty string closes what it continues, whatever that is.
            (_, Value::String(more)) if is_continued && more.is_empty() => {}
            (place, value) => *place = value,
        }
        self.growing = continues.then(|| path.to_owned());
        Ok(())
    }

    /// Whether a string has not come to its end.
    pub(super) fn is_growing(&self) -> bool {
        self.growing.is_some()
    }

    /// The arguments as JSON text.
    pub(super) fn to_text(&self) -> String {
        if self.root.is_null() { "{}".to_owned() } else { self.root.to_string() }
    }
}

/// The value at `path`, made where it is missing.
fn walk<'v>(root: &'v mut Value, path: &str) -> Option<&'v mut Value> {
    let mut at = root;
    let mut rest = path.strip_prefix('$').unwrap_or(path);
    while !rest.is_empty() {
        if let Some(after) = rest.strip_prefix('[') {
            let quote = after.chars().next().filter(|&quote| quote == '\'' || quote == '"');
            if let Some(quote) = quote {
                let (key, tail) = after[1..].split_once(quote)?;
                rest = tail.strip_prefix(']')?;
                at = member(at, key)?;
                continue;
            }
            let (index, tail) = after.split_once(']')?;
            rest = tail;
            at = element(at, index.parse().ok()?)?;
        } else {
            let name = rest.strip_prefix('.').unwrap_or(rest);
            let end = name.find(['.', '[']).unwrap_or(name.len());
            rest = &name[end..];
            at = member(at, &name[..end])?;
        }
    }
    Some(at)
}

fn member<'v>(at: &'v mut Value, key: &str) -> Option<&'v mut Value> {
    if at.is_null() {
        *at = Value::Object(serde_json::Map::new());
    }
    let object = at.as_object_mut()?;
    if !object.contains_key(key) {
        object.insert(key.to_owned(), Value::Null);
    }
    object.get_mut(key)
}

fn element(at: &mut Value, index: usize) -> Option<&mut Value> {
    if at.is_null() {
        *at = Value::Array(Vec::new());
    }
    let array = at.as_array_mut()?;
    if index > MAX_INDEX {
        return None;
    }
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
        let mut leaves = Leaves::default();
        for (path, value, continues) in [
            ("$.a", json!("Bos"), true),
            ("$.a", json!("ton"), true),
            ("$.a", json!(""), false),
            ("$.b[0].c", json!(1), false),
            ("$.b[1]['d e']", json!(true), false),
            ("$.a2", json!("x"), false),
        ] {
            leaves.put(path, value, continues).expect("a good path");
        }
        assert_eq!(leaves.to_text(), r#"{"a":"Boston","b":[{"c":1},{"d e":true}],"a2":"x"}"#);
        assert!(leaves.put("$.a[999999999]", json!(1), false).is_err());
    }
}
