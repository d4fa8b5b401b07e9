//! Resolves the name that a client uses to the targets for it.

use std::collections::BTreeMap;
use std::sync::Arc;

use callweave::exchange::{self, SharedState, UpstreamFault};
use callweave::upstream::ErrorClass;

use crate::account::beginning;
use crate::config::{Config, Environment, ModelConfig, NameTable, NamedTarget};
use crate::demo;
use crate::failure::RequestFailure;
use crate::upstream::Upstream;

/// The upstream of a request, and the upstream's name of the model.
#[derive(Clone)]
pub(crate) struct RouteTarget {
    pub(crate) upstream: Arc<Upstream>,
    pub(crate) model: String,
    label: ModelLabel,
}

/// The name of a target's model in metrics: clients may invent any number of names.
#[derive(Clone)]
enum ModelLabel {
    /// The upstream's name, since it stands in the configuration.
    Model,
    /// The name of the matching row.
    Row(Arc<str>),
    /// The name for all others.
    Other,
}

impl RouteTarget {
    /// The target of an exchange.
    pub(crate) fn of_exchange(&self) -> Result<exchange::ExchangeTarget, RequestFailure> {
        self.upstream.target(&self.model)
    }

    /// A fault of the upstream, as a failure that names it.
    pub(crate) fn failure(&self, fault: &UpstreamFault) -> RequestFailure {
        match self.of_exchange() {
            Ok(target) => RequestFailure::of(fault.error(&target.shown())),
            Err(failure) => failure,
        }
    }

    /// The model's name in metrics: a name of the configuration's, or `other`.
    pub(crate) fn label(&self) -> &str {
        match &self.label {
            ModelLabel::Model => &self.model,
            ModelLabel::Row(name) => name,
            ModelLabel::Other => "other",
        }
    }
}

/// The names that are known, and those who are meant.
pub(crate) struct RouteTable {
    upstreams: BTreeMap<String, Arc<Upstream>>,
    names: NameTable,
}

/// The maximum number of bytes of a requested name that are repeated to the client.
const LONGEST: usize = 200;

/// The maximum number of targets tried for one request, however the names refer to each other.
const MAX: usize = 16;

impl RouteTable {
    pub(crate) fn new(
        config: &Config,
        environment: &Environment<'_>,
        shared: &Arc<SharedState>,
    ) -> Result<Self, callweave::Error> {
        let mut upstreams = BTreeMap::new();
        for (name, upstream) in &config.upstreams {
            let ready = Upstream::new(name, upstream, environment, &config.limits, &config.timeouts, shared)?;
            upstreams.insert(name.clone(), Arc::new(ready));
        }
        Ok(Self { upstreams, names: NameTable::new(config) })
    }

    /// Returns the targets for a name, in the order in which they are tried.
    pub(crate) fn find(&self, name: &str) -> Result<Vec<RouteTarget>, RequestFailure> {
        let mut found = Vec::new();
        let mut names = vec![name.to_owned()];
        let mut at = 0;
        while let Some(name) = names.get(at).cloned()
            && at < MAX
        {
            at += 1;
            if let Some((target, row)) = self.target(&name) {
                found.push(target);
                for fallback in row.into_iter().flat_map(|row| &row.fallbacks) {
                    if !names.contains(fallback) {
                        names.push(fallback.clone());
                    }
                }
            }
        }
        match found.is_empty() {
            true => Err(self.unknown(name)),
            false => Ok(found),
        }
    }

    /// Returns the first target for a name.
    pub(crate) fn first(&self, name: &str) -> Option<RouteTarget> {
        self.target(name).map(|(target, _)| target)
    }

    fn target(&self, name: &str) -> Option<(RouteTarget, Option<&ModelConfig>)> {
        let NamedTarget { upstream, model, row, is_configured } = self.names.find(name)?;
        let label = match row {
            _ if is_configured => ModelLabel::Model,
            Some(row) => ModelLabel::Row(row.name.as_str().into()),
            None => ModelLabel::Other,
        };
        let upstream = Arc::clone(self.upstreams.get(upstream)?);
        Some((RouteTarget { upstream, model, label }, row))
    }

