//! Counts of rows that stand in columns, as [`ColumnFunction`](crate::columns::ColumnFunction) makes them.

use arrow_array::cast::AsArray;
use arrow_array::types::TimestampMicrosecondType;
use arrow_array::{Array, ArrayRef, RecordBatch};
use arrow_cast::cast;
use arrow_schema::{ArrowError, DataType, TimeUnit};

use super::{CountedRow, TrafficReport};

impl TrafficReport {
    /// Counts the rows of a batch; `time` names the column with their time, which is a time, a text or seconds since
    /// 1970. Rows of nulls are not counted.
    pub fn add_batch(&mut self, batch: &RecordBatch, time: Option<&str>) -> Result<(), ArrowError> {
        let [models, protocols, dialects, classes] =
            ["model", "protocol", "dialect", "error_class"].map(|name| texts(batch, name));
        let (models, protocols, dialects, classes) = (models?, protocols?, dialects?, classes?);
        let calls = column(batch, "calls")?;
        let outcomes = CallOutcomeColumn::of(calls)?;
        let times = time.map(|name| times(batch, name)).transpose()?;
        for at in (0..batch.num_rows()).filter(|at| calls.is_valid(*at)) {
            self.add(&CountedRow {
                model: text(&models, at),
                protocol: text(&protocols, at),
                dialect: text(&dialects, at),
                outcomes: outcomes.of_row(at),
                error_class: text(&classes, at),
                time: times.as_ref().filter(|times| times.is_valid(at)).map(|times| {
                    times.as_primitive::<TimestampMicrosecondType>().value(at).div_euclid(1_000_000)
                }),
            });
        }
        Ok(())
    }
}

fn column<'b>(batch: &'b RecordBatch, name: &str) -> Result<&'b ArrayRef, ArrowError> {
    batch.column_by_name(name).ok_or_else(|| {
        ArrowError::SchemaError(format!("there is no column {name:?}; a report is made of decoded columns"))
    })
}

fn texts(batch: &RecordBatch, name: &str) -> Result<ArrayRef, ArrowError> {
    cast(column(batch, name)?, &DataType::LargeUtf8)
}

fn text(column: &ArrayRef, at: usize) -> Option<&str> {
    column.is_valid(at).then(|| column.as_string::<i64>().value(at))
}

fn times(batch: &RecordBatch, name: &str) -> Result<ArrayRef, ArrowError> {
    let column = column(batch, name)?;
    let seconds = if column.data_type().is_integer() {
        cast(&cast(column, &DataType::Int64)?, &DataType::Timestamp(TimeUnit::Second, None))?
    } else {
        column.clone()
    };
    cast(&seconds, &DataType::Timestamp(TimeUnit::Microsecond, None))
}

/// The outcomes in a column of calls.
struct CallOutcomeColumn {
    outcomes: ArrayRef,
    /// Where the calls of each row begin and end.
    rows: Vec<(usize, usize)>,
}

impl CallOutcomeColumn {
    fn of(calls: &ArrayRef) -> Result<Self, ArrowError> {
        let item = match calls.data_type() {
            DataType::List(item) | DataType::LargeList(item) => item.clone(),
            other => {
                return Err(ArrowError::SchemaError(format!(
                    "the column \"calls\" holds {other}, not lists"
                )));
            }
        };
        let lists = cast(calls, &DataType::LargeList(item))?;
        let lists = lists.as_list::<i64>();
        let Some(values) = lists.values().as_struct_opt() else {
            return Err(ArrowError::SchemaError("the column \"calls\" holds no calls".into()));
        };
        let outcomes = values.column_by_name("outcome").ok_or_else(|| {
            ArrowError::SchemaError("the calls of the column \"calls\" have no \"outcome\"".into())
        })?;
        let bound = |offset: i64| usize::try_from(offset).unwrap_or(0);
        let rows = lists.value_offsets().windows(2).map(|pair| (bound(pair[0]), bound(pair[1]))).collect();
        Ok(Self { outcomes: cast(outcomes, &DataType::LargeUtf8)?, rows })
    }

    fn of_row(&self, at: usize) -> Vec<&str> {
        let (start, end) = self.rows[at];
        (start..end).filter_map(|at| text(&self.outcomes, at)).collect()
    }
}
