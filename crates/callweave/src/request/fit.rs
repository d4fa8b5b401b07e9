//! Makes a request fit what a provider demands: the passes over a [`Request`], driven by a row of [`Limits`].

use std::collections::{HashMap, HashSet, VecDeque};

use super::limits::{System, Teller, Thoughts};
use super::{
    Arguments, Body, Call, CallKind, CallResult, Content, Form, Format, Kept, Limits, Losses, MediaKind,
    Message, Part, Request, Role, Source, Thought, Tool, ToolChoice, ToolKind, kind_of, parse_data_url,
    schema, type_of_name,
};
use crate::json::Value;

/// The one argument of a tool with free text that is sent as a function.
const FREE_TEXT: &str = "input";

/// What is said of a call that nobody answered.
const NO_RESULT: &str = "no result was recorded";

/// Whose result it is that has no call.
const UNKNOWN_TOOL: &str = "unknown_tool";

/// What is declared where a conversation has calls and no tools.
const NO_TOOL: &str = "no_tool_do_not_call";

/// Makes the request fit. `names` and `wrapped` tell what is to be undone in the answer.
pub(crate) fn fit(
    request: &mut Request,
    protocol: &str,
    limits: &Limits,
    losses: &mut Losses,
    names: &mut Vec<(String, String)>,
    wrapped: &mut Vec<String>,
) {
    if !limits.takes_groups {
        hoist_tools(request);
    }
    flatten_groups(request, limits, names);
    narrow_tools(request, limits);
    rename_tools(request, limits, names);
    if !limits.takes_free_text {
        wrap_free_text(request, wrapped);
    }
    place_system(request, protocol, limits, losses);
    pair_results(request, limits, losses);
    mend_parts(request, protocol, limits, losses);
    if limits.alternates {
        alternate(request, protocol, limits, losses);
    }
    if limits.bridges_results {
        bridge_results(request);
    }
    declare_tools(request, protocol, limits);
    for (number, tool) in request.tools.iter_mut().enumerate() {
        losses.at(format_args!("tools[{number}]"));
        if let ToolKind::Function { schema } = &mut tool.kind {
            schema::fit_arguments(schema, limits.schemas, losses);
            let is_refused = schema.as_ref().is_some_and(|schema| schema::is_refused(schema, limits.schemas));
            if (is_refused || !limits.takes_strict) && tool.strict.take() == Some(true) {
                losses.put("strict tool");
            }
        }
    }
    losses.at(format_args!(""));
    if let Some(Format::Schema { schema, .. }) = &mut request.format {
        schema::fit_answer(schema, limits.schemas, losses);
    }
    if request.max_tokens.is_none() {
        request.max_tokens = limits.max_tokens.map(Into::into);
    }
    if request.tools.is_empty() {
        request.parallel_calls = None;
        if matches!(request.tool_choice, Some(ToolChoice::Auto | ToolChoice::None)) {
            request.tool_choice = None;
        }
    }
}

/// Declares tools of mid-conversation with the others.
fn hoist_tools(request: &mut Request) {
    for message in &mut request.messages {
        message.content.parts.retain_mut(|part| {
            let Body::Tools(tools) = &mut part.body else { return true };
            request.tools.append(tools);
            false
        });
    }
}

/// A tool in a group stands alone, with the group's name before its own.
fn flatten_groups(request: &mut Request, limits: &Limits, names: &mut Vec<(String, String)>) {
    let flat = |group: &str, name: &str| format!("{group}__{name}");
    let mut tools = Vec::with_capacity(request.tools.len());
    for mut tool in std::mem::take(&mut request.tools) {
        let is_named = !tool.name.is_empty();
        let ToolKind::Group(members) = &mut tool.kind else {
            tools.push(tool);
            continue;
        };
        if is_named && limits.takes_groups {
            tools.push(tool);
            continue;
        }
        for mut member in std::mem::take(members) {
            if is_named && !matches!(member.kind, ToolKind::Builtin(_)) {
                let name = flat(&tool.name, &member.name);
                names.push((name.clone(), format!("{}.{}", tool.name, member.name)));
                member.name = name;
            }
            tools.push(member);
        }
    }
    request.tools = tools;
    if limits.takes_groups {
        return;
    }
    let mut known: HashSet<String> = names.iter().map(|(name, _)| name.clone()).collect();
    for call in calls_mut(request) {
        if let Some(group) = call.namespace.take() {
            let name = flat(&group, &call.name);
            if known.insert(name.clone()) {
                names.push((name.clone(), format!("{group}.{}", call.name)));
            }
            call.name = name;
        }
    }
}

