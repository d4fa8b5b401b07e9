//! Text deltas in, events out.

use std::sync::{Arc, OnceLock};

use super::engine::{ReadingMode, TextEngine};
use super::matcher::MatchedCall;
use super::plan::DialectPlan;
use super::registry::DialectRegistry;
use super::spec::{Dialect, ReasoningMarkers, TextStart};
use super::tools::Tools;
use crate::error::{Error, Result};
use crate::event::{BlockCompletion, EventSink};

/// How a text is to be read.
///
/// ```
/// use callweave::dialect::{ExtractOptions, TextStart};
///
/// let options = ExtractOptions::new("hermes")?.starting_in(TextStart::Reasoning);
/// # Ok::<(), callweave::Error>(())
/// ```
#[derive(Clone, Debug)]
pub struct ExtractOptions {
    /// Many, and the same for every response of a model.
    dialects: Arc<[Dialect]>,
    /// Further dialects, whose calls are found where their markers leave no doubt.
    others: Arc<[Dialect]>,
    tools: Arc<Tools>,
    starting_in: Option<TextStart>,
    is_trusting: bool,
    accepts_after_damage: bool,
    /// The dialects made ready, once somebody needs them; shared by all clones.
    plan: Arc<OnceLock<Arc<DialectPlan>>>,
}

/// The built-in dialect of a name, as [`ExtractOptions::new`].
impl TryFrom<&str> for ExtractOptions {
    type Error = Error;

    fn try_from(name: &str) -> Result<Self> {
        Self::new(name)
    }
}

impl ExtractOptions {
    /// Reads the built-in dialect of that name; `auto` lets the text decide.
    pub fn new(name: &str) -> Result<Self> {
        DialectRegistry::builtin().options(name)
    }

    /// Reads these dialects: the text decides if there are several. They are taken as they are, empty
    /// markers ignored; [`Dialect::check`] says whether one lacks something.
    pub fn with_dialects(dialects: Vec<Dialect>) -> Self {
        Self {
            dialects: dialects.into(),
            others: Arc::default(),
            tools: Arc::default(),
            starting_in: None,
            is_trusting: false,
            accepts_after_damage: false,
            plan: Arc::default(),
        }
    }

    /// Finds the calls of these dialects, too, as a text that decides for itself would: naming a dialect only adds.
    pub(super) fn among(mut self, others: Arc<[Dialect]>) -> Self {
        self.others = others;
        self
    }

    /// Declares the tools that the model was given: their schemas give types to untyped values, and their names
    /// distinguish calls from prose.
    #[must_use]
    pub fn tools(mut self, tools: Tools) -> Self {
        self.tools = Arc::new(tools);
        self
    }

    /// Sets the kind of text that the response begins with.
    #[must_use]
    pub fn starting_in(mut self, start: TextStart) -> Self {
        self.starting_in = Some(start);
        self
    }

    /// Derives the kind of text that the response begins with from the end of the prompt that it continues: reasoning
    /// if the prompt opened it and did not close it.
    #[must_use]
    pub fn after_prompt(mut self, prompt: &str) -> Self {
        let last = |markers: fn(&ReasoningMarkers) -> &Vec<String>| {
            let reasoning = self.dialects.iter().flat_map(|dialect| &dialect.reasoning);
            let markers = reasoning.flat_map(markers).filter(|marker| !marker.is_empty());
            markers.filter_map(|marker| prompt.rfind(marker.as_str())).max()
        };
        let is_open = last(|pair| &pair.open) > last(|pair| &pair.close);
        self.starting_in = Some(if is_open { TextStart::Reasoning } else { TextStart::Text });
        self
    }

    /// Lets calls count that stand behind a damaged call whose end is in doubt. Without this they are found and marked
    /// ([`BlockCompletion::AfterDamage`]) but invalid: such a call may be a part of the text that the damaged one was
    /// to write into a file.
    #[must_use]
    pub fn accepting_calls_after_damage(mut self) -> Self {
        self.accepts_after_damage = true;
        self
    }

    pub(super) fn accepts_after_damage(&self) -> bool {
        self.accepts_after_damage
    }

