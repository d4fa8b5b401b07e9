//! Chat completions, complete and in pieces, with a model's habits.

use callweave::Value;
use callweave::event::CallKind;
use callweave::json::Object;

use super::ScriptStep;
use super::faults;
use super::plan::{DemoPlan, PlannedCall};
use super::table::{DemoModel, EndHabit, NumberingHabit, ReasoningHabit, WritingHabits};
use super::text;

/// The creation time of all responses: there is no clock here.
pub(super) const CREATED: u64 = 1_767_225_600;

/// About as many characters as a token has.
const PIECE: usize = 4;

/// The model's output after its habits are applied.
struct DemoSpeech {
    reasoning: Option<String>,
    text: String,
    calls: Vec<SpokenCall>,
    finish: &'static str,
}

/// A call as it is written.
struct SpokenCall {
    id: Option<String>,
    name: String,
    kind: CallKind,
    /// None: the arguments stand as the object they are.
    arguments: Option<String>,
    object: Value,
}

impl DemoSpeech {
    fn of(row: &DemoModel, plan: &DemoPlan) -> Self {
        let habits = &row.habits;
        let mut text = String::new();
        if habits.reasoning == ReasoningHabit::Tags {
            text = format!("<think>\n{}\n</think>\n\n", plan.reasoning);
        }
        let mut calls = Vec::new();
        match row.dialect {
            Some(dialect) if !plan.calls.is_empty() => {
                let refused = || format!("{} cannot say this call.", dialect.name);
                text += &text::render(dialect, plan).unwrap_or_else(refused);
            }
            _ => {
                text += &plan.text.repeat(habits.repeats);
                calls = plan.calls.iter().map(|call| SpokenCall::of(call, plan, habits)).collect();
            }
        }
        let finish = match calls.is_empty() {
            true => "stop",
            false => habits.finish.unwrap_or("tool_calls"),
        };
        let reasoning = (habits.reasoning == ReasoningHabit::Member).then(|| plan.reasoning.clone());
        Self { reasoning, text, calls, finish }
    }
}

impl SpokenCall {
    fn of(call: &PlannedCall, plan: &DemoPlan, habits: &WritingHabits) -> Self {
        Self {
            id: habits.has_ids.then(|| call.id.clone()),
            name: faults::name(&call.name, habits.name),
            kind: call.kind,
            arguments: faults::arguments(call, plan, habits.arguments),
            object: call.arguments.clone(),
        }
    }

    /// A call, or the first words of one.
    fn head(&self, index: Option<usize>, arguments: Value) -> Value {
        let (word, key) = match self.kind {
            CallKind::Custom => ("custom", "input"),
            _ => ("function", "arguments"),
        };
        let function = Value::object([("name", self.name.as_str().into()), (key, arguments)]);
        let mut call = Object::new();
        index.map(|index| call.insert("index", index));
        self.id.as_deref().map(|id| call.insert("id", id));
        call.insert("type", word);
        call.insert(word, function);
        Value::Object(call)
    }

    /// More of its arguments.
    fn more(&self, index: Option<usize>, arguments: &str) -> Value {
        let (word, key) = match self.kind {
            CallKind::Custom => ("custom", "input"),
            _ => ("function", "arguments"),
        };
        let mut call = Object::new();
        index.map(|index| call.insert("index", index));
        call.insert(word, Value::object([(key, arguments.into())]));
        Value::Object(call)
    }
}

/// The response as one body.
pub(super) fn whole(row: &DemoModel, plan: &DemoPlan) -> Vec<ScriptStep> {
    let speech = DemoSpeech::of(row, plan);
    let mut message = Object::new();
    message.insert("role", "assistant");
    message.insert("content", Some(speech.text.as_str()).filter(|text| !text.is_empty()));
    if let Some(reasoning) = &speech.reasoning {
        message.insert("reasoning_content", reasoning.as_str());
    }
    if !speech.calls.is_empty() {
        let call = |call: &SpokenCall| {
            let arguments = call.arguments.as_deref().map_or_else(|| call.object.clone(), Value::from);
            call.head(None, arguments)
        };
        message.insert("tool_calls", speech.calls.iter().map(call).collect::<Value>());
    }
    let choice = Value::object([
        ("index", 0.into()),
        ("message", Value::Object(message)),
        ("finish_reason", speech.finish.into()),
    ]);
    let body =
        frame(row, plan, "chat.completion", [choice].into_iter().collect(), Some(usage(plan, &speech)));
    let body = body.to_string().into_bytes();
    let mut steps = Vec::new();
    match row.habits.end {
        EndHabit::Whole => {
            steps.extend(wait(row.habits.pause));
            // The wait is as long as for its pieces.
            steps.extend(pieces(&speech.text).filter_map(|_| wait(row.habits.pace)));
            steps.push(ScriptStep::Send(body));
        }
        EndHabit::Error => {
            let error = Value::object([("error", failure())]);
            steps.push(ScriptStep::Send(error.to_string().into_bytes()));
        }
        EndHabit::Break => {
            steps.push(ScriptStep::Send(body[..body.len() / 2].to_vec()));
            steps.push(ScriptStep::Break);
        }
        EndHabit::Garbage => steps.push(ScriptStep::Send(GARBAGE.to_vec())),
    }
    steps
}

const GARBAGE: &[u8] = b"\x00\xff\xfe<html><body>502 Bad Gateway</body></html>\n";