fn calls_mut(request: &mut Request) -> impl Iterator<Item = &mut Call> {
    let parts = request.messages.iter_mut().flat_map(|message| &mut message.content.parts);
    parts.filter_map(|part| if let Body::Call(call) = &mut part.body { Some(call) } else { None })
}

/// Leaves out the tools that may not be called, where the wire cannot say so.
fn narrow_tools(request: &mut Request, limits: &Limits) {
    if limits.takes_allowed_tools {
        return;
    }
    let Some(ToolChoice::Allowed { names, is_required }) = &request.tool_choice else { return };
    let names: HashSet<&String> = names.iter().collect();
    request.tools.retain(|tool| names.contains(&tool.name));
    request.tool_choice = Some(if *is_required { ToolChoice::Required } else { ToolChoice::Auto });
}

/// A tool with free text becomes a function with one text.
fn wrap_free_text(request: &mut Request, wrapped: &mut Vec<String>) {
    for tool in &mut request.tools {
        let ToolKind::Custom { grammar } = &mut tool.kind else { continue };
        if let Some(grammar) = grammar.take().filter(|grammar| grammar.syntax != "text") {
            let description = tool.description.get_or_insert_default();
            if !description.is_empty() {
                description.push_str("\n\n");
            }
            let (syntax, definition) = (&grammar.syntax, grammar.definition.trim_end());
            description.push_str(&format!(
                "`{FREE_TEXT}` must follow this grammar:\n```{syntax}\n{definition}\n```"
            ));
        }
        let text = Value::object([("type", "string".into())]);
        let schema = Value::object([
            ("type", "object".into()),
            ("properties", Value::object([(FREE_TEXT, text)])),
            ("required", Value::from_iter([FREE_TEXT])),
        ]);
        tool.kind = ToolKind::Function { schema: Some(schema) };
        wrapped.push(tool.name.clone());
    }
    for part in request.messages.iter_mut().flat_map(|message| &mut message.content.parts) {
        match &mut part.body {
            Body::Call(call) if call.kind == CallKind::Custom => {
                let text = std::mem::replace(&mut call.arguments, Arguments::Text(String::new())).into_text();
                call.arguments = Arguments::Json(Value::object([(FREE_TEXT, text.into())]));
                call.kind = CallKind::Function;
            }
            Body::Result(result) if result.kind == CallKind::Custom => result.kind = CallKind::Function,
            _ => {}
        }
    }
    if let Some(ToolChoice::Tool { kind: kind @ CallKind::Custom, .. }) = &mut request.tool_choice {
        *kind = CallKind::Function;
    }
}

/// Names that the provider would refuse.
fn rename_tools(request: &mut Request, limits: &Limits, names: &mut Vec<(String, String)>) {
    let mut taken: HashSet<String> = HashSet::new();
    let mut sent: HashMap<String, String> = HashMap::new();
    // Names of tools in groups, which were changed before.
    let flat: HashMap<String, usize> =
        names.iter().enumerate().map(|(at, (name, _))| (name.clone(), at)).collect();
    let declared = request.tools.iter().filter(|tool| !matches!(tool.kind, ToolKind::Builtin(_)));
    let declared: Vec<String> = declared.map(|tool| tool.name.clone()).collect();
    taken.extend(declared.iter().filter(|name| limits.tool_names.fits(name)).cloned());
    let mut rename = |name: &mut String| {
        if limits.tool_names.fits(name) {
            return;
        }
        let fitted = sent.entry(name.clone()).or_insert_with(|| {
            let fitted = limits.tool_names.fitted(name, |other| taken.contains(other));
            taken.insert(fitted.clone());
            match flat.get(name) {
                Some(at) => names[*at].0.clone_from(&fitted),
                None => names.push((fitted.clone(), name.clone())),
            }
            fitted
        });
        name.clone_from(fitted);
    };
    for tool in &mut request.tools {
        if !matches!(tool.kind, ToolKind::Builtin(_)) {
            rename(&mut tool.name);
        }
    }
    for part in request.messages.iter_mut().flat_map(|message| &mut message.content.parts) {
        match &mut part.body {
            Body::Call(call) => rename(&mut call.name),
            Body::Result(CallResult { name: Some(name), .. }) => rename(name),
            _ => {}
        }
    }
    match &mut request.tool_choice {
        Some(ToolChoice::Tool { name, .. }) => rename(name),
        Some(ToolChoice::Allowed { names, .. }) => names.iter_mut().for_each(rename),
        _ => {}
    }
}

