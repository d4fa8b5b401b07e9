//! Providers: the one table of names, addresses, variables, protocols and rules.
//!
//! A provider is a row. The gateway's services without a configuration, the rules that a request keeps, the protocols
//! that an upstream may speak, and the way [`prompty`](crate::compat::prompty) reads a response are all looked up here.
//!
//! ```
//! use callweave::provider::Provider;
//!
//! let mistral = Provider::at("https://api.mistral.ai/v1").expect("its address is known");
//! assert_eq!(mistral.name, "mistral");
//! assert_eq!(Provider::named("LM Studio").map(|provider| provider.name), Some("lmstudio"));
//! assert!(Provider::at("http://127.0.0.1:8000/v1").is_none());
//! ```

use crate::error::Result;
use crate::json::Value;
use crate::names;
use crate::protocol::{
    ANTHROPIC_MESSAGES, BEDROCK_CONVERSE, BEDROCK_INVOKE, CODEX_APP_SERVER, COHERE_V2,
    GEMINI_GENERATE_CONTENT, GEMINI_INTERACTIONS, OLLAMA, OPENAI_CHAT, OPENAI_RESPONSES, Protocol,
};
use crate::request::ProviderLimits;

/// One provider: a row of the [`TABLE`].
#[derive(Debug)]
#[non_exhaustive]
pub struct Provider {
    /// Its name.
    pub name: &'static str,
    /// Other names. Case does not matter, nor do `-`, `_`, `.` and spaces.
    pub aliases: &'static [&'static str],
    /// Its name in the OpenTelemetry conventions.
    pub telemetry_name: &'static str,
    /// The protocols in which it may be asked. The first is the default; a client's own is preferred. Empty if it
    /// cannot be asked over HTTP.
    pub protocols: &'static [&'static Protocol],
    /// The protocols of its responses. A body that only reports an error is of the first.
    pub response_protocols: &'static [&'static Protocol],
    /// Its base URL, where it has one.
    pub base_url: Option<&'static str>,
    /// The usual environment variable of its key.
    pub key_variable: Option<&'static str>,
    /// The usual environment variable of its base URL.
    pub base_url_variable: Option<&'static str>,
    /// The prefixes of its models' names, where no other provider has such models.
    pub model_prefixes: &'static [&'static str],
    /// Whether its models call tools natively, so that nothing is looked for in their text.
    pub calls_natively: bool,
    /// Its hosts; one that begins with a dot stands for every host that ends so.
    hosts: &'static [&'static str],
    /// The owners of models in its model list, where they identify the provider.
    list_owners: &'static [&'static str],
    /// The shape of its model list, where no other provider has it.
    list_shape: Option<ListShape>,
    /// Whether a server that has its model list is of its kind. Gateways pass the lists of other providers on.
    pub is_recognized_by_list: bool,
    /// Its rules for Chat requests.
    pub(crate) chat: &'static ProviderLimits,
    /// Its rules for Responses requests.
    pub(crate) responses: &'static ProviderLimits,
    /// Whether it answers with embeddings and images in OpenAI's form.
    pub(crate) has_values: bool,
}

/// The shape of a model list.
#[derive(Debug)]
struct ListShape {
    /// The member that holds the models.
    list: &'static str,
    /// Members of every model; with a value, if that identifies it.
    members: &'static [(&'static str, Option<&'static str>)],
}

/// Protocols of servers that follow OpenAI, and sometimes Anthropic.
const SERVERS: &[&Protocol] = &[&OPENAI_CHAT, &OPENAI_RESPONSES, &ANTHROPIC_MESSAGES];
const CHAT: &[&Protocol] = &[&OPENAI_CHAT];
const OPENAI_RESPONSE_PROTOCOLS: &[&Protocol] = &[&OPENAI_CHAT, &OPENAI_RESPONSES];

