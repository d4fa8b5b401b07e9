//! The package for Python: built, and tested in an environment of its own.

use std::path::{Path, PathBuf};
use std::process::Command;

use crate::check::{Outcome, is_there, succeed};
use crate::clients::unreachable;
use crate::{root, target};

/// `cargo xtask check --python`: installs the tools that `bindings/python/requirements.txt` names into `target/python`,
/// builds the package and runs its tests.
pub(crate) fn run() -> Result<Outcome, String> {
    if !is_there("python3") {
        return Ok(Outcome::Skipped("there is no python3".into()));
    }
    let environment = match Environment::create("tools", "requirements.txt") {
        Ok(environment) => environment,
        Err(why) => return unreachable(why),
    };
    environment.install()?;
    environment.pytest(&["tests"])?;
    Ok(Outcome::Passed)
}

/// An environment of Python.
struct Environment {
    home: PathBuf,
}

impl Environment {
    /// An environment in `target/python`, with the packages that a file of ours requires.
    fn create(name: &str, requirements: &str) -> Result<Self, String> {
        let uv = uv()?;
        let home = target().join("python").join(name);
        if !home.join("bin/python").exists() {
            let words = ["venv", "--quiet", "--no-python-downloads", "--python", "python3"];
            succeed(Command::new(&uv).args(words).arg(&home))?;
        }
        let environment = Self { home };
        let file = package().join(requirements);
        succeed(environment.command(&uv).args(["pip", "install", "--quiet", "-r"]).arg(file))?;
        Ok(environment)
    }

    /// A command that runs in the environment.
    fn command(&self, program: &Path) -> Command {
        let mut command = Command::new(program);
        command.env("VIRTUAL_ENV", &self.home).current_dir(package());
        command
    }

    /// A program of the environment.
    fn program(&self, name: &str) -> Command {
        self.command(&self.home.join("bin").join(name))
    }

    /// Builds the package into the environment.
    fn install(&self) -> Result<(), String> {
        succeed(self.program("maturin").args(["develop", "--quiet", "--uv"]).env("PATH", path_with(&uv()?)?))
    }

    fn pytest(&self, words: &[&str]) -> Result<(), String> {
        succeed(self.program("python").args(["-m", "pytest"]).args(words))
    }
}

/// The folder of the package.
fn package() -> PathBuf {
    root().join("bindings/python")
}

/// The program `uv`, which makes environments in seconds; it is installed beside them where it is missing.
fn uv() -> Result<PathBuf, String> {
    if is_there("uv") {
        return Ok("uv".into());
    }
    let home = target().join("python/uv");
    let uv = home.join("bin/uv");
    if !uv.exists() {
        succeed(Command::new("python3").args(["-m", "venv"]).arg(&home))?;
        let install = ["-m", "pip", "install", "--quiet", "--disable-pip-version-check", "--retries=1", "uv"];
        succeed(Command::new(home.join("bin/python")).args(install))?;
    }
    Ok(uv)
}

/// The paths of programs, with that of `program`.
fn path_with(program: &Path) -> Result<std::ffi::OsString, String> {
    let folder = program.parent().filter(|folder| !folder.as_os_str().is_empty()).map(Path::to_owned);
    let paths = std::env::var_os("PATH").unwrap_or_default();
    let paths = folder.into_iter().chain(std::env::split_paths(&paths));
    std::env::join_paths(paths).map_err(|error| error.to_string())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::check::told;

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
        for name in ["callweave", "callweave-cli", "callweave-gateway", "callweave-python"] {
            let heading = format!("name = \"{name}\"\n");
            assert_eq!(version(&package().join("Cargo.lock"), &heading)?, own, "{name}");
        }
        Ok(())
    }
}
