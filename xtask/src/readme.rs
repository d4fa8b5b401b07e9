//! Runs the commands of README.md, CONTRIBUTING.md, docs/agents.md, docs/gateway.md, docs/release.md and the examples
//! as they stand there, and builds a crate outside the workspace with the README's dependency and code.

use std::fs;
use std::net::{SocketAddr, TcpStream};
use std::os::unix::process::CommandExt as _;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use crate::check::{Outcome, cargo, is_there, succeed, told};
use crate::serving::free_address;
use crate::{USAGE, root, target};

const DOCUMENTS: &[&str] =
    &["README.md", "CONTRIBUTING.md", "docs/agents.md", "docs/gateway.md", "docs/release.md"];

/// The lines that an example may have: one screen.
const MAX_LINES: usize = 64;

/// The default address of a gateway. Here it is a port that is free.
const GATEWAY: &str = "127.0.0.1:2255";

/// Commands that are not run here, by their beginning, and why. A command that begins with `cargo xtask` only has to be
/// one of ours: some of them are what runs this.
const ELSEWHERE: &[(&str, &str)] = &[
    ("BLESS=1 ", "rewrites what is expected; the same tests run without it"),
    ("cargo install --locked ", "the tools of others"),
    ("cargo publish ", "cannot be taken back"),
    ("callweave serve", "serves until it is stopped; `cargo run` starts the same"),
    ("callweave check ", "asks upstreams that are not here; its own tests run it"),
    (
        "callweave run ",
        "starts agents that are not here; tests of the program run it with others in their place",
    ),
    ("git ", "changes the repository"),
    ("llama-server ", "needs a model; the clients' tier starts servers of others"),
];

/// Files that the README's commands read, and what lies there for them.
const FILES: &[(&str, &str)] = &[
    (
        "answer.sse",
        "crates/callweave/tests/data/protocol/openai-chat/stream-text-and-parallel-calls/input.sse",
    ),
    (
        "answer.eventstream",
        "crates/callweave/tests/data/protocol/bedrock-converse/stream-text-and-call/input.eventstream",
    ),
    ("reply.txt", "crates/callweave/tests/data/dialect/hermes/text_around_calls/input.txt"),
    ("arguments.txt", "crates/callweave/tests/data/json/repair/backtick-quotes/input"),
    ("tools.json", "crates/callweave/tests/data/dialect/tools.json"),
    (
        "request.json",
        "crates/callweave/tests/data/request/openai-chat/functions-in-the-older-form/input.json",
    ),
];

pub(crate) fn run() -> Result<Outcome, String> {
    if !is_there("bash") {
        return Ok(Outcome::Skipped("there is no bash to type commands into".into()));
    }
    // All at once, and with what the tests are built with, so that most is there already.
    let build = ["build", "--quiet", "--profile", "test", "--workspace", "--exclude", "callweave-bench"];
    succeed(Command::new(cargo()).args(build).args(["--all-features", "--examples"]).current_dir(root()))?;
    let mut reader = Reader::new()?;
    let mut missing = Vec::new();
    for document in DOCUMENTS {
        let path = root().join(document);
        for command in commands(&fs::read_to_string(&path).map_err(told(&path))?) {
            reader.follow(document, &command, &mut missing)?;
        }
    }
    let readme = fs::read_to_string(root().join("README.md")).map_err(told(Path::new("README.md")))?;
    let folder = root().join("crates/callweave/examples");
    let mut examples: Vec<PathBuf> =
        fs::read_dir(&folder).map_err(told(&folder))?.flatten().map(|entry| entry.path()).collect();
    examples.sort();
    for name in named_examples(&readme) {
        if !folder.join(format!("{name}.rs")).exists() {
            return Err(format!("README.md names the example {name}, which is not there"));
        }
    }
    for path in examples {
        let name = path.file_stem().unwrap_or_default().to_string_lossy().into_owned();
        let text = fs::read_to_string(&path).map_err(told(&path))?;
        if text.lines().count() > MAX_LINES {
            return Err(format!("the example {name} has more than {MAX_LINES} lines"));
        }
        if !readme.contains(&format!("`{name}`")) {
            return Err(format!("README.md does not name the example {name}"));
        }
        let header: String = text.lines().map_while(|line| line.strip_prefix("//!")).collect();
        let told = commands(&header);
        let [command] = &told[..] else {
            return Err(format!("the example {name} should tell one command, not {told:?}"));
        };
        reader.follow(&name, command, &mut missing)?;
    }
    reader.depend(&readme)?;
    if missing.is_empty() {
        return Ok(Outcome::Passed);
    }
    println!("skipped: commands with {} were not run", missing.join(", "));
    Ok(Outcome::Skipped(format!("commands with {}, which is not here", missing.join(", "))))
}

