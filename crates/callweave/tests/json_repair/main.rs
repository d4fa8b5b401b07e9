//! Repair, against our own cases, laws, and the shared vectors.

mod cases;
mod laws;
#[path = "../support/record.rs"]
mod record;
mod rows;
#[path = "../support/shared.rs"]
mod shared;

use record::Record;
use rows::Outcome;

#[test]
fn the_shared_vectors_come_out_as_decided() {
    let Some(path) = rows::path() else { return };
    let rows = rows::read(&path).expect("the vectors can be read");
    let mut record = Record::open("repair");
    for row in &rows {
        let got = match row.judge() {
            Outcome::Pass => continue,
            // Rows that need a schema are answered in `json_schema.rs`.
            Outcome::SetAside(_) if row.needs_schema() => continue,
            Outcome::SetAside(why) => why.to_owned(),
            Outcome::Differs(got) => got,
        };
        let story = || format!("{}: {:?}\n  want {}\n  got  {got}", row.source, row.input, row.expected);
        record.see(&row.id(), &row.answer(), story);
        assert_ne!(row.kind, "valid", "valid JSON is left alone: {:?}", row.input);
    }
    record.close();
}