fn place_system(request: &mut Request, protocol: &str, limits: &Limits, losses: &mut Losses) {
    if limits.system == System::Anywhere {
        if !limits.knows_developers {
            let developers = request.messages.iter_mut().filter(|message| message.role == Role::Developer);
            developers.for_each(|message| message.role = Role::System);
        }
        return;
    }
    let mut is_leading = true;
    let mut kept = Vec::with_capacity(request.messages.len());
    for (number, mut message) in std::mem::take(&mut request.messages).into_iter().enumerate() {
        if !matches!(message.role, Role::System | Role::Developer) {
            is_leading = false;
            kept.push(message);
            continue;
        }
        losses.at(format_args!("messages[{number}]"));
        if !is_leading {
            losses.put("position of a system message");
        }
        let (texts, others): (Vec<Part>, Vec<Part>) = std::mem::take(&mut message.content.parts)
            .into_iter()
            .partition(|part| matches!(part.body, Body::Text(_)));
        request.instructions.parts.extend(texts);
        losses.message(protocol, &message);
        if !others.is_empty() {
            // Above the conversation there are only texts.
            kept.push(Message::new(Role::User, Content { parts: others, form: Form::Any }));
        }
    }
    request.instructions.form = Form::Any;
    request.messages = kept;
}

/// What somebody said, and what came of the calls in it.
struct Turn {
    message: Message,
    results: Vec<Option<Part>>,
    is_answered: bool,
}

impl Turn {
    fn of(message: Message) -> Self {
        Self { message, results: Vec::new(), is_answered: false }
    }
}

