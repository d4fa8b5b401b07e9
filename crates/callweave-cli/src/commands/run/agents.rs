//! The agents, a row each: their names, and the ways to give them the gateway.

use std::fs;
use std::path::Path;

use anyhow::{Context, Result};
use serde_json::{Value, json};

use crate::report::print_warning;

/// The agents that can be run.
#[derive(Clone, Copy, clap::ValueEnum)]
pub(super) enum AgentName {
    /// Claude Code
    Claude,
    /// Codex
    Codex,
    /// opencode
    Opencode,
    /// Gemini CLI
    Gemini,
    /// Qwen Code
    Qwen,
    /// Continue (cn)
    Continue,
}

/// The facts about an agent.
pub(super) struct AgentRow {
    pub(super) title: &'static str,
    pub(super) program: &'static str,
    /// The command that installs it.
    pub(super) install: &'static str,
    /// Whether it asks for a model of its own choice if none is named.
    pub(super) has_own_model: bool,
    set_up: fn(&AgentContext<'_>) -> Result<AgentSetup>,
}

/// The facts that an agent has to learn.
pub(super) struct AgentContext<'s> {
    /// The gateway, without a path.
    pub(super) url: String,
    pub(super) model: Option<&'s str>,
    /// Room for files of this run.
    pub(super) folder: &'s Path,
}

/// The setup by which it learns them.
#[derive(Default)]
pub(super) struct AgentSetup {
    /// Arguments before those of the user.
    pub(super) arguments: Vec<String>,
    pub(super) variables: Vec<(&'static str, String)>,
    /// Variables that would lead it elsewhere.
    pub(super) removed: &'static [&'static str],
}

/// The key that agents send, since most refuse to start without one. The gateway has the keys of upstreams.
const KEY: &str = "callweave";

impl AgentName {
    pub(super) fn row(self) -> &'static AgentRow {
        match self {
            Self::Claude => &CLAUDE,
            Self::Codex => &CODEX,
            Self::Opencode => &OPENCODE,
            Self::Gemini => &GEMINI,
            Self::Qwen => &QWEN,
            Self::Continue => &CONTINUE,
        }
    }
}

impl AgentRow {
    pub(super) fn set_up(&self, setting: &AgentContext<'_>) -> Result<AgentSetup> {
        (self.set_up)(setting)
    }
}

const CLAUDE: AgentRow = AgentRow {
    title: "Claude Code",
    program: "claude",
    install: "npm install -g @anthropic-ai/claude-code",
    has_own_model: true,
    set_up: |setting| {
        let mut variables =
            vec![("ANTHROPIC_BASE_URL", setting.url.clone()), ("ANTHROPIC_AUTH_TOKEN", KEY.to_owned())];
        // It has other models for small tasks, and for the words opus, sonnet and haiku.
        let named = [
            "ANTHROPIC_MODEL",
            "ANTHROPIC_SMALL_FAST_MODEL",
            "ANTHROPIC_DEFAULT_OPUS_MODEL",
            "ANTHROPIC_DEFAULT_SONNET_MODEL",
            "ANTHROPIC_DEFAULT_HAIKU_MODEL",
            "CLAUDE_CODE_SUBAGENT_MODEL",
        ];
        variables
            .extend(setting.model.iter().flat_map(|model| named.map(|name| (name, (*model).to_owned()))));
        let removed = &[
            "ANTHROPIC_API_KEY",
            "CLAUDE_CODE_USE_BEDROCK",
            "CLAUDE_CODE_USE_VERTEX",
            "CLAUDE_CODE_USE_FOUNDRY",
        ];
        Ok(AgentSetup { variables, removed, ..AgentSetup::default() })
    },
};

const CODEX: AgentRow = AgentRow {
    title: "Codex",
    program: "codex",
    install: "npm install -g @openai/codex",
    has_own_model: true,
    set_up: |setting| {
        // It reads values as TOML, in which a JSON string is a string.
        let url = json!(format!("{}/v1", setting.url));
        let provider = format!("{{name = \"callweave\", base_url = {url}, wire_api = \"responses\"}}");
        let mut values =
            vec!["model_provider=\"callweave\"".to_owned(), format!("model_providers.callweave={provider}")];
        values.extend(setting.model.map(|model| format!("model={}", json!(model))));
        let arguments = values.into_iter().flat_map(|value| ["-c".to_owned(), value]).collect();
        Ok(AgentSetup { arguments, ..AgentSetup::default() })
    },
};

const OPENCODE: AgentRow = AgentRow {
    title: "opencode",
    program: "opencode",
    install: "npm install -g opencode-ai",
    has_own_model: false,
    set_up: |setting| {
        let model = setting.model.unwrap_or_default();
        let own = format!("callweave/{model}");
        let config = json!({
            "model": own,
            "small_model": own,
            "provider": {"callweave": {
                "npm": "@ai-sdk/openai-compatible",
                "name": "callweave",
                "options": {"baseURL": format!("{}/v1", setting.url), "apiKey": KEY},
                "models": {model: {"name": model, "tool_call": true}},
            }},
        });
        Ok(AgentSetup {
            variables: vec![("OPENCODE_CONFIG_CONTENT", config.to_string())],
            ..AgentSetup::default()
        })
    },
};

