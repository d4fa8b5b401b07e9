//! The schema as a list of nodes, each with its keywords in the order in which they are checked, cheap ones first.
//!
//! References are followed to numbers of nodes, so that checking looks nothing up. All of it is one pass over the
//! schema: nothing here recurses, and each sub-schema is read once, however many references lead to it.

use std::collections::HashMap;

use jsonschema::Draft;

use super::pattern::{LazyPattern, StringFormat};
use super::{CheckStop, uri};
use crate::json::schema::TypeSet;
use crate::json::{Number, Object, Value};

pub(super) type CheckNodeId = usize;

/// The target of a reference that has not been followed yet, or leads nowhere.
pub(super) const NOWHERE: CheckNodeId = usize::MAX;

/// The maximum length of the address of a schema: each reference is resolved against it.
const MAX_ADDRESS: usize = 2048;

/// A schema that can be checked.
#[derive(Debug)]
pub(super) struct CompiledSchema {
    nodes: Vec<CheckNode>,
    /// The schemas that `$dynamicAnchor` names, by the resource they are in and the name.
    dynamic: HashMap<(usize, String), CheckNodeId>,
}

/// One schema.
#[derive(Debug)]
pub(super) struct CheckNode {
    pub(super) words: Vec<Keyword>,
    /// The schema document it belongs to: schemas with an `$id` are documents of their own.
    pub(super) resource: usize,
}

/// One keyword of a schema, as it is checked.
#[derive(Debug)]
pub(super) enum Keyword {
    /// `false`: nothing is valid.
    Never,
    Type {
        types: TypeSet,
        /// Whether only a number written without a fraction is an integer.
        is_strict: bool,
        names: String,
    },
    Const(Value),
    Enum(Vec<Value>),
    Bound(NumberBound, Number),
    MultipleOf(Number),
    Count(CountKeyword, u64),
    Required(Vec<String>),
    DependentRequired(Vec<(String, Vec<String>)>),
    Pattern(LazyPattern),
    Form(StringFormat),
    UniqueItems,
    Members(MemberKeywords),
    Names(CheckNodeId),
    Elements {
        first: Vec<CheckNodeId>,
        rest: Option<CheckNodeId>,
    },
    Contains {
        schema: CheckNodeId,
        least: u64,
        most: Option<u64>,
        /// Whether the elements it finds count as looked at.
        is_looking: bool,
    },
    DependentSchemas(Vec<(String, CheckNodeId)>),
    All(Vec<CheckNodeId>),
    Any(Vec<CheckNodeId>),
    One(Vec<CheckNodeId>),
    Not(CheckNodeId),
    If {
        condition: CheckNodeId,
        then: Option<CheckNodeId>,
        otherwise: Option<CheckNodeId>,
    },
    UnseenMembers(CheckNodeId),
    UnseenElements(CheckNodeId),
    Reference(CheckNodeId),
    /// A reference whose target may depend on the documents through which it was reached.
    Dynamic {
        nearest: CheckNodeId,
        name: String,
    },
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum NumberBound {
    Minimum,
    Maximum,
    AboveMinimum,
    BelowMaximum,
}

/// The number that a keyword limits, and whether it is a minimum or a maximum.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum CountKeyword {
    MinLength,
    MaxLength,
    MinItems,
    MaxItems,
    MinProperties,
    MaxProperties,
}

/// `properties`, `patternProperties` and `additionalProperties`.
#[derive(Debug, Default)]
pub(super) struct MemberKeywords {
    pub(super) named: HashMap<String, CheckNodeId>,
    pub(super) patterns: Vec<(LazyPattern, CheckNodeId)>,
    pub(super) others: Option<CheckNodeId>,
}

impl CompiledSchema {
    pub(super) const ROOT: CheckNodeId = 0;

    /// Reads a schema in the keywords of the standard; fails with the problem if it is invalid.
    pub(super) fn new(root: &Value) -> Result<Self, CheckStop> {
        let draft = match root.get("$schema").and_then(Value::as_str) {
            Some(written) => Draft::default().detect(&serde_json::json!({"$schema": written})),
            None => Draft::default(),
        };
        let mut builder = CheckBuilder {
            draft: if draft == Draft::Unknown { Draft::default() } else { draft },
            ids: HashMap::new(),
            queue: Vec::new(),
            nodes: Vec::new(),
            resources: vec![("".to_owned(), root)],
            names: HashMap::new(),
            dynamic: HashMap::new(),
            pending: Vec::new(),
        };
        builder.id(root, 0);
        builder.read_all()?;
        Ok(Self { nodes: builder.nodes, dynamic: builder.dynamic })
    }

