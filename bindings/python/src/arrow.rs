//! Columns of Arrow, exchanged with any library through its PyCapsule interface, and reports about them.
//!
//! The work is done by `callweave-bulk`; here its functions meet arrays, tables and streams of Python.

use std::collections::VecDeque;
use std::sync::{Arc, Mutex};

use arrow_array::cast::AsArray;
use arrow_array::{Array, ArrayRef, RecordBatch, StructArray};
use arrow_schema::{ArrowError, DataType, Field, FieldRef, Schema, SchemaRef};
use callweave::json::repair::RepairOptions;
use callweave_bulk::columns::{ColumnFunction, sample_batch, sample_schema};
use callweave_bulk::report::TrafficReport;
use callweave_bulk::row::RowReader;
use pyo3::exceptions::{PyTypeError, PyValueError};
use pyo3::prelude::*;
use pyo3::types::{PyCapsule, PyTuple};
use pyo3_arrow::error::PyArrowResult;
use pyo3_arrow::ffi::{
    ArrayIterator, ArrayReader, to_array_pycapsules, to_schema_pycapsule, to_stream_pycapsule,
};
use pyo3_arrow::input::AnyArray;

use crate::decoder::Reading;
use crate::protocols;
use crate::tools::ToolsLike;

/// The rows of one chunk, in columns.
#[pyclass(frozen, module = "callweave.arrow")]
pub(crate) struct Batch(RecordBatch);

/// The rows of a stream, in columns. It can be read once.
#[pyclass(frozen, module = "callweave.arrow")]
pub(crate) struct Stream {
    field: FieldRef,
    reader: Mutex<Option<Box<dyn ArrayReader + Send>>>,
}

/// A struct of columns, as Arrow hands tables on.
fn field_of(schema: &Schema) -> FieldRef {
    Arc::new(Field::new_struct("", schema.fields().clone(), false))
}

fn array_of(batch: RecordBatch) -> ArrayRef {
    Arc::new(StructArray::from(batch))
}

#[pymethods]
impl Batch {
    fn __arrow_c_schema__<'py>(&self, py: Python<'py>) -> PyArrowResult<Bound<'py, PyCapsule>> {
        to_schema_pycapsule(py, self.0.schema().as_ref())
    }

    #[pyo3(signature = (requested_schema=None))]
    fn __arrow_c_array__<'py>(
        &self,
        py: Python<'py>,
        requested_schema: Option<Bound<'py, PyCapsule>>,
    ) -> PyArrowResult<Bound<'py, PyTuple>> {
        to_array_pycapsules(py, field_of(&self.0.schema()), &array_of(self.0.clone()), requested_schema)
    }

    #[pyo3(signature = (requested_schema=None))]
    fn __arrow_c_stream__<'py>(
        &self,
        py: Python<'py>,
        requested_schema: Option<Bound<'py, PyCapsule>>,
    ) -> PyArrowResult<Bound<'py, PyCapsule>> {
        let reader = ArrayIterator::new([Ok(array_of(self.0.clone()))], field_of(&self.0.schema()));
        to_stream_pycapsule(py, Box::new(reader), requested_schema)
    }

    fn __len__(&self) -> usize {
        self.0.num_rows()
    }

    fn __repr__(&self) -> String {
        format!("<callweave.arrow.Batch of {} rows>", self.0.num_rows())
    }
}

impl Stream {
    fn new(reader: impl ArrayReader + Send + 'static) -> Self {
        Self { field: reader.field(), reader: Mutex::new(Some(Box::new(reader))) }
    }
}