/// A server of OpenAI's protocols of which nothing else is known.
const COMPATIBLE: Provider = Provider {
    name: "openai-compatible",
    aliases: &["chat", "responses"],
    telemetry_name: "openai",
    protocols: SERVERS,
    response_protocols: OPENAI_RESPONSE_PROTOCOLS,
    base_url: None,
    key_variable: None,
    base_url_variable: None,
    model_prefixes: &[],
    calls_natively: false,
    hosts: &[],
    list_owners: &[],
    list_shape: None,
    is_recognized_by_list: false,
    chat: &ProviderLimits::CHAT,
    responses: &ProviderLimits::COMPATIBLE_RESPONSES,
    has_values: true,
};

/// A provider with a protocol of its own.
const OWN: Provider = Provider { has_values: false, ..COMPATIBLE };

/// The providers.
pub static TABLE: &[Provider] = &[
    Provider {
        name: "openai",
        aliases: &[],
        protocols: &[&OPENAI_RESPONSES, &OPENAI_CHAT],
        base_url: Some("https://api.openai.com/v1"),
        key_variable: Some("OPENAI_API_KEY"),
        base_url_variable: Some("OPENAI_BASE_URL"),
        model_prefixes: &["gpt-", "o1", "o3", "o4", "codex-"],
        calls_natively: true,
        hosts: &["api.openai.com", ".api.openai.com"],
        list_owners: &["openai", "openai-internal"],
        chat: &ProviderLimits::OPENAI,
        responses: &ProviderLimits::OPENAI_RESPONSES,
        ..COMPATIBLE
    },
    Provider {
        name: "azure",
        aliases: &["azure-openai", "azure-ai-openai"],
        telemetry_name: "azure.ai.openai",
        protocols: &[&OPENAI_CHAT, &OPENAI_RESPONSES],
        hosts: &[".openai.azure.com", ".cognitiveservices.azure.com"],
        chat: &ProviderLimits::OPENAI,
        responses: &ProviderLimits::OPENAI_RESPONSES,
        ..COMPATIBLE
    },
    Provider {
        name: "foundry",
        aliases: &["azure-foundry", "azure-ai", "azure-ai-inference"],
        telemetry_name: "azure.ai.inference",
        protocols: CHAT,
        hosts: &[".services.ai.azure.com", ".models.ai.azure.com", "models.inference.ai.azure.com"],
        ..COMPATIBLE
    },
    Provider {
        name: "anthropic",
        aliases: &["claude"],
        telemetry_name: "anthropic",
        protocols: &[&ANTHROPIC_MESSAGES],
        response_protocols: &[&ANTHROPIC_MESSAGES],
        base_url: Some("https://api.anthropic.com"),
        key_variable: Some("ANTHROPIC_API_KEY"),
        base_url_variable: Some("ANTHROPIC_BASE_URL"),
        model_prefixes: &["claude-"],
        calls_natively: true,
        hosts: &["api.anthropic.com"],
        list_shape: Some(ListShape {
            list: "data",
            members: &[("type", Some("model")), ("display_name", None)],
        }),
        is_recognized_by_list: true,
        chat: &ProviderLimits::CLAUDE_CHAT,
        ..OWN
    },
    Provider {
        name: "gemini",
        aliases: &["google", "google-ai", "gcp-gemini"],
        telemetry_name: "gcp.gemini",
        protocols: &[&GEMINI_GENERATE_CONTENT],
        response_protocols: &[&GEMINI_GENERATE_CONTENT, &GEMINI_INTERACTIONS, &OPENAI_CHAT],
        base_url: Some("https://generativelanguage.googleapis.com"),
        key_variable: Some("GEMINI_API_KEY"),
        base_url_variable: Some("GOOGLE_GEMINI_BASE_URL"),
        model_prefixes: &["gemini-"],
        calls_natively: true,
        hosts: &["generativelanguage.googleapis.com"],
        list_shape: Some(ListShape { list: "models", members: &[("supportedGenerationMethods", None)] }),
        is_recognized_by_list: true,
        chat: &ProviderLimits::GEMINI_CHAT,
        ..OWN
    },
    // Clouds pass on the protocols of the makers of the models they serve.
    Provider {
        name: "vertex",
        aliases: &["vertexai", "vertex-ai", "google-vertex", "gcp-vertex-ai"],
        telemetry_name: "gcp.vertex_ai",
        protocols: &[&GEMINI_GENERATE_CONTENT],
        response_protocols: &[&GEMINI_GENERATE_CONTENT, &ANTHROPIC_MESSAGES, &OPENAI_CHAT],
        hosts: &["aiplatform.googleapis.com", "-aiplatform.googleapis.com"],
        chat: &ProviderLimits::GEMINI_CHAT,
        ..OWN
    },
    Provider {
        name: "groq",
        aliases: &[],
        telemetry_name: "groq",
        protocols: CHAT,
        base_url: Some("https://api.groq.com/openai/v1"),
        key_variable: Some("GROQ_API_KEY"),
        base_url_variable: Some("GROQ_BASE_URL"),
        hosts: &["api.groq.com"],
        chat: &ProviderLimits::GROQ,
        ..COMPATIBLE
    },
    Provider {
        name: "mistral",
        aliases: &["mistralai", "mistral-ai"],
        telemetry_name: "mistral_ai",
        protocols: CHAT,
        base_url: Some("https://api.mistral.ai/v1"),
        key_variable: Some("MISTRAL_API_KEY"),
        base_url_variable: Some("MISTRAL_BASE_URL"),
        model_prefixes: &["mistral-", "codestral-"],
        hosts: &["api.mistral.ai", "codestral.mistral.ai"],
        list_owners: &["mistralai"],
        chat: &ProviderLimits::MISTRAL,
        ..COMPATIBLE
    },
    Provider {
        name: "openrouter",
        aliases: &[],
        telemetry_name: "openrouter",
        base_url: Some("https://openrouter.ai/api/v1"),
        key_variable: Some("OPENROUTER_API_KEY"),
        base_url_variable: Some("OPENROUTER_BASE_URL"),
        hosts: &["openrouter.ai"],
        list_shape: Some(ListShape { list: "data", members: &[("supported_parameters", None)] }),
        is_recognized_by_list: true,
        ..COMPATIBLE
    },
    Provider {
        name: "deepseek",
        aliases: &[],
        telemetry_name: "deepseek",
        protocols: CHAT,
        base_url: Some("https://api.deepseek.com/v1"),
        key_variable: Some("DEEPSEEK_API_KEY"),
        base_url_variable: Some("DEEPSEEK_BASE_URL"),
        model_prefixes: &["deepseek-"],
        hosts: &["api.deepseek.com"],
        list_owners: &["deepseek"],
        chat: &ProviderLimits::DEEPSEEK,
        ..COMPATIBLE
    },
    Provider {
        name: "cohere",
        aliases: &[],
        telemetry_name: "cohere",
        protocols: &[&COHERE_V2],
        response_protocols: &[&COHERE_V2, &OPENAI_CHAT],
        base_url: Some("https://api.cohere.com"),
        key_variable: Some("CO_API_KEY"),
        base_url_variable: Some("CO_API_URL"),
        model_prefixes: &["command-"],
        calls_natively: true,
        hosts: &["api.cohere.com", "api.cohere.ai"],
        ..OWN
    },
    Provider {
        name: "bedrock",
        aliases: &["aws-bedrock", "amazon-bedrock", "converse", "aws"],
        telemetry_name: "aws.bedrock",
        protocols: &[&BEDROCK_CONVERSE],
        response_protocols: &[
            &BEDROCK_CONVERSE,
            &BEDROCK_INVOKE,
            &ANTHROPIC_MESSAGES,
            &COHERE_V2,
            &OPENAI_RESPONSES,
            &OPENAI_CHAT,
        ],
        hosts: &[".amazonaws.com"],
        ..OWN
    },
    Provider {
        name: "moonshot",
        aliases: &["moonshotai", "kimi"],
        telemetry_name: "moonshot_ai",
        protocols: CHAT,
        hosts: &["api.moonshot.ai", "api.moonshot.cn", "api.kimi.com"],
        list_owners: &["moonshot"],
        chat: &ProviderLimits::MOONSHOT,
        ..COMPATIBLE
    },
    Provider {
        name: "fireworks",
        aliases: &["fireworks-ai"],
        telemetry_name: "fireworks",
        protocols: CHAT,
        hosts: &["api.fireworks.ai"],
        chat: &ProviderLimits::FIREWORKS,
        ..COMPATIBLE
    },
    Provider {
        name: "cerebras",
        aliases: &[],
        telemetry_name: "cerebras",
        protocols: CHAT,
        hosts: &["api.cerebras.ai"],
        list_owners: &["Cerebras"],
        chat: &ProviderLimits::CEREBRAS,
        ..COMPATIBLE
    },
    Provider {
        name: "xai",
        aliases: &["x-ai", "grok"],
        telemetry_name: "x_ai",
        protocols: CHAT,
        hosts: &["api.x.ai", ".api.x.ai"],
        list_owners: &["xai"],
        chat: &ProviderLimits::XAI,
        ..COMPATIBLE
    },
    Provider {
        name: "perplexity",
        aliases: &[],
        telemetry_name: "perplexity",
        protocols: CHAT,
        hosts: &["api.perplexity.ai"],
        ..COMPATIBLE
    },
    Provider {
        name: "together",
        aliases: &["togetherai"],
        telemetry_name: "together",
        protocols: CHAT,
        hosts: &["api.together.xyz", "api.together.ai"],
        ..COMPATIBLE
    },
    Provider {
        name: "watsonx",
        aliases: &["ibm-watsonx-ai"],
        telemetry_name: "ibm.watsonx.ai",
        protocols: CHAT,
        hosts: &[".ml.cloud.ibm.com"],
        ..COMPATIBLE
    },
    // Besides its own protocol it serves those of others.
    Provider {
        name: "ollama",
        aliases: &[],
        telemetry_name: "ollama",
        protocols: &[&OLLAMA, &OPENAI_CHAT, &OPENAI_RESPONSES, &ANTHROPIC_MESSAGES],
        response_protocols: &[&OLLAMA, &OPENAI_CHAT],
        base_url_variable: Some("OLLAMA_HOST"),
        hosts: &["ollama.com"],
        list_owners: &["library"],
        list_shape: Some(ListShape { list: "models", members: &[("details", None), ("digest", None)] }),
        is_recognized_by_list: true,
        ..COMPATIBLE
    },
    Provider {
        name: "vllm",
        aliases: &[],
        telemetry_name: "vllm",
        list_owners: &["vllm"],
        is_recognized_by_list: true,
        ..COMPATIBLE
    },
    Provider {
        name: "sglang",
        aliases: &[],
        telemetry_name: "sglang",
        list_owners: &["sglang"],
        is_recognized_by_list: true,
        ..COMPATIBLE
    },
    Provider {
        name: "llamacpp",
        aliases: &["llama-cpp", "llama-server"],
        telemetry_name: "llama.cpp",
        list_owners: &["llamacpp"],
        is_recognized_by_list: true,
        chat: &ProviderLimits::WORD_CHOICE,
        responses: &ProviderLimits::WORD_CHOICE_RESPONSES,
        ..COMPATIBLE
    },
    Provider {
        name: "llama-cpp-python",
        aliases: &["llama-cpp-server"],
        telemetry_name: "llama.cpp",
        protocols: CHAT,
        list_owners: &["me"],
        is_recognized_by_list: true,
        chat: &ProviderLimits::NAMED_CHOICE,
        responses: &ProviderLimits::NAMED_CHOICE_RESPONSES,
        ..COMPATIBLE
    },
    Provider {
        name: "lmstudio",
        aliases: &["lm-studio"],
        telemetry_name: "lmstudio",
        list_owners: &["organization_owner"],
        is_recognized_by_list: true,
        chat: &ProviderLimits::WORD_CHOICE,
        responses: &ProviderLimits::WORD_CHOICE_RESPONSES,
        ..COMPATIBLE
    },
    Provider { name: "codex", aliases: &[], protocols: &[], response_protocols: &[&CODEX_APP_SERVER], ..OWN },
    COMPATIBLE,
];

