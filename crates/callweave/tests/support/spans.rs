//! Spans as a real OpenTelemetry SDK exports them.

use std::sync::{Mutex, MutexGuard, PoisonError};

use opentelemetry::trace::TracerProvider;
use opentelemetry_sdk::trace::{InMemorySpanExporter, SdkTracerProvider, SpanData};
use serde_json::Value;
use tracing_subscriber::layer::SubscriberExt;
use tracing_subscriber::util::SubscriberInitExt;

/// Keeps other tests waiting. A span's place in the code is registered once for all threads; one that is
/// met without a subscriber while another thread installs its own may be left out there.
pub(crate) fn alone() -> MutexGuard<'static, ()> {
    static ALONE: Mutex<()> = Mutex::new(());
    ALONE.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Returns the result of `run`, and the spans that were exported meanwhile.
pub(crate) fn recorded<T>(run: impl FnOnce() -> T) -> (T, Vec<SpanData>) {
    let _alone = alone();
    let exporter = InMemorySpanExporter::default();
    let provider = SdkTracerProvider::builder().with_simple_exporter(exporter.clone()).build();
    let layer = tracing_opentelemetry::layer().with_tracer(provider.tracer("test"));
    let guard = tracing_subscriber::registry().with(layer).set_default();
    let result = run();
    drop(guard);
    provider.force_flush().expect("it only exports to memory");
    (result, exporter.get_finished_spans().expect("the exporter lives"))
}

/// The attribute of a span, as JSON.
pub(crate) fn attribute(span: &SpanData, key: &str) -> Option<Value> {
    let found = span.attributes.iter().find(|attribute| attribute.key.as_str() == key)?;
    Some(match &found.value {
        opentelemetry::Value::Bool(value) => (*value).into(),
        opentelemetry::Value::I64(value) => (*value).into(),
        opentelemetry::Value::F64(value) => (*value).into(),
        opentelemetry::Value::String(value) => value.as_str().into(),
        other => panic!("{key} is {other:?}"),
    })
}
