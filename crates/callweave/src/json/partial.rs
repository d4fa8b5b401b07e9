//! The best value so far of a growing JSON text.
