//! The outline of a request: its properties without taking its conversation apart.

use std::borrow::Cow;
use std::ops::Range;

use super::{Request, RequestCoding, RequestOptions, seals};
use crate::error::{Error, ErrorKind, Result};
use crate::json::{JsonKind, Object, Tape, TapeNode, Value};
use crate::protocol::Protocol;

/// The body of a request as text: members outside its conversation can be had without reading that, and most requests
/// to a provider of the same protocol need nothing else.
///
/// ```
/// use callweave::json::Tape;
/// use callweave::protocol::Protocol;
///
/// let chat = Protocol::named("openai-chat").expect("a protocol of that name");
/// let body = r#"{"model": "alias", "stream": true, "messages": [{"role": "user", "content": "Hi"}], "tools": []}"#;
/// let mut tape = Tape::new();
/// let outline = chat.outline_request(tape.parse(body)?)?;
/// let settings = outline.settings()?;
/// assert_eq!((settings.model.as_deref(), settings.stream), (Some("alias"), Some(true)));
/// assert!(settings.messages.is_empty());
/// assert_eq!(outline.tools().collect::<Vec<_>>(), ["[]"]);
/// assert_eq!(&body[outline.models()[0].clone()], "\"alias\"");
/// # Ok::<(), callweave::Error>(())
/// ```
#[doc(hidden)]
#[derive(Clone, Copy)]
pub struct RequestOutline<'t> {
    coding: &'t RequestCoding,
    node: TapeNode<'t>,
}

/// The size of a request.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct RequestSize {
    /// Messages, or items.
    pub messages: usize,
    /// Parts of messages and of instructions: elements of the lists in them, and of the lists in these.
    pub parts: usize,
    /// Declarations of tools, ones in groups included.
    pub tools: usize,
}

/// The form in which a request chooses among its tools: not every server takes all.
#[cfg(feature = "exchange")]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum ChoiceForm {
    /// The model decides, or calls nothing.
    Free,
    /// It must call some tool.
    Required,
    /// It must call the one that is named.
    Named,
    /// Some tools are chosen.
    Allowed,
}

/// Emits the ids of the calls in a message, or of one that is an item of its own.
pub(crate) fn call_ids_of(message: TapeNode<'_>, put: &mut impl FnMut(&str)) {
    let mut put_id = |node: TapeNode<'_>, key: &str| {
        if let Some(id) = node.get(key).and_then(TapeNode::str).filter(|id| !id.written().is_empty()) {
            put(&id.to_cow());
        }
    };
    put_id(message, "call_id");
    for (key, list) in message.members().filter(|(_, list)| list.kind() == JsonKind::Array) {
        match key {
            "tool_calls" => list.elements().for_each(|call| put_id(call, "id")),
            "content" => {
                let is_call = |part: &TapeNode<'_>| {
                    part.get("type").and_then(TapeNode::str).is_some_and(|kind| kind.is("tool_use"))
                };
                list.elements().filter(is_call).for_each(|call| put_id(call, "id"));
            }
            "parts" => {
                let calls = list.elements().filter_map(|part| part.get("functionCall"));
                calls.for_each(|call| put_id(call, "id"));
            }
            _ => {}
        }
    }
}

/// Members that hold a conversation, in any protocol.
const CONVERSATION: &[&str] =
    &["messages", "input", "contents", "system", "systemInstruction", "system_instruction", "instructions"];
/// The members among them that hold messages.
const MESSAGES: &[&str] = &["messages", "input", "contents"];
/// Members that hold declarations of tools.
const TOOLS: &[&str] = &["tools", "functions"];

impl<'t> RequestOutline<'t> {
    /// Everything but the conversation and the tools.
    pub fn settings(&self) -> Result<Request> {
        let is_setting = |key: &&str| !CONVERSATION.contains(key) && !TOOLS.contains(key);
        let members = self.node.members().filter(|(key, _)| is_setting(key));
        (self.coding.read)(members.map(|(key, value)| (key, value.to_value())).collect::<Object>())
    }

    /// The complete request.
    pub fn request(&self) -> Result<Request> {
        match Value::of_node(self.node)? {
            Value::Object(members) => (self.coding.read)(members),
            _ => Err(no_object()),
        }
    }

