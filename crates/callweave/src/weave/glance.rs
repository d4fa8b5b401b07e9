//! What a frame would say, looked at before it counts: does it go on with the answer or begin the next?

use crate::event::Sink;
use crate::fragment::{Arguments, Fragment, Part};

/// What matters of a frame for that. Decoding is pure, so a frame may be read twice.
#[derive(Debug, Default)]
pub(super) struct Glance {
    /// The answer's id, if the frame gives one.
    pub(super) id: Option<String>,
    /// Whether content begins or grows.
    pub(super) is_fresh: bool,
    /// Whether content is told whole, perhaps once more.
    pub(super) is_whole: bool,
    pub(super) has_finish: bool,
    /// Whether it speaks of a choice.
    pub(super) has_choice: bool,
    /// Whether it has token counts, which come last.
    pub(super) has_usage: bool,
    pub(super) has_error: bool,
}

impl<'f> Sink<Fragment<'f>> for Glance {
    fn put(&mut self, fragment: Fragment<'f>) {
        match fragment.part {
            Part::Start { id: Some(id), .. } if !id.is_empty() => self.id = Some(id.to_cow().into_owned()),
            Part::Open { .. } => self.is_fresh = true,
            Part::Text { text, .. } => self.is_fresh |= !text.is_empty(),
            Part::Call { arguments: Some(Arguments::Whole(_) | Arguments::Value(_)), .. } => {
                self.is_whole = true;
            }
            Part::Call { .. } => self.is_fresh = true,
            Part::Restate { text, .. } => self.is_whole |= !text.is_empty(),
            Part::Finish { .. } => self.has_finish = true,
            Part::Error(_) => self.has_error = true,
            Part::ToolResult { .. } | Part::Opaque { .. } => self.is_whole = true,
            Part::Choice => self.has_choice = true,
            Part::Usage { .. } | Part::Step { .. } => self.has_usage = true,
            Part::Start { .. }
            | Part::Item { .. }
            | Part::ItemEnd
            | Part::Rerouted { .. }
            | Part::Same { .. }
            | Part::End
            | Part::Cut
            | Part::Attach { .. }
            | Part::Progress { .. }
            | Part::Detail { .. }
            | Part::Answers { .. }
            | Part::Done
            | Part::HalfDone
            | Part::Foreign { .. }
            | Part::Notice { .. } => {}
        }
    }
}

impl Glance {
    /// Whether it gives an id that is not `known`.
    pub(super) fn has_other_id(&self, known: Option<&str>) -> bool {
        self.id.is_some() && self.id.as_deref() != known
    }

    pub(super) fn has_content(&self) -> bool {
        self.is_fresh || self.is_whole
    }
}
