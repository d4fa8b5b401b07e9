//! Calls and results, written in a dialect.

use super::layout::{Layout, plain};
use super::values::{self, Care};
use crate::dialect::{
    Body, Dialect, Elements, ExtractOptions, ExtractedCall, Extraction, Form, Header, Json, Start, Tag,
    Tagged, Tools,
};
use crate::error::{Error, ErrorKind, Result};
use crate::event::{CallKind, Completion};
use crate::json::schema::Types;
use crate::json::{Object, Value, escape_into};
use crate::message::ToolCall;

/// How a result is given back where the dialect does not say it.
const RESULT: &str = "<tool_response>\n{content}\n</tool_response>";

/// Writes calls and their results in a dialect.
///
/// What it writes, the extractor of the same dialect reads as the same calls; a call that the dialect
/// cannot say is refused. The layout is that of the dialect's example.
///
/// ```
/// use callweave::dialect::Registry;
/// use callweave::message::ToolCall;
/// use callweave::doors::prompt::Writer;
///
/// let dialect = Registry::builtin().find("qwen3_coder").expect("it is built in");
/// let call = ToolCall { id: "a".into(), has_made_id: false, name: "look".into(),
///     raw_arguments: r#"{"at": "sky", "times": 2}"#.into(), kind: Default::default(), completion: Default::default() };
/// let writer = Writer::new(dialect)?;
/// assert_eq!(
///     writer.render_call(&call)?,
///     "<tool_call>\n<function=look>\n<parameter=at>\nsky\n</parameter>\n<parameter=times>\n2\n</parameter>\n\
///      </function>\n</tool_call>",
/// );
/// assert_eq!(writer.render_result(&call, "blue"), "<tool_response>\nblue\n</tool_response>");
/// # Ok::<(), callweave::Error>(())
/// ```
#[derive(Clone, Debug)]
pub struct Writer {
    name: String,
    form: Form,
    layout: Layout,
    result: String,
    tools: Tools,
    reading: ExtractOptions,
}

/// A call whose arguments are an object.
struct Call<'c> {
    call: &'c ToolCall,
    arguments: Object,
    ordinal: usize,
}

impl Writer {
    /// A writer of that dialect. Dialects of channels, whose calls are messages of their own, and those
    /// read by a registered function cannot be written.
    pub fn new(dialect: &Dialect) -> Result<Self> {
        let refused = || {
            let detail = format!("calls of the dialect {:?} cannot be written into a text", dialect.name);
            Error::new(ErrorKind::Unknown, detail)
        };
        let (form, layout) = Layout::of(dialect).ok_or_else(refused)?;
        if dialect.channels.is_some() || matches!(form.body, Body::Matched(_)) {
            return Err(refused());
        }
        let result = if dialect.result.is_empty() { RESULT } else { &dialect.result };
        let reading = ExtractOptions::with_dialects(vec![dialect.clone()]).starting_in(Start::Text);
        Ok(Self {
            name: dialect.name.clone(),
            form,
            layout,
            result: result.to_owned(),
            tools: Tools::default(),
            reading,
        })
    }

    /// Declares the tools. Dialects that write values without their types can say more calls with them.
    #[must_use]
    pub fn tools(self, tools: Tools) -> Self {
        Self { reading: self.reading.tools(tools.clone()), tools, ..self }
    }

    /// Writes one call.
    pub fn render_call(&self, call: &ToolCall) -> Result<String> {
        self.render_calls(std::slice::from_ref(call))
    }

    /// Writes several calls, as one model turn.
    ///
    /// An invalid call is refused, and one that would not be read as the same call again: the name and
    /// the values are the same, their notation may not be. Ids are written where the dialect has a place
    /// for them.
    pub fn render_calls(&self, calls: &[ToolCall]) -> Result<String> {
        let decoded = calls.iter().enumerate();
        let decoded = decoded.map(|(ordinal, call)| Ok(Call { call, arguments: call.object()?, ordinal }));
        let calls: Vec<Call<'_>> = decoded.collect::<Result<_>>()?;
        if calls.is_empty() {
            return Ok(String::new());
        }
        let mut texts = [Care::Plain, Care::Careful].into_iter().map(|care| self.write(&calls, care));
        texts.find(|text| self.reads_as(text, &calls)).ok_or_else(|| {
            let names: Vec<_> = calls.iter().map(|call| call.call.name.as_str()).collect();
            let detail = format!("the dialect {:?} cannot say this call of {}", self.name, names.join(", "));
            Error::new(ErrorKind::Invalid, detail)
        })
    }

