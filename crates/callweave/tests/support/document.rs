//! Documents of which each part is made by the test of its subject.

use std::fs;
use std::path::Path;

/// Compares a part of `docs/translation.md` with its expected text, or writes it when `BLESS` is set. Parts are
/// separated by a line that names them; the first needs none.
pub(crate) fn expect_part(name: &str, text: &str) {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/translation.md");
    let mark = format!("\n<!-- {name} -->\n");
    let found = fs::read_to_string(&path).unwrap_or_default();
    let start = if name.is_empty() { 0 } else { found.find(&mark).map_or(found.len(), |at| at + mark.len()) };
    let end = found[start..].find("\n<!-- ").map_or(found.len(), |at| start + at);
    if std::env::var_os("BLESS").is_some() {
        let head = match name.is_empty() || found[..start].ends_with(&mark) {
            true => found[..start].to_owned(),
            false => format!("{found}{mark}"),
        };
        fs::write(&path, format!("{head}{text}{}", &found[end..])).expect("the document can be written");
        return;
    }
    assert_eq!(&found[start..end], text, "{} (BLESS=1 writes it)", path.display());
}