    pub(super) fn node(&self, id: CheckNodeId) -> &CheckNode {
        &self.nodes[id]
    }

    /// The schema that a dynamic name refers to in a document.
    pub(super) fn dynamic(&self, resource: usize, name: &str) -> Option<CheckNodeId> {
        // Few schemas have any.
        if self.dynamic.is_empty() { None } else { self.dynamic.get(&(resource, name.to_owned())).copied() }
    }

    /// Whether a schema allows nothing at all.
    pub(super) fn is_never(&self, id: CheckNodeId) -> bool {
        matches!(self.nodes[id].words.as_slice(), [Keyword::Never])
    }
}

struct CheckBuilder<'v> {
    draft: Draft,
    /// The number of each schema, by its address.
    ids: HashMap<*const Value, CheckNodeId>,
    /// The schemas in the order of their numbers, with the document each is in.
    queue: Vec<(&'v Value, usize)>,
    nodes: Vec<CheckNode>,
    /// The documents, by their absolute address.
    resources: Vec<(String, &'v Value)>,
    /// Schemas by the address that `$id` or `$anchor` gives them.
    names: HashMap<String, CheckNodeId>,
    dynamic: HashMap<(usize, String), CheckNodeId>,
    /// References that are still to be followed: the schema, the number of its keyword, and the target.
    pending: Vec<(CheckNodeId, usize, String)>,
}

type KeywordResult<T> = Result<T, CheckStop>;

fn invalid<T>(what: &str) -> KeywordResult<T> {
    Err(CheckStop::Invalid(what.to_owned()))
}

fn wrong<T>(word: &str) -> KeywordResult<T> {
    invalid(&format!("{word:?} has not the form that it should have"))
}

impl<'v> CheckBuilder<'v> {
    fn id(&mut self, schema: &'v Value, resource: usize) -> CheckNodeId {
        *self.ids.entry(std::ptr::from_ref(schema)).or_insert_with(|| {
            self.queue.push((schema, resource));
            self.queue.len() - 1
        })
    }

    fn read_all(&mut self) -> KeywordResult<()> {
        loop {
            while let Some(&(schema, resource)) = self.queue.get(self.nodes.len()) {
                let node = self.node(schema, resource)?;
                self.nodes.push(node);
            }
            // The targets of references may not have been read yet.
            let Some((id, at, reference)) = self.pending.pop() else { return Ok(()) };
            let resource = self.nodes[id].resource;
            // A reference that leads nowhere does no harm where nobody follows it.
            let target = self.resolve(&reference, resource).unwrap_or(NOWHERE);
            match &mut self.nodes[id].words[at] {
                Keyword::Reference(id) | Keyword::Dynamic { nearest: id, .. } => *id = target,
                _ => {}
            }
        }
    }

    fn resolve(&mut self, reference: &str, resource: usize) -> Option<CheckNodeId> {
        let (address, fragment) = reference.split_once('#').unwrap_or((reference, ""));
        let address = uri::resolve(&self.resources[resource].0, address);
        let (resource, root) = if address == self.resources[resource].0 {
            (resource, self.resources[resource].1)
        } else {
            let id = *self.names.get(&address)?;
            let (root, resource) = self.queue[id];
            (self.nodes.get(id).map_or(resource, |node| node.resource), root)
        };
        let fragment = super::super::graph::percent_decoded(fragment);
        if fragment.is_empty() || fragment.starts_with('/') {
            let target = root.pointer(&fragment)?;
            return matches!(target, Value::Object(_) | Value::Bool(_)).then(|| self.id(target, resource));
        }
        self.names.get(&format!("{address}#{fragment}")).copied()
    }

    fn is_before(&self, draft: Draft) -> bool {
        self.draft < draft
    }

    fn node(&mut self, schema: &'v Value, resource: usize) -> KeywordResult<CheckNode> {
        let own = self.nodes.len();
        let words = match schema {
            Value::Bool(true) => return Ok(CheckNode { words: Vec::new(), resource }),
            Value::Bool(false) => return Ok(CheckNode { words: vec![Keyword::Never], resource }),
            Value::Object(words) => words,
            _ => return invalid("a schema is neither an object nor a boolean"),
        };
        let mut found = Vec::new();
        let reference = match words.get("$ref") {
            Some(Value::String(reference)) => Some(reference.as_str()),
            Some(_) => return wrong("$ref"),
            None => None,
        };
        // Before 2019-09, keywords beside a reference have no effect.
        if let Some(reference) = reference.filter(|_| self.is_before(Draft::Draft201909)) {
            self.pending.push((own, 0, reference.to_owned()));
            return Ok(CheckNode { words: vec![Keyword::Reference(NOWHERE)], resource });
        }
        let resource = self.identify(own, schema, words, resource)?;
        self.assertions(words, &mut found)?;
        self.shape(words, resource, &mut found)?;
        self.alternatives(words, resource, &mut found)?;
        if !self.is_before(Draft::Draft201909) {
            for (word, make) in [
                ("unevaluatedProperties", Keyword::UnseenMembers as fn(CheckNodeId) -> Keyword),
                ("unevaluatedItems", Keyword::UnseenElements),
            ] {
                found.extend(words.get(word).map(|schema| make(self.id(schema, resource))));
            }
        }
        if let Some(reference) = reference {
            self.pending.push((own, found.len(), reference.to_owned()));
            found.push(Keyword::Reference(NOWHERE));
        }
        self.moving(own, words, &mut found);
        // Definitions may be referred to by a name of their own.
        for word in ["$defs", "definitions"] {
            self.named(words, word, resource)?;
        }
        Ok(CheckNode { words: found, resource })
    }

    /// `$dynamicRef` and `$recursiveRef`.
    fn moving(&mut self, own: CheckNodeId, words: &'v Object, found: &mut Vec<Keyword>) {
        let word = match self.draft {
            Draft::Draft201909 => "$recursiveRef",
            _ if self.is_before(Draft::Draft201909) => return,
            _ => "$dynamicRef",
        };
        let Some(reference) = words.get(word).and_then(Value::as_str) else { return };
        let name = reference.split_once('#').map_or("", |(_, name)| name).to_owned();
        self.pending.push((own, found.len(), reference.to_owned()));
        found.push(Keyword::Dynamic { nearest: NOWHERE, name });
    }

    /// Notes the names of a schema, and returns the document that it is in.
    fn identify(
        &mut self,
        own: CheckNodeId,
        schema: &'v Value,
        words: &'v Object,
        resource: usize,
    ) -> KeywordResult<usize> {
        let mut resource = resource;
        let word = if self.draft == Draft::Draft4 { "id" } else { "$id" };
        if let Some(Value::String(written)) = words.get(word) {
            let (address, anchor) = written.split_once('#').unwrap_or((written, ""));
            if !address.is_empty() {
                let address = uri::resolve(&self.resources[resource].0, address);
                if address.len() > MAX_ADDRESS {
                    return Err(CheckStop::Spent);
                }
                if own == CompiledSchema::ROOT {
                    self.resources[0].0.clone_from(&address);
                } else {
                    self.resources.push((address.clone(), schema));
                    resource = self.resources.len() - 1;
                }
                self.names.insert(address, own);
            }
            if !anchor.is_empty() {
                self.names.insert(format!("{}#{anchor}", self.resources[resource].0), own);
            }
        }
        for word in ["$anchor", "$dynamicAnchor"] {
            if let Some(Value::String(anchor)) = words.get(word) {
                self.names.insert(format!("{}#{anchor}", self.resources[resource].0), own);
                if word == "$dynamicAnchor" {
                    self.dynamic.insert((resource, anchor.to_owned()), own);
                }
            }
        }
        if self.draft == Draft::Draft201909 && words.get("$recursiveAnchor") == Some(&Value::Bool(true)) {
            self.dynamic.insert((resource, String::new()), own);
        }
        Ok(resource)
    }

    /// Reads the keywords about a value itself.
    fn assertions(&self, words: &'v Object, found: &mut Vec<Keyword>) -> KeywordResult<()> {
        if let Some(written) = words.get("type") {
            let names: Vec<&str> = match written {
                Value::String(name) => vec![name],
                Value::Array(names) if !names.is_empty() => names.iter().filter_map(Value::as_str).collect(),
                _ => return wrong("type"),
            };
            const NAMES: [&str; 7] = ["null", "boolean", "integer", "number", "string", "array", "object"];
            let count = written.as_array().map_or(1, |names| names.len());
            if names.len() != count || !names.iter().all(|name| NAMES.contains(name)) {
                return wrong("type");
            }
            let types = names.iter().map(|name| TypeSet::named(name)).collect();
            let quoted: Vec<String> = names.iter().map(|name| format!("\"{name}\"")).collect();
            let plural = if written.is_array() { "types" } else { "type" };
            let names = format!("{plural} {}", quoted.join(", "));
            found.push(Keyword::Type { types, is_strict: self.draft == Draft::Draft4, names });
        }
        if !self.is_before(Draft::Draft6) {
            found.extend(words.get("const").map(|value| Keyword::Const(value.clone())));
        }
        match words.get("enum") {
            Some(Value::Array(values)) => found.push(Keyword::Enum(values.to_vec())),
            Some(_) => return wrong("enum"),
            None => {}
        }
        self.bounds(words, found)?;
        for (word, count) in [
            ("minLength", CountKeyword::MinLength),
            ("maxLength", CountKeyword::MaxLength),
            ("minItems", CountKeyword::MinItems),
            ("maxItems", CountKeyword::MaxItems),
            ("minProperties", CountKeyword::MinProperties),
            ("maxProperties", CountKeyword::MaxProperties),
        ] {
            found.extend(count_of(words, word)?.map(|limit| Keyword::Count(count, limit)));
        }
        if let Some(names) = words.get("required") {
            found.push(Keyword::Required(texts(names, "required")?));
        }
        if !self.is_before(Draft::Draft201909)
            && let Some(Value::Object(names)) = words.get("dependentRequired")
        {
            let of =
                |(name, names): (&str, &Value)| Ok((name.to_owned(), texts(names, "dependentRequired")?));
            found.push(Keyword::DependentRequired(names.iter().map(of).collect::<KeywordResult<_>>()?));
        }
        match words.get("pattern") {
            Some(Value::String(pattern)) => found.push(Keyword::Pattern(LazyPattern::new(pattern))),
            Some(_) => return wrong("pattern"),
            None => {}
        }
        if self.is_before(Draft::Draft201909) {
            let is_form = |word: &&str| matches!(words.get(word), Some(Value::String(_)));
            let form: serde_json::Map<_, _> = ["format", "contentEncoding", "contentMediaType"]
                .into_iter()
                .filter(is_form)
                .map(|word| (word.to_owned(), words[word].as_str().unwrap_or_default().into()))
                .collect();
            if !form.is_empty() {
                found.push(Keyword::Form(StringFormat::new(form, self.draft)));
            }
        }
        match words.get("uniqueItems") {
            Some(Value::Bool(true)) => found.push(Keyword::UniqueItems),
            Some(Value::Bool(false)) | None => {}
            Some(_) => return wrong("uniqueItems"),
        }
        Ok(())
    }

    fn bounds(&self, words: &'v Object, found: &mut Vec<Keyword>) -> KeywordResult<()> {
        for (word, bound, other, beyond) in [
            ("minimum", NumberBound::Minimum, "exclusiveMinimum", NumberBound::AboveMinimum),
            ("maximum", NumberBound::Maximum, "exclusiveMaximum", NumberBound::BelowMaximum),
        ] {
            let is_beyond = words.get(other) == Some(&Value::Bool(true));
            let bound = if self.draft == Draft::Draft4 && is_beyond { beyond } else { bound };
            found.extend(number_of(words, word)?.map(|limit| Keyword::Bound(bound, limit)));
            if self.draft != Draft::Draft4 {
                found.extend(number_of(words, other)?.map(|limit| Keyword::Bound(beyond, limit)));
            }
        }
        if let Some(number) = number_of(words, "multipleOf")? {
            let written = number.as_str();
            let digits = written.split(['e', 'E']).next().unwrap_or(written);
            if digits.starts_with('-') || !digits.contains(|digit| matches!(digit, '1'..='9')) {
                return wrong("multipleOf");
            }
            found.push(Keyword::MultipleOf(number));
        }
        Ok(())
    }

    /// Reads the keywords about the parts of a value.
    fn shape(&mut self, words: &'v Object, resource: usize, found: &mut Vec<Keyword>) -> KeywordResult<()> {
        let named = self.named(words, "properties", resource)?;
        let patterns = self.named(words, "patternProperties", resource)?;
        let others = words.get("additionalProperties").map(|schema| self.id(schema, resource));
        if !named.is_empty() || !patterns.is_empty() || others.is_some() {
            found.push(Keyword::Members(MemberKeywords {
                named: named.into_iter().collect(),
                patterns: patterns.into_iter().map(|(text, id)| (LazyPattern::new(&text), id)).collect(),
                others,
            }));
        }
        if !self.is_before(Draft::Draft6) {
            found.extend(words.get("propertyNames").map(|schema| Keyword::Names(self.id(schema, resource))));
        }
        let (first, rest) = match words.get("items") {
            // The tuples of older drafts.
            Some(Value::Array(_)) if self.is_before(Draft::Draft202012) => {
                (self.list(words, "items", resource)?, words.get("additionalItems"))
            }
            items if self.is_before(Draft::Draft202012) => (Vec::new(), items),
            items => (self.list(words, "prefixItems", resource)?, items),
        };
        let rest = rest.map(|schema| self.id(schema, resource));
        if !first.is_empty() || rest.is_some() {
            found.push(Keyword::Elements { first, rest });
        }
        if let Some(schema) = words.get("contains").filter(|_| !self.is_before(Draft::Draft6)) {
            let is_new = !self.is_before(Draft::Draft201909);
            let least = count_of(words, "minContains")?.filter(|_| is_new).unwrap_or(1);
            let most = count_of(words, "maxContains")?.filter(|_| is_new);
            let is_looking = !self.is_before(Draft::Draft202012);
            found.push(Keyword::Contains { schema: self.id(schema, resource), least, most, is_looking });
        }
        Ok(())
    }

    /// Reads the keywords that apply other schemas to the same value.
    fn alternatives(
        &mut self,
        words: &'v Object,
        resource: usize,
        found: &mut Vec<Keyword>,
    ) -> KeywordResult<()> {
        if let Some(Value::Object(members)) = words.get("dependencies") {
            let mut required = Vec::new();
            let mut schemas = Vec::new();
            for (name, value) in members {
                match value {
                    Value::Array(_) => required.push((name.to_owned(), texts(value, "dependencies")?)),
                    schema => schemas.push((name.to_owned(), self.id(schema, resource))),
                }
            }
            found.push(Keyword::DependentRequired(required));
            found.push(Keyword::DependentSchemas(schemas));
        }
        if !self.is_before(Draft::Draft201909) && words.contains_key("dependentSchemas") {
            found.push(Keyword::DependentSchemas(self.named(words, "dependentSchemas", resource)?));
        }
        for (word, make) in [
            ("allOf", Keyword::All as fn(Vec<CheckNodeId>) -> Keyword),
            ("anyOf", Keyword::Any),
            ("oneOf", Keyword::One),
        ] {
            if words.contains_key(word) {
                let schemas = self.list(words, word, resource)?;
                if schemas.is_empty() {
                    return wrong(word);
                }
                found.push(make(schemas));
            }
        }
        found.extend(words.get("not").map(|schema| Keyword::Not(self.id(schema, resource))));
        if !self.is_before(Draft::Draft7)
            && let Some(condition) = words.get("if")
        {
            let condition = self.id(condition, resource);
            let then = words.get("then").map(|schema| self.id(schema, resource));
            let otherwise = words.get("else").map(|schema| self.id(schema, resource));
            // Alone it decides nothing, but marks the parts that it has looked at.
            found.push(Keyword::If { condition, then, otherwise });
        }
        Ok(())
    }

    fn list(&mut self, words: &'v Object, word: &str, resource: usize) -> KeywordResult<Vec<CheckNodeId>> {
        match words.get(word) {
            Some(Value::Array(schemas)) => {
                Ok(schemas.iter().map(|schema| self.id(schema, resource)).collect())
            }
            Some(_) => wrong(word),
            None => Ok(Vec::new()),
        }
    }

    fn named(
        &mut self,
        words: &'v Object,
        word: &str,
        resource: usize,
    ) -> KeywordResult<Vec<(String, CheckNodeId)>> {
        match words.get(word) {
            Some(Value::Object(schemas)) => Ok(schemas
                .iter()
                .map(|(name, schema)| (name.to_owned(), self.id(schema, resource)))
                .collect()),
            Some(_) => wrong(word),
            None => Ok(Vec::new()),
        }
    }
}

fn number_of(words: &Object, word: &str) -> KeywordResult<Option<Number>> {
    match words.get(word) {
        Some(Value::Number(number)) => Ok(Some(number.clone())),
        Some(_) => wrong(word),
        None => Ok(None),
    }
}

/// A count: an integer, which may be written as `2.0`.
fn count_of(words: &Object, word: &str) -> KeywordResult<Option<u64>> {
    let Some(number) = number_of(words, word)? else { return Ok(None) };
    let float = super::number::float(number.as_str());
    if float < 0.0 || float.fract() != 0.0 {
        return wrong(word);
    }
    // Beyond all counts the maximum is as good.
    Ok(Some(number.as_u64().unwrap_or(float as u64)))
}

fn texts(value: &Value, word: &str) -> KeywordResult<Vec<String>> {
    let Value::Array(texts) = value else { return wrong(word) };
    let texts = texts.iter().map(|text| text.as_str().map(str::to_owned)).collect::<Option<_>>();
    texts.map_or_else(|| wrong(word), Ok)
}
