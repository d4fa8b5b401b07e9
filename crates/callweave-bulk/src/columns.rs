//! Columns of Arrow: a column of responses or texts in, a batch with a row for each of them out.
//!
//! Counts are signed, because Spark has no others, and texts have 32-bit offsets, because all engines have those: see
//! [`MAX_BATCH_BYTES`]. A null gives a row of nulls.

use std::sync::Arc;

use arrow_array::builder::{
    BinaryBuilder, Int64Builder, ListBuilder, StringBuilder, TimestampMicrosecondBuilder,
};
use arrow_array::cast::AsArray;
use arrow_array::{Array, ArrayRef, ListArray, RecordBatch, StructArray};
use arrow_buffer::{NullBufferBuilder, OffsetBuffer};
use arrow_schema::{ArrowError, DataType, Field, Fields, Schema, SchemaRef, TimeUnit};
use callweave::event::TokenCounts;
use callweave::json::repair::{RepairOptions, RepairVerdict};
use callweave::message::Usage;
use callweave::protocol::Protocol;

use crate::row::{ReadRow, RowReader};
use crate::sample;

/// The maximum number of bytes in a column of one batch: offsets have 32 bits, and values grow a little.
pub const MAX_BATCH_BYTES: usize = 1 << 30;

/// A function over a column.
#[derive(Clone, Debug)]
pub enum ColumnFunction {
    /// Responses → their values.
    Decode(RowReader),
    /// Texts that models wrote → their values.
    Extract(RowReader),
    /// JSON as models write it → JSON.
    Repair(RepairOptions),
    /// Responses → bodies of another protocol.
    Convert(RowReader, &'static Protocol),
}

impl ColumnFunction {
    /// The schema of the result.
    pub fn schema(&self) -> SchemaRef {
        let fields = match self {
            Self::Decode(_) | Self::Extract(_) => row_fields(),
            Self::Repair(_) => {
                Fields::from(vec![text("json"), text("verdict"), list_of_texts("changes"), text("error")])
            }
            Self::Convert(..) => Fields::from(vec![
                Field::new("data", DataType::Binary, true),
                list_of_texts("losses"),
                text("error_class"),
                text("error"),
            ]),
        };
        Arc::new(Schema::new(fields))
    }

    /// The schema of the result of [`ColumnFunction::run_over`].
    pub fn schema_over(&self, table: &Schema, column: &str) -> Result<SchemaRef, ArrowError> {
        let own = self.schema();
        if table.column_with_name(column).is_none() {
            let names: Vec<_> = table.fields().iter().map(|field| field.name().as_str()).collect();
            let problem = format!("there is no column {column:?}, only {}", names.join(", "));
            return Err(ArrowError::SchemaError(problem));
        }
        let kept = table.fields().iter().filter(|field| field.name() != column);
        if let Some(twice) = kept.clone().find(|field| own.column_with_name(field.name()).is_some()) {
            let problem =
                format!("the result has a column {:?}, too; rename that of the table", twice.name());
            return Err(ArrowError::SchemaError(problem));
        }
        Ok(Arc::new(Schema::new(kept.chain(own.fields()).cloned().collect::<Fields>())))
    }

    /// Runs over a column of a table. The result takes the place of the column, behind the others.
    pub fn run_over(&self, table: &RecordBatch, column: &str) -> Result<RecordBatch, ArrowError> {
        let schema = self.schema_over(&table.schema(), column)?;
        let at = table.schema().index_of(column)?;
        let result = self.run(table.column(at))?;
        let kept = table.columns().iter().enumerate().filter(|(other, _)| *other != at);
        let columns = kept.map(|(_, column)| column).chain(result.columns()).cloned().collect();
        RecordBatch::try_new(schema, columns)
    }

