//! The shared vectors that come with a schema, as JSON Schema and options of ours.
//!
//! Two sources: json_repair names a JSON Schema and its options; BAML names a type in its own notation
//! and a target in Rust, both of which are translated here. Classes are closed objects, optional fields
//! may be `null` or missing, aliases are titles.

use callweave::json::Value as Read;
use callweave::json::schema::{CoerceOptions, MissingMembers, Schema, TextCompleteness};
use serde_json::{Map, Value, json};

use crate::shared;

/// A row of the vectors.
pub(crate) struct Row {
    /// The name of the test it came from.
    pub(crate) name: String,
    pub(crate) source: String,
    pub(crate) kind: String,
    pub(crate) input: String,
    pub(crate) expected: Read,
    pub(crate) schema: Read,
    pub(crate) options: CoerceOptions,
}

impl Row {
    /// Returns our reading of the row.
    pub(crate) fn answer(&self) -> Read {
        Schema::new(&self.schema).read_with(&self.input, self.options).value
    }

    pub(crate) fn is_passed(&self) -> bool {
        is_equal(&self.answer(), &self.expected)
    }
}

/// The rows with a schema; nothing where the vectors are absent.
pub(crate) fn rows() -> Option<Vec<Row>> {
    let path = shared::find("vectors/json_repair.jsonl")?;
    let text = std::fs::read_to_string(path).expect("the vectors can be read");
    let rows = text.lines().map(|line| line.parse::<Read>().expect("a row is JSON"));
    let mut rows: Vec<Row> = rows.filter_map(row).collect();
    // Some tests have several rows; they are distinguished by their position among those of their name.
    for at in (0..rows.len()).rev() {
        let before = rows[..at].iter().filter(|row| row.name == rows[at].name).count();
        if before > 0 {
            rows[at].name = format!("{}.{}", rows[at].name, before + 1);
        }
    }
    Some(rows)
}

fn row(row: Read) -> Option<Row> {
    let text = |key: &str| row[key].as_str().unwrap_or_default().to_owned();
    let kind = text("kind");
    if !kind.starts_with("schema") {
        return None;
    }
    let notes = text("notes");
    let (name, rest) = notes.split_once(" | ").expect("the notes name the test");
    let (schema, options) = if let Some(options) = rest.strip_prefix("options ") {
        let options: Read = options.parse().expect("the options are JSON");
        let missing = match options["schema_repair_mode"].as_str() {
            Some("salvage") => MissingMembers::Infer,
            _ => MissingMembers::Keep,
        };
        (options["schema"].clone(), CoerceOptions { missing, extent: TextCompleteness::Complete })
    } else {
        let (target, types) = rest.split_once(" | baml schema: ").expect("the notes have a type");
        let types: String = serde_json::from_str(types).expect("the type is quoted");
        let options = match kind.as_str() {
            "schema-partial" => {
                CoerceOptions { missing: MissingMembers::Blank, extent: TextCompleteness::Prefix }
            }
            _ => CoerceOptions { missing: MissingMembers::Empty, extent: TextCompleteness::Complete },
        };
        (baml_schema(target, &types).into(), options)
    };
    Some(Row {
        name: name.to_owned(),
        source: text("source"),
        kind,
        input: text("input"),
        expected: row["expected"].clone(),
        schema,
        options,
    })
}

/// Equality by value: `1` is `1.0`, and members have no order.
pub(crate) fn is_equal(one: &Read, other: &Read) -> bool {
    match (one, other) {
        (Read::Number(one), Read::Number(other)) => one == other || one.as_f64() == other.as_f64(),
        (Read::Array(one), Read::Array(other)) => {
            one.len() == other.len() && one.iter().zip(other).all(|(one, other)| is_equal(one, other))
        }
        (Read::Object(one), Read::Object(other)) => {
            one.len() == other.len()
                && one.iter().all(|(key, one)| other.get(key).is_some_and(|other| is_equal(one, other)))
        }
        _ => one == other,
    }
}

fn baml_schema(target: &str, types: &str) -> Value {
    let mut root = Target { words: words(target), at: 0 }.field();
    let definitions = Declarations { text: types }.read();
    if let Value::Object(words) = &mut root {
        words.insert("$defs".to_owned(), Value::Object(definitions));
    }
    root
}

