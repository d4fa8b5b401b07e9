//! The tables of losses in `docs/translation.md`, made from what the writers say of the own cases.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write as _;

use callweave::protocol::{Protocol, TABLE};
use callweave::request::RequestOptions;

use super::survival::{Fate, fates};
use super::{Sample, document, own, recorded, written};

const HEAD: &str = "# What translating a request carries, changes and loses

Requests are read into one neutral request and written in any protocol (`Protocol::read_request`,
`Protocol::write_request`). In its own protocol a request comes back as it was. In another, what that protocol cannot say
is a loss, and `WrittenRequest::losses` names it with its place. Nothing is ever fetched: an image that is somewhere else and
must be inlined is a loss. A limit that the provider requires and the request lacks (`max_tokens` for Anthropic) is filled in
and is no loss. Of very many losses 256 are named one by one, and the last entry tells how many more there are.

A result whose call is not in the request gets a call, a conversation that nobody or the model begins gets a first word of
the user's, and a message of which nothing is left gets `(left out)`: providers refuse each of them. All of that is told as
a loss; a request that says nothing at all is also told to be malformed, so that whoever serves may refuse it.

For each protocol a first table tells what becomes of each thing that its requests say: carried as it was, changed (told in
another place, or capped), or lost. Where it depends on the model or on what else is said, more than one holds. Names of
tools that are changed on the way count as carried: they are mapped back in the answer.

The tables are made by `BLESS=1 cargo test -p callweave --all-features --test requests` from the cases in
`crates/callweave/tests/data/request`, one for each pair, with a case that shows each loss. The same test holds that
recorded requests lose nothing else. Members that only one protocol knows are lost in every other; those that the cases
have stand in the last row.
";

/// Writes the fates of a protocol's cases in each other protocol.
fn write_fates(text: &mut String, source: &Protocol, targets: &[&Protocol], samples: &[Sample]) {
    let mut all: BTreeMap<&str, Vec<BTreeSet<Fate>>> = BTreeMap::new();
    for sample in samples.iter().filter(|sample| sample.protocol == source) {
        let request = sample.protocol.read_request(sample.body.clone()).expect("a request");
        for (at, target) in targets.iter().enumerate() {
            for (what, fate) in fates(&request, target) {
                all.entry(what).or_insert_with(|| vec![BTreeSet::new(); targets.len()])[at].insert(fate);
            }
        }
    }
    let names: Vec<&str> = targets.iter().map(|target| target.name).collect();
    let _ = writeln!(text, "\n| | {} |\n|---{}|", names.join(" | "), "|---".repeat(names.len()));
    for (what, cells) in all {
        let cells = cells.iter().map(|fates| {
            let words = fates.iter().map(|fate| format!("{fate:?}").to_lowercase());
            words.collect::<Vec<_>>().join(" or ")
        });
        let _ = writeln!(text, "| {what} | {} |", cells.collect::<Vec<_>>().join(" | "));
    }
}

/// A pair of protocols, what is lost between them, and the first case that shows it.
type Lost<'s> = BTreeMap<(&'static str, &'static str), BTreeMap<String, &'s str>>;

fn lost(samples: &[Sample]) -> Lost<'_> {
    let mut lost = Lost::new();
    for sample in samples {
        let request = sample.protocol.read_request(sample.body.clone()).expect("a request");
        for target in TABLE.iter().filter(|target| target.has_requests() && **target != sample.protocol) {
            let written = written(target, &request, &RequestOptions::default());
            let pair = lost.entry((sample.protocol.name, target.name)).or_default();
            for loss in written.losses {
                let is_keyword = loss.what.ends_with(" of a schema") && !loss.what.starts_with("recursive");
                let what = if is_keyword { "keywords of a schema".to_owned() } else { loss.what };
                pair.entry(what).or_insert(&sample.title);
            }
        }
    }
    lost
}

/// Whether it is a member that only `source` knows, or something that is not even right there.
fn is_extra(what: &str, source: &str) -> bool {
    what.ends_with(&format!(" of {source}")) || what.starts_with("malformed ")
}

#[test]
fn the_tables_of_losses_are_current() {
    let samples = own();
    let lost = lost(&samples);
    let with_requests: Vec<&Protocol> =
        TABLE.iter().copied().filter(|protocol| protocol.has_requests()).collect();
    let mut text = HEAD.to_owned();
    for source in &with_requests {
        let _ = writeln!(text, "\n## From {}", source.title);
        let targets: Vec<&Protocol> =
            with_requests.iter().copied().filter(|target| target != source).collect();
        write_fates(&mut text, source, &targets, &samples);
        for target in targets {
            let _ =
                writeln!(text, "\n### {} → {}\n\n| lost | such as |\n|---|---|", source.name, target.name);
            let pair = &lost[&(source.name, target.name)];
            for (what, title) in pair.iter().filter(|(what, _)| !is_extra(what, source.name)) {
                let case = title.rsplit('/').next().unwrap_or(title);
                let _ = writeln!(text, "| {what} | {case} |");
            }
            let own = format!(" of {}", source.name);
            let members: BTreeSet<String> =
                pair.keys().filter_map(|what| Some(format!("`{}`", what.strip_suffix(&own)?))).collect();
            let members: Vec<String> = members.into_iter().collect();
            let _ = writeln!(text, "| members of its own | {} |", members.join(", "));
        }
    }
    document::expect_part("", &text);
}

/// The losses of real requests are named in the tables.
#[test]
fn the_tables_of_losses_are_complete() {
    let (own, recorded) = (own(), recorded());
    let named = lost(&own);
    let mut missing = Vec::new();
    for ((source, target), pair) in lost(&recorded) {
        for (what, title) in pair {
            if !is_extra(&what, source) && !named[&(source, target)].contains_key(&what) {
                missing.push(format!("{source} → {target}: {what}, in {title}"));
            }
        }
    }
    assert!(missing.is_empty(), "{} losses are shown by no case:\n{}", missing.len(), missing.join("\n"));
}
