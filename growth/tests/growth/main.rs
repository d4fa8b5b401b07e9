//! The work grows with the input, whatever the input.

mod coercion;
mod decoder;
mod dialects;
mod partial;
mod repair;
mod requests;
