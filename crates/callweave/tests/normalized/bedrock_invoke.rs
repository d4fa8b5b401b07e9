//! InvokeModel as its strictest client reads it: the vendor's frames in chunks.

use std::fmt::Write;

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use callweave::framing::{AwsEventStream, Frame, FrameKind, StreamLimits};
use serde_json::{Value, json};

use super::{Ending, Wire, anthropic_messages};

pub(super) const WIRE: Wire =
    Wire { name: "bedrock-invoke", model: "us.anthropic.claude-test-v1:0", walk, ..anthropic_messages::WIRE };

const METRICS: &str = "amazon-bedrock-invocationMetrics";

/// Takes the vendor's frames out of their chunks.
fn walk(stream: &[u8]) -> Result<Ending, String> {
    let mut frames: Vec<Result<Value, String>> = Vec::new();
    let mut framing = AwsEventStream::new(StreamLimits::default());
    let mut take = |frame: Frame<'_>| {
        let value: Value = serde_json::from_str(frame.data).unwrap_or(Value::Null);
        if frame.kind == FrameKind::Error {
            let error = json!({ "type": frame.event, "message": value["message"] });
            return frames.push(Ok(json!({ "type": "error", "error": error })));
        }
        let inside = STANDARD.decode(value["bytes"].as_str().unwrap_or_default());
        let inside = inside.ok().and_then(|inside| serde_json::from_slice(&inside).ok());
        frames.push(inside.filter(|_| frame.event == Some("chunk")).ok_or(format!("not a chunk: {value}")));
    };
    framing.push(stream, &mut take).map_err(|error| error.to_string())?;
    framing.finish(&mut take).map_err(|error| error.to_string())?;
    let mut vendor = String::new();
    for frame in frames {
        let mut frame = frame?;
        let metrics = frame.as_object_mut().and_then(|frame| frame.remove(METRICS));
        if metrics.is_some() != (frame["type"] == "message_stop") {
            return Err("Bedrock counts in the last chunk, and only there".to_owned());
        }
        let name = frame["type"].as_str().unwrap_or_default();
        let _ = write!(vendor, "event: {name}\ndata: {frame}\n\n");
    }
    (anthropic_messages::WIRE.walk)(vendor.as_bytes())
}
