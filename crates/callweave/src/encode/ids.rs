//! Ids for clients, which find the call of a result by its id.

use std::collections::HashSet;

use super::EncodeContext;

/// The ids of a response's calls. An id that several calls share is left to the first of them.
#[derive(Default)]
pub(crate) struct UniqueCallIds(HashSet<String>);

impl UniqueCallIds {
    /// The id under which the next call is written: for clients a unique one, else the provider's own.
    pub(crate) fn written(&mut self, context: &EncodeContext, id: &str, is_made: bool) -> Option<String> {
        match context.is_normalized() {
            true => Some(self.claim(id)),
            false => Some(id.to_owned()).filter(|id| !is_made && !id.is_empty()),
        }
    }

    /// The id of the next call for clients.
    pub(crate) fn claim(&mut self, id: &str) -> String {
        let mut own = id.to_owned();
        let mut ordinal = self.0.len();
        while own.is_empty() || self.0.contains(&own) {
            own = format!("{}_{ordinal}", if id.is_empty() { "tool" } else { id });
            ordinal += 1;
        }
        self.0.insert(own.clone());
        own
    }
}