#[pymethods]
impl Stream {
    fn __arrow_c_schema__<'py>(&self, py: Python<'py>) -> PyArrowResult<Bound<'py, PyCapsule>> {
        to_schema_pycapsule(py, self.field.as_ref())
    }

    #[pyo3(signature = (requested_schema=None))]
    fn __arrow_c_stream__<'py>(
        &self,
        py: Python<'py>,
        requested_schema: Option<Bound<'py, PyCapsule>>,
    ) -> PyArrowResult<Bound<'py, PyCapsule>> {
        let reader = self.reader.lock().ok().and_then(|mut reader| reader.take());
        let reader = reader.ok_or_else(|| PyValueError::new_err("the stream was read before"))?;
        to_stream_pycapsule(py, reader, requested_schema)
    }

    fn __repr__(&self) -> &'static str {
        "<callweave.arrow.Stream>"
    }
}

/// Applies a function to the chunks of a stream, one at a time.
struct MappedReader {
    chunks: Box<dyn ArrayReader + Send>,
    /// Parts of a chunk that is too large for one batch.
    parts: VecDeque<ArrayRef>,
    function: ColumnFunction,
    column: Option<String>,
    field: FieldRef,
}

impl MappedReader {
    fn new(
        chunks: Box<dyn ArrayReader + Send>,
        function: ColumnFunction,
        column: Option<String>,
    ) -> PyResult<Self> {
        let schema = result_schema(&function, chunks.field().data_type(), column.as_deref())?;
        Ok(Self { chunks, parts: VecDeque::new(), function, column, field: field_of(&schema) })
    }

    fn run(&self, chunk: &ArrayRef) -> Result<ArrayRef, ArrowError> {
        run(&self.function, chunk, self.column.as_deref()).map(array_of)
    }

    /// The parts of a chunk that one batch has room for.
    fn split(&self, chunk: ArrayRef) -> Result<VecDeque<ArrayRef>, ArrowError> {
        let Some(column) = &self.column else { return Ok(ColumnFunction::split(&chunk)?.into()) };
        let table = chunk.as_struct();
        let column = table.column_by_name(column).expect("the schema has it");
        let mut start = 0;
        let parts = ColumnFunction::split(column)?.into_iter().map(|part| {
            let rows = chunk.slice(start, part.len());
            start += part.len();
            rows
        });
        Ok(parts.collect())
    }
}

impl Iterator for MappedReader {
    type Item = Result<ArrayRef, ArrowError>;

    fn next(&mut self) -> Option<Self::Item> {
        if self.parts.is_empty() {
            match self.chunks.next()?.and_then(|chunk| self.split(chunk)) {
                Ok(parts) => self.parts = parts,
                Err(error) => return Some(Err(error)),
            }
        }
        let part = self.parts.pop_front()?;
        Some(self.run(&part))
    }
}

impl ArrayReader for MappedReader {
    fn field(&self) -> FieldRef {
        self.field.clone()
    }
}

/// The schema of the result of a function over chunks of that type.
fn result_schema(function: &ColumnFunction, chunk: &DataType, column: Option<&str>) -> PyResult<SchemaRef> {
    let refused = |error: ArrowError| PyValueError::new_err(error.to_string());
    match (chunk, column) {
        (DataType::Struct(fields), Some(column)) => {
            function.schema_over(&Schema::new(fields.clone()), column).map_err(refused)
        }
        (DataType::Struct(_), None) => {
            Err(PyTypeError::new_err("name the column of the table that holds the values: column=\"…\""))
        }
        (_, Some(_)) => Err(PyTypeError::new_err("an array has no columns; leave column out")),
        (_, None) => Ok(function.schema()),
    }
}

fn run(function: &ColumnFunction, chunk: &ArrayRef, column: Option<&str>) -> Result<RecordBatch, ArrowError> {
    match column {
        Some(column) => function.run_over(&table_of(chunk)?, column),
        None => function.run(chunk),
    }
}

fn table_of(chunk: &ArrayRef) -> Result<RecordBatch, ArrowError> {
    match chunk.as_struct_opt() {
        Some(table) if table.null_count() == 0 => Ok(RecordBatch::from(table)),
        Some(_) => Err(ArrowError::InvalidArgumentError("a table has no rows that are null".into())),
        None => Err(ArrowError::InvalidArgumentError("this is no table".into())),
    }
}

