//! Writes the spans of processing through an OpenTelemetry SDK. Here they go to memory and are printed; with
//! an OTLP exporter in its place they go to a collector.
//!
//! `cargo run -p callweave --example trace_process`

use std::error::Error;

use callweave::compat::prompty::{PromptAgent, process};
use opentelemetry::trace::TracerProvider;
use opentelemetry_sdk::trace::{InMemorySpanExporter, SdkTracerProvider};
use serde_json::json;
use tracing_subscriber::layer::SubscriberExt;
use tracing_subscriber::util::SubscriberInitExt;

fn main() -> Result<(), Box<dyn Error>> {
    let exporter = InMemorySpanExporter::default();
    let provider = SdkTracerProvider::builder().with_simple_exporter(exporter.clone()).build();
    let layer = tracing_opentelemetry::layer().with_tracer(provider.tracer("example"));
    tracing_subscriber::registry().with(layer).init();

    let response = json!({"id": "chatcmpl-1", "model": "gpt-5-2026",
        "choices": [{"finish_reason": "stop", "message": {"content": "Hello"}}],
        "usage": {"prompt_tokens": 9, "completion_tokens": 1}});
    // Without `capturing_content` the span tells everything but what was said.
    let agent = PromptAgent::new("openai").named("greeter").model("gpt-5").capturing_content();
    process(&agent, &response)?;

    for span in exporter.get_finished_spans()? {
        println!("{}", span.name);
        for attribute in span.attributes {
            println!("  {} = {}", attribute.key, attribute.value);
        }
    }
    Ok(())
}
