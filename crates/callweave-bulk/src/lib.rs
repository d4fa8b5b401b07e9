//! Recorded responses in bulk: rows in, columns and counts out.
//!
//! - [`row`]: the bytes of one response → its text, reasoning, calls with their outcomes, and the reason why it failed.
//! - [`columns`] (feature `arrow`): columns of responses or texts → the columns that engines such as Spark, Polars and
//!   DuckDB go on with.
//! - [`files`] (feature `parquet`): the same for files of Parquet.
//! - [`report`]: rows → counts by model, dialect, outcome and class of error, as a table, a plot and a page.
//! - [`sample`]: generated traffic of ten protocols, the same for every run.
//!
//! A row never fails: what is wrong with it is one of its values.

#[cfg(feature = "arrow")]
pub mod columns;
#[cfg(feature = "parquet")]
pub mod files;
pub mod report;
pub mod row;
pub mod sample;
