//! Dialects against their own data, against the laws, and against recorded rows of other parsers.

#[path = "dialects/laws.rs"]
mod laws;
#[path = "support/record.rs"]
mod record;
#[path = "dialects/rows.rs"]
mod rows;
#[path = "support/shared.rs"]
mod shared;
#[path = "dialects/talk.rs"]
mod talk;
#[path = "dialects/usable.rs"]
mod usable;

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};

use callweave::dialect::{
    CallForm, CallMatcher, Dialect, DialectRegistry, DialectStage, ExtractOptions, Extraction, Extractor,
    MatchedCall, TextStart, Tools,
};
use callweave::event::{
    BlockId, BlockKind, CallKind, DeltaKind, Event, EventKind, EventScope, FinishReason, JsonText, Notice,
    NoticeCode, ReasoningForm, Sink,
};
use callweave::finalize::Finalizer;
use record::Record;
use serde_json::{Value, json};

fn data() -> PathBuf {
    PathBuf::from(concat!(env!("CARGO_MANIFEST_DIR"), "/tests/data/dialect"))
}

fn folders(path: &Path) -> Vec<PathBuf> {
    let entries = fs::read_dir(path).unwrap_or_else(|error| panic!("{}: {error}", path.display()));
    let mut folders: Vec<_> =
        entries.map(|entry| entry.expect("readable").path()).filter(|path| path.is_dir()).collect();
    folders.sort();
    folders
}

fn name_of(path: &Path) -> &str {
    path.file_name().and_then(|name| name.to_str()).expect("a name")
}

/// The options of a data case: the dialect by its folder, tools and starting state by its files.
fn options(dialect: &str, case: &Path) -> ExtractOptions {
    let mut options = ExtractOptions::new(dialect).expect("a dialect of that name");
    let tools = fs::read_to_string(case.join("tools.json")).ok();
    let tools =
        tools.unwrap_or_else(|| fs::read_to_string(data().join("tools.json")).expect("default tools"));
    options =
        options.tools(Tools::from_json(&serde_json::from_str::<Value>(&tools).expect("tools are JSON")));
    if let Ok(start) = fs::read_to_string(case.join("starting_in.txt")) {
        options = options.starting_in(if start.trim() == "reasoning" {
            TextStart::Reasoning
        } else {
            TextStart::Text
        });
    }
    options
}

#[test]
fn own_data() {
    let names: BTreeSet<String> = DialectRegistry::builtin()
        .dialects()
        .iter()
        .map(|dialect| dialect.name.clone())
        .chain(["auto".into()])
        .collect();
    let held: BTreeSet<String> = folders(&data()).iter().map(|path| name_of(path).to_owned()).collect();
    assert_eq!(names, held, "the dialect table and the data folders disagree");
    let bless = std::env::var_os("BLESS").is_some();
    for folder in folders(&data()) {
        let cases = folders(&folder);
        assert!(!cases.is_empty(), "{} has no case", folder.display());
        for case in cases {
            let text = fs::read_to_string(case.join("input.txt")).expect("an input");
            let options = options(name_of(&folder), &case);
            let events = laws::check(&text, &options)
                .unwrap_or_else(|difference| panic!("{}: {difference}", case.display()));
            laws::check_prefixes(&text, &options);
            let mut lines = String::new();
            for event in &events {
                lines.push_str(&serde_json::to_string(event).expect("an event is JSON"));
                lines.push('\n');
            }
            let message =
                serde_json::to_string_pretty(&Extraction::of(&text, &options)).expect("JSON") + "\n";
            for (file, found) in [("events.jsonl", lines), ("message.json", message)] {
                let path = case.join(file);
                if bless {
                    fs::write(&path, found).expect("writable");
                } else {
                    let expected = fs::read_to_string(&path).unwrap_or_default();
                    assert_eq!(found, expected, "{} (BLESS=1 writes it)", path.display());
                }
            }
        }
    }
}

/// Compares every row of a file. A row that we answer otherwise, or that asserts a part alone, is set aside
/// with its reason and our answer.
fn compare(set: &str) {
    let Some(rows) = rows::load(&format!("{set}.jsonl")) else { return };
    let mut record = Record::open(set);
    let mut board = rows::Board::default();
    for row in &rows {
        let text = row.text("text").expect("a row has a text");
        if let Err(difference) = laws::check(text, &row.options()) {
            panic!("row {} {}: {difference}\n{text:?}", row.number, row.format());
        }
        let (name, found) = (row.number.to_string(), row.extract());
        let difference = row.difference(&found);
        if difference.is_some() || !row.counts() {
            record.see(&name, &rows::answer(&found), || row.story(difference.as_deref()));
        }
        if row.counts() {
            board.add(row, difference, record.reason(&name));
        }
    }
    println!("{board}");
    record.close();
}