    /// The tools alone.
    pub fn declarations(&self) -> Result<Request> {
        let members = self.node.members().filter(|(key, _)| TOOLS.contains(key));
        (self.coding.read)(members.map(|(key, value)| (key, value.to_value())).collect::<Object>())
    }

    /// The size of the request, without reading it.
    pub fn size(&self) -> RequestSize {
        let mut size = RequestSize::default();
        for (key, value) in self.node.members() {
            if TOOLS.contains(&key) {
                for tool in value.elements() {
                    size.tools += 1 + lists_in(tool).map(|list| list.elements().count()).sum::<usize>();
                }
            } else if CONVERSATION.contains(&key) {
                // Instructions above the conversation have parts and no messages.
                let has_messages = MESSAGES.contains(&key);
                let messages =
                    value.elements().chain(Some(value).filter(|value| value.kind() == JsonKind::Object));
                for message in messages {
                    size.messages += usize::from(has_messages);
                    size.parts += usize::from(!has_messages);
                    for part in lists_in(message).flat_map(TapeNode::elements) {
                        size.parts += 1 + lists_in(part).map(|list| list.elements().count()).sum::<usize>();
                    }
                }
            }
        }
        size
    }

    /// The model that is named in the body.
    pub fn model(&self) -> Option<Cow<'t, str>> {
        self.node.get(self.coding.model)?.str().map(|model| model.to_cow())
    }

    /// Emits the ids of the calls in the conversation, without reading it.
    pub fn call_ids(&self, mut put: impl FnMut(&str)) {
        let messages = self.node.members().filter(|(key, _)| MESSAGES.contains(key));
        for message in messages.flat_map(|(_, messages)| messages.elements()) {
            call_ids_of(message, &mut put);
        }
    }

    /// Whether every server of the protocol takes the members of the request: one system message, which leads, no
    /// developers, no tools but functions, no newer names, no `functions` of the older form.
    #[cfg(feature = "exchange")]
    pub(crate) fn is_common(&self) -> bool {
        let is = |node: TapeNode<'_>, key: &str, words: &[&str]| {
            let text = node.get(key).and_then(TapeNode::str);
            text.is_some_and(|text| words.iter().any(|word| text.is(word)))
        };
        let mut operators = 0;
        for (key, value) in self.node.members() {
            match key {
                "instructions" => operators += usize::from(value.kind() != JsonKind::Null),
                "messages" | "input" => {
                    for (number, message) in value.elements().enumerate() {
                        let is_system = is(message, "role", &["system"]);
                        if is(message, "role", &["developer", "function"]) || is_system && number > 0 {
                            return false;
                        }
                        operators += usize::from(is_system);
                    }
                }
                // Older servers ignore it.
                "max_completion_tokens" => return false,
                // Newer ones ignore these.
                "functions" | "function_call" => return false,
                "tools" if value.elements().any(|tool| is(tool, "type", &["custom", "namespace"])) => {
                    return false;
                }
                _ => {}
            }
        }
        operators < 2
    }

    /// The form in which the choice of tools is written.
    #[cfg(feature = "exchange")]
    pub(crate) fn choice_form(&self) -> ChoiceForm {
        let Some(choice) = self.node.get("tool_choice") else { return ChoiceForm::Free };
        let word = choice.get("type").unwrap_or(choice).str();
        let is = |words: &[&str]| word.is_some_and(|word| words.iter().any(|own| word.is(own)));
        match () {
            () if is(&["allowed_tools"]) => ChoiceForm::Allowed,
            () if is(&["required", "any"]) => ChoiceForm::Required,
            () if choice.kind() == JsonKind::Object && is(&["function", "custom"]) => ChoiceForm::Named,
            () => ChoiceForm::Free,
        }
    }

    /// The declarations of tools, as they are written.
    pub fn tools(&self) -> impl Iterator<Item = &'t str> {
        self.node.members().filter(|(key, _)| TOOLS.contains(key)).map(|(_, value)| value.raw())
    }

    /// Whether tools are declared in the older form alone: Chat's `functions`.
    pub fn has_older_tools(&self) -> bool {
        let has = |key: &str| self.node.get(key).is_some_and(|own| own.kind() == JsonKind::Array);
        has("functions") && !has("tools")
    }

    /// The ranges of the model's name in the text, in quotes.
    pub fn models(&self) -> Vec<Range<usize>> {
        let named = self.node.members().filter(|(key, _)| *key == self.coding.model);
        named.map(|(_, value)| value.start()..value.start() + value.raw().len()).collect()
    }

    /// Whether the text can be sent on as it is, except for the model: not if ids in it carry seals that their issuer
    /// wants back, nor if its members are spelled so that they must be read to be known, nor if it nests too deeply to
    /// be read.
    pub fn is_relayable(&self) -> bool {
        !self.node.members().any(|(key, _)| key.contains('\\'))
            && !seals::may_ride_in(self.node.raw())
            && !Value::is_too_deep(self.node)
    }
}

