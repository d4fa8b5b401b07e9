//! The picture of the README: one call in five dialects, and the message that callweave reads from each of them.

use std::fmt::Write as _;

use callweave::Tools;

use crate::check::{Outcome, told};
use crate::root;

const WIDTH: usize = 980;
const LINE: usize = 19;
const LEFT: usize = 28;
const RIGHT: usize = 640;

/// Readable in light and dark, whatever is around it.
const STYLE: &str = "
  .ground { fill: #ffffff; } .box { fill: #f6f8fa; stroke: #d0d7de; } .flow { stroke: #cf3a1c; stroke-width: 2; fill: none; }
  text { fill: #24292f; font-family: ui-monospace, SFMono-Regular, Menlo, Consolas, monospace; font-size: 13px; white-space: pre; }
  .label { font-family: system-ui, -apple-system, 'Segoe UI', sans-serif; font-size: 12px; fill: #6e7781; }
  .title { font-family: system-ui, -apple-system, 'Segoe UI', sans-serif; font-size: 15px; font-weight: 600; }
  @media (prefers-color-scheme: dark) {
    .ground { fill: #0d1117; } .box { fill: #161b22; stroke: #30363d; } .flow { stroke: #ff8a65; }
    text { fill: #e6edf3; } .label { fill: #8b949e; }
  }
";

/// Whose models write so, and what they write.
const WRITTEN: &[(&str, &str)] = &[
    (
        "Hermes, Qwen 2.5: JSON that is not quite JSON",
        "<tool_call>\n{name: 'forecast', \"arguments\": {\"city\": \"Oslo\", days: \"2\",}}\n</tool_call>",
    ),
    (
        "Qwen 3 Coder: elements",
        "<tool_call>\n<function=forecast>\n<parameter=city>Oslo</parameter>\n<parameter=days>2</parameter>\n\
         </function>\n</tool_call>",
    ),
    ("Llama 4: Python", "[forecast(city=\"Oslo\", days=2)]"),
    ("Mistral: a marker", "[TOOL_CALLS]forecast{\"city\": \"Oslo\", \"days\": 2}"),
    (
        "MiniMax M2: elements of its own",
        "<minimax:tool_call>\n<invoke name=\"forecast\">\n<parameter name=\"city\">Oslo</parameter>\n\
         <parameter name=\"days\">2</parameter>\n</invoke>\n</minimax:tool_call>",
    ),
];

/// `cargo xtask picture`: writes it.
pub(crate) fn run() -> Result<Outcome, String> {
    let path = root().join("docs/callweave.svg");
    std::fs::write(&path, picture()?).map_err(told(&path))?;
    println!("{}", path.display());
    Ok(Outcome::Passed)
}

/// The picture, if the call is the same in all dialects.
fn picture() -> Result<String, String> {
    let tools = serde_json::json!([{"type": "function", "function": {"name": "forecast", "parameters": {
        "type": "object", "required": ["city", "days"],
        "properties": {"city": {"type": "string"}, "days": {"type": "integer"}}}}}]);
    let tools = Tools::from_json(&callweave::Value::from(tools));
    let mut calls = Vec::new();
    let mut out = String::new();
    let mut top = 64;
    let mut middles = Vec::new();
    for (label, written) in WRITTEN {
        let message = callweave::extract(written, &tools);
        let call = message.first().and_then(|choice| {
            let call = choice.tool_calls().next()?;
            Some((call.name.clone(), call.parse::<serde_json::Value>().ok()?))
        });
        calls.push(call.ok_or_else(|| format!("no call was found in {written:?}"))?);
        let lines: Vec<_> = written.lines().collect();
        let height = lines.len() * LINE + 16;
        put(&mut out, "label", LEFT, top, label);
        let _ = writeln!(
            out,
            "<rect class=\"box\" x=\"{}\" y=\"{}\" width=\"520\" height=\"{height}\" rx=\"6\"/>",
            LEFT - 8,
            top + 8
        );
        for (number, line) in lines.iter().enumerate() {
            put(&mut out, "", LEFT + 4, top + 11 + LINE * (number + 1), line);
        }
        middles.push(top + 8 + height / 2);
        top += height + 40;
    }
    if calls.iter().any(|call| *call != calls[0]) {
        return Err(format!("the dialects give different calls: {calls:#?}"));
    }
    let (height, middle) = (top, top / 2);
    let target = middle - 19;
    for from in &middles {
        let _ = writeln!(
            out,
            "<path class=\"flow\" d=\"M 544 {from} C 596 {from}, 588 {target}, {} {target}\"/>",
            RIGHT - 12
        );
    }
    put(&mut out, "title", LEFT - 8, 30, "What models write");
    put(&mut out, "title", RIGHT, 30, "What clients get");
    put(&mut out, "label", RIGHT, middle - 60, "one call, valid against its schema");
    let _ = writeln!(
        out,
        "<rect class=\"box\" x=\"{}\" y=\"{}\" width=\"{}\" height=\"58\" rx=\"6\"/>",
        RIGHT - 8,
        middle - 48,
        WIDTH - RIGHT - 12
    );
    let (name, arguments) = &calls[0];
    put(&mut out, "", RIGHT + 4, middle - 24, name);
    put(&mut out, "", RIGHT + 4, middle - 24 + LINE, &arguments.to_string());
    for (number, protocol) in
        ["OpenAI Chat Completions", "OpenAI Responses", "Anthropic Messages", "Gemini", "Ollama"]
            .iter()
            .enumerate()
    {
        put(&mut out, "label", RIGHT, middle + 40 + LINE * number, &format!("in {protocol}"));
    }
    Ok(format!(
        "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {WIDTH} {height}\" role=\"img\" aria-label=\"The same \
         call in five dialects becomes one valid call\">\n<style>{STYLE}</style>\n<rect class=\"ground\" \
         width=\"{WIDTH}\" height=\"{height}\" rx=\"8\"/>\n{out}</svg>\n"
    ))
}

fn put(out: &mut String, class: &str, x: usize, y: usize, text: &str) {
    let text = text.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;");
    let _ = writeln!(out, "<text class=\"{class}\" x=\"{x}\" y=\"{y}\">{text}</text>");
}

#[cfg(test)]
mod tests {
    use super::picture;
    use crate::root;

    #[test]
    fn the_picture_is_what_the_command_makes() {
        let committed = std::fs::read_to_string(root().join("docs/callweave.svg")).expect("a picture");
        assert!(committed == picture().expect("one call"), "run `cargo xtask picture`");
    }
}