/// Names, numbers and quoted texts of a notation; everything else is a separator, kept as itself.
fn words(text: &str) -> Vec<String> {
    let mut words = Vec::new();
    let mut letters = text.chars().peekable();
    while let Some(letter) = letters.next() {
        if letter == '"' {
            let quoted: String = letters.by_ref().take_while(|letter| *letter != '"').collect();
            words.push(format!("\"{quoted}"));
        } else if letter.is_alphanumeric() || matches!(letter, '_' | '-') {
            let mut word = String::from(letter);
            while let Some(letter) = letters.next_if(|letter| letter.is_alphanumeric() || *letter == '_') {
                word.push(letter);
            }
            words.push(word);
        } else if !letter.is_whitespace() {
            words.push(letter.to_string());
        }
    }
    words
}

fn reference(name: &str) -> Value {
    json!({"$ref": format!("#/$defs/{name}")})
}

fn optional(schema: Value) -> Value {
    json!({"anyOf": [schema, {"type": "null"}]})
}

fn map_of(schema: Value) -> Value {
    json!({"type": "object", "additionalProperties": schema})
}

/// A target as Rust writes it: `FieldType::class("Foo").as_list()`.
struct Target {
    words: Vec<String>,
    at: usize,
}

impl Target {
    fn next(&mut self) -> String {
        self.at += 1;
        self.words.get(self.at - 1).cloned().unwrap_or_default()
    }

    /// Skips to the next of `wanted` and takes it.
    fn find(&mut self, wanted: &[&str]) -> String {
        loop {
            let word = self.next();
            if word.is_empty() || wanted.contains(&word.as_str()) {
                return word;
            }
        }
    }

    fn quoted(&mut self) -> String {
        loop {
            let word = self.next();
            if word.is_empty() {
                return word;
            }
            if let Some(text) = word.strip_prefix('"') {
                return text.to_owned();
            }
        }
    }

    fn field(&mut self) -> Value {
        self.find(&["FieldType"]);
        let kind = loop {
            let word = self.next();
            if word != ":" {
                break word;
            }
        };
        let mut schema = match kind.as_str() {
            "string" => json!({"type": "string"}),
            "int" => json!({"type": "integer"}),
            "float" => json!({"type": "number"}),
            "bool" => json!({"type": "boolean"}),
            "null" => json!({"type": "null"}),
            "Primitive" => match self.find(&["String", "Int", "Float", "Bool", "Null"]).as_str() {
                "String" => json!({"type": "string"}),
                "Int" => json!({"type": "integer"}),
                "Float" => json!({"type": "number"}),
                "Bool" => json!({"type": "boolean"}),
                _ => json!({"type": "null"}),
            },
            "class" | "Class" | "Enum" => reference(&self.quoted()),
            "Literal" => match self.find(&["Int", "Bool", "String"]).as_str() {
                "String" => json!({"const": self.quoted()}),
                _ => {
                    self.find(&["("]);
                    json!({"const": serde_json::from_str::<Value>(&self.next()).expect("a literal is JSON")})
                }
            },
            "List" | "list" => json!({"type": "array", "items": self.field()}),
            "optional" => optional(self.field()),
            "map" => {
                self.field();
                map_of(self.field())
            }
            "union" | "Union" => {
                let mut branches = Vec::new();
                self.find(&["["]);
                while self.words.get(self.at).is_some_and(|word| word == "FieldType" || word == ",") {
                    if self.words[self.at] == "," {
                        self.at += 1;
                    } else {
                        branches.push(self.field());
                    }
                }
                json!({"anyOf": branches})
            }
            other => panic!("no such target: {other}"),
        };
        // The rest: conversions that mean nothing, and the ones that wrap.
        while self.words.get(self.at).is_some_and(|word| {
            matches!(word.as_str(), "(" | ")" | "." | "into" | "to_string" | "as_list" | "as_optional")
        }) {
            let word = self.next();
            match word.as_str() {
                "as_list" => schema = json!({"type": "array", "items": schema}),
                "as_optional" => schema = optional(schema),
                _ => {}
            }
        }
        schema
    }
}

/// The classes and enums of BAML's notation.
struct Declarations<'t> {
    text: &'t str,
}

impl Declarations<'_> {
    fn read(&self) -> Map<String, Value> {
        let text = without_comments(self.text);
        let mut found = Map::new();
        let mut rest = text.as_str();
        while let Some(open) = rest.find('{') {
            let head: Vec<&str> = rest[..open].split_whitespace().collect();
            let close = closing(rest, open);
            let body = &rest[open + 1..close];
            if let [.., word @ ("class" | "enum"), name] = head.as_slice() {
                let schema = if *word == "class" { class(body) } else { enumeration(body) };
                found.insert((*name).to_owned(), schema);
            }
            rest = &rest[close + 1..];
        }
        found
    }
}

