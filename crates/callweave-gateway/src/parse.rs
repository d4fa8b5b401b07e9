//! The parser alone, from text to calls, for clients that have asked the model already.

use callweave::arguments::ArgumentStage;
use callweave::dialect::{DialectRegistry, ExtractOptions, Extraction, Extractor, Tools};
use callweave::event::{Event, Sink};
use serde::Deserialize;

use crate::failure::RequestFailure;

/// The request body.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct ParsedRequest {
    text: String,
    #[serde(default)]
    dialect: Option<String>,
    #[serde(default)]
    model: Option<String>,
    #[serde(default)]
    tools: Option<callweave::Value>,
}

/// Reads the calls and reasoning in a text: `{"text", "dialect"?, "model"?, "tools"?}`. The schema of a tool may make
/// `steps` steps of a call.
pub(crate) fn parse(body: &[u8], steps: u64) -> Result<String, RequestFailure> {
    let asked: ParsedRequest =
        serde_json::from_slice(body).map_err(|error| RequestFailure::invalid(error.to_string()))?;
    let of_model = asked.model.as_deref().and_then(|model| DialectRegistry::builtin().for_model(model));
    let options = match (&asked.dialect, of_model) {
        (Some(name), _) => ExtractOptions::new(name),
        (None, Some(dialect)) => ExtractOptions::new(&dialect.name),
        (None, None) => ExtractOptions::new("auto"),
    };
    let mut options = options.map_err(|error| RequestFailure::invalid(error.to_string()))?;
    let mut stage = ArgumentStage::new().repair().budget(steps);
    if let Some(tools) = &asked.tools {
        let tools = Tools::from_json(tools);
        options = options.tools(tools.clone());
        stage = stage.tools(tools).coerce().validate();
    }
    let mut extractor = Extractor::new(&options);
    let mut found = Extraction::default();
    let mut put = |event: Event<'_>| found.put(event);
    extractor.push(&asked.text, &mut |event: Event<'_>| stage.push(event, &mut put));
    extractor.finish(&mut |event: Event<'_>| stage.push(event, &mut put));
    stage.finish(&mut put);
    let mut value =
        callweave::Value::of(&found).map_err(|error| RequestFailure::invalid(error.to_string()))?;
    if let Some(members) = value.as_object_mut() {
        members.insert("dialect", extractor.dialect().map(callweave::Value::from).unwrap_or_default());
    }
    Ok(value.to_string())
}
