//! How the dialects do on recorded rows of other parsers' tests, format by format.

#[path = "../../../crates/callweave/tests/dialects/aside.rs"]
mod aside;
#[path = "../../../crates/callweave/tests/dialects/rows.rs"]
mod rows;

/// Prints a line for each format, and with `--differences` every row that differs and was not set aside.
pub(crate) fn run(arguments: &[&str]) -> Result<(), String> {
    for file in ["dialects.jsonl", "reasoning.jsonl"] {
        let rows = rows::load(file).ok_or_else(|| format!("{file} is not there"))?;
        let mut board = rows::Board::default();
        for row in rows.iter().filter(|row| row.counts()) {
            board.add(row, row.difference(&row.extract()), aside::reason(row));
        }
        board.hide_rows(!arguments.contains(&"--differences"));
        println!("{file}\n{board}\n");
    }
    Ok(())
}