/// The text without comments and descriptions, each member on a line of its own.
fn without_comments(text: &str) -> String {
    let mut out = String::new();
    let mut rest = text;
    while let Some(at) = rest.find("#\"") {
        out.push_str(&rest[..at]);
        let end = rest[at + 2..].find("\"#").map_or(rest.len(), |end| at + 2 + end + 2);
        out.push_str("\"\"");
        rest = &rest[end..];
    }
    out.push_str(rest);
    out.lines().map(|line| line.split("//").next().unwrap_or_default()).collect::<Vec<_>>().join("\n")
}

fn closing(text: &str, open: usize) -> usize {
    let mut depth = 0;
    for (at, byte) in text.bytes().enumerate().skip(open) {
        match byte {
            b'{' => depth += 1,
            b'}' => {
                depth -= 1;
                if depth == 0 {
                    return at;
                }
            }
            _ => {}
        }
    }
    text.len() - 1
}

/// Returns the name in `@alias(…)`, in quotes or not.
fn alias(line: &str) -> Option<String> {
    let (_, rest) = line.split_once("@alias(")?;
    Some(rest.split(')').next()?.trim_matches('"').to_owned())
}

fn enumeration(body: &str) -> Value {
    let lines = body.lines().map(str::trim).filter(|line| !line.is_empty() && !line.starts_with('@'));
    let branch = |line: &str| {
        let name = line.split_whitespace().next().unwrap_or_default();
        match alias(line) {
            Some(alias) => json!({"const": name, "title": alias}),
            None => json!({"const": name}),
        }
    };
    json!({"oneOf": lines.map(branch).collect::<Vec<_>>()})
}

fn class(body: &str) -> Value {
    let (mut properties, mut required) = (Map::new(), Vec::new());
    for line in body.lines().map(str::trim) {
        let Some((name, rest)) = line.split_once(char::is_whitespace) else { continue };
        if name.starts_with('@') || name.starts_with(')') {
            continue;
        }
        let notation = rest.split('@').next().unwrap_or_default();
        let mut schema = Notation { words: words(notation), at: 0 }.union();
        let is_optional = is_optional(&schema);
        if let (Some(alias), Value::Object(words)) = (alias(rest), &mut schema) {
            words.insert("title".to_owned(), alias.into());
        }
        if !is_optional {
            required.push(name.to_owned());
        }
        properties.insert(name.to_owned(), schema);
    }
    json!({"type": "object", "properties": properties, "required": required, "additionalProperties": false})
}

/// Whether a schema is a choice with `null` in it.
fn is_optional(schema: &Value) -> bool {
    let null = json!({"type": "null"});
    let branches = schema["anyOf"].as_array();
    schema == &null || branches.is_some_and(|branches| branches.iter().any(is_optional))
}

/// A type in BAML's notation: `(int | string)[]`, `Foo?`, `map<string, int>`.
struct Notation {
    words: Vec<String>,
    at: usize,
}

impl Notation {
    fn peek(&self) -> &str {
        self.words.get(self.at).map_or("", String::as_str)
    }

    fn union(&mut self) -> Value {
        let mut branches = vec![self.one()];
        while self.peek() == "|" {
            self.at += 1;
            branches.push(self.one());
        }
        if branches.len() == 1 { branches.remove(0) } else { json!({"anyOf": branches}) }
    }

    fn one(&mut self) -> Value {
        let word = self.peek().to_owned();
        self.at += 1;
        let mut schema = match word.as_str() {
            "(" => {
                let inner = self.union();
                self.at += 1;
                inner
            }
            "string" => json!({"type": "string"}),
            "int" => json!({"type": "integer"}),
            "float" => json!({"type": "number"}),
            "bool" => json!({"type": "boolean"}),
            "null" => json!({"type": "null"}),
            "map" => {
                self.at += 1;
                self.union();
                self.at += 1;
                let inner = self.union();
                self.at += 1;
                map_of(inner)
            }
            word => match word.strip_prefix('"') {
                Some(text) => json!({"const": text}),
                None => reference(word),
            },
        };
        loop {
            match self.peek() {
                "[" => {
                    self.at += 2;
                    schema = json!({"type": "array", "items": schema});
                }
                "?" => {
                    self.at += 1;
                    schema = optional(schema);
                }
                _ => return schema,
            }
        }
    }
}
