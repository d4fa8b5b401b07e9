//! Generated traffic for benches, and the pipelines that people build from existing crates.

pub mod peers;
pub mod streams;