/// The examples in the last column of the README's table.
fn named_examples(readme: &str) -> impl Iterator<Item = &str> {
    let rows = readme.lines().filter_map(|line| line.strip_prefix("| ")?.strip_suffix(" |"));
    let cells = rows.filter_map(|row| row.rsplit(" | ").next());
    cells.flat_map(|cell| cell.split('`').skip(1).step_by(2))
}

/// A reader with a clone and a folder with recordings.
struct Reader {
    home: PathBuf,
    /// The gateway that a document has started, until the next one.
    serving: Option<Background>,
}

impl Reader {
    fn new() -> Result<Self, String> {
        let home = target().join("readme");
        if home.exists() {
            fs::remove_dir_all(&home).map_err(told(&home))?;
        }
        fs::create_dir_all(home.join("files")).map_err(told(&home))?;
        for (name, source) in FILES {
            let source = root().join(source);
            fs::copy(&source, home.join("files").join(name)).map_err(told(&source))?;
        }
        // Stands for a browser: notes what it was given.
        let browser = home.join("browser");
        fs::write(&browser, format!("#!/bin/sh\necho \"$1\" > '{}'\n", home.join("opened").display()))
            .map_err(told(&browser))?;
        succeed(Command::new("chmod").arg("+x").arg(&browser))?;
        Ok(Self { home, serving: None })
    }

    /// Does what a document says.
    fn follow(&mut self, place: &str, command: &str, missing: &mut Vec<String>) -> Result<(), String> {
        if let Some(words) = command.strip_prefix("cargo xtask ") {
            let name = words.split(' ').next().unwrap_or_default();
            return if USAGE.contains(&format!("cargo xtask {name}")) {
                Ok(())
            } else {
                Err(format!("{place}: there is no `{command}`"))
            };
        }
        if ELSEWHERE.iter().any(|(start, _)| command.starts_with(start)) {
            return Ok(());
        }
        if let Some(program) =
            command.split('|').filter_map(|part| part.split_whitespace().next()).find(|program| {
                !matches!(*program, "cargo" | "callweave" | "curl" | "echo") && !is_there(program)
            })
        {
            missing.push(program.to_owned());
            return Ok(());
        }
        println!("   {place}: {command}");
        if command.starts_with("cargo run ") && command.contains(" -- serve") {
            self.serving = None;
            self.serving = Some(Background::start(command, &self.home.join("serving.txt"))?);
            return Ok(());
        }
        // The network gives what a recording holds.
        let line = match command.split_once(" | ") {
            _ if command.contains(GATEWAY) => {
                let serving = self.serving.as_ref();
                let serving = serving.ok_or_else(|| format!("{place}: nobody listens for `{command}`"))?;
                // An error is a response, too, and must not pass for a good one.
                command
                    .replace(GATEWAY, &serving.address.to_string())
                    .replace("curl ", "curl --fail-with-body ")
            }
            Some((first, rest)) if first.starts_with("curl ") => format!("cat answer.sse | {rest}"),
            _ => command.replace("FILE", "\"$RECORDING\"").replace("PROVIDER", "openai"),
        };
        let line = run_example(&line).map_err(|why| format!("{place}: `{command}` {why}"))?;
        let line = unoptimised(&line);
        let is_ours = command.contains("cargo ");
        let programs = self.home.join("installed/bin");
        let path = std::env::var("PATH").unwrap_or_default();
        let output = Command::new("bash")
            .args(["-c", &format!("set -eo pipefail\n{line}")])
            .current_dir(if is_ours { root() } else { self.home.join("files") })
            .env("PATH", format!("{}:{path}", programs.display()))
            .env("RECORDING", root().join(FILES[0].1))
            .env("CARGO_INSTALL_ROOT", self.home.join("installed"))
            .env("CARGO_TARGET_DIR", target())
            .env("BROWSER", self.home.join("browser"))
            .stdin(Stdio::null())
            .output()
            .map_err(|error| format!("bash: {error}"))?;
        if !output.status.success() {
            let said = String::from_utf8_lossy(&output.stderr).into_owned();
            return Err(format!("{place}: `{command}` ended with {}\n{said}", output.status));
        }
        if line.contains("--open") {
            let opened = self.home.join("opened");
            let page = fs::read_to_string(&opened).map_err(told(&opened))?;
            let text = fs::read_to_string(page.trim()).map_err(told(Path::new(page.trim())))?;
            if !text.contains("Crate callweave") && !text.contains("Crate <span>callweave") {
                return Err(format!("`{command}` opens {page}, which is not about the library"));
            }
        } else if output.stdout.is_empty() && !line.starts_with("cargo install ") {
            return Err(format!("{place}: `{command}` says nothing"));
        }
        Ok(())
    }