/// Applies a function to anything that Arrow has.
fn apply(
    py: Python<'_>,
    function: ColumnFunction,
    data: AnyArray,
    column: Option<String>,
) -> PyResult<Py<PyAny>> {
    match data {
        AnyArray::Array(array) => {
            let (chunk, field) = array.into_inner();
            result_schema(&function, field.data_type(), column.as_deref())?;
            let batch = py.detach(|| run(&function, &chunk, column.as_deref()));
            let batch = batch.map_err(|error| PyValueError::new_err(error.to_string()))?;
            Ok(Py::new(py, Batch(batch))?.into_any())
        }
        AnyArray::Stream(stream) => {
            let reader = MappedReader::new(stream.into_reader()?, function, column)?;
            Ok(Py::new(py, Stream::new(reader))?.into_any())
        }
    }
}

/// Decodes a column of complete responses, streamed or not, of any protocols.
///
/// The columns of the result are ``text``, ``reasoning``, ``calls`` (a list of ``id``, ``name``, ``arguments``,
/// ``outcome`` and ``invalid``), ``finish``, ``model``, ``protocol``, ``dialect``, the counts of tokens, ``error_class``
/// and ``error``. Of a table ``column`` names the column to read; the others are kept.
#[pyfunction(name = "arrow_decode")]
#[pyo3(signature = (data, *, column=None, protocol=None, dialect="auto", tools=None, repair=true, coerce=true, validate=true))]
#[expect(clippy::too_many_arguments, reason = "they are keyword arguments")]
pub(crate) fn decode(
    py: Python<'_>,
    data: AnyArray,
    column: Option<String>,
    protocol: Option<String>,
    dialect: &str,
    tools: Option<ToolsLike>,
    repair: bool,
    coerce: bool,
    validate: bool,
) -> PyResult<Py<PyAny>> {
    let dialect = Some(dialect.to_owned());
    let builder = Reading { protocol, dialect, tools, repair, coerce, validate }.builder(py)?;
    apply(py, ColumnFunction::Decode(RowReader::new(builder)), data, column)
}

/// Finds the calls and the reasoning in a column of texts that models wrote. The result is as that of ``decode``.
#[pyfunction(name = "arrow_extract")]
#[pyo3(signature = (data, *, column=None, dialect="auto", tools=None, repair=true, coerce=true, validate=true))]
#[expect(clippy::too_many_arguments, reason = "they are keyword arguments")]
pub(crate) fn extract(
    py: Python<'_>,
    data: AnyArray,
    column: Option<String>,
    dialect: &str,
    tools: Option<ToolsLike>,
    repair: bool,
    coerce: bool,
    validate: bool,
) -> PyResult<Py<PyAny>> {
    let dialect = Some(dialect.to_owned());
    let builder = Reading { protocol: None, dialect, tools, repair, coerce, validate }.builder(py)?;
    apply(py, ColumnFunction::Extract(RowReader::new(builder)), data, column)
}

/// Repairs a column of JSON as models write it.
///
/// The columns of the result are ``json`` (null if hopeless), ``verdict`` (``valid``, ``repaired``, ``incomplete`` or
/// ``hopeless``), ``changes`` and ``error``. A text that was cut off is closed where it ends.
#[pyfunction(name = "arrow_repair")]
#[pyo3(signature = (data, *, column=None))]
pub(crate) fn repair(py: Python<'_>, data: AnyArray, column: Option<String>) -> PyResult<Py<PyAny>> {
    apply(py, ColumnFunction::Repair(RepairOptions::new().close_truncated()), data, column)
}

