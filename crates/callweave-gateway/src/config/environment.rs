//! What the environment says.

use callweave::protocol::{self, Protocol};

use super::{Check, Config, Stop, StopMode, Upstream};

/// The variables of the process, or those of a test.
pub struct Environment<'e>(Variables<'e>);

type Variables<'e> = Box<dyn Fn(&str) -> Option<String> + 'e>;

/// Providers that are served if their usual variables are set: the upstream's name, the variable of its key, the
/// variable of its base URL, that URL if the variable is not set, and its protocol.
const PROVIDERS: &[(&str, &str, &str, &str, &Protocol)] = &[
    ("openai", "OPENAI_API_KEY", "OPENAI_BASE_URL", "https://api.openai.com/v1", &protocol::OPENAI_RESPONSES),
    (
        "anthropic",
        "ANTHROPIC_API_KEY",
        "ANTHROPIC_BASE_URL",
        "https://api.anthropic.com",
        &protocol::ANTHROPIC_MESSAGES,
    ),
    (
        "gemini",
        "GEMINI_API_KEY",
        "GOOGLE_GEMINI_BASE_URL",
        "https://generativelanguage.googleapis.com",
        &protocol::GEMINI_GENERATE_CONTENT,
    ),
    ("groq", "GROQ_API_KEY", "GROQ_BASE_URL", "https://api.groq.com/openai/v1", &protocol::OPENAI_CHAT),
    ("mistral", "MISTRAL_API_KEY", "MISTRAL_BASE_URL", "https://api.mistral.ai/v1", &protocol::OPENAI_CHAT),
    (
        "openrouter",
        "OPENROUTER_API_KEY",
        "OPENROUTER_BASE_URL",
        "https://openrouter.ai/api/v1",
        &protocol::OPENAI_CHAT,
    ),
    (
        "deepseek",
        "DEEPSEEK_API_KEY",
        "DEEPSEEK_BASE_URL",
        "https://api.deepseek.com/v1",
        &protocol::OPENAI_CHAT,
    ),
    ("cohere", "CO_API_KEY", "CO_API_URL", "https://api.cohere.com", &protocol::COHERE_V2),
];

/// How the names of a provider's models begin, where that is no secret.
const FAMILIES: &[(&str, &str)] = &[
    ("gpt-*", "openai"),
    ("o1*", "openai"),
    ("o3*", "openai"),
    ("o4*", "openai"),
    ("codex-*", "openai"),
    ("claude-*", "anthropic"),
    ("gemini-*", "gemini"),
    ("mistral-*", "mistral"),
    ("codestral-*", "mistral"),
    ("deepseek-*", "deepseek"),
    ("command-*", "cohere"),
];

/// Providers whose models call tools as their own protocol has it, so that nothing is looked for in their text and
/// their bytes can stay as they are.
const NATIVE: &[&str] = &["openai", "anthropic", "gemini", "cohere"];

/// Providers that speak another's protocol by rules of their own.
const PARTICULAR: &[&str] = &["groq", "mistral", "deepseek"];

