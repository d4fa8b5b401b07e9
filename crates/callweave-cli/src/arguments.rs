//! The argument stage that the options ask for.

use callweave::arguments::ArgumentStage;
use callweave::dialect::Tools;
use clap::Args;

/// How calls are finished.
#[derive(Args)]
pub(crate) struct RepairFlags {
    /// Repair the arguments of calls; each change is reported by a notice
    #[arg(long)]
    repair: bool,
    /// Fit the arguments of calls to the schemas of the tools; each change is reported by a notice
    #[arg(long)]
    coerce: bool,
}

impl RepairFlags {
    /// The stage that does it, and that checks calls against the tools that were declared.
    pub(crate) fn stage(&self, tools: Option<&Tools>) -> ArgumentStage {
        let mut stage = ArgumentStage::new().validate().tools(tools.cloned().unwrap_or_default());
        if self.repair {
            stage = stage.repair();
        }
        if self.coerce {
            stage = stage.coerce();
        }
        stage
    }
}
