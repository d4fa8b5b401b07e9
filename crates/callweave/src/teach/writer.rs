//! Calls and results, written in a dialect.

use super::layout::{CallLayout, plain};
use super::values::{self, EscapingCare};
use crate::dialect::{
    CallBody, CallForm, ChannelGrammar, ChildrenBody, Dialect, ElementsBody, ExtractOptions, Extraction,
    HeaderBody, JsonBody, MessageNotation, NamedTag, TaggedBody, TextStart, Tools,
};
use crate::error::{Error, ErrorKind, Result};
use crate::event::BlockCompletion;
use crate::json::schema::TypeSet;
use crate::json::{Object, Value, escape_into};
use crate::message::ToolCall;

/// How a result is given back where the dialect does not say it.
const RESULT: &str = "<tool_response>\n{content}\n</tool_response>";

/// The minimum length of a stop sequence: a shorter text may stand anywhere in a response.
const SHORTEST_STOP: usize = 6;

/// The white space that may stand between a text and the calls after it.
const GAPS: [&str; 3] = ["\n", "\n\n", ""];

/// Writes calls and their results in a dialect.
///
/// The extractor of the same dialect reads the written calls as the same calls; a call that the dialect cannot say is
/// refused. The layout is that of the dialect's example.
///
/// ```
/// use callweave::dialect::DialectRegistry;
/// use callweave::message::ToolCall;
/// use callweave::teach::CallWriter;
///
/// let dialect = DialectRegistry::builtin().find("qwen3_coder").expect("it is built in");
/// let call = ToolCall::new("a", "look", r#"{"at": "sky", "times": 2}"#);
/// let writer = CallWriter::new(dialect)?;
/// assert_eq!(
///     writer.render_call(&call)?,
///     "<tool_call>\n<function=look>\n<parameter=at>\nsky\n</parameter>\n<parameter=times>\n2\n</parameter>\n\
///      </function>\n</tool_call>",
/// );
/// assert_eq!(writer.render_result(&call, "blue"), "<tool_response>\nblue\n</tool_response>");
/// # Ok::<(), callweave::Error>(())
/// ```
#[derive(Clone, Debug)]
pub struct CallWriter {
    name: String,
    form: CallForm,
    layout: CallLayout,
    /// How messages are written, where calls are messages of their own.
    notation: Option<&'static MessageNotation>,
    result: String,
    declaration: String,
    /// The end of the prompt that the text is shown behind.
    continues: String,
    tools: Tools,
    reading: ExtractOptions,
    /// Writers of the dialect's other forms, for calls that its own form cannot say.
    others: Vec<CallWriter>,
}

/// A call whose arguments are an object.
struct WritableCall<'c> {
    call: &'c ToolCall,
    arguments: Object,
    ordinal: usize,
}

impl CallWriter {
    /// A writer of that dialect. One that is read by a registered function cannot be written.
    pub fn new(dialect: &Dialect) -> Result<Self> {
        let refused = || {
            let detail = format!("calls of the dialect {:?} cannot be written into a text", dialect.name);
            Error::new(ErrorKind::Unknown, detail)
        };
        let (form, layout) = CallLayout::of(dialect).ok_or_else(refused)?;
        if matches!(form.body, CallBody::Matched(_)) {
            return Err(refused());
        }
        let result = if dialect.result.is_empty() { RESULT } else { &dialect.result };
        let reading = ExtractOptions::with_dialects(vec![dialect.clone()]).starting_in(TextStart::Text);
        let own = Self {
            name: dialect.name.clone(),
            form,
            layout,
            notation: dialect.channels.map(ChannelGrammar::notation),
            result: result.to_owned(),
            declaration: dialect.declaration.clone(),
            continues: dialect.continues.clone(),
            tools: Tools::default(),
            reading,
            others: Vec::new(),
        };
        let is_written =
            |form: &&CallForm| own.notation.is_none() && !matches!(form.body, CallBody::Matched(_));
        let other =
            |form: &CallForm| Self { form: form.clone(), layout: CallLayout::plain(form), ..own.clone() };
        let others = dialect.forms.iter().filter(is_written).map(other).collect();
        Ok(Self { others, ..own })
    }

