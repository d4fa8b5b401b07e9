//! `callweave check`: explains a configuration of the gateway, and checks whether its upstreams respond.

use std::io::Write;

use anyhow::{Result, bail};
use callweave_gateway::Gateway;
use callweave_gateway::config::Environment;
use clap::Args;

use super::serve::ConfigSources;

/// Explain a configuration of the gateway, and try its upstreams
#[derive(Args)]
#[command(after_help = "\
Examples:
  callweave check --config gateway.toml
  callweave check                              what callweave serve would do without a file

The exit code is 1 if the configuration is wrong or an upstream does not answer.")]
pub(crate) struct CheckArgs {
    #[command(flatten)]
    sources: ConfigSources,
    /// Ask no upstream
    #[arg(long)]
    offline: bool,
}

impl CheckArgs {
    pub(crate) fn run(&self) -> Result<()> {
        let gateway = Gateway::new(self.sources.config()?, &Environment::process())?;
        let mut out = anstream::stdout();
        write!(out, "{}", gateway.explain())?;
        if self.offline {
            return Ok(());
        }
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
        let probes = runtime.block_on(gateway.probe());
        writeln!(out)?;
        let mut silent = Vec::new();
        for probe in probes {
            match probe.found {
                Ok((count, took)) => {
                    write!(out, "{}: {count} models, after {} ms", probe.upstream, took.as_millis())?;
                    match probe.provider {
                        Some(provider) => writeln!(out, ", in a list like those of {provider}")?,
                        None => writeln!(out)?,
                    }
                }
                Err(what) => {
                    writeln!(out, "{}: {what}", probe.upstream)?;
                    silent.push(probe.upstream);
                }
            }
        }
        match silent.is_empty() {
            true => Ok(()),
            false => bail!("no response from {}", silent.join(", ")),
        }
    }
}