impl Provider {
    /// A server of OpenAI's protocols of which nothing else is known.
    #[cfg(feature = "exchange")]
    pub(crate) const COMPATIBLE: &'static Self = &COMPATIBLE;

    /// The provider of that name.
    pub fn named(name: &str) -> Option<&'static Self> {
        let spelled = |provider: &&Self| {
            std::iter::once(&provider.name).chain(provider.aliases).any(|known| is_same(known, name))
        };
        // Requests name it as the table does, and every request asks.
        let exact = TABLE.iter().find(|provider| provider.name == name);
        exact.or_else(|| TABLE.iter().find(spelled))
    }

    /// The provider of that name whose rules requests can keep.
    pub(crate) fn with_rules(name: &str) -> Result<&'static Self> {
        let known = Self::named(name).filter(|provider| !provider.protocols.is_empty());
        known.ok_or_else(|| {
            let with_rules = TABLE.iter().filter(|provider| !provider.protocols.is_empty());
            names::unknown("provider with limits", name, with_rules.map(|provider| provider.name))
        })
    }

    /// The provider at a base URL, where its host identifies one.
    pub fn at(base_url: &str) -> Option<&'static Self> {
        let host = host(base_url).to_ascii_lowercase();
        let is_host = |own: &&'static str| match own.starts_with(['.', '-']) {
            true => host.ends_with(*own),
            false => host == **own,
        };
        TABLE.iter().find(|provider| provider.hosts.iter().any(is_host))
    }

    /// The provider whose model list this seems to be, by the owners of its models or by members that only its models
    /// have. Owners of several providers identify none.
    ///
    /// ```
    /// use callweave::provider::Provider;
    ///
    /// let list = r#"{"object": "list", "data": [{"id": "qwen3", "object": "model", "owned_by": "vllm"}]}"#;
    /// assert_eq!(Provider::of_list(&list.parse()?).map(|provider| provider.name), Some("vllm"));
    /// # Ok::<(), callweave::Error>(())
    /// ```
    pub fn of_list(list: &Value) -> Option<&'static Self> {
        let models = |name: &str| list.get(name).and_then(Value::as_array).into_iter().flatten();
        let mut owners = models("data").filter_map(|model| Self::owning(model.get("owned_by")?.as_str()?));
        if let Some(first) = owners.next() {
            return owners.all(|other| std::ptr::eq(other, first)).then_some(first);
        }
        TABLE.iter().find(|provider| {
            let Some(ListShape { list, members }) = &provider.list_shape else { return false };
            let has = |model: &Value, (key, value): &(&str, Option<&str>)| {
                let own = model.get(*key).filter(|own| !own.is_null());
                own.is_some_and(|own| value.is_none_or(|value| *own == value))
            };
            models(list).next().is_some()
                && models(list).all(|model| members.iter().all(|member| has(model, member)))
        })
    }

    /// The provider whose model list has a model of that owner.
    fn owning(owner: &str) -> Option<&'static Self> {
        TABLE.iter().find(|provider| provider.list_owners.contains(&owner))
    }

    /// Whether the provider follows another's protocol by rules of its own, so that a request of a client of the same
    /// protocol must be rewritten.
    #[cfg(feature = "exchange")]
    pub(crate) fn has_own_rules(&self, protocol: &Protocol) -> bool {
        *protocol == OPENAI_CHAT && self.chat.is_particular
    }

    /// Its rules for requests in a protocol, where they are not the rules of the protocol's own provider.
    pub(crate) fn limits(&self, protocol: &Protocol) -> Option<&'static ProviderLimits> {
        match protocol {
            _ if *protocol == OPENAI_CHAT => Some(self.chat),
            _ if *protocol == OPENAI_RESPONSES => Some(self.responses),
            _ => None,
        }
    }
}