    /// The parts of a column that [`ColumnFunction::run`] takes.
    pub fn split(column: &ArrayRef) -> Result<Vec<ArrayRef>, ArrowError> {
        let values = InputColumn::cast(column)?;
        let (mut parts, mut start, mut bytes) = (Vec::new(), 0, 0);
        for (at, value) in values.iter().enumerate() {
            let length = value.map_or(0, <[u8]>::len);
            if bytes + length > MAX_BATCH_BYTES && at > start {
                parts.push(column.slice(start, at - start));
                (start, bytes) = (at, 0);
            }
            bytes += length;
        }
        parts.push(column.slice(start, column.len() - start));
        Ok(parts)
    }

    /// Runs over a column. Fails only if the column holds neither texts nor bytes, or more than [`MAX_BATCH_BYTES`].
    pub fn run(&self, column: &dyn Array) -> Result<RecordBatch, ArrowError> {
        let values = InputColumn::of(column)?;
        let columns = match self {
            Self::Decode(reader) => row_columns(&values, |bytes| reader.decode(bytes)),
            Self::Extract(reader) => {
                row_columns(&values, |bytes| reader.extract(&String::from_utf8_lossy(bytes)))
            }
            Self::Repair(options) => repaired_columns(&values, options),
            Self::Convert(reader, to) => converted_columns(&values, reader, to),
        };
        RecordBatch::try_new(self.schema(), columns)
    }
}

fn text(name: &str) -> Field {
    Field::new(name, DataType::Utf8, true)
}

fn list_of_texts(name: &str) -> Field {
    Field::new(name, DataType::List(Arc::new(Field::new_list_field(DataType::Utf8, true))), true)
}

const CALL_COLUMNS: [&str; 5] = ["id", "name", "arguments", "outcome", "invalid"];

type Counter = fn(&TokenCounts) -> Option<u64>;

const TOKEN_COLUMNS: [(&str, Counter); 6] = [
    ("input_tokens", |counts| counts.input_tokens),
    ("output_tokens", |counts| counts.output_tokens),
    ("total_tokens", |counts| counts.total_tokens),
    ("cached_tokens", |counts| counts.cached_tokens),
    ("cache_write_tokens", |counts| counts.cache_write_tokens),
    ("reasoning_tokens", |counts| counts.reasoning_tokens),
];

fn call_fields() -> Fields {
    CALL_COLUMNS.into_iter().map(text).collect()
}

fn row_fields() -> Fields {
    let calls = Arc::new(Field::new_list_field(DataType::Struct(call_fields()), true));
    let calls = Field::new("calls", DataType::List(calls), true);
    let texts = [text("text"), text("reasoning"), calls];
    let names = ["finish", "model", "protocol", "dialect"].map(text);
    let tokens = TOKEN_COLUMNS.map(|(name, _)| Field::new(name, DataType::Int64, true));
    let errors = ["error_class", "error"].map(text);
    texts.into_iter().chain(names).chain(tokens).chain(errors).collect()
}

/// A column of texts or bytes, of any of the types that Arrow has for them.
enum InputColumn<'c> {
    Given(&'c dyn Array),
    Cast(ArrayRef),
}

impl<'c> InputColumn<'c> {
    fn of(column: &'c dyn Array) -> Result<Self, ArrowError> {
        let column = Self::cast(column)?;
        let fitting = column.iter().flatten().filter(|bytes| bytes.len() <= MAX_BATCH_BYTES);
        let bytes: usize = fitting.map(<[u8]>::len).sum();
        if bytes > MAX_BATCH_BYTES {
            let problem = format!("a batch of {bytes} bytes is too large; pass fewer rows at a time");
            return Err(ArrowError::InvalidArgumentError(problem));
        }
        Ok(column)
    }

    fn cast(column: &'c dyn Array) -> Result<Self, ArrowError> {
        Ok(match column.data_type() {
            DataType::Utf8
            | DataType::LargeUtf8
            | DataType::Utf8View
            | DataType::Binary
            | DataType::LargeBinary
            | DataType::BinaryView => Self::Given(column),
            DataType::Null => Self::Cast(arrow_array::new_null_array(&DataType::Binary, column.len())),
            DataType::Dictionary(_, values) if !values.is_nested() => {
                Self::Cast(arrow_cast::cast(column, values)?)
            }
            other => {
                let problem = format!("the column holds {other}, but must hold texts or bytes");
                return Err(ArrowError::InvalidArgumentError(problem));
            }
        })
    }

