//! Schemas as a provider accepts them.
//!
//! One pass from the root down, over a list of open work: no recursion. References are replaced by their targets where
//! a provider knows none; one that leads into itself becomes any object, and is named as a loss.

use std::collections::HashSet;
use std::rc::Rc;

use super::LossList;
use crate::json::{Array, Object, Value};

/// Keywords that hold schemas by name.
macro_rules! group {
    () => {
        "properties" | "patternProperties" | "$defs" | "definitions"
    };
}

/// Keywords that hold one schema.
macro_rules! single {
    () => {
        "items" | "additionalProperties" | "not" | "contains"
    };
}

/// Keywords that hold a list of schemas.
macro_rules! union {
    () => {
        "anyOf" | "oneOf" | "allOf" | "prefixItems"
    };
}

/// A provider's rules for schemas.
#[derive(Debug)]
pub(crate) struct SchemaRules {
    /// The keywords that are known; all, if none are listed.
    keywords: Option<&'static [&'static str]>,
    /// Whether the root must be an object, and no union.
    is_object: bool,
    /// Whether there must be a schema.
    is_demanded: bool,
    /// Whether it is a subset of `OpenAPI`: one type, `nullable`, no references, `anyOf` alone of all unions, texts
    /// alone in enumerations.
    is_open_api: bool,
    /// The formats that are known; all, if none are listed.
    formats: Option<&'static [&'static str]>,
    /// Keywords that a strict schema may not have.
    strict_refuses: &'static [&'static str],
    /// Whether a strict schema must demand all its members, and allow no others.
    strict_demands_all: bool,
    /// Whether every property is described by an object: `true` will not do.
    describes_properties: bool,
    /// Whether a type stands in the branches of a union, and not beside it.
    types_branches: bool,
}

impl SchemaRules {
    pub(super) const OBJECT: Self = Self {
        keywords: None,
        is_object: true,
        is_demanded: false,
        is_open_api: false,
        formats: None,
        strict_refuses: &[],
        strict_demands_all: false,
        describes_properties: false,
        types_branches: false,
    };

    pub(super) const OPENAI: Self = Self { strict_demands_all: true, ..Self::OBJECT };
    /// Ollama's server reads a property as a record.
    pub(super) const OLLAMA: Self = Self { describes_properties: true, ..Self::OBJECT };

    pub(super) const MOONSHOT: Self = Self { types_branches: true, ..Self::OBJECT };

    pub(super) const DEMANDED: Self = Self { is_demanded: true, ..Self::OBJECT };

    pub(super) const ANTHROPIC: Self = Self {
        strict_refuses: &[
            "minimum",
            "maximum",
            "exclusiveMinimum",
            "exclusiveMaximum",
            "minLength",
            "maxLength",
            "minItems",
            "maxItems",
            "multipleOf",
            "pattern",
            "uniqueItems",
            "contains",
            "prefixItems",
            "patternProperties",
            "propertyNames",
            "not",
            "if",
            "then",
            "else",
        ],
        ..Self::DEMANDED
    };

    pub(super) const GEMINI: Self = Self {
        keywords: Some(&[
            "type",
            "format",
            "title",
            "description",
            "nullable",
            "enum",
            "items",
            "properties",
            "required",
            "propertyOrdering",
            "minItems",
            "maxItems",
            "minProperties",
            "maxProperties",
            "minLength",
            "maxLength",
            "minimum",
            "maximum",
            "pattern",
            "example",
            "anyOf",
            "default",
        ]),
        is_open_api: true,
        formats: Some(&["enum", "date-time"]),
        ..Self::OBJECT
    };
}

/// The maximum number of references that are followed in all. Each may copy much.
const MAX_REFERENCES: usize = 1000;

/// The references that led to a schema.
type ReferencePath = Option<Rc<SchemaStep>>;

struct SchemaStep {
    reference: String,
    before: ReferencePath,
}

fn leads_through(way: &ReferencePath, reference: &str) -> bool {
    let mut at = way;
    while let Some(step) = at {
        if step.reference == reference {
            return true;
        }
        at = &step.before;
    }
    false
}

