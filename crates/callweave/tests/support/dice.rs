//! Schemas and JSON texts by the throw of dice, the same for the same seed.

use serde_json::{Value, json};

pub(crate) struct Dice(u64);

impl Dice {
    pub(crate) fn new(seed: u64) -> Self {
        Self(seed)
    }

    pub(crate) fn below(&mut self, count: usize) -> usize {
        self.0 = self.0.wrapping_mul(0x5851_F42D_4C95_7F2D).wrapping_add(0x1405_7B7E_F767_814F);
        ((self.0 >> 33) as usize) % count
    }

    fn pick<'a>(&mut self, of: &[&'a str]) -> &'a str {
        of[self.below(of.len())]
    }

    /// A schema with definitions that it refers to.
    pub(crate) fn schema(&mut self) -> Value {
        let mut schema = match self.below(4) {
            0 => self.part(3),
            _ => self.object(3),
        };
        let definitions = json!({"one": self.part(2), "two": self.object(2)});
        if let Some(words) = schema.as_object_mut() {
            words.insert("$defs".to_owned(), definitions);
        }
        schema
    }

    fn object(&mut self, depth: usize) -> Value {
        let mut properties = serde_json::Map::new();
        for _ in 0..self.below(4) {
            let name = self.pick(&["a", "b", "c", "a_b", "aB"]).to_owned();
            let part = self.part(depth.saturating_sub(1));
            properties.insert(name, part);
        }
        let mut schema = json!({"properties": properties});
        let words = schema.as_object_mut().expect("it is an object");
        if self.below(2) == 0 {
            words.insert("type".to_owned(), "object".into());
        }
        if self.below(3) == 0 {
            words.insert("required".to_owned(), json!([self.pick(&["a", "b", "x"])]));
        }
        match self.below(6) {
            0 => drop(words.insert("additionalProperties".to_owned(), false.into())),
            1 => drop(words.insert("additionalProperties".to_owned(), self.part(depth.saturating_sub(1)))),
            2 => {
                drop(words.insert(
                    "patternProperties".to_owned(),
                    json!({self.pick(&["^x", "^(x|A)", "^[A-C]", "(?!a)", "b$"]): self.part(depth.saturating_sub(1))}),
                ))
            }
            _ => {}
        }
        if depth > 0 && self.below(8) == 0 {
            let word = self.pick(&["anyOf", "allOf", "oneOf"]).to_owned();
            let parts = json!([self.object(depth - 1), {"required": ["b"]}]);
            words.insert(word, parts);
        }
        if depth > 0 && self.below(8) == 0 {
            let word = self.pick(&["if", "then", "unevaluatedProperties"]).to_owned();
            words.insert(word, self.object(depth - 1));
        }
        if depth > 0 && self.below(8) == 0 {
            let parts = json!({"b": self.object(depth - 1)});
            words.insert("dependentSchemas".to_owned(), parts);
        }
        if depth > 0 && self.below(6) == 0 {
            let word = self.pick(&["anyOf", "oneOf"]).to_owned();
            words.insert(word, self.union(depth));
        }
        schema
    }

    /// Alternatives of objects, some distinguished by a member, some by their keys, some not at all.
    fn union(&mut self, depth: usize) -> Value {
        let mut branches = Vec::new();
        for at in 0..2 + self.below(3) {
            let mut branch = self.object(depth - 1);
            if self.below(2) == 0 {
                branch["properties"]["a"] = json!({"const": (["a", "B", "5", "x"][at])});
            }
            if self.below(4) == 0 {
                branch["additionalProperties"] = false.into();
            }
            branches.push(match self.below(8) {
                0 => json!({"$ref": self.pick(&["#", "#/$defs/two"])}),
                1 => json!({"anyOf": [branch, self.object(depth - 1)]}),
                2 => json!({"type": self.pick(&["string", "array", "null"])}),
                _ => branch,
            });
        }
        branches.into()
    }

    fn part(&mut self, depth: usize) -> Value {
        const TYPES: [&str; 7] = ["null", "boolean", "integer", "number", "string", "array", "object"];
        let leaves = 10;
        match self.below(if depth == 0 { leaves } else { leaves + 10 }) {
            0 => json!({}),
            1..4 => json!({"type": self.pick(&TYPES)}),
            4 => json!({"type": [self.pick(&TYPES), self.pick(&TYPES)]}),
            5 => json!({"type": "string", "title": self.pick(&["A b", "c", "other"])}),
            6 => json!({"enum": [self.pick(&["a", "B", "5"]), "b", 1, null]}),
            7 => json!({"type": self.pick(&TYPES), "nullable": true, "default": 1}),
            8 => json!({"$ref": self.pick(&["#", "#/$defs/one", "#/$defs/two"])}),
            9 => json!({"const": self.pick(&["a", "x"])}),
            10..13 => self.object(depth),
            13 => json!({"items": self.part(depth - 1)}),
            14 => json!({"type": "array", "prefixItems": [self.part(depth - 1), self.part(depth - 1)]}),
            15 => json!({"anyOf": [self.part(depth - 1), self.part(depth - 1)]}),
            16 => json!({"oneOf": [self.part(depth - 1), {"type": "null"}]}),
            17..19 => {
                let word = self.pick(&["anyOf", "oneOf"]);
                json!({word: self.union(depth)})
            }
            _ => json!({"allOf": [self.part(depth - 1), self.part(depth - 1)]}),
        }
    }

    /// The text of a value, mostly of an object, in which no key comes twice.
    pub(crate) fn text(&mut self) -> String {
        let mut text = String::new();
        match self.below(6) {
            0 => self.value(3, &mut text),
            _ => self.members(3, &mut text),
        }
        text
    }

    fn blank(&mut self, text: &mut String) {
        text.push_str(self.pick(&["", "", " ", "\n  "]));
    }

    fn members(&mut self, depth: usize, text: &mut String) {
        text.push('{');
        let mut names = vec!["a", "b", "c", "a_b", "aB", "A-B", "A", "xy", "A b", "\\u0061c", ""];
        for at in 0..self.below(5) {
            if at > 0 {
                self.blank(text);
                text.push(',');
            }
            self.blank(text);
            let name = names.remove(self.below(names.len()));
            text.push_str(&format!("\"{name}\""));
            self.blank(text);
            text.push(':');
            self.blank(text);
            self.value(depth.saturating_sub(1), text);
        }
        self.blank(text);
        text.push('}');
    }

    fn value(&mut self, depth: usize, text: &mut String) {
        const LEAVES: [&str; 20] = [
            "null",
            "true",
            "false",
            "1",
            "0",
            "-2.50",
            "1e3",
            "7.0",
            "\"\"",
            "\"a\"",
            "\"B\"",
            "\"5\"",
            "\"true\"",
            "\"null\"",
            "\"[1, \\\"x\\\"]\"",
            "\"{\\\"a\\\": \\\"1\\\"}\"",
            "\"\\u00e9\\ud83d\\ude00 x\"",
            "\"C:\\\\x\"",
            "\"[1, 2\"",
            "\"1,000\"",
        ];
        match self.below(if depth == 0 { 6 } else { 10 }) {
            0..6 => text.push_str(self.pick(&LEAVES)),
            6..9 => self.members(depth, text),
            _ => {
                text.push('[');
                for at in 0..self.below(4) {
                    if at > 0 {
                        text.push(',');
                    }
                    self.blank(text);
                    self.value(depth - 1, text);
                }
                self.blank(text);
                text.push(']');
            }
        }
    }

    /// A text that was truncated, has something in it that does not belong there, or has a part twice.
    pub(crate) fn damaged(&mut self, text: &str) -> String {
        let mut at = self.below(text.len() + 1);
        while !text.is_char_boundary(at) {
            at -= 1;
        }
        let (one, other) = text.split_at(at);
        match self.below(4) {
            0 => one.to_owned(),
            1 => {
                format!("{one}{}{other}", self.pick(&["\"", ",", "}", "\\", "x", "\n", "{", ":", "\\ud800"]))
            }
            2 => format!("{text}{other}"),
            _ => text.replace("\"b\"", "\"a\""),
        }
    }
}