    /// Writes the result of a call, as the next turn's text. The content is passed on as it is.
    pub fn render_result(&self, call: &ToolCall, content: &str) -> String {
        let mut out = String::new();
        let mut rest = self.result.as_str();
        let places = [("{name}", call.name.as_str()), ("{id}", call.id.as_str()), ("{content}", content)];
        let next = |rest: &str| {
            places.iter().filter_map(|(place, text)| rest.find(place).map(|at| (at, *place, *text))).min()
        };
        while let Some((at, place, text)) = next(rest) {
            out.push_str(&rest[..at]);
            out.push_str(text);
            rest = &rest[at + place.len()..];
        }
        out.push_str(rest);
        out
    }

    pub(super) fn form(&self) -> &Form {
        &self.form
    }

    /// One call to show, and two where they are written in another way than one after the other.
    pub(super) fn samples(&self) -> (String, Option<String>) {
        let (one, other) = (sample_call("tool_name", 0), sample_call("other_tool", 1));
        let write = |calls: &[ToolCall]| self.render_calls(calls).unwrap_or_default();
        let is_together = self.form.is_shared || self.is_list();
        let single = write(std::slice::from_ref(&one));
        (single, is_together.then(|| write(&[one, other])))
    }

    pub(super) fn sample_result(&self) -> String {
        self.render_result(&sample_call("tool_name", 0), "what the tool answered")
    }

