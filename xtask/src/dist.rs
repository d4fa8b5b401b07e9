//! Makes a release: one archive for a target, with a static program, its completions, manual pages, licences and a
//! checksum. `docs/release.md` describes the steps before and after.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use crate::check::{Outcome, cargo, is_there, succeed, told};
use crate::fuzz::host;
use crate::{root, target};

const USAGE: &str = "usage: cargo xtask dist [--target TARGET]";
const DOCUMENTS: &[&str] = &["README.md", "CHANGELOG.md", "LICENSE-APACHE", "LICENSE-MIT"];
/// Shells, and what the file with their completions is called where they look for it.
const SHELLS: &[(&str, &str)] = &[
    ("bash", "callweave.bash"),
    ("zsh", "_callweave"),
    ("fish", "callweave.fish"),
    ("powershell", "_callweave.ps1"),
];

/// `cargo xtask dist [--target TARGET]`: prints where the archive is.
pub(crate) fn run(arguments: &[&str]) -> Result<(), String> {
    let triple = match arguments {
        [] => host()?,
        ["--target", triple] => (*triple).to_owned(),
        _ => return Err(USAGE.into()),
    };
    println!("{}", make(&triple)?.display());
    Ok(())
}

/// Makes a release for this machine, and uses it as after a download.
pub(crate) fn rehearse() -> Result<Outcome, String> {
    if !is_there("tar") {
        return Ok(Outcome::Skipped("there is no tar".into()));
    }
    let archive = make(&host()?)?;
    let folder = target().join("dist/unpacked");
    fresh(&folder)?;
    let sums = with_end(&archive, ".sha256");
    let (told_sum, found_sum) = (fs::read_to_string(&sums).map_err(told(&sums))?, checksum(&archive)?);
    if told_sum != found_sum {
        return Err(format!("the checksum is {told_sum}, the archive's {found_sum}"));
    }
    succeed(Command::new("tar").arg("-xzf").arg(&archive).arg("-C").arg(&folder))?;
    let name = file_name(&archive).trim_end_matches(".tar.gz").to_owned();
    let inside = folder.join(name);
    for file in DOCUMENTS.iter().map(|file| (*file).to_owned()).chain(parts()) {
        let size = fs::metadata(inside.join(&file)).map_or(0, |data| data.len());
        if size == 0 {
            return Err(format!("{file} is missing from the archive, or empty"));
        }
    }
    let program = inside.join("callweave");
    if cfg!(target_os = "linux") {
        let output = Command::new("ldd").arg(&program).output().map_err(|error| format!("ldd: {error}"))?;
        let said = String::from_utf8_lossy(&output.stdout) + String::from_utf8_lossy(&output.stderr);
        if !said.contains("statically linked") && !said.contains("not a dynamic executable") {
            return Err(format!("the program is not static:\n{said}"));
        }
    }
    // Nothing of this workspace is around it.
    succeed(Command::new(&program).arg("demo").current_dir(&folder).env_clear())?;
    println!("{} bytes, {}", fs::metadata(&archive).map_err(told(&archive))?.len(), archive.display());
    Ok(Outcome::Passed)
}

fn make(triple: &str) -> Result<PathBuf, String> {
    let words =
        ["build", "--quiet", "--locked", "--profile", "dist", "-p", "callweave-cli", "--target", triple];
    // Static with musl as it is, with glibc and with Windows by this.
    let flags = "-Ctarget-feature=+crt-static";
    succeed(Command::new(cargo()).args(words).env("RUSTFLAGS", flags).current_dir(root()))?;
    let name = format!("callweave-{}-{triple}", env!("CARGO_PKG_VERSION"));
    let folder = target().join("dist").join(&name);
    fresh(&folder)?;
    let end = if triple.contains("windows") { ".exe" } else { "" };
    let built = target().join(triple).join(format!("dist/callweave{end}"));
    copy(&built, &folder.join(format!("callweave{end}")))?;
    for document in DOCUMENTS {
        copy(&root().join(document), &folder.join(document))?;
    }
    for (shell, file) in SHELLS {
        write(&folder.join("completions").join(file), &say(&["completions", shell])?)?;
    }
    for command in commands()? {
        let (words, file) = match command.as_str() {
            "" => (vec!["man"], "callweave.1".to_owned()),
            command => (vec!["man", command], format!("callweave-{command}.1")),
        };
        write(&folder.join("man").join(file), &say(&words)?)?;
    }
    let archive = target().join("dist").join(format!("{name}.tar.gz"));
    succeed(Command::new("tar").arg("-czf").arg(&archive).arg("-C").arg(target().join("dist")).arg(&name))?;
    fs::write(with_end(&archive, ".sha256"), checksum(&archive)?).map_err(told(&archive))?;
    Ok(archive)
}

