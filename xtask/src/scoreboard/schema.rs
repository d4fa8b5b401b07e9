//! The rows of `vectors/json_repair.jsonl` that come with a schema, per kind and per source.

use std::collections::BTreeMap;

#[path = "../../../crates/callweave/tests/support/schema_vectors.rs"]
mod schema_vectors;

/// Prints the scoreboard; with `--differences`, each row that came out otherwise.
pub(crate) fn run(arguments: &[&str]) -> Result<(), String> {
    let rows = schema_vectors::rows().ok_or("there is no vectors/json_repair.jsonl beside the workspace")?;
    let mut counts: BTreeMap<String, (usize, usize)> = BTreeMap::new();
    for row in &rows {
        let is_passed = row.is_passed();
        let project = row.source.split_once(' ').map_or(row.source.as_str(), |(project, _)| project);
        for group in [row.kind.as_str(), project, "all"] {
            let count = counts.entry(group.to_owned()).or_default();
            *count = (count.0 + usize::from(is_passed), count.1 + 1);
        }
        if !is_passed && arguments.contains(&"--differences") {
            println!("{} {} ({})", row.name, row.kind, row.source);
            println!("  input    {:?}\n  expected {}\n  got      {}", row.input, row.expected, row.answer());
        }
    }
    for (name, (passed, all)) in counts {
        println!("{name:40} {passed:4} of {all:4}  {:5.1} %", 100.0 * passed as f64 / all as f64);
    }
    Ok(())
}
