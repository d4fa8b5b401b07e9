//! Arguments that are repaired, coerced and checked while they stream.

#[path = "support/dice.rs"]
mod dice;

use callweave::arguments::ArgumentStage;
use callweave::dialect::Tools;
use callweave::event::{
    BlockCompletion, BlockId, BlockKind, CallKind, DeltaKind, Event, EventKind, NoticeCode, Sink,
};
use callweave::json::repair::{RepairVerdict, repair};
use callweave::json::{JsonScanner, ScanStatus};
use dice::Dice;
use serde_json::json;

/// Arguments as models write them.
const WRITTEN: &[&str] = &[
    r#"{"city": "Oslo", "days": 3, "at": [1.5e3, true, null], "note": "a \"b\" \u00e9 c"}"#,
    r#"  {"a" : {"b" : [ ] , "c" : { } } }  "#,
    "{city: 'Oslo', days: 3,}",
    r#"{"a": "it is "quoted" here", "b": 1}"#,
    r#"{"a": 1, "b": tru}"#,
    r#"{"a": 1 apples, "b": 2}"#,
    "{\"a\": \"one\ntwo\", \"b\": 1}",
    r#"{"a": 1, "b": [1, 2}"#,
    r#"{"a": 1}}"#,
    r#"{"a": 1} and more"#,
    r#"{"a": "C:\new\x", "b": 1}"#,
    r#"{"a": 1,, "b": 2}"#,
    r#"{"a": 01, "b": +2, "c": .5}"#,
    r#"{"a": "x", // why
        "b": None}"#,
    "```json\n{\"a\": 1}\n```",
    r#""{\"a\": 1}""#,
    r#"{"a": "x""#,
    "not at all",
    "[1, 2]",
    "",
    "   ",
];

fn tools() -> Tools {
    Tools::from_json(&json!([{"name": "look", "parameters": {"type": "object", "required": ["days"],
        "properties": {"days": {"type": "integer"}, "at": {"type": "object"}}}}]))
}

/// The events of a call of `name` whose arguments come in these pieces.
fn mended(
    mend: &ArgumentStage,
    name: &'static str,
    pieces: &[&str],
    completion: BlockCompletion,
) -> Vec<Event<'static>> {
    let (block, mut mend, mut out) = (BlockId(0), mend.clone(), Vec::<Event<'static>>::new());
    let kind = BlockKind::ToolCall { id: None, is_made: false, name: name.into(), call: CallKind::Function };
    let deltas = pieces.iter().filter(|piece| !piece.is_empty()).map(|piece| EventKind::Delta {
        block,
        kind: DeltaKind::Arguments,
        text: (*piece).into(),
    });
    let bodies = std::iter::once(EventKind::block_start(block, kind))
        .chain(deltas)
        .chain([EventKind::BlockEnd { block, completion }]);
    bodies.for_each(|body| mend.push(Event::new(0, body), &mut out));
    mend.finish(&mut out);
    out
}

