//! Fitting arguments to the JSON Schema of a tool.
