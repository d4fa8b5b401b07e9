//! The front of this folder: a driver builds it once, and asks it twice for each request.

use std::fmt;
use std::sync::Arc;

use super::harvest::SealHarvest;
use super::restore::SealRestorer;
#[cfg(feature = "exchange")]
use super::store::TurnKey;
use super::store::TurnStore;
use super::turn::KeyedHashes;
use crate::protocol::Protocol;
use crate::request::limits::ReplayedReasoning;
use crate::request::{ProviderLimits, ReasoningMode, Request, RequestOptions, ToolChoice, WrittenRequest};

/// The scope of seals: seals given to a client of one scope come back for that scope only, and only to their issuer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SealScope<'a> {
    /// The client: a digest of its key, for example. Opaque.
    pub client: &'a [u8],
    /// The issuer, which can check the seals: an upstream's name, for example. Upstreams that can check each other's
    /// seals may share one. Opaque. The kind of provider is added by itself.
    pub issuer: &'a [u8],
}

/// Lets provider seals survive clients that have no place for them: signatures of reasoning and of calls, and reasoning
/// that is encrypted.
///
/// A provider wants its seals back with the next request, and refuses or forgets reasoning without them.
/// [`SealKeeper::harvest`] keeps them while a response passes, in a [`TurnStore`]; [`SealKeeper::restore`] puts them
/// into the client's next request, whatever the client has kept of the reasoning: nothing, its text, or its blocks.
/// Where it sends other reasoning than it was given, nothing is restored. A loss in the store costs only reasoning.
///
/// ```
/// use std::sync::Arc;
/// use callweave::event::Event;
/// use callweave::pipeline::Decoder;
/// use callweave::protocol::Protocol;
/// use callweave::request::{RequestOptions, SealKeeper, SealScope, TurnCache};
/// use callweave::Accumulator;
///
/// // Once. The key comes from the caller's source of randomness.
/// let seals = SealKeeper::new(Arc::new(TurnCache::new(64 << 20, 100_000)), [7; 16]);
///
/// // For each request.
/// let chat = Protocol::named("openai-chat").expect("a protocol of that name");
/// let anthropic = Protocol::named("anthropic-messages").expect("a protocol of that name");
/// let scope = SealScope { client: b"key 1", issuer: b"claude" };
/// let options = RequestOptions::default();
/// let ask = |body: &str| {
///     let mut request = chat.read_request(body.parse()?)?;
///     seals.restore(&mut request, anthropic, &options, scope);
///     anthropic.write_last_request(request, &options)
/// };
/// let written = ask(r#"{"model": "claude-sonnet-4-5", "reasoning_effort": "low", "max_tokens": 9000,
///     "messages": [{"role": "user", "content": "Hi"}]}"#)?;
///
/// // For its response: the last stage before the encoder.
/// let answer = r#"{"type": "message", "role": "assistant", "stop_reason": "tool_use", "content": [
///     {"type": "thinking", "thinking": "Hm.", "signature": "EqQB"},
///     {"type": "tool_use", "id": "t", "name": "f", "input": {}}]}"#;
/// let (mut harvest, mut message) = (seals.harvest(&written, chat, scope), Accumulator::new());
/// let mut decoder = Decoder::new(anthropic);
/// decoder.push(answer.as_bytes(), &mut |event: Event<'_>| harvest.push(event, &mut message))?;
/// decoder.finish(&mut |event: Event<'_>| harvest.push(event, &mut message))?;
///
/// // The client has kept nothing but the call.
/// let written = ask(r#"{"model": "claude-sonnet-4-5", "reasoning_effort": "low", "max_tokens": 9000,
///     "messages": [{"role": "user", "content": "Hi"}, {"role": "assistant", "content": null, "tool_calls": [
///         {"id": "t", "type": "function", "function": {"name": "f", "arguments": "{}"}}]},
///         {"role": "tool", "tool_call_id": "t", "content": "done"}]}"#)?;
/// assert_eq!(written.body["messages"][1]["content"][0]["signature"], "EqQB");
/// # Ok::<(), callweave::Error>(())
/// ```
#[derive(Clone)]
pub struct SealKeeper {
    store: Arc<dyn TurnStore>,
    key: [u8; 16],
}

