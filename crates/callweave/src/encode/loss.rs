//! Losses: the named parts of a response that a wire cannot express.
//!
//! In its own protocol nothing is lost. For the others each protocol has a row ([`WireCapabilities`]) of the features
//! it lacks. The same rules apply to the events of a stream and to a complete message, and both name the same losses.

use std::collections::{HashMap, HashSet};
use std::fmt;

use super::EncodeOptions;
use crate::event::{
    AttachmentKind, BlockCompletion, BlockId, BlockKind, CallKind, Event, EventKind, EventScope,
    FinishReason, JsonText, Notice, NoticeCode, ReasoningForm, TokenCounts,
};
use crate::json::each_member;
use crate::message::{Attachment, Block, BlockContent, Choice, ExtraFields, Message};
use crate::protocol::error_word;
use crate::request::Loss;
use crate::upstream::{ErrorClass, UpstreamError};

/// A feature of responses that not every wire can express.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum WireFeature {
    Id,
    Model,
    OtherChoices,
    Refusal,
    Summary,
    RawReasoning,
    Signature,
    OtherSignature,
    Encrypted,
    Annotation,
    Logprobs,
    Custom,
    Cut,
    Builtin,
    Result,
    Opaque,
    /// Content without a wire type.
    Unnamed,
    Finish,
    ErrorClass,
    Total,
    Cached,
    CacheWrite,
    ReasoningTokens,
    /// More cached tokens than input tokens.
    OddCached,
    /// More reasoning tokens than output tokens.
    OddReasoningTokens,
    /// The input ended before the response did.
    CutOff,
    /// Token counts of a response that has no end.
    CountsWithoutEnd,
    /// The id or model of a failed response.
    NamesOfFailure,
    /// A correction of text that a stream has already emitted.
    Correction,
    LateId,
}

impl WireFeature {
    fn name(self) -> &'static str {
        match self {
            Self::Id => "id",
            Self::Model => "model",
            Self::OtherChoices => "other choices",
            Self::Refusal => "refusal",
            Self::Summary | Self::RawReasoning => "form of reasoning",
            Self::Signature => "signature of reasoning",
            Self::OtherSignature => "signature of other content",
            Self::Encrypted => "encrypted reasoning",
            Self::Annotation => "annotation",
            Self::Logprobs => "log probabilities",
            Self::Custom => "kind of a custom call",
            Self::Cut => "cut of a call",
            Self::Builtin => "call that the provider ran",
            Self::Result => "result that the provider has",
            Self::Opaque | Self::Unnamed => "other content",
            Self::Finish => "finish reason",
            Self::ErrorClass => "class of an error",
            Self::Total => "total tokens",
            Self::Cached | Self::OddCached => "cached tokens",
            Self::CacheWrite => "cache write tokens",
            Self::ReasoningTokens | Self::OddReasoningTokens => "reasoning tokens",
            Self::CutOff => "cut of the answer",
            Self::CountsWithoutEnd => "token counts of an answer without end",
            Self::NamesOfFailure => "id or model of a failed answer",
            Self::Correction => "correction of what a stream has told",
            Self::LateId => "id that comes late",
        }
    }
}

/// Features that clients do not get of responses in their own protocol, either.
const OF_ITS_OWN: &[WireFeature] = &[
    WireFeature::Unnamed,
    WireFeature::Cut,
    WireFeature::Finish,
    WireFeature::CutOff,
    WireFeature::CountsWithoutEnd,
    WireFeature::NamesOfFailure,
    WireFeature::Correction,
    WireFeature::LateId,
];

/// Features that no wire can express for responses of other protocols.
const UNSUPPORTED_EVERYWHERE: &[WireFeature] = &[
    WireFeature::Builtin,
    WireFeature::Result,
    WireFeature::Opaque,
    WireFeature::Unnamed,
    WireFeature::CutOff,
    WireFeature::Correction,
    WireFeature::LateId,
];