/// Whether a schema has something that the provider refuses in a strict schema.
pub(super) fn is_refused(schema: &Value, rules: &SchemaRules) -> bool {
    let mut open = vec![schema];
    while let Some(value) = open.pop() {
        let Some(node) = value.as_object() else { continue };
        if rules.strict_refuses.iter().any(|keyword| node.contains_key(keyword)) {
            return true;
        }
        // A provider that refuses keywords wants objects that allow no other members.
        let is_open = node.get("additionalProperties").is_none_or(|others| *others != false);
        let is_object = node["type"] == "object" || node.contains_key("properties");
        if !rules.strict_refuses.is_empty() && is_object && is_open {
            return true;
        }
        if rules.strict_demands_all && !demands_all(node) {
            return true;
        }
        for (key, value) in node {
            match (key, value) {
                (group!(), Value::Object(members)) => open.extend(members.values()),
                (single!(), value) => open.push(value),
                (union!(), Value::Array(branches)) => open.extend(branches.iter()),
                _ => {}
            }
        }
    }
    false
}

/// Whether an object demands all its members, and allows no others.
fn demands_all(node: &Object) -> bool {
    let Some(properties) = node["properties"].as_object() else { return node["type"] != "object" };
    let is_required = |key: &str| {
        node["required"].as_array().is_some_and(|keys| keys.iter().any(|own| own.as_str() == Some(key)))
    };
    node.get("additionalProperties").is_some_and(|others| *others == false)
        && properties.keys().all(is_required)
}

/// Makes the schema of a response one that the provider accepts. The model can still read the parts that it refuses to
/// check.
pub(super) fn fit_response(schema: &mut Value, rules: &SchemaRules, losses: &mut LossList) {
    fit(schema, rules, losses);
    if rules.strict_refuses.is_empty() {
        return;
    }
    let mut open = vec![schema];
    while let Some(value) = open.pop() {
        let Some(node) = value.as_object_mut() else { continue };
        for keyword in rules.strict_refuses {
            if let Some(value) = node.remove(keyword) {
                losses.put(format!("{keyword} of a schema"));
                describe(node, &format!("{keyword}: {value}"));
            }
        }
        if let Some(branches) = node.remove("oneOf") {
            node.insert("anyOf", branches);
        }
        let is_object = node["type"] == "object" || node.contains_key("properties");
        if is_object && node.insert("additionalProperties", false).is_some_and(|others| others.is_object()) {
            losses.put("additionalProperties of a schema");
        }
        for (key, value) in node.iter_mut() {
            match (key, value) {
                (group!(), Value::Object(members)) => open.extend(members.values_mut()),
                (single!(), value) => open.push(value),
                (union!(), Value::Array(branches)) => open.extend(branches.iter_mut()),
                _ => {}
            }
        }
    }
}

/// Adds a line to the description of a schema.
fn describe(node: &mut Object, line: &str) {
    match node.get_mut("description") {
        Some(Value::String(text)) => {
            text.push('\n');
            text.push_str(line);
        }
        _ => {
            node.insert("description", line);
        }
    }
}

/// Makes the schema of a tool's arguments one that the provider accepts.
pub(super) fn fit_arguments(schema: &mut Option<Value>, rules: &SchemaRules, losses: &mut LossList) {
    if schema.is_none() && rules.is_demanded {
        *schema = Some(Value::object([("type", "object".into()), ("properties", Object::new().into())]));
    }
    let Some(schema) = schema else { return };
    fit(schema, rules, losses);
    let Some(root) = schema.as_object_mut() else { return };
    if !rules.is_object {
        return;
    }
    for union in ["anyOf", "oneOf", "allOf"] {
        if root.contains_key(union) && !root.contains_key("properties") {
            merge_branches(root, union);
            losses.put(format!("{union} at the root of a schema"));
        }
    }
    if !root.contains_key("type") {
        root.insert("type", "object");
    }
}

/// Merges the properties of all branches; a member is required if all branches require it.
fn merge_branches(root: &mut Object, union: &str) {
    let Some(Value::Array(branches)) = root.remove(union) else { return };
    let mut properties = Object::new();
    let mut required: Option<Vec<Value>> = None;
    for branch in branches {
        let Value::Object(mut branch) = branch else { continue };
        if let Some(Value::Object(own)) = branch.remove("properties") {
            properties.extend(own);
        }
        let own = match branch.remove("required") {
            Some(Value::Array(own)) => own.into_vec(),
            _ => Vec::new(),
        };
        required = Some(match required {
            None => own,
            Some(before) if union == "allOf" => before.into_iter().chain(own).collect(),
            Some(before) => before.into_iter().filter(|key| own.contains(key)).collect(),
        });
    }
    root.insert("properties", properties);
    if let Some(required) = required.filter(|keys| !keys.is_empty()) {
        root.insert("required", required);
    }
}

