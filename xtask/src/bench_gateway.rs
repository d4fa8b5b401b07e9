//! The cost of the gateway: builds it as it is shipped, and measures it beside a plain relay.

use std::process::Command;

use crate::check::{cargo, succeed};
use crate::{root, target};

/// `cargo xtask bench-gateway [--quick] [--beside CALLWEAVE]`
pub(crate) fn run(flags: &[&str]) -> Result<(), String> {
    let build = ["build", "--quiet", "--release", "-p", "callweave-cli", "-p", "callweave-bench", "--bins"];
    succeed(Command::new(cargo()).args(build).current_dir(root()))?;
    let built = target().join("release");
    succeed(Command::new(built.join("gateway")).arg(built.join("callweave")).args(flags))
}
