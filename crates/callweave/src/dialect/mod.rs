//! What a model writes inside its text to call tools or to think: text deltas → events.
