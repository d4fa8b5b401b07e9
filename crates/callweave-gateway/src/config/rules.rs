//! The rules that a configuration must keep, and what is doubtful in one that keeps them.

use std::time::Duration;

use callweave::dialect::DialectRegistry;
use callweave::exchange::http::{HttpWire, shown_url};
use callweave::protocol::{CODEX_APP_SERVER, Protocol, TABLE};
use callweave::provider::Provider;
use callweave::request::providers;

use super::names::NameTable;
use super::nearest::unknown;
use super::problem::ConfigFlaw;
use super::{Config, DEMO, Environment, LimitsConfig, StoreConfig, TimeoutsConfig, UpstreamConfig, address};
use crate::{demo, keys, pages};

/// Bytes of one thing: a tebibyte is more than any machine takes.
const BYTES: (u64, u64) = (1, 1 << 40);
/// Things that are counted.
const COUNT: (u64, u64) = (1, 1 << 30);
/// Things that each take a place in memory.
const PLACES: (u64, u64) = (1, 1 << 20);
/// Repeats of a request.
const REPEATS: (u64, u64) = (0, 100);
/// A year.
const LONGEST: Duration = Duration::from_secs(365 * 24 * 60 * 60);
/// Less than that is no time to do anything.
const SHORTEST: Duration = Duration::from_millis(10);
/// Signs of life that come more often are a flood.
const PINGS: Duration = Duration::from_millis(100);

impl Config {
    /// All that is wrong.
    pub(super) fn flaws(&self) -> Vec<ConfigFlaw> {
        let mut flaws = Vec::new();
        self.check_numbers(&mut flaws);
        for (name, upstream) in &self.upstreams {
            let path = format!("upstreams.{name}");
            if name.is_empty() || name.contains('/') {
                flaws.push(ConfigFlaw::new(
                    &path,
                    "the name of an upstream has no / in it, since clients ask for NAME/MODEL",
                ));
            }
            upstream.check(&path, &mut flaws);
            if upstream.run_tools_on_this_machine && self.client_keys.is_empty() {
                let what = "whoever asks could run commands on this machine: set client_keys first";
                flaws.push(ConfigFlaw::new(format!("{path}.run_tools_on_this_machine"), what));
            }
            self.check_own(name, upstream, &mut flaws);
        }
        self.check_names(&mut flaws);
        self.check_access(&mut flaws);
        flaws
    }

    fn check_numbers(&self, flaws: &mut Vec<ConfigFlaw>) {
        let LimitsConfig {
            body,
            decompressed,
            response,
            concurrent,
            arguments,
            headers,
            schema_steps,
            values,
            messages,
            parts,
            tools,
            ratio,
            members,
            in_flight,
            connections,
        } = &self.limits;
        let StoreConfig { responses, bytes, seal_bytes, expiry } = &self.store;
        let wide = |number: &usize| *number as u64;
        for (path, number, (least, max)) in [
            ("limits.body", wide(body), BYTES),
            ("limits.decompressed", wide(decompressed), BYTES),
            ("limits.response", *response, BYTES),
            ("limits.arguments", wide(arguments), BYTES),
            ("limits.concurrent", wide(concurrent), PLACES),
            ("limits.headers", wide(headers), (1, 10_000)),
            ("limits.schema_steps", *schema_steps, (0, COUNT.1)),
            ("limits.values", wide(values), COUNT),
            ("limits.messages", wide(messages), COUNT),
            ("limits.parts", wide(parts), COUNT),
            ("limits.tools", wide(tools), COUNT),
            ("limits.ratio", wide(ratio), COUNT),
            ("limits.members", wide(members), COUNT),
            ("limits.in_flight", wide(in_flight), BYTES),
            ("limits.connections", wide(connections), PLACES),
            ("store.responses", wide(responses), (0, COUNT.1)),
            ("store.bytes", wide(bytes), (0, BYTES.1)),
            ("store.seal_bytes", wide(seal_bytes), (0, BYTES.1)),
        ] {
            if !(least..=max).contains(&number) {
                flaws.push(ConfigFlaw::new(path, format!("{number} is not from {least} to {max}")));
            }
        }
        let TimeoutsConfig { connect, first_byte, idle, response, request, keep_alive, shutdown } =
            &self.timeouts;
        for (path, time, least) in [
            ("timeouts.connect", connect, SHORTEST),
            ("timeouts.first_byte", first_byte, SHORTEST),
            ("timeouts.idle", idle, SHORTEST),
            ("timeouts.response", response, SHORTEST),
            ("timeouts.request", request, SHORTEST),
            ("timeouts.keep_alive", keep_alive, PINGS),
            ("timeouts.shutdown", shutdown, Duration::ZERO),
            ("store.expiry", expiry, Duration::ZERO),
        ] {
            if !(least..=LONGEST).contains(time) {
                let (time, least) = (time.as_secs_f64(), least.as_secs_f64());
                let what = format!("{time} seconds are not from {least} to {}", LONGEST.as_secs());
                flaws.push(ConfigFlaw::new(path, what));
            }
        }
    }

