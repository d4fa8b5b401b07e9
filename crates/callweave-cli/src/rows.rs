//! Any command over many inputs: JSON lines of requests, or several files.
//!
//! With `--jsonl` there is one request per line in and one result per line out, in order. A row that failed has the
//! member `error`, and `message` if something could be recovered; a row that was read and is not to be relied on has
//! the member `problem`. The run goes on, and fails at its end. Blank lines are skipped. Results are written out as
//! soon as all before them are, so that a program can ask and wait for the response. Rows are worked on by several
//! threads, see [`batches`](crate::batches).

use std::fmt::Write as _;
use std::io::{self, BufRead, Write};
use std::path::{Path, PathBuf};

use anyhow::{Result, anyhow, bail};
use serde::de::{DeserializeOwned, IgnoredAny};
use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;

use crate::batches::{JobCount, LineBatch, each_batch};
use crate::input::InputFile;
use crate::render::{print_complete, show};
use crate::report::{print, print_error};
use crate::wrapping::ExpectedWrapping;

/// The longest line that is read.
const MAX_LINE: usize = 1 << 30;

/// The outcome of an input: a JSON object, and the reason why it cannot be relied on.
pub(crate) struct RowOutcome {
    pub(crate) json: String,
    pub(crate) problem: Option<String>,
}

/// The reason why an input failed, and the recovered part, as JSON.
pub(crate) struct RowFailure {
    pub(crate) error: anyhow::Error,
    pub(crate) recovered: Option<String>,
}

impl From<anyhow::Error> for RowFailure {
    fn from(error: anyhow::Error) -> Self {
        Self { error, recovered: None }
    }
}

/// The label that tells a result apart from others.
#[derive(Default)]
struct ResultLabel<'l> {
    file: Option<&'l str>,
    line: Option<u64>,
    /// The caller's id of the row.
    id: Option<Box<RawValue>>,
}

impl ResultLabel<'_> {
    /// The result as one line of JSON. Where the caller gave an `id`, that of the response is its `message_id`.
    fn row(&self, result: &Result<RowOutcome, RowFailure>) -> String {
        let mut row = ObjectMembers(String::from("{"));
        if let Some(id) = &self.id {
            row.put("id", id);
        }
        if let Some(file) = self.file {
            row.put("file", &file);
        }
        match result {
            Ok(RowOutcome { json, problem }) => {
                let (own, rest) = split_id(json);
                match own {
                    Some(own) if self.id.is_some() => {
                        row.put("message_id", &own);
                        row.extend(rest);
                    }
                    _ => row.extend(json.strip_prefix('{').unwrap_or_default()),
                }
                if let Some(problem) = problem {
                    row.put("problem", problem);
                }
            }
            Err(RowFailure { error, recovered }) => {
                row.put("error", &format!("{error:#}"));
                if let Some(line) = self.line {
                    row.put("line", &line);
                }
                if let Some(Ok(recovered)) = recovered.clone().map(RawValue::from_string) {
                    row.put("message", &recovered);
                }
            }
        }
        row.0 + "}"
    }
}

/// The inside of a JSON object that grows.
struct ObjectMembers(String);

impl ObjectMembers {
    fn put(&mut self, key: &str, value: &impl Serialize) {
        let value = serde_json::to_string(value).expect("our labels have text keys, and memory takes all");
        self.extend(&format!("\"{key}\":{value}}}"));
    }

    /// Adds the members of an object, given without its opening brace.
    fn extend(&mut self, members: &str) {
        let members = members.strip_suffix('}').unwrap_or(members);
        if self.0.len() > 1 && !members.is_empty() {
            self.0.push(',');
        }
        self.0.push_str(members);
    }
}

/// An object without its first member, if that is an `id`.
fn split_id(json: &str) -> (Option<&RawValue>, &str) {
    let after = json.strip_prefix("{\"id\":").unwrap_or_default();
    let mut values = serde_json::Deserializer::from_str(after).into_iter::<&RawValue>();
    let own = values.next().and_then(Result::ok);
    let rest = &after[values.byte_offset()..];
    (own, rest.strip_prefix(',').unwrap_or(rest))
}

/// Whether all is well.
pub(crate) fn conclude(result: Result<RowOutcome, RowFailure>) -> Result<()> {
    match result {
        Ok(RowOutcome { problem: None, .. }) => Ok(()),
        Ok(RowOutcome { problem: Some(problem), .. }) => Err(anyhow!(problem)),
        Err(RowFailure { error, .. }) => Err(error),
    }
}

/// One request of a file.
pub(crate) trait RowRequest: DeserializeOwned {
    /// The shape of a row, for the error about a line of another shape.
    const SHAPE: &'static str;

    /// Takes the caller's id of the row.
    fn take_id(&mut self) -> Option<Box<RawValue>>;
}