impl SealKeeper {
    /// Keeps seals in that store. Keys of the store are hashes with this key: without it nobody can find or foresee
    /// one. Processes that share a store share the key.
    pub fn new(store: Arc<dyn TurnStore>, key: [u8; 16]) -> Self {
        Self { store, key }
    }

    /// Puts seals back into a request, before it is written for `target` with these options. Returns the number of
    /// turns that got theirs.
    ///
    /// Where reasoning is not requested, and the provider would refuse it, it is not restored.
    pub fn restore(
        &self,
        request: &mut Request,
        target: &Protocol,
        options: &RequestOptions,
        scope: SealScope<'_>,
    ) -> usize {
        let model = options.model.as_deref().or(request.model.as_deref());
        let Ok(limits) = target.limits_of(model, options) else { return 0 };
        let Some(issuer) = limits.issuer() else { return 0 };
        if let ReplayedReasoning::Encrypted(_) = limits.replayed_reasoning {
            request.reasoning.wants_encrypted =
                request.protocol != Some(target.name) && thinks(request, model.unwrap_or_default());
        }
        let hashes = self.hashes(issuer, scope);
        let tag = hashes.start("tag").end();
        let takes_reasoning =
            !matches!(limits.replayed_reasoning, ReplayedReasoning::Signed(_)) || is_reasoning_on(request);
        let restoring = SealRestorer::new(&*self.store, &hashes, (issuer, tag), target.name, takes_reasoning);
        restoring.restore(request)
    }

    /// A stage that keeps the seals of the response to a request that was written so, on its way to a client.
    ///
    /// A client whose own protocol is that of the provider gives seals back by itself.
    pub fn harvest(&self, written: &WrittenRequest, client: &Protocol, scope: SealScope<'_>) -> SealHarvest {
        let own = client.request.as_ref().and_then(|coding| ProviderLimits::issuer(coding.limits));
        match written.issuer {
            Some(issuer) if own != Some(issuer) => {
                let hashes = self.hashes(issuer, scope);
                let tag = hashes.start("tag").end();
                SealHarvest::new(self.store.clone(), hashes, Some((issuer, tag)))
            }
            _ => SealHarvest::none(),
        }
    }

    /// Keeps a value for a conversation that the upstream keeps under these ids.
    #[cfg(feature = "exchange")]
    pub(crate) fn put_conversation(&self, scope: SealScope<'_>, ids: &[&str], value: &[u8]) {
        let hashes = self.hashes("", scope);
        let keys: Vec<TurnKey> = ids.iter().map(|id| hashes.conversation(id)).collect();
        self.store.put(&keys, value);
    }

    /// The value for a conversation that the upstream keeps under this id.
    #[cfg(feature = "exchange")]
    pub(crate) fn conversation(&self, scope: SealScope<'_>, id: &str) -> Option<Arc<[u8]>> {
        self.store.get(&self.hashes("", scope).conversation(id))
    }

    fn hashes(&self, issuer: &str, scope: SealScope<'_>) -> KeyedHashes {
        KeyedHashes::new(self.key, scope.client, scope.issuer, issuer)
    }
}

impl fmt::Debug for SealKeeper {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("SealKeeper").finish_non_exhaustive()
    }
}

/// Whether reasoning is asked for, and no call is forced, which switches it off.
fn is_reasoning_on(request: &Request) -> bool {
    let reasoning = &request.reasoning;
    let is_asked = match reasoning.mode {
        Some(ReasoningMode::Off) => false,
        Some(ReasoningMode::On | ReasoningMode::Adaptive) => true,
        None => {
            reasoning.effort.as_ref().is_some_and(|effort| effort != "none")
                || reasoning.budget.as_ref().is_some_and(|budget| budget.as_str() != "0")
        }
    };
    let is_forced = match &request.tool_choice {
        Some(ToolChoice::Required | ToolChoice::Tool { .. }) => true,
        Some(ToolChoice::Allowed { is_required, .. }) => *is_required,
        Some(ToolChoice::Auto | ToolChoice::None) | None => false,
    };
    is_asked && !is_forced
}

/// Whether the model encrypts its reasoning on request. Others refuse such a request.
fn thinks(request: &Request, model: &str) -> bool {
    let name = model.rsplit('/').next().unwrap_or(model);
    let is_known = ["gpt-5", "o1", "o3", "o4", "codex"].iter().any(|start| name.starts_with(start));
    is_known && !name.contains("chat") || is_reasoning_on(request)
}