/// The capabilities of a wire for responses of other protocols.
#[derive(Clone, Copy)]
pub(crate) struct WireCapabilities {
    /// The wire types of its own responses, which it can express completely; empty where nothing is passed on to
    /// clients.
    pub(crate) own: &'static [&'static str],
    /// The further features it cannot express.
    pub(crate) unsupported: &'static [WireFeature],
    /// Whether it can express an attachment of reasoning of that form.
    pub(crate) writes_attachment: fn(ReasoningForm, AttachmentKind, &JsonText<'_>) -> bool,
    /// Whether its log probabilities have this form.
    pub(crate) logprobs: fn(&JsonText<'_>) -> bool,
    /// The finish reasons that it does not distinguish.
    pub(crate) indistinct_finish: &'static [FinishReason],
    /// Its names for the classes of errors.
    pub(crate) errors: &'static [(&'static str, ErrorClass)],
}

impl WireCapabilities {
    /// The capabilities that most wires share.
    pub(crate) const BASE: Self = Self {
        own: &[],
        unsupported: &[],
        writes_attachment: |_, _, _| false,
        logprobs: |_| false,
        indistinct_finish: &[FinishReason::Other],
        errors: &[],
    };

    fn lacks(&self, feature: WireFeature) -> bool {
        UNSUPPORTED_EVERYWHERE.contains(&feature) || self.unsupported.contains(&feature)
    }
}

/// The row of the protocol that a response of that wire type and model is written in.
pub(crate) type CapabilityRow = fn(&str, Option<&str>, &EncodeOptions) -> WireCapabilities;

/// The location of a loss.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
enum LossLocation {
    Answer,
    Choice(u32),
    /// The choice, and the ordinal of the block in it.
    Block(u32, u32),
}

impl fmt::Display for LossLocation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Answer => Ok(()),
            Self::Choice(choice) => write!(f, "choices[{choice}]"),
            Self::Block(choice, block) => write!(f, "choices[{choice}].blocks[{block}]"),
        }
    }
}

/// Records the losses of a response.
pub(crate) struct LossLedger {
    row: CapabilityRow,
    options: EncodeOptions,
    losses: Vec<Loss>,
    reported: HashSet<(LossLocation, WireFeature)>,
    extra: HashSet<String>,
    /// None in lossless mode.
    capabilities: Option<WireCapabilities>,
    /// Whether the response came in this protocol.
    is_own: bool,
    /// The first choice that was mentioned.
    choice: Option<u32>,
    /// The open blocks: the form of blocks of reasoning, and the ordinal of each block.
    open: HashMap<BlockId, (Option<ReasoningForm>, u32)>,
    blocks: u32,
    /// The ids of calls that clients run.
    calls: HashSet<String>,
    /// Whether clients derive another finish reason from the content they get.
    is_misread: bool,
    /// Whether the response has no end.
    is_endless: bool,
    has_counts: bool,
    is_named: bool,
}

impl LossLedger {
    /// Returns a ledger for an encoder of streams.
    pub(crate) fn new(row: CapabilityRow, options: &EncodeOptions) -> Self {
        Self {
            row,
            options: options.clone(),
            losses: Vec::new(),
            reported: HashSet::new(),
            extra: HashSet::new(),
            capabilities: None,
            is_own: false,
            choice: None,
            open: HashMap::new(),
            blocks: 0,
            calls: HashSet::new(),
            is_misread: false,
            is_endless: false,
            has_counts: false,
            is_named: false,
        }
    }

    /// Returns the losses of a complete message.
    pub(crate) fn of(row: CapabilityRow, message: &Message, options: &EncodeOptions) -> Vec<Loss> {
        let mut ledger = Self::new(row, options);
        ledger.start(&message.wire_type, message.id.as_deref(), message.model.as_deref());
        ledger.belongings(LossLocation::Answer, None, &message.attachments, &message.extra);
        message.errors.iter().for_each(|error| ledger.error(error));
        message.notices.iter().for_each(|notice| ledger.notice(notice));
        if let Some(usage) = &message.usage {
            ledger.usage(&usage.counters());
        }
        ledger.choice = message.first().map(|choice| choice.number);
        for choice in &message.choices {
            if ledger.capabilities.is_some() && ledger.is_written(choice.number) {
                ledger.complete_choice(choice);
            }
        }
        ledger.losses
    }

