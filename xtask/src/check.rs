//! Everything that CI runs, step by step; the first failure ends it.

use std::process::Command;
use std::time::Instant;

/// One step: what it is called, the words after `cargo`, and whether the quick run leaves it out.
struct Step {
    title: &'static str,
    words: &'static [&'static str],
    environment: &'static [(&'static str, &'static str)],
    is_slow: bool,
}

const STEPS: &[Step] = &[
    Step::new("format", &["fmt", "--all", "--check"]),
    Step::new("lints", &["clippy", "--workspace", "--all-targets", "--all-features", "--", "-D", "warnings"]),
    Step::new(
        "lints without features",
        &["clippy", "-p", "callweave", "--no-default-features", "--", "-D", "warnings"],
    )
    .slow(),
    Step::new(
        "documentation",
        &["doc", "--workspace", "--no-deps", "--all-features", "--document-private-items"],
    )
    .with(&[("RUSTDOCFLAGS", "-D warnings -A rustdoc::private-intra-doc-links")]),
    Step::new(
        "tests",
        &["test", "--workspace", "--all-features", "--lib", "--bins", "--tests", "--examples"],
    ),
    Step::new("documentation tests", &["test", "--workspace", "--all-features", "--doc"]),
    Step::new(
        "a program outside the workspace",
        &["test", "--manifest-path", "crates/callweave/tests/consumer/Cargo.toml"],
    )
    .with(&[("CARGO_TARGET_DIR", "target")]),
    Step::new("official clients", &["xtask", "clients"]).slow(),
    Step::new("the demo", &["run", "--quiet", "--release", "--", "demo"]).slow(),
    Step::new("package", &["publish", "--dry-run", "--allow-dirty", "--quiet", "-p", "callweave"]).slow(),
];

impl Step {
    const fn new(title: &'static str, words: &'static [&'static str]) -> Self {
        Self { title, words, environment: &[], is_slow: false }
    }

    const fn slow(self) -> Self {
        Self { is_slow: true, ..self }
    }

    const fn with(self, environment: &'static [(&'static str, &'static str)]) -> Self {
        Self { environment, ..self }
    }

    fn run(&self) -> Result<(), String> {
        println!("── {}: cargo {}", self.title, self.words.join(" "));
        let start = Instant::now();
        let cargo = std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into());
        let status = Command::new(cargo)
            .args(self.words)
            .envs(self.environment.iter().copied())
            .status()
            .map_err(|error| format!("cargo does not start: {error}"))?;
        println!("── {}: {:.0} s", self.title, start.elapsed().as_secs_f64());
        if status.success() { Ok(()) } else { Err(format!("{} failed", self.title)) }
    }
}

/// `cargo xtask check [--quick]`
pub(crate) fn run(words: &[&str]) -> Result<(), String> {
    let is_quick = match words {
        [] => false,
        ["--quick"] => true,
        _ => return Err("usage: cargo xtask check [--quick]".to_owned()),
    };
    STEPS.iter().filter(|step| !(is_quick && step.is_slow)).try_for_each(Step::run)
}