/// The protocols that servers of OpenAI's Chat may speak, of which nothing else is known.
pub fn usual_protocols() -> &'static [&'static Protocol] {
    SERVERS
}

/// Whether a base URL leads to this machine or its own network, where no provider is.
#[cfg(feature = "exchange")]
pub(crate) fn is_local(base_url: &str) -> bool {
    let host = host(base_url).to_ascii_lowercase();
    let host = host.trim_matches(['[', ']']);
    match host.parse::<std::net::IpAddr>() {
        Ok(std::net::IpAddr::V4(own)) => {
            own.is_loopback() || own.is_private() || own.is_link_local() || own.is_unspecified()
        }
        Ok(std::net::IpAddr::V6(own)) => {
            own.is_loopback() || own.is_unique_local() || own.is_unicast_link_local() || own.is_unspecified()
        }
        Err(_) => {
            let endings = [".local", ".localhost", ".internal", ".lan", ".home.arpa"];
            !host.is_empty() && (!host.contains('.') || endings.iter().any(|end| host.ends_with(end)))
        }
    }
}

/// The host of a URL.
fn host(url: &str) -> &str {
    let rest = url.split_once("://").map_or(url, |(_, rest)| rest);
    let authority = rest.split(['/', '?', '#']).next().unwrap_or_default();
    let host = authority.rsplit_once('@').map_or(authority, |(_, host)| host);
    match host.strip_prefix('[') {
        Some(rest) => rest.split(']').next().unwrap_or_default(),
        None => host.split(':').next().unwrap_or_default(),
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
    fn every_name_host_owner_and_variable_is_one_providers() {
        for provider in TABLE {
            for name in std::iter::once(&provider.name).chain(provider.aliases) {
                let found = Provider::named(name).expect("it is in the table");
                assert!(std::ptr::eq(found, provider), "{name} names two providers");
            }
            for host in provider.hosts {
                let found = Provider::at(&format!("https://x{host}/v1"));
                let found = found.or_else(|| Provider::at(&format!("https://{host}/v1"))).expect("a host");
                assert!(std::ptr::eq(found, provider), "{host} is two providers'");
            }
            for owner in provider.list_owners {
                let found = Provider::owning(owner).expect("it is in the table");
                assert!(std::ptr::eq(found, provider), "{owner} is two providers'");
            }
            let variables = [provider.key_variable, provider.base_url_variable];
            for variable in variables.into_iter().flatten() {
                let has = |other: &&Provider| {
                    [other.key_variable, other.base_url_variable].contains(&Some(variable))
                };
                assert_eq!(TABLE.iter().filter(has).count(), 1, "{variable}");
            }
            if let Some(url) = provider.base_url {
                assert!(Provider::at(url).is_some_and(|found| std::ptr::eq(found, provider)), "{url}");
            }
        }
    }

    #[test]
    fn a_model_list_tells_the_provider() {
        for (list, name) in [
            (r#"{"data": [{"id": "a", "owned_by": "vllm"}, {"id": "b", "owned_by": "acme"}]}"#, Some("vllm")),
            (
                r#"{"data": [{"id": "a", "owned_by": "library"}, {"id": "b", "owned_by": "me2"}]}"#,
                Some("ollama"),
            ),
            // llama-server has both lists.
            (
                r#"{"models": [{"name": "a", "digest": "", "details": {}}], "data": [{"id": "a", "owned_by": "llamacpp"}]}"#,
                Some("llamacpp"),
            ),
            (r#"{"data": [{"id": "a", "owned_by": "me", "permissions": []}]}"#, Some("llama-cpp-python")),
            (r#"{"data": [{"id": "a", "owned_by": "organization_owner"}]}"#, Some("lmstudio")),
            (r#"{"data": [{"id": "claude", "type": "model", "display_name": "Claude"}]}"#, Some("anthropic")),
            (
                r#"{"models": [{"name": "models/g", "supportedGenerationMethods": ["generateContent"]}]}"#,
                Some("gemini"),
            ),
            (r#"{"data": [{"id": "a/b", "supported_parameters": ["tools"]}]}"#, Some("openrouter")),
            (
                r#"{"models": [{"name": "a:latest", "digest": "d", "details": {"family": "qwen3"}}]}"#,
                Some("ollama"),
            ),
            // A gateway before several.
            (r#"{"data": [{"id": "a", "owned_by": "vllm"}, {"id": "b", "owned_by": "openai"}]}"#, None),
            (r#"{"data": [{"id": "claude", "type": "model", "display_name": "Claude"}, {"id": "b"}]}"#, None),
            (r#"{"data": [{"id": "a", "owned_by": "callweave"}]}"#, None),
            (r#"{"data": [], "models": []}"#, None),
            (r#"[{"id": "a", "owned_by": "vllm"}]"#, None),
            ("7", None),
        ] {
            let found = Provider::of_list(&list.parse().expect("JSON"));
            assert_eq!(found.map(|provider| provider.name), name, "{list}");
        }
        // A server that passes OpenAI's list on need not be OpenAI.
        assert!(!Provider::named("openai").expect("a row").is_recognized_by_list);
    }

    #[test]
    fn spelling_does_not_matter() {
        for name in ["azure_openai", "Azure OpenAI", "AzureOpenAI", "azure.ai.openai"] {
            let found = Provider::named(name).map(|provider| provider.telemetry_name);
            assert_eq!(found, Some("azure.ai.openai"));
        }
        assert!(Provider::named("llama.cpp").is_some() && Provider::named("acme").is_none());
    }

    #[test]
    fn an_address_tells_the_provider_and_nothing_else_does() {
        for (url, name) in [
            ("https://API.OpenAI.com/v1", Some("openai")),
            ("https://eu.api.openai.com:443/v1?x=y", Some("openai")),
            ("https://me:secret@api.mistral.ai", Some("mistral")),
            ("https://acme.openai.azure.com/openai/v1", Some("azure")),
            ("https://us-central1-aiplatform.googleapis.com/v1", Some("vertex")),
            ("https://bedrock-runtime.eu-west-1.amazonaws.com", Some("bedrock")),
            ("https://notapi.openai.com.example/v1", None),
            ("https://example.com/api.openai.com", None),
            ("http://127.0.0.1:11434", None),
            ("", None),
        ] {
            assert_eq!(Provider::at(url).map(|provider| provider.name), name, "{url}");
        }
    }

    #[cfg(feature = "exchange")]
    #[test]
    fn local_addresses_are_known() {
        for url in [
            "http://127.0.0.1:8000/v1",
            "http://[::1]:8000",
            "http://localhost",
            "http://vllm:8000/v1",
            "http://192.168.1.7/v1",
            "http://10.0.0.1",
            "http://box.local:1234",
            "http://host.docker.internal:11434",
        ] {
            assert!(is_local(url), "{url}");
        }
        for url in [
            "https://api.openai.com/v1",
            "https://proxy.example/v1",
            "http://8.8.8.8",
            "",
            "https://[2001:db8::1]/",
        ] {
            assert!(!is_local(url), "{url}");
        }
    }
}