#[test]
fn rows_with_calls() {
    compare("dialects");
}

#[test]
fn rows_with_thoughts() {
    compare("reasoning");
}

/// Rows of sources that nobody here had used: whether the calls are right, in the dialect of the row and in none. Rows
/// that the sources themselves dispute are left out.
fn compare_calls(set: &str, options: fn(&rows::Row) -> ExtractOptions) -> f64 {
    let Some(rows) = rows::load("fresh_dialects.jsonl") else { return 1.0 };
    let (mut record, mut board) = (Record::open(set), rows::Board::default());
    for row in rows.iter().filter(|row| row.is_undisputed()) {
        let (text, options) = (row.text("text").expect("a row has a text"), options(row));
        if let Err(difference) = laws::check(text, &options) {
            panic!("row {} {}: {difference}\n{text:?}", row.number, row.format());
        }
        let (name, found) = (row.number.to_string(), row.extract_with(&options));
        let difference = row.difference_of_calls(&found);
        if difference.is_some() {
            record.see(&name, &rows::answer(&found), || row.story(difference.as_deref()));
        }
        board.add(row, difference, record.reason(&name));
    }
    println!("{board}");
    record.close();
    board.shares().0
}

#[test]
fn fresh_rows_in_their_dialect() {
    assert!(compare_calls("fresh", rows::Row::options) >= 0.96);
}

#[test]
fn fresh_rows_in_no_named_dialect() {
    // Some are bare JSON without declared tools, which counts only where the dialect is named.
    assert!(compare_calls("fresh_auto", rows::Row::auto) >= 0.949);
}

/// Texts that only talk about calls are texts.
#[test]
fn talk_about_calls() {
    let texts = talk::load();
    assert!(texts.len() >= 10, "{} texts", texts.len());
    let (mut record, mut good, mut all) = (Record::open("talk"), 0, 0);
    for talk in &texts {
        for (way, options) in talk.ways() {
            if let Err(difference) = laws::check(&talk.text, &options) {
                panic!("{} {} {way}: {difference}\n{:?}", talk.kind, talk.name, talk.text);
            }
            let found = talk.extract(&options);
            (all, good) = (all + 1, good + usize::from(found.calls.is_empty()));
            if !found.calls.is_empty() {
                let name = format!("{}/{}/{way}", talk.kind, talk.name);
                record.see(&name, &rows::answer(&found), || talk.text.clone());
            }
        }
    }
    println!("{good} of {all} texts without a call");
    record.close();
    assert!(good * 100 >= all * 98);
}

#[test]
fn every_format_of_the_rows_is_a_name() {
    for file in ["dialects.jsonl", "reasoning.jsonl"] {
        for row in rows::load(file).into_iter().flatten() {
            assert!(DialectRegistry::builtin().find(row.format()).is_some(), "{}", row.format());
        }
    }
}

const LONG: usize = 100_000;

#[test]
fn argument_text_streams_in_every_dialect() {
    for dialect in DialectRegistry::builtin().dialects() {
        let tools =
            json!([{"name": "get_weather", "parameters": {"properties": {"city": {"type": "string"}}}}]);
        let options = ExtractOptions::with_dialects(vec![dialect.clone()]).tools(Tools::from_json(&tools));
        let (before, after) = dialect.example.split_once("Oslo").expect("every example asks about Oslo");
        let text = format!("{before}{}{after}", "q".repeat(LONG));
        let mut extractor = Extractor::new(&options);
        let (mut first, mut sent, mut held, mut shown) = (None, 0, 0, 0);
        let mut rest = text.as_str();
        while !rest.is_empty() {
            let four = rest.char_indices().nth(4).map_or(rest.len(), |(at, _)| at);
            let (delta, after) = rest.split_at(four);
            rest = after;
            sent += delta.len();
            let mut sink = |event: Event<'_>| {
                if let EventKind::Delta { text, .. } = &event.body {
                    shown += text.bytes().filter(|&byte| byte == b'q').count();
                }
            };
            extractor.push(delta, &mut sink);
            if first.is_none() && shown > 0 {
                first = Some(sent);
            }
            if sent > before.len() + 200 && sent < before.len() + LONG {
                held = held.max(sent.saturating_sub(before.len() + shown));
            }
        }
        let first = first.unwrap_or_else(|| panic!("{}: no argument text", dialect.name));
        assert!(first <= before.len() + 64, "{}: the first delta comes after {first} bytes", dialect.name);
        assert!(held <= 64, "{}: {held} bytes are held back", dialect.name);
    }
}

