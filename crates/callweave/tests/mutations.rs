//! Streams damaged on purpose: frames dropped, doubled, swapped and truncated, numbers and ids missing, names split.
//! Every loss or change is marked, or cannot be seen by any reader of the stream.
//!
//! The streams are our own cases, so that a new case is damaged too. Whether a change can be seen at all is decided by
//! rules about the damaged frames ([`unseen`]), never case by case.

mod laws;

use std::collections::BTreeMap;
use std::fs;

use callweave::accumulator::Accumulator;
use callweave::event::{BlockCompletion, CallKind, Event, FinishReason, Sink};
use callweave::fragment::{BlockAddress, BlockKey, Fragment, FragmentArguments, FragmentKind, TextChannel};
use callweave::framing::{Frame, FrameKind, Framer, StreamLimits};
use callweave::grammar::EventValidator;
use callweave::json::Tape;
use callweave::message::{Choice, Message};
use callweave::pipeline::FrameDecoder;
use callweave::protocol::{Protocol, ProtocolFrame, TABLE};
use laws::{boundary, data, folders, name};
use serde_json::Value;

#[derive(Clone, Debug, PartialEq)]
struct Framed {
    event: Option<String>,
    data: String,
    kind: FrameKind,
}

/// The frames of an input.
fn frames(bytes: &[u8]) -> Vec<Framed> {
    let mut frames = Vec::new();
    let mut framer = Framer::detect(StreamLimits::default());
    let mut keep = |frame: Frame<'_>| {
        let Frame { event, data, kind, .. } = frame;
        frames.push(Framed { event: event.map(Into::into), data: data.to_owned(), kind });
    };
    let _ = framer.push(bytes, &mut keep);
    let _ = framer.finish(&mut keep);
    frames
}

/// The message of some frames; none if nothing could be made of them, which is an error.
fn decode(protocol: &'static Protocol, frames: &[Framed]) -> Option<Message> {
    let (mut accumulator, mut validator) = (Accumulator::new(), EventValidator::new());
    let mut sink = |event: Event<'_>| {
        validator.put(event.clone());
        accumulator.put(event);
    };
    let mut decoder = FrameDecoder::new(protocol);
    for (offset, Framed { event, data, kind }) in (0..).zip(frames) {
        let event = event.as_deref();
        decoder.push(
            &Frame { event, data, id: None, offset, data_offset: None, kind: *kind, is_lossy: false },
            &mut sink,
        );
    }
    let is_known = decoder.finish(&mut sink).is_ok();
    let faults = if is_known { validator.finish() } else { validator.faults().to_vec() };
    assert!(faults.is_empty(), "{}: {faults:#?}\n{frames:#?}", protocol.name);
    is_known.then(|| accumulator.take())
}

/// A damaged stream.
struct Mutant {
    what: &'static str,
    frames: Vec<Framed>,
    /// The frames of the sound stream that were lost, repeated, moved or changed.
    touched: Vec<Framed>,
}

/// A provider's habit: the members it leaves out of every frame.
type Habit = fn(&str, &Value) -> Option<Value>;

const HABITS: [(&str, Habit); 2] = [
    ("without numbers", |key, value| {
        (!(key.to_lowercase().ends_with("index") && value.is_number())).then(|| value.clone())
    }),
    ("with null ids", |key, value| {
        let is_id = matches!(key, "id" | "call_id" | "item_id" | "tool_call_id" | "toolUseId" | "itemId");
        Some(if is_id { Value::Null } else { value.clone() })
    }),
];

/// Every damage to one stream.
fn mutants(sound: &[Framed], message: &Message) -> Vec<Mutant> {
    let mut mutants = Vec::new();
    for (what, habit) in HABITS {
        let change = |frame: &Framed| match serde_json::from_str::<Value>(&frame.data) {
            Ok(value) => Framed { data: members(&value, habit).to_string(), ..frame.clone() },
            Err(_) => frame.clone(),
        };
        mutants.push(Mutant { what, frames: sound.iter().map(change).collect(), touched: sound.to_vec() });
    }
    for at in 0..sound.len() {
        let mut put = |what, frames: Vec<Framed>, touched: &[Framed]| {
            if frames != sound {
                mutants.push(Mutant { what, frames, touched: touched.to_vec() });
            }
        };
        let (before, own, after) = (&sound[..at], &sound[at..=at], &sound[at + 1..]);
        put("dropped", [before, after].concat(), own);
        put("doubled", [before, own, own, after].concat(), own);
        put("ended before", before.to_vec(), &sound[at..]);
        if let [next, rest @ ..] = after {
            let next = std::slice::from_ref(next);
            put("swapped", [before, next, own, rest].concat(), &[own, next].concat());
        }
        let half = boundary(&own[0].data, own[0].data.len() / 2);
        let cut = Framed { data: own[0].data[..half].to_owned(), ..own[0].clone() };
        put("cut inside", [before, &[cut], after].concat(), own);
        let Ok(value) = serde_json::from_str::<Value>(&own[0].data) else { continue };
        // The same frame twice, each with a half of the name.
        let names: Vec<&str> =
            message.choices.iter().flat_map(Choice::tool_calls).map(|call| call.name.as_str()).collect();
        let half_named = |is_first: bool| {
            let changed = members(&value, |key, value| {
                let name =
                    value.as_str().filter(|name| key == "name" && name.len() > 1 && names.contains(name));
                let halves = name.map(|name| name.split_at(boundary(name, name.len() / 2)));
                Some(
                    halves
                        .map_or_else(|| value.clone(), |(one, two)| if is_first { one } else { two }.into()),
                )
            });
            Framed { data: changed.to_string(), ..own[0].clone() }
        };
        let halves = [half_named(true), half_named(false)];
        if halves[0] != halves[1] {
            put("with a split name", [before, &halves, after].concat(), own);
        }
    }
    mutants
}

