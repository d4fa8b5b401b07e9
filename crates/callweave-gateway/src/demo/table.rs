//! The models: one row each.

use std::sync::LazyLock;
use std::time::Duration;

use callweave::dialect::{Dialect, DialectRegistry};
use callweave::protocol::{
    ANTHROPIC_MESSAGES, COHERE_V2, GEMINI_GENERATE_CONTENT, OLLAMA, OPENAI_CHAT, OPENAI_RESPONSES, Protocol,
};

use super::text;

/// A model: its protocol, and its faults.
pub(super) struct DemoModel {
    pub(super) name: String,
    /// The model's behaviour, for people.
    pub(super) about: &'static str,
    pub(super) protocol: &'static Protocol,
    /// Writes its calls into its text.
    pub(super) dialect: Option<&'static Dialect>,
    /// A refusal with nothing but an error: status, word, and the seconds to wait.
    pub(super) refusal: Option<(u16, &'static str, Option<u32>)>,
    pub(super) habits: WritingHabits,
}

/// The writing habits of a model. The default has no faults.
#[derive(Clone, Copy)]
pub(super) struct WritingHabits {
    /// The number of calls it makes in a turn, where it may.
    pub(super) calls: usize,
    pub(super) arguments: ArgumentHabit,
    pub(super) numbering: NumberingHabit,
    /// Writes the fragments of its calls by turns.
    pub(super) is_interleaved: bool,
    pub(super) has_ids: bool,
    pub(super) name: NameHabit,
    pub(super) reasoning: ReasoningHabit,
    /// Calls nothing, even if it could.
    pub(super) is_silent_on_tools: bool,
    /// Gives the reason it ended for as this.
    pub(super) finish: Option<&'static str>,
    pub(super) end: EndHabit,
    /// Is silent that long after its first words.
    pub(super) pause: Duration,
    /// Waits that long before every piece.
    pub(super) pace: Duration,
    /// Says the same text so often.
    pub(super) repeats: usize,
}

/// The form of arguments.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum ArgumentHabit {
    Sound,
    /// Bare keys, single quotes, a comma too many.
    Broken,
    /// Truncated inside.
    Cut,
    /// Numbers, booleans, lists and objects as texts.
    Texts,
    /// An object where a text belongs.
    Object,
    /// Nothing at all.
    Empty,
    /// Without what is required; right when asked again.
    LackingOnce,
    /// Without what is required.
    Lacking,
}

/// The numbering of parallel calls.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum NumberingHabit {
    Counted,
    /// All are number 0.
    Zero,
    Absent,
}

/// The form of a tool's name.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum NameHabit {
    Declared,
    /// In another case.
    Case,
    /// With a name that nobody declared.
    Unknown,
}

/// The position of reasoning.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum ReasoningHabit {
    None,
    /// In the text, between tags.
    Tags,
    /// In a member of their own.
    Member,
}

/// The end of a response.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum EndHabit {
    Whole,
    /// With an error after some words.
    Error,
    /// With a broken connection after some words.
    Break,
    /// With bytes that are nothing.
    Garbage,
}

const SOUND: WritingHabits = WritingHabits {
    calls: 1,
    arguments: ArgumentHabit::Sound,
    numbering: NumberingHabit::Counted,
    is_interleaved: false,
    has_ids: true,
    name: NameHabit::Declared,
    reasoning: ReasoningHabit::None,
    is_silent_on_tools: false,
    finish: None,
    end: EndHabit::Whole,
    pause: Duration::ZERO,
    pace: Duration::ZERO,
    repeats: 1,
};

const NATIVE: &[(&str, &Protocol)] = &[
    ("openai-chat", &OPENAI_CHAT),
    ("openai-responses", &OPENAI_RESPONSES),
    ("anthropic", &ANTHROPIC_MESSAGES),
    ("gemini", &GEMINI_GENERATE_CONTENT),
    ("ollama", &OLLAMA),
    ("cohere", &COHERE_V2),
];

const REFUSALS: &[(&str, u16, &str, Option<u32>)] = &[
    ("status-400", 400, "invalid_request_error", None),
    ("status-401", 401, "authentication_error", None),
    ("status-429", 429, "rate_limit_error", Some(7)),
    ("status-500", 500, "server_error", None),
    ("status-503", 503, "service_unavailable_error", Some(2)),
];

