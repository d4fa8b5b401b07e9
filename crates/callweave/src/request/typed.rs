//! Objects with a `type`, in the two forms of OpenAI's protocols: their members are in an object under the name of the
//! type, or beside the type.

use super::{
    CallKind, OutputFormat, RequestMembers, RequestTool, RequestWriting, TextGrammar, ToolChoice, ToolKind,
    put,
};
use crate::json::{Object, Value};

/// The position of the members of a typed object.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum TypedForm {
    /// In an object under the name of the type.
    Nested,
    /// Beside the type.
    Flat,
}

impl TypedForm {
    /// The path of a member of an object of that type.
    fn path(self, kind: &str, member: &str) -> String {
        match self {
            Self::Nested => format!("{kind}.{member}"),
            Self::Flat => member.to_owned(),
        }
    }

    /// The object of that type that holds its members.
    fn inner<'v>(self, object: &'v Value, kind: &str) -> Option<&'v Value> {
        match self {
            Self::Nested => object.get(kind),
            Self::Flat => Some(object),
        }
    }

    fn typed<const N: usize>(self, kind: &str, members: [(&str, Value); N]) -> Value {
        let own = ("type", Value::from(kind));
        match self {
            Self::Nested => Value::object([own, (kind, Value::object(members))]),
            Self::Flat => Object::from_iter([own].into_iter().chain(members)).into(),
        }
    }

    pub(crate) fn write_choice(self, choice: &ToolChoice) -> Value {
        let named = |name: &str, kind: CallKind| {
            self.typed(if kind == CallKind::Custom { "custom" } else { "function" }, [("name", name.into())])
        };
        match choice {
            ToolChoice::Auto => "auto".into(),
            ToolChoice::None => "none".into(),
            ToolChoice::Required => "required".into(),
            ToolChoice::Tool { name, kind } => named(name, *kind),
            ToolChoice::Allowed { names, is_required } => {
                let mode = if *is_required { "required" } else { "auto" };
                let tools: Value = names.iter().map(|name| named(name, CallKind::Function)).collect();
                self.typed("allowed_tools", [("mode", mode.into()), ("tools", tools)])
            }
        }
    }

    /// Reads which tools are to be called. A choice of another form than is written stays in the body, too.
    pub(crate) fn read_choice(self, body: &mut RequestMembers) -> Option<ToolChoice> {
        let choice = body.peek("tool_choice")?;
        let name_of =
            |object: &Value, base: &str| self.inner(object, base)?.get("name")?.as_str().map(str::to_owned);
        let named = |base: &str, kind| Some(ToolChoice::Tool { name: name_of(choice, base)?, kind });
        let read = match (choice.as_str(), choice.get("type").and_then(Value::as_str)) {
            (Some("auto"), _) => Some(ToolChoice::Auto),
            (Some("none"), _) => Some(ToolChoice::None),
            (Some("required"), _) => Some(ToolChoice::Required),
            (_, Some("function")) => named("function", CallKind::Function),
            (_, Some("custom")) => named("custom", CallKind::Custom),
            (_, Some("allowed_tools")) => {
                let member = |key| self.inner(choice, "allowed_tools").and_then(|inner| inner.get(key));
                let tools = member("tools").and_then(Value::as_array).into_iter().flatten();
                let names = tools.map(|tool| name_of(tool, "function").or_else(|| name_of(tool, "custom")));
                let is_required = member("mode").is_some_and(|mode| *mode == "required");
                names.collect::<Option<_>>().map(|names| ToolChoice::Allowed { names, is_required })
            }
            _ => None,
        }?;
        if self.write_choice(&read) == *choice {
            body.take_if("tool_choice", |_| true);
        }
        Some(read)
    }

    pub(crate) fn write_format(self, format: OutputFormat, writing: &RequestWriting<'_>) -> Value {
        let mut object = Object::new();
        match format {
            OutputFormat::Text => put(&mut object, "type", Some("text")),
            OutputFormat::Json => put(&mut object, "type", Some("json_object")),
            OutputFormat::Schema { name, description, schema, strict } => {
                let path = |member| self.path("json_schema", member);
                object.insert("type", "json_schema");
                let name = name.or_else(|| (!writing.is_lossless).then(|| "structured_output".to_owned()));
                put(&mut object, &path("name"), name);
                put(&mut object, &path("description"), description);
                put(&mut object, &path("schema"), Some(schema));
                put(&mut object, &path("strict"), strict);
            }
        }
        object.into()
    }

    /// Reads the output format at that path.
    pub(crate) fn read_format(self, body: &mut RequestMembers, at: &str) -> Option<OutputFormat> {
        let path = |member| format!("{at}.{}", self.path("json_schema", member));
        let format = match body.peek_str(&format!("{at}.type")) {
            Some("text") => OutputFormat::Text,
            Some("json_object") => OutputFormat::Json,
            Some("json_schema") => OutputFormat::Schema {
                schema: body.object(&path("schema"))?.into(),
                name: body.string(&path("name")),
                description: body.string(&path("description")),
                strict: body.truth(&path("strict")),
            },
            _ => return None,
        };
        body.string(&format!("{at}.type"));
        Some(format)
    }

    /// Writes a function or a custom tool, and takes out what is written; returns none for any other tool.
    pub(crate) fn write_tool(self, tool: &mut RequestTool, strict: Option<bool>) -> Option<Object> {
        let kind = match tool.kind {
            ToolKind::Function { .. } => "function",
            ToolKind::Custom { .. } => "custom",
            ToolKind::Builtin(_) | ToolKind::Group(_) => return None,
        };
        let mut object = Object::from_iter([("type", kind)]);
        let mut put = |member: &str, value: Option<Value>| put(&mut object, &self.path(kind, member), value);
        put("name", Some(tool.name.as_str().into()));
        put("description", tool.description.take().map(Value::from));
        match std::mem::replace(&mut tool.kind, ToolKind::Group(Vec::new())) {
            ToolKind::Function { schema } => {
                put("parameters", schema);
                put("strict", tool.strict.take().or(strict).map(Value::from));
            }
            ToolKind::Custom { grammar: Some(TextGrammar { syntax, .. }) } if syntax == "text" => {
                put("format.type", Some("text".into()));
            }
            ToolKind::Custom { grammar: Some(grammar) } => {
                put("format.type", Some("grammar".into()));
                put(&self.grammar("syntax"), Some(grammar.syntax.into()));
                put(&self.grammar("definition"), Some(grammar.definition.into()));
            }
            _ => {}
        }
        Some(object)
    }

    /// The path of a member of a custom tool's grammar.
    fn grammar(self, member: &str) -> String {
        format!("format.{}", self.path("grammar", member))
    }

    pub(crate) fn read_grammar(self, tool: &mut RequestMembers) -> Option<TextGrammar> {
        let kind = self.path("custom", "format.type");
        if tool.constant(&kind, "text") {
            return Some(TextGrammar { syntax: "text".to_owned(), definition: String::new() });
        }
        let [syntax, definition] =
            ["syntax", "definition"].map(|member| self.path("custom", &self.grammar(member)));
        tool.peek_str(&syntax)?;
        tool.peek_str(&definition)?;
        tool.constant(&kind, "grammar");
        Some(TextGrammar { syntax: tool.string(&syntax)?, definition: tool.string(&definition)? })
    }
}