/// The value with every member as `change` says, at any depth.
fn members(value: &Value, change: impl Fn(&str, &Value) -> Option<Value> + Copy) -> Value {
    match value {
        Value::Array(items) => items.iter().map(|item| members(item, change)).collect(),
        Value::Object(object) => {
            let kept = object.iter().filter_map(|(key, value)| Some((key.clone(), change(key, value)?)));
            Value::Object(kept.map(|(key, value)| (key, members(&value, change))).collect())
        }
        other => other.clone(),
    }
}

/// The content of a response, as far as a caller uses it, by choice. Ids are not content.
#[derive(PartialEq, Debug)]
struct Said {
    texts: BTreeMap<u32, String>,
    calls: BTreeMap<u32, Vec<Called>>,
    /// The number of choices.
    choices: usize,
}

type Called = (String, String, CallKind);

fn said(message: &Message) -> Said {
    let text = |choice: &Choice| [choice.text(), choice.reasoning(), choice.refusal()].join("\0");
    let calls = |choice: &Choice| -> Vec<Called> {
        choice.tool_calls().map(|call| (call.name.clone(), call.arguments().to_owned(), call.kind)).collect()
    };
    let texts = message.choices.iter().map(|choice| (choice.number, text(choice)));
    let calls = message.choices.iter().map(|choice| (choice.number, calls(choice)));
    Said {
        texts: texts.filter(|(_, text)| text.len() > 2).collect(),
        calls: calls.filter(|(_, calls)| !calls.is_empty()).collect(),
        choices: message.choices.len(),
    }
}

impl Said {
    fn is_same(&self, other: &Self) -> bool {
        self.texts == other.texts && self.calls == other.calls
    }

    fn calls(&self) -> Vec<Called> {
        self.calls.values().flatten().cloned().collect()
    }

    fn names(&self) -> Vec<String> {
        self.calls().into_iter().map(|(name, ..)| name).collect()
    }

    /// All calls, in a canonical order.
    fn sorted(&self) -> Vec<Called> {
        let mut calls = self.calls();
        calls.sort_by(|one, other| (&one.0, &one.1).cmp(&(&other.0, &other.1)));
        calls
    }

    /// All letters, in a canonical order.
    fn letters(&self) -> Vec<char> {
        let mut letters: Vec<char> = self.texts.values().flat_map(|text| text.chars()).collect();
        letters.sort_unstable();
        letters
    }
}

/// The marks of damage that a message bears: notices, errors, unusable calls, reasons to finish other than
/// being done.
fn marks(message: &Message) -> BTreeMap<String, usize> {
    let mut marks = BTreeMap::new();
    let mut mark = |what: String| *marks.entry(what).or_default() += 1;
    message.notices.iter().for_each(|notice| mark(format!("{:?}", notice.code)));
    message.errors.iter().for_each(|_| mark("error".to_owned()));
    for choice in &message.choices {
        for call in choice.tool_calls() {
            if call.completion == BlockCompletion::Truncated || call.invalid().is_some() {
                mark("unusable call".to_owned());
            }
        }
        match choice.finish.as_ref().map(|finish| finish.reason) {
            Some(FinishReason::Stop | FinishReason::ToolCalls) => {}
            other => mark(format!("{other:?}")),
        }
    }
    marks
}

/// Whether there is a mark that the sound stream has not. A stream that was incomplete to begin with has to bear some
/// mark.
fn is_marked(marks: &BTreeMap<String, usize>, known: &BTreeMap<String, usize>) -> bool {
    let is_new = |(mark, count): (&String, &usize)| known.get(mark).is_none_or(|known| count > known);
    marks.iter().any(is_new) || !known.is_empty() && !marks.is_empty()
}

