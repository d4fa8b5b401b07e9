//! What the environment says.

use callweave::exchange::{SchemaMode, StopMode, StopPolicy};
use callweave::protocol::{self, Protocol};

use super::{Config, Problem, Upstream};

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
    /// themselves. A value that is none says nothing: see [`check`](Self::check).
    pub fn stop(&self) -> StopPolicy {
        self.read_stop().0
    }

    /// Whether the variables that are read have values that can be.
    pub fn check(&self) -> Result<(), Problem> {
        let mut wrong = self
            .read_stop()
            .1
            .into_iter()
            .map(|(name, value, allowed)| Problem::new(format!("{name}: {value:?} is not {allowed}")));
        let first = wrong.next();
        first.map_or(Ok(()), |first| Err(wrong.fold(first, Problem::and)))
    }

    fn read_stop(&self) -> (StopPolicy, Vec<(&'static str, String, &'static str)>) {
        let mut wrong = Vec::new();
        let grace = |text: &str| text.parse().ok().filter(|grace| *grace <= 3_600_000);
        let stop = StopPolicy {
            is_on: self.value("PROXY_STOP_AFTER_TOOLS", truth, TRUTH, &mut wrong),
            mode: self.value("PROXY_STOP_AFTER_TOOLS_MODE", StopMode::named, "first or all", &mut wrong),
            grace_ms: self.value("PROXY_STOP_AFTER_TOOLS_GRACE_MS", grace, GRACE, &mut wrong),
            suppress_tail: self.value("PROXY_SUPPRESS_TAIL_AFTER_TOOLS", truth, TRUTH, &mut wrong),
            parallel: self.value("PROXY_ENABLE_PARALLEL_TOOL_CALLS", truth, TRUTH, &mut wrong),
            max_calls: None,
        };
        (stop, wrong)
    }

    /// The value of a variable; one that cannot be read is put beside.
    fn value<T>(
        &self,
        name: &'static str,
        read: impl Fn(&str) -> Option<T>,
        allowed: &'static str,
        wrong: &mut Vec<(&'static str, String, &'static str)>,
    ) -> Option<T> {
        let text = self.get(name).filter(|text| !text.trim().is_empty())?;
        let value = read(&text.trim().to_ascii_lowercase());
        if value.is_none() {
            wrong.push((name, text, allowed));
        }
        value
    }

    /// What is served without a file: each provider whose variables are set; the scripted models if there is none.
    pub fn config(&self) -> Config {
        let mut config = Config::default();
        for &(name, key, variable, home, protocol) in PROVIDERS {
            let base = self.get(variable);
            if self.get(key).is_none() && base.is_none() {
                continue;
            }
            if base.is_some() {
                config.origin.put_variable(format!("upstreams.{name}.url"), variable);
            }
            // Who else speaks for OpenAI at another address speaks chat, and may be any model.
            let is_home = base.as_deref().is_none_or(|base| base.trim_end_matches('/') == home);
            let is_openai = protocol == &protocol::OPENAI_RESPONSES;
            let protocol = if is_openai && !is_home { &protocol::OPENAI_CHAT } else { protocol };
            let mut upstream = Upstream::at(base.unwrap_or_else(|| home.to_owned()), protocol);
            upstream.key_env = self.get(key).map(|_| key.to_owned());
            upstream.provider = PARTICULAR.contains(&name).then(|| name.to_owned());
            if NATIVE.contains(&name) && is_home {
                (upstream.dialect, upstream.repair, upstream.schema) =
                    ("none".to_owned(), false, SchemaMode::Off);
            }
            config.upstreams.insert(name.to_owned(), upstream);
        }
        if let Some(host) = self.get("OLLAMA_HOST") {
            config.origin.put_variable("upstreams.ollama.url".to_owned(), "OLLAMA_HOST");
            config.upstreams.insert("ollama".to_owned(), Upstream::at(ollama(&host), &protocol::OLLAMA));
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
        if config.upstreams.is_empty() {
            config.add_demo();
        }
        config
    }
}

const TRUTH: &str = "true or false (1, yes, on; 0, no, off)";
const GRACE: &str = "a number of milliseconds up to 3600000, without a unit";

fn truth(text: &str) -> Option<bool> {
    match text {
        "1" | "true" | "yes" | "on" => Some(true),
        "0" | "false" | "no" | "off" => Some(false),
        _ => None,
    }
}