/// The arguments in the end, whether they were taken back on the way, and what was noticed.
fn told(events: &[Event<'_>]) -> (String, bool, Vec<NoticeCode>) {
    let (mut text, mut is_corrected, mut notices) = (String::new(), false, Vec::new());
    for event in events {
        match &event.body {
            EventKind::Delta { text: piece, .. } => text.push_str(piece),
            EventKind::Correction { text: whole, .. } => (text, is_corrected) = (whole.to_string(), true),
            EventKind::Notice(notice) => {
                assert_eq!(notice.block, Some(BlockId(0)), "{notice:?}");
                notices.push(notice.code);
            }
            _ => {}
        }
    }
    (text, is_corrected, notices)
}

#[test]
fn any_cut_gives_what_repair_gives() {
    let mend = ArgumentStage::new().repair();
    let mut taken_back = 0;
    for &written in WRITTEN {
        let whole = told(&mended(&mend, "f", &[written], BlockCompletion::Complete));
        let repaired = repair(written);
        match repaired.verdict {
            RepairVerdict::Repaired if repaired.text.trim_start().starts_with('{') => {
                assert_eq!(whole.0, repaired.text, "{written}");
                assert_eq!(whole.2, [NoticeCode::Repaired], "{written}");
            }
            RepairVerdict::Incomplete => assert_eq!(Some(whole.0.as_str()), repaired.closed(), "{written}"),
            _ => assert_eq!((whole.0.as_str(), &whole.2[..]), (written, &[][..]), "{written}"),
        }
        taken_back += usize::from(whole.1);
        for at in (0..=written.len()).filter(|&at| written.is_char_boundary(at)) {
            let pieces = [&written[..at], &written[at..]];
            assert_eq!(
                told(&mended(&mend, "f", &pieces, BlockCompletion::Complete)),
                whole,
                "{written:?} cut at {at}"
            );
        }
        let pieces: Vec<_> = written.split_inclusive(|_| true).collect();
        assert_eq!(
            told(&mended(&mend, "f", &pieces, BlockCompletion::Complete)),
            whole,
            "{written:?} by characters"
        );
        // Truncated arguments stay as they are.
        let cut = told(&mended(&mend, "f", &[written], BlockCompletion::Truncated));
        assert_eq!((cut.0.as_str(), cut.1), (written, false), "{written}");
    }
    // A path that turns out to be one after valid escapes, and nothing else.
    assert!(taken_back <= 1, "{taken_back} are taken back");
}

#[test]
fn what_is_sound_flows_but_for_its_last_token() {
    let written = WRITTEN[0];
    let mend = ArgumentStage::new().repair();
    let mut scanner = JsonScanner::new();
    for at in 1..written.len() {
        if !written.is_char_boundary(at) {
            continue;
        }
        scanner = JsonScanner::new();
        scanner.push(&written[..at]);
        // Without its end, so that only what flows is seen.
        let (block, mut mend, mut out) = (BlockId(0), mend.clone(), Vec::<Event<'static>>::new());
        let kind =
            BlockKind::ToolCall { id: None, is_made: false, name: "f".into(), call: CallKind::Function };
        mend.push(Event::new(0, EventKind::block_start(block, kind)), &mut out);
        let text = written[..at].into();
        mend.push(Event::new(0, EventKind::Delta { block, kind: DeltaKind::Arguments, text }), &mut out);
        let (flowed, is_corrected, _) = told(&out);
        assert!(written.starts_with(&flowed) && !is_corrected);
        assert!(at - flowed.len() <= 8, "{at}: {flowed}");
    }
    assert_eq!(scanner.status(), ScanStatus::Open);
}

#[test]
fn arguments_are_fitted_and_checked() {
    let events =
        |mend: &ArgumentStage, name, text| told(&mended(mend, name, &[text], BlockCompletion::Complete));
    let coerce = ArgumentStage::new().tools(tools()).coerce();
    let fitted = events(&coerce, "look", r#"{"days": "3", "at": "{\"x\": 1}"}"#);
    assert_eq!(fitted, (r#"{"days": 3, "at": {"x":1}}"#.to_owned(), false, vec![NoticeCode::Repaired]));
    // Arguments that fit stay as written.
    let written = r#"{ "days" : 3 }"#;
    assert_eq!(events(&coerce, "look", written), (written.to_owned(), false, vec![]));
    let both = events(&coerce.clone().repair(), "look", "{days: '3',}");
    assert_eq!((both.0.as_str(), both.1), (r#"{"days": 3}"#, false));
    let strange = events(&coerce, "jump", "{}");
    assert_eq!(strange, ("{}".to_owned(), false, vec![NoticeCode::UnknownTool]));
    #[cfg(feature = "schema")]
    {
        let check = ArgumentStage::new().tools(tools()).validate();
        let misfit = events(&check, "look", r#"{"days": "3"}"#);
        assert_eq!(misfit.2, [NoticeCode::SchemaMismatch]);
        assert_eq!(events(&check, "look", "").2, [NoticeCode::SchemaMismatch]);
        assert_eq!(events(&check, "look", written).2, []);
    }
}

/// Returns the notices in full, with the emitted text.
fn noticed(events: &[Event<'_>]) -> (String, bool, String) {
    let (text, is_corrected, _) = told(events);
    let notices = events.iter().filter(|event| matches!(event.body, EventKind::Notice(_)));
    (text, is_corrected, format!("{:?}", notices.collect::<Vec<_>>()))
}

/// The result for a call is the same in pieces, whatever the argument stage does. Returns whether something was taken
/// back.
fn any_cut_is_mended_alike(mend: &ArgumentStage, written: &str, at: usize) -> bool {
    let mut is_taken_back = false;
    for completion in [BlockCompletion::Complete, BlockCompletion::Truncated] {
        let whole = noticed(&mended(mend, "look", &[written], completion));
        let by_characters: Vec<_> = written.split_inclusive(|_| true).collect();
        let flowed = noticed(&mended(mend, "look", &by_characters, completion));
        assert_eq!(flowed, whole, "{written:?} by characters");
        if let Some((one, other)) = written.split_at_checked(at) {
            let cut = noticed(&mended(mend, "look", &[one, other], completion));
            assert_eq!(cut, whole, "{written:?} cut at {at}");
        }
        is_taken_back |= whole.1;
    }
    is_taken_back
}

fn ways(tools: &Tools) -> Vec<ArgumentStage> {
    let coerce = ArgumentStage::new().tools(tools.clone()).coerce();
    let ways = [coerce.clone(), coerce.clone().repair(), coerce.clone().repair().budget(60)];
    #[cfg(feature = "schema")]
    let ways = ways.into_iter().chain([coerce.repair().validate()]);
    ways.into_iter().collect()
}

#[test]
fn what_flows_is_what_would_be_held() {
    for mend in ways(&tools()) {
        for &written in WRITTEN {
            for at in 0..=written.len() {
                any_cut_is_mended_alike(&mend, written, at);
            }
        }
    }
    let mut dice = Dice::new(3);
    for _ in 0..2_000 {
        let mut tools = Tools::default();
        tools.declare("look", Some(&dice.schema()));
        let text = dice.text();
        let damaged = dice.damaged(&text);
        for (way, mend) in ways(&tools).iter().enumerate() {
            // Only a repair takes something back, of a text that is none.
            assert!(!any_cut_is_mended_alike(mend, &text, dice.below(text.len() + 1)), "{text}");
            let is_taken_back = any_cut_is_mended_alike(mend, &damaged, dice.below(damaged.len() + 1));
            assert!(!is_taken_back || way > 0, "{damaged}");
        }
    }
}

/// The deltas of a call whose arguments come in these pieces: the text emitted with each of them.
fn deltas(mend: &ArgumentStage, pieces: &[&str]) -> Vec<String> {
    let (block, mut mend, mut told) = (BlockId(0), mend.clone(), Vec::new());
    let kind =
        BlockKind::ToolCall { id: None, is_made: false, name: "look".into(), call: CallKind::Function };
    mend.push(Event::new(0, EventKind::block_start(block, kind)), &mut Vec::<Event<'static>>::new());
    for piece in pieces {
        let (text, mut out) = ((*piece).into(), Vec::<Event<'static>>::new());
        mend.push(Event::new(0, EventKind::Delta { block, kind: DeltaKind::Arguments, text }), &mut out);
        told.push(self::told(&out).0);
    }
    told
}

#[test]
fn what_fits_leaves_with_its_piece() {
    let mut tools = Tools::default();
    let file =
        json!({"type": "object", "properties": {"path": {"type": "string"}, "contents": {"type": "string"}}});
    tools.declare("look", Some(&file));
    for mend in ways(&tools) {
        let mut pieces = vec!["{\"path\": \"a.rs\", \"contents\": \"".to_owned()];
        pieces.extend((0..100).map(|line| format!("let x{line} = {line};\\n")));
        let pieces: Vec<&str> = pieces.iter().map(String::as_str).collect();
        assert_eq!(deltas(&mend, &pieces), pieces);
    }
}

#[test]
fn a_cut_call_keeps_what_was_coerced_and_says_so() {
    let mend = ArgumentStage::new().tools(tools()).coerce();
    let cut = |text| told(&mended(&mend, "look", &[text], BlockCompletion::Truncated));
    assert_eq!(cut(r#"{"days": "3"#), (r#"{"days": "3"#.into(), false, vec![]));
    assert_eq!(cut(r#"{"days": "3", "x"#), (r#"{"days": 3, "x"#.into(), false, vec![NoticeCode::Repaired]));
    // A member that waits for the end of its object does not come any more.
    assert_eq!(cut(r#"{"Days": 3, "x": "y"#), (r#"{ "x": "y"#.into(), false, vec![NoticeCode::Repaired]));
}

#[test]
fn calls_that_grow_side_by_side_are_mended_apart() {
    let (mut mend, mut out) = (ArgumentStage::new().repair(), Vec::<Event<'static>>::new());
    let start = |block| {
        let kind =
            BlockKind::ToolCall { id: None, is_made: false, name: "f".into(), call: CallKind::Function };
        EventKind::block_start(BlockId(block), kind)
    };
    let delta = |block, text: &'static str| EventKind::Delta {
        block: BlockId(block),
        kind: DeltaKind::Arguments,
        text: text.into(),
    };
    let end = |block| EventKind::BlockEnd { block: BlockId(block), completion: BlockCompletion::Complete };
    let bodies = [
        start(0),
        start(1),
        delta(0, "{a: "),
        delta(1, "{\"b\": 2"),
        delta(0, "1}"),
        delta(1, "}"),
        end(1),
        end(0),
    ];
    bodies.into_iter().for_each(|body| mend.push(Event::new(0, body), &mut out));
    let mut message = callweave::Accumulator::new();
    out.into_iter().for_each(|event| message.put(event));
    let calls: Vec<_> = message.message().tool_calls().map(|call| call.arguments().to_owned()).collect();
    assert_eq!(calls, [r#"{"a": 1}"#, r#"{"b": 2}"#]);
}

#[test]
fn a_declared_tool_is_called_by_its_name() {
    let name = |mend: &ArgumentStage, written: &'static str| {
        let events = mended(mend, written, &[r#"{"days": "3"}"#], BlockCompletion::Complete);
        let EventKind::BlockStart { kind: BlockKind::ToolCall { name, .. }, .. } = &events[0].body else {
            panic!("{events:?}");
        };
        (name.to_string(), told(&events))
    };
    let fitted = ArgumentStage::new().tools(tools()).coerce();
    let repaired = [NoticeCode::Repaired; 2].to_vec();
    assert_eq!(name(&fitted, "Look"), ("look".into(), (r#"{"days": 3}"#.into(), false, repaired)));
    assert_eq!(name(&fitted, "look").1.2, [NoticeCode::Repaired]);
    // The name stays where nothing is to be coerced, and where no tool is meant.
    assert_eq!(name(&ArgumentStage::new().tools(tools()), "Look").0, "Look");
    assert_eq!(
        name(&fitted, "lookup"),
        ("lookup".into(), (r#"{"days": "3"}"#.into(), false, vec![NoticeCode::UnknownTool]))
    );
}