impl Protocol {
    /// Looks at the body of a request without taking it apart.
    #[doc(hidden)]
    pub fn outline_request<'t>(&'t self, body: TapeNode<'t>) -> Result<RequestOutline<'t>> {
        let coding = self.request_coding()?;
        match body.kind() {
            JsonKind::Object => Ok(RequestOutline { coding, node: body }),
            _ => Err(no_object()),
        }
    }

    /// The body of a request for another provider of the same protocol: byte for byte the same, except for the model,
    /// if [another](RequestOptions::model) is to answer.
    ///
    /// ```
    /// use callweave::protocol::Protocol;
    /// use callweave::request::RequestOptions;
    ///
    /// let chat = Protocol::named("openai-chat").expect("a protocol of that name");
    /// let body = r#"{ "model":"alias", "seed": 1.0e3, "x": "\u0041", "x": 2, "messages": [] }"#;
    /// assert_eq!(chat.relay_request(body, &RequestOptions::default())?, body);
    /// let mut options = RequestOptions::default();
    /// options.model = Some("large".to_owned());
    /// let expected = r#"{ "model":"large", "seed": 1.0e3, "x": "\u0041", "x": 2, "messages": [] }"#;
    /// assert_eq!(chat.relay_request(body, &options)?, expected);
    /// # Ok::<(), callweave::Error>(())
    /// ```
    pub fn relay_request<'b>(&self, body: &'b str, options: &RequestOptions) -> Result<Cow<'b, str>> {
        let mut tape = Tape::new();
        let outline = self.outline_request(tape.parse(body)?)?;
        Ok(match &options.model {
            Some(model) => Cow::Owned(renamed(body, &outline.models(), model)),
            None => Cow::Borrowed(body),
        })
    }
}

/// The body of a request with another model named in these [places](RequestOutline::models).
#[doc(hidden)]
pub fn renamed(body: &str, places: &[Range<usize>], model: &str) -> String {
    let model = Value::from(model).to_string();
    let mut relayed = String::with_capacity(body.len() + model.len());
    let mut copied = 0;
    for place in places {
        relayed.push_str(body.get(copied..place.start).unwrap_or_default());
        relayed.push_str(&model);
        copied = place.end;
    }
    relayed.push_str(body.get(copied..).unwrap_or_default());
    relayed
}