    fn complete_choice(&mut self, choice: &Choice) {
        let location = LossLocation::Choice(choice.number);
        self.belongings(location, None, &choice.attachments, &choice.extra);
        for item in &choice.items {
            self.belongings(location, None, &item.attachments, &item.extra);
        }
        for block in &choice.blocks {
            let Block { id, wire_type, attachments, extra, content, .. } = block;
            self.block(choice.number, *id, &block_kind(content), wire_type);
            let (on, location) = self.location(choice.number, *id);
            self.belongings(location, on, attachments, extra);
            if let BlockContent::ToolCall(call) = content {
                self.end(choice.number, *id, call.completion);
            }
        }
        if let Some(finish) = &choice.finish {
            self.finish(choice.number, finish.reason);
        }
    }

    fn belongings(
        &mut self,
        location: LossLocation,
        on: Option<ReasoningForm>,
        attachments: &[Attachment],
        extra: &ExtraFields,
    ) {
        attachments.iter().for_each(|own| self.attachment(location, on, own.kind, &own.value));
        extra.iter().for_each(|(path, _)| self.member(path));
    }

    /// The losses of the response so far.
    pub(crate) fn losses(&self) -> &[Loss] {
        &self.losses
    }

    /// Takes the next event of a stream.
    pub(crate) fn take(&mut self, event: &Event<'_>) {
        match &event.body {
            EventKind::Start { id, model, wire_type, extra: members } => {
                // A truncated input may be noticed before its response begins.
                *self = Self { is_endless: self.is_endless, ..Self::new(self.row, &self.options) };
                self.start(wire_type, id.as_deref(), model.as_deref());
                each_member(members.as_ref(), |path, _| self.member(path));
            }
            EventKind::Notice(notice) => {
                self.notice(notice);
                // The call was already emitted, and can no longer be marked.
                if notice.code == NoticeCode::IncompleteArguments && notice.block.is_some() {
                    self.put(LossLocation::Choice(event.choice), WireFeature::Correction);
                }
            }
            _ if self.capabilities.is_none() => {}
            EventKind::Usage { counters, .. } => self.usage(counters),
            EventKind::Error(error) => self.error(error),
            EventKind::End => {
                if std::mem::take(&mut self.is_endless) && self.has_counts {
                    self.put(LossLocation::Answer, WireFeature::CountsWithoutEnd);
                }
            }
            EventKind::Extra { path, .. } => self.member(path),
            EventKind::Identity { scope: EventScope::Response, .. } => {
                self.put(LossLocation::Answer, WireFeature::LateId)
            }
            EventKind::Attachment { scope: EventScope::Response, kind, value, .. } => {
                self.attachment(LossLocation::Answer, None, *kind, value);
            }
            body => {
                if self.is_written(event.choice) {
                    self.of_choice(event.choice, body);
                }
            }
        }
    }

    /// Takes an event of a choice that is written.
    fn of_choice(&mut self, choice: u32, body: &EventKind<'_>) {
        match body {
            EventKind::BlockStart { block, kind, wire_type, extra: members, .. } => {
                self.block(choice, *block, kind, wire_type);
                each_member(members.as_ref(), |path, _| self.member(path));
            }
            EventKind::Attachment { scope: EventScope::Block(block), kind, value, .. } => {
                let (on, location) = self.location(choice, *block);
                self.attachment(location, on, *kind, value);
            }
            EventKind::Attachment { kind, value, .. } => {
                self.attachment(LossLocation::Choice(choice), None, *kind, value)
            }
            EventKind::Correction { block, .. } => {
                self.put(self.location(choice, *block).1, WireFeature::Correction)
            }
            EventKind::Identity { scope: EventScope::Block(block), id: Some(_), .. } => {
                self.put(self.location(choice, *block).1, WireFeature::LateId);
            }
            EventKind::BlockEnd { block, completion } => {
                self.end(choice, *block, *completion);
                self.open.remove(block);
            }
            EventKind::Finish { reason, .. } => self.finish(choice, *reason),
            _ => {}
        }
    }

    fn location(&self, choice: u32, block: BlockId) -> (Option<ReasoningForm>, LossLocation) {
        match self.open.get(&block) {
            Some((form, ordinal)) => (*form, LossLocation::Block(choice, *ordinal)),
            None => (None, LossLocation::Choice(choice)),
        }
    }

