//! Repair, against our own cases, laws, and the shared vectors.

mod cases;
mod differences;
mod laws;
mod linear;
mod rows;

use std::collections::BTreeMap;

use differences::DIFFERENCES;
use rows::Outcome;

#[test]
fn the_shared_vectors_come_out_as_decided() {
    let Some(path) = rows::path() else {
        println!("skipped: there are no shared vectors beside the workspace");
        return;
    };
    let rows = rows::read(&path).expect("the vectors can be read");
    let mut listed: BTreeMap<&str, &str> = BTreeMap::new();
    for (why, ids) in DIFFERENCES {
        for id in *ids {
            assert!(listed.insert(id, why).is_none(), "{id} is listed twice");
        }
    }
    let (mut passed, mut all, mut valid_failed) = (0, 0, 0);
    let mut aside: BTreeMap<&str, usize> = BTreeMap::new();
    for row in &rows {
        match row.judge() {
            Outcome::SetAside(why) => {
                *aside.entry(why).or_default() += 1;
                continue;
            }
            Outcome::Pass => {
                passed += 1;
                let why = listed.get(row.id().as_str());
                assert!(why.is_none(), "a listed difference is gone, take it off the list: {:?}", row.input);
            }
            Outcome::Differs(got) => {
                valid_failed += usize::from(row.kind == "valid");
                let why = listed.remove(row.id().as_str());
                assert!(
                    why.is_some(),
                    "{} of {}\n{:?}\nwants {}\ngot {got}",
                    row.id(),
                    row.source,
                    row.input,
                    row.expected
                );
            }
        }
        all += 1;
    }
    assert!(listed.is_empty(), "listed, but not among the rows: {listed:?}");
    assert_eq!(valid_failed, 0);
    assert!(passed * 100 >= all * 95, "{passed} of {all}");
    println!("{passed} of {all} rows; set aside: {aside:?}");
}