    /// Nobody may ask itself.
    fn check_own(&self, name: &str, upstream: &UpstreamConfig, flaws: &mut Vec<ConfigFlaw>) {
        if upstream.is_demo() || upstream.is_codex() || !address::is_own(&upstream.base_url, self.listen) {
            return;
        }
        let path = format!("upstreams.{name}.base_url");
        let (url, listen) = (shown_url(&upstream.base_url), self.listen);
        let what = format!(
            "{url} is this gateway itself, which listens on {listen}: every request would come back to it"
        );
        let way_out = match self.origin.variable(&path) {
            Some(variable) => format!(
                "; the variable tells both clients such as Claude Code and this gateway whom to ask: \
                 start the gateway without it (env -u {variable} callweave serve), name another upstream in it, or use --port"
            ),
            None => "; name another upstream, or listen elsewhere with --port".to_owned(),
        };
        flaws.push(ConfigFlaw::new(path, what + &way_out));
    }

    fn check_names(&self, flaws: &mut Vec<ConfigFlaw>) {
        let upstreams = || self.upstreams.keys().map(String::as_str);
        let missing = |name: &str| match name {
            DEMO => "the scripted models are served only with demo = true".to_owned(),
            _ => unknown("upstream", name, upstreams()),
        };
        if let Some(name) =
            self.default_upstream.as_deref().filter(|name| !self.upstreams.contains_key(*name))
        {
            flaws.push(ConfigFlaw::new("default_upstream", missing(name)));
        }
        let names = NameTable::new(self);
        let rows = || self.models.iter().flat_map(|row| std::iter::once(&row.name).chain(&row.aliases));
        for (at, model) in self.models.iter().enumerate() {
            let path = format!("models.{at}");
            if rows().any(|name| name.is_empty()) && model.name.is_empty() {
                flaws.push(ConfigFlaw::new(format!("{path}.name"), "a model has a name"));
            }
            match self.upstreams.get(&model.upstream) {
                None => flaws.push(ConfigFlaw::new(format!("{path}.upstream"), missing(&model.upstream))),
                Some(upstream) => {
                    let own = model.model.as_deref().filter(|_| upstream.is_demo());
                    if let Some(own) = own.filter(|own| demo::protocol(own).is_none()) {
                        let what = unknown("scripted model", own, demo::models());
                        flaws.push(ConfigFlaw::new(format!("{path}.model"), what));
                    }
                }
            }
            for (number, fallback) in model.fallbacks.iter().enumerate() {
                let path = format!("{path}.fallbacks.{number}");
                let found = names.find(fallback);
                let is_demo = found
                    .as_ref()
                    .and_then(|found| self.upstreams.get(found.upstream))
                    .is_some_and(UpstreamConfig::is_demo);
                match found {
                    Some(found) if is_demo && demo::protocol(&found.model).is_none() => {
                        flaws.push(ConfigFlaw::new(
                            path,
                            unknown("scripted model", &found.model, demo::models()),
                        ));
                    }
                    Some(_) => {}
                    // A problem with its row is reported there.
                    None if rows().any(|name| is_meant(name, fallback)) => {}
                    None if fallback.starts_with("demo/") => flaws.push(ConfigFlaw::new(path, missing(DEMO))),
                    None => {
                        let known: Vec<String> =
                            rows().cloned().chain(upstreams().map(|name| format!("{name}/MODEL"))).collect();
                        let what = unknown("model", fallback, known.iter().map(String::as_str));
                        flaws.push(ConfigFlaw::new(path, what));
                    }
                }
            }
        }
    }

