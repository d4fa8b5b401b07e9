//! The number of instructions of decoding per chunk of a protocol, translating it to another, and extracting per delta
//! of a dialect, and per delta of arguments that are repaired and coerced: counted by valgrind, which unlike a clock
//! gives the same number whatever else the machine does. Translating a request is compared with parsing and writing it
//! by `serde_json`.

pub(crate) mod guard;
mod request;

use std::process::Command;

use callweave::dialect::{DialectRegistry, ExtractOptions, Extractor, Tools};
use callweave::encode::EncodeOptions;
use callweave::event::{Event, EventKind, EventSink};
use callweave::protocol::Protocol;

const USAGE: &str = "usage: cargo xtask instructions [--guard|--record]";
/// The protocols; the cold ones read every frame in full, as in a short or a changing stream.
const PROTOCOLS: [&str; 6] =
    ["chat", "responses", "anthropic", "chat, cold", "responses, cold", "anthropic, cold"];
/// From, and to.
const TRANSLATIONS: [&str; 2] = ["chat-to-anthropic", "anthropic-to-chat"];
/// The maximum cost of a translation, as a multiple of decoding alone.
const MAX_OF_DECODING: f64 = 2.0;
/// The treatments of arguments on their way.
const ARGUMENTS: [&str; 3] = ["as they come", "coerced", "repaired and coerced"];
/// The maximum cost of coercion, as a multiple of arguments without any treatment.
const MAX_OF_ARGUMENTS: f64 = 3.0;
const CHUNKS: [usize; 3] = [1_000, 10_000, 100_000];
const DIALECTS: [&str; 8] =
    ["hermes", "qwen3_coder", "deepseek_v31", "kimi_k2", "glm47", "gemma4", "pythonic", "minimax_m3"];
/// Text without a call, of a dialect that is named and of one that the text decides.
const PLAIN: [&str; 5] =
    ["plain, hermes", "plain, auto", "chinese, auto", "russian, auto", "typographic quotes, auto"];
/// From an argument of 1 kB to one of 1 MB.
const DELTAS: [usize; 4] = [256, 2_560, 25_600, 256_000];
const DELTA: &str = "word";
/// The rows for which the cost of a piece is recorded: the work, its subjects, and the number of pieces counted.
const ROWS: &[(&str, &[&str], usize)] = &[
    ("decode", &PROTOCOLS, 2_000),
    ("calls", &["whole chat body", "anthropic"], 50),
    ("arguments", &ARGUMENTS, 2_000),
    ("translate", &TRANSLATIONS, 2_000),
    ("extract", &DIALECTS, 2_560),
    ("extract", &PLAIN, 2_560),
    ("request", &["openai-chat", "gemini-generatecontent"], 20),
];
/// The texts of a protocol's deltas.
const WORDS: [&str; 20] = [
    " the", " model", " answers", " in", " a", " few", " words", ",", " and", " then", " it", " calls", " a",
    " tool", ".", " Nothing", " is", " lost", " on the", " way",
];
/// The same in other scripts, and with quotation marks and apostrophes: the replacement of [`WORDS`], by the first word
/// of a row's name, and the letters of a delta.
const SCRIPTS: [(&str, &str, usize); 3] = [
    ("chinese", "模型用几句话回答，然后调用一个工具。路上什么也不会丢失，一切都按顺序到达。", 2),
    ("russian", "модель отвечает в нескольких словах, а затем вызывает инструмент. ничего не теряется. ", 4),
    (
        "typographic quotes",
        "it’s what they call “a tool”, isn’t it — and «nothing» is lost on ‘the way’. ",
        4,
    ),
];
/// Growth beyond this for ten times the chunks is not linear.
const MAX: f64 = 11.0;

/// Prints instructions per chunk and the growth from step to step; an error if it is more than linear.
pub(crate) fn run(arguments: &[&str]) -> Result<(), String> {
    match arguments {
        [] => report(),
        ["--guard"] => crate::check::alone(guard::run),
        ["--record"] => guard::record(),
        [what, name, pieces] => {
            let pieces = pieces.parse().map_err(|_| USAGE.to_owned())?;
            match *what {
                "decode" => decode(name, pieces),
                "calls" => calls(name, pieces),
                "arguments" => arguments_of_a_call(name, pieces),
                "translate" => translate(name, pieces),
                "extract" => extract(name, pieces),
                "request" => request::translate(name, pieces),
                "compare" => request::compare(pieces),
                "build" => request::build(pieces),
                _ => Err(USAGE.into()),
            }
        }
        _ => Err(USAGE.into()),
    }
}