/// Where Ollama is asked. Its own server reads the variable, too: no port means the usual one, every address means this
/// machine.
fn ollama(host: &str) -> String {
    let host = host.trim();
    if host.contains("://") {
        return host.to_owned();
    }
    let (name, port) = match host.rsplit_once(':') {
        Some((name, port)) if !name.contains(':') || name.ends_with(']') => (name, port),
        _ => (host, "11434"),
    };
    let name = if matches!(name, "" | "0.0.0.0" | "[::]") { "127.0.0.1" } else { name };
    format!("http://{name}:{port}")
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
        assert_eq!(names, ["anthropic", "ollama"]);
        assert_eq!(config.upstreams["ollama"].url, "http://127.0.0.1:1");
        assert_eq!(config.models[0].name, "claude-*");
        assert!(config.check().is_ok());
        let config = environment(&[("MISTRAL_API_KEY", "k"), ("OPENROUTER_API_KEY", "k")]).config();
        assert_eq!(config.upstreams["mistral"].provider.as_deref(), Some("mistral"));
        assert_eq!(config.upstreams["openrouter"].provider, None);
    }

    #[test]
    fn the_environment_stops_whom_the_file_says_nothing_of() {
        let stop =
            environment(&[("PROXY_STOP_AFTER_TOOLS", "true"), ("PROXY_STOP_AFTER_TOOLS_MODE", "BURST")]);
        let own = StopPolicy { is_on: Some(false), ..StopPolicy::default() };
        let both = own.or(stop.stop());
        assert_eq!((both.is_on, both.mode, both.parallel), (Some(false), Some(StopMode::All), None));
    }

    #[test]
    fn the_scripted_models_are_served_where_nobody_else_is() {
        assert!(environment(&[]).config().upstreams.contains_key("demo"));
        for variable in ["OPENAI_API_KEY", "CO_API_URL", "OLLAMA_HOST"] {
            let config = Environment::of(|name| (name == variable).then(|| "http://h".to_owned())).config();
            assert!(!config.demo && !config.upstreams.contains_key("demo"), "{variable}");
        }
    }

    #[test]
    fn a_value_that_is_none_is_told_with_what_is_allowed() {
        for (name, value, allowed) in [
            ("PROXY_STOP_AFTER_TOOLS", "treu", "true or false"),
            ("PROXY_STOP_AFTER_TOOLS_MODE", "last", "first or all"),
            ("PROXY_STOP_AFTER_TOOLS_GRACE_MS", "1s", "milliseconds"),
            ("PROXY_STOP_AFTER_TOOLS_GRACE_MS", "-1", "milliseconds"),
            ("PROXY_SUPPRESS_TAIL_AFTER_TOOLS", "2", "true or false"),
            ("PROXY_ENABLE_PARALLEL_TOOL_CALLS", "maybe", "true or false"),
        ] {
            let environment = Environment::of(move |own| (own == name).then(|| value.to_owned()));
            let problem = environment.check().expect_err("a value that is none").to_string();
            assert!(problem.starts_with(name) && problem.contains(allowed), "{problem}");
        }
        let sound = [("PROXY_STOP_AFTER_TOOLS", "On"), ("PROXY_STOP_AFTER_TOOLS_GRACE_MS", " 5 ")];
        let sound =
            Environment::of(|own| sound.iter().find(|(name, _)| *name == own).map(|it| it.1.to_owned()));
        assert!(
            sound.check().is_ok() && sound.stop().is_on == Some(true) && sound.stop().grace_ms == Some(5)
        );
    }

    #[test]
    fn ollama_is_asked_where_its_own_server_listens() {
        for (host, url) in [
            ("127.0.0.1:1", "http://127.0.0.1:1"),
            ("0.0.0.0", "http://127.0.0.1:11434"),
            (":5", "http://127.0.0.1:5"),
            ("box", "http://box:11434"),
            ("[::1]", "http://[::1]:11434"),
            ("https://h/x", "https://h/x"),
        ] {
            assert_eq!(ollama(host), url);
        }
    }

    #[test]
    fn a_variable_that_means_this_gateway_is_told_with_the_way_out() {
        let mut config = environment(&[("ANTHROPIC_BASE_URL", "http://127.0.0.1:2255")]).config();
        let problem = config.check().expect_err("it would ask itself").to_string();
        assert!(
            problem.starts_with("ANTHROPIC_BASE_URL: ") && problem.contains("env -u ANTHROPIC_BASE_URL"),
            "{problem}"
        );
        assert!(problem.contains("Claude Code") && problem.contains("--port"), "{problem}");
        config.listen.set_port(1);
        assert!(config.check().is_ok());
    }
}