    /// Checks the settings that let clients in.
    fn check_access(&self, flaws: &mut Vec<ConfigFlaw>) {
        for (at, key) in self.client_keys.iter().enumerate() {
            let what = match keys::digest_of(key) {
                None => {
                    "a key is not sha256: and 64 hexadecimal digits; printf %s KEY | sha256sum tells them"
                }
                Some(digest) if digest == keys::KeyDigest::of("") => "that is the digest of no key at all",
                Some(_) => continue,
            };
            flaws.push(ConfigFlaw::new(format!("client_keys.{at}"), what));
        }
        let told = |key: &str, all: &[String], fault: fn(&str) -> Option<String>| -> Vec<ConfigFlaw> {
            let of =
                |(at, text): (usize, &String)| Some(ConfigFlaw::new(format!("{key}.{at}"), fault(text)?));
            all.iter().enumerate().filter_map(of).collect()
        };
        flaws.extend(told("allowed_hosts", &self.allowed_hosts, pages::host_fault));
        flaws.extend(told("allowed_origins", &self.allowed_origins, pages::origin_fault));
        if !self.listen.ip().is_loopback() && self.client_keys.is_empty() && !self.allow_open {
            let what = format!(
                "listening on {} lets other machines in without a key: \
                 set client_keys, or allow_open = true if that is meant",
                self.listen.ip()
            );
            flaws.push(ConfigFlaw::new("listen", what));
        }
    }

    /// Returns doubts about a configuration that can be served.
    pub(crate) fn doubts(&self, environment: &Environment<'_>) -> Vec<ConfigFlaw> {
        let mut doubts: Vec<ConfigFlaw> = self.origin.renamed().collect();
        if self.upstreams.is_empty() {
            doubts.push(ConfigFlaw::new(
                "",
                "no upstream is configured, so there is no model; demo = true serves scripted ones",
            ));
        }
        for (name, upstream) in &self.upstreams {
            let path = |key: &str| format!("upstreams.{name}.{key}");
            if let Some(variable) =
                upstream.api_key_env.as_deref().filter(|name| environment.get(name).is_none())
            {
                let what = format!("{variable} is not set, so {name} is asked without a key");
                doubts.push(ConfigFlaw::new(path("api_key_env"), what));
            }
            if address::has_user(&upstream.base_url) {
                let what =
                    "the name and the password in it are not sent: an upstream gets the key in api_key_env";
                doubts.push(ConfigFlaw::new(path("base_url"), what));
            }
        }
        doubts
    }
}

