//! The scores of the dialects on recorded rows of other parsers' tests, format by format.

#[path = "../../../crates/callweave/tests/support/record.rs"]
mod record;
#[path = "../../../crates/callweave/tests/dialects/rows.rs"]
mod rows;

/// Prints a line for each format, and with `--differences` every row that differs and was not set aside.
pub(crate) fn run(arguments: &[&str]) -> Result<(), String> {
    for set in ["dialects", "reasoning"] {
        let file = format!("{set}.jsonl");
        let rows = rows::load(&file).ok_or_else(|| format!("{file} is not there"))?;
        let record = record::Record::open(set);
        let mut board = rows::Board::default();
        for row in rows.iter().filter(|row| row.counts()) {
            board.add(row, row.difference(&row.extract()), record.reason(&row.number.to_string()));
        }
        board.hide_rows(!arguments.contains(&"--differences"));
        println!("{file}\n{board}\n");
    }
    Ok(())
}
