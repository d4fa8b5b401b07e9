//! A look at a frame before it counts: does it continue the response or begin the next?

use crate::event::Sink;
use crate::fragment::{Fragment, FragmentArguments, FragmentKind};

/// The facts about a frame that decide this. Decoding is pure, so a frame may be read twice.
#[derive(Debug, Default)]
pub(super) struct FrameGlance {
    /// The response's id, if the frame gives one.
    pub(super) id: Option<String>,
    /// Whether content begins or grows.
    pub(super) is_fresh: bool,
    /// Whether content comes complete, perhaps once more.
    pub(super) is_complete: bool,
    pub(super) has_finish: bool,
    /// Whether it belongs to a choice.
    pub(super) has_choice: bool,
    /// Whether it has token counts, which come last.
    pub(super) has_usage: bool,
    pub(super) has_error: bool,
}

impl<'f> Sink<Fragment<'f>> for FrameGlance {
    fn put(&mut self, fragment: Fragment<'f>) {
        match fragment.part {
            FragmentKind::Start { id: Some(id), .. } if !id.is_empty() => {
                self.id = Some(id.reveal().to_cow().into_owned())
            }
            FragmentKind::Open { .. } => self.is_fresh = true,
            FragmentKind::Text { text, .. } => self.is_fresh |= !text.is_empty(),
            FragmentKind::Call {
                arguments: Some(FragmentArguments::Complete(_) | FragmentArguments::Value(_)),
                ..
            } => {
                self.is_complete = true;
            }
            FragmentKind::Call { .. } => self.is_fresh = true,
            FragmentKind::Restate { text, .. } => self.is_complete |= !text.is_empty(),
            FragmentKind::Finish { .. } => self.has_finish = true,
            FragmentKind::Error(_) => self.has_error = true,
            FragmentKind::ToolResult { .. } | FragmentKind::Opaque { .. } => self.is_complete = true,
            FragmentKind::Choice => self.has_choice = true,
            FragmentKind::Usage { .. } | FragmentKind::Step { .. } => self.has_usage = true,
            FragmentKind::Start { .. }
            | FragmentKind::Item { .. }
            | FragmentKind::ItemEnd
            | FragmentKind::Rerouted { .. }
            | FragmentKind::Same { .. }
            | FragmentKind::End
            | FragmentKind::Truncated
            | FragmentKind::Attach { .. }
            | FragmentKind::Progress { .. }
            | FragmentKind::Detail { .. }
            | FragmentKind::ResultOf { .. }
            | FragmentKind::Done
            | FragmentKind::HalfDone
            | FragmentKind::Extra { .. }
            | FragmentKind::Notice { .. } => {}
        }
    }
}

impl FrameGlance {
    /// Whether it gives an id that is not `known`.
    pub(super) fn has_other_id(&self, known: Option<&str>) -> bool {
        self.id.is_some() && self.id.as_deref() != known
    }

    pub(super) fn has_content(&self) -> bool {
        self.is_fresh || self.is_complete
    }
}
