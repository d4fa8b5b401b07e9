//! Who answers, and which wire languages it may answer in.

use crate::pipeline::{Builder, Decoder};
use crate::protocol::Protocol;
use crate::{Error, ErrorKind, Result};

/// A provider, as an agent names it. A row of the [`TABLE`].
pub(super) struct Provider {
    names: &'static [&'static str],
    /// Its name in the OpenTelemetry conventions.
    #[cfg_attr(not(any(test, feature = "tracing")), expect(dead_code, reason = "only spans name it"))]
    pub(super) conventional: &'static str,
    /// The protocols it may speak. A body that only reports an error is of the first.
    protocols: &'static [&'static str],
    /// Whether it answers with embeddings and images in OpenAI's form.
    pub(super) has_values: bool,
}

const OPENAI: &[&str] = &["openai-chat", "openai-responses"];
const GOOGLE: &[&str] = &["gemini-generatecontent", "gemini-interactions", "openai-chat"];
// Clouds pass on what the makers of the models they serve speak.
const VERTEX: &[&str] = &["gemini-generatecontent", "anthropic-messages", "openai-chat"];
const BEDROCK: &[&str] = &[
    "bedrock-converse",
    "bedrock-invoke",
    "anthropic-messages",
    "cohere-v2",
    "openai-responses",
    "openai-chat",
];

const fn like_openai(names: &'static [&'static str], conventional: &'static str) -> Provider {
    Provider { names, conventional, protocols: OPENAI, has_values: true }
}

const fn own(
    names: &'static [&'static str],
    conventional: &'static str,
    protocols: &'static [&'static str],
) -> Provider {
    Provider { names, conventional, protocols, has_values: false }
}

static TABLE: &[Provider] = &[
    like_openai(&["openai", "openai-compatible", "chat", "responses"], "openai"),
    like_openai(&["azure", "azure-openai", "azure-ai-openai"], "azure.ai.openai"),
    like_openai(&["foundry", "azure-foundry", "azure-ai", "azure-ai-inference"], "azure.ai.inference"),
    like_openai(&["mistral", "mistralai", "mistral-ai"], "mistral_ai"),
    like_openai(&["deepseek"], "deepseek"),
    like_openai(&["groq"], "groq"),
    like_openai(&["xai", "x-ai", "grok"], "x_ai"),
    like_openai(&["perplexity"], "perplexity"),
    like_openai(&["watsonx", "ibm-watsonx-ai"], "ibm.watsonx.ai"),
    like_openai(&["openrouter"], "openrouter"),
    like_openai(&["together", "togetherai"], "together"),
    like_openai(&["fireworks"], "fireworks"),
    like_openai(&["vllm"], "vllm"),
    like_openai(&["lmstudio", "lm-studio"], "lmstudio"),
    like_openai(&["llamacpp", "llama-cpp", "llama.cpp"], "llama.cpp"),
    own(&["anthropic", "claude"], "anthropic", &["anthropic-messages"]),
    own(&["gemini", "google", "google-ai", "gcp-gemini"], "gcp.gemini", GOOGLE),
    own(&["vertex", "vertexai", "vertex-ai", "google-vertex", "gcp-vertex-ai"], "gcp.vertex_ai", VERTEX),
    own(&["cohere"], "cohere", &["cohere-v2", "openai-chat"]),
    own(&["bedrock", "aws-bedrock", "amazon-bedrock", "converse", "aws"], "aws.bedrock", BEDROCK),
    own(&["codex"], "openai", &["codex-appserver-v2"]),
    // Besides its own protocol it serves OpenAI's.
    Provider {
        names: &["ollama"],
        conventional: "ollama",
        protocols: &["ollama", "openai-chat"],
        has_values: true,
    },
];

impl Provider {
    /// The provider of that name, in any case, with `-`, `_`, `.` and spaces alike.
    pub(super) fn named(name: &str) -> Result<&'static Self> {
        let found = TABLE.iter().find(|provider| provider.names.iter().any(|known| is_same(known, name)));
        found.ok_or_else(|| {
            let detail = match name.trim() {
                "" => "unknown provider: the agent names none".to_owned(),
                name => format!("unknown provider: there is no processor for {name:?}"),
            };
            Error::new(ErrorKind::Unknown, detail)
        })
    }

    /// A decoder of what it answers, still to be built.
    pub(super) fn decoder(&self) -> Builder {
        Decoder::builder().among(self.protocols())
    }

    /// The protocols it may speak.
    pub(super) fn protocols(&self) -> Vec<&'static Protocol> {
        self.protocols.iter().filter_map(|name| Protocol::named(name)).collect()
    }
}

fn is_same(known: &str, given: &str) -> bool {
    fn plain(name: &str) -> impl Iterator<Item = char> {
        let is_joint = |letter: &char| matches!(letter, '-' | '_' | '.' | ' ');
        name.trim().chars().filter(move |letter| !is_joint(letter)).map(|letter| letter.to_ascii_lowercase())
    }
    plain(known).eq(plain(given))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_name_is_one_providers_and_every_protocol_exists() {
        for provider in TABLE {
            assert_eq!(provider.protocols().len(), provider.protocols.len(), "{:?}", provider.names);
            for name in provider.names {
                let found = Provider::named(name).expect("it is in the table");
                assert!(std::ptr::eq(found, provider), "{name} names two providers");
            }
        }
    }

    #[test]
    fn spelling_does_not_matter() {
        for name in ["azure_openai", "Azure OpenAI", "AzureOpenAI", "azure.ai.openai"] {
            assert_eq!(Provider::named(name).map(|provider| provider.conventional), Ok("azure.ai.openai"));
        }
    }

    #[test]
    fn an_unknown_name_is_named() {
        let error = |name| Provider::named(name).err().expect("it is unknown").detail().to_owned();
        assert_eq!(error("acme"), "unknown provider: there is no processor for \"acme\"");
        assert_eq!(error(" "), "unknown provider: the agent names none");
    }
}
