//! The package for Python: built, tested and typed in environments of its own, and installed as people install it.

use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::process::Command;

use crate::check::{Outcome, cargo, is_there, succeed, told};
use crate::clients::unreachable;
use crate::{root, target};

/// The interpreters that the package is tried with besides the usual one, where they are installed. The last has no
/// global lock.
const OTHERS: [&str; 5] = ["python3.10", "python3.12", "python3.13", "python3.14", "python3.14t"];

/// A part of `cargo xtask check --python`: installs the tools that `bindings/python/requirements.txt` names into
/// `target/python`, builds the package and runs its tests.
pub(crate) fn run() -> Result<Outcome, String> {
    let environment = match tools()? {
        Ok(environment) => environment,
        Err(skipped) => return Ok(skipped),
    };
    // The check of the workspace does not see this crate.
    for words in [&["fmt", "--check"][..], &["clippy", "--quiet", "--", "-D", "warnings"]] {
        succeed(Command::new(cargo()).args(words).current_dir(package()))?;
    }
    succeed(environment.program("maturin").args(["develop", "--quiet", "--uv"]))?;
    environment.pytest()?;
    Ok(Outcome::Passed)
}

/// A part of `cargo xtask check --python`: the stubs are those that the classes and functions have (`BLESS=1` writes
/// them), and type checkers agree with them.
pub(crate) fn types() -> Result<Outcome, String> {
    let environment = match tools()? {
        Ok(environment) => environment,
        Err(skipped) => return Ok(skipped),
    };
    let out = home().join("stubs");
    succeed(
        environment
            .program("maturin")
            .args(["generate-stubs", "--no-default-features", "--features", "stubs", "--out"])
            .arg(&out),
    )?;
    let made = out.join("callweave/_callweave.pyi");
    let made = std::fs::read_to_string(&made).map_err(told(&made))?;
    let own = package().join("python/callweave/_callweave.pyi");
    if std::env::var_os("BLESS").is_some() {
        std::fs::write(&own, &made).map_err(told(&own))?;
    }
    if std::fs::read_to_string(&own).map_err(told(&own))? != made {
        return Err(format!("{} is out of date (BLESS=1 writes it)", own.display()));
    }
    let checked = ["python/callweave", "tests/typed_use.py"];
    succeed(environment.program("mypy").arg("--strict").args(checked))?;
    succeed(environment.program("pyright").arg("--warnings").args(checked))?;
    Ok(Outcome::Passed)
}

/// A part of `cargo xtask check --python`: one wheel serves all versions of Python.
pub(crate) fn versions() -> Result<Outcome, String> {
    let environment = match tools()? {
        Ok(environment) => environment,
        Err(skipped) => return Ok(skipped),
    };
    let out = home().join("wheels");
    succeed(environment.program("maturin").args(["build", "--quiet", "--out"]).arg(&out))?;
    let mut missing = Vec::new();
    for python in OTHERS {
        if !is_there(python) {
            missing.push(python);
            continue;
        }
        println!("   {python}");
        let other = Environment::create(python, python)?;
        let wheel = match python.ends_with('t') {
            // The stable interface has no form for these yet.
            true => {
                let free = home().join("wheels-free");
                let words = ["build", "--quiet", "--interpreter", python, "--out"];
                succeed(environment.program("maturin").args(words).arg(&free))?;
                newest(&free)?
            }
            false => newest(&out)?,
        };
        other.install(&["--reinstall-package".into(), "callweave".into(), wheel.into()])?;
        other.install(&["pytest".into(), "pydantic".into()])?;
        other.pytest()?;
    }
    match missing.is_empty() {
        true => Ok(Outcome::Passed),
        false => Ok(Outcome::Skipped(format!("there is no {}", missing.join(", ")))),
    }
}

/// A part of `cargo xtask check --python`: clients and frameworks, run for real with an exchange inside. There are two
/// environments, since some need an openai below 3.
pub(crate) fn clients() -> Result<Outcome, String> {
    let environment = match tools()? {
        Ok(environment) => environment,
        Err(skipped) => return Ok(skipped),
    };
    let out = home().join("wheels-clients");
    succeed(environment.program("maturin").args(["build", "--quiet", "--out"]).arg(&out))?;
    for name in ["a", "b"] {
        let requirements = format!("requirements-{name}.txt");
        let file = package().join("tests/clients").join(&requirements);
        let made = Environment::create(&format!("clients-{name}"), "python3").and_then(|clients| {
            clients.install(&["pytest".into(), "-r".into(), file.into()])?;
            Ok(clients)
        });
        let clients = match made {
            Ok(clients) => clients,
            Err(why) => return unreachable(why),
        };
        clients.install(&["--reinstall-package".into(), "callweave".into(), newest(&out)?.into()])?;
        let mut pytest = clients.program("python");
        pytest.args(["-m", "pytest", "tests/clients"]).env("CALLWEAVE_CLIENTS", requirements);
        succeed(&mut pytest)?;
    }
    Ok(Outcome::Passed)
}

/// A part of `cargo xtask check --python`: the source distribution builds from itself.
pub(crate) fn source() -> Result<Outcome, String> {
    let environment = match tools()? {
        Ok(environment) => environment,
        Err(skipped) => return Ok(skipped),
    };
    let out = home().join("sdist");
    succeed(environment.program("maturin").args(["sdist", "--out"]).arg(&out))?;
    let fresh = Environment::create("fresh", "python3")?;
    let words = ["--reinstall-package", "callweave"].map(OsString::from);
    let mut install = fresh.pip(&[&words[..], &[newest(&out)?.into()]].concat())?;
    // What it is made of is built already.
    install.env("MATURIN_PEP517_ARGS", "--profile dev").env("CARGO_TARGET_DIR", package().join("target"));
    succeed(&mut install)?;
    succeed(fresh.program("callweave").arg("--version").current_dir(&out))?;
    let words = ["-c", "import callweave; assert callweave.extract('Hi').text == 'Hi'"];
    succeed(fresh.program("python").args(words).current_dir(&out))?;
    Ok(Outcome::Passed)
}