#[test]
fn the_laws_hold_where_names_are_too_long_and_texts_are_mangled() {
    for dialect in DialectRegistry::builtin().dialects() {
        let options = ExtractOptions::with_dialects(vec![dialect.clone()]);
        for len in [120, 130, 250, 260, 510, 520, 700] {
            let text =
                dialect.example.replace("get_weather", &"n".repeat(len)).replace("city", &"k".repeat(len));
            laws::check(&text, &options).unwrap_or_else(|found| panic!("{}: {len}: {found}", dialect.name));
        }
        // Characters left out, halves swapped, a beginning repeated.
        let example = &dialect.example;
        let places: Vec<usize> = example.char_indices().map(|(at, _)| at).collect();
        for &at in places.iter().step_by(5) {
            let len = example[at..].chars().next().map_or(0, char::len_utf8);
            let without = format!("a {}{} b", &example[..at], &example[at + len..]);
            let swapped = format!("{}{}", &example[at..], &example[..at]);
            let twice = format!("{}{}", &example[..at], example);
            for text in [without, swapped, twice] {
                laws::check(&text, &options)
                    .unwrap_or_else(|found| panic!("{}: {text:?}: {found}", dialect.name));
            }
        }
    }
}

/// Pieces of markup, prose and Markdown in any order: no split changes their result.
#[test]
fn the_laws_hold_for_any_mixture() {
    let call = "{\"name\": \"get_weather\", \"arguments\": {\"city\": \"Oslo\"}}";
    let mut pieces: Vec<String> = [
        "word ",
        "\n",
        "\n\n",
        "    ",
        "`",
        "```",
        "```json\n",
        "~~~\n",
        "> ",
        "\"",
        "{\"a\": \"",
        "{",
        "}",
        "[",
        "]",
        ", ",
        "; ",
        "<think>",
        "</think>",
        "<tool_call>",
        "</tool_call>",
        "<function=get_weather>",
        "<parameter=city>",
        "</parameter>",
        "</function>",
        "call:get_weather{city:",
        "<|\"|>",
        "functions.get_weather:0",
        "get_weather",
        "get_weather(city=\"x\")",
        "<arg_key>city</arg_key>",
        "<arg_value>",
        "</arg_value>",
        "<|channel|>commentary to=functions.get_weather",
        "<|message|>",
        "<|call|>",
        "[TOOL_CALLS]",
        "[ARGS]",
        "<|im_end|>",
        "<｜DSML｜invoke name=\"get_weather\">",
        "<|",
        "name",
        "and ",
        "é",
        "| ",
        "-",
        "+",
        "functools",
        " to=self<|message|>",
        "{\"name\": \"get_weather\", \"arguments\": {city: ",
        "{\"type\": \"object\"",
    ]
    .map(str::to_owned)
    .to_vec();
    pieces.extend([call.to_owned(), format!("<tool_call>{call}</tool_call>"), format!("```\n{call}\n```")]);
    let tools = json!([{"name": "get_weather", "parameters": {"properties": {"city": {"type": "string"}}}}]);
    let tools = Tools::from_json(&tools);
    let mut state = 7_u64;
    let mut next = |below: usize| {
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (state >> 33) as usize % below
    };
    for dialect in [
        "auto",
        "hermes",
        "qwen3",
        "gemma4",
        "kimi_k2",
        "harmony",
        "json_bare",
        "glm47",
        "mistral",
        "deepseek_v4",
        "llama3_json",
        "functionary_v32",
    ] {
        let options = ExtractOptions::new(dialect).expect("a built-in dialect").tools(tools.clone());
        for _ in 0..100 {
            let text: String = (0..2 + next(12)).map(|_| pieces[next(pieces.len())].as_str()).collect();
            laws::check(&text, &options).unwrap_or_else(|found| panic!("{dialect}: {text:?}: {found}"));
        }
    }
}

