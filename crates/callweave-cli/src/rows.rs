//! Any command over JSON lines: one request per line in, one result per line out, in order.
//!
//! A bad line gives a row `{"error": …, "line": …}` and the run goes on; the run as a whole then fails at
//! its end. Blank lines are skipped. Results are written out before the next read may block, so that a
//! program can ask and wait for the answer.

use std::io::{self, BufRead, BufReader, BufWriter, Read, Write};
use std::path::Path;

use anyhow::{Context, Result, anyhow, bail};
use serde::Serialize;
use serde::de::{DeserializeOwned, IgnoredAny};
use serde_json::value::RawValue;

use crate::input::{CHUNK, Input};

/// The longest line that is read.
const MAX_LINE: u64 = 1 << 30;

/// Why a row failed, and what could be recovered nevertheless.
pub(crate) struct Failure {
    error: anyhow::Error,
    message: Option<Box<RawValue>>,
}

impl Failure {
    /// A failure that left something worth keeping.
    pub(crate) fn with(error: anyhow::Error, recovered: &impl Serialize) -> Self {
        Self { error, message: serde_json::value::to_raw_value(recovered).ok() }
    }
}

impl From<anyhow::Error> for Failure {
    fn from(error: anyhow::Error) -> Self {
        Self { error, message: None }
    }
}

#[derive(Serialize)]
struct FailureRow {
    error: String,
    line: u64,
    #[serde(skip_serializing_if = "Option::is_none")]
    message: Option<Box<RawValue>>,
}

/// One request of a file.
pub(crate) trait Request: DeserializeOwned {
    /// What a row looks like, for those that wrote something else.
    const SHAPE: &'static str;
}

/// Answers every request of the file.
pub(crate) fn run<Q: Request, A: Serialize>(
    path: &Path,
    answer: impl FnMut(Q) -> Result<A, Failure>,
) -> Result<()> {
    let input = BufReader::with_capacity(CHUNK, Input::open(path)?);
    let output = BufWriter::with_capacity(CHUNK, io::stdout().lock());
    run_over(input, output, answer)
}

fn run_over<Q: Request, A: Serialize>(
    mut input: BufReader<impl Read>,
    mut output: impl Write,
    mut answer: impl FnMut(Q) -> Result<A, Failure>,
) -> Result<()> {
    let (mut number, mut rows, mut failed) = (0_u64, 0_u64, 0_u64);
    let mut line = Vec::new();
    while read_line(&mut input, &mut line).context("cannot read the input")? {
        number += 1;
        if line.trim_ascii().is_empty() {
            continue;
        }
        rows += 1;
        let answered = parse(&line).map_err(Failure::from).and_then(&mut answer);
        match answered {
            Ok(row) => serde_json::to_writer(&mut output, &row).map_err(io::Error::from)?,
            Err(Failure { error, message }) => {
                failed += 1;
                let row = FailureRow { error: format!("{error:#}"), line: number, message };
                serde_json::to_writer(&mut output, &row).map_err(io::Error::from)?;
            }
        }
        output.write_all(b"\n")?;
        if !input.buffer().contains(&b'\n') {
            output.flush()?;
        }
    }
    output.flush()?;
    match failed {
        0 => Ok(()),
        _ => bail!("{failed} of {rows} rows failed; their result is a row with the member \"error\""),
    }
}

/// Reads the next line; false at the end. A line that is too long is skipped, and `line` is a stump
/// that is longer than allowed.
fn read_line(input: &mut impl BufRead, line: &mut Vec<u8>) -> io::Result<bool> {
    line.clear();
    let read = input.by_ref().take(MAX_LINE + 1).read_until(b'\n', line)?;
    if read as u64 > MAX_LINE && !line.ends_with(b"\n") {
        input.skip_until(b'\n')?;
    }
    Ok(read > 0)
}

fn parse<Q: Request>(line: &[u8]) -> Result<Q> {
    if line.len() as u64 > MAX_LINE {
        bail!("the line is longer than {} MiB", MAX_LINE >> 20);
    }
    let refuse = |error: serde_json::Error| match error.classify() {
        serde_json::error::Category::Data => anyhow!("bad request: {error}"),
        _ => anyhow!("the line is not JSON: {error}"),
    };
    // A list would be taken for the members in the order in which they happen to be declared.
    if !line.trim_ascii_start().starts_with(b"{") {
        serde_json::from_slice::<IgnoredAny>(line).map_err(refuse)?;
        bail!("bad request: a row is {}", Q::SHAPE);
    }
    serde_json::from_slice(line).map_err(refuse)
}

#[cfg(test)]
mod tests {
    use serde::Deserialize;
    use serde_json::Value;

    use super::*;

    #[derive(Deserialize)]
    struct Row {
        number: i64,
    }

    impl Request for Row {
        const SHAPE: &'static str = "an object with \"number\"";
    }

    /// Numbers are written out as requests; the rest stays as it is.
    fn requests(input: &str) -> String {
        let request = |line: &str| match line.trim_end().parse::<i64>() {
            Ok(number) => line.replace(&number.to_string(), &format!("{{\"number\":{number}}}")),
            Err(_) => line.to_owned(),
        };
        input.split_inclusive('\n').map(request).collect()
    }

    fn lines(input: &str) -> (String, Result<()>) {
        let mut output = Vec::new();
        let answer = |Row { number }: Row| match number {
            0 => Err(anyhow!("zero").into()),
            1 => Err(Failure::with(anyhow!("one"), &"left")),
            _ => Ok(number * 2),
        };
        let done = run_over(BufReader::with_capacity(4, requests(input).as_bytes()), &mut output, answer);
        (String::from_utf8(output).expect("JSON is UTF-8"), done)
    }

    #[test]
    fn every_request_gets_one_row_in_order() {
        let (output, done) = lines("2\n\n3\r\n4");
        assert_eq!(output, "4\n6\n8\n");
        done.expect("no row failed");
    }

    #[test]
    fn a_bad_line_does_not_stop_the_run() {
        let (output, done) = lines("2\n2x\n\n\"x\"\n0\n1\n[7]\n3\n");
        let rows: Vec<Value> =
            output.lines().map(|line| serde_json::from_str(line).expect("a row is JSON")).collect();
        assert_eq!(rows.len(), 7);
        let errors: Vec<_> = rows.iter().map(|row| (row["line"].as_u64(), row["error"].as_str())).collect();
        assert_eq!((&rows[0], &rows[6]), (&4.into(), &6.into()));
        assert!(errors[1].1.expect("an error").starts_with("the line is not JSON"));
        assert_eq!(errors[2].1, Some("bad request: a row is an object with \"number\""));
        assert_eq!(errors[5], (Some(7), errors[2].1));
        assert_eq!(errors[3], (Some(5), Some("zero")));
        assert_eq!(errors[4], (Some(6), Some("one")));
        assert_eq!(rows[4]["message"], "left");
        assert!(done.expect_err("rows failed").to_string().starts_with("5 of 7 rows failed"));
    }
}