impl UpstreamConfig {
    fn check(&self, path: &str, flaws: &mut Vec<ConfigFlaw>) {
        let mut put = |key: &str, what: String| flaws.push(ConfigFlaw::new(format!("{path}.{key}"), what));
        let key = if self.protocols.is_empty() { "protocol" } else { "protocols" };
        for name in self.named_protocols() {
            match Protocol::named(name) {
                None => put(key, unknown("protocol", name, asked().chain(aliases()))),
                Some(protocol) if *protocol == CODEX_APP_SERVER => {
                    if self.command.is_empty() {
                        let what = "a Codex app-server is a program: command = [\"codex\", \"app-server\"]";
                        put(key, what.to_owned());
                    }
                }
                Some(protocol) if HttpWire::of(protocol).is_none() => {
                    let known = asked().collect::<Vec<_>>().join(", ");
                    put(key, format!("nobody can be asked in {} yet (known: {known})", protocol.name));
                }
                Some(_) => {}
            }
        }
        if !self.protocol.is_empty() && !self.protocols.is_empty() {
            put("protocols", "protocol says the same for one: set either".to_owned());
        }
        match self.is_codex() {
            true => self.check_command(&mut put),
            false => {
                if let Some(what) = address::fault(&self.base_url).filter(|_| !self.is_demo()) {
                    put("base_url", what);
                }
                for (key, is_set) in [
                    ("codex_home", self.codex_home.is_some()),
                    ("environment", !self.environment.is_empty()),
                    ("run_tools_on_this_machine", self.run_tools_on_this_machine),
                ] {
                    if is_set {
                        put(key, "it is for an upstream with a command".to_owned());
                    }
                }
            }
        }
        let dialects = ["auto", "none", "model"];
        if !dialects.contains(&self.dialect.as_str())
            && DialectRegistry::builtin().find(&self.dialect).is_none()
        {
            let known = DialectRegistry::builtin().dialects().iter().map(|dialect| dialect.name.as_str());
            put("dialect", unknown("dialect", &self.dialect, dialects.into_iter().chain(known)));
        }
        if let Some(provider) = &self.provider
            && Provider::named(provider).is_none_or(|known| known.protocols.is_empty())
        {
            put("provider", unknown("provider", provider, providers()));
        }
        if let Some(variable) = &self.api_key_env
            && (variable.is_empty() || variable.contains(['=', '\0', ' ']))
        {
            let what =
                "it is the name of an environment variable, such as \"LOCAL_KEY\", and never the key itself";
            put("api_key_env", what.to_owned());
        }
        let grace = self.stop_after_tools_grace_ms.unwrap_or_default();
        for (key, number, (least, max)) in [
            ("reask", u64::from(self.reask), REPEATS),
            ("retries", u64::from(self.retries), REPEATS),
            ("stop_after_tools_grace_ms", grace, (0, 3_600_000)),
            ("threads", self.threads as u64, (1, 1000)),
        ] {
            if !(least..=max).contains(&number) {
                put(key, format!("{number} is not from {least} to {max}"));
            }
        }
    }
}

impl UpstreamConfig {
    /// Checks the settings of a process.
    fn check_command(&self, put: &mut impl FnMut(&str, String)) {
        if self.command.iter().any(|word| word.contains('\0')) || self.command[0].trim().is_empty() {
            let what = "it is a program and its arguments, such as [\"codex\", \"app-server\"]";
            put("command", what.to_owned());
        }
        if !self.command.iter().any(|word| word == "app-server") {
            put("command", "one of its words is app-server".to_owned());
        }
        if !self.base_url.is_empty() {
            put("base_url", "an upstream with a command has no address: set either".to_owned());
        }
        if self
            .named_protocols()
            .any(|name| Protocol::named(name).is_some_and(|own| *own != CODEX_APP_SERVER))
        {
            let key = if self.protocols.is_empty() { "protocol" } else { "protocols" };
            put(key, "an upstream with a command speaks codex-app-server".to_owned());
        }
        if self.codex_home.as_deref().is_some_and(|home| !home.is_absolute()) {
            put("codex_home", "it is the absolute path of a folder".to_owned());
        }
        let is_variable = |name: &&String| !name.is_empty() && !name.contains(['=', '\0', ' ']);
        if let Some(name) = self.environment.iter().find(|name| !is_variable(name)) {
            put("environment", format!("{name:?} is not the name of an environment variable"));
        }
    }
}

/// Whether a row of that name matches a name.
fn is_meant(row: &str, name: &str) -> bool {
    row.strip_suffix('*').map_or(row == name, |start| name.starts_with(start))
}

/// The protocols in which upstreams can be asked.
fn asked() -> impl Iterator<Item = &'static str> {
    let is_asked =
        |protocol: &&&Protocol| HttpWire::of(protocol).is_some() || ***protocol == CODEX_APP_SERVER;
    TABLE.iter().filter(is_asked).map(|protocol| protocol.name)
}

fn aliases() -> impl Iterator<Item = &'static str> {
    TABLE
        .iter()
        .filter(|protocol| HttpWire::of(protocol).is_some())
        .flat_map(|protocol| protocol.aliases.iter().copied())
}