/// The faulty models, over chat completions.
const FAULTS: &[(&str, &str, WritingHabits)] = &[
    (
        "broken-json",
        "arguments that are not quite JSON",
        WritingHabits { arguments: ArgumentHabit::Broken, ..SOUND },
    ),
    (
        "truncated",
        "a call cut off by the limit of tokens",
        WritingHabits { arguments: ArgumentHabit::Cut, finish: Some("length"), ..SOUND },
    ),
    ("wrong-types", "numbers and lists as texts", WritingHabits { arguments: ArgumentHabit::Texts, ..SOUND }),
    (
        "same-index",
        "parallel calls with one number",
        WritingHabits { calls: 2, numbering: NumberingHabit::Zero, ..SOUND },
    ),
    (
        "no-index",
        "parallel calls without numbers",
        WritingHabits { calls: 2, numbering: NumberingHabit::Absent, ..SOUND },
    ),
    ("parallel", "two calls in a turn", WritingHabits { calls: 2, ..SOUND }),
    ("interleaved", "two calls by turns", WritingHabits { calls: 2, is_interleaved: true, ..SOUND }),
    ("finish-stop", "calls that end with stop", WritingHabits { finish: Some("stop"), ..SOUND }),
    (
        "object-arguments",
        "arguments as an object",
        WritingHabits { arguments: ArgumentHabit::Object, ..SOUND },
    ),
    ("empty-arguments", "arguments as nothing", WritingHabits { arguments: ArgumentHabit::Empty, ..SOUND }),
    (
        "lacking-arguments",
        "arguments without what is required",
        WritingHabits { arguments: ArgumentHabit::Lacking, ..SOUND },
    ),
    (
        "lacking-once",
        "arguments without what is required, right when asked again",
        WritingHabits { arguments: ArgumentHabit::LackingOnce, ..SOUND },
    ),
    ("name-case", "a tool's name in another case", WritingHabits { name: NameHabit::Case, ..SOUND }),
    ("unknown-tool", "a tool that nobody declared", WritingHabits { name: NameHabit::Unknown, ..SOUND }),
    ("no-ids", "calls without ids", WritingHabits { has_ids: false, ..SOUND }),
    (
        "think-tags",
        "thoughts in the text, no calls",
        WritingHabits { reasoning: ReasoningHabit::Tags, is_silent_on_tools: true, ..SOUND },
    ),
    (
        "reasoning",
        "thoughts in a member of their own, no calls",
        WritingHabits { reasoning: ReasoningHabit::Member, is_silent_on_tools: true, ..SOUND },
    ),
    (
        "call-beside-thinking",
        "thoughts in the text, then a call",
        WritingHabits { reasoning: ReasoningHabit::Tags, ..SOUND },
    ),
    (
        "error-mid-stream",
        "an error after some words",
        WritingHabits { end: EndHabit::Error, is_silent_on_tools: true, ..SOUND },
    ),
    (
        "abrupt-end",
        "a connection that breaks after some words",
        WritingHabits { end: EndHabit::Break, is_silent_on_tools: true, ..SOUND },
    ),
    ("cut-call", "a connection that breaks inside a call", WritingHabits { end: EndHabit::Break, ..SOUND }),
    (
        "garbage",
        "bytes that are nothing after some words",
        WritingHabits { end: EndHabit::Garbage, is_silent_on_tools: true, ..SOUND },
    ),
    (
        "silence",
        "22 seconds of silence in mid-answer",
        WritingHabits { pause: Duration::from_secs(22), is_silent_on_tools: true, ..SOUND },
    ),
    (
        "slow",
        "a long text, a piece every tenth of a second",
        WritingHabits { pace: Duration::from_millis(100), repeats: 20, is_silent_on_tools: true, ..SOUND },
    ),
];

/// All rows, those of dialects last.
pub(super) fn rows() -> &'static [DemoModel] {
    static ROWS: LazyLock<Vec<DemoModel>> = LazyLock::new(|| {
        let row = |name: &str, about, protocol, habits| DemoModel {
            name: name.to_owned(),
            about,
            protocol,
            dialect: None,
            refusal: None,
            habits,
        };
        let native = NATIVE.iter().map(|&(name, protocol)| row(name, protocol.title, protocol, SOUND));
        let refusals = REFUSALS.iter().map(|&(name, status, class, seconds)| DemoModel {
            refusal: Some((status, class, seconds)),
            ..row(name, "an error", &OPENAI_CHAT, SOUND)
        });
        let faults = FAULTS.iter().map(|&(name, about, habits)| row(name, about, &OPENAI_CHAT, habits));
        let mut rows: Vec<DemoModel> = native.chain(faults).chain(refusals).collect();
        for dialect in DialectRegistry::builtin().dialects().iter().filter(|it| text::is_writable(it)) {
            let mut name = spelled(&dialect.name);
            if rows.iter().any(|row| row.name == name) {
                name.push_str("-text");
            }
            let about = "calls written into the text";
            rows.push(DemoModel { dialect: Some(dialect), ..row(&name, about, &OPENAI_CHAT, SOUND) });
        }
        rows
    });
    &ROWS
}

impl DemoModel {
    /// The model of that name, with hyphens or underscores.
    pub(super) fn find(name: &str) -> Option<&'static Self> {
        let name = spelled(name);
        rows().iter().find(|row| row.name == name)
    }
}

fn spelled(name: &str) -> String {
    name.to_ascii_lowercase().replace('_', "-")
}
