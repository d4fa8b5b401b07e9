//! The provider that responds, and the protocols it may respond in.

use crate::names;
use crate::pipeline::{Decoder, DecoderBuilder};
use crate::protocol::Protocol;
use crate::provider;
use crate::{Error, ErrorKind, Result};

/// A provider, as an agent names it.
pub(super) struct AgentProvider {
    row: &'static provider::Provider,
}

impl AgentProvider {
    /// The provider of that name, in any case, with `-`, `_`, `.` and spaces alike.
    pub(super) fn named(name: &str) -> Result<Self> {
        provider::Provider::named(name).map(|row| Self { row }).ok_or_else(|| {
            let detail = match name.trim() {
                "" => "unknown provider: the agent names none".to_owned(),
                name => {
                    let meant = names::nearest(name, provider::TABLE.iter().map(|row| row.name));
                    let meant = meant.map(|meant| format!("; did you mean {meant:?}?")).unwrap_or_default();
                    format!("unknown provider: there is no processor for {name:?}{meant}")
                }
            };
            Error::new(ErrorKind::Unknown, detail)
        })
    }

    /// Its name in the OpenTelemetry conventions.
    #[cfg(feature = "tracing")]
    pub(super) fn conventional(&self) -> &'static str {
        self.row.telemetry_name
    }

    /// Whether it responds with embeddings and images in OpenAI's form.
    pub(super) fn has_values(&self) -> bool {
        self.row.has_values
    }

    /// A decoder of its responses, still to be built.
    pub(super) fn decoder(&self) -> DecoderBuilder {
        Decoder::builder().among(self.protocols())
    }

    /// The protocols it may speak.
    pub(super) fn protocols(&self) -> Vec<&'static Protocol> {
        self.row.response_protocols.to_vec()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_unknown_name_is_named() {
        let error = |name| AgentProvider::named(name).err().expect("it is unknown").detail().to_owned();
        assert_eq!(error("acme"), "unknown provider: there is no processor for \"acme\"");
        let meant = "unknown provider: there is no processor for \"antropic\"; did you mean \"anthropic\"?";
        assert_eq!(error("antropic"), meant);
        assert_eq!(error(" "), "unknown provider: the agent names none");
    }
}