    fn put(&mut self, location: LossLocation, feature: WireFeature) {
        let is_lost = self.capabilities.is_some_and(|capabilities| capabilities.lacks(feature));
        if is_lost {
            self.lose(location, feature);
        }
    }

    fn lose(&mut self, location: LossLocation, feature: WireFeature) {
        let is_kept = self.is_own && !OF_ITS_OWN.contains(&feature);
        if self.capabilities.is_some() && !is_kept && self.reported.insert((location, feature)) {
            self.losses.push(loss(location, feature.name().to_owned()));
        }
    }

    /// Reports an extra field of another protocol as lost.
    fn member(&mut self, path: &str) {
        if self.capabilities.is_some() && !self.is_own && !self.extra.contains(path) {
            self.extra.insert(path.to_owned());
            self.losses.push(loss(LossLocation::Answer, format!("member {path}")));
        }
    }

    fn start(&mut self, wire_type: &str, id: Option<&str>, model: Option<&str>) {
        let capabilities = (self.row)(wire_type, model, &self.options);
        self.capabilities = Some(capabilities).filter(|_| self.options.is_normalized());
        self.is_own = capabilities.own.contains(&wire_type);
        self.is_named = id.is_some() || model.is_some();
        if self.is_endless {
            self.put(LossLocation::Answer, WireFeature::CutOff);
        }
        for (name, feature) in [(id, WireFeature::Id), (model, WireFeature::Model)] {
            if name.is_some() {
                self.put(LossLocation::Answer, feature);
            }
        }
    }

    fn notice(&mut self, notice: &Notice<'_>) {
        if notice.code == NoticeCode::Truncated {
            self.is_endless = true;
            self.put(LossLocation::Answer, WireFeature::CutOff);
        }
    }

    fn error(&mut self, error: &UpstreamError<'_>) {
        self.is_endless = true;
        if self.is_named {
            self.put(LossLocation::Answer, WireFeature::NamesOfFailure);
        }
        let Some(capabilities) = self.capabilities else { return };
        let wire_type = error_word(error, capabilities.errors);
        let class =
            capabilities.errors.iter().find(|(known, _)| Some(*known) == wire_type).map(|(_, class)| *class);
        // A wire without error names of its own writes the class beside the message.
        if !capabilities.errors.is_empty() && class != Some(error.class) {
            self.lose(LossLocation::Answer, WireFeature::ErrorClass);
        }
    }

    fn usage(&mut self, counters: &TokenCounts) {
        self.has_counts = true;
        let TokenCounts { input_tokens, output_tokens, total_tokens, .. } = *counters;
        let sum = input_tokens.unwrap_or(0).saturating_add(output_tokens.unwrap_or(0));
        let is_some = |count: Option<u64>| count.is_some_and(|count| count > 0);
        // Some providers report a part that exceeds the total.
        let is_odd = |part: Option<u64>, all: Option<u64>| part > all && all.is_some();
        for (is_there, feature) in [
            (total_tokens.is_some_and(|total| total != sum), WireFeature::Total),
            (is_some(counters.cached_tokens), WireFeature::Cached),
            (is_some(counters.cache_write_tokens), WireFeature::CacheWrite),
            (is_some(counters.reasoning_tokens), WireFeature::ReasoningTokens),
            (is_odd(counters.cached_tokens, input_tokens), WireFeature::OddCached),
            (is_odd(counters.reasoning_tokens, output_tokens), WireFeature::OddReasoningTokens),
        ] {
            if is_there {
                self.put(LossLocation::Answer, feature);
            }
        }
    }

    /// Whether the choice is written.
    fn is_written(&mut self, choice: u32) -> bool {
        let is_first = *self.choice.get_or_insert(choice) == choice;
        let is_written = is_first
            || !self.capabilities.is_some_and(|capabilities| capabilities.lacks(WireFeature::OtherChoices));
        if !is_written {
            self.lose(LossLocation::Choice(choice), WireFeature::OtherChoices);
        }
        is_written
    }

