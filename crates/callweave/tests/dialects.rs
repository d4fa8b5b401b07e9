//! Dialects against recorded rows and against the laws.

#[path = "dialects/laws.rs"]
mod laws;
#[path = "dialects/rows.rs"]
mod rows;

use std::collections::BTreeMap;

#[test]
fn rows_of_other_parsers() {
    for file in ["dialects.jsonl", "reasoning.jsonl"] {
        let Some(rows) = rows::load(file) else {
            println!("skipped: no shared vectors");
            return;
        };
        let only = std::env::var("ONLY").ok();
        let mut board: BTreeMap<String, (usize, usize)> = BTreeMap::new();
        for row in rows.iter().filter(|row| only.as_ref().is_none_or(|only| only == row.format())) {
            if callweave::dialect::Options::new(row.format()).is_err() {
                board.entry("~missing".to_owned()).or_default().1 += 1;
                continue;
            }
            let options = row.options();
            let text = row.text("text").expect("text");
            if let Err(difference) = laws::check(text, &options) {
                panic!("row {} {}: {difference}\n{text:?}", row.number, row.format());
            }
            let found = row.extract();
            if !row.counts() {
                continue;
            }
            let score = board.entry(row.format().to_owned()).or_default();
            score.1 += 1;
            match row.difference(&found) {
                None => score.0 += 1,
                Some(difference) => {
                    if std::env::var("SHOW").is_ok() {
                        println!(
                            "#{} {} {}\n  text {:?}\n  want {} | c {} | r {}\n  got  {difference}",
                            row.number,
                            row.format(),
                            row.text("name").unwrap_or_default(),
                            text,
                            row.value["expected_calls"],
                            row.value["expected_content"],
                            row.value["expected_reasoning"]
                        );
                    }
                }
            }
        }
        let (good, all) = board.values().fold((0, 0), |sum, score| (sum.0 + score.0, sum.1 + score.1));
        for (format, (good, all)) in &board {
            println!("{format:20} {good:4} / {all:4}");
        }
        println!("{file}: {good} / {all}");
    }
}