/// Puts every result right behind its calls, leaves out what nobody asked for, answers what nobody answered, and gives
/// every call an id of its own.
fn pair_results(request: &mut Request, limits: &Limits, losses: &mut Losses) {
    let has_calls = calls_mut(request).next().is_some();
    let mut turns: Vec<Turn> = Vec::new();
    let mut open = Open::default();
    for (number, mut message) in std::mem::take(&mut request.messages).into_iter().enumerate() {
        losses.at(format_args!("messages[{number}]"));
        let parts = std::mem::take(&mut message.content.parts);
        let had_parts = !parts.is_empty();
        if message.role == Role::Assistant {
            // Results that stand with their calls come after them.
            let (results, others): (Vec<Part>, Vec<Part>) =
                parts.into_iter().partition(|part| matches!(part.body, Body::Result(_)));
            message.content.parts = others;
            speak(message, had_parts && !results.is_empty(), &mut turns, &mut open, limits);
            for result in results {
                if answer(result, &mut turns, &mut open).is_some() {
                    losses.put("result without a call");
                }
            }
            continue;
        }
        if message.role == Role::Tool {
            message.role = Role::User;
        }
        let mut is_answer = false;
        for part in parts {
            if !matches!(part.body, Body::Result(_)) {
                message.content.parts.push(part);
                continue;
            }
            is_answer = true;
            match answer(part, &mut turns, &mut open) {
                // Its call is with the provider, or wherever the client left the rest of the conversation.
                Some(orphan) if request.previous.is_some() || !has_calls => {
                    if limits.results == Teller::Tool && !message.content.is_empty() {
                        let content = message.content.take();
                        turns.push(Turn::of(Message {
                            name: message.name.clone(),
                            ..Message::new(message.role, content)
                        }));
                    }
                    match turns.last_mut().filter(|turn| turn.message.role == Role::Tool) {
                        Some(turn) => turn.message.content.parts.push(orphan),
                        None => turns.push(Turn::of(Message::of(Role::Tool, orphan))),
                    }
                }
                Some(_) => losses.put("result without a call"),
                None => {}
            }
        }
        if !(message.content.is_empty() && (is_answer || had_parts)) {
            turns.push(Turn::of(message));
        }
    }
    let mut ids = Ids::default();
    let count = turns.len();
    for (number, mut turn) in turns.into_iter().enumerate() {
        let is_last = number + 1 == count;
        let Turn { message, results, is_answered } = &mut turn;
        let calls = message.content.parts.iter_mut().filter_map(|part| match &mut part.body {
            Body::Call(call) => Some(call),
            _ => None,
        });
        let mut told = Vec::new();
        for (call, result) in calls.zip(results) {
            call.id = ids.next(call, limits);
            let Some(mut part) = result.take().or_else(|| (*is_answered || !is_last).then(no_result)) else {
                continue;
            };
            if let Body::Result(result) = &mut part.body {
                result.id.clone_from(&call.id);
                result.name = Some(call.name.clone());
                result.kind = call.kind;
            }
            told.push(part);
        }
        if turn.message.role == Role::Tool {
            for part in &mut turn.message.content.parts {
                let Body::Result(result) = &mut part.body else { continue };
                if limits.names_results {
                    result.name.get_or_insert_with(|| UNKNOWN_TOOL.to_owned());
                }
                let name = result.name.as_deref().unwrap_or("tool");
                let id = result.id.take().or_else(|| limits.demands_ids.then(|| format!("call_{name}")));
                result.id = id.map(|id| limits.call_ids.fitted(&id, |_| false));
            }
        }
        request.messages.push(turn.message);
        if !told.is_empty() {
            request.messages.push(Message::new(Role::Tool, Content { parts: told, form: Form::Any }));
        }
    }
}

/// Calls that wait for a result: the turn, and the places among its calls.
#[derive(Default)]
struct Open {
    by_id: HashMap<String, Vec<(usize, VecDeque<usize>)>>,
    by_name: HashMap<String, Vec<(usize, VecDeque<usize>)>>,
    all: Vec<(usize, VecDeque<usize>)>,
}

impl Open {
    fn put(&mut self, call: &Call, turn: usize, place: usize) {
        let lists = [
            call.id.as_ref().map(|id| self.by_id.entry(id.clone()).or_default()),
            Some(self.by_name.entry(call.name.clone()).or_default()),
            Some(&mut self.all),
        ];
        for list in lists.into_iter().flatten() {
            match list.last_mut().filter(|last| last.0 == turn) {
                Some((_, places)) => places.push_back(place),
                None => list.push((turn, VecDeque::from([place]))),
            }
        }
    }

    /// The call that a result answers: of several that of the latest turn, and in it the first.
    fn take(&mut self, result: &CallResult, turns: &[Turn]) -> Option<(usize, usize)> {
        let list = match (&result.id, &result.name) {
            (Some(id), _) => self.by_id.get_mut(id)?,
            (None, Some(name)) => self.by_name.get_mut(name)?,
            (None, None) => &mut self.all,
        };
        while let Some((turn, places)) = list.last_mut() {
            let turn = *turn;
            while let Some(place) = places.pop_front() {
                // It may have been answered by another way of saying.
                if turns.get(turn).and_then(|turn| turn.results.get(place)).is_some_and(Option::is_none) {
                    return Some((turn, place));
                }
            }
            list.pop();
        }
        None
    }
}

