//! The rows of `vectors/json_repair.jsonl` that need no schema, per kind and per source.

use std::collections::BTreeMap;
use std::path::PathBuf;

#[path = "../../../crates/callweave/tests/json_repair/rows.rs"]
mod rows;

use rows::Outcome;

/// Passed and all rows of one kind or source.
type Counts = BTreeMap<String, (usize, usize)>;

/// Prints the scoreboard; with `--differences`, each row that came out otherwise.
pub(crate) fn run(arguments: &[&str]) -> Result<(), String> {
    let shows_differences = arguments.contains(&"--differences");
    let file = arguments.iter().find(|word| !word.starts_with("--")).map(PathBuf::from).or_else(rows::path);
    let file = file.ok_or("there is no vectors/json_repair.jsonl beside the workspace")?;
    let rows = rows::read(&file).map_err(|error| format!("{}: {error}", file.display()))?;
    let (mut kinds, mut sources, mut aside) = (Counts::new(), Counts::new(), BTreeMap::new());
    let mut total = (0, 0);
    for (number, row) in rows.iter().enumerate() {
        let outcome = row.judge();
        if let Outcome::SetAside(why) = outcome {
            *aside.entry(why).or_insert(0) += 1;
            continue;
        }
        let passed = usize::from(matches!(outcome, Outcome::Pass));
        let source = row.source.split_once(' ').map_or(row.source.as_str(), |(project, _)| project);
        let counted = [
            kinds.entry(row.kind.clone()).or_default(),
            sources.entry(source.to_owned()).or_default(),
            &mut total,
        ];
        for count in counted {
            *count = (count.0 + passed, count.1 + 1);
        }
        if let (Outcome::Differs(got), true) = (outcome, shows_differences) {
            println!("{number} {} {} {} ({})", row.id(), row.kind, row.source, row.notes);
            println!("  input    {:?}\n  expected {}\n  got      {got}", row.input, row.expected);
        }
    }
    let all = Counts::from([("all".to_owned(), total)]);
    for counts in [kinds, sources, all] {
        for (name, (passed, all)) in counts {
            println!("{name:40} {passed:4} of {all:4}  {:5.1} %", 100.0 * passed as f64 / all as f64);
        }
        println!();
    }
    for (why, count) in aside {
        println!("set aside: {count:4}  {why}");
    }
    Ok(())
}
