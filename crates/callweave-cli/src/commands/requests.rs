//! `callweave convert --request`: a client's request in any protocol → the same in another.

use std::io::{self, Read, Write};
use std::path::{Path, PathBuf};

use anyhow::{Context, Result, anyhow, bail};
use callweave::dialect::Dialect;
use callweave::json::Value;
use callweave::protocol::Protocol;
use callweave::request::{Loss, RequestMode, RequestOptions, WrittenRequest};
use callweave::teach::{PromptOptions, teach};
use serde::Deserialize;
use serde_json::value::RawValue;

use crate::batches::JobCount;
use crate::commands::convert::named;
use crate::commands::decode::ChosenProtocol;
use crate::declared::KnownDialects;
use crate::input::InputFile;
use crate::report::print;
use crate::rows::{self, RowFailure, RowOutcome};
use crate::wrapping::ExpectedWrapping;

/// The options for writing requests.
pub(super) struct RequestTranslation<'t> {
    pub(super) from: Option<&'static Protocol>,
    pub(super) to: Option<&'static Protocol>,
    pub(super) provider: Option<&'t str>,
    pub(super) is_normalized: bool,
    /// The dialect that tools are taught in: its name, or `auto` for that of the model.
    pub(super) dialect: Option<&'t str>,
    pub(super) dialects: &'t KnownDialects,
}

impl RequestTranslation<'_> {
    /// Writes the request of a file, and reports its losses.
    pub(super) fn run(&self, file: &Path) -> Result<()> {
        let mut text = String::new();
        InputFile::open(file, ExpectedWrapping::Text)?
            .read_to_string(&mut text)
            .context("cannot read the request")?;
        let body: Value = text.parse().context("the request is not JSON")?;
        let written = self.translate(body)?;
        writeln!(io::stdout(), "{}", written.body)?;
        for loss in written.losses.iter().filter(|loss| !loss.is_malformed) {
            print(&format!("lost: {loss}"));
        }
        match problem(&written.losses) {
            Some(problem) => bail!(problem),
            None => Ok(()),
        }
    }

    /// Writes the result of every row of a file.
    pub(super) fn run_rows(&self, file: &PathBuf, jobs: JobCount) -> Result<()> {
        rows::run(std::slice::from_ref(file), jobs, |row: TranslationRow| row.translate(self))
    }

    fn translate(&self, body: Value) -> Result<WrittenRequest> {
        let from = self.from.context("a request does not tell its protocol; name it with --from")?;
        let to = self.to.context("--to is missing")?;
        let mut options = RequestOptions::default();
        options.provider = self.provider.map(str::to_owned);
        options.mode = if self.is_normalized { RequestMode::Normalized } else { RequestMode::Lossless };
        let in_words = |error: callweave::Error| anyhow!("{}", error.detail());
        let mut request = from.read_request(body).map_err(in_words)?;
        let dialect = self.taught(request.model.as_deref())?;
        let Some(dialect) = dialect else { return to.write_request(&request, &options).map_err(in_words) };
        let taught = teach(request, &PromptOptions::of(dialect).map_err(in_words)?);
        request = taught.request;
        let mut written = to.write_request(&request, &options).map_err(in_words)?;
        written.losses.splice(0..0, taught.losses);
        written.names.extend(taught.names);
        written.wrapped.extend(taught.wrapped);
        Ok(written)
    }

    fn taught(&self, model: Option<&str>) -> Result<Option<&Dialect>> {
        let registry = self.dialects.registry();
        let Some(name) = self.dialect else { return Ok(self.dialects.own()) };
        let found = match (name, model) {
            ("auto", model) => {
                let model = model.context("the request names no model; name a dialect")?;
                let unknown = || format!("no dialect is known for the model {model}; name one");
                registry.for_model(model).with_context(unknown)?
            }
            (name, _) => registry.find(name).with_context(|| {
                format!("no dialect is called {name:?}; {}see callweave dialects", self.dialects.meant(name))
            })?,
        };
        Ok(Some(found))
    }
}

/// Returns the reason why a request cannot be relied on: no server would take it.
fn problem(losses: &[Loss]) -> Option<String> {
    let malformed: Vec<_> = losses.iter().filter(|loss| loss.is_malformed).map(Loss::to_string).collect();
    (!malformed.is_empty())
        .then(|| format!("the request is not what its protocol demands: {}", malformed.join("; ")))
}

/// A request to convert one request. Members it does not know are the caller's own.
#[derive(Deserialize)]
struct TranslationRow {
    id: Option<Box<RawValue>>,
    from: Option<String>,
    to: Option<String>,
    /// The body, as it is or as text.
    data: Option<Box<RawValue>>,
    file: Option<PathBuf>,
    provider: Option<String>,
    dialect: Option<String>,
    #[serde(alias = "mend")]
    normalize: Option<bool>,
}

impl rows::RowRequest for TranslationRow {
    const SHAPE: &'static str = "an object with \"from\", \"to\" and one of \"data\" and \"file\"";

    fn take_id(&mut self) -> Option<Box<RawValue>> {
        self.id.take()
    }
}

impl TranslationRow {
    fn translate(self, defaults: &RequestTranslation<'_>) -> Result<RowOutcome, RowFailure> {
        let ChosenProtocol(from) = ChosenProtocol(defaults.from).or_named(self.from.as_deref())?;
        let translation = RequestTranslation {
            from,
            to: self.to.as_deref().map(named).transpose()?.or(defaults.to),
            provider: self.provider.as_deref().or(defaults.provider),
            is_normalized: self.normalize.unwrap_or(defaults.is_normalized),
            dialect: self.dialect.as_deref().or(defaults.dialect),
            dialects: defaults.dialects,
        };
        let mut text = String::new();
        let mut input = InputFile::given(self.data, None, self.file)?;
        input.read_to_string(&mut text).context("cannot read the request")?;
        let body = text.parse().context("the request is not JSON")?;
        let written = translation.translate(body)?;
        let loss = |loss: &Loss| {
            let (path, what) = (Value::from(loss.path.as_str()), Value::from(loss.what.as_str()));
            Value::object([("path", path), ("what", what)])
        };
        let mut members = vec![("data", written.body), ("losses", written.losses.iter().map(loss).collect())];
        if !written.names.is_empty() {
            let names = written.names.into_iter().map(|(sent, own)| (sent, Value::from(own)));
            members.push(("names", Value::Object(names.collect())));
        }
        if !written.wrapped.is_empty() {
            members.push(("wrapped", written.wrapped.into_iter().map(Value::from).collect()));
        }
        let problem = problem(&written.losses);
        Ok(RowOutcome { json: Value::Object(members.into_iter().collect()).to_string(), problem })
    }
}