/// Adds what the model said to its turn, as long as nobody else spoke.
fn speak(mut message: Message, is_answered: bool, turns: &mut Vec<Turn>, open: &mut Open, limits: &Limits) {
    let is_same = turns.last().is_some_and(|turn| {
        limits.joins_turns
            && turn.message.role == Role::Assistant
            && turn.message.name == message.name
            && !turn.is_answered
    });
    if !is_same {
        if message.content.is_empty() && is_answered {
            return;
        }
        let content = Content { form: message.content.form, ..Content::default() };
        let parts = std::mem::replace(&mut message.content, content).parts;
        turns.push(Turn { message, results: Vec::new(), is_answered: false });
        return hear(parts, turns, open);
    }
    hear(message.content.parts, turns, open);
}

fn hear(parts: Vec<Part>, turns: &mut [Turn], open: &mut Open) {
    let Some(number) = turns.len().checked_sub(1) else { return };
    let turn = &mut turns[number];
    if !turn.message.content.is_empty() {
        turn.message.content.form = Form::Any;
    }
    for part in parts {
        if let Body::Call(call) = &part.body {
            open.put(call, number, turn.results.len());
            turn.results.push(None);
        }
        turn.message.content.parts.push(part);
    }
}

/// Puts a result to the call it answers; gives back one that answers none.
fn answer(part: Part, turns: &mut [Turn], open: &mut Open) -> Option<Part> {
    let Body::Result(result) = &part.body else { return Some(part) };
    let Some((turn, place)) = open.take(result, turns) else { return Some(part) };
    if let Some(turn) = turns.get_mut(turn) {
        turn.is_answered = true;
        turn.results[place] = Some(part);
    }
    None
}

fn no_result() -> Part {
    Part::new(Body::Result(CallResult {
        id: None,
        name: None,
        content: Content::text(NO_RESULT),
        value: None,
        is_error: Some(true),
        kind: CallKind::Function,
    }))
}

/// Ids of calls, each once.
#[derive(Default)]
struct Ids {
    taken: HashSet<String>,
    made: usize,
}

impl Ids {
    fn next(&mut self, call: &Call, limits: &Limits) -> Option<String> {
        let id = match &call.id {
            Some(id) if !id.is_empty() => id.clone(),
            _ if !limits.demands_ids => return None,
            _ => {
                self.made += 1;
                format!("call_{}_{}", call.name, self.made)
            }
        };
        let fitted = limits.call_ids.fitted(&id, |id| self.taken.contains(id));
        self.taken.insert(fitted.clone());
        Some(fitted)
    }
}

/// Parts that the provider would refuse.
fn mend_parts(request: &mut Request, protocol: &str, limits: &Limits, losses: &mut Losses) {
    let mut messages = Vec::with_capacity(request.messages.len());
    for (number, mut message) in std::mem::take(&mut request.messages).into_iter().enumerate() {
        losses.at(format_args!("messages[{number}]"));
        let was_empty = message.content.is_empty();
        let has_calls = message.content.parts.iter().any(|part| matches!(part.body, Body::Call(_)));
        if has_calls {
            // Some servers refuse an empty text beside calls, and none needs it.
            message.content.parts.retain(|part| part.as_text() != Some(""));
        }
        drop_doubled_thoughts(&mut message);
        if limits.signs_calls {
            sign_first_call(&mut message.content.parts);
        }
        message.content.parts.retain(|part| can_be_told(part, protocol, limits, losses));
        let mut images = Vec::new();
        for part in &mut message.content.parts {
            mend_part(part);
            let Body::Result(result) = &mut part.body else { continue };
            if !limits.takes_object_results || result.kind == CallKind::Builtin {
                tell_value(result);
            }
            for part in &mut result.content.parts {
                mend_part(part);
                tell_opaque(part, protocol, losses);
            }
            if !limits.takes_rich_results {
                let (others, rich): (Vec<Part>, Vec<Part>) = std::mem::take(&mut result.content.parts)
                    .into_iter()
                    .partition(|part| !matches!(part.body, Body::Media(_)));
                result.content.parts = others;
                images.extend(rich);
            }
            if !limits.takes_blank_text {
                result.content.parts.retain(|part| !is_blank(part));
            }
            if result.content.is_empty() && result.value.is_none() {
                result.content = Content::text(if limits.takes_blank_text { "" } else { "(no output)" });
            }
        }
        if !limits.takes_blank_text {
            message.content.parts.retain(|part| !is_blank(part));
        }
        let is_told = |part: &Part| matches!(part.body, Body::Thought(_));
        if has_calls && limits.fills_thoughts && !message.content.parts.iter().any(is_told) {
            let thought = Thought { text: Some(" ".to_owned()), ..Thought::default() };
            message.content.parts.insert(0, Part::new(Body::Thought(thought)));
        }
        if !message.content.is_empty() || was_empty && limits.takes_blank_text {
            messages.push(message);
        }
        if !images.is_empty() {
            messages.push(Message::new(Role::User, Content { parts: images, form: Form::Any }));
        }
    }
    request.messages = messages;
    if !limits.takes_blank_text {
        request.instructions.parts.retain(|part| !is_blank(part));
    }
}