    /// Declares the tools. Dialects that write values without their types can say more calls with them.
    #[must_use]
    pub fn tools(self, tools: Tools) -> Self {
        let reading = self.reading.tools(tools.clone());
        let with_tools = |other| Self { reading: reading.clone(), tools: tools.clone(), ..other };
        let others = self.others.into_iter().map(with_tools).collect();
        Self { reading, tools, others, ..self }
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
        self.render_turn("", calls)
    }

    /// Writes a text and the calls after it, as one model turn. A text that would be read as something else
    /// is refused as well.
    pub fn render_turn(&self, text: &str, calls: &[ToolCall]) -> Result<String> {
        self.render(text, calls, 0)
    }

    /// The same, where `before` calls were written in earlier turns.
    pub(super) fn render(&self, text: &str, calls: &[ToolCall], before: usize) -> Result<String> {
        let decoded = calls.iter().zip(before..).map(|(call, ordinal)| decode(call, ordinal));
        let calls: Vec<WritableCall<'_>> = decoded.collect::<Result<_>>()?;
        if calls.is_empty() {
            return Ok(text.to_owned());
        }
        let forms = std::iter::once(self).chain(&self.others);
        if let Some(turn) = forms.into_iter().find_map(|form| form.turn(text, &calls)) {
            return Ok(turn);
        }
        let names: Vec<_> = calls.iter().map(|call| call.call.name.as_str()).collect();
        let detail = format!("the dialect {:?} cannot say this call of {}", self.name, names.join(", "));
        Err(Error::new(ErrorKind::Invalid, detail))
    }

