//! Coding agents through the gateway: each is led through a task of thirteen turns by a scripted model, behind an upstream
//! that is as strict as providers are.

mod codex;
mod plan;
mod rules;
mod speech;
mod upstream;

use std::collections::VecDeque;
use std::fs::{self, File};
use std::path::Path;
use std::process::{Command, Stdio};
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

use crate::check::{Outcome, cargo, is_there, succeed, told, wait_for};
use crate::{root, target};
use upstream::{DONE, TASK, Upstream, WIRES};

/// An agent takes longer than this only if it waits for something that never comes.
const LONGEST: Duration = Duration::from_secs(180);

/// An agent, under its name in `callweave run`, and the way to run it without anybody to answer its questions.
struct Agent {
    name: &'static str,
    /// Arguments before the task.
    arguments: &'static [&'static str],
    variables: &'static [(&'static str, &'static str)],
    /// A file of its home.
    file: Option<(&'static str, &'static str)>,
}

const AGENTS: [Agent; 6] = [
    Agent {
        name: "claude",
        arguments: &["--permission-mode", "acceptEdits", "--allowedTools", "Bash Write Edit Read", "-p"],
        variables: &[("CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC", "1"), ("DISABLE_AUTOUPDATER", "1")],
        file: None,
    },
    Agent {
        name: "codex",
        // Without a sandbox: the folder is thrown away, and the commands are ours.
        arguments: &["exec", "--skip-git-repo-check", "--dangerously-bypass-approvals-and-sandbox"],
        variables: &[],
        file: None,
    },
    Agent {
        name: "opencode",
        arguments: &["run"],
        variables: &[
            ("OPENCODE_DISABLE_AUTOUPDATE", "1"),
            ("OPENCODE_DISABLE_MODELS_FETCH", "1"),
            ("OPENCODE_DISABLE_LSP_DOWNLOAD", "1"),
        ],
        file: Some((
            ".config/opencode/opencode.json",
            r#"{"autoupdate": false, "share": "disabled", "snapshot": false, "permission": {"edit": "allow", "bash": "allow", "external_directory": "allow"}}"#,
        )),
    },
    Agent {
        name: "gemini",
        arguments: &["--yolo", "-p"],
        variables: &[("GEMINI_CLI_TRUST_WORKSPACE", "true")],
        file: Some((".gemini/settings.json", QUIET)),
    },
    Agent {
        name: "qwen",
        arguments: &["--yolo", "-p"],
        variables: &[],
        file: Some((".qwen/settings.json", QUIET)),
    },
    Agent {
        name: "continue",
        arguments: &["--auto", "-p"],
        variables: &[("CONTINUE_TELEMETRY_ENABLED", "0")],
        file: None,
    },
];

/// Settings of Gemini CLI, and of those who came from it, that keep it from the network.
const QUIET: &str = r#"{"privacy": {"usageStatisticsEnabled": false}, "telemetry": {"enabled": false}, "general": {"disableAutoUpdate": true}}"#;

/// Models behind protocols in which they call by themselves; models that call in their text stand behind chat.
const NATIVE: [(&str, &str); 4] = [
    ("native", "openai-chat"),
    ("claude-sonnet-4-5", "anthropic-messages"),
    ("gemini-3-pro-preview", "gemini-generatecontent"),
    ("gpt-5.5", "openai-responses"),
];

/// The combinations that CI runs: each agent, each protocol of upstreams, and each dialect.
const ALWAYS: [(&str, &str); 15] = [
    ("claude", "kimi-k2"),
    ("claude", "claude-sonnet-4-5"),
    ("claude", "gemini-3-pro-preview"),
    ("codex", "claude-sonnet-4-5"),
    ("codex", "gpt-5.5"),
    ("codex", "hermes"),
    ("opencode", "hermes"),
    ("opencode", "native"),
    ("opencode", "mistral-small"),
    ("gemini", "glm-4.5"),
    ("gemini", "deepseek-v3.1"),
    ("qwen", "qwen3-coder"),
    ("qwen", "mistral-small"),
    ("continue", "gpt-oss"),
    ("continue", "llama-4-pythonic"),
];