/// Of all calls of a step the first one is signed. Gateways hand the signature on with the thought before it.
fn sign_first_call(parts: &mut [Part]) {
    let is_loose = |part: &Part| {
        matches!(part.body, Body::Thought(_))
            && part.signature.as_ref().is_some_and(|seal| seal.issuer.is_empty())
    };
    let Some(thought) = parts.iter().position(is_loose) else { return };
    let Some(call) = parts.iter().position(|part| matches!(part.body, Body::Call(_))) else { return };
    if parts[call].signature.is_none() {
        parts[call].signature = parts[thought].signature.take();
    }
}

/// Gateways tell thoughts twice: in words, and with their signatures.
fn drop_doubled_thoughts(message: &mut Message) {
    let is_sealed = |part: &Part| match &part.body {
        Body::Thought(thought) => part.signature.is_some() || thought.encrypted.is_some(),
        _ => false,
    };
    let is_bare = |part: &Part| matches!(part.body, Body::Thought(_)) && part.is_plain();
    let parts = &mut message.content.parts;
    if parts
        .iter()
        .any(|part| is_sealed(part) && part.signature.as_ref().is_some_and(|seal| seal.issuer.is_empty()))
    {
        parts.retain(|part| !is_bare(part) || is_sealed(part));
    }
}

/// Whether the provider takes such a part at all.
fn can_be_told(part: &Part, protocol: &str, limits: &Limits, losses: &mut Losses) -> bool {
    let is_own = part.kept.protocol() == Some(protocol);
    match &part.body {
        Body::Opaque(word) => {
            if !is_own {
                losses.put(format!("{word} of {}", part.kept.protocol().unwrap_or("nobody")));
                for path in part.kept.malformed() {
                    losses.refuse(format!("malformed {path} of {word}"));
                }
            }
            is_own
        }
        Body::Thought(thought) => {
            let has_text =
                thought.text.as_ref().is_some_and(|text| !text.is_empty()) || thought.summary.is_some();
            let is_told = match limits.thoughts {
                Thoughts::Never => false,
                Thoughts::Told => {
                    if has_text && thought.encrypted.is_some() {
                        losses.put("encrypted reasoning");
                    }
                    has_text
                }
                Thoughts::Signed(issuer) => {
                    let seals = [&part.signature, &thought.encrypted];
                    seals.into_iter().flatten().any(|seal| seal.is_of(issuer))
                }
                Thoughts::Encrypted(issuer) => {
                    is_own || thought.encrypted.as_ref().is_some_and(|seal| seal.is_of(issuer))
                }
            };
            if !is_told {
                losses.put(if has_text { "reasoning of another provider" } else { "encrypted reasoning" });
            }
            is_told
        }
        _ => true,
    }
}

fn is_blank(part: &Part) -> bool {
    matches!(&part.body, Body::Text(text) if text.trim().is_empty())
}

