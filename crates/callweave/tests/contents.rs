//! Contents are never calls: for any text in a value, writing the call and reading it gives that call and no other.
//!
//! Values are made of pieces: all markers, closers, openers and complete examples of all dialects. One piece and two
//! are tried in every dialect against its own and all others, three at random; with `CONTENTS=full` every pair of any
//! two, and more at random.

#[path = "dialects/laws.rs"]
#[allow(dead_code, reason = "other tests use the rest")]
mod laws;
#[path = "contents/written.rs"]
mod written;

use std::collections::BTreeMap;

use callweave::dialect::{Dialect, DialectRegistry, DialectStage, ExtractOptions, Extraction, Tools};
use callweave::event::{BlockCompletion, BlockId, BlockKind, DeltaKind, Event, EventKind};
use serde_json::json;
use written::{Template, Untold, own_pieces, pieces};

fn dialects() -> &'static [Dialect] {
    DialectRegistry::builtin().dialects()
}

fn tools() -> Tools {
    Tools::from_json(&json!([
        {"name": "get_weather", "parameters": {"type": "object", "properties": {"city": {"type": "string"}}}},
        {"name": "shell", "parameters": {"type": "object", "properties": {"command": {"type": "string"}}}},
    ]))
}

fn is_full() -> bool {
    std::env::var("CONTENTS").is_ok_and(|how| how == "full")
}

/// A dialect, how a call is written in it, and the ways to read it.
struct Subject {
    template: Template,
    named: ExtractOptions,
    auto: ExtractOptions,
    /// Its own markers and example.
    own: Vec<String>,
}

/// The results for many values: how many were tried, and the values that no reader can tell, by reason and dialect.
#[derive(Default)]
struct Tried {
    all: usize,
    untold: BTreeMap<(Untold, String), Vec<String>>,
    /// The values that are misread.
    faults: Vec<String>,
}

impl Subject {
    fn all() -> Vec<Self> {
        let auto = ExtractOptions::new("auto").expect("auto").tools(tools());
        let of = |dialect: &Dialect| Self {
            template: Template::of(dialect),
            named: ExtractOptions::with_dialects(vec![dialect.clone()]).tools(tools()),
            auto: auto.clone(),
            own: own_pieces(dialect).into_iter().chain([dialect.example.clone()]).collect(),
        };
        dialects().iter().map(of).collect()
    }

    /// Writes a call with this value, and reads it.
    fn try_value(&self, value: &str, options: &ExtractOptions, tried: &mut Tried) {
        tried.all += 1;
        let text = self.template.write(value);
        let found = Extraction::of(&text, options);
        let valid: Vec<_> = found.calls.iter().filter(|call| call.invalid().is_none()).collect();
        let arguments = |text: &str| serde_json::from_str::<serde_json::Value>(text).unwrap_or_default();
        let is_same = match (&valid[..], found.calls.len()) {
            ([call], 1) => {
                call.name == "get_weather" && arguments(call.arguments()) == json!({"city": value})
            }
            _ => false,
        };
        if is_same {
            return;
        }
        let name = &self.template.name;
        match self.template.untold(value) {
            // A value that looks like the end of the call is one.
            Some(why) if valid.len() <= 1 || why == Untold::End => {
                return tried.untold.entry((why, name.clone())).or_default().push(value.to_owned());
            }
            _ => {}
        }
        let calls = found.calls.iter().map(|call| format!("{} {}", call.name, call.arguments()));
        let calls: Vec<_> = calls.collect();
        let valid = valid.len();
        tried.faults.push(format!("{name}: {text:?} reads as {calls:?}, {valid} valid, {:?}", found.content));
    }
}

impl Tried {
    fn conclude(&self) {
        let some = self.faults.iter().step_by(1 + self.faults.len() / 20).cloned().collect::<Vec<_>>();
        assert!(self.faults.is_empty(), "{} of {}:\n{}", self.faults.len(), self.all, some.join("\n"));
        let untold: usize = self.untold.values().map(Vec::len).sum();
        println!("{} calls, {untold} with values that no reader can tell:", self.all);
        for ((why, name), values) in &self.untold {
            println!("  {why:?} {name}: {}, {:?} …", values.len(), values[0]);
        }
        assert!(untold * 40 < self.all, "{untold} of {}", self.all);
    }
}

#[test]
fn one_piece_is_data_in_any_cut() {
    let (all, mut tried) = (pieces(dialects()), Tried::default());
    for subject in Subject::all() {
        for piece in &all {
            subject.try_value(piece, &subject.named, &mut tried);
            subject.try_value(piece, &subject.auto, &mut tried);
        }
        for piece in &subject.own {
            let text = subject.template.write(&format!("a {piece} b"));
            for options in [&subject.named, &subject.auto] {
                let cut = laws::check(&text, options);
                cut.unwrap_or_else(|found| panic!("{}: {text:?}: {found}", subject.template.name));
            }
        }
    }
    tried.conclude();
}

