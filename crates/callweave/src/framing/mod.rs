//! Bytes in any cut → frames.