/// A model, and the protocol behind which it stands.
fn models() -> impl Iterator<Item = (&'static str, &'static str)> {
    speech::dialects().map(|model| (model, "openai-chat")).chain(NATIVE)
}

/// `cargo xtask check --agents`
pub(crate) fn run() -> Result<Outcome, String> {
    if let Outcome::Skipped(why) = lead_all(&ALWAYS)? {
        return Ok(Outcome::Skipped(why));
    }
    follow_scripted_recipes()?;
    codex::run(&target().join("agents"))
}

/// Runs what `docs/agents.md` says of scripted models, with the agents that it names.
fn follow_scripted_recipes() -> Result<Outcome, String> {
    let document = root().join("docs/agents.md");
    let text = fs::read_to_string(&document).map_err(told(&document))?;
    let section = text.split("## With the scripted models").nth(1).unwrap_or_default();
    let script = section.split("```bash\n").nth(1).and_then(|block| block.split("```").next());
    let script = script.ok_or("docs/agents.md has no recipe with scripted models")?;
    let place = target().join("agents/work/scripted");
    let _ = fs::remove_dir_all(&place);
    let (folder, own) = (place.join("folder"), place.join("home"));
    fs::create_dir_all(&folder).and_then(|()| fs::create_dir_all(&own)).map_err(told(&place))?;
    let mut command = Command::new("bash");
    command.args(["-ec", script]);
    prepare(&mut command, &own)?;
    command.envs(AGENTS.iter().flat_map(|agent| agent.variables.iter().copied()));
    wait(command, &place, &folder).map_err(|why| format!("the recipe with scripted models: {why}"))?;
    let said = fs::read_to_string(place.join("said.txt")).unwrap_or_default();
    let note = fs::read_to_string(folder.join("note.txt")).unwrap_or_default();
    match note == "hello\n" && said.contains("hello") {
        true => Ok(Outcome::Passed),
        false => Err(format!("the recipe with scripted models: note.txt holds {note:?}\n{said}")),
    }
}

/// Hides the user's environment from a command, both the home and keys, except for the paths of programs: ours, those
/// of agents, and those of the system.
fn prepare(command: &mut Command, own: &Path) -> Result<(), String> {
    let path = std::env::var_os("PATH").unwrap_or_default();
    let programs = [target().join("debug"), target().join("agents/node_modules/.bin")];
    let path = std::env::join_paths(programs.into_iter().chain(std::env::split_paths(&path)));
    command.env_clear().env("PATH", path.map_err(|error| error.to_string())?).env("HOME", own);
    for (variable, folder) in [
        ("XDG_CONFIG_HOME", ".config"),
        ("XDG_DATA_HOME", ".data"),
        ("XDG_CACHE_HOME", ".cache"),
        ("XDG_STATE_HOME", ".state"),
    ] {
        command.env(variable, own.join(folder));
    }
    command.env("NO_COLOR", "1");
    Ok(())
}

/// `cargo xtask agents [--all] [NAME…]`: pairs of an agent and a model; only the pairs of these names, if there are
/// names. `cargo xtask agents app-server` runs Codex as a model.
pub(crate) fn run_some(words: &[&str]) -> Result<(), String> {
    if words == ["app-server"] {
        let outcome = match install()? {
            Outcome::Passed => codex::run(&target().join("agents"))?,
            skipped => skipped,
        };
        return match outcome {
            Outcome::Passed => Ok(()),
            Outcome::Skipped(why) => Err(why),
        };
    }
    let names: Vec<_> = words.iter().filter(|word| **word != "--all").collect();
    let all = AGENTS.iter().flat_map(|agent| models().map(|(model, _)| (agent.name, model)));
    let is_meant = |(agent, model): &(&str, &str)| {
        let has = |name: &str| names.iter().any(|it| **it == name);
        names.is_empty() || has(agent) && has(model) || names.len() == 1 && (has(agent) || has(model))
    };
    let pairs: Vec<_> = match words.contains(&"--all") || !names.is_empty() {
        true => all.filter(is_meant).collect(),
        false => ALWAYS.to_vec(),
    };
    if pairs.is_empty() {
        let known: Vec<_> = AGENTS.iter().map(|agent| agent.name).chain(models().map(|it| it.0)).collect();
        return Err(format!("there are {}", known.join(", ")));
    }
    match lead_all(&pairs)? {
        Outcome::Passed => Ok(()),
        Outcome::Skipped(why) => Err(why),
    }
}

