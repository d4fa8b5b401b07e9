//! JSON as providers and models write it.
//!
//! - [`JsonScanner`]: is this growing text a complete value yet? It resumes after any piece.
//! - [`partial`]: the best value so far of a growing text.
//! - [`schema`]: coercion of values to the JSON Schema of a tool.
//! - [`Value`]: a value in memory that keeps its written form.
//! - [`Str`]: a string as it stands in JSON, decoded only when needed.

mod compact;
pub(crate) mod lane;
mod opaque;
pub mod partial;
pub mod repair;
mod scanner;
pub mod schema;
mod str;
mod tape;
mod value;
mod word;
mod write;

pub use compact::compact_into;
#[doc(hidden)]
pub use opaque::Opaque;
pub use scanner::{JsonContainer, JsonLiteral, JsonScanner, ScanStatus, ScanToken, ScanVisitor};
pub(crate) use str::escape_bytes;
pub use str::{PendingSurrogate, Str, escape_into};
// The core: frames are read from it.
pub use tape::JsonKind;
pub(crate) use tape::{CheckedText, Inspected, NodeMark, TapeLeaf, number_end, string_end, with_spare_tape};
#[doc(hidden)]
pub use tape::{NodeElements, NodeMembers, Tape, TapeNode};
pub(crate) use value::bounded;
pub use value::{Array, AsValue, Number, Object, Value};
pub(crate) use word::{ascii_end, blank_end, digits_alone_end, has_either, word as word_at};
pub(crate) use write::{JsonWriter, MemberPaths, each_member, split_below, write_members};
