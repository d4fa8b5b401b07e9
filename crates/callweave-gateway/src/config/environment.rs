//! Configuration from environment variables.

use callweave::exchange::{SchemaMode, StopMode, StopPolicy};
use callweave::protocol::OPENAI_RESPONSES;
use callweave::provider::TABLE;

use super::{Config, ConfigProblem, UpstreamConfig};

/// The variables of the process, or those of a test.
pub struct Environment<'e>(VariableSource<'e>);

type VariableSource<'e> = Box<dyn Fn(&str) -> Option<String> + 'e>;

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

    /// Reads `PROXY_STOP_AFTER_TOOLS`, `PROXY_STOP_AFTER_TOOLS_MODE` (`first`, `all`),
    /// `PROXY_STOP_AFTER_TOOLS_GRACE_MS`, `PROXY_SUPPRESS_TAIL_AFTER_TOOLS` and `PROXY_ENABLE_PARALLEL_TOOL_CALLS`, for
    /// all upstreams that set nothing themselves. An invalid value sets nothing: see [`check`](Self::check).
    pub fn stop(&self) -> StopPolicy {
        self.read_stop().0
    }

    /// Whether the variables that are read have values that can be.
    pub fn check(&self) -> Result<(), ConfigProblem> {
        let mut wrong =
            self.read_stop().1.into_iter().map(|(name, value, allowed)| {
                ConfigProblem::new(format!("{name}: {value:?} is not {allowed}"))
            });
        let first = wrong.next();
        first.map_or(Ok(()), |first| Err(wrong.fold(first, ConfigProblem::and)))
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

    /// Returns the configuration without a file: each provider whose variables are set; the scripted models if there is
    /// none.
    pub fn config(&self) -> Config {
        let mut config = Config::default();
        let served = TABLE.iter().filter_map(|provider| Some((provider, provider.base_url_variable?)));
        for (provider, variable) in served {
            let (name, key) = (provider.name, provider.key_variable);
            let base = self.get(variable);
            let has_key = key.is_some_and(|key| self.get(key).is_some());
            if !has_key && base.is_none() {
                continue;
            }
            if base.is_some() {
                config.origin.put_variable(format!("upstreams.{name}.base_url"), variable);
            }
            let is_home =
                base.as_deref().is_none_or(|base| Some(base.trim_end_matches('/')) == provider.base_url);
            let url = match (base, provider.base_url) {
                (Some(host), None) => ollama(&host),
                (base, home) => base.or_else(|| home.map(str::to_owned)).unwrap_or_default(),
            };
            let key_env = key.filter(|_| has_key).map(str::to_owned);
            let mut upstream =
                UpstreamConfig { base_url: url, api_key_env: key_env, ..UpstreamConfig::default() };
            // Another address under OpenAI's variables may be any server of Chat.
            let is_openai = provider.protocols.contains(&&OPENAI_RESPONSES);
            if is_home || !is_openai || provider.base_url.is_none() {
                upstream.provider = Some(name.to_owned());
            }
            if provider.calls_natively && is_home {
                (upstream.dialect, upstream.repair, upstream.schema) =
                    ("none".to_owned(), false, SchemaMode::Off);
            }
            config.upstreams.insert(name.to_owned(), upstream);
            config.models.extend(provider.model_prefixes.iter().map(|prefix| super::ModelConfig {
                name: format!("{prefix}*"),
                aliases: Vec::new(),
                upstream: name.to_owned(),
                model: None,
                fallbacks: Vec::new(),
            }));
        }
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

/// The address of Ollama. Its own server reads the variable, too: no port means the usual one, every address means this
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
        assert_eq!(config.upstreams["ollama"].base_url, "http://127.0.0.1:1");
        assert_eq!(config.models[0].name, "claude-*");
        assert!(config.check().is_ok());
        let config = environment(&[("MISTRAL_API_KEY", "k"), ("OPENROUTER_API_KEY", "k")]).config();
        assert_eq!(config.upstreams["mistral"].provider.as_deref(), Some("mistral"));
        assert_eq!(config.upstreams["openrouter"].spoken()[0].name, "openai-chat");
        let spoken = |variables| environment(variables).config().upstreams["openai"].spoken();
        assert_eq!(spoken(&[("OPENAI_API_KEY", "k")])[0].name, "openai-responses");
        assert_eq!(spoken(&[("OPENAI_BASE_URL", "http://h/v1")])[0].name, "openai-chat");
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