/// The result of one agent with one model.
struct Run {
    agent: &'static str,
    model: &'static str,
    seconds: f64,
    result: Result<(), String>,
}

/// Installs the agents into `target/agents`, in the versions that `clients/agents/package.json` names.
fn install() -> Result<Outcome, String> {
    if !is_there("npm") {
        return Ok(Outcome::Skipped("there is no npm for the agents".into()));
    }
    let home = target().join("agents");
    fs::create_dir_all(&home).map_err(told(&home))?;
    let manifest = root().join("clients/agents/package.json");
    fs::copy(&manifest, home.join("package.json")).map_err(told(&manifest))?;
    let install = ["install", "--silent", "--no-audit", "--no-fund"];
    if let Err(why) = succeed(Command::new("npm").args(install).current_dir(&home)) {
        let why = format!("the agents cannot be had: {why}");
        // CI has a network, and must not pass for months without having run an agent.
        return if std::env::var_os("CI").is_some() { Err(why) } else { Ok(Outcome::Skipped(why)) };
    }
    Ok(Outcome::Passed)
}

/// Installs the agents, and leads each pair through the task.
fn lead_all(pairs: &[(&'static str, &'static str)]) -> Result<Outcome, String> {
    if let Outcome::Skipped(why) = install()? {
        return Ok(Outcome::Skipped(why));
    }
    let home = target().join("agents");
    succeed(Command::new(cargo()).args(["build", "--quiet", "-p", "callweave-cli"]).current_dir(root()))?;
    let waiting = Mutex::new(pairs.iter().copied().collect::<VecDeque<_>>());
    let done = Mutex::new(Vec::new());
    let lead_next = || {
        while let Some((agent, model)) = waiting.lock().unwrap_or_else(PoisonError::into_inner).pop_front() {
            let start = Instant::now();
            let result = lead(&home, agent, model);
            let seconds = start.elapsed().as_secs_f64();
            let word = if result.is_ok() { "every file exact" } else { "FAILED" };
            println!("   {agent} with {model}: {word}, {seconds:.0} s");
            let run = Run { agent, model, seconds, result };
            done.lock().unwrap_or_else(PoisonError::into_inner).push(run);
        }
    };
    let threads = std::thread::available_parallelism().map_or(2, usize::from).min(4);
    std::thread::scope(|scope| (0..threads).for_each(|_| drop(scope.spawn(lead_next))));
    let done = done.into_inner().unwrap_or_else(PoisonError::into_inner);
    print!("{}", table(&done));
    let failed: Vec<_> = done
        .iter()
        .filter_map(|run| Some(format!("{} with {}: {}", run.agent, run.model, run.result.as_ref().err()?)))
        .collect();
    if failed.is_empty() { Ok(Outcome::Passed) } else { Err(failed.join("\n")) }
}

/// Agents beside models: seconds of a run whose files are exact.
fn table(done: &[Run]) -> String {
    let mut text = format!("   {:22}", "");
    AGENTS.iter().for_each(|agent| text += &format!("{:>10}", agent.name));
    text.push('\n');
    for (model, _) in models().filter(|(model, _)| done.iter().any(|run| run.model == *model)) {
        text += &format!("   {model:22}");
        for agent in &AGENTS {
            let run = done.iter().find(|run| run.agent == agent.name && run.model == model);
            let cell = match run {
                None => "·".to_owned(),
                Some(run) if run.result.is_ok() => format!("{:.0} s", run.seconds),
                Some(_) => "FAILED".to_owned(),
            };
            text += &format!("{cell:>10}");
        }
        text.push('\n');
    }
    text
}