/// The lists that are members of a value.
fn lists_in(node: TapeNode<'_>) -> impl Iterator<Item = TapeNode<'_>> {
    node.members().map(|(_, value)| value).filter(|value| value.kind() == JsonKind::Array)
}

fn no_object() -> Error {
    Error::new(ErrorKind::Invalid, "the body of a request is not an object")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::protocol::{
        ANTHROPIC_MESSAGES, GEMINI_GENERATE_CONTENT, OLLAMA, OPENAI_CHAT, OPENAI_RESPONSES,
    };
    use crate::request::{MessageContent, RetainedFields};

    fn outlined<T>(protocol: &Protocol, body: &str, look: impl FnOnce(RequestOutline<'_>) -> T) -> T {
        let mut tape = Tape::new();
        look(protocol.outline_request(tape.parse(body).expect("JSON")).expect("an object"))
    }

    #[test]
    fn settings_are_those_of_the_whole_request() {
        for (protocol, body) in [
            (
                &OPENAI_CHAT,
                r#"{"model":"m","stream":true,"stream_options":{"include_usage":true},"tool_choice":"none","own":[1],
                "messages":[{"role":"user","content":"a"}],"tools":[{"type":"function","function":{"name":"f"}}]}"#,
            ),
            (
                &OPENAI_CHAT,
                r#"{"model":"m","function_call":"none","functions":[{"name":"f"}],"messages":[]}"#,
            ),
            (
                &OPENAI_RESPONSES,
                r#"{"model":"m","store":false,"previous_response_id":"r","instructions":"b","input":"a",
                "tools":[{"type":"function","name":"f"}],"reasoning":{"effort":"low"}}"#,
            ),
            (
                &ANTHROPIC_MESSAGES,
                r#"{"model":"m","max_tokens":9,"tool_choice":{"type":"none"},"system":"b","messages":[],
                "tools":[{"name":"f","input_schema":{}}],"thinking":{"type":"enabled","budget_tokens":5}}"#,
            ),
            (
                &GEMINI_GENERATE_CONTENT,
                r#"{"contents":[{"parts":[{"text":"a"}]}],"systemInstruction":{"parts":[{"text":"b"}]},
                "tools":[{"functionDeclarations":[{"name":"f"}]}],
                "toolConfig":{"functionCallingConfig":{"mode":"NONE"}},"generationConfig":{"maxOutputTokens":9}}"#,
            ),
            (&OLLAMA, r#"{"model":"m","stream":false,"messages":[],"tools":[],"options":{"seed":1}}"#),
        ] {
            let read = outlined(protocol, body, |outline| [outline.settings(), outline.request()]);
            let [settings, whole] = read.map(|request| Request {
                messages: Vec::new(),
                tools: Vec::new(),
                instructions: MessageContent::default(),
                // The retained fields may note that a list was empty.
                kept: RetainedFields::default(),
                ..request.expect("a request")
            });
            assert_eq!(settings, whole, "{body}");
        }
    }

    #[test]
    fn how_much_stands_in_a_request_is_counted_in_every_protocol() {
        for (protocol, body, expected) in [
            (
                &OPENAI_CHAT,
                r#"{"messages":[{"role":"user","content":"a"},{"role":"user","content":[{"type":"text"},{}]},
                {"role":"assistant","tool_calls":[{}]}],"tools":[{},{}],"functions":[{}],"x":[{},[0]]}"#,
                [3, 3, 3],
            ),
            (
                &OPENAI_RESPONSES,
                r#"{"input":[{"content":[{}]},{"type":"reasoning","summary":[{}]}],"instructions":"b",
                "tools":[{"type":"namespace","tools":[{},{}]}]}"#,
                [2, 2, 3],
            ),
            (&OPENAI_RESPONSES, r#"{"input":"a"}"#, [0, 0, 0]),
            (
                &ANTHROPIC_MESSAGES,
                r#"{"system":[{},{}],"messages":[{"content":[{"type":"tool_result","content":[{},{}]}]}]}"#,
                [1, 5, 0],
            ),
            (
                &GEMINI_GENERATE_CONTENT,
                r#"{"contents":{"parts":[{}]},"systemInstruction":{"parts":[{}]},
                "tools":[{"functionDeclarations":[{},{}]}]}"#,
                [1, 3, 3],
            ),
        ] {
            let RequestSize { messages, parts, tools } = outlined(protocol, body, |outline| outline.size());
            assert_eq!([messages, parts, tools], expected, "{body}");
        }
    }

    #[test]
    fn the_whole_request_is_what_its_value_says() {
        let body = r#"{"model":"m","mod\u0065l":"n","messages":[{"role":"user","content":"a"}]}"#;
        let value = OPENAI_CHAT.read_request(body.parse().expect("JSON")).expect("a request");
        assert_eq!(outlined(&OPENAI_CHAT, body, |outline| outline.request()).expect("a request"), value);
    }

    #[test]
    fn what_must_be_read_is_not_relayed() {
        let deep = format!(r#"{{"model":"m","x":{}{}}}"#, "[".repeat(200), "]".repeat(200));
        for (body, is_relayable) in [
            (r#"{"model":"m","messages":[]}"#, true),
            (r#"{"mod\u0065l":"m","messages":[]}"#, false),
            (r#"{"model":"m","messages":[{"tool_call_id":"c__sealed_W10"}]}"#, false),
            (&deep, false),
        ] {
            assert_eq!(
                outlined(&OPENAI_CHAT, body, |outline| outline.is_relayable()),
                is_relayable,
                "{body}"
            );
        }
        assert!(outlined(&OPENAI_CHAT, &deep, |outline| outline.request()).is_err());
        assert!(OPENAI_CHAT.outline_request(Tape::new().parse("[]").expect("JSON")).is_err());
    }
}