/// The schema as Gemini's older members take it, if they can express all of it.
pub(crate) fn in_open_api(schema: &Value) -> Option<Value> {
    let mut losses = LossList::default();
    let mut narrow = schema.clone();
    fit(&mut narrow, &SchemaRules::GEMINI, &mut losses);
    losses.is_empty().then_some(narrow)
}

/// Makes a schema one that the provider accepts.
pub(super) fn fit(schema: &mut Value, rules: &SchemaRules, losses: &mut LossList) {
    if let Some(root) = schema.as_object_mut().filter(|root| rules.is_open_api && !is_typed(root)) {
        root.insert("type", "object");
    }
    let definitions = if rules.is_open_api { schema.clone() } else { Value::Null };
    let mut references = 0;
    let mut open: Vec<(&mut Value, ReferencePath)> = vec![(schema, None)];
    while let Some((value, mut way)) = open.pop() {
        if rules.is_open_api && value.is_boolean() {
            *value = Object::new().into();
        }
        if let Some(node) = value.as_object_mut().filter(|_| rules.is_open_api) {
            unfold_null(node);
        }
        while rules.is_open_api
            && (value.get("$ref").is_some_and(Value::is_string) || value.get("allOf").is_some())
        {
            while let Some(reference) = value.get("$ref").and_then(Value::as_str).map(str::to_owned) {
                references += 1;
                way = follow(value, &reference, &definitions, way, references, losses);
            }
            join_all_of(value, &definitions, &mut way, &mut references, losses);
            // A union of one may be another reference.
            if let Some(node) = value.as_object_mut() {
                to_open_api(node, losses);
            }
        }
        let Some(node) = value.as_object_mut() else { continue };
        if rules.describes_properties
            && let Some(properties) = node.get_mut("properties").and_then(Value::as_object_mut)
        {
            for property in properties.values_mut().filter(|property| property.is_boolean()) {
                *property = Object::new().into();
            }
        }
        name_type(node);
        if rules.is_open_api {
            to_open_api(node, losses);
        } else {
            from_open_api(node);
        }
        let is_array = node["type"].as_str().is_some_and(|own| own.eq_ignore_ascii_case("array"));
        if is_array && !node.contains_key("items") && !node.contains_key("prefixItems") {
            let any = if rules.is_open_api {
                Value::object([("type", "string".into())])
            } else {
                Object::new().into()
            };
            node.insert("items", any);
        }
        if rules.types_branches {
            type_branches(node);
        }
        if let Some(formats) = rules.formats
            && let Some(format) = node.get("format").and_then(Value::as_str)
            && !formats.contains(&format)
        {
            losses.put(format!("format {format} of a schema"));
            node.remove("format");
        }
        if let Some(keywords) = rules.keywords {
            node.retain(|key, value| {
                let is_known = keywords.contains(&key);
                // Objects have only the described members.
                let is_silent = SILENT.contains(&key) || key == "additionalProperties" && *value == false;
                if !is_known && !is_silent {
                    losses.put(format!("{key} of a schema"));
                }
                is_known
            });
        }
        for (key, value) in node.iter_mut() {
            match (key, value) {
                (group!(), Value::Object(members)) => {
                    open.extend(members.values_mut().map(|member| (member, way.clone())));
                }
                (single!(), value @ Value::Object(_)) => {
                    open.push((value, way.clone()));
                }
                (union!(), Value::Array(branches)) => {
                    open.extend(branches.iter_mut().map(|branch| (branch, way.clone())));
                }
                _ => {}
            }
        }
    }
}