/// Answers every request of the files.
pub(crate) fn run<Q: RowRequest>(
    files: &[PathBuf],
    jobs: JobCount,
    response: impl Fn(Q) -> Result<RowOutcome, RowFailure> + Sync,
) -> Result<()> {
    each_file(files, |turn| {
        let input = InputFile::open(turn.path, ExpectedWrapping::Text)?;
        run_over(input, io::stdout(), turn.name, jobs, &response)
    })
}

/// A file whose turn it is.
#[derive(Clone, Copy)]
pub(crate) struct FileTurn<'f> {
    pub(crate) path: &'f Path,
    /// Its name, where there are several.
    pub(crate) name: Option<&'f str>,
    pub(crate) is_first: bool,
}

impl FileTurn<'_> {
    /// Prints what became of the file.
    pub(crate) fn print(&self, result: &Result<RowOutcome, RowFailure>) -> Result<()> {
        let mut printed = String::new();
        self.write(result, &mut printed);
        print_complete(&printed)
    }

    /// Appends what became of the file, as it is printed: a row if it has a name here, else the result alone.
    pub(crate) fn write(&self, result: &Result<RowOutcome, RowFailure>, out: &mut String) {
        match result {
            _ if self.name.is_some() => {
                show(&ResultLabel { file: self.name, ..ResultLabel::default() }.row(result), out);
            }
            Ok(RowOutcome { json, .. }) | Err(RowFailure { recovered: Some(json), .. }) => show(json, out),
            Err(RowFailure { recovered: None, .. }) => {}
        }
    }

    /// Says something about the file.
    pub(crate) fn remark(&self, text: &str) {
        match self.name {
            Some(name) => print(&format!("{name}: {text}")),
            None => print(text),
        }
    }
}

