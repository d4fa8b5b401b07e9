//! Texts that only talk about calls: documentation, examples in fences, answers that quote one.

use callweave::dialect::{ExtractOptions, Extraction, Extractor, Tools};
use callweave::event::BlockCompletion;
use callweave::json::Value;

use crate::shared;

pub(crate) struct Talk {
    pub(crate) kind: String,
    pub(crate) name: String,
    pub(crate) text: String,
    tools: Option<Value>,
    /// Whether the response ended by its length.
    is_truncated: bool,
}

/// Our own texts and, where they are at hand, others'.
pub(crate) fn load() -> Vec<Talk> {
    let own = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/data/dialect/talk.jsonl");
    let files = shared::find("vectors/phantoms.jsonl").into_iter().chain([own.into()]);
    let text: String = files.map(|path| std::fs::read_to_string(path).expect("readable")).collect();
    let read = |line: &str| {
        let row: Value = serde_json::from_str(line).expect("a row is JSON");
        let own = |key: &str| row[key].as_str().unwrap_or_default().to_owned();
        Talk {
            kind: own("kind"),
            name: own("name"),
            text: own("text"),
            tools: row.get("tools").filter(|tools| tools.as_array().is_some()).cloned(),
            is_truncated: row["cut"] == Value::Bool(true),
        }
    };
    text.lines().map(read).collect()
}

impl Talk {
    /// The ways to read it: with its own tools, or with none and with the tool that most of them name; and in
    /// the dialect that it is about.
    pub(crate) fn ways(&self) -> Vec<(&'static str, ExtractOptions)> {
        let auto = || ExtractOptions::new("auto").expect("auto");
        let named = ExtractOptions::new(&self.name).ok();
        let mut ways: Vec<_> = match &self.tools {
            Some(tools) => {
                let tools = || Tools::from_json(tools);
                let named = named.map(|named| ("named", named.tools(tools())));
                named.into_iter().chain([("own", auto().tools(tools()))]).collect()
            }
            None => named.map(|named| ("named", named)).into_iter().chain([("none", auto())]).collect(),
        };
        if self.tools.is_none() {
            let schema = serde_json::json!({"type": "object", "properties": {"city": {"type": "string"}}});
            let mut weather = Tools::default();
            weather.declare("get_weather", Some(&schema));
            ways.push(("get_weather", auto().tools(weather)));
        }
        ways
    }

    pub(crate) fn extract(&self, options: &ExtractOptions) -> Extraction {
        let mut found = Extraction::default();
        let mut extractor = Extractor::new(options);
        extractor.push(&self.text, &mut found);
        extractor.end(
            if self.is_truncated { BlockCompletion::Truncated } else { BlockCompletion::Complete },
            &mut found,
        );
        found
    }
}