#[test]
fn two_pieces_are_data() {
    let (all, mut tried) = (pieces(dialects()), Tried::default());
    for (number, subject) in Subject::all().iter().enumerate() {
        let first = if is_full() { &all } else { &subject.own };
        for (at, one) in first.iter().enumerate() {
            for (turn, other) in all.iter().enumerate() {
                subject.try_value(&format!("{one}{other}"), &subject.named, &mut tried);
                // Each pair is read in one of the other ways.
                match (number + at + turn) % 4 {
                    0 => subject.try_value(&format!("{one}{other}"), &subject.auto, &mut tried),
                    1 => subject.try_value(&format!("{other}{one}"), &subject.auto, &mut tried),
                    2 => subject.try_value(&format!("{other}\n{one}"), &subject.named, &mut tried),
                    _ => subject.try_value(&format!("{other}{one}"), &subject.named, &mut tried),
                }
            }
        }
    }
    tried.conclude();
}

/// Numbers that look random and are always the same.
struct Numbers(u64);

impl Numbers {
    fn below(&mut self, end: usize) -> usize {
        self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (self.0 >> 33) as usize % end
    }
}

#[test]
fn three_pieces_are_data_in_any_cut() {
    let (all, mut tried, mut numbers) = (pieces(dialects()), Tried::default(), Numbers(26));
    for subject in Subject::all() {
        for round in 0..if is_full() { 10_000 } else { 600 } {
            let mut piece = || match numbers.below(3) {
                0 => all[numbers.below(all.len())].as_str(),
                _ => subject.own[numbers.below(subject.own.len())].as_str(),
            };
            let pieces = [piece(), piece(), piece()];
            let value = pieces.join(["", "\n", " "][round % 3]);
            let options = if round % 2 == 0 { &subject.named } else { &subject.auto };
            subject.try_value(&value, options, &mut tried);
            if round % 20 == 0 {
                let text = subject.template.write(&value);
                let cut = laws::check(&text, options);
                cut.unwrap_or_else(|found| panic!("{}: {text:?}: {found}", subject.template.name));
            }
        }
    }
    tried.conclude();
}

/// The calls that a pipeline hands on: arguments, and how each ended.
fn handed_on(text: &str, options: &ExtractOptions) -> Vec<(String, BlockCompletion)> {
    let mut events: Vec<Event<'static>> = Vec::new();
    let mut stage = DialectStage::new(options);
    let block = BlockId(0);
    let delta = EventKind::Delta { block, kind: DeltaKind::Text, text: text.into() };
    let end = EventKind::BlockEnd { block, completion: BlockCompletion::Complete };
    for body in [EventKind::block_start(block, BlockKind::Text), delta, end] {
        stage.push(Event::new(0, body), &mut events);
    }
    stage.finish(&mut events);
    let mut calls: BTreeMap<u32, (String, BlockCompletion)> = BTreeMap::new();
    for event in &events {
        match &event.body {
            EventKind::BlockStart { block, kind: BlockKind::ToolCall { .. }, .. } => {
                calls.insert(block.0, (String::new(), BlockCompletion::Truncated));
            }
            EventKind::Delta { block, text, .. } => {
                calls.entry(block.0).and_modify(|(arguments, _)| arguments.push_str(text));
            }
            EventKind::BlockEnd { block, completion } => {
                calls.entry(block.0).and_modify(|(_, how)| *how = *completion);
            }
            _ => {}
        }
    }
    calls.into_values().collect()
}

/// Many clients run everything they can parse, so a call that must not be run is handed on in a form that no tool
/// takes.
#[test]
fn a_call_after_damage_is_handed_on_so_that_nobody_can_run_it() {
    let text = "<tool_call>{\"name\": \"get_weather\", \"arguments\": {\"city\": \"Oslo}}</tool_call>\n\
                <tool_call>{\"name\": \"shell\", \"arguments\": {\"command\": \"ls\"}}</tool_call>";
    for dialect in ["hermes", "auto"] {
        let options = ExtractOptions::new(dialect).expect("a dialect").tools(tools());
        let [_, (arguments, how)] = &handed_on(text, &options)[..] else { panic!("two calls") };
        let held = json!({"INVALID_JSON": "{\"command\": \"ls\"}"}).to_string();
        assert_eq!((arguments, *how), (&held, BlockCompletion::AfterDamage));
        let found = Extraction::of(text, &options);
        let completions = found.calls.iter().map(|call| call.completion).collect::<Vec<_>>();
        assert_eq!(completions[1], BlockCompletion::AfterDamage);
        assert_ne!(completions[0], BlockCompletion::AfterDamage);
        assert_eq!(json!(found)["calls"][1]["after_damage"], true);
        let accepting = options.accepting_calls_after_damage();
        let [_, (arguments, how)] = &handed_on(text, &accepting)[..] else { panic!("two calls") };
        assert_eq!((arguments.as_str(), *how), ("{\"command\": \"ls\"}", BlockCompletion::Complete));
        let found = Extraction::of(text, &accepting);
        assert!(found.calls[1].invalid().is_none());
        assert_eq!(json!(found)["calls"][1]["after_damage"], true);
    }
}