/// Leads an agent through the task in a folder and a home of its own, and looks at what it did.
fn lead(home: &Path, name: &str, model: &str) -> Result<(), String> {
    let agent = AGENTS.iter().find(|agent| agent.name == name).ok_or("no such agent")?;
    let (_, protocol) = models().find(|it| it.0 == model).ok_or("no such model")?;
    let wire = WIRES.iter().find(|wire| wire.protocol == protocol).ok_or("no such protocol")?;
    let place = home.join(format!("work/{name}-{model}"));
    let _ = fs::remove_dir_all(&place);
    let (folder, own) = (place.join("folder"), place.join("home"));
    fs::create_dir_all(&folder).and_then(|()| fs::create_dir_all(&own)).map_err(told(&place))?;
    if let Some((path, content)) = agent.file {
        let path = own.join(path);
        path.parent()
            .map_or(Ok(()), fs::create_dir_all)
            .and_then(|()| fs::write(&path, content))
            .map_err(told(&path))?;
    }
    // A repository of its own: agents look at, and take snapshots of, the one that they work in.
    let _ = Command::new("git").args(["init", "--quiet"]).current_dir(&folder).status();
    let upstream = Upstream::start(&folder, &place.join("requests")).map_err(told(&place))?;
    let mut command = Command::new(target().join("debug/callweave"));
    prepare(&mut command, &own)?;
    command.envs(agent.variables.iter().copied());
    command.args(["run", name, "--model", model, "--upstream-protocol", protocol]);
    command.arg("--upstream").arg(format!("http://{}{}", upstream.address, wire.base));
    command.arg("--log").arg(place.join("gateway.log")).arg("--").args(agent.arguments);
    command.arg(format!("Please do {TASK}."));
    let ended = wait(command, &place, &folder);
    let read = |file: &str| fs::read_to_string(place.join(file)).unwrap_or_default();
    let report = upstream.report();
    let mut faults = report.faults;
    faults.extend(ended.err());
    if report.turns != plan::turns().len() {
        faults.push(format!("{} turns of {}", report.turns, plan::turns().len()));
    }
    if !read("said.txt").contains(DONE) {
        faults.push("the last words are not the model's".into());
    }
    for (file, content) in plan::files() {
        let path = folder.join(file);
        match fs::read(&path) {
            Err(error) => faults.push(format!("{file}: {error}")),
            Ok(bytes) if bytes != content.as_bytes() => {
                faults.push(difference(file, &bytes, content.as_bytes()))
            }
            Ok(_) => {}
        }
    }
    if faults.is_empty() {
        return Ok(());
    }
    let last = |text: String| text.lines().rev().take(5).collect::<Vec<_>>().join("\n  ");
    Err(format!(
        "\n  {}\n  {}\n  {}\n  see {}",
        faults.join("\n  "),
        last(read("said.txt")),
        last(read("complained.txt")),
        place.display()
    ))
}

/// Waits for an agent's end, but not for ever.
fn wait(mut command: Command, place: &Path, folder: &Path) -> Result<(), String> {
    let said = File::create(place.join("said.txt")).map_err(told(place))?;
    let complained = File::create(place.join("complained.txt")).map_err(told(place))?;
    let command = command.current_dir(folder).stdin(Stdio::null()).stdout(said).stderr(complained);
    let mut child = command.spawn().map_err(|error| format!("it does not start: {error}"))?;
    match wait_for(&mut child, LONGEST).map_err(|error| error.to_string())? {
        Some(status) if status.success() => return Ok(()),
        Some(status) => return Err(status.to_string()),
        None => {}
    }
    // `callweave run` ends the agent.
    let _ = Command::new("kill").arg(child.id().to_string()).status();
    let _ = wait_for(&mut child, Duration::from_secs(5));
    let _ = child.kill();
    let _ = child.wait();
    Err(format!("no end within {LONGEST:?}"))
}

/// The difference of a file from its expected content.
fn difference(file: &str, is: &[u8], should: &[u8]) -> String {
    let at = is.iter().zip(should).position(|(is, should)| is != should);
    let at = at.unwrap_or(is.len().min(should.len()));
    let around = |bytes: &[u8]| {
        let piece = &bytes[at.saturating_sub(30).min(bytes.len())..(at + 30).min(bytes.len())];
        String::from_utf8_lossy(piece).into_owned()
    };
    let (length, wanted) = (is.len(), should.len());
    format!(
        "{file}: {length} bytes of {wanted}, other from {at} on: {:?} for {:?}",
        around(is),
        around(should)
    )
}