/// One of [`ROWS`], of one name.
#[derive(Clone, Copy)]
struct Row {
    what: &'static str,
    name: &'static str,
    pieces: usize,
}

impl Row {
    fn all(
        &(what, names, pieces): &(&'static str, &'static [&'static str], usize),
    ) -> impl Iterator<Item = Self> {
        names.iter().map(move |name| Self { what, name, pieces })
    }
}

fn report() -> Result<(), String> {
    if cfg!(debug_assertions) {
        // The release build that users run is what counts.
        let cargo = std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into());
        let words = ["run", "--release", "--quiet", "--package", "xtask", "--", "instructions"];
        let status = Command::new(cargo).args(words).status().map_err(|error| format!("cargo: {error}"))?;
        return if status.success() {
            Ok(())
        } else {
            Err("the growth is not linear, or not counted".into())
        };
    }
    let mut complaints = Vec::new();
    println!("{:20}{:>12}{:>18}{:>14}{:>10}", "", "pieces", "instructions", "per piece", "growth");
    let mut decoding = Vec::new();
    for protocol in PROTOCOLS {
        decoding.push((protocol, grow("decode", protocol, &CHUNKS, &mut complaints)?));
    }
    for translation in TRANSLATIONS {
        let cost = grow("translate", translation, &CHUNKS, &mut complaints)?;
        let alone = decoding.iter().find(|(from, _)| translation.starts_with(from));
        let times = alone.map(|(_, alone)| cost / alone).ok_or("nothing to compare with")?;
        println!("{translation:20}{times:>54.2}x of decoding alone");
        if times > MAX_OF_DECODING {
            complaints.push(format!("{translation} costs {times:.2}x of decoding alone"));
        }
    }
    let mut alone = None;
    for manner in ARGUMENTS {
        let cost = grow("arguments", manner, &CHUNKS, &mut complaints)?;
        let times = cost / *alone.get_or_insert(cost);
        println!("{manner:20}{times:>54.2}x of arguments as they come");
        if times > MAX_OF_ARGUMENTS {
            complaints.push(format!("arguments {manner} cost {times:.2}x of those that are left alone"));
        }
    }
    for dialect in DIALECTS.into_iter().chain(PLAIN) {
        grow("extract", dialect, &DELTAS, &mut complaints)?;
    }
    complaints.extend(requests()?);
    if complaints.is_empty() { Ok(()) } else { Err(complaints.join("\n")) }
}

/// Prints the cost of translating a request, next to that of parsing and writing it by `serde_json`.
fn requests() -> Result<Vec<String>, String> {
    let own = |what: &str, name: &str, turns: usize| {
        // The tools stand in every request; making it is not the work.
        Ok::<_, String>(count(what, name, turns)?.saturating_sub(count("build", name, turns)?))
    };
    let mut complaints = Vec::new();
    let usual = own("compare", "serde_json", request::TURNS)?;
    println!("{:20}{:>12}{usual:>18}", "serde_json", request::TURNS);
    for target in callweave::protocol::TABLE.iter().filter(|target| target.has_requests()) {
        let cost = own("request", target.name, request::TURNS)?;
        let ratio = cost as f64 / usual as f64;
        println!("{:20}{:>12}{cost:>18}{:>14}{ratio:>9.2}x", target.name, request::TURNS, "");
        if ratio > request::MAX {
            complaints.push(format!("translating to {} costs {ratio:.2}x of serde_json", target.name));
        }
    }
    for target in ["openai-chat", "gemini-generatecontent"] {
        grow("request", target, &[1_000, 10_000], &mut complaints)?;
    }
    Ok(complaints)
}

/// Prints the cost of growing inputs, each ten times the one before; returns the cost of a piece of the last.
fn grow(what: &str, name: &str, steps: &[usize], complaints: &mut Vec<String>) -> Result<f64, String> {
    // The cost of the process before and after is not the work.
    let base = count(what, name, 0)?;
    let mut before: Option<u64> = None;
    let mut per_piece = 0.0;
    for &pieces in steps {
        let own = count(what, name, pieces)?.saturating_sub(base);
        per_piece = own as f64 / pieces as f64;
        let growth = before.map(|before| own as f64 / before as f64);
        let shown = growth.map_or(String::new(), |growth| format!("{growth:.2}x"));
        println!("{name:20}{pieces:>12}{own:>18}{per_piece:>14.0}{shown:>10}");
        if growth.is_some_and(|growth| growth > MAX) {
            complaints.push(format!("{name}: {pieces} pieces cost {shown} of a tenth of them"));
        }
        before = Some(own);
    }
    Ok(per_piece)
}

/// The instructions of a process that does the work once.
fn count(what: &str, name: &str, pieces: usize) -> Result<u64, String> {
    let program = std::env::current_exe().map_err(|error| error.to_string())?;
    let output = Command::new("valgrind")
        .args(["--tool=callgrind", "--callgrind-out-file=/dev/null"])
        .arg(program)
        .args(["instructions", what, name, &pieces.to_string()])
        .output()
        .map_err(|error| format!("valgrind: {error} (it counts; install it with the system's packages)"))?;
    let told = String::from_utf8_lossy(&output.stderr);
    let collected = told.lines().find_map(|line| line.split_once("Collected :"));
    collected
        .and_then(|(_, count)| count.trim().parse().ok())
        .ok_or_else(|| format!("valgrind says:\n{told}"))
}

/// Reads words, four bytes at a time.
fn extract_plain(script: &str, dialect: &str, deltas: usize) -> Result<(), String> {
    let options = ExtractOptions::new(dialect).map_err(|error| error.to_string())?;
    let (text, letters) = match SCRIPTS.iter().find(|(name, ..)| *name == script) {
        Some((_, text, letters)) => (text.repeat(*letters), *letters),
        None => (WORDS.concat().repeat(DELTA.len()), DELTA.len()),
    };
    let all: Vec<char> = text.chars().collect();
    let pieces: Vec<String> = all.chunks(letters).map(|letters| letters.iter().collect()).collect();
    let wanted: usize = pieces.iter().cycle().take(deltas).map(String::len).sum();
    let mut shown = 0;
    let mut sink = |event: Event<'_>| {
        if let EventKind::Delta { text, .. } = &event.body {
            shown += text.len();
        }
    };
    let mut extractor = Extractor::new(&options);
    for piece in pieces.iter().cycle().take(deltas) {
        extractor.push(piece, &mut sink);
    }
    extractor.finish(&mut sink);
    if shown == wanted { Ok(()) } else { Err(format!("{shown} bytes of text came")) }
}

