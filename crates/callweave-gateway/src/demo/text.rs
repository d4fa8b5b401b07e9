//! Calls written into the text, in a dialect.

use callweave::dialect::{Dialect, DialectRegistry, ExtractOptions, Extraction};
use callweave::message::ToolCall;
use callweave::teach::CallWriter;
use callweave::{Tools, Value};

use super::faults;
use super::plan::{DemoPlan, PlannedCall};

/// The calls of a turn as the dialect writes them; none if it cannot express them. Of several forms it is one that is
/// read without naming the dialect, if there is one.
pub(super) fn render(dialect: &Dialect, plan: &DemoPlan) -> Option<String> {
    let tools = Tools::from_json(&plan.tools);
    let calls: Vec<ToolCall> = plan.calls.iter().map(tool_call).collect();
    let writer = CallWriter::new(dialect).ok();
    let written = writer.and_then(|writer| writer.tools(tools.clone()).render_calls(&calls).ok());
    let mut ways: Vec<String> =
        written.into_iter().chain(by_example(dialect, tools.clone(), &plan.calls)).collect();
    let auto = DialectRegistry::builtin().options("auto").ok()?.tools(tools);
    let best = ways.iter().position(|text| reads_as(text, &auto, &plan.calls)).unwrap_or(0);
    (best < ways.len()).then(|| ways.swap_remove(best))
}

/// Whether calls can be written in the dialect.
pub(super) fn is_writable(dialect: &Dialect) -> bool {
    let call = PlannedCall {
        id: "id".to_owned(),
        name: "look".to_owned(),
        kind: Default::default(),
        arguments: Value::object([("at", "sky".into())]),
        required: Vec::new(),
    };
    CallWriter::new(dialect).is_ok() || by_example(dialect, Tools::default(), &[call]).is_some()
}

/// The dialect's example with another name and other arguments, one call in a turn: for those without a writer.
fn by_example(dialect: &Dialect, tools: Tools, calls: &[PlannedCall]) -> Option<String> {
    let [call] = calls else { return None };
    let options = ExtractOptions::with_dialects(vec![dialect.clone()]).tools(tools);
    let shown = Extraction::of(&dialect.example, &ExtractOptions::with_dialects(vec![dialect.clone()]));
    let shown = shown.calls.first()?;
    let text = dialect.example.replace(&shown.name, &call.name);
    let text = [r#"{"city": "Oslo"}"#, r#"{"city":"Oslo"}"#, shown.arguments()]
        .into_iter()
        .find(|written| text.contains(written))
        .map(|written| text.replacen(written, &call.arguments.to_string(), 1))?;
    reads_as(&text, &options, calls).then_some(text)
}

fn reads_as(text: &str, options: &ExtractOptions, calls: &[PlannedCall]) -> bool {
    let found = Extraction::of(text, options).calls;
    let is_same = |(found, call): (&ToolCall, &PlannedCall)| {
        let arguments = found.arguments().parse::<Value>();
        found.name == call.name && arguments.is_ok_and(|value| value == call.arguments)
    };
    found.len() == calls.len() && found.iter().zip(calls).all(is_same)
}

fn tool_call(call: &PlannedCall) -> ToolCall {
    let mut made = ToolCall::new(call.id.as_str(), call.name.as_str(), faults::sound(call));
    made.kind = call.kind;
    made
}