    /// Builds and runs a crate that has nothing but the README.
    fn depend(&self, readme: &str) -> Result<(), String> {
        let dependency = block(readme, "toml").ok_or("README.md shows no dependency")?;
        // Text to values first, then a response to follow.
        let both = || {
            let first = block(readme, "rust")?;
            Some([first, block(&readme[readme.find(first)? + first.len()..], "rust")?].concat())
        };
        let code = both().ok_or("README.md does not show two pieces of code")?;
        let library = format!("path = \"{}\"", root().join("crates/callweave").display());
        let manifest = dependency.replace("path = \"../callweave/crates/callweave\"", &library);
        if manifest == dependency {
            return Err("README.md's dependency is no path beside a clone".into());
        }
        let crate_folder = self.home.join("consumer");
        let files = [
            (
                "Cargo.toml",
                format!("[package]\nname = \"consumer\"\nedition = \"2024\"\n\n{manifest}\n[workspace]\n"),
            ),
            (
                "src/main.rs",
                format!(
                    "{code}\nfn main() -> callweave::Result<()> {{\n    let text = \"[get_weather(city='Oslo')]\";\n    \
                     let tools: Value = \"[{{\\\"name\\\": \\\"get_weather\\\"}}]\".parse()?;\n    \
                     assert_eq!(cities(text, &Tools::from_json(&tools))?, [\"Oslo\"]);\n    \
                     follow(std::fs::File::open(\"../files/answer.sse\").unwrap(), &tools)\n}}\n"
                ),
            ),
        ];
        for (name, text) in files {
            let path = crate_folder.join(name);
            path.parent()
                .map_or(Ok(()), fs::create_dir_all)
                .and_then(|()| fs::write(&path, text))
                .map_err(told(&path))?;
        }
        // The versions that are at hand already.
        let lock = root().join("Cargo.lock");
        fs::copy(&lock, crate_folder.join("Cargo.lock")).map_err(told(&lock))?;
        println!("   README.md: a crate with its dependency and its code");
        let output = Command::new(cargo())
            .args(["run", "--quiet", "--offline", "--target-dir"])
            .arg(target())
            .current_dir(&crate_folder)
            .output()
            .map_err(|error| format!("cargo: {error}"))?;
        let (said, complaint) =
            (String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
        if !output.status.success() || !said.contains('(') {
            return Err(format!("README.md's code does not do what it says:\n{said}\n{complaint}"));
        }
        Ok(())
    }
}

/// A gateway that runs while a reader goes on. It ends with this value.
struct Background {
    child: Child,
    address: SocketAddr,
}

impl Background {
    fn start(command: &str, log: &Path) -> Result<Self, String> {
        let address = free_address().map_err(|error| error.to_string())?;
        let said = fs::File::create(log).map_err(told(log))?;
        let complained = said.try_clone().map_err(told(log))?;
        let child = Command::new("bash")
            .args(["-c", &format!("exec {} --listen {address}", unoptimised(command))])
            .current_dir(root())
            .env("CARGO_TARGET_DIR", target())
            .stdin(Stdio::null())
            .stdout(said)
            .stderr(complained)
            // With all processes that cargo starts.
            .process_group(0)
            .spawn()
            .map_err(|error| format!("bash: {error}"))?;
        let mut background = Self { child, address };
        while TcpStream::connect(address).is_err() {
            // It may have to be built first, for as long as that takes.
            if let Some(status) = background.child.try_wait().map_err(|error| error.to_string())? {
                let said = fs::read_to_string(log).unwrap_or_default();
                return Err(format!("`{command}` ended with {status}\n{said}"));
            }
            std::thread::sleep(Duration::from_millis(50));
        }
        Ok(background)
    }
}

impl Drop for Background {
    fn drop(&mut self) {
        let group = format!("-{}", self.child.id());
        let _ = Command::new("kill").args(["--", &group]).status();
        let _ = self.child.wait();
    }
}

/// A command in which cargo makes a debug build: that it builds and runs is asked, not how fast, and most of that is built
/// already.
fn unoptimised(line: &str) -> String {
    line.replace("cargo run --release ", "cargo run ").replace("cargo install ", "cargo install --debug ")
}

/// A command in which cargo runs an example of ours, with the example that was built before in its place. Cargo would
/// build the library anew for each set of features; that the features are enough is asked here.
fn run_example(line: &str) -> Result<String, String> {
    const START: &str = "cargo run -p callweave ";
    let Some((before, words)) = line.split_once(START) else { return Ok(line.to_owned()) };
    let (features, words) = match words.strip_prefix("--features ").and_then(|words| words.split_once(' ')) {
        Some((features, words)) => (features, words),
        None => ("", words),
    };
    let words = words.strip_prefix("--example ").ok_or("runs no example")?;
    let (name, rest) = words.split_once(' ').unwrap_or((words, ""));
    let path = root().join("crates/callweave/Cargo.toml");
    let manifest = fs::read_to_string(&path).map_err(told(&path))?;
    let needed = needed_features(&manifest, name);
    let has = |feature: &str| {
        features.split(',').any(|own| own == feature)
            || list(&manifest, "default = ").any(|own| own == feature)
    };
    if let Some(missing) = needed.into_iter().find(|feature| !has(feature)) {
        return Err(format!("needs the feature {missing}"));
    }
    let program = target().join("debug/examples").join(name);
    Ok(format!("{before}'{}' {}", program.display(), rest.strip_prefix("-- ").unwrap_or(rest)))
}

/// The features that a manifest says an example needs.
fn needed_features<'m>(manifest: &'m str, example: &str) -> Vec<&'m str> {
    let mut tables = manifest.split("[[example]]\n").skip(1);
    let own = tables.find(|table| table.starts_with(&format!("name = \"{example}\"\n")));
    let own = own.and_then(|table| table.split("\n\n").next());
    own.map_or_else(Vec::new, |table| list(table, "required-features = ").collect())
}