    fn array(&self) -> &dyn Array {
        match self {
            Self::Given(column) => *column,
            Self::Cast(column) => column,
        }
    }

    fn get(&self, at: usize) -> Option<&[u8]> {
        let column = self.array();
        if column.is_null(at) {
            return None;
        }
        Some(match column.data_type() {
            DataType::Utf8 => column.as_string::<i32>().value(at).as_bytes(),
            DataType::LargeUtf8 => column.as_string::<i64>().value(at).as_bytes(),
            DataType::Utf8View => column.as_string_view().value(at).as_bytes(),
            DataType::LargeBinary => column.as_binary::<i64>().value(at),
            DataType::BinaryView => column.as_binary_view().value(at),
            _ => column.as_binary::<i32>().value(at),
        })
    }

    fn iter(&self) -> impl Iterator<Item = Option<&[u8]>> {
        (0..self.array().len()).map(|at| self.get(at))
    }
}

/// Builds the columns of rows.
struct RowColumns {
    texts: [StringBuilder; 2],
    calls: CallColumn,
    names: [StringBuilder; 4],
    tokens: [Int64Builder; TOKEN_COLUMNS.len()],
    errors: [StringBuilder; 2],
}

fn row_columns(values: &InputColumn<'_>, read: impl Fn(&[u8]) -> ReadRow) -> Vec<ArrayRef> {
    let strings = || StringBuilder::new();
    let mut columns = RowColumns {
        texts: std::array::from_fn(|_| strings()),
        calls: CallColumn::default(),
        names: std::array::from_fn(|_| strings()),
        tokens: std::array::from_fn(|_| Int64Builder::new()),
        errors: std::array::from_fn(|_| strings()),
    };
    let read = |bytes: &[u8]| match bytes.len() {
        ..=MAX_BATCH_BYTES => read(bytes),
        length => ReadRow::too_long(length, MAX_BATCH_BYTES),
    };
    for value in values.iter() {
        columns.put(value.map(read).as_ref());
    }
    columns.finish()
}

impl RowColumns {
    fn put(&mut self, row: Option<&ReadRow>) {
        let message = row.map(|row| &row.message);
        put_all(
            &mut self.texts,
            [message.map(|message| message.text()), message.map(|message| message.reasoning())],
        );
        self.calls.put(row);
        let names = [
            row.and_then(ReadRow::finish),
            message.and_then(|message| message.model.as_deref()),
            row.and_then(|row| row.protocol).map(|protocol| protocol.name),
            row.and_then(|row| row.dialect.as_deref()),
        ];
        put_all(&mut self.names, names);
        let counts = message.and_then(|message| message.usage.as_ref()).map(Usage::counters);
        for (column, (_, counter)) in self.tokens.iter_mut().zip(TOKEN_COLUMNS) {
            let count = counts.as_ref().and_then(counter);
            column.append_option(count.map(|count| i64::try_from(count).unwrap_or(i64::MAX)));
        }
        let problem = row.and_then(|row| row.problem.as_ref());
        put_all(
            &mut self.errors,
            [problem.map(|problem| problem.class), problem.map(|problem| &*problem.text)],
        );
    }