    fn reads_as(&self, text: &str, calls: &[Call<'_>]) -> bool {
        let found = Extraction::of(text, &self.reading);
        let is_same = |(found, call): (&ExtractedCall, &Call<'_>)| {
            let arguments = found.arguments.parse::<Object>();
            !found.incomplete
                && found.name == call.call.name
                && arguments.is_ok_and(|read| read == call.arguments)
        };
        found.content.trim().is_empty()
            && found.reasoning.is_empty()
            && found.calls.len() == calls.len()
            && found.calls.iter().zip(calls).all(is_same)
    }

    /// Whether the calls are the elements of one list.
    fn is_list(&self) -> bool {
        matches!(self.form.body, Body::Json(_) | Body::Python {}) && self.layout.body.starts_with('[')
    }

    fn write(&self, calls: &[Call<'_>], care: Care) -> String {
        let layout = &self.layout;
        let bodies: Vec<String> = calls.iter().map(|call| self.body(call, care)).collect();
        let is_lines = layout.open.ends_with('\n') || matches!(self.form.body, Body::Python {});
        let within = if is_lines { "\n" } else { "" };
        let body = match &self.form.body {
            _ if self.is_list() => format!("[{}]", bodies.join(", ")),
            _ if self.form.is_shared => bodies.join(within),
            // As Llama separates them.
            Body::Json(_) if self.form.open.is_empty() => bodies.join("; "),
            _ if layout.open.is_empty() && layout.close.is_empty() => bodies.join("\n"),
            _ => {
                let is_lines = [&layout.open, &layout.close].iter().any(|marker| marker.contains('\n'));
                let wrapped: Vec<_> =
                    bodies.iter().map(|body| format!("{}{body}{}", layout.open, layout.close)).collect();
                let all = wrapped.join(if is_lines { "\n" } else { "" });
                return format!("{}{all}{}", layout.before, layout.after);
            }
        };
        format!("{}{}{body}{}{}", layout.before, layout.open, layout.close, layout.after)
    }

    fn body(&self, call: &Call<'_>, care: Care) -> String {
        let name = &call.call.name;
        let mut out = String::new();
        match &self.form.body {
            Body::Json(body) => self.json(call, body, care, &mut out),
            Body::Header(body) => self.header(call, Some(body), care, &mut out),
            Body::Fields(_) => self.header(call, None, care, &mut out),
            Body::Tagged(body) => self.tagged(call, body, care, &mut out),
            Body::Python {} => {
                out.push_str(&format!("{name}("));
                values::keywords_into(&call.arguments, care, &mut out);
                out.push(')');
            }
            Body::Braces(body) => {
                out.push_str(body.before.first().map_or("", String::as_str));
                out.push_str(name);
                let arguments = Value::Object(call.arguments.clone());
                values::braces_into(&arguments, &body.quote, care, &mut out);
            }
            Body::Elements(body) => elements(call, body, care, &mut out),
            Body::Matched(_) => {}
        }
        out
    }

    /// The arguments as the model wrote them, as far as care allows.
    fn arguments(call: &Call<'_>, care: Care, out: &mut String) {
        match care {
            Care::Plain => out.push_str(call.call.arguments().trim()),
            Care::Careful => values::json_into(&Value::Object(call.arguments.clone()), care, out),
        }
    }

    fn json(&self, call: &Call<'_>, body: &Json, care: Care, out: &mut String) {
        let is_shown = |key: &&String| self.layout.body.contains(&format!("\"{key}\""));
        let key = |keys: &[String]| keys.iter().find(is_shown).or(keys.first()).cloned().unwrap_or_default();
        let mut members = Vec::new();
        if let Some(id) = body.id.iter().find(is_shown) {
            members.push((id.clone(), Some(&call.call.id)));
        }
        if body.name.is_empty() {
            members.push((call.call.name.clone(), None));
        } else {
            members.push((key(&body.name), Some(&call.call.name)));
            members.push((key(&body.arguments), None));
        }
        for (at, (key, text)) in members.into_iter().enumerate() {
            out.push_str(if at > 0 { ", \"" } else { "{\"" });
            escape_into(&key, out);
            out.push_str("\": ");
            match text {
                Some(text) => values::json_into(&Value::from(text.as_str()), care, out),
                None => Self::arguments(call, care, out),
            }
        }
        out.push('}');
    }

    /// The name, the arguments, and around them what the example has there.
    fn header(&self, call: &Call<'_>, body: Option<&Header>, care: Care, out: &mut String) {
        let example = &self.layout.body;
        let name = match self.layout.name_as_written().ends_with(":0") {
            true => format!("{}:{}", call.call.name, call.ordinal),
            false => call.call.name.clone(),
        };
        let (before, between, after) = match (self.layout.name, self.layout.arguments) {
            (Some(name), Some(arguments)) if name.1 <= arguments.0 => {
                (&example[..name.0], &example[name.1..arguments.0], &example[arguments.1..])
            }
            _ => {
                let first = |texts: &'_ [String]| texts.first().map_or("", String::as_str).to_owned();
                let header = body.cloned().unwrap_or_default();
                out.push_str(&format!("{}{name}{}", first(&header.before), first(&header.after)));
                Self::arguments(call, care, out);
                return;
            }
        };
        out.push_str(before);
        out.push_str(&name);
        out.push_str(between);
        Self::arguments(call, care, out);
        out.push_str(after);
    }

    fn tagged(&self, call: &Call<'_>, body: &Tagged, care: Care, out: &mut String) {
        let layout = &self.layout;
        let line_break = if body.is_on_lines { "\n" } else { "" };
        let call_end = plain(&body.call.end);
        let tag_of_name = layout.name_as_written().trim_end_matches(&call_end);
        let counter = tag_of_name.strip_suffix("=\"1\"").and_then(|tag| tag.rsplit(' ').next());
        let counted = counter.map(|attribute| format!(" {attribute}=\"{}\"", call.ordinal + 1));
        tag(&body.call, &call.call.name, &counted.unwrap_or_default(), out);
        let after_name = match call_end.as_str() {
            "" => "",
            end => layout.space_after(end),
        };
        out.push_str(after_name);
        let value_close = plain(&body.value_close);
        for (key, value) in &call.arguments {
            let schema = self.tools.schema(&call.call.name);
            let types = schema.map_or(Types::ANY, |schema| schema.property(key));
            let (value, attribute) = values::tagged(value, types, body, care);
            tag(&body.parameter, key, &attribute, out);
            if !body.value_open.is_empty() {
                out.push_str(layout.space_after(&plain(&body.parameter.end)));
                out.push_str(&plain(&body.value_open));
            }
            [line_break, &value, line_break, &value_close, layout.space_after(&value_close)]
                .iter()
                .for_each(|part| out.push_str(part));
        }
        out.push_str(&body.call_close.first().map(|close| plain(close)).unwrap_or_default());
    }
}

/// A tag with a name in it.
fn tag(tag: &Tag, name: &str, attributes: &str, out: &mut String) {
    out.push_str(&plain(&tag.open));
    match &tag.attribute {
        Some(attribute) => {
            let name = name.replace('&', "&amp;").replace('"', "&quot;").replace('<', "&lt;");
            out.push_str(&format!(" {attribute}=\"{name}\"{attributes}"));
        }
        None => out.push_str(name),
    }
    out.push_str(&plain(&tag.end));
}

fn elements(call: &Call<'_>, body: &Elements, care: Care, out: &mut String) {
    out.push_str(&body.prefix);
    tag(&body.call, &call.call.name, "", out);
    values::elements_into(&call.arguments, body, care, out);
    out.push_str(&body.prefix);
    out.push_str(&body.call_close);
}

fn sample_call(name: &str, number: u8) -> ToolCall {
    ToolCall {
        id: number.to_string(),
        has_made_id: true,
        name: name.to_owned(),
        raw_arguments: r#"{"parameter": "value"}"#.to_owned(),
        kind: CallKind::Function,
        completion: Completion::Whole,
    }
}
