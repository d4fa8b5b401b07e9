//! The rows of the shared vectors that come out otherwise than their source wants, and why.
//!
//! Sources contradict each other; what is decided once is listed with every row it costs. A row is
//! named by its [`id`](super::rows::Row::id).

/// A decision, and the rows that it costs.
pub(crate) const DIFFERENCES: &[(&str, &[&str])] = &[
    (
        "Documents side by side are all kept. The source drops the earlier of two of the same shape, which loses data.",
        &["25362dda40453517"],
    ),
    (
        "A missing value is `null`, as with two other sources; this one writes an empty string.",
        &["bdb8fcb2f4ee5c80", "482e14b948d2161b"],
    ),
    (
        "The source's mode that is not stable while the text grows guesses at the end of an open string; a cut string is kept as it stands.",
        &["87fd27c220d5096d", "87d43f05173517c1", "8d37d15323ed7f4b"],
    ),
    ("An object that was opened is kept, as another source wants for the same fault.", &["780032f1b0d296be"]),
    (
        "A forgotten opening bracket in a table of rows: nothing in the text says where it belongs.",
        &["d05ba953a635649a"],
    ),
    (
        "A key that was cut off is a member without a value. The source makes an array of its name, or drops it.",
        &["8e8cc45263b8acf9", "19c819f649ce8a23"],
    ),
    (
        "A comment begun with # goes to the end of its line, as one begun with // does in the same source.",
        &["ba5400e06f1df42b"],
    ),
    ("A comma after the first string makes a set; the source reads it as a colon.", &["be08f50fc6e1a6f2"]),
    (
        "A number that was cut after its sign is zero, as another source wants; this one drops it before a space.",
        &["b55817f16b2b20e7"],
    ),
    ("The last quote ends the string; the source keeps it in the text.", &["86654dc107fc15ef"]),
    (
        "A string goes on to its last quote; the source stops at an inner one and drops the rest.",
        &["9e4e289323a44298"],
    ),
    ("A document after a comma is a document, even an empty one.", &["6d07d7bffaa0107c"]),
    (
        "A line of plain text is a string, as with five other sources; this one and its port give nothing.",
        &["350210a6f641874f", "8465ba06405a8bfc"],
    ),
    (
        "A quote between other quotes is a string; the source and its port give nothing.",
        &["f8e3f1802f0ac273", "9423fc6fa7ce469b"],
    ),
    ("A string that holds a fenced block stays a string.", &["2d4ae28e3bcf628c"]),
    (
        "A bare literal is its value, as with three other sources; this one gives an empty string.",
        &["40d23e20cff63175"],
    ),
    ("A quote forgotten before a plus sign and a comment: one case, no rule.", &["60d53e613aa3852c"]),
    (
        "A backslash that makes no escape stays, since patterns and paths are what models forget to escape; another source wants the same.",
        &["3dcbee43bae00625"],
    ),
    (
        "Prose before a document is dropped, as with three other sources; this one refuses.",
        &["2c161c12a7c733cd"],
    ),
    (
        "An empty object glued to the arguments is a provider's placeholder; the source refuses.",
        &["f40efafbf3385888"],
    ),
    ("A key without a value is null; the source refuses.", &["c953e0abe58939f8"]),
    ("A control character can be escaped without loss; the source refuses.", &["62be8b5059cf9e9f"]),
    (
        "Nothing but white space is hopeless, as with three other sources; these give an empty string or object.",
        &["45e51098c69d70bf", "225a754c713af09c", "0316530721ee5640", "229c6cc9ed6d2a57", "11a018fd27cf4b09"],
    ),
    (
        "A closing bracket alone is hopeless, as with the original of this port, which gives an empty string.",
        &["08fab841b7249364", "42549cf0a273a084"],
    ),
    (
        "A member whose value is still to come is left out of a prefix, as with three other sources.",
        &["4cdf1bf673692694"],
    ),
    (
        "Prose around a document is dropped, as with three other sources; this one makes strings of it.",
        &["7eff3dcf4ef49fe1"],
    ),
    (
        "A text with leading zeros is kept as it was written, as with the original of this port.",
        &["f41224345c1a64c6", "f9b39c53a53e7554"],
    ),
];
