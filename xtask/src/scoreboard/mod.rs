//! The scores of callweave on the test data of others.

pub(crate) mod dialects;
pub(crate) mod repair;
pub(crate) mod schema;