#[test]
fn examples_are_found_without_naming_the_dialect() {
    let tools = Tools::from_json(&json!([{"name": "get_weather"}]));
    let auto = ExtractOptions::new("auto").expect("auto").tools(tools);
    for dialect in DialectRegistry::builtin().dialects() {
        let found = Extraction::of(&format!("I will look.\n{}", dialect.example), &auto);
        let calls: Vec<_> = found.calls.iter().map(|call| (call.name.as_str(), call.arguments())).collect();
        let arguments =
            calls.first().and_then(|(_, arguments)| serde_json::from_str::<Value>(arguments).ok());
        assert_eq!(arguments, Some(json!({"city": "Oslo"})), "{}: {found:?}", dialect.name);
        assert_eq!(calls[0].0, "get_weather", "{}", dialect.name);
    }
}

#[test]
fn prose_stays_prose() {
    let auto = ExtractOptions::new("auto").expect("auto");
    for text in [
        "A list [like this](http://example.org/a(b)) and {\"name\": \"Ada\", \"age\": 36} as data.",
        "Use `<b>` tags, x < y, [1, 2, 3] and f(x)=2 as in [f(x)].",
        "```json\n{\"city\": \"Oslo\"}\n```\nThat is the file.",
        "The action: look around.",
    ] {
        let found = Extraction::of(text, &auto);
        assert_eq!((found.calls.len(), found.content.as_str()), (0, text), "{found:?}");
    }
}

#[test]
fn a_first_line_is_a_header_only_if_it_can_be_one() {
    let options = ExtractOptions::new("functionary_v32").expect("a built-in dialect");
    let declared = options.clone().tools(Tools::from_json(&json!([{"name": "get_weather"}])));
    let call = "get_weather\n{\"city\": \"Oslo\"}";
    for options in [&options, &declared] {
        for prose in ["Hello\nWorld", "Certainly\n\nIt rains.", "Weather\n", "Weather", "all weather\n{}"] {
            laws::check(prose, options).unwrap_or_else(|found| panic!("{prose:?}: {found}"));
            let found = Extraction::of(prose, options);
            assert_eq!((found.calls.len(), found.content.as_str()), (0, prose), "{found:?}");
        }
        assert_eq!(Extraction::of(call, options).calls.len(), 1, "{call:?}");
        assert_eq!(Extraction::of("all\nIt rains.", options).content, "It rains.");
    }
    // Declared tools say more than the form does.
    let other = "weather\n{\"city\": \"Oslo\"}";
    assert_eq!(Extraction::of(other, &options).calls.len(), 1);
    assert_eq!(Extraction::of(other, &declared).content, other);
    assert_eq!(Extraction::of("get_weather\nOslo", &declared).calls.len(), 1);
}

#[test]
fn models_speak_their_dialects() {
    let registry = DialectRegistry::builtin();
    for (model, name) in [
        ("Qwen/Qwen3-Coder-480B-A35B-Instruct", "qwen3_coder"),
        // Models of the third generation that do not code keep the JSON of the second; from 3.5 on all write tags.
        ("Qwen/Qwen3-235B-A22B-Thinking-2507", "hermes"),
        ("qwen3:8b", "hermes"),
        ("qwen3-coder:30b", "qwen3_coder"),
        ("Qwen/Qwen3-Coder-Next", "qwen3_coder"),
        ("Qwen/Qwen3.5-35B-A3B", "qwen3"),
        ("Qwen/Qwen3.6-27B", "qwen3_coder"),
        ("moonshotai/Kimi-K2-Thinking", "kimi_k2"),
        ("deepseek-ai/DeepSeek-V3.1", "deepseek_v31"),
        ("openai/gpt-oss-120b", "harmony"),
        ("zai-org/GLM-4.7", "glm47"),
        ("meta-llama/Llama-3.3-70B-Instruct", "llama3_json"),
        ("llama3.2:3b", "llama3_json"),
        ("hermes3:8b", "hermes"),
        ("NousResearch/Hermes-4-405B", "hermes"),
        ("granite3.3:8b", "granite3"),
        ("phi4-mini", "phi4_mini"),
        ("command-r-08-2024", "cohere_command_r"),
        ("deepseek_v3.1", "deepseek_v31"),
        ("llama4:scout", "pythonic"),
        ("mistralai/Mistral-7B-Instruct-v0.3", "mistral"),
        ("google/functiongemma-270m-it", "functiongemma"),
    ] {
        assert_eq!(registry.for_model(model).map(|dialect| dialect.name.as_str()), Some(name), "{model}");
    }
    for unknown in ["ibm-granite/granite-34b-code", "gpt-4o", ""] {
        assert!(registry.for_model(unknown).is_none(), "{unknown}");
    }
    let mut own = registry.clone();
    own.add(Dialect::new("ours").models(["kimi-k2-thinking-ours"])).expect("a dialect");
    assert_eq!(own.for_model("x/kimi-k2-thinking-ours-1").map(|dialect| dialect.name.as_str()), Some("ours"));
}