    fn finish(self) -> Vec<ArrayRef> {
        let Self { texts, calls, names, tokens, errors } = self;
        let mut columns: Vec<ArrayRef> = Vec::new();
        let texts_of = |builders: &mut dyn Iterator<Item = StringBuilder>| -> Vec<ArrayRef> {
            builders.map(|mut column| Arc::new(column.finish()) as ArrayRef).collect()
        };
        columns.extend(texts_of(&mut texts.into_iter()));
        columns.push(Arc::new(calls.finish()));
        columns.extend(texts_of(&mut names.into_iter()));
        columns.extend(tokens.map(|mut column| Arc::new(column.finish()) as ArrayRef));
        columns.extend(texts_of(&mut errors.into_iter()));
        columns
    }
}

fn put_all<const N: usize, T: AsRef<str>>(columns: &mut [StringBuilder; N], values: [Option<T>; N]) {
    columns.iter_mut().zip(values).for_each(|(column, value)| column.append_option(value));
}

/// Builds the column of calls: for each row a list.
struct CallColumn {
    members: [StringBuilder; CALL_COLUMNS.len()],
    ends: Vec<i32>,
    rows: NullBufferBuilder,
}

impl Default for CallColumn {
    fn default() -> Self {
        let members = std::array::from_fn(|_| StringBuilder::new());
        Self { members, ends: vec![0], rows: NullBufferBuilder::new(0) }
    }
}

impl CallColumn {
    fn put(&mut self, row: Option<&ReadRow>) {
        let mut end = *self.ends.last().unwrap_or(&0);
        for found in row.into_iter().flat_map(ReadRow::calls) {
            let call = found.call;
            let values = [
                Some(&*call.id),
                Some(&*call.name),
                Some(call.arguments()),
                Some(found.outcome),
                found.invalid.as_deref(),
            ];
            put_all(&mut self.members, values);
            end += 1;
        }
        self.ends.push(end);
        self.rows.append(row.is_some());
    }

    fn finish(mut self) -> ListArray {
        let members = self.members.map(|mut column| Arc::new(column.finish()) as ArrayRef);
        let calls = StructArray::new(call_fields(), members.into(), None);
        let item = Arc::new(Field::new_list_field(DataType::Struct(call_fields()), true));
        ListArray::new(item, OffsetBuffer::new(self.ends.into()), Arc::new(calls), self.rows.finish())
    }
}

fn repaired_columns(values: &InputColumn<'_>, options: &RepairOptions) -> Vec<ArrayRef> {
    let (mut json, mut verdicts, mut errors) =
        (StringBuilder::new(), StringBuilder::new(), StringBuilder::new());
    let mut changes = ListBuilder::new(StringBuilder::new());
    for value in values.iter() {
        let Some(value) = value else {
            [&mut json, &mut verdicts, &mut errors].into_iter().for_each(StringBuilder::append_null);
            changes.append_null();
            continue;
        };
        let text = String::from_utf8_lossy(value);
        let repaired = options.repair(&text);
        json.append_option(repaired.closed());
        let (verdict, error) = match repaired.verdict {
            RepairVerdict::Valid => ("valid", None),
            RepairVerdict::Repaired => ("repaired", None),
            RepairVerdict::Incomplete => ("incomplete", Some("the text was cut off".to_owned())),
            RepairVerdict::Hopeless { why, at } => ("hopeless", Some(format!("byte {at}: {why}"))),
        };
        verdicts.append_value(verdict);
        errors.append_option(error);
        for change in &repaired.changes {
            changes.values().append_value(format!("{} at byte {}", change.kind.label(), change.at));
        }
        changes.append(true);
    }
    vec![
        Arc::new(json.finish()),
        Arc::new(verdicts.finish()),
        Arc::new(changes.finish()),
        Arc::new(errors.finish()),
    ]
}

fn converted_columns(values: &InputColumn<'_>, reader: &RowReader, to: &Protocol) -> Vec<ArrayRef> {
    let (mut classes, mut errors) = (StringBuilder::new(), StringBuilder::new());
    let mut bodies = BinaryBuilder::new();
    let mut losses = ListBuilder::new(StringBuilder::new());
    for value in values.iter() {
        let Some(value) = value else {
            bodies.append_null();
            losses.append_null();
            [&mut classes, &mut errors].into_iter().for_each(StringBuilder::append_null);
            continue;
        };
        let (body, row) = reader.convert(value, to);
        if body.is_some() {
            let options = callweave::encode::EncodeOptions::normalized().reporting_truncation();
            for loss in to.losses(&row.message, &options) {
                losses.values().append_value(loss.to_string());
            }
        }
        bodies.append_option(body);
        losses.append(true);
        classes.append_option(row.problem.as_ref().map(|problem| problem.class));
        errors.append_option(row.problem.as_ref().map(|problem| &problem.text));
    }
    vec![
        Arc::new(bodies.finish()),
        Arc::new(losses.finish()),
        Arc::new(classes.finish()),
        Arc::new(errors.finish()),
    ]
}

const UTC: &str = "UTC";

/// The schema of generated rows: `id`, `time`, `data`.
pub fn sample_schema() -> SchemaRef {
    let time = DataType::Timestamp(TimeUnit::Microsecond, Some(UTC.into()));
    Arc::new(Schema::new(vec![
        Field::new("id", DataType::Int64, false),
        Field::new("time", time, false),
        Field::new("data", DataType::Binary, false),
    ]))
}

/// Generated rows: those of these numbers.
pub fn sample_batch(numbers: std::ops::Range<u64>) -> Result<RecordBatch, ArrowError> {
    let mut ids = Int64Builder::new();
    let mut times = TimestampMicrosecondBuilder::new().with_timezone(UTC);
    let mut data = BinaryBuilder::new();
    for row in numbers.map(sample::row) {
        ids.append_value(i64::try_from(row.id).unwrap_or(i64::MAX));
        times.append_value(row.time * 1_000_000);
        data.append_value(&row.data);
    }
    let columns: Vec<ArrayRef> =
        vec![Arc::new(ids.finish()), Arc::new(times.finish()), Arc::new(data.finish())];
    RecordBatch::try_new(sample_schema(), columns)
}

#[cfg(test)]
mod tests {
    use arrow_array::{BinaryViewArray, DictionaryArray, LargeBinaryArray, StringArray, StringViewArray};
    use callweave::Decoder;