/// The content of frames, by the protocol's own reading.
#[derive(Default)]
struct Saying {
    /// The texts that grow.
    texts: Vec<(u32, TextChannel)>,
    /// The texts that come complete, with their block keys.
    restated: Vec<(u32, TextChannel, Option<BlockAddress>, String)>,
    calls: Vec<Telling>,
    is_finished: bool,
}

/// The content of a frame about a call.
struct Telling {
    choice: u32,
    place: Option<BlockAddress>,
    id: Option<String>,
    is_named: bool,
    /// Argument text that is appended, or a leaf.
    is_piece: bool,
    /// Whether these arguments are complete by themselves.
    is_complete: bool,
}

impl Telling {
    fn is_of_the_same_call(&self, other: &Self) -> bool {
        let has_same_id = self.id.is_some() && self.id == other.id;
        self.choice == other.choice && (self.place == other.place || has_same_id)
    }
}

fn saying<'f>(protocol: &Protocol, frames: impl IntoIterator<Item = &'f Framed>) -> Saying {
    let mut saying = Saying::default();
    let mut tape = Tape::new();
    for frame in frames {
        saying.is_finished |= frame.data.trim() == "[DONE]";
        let Ok(value) = tape.parse(&frame.data) else { continue };
        let mut read = |Fragment { choice, key, part }: Fragment<'_>| {
            let place = key.map(BlockKey::reveal);
            match part {
                FragmentKind::Text { channel, .. } => saying.texts.push((choice, channel)),
                FragmentKind::Restate { channel, text, .. } if !text.is_empty() => {
                    saying.restated.push((choice, channel, place, text.reveal().to_cow().into_owned()));
                }
                FragmentKind::Call { id, name, arguments, .. } => {
                    let (is_piece, is_complete) = match arguments {
                        Some(FragmentArguments::Text(text)) => {
                            (!text.is_empty(), Tape::new().parse(&text.reveal().to_cow()).is_ok())
                        }
                        Some(FragmentArguments::Leaf { .. }) => (true, false),
                        Some(FragmentArguments::Complete(_) | FragmentArguments::Value(_)) => (false, true),
                        Some(FragmentArguments::Opening { fallback, .. }) => (false, fallback.is_some()),
                        None => (false, false),
                    };
                    let (id, is_named) = (id.map(|id| id.reveal().to_cow().into_owned()), name.is_some());
                    saying.calls.push(Telling { choice, place, id, is_named, is_piece, is_complete });
                }
                FragmentKind::Finish { .. } | FragmentKind::Done => saying.is_finished = true,
                _ => {}
            }
        };
        protocol.decode(&ProtocolFrame { event: frame.event.as_deref(), value }, &mut read);
    }
    saying
}

/// The reason why no reader of the damaged stream can see the damage, if there is one.
fn unseen(protocol: &Protocol, mutant: &Mutant, sound: &Said, told: &Said) -> Option<&'static str> {
    let (touched, left) = (saying(protocol, &mutant.touched), saying(protocol, &mutant.frames));
    if mutant.what == "ended before" {
        return left.is_finished.then_some("the provider had said that it was done");
    }
    if sound.sorted() == told.sorted() && sound.letters() == told.letters() {
        return Some("all is there, in the order in which it came");
    }
    if mutant.what == "without numbers" && sound.choices > 1 {
        return Some("choices without numbers are one");
    }
    let others = |telling: &Telling| {
        left.calls.iter().filter(|other| other.is_named && other.is_of_the_same_call(telling)).count()
    };
    if sound.names() != told.names() {
        return calls_unseen(mutant, sound, told, &touched, &left).or_else(|| {
            let is_in_pieces = touched.calls.iter().any(|call| call.is_named && others(call) > 0);
            is_in_pieces.then_some("a name that comes in pieces")
        });
    }
    if sound.calls() != told.calls() {
        return arguments_unseen(sound, told, &touched);
    }
    let is_restated = touched.texts.iter().any(|&(choice, channel)| {
        left.restated.iter().any(|(other, same, ..)| (choice, channel) == (*other, *same))
    });
    if !touched.texts.is_empty() && !is_restated {
        return Some("a piece of a text that is not restated");
    }
    let is_shorter = told.letters().len() < sound.letters().len();
    if is_shorter && touched.restated.iter().any(|text| !left.restated.contains(text)) {
        return Some("a text that one frame tells whole");
    }
    if mutant.what == "with null ids" && !touched.restated.is_empty() {
        return Some("a text that is told again without its id");
    }
    let is_after = mutant.what == "swapped" && !touched.restated.is_empty();
    is_after.then_some("a piece of a text after the whole of it")
}

