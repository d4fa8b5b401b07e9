//! The program `callweave`; the library beside it has all of it.

use std::process::ExitCode;

#[cfg(feature = "mimalloc")]
#[global_allocator]
static MEMORY: mimalloc::MiMalloc = mimalloc::MiMalloc;

fn main() -> ExitCode {
    ExitCode::from(callweave_cli::run(std::env::args_os()))
}