    /// A turn in this form; none if it would not be read as the same.
    fn turn(&self, text: &str, calls: &[WritableCall<'_>]) -> Option<String> {
        let gaps = match self.notation {
            // Where nothing shows that the prompt has begun the first message, it is begun here.
            Some(notation) => &["", notation.begin][..],
            None if text.is_empty() => &GAPS[..1],
            None => &GAPS,
        };
        [EscapingCare::Plain, EscapingCare::Careful].into_iter().find_map(|care| {
            let written = self.write(calls, care);
            let mut turns = gaps.iter().map(|gap| self.after_text(text, gap, &written));
            turns.find(|turn| self.reads_as(turn, text, calls))
        })
    }

    /// A text that calls nothing, as the model would write it; none if it reads as a call however it is written.
    pub(super) fn render_text(&self, text: &str) -> Option<String> {
        let plain = Some(text.to_owned());
        let told =
            self.notation.map(|MessageNotation { text: (open, close), .. }| format!("{open}{text}{close}"));
        plain.into_iter().chain(told).find(|turn| self.is_prose(turn))
    }

    /// Whether a text, written by the model, calls nothing.
    pub(super) fn is_prose(&self, text: &str) -> bool {
        Extraction::of(text, &self.reading).calls.is_empty()
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

    /// The dialect's own id for a call, where it has one.
    pub(super) fn own_id(&self, name: &str, ordinal: usize) -> Option<String> {
        let is_numbered = matches!(self.form.body, CallBody::Header(_)) && self.counts_calls();
        is_numbered.then(|| format!("functions.{name}:{ordinal}"))
    }

    /// Whether the names of calls end with their numbers.
    fn counts_calls(&self) -> bool {
        self.layout.name_as_written().ends_with(":0")
    }

    /// Returns the beginning of the results of calls, if it is more than a word: there the model must not go on.
    pub(super) fn stop(&self) -> Option<&str> {
        let head = self.result.split('{').next().unwrap_or_default().trim();
        let is_marker = |letter: char| !letter.is_alphanumeric() && !letter.is_whitespace();
        (head.len() >= SHORTEST_STOP && head.contains(is_marker)).then_some(head)
    }

    pub(super) fn form(&self) -> &CallForm {
        &self.form
    }

    /// How tools are declared; nothing: in words.
    pub(super) fn declaration(&self) -> &str {
        &self.declaration
    }

    pub(super) fn reading(&self) -> &ExtractOptions {
        &self.reading
    }

    /// One call to show, and two where they are written in another way than one after the other.
    pub(super) fn samples(&self) -> (String, Option<String>) {
        let (one, other) = (sample_call("tool_name", 0), sample_call("other_tool", 1));
        let write = |calls: &[ToolCall]| {
            let decoded = calls.iter().zip(0..).filter_map(|(call, ordinal)| decode(call, ordinal).ok());
            self.write(&decoded.collect::<Vec<_>>(), EscapingCare::Plain)
        };
        let is_together = self.form.is_shared || self.is_list() || self.notation.is_some();
        let single = write(std::slice::from_ref(&one));
        (single, is_together.then(|| write(&[one, other])))
    }

    pub(super) fn sample_result(&self) -> String {
        self.render_result(&sample_call("tool_name", 0), "what the tool answered")
    }

    /// Whether a turn is read as this text and these calls.
    fn reads_as(&self, turn: &str, text: &str, calls: &[WritableCall<'_>]) -> bool {
        let found = Extraction::of(turn, &self.reading);
        let is_same = |(found, call): (&ToolCall, &WritableCall<'_>)| {
            let arguments = found.raw_arguments.parse::<Object>();
            found.completion != BlockCompletion::Truncated
                && found.name == call.call.name
                && arguments.is_ok_and(|read| read == call.arguments)
        };
        let content = found.content.strip_prefix(&self.continues).unwrap_or(&found.content);
        content.trim() == text.trim()
            && found.reasoning.is_empty()
            && found.calls.len() == calls.len()
            && found.calls.iter().zip(calls).all(is_same)
    }

    /// Whether the calls are the elements of one list.
    fn is_list(&self) -> bool {
        matches!(self.form.body, CallBody::Json(_) | CallBody::Python {}) && self.layout.body.starts_with('[')
    }

    fn after_text(&self, text: &str, gap: &str, calls: &str) -> String {
        match self.notation {
            Some(_) if text.is_empty() => format!("{gap}{calls}"),
            Some(MessageNotation { begin, text: (open, close), .. }) => {
                format!("{gap}{open}{text}{close}{begin}{calls}")
            }
            None if text.is_empty() => calls.to_owned(),
            None => format!("{text}{gap}{calls}"),
        }
    }

    fn write(&self, calls: &[WritableCall<'_>], care: EscapingCare) -> String {
        let layout = &self.layout;
        let bodies: Vec<String> = calls.iter().map(|call| self.body(call, care)).collect();
        if let Some(MessageNotation { begin, call: (open, close), .. }) = self.notation {
            let messages = calls
                .iter()
                .zip(bodies)
                .map(|(call, body)| format!("{}{body}{close}", open.replace("{name}", &call.call.name)));
            return messages.collect::<Vec<_>>().join(begin);
        }
        let is_lines = layout.open.ends_with('\n') || matches!(self.form.body, CallBody::Python {});
        let within = if is_lines { "\n" } else { "" };
        let body = match &self.form.body {
            _ if self.is_list() => format!("[{}]", bodies.join(", ")),
            _ if self.form.is_shared => bodies.join(within),
            // As Llama separates them.
            CallBody::Json(_) if self.form.open.is_empty() => bodies.join("; "),
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

    fn body(&self, call: &WritableCall<'_>, care: EscapingCare) -> String {
        let name = &call.call.name;
        let mut out = String::new();
        match &self.form.body {
            // The name stands in the header of the message.
            CallBody::Header(_) if self.notation.is_some() => Self::arguments(call, care, &mut out),
            CallBody::Tagged(body) if self.notation.is_some() => {
                out.push_str(&self.layout.open);
                self.tagged(call, body, care, &mut out);
                out.push_str(&self.layout.close);
            }
            CallBody::Json(body) => self.json(call, body, care, &mut out),
            CallBody::Header(body) => self.header(call, Some(body), care, &mut out),
            CallBody::Fields(_) => self.header(call, None, care, &mut out),
            CallBody::Tagged(body) => self.tagged(call, body, care, &mut out),
            CallBody::Python {} => {
                out.push_str(&format!("{name}("));
                values::keywords_into(&call.arguments, care, &mut out);
                out.push(')');
            }
            CallBody::Braces(body) => {
                out.push_str(body.before.first().map_or("", String::as_str));
                out.push_str(name);
                let arguments = Value::Object(call.arguments.clone());
                values::braces_into(&arguments, &body.quote, care, &mut out);
            }
            CallBody::Elements(body) => elements(call, body, care, &mut out),
            CallBody::Children(body) => self.children(call, body, care, &mut out),
            CallBody::Matched(_) => {}
        }
        out
    }

    /// The arguments as the model wrote them, as far as care allows.
    fn arguments(call: &WritableCall<'_>, care: EscapingCare, out: &mut String) {
        match care {
            EscapingCare::Plain => out.push_str(call.call.arguments().trim()),
            EscapingCare::Careful => values::json_into(&Value::Object(call.arguments.clone()), care, out),
        }
    }

    fn json(&self, call: &WritableCall<'_>, body: &JsonBody, care: EscapingCare, out: &mut String) {
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

    /// The name, the arguments, and around them the text that the example has there.
    fn header(
        &self,
        call: &WritableCall<'_>,
        body: Option<&HeaderBody>,
        care: EscapingCare,
        out: &mut String,
    ) {
        let example = &self.layout.body;
        let name = match self.counts_calls() {
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

    /// Every value on lines of its own, so that its own line breaks differ from those of its tags.
    fn children(&self, call: &WritableCall<'_>, body: &ChildrenBody, care: EscapingCare, out: &mut String) {
        let name = &call.call.name;
        let schema = self.tools.schema(name);
        match body.call.open.is_empty() {
            true => out.push_str(&format!("<{name}>\n")),
            false => out.push_str(&format!("{}{name}{}\n", body.call.open, body.call.end)),
        }
        for (key, value) in &call.arguments {
            let types = schema.map_or(TypeSet::ANY, |schema| schema.property(key));
            let (value, _) = values::tagged(value, types, &TaggedBody::default(), care);
            out.push_str(&format!("<{key}>\n{value}\n</{key}>\n"));
        }
        match body.call_close.as_str() {
            "" => out.push_str(&format!("</{name}>")),
            close => out.push_str(close),
        }
    }

    fn tagged(&self, call: &WritableCall<'_>, body: &TaggedBody, care: EscapingCare, out: &mut String) {
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
            let types = schema.map_or(TypeSet::ANY, |schema| schema.property(key));
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

fn decode(call: &ToolCall, ordinal: usize) -> Result<WritableCall<'_>> {
    Ok(WritableCall { call, arguments: call.object()?, ordinal })
}

/// A tag with a name in it.
fn tag(tag: &NamedTag, name: &str, attributes: &str, out: &mut String) {
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

fn elements(call: &WritableCall<'_>, body: &ElementsBody, care: EscapingCare, out: &mut String) {
    out.push_str(&body.prefix);
    tag(&body.call, &call.call.name, "", out);
    values::elements_into(&call.arguments, body, care, out);
    out.push_str(&body.prefix);
    out.push_str(&body.call_close);
}

fn sample_call(name: &str, number: u8) -> ToolCall {
    let call = ToolCall::new(number.to_string(), name, r#"{"parameter": "value"}"#);
    ToolCall { has_made_id: true, ..call }
}
