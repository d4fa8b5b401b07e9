//! The argument stage that the options ask for.

use callweave::arguments::ArgumentStage;
use callweave::dialect::Tools;
use clap::Args;

/// How calls are mended.
#[derive(Args)]
pub(crate) struct RepairFlags {
    /// Repair the arguments of calls; each change is told in a notice
    #[arg(long)]
    repair: bool,
    /// Fit the arguments of calls to the schemas of the tools; each change is told in a notice
    #[arg(long)]
    coerce: bool,
}

impl RepairFlags {
    /// The stage that does it, and that checks calls against the tools that were declared.
    pub(crate) fn mend(&self, tools: Option<&Tools>) -> ArgumentStage {
        let mut mend = ArgumentStage::new().validate().tools(tools.cloned().unwrap_or_default());
        if self.repair {
            mend = mend.repair();
        }
        if self.coerce {
            mend = mend.coerce();
        }
        mend
    }
}