/// The strings of a list in TOML, behind its key, on one line.
fn list<'t>(text: &'t str, key: &str) -> impl Iterator<Item = &'t str> {
    let found = text.lines().find_map(|line| line.strip_prefix(key));
    found.into_iter().flat_map(|list| list.split('"').skip(1).step_by(2))
}

/// The first block of that language.
fn block<'t>(text: &'t str, language: &str) -> Option<&'t str> {
    text.split_once(&format!("```{language}\n"))?.1.split("```").next()
}

/// The commands of a document: lines of its `sh` blocks, and text in backticks that begins with a command.
fn commands(document: &str) -> Vec<String> {
    let (mut found, mut fence) = (Vec::new(), None);
    for line in document.lines() {
        if let Some(language) = line.trim_start().strip_prefix("```") {
            fence = if fence.is_none() { Some(language) } else { None };
        } else if fence == Some("sh") {
            let command = line.split("  #").next().unwrap_or_default();
            found.extend(command.split("; ").map(|command| command.trim().to_owned()));
        } else if fence.is_none() {
            let quoted = line.split('`').skip(1).step_by(2);
            found.extend(quoted.filter(|text| is_command(text)).map(str::to_owned));
        }
    }
    found.retain(|command| !command.is_empty() && !command.starts_with('#'));
    found
}

fn is_command(text: &str) -> bool {
    ["cargo ", "callweave ", "BLESS=1 ", "echo "].iter().any(|start| text.starts_with(start))
}

#[cfg(test)]
mod tests {
    use super::{run_example, unoptimised};

    #[test]
    fn documents_are_followed_without_optimising() {
        assert_eq!(unoptimised("cargo run --release -- demo"), "cargo run -- demo");
        assert_eq!(unoptimised("cargo install --path x"), "cargo install --debug --path x");
        assert_eq!(unoptimised("callweave demo"), "callweave demo");
    }

    #[test]
    fn an_example_is_run_with_the_features_that_it_needs() {
        let line =
            run_example("echo x | cargo run -p callweave --features async --example stream_events -- a b");
        assert!(
            line.is_ok_and(|line| line.starts_with("echo x | '") && line.ends_with("/stream_events' a b"))
        );
        let line = run_example("cargo run -p callweave --example stream_events -- a");
        assert_eq!(line, Err("needs the feature async".into()));
        assert!(run_example("cargo run -p callweave --example trace_process").is_ok());
        assert!(run_example("cargo run -p callweave --bin x").is_err());
        assert_eq!(run_example("callweave demo"), Ok("callweave demo".into()));
    }
}
