//! Functions that find calls where no grammar can.

use std::fmt;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;

/// A call that a [`CallMatcher`] found.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MatchedCall {
    /// Where it begins in the text that the matcher was given, in bytes.
    pub start: usize,
    /// The byte after its end.
    pub end: usize,
    /// The tool's name.
    pub name: String,
    /// The arguments, as JSON text.
    pub arguments: String,
}

/// A function that finds calls in a piece of text.
///
/// It is given the text between two markers once both have come (or the text has ended), or the complete text where it
/// has no markers; never a growing buffer. One that panics, or returns ranges that are not in the text or overlap, is
/// left out with a notice.
///
/// ```
/// use callweave::dialect::{Dialect, Extraction, CallForm, MatchedCall, CallMatcher, ExtractOptions};
///
/// let shout = CallMatcher::new("shout", |text| {
///     let name = text.trim().to_lowercase();
///     vec![MatchedCall { start: 0, end: text.len(), name, arguments: "{}".to_owned() }]
/// });
/// let dialect = Dialect::new("shout").form(CallForm::matched(shout).between("!!", "!!"));
/// let found = Extraction::of("Now: !!LOOK!! Done.", &ExtractOptions::with_dialects(vec![dialect]));
/// assert_eq!(found.calls[0].name, "look");
/// assert_eq!(found.content, "Now:  Done.");
/// ```
#[derive(Clone)]
pub struct CallMatcher {
    name: String,
    function: Arc<MatcherFn>,
}

type MatcherFn = dyn Fn(&str) -> Vec<MatchedCall> + Send + Sync;

impl CallMatcher {
    /// A matcher, and the name by which notices refer to it.
    pub fn new(name: &str, function: impl Fn(&str) -> Vec<MatchedCall> + Send + Sync + 'static) -> Self {
        Self { name: name.to_owned(), function: Arc::new(function) }
    }

    /// The name it was registered under.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Returns the calls it finds in `text`, in order; or the fault in its result, if there is one.
    pub fn find(&self, text: &str) -> Result<Vec<MatchedCall>, String> {
        let answer = catch_unwind(AssertUnwindSafe(|| (self.function)(text)));
        let Ok(mut found) = answer else { return Err(format!("the matcher {:?} panicked", self.name)) };
        found.sort_by_key(|call| call.start);
        let mut from = 0;
        for call in &found {
            let is_inside = call.start >= from && call.start <= call.end && call.end <= text.len();
            if !is_inside || !text.is_char_boundary(call.start) || !text.is_char_boundary(call.end) {
                return Err(format!("the matcher {:?} answered a range that cannot be", self.name));
            }
            from = call.end;
        }
        found.retain(|call| !call.name.is_empty() && call.start < call.end);
        Ok(found)
    }
}

impl fmt::Debug for CallMatcher {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Matcher").field("name", &self.name).finish_non_exhaustive()
    }
}
