//! From the name that a client uses to those who can answer to it.

use std::collections::BTreeMap;
use std::sync::Arc;

use callweave::upstream::ErrorClass;

use crate::config::{Config, Environment, Model};
use crate::demo;
use crate::failure::Failure;
use crate::upstream::Upstream;

/// Who answers, and what it calls the model.
#[derive(Clone)]
pub(crate) struct Target {
    pub(crate) upstream: Arc<Upstream>,
    pub(crate) model: String,
}

/// The names that are known.
pub(crate) struct Routes {
    upstreams: BTreeMap<String, Arc<Upstream>>,
    models: Vec<Model>,
    default: Option<String>,
}

/// So many are tried for one request at most, however the names refer to each other.
const MOST: usize = 16;

impl Routes {
    pub(crate) fn new(config: &Config, environment: &Environment<'_>) -> Self {
        let ready = |(name, upstream): (&String, &_)| {
            (name.clone(), Arc::new(Upstream::new(name, upstream, environment)))
        };
        Self {
            upstreams: config.upstreams.iter().map(ready).collect(),
            models: config.models.clone(),
            default: config.default_upstream.clone(),
        }
    }

    /// Those who can answer, in the order in which they are asked.
    pub(crate) fn find(&self, name: &str) -> Result<Vec<Target>, Failure> {
        let mut found = Vec::new();
        let mut names = vec![name.to_owned()];
        let mut at = 0;
        while let Some(name) = names.get(at).cloned()
            && at < MOST
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

    /// Who is asked first.
    pub(crate) fn first(&self, name: &str) -> Option<Target> {
        self.target(name).map(|(target, _)| target)
    }

    fn target(&self, name: &str) -> Option<(Target, Option<&Model>)> {
        let of_row = |row: &Model| {
            let model = row.model.clone().unwrap_or_else(|| name.to_owned());
            self.upstream(&row.upstream, model)
        };
        let is_exact = |row: &&Model| row.name == name || row.aliases.iter().any(|alias| alias == name);
        if let Some(row) = self.models.iter().find(is_exact) {
            return Some((of_row(row)?, Some(row)));
        }
        if let Some((upstream, model)) = name.split_once('/')
            && let Some(target) = self.upstream(upstream, model.to_owned())
        {
            return Some((target, None));
        }
        let begins =
            |pattern: &String| pattern.strip_suffix('*').is_some_and(|start| name.starts_with(start));
        let is_alike = |row: &&Model| begins(&row.name) || row.aliases.iter().any(begins);
        if let Some(row) = self.models.iter().find(is_alike) {
            return Some((of_row(row)?, Some(row)));
        }
        let lists = |upstream: &&Arc<Upstream>| upstream.config.models.iter().any(|model| model == name);
        let listed = self.upstreams.values().find(lists).map(|upstream| upstream.name.clone());
        let last = listed.or_else(|| self.default.clone())?;
        Some((self.upstream(&last, name.to_owned())?, None))
    }

    fn upstream(&self, name: &str, model: String) -> Option<Target> {
        let upstream = Arc::clone(self.upstreams.get(name)?);
        Some(Target { upstream, model })
    }

    fn unknown(&self, name: &str) -> Failure {
        let what = format!("there is no model {name:?}; GET /v1/models lists those that there are");
        Failure::new(ErrorClass::NotFound, what).with_code("model_not_found")
    }

    /// Every upstream.
    pub(crate) fn upstreams(&self) -> impl Iterator<Item = &Arc<Upstream>> {
        self.upstreams.values()
    }

    /// The names that can be listed without asking anybody.
    pub(crate) fn names(&self) -> Vec<String> {
        let rows = self.models.iter().flat_map(|row| std::iter::once(&row.name).chain(&row.aliases));
        let mut names: Vec<String> = rows.filter(|name| !name.ends_with('*')).cloned().collect();
        for upstream in self.upstreams.values() {
            if upstream.config.is_demo() {
                names.extend(demo::models().map(|model| format!("{}/{model}", upstream.name)));
            }
            let is_default = self.default.as_ref() == Some(&upstream.name);
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

    fn routes(text: &str) -> Routes {
        Routes::new(&Config::read(text).expect("valid"), &Environment::of(|_| None))
    }

    fn found(routes: &Routes, name: &str) -> Vec<String> {
        let targets = routes.find(name).unwrap_or_default();
        targets.iter().map(|target| format!("{}:{}", target.upstream.name, target.model)).collect()
    }

    const TABLE: &str = r#"
        default_upstream = "b"
        [upstreams.a]
        url = "http://a"
        [upstreams.b]
        url = "http://b"
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
        assert_eq!(found(&routes, "demo/x"), ["demo:x"]);
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
}
