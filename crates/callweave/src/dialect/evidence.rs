//! Decides whether a candidate is a call: the evidence is weighed here, once, for all dialects.
//!
//! A candidate is described by [`CallEvidence`]; the first of [`RULES`] that applies decides, and a notice reports its
//! reason. The position of a candidate is judged twice: when its opener is seen, which keeps text that is certainly
//! shown from being held ([`CallEvidence::at_opener`]), and when its name is known and its arguments have begun.

use super::position::MarkerPosition;
use super::table;
use super::tools::Tools;

/// How much a marker says by itself.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum MarkerStrength {
    /// A special token, a tag or a fence of the dialect's own: nobody writes it by chance.
    Strong,
    /// The tag of a call without the marker that stands around it as a rule.
    Inner,
    /// A word that prose has too.
    Word,
    /// A word that begins a body whose opener is missing.
    Start,
    /// A body whose opener is missing.
    Missing,
    /// A form that begins without any marker: JSON, a Python call.
    Bare,
}

/// The evidence that the arguments give.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum ArgumentEvidence {
    /// Nothing was looked at yet.
    Unseen,
    /// There are none, and nothing that says so.
    Absent,
    /// They have begun as the grammar demands.
    Begun,
    /// They begin with a parameter that the tool does not have.
    Foreign,
    /// They are a schema, which the tool has no parameters for.
    Schema,
    /// They begin as the grammar does not allow, or end in a way that cannot be repaired.
    Damaged,
    /// They begin as the grammar does not allow, with a word.
    Words,
}

/// The evidence for a call, and against it.
#[derive(Clone, Copy, Debug)]
pub(super) struct CallEvidence<'e> {
    pub(super) strength: MarkerStrength,
    pub(super) standing: MarkerPosition,
    /// Whether it stands in reasoning.
    pub(super) is_in_reasoning: bool,
    /// Whether it is read as the possible rest of the response; see [`CallVerdict::Doubt`].
    pub(super) is_doubted: bool,
    /// Whether it stands in a block.
    pub(super) is_in_block: bool,
    pub(super) name: &'e str,
    pub(super) arguments: ArgumentEvidence,
    pub(super) tools: &'e Tools,
    /// Whether the caller said which dialect it is.
    pub(super) is_named: bool,
    /// Whether visible text came before it.
    pub(super) has_text: bool,
    /// Whether a call of its dialect came before it.
    pub(super) is_spoken: bool,
    /// Whether an unknown tag stands before it.
    pub(super) follows_tag: bool,
    /// Whether its marker is a tag that sentences have, too, and no special token.
    pub(super) is_tag: bool,
}

/// The verdict on a candidate.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum CallVerdict {
    Call,
    /// A call if nothing but closers, blanks and further calls follow to a natural end of the response: models stop
    /// after calling, authors go on writing.
    Doubt,
    Text,
}