/// Does the same with every file. A file that fails does not keep the next from its turn.
pub(crate) fn each_file(files: &[PathBuf], mut work: impl FnMut(FileTurn<'_>) -> Result<()>) -> Result<()> {
    if let [path] = files {
        return work(FileTurn { path, name: None, is_first: true });
    }
    let mut failed = 0;
    for (at, path) in files.iter().enumerate() {
        let name = path.display().to_string();
        match work(FileTurn { path, name: Some(&name), is_first: at == 0 }) {
            Ok(()) => {}
            Err(error) if crate::is_broken_pipe(&error) => return Err(error),
            Err(error) => {
                failed += 1;
                let error = format!("{error:#}");
                let known = if error.contains(&name) { String::new() } else { name + ": " };
                print_error(&format!("{known}{error}"));
            }
        }
    }
    match failed {
        0 => Ok(()),
        _ => bail!("{failed} of {} files failed", files.len()),
    }
}

fn run_over<Q: RowRequest>(
    input: impl BufRead,
    mut output: impl Write + Send,
    file: Option<&str>,
    jobs: JobCount,
    response: impl Fn(Q) -> Result<RowOutcome, RowFailure> + Sync,
) -> Result<()> {
    let (mut rows, mut failed) = (0, 0);
    let work = |batch: &LineBatch| {
        let mut answered = AnsweredRows::default();
        for (number, line) in batch.lines().filter(|(_, line)| !line.trim_ascii().is_empty()) {
            answered.take(line, ResultLabel { file, line: Some(number), id: None }, &response);
        }
        answered
    };
    let take = |answered: AnsweredRows| {
        rows += answered.rows;
        failed += answered.failed;
        output.write_all(answered.text.as_bytes())?;
        Ok(output.flush()?)
    };
    each_batch(input, MAX_LINE, jobs, work, take)?;
    match failed {
        0 => Ok(()),
        _ => bail!("{failed} of {rows} rows failed; each says why in its member \"error\" or \"problem\""),
    }
}

/// Answers to some rows.
#[derive(Default)]
struct AnsweredRows {
    text: String,
    rows: u64,
    failed: u64,
}

impl AnsweredRows {
    fn take<Q: RowRequest>(
        &mut self,
        line: &[u8],
        mut label: ResultLabel<'_>,
        response: impl Fn(Q) -> Result<RowOutcome, RowFailure>,
    ) {
        let result = match parse::<Q>(line) {
            Ok(mut request) => {
                label.id = request.take_id();
                response(request)
            }
            Err(error) => {
                label.id = id_of(line);
                Err(error.into())
            }
        };
        self.rows += 1;
        self.failed += u64::from(!matches!(result, Ok(RowOutcome { problem: None, .. })));
        writeln!(self.text, "{}", label.row(&result)).expect("memory takes all");
    }
}

/// Returns the caller's id of a row, even if the rest of it is no request.
fn id_of(line: &[u8]) -> Option<Box<RawValue>> {
    #[derive(Deserialize)]
    struct NamedFile {
        id: Option<Box<RawValue>>,
    }
    let is_object = line.trim_ascii_start().starts_with(b"{");
    is_object.then(|| serde_json::from_slice::<NamedFile>(line).ok()?.id)?
}

fn parse<Q: RowRequest>(line: &[u8]) -> Result<Q> {
    if line.len() > MAX_LINE {
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
    match std::str::from_utf8(line) {
        Ok(line) => serde_json::from_str(line).map_err(refuse),
        Err(_) => serde_json::from_slice(line).map_err(refuse),
    }
}

#[cfg(test)]
mod tests {
    use std::io::BufReader;

    use serde::Deserialize;
    use serde_json::Value;

    use super::*;

    #[derive(Deserialize)]
    struct InputRow {
        id: Option<Box<RawValue>>,
        number: i64,
    }

    impl RowRequest for InputRow {
        const SHAPE: &'static str = "an object with \"number\"";

        fn take_id(&mut self) -> Option<Box<RawValue>> {
            self.id.take()
        }
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
        let response = |InputRow { number, .. }: InputRow| match number {
            0 => Err(anyhow!("zero").into()),
            1 => Err(RowFailure { error: anyhow!("one"), recovered: Some("{\"left\":1}".to_owned()) }),
            _ => {
                let problem = (number == 9).then(|| "nine".to_owned());
                Ok(RowOutcome { json: format!("{{\"double\":{}}}", number * 2), problem })
            }
        };
        let input = requests(input);
        let input = BufReader::with_capacity(4, input.as_bytes());
        let done = run_over(input, &mut output, None, JobCount::of(2), response);
        (String::from_utf8(output).expect("JSON is UTF-8"), done)
    }

    #[test]
    fn every_request_gets_one_row_in_order() {
        let (output, done) = lines("2\n\n3\r\n4");
        assert_eq!(output, "{\"double\":4}\n{\"double\":6}\n{\"double\":8}\n");
        done.expect("no row failed");
    }

    #[test]
    fn a_bad_line_does_not_stop_the_run() {
        let (output, done) = lines("2\n2x\n\n\"x\"\n0\n1\n[7]\n3\n");
        let rows: Vec<Value> =
            output.lines().map(|line| serde_json::from_str(line).expect("a row is JSON")).collect();
        assert_eq!(rows.len(), 7);
        let errors: Vec<_> = rows.iter().map(|row| (row["line"].as_u64(), row["error"].as_str())).collect();
        assert_eq!((&rows[0]["double"], &rows[6]["double"]), (&4.into(), &6.into()));
        assert!(errors[1].1.expect("an error").starts_with("the line is not JSON"));
        assert_eq!(errors[2].1, Some("bad request: a row is an object with \"number\""));
        assert_eq!(errors[5], (Some(7), errors[2].1));
        assert_eq!(errors[3], (Some(5), Some("zero")));
        assert_eq!(errors[4], (Some(6), Some("one")));
        assert_eq!(rows[4]["message"]["left"], 1);
        assert!(done.expect_err("rows failed").to_string().starts_with("5 of 7 rows failed"));
    }

    #[test]
    fn a_problem_is_told_in_its_row_and_fails_the_run() {
        let (output, done) = lines("9\n");
        assert_eq!(output, "{\"double\":18,\"problem\":\"nine\"}\n");
        assert!(done.expect_err("a row failed").to_string().starts_with("1 of 1 rows failed"));
    }

    #[test]
    fn labels_stand_first_and_the_id_of_the_caller_is_the_id() {
        let label = |id: &str| ResultLabel {
            id: RawValue::from_string(id.to_owned()).ok(),
            ..ResultLabel::default()
        };
        let outcome = |json: &str| Ok(RowOutcome { json: json.to_owned(), problem: None });
        let row = label("[7]").row(&outcome(r#"{"id":"a\"b","x":1}"#));
        assert_eq!(row, r#"{"id":[7],"message_id":"a\"b","x":1}"#);
        assert_eq!(label("7").row(&outcome(r#"{"id":null}"#)), r#"{"id":7,"message_id":null}"#);
        assert_eq!(label("7").row(&outcome("{}")), r#"{"id":7}"#);
        assert_eq!(ResultLabel::default().row(&outcome(r#"{"id":1,"x":1}"#)), r#"{"id":1,"x":1}"#);
        let file = ResultLabel { file: Some("f"), ..ResultLabel::default() };
        assert_eq!(file.row(&outcome(r#"{"id":1,"x":1}"#)), r#"{"file":"f","id":1,"x":1}"#);
        assert_eq!(file.row(&Err(anyhow!("no").into())), r#"{"file":"f","error":"no"}"#);
    }
}