    fn block(&mut self, choice: u32, block: BlockId, kind: &BlockKind<'_>, wire_type: &str) {
        let location = LossLocation::Block(choice, self.blocks);
        let mut form = None;
        match kind {
            BlockKind::Text => {}
            BlockKind::Refusal => self.put(location, WireFeature::Refusal),
            BlockKind::Reasoning(own) => {
                form = Some(*own);
                match own {
                    ReasoningForm::Summary => self.put(location, WireFeature::Summary),
                    ReasoningForm::Raw => self.put(location, WireFeature::RawReasoning),
                    ReasoningForm::Redacted => {}
                }
            }
            BlockKind::ToolCall { call: CallKind::Builtin, .. } => self.put(location, WireFeature::Builtin),
            BlockKind::ToolCall { id, call, .. } => {
                self.calls.extend(id.as_deref().map(str::to_owned));
                if *call == CallKind::Custom {
                    self.put(location, WireFeature::Custom);
                }
            }
            BlockKind::ToolResult { call, .. } => {
                self.put(location, WireFeature::Result);
                // To the client, such a call seems to wait for its result.
                self.is_misread |= call.as_deref().is_some_and(|call| self.calls.contains(call));
            }
            // No client of any protocol can read content without a wire type.
            BlockKind::Opaque { .. } if wire_type.is_empty() => self.put(location, WireFeature::Unnamed),
            BlockKind::Opaque { .. } => self.put(location, WireFeature::Opaque),
        }
        self.open.insert(block, (form, self.blocks));
        self.blocks += 1;
    }

    fn end(&mut self, choice: u32, block: BlockId, completion: BlockCompletion) {
        if completion != BlockCompletion::Complete {
            self.put(self.location(choice, block).1, WireFeature::Cut);
            // A call that seems complete to the client seems to wait for its result, and one that seems truncated does
            // not.
            self.is_misread = true;
        }
    }

    fn attachment(
        &mut self,
        location: LossLocation,
        on: Option<ReasoningForm>,
        kind: AttachmentKind,
        value: &JsonText<'_>,
    ) {
        let Some(capabilities) = self.capabilities else { return };
        let is_expressed = match (kind, on) {
            (AttachmentKind::Logprobs, _) => (capabilities.logprobs)(value),
            (AttachmentKind::Annotation, _) => false,
            (AttachmentKind::Signature | AttachmentKind::Encrypted, Some(form)) => {
                (capabilities.writes_attachment)(form, kind, value)
            }
            (AttachmentKind::Signature | AttachmentKind::Encrypted, None) => false,
        };
        let feature = match (kind, on) {
            (AttachmentKind::Logprobs, _) => WireFeature::Logprobs,
            (AttachmentKind::Annotation, _) => WireFeature::Annotation,
            (AttachmentKind::Encrypted, _) => WireFeature::Encrypted,
            (AttachmentKind::Signature, Some(_)) => WireFeature::Signature,
            (AttachmentKind::Signature, None) => WireFeature::OtherSignature,
        };
        if !is_expressed {
            self.lose(location, feature);
        }
    }

    fn finish(&mut self, choice: u32, reason: FinishReason) {
        let is_expressed = self.is_own
            || self
                .capabilities
                .is_some_and(|capabilities| !capabilities.indistinct_finish.contains(&reason));
        if !is_expressed || std::mem::take(&mut self.is_misread) {
            self.lose(LossLocation::Choice(choice), WireFeature::Finish);
        }
    }
}

fn loss(location: LossLocation, what: String) -> Loss {
    Loss { path: location.to_string(), what, is_malformed: false }
}

/// The kind of a block, as in the event that starts it.
pub(crate) fn block_kind(content: &BlockContent) -> BlockKind<'_> {
    match content {
        BlockContent::Text(_) => BlockKind::Text,
        BlockContent::Refusal(_) => BlockKind::Refusal,
        BlockContent::Reasoning { form, .. } => BlockKind::Reasoning(*form),
        BlockContent::ToolCall(call) => BlockKind::ToolCall {
            id: Some(call.id.as_str().into()),
            is_made: call.has_made_id,
            name: call.name.as_str().into(),
            call: call.kind,
        },
        BlockContent::ToolResult(result) => BlockKind::ToolResult {
            call: result.call.as_deref().map(Into::into),
            value: JsonText::trusted(result.value.as_str()),
        },
        BlockContent::Opaque(value) => BlockKind::Opaque { value: JsonText::trusted(value.as_str()) },
    }
}
