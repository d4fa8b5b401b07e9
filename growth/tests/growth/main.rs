//! The work grows with the input, for any input.

mod coercion;
mod decoder;
mod dialects;
mod partial;
mod repair;
mod requests;
