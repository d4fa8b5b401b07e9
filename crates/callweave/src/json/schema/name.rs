//! The declared tool that a model means by the name that it wrote.

use super::scalar::letters_and_digits;

/// The one of the `declared` names that `called` means.
///
/// An exact name wins. Else prefixes that models put before names (`functions.`, `default_api:`,
/// `mcp__server__`, …) and the spelling (case, `-` for `_`) are forgiven, as long as that leaves one
/// declared name only.
///
/// ```
/// use callweave::json::schema::match_name;
///
/// let declared = ["get_weather", "send_mail"];
/// assert_eq!(match_name("get_weather", declared), Some("get_weather"));
/// assert_eq!(match_name("functions.get_weather", declared), Some("get_weather"));
/// assert_eq!(match_name("GetWeather", declared), Some("get_weather"));
/// assert_eq!(match_name("get_news", declared), None);
/// ```
pub fn match_name<'d>(called: &str, declared: impl IntoIterator<Item = &'d str>) -> Option<&'d str> {
    let declared: Vec<&str> = declared.into_iter().collect();
    if let Some(exact) = declared.iter().find(|name| **name == called) {
        return Some(exact);
    }
    let called = called.trim();
    // The complete name first, then the part behind each separator, from the longest to the shortest.
    let tails = called.char_indices().filter(|(_, letter)| matches!(letter, '.' | ':' | '/'));
    let doubled = called.match_indices("__").map(|(at, separator)| at + separator.len());
    let mut starts: Vec<usize> = tails.map(|(at, _)| at + 1).chain(doubled).collect();
    starts.push(0);
    starts.sort_unstable();
    starts.iter().find_map(|&start| spelled(&called[start..], &declared))
}

fn spelled<'d>(called: &str, declared: &[&'d str]) -> Option<&'d str> {
    let spellings: [fn(&str) -> String; 3] =
        [str::to_owned, |name| name.to_lowercase(), |name| letters_and_digits(name)];
    for spell in spellings {
        let called = spell(called);
        if called.is_empty() {
            return None;
        }
        let mut fitting = declared.iter().filter(|name| spell(name) == called);
        match (fitting.next(), fitting.next()) {
            (Some(name), None) => return Some(name),
            (Some(_), Some(_)) => return None,
            (None, _) => {}
        }
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_forgiven_their_prefix_and_spelling() {
        let declared = ["read_file", "Read", "web.search", "run"];
        for (called, expected) in [
            ("read_file", Some("read_file")),
            ("READ_FILE", Some("read_file")),
            ("readFile", Some("read_file")),
            ("read", Some("Read")),
            ("functions.read", Some("Read")),
            ("functions.web.search", Some("web.search")),
            ("default_api:run", Some("run")),
            ("mcp__files__read_file", Some("read_file")),
            ("tools/run", Some("run")),
            (" run ", Some("run")),
            ("rerun", None),
            ("search", None),
            ("", None),
        ] {
            assert_eq!(match_name(called, declared), expected, "{called}");
        }
    }

    #[test]
    fn a_name_that_could_be_two_is_none() {
        assert_eq!(match_name("GETX", ["getX", "get_x"]), Some("getX"), "case alone decides first");
        assert_eq!(match_name("GET-X", ["getX", "get_x"]), None);
    }
}
