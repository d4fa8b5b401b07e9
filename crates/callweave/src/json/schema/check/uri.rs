//! Addresses of schemas.

/// The address to which `reference` leads from `base`, both without fragments.
pub(super) fn resolve(base: &str, reference: &str) -> String {
    let scheme = |text: &str| {
        let end = text.find(':')?;
        let is_scheme = |letter: char| letter.is_ascii_alphanumeric() || matches!(letter, '+' | '-' | '.');
        (end > 0 && text[..end].chars().all(is_scheme)).then_some(end + 1)
    };
    if reference.is_empty() {
        return base.to_owned();
    }
    if scheme(reference).is_some() {
        return reference.to_owned();
    }
    let start = scheme(base).unwrap_or(0);
    if reference.starts_with("//") {
        return format!("{}{reference}", &base[..start]);
    }
    // The path begins behind the host, if there is one.
    let path = match base[start..].strip_prefix("//") {
        Some(rest) => base.len() - rest.len() + rest.find('/').unwrap_or(rest.len()),
        None => start,
    };
    if reference.starts_with('/') {
        return format!("{}{reference}", &base[..path]);
    }
    let folder = base[path..].rfind('/').map_or(path, |at| path + at + 1);
    let mut reference = reference;
    let mut folder = &base[..folder];
    while let Some(rest) = reference.strip_prefix("./") {
        reference = rest;
    }
    while let Some(rest) = reference.strip_prefix("../") {
        reference = rest;
        let above = folder.strip_suffix('/').and_then(|inner| inner.rfind('/')).filter(|at| *at >= path);
        folder = above.map_or(folder, |at| &folder[..=at]);
    }
    let slash = if folder.len() == path && path > start { "/" } else { "" };
    format!("{folder}{slash}{reference}")
}

#[cfg(test)]
mod tests {
    use super::resolve;

    #[test]
    fn references_are_read_from_where_they_stand() {
        for (base, reference, expected) in [
            ("", "a", "a"),
            ("T0", "", "T0"),
            ("T0", "T1", "T1"),
            ("http://h/a/b", "c", "http://h/a/c"),
            ("http://h", "c", "http://h/c"),
            ("http://h/a/b", "/c", "http://h/c"),
            ("http://h/a/b", "//i/c", "http://i/c"),
            ("http://h/a/b/c", "../d", "http://h/a/d"),
            ("http://h/a", "urn:x:y", "urn:x:y"),
            ("a/b", "./c", "a/c"),
        ] {
            assert_eq!(resolve(base, reference), expected, "{base} {reference}");
        }
    }
}