    fn unknown(&self, name: &str) -> RequestFailure {
        let name = beginning(name, LONGEST);
        let hint = match self.names.default() {
            Some(_) => "",
            None => ", or default_upstream names who answers to every name",
        };
        let what = format!(
            "there is no model {name:?}; GET /v1/models lists those that there are, UPSTREAM/MODEL asks an upstream \
             by its name{hint}"
        );
        RequestFailure::new(ErrorClass::NotFound, what).with_code("model_not_found")
    }

    /// Every upstream.
    pub(crate) fn upstreams(&self) -> impl Iterator<Item = &Arc<Upstream>> {
        self.upstreams.values()
    }

    /// The names that can be listed without asking anybody.
    pub(crate) fn names(&self) -> Vec<String> {
        let rows = self.names.rows().iter().flat_map(|row| std::iter::once(&row.name).chain(&row.aliases));
        let mut names: Vec<String> = rows.filter(|name| !name.ends_with('*')).cloned().collect();
        for upstream in self.upstreams.values() {
            if upstream.config.is_demo() {
                names.extend(demo::models().map(|model| format!("{}/{model}", upstream.name)));
            }
            let is_default = self.names.default() == Some(&upstream.name);
            names.extend(upstream.config.models.iter().map(|model| match is_default {
                true => model.clone(),
                false => format!("{}/{model}", upstream.name),
            }));
        }
        names
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn routes(text: &str) -> RouteTable {
        let config = Config::read(text).expect("valid");
        RouteTable::new(&config, &Environment::of(|_| None), &Arc::default()).expect("valid")
    }

    fn found(routes: &RouteTable, name: &str) -> Vec<String> {
        let targets = routes.find(name).unwrap_or_default();
        targets.iter().map(|target| format!("{}:{}", target.upstream.name, target.model)).collect()
    }

    const TABLE: &str = r#"
        default_upstream = "b"
        [upstreams.a]
        base_url = "http://a"
        [upstreams.b]
        base_url = "http://b"
        [[models]]
        name = "claude-*"
        upstream = "a"
        model = "big"
        fallbacks = ["small", "nothing/there", "claude-again"]
        [[models]]
        name = "claude-exact"
        aliases = ["small"]
        upstream = "b"
    "#;

    #[test]
    fn names_are_found_exactly_then_by_upstream_then_by_their_beginning() {
        let routes = routes(TABLE);
        assert_eq!(found(&routes, "claude-exact"), ["b:claude-exact"]);
        assert_eq!(found(&routes, "a/x/y"), ["a:x/y"]);
        assert_eq!(found(&routes, "other"), ["b:other"]);
        assert_eq!(found(&routes, "demo/x"), ["b:demo/x"]);
    }

    #[test]
    fn fallbacks_follow_in_order_and_never_for_ever() {
        let routes = routes(TABLE);
        let all = ["a:big", "b:small", "b:nothing/there", "a:big"];
        assert_eq!(found(&routes, "claude-5"), all);
    }

    #[test]
    fn a_name_that_nobody_answers_to_is_an_error() {
        assert!(routes("").find("none").is_err());
    }

    #[test]
    fn only_names_of_the_configuration_are_labels() {
        let routes = routes(&format!("demo = true\n{TABLE}\n[[models]]\nname = \"gpt-*\"\nupstream = \"a\""));
        for (name, label) in [
            ("claude-5", "big"),
            ("a/big", "big"),
            ("claude-exact", "claude-exact"),
            ("small", "small"),
            ("b/small", "small"),
            ("gpt-anything", "gpt-*"),
            ("a/anything", "other"),
            ("anything", "other"),
            ("demo/hermes", "hermes"),
            ("demo/HeRmEs", "other"),
        ] {
            assert_eq!(routes.first(name).expect("a target").label(), label, "{name}");
        }
    }
}