/// Returns the files that must be in an archive beside the documents.
fn parts() -> impl Iterator<Item = String> {
    let completions = SHELLS.iter().map(|(_, file)| format!("completions/{file}"));
    completions.chain(["man/callweave.1", "man/callweave-decode.1", "callweave"].map(str::to_owned))
}

/// Returns the output of the program, built for this machine: the target's own program may not run here.
fn say(words: &[&str]) -> Result<Vec<u8>, String> {
    let output = Command::new(cargo())
        .args(["run", "--quiet", "-p", "callweave-cli", "--"])
        .args(words)
        .current_dir(root())
        .output()
        .map_err(|error| format!("cargo: {error}"))?;
    if output.status.success() && !output.stdout.is_empty() {
        return Ok(output.stdout);
    }
    Err(format!("callweave {}: {}", words.join(" "), String::from_utf8_lossy(&output.stderr)))
}

/// The program's commands, and nothing for the program itself.
fn commands() -> Result<Vec<String>, String> {
    let help = String::from_utf8(say(&["--help"])?).map_err(|error| error.to_string())?;
    let list = help.lines().skip_while(|line| *line != "Commands:").skip(1);
    let names =
        list.take_while(|line| line.starts_with("  ")).filter_map(|line| line.split_whitespace().next());
    let names: Vec<String> = names.filter(|name| *name != "help").map(str::to_owned).collect();
    if names.is_empty() {
        return Err("the help of the program lists no commands".into());
    }
    Ok([String::new()].into_iter().chain(names).collect())
}

/// The line that `sha256sum --check` reads.
fn checksum(file: &Path) -> Result<String, String> {
    let programs: [&[&str]; 2] = [&["sha256sum"], &["shasum", "-a", "256"]];
    let words = programs.into_iter().find(|words| is_there(words[0])).ok_or("there is no sha256sum")?;
    let folder = file.parent().ok_or("the archive is in a folder")?;
    let output = Command::new(words[0]).args(&words[1..]).arg(file_name(file)).current_dir(folder).output();
    let output = output.map_err(|error| format!("{}: {error}", words[0]))?;
    if output.status.success() {
        return String::from_utf8(output.stdout).map_err(|error| error.to_string());
    }
    Err(format!("{}: {}", words[0], String::from_utf8_lossy(&output.stderr)))
}

fn fresh(folder: &Path) -> Result<(), String> {
    if folder.exists() {
        fs::remove_dir_all(folder).map_err(told(folder))?;
    }
    fs::create_dir_all(folder).map_err(told(folder))
}

fn copy(from: &Path, to: &Path) -> Result<(), String> {
    fs::copy(from, to).map(|_| ()).map_err(told(from))
}

fn write(path: &Path, bytes: &[u8]) -> Result<(), String> {
    path.parent().map_or(Ok(()), fs::create_dir_all).and_then(|()| fs::write(path, bytes)).map_err(told(path))
}

fn with_end(path: &Path, end: &str) -> PathBuf {
    path.with_file_name(file_name(path) + end)
}

fn file_name(path: &Path) -> String {
    path.file_name().unwrap_or_default().to_string_lossy().into_owned()
}