    use super::*;

    fn decode() -> ColumnFunction {
        ColumnFunction::Decode(RowReader::new(Decoder::builder().dialect("auto").repair()))
    }

    const BODY: &str = r#"{"object": "chat.completion", "choices": [{"index": 0, "finish_reason": "stop", "message":
        {"content": "<tool_call>{'name': 'look', 'arguments': {'at': 'sky'}}</tool_call>"}}]}"#;

    #[test]
    fn every_type_of_column_gives_the_same_rows() -> Result<(), ArrowError> {
        let texts = vec![Some(BODY), None, Some("no JSON"), Some("")];
        let bytes: Vec<_> = texts.iter().map(|text| text.map(str::as_bytes)).collect();
        let expected = decode().run(&StringArray::from(texts.clone()))?;
        let columns: [ArrayRef; 4] = [
            Arc::new(StringViewArray::from(texts.clone())),
            Arc::new(LargeBinaryArray::from(bytes.clone())),
            Arc::new(BinaryViewArray::from(bytes)),
            Arc::new(texts.into_iter().collect::<DictionaryArray<arrow_array::types::Int32Type>>()),
        ];
        for column in columns {
            assert_eq!(decode().run(&column)?, expected, "{}", column.data_type());
        }
        assert_eq!(expected["error_class"].as_string::<i32>().value(2), "unknown");
        let calls = expected["calls"].as_list::<i32>();
        assert_eq!(calls.value(0).as_struct()["outcome"].as_string::<i32>().value(0), "repaired");
        for column in expected.columns() {
            assert!(column.is_null(1), "a null gives nulls");
        }
        Ok(())
    }

    #[test]
    fn other_columns_are_refused() {
        let numbers = arrow_array::Int64Array::from(vec![1]);
        let error = decode().run(&numbers).expect_err("numbers are no responses");
        assert!(error.to_string().contains("Int64"), "{error}");
    }
}
