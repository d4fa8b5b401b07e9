//! Counts the work that code does: the executions of its branches and loops. Unlike a time, the number is the
//! same whatever else the machine does.
//!
//! `cargo xtask growth` builds with the compiler's counters (`-Cprofile-generate`, and `--cfg counted` so that
//! this crate knows) and runs the tests of this package, which are ignored elsewhere. Every function that is
//! compiled from source is counted, generic ones of the standard library too; moving and filling memory is
//! not, and `cargo xtask instructions` sees those.

/// Returns the amount of work that `work` does. Other threads must rest: their work would be counted, too.
#[cfg(counted)]
pub fn count(work: impl FnOnce()) -> u64 {
    unsafe extern "C" {
        fn __llvm_profile_reset_counters();
        fn __llvm_profile_begin_counters() -> *const u64;
        fn __llvm_profile_end_counters() -> *const u64;
    }
    // SAFETY: the profiler's runtime is linked when `counted` is set, and the counters lie between its two
    // addresses for as long as the program runs. Nothing else runs while they are read.
    unsafe {
        __llvm_profile_reset_counters();
        work();
        let (begin, end) = (__llvm_profile_begin_counters(), __llvm_profile_end_counters());
        let length = end.offset_from_unsigned(begin);
        std::slice::from_raw_parts(begin, length).iter().sum()
    }
}

/// Returns the amount of work that `work` does. Without the counters it panics.
#[cfg(not(counted))]
pub fn count(_: impl FnOnce()) -> u64 {
    panic!("nothing is counted in this build: `cargo xtask growth` makes one that counts");
}

/// Asserts that `times` as much input costs not much more than `times` the work.
///
/// The tolerance above it is a half: tables that double, trees that deepen. Work that looks ahead for a bounded way
/// grows faster until the bound is reached, so that more input is tried before it counts as a fault; work that grows
/// with the square does so for any size.
pub fn assert_linear(name: &str, small: usize, times: usize, work: impl Fn(usize)) {
    // Data that is made once and kept (tables of dialects, of words) is no work of the first input.
    work(small);
    let mut few = count(|| work(small));
    assert!(few > 0, "{name}: nothing was counted");
    let mut ratios = Vec::new();
    for large in [small * times, small * times * times] {
        let many = count(|| work(large));
        let ratio = many as f64 / few as f64;
        if ratio < 1.5 * times as f64 {
            return;
        }
        ratios.push(format!("{ratio:.1}"));
        few = many;
    }
    panic!("{name}: {} times the work for {times} times the input, twice", ratios.join(" and "));
}
