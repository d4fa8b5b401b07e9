//! From the name that a client uses to the upstream that it means.

use std::collections::BTreeMap;

use super::{Config, ModelConfig, UpstreamConfig};
use crate::demo;

/// The names that are known.
pub(crate) struct NameTable {
    /// The models that upstreams are said to have.
    upstreams: BTreeMap<String, Vec<String>>,
    models: Vec<ModelConfig>,
    default: Option<String>,
}

/// The target that a name resolves to.
pub(crate) struct NamedTarget<'n> {
    /// The upstream.
    pub(crate) upstream: &'n str,
    /// The upstream's name of the model.
    pub(crate) model: String,
    /// The row that says so.
    pub(crate) row: Option<&'n ModelConfig>,
    /// Whether the configuration names the model itself, which bounds the number of names.
    pub(crate) is_configured: bool,
}

impl NameTable {
    pub(crate) fn new(config: &Config) -> Self {
        let listed = |upstream: &UpstreamConfig| match upstream.is_demo() {
            true => demo::models().map(str::to_owned).collect(),
            false => upstream.models.clone(),
        };
        Self {
            upstreams: config.upstreams.iter().map(|(name, it)| (name.clone(), listed(it))).collect(),
            models: config.models.clone(),
            default: config.default_upstream.clone(),
        }
    }

    /// Resolves a name: exactly, by the upstream's name before a slash, by the longest prefix, or by default.
    pub(crate) fn find(&self, name: &str) -> Option<NamedTarget<'_>> {
        let is_exact = |row: &&ModelConfig| row.name == name || row.aliases.iter().any(|alias| alias == name);
        if let Some(row) = self.models.iter().find(is_exact) {
            return self.of_row(row, name);
        }
        if let Some((upstream, model)) = name.split_once('/')
            && let Some((upstream, _)) = self.upstreams.get_key_value(upstream)
        {
            return self.of_upstream(upstream, model);
        }
        let matched = |pattern: &String| {
            pattern.strip_suffix('*').filter(|start| name.starts_with(start)).map(str::len)
        };
        let longest =
            |row: &ModelConfig| std::iter::once(&row.name).chain(&row.aliases).filter_map(matched).max();
        let alike = self.models.iter().filter_map(|row| Some((longest(row)?, row)));
        // The first of several that are equally long.
        if let Some((_, row)) = alike.reduce(|best, next| if next.0 > best.0 { next } else { best }) {
            return self.of_row(row, name);
        }
        let lists = |(_, models): &(&String, &Vec<String>)| models.iter().any(|model| model == name);
        let listed = self.upstreams.iter().find(lists).map(|(upstream, _)| upstream);
        self.of_upstream(listed.or(self.default.as_ref())?, name)
    }

    fn of_row<'n>(&'n self, row: &'n ModelConfig, name: &str) -> Option<NamedTarget<'n>> {
        let model = row.model.clone().unwrap_or_else(|| name.to_owned());
        let (upstream, _) = self.upstreams.get_key_value(&row.upstream)?;
        let is_configured = row.model.is_some() || self.is_configured(upstream, name);
        Some(NamedTarget { upstream, model, row: Some(row), is_configured })
    }

    fn of_upstream<'n>(&'n self, upstream: &'n str, model: &str) -> Option<NamedTarget<'n>> {
        let is_configured = self.is_configured(upstream, model);
        Some(NamedTarget { upstream, model: model.to_owned(), row: None, is_configured })
    }

    /// Whether a model of an upstream stands in the configuration.
    fn is_configured(&self, upstream: &str, model: &str) -> bool {
        let is_listed = || self.upstreams.get(upstream).is_some_and(|all| all.iter().any(|own| own == model));
        let names = |row: &ModelConfig| match &row.model {
            Some(own) => own == model,
            None => row.name == model || row.aliases.iter().any(|alias| alias == model),
        };
        self.models.iter().any(|row| row.upstream == upstream && names(row)) || is_listed()
    }

    /// The rows.
    pub(crate) fn rows(&self) -> &[ModelConfig] {
        &self.models
    }

    /// Returns the upstream for every other name.
    pub(crate) fn default(&self) -> Option<&String> {
        self.default.as_ref()
    }
}