fn mend_part(part: &mut Part) {
    if let Body::Thought(_) = part.body
        && part.kept.any().is_some_and(|members| members.contains_key("type") || members.contains_key(""))
    {
        // It was kept whole, and is told already.
        part.kept = Kept::default();
    }
    let Body::Media(media) = &mut part.body else { return };
    if let Source::Url(url) = &media.source
        && let Some((media_type, data)) = parse_data_url(url)
    {
        media.media_type = Some(media_type.to_owned());
        media.source = Source::Data(data.to_owned());
    }
    let is_vague = media.media_type.as_deref().is_none_or(|own| own == "application/octet-stream");
    if is_vague && let Some(media_type) = media.name.as_deref().and_then(type_of_name) {
        media.media_type = Some(media_type.to_owned());
    }
    // Some put documents where images belong.
    if media.kind == MediaKind::Image
        && let Some(media_type) = &media.media_type
    {
        media.kind = kind_of(media_type);
    }
    if media.media_type.as_deref() == Some("image/jpg") {
        media.media_type = Some("image/jpeg".to_owned());
    }
}

/// What only another protocol knows of a result, as text: the model can read it.
fn tell_opaque(part: &mut Part, protocol: &str, losses: &mut Losses) {
    let Body::Opaque(word) = &part.body else { return };
    let Some(own) = part.kept.protocol().filter(|own| *own != protocol) else { return };
    losses.put(format!("form of {word} of {own}"));
    let value = std::mem::take(&mut part.kept).into_whole(own).unwrap_or_default();
    part.body = Body::Text(value.to_string());
}

/// A result that is an object, as text. What only wraps a text is that text.
fn tell_value(result: &mut CallResult) {
    let Some(value) = result.value.take() else { return };
    let text = match &value {
        Value::String(text) => text.clone(),
        Value::Object(members) => {
            let wrapped =
                ["output", "result", "content", "error"].iter().find_map(|key| members[*key].as_str());
            wrapped.filter(|_| members.len() == 1).map_or_else(|| value.to_string(), str::to_owned)
        }
        value => value.to_string(),
    };
    result.content.parts.insert(0, Part::text(text));
}

/// Makes one message of what the same one said in a row.
fn alternate(request: &mut Request, protocol: &str, limits: &Limits, losses: &mut Losses) {
    let mut messages: Vec<Message> = Vec::with_capacity(request.messages.len());
    for (number, mut message) in std::mem::take(&mut request.messages).into_iter().enumerate() {
        let is_answer = message.role == Role::Tool;
        if is_answer && limits.results == Teller::User {
            message.role = Role::User;
        }
        let is_same = |last: &Message| last.role == message.role && last.role != Role::Tool;
        match messages.last_mut().filter(|last| is_same(last)) {
            Some(last) => {
                losses.at(format_args!("messages[{number}]"));
                let parts = std::mem::take(&mut message.content.parts);
                // Results come first.
                let count =
                    last.content.parts.iter().take_while(|part| matches!(part.body, Body::Result(_))).count();
                let at = if is_answer { count } else { last.content.parts.len() };
                last.content.parts.splice(at..at, parts);
                last.content.form = Form::Any;
                losses.message(protocol, &message);
            }
            None => messages.push(message),
        }
    }
    request.messages = messages;
}

/// Lets the model say a word between results and the user.
fn bridge_results(request: &mut Request) {
    let mut messages: Vec<Message> = Vec::with_capacity(request.messages.len());
    for message in std::mem::take(&mut request.messages) {
        if message.role == Role::User && messages.last().is_some_and(|last| last.role == Role::Tool) {
            messages.push(Message::new(Role::Assistant, Content::text("OK.")));
        }
        messages.push(message);
    }
    request.messages = messages;
}

/// A conversation with calls must declare tools.
fn declare_tools(request: &mut Request, protocol: &str, limits: &Limits) {
    let has_calls = || {
        let mut parts = request.messages.iter().flat_map(|message| &message.content.parts);
        parts.any(|part| matches!(part.body, Body::Call(_) | Body::Result(_)))
    };
    let is_own =
        |tool: &Tool| !matches!(tool.kind, ToolKind::Builtin(_)) || tool.kept.protocol() == Some(protocol);
    if limits.demands_tools && !request.tools.iter().any(is_own) && has_calls() {
        let schema = Value::object([("type", "object".into())]);
        request.tools.push(Tool::new(NO_TOOL, ToolKind::Function { schema: Some(schema) }));
        request.tool_choice = None;
    }
}