/// The first rule that applies decides.
struct EvidenceRule {
    applies: fn(&CallEvidence<'_>) -> bool,
    verdict: CallVerdict,
    reason: &'static str,
}

const fn rule(
    verdict: CallVerdict,
    reason: &'static str,
    applies: fn(&CallEvidence<'_>) -> bool,
) -> EvidenceRule {
    EvidenceRule { applies, verdict, reason }
}

use CallVerdict::{Call, Doubt, Text};

/// The rules for the position of an opener, before anything of the body is read.
const AT_OPENER: [EvidenceRule; 9] = [
    // A quotation is no call: `write <tool_call>`, {"answer": "<tool_call>…"}, > <tool_call>.
    rule(Text, "it is quoted", |it| it.standing == MarkerPosition::Quoted),
    // A fence that holds something else first is a listing.
    rule(Text, "it stands in a code block", |it| it.standing == MarkerPosition::Code),
    // A part of a JSON value that was no call itself.
    rule(Text, "it is part of a JSON value", |it| it.standing == MarkerPosition::Json && it.is_bare()),
    rule(Text, "it stands in a code block of reasoning", |it| {
        it.standing == MarkerPosition::Indented && it.is_in_reasoning && !it.is_doubted
    }),
    // « {"name": … } »: JSON without a marker is data there.
    rule(Text, "it is shown", |it| it.standing.is_shown() && it.is_bare()),
    rule(Doubt, "it is shown", |it| it.standing.is_shown() && !it.is_doubted),
    // An example, unless the response ends with it.
    rule(Doubt, "it stands in an indented block", |it| {
        it.standing == MarkerPosition::Indented && !it.is_doubted
    }),
    // Reasoning may quote, or its closer may have been forgotten.
    rule(Doubt, "it stands in reasoning", |it| it.is_in_reasoning && !it.is_doubted),
    rule(Call, "nothing speaks against it", |_| true),
];

/// The rules for name and arguments.
const RULES: [EvidenceRule; 15] = [
    // `<tool_call>...</tool_call>`, `<function=[`.
    rule(Text, "no tool can have that name", |it| !may_be_name(it.name) && !it.is_declared()),
    // An example in a block, or a name without its opener, has to name a tool that there is.
    rule(Text, "it stands in a block and names no declared tool", |it| {
        it.is_in_block && !it.is_declared() && !(it.is_named && it.tools.is_empty())
    }),
    // `<tool_call>name</tool_call>` is a call where somebody knows the name.
    rule(Text, "it has no arguments, and its name is not declared", |it| {
        it.arguments == ArgumentEvidence::Absent && !it.is_vouched() && !it.is_spoken
    }),
    // `<function=bash> is how Qwen writes it.`
    rule(Text, "a sentence goes on behind its tag", |it| {
        it.arguments == ArgumentEvidence::Words && it.is_tag
    }),
    // `name<|sep|>free text`: a damaged call where somebody knows the name, else a sentence.
    rule(Text, "its arguments are not what they should be, and its name is not declared", |it| {
        let is_sentence = it.standing == MarkerPosition::Plain && !it.is_named;
        it.is_damaged() && (it.is_bare() || is_sentence || !it.is_vouched())
    }),
    // `<tool_call> and </tool_call>`, `<function=NAME>`.
    rule(Text, "its name is a word of the sentence around it, or stands for one", |it| {
        let is_filler = it.arguments == ArgumentEvidence::Absent && is_filler(it.name);
        let is_placeholder = !it.is_named && is_placeholder(it.name);
        (is_filler || is_placeholder) && !it.is_declared()
    }),
    // The description of a tool stands between markers, too: <tools>{"name": …}</tools>.
    rule(Text, "it describes a tool", |it| it.arguments == ArgumentEvidence::Schema),
    // The description of a tool has the keys of one: {"name": …, "parameters": {"type": "object"}}.
    rule(Text, "its arguments are not those of the tool", |it| {
        it.arguments == ArgumentEvidence::Foreign && it.is_weak()
    }),
    // JSON and Python are common in responses; a name that was declared is not.
    rule(Text, "it has no marker, and its name is not declared", |it| it.is_weak() && !it.is_vouched()),
    // A body that lost its opener has to name a tool that there is.
    rule(Text, "it has no opener, and its name is not declared", |it| {
        it.strength == MarkerStrength::Missing && !it.is_declared() && !(it.is_named && it.tools.is_empty())
    }),
    // A list of people has names as well; and among words, JSON of a tool that nobody declared is data.
    rule(Text, "nothing else speaks for it, and its name is not declared", |it| {
        let is_alone =
            it.arguments == ArgumentEvidence::Absent || it.strength == MarkerStrength::Bare && it.has_text;
        it.is_bare() && is_alone && !it.is_declared() && !it.tools.is_empty()
    }),
    // `write <function=f> to …`: the tag alone, in the middle of a line, is shown.
    rule(Text, "it is a tag among words", |it| {
        it.strength == MarkerStrength::Inner && it.standing == MarkerPosition::Plain && !it.is_declared()
    }),
    // `call:f{…} is how it is written.`
    rule(Doubt, "it has no opener", |it| it.is_openerless() && !it.is_doubted),
    // `Send {"name": "f", …} to it.`
    rule(Doubt, "it stands among words", |it| {
        let is_among = it.standing == MarkerPosition::Plain || it.has_text && !it.follows_tag;
        it.strength == MarkerStrength::Bare && is_among && !it.is_named && !it.is_doubted
    }),
    rule(Call, "its marker and its name are those of a call", |_| true),
];

/// The maximum length of a name.
const LONGEST_NAME: usize = 256;

/// Whether a tool could have that name at all.
pub(super) fn may_be_name(name: &str) -> bool {
    let is_never = |letter: char| letter.is_control() || "<>{}[]()`|*$\\".contains(letter);
    name.starts_with(|first: char| first.is_alphanumeric() || first == '_')
        && name.len() <= LONGEST_NAME
        && !name.contains(is_never)
}

/// Whether it is a word that stands among tags, and names nothing.
pub(super) fn is_filler(name: &str) -> bool {
    is_among(&table::NO_NAMES, name) || is_placeholder(name)
}

/// Whether it stands for a name, perhaps for one of several: `tool_name_2`.
fn is_placeholder(name: &str) -> bool {
    let stem = name.trim_end_matches(|digit: char| digit.is_ascii_digit());
    let stem = if stem.len() < name.len() { stem.trim_end_matches(['-', '_']) } else { stem };
    is_among(&table::PLACEHOLDERS, stem)
}

fn is_among(words: &[&str], name: &str) -> bool {
    words.iter().any(|word| word.eq_ignore_ascii_case(name))
}

impl CallEvidence<'_> {
    /// Returns the verdict that the opener's position gives.
    pub(super) fn at_opener(&self) -> (CallVerdict, &'static str) {
        self.weigh(&AT_OPENER)
    }

    /// Returns the verdict of all the evidence together.
    pub(super) fn verdict(&self) -> (CallVerdict, &'static str) {
        self.weigh(&RULES)
    }

    fn weigh(&self, rules: &[EvidenceRule]) -> (CallVerdict, &'static str) {
        let decides = rules.iter().find(|rule| (rule.applies)(self));
        decides.map_or((Call, ""), |rule| (rule.verdict, rule.reason))
    }

    fn is_declared(&self) -> bool {
        self.tools.find(self.name).is_some()
    }

    /// Whether repaired arguments would make it a call: damage alone speaks against it.
    pub(super) fn is_worth_mending(&self) -> bool {
        let mended = Self { arguments: ArgumentEvidence::Begun, ..*self };
        let is_known = self.is_declared() || self.tools.is_empty() && self.strength == MarkerStrength::Strong;
        self.is_damaged() && is_known && mended.verdict().0 != Text
    }

    fn is_damaged(&self) -> bool {
        matches!(self.arguments, ArgumentEvidence::Damaged | ArgumentEvidence::Words)
    }

    /// Whether somebody besides the text says that there may be such a call.
    fn is_vouched(&self) -> bool {
        self.is_declared() || self.is_named
    }

    fn is_weak(&self) -> bool {
        matches!(self.strength, MarkerStrength::Word | MarkerStrength::Bare) || self.is_openerless()
    }

    fn is_bare(&self) -> bool {
        self.strength == MarkerStrength::Bare || self.is_openerless()
    }

    fn is_openerless(&self) -> bool {
        matches!(self.strength, MarkerStrength::Start | MarkerStrength::Missing)
    }
}
