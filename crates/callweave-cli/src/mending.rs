//! What the options say is done to tool calls on their way.

use callweave::dialect::Tools;
use callweave::mend::Mend;
use clap::Args;

/// How calls are mended.
#[derive(Args)]
pub(crate) struct Mending {
    /// Repair the arguments of calls; each change is told in a notice
    #[arg(long)]
    repair: bool,
    /// Fit the arguments of calls to the schemas of the tools; each change is told in a notice
    #[arg(long)]
    coerce: bool,
}

impl Mending {
    /// The stage that does it, and that checks calls against the tools that were declared.
    pub(crate) fn mend(&self, tools: Option<&Tools>) -> Mend {
        let mut mend = Mend::new().validate().tools(tools.cloned().unwrap_or_default());
        if self.repair {
            mend = mend.repair();
        }
        if self.coerce {
            mend = mend.coerce();
        }
        mend
    }
}
