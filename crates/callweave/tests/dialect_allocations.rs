//! Reading a long argument in small deltas allocates nothing, in any dialect.

use allocation_counter::measure;
use callweave::dialect::{DialectRegistry, ExtractOptions, Extractor, Tools};
use callweave::event::{Event, EventKind};
use serde_json::json;

#[test]
fn a_long_argument_allocates_nothing() {
    let tools = json!([{"name": "get_weather", "parameters": {"properties": {"city": {"type": "string"}}}}]);
    for dialect in DialectRegistry::builtin().dialects() {
        let options = ExtractOptions::with_dialects(vec![dialect.clone()]).tools(Tools::from_json(&tools));
        let (before, _) = dialect.example.split_once("Oslo").expect("every example asks about Oslo");
        let mut extractor = Extractor::new(&options);
        let mut shown = 0;
        let mut sink = |event: Event<'_>| {
            if let EventKind::Delta { text, .. } = event.body {
                shown += text.len();
            }
        };
        extractor.push(before, &mut sink);
        for delta in ["line", " one", ", \\n", "two\n"].iter().cycle().take(100) {
            extractor.push(delta, &mut sink);
        }
        let counted = measure(|| {
            for delta in ["line", " one", ", an", "d <b"].iter().cycle().take(4000) {
                extractor.push(delta, &mut sink);
            }
        });
        assert!(shown > 12_000, "{}: only {shown} bytes of arguments came", dialect.name);
        assert_eq!(counted.count_total, 0, "{}", dialect.name);
    }
}