/// The response in pieces.
pub(super) fn stream(row: &DemoModel, plan: &DemoPlan) -> Vec<ScriptStep> {
    let habits = &row.habits;
    let speech = DemoSpeech::of(row, plan);
    let mut deltas = vec![Value::object([("role", "assistant".into()), ("content", "".into())])];
    let told = speech.reasoning.iter().map(|reasoning| ("reasoning_content", reasoning));
    for (member, text) in told.chain([("content", &speech.text)]) {
        deltas.extend(pieces(text).map(|piece| Value::object([(member, piece.into())])));
    }
    let calls = fragments(&speech.calls, habits);
    deltas
        .extend(calls.into_iter().map(|call| Value::object([("tool_calls", [call].into_iter().collect())])));
    let chunk = |delta: Value, finish: Option<&str>| {
        let choice = Value::object([("index", 0.into()), ("delta", delta), ("finish_reason", finish.into())]);
        let frame = frame(row, plan, "chat.completion.chunk", [choice].into_iter().collect(), None);
        event(&frame.to_string())
    };
    let shown = match habits.end {
        EndHabit::Whole => deltas.len(),
        EndHabit::Error | EndHabit::Break | EndHabit::Garbage => deltas.len().div_ceil(2).max(2),
    };
    let mut steps = Vec::new();
    for (at, delta) in deltas.into_iter().take(shown).enumerate() {
        // The first words come before a silence.
        steps.extend(wait(if at == 2 { habits.pause } else { habits.pace }));
        steps.push(ScriptStep::Send(chunk(delta, None)));
    }
    match habits.end {
        EndHabit::Whole => {
            steps.push(ScriptStep::Send(chunk(Value::object([]), Some(speech.finish))));
            if plan.emits_usage {
                let frame = frame(
                    row,
                    plan,
                    "chat.completion.chunk",
                    Value::Array(Default::default()),
                    Some(usage(plan, &speech)),
                );
                steps.push(ScriptStep::Send(event(&frame.to_string())));
            }
            steps.push(ScriptStep::Send(event("[DONE]")));
        }
        EndHabit::Error => {
            steps.push(ScriptStep::Send(event(&Value::object([("error", failure())]).to_string())));
        }
        EndHabit::Break => steps.push(ScriptStep::Break),
        EndHabit::Garbage => steps.push(ScriptStep::Send(GARBAGE.to_vec())),
    }
    steps
}

/// Returns the entries in the list of calls, chunk by chunk.
fn fragments(calls: &[SpokenCall], habits: &WritingHabits) -> Vec<Value> {
    let written = |(at, call): (usize, &SpokenCall)| -> Vec<Value> {
        let index = match habits.numbering {
            NumberingHabit::Counted => Some(at),
            NumberingHabit::Zero => Some(0),
            NumberingHabit::Absent => None,
        };
        let Some(arguments) = &call.arguments else { return vec![call.head(index, call.object.clone())] };
        let head = call.head(index, "".into());
        let more = pieces(arguments).map(|piece| call.more(index, piece));
        [head].into_iter().chain(more).collect()
    };
    let mut told: Vec<_> = calls.iter().enumerate().map(|it| written(it).into_iter()).collect();
    if !habits.is_interleaved {
        return told.into_iter().flatten().collect();
    }
    let mut fragments = Vec::new();
    loop {
        let before = fragments.len();
        fragments.extend(told.iter_mut().filter_map(Iterator::next));
        if fragments.len() == before {
            return fragments;
        }
    }
}

/// A text in pieces of a few characters.
fn pieces(text: &str) -> impl Iterator<Item = &str> {
    let mut rest = text;
    std::iter::from_fn(move || {
        let end = rest.char_indices().nth(PIECE).map_or(rest.len(), |(at, _)| at);
        let (piece, after) = rest.split_at(end);
        rest = after;
        (!piece.is_empty()).then_some(piece)
    })
}

fn frame(row: &DemoModel, plan: &DemoPlan, object: &str, choices: Value, usage: Option<Value>) -> Value {
    let mut frame = Object::new();
    // Clients know the turns of a conversation by their ids, and a conversation grows.
    frame.insert("id", format!("chatcmpl-demo-{}-{}", row.name, plan.turn));
    frame.insert("object", object);
    frame.insert("created", CREATED);
    frame.insert("model", row.name.as_str());
    frame.insert("choices", choices);
    usage.map(|usage| frame.insert("usage", usage));
    Value::Object(frame)
}

fn usage(plan: &DemoPlan, speech: &DemoSpeech) -> Value {
    let arguments = speech.calls.iter().filter_map(|call| call.arguments.as_deref());
    let texts = arguments.chain([speech.text.as_str(), speech.reasoning.as_deref().unwrap_or_default()]);
    let completion = 1 + texts.map(|text| text.len().div_ceil(PIECE)).sum::<usize>();
    Value::object([
        ("prompt_tokens", plan.prompt_tokens.into()),
        ("completion_tokens", completion.into()),
        ("total_tokens", (plan.prompt_tokens + completion).into()),
    ])
}

fn failure() -> Value {
    Value::object([
        ("message", "the scripted model failed in mid-answer".into()),
        ("type", "server_error".into()),
        ("code", 500.into()),
    ])
}

fn event(data: &str) -> Vec<u8> {
    format!("data: {data}\n\n").into_bytes()
}

fn wait(pause: std::time::Duration) -> Option<ScriptStep> {
    (!pause.is_zero()).then_some(ScriptStep::Wait(pause))
}