/// Reads a call with one long string argument, or words.
fn extract(name: &str, deltas: usize) -> Result<(), String> {
    if let Some((script, dialect)) = name.split_once(", ") {
        return extract_plain(script, dialect, deltas);
    }
    let dialect = DialectRegistry::builtin().find(name).ok_or(USAGE)?;
    let (before, after) = dialect.example.split_once("Oslo").ok_or("the example has no argument")?;
    let tools = serde_json::json!([{"name": "get_weather", "parameters": {"properties": {"city": {"type": "string"}}}}]);
    let options =
        ExtractOptions::new(name).map_err(|error| error.to_string())?.tools(Tools::from_json(&tools));
    let mut shown = 0;
    let mut sink = |event: Event<'_>| {
        if let EventKind::Delta { text, .. } = &event.body {
            shown += usize::from(text == DELTA);
        }
    };
    let mut extractor = Extractor::new(&options);
    extractor.push(before, &mut sink);
    for _ in 0..deltas {
        extractor.push(DELTA, &mut sink);
    }
    extractor.push(after, &mut sink);
    extractor.finish(&mut sink);
    if shown + 1 >= deltas { Ok(()) } else { Err(format!("{shown} deltas came")) }
}

/// The stream of a response: its beginning, a batch of chunks as a socket may deliver them at once, and its end.
fn stream(protocol: &str) -> Result<[String; 3], String> {
    let (head, delta, tail) = match protocol {
        "responses" => (
            [
                r#"{"type":"response.created","sequence_number":0,"response":{"id":"r","object":"response","model":"m","output":[]}}"#,
                r#"{"type":"response.output_item.added","sequence_number":1,"output_index":0,"item":{"type":"message","id":"i","role":"assistant","content":[]}}"#,
            ]
            .map(|frame| format!("data: {frame}\n\n"))
            .concat(),
            r#"{"type":"response.output_text.delta","sequence_number":9,"item_id":"i","output_index":0,"content_index":0,"delta":" token","logprobs":[],"obfuscation":"x"}"#,
            r#"{"type":"response.completed","sequence_number":99,"response":{"id":"r","object":"response","model":"m","status":"completed"}}"#,
        ),
        "chat" => (
            String::new(),
            r#"{"id":"c","object":"chat.completion.chunk","created":1,"model":"m","choices":[{"index":0,"delta":{"content":" token"},"finish_reason":null}]}"#,
            r#"{"id":"c","object":"chat.completion.chunk","created":1,"model":"m","choices":[{"index":0,"delta":{},"finish_reason":"stop"}]}"#,
        ),
        "anthropic" => (
            [
                r#"{"type":"message_start","message":{"id":"m","type":"message","role":"assistant","model":"m","content":[]}}"#,
                r#"{"type":"content_block_start","index":0,"content_block":{"type":"text","text":""}}"#,
            ]
            .map(|frame| format!("data: {frame}\n\n"))
            .concat(),
            r#"{"type":"content_block_delta","index":0,"delta":{"type":"text_delta","text":" token"}}"#,
            r#"{"type":"message_delta","delta":{"stop_reason":"end_turn"},"usage":{"output_tokens":1}}"#,
        ),
        _ => return Err(USAGE.into()),
    };
    let batch: String = WORDS
        .iter()
        .zip(10..)
        .map(|(word, number)| {
            let delta = delta.replace(" token", word).replace("number\":9", &format!("number\":{number}"));
            format!("data: {}\n\n", delta.replace("\"x\"", &format!("\"{}\"", &"x".repeat(number % 7 + 1))))
        })
        .collect();
    Ok([head, batch, format!("data: {tail}\n\n")])
}

