//! Declarations in files and requests: dialects beside the built-in ones, and tools.

use std::collections::HashMap;
use std::fs;
use std::path::Path;
use std::sync::Mutex;

use anyhow::{Context, Result, anyhow, bail};
use callweave::dialect::{Dialect, DialectRegistry, ExtractOptions, Tools};
use callweave::json::Value;
use callweave_gateway::config::nearest;

/// The dialects that can be asked for: the built-in ones, and one of the user's own.
pub(crate) struct KnownDialects {
    registry: DialectRegistry,
    own: Option<String>,
    /// The options of dialects that were asked for: making them ready takes longer than reading many a text.
    ready: Mutex<HashMap<String, ExtractOptions>>,
}

impl KnownDialects {
    /// The built-in dialects and that of the file, if there is one.
    pub(crate) fn with_file(path: Option<&Path>) -> Result<Self> {
        let mut registry = DialectRegistry::builtin().clone();
        let Some(path) = path else { return Ok(Self { registry, own: None, ready: Mutex::default() }) };
        let text = fs::read_to_string(path).with_context(|| format!("cannot read {}", path.display()))?;
        let told = || format!("{} does not describe a dialect", path.display());
        let dialect: Dialect = toml::from_str(&text).with_context(told)?;
        let own = Some(dialect.name.clone());
        registry.add(dialect).map_err(|error| anyhow!("{}", error.detail())).with_context(told)?;
        Ok(Self { registry, own, ready: Mutex::default() })
    }

    pub(crate) fn registry(&self) -> &DialectRegistry {
        &self.registry
    }

    /// The dialect of the user's own file.
    pub(crate) fn own(&self) -> Option<&Dialect> {
        self.registry.find(self.own.as_deref()?)
    }

    /// The options for text in the dialect of that name, or in any of them for `auto`.
    pub(crate) fn named(&self, name: &str) -> Result<ExtractOptions> {
        let mut ready = self.ready.lock().expect("nobody fails who asks for a dialect");
        if let Some(options) = ready.get(name) {
            return Ok(options.clone());
        }
        let unknown = |_| anyhow!("unknown dialect {name:?}; {}see callweave dialects", self.meant(name));
        let options = self.registry.options(name).map_err(unknown)?;
        Ok(ready.entry(name.to_owned()).or_insert(options).clone())
    }

    /// Suggests a dialect for a name that no dialect has, as a question.
    pub(crate) fn meant(&self, name: &str) -> String {
        let names = self.registry.dialects().iter().map(|dialect| dialect.name.as_str());
        let meant = nearest(name, names.chain(["auto"]));
        meant.map(|name| format!("did you mean {name:?}? ")).unwrap_or_default()
    }
}

/// The list of tools in a value that is one, or a request that has one. `source` names it in errors.
pub(crate) fn list_of_tools<'v>(value: &'v Value, source: &str) -> Result<&'v [Value]> {
    let list = value.get("tools").unwrap_or(value).as_array().map(|list| list.as_slice());
    match list {
        Some(list) if list.is_empty() || list.iter().any(has_name) => Ok(list),
        _ => bail!("{source} has no tools; it should be a list of objects with a name"),
    }
}

/// Whether that is a tool that can be called.
pub(crate) fn has_name(tool: &Value) -> bool {
    let function = tool.get("function").filter(|function| function.is_object()).unwrap_or(tool);
    function.get("name").and_then(Value::as_str).is_some_and(|name| !name.is_empty())
}

/// The tools of a value, see [`list_of_tools`].
pub(crate) fn tools_of(value: &Value, source: &str) -> Result<Tools> {
    let list = list_of_tools(value, source)?;
    Ok(Tools::from_json(&Value::from(list)))
}

/// The tools of a file.
pub(crate) fn read_tools(path: &Path) -> Result<Tools> {
    let text = fs::read_to_string(path).with_context(|| format!("cannot read {}", path.display()))?;
    let value: Value = text.parse().with_context(|| format!("{} is not JSON", path.display()))?;
    tools_of(&value, &path.display().to_string())
}