/// The same for calls that are there, or are not, or are there again.
fn calls_unseen(
    mutant: &Mutant,
    sound: &Said,
    told: &Said,
    touched: &Saying,
    left: &Saying,
) -> Option<&'static str> {
    let once = |said: &Said| {
        let mut calls = said.sorted();
        calls.dedup();
        calls
    };
    if mutant.what == "with null ids" && once(sound) == once(told) {
        return Some("a call that is told again without its id");
    }
    let goes_on = |call: &Telling| {
        let is_rest = |other: &&Telling| other.is_piece && !other.is_named && other.is_of_the_same_call(call);
        left.calls.iter().any(|other| is_rest(&other))
    };
    let mut tellings = touched.calls.iter().filter(|call| call.is_named || call.is_complete).peekable();
    let is_complete = tellings.peek().is_some() && tellings.all(|call| call.is_complete || !goes_on(call));
    is_complete.then_some("a call that one frame tells whole")
}

/// The same for the arguments of the same calls.
fn arguments_unseen(sound: &Said, told: &Said, touched: &Saying) -> Option<&'static str> {
    let texts = |said: &Said| said.calls().into_iter().map(|(_, text, _)| text).collect::<Vec<_>>();
    if texts(sound) == texts(told) {
        let is_announced = touched.calls.iter().any(|call| call.is_named);
        return is_announced.then_some("who runs a call is told where it begins, or by its id");
    }
    let is_valid =
        |(_, arguments, kind): &Called| *kind == CallKind::Custom || Tape::new().parse(arguments).is_ok();
    let are_valid = told.calls().iter().all(is_valid);
    if are_valid && touched.calls.iter().any(|call| call.is_piece) {
        return Some("arguments that are valid without the piece, with it again, or with it elsewhere");
    }
    touched.calls.iter().any(|call| call.is_complete).then_some("arguments that one frame tells whole")
}

#[test]
fn what_is_lost_is_marked() {
    let mut tally: BTreeMap<(&str, &str), usize> = BTreeMap::new();
    let mut complaints = Vec::new();
    for &protocol in TABLE {
        let mut streams = 0;
        for case in folders(&data("protocol").join(protocol.name)) {
            let input = fs::read_dir(&case).expect("a case").map(|entry| entry.expect("an entry").path());
            let input = input.into_iter().find(|path| path.file_stem().is_some_and(|stem| stem == "input"));
            let sound = frames(&fs::read(input.expect("an input")).expect("a readable input"));
            let Some(message) = decode(protocol, &sound).filter(|_| sound.len() > 1) else { continue };
            streams += 1;
            let (whole, known) = (said(&message), marks(&message));
            for mutant in mutants(&sound, &message) {
                let found = decode(protocol, &mutant.frames);
                let told = found.as_ref().map(said);
                let outcome = match (&found, &told) {
                    (Some(_), Some(told)) if told.is_same(&whole) => "the same",
                    (Some(found), _) if is_marked(&marks(found), &known) => "marked",
                    (Some(found), _) if mutant.what == "dropped" && marks(found).len() < known.len() => {
                        "without the frame nothing is odd"
                    }
                    (Some(_), Some(told)) => unseen(protocol, &mutant, &whole, told).unwrap_or("lost"),
                    _ => "marked",
                };
                if outcome == "lost" {
                    let first = mutant.touched.first().map_or("", |frame| &frame.data);
                    complaints.push(format!(
                        "{} {} {}: {first}\n  {whole:?}\n  {told:?}",
                        protocol.name,
                        name(&case),
                        mutant.what
                    ));
                }
                *tally.entry((mutant.what, outcome)).or_default() += 1;
            }
        }
        assert!(streams > 0, "{} has no streamed case", protocol.name);
    }
    for ((what, outcome), count) in &tally {
        println!("{count:5} {what}: {outcome}");
    }
    assert!(complaints.is_empty(), "{}", complaints.join("\n"));
    // Each damage is seen often enough for the rules to mean something, and the rules excuse little.
    let count = |is_wanted: &dyn Fn(&str, &str) -> bool| -> usize {
        tally.iter().filter(|((what, outcome), _)| is_wanted(what, outcome)).map(|(_, count)| count).sum()
    };
    for what in ["dropped", "doubled", "swapped", "cut inside", "ended before", "with a split name"] {
        assert!(count(&|other, outcome| other == what && outcome == "marked") > 50, "{what}");
    }
    for (what, _) in HABITS {
        assert!(count(&|other, outcome| other == what && outcome == "the same") > 150, "{what}");
    }
    assert_eq!(count(&|what, outcome| what == "cut inside" && !matches!(outcome, "marked" | "the same")), 0);
    let excused = count(&|_, outcome| !matches!(outcome, "marked" | "the same"));
    let all = count(&|_, _| true);
    assert!(all > 6_000 && excused * 12 < all, "{excused} of {all} are excused");
}