#[test]
fn a_dialect_can_be_read_from_a_file() {
    let dialect: Dialect = serde_json::from_value(json!({
        "name": "percent",
        "reasoning": [{"open": "%think", "close": "%answer"}],
        "forms": [{"open": "%call", "close": "%end", "body": {"json": {}}}],
    }))
    .expect("a dialect");
    let text = "%think hm %answer Yes. %call {\"name\": \"look\", \"arguments\": {\"at\": 1}} %end ok";
    let options = ExtractOptions::with_dialects(vec![dialect]);
    laws::check(text, &options).expect("the laws hold");
    let found = Extraction::of(text, &options);
    assert_eq!((found.reasoning.trim(), found.content.as_str()), ("hm", "Yes.  ok"));
    assert_eq!(found.calls[0].arguments(), "{\"at\": 1}");
}

#[test]
fn a_failing_matcher_is_left_out() {
    let hermes = DialectRegistry::builtin().find("hermes").expect("hermes").clone();
    let bad = Dialect::new("bad")
        .form(CallForm::matched(CallMatcher::new("bad", |_| panic!("no"))).between("@@", "@@"));
    let wild = |text: &str| {
        vec![MatchedCall { start: 5, end: text.len() + 9, name: "x".into(), arguments: String::new() }]
    };
    let nonsense = Dialect::new("nonsense").form(CallForm::matched(CallMatcher::new("nonsense", wild)));
    let text = "a @@b@@ <tool_call>{\"name\": \"look\", \"arguments\": {}}</tool_call>";
    let hook = std::panic::take_hook();
    std::panic::set_hook(Box::new(|_| {}));
    let found = [vec![hermes.clone(), bad], vec![hermes, nonsense]]
        .map(|dialects| Extraction::of(text, &ExtractOptions::with_dialects(dialects)));
    std::panic::set_hook(hook);
    for found in found {
        assert_eq!(found.calls.len(), 1, "{found:?}");
        assert!(found.content.starts_with("a @@b@@"), "{found:?}");
        assert!(found.notices.iter().any(|notice| notice.code == NoticeCode::Matcher), "{found:?}");
    }
}

#[test]
fn a_matcher_without_markers_sees_the_whole_text() {
    let find = |text: &str| {
        let Some(start) = text.find("CALL ") else { return Vec::new() };
        let name = text[start + 5..].split(' ').next().unwrap_or_default();
        let end = start + 5 + name.len();
        vec![MatchedCall { start, end, name: name.to_owned(), arguments: "{\"a\":1}".to_owned() }]
    };
    let dialect = Dialect::new("shouted").form(CallForm::matched(CallMatcher::new("shouted", find)));
    let options = ExtractOptions::with_dialects(vec![
        dialect,
        DialectRegistry::builtin().find("hermes").expect("it").clone(),
    ]);
    let text = "First CALL look now. <tool_call>{\"name\": \"b\", \"arguments\": {}}</tool_call>";
    laws::check(text, &options).expect("the laws hold");
    let found = Extraction::of(text, &options);
    let names: Vec<_> = found.calls.iter().map(|call| call.name.as_str()).collect();
    assert_eq!((names, found.content.trim()), (vec!["look", "b"], "First  now."));
}

#[test]
fn positions_cover_a_call_and_its_markers() {
    let text = "a <tool_call>{\"name\": \"b\", \"arguments\": {}}</tool_call> c";
    let found = Extraction::of(text, &ExtractOptions::new("hermes").expect("hermes"));
    let span = found.span(0).expect("a call");
    let cut = &text[span.start as usize..span.end as usize];
    assert!(cut.starts_with("<tool_call>") && cut.ends_with("</tool_call>"), "{cut}");
}