/// Gives a decoder as many chunks; the same buffer again, so that making it costs nothing.
fn feed(protocol: &str, chunks: usize, sink: &mut EventSink<'_>) -> Result<(), String> {
    let (protocol, is_cold) = match protocol.strip_suffix(", cold") {
        Some(protocol) => (protocol, true),
        None => (protocol, false),
    };
    let [head, batch, tail] = stream(protocol)?;
    let decoder = callweave::pipeline::Decoder::builder();
    let mut decoder = if is_cold { decoder.read_all().build() } else { decoder.build() };
    let mut push = |bytes: &str| decoder.push(bytes.as_bytes(), sink).map_err(|error| error.to_string());
    push(&head)?;
    for _ in 0..chunks / WORDS.len() {
        push(&batch)?;
    }
    push(&tail)?;
    decoder.finish(sink).map_err(|error| error.to_string())
}

fn decode(protocol: &str, chunks: usize) -> Result<(), String> {
    let mut accumulator = callweave::accumulator::Accumulator::new();
    feed(protocol, chunks, &mut accumulator)?;
    let length = accumulator.message().text().len();
    if length == chunks / WORDS.len() * WORDS.concat().len() {
        Ok(())
    } else {
        Err(format!("{length} bytes of text came"))
    }
}

/// Reads one call with a long string among its arguments, which comes in as many deltas.
fn arguments_of_a_call(manner: &str, deltas: usize) -> Result<(), String> {
    let frame = |call: &str| {
        format!(
            "data: {{\"id\":\"c\",\"object\":\"chat.completion.chunk\",\"created\":1,\"model\":\"m\",\"choices\":[{{\"index\":0,\"delta\":{{\"tool_calls\":[{{\"index\":0,{call}}}]}},\"finish_reason\":null}}]}}\n\n"
        )
    };
    let piece = |text: &str| frame(&format!("\"function\":{{\"arguments\":{}}}", serde_json::json!(text)));
    let batch: String = WORDS.iter().map(|word| piece(word)).collect();
    let tools = serde_json::json!([{"name": "write_file", "parameters": {"type": "object", "properties":
        {"path": {"type": "string"}, "contents": {"type": "string"}, "mode": {"type": "integer"}}}}]);
    let decoder = callweave::pipeline::Decoder::builder();
    let mut decoder = match manner {
        "coerced" => decoder.tools(Tools::from_json(&tools)).coerce().build(),
        "repaired and coerced" => decoder.tools(Tools::from_json(&tools)).repair().coerce().build(),
        _ => decoder.build(),
    };
    let mut accumulator = callweave::accumulator::Accumulator::new();
    let mut push =
        |bytes: &str| decoder.push(bytes.as_bytes(), &mut accumulator).map_err(|error| error.to_string());
    push(&frame(r#""id":"call_1","type":"function","function":{"name":"write_file","arguments":""}"#))?;
    push(&piece("{\"path\": \"a\", \"contents\": \""))?;
    for _ in 0..deltas / WORDS.len() {
        push(&batch)?;
    }
    push(&piece("\"}"))?;
    decoder.finish(&mut accumulator).map_err(|error| error.to_string())?;
    let length: usize = accumulator.message().tool_calls().map(|call| call.arguments().len()).sum();
    let own = deltas / WORDS.len() * WORDS.concat().len();
    if length >= own { Ok(()) } else { Err(format!("{length} bytes of arguments came")) }
}

/// Reads as many calls: each in a body of its own, or ten in a stream, where they begin, grow once and end.
fn calls(name: &str, count: usize) -> Result<(), String> {
    const ARGUMENTS: &str = r#"{\"city\":\"Oslo\",\"days\":3}"#;
    let (protocol, each, text) = match name {
        "anthropic" => {
            let [head, _, tail] = stream("anthropic")?;
            let block = |number: usize| {
                [
                    format!(r#"{{"type":"content_block_start","index":{number},"content_block":{{"type":"tool_use","id":"toolu_01A09q90qw90lq91{number:06}","name":"get_weather","input":{{}}}}}}"#),
                    format!(r#"{{"type":"content_block_delta","index":{number},"delta":{{"type":"input_json_delta","partial_json":"{ARGUMENTS}"}}}}"#),
                    format!(r#"{{"type":"content_block_stop","index":{number}}}"#),
                ]
                .map(|frame| format!("data: {frame}\n\n"))
                .concat()
            };
            ("anthropic-messages", 10, head + &(1..=10).map(block).collect::<String>() + &tail)
        }
        _ => {
            let body = format!(
                r#"{{"id":"chatcmpl-1","object":"chat.completion","created":1730000000,"model":"gpt-4.1","choices":[{{"index":0,"message":{{"role":"assistant","content":"Let me\nsee.","tool_calls":[{{"id":"call_1","type":"function","function":{{"name":"get_weather","arguments":"{ARGUMENTS}"}}}}],"refusal":null}},"logprobs":null,"finish_reason":"tool_calls"}}],"usage":{{"prompt_tokens":20,"completion_tokens":9,"total_tokens":29}},"system_fingerprint":"fp_1"}}"#
            );
            ("openai-chat", 1, body)
        }
    };
    let protocol = Protocol::named(protocol).ok_or(USAGE)?;
    for _ in 0..count / each {
        let message = callweave::pipeline::decode_as(protocol, text.as_bytes());
        let told = message.map_err(|error| error.to_string())?.tool_calls().count();
        if told != each {
            return Err(format!("{told} calls came"));
        }
    }
    Ok(())
}

/// Writes each chunk in the other protocol, as a gateway would.
fn translate(name: &str, chunks: usize) -> Result<(), String> {
    let (from, to) = name.split_once("-to-").ok_or(USAGE)?;
    let target = Protocol::named(to).ok_or(USAGE)?;
    let mut encoder = target.encoder(&EncodeOptions::normalized()).ok_or(USAGE)?;
    let (mut out, mut written) = (Vec::new(), 0);
    feed(from, chunks, &mut |event: Event<'_>| {
        encoder.encode(&event, &mut out);
        written += usize::from(!out.is_empty());
        out.clear();
    })?;
    if written >= chunks / WORDS.len() * WORDS.len() {
        Ok(())
    } else {
        Err(format!("{written} events were written"))
    }
}