/// Writes a column of complete responses as bodies of another protocol, with their calls repaired.
///
/// The columns of the result are ``data`` (the body, null if there is nothing to write), ``losses`` (what the other
/// protocol cannot say), ``error_class`` and ``error``.
#[pyfunction(name = "arrow_convert")]
#[pyo3(signature = (data, to, *, column=None, protocol=None, dialect="auto", tools=None, repair=true, coerce=true))]
#[expect(clippy::too_many_arguments, reason = "they are keyword arguments")]
pub(crate) fn convert(
    py: Python<'_>,
    data: AnyArray,
    to: &str,
    column: Option<String>,
    protocol: Option<String>,
    dialect: &str,
    tools: Option<ToolsLike>,
    repair: bool,
    coerce: bool,
) -> PyResult<Py<PyAny>> {
    let to = protocols::named(py, to)?;
    if !to.is_written() {
        return Err(PyValueError::new_err(format!("the protocol {} is only read", to.name)));
    }
    let dialect = Some(dialect.to_owned());
    let builder = Reading { protocol, dialect, tools, repair, coerce, validate: false }.builder(py)?;
    apply(py, ColumnFunction::Convert(RowReader::new(builder), to), data, column)
}

/// The rows of a generated batch.
const SAMPLE_BATCH: u64 = 4096;

/// Generated responses, to try things on: ``id``, ``time`` and ``data``, the same for every run.
#[pyfunction(name = "arrow_demo")]
#[pyo3(signature = (rows, *, start=0))]
pub(crate) fn demo(rows: u64, start: u64) -> Stream {
    let end = start.saturating_add(rows);
    let starts = (0..).map_while(move |number: u64| {
        let at = start.checked_add(number.checked_mul(SAMPLE_BATCH)?)?;
        (at < end).then_some(at)
    });
    let batches =
        starts.map(move |at| sample_batch(at..end.min(at.saturating_add(SAMPLE_BATCH))).map(array_of));
    Stream::new(ArrayIterator::new(batches, field_of(&sample_schema())))
}

/// Counts of recorded traffic by model, protocol, dialect, outcome and class of error.
#[pyclass(frozen, module = "callweave")]
pub(crate) struct Report(TrafficReport);

#[pymethods]
impl Report {
    /// The number of responses.
    #[getter]
    fn responses(&self) -> u64 {
        self.0.responses()
    }

    /// The number of calls.
    #[getter]
    fn calls(&self) -> u64 {
        self.0.calls()
    }

    /// The groups as a list of dictionaries. Responses are counted by the outcome of their worst call, calls by their
    /// own.
    fn groups<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyAny>> {
        let list = format!("[{}]", self.0.to_jsonl().trim_end().replace('\n', ","));
        crate::json::loads(py, &list)
    }

    /// The plot, as an SVG image.
    fn svg(&self) -> String {
        self.0.to_svg()
    }

    /// Everything, as one HTML page that needs nothing else.
    fn html(&self) -> String {
        self.0.to_html()
    }

    fn _repr_html_(&self) -> String {
        self.0.to_svg()
    }

    fn __str__(&self) -> String {
        self.0.to_table()
    }

    fn __repr__(&self) -> String {
        format!("<callweave.Report of {} responses>", self.0.responses())
    }
}

/// Counts the rows of a table by model, protocol, dialect, outcome and class of error.
///
/// The table has the columns that ``callweave.arrow.decode`` makes; with ``column``, that column is decoded first.
/// ``time`` names the column with the time of each response.
#[pyfunction]
#[pyo3(signature = (table, *, time=None, column=None))]
pub(crate) fn report(
    py: Python<'_>,
    table: AnyArray,
    time: Option<String>,
    column: Option<String>,
) -> PyResult<Report> {
    let mut chunks = table.into_reader()?;
    if let Some(column) = column {
        let builder = callweave::Decoder::builder().dialect("auto").repair();
        let function = ColumnFunction::Decode(RowReader::new(builder));
        chunks = Box::new(MappedReader::new(chunks, function, Some(column))?);
    }
    let counted = py.detach(|| {
        let mut report = TrafficReport::default();
        for chunk in chunks {
            report.add_batch(&table_of(&chunk?)?, time.as_deref())?;
        }
        Ok(report)
    });
    counted.map(Report).map_err(|error: ArrowError| PyValueError::new_err(error.to_string()))
}