/// Moves the type of a union into its branches; the target of a reference has its own.
fn type_branches(node: &mut Object) {
    if node.contains_key("$ref") {
        node.remove("type");
    }
    let Some(own) = node.get("type").cloned() else { return };
    let Some(Value::Array(branches)) = node.get_mut("anyOf") else { return };
    for branch in branches.iter_mut().filter_map(Value::as_object_mut) {
        if !branch.contains_key("$ref") {
            branch.get_or_insert_with("type", || own.clone());
        }
    }
    node.remove("type");
}

/// Keywords that demand nothing of a value, or whose meaning was moved elsewhere.
const SILENT: &[&str] = &["$schema", "$id", "$defs", "definitions", "$comment", "$anchor"];

/// Replaces a reference by its target; members beside it count more.
fn follow(
    value: &mut Value,
    reference: &str,
    definitions: &Value,
    way: ReferencePath,
    references: usize,
    losses: &mut LossList,
) -> ReferencePath {
    let Some(node) = value.as_object_mut() else { return way };
    node.remove("$ref");
    let found = reference.strip_prefix('#').and_then(|pointer| definitions.pointer(pointer));
    let is_bounded = !leads_through(&way, reference) && references <= MAX_REFERENCES;
    match found {
        Some(Value::Object(found)) if is_bounded => {
            for (key, member) in found {
                node.get_or_insert_with(key, || member.clone());
            }
        }
        Some(_) if !is_bounded => {
            losses.put("recursive reference of a schema");
            node.get_or_insert_with("type", || "object".into());
        }
        _ => losses.put("reference of a schema that leads nowhere"),
    }
    Some(Rc::new(SchemaStep { reference: reference.to_owned(), before: way }))
}

/// Merges several schemas that all must hold into one.
fn join_all_of(
    value: &mut Value,
    definitions: &Value,
    way: &mut ReferencePath,
    references: &mut usize,
    losses: &mut LossList,
) {
    while let Some(Value::Array(branches)) = value.as_object_mut().and_then(|node| node.remove("allOf")) {
        for mut branch in branches {
            while let Some(reference) = branch.get("$ref").and_then(Value::as_str).map(str::to_owned) {
                *references += 1;
                *way = follow(&mut branch, &reference, definitions, way.take(), *references, losses);
            }
            let (Some(node), Value::Object(branch)) = (value.as_object_mut(), branch) else { continue };
            for (key, member) in branch {
                match (node.get_mut(&key), member) {
                    (Some(Value::Object(own)), Value::Object(members)) => own.extend(members),
                    (Some(Value::Array(own)), Value::Array(elements)) => own.extend(elements),
                    (Some(_), _) => {}
                    (None, member) => {
                        node.insert(key, member);
                    }
                }
            }
        }
    }
}

/// Types as Vertex numbers them, from 1 on.
const NUMBERED_TYPES: &[&str] = &["string", "number", "integer", "boolean", "array", "object", "null"];

/// Replaces the number of a type, which only Vertex takes, by its name. Numbers of no type say nothing.
fn name_type(node: &mut Object) {
    if !node["type"].is_number() {
        return;
    }
    let number = node["type"].as_u64().and_then(|number| usize::try_from(number).ok()?.checked_sub(1));
    match number.and_then(|number| NUMBERED_TYPES.get(number)) {
        Some(name) => node.insert("type", *name),
        None => node.remove("type"),
    };
}

fn to_open_api(node: &mut Object, losses: &mut LossList) {
    if let Some(constant) = node.remove("const") {
        node.insert("enum", Array::from(vec![constant]));
    }
    if let Some(branches) = node.remove("oneOf") {
        node.insert("anyOf", branches);
    }
    join_tuple(node, losses);
    unfold_types(node);
    unfold_null(node);
    demand_known(node);
    type_values(node, losses);
    let Some(Value::Array(values)) = node.get("enum") else { return };
    if values.iter().all(|value| value.as_str().is_some_and(|text| !text.is_empty())) {
        node.get_or_insert_with("type", || "string".into());
        return;
    }
    // The provider would refuse them; the model can still read them.
    let told = format!("One of: {}", Value::from(values.clone()));
    node.remove("enum");
    losses.put("enum of other values than texts");
    describe(node, &told);
}

