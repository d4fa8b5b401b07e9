//! The table of losses in `docs/translation.md`, made from what the writers say of the own cases.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write as _;

use callweave::protocol::{Protocol, TABLE};
use callweave::request::RequestOptions;

use super::{document, own};

const HEAD: &str = "# What translating a request loses

Requests are read into one neutral request and written in any protocol (`Protocol::read_request`,
`Protocol::write_request`). In its own protocol a request comes back as it was. In another, what that protocol cannot say
is a loss, and `Written::losses` names it with its place. Nothing is ever fetched: an image that is somewhere else and
must be inlined is a loss.

The tables are made by `BLESS=1 cargo test -p callweave --all-features --test requests` from the cases in
`crates/callweave/tests/data/request`: one for each protocol that is read, with a column for each that is written. `lost`
means that the case was written without it. Members that only one protocol knows stand at the end.
";

#[test]
fn the_table_of_losses_is_current() {
    let targets: Vec<&Protocol> = TABLE.iter().copied().filter(|protocol| protocol.has_requests()).collect();
    let mut lost: BTreeMap<&str, BTreeMap<String, BTreeSet<&str>>> = BTreeMap::new();
    for sample in own() {
        let request = sample.protocol.read_request(sample.body).expect("a request");
        for target in targets.iter().filter(|target| **target != sample.protocol) {
            let written = target.write_request(&request, &RequestOptions::default()).expect("a body");
            for loss in written.losses {
                lost.entry(sample.protocol.name)
                    .or_default()
                    .entry(loss.what)
                    .or_default()
                    .insert(target.name);
            }
        }
    }
    let mut text = HEAD.to_owned();
    for source in &targets {
        let others: Vec<&&Protocol> = targets.iter().filter(|target| *target != source).collect();
        let _ = writeln!(text, "\n## From {}\n", source.title);
        let names: Vec<&str> = others.iter().map(|other| other.name).collect();
        let _ = writeln!(text, "| | {} |", names.join(" | "));
        let _ = writeln!(text, "|---|{}", "---|".repeat(names.len()));
        let own = format!(" of {}", source.name);
        let rows = lost.get(source.name).into_iter().flatten();
        let (neutral, foreign): (Vec<_>, Vec<_>) = rows.partition(|(what, _)| !what.ends_with(&own));
        for (what, where_lost) in neutral.into_iter().chain(foreign) {
            let what = what.strip_suffix(&own).map_or_else(|| what.clone(), |member| format!("`{member}`"));
            let cells: Vec<&str> =
                names.iter().map(|name| if where_lost.contains(name) { "lost" } else { "" }).collect();
            let _ = writeln!(text, "| {what} | {} |", cells.join(" | "));
        }
    }
    document::expect_part("", &text);
}