#[test]
fn the_prompt_tells_where_the_text_begins() {
    let options = || ExtractOptions::new("hermes").expect("hermes");
    let found = Extraction::of("hm</think>yes", &options().after_prompt("<|im_start|>assistant\n<think>\n"));
    assert_eq!((found.reasoning.as_str(), found.content.as_str()), ("hm", "yes"));
    let found = Extraction::of("yes", &options().after_prompt("<think>\n\n</think>\n\n"));
    assert_eq!(found.content, "yes");
}

fn staged(events: Vec<Event<'static>>) -> Vec<Event<'static>> {
    let (mut out, mut close) = (Vec::new(), Finalizer::new());
    let mut stage = DialectStage::new(&ExtractOptions::new("hermes").expect("hermes"));
    let mut sink = |event: Event<'_>| close.push(event, &mut out);
    for event in events {
        stage.push(event, &mut sink);
    }
    stage.finish(&mut sink);
    for answer in out.split(|event| matches!(event.body, EventKind::End)) {
        laws::check_grammar(answer);
    }
    out
}

fn text_block(choice: u32, block: u32, pieces: &[&'static str]) -> Vec<Event<'static>> {
    let block = BlockId(block);
    let mut events = vec![Event::new(choice, EventKind::block_start(block, BlockKind::Text))];
    events.extend(pieces.iter().map(|&piece| {
        Event::new(choice, EventKind::Delta { block, kind: DeltaKind::Text, text: piece.into() })
    }));
    events.push(Event::new(choice, EventKind::BlockEnd { block, completion: Default::default() }));
    events
}

#[test]
fn the_stage_begins_anew_with_the_next_answer() {
    let call = ["<tool_", "call>{\"name\": \"look\", \"arguments\": {}}</tool_call>"];
    let finish = || Event::new(0, EventKind::Finish { reason: FinishReason::Stop, raw: None });
    let mut events = text_block(0, 0, &call);
    events.extend([finish(), Event::new(0, EventKind::End)]);
    events.extend(text_block(0, 1, &["plain"]));
    events.extend([finish(), Event::new(0, EventKind::End)]);
    let mut answers = callweave::accumulator::Accumulator::new();
    staged(events).into_iter().for_each(|event| answers.put(event));
    let told: Vec<_> = answers
        .messages()
        .map(|message| (message.tool_calls().count(), message.text(), message.finish_reason()))
        .collect();
    assert_eq!(told[0], (1, "".into(), Some(FinishReason::ToolCalls)));
    assert_eq!(told[1], (0, "plain".into(), Some(FinishReason::Stop)));
}

#[test]
fn the_stage_reads_the_text_of_each_choice() {
    let call = ["x<tool_", "call>{\"name\": \"look\", \"arguments\": {}}</tool_call>"];
    let mut events = text_block(0, 0, &call);
    events.extend(text_block(1, 1, &["plain"]));
    for choice in [0, 1] {
        events.push(Event::new(choice, EventKind::Finish { reason: FinishReason::Stop, raw: None }));
    }
    let out = staged(events);
    let reasons: Vec<_> = out
        .iter()
        .filter_map(|event| match event.body {
            EventKind::Finish { reason, .. } => Some((event.choice, reason)),
            _ => None,
        })
        .collect();
    assert_eq!(reasons, [(0, FinishReason::ToolCalls), (1, FinishReason::Stop)]);
    let calls = out.iter().filter(|event| {
        matches!(&event.body, EventKind::BlockStart { kind: BlockKind::ToolCall { .. }, .. })
    });
    assert_eq!(calls.map(|event| event.choice).collect::<Vec<_>>(), [0]);
}

#[test]
fn the_stage_stops_reading_once_the_protocol_calls() {
    let mut events = text_block(0, 0, &["one <tool_call>"]);
    let name = "native".into();
    let kind = BlockKind::ToolCall { id: None, is_made: false, name, call: CallKind::Function };
    events.push(Event::new(0, EventKind::block_start(BlockId(1), kind)));
    events.push(Event::new(0, EventKind::BlockEnd { block: BlockId(1), completion: Default::default() }));
    events.extend(text_block(0, 2, &["<tool_call>{\"name\": \"b\", \"arguments\": {}}</tool_call>"]));
    let out = staged(events);
    let calls = out
        .iter()
        .filter(|event| matches!(&event.body, EventKind::BlockStart { kind: BlockKind::ToolCall { .. }, .. }))
        .count();
    assert_eq!(calls, 1);
}

/// A response that a limit truncates does not end with the text it shows; nor does one that goes on in the protocol.
#[test]
fn the_stage_knows_how_an_answer_ends() {
    let example = "So:\n```\n<tool_call>{\"name\": \"look\", \"arguments\": {}}</tool_call>\n```\n";
    let calls = |events: Vec<Event<'static>>| message_of(events).tool_calls().count();
    let ended = |reason| {
        let mut events = text_block(0, 0, &[example]);
        events.push(Event::new(0, EventKind::Finish { reason, raw: None }));
        calls(events)
    };
    assert_eq!(ended(FinishReason::Stop), 1);
    assert_eq!(ended(FinishReason::Length), 0);
    assert_eq!(ended(FinishReason::ContentFilter), 0);
    let mut events = text_block(0, 0, &[example]);
    events.extend(native_call(1, "call_1", "{}"));
    assert_eq!(calls(events), 1);
    // Nobody has to say how it ended; but one that broke off did not end with what it shows.
    assert_eq!(calls(text_block(0, 0, &[example])), 1);
    let truncated = Notice::new(NoticeCode::Truncated, 0, "the stream ended early");
    let mut events = text_block(0, 0, &[example]);
    events.push(Event::new(0, EventKind::Notice(truncated)));
    assert_eq!(calls(events), 0);
}

/// Native reasoning stays reasoning, unless the response has nothing else.
#[test]
fn a_call_in_native_thoughts_is_meant_where_the_answer_ends_there() {
    let thought = |text: &'static str| {
        let block = BlockId(0);
        let kind = BlockKind::Reasoning(ReasoningForm::Raw);
        vec![
            Event::new(0, EventKind::block_start(block, kind)),
            Event::new(0, EventKind::Delta { block, kind: DeltaKind::Reasoning, text: text.into() }),
            Event::new(0, EventKind::BlockEnd { block, completion: Default::default() }),
        ]
    };
    let finish = || Event::new(0, EventKind::Finish { reason: FinishReason::Stop, raw: None });
    let call = "I call <tool_call>{\"name\": \"look\", \"arguments\": {\"at\": \"sky\"}}</tool_call>";
    let mut events = thought(call);
    events.push(finish());
    let message = message_of(events);
    let found: Vec<_> = message.tool_calls().map(|call| (call.name.as_str(), call.arguments())).collect();
    assert_eq!(found, [("look", "{\"at\": \"sky\"}")]);
    assert_eq!(message.reasoning(), call);

    let mut events = thought(call);
    events.extend(text_block(0, 1, &["It is blue."]));
    events.push(finish());
    assert_eq!(message_of(events).tool_calls().count(), 0);
}

/// Doubtful text is held, but only up to a limit.
#[test]
fn what_is_doubted_too_long_is_text() {
    let long = "q".repeat(300_000);
    let text = format!("```json\n{{\"name\": \"look\", \"arguments\": {{\"at\": \"{long}\"}}}}\n```");
    let found = Extraction::of(&text, &ExtractOptions::new("json_bare").expect("a built-in dialect"));
    assert_eq!((found.calls.len(), found.content.as_str()), (0, text.as_str()));
    assert!(found.notices.iter().any(|notice| notice.detail.contains("too long")), "{:?}", found.notices);
}

fn message_of(events: Vec<Event<'static>>) -> callweave::message::Message {
    let mut accumulator = callweave::accumulator::Accumulator::new();
    staged(events).into_iter().for_each(|event| accumulator.put(event));
    accumulator.take()
}

fn native_call(block: u32, id: &'static str, arguments: &'static str) -> Vec<Event<'static>> {
    let block = BlockId(block);
    let kind = BlockKind::ToolCall {
        id: Some(id.into()),
        is_made: false,
        name: "look".into(),
        call: CallKind::Function,
    };
    vec![
        Event::new(0, EventKind::block_start(block, kind)),
        Event::new(0, EventKind::Delta { block, kind: DeltaKind::Arguments, text: arguments.into() }),
        Event::new(0, EventKind::BlockEnd { block, completion: Default::default() }),
    ]
}

#[test]
fn a_call_that_the_protocol_repeats_gets_its_id() {
    let call = "<tool_call>{\"name\": \"look\", \"arguments\": {\"at\": \"sky\"}}</tool_call>";
    let mut events = text_block(0, 0, &[call]);
    events.extend(native_call(1, "call_1", "{\"at\":\"sky\"}"));
    events.extend(native_call(2, "call_2", "{\"at\":\"sky\"}"));
    let message = message_of(events);
    let ids: Vec<_> = message.tool_calls().map(|call| (call.id.as_str(), call.has_made_id)).collect();
    assert_eq!(ids, [("call_1", false), ("call_2", false)]);

    let mut events = text_block(0, 0, &[call]);
    events.extend(native_call(1, "call_1", "{\"at\":\"sea\"}"));
    let message = message_of(events);
    let calls: Vec<_> = message.tool_calls().map(|call| call.arguments()).collect();
    assert_eq!(calls, ["{\"at\": \"sky\"}", "{\"at\":\"sea\"}"]);
}

#[test]
fn a_corrected_text_is_read_anew() {
    let corrected = |draft: &'static str, text: &'static str| {
        let mut events = text_block(0, 0, &[draft]);
        events.insert(2, Event::new(0, EventKind::Correction { block: BlockId(0), text: text.into() }));
        message_of(events)
    };
    let message = corrected("the draft", "the final text");
    assert_eq!(message.text(), "the final text");
    let call = "so <tool_call>{\"name\": \"look\", \"arguments\": {}}</tool_call>";
    let message = corrected("the draft <tool_", call);
    assert_eq!((message.text().as_ref(), message.tool_calls().count()), ("so ", 1));
    // A call that was emitted cannot be taken back, but nothing is lost silently.
    let message = corrected(call, "nothing to call");
    assert_eq!(message.tool_calls().count(), 1);
    let text = message.notices.iter().find_map(|notice| notice.text.as_deref());
    assert_eq!(text, Some("nothing to call"));
}

/// A provider's extra fields of a block stay with it, or where its text became something else, with the choice.
#[test]
fn the_stage_keeps_what_is_said_of_blocks() {
    let start = |block, kind| Event::new(0, EventKind::block_start(BlockId(block), kind));
    let end =
        |block| Event::new(0, EventKind::BlockEnd { block: BlockId(block), completion: Default::default() });
    let extra = |block| {
        let value = JsonText::from_value(&json!(1));
        Event::new(
            0,
            EventKind::Extra {
                scope: EventScope::Block(BlockId(block)),
                path: format!("p{block}").into(),
                value,
            },
        )
    };
    // The text holds a call, so that the numbers change.
    let call = "a <tool_call>{\"name\": \"b\", \"arguments\": {}}</tool_call>";
    let mut events = text_block(0, 0, &[call]);
    events.insert(2, extra(0));
    events.extend([start(1, BlockKind::Reasoning(ReasoningForm::Raw)), extra(1), end(1)]);
    let out = staged(events);
    let begun = |wanted: fn(&BlockKind<'_>) -> bool| {
        out.iter().find_map(|event| match &event.body {
            EventKind::BlockStart { block, kind, .. } if wanted(kind) => Some(EventScope::Block(*block)),
            _ => None,
        })
    };
    let said = |wanted: &str| {
        out.iter().find_map(|event| match &event.body {
            EventKind::Extra { scope, path, .. } if path == wanted => Some(*scope),
            _ => None,
        })
    };
    assert_eq!(said("p1"), begun(|kind| matches!(kind, BlockKind::Reasoning(_))));
    assert_eq!(said("p0"), Some(EventScope::Choice));
}

/// Read over and over, this would take minutes.
#[test]
fn objects_nested_deeply_are_not_read_once_per_level() {
    let text = format!("{}1{}", "{\"a\":".repeat(50_000), "}".repeat(50_000));
    for dialect in ["json_bare", "hermes", "auto"] {
        let options = ExtractOptions::new(dialect).expect("a built-in dialect");
        let found = Extraction::of_deltas([text.as_str()], &options);
        assert!(found.calls.is_empty());
        assert_eq!(found.content, text);
    }
}

/// Looked for from every call, the closer that never comes would take minutes.
#[test]
fn the_rest_is_not_looked_through_once_per_unclosed_value() {
    let call = "<tool_call>\n<function=get_weather>\n<parameter=city>\n";
    let found = Extraction::of(
        &call.repeat(10_000),
        &ExtractOptions::new("qwen3_coder").expect("a built-in dialect"),
    );
    assert_eq!(found.calls.len(), 10_000);
}