/// Joins the elements of a tuple: there are no tuples, so every element may be any of theirs.
fn join_tuple(node: &mut Object, losses: &mut LossList) {
    let listed = match node.get("items") {
        Some(Value::Array(_)) => "items",
        _ => "prefixItems",
    };
    let Some(Value::Array(_)) = node.get(listed) else { return };
    let Some(Value::Array(elements)) = node.remove(listed) else { return };
    losses.put("tuple of a schema");
    let rest = node.remove("items").filter(Value::is_object);
    let elements = elements.into_iter().chain(rest).filter(Value::is_object);
    let mut known = HashSet::new();
    let mut branches: Vec<Value> = elements.filter(|element| known.insert(element.to_string())).collect();
    match branches.len() {
        0 => {}
        1 => {
            node.insert("items", branches.pop());
        }
        _ => {
            node.insert("items", Value::object([("anyOf", branches.into())]));
        }
    }
}

/// Whether a schema has the type of its values, by itself or by a reference.
fn is_typed(node: &Object) -> bool {
    ["type", "anyOf", "oneOf", "allOf", "enum", "const", "$ref"].iter().any(|key| node.contains_key(key))
}

/// Gives every value a type; where any would do, it is a text.
fn type_values(node: &mut Object, losses: &mut LossList) {
    if is_typed(node) {
        return;
    }
    let (own, is_known) = if node.contains_key("properties") {
        ("object", true)
    } else if node.contains_key("items") {
        ("array", true)
    } else {
        ("string", false)
    };
    node.insert("type", own);
    if !is_known {
        losses.put("any type of a schema");
    }
}

/// Requires only members that are described.
fn demand_known(node: &mut Object) {
    let Some(Value::Object(properties)) = node.get("properties") else { return };
    let known: HashSet<String> = properties.keys().map(str::to_owned).collect();
    let Some(Value::Array(required)) = node.get_mut("required") else { return };
    required.retain(|key| key.as_str().is_some_and(|key| known.contains(key)));
    if required.is_empty() {
        node.remove("required");
    }
}

/// Turns keywords of `OpenAPI` into JSON Schema: types in capitals, and `nullable`; a list of items is a tuple in older
/// drafts, which newer ones refuse.
fn from_open_api(node: &mut Object) {
    if let Some(Value::Array(_)) = node.get("items")
        && let Some(elements) = node.remove("items")
    {
        node.insert("prefixItems", elements);
        if let Some(others) = node.remove("additionalItems") {
            node.insert("items", others);
        }
    }
    if let Some(Value::String(own)) = node.get_mut("type")
        && ["OBJECT", "STRING", "NUMBER", "INTEGER", "BOOLEAN", "ARRAY", "NULL"].contains(&own.as_str())
    {
        own.make_ascii_lowercase();
    }
    if node.get("nullable").is_some_and(|nullable| *nullable == true)
        && let Some(Value::String(own)) = node.get("type")
    {
        let types = vec![own.clone(), "null".to_owned()];
        node.insert("type", types);
        node.remove("nullable");
    }
}

/// `type: ["string", "null"]` → `type: "string", nullable: true`; more types are a union.
fn unfold_types(node: &mut Object) {
    let Some(Value::Array(types)) = node.get_mut("type") else { return };
    let mut types = std::mem::take(types).into_vec();
    let count = types.len();
    types.retain(|one| one != "null");
    if types.len() < count {
        node.insert("nullable", true);
    }
    match types.len() {
        0 => {
            node.remove("type");
        }
        1 => {
            node.insert("type", types.pop());
        }
        _ => {
            node.remove("type");
            let branches: Vec<Value> = types.into_iter().map(|one| Value::object([("type", one)])).collect();
            if !node.contains_key("anyOf") {
                node.insert("anyOf", branches);
            }
        }
    }
}

/// Makes a union with null nullable; a union of one becomes that one.
fn unfold_null(node: &mut Object) {
    let Some(Value::Array(branches)) = node.get_mut("anyOf") else { return };
    let count = branches.len();
    branches.retain(|branch| branch["type"] != "null");
    let has_null = branches.len() < count;
    let only = if branches.len() == 1 { branches.pop() } else { None };
    let is_empty = branches.is_empty();
    if has_null {
        node.insert("nullable", true);
    }
    if is_empty {
        node.remove("anyOf");
    }
    if let Some(Value::Object(only)) = only {
        for (key, member) in only {
            node.get_or_insert_with(&key, || member);
        }
    }
}
