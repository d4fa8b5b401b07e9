//! The work grows with the text, whatever the text.

use std::time::{Duration, Instant};

use callweave::json::repair::{Options, Verdict, repair};

/// Beginnings, pieces to repeat, and ends that invite to look ahead or back far.
const HARD: &[(&str, &str, &str)] = &[
    ("", "\"", ""),
    ("", "[", ""),
    ("", "]", ""),
    ("", "{", ""),
    ("[", "\"a, ", "]"),
    ("[", "\"a, ", ""),
    ("[", "\"a ", "]"),
    ("[\"", " \"a", "]"),
    ("{\"a\": \"", "\", ", "}"),
    ("{\"a\": \"", "\", x", "}"),
    ("{\"a\": \"", "\" x ", "}"),
    ("{\"a\": \"", ", b: ", "}"),
    ("{\"a\": \"", "\",/*", "*/}"),
    ("{\"a\": \"", "\",//", "}"),
    ("{\"a\": \"", "\",<!--", "-->}"),
    ("{\"a\": \"", "\"}x", "}"),
    ("{\"a\": \"", "{\"} ", "}"),
    ("{\"a\": ", "x, ", "}"),
    ("{\"a\": ", "x \" ", "}"),
    ("{\"a\": ", "x ' ", "}"),
    ("{", "a ", "}"),
    ("{", "\"a\" ", "}"),
    ("{", "'a':1 ", "}"),
    ("{", "a,", "}"),
    ("[", "1,,", "]"),
    ("[", "{},", ""),
    ("[", "{}}", "]"),
    ("[", "[],", ""),
    ("[", "a: 1,", "]"),
    ("[", "'x' + ", "'y']"),
    ("", "{}", ""),
    ("", "{}\n", ""),
    ("", "{\"a\":1,}\n", ""),
    ("", "a\n", ""),
    ("", "a,", ""),
    ("text ", "{ ", ""),
    ("text ", "``` ", ""),
    ("text ", "```{\"a\":1}``` x ", ""),
    ("{\"a\":1} ", "x {\"a ", ""),
    ("", "\\", ""),
    ("", "\\\"", ""),
    ("{", "\\\"a\\\":1,", "}"),
    ("[", "(1),", "]"),
    ("[", "“a", "]"),
    ("[", "<|\"|>a ", "]"),
    ("[", "f(1) ", "]"),
    ("[", "/a", "]"),
    ("[", "\"\"\"a", "]"),
    ("{\"a\": [1]", ", [2]", "}"),
    ("{\"a\": 1}", ", \"b\": 2}", ""),
    ("[", "1 /* */ , /* */", "]"),
    ("[", "1 ", "]"),
    ("[", "- ", "]"),
    ("{\"a\": \"", "{\"b\": ", "\"}"),
    ("{\"a\": \"", "{\"b\": 1} ", "\"}"),
    ("{\"a\": \"", "[\"b\", ", "\"}"),
    ("{\"a\": \"", "\\b", "\"}"),
    ("[", "\"\\b\", ", ""),
    ("{\"a\": \"", "\",, ", "}"),
    ("{\"a\": ", "x/*", "*/}"),
    ("", "[ABC]", ""),
    ("{\"a\":/", "\\\"", "}"),
    ("{\"a\":/", "'\\", "}"),
    ("text ", "```(", ""),
    ("text ", "{\\\"", "}"),
    ("{\"a\":/", " \\\",", "}"),
    ("[", ".true...(<|a|>", "]"),
    ("", "[]['#", "}"),
    ("text ", "#```\n", ""),
    ("{\"a\": \"", "//x,\n", "}"),
    ("{a: ", "x{", "}"),
    ("{a: 1", "，1", "}"),
    ("｛", "1", "，a，b，c｝"),
    ("｛", "a：", "｝"),
    ("｛", "＂a", "｝"),
    ("[", "f([,", "]"),
    ("[", "f({]", ""),
    ("[", "```[f({", ""),
    ("{a: ", "x(, ", "}"),
    ("[", "x[, ", "]"),
    ("{a: ", "x[\"]", "}"),
    ("", "{a: x{", ""),
    ("{\"a\": [", "1), \"b\": ", "}"),
    ("{\"a\": \"", "b\" c: ", "}"),
    ("{\"a\": \"", "\",b\" ", "}"),
];

fn time(text: &str) -> Duration {
    let once = || {
        let start = Instant::now();
        std::hint::black_box(repair(text));
        std::hint::black_box(Options::new().prefix().repair(text));
        start.elapsed()
    };
    once().min(once())
}

#[test]
fn ten_times_the_text_takes_ten_times_as_long() {
    for (start, piece, end) in HARD {
        let text = |bytes: usize| format!("{start}{}{end}", piece.repeat(bytes / piece.len()));
        let (small, large) = (text(8_000), text(80_000));
        // Quadratic work would take a hundred times as long. Short times are too noisy to compare, and
        // a busy machine may spoil a comparison, but hardly all of them.
        let is_linear = (0..5).any(|_| {
            let large = time(&large);
            large < Duration::from_millis(20) || large < time(&small) * 50
        });
        assert!(
            is_linear,
            "{start:?} {piece:?} {end:?}: {:?} for 8 kB, {:?} for 80 kB",
            time(&small),
            time(&large)
        );
    }
}

#[test]
fn depth_is_bounded_by_a_verdict_and_not_by_the_stack() {
    let valid = format!("{}{}", "[".repeat(100_000), "]".repeat(100_000));
    assert_eq!(repair(&valid).verdict, Verdict::Valid);
    for opener in ["[", "{\"a\":", "(", "[f("] {
        let verdict = repair(&opener.repeat(100_000)).verdict;
        assert!(matches!(verdict, Verdict::Hopeless { .. }), "{opener}: {verdict:?}");
    }
}
