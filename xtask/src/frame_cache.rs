//! The library without its frame cache gives the same results: the same tests and laws over all cases and fuzz seeds,
//! and the same events, byte for byte, for every case, recording and seed.

use std::path::Path;
use std::process::{Command, ExitCode};

use crate::check::{Outcome, cargo, succeed, told};
use crate::{root, target};

/// Names the `cfg` that [`wrap_compiler`] adds.
const CFG: &str = "CALLWEAVE_XTASK_CFG";
const WITHOUT_CACHE: &str = "callweave_no_frame_cache";
/// The tests that read responses.
const TESTS: &[&str] = &["protocol", "fuzz_seeds", "detection", "tool_call_aggregator", "live", "mutations", "frame_cache"];

/// Runs the compiler with one more `cfg`, if this process was started in its place. Only crates of the workspace are
/// compiled so (`RUSTC_WORKSPACE_WRAPPER`), hence no dependency is built a second time.
pub(crate) fn wrap_compiler() -> Option<ExitCode> {
    let cfg = std::env::var_os(CFG)?;
    let mut words = std::env::args_os().skip(1);
    let status = Command::new(words.next()?).args(words).arg("--cfg").arg(cfg).status();
    let code = status.ok().and_then(|status| status.code()).and_then(|code| u8::try_from(code).ok());
    Some(code.unwrap_or(1).into())
}

pub(crate) fn run() -> Result<Outcome, String> {
    let [with, without] = ["with-frame-cache.txt", "without-frame-cache.txt"].map(|name| target().join(name));
    let compare = ["--test", "frame_cache", "results_are_written_for_comparison"];
    succeed(test(&with).args(compare))?;
    let wrapper = std::env::current_exe().map_err(|error| format!("this program: {error}"))?;
    let tests = TESTS.iter().flat_map(|name| ["--test", name]);
    let mut command = test(&without);
    succeed(command.args(tests).env("RUSTC_WORKSPACE_WRAPPER", wrapper).env(CFG, WITHOUT_CACHE))?;
    let [with, without] = [&with, &without].map(|path| std::fs::read_to_string(path).map_err(told(path)));
    differences(&with?, &without?)
}

fn test(results: &Path) -> Command {
    let mut command = Command::new(cargo());
    command.args(["test", "-p", "callweave", "--all-features"]).current_dir(root());
    command.env("CALLWEAVE_RESULTS", results);
    command
}

fn differences(with: &str, without: &str) -> Result<Outcome, String> {
    let mut lines = with.lines().zip(without.lines());
    if let Some((with, without)) = lines.find(|(with, without)| with != without) {
        return Err(format!("the results differ without the frame cache:\n{with}\n{without}"));
    }
    match with.lines().count() {
        count if count == without.lines().count() && count > 0 => Ok(Outcome::Passed),
        _ => Err("there are not as many results without the frame cache".into()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_difference_is_found() {
        assert!(differences("1 a\n2 b\n", "1 a\n2 b\n").is_ok());
        for other in ["1 a\n3 b\n", "1 a\n", "1 a\n2 b\n3 c\n", ""] {
            assert!(differences("1 a\n2 b\n", other).is_err(), "{other:?}");
        }
        assert!(differences("", "").is_err());
    }
}
