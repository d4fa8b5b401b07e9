//! Files of Parquet: read and written a batch at a time.

use std::fs::File;
use std::path::Path;
use std::sync::Arc;

use arrow_array::{RecordBatch, RecordBatchReader};
use arrow_schema::Schema;
use parquet::arrow::ArrowWriter;
use parquet::arrow::arrow_reader::{ParquetRecordBatchReader, ParquetRecordBatchReaderBuilder};
use parquet::basic::Compression;
use parquet::errors::Result;
use parquet::file::properties::WriterProperties;

use crate::columns::{ColumnFunction, sample_batch, sample_schema};
use crate::report::TrafficReport;
use crate::row::RowReader;

/// The rows of a batch: enough that a batch costs little beside its rows.
const BATCH: usize = 1024;

fn open(path: &Path) -> Result<ParquetRecordBatchReader> {
    ParquetRecordBatchReaderBuilder::try_new(File::open(path)?)?.with_batch_size(BATCH).build()
}

fn create(path: &Path, schema: Arc<Schema>) -> Result<ArrowWriter<File>> {
    let properties = WriterProperties::builder().set_compression(Compression::SNAPPY).build();
    ArrowWriter::try_new(File::create(path)?, schema, Some(properties))
}

/// Runs a function over a column of a file, and writes the result with the other columns. Returns the number of rows,
/// and of those with an error.
pub fn run(from: &Path, column: &str, function: &ColumnFunction, to: &Path) -> Result<(u64, u64)> {
    let reader = open(from)?;
    let mut writer = create(to, function.schema_over(&reader.schema(), column)?)?;
    let (mut rows, mut failed) = (0, 0);
    for batch in reader {
        let result = function.run_over(&batch?, column)?;
        rows += result.num_rows() as u64;
        failed += errors(&result);
        writer.write(&result)?;
    }
    writer.close()?;
    Ok((rows, failed))
}

fn errors(batch: &RecordBatch) -> u64 {
    batch.column_by_name("error").map_or(0, |errors| (errors.len() - errors.null_count()) as u64)
}

/// Counts the rows of a file: of decoded columns, or of a column of responses. The column of times may be absent.
pub fn count(
    path: &Path,
    column: &str,
    time: &str,
    reader: &RowReader,
    report: &mut TrafficReport,
) -> Result<()> {
    let batches = open(path)?;
    let schema = batches.schema();
    let time = schema.column_with_name(time).map(|_| time);
    let is_decoded = schema.column_with_name("calls").is_some();
    let function = ColumnFunction::Decode(reader.clone());
    for batch in batches {
        let batch = batch?;
        let batch = if is_decoded { batch } else { function.run_over(&batch, column)? };
        report.add_batch(&batch, time)?;
    }
    Ok(())
}

/// Writes generated rows.
pub fn write_sample(rows: u64, path: &Path) -> Result<()> {
    let mut writer = create(path, sample_schema())?;
    let starts = (0..rows).step_by(BATCH);
    for start in starts {
        writer.write(&sample_batch(start..rows.min(start + BATCH as u64))?)?;
    }
    writer.close()?;
    Ok(())
}

#[cfg(test)]
mod tests {
    use arrow_schema::ArrowError;

    use super::*;

    #[test]
    fn rows_go_through_files_unchanged() -> std::result::Result<(), Box<dyn std::error::Error>> {
        let folder = std::env::temp_dir().join(format!("callweave-bulk-{}", std::process::id()));
        std::fs::create_dir_all(&folder)?;
        let (raw, decoded) = (folder.join("raw.parquet"), folder.join("decoded.parquet"));
        write_sample(3000, &raw)?;
        let reader = RowReader::new(callweave::Decoder::builder().dialect("auto").repair());
        let function = ColumnFunction::Decode(reader.clone());
        let (rows, failed) = run(&raw, "data", &function, &decoded)?;
        assert_eq!(rows, 3000);
        assert!(failed > 0);
        let batches = open(&decoded)?.collect::<std::result::Result<Vec<_>, ArrowError>>()?;
        let first = function.run_over(&sample_batch(0..BATCH as u64)?, "data")?;
        assert_eq!(batches[0].columns(), first.columns());
        let (mut of_raw, mut of_decoded) = (TrafficReport::default(), TrafficReport::default());
        count(&raw, "data", "time", &reader, &mut of_raw)?;
        count(&decoded, "data", "time", &reader, &mut of_decoded)?;
        assert_eq!(of_raw.to_jsonl(), of_decoded.to_jsonl());
        assert_eq!(of_raw.responses(), 3000);
        std::fs::remove_dir_all(&folder)?;
        Ok(())
    }
}
