//! The one fold for all protocols: fragments → events.

/// The fold.
pub struct Weave {}
