//! Repair of JSON as models write it.
