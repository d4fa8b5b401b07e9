//! Runs what README.md, CONTRIBUTING.md, docs/release.md and the examples tell a reader to type, as it stands
//! there, and builds a crate outside the workspace with the README's dependency and code.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use crate::check::{Outcome, cargo, is_there, succeed, told};
use crate::{USAGE, root, target};

const DOCUMENTS: &[&str] = &["README.md", "CONTRIBUTING.md", "docs/release.md"];

/// Commands that are not run here, by their beginning, and why. What begins with `cargo xtask` only has to be
/// a command of ours: some of them are what runs this.
const ELSEWHERE: &[(&str, &str)] = &[
    ("BLESS=1 ", "rewrites what is expected; the same tests run without it"),
    ("cargo bench ", "measures for minutes; built by the lints"),
    ("cargo run --release -p callweave-bench", "measures for minutes; built by the lints"),
    ("cargo install --locked ", "the tools of others"),
    ("cargo publish ", "cannot be taken back"),
    ("git ", "changes the repository"),
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
];

pub(crate) fn run() -> Result<Outcome, String> {
    if !is_there("bash") {
        return Ok(Outcome::Skipped("there is no bash to type commands into".into()));
    }
    let reader = Reader::new()?;
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
    for path in examples {
        let name = path.file_stem().unwrap_or_default().to_string_lossy().into_owned();
        let text = fs::read_to_string(&path).map_err(told(&path))?;
        if text.lines().count() >= 40 {
            return Err(format!("the example {name} has 40 lines or more"));
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

/// Somebody with a clone and a folder with recordings.
struct Reader {
    home: PathBuf,
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
        Ok(Self { home })
    }

    /// Does what a document says.
    fn follow(&self, place: &str, command: &str, missing: &mut Vec<String>) -> Result<(), String> {
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
        // The network gives what a recording holds.
        let line = match command.split_once(" | ") {
            Some((first, rest)) if first.starts_with("curl ") => format!("cat answer.sse | {rest}"),
            _ => command.replace("FILE", "\"$RECORDING\"").replace("PROVIDER", "openai"),
        };
        let is_ours = line.contains("cargo ");
        // That it builds and runs is asked, not how fast: in a folder of its own, and without optimising.
        let is_release = line.contains("--release") || line.contains("cargo install");
        let built = if is_release { target().join("documents") } else { target() };
        let programs = self.home.join("installed/bin");
        let path = std::env::var("PATH").unwrap_or_default();
        let output = Command::new("bash")
            .args(["-c", &format!("set -eo pipefail\n{line}")])
            .current_dir(if is_ours { root() } else { self.home.join("files") })
            .env("PATH", format!("{}:{path}", programs.display()))
            .env("RECORDING", root().join(FILES[0].1))
            .env("CARGO_INSTALL_ROOT", self.home.join("installed"))
            .env("CARGO_TARGET_DIR", built)
            .env("CARGO_PROFILE_RELEASE_OPT_LEVEL", "0")
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
        let code = block(readme, "rust").ok_or("README.md shows no code")?;
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
                    "{code}\nfn main() -> callweave::Result<()> {{\n    follow(std::fs::File::open(\"../files/answer.sse\").unwrap(), &Value::Null)\n}}\n"
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
            // As in the workspace, so that what is built there is used.
            .env("CARGO_PROFILE_DEV_DEBUG", "line-tables-only")
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

/// The first block of that language.
fn block<'t>(text: &'t str, language: &str) -> Option<&'t str> {
    text.split_once(&format!("```{language}\n"))?.1.split("```").next()
}

/// The commands that a document tells: lines of its `sh` blocks, and what stands in backticks and begins with a
/// command.
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
