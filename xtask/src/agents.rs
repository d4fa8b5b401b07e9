//! Coding agents through the gateway: each is led through a task of two calls by scripted models.

use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use crate::check::{Outcome, is_there, succeed, told};
use crate::serving::Serving;
use crate::{root, target};

/// A model of the demonstration, and what becomes of its calls, in the words of the metrics.
const MODELS: [(&str, &str); 5] = [
    ("hermes", "from_text"),
    ("broken-json", "repaired"),
    ("openai-chat", "native"),
    ("openai-responses", "native"),
    ("anthropic", "native"),
];

/// An agent takes longer than this only if it waits for something that never comes.
const LONGEST: Duration = Duration::from_secs(120);

/// An agent at work: its folder, which is thrown away, and where it is to ask.
struct Work<'w> {
    folder: PathBuf,
    programs: &'w Path,
    gateway: &'w Serving,
    model: String,
}

/// An agent: its name, and how it is started on a task.
type Agent = (&'static str, fn(&Work<'_>) -> Result<Command, String>);

const AGENTS: [Agent; 2] = [("codex", codex), ("claude", claude)];

/// What the file holds in the end. The models are not told it as one word.
const NOTE: &str = "the sum is 42";

/// `cargo xtask check --agents`: installs the agents into `target/agents`, in the versions that
/// `clients/agents/package.json` names, and lets each make a file and read it.
pub(crate) fn run() -> Result<Outcome, String> {
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
    let gateway = Serving::start(&home.join("gateway.log"))?;
    for (name, command) in AGENTS {
        for (model, outcome) in MODELS {
            let folder = home.join(format!("work/{name}-{model}"));
            let _ = fs::remove_dir_all(&folder);
            fs::create_dir_all(folder.join("home")).map_err(told(&folder))?;
            let programs = home.join("node_modules/.bin");
            let model = format!("demo/{model}");
            let work = Work { folder, programs: &programs, gateway: &gateway, model };
            let before = counted(&gateway, outcome, &work.model)?;
            lead(name, &work, command(&work)?)?;
            let calls = counted(&gateway, outcome, &work.model)? - before;
            if calls < 2 {
                return Err(format!("{name} with {}: {calls} calls were counted as {outcome}", work.model));
            }
            println!("   {name} with {}: made a file and read it, {calls} calls {outcome}", work.model);
        }
    }
    Ok(Outcome::Passed)
}

/// Lets the agent work, and looks at what it did and what it says in the end.
fn lead(name: &str, work: &Work<'_>, mut command: Command) -> Result<(), String> {
    let log = work.folder.join("said.txt");
    let said = File::create(&log).map_err(told(&log))?;
    let complained = File::create(work.folder.join("complained.txt")).map_err(told(&log))?;
    let mut child = command
        .current_dir(&work.folder)
        .stdin(Stdio::null())
        .stdout(said)
        .stderr(complained)
        .spawn()
        .map_err(|error| format!("{name} does not start: {error}"))?;
    let start = Instant::now();
    let status = loop {
        if let Some(status) = child.try_wait().map_err(|error| error.to_string())? {
            break Some(status);
        }
        if start.elapsed() > LONGEST {
            let _ = child.kill();
            let _ = child.wait();
            break None;
        }
        std::thread::sleep(Duration::from_millis(50));
    };
    let read = |file: &str| fs::read_to_string(work.folder.join(file)).unwrap_or_default();
    let fail = |what: &str| {
        let (said, complained) = (read("said.txt"), read("complained.txt"));
        Err(format!("{name} with {}: {what}\n{said}\n{complained}", work.model))
    };
    match status {
        None => fail("no end"),
        Some(status) if !status.success() => fail(&status.to_string()),
        Some(_) if read("note.txt").trim_end() != NOTE => fail("the file is not as it should be"),
        // The last words are the scripted model's, and hold what the agent read.
        Some(_) if !read("said.txt").contains(NOTE) => fail("the last words do not hold what was read"),
        Some(_) => Ok(()),
    }
}

/// Codex speaks Responses. It runs commands without a sandbox: the folder is thrown away, and the commands are ours.
fn codex(work: &Work<'_>) -> Result<Command, String> {
    let config = format!(
        "model = \"{}\"\nmodel_provider = \"callweave\"\n\n[model_providers.callweave]\nname = \"callweave\"\n\
         base_url = \"http://{}/v1\"\nenv_key = \"CALLWEAVE_KEY\"\nwire_api = \"responses\"\n",
        work.model, work.gateway.address
    );
    let folder = work.folder.join("home/.codex");
    fs::create_dir_all(&folder)
        .and_then(|()| fs::write(folder.join("config.toml"), config))
        .map_err(told(&folder))?;
    let task = "Make a note and read it.\n\
                call exec_command {\"cmd\": \"printf 'the sum is %s' $((40 + 2)) > note.txt\"}\n\
                call exec_command {\"cmd\": \"cat note.txt\"}";
    let mut command = agent("codex", work);
    command.env("CALLWEAVE_KEY", "none");
    command.args(["exec", "--skip-git-repo-check", "--dangerously-bypass-approvals-and-sandbox", task]);
    Ok(command)
}

/// Claude Code speaks Messages, at a base URL without `/v1`.
fn claude(work: &Work<'_>) -> Result<Command, String> {
    let path = work.folder.join("note.txt");
    let task = format!(
        "Make a note and read it.\n\
         call Write {{\"file_path\": {path:?}, \"content\": \"the sum is 4\\u0032\\n\"}}\n\
         call Read {{\"file_path\": {path:?}}}"
    );
    let mut command = agent("claude", work);
    command.args(["-p", "--permission-mode", "acceptEdits", "--model", &work.model, &task]);
    command
        .env("ANTHROPIC_BASE_URL", format!("http://{}", work.gateway.address))
        .env("ANTHROPIC_API_KEY", "none");
    for quiet in ["CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC", "DISABLE_AUTOUPDATER", "DISABLE_TELEMETRY"] {
        command.env(quiet, "1");
    }
    Ok(command)
}

/// An agent that knows nothing of whoever runs this: neither its home nor its keys.
fn agent(name: &str, work: &Work<'_>) -> Command {
    let mut command = Command::new(work.programs.join(name));
    let path = std::env::var_os("PATH").unwrap_or_default();
    command.env_clear().env("PATH", path).env("HOME", work.folder.join("home"));
    command
}

/// How many calls of a model had that outcome.
fn counted(gateway: &Serving, outcome: &str, model: &str) -> Result<u64, String> {
    let metrics = gateway.get("/metrics").map_err(|error| format!("/metrics: {error}"))?;
    let model = model.rsplit('/').next().unwrap_or(model);
    let is_meant = |line: &&str| {
        let has = |label: &str, value: &str| line.contains(&format!("{label}=\"{value}\""));
        line.starts_with("callweave_tool_calls_total{")
            && has("outcome", outcome)
            && (has("model", model) || has("model", &format!("demo/{model}")))
    };
    let values =
        metrics.lines().filter(is_meant).filter_map(|line| line.rsplit(' ').next()?.parse::<f64>().ok());
    Ok(values.sum::<f64>() as u64)
}