/// A part of `cargo xtask check --python`: the package inside engines, which are installed in an environment of their own.
pub(crate) fn engines() -> Result<Outcome, String> {
    let tools = match tools()? {
        Ok(environment) => environment,
        Err(skipped) => return Ok(skipped),
    };
    let wheels = home().join("wheels");
    succeed(tools.program("maturin").args(["build", "--quiet", "--out"]).arg(&wheels))?;
    let made = Environment::create("engines", "python3").and_then(|environment| {
        let requirements = package().join("tests/bulk/requirements.txt");
        environment.install(&["-r".into(), requirements.into(), "pytest".into()])?;
        Ok(environment)
    });
    let environment = match made {
        Ok(environment) => environment,
        Err(why) => return unreachable(why),
    };
    environment.install(&["--reinstall-package".into(), "callweave".into(), newest(&wheels)?.into()])?;
    succeed(environment.program("python").args(["-m", "pytest", "tests/bulk"]))?;
    Ok(Outcome::Passed)
}

/// The environment with the tools; or why there is none.
fn tools() -> Result<Result<Environment, Outcome>, String> {
    if !is_there("python3") {
        return Ok(Err(Outcome::Skipped("there is no python3".into())));
    }
    let made = Environment::create("tools", "python3").and_then(|environment| {
        environment.install(&["-r".into(), package().join("requirements.txt").into()])?;
        Ok(environment)
    });
    made.map_or_else(|why| unreachable(why).map(Err), |environment| Ok(Ok(environment)))
}

/// An environment of Python.
struct Environment {
    home: PathBuf,
}

impl Environment {
    /// An environment in `target/python`, for an interpreter.
    fn create(name: &str, python: &str) -> Result<Self, String> {
        let home = home().join(name);
        if !home.join("bin/python").exists() {
            let words = ["venv", "--quiet", "--no-python-downloads", "--python", python];
            succeed(Command::new(uv()?).args(words).arg(&home))?;
        }
        Ok(Self { home })
    }

    /// A program of the environment, which finds the others of it.
    fn program(&self, name: &str) -> Command {
        let bin = self.home.join("bin");
        let paths = std::env::var_os("PATH").unwrap_or_default();
        let uv = uv().ok().and_then(|uv| uv.parent().map(Path::to_owned));
        let uv = uv.filter(|folder| !folder.as_os_str().is_empty());
        let paths = [bin.clone()].into_iter().chain(uv).chain(std::env::split_paths(&paths));
        let mut command = Command::new(bin.join(name));
        command.env("VIRTUAL_ENV", &self.home).current_dir(package());
        command.env("PATH", std::env::join_paths(paths).unwrap_or_default());
        command
    }

    /// The command that installs packages.
    fn pip(&self, words: &[OsString]) -> Result<Command, String> {
        let mut command = Command::new(uv()?);
        command.args(["pip", "install", "--quiet"]).args(words).env("VIRTUAL_ENV", &self.home);
        Ok(command)
    }

    fn install(&self, words: &[OsString]) -> Result<(), String> {
        succeed(&mut self.pip(words)?)
    }

    fn pytest(&self) -> Result<(), String> {
        succeed(self.program("python").args(["-m", "pytest"]))
    }
}

/// The folder of the package.
fn package() -> PathBuf {
    root().join("bindings/python")
}

/// The folder of environments.
fn home() -> PathBuf {
    target().join("python")
}

/// The newest file of a folder.
fn newest(folder: &Path) -> Result<PathBuf, String> {
    let files = std::fs::read_dir(folder).map_err(told(folder))?.filter_map(Result::ok);
    let newest = files.max_by_key(|file| file.metadata().and_then(|data| data.modified()).ok());
    newest.map(|file| file.path()).ok_or_else(|| format!("{} is empty", folder.display()))
}

/// The program `uv`, which makes environments in seconds; it is installed beside them where it is missing.
fn uv() -> Result<PathBuf, String> {
    if is_there("uv") {
        return Ok("uv".into());
    }
    let home = home().join("uv");
    let uv = home.join("bin/uv");
    if !uv.exists() {
        succeed(Command::new("python3").args(["-m", "venv"]).arg(&home))?;
        let install = ["-m", "pip", "install", "--quiet", "--disable-pip-version-check", "--retries=1", "uv"];
        succeed(Command::new(home.join("bin/python")).args(install))?;
    }
    Ok(uv)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The version in the lines of a manifest behind a heading.
    fn version(path: &Path, heading: &str) -> Result<String, String> {
        let text = std::fs::read_to_string(path).map_err(told(path))?;
        let (_, rest) = text.split_once(heading).ok_or(format!("{} has no {heading}", path.display()))?;
        let line = rest.lines().find_map(|line| line.strip_prefix("version = \""));
        Ok(line.and_then(|line| line.strip_suffix('"')).unwrap_or_default().to_owned())
    }

    #[test]
    fn versions_move_together() -> Result<(), String> {
        let own = version(&root().join("Cargo.toml"), "[workspace.package]")?;
        assert_eq!(version(&package().join("Cargo.toml"), "[package]")?, own);
        for name in ["callweave", "callweave-bulk", "callweave-cli", "callweave-gateway", "callweave-python"]
        {
            let heading = format!("name = \"{name}\"\n");
            assert_eq!(version(&package().join("Cargo.lock"), &heading)?, own, "{name}");
        }
        Ok(())
    }
}