impl<'e> Environment<'e> {
    /// The variables of the process.
    pub fn process() -> Environment<'static> {
        Environment(Box::new(|name| std::env::var(name).ok().filter(|value| !value.is_empty())))
    }

    /// Variables from elsewhere.
    pub fn of(variables: impl Fn(&str) -> Option<String> + 'e) -> Self {
        Self(Box::new(variables))
    }

    /// The value of a variable that is set.
    pub fn get(&self, name: &str) -> Option<String> {
        (self.0)(name)
    }

    /// What `PROXY_STOP_AFTER_TOOLS`, `PROXY_STOP_AFTER_TOOLS_MODE` (`first`, `all`), `PROXY_STOP_AFTER_TOOLS_GRACE_MS`,
    /// `PROXY_SUPPRESS_TAIL_AFTER_TOOLS` and `PROXY_ENABLE_PARALLEL_TOOL_CALLS` say, for all upstreams that say nothing
    /// themselves.
    pub fn stop(&self) -> Stop {
        let truth = |name: &str| match self.get(name)?.to_ascii_lowercase().as_str() {
            "1" | "true" | "yes" | "on" => Some(true),
            "0" | "false" | "no" | "off" => Some(false),
            _ => None,
        };
        Stop {
            is_on: truth("PROXY_STOP_AFTER_TOOLS"),
            mode: match self.get("PROXY_STOP_AFTER_TOOLS_MODE").as_deref() {
                Some("first") => Some(StopMode::First),
                Some("all") => Some(StopMode::All),
                _ => None,
            },
            grace_ms: self.get("PROXY_STOP_AFTER_TOOLS_GRACE_MS").and_then(|text| text.parse().ok()),
            suppress_tail: truth("PROXY_SUPPRESS_TAIL_AFTER_TOOLS"),
            parallel: truth("PROXY_ENABLE_PARALLEL_TOOL_CALLS"),
        }
    }

    /// What is served without a file: the scripted models, and each provider whose variables are set.
    pub fn config(&self) -> Config {
        let mut config = Config::default();
        config.add_demo();
        for &(name, key, url, home, protocol) in PROVIDERS {
            let base = self.get(url);
            if self.get(key).is_none() && base.is_none() {
                continue;
            }
            // Who else speaks for OpenAI at another address speaks chat, and may be any model.
            let is_home = base.as_deref().is_none_or(|base| base.trim_end_matches('/') == home);
            let is_openai = protocol == &protocol::OPENAI_RESPONSES;
            let protocol = if is_openai && !is_home { &protocol::OPENAI_CHAT } else { protocol };
            let mut upstream = Upstream::at(base.unwrap_or_else(|| home.to_owned()), protocol);
            upstream.key_env = self.get(key).map(|_| key.to_owned());
            upstream.provider = PARTICULAR.contains(&name).then(|| name.to_owned());
            if NATIVE.contains(&name) && is_home {
                (upstream.dialect, upstream.repair, upstream.schema) = ("none".to_owned(), false, Check::Off);
            }
            config.upstreams.insert(name.to_owned(), upstream);
        }
        if let Some(host) = self.get("OLLAMA_HOST") {
            let url = if host.contains("://") { host } else { format!("http://{host}") };
            config.upstreams.insert("ollama".to_owned(), Upstream::at(url, &protocol::OLLAMA));
        }
        config.models.extend(
            FAMILIES.iter().filter(|(_, upstream)| config.upstreams.contains_key(*upstream)).map(
                |&(name, upstream)| super::Model {
                    name: name.to_owned(),
                    aliases: Vec::new(),
                    upstream: upstream.to_owned(),
                    model: None,
                    fallbacks: Vec::new(),
                },
            ),
        );
        config
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn environment(variables: &'static [(&str, &str)]) -> Environment<'static> {
        Environment::of(|name| {
            variables.iter().find(|(key, _)| *key == name).map(|(_, value)| (*value).to_owned())
        })
    }

    #[test]
    fn providers_are_served_whose_variables_are_set() {
        let config = environment(&[("ANTHROPIC_API_KEY", "k"), ("OLLAMA_HOST", "127.0.0.1:1")]).config();
        let names: Vec<_> = config.upstreams.keys().map(String::as_str).collect();
        assert_eq!(names, ["anthropic", "demo", "ollama"]);
        assert_eq!(config.upstreams["ollama"].url, "http://127.0.0.1:1");
        assert_eq!(config.models[0].name, "claude-*");
        assert!(config.check().is_ok());
        let config = environment(&[("MISTRAL_API_KEY", "k"), ("OPENROUTER_API_KEY", "k")]).config();
        assert_eq!(config.upstreams["mistral"].provider.as_deref(), Some("mistral"));
        assert_eq!(config.upstreams["openrouter"].provider, None);
    }

    #[test]
    fn the_environment_stops_whom_the_file_says_nothing_of() {
        let stop = environment(&[("PROXY_STOP_AFTER_TOOLS", "true"), ("PROXY_STOP_AFTER_TOOLS_MODE", "all")]);
        let own = Stop { is_on: Some(false), ..Stop::default() };
        let both = own.or(stop.stop());
        assert_eq!((both.is_on, both.mode, both.parallel), (Some(false), Some(StopMode::All), None));
    }
}