    /// Takes any text that reads as a call for one, regardless of its position, for a caller that has rules of its own.
    pub(crate) fn trusting(mut self) -> Self {
        self.is_trusting = true;
        self
    }

    /// The dialects to be read.
    pub fn dialects(&self) -> &[Dialect] {
        &self.dialects
    }

    /// Whether the two share the dialects made ready.
    #[cfg(test)]
    pub(super) fn shares_plan(&self, other: &Self) -> bool {
        Arc::ptr_eq(&self.plan, &other.plan)
    }

    /// An extractor whose events are those of a choice.
    pub(super) fn extractor(&self, choice: u32) -> Extractor {
        let plan = self.plan.get_or_init(|| Arc::new(DialectPlan::new(self.dialects.to_vec(), &self.others)));
        let (plan, tools) = (Arc::clone(plan), Arc::clone(&self.tools));
        let Self { is_trusting, accepts_after_damage, .. } = *self;
        let manner = ReadingMode { choice, is_trusting, accepts_after_damage };
        Extractor { engine: TextEngine::new(plan, tools, self.starting_in, manner), held: String::new() }
    }
}

/// Finds reasoning and tool calls in one text stream. See the [module](super).
#[derive(Debug)]
pub struct Extractor {
    engine: TextEngine,
    /// The text that has come and is not accounted for yet.
    held: String,
}

impl Extractor {
    /// An extractor before its text.
    pub fn new(options: &ExtractOptions) -> Self {
        options.extractor(0)
    }

    /// Reads on. Events come as soon as their meaning is certain.
    #[inline]
    pub fn push(&mut self, delta: &str, sink: &mut EventSink<'_>) {
        if !self.held.is_empty() || !self.engine.takes_as_is(delta, sink) {
            self.push_on(delta, sink);
        }
    }

    fn push_on(&mut self, delta: &str, sink: &mut EventSink<'_>) {
        if self.engine.waits_for_all() {
            return self.held.push_str(delta);
        }
        if self.held.is_empty() {
            let taken = self.engine.take_most(delta, sink);
            let taken = taken.unwrap_or_else(|| self.engine.read(delta, false, sink));
            return self.held.push_str(&delta[taken..]);
        }
        self.held.push_str(delta);
        let taken = match self.engine.take_most(&self.held, sink) {
            Some(taken) => taken,
            None if self.engine.takes_as_is(&self.held, sink) => self.held.len(),
            None => self.engine.read(&self.held, false, sink),
        };
        self.held.drain(..taken);
    }

    /// Says that the model has ended its response, and ends what is open.
    pub fn finish(&mut self, sink: &mut EventSink<'_>) {
        self.end(BlockCompletion::Complete, sink);
    }

    /// Says that no more text will come: because the model has ended its response, or because a limit has truncated it.
    pub fn end(&mut self, answer: BlockCompletion, sink: &mut EventSink<'_>) {
        self.engine.ends(answer);
        let held = std::mem::take(&mut self.held);
        if self.engine.waits_for_all() {
            self.match_all(&held, sink);
        } else {
            self.engine.read(&held, true, sink);
        }
        self.engine.finish(sink);
    }

    fn match_all(&mut self, text: &str, sink: &mut EventSink<'_>) {
        let mut calls: Vec<MatchedCall> = Vec::new();
        let mut complaints = Vec::new();
        for matcher in self.engine.whole_text_matchers() {
            match matcher.find(text) {
                // A call that one matcher has found, the next one cannot find again.
                Ok(found) => {
                    let is_free = |call: &MatchedCall| {
                        calls.iter().all(|other| call.end <= other.start || other.end <= call.start)
                    };
                    let free: Vec<_> = found.into_iter().filter(is_free).collect();
                    calls.extend(free);
                }
                Err(complaint) => complaints.push(complaint),
            }
        }
        calls.sort_by_key(|call| call.start);
        self.engine.read_around(text, (&calls, complaints), sink);
    }

    /// The dialect being read; with several, the one that the text has settled on.
    pub fn dialect(&self) -> Option<&str> {
        self.engine.dialect()
    }
}
