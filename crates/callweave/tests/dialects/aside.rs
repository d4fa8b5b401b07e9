//! Rows that pin another parser's habit against the design, or against another row.

use super::rows::Row;

/// Why a row is set aside, if it is.
pub(crate) fn reason(row: &Row) -> Option<&'static str> {
    let table = if row.is_reasoning { REASONING } else { DIALECTS };
    table.iter().find(|(_, numbers)| numbers.contains(&row.number)).map(|(reason, _)| *reason)
}

const DIALECTS: &[(&str, &[usize])] = &[
    (
        "text after or between calls is dropped; ours is kept, in its place (other rows keep it: 225, 366, 847)",
        &[330, 362, 507, 516, 529, 553, 559, 565, 568, 741, 747, 766, 815, 821, 826, 832, 837, 981, 1004],
    ),
    (
        "a parser of calls alone shows thoughts as content; ours are reasoning",
        &[253, 441, 442, 443, 444, 447, 448, 457, 458, 459, 460, 464, 465, 884, 950],
    ),
    (
        "a call of an undeclared tool is dropped; ours is forwarded and flagged (row 364 forwards it)",
        &[250, 320, 338, 380, 409, 483],
    ),
    (
        "a call cut by the end of the text is dropped or turned back into text; ours is a call marked incomplete \
         (rows 118, 291, 299, 353 and 991 have it)",
        &[242, 461, 462, 501, 533, 560],
    ),
    (
        "a complete call without its outer marker is dropped; at the end of the text ours is a call \
         (rows 121, 183 to 188 and 979 have it)",
        &[661, 706, 707, 710, 722, 726, 729],
    ),
    (
        "what is no call is dropped; ours comes back as text (rows 370, 526, 561 and 1007 give it back)",
        &[251, 252, 263, 284, 310, 326, 347, 476, 489, 598, 631, 633, 639, 641, 697, 699],
    ),
    (
        "a damaged call is dropped, or fails everything; ours ends with a notice, its text kept \
         (rows 222, 684, 745, 807 and 814 keep it)",
        &[221, 244, 258, 325, 344, 346, 412, 435, 503, 828],
    ),
    (
        "an end marker inside an unfinished string ends it; a JSON value ends where JSON says (rows 500, 696, 808, 819)",
        &[677, 705],
    ),
    (
        "special tokens are cut out of what comes back as text, or kept where they are stray (rows 219 and 220 drop them)",
        &[256, 259, 262, 289, 570],
    ),
    ("a stricter reading of white space or names than the model's own template", &[228, 789, 810]),
    (
        "a test of that parser's configuration: thoughts switched off, a prompt's sentence counted as thought, \
         a schema for the whole answer, aliases of tools",
        &[18, 24, 170, 177, 1015, 1016],
    ),
    ("two calls are merged into one argument text", &[272, 279]),
    (
        "a quoted value or a leading zero is read as Python would, in a string or an untyped value \
         (rows 323 and 751 keep strings raw)",
        &[312, 322, 1017],
    ),
    ("JSON in an untyped value stays a string (row 556 and 941 read it)", &[536]),
    ("elements inside a union of string and object are kept as raw text; ours is the object", &[146]),
    ("a call without a name", &[233, 261]),
    ("white space between two markers is content; ours is part of the frame", &[499]),
    ("a lone bracket at the end of the text is held back for ever", &[277]),
    ("a channel without a label is text (five rows of the reasoning file have it as a thought)", &[852]),
    ("a parameter that is not closed is dropped (row 656 keeps it)", &[562]),
];

const REASONING: &[(&str, &[usize])] = &[
    (
        "whether the prompt opened a thought is part of that test and not of the row; the same text stands in \
         another row with the other answer, or would",
        &[26, 72, 117, 118, 155, 156, 157, 162],
    ),
    ("a parser of thoughts alone shows calls as content; ours are calls", &[153, 154]),
    ("an empty text has no content", &[107]),
    ("the prompt's own thoughts are part of the text", &[174]),
];