const GEMINI: AgentRow = AgentRow {
    title: "Gemini CLI",
    program: "gemini",
    install: "npm install -g @google/gemini-cli",
    has_own_model: true,
    set_up: |setting| {
        link_gemini_home(setting.folder)?;
        let mut variables = vec![
            ("GOOGLE_GEMINI_BASE_URL", setting.url.clone()),
            ("GEMINI_API_KEY", KEY.to_owned()),
            ("GEMINI_CLI_HOME", setting.folder.to_string_lossy().into_owned()),
        ];
        variables.extend(setting.model.map(|model| ("GEMINI_MODEL", model.to_owned())));
        let removed = &["GOOGLE_API_KEY", "GOOGLE_GENAI_USE_VERTEXAI", "GOOGLE_GENAI_USE_GCA"];
        Ok(AgentSetup { variables, removed, ..AgentSetup::default() })
    },
};

const QWEN: AgentRow = AgentRow {
    title: "Qwen Code",
    program: "qwen",
    install: "npm install -g @qwen-code/qwen-code",
    has_own_model: false,
    set_up: |setting| {
        let file = write(setting, "qwen.json", &selected("openai"))?;
        let mut variables = vec![
            ("OPENAI_BASE_URL", format!("{}/v1", setting.url)),
            ("OPENAI_API_KEY", KEY.to_owned()),
            ("QWEN_CODE_SYSTEM_SETTINGS_PATH", file),
        ];
        variables.extend(setting.model.map(|model| ("OPENAI_MODEL", model.to_owned())));
        Ok(AgentSetup { variables, ..AgentSetup::default() })
    },
};

const CONTINUE: AgentRow = AgentRow {
    title: "Continue",
    program: "cn",
    install: "npm install -g @continuedev/cli",
    has_own_model: false,
    set_up: |setting| {
        // YAML reads JSON.
        let config = json!({
            "name": "callweave",
            "version": "1.0.0",
            "schema": "v1",
            "models": [{
                "name": setting.model,
                "provider": "openai",
                "model": setting.model,
                "apiBase": format!("{}/v1", setting.url),
                "apiKey": KEY,
                "capabilities": ["tool_use"],
                "roles": ["chat"],
            }],
        });
        let file = write(setting, "continue.yaml", &config)?;
        Ok(AgentSetup { arguments: vec!["--config".to_owned(), file], ..AgentSetup::default() })
    },
};

/// Settings of Gemini CLI and those who came from it, by which it does not ask how to sign in.
fn selected(kind: &str) -> Value {
    json!({"security": {"auth": {"selectedType": kind}}})
}

/// A home for Gemini CLI, which knows no other way to sign in otherwise for once: all of the user's own is linked there,
/// but for the settings, which are a copy with another way to sign in.
fn link_gemini_home(folder: &Path) -> Result<()> {
    let home = ["GEMINI_CLI_HOME", "HOME", "USERPROFILE"].into_iter().find_map(std::env::var_os);
    let (user, own) = (home.map(|home| Path::new(&home).join(".gemini")), folder.join(".gemini"));
    fs::create_dir(&own).with_context(|| format!("cannot make the folder {}", own.display()))?;
    let mut settings = json!({});
    for entry in user.and_then(|user| fs::read_dir(user).ok()).into_iter().flatten().flatten() {
        if entry.file_name() != "settings.json" {
            // A file that cannot be linked is missing, and no reason not to start.
            let _ = link(&entry.path(), &own.join(entry.file_name()));
            continue;
        }
        match fs::read_to_string(entry.path()).ok().and_then(|text| serde_json::from_str(&text).ok()) {
            Some(Value::Object(read)) => settings = Value::Object(read),
            _ => print_warning(&format!("{} is not JSON and is not used", entry.path().display())),
        }
    }
    merge(&mut settings, selected("gemini-api-key"));
    let path = own.join("settings.json");
    fs::write(&path, settings.to_string()).with_context(|| format!("cannot write {}", path.display()))
}

/// Puts values over those that are there.
fn merge(below: &mut Value, above: Value) {
    match (below, above) {
        (Value::Object(below), Value::Object(above)) => {
            for (key, value) in above {
                merge(below.entry(key).or_insert(Value::Null), value);
            }
        }
        (below, above) => *below = above,
    }
}

#[cfg(unix)]
fn link(from: &Path, to: &Path) -> std::io::Result<()> {
    std::os::unix::fs::symlink(from, to)
}

#[cfg(windows)]
fn link(from: &Path, to: &Path) -> std::io::Result<()> {
    match from.is_dir() {
        true => std::os::windows::fs::symlink_dir(from, to),
        false => std::os::windows::fs::symlink_file(from, to),
    }
}

#[cfg(not(any(unix, windows)))]
fn link(from: &Path, to: &Path) -> std::io::Result<()> {
    fs::copy(from, to).map(drop)
}

/// Writes a file of this run.
fn write(setting: &AgentContext<'_>, name: &str, content: &Value) -> Result<String> {
    let path = setting.folder.join(name);
    fs::write(&path, content.to_string()).with_context(|| format!("cannot write {}", path.display()))?;
    Ok(path.to_string_lossy().into_owned())
}
