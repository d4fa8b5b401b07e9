//! Recorded traffic and the vectors of others, which are not part of the repository, and tests that cannot run
//! without what is missing here.

use std::io::Write as _;
use std::path::{Path, PathBuf};

/// The path of a part of the recorded material: in a folder `shared` beside the repository, or further up. The test
/// that asks is seen as skipped where there is none.
#[allow(dead_code, reason = "not every user of this file has recorded material")]
pub(crate) fn find(part: &str) -> Option<PathBuf> {
    let found = Path::new(env!("CARGO_MANIFEST_DIR"))
        .ancestors()
        .map(|folder| folder.join("shared").join(part))
        .find(|path| path.exists());
    if found.is_none() {
        skip(&format!("the recorded material `shared/{part}` is not beside the repository"));
    }
    found
}

/// Says that the test that runs on this thread is skipped: to the terminal, past the capture of the test's
/// output, and to `cargo xtask check`, which lists all that was skipped at its end.
pub(crate) fn skip(why: &str) {
    let thread = std::thread::current();
    let line = format!("skipped: {}: {why}\n", thread.name().unwrap_or("a test"));
    // Only the print macros are captured. One write each, so that lines of other tests stay apart.
    let _ = std::io::stderr().write_all(line.as_bytes());
    if let Some(path) = std::env::var_os("CALLWEAVE_SKIPPED")
        && let Ok(mut file) = std::fs::OpenOptions::new().append(true).create(true).open(path)
    {
        let _ = file.write_all(line.as_bytes());
    }
}
