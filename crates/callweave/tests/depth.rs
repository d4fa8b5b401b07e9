//! Any nesting, on a small stack: nothing recurses over the depth of its input, and what is too deep for a
//! value in memory is kept as text.
//!
//! The inputs are made from the tables and from our own cases: a protocol or dialect that is added is
//! nested too.

#[path = "depth/dialects.rs"]
mod dialects;
#[path = "depth/doors.rs"]
mod doors;
mod laws;
#[path = "depth/nesting.rs"]
mod nesting;
#[path = "depth/protocols.rs"]
mod protocols;

/// The stack of the tests; a thread has 2 MiB by default. Unoptimised code, which these tests are, needs the most:
/// values in memory are walked by recursion, by us and by `serde_json`, and are never deeper than 128 levels.
const STACK: usize = 512 << 10;

/// Decoders make no values in memory.
const STACK_OF_A_DECODER: usize = 64 << 10;

/// The number of levels of `opener` in an input: enough that a level which costs any stack is too much.
fn levels(opener: &str) -> usize {
    (20_000 / opener.len()).clamp(600, 5_000)
}

/// The innermost text, which must not be lost.
const NEEDLE: &str = "needle-in-the-deep";

/// Runs `test` where little stack is left. An overflow ends the process, which no test survives.
fn on_a_stack_of(bytes: usize, test: impl FnOnce() + Send + 'static) {
    let thread = std::thread::Builder::new().stack_size(bytes).spawn(test).expect("a thread");
    if let Err(panic) = thread.join() {
        std::panic::resume_unwind(panic);
    }
}
