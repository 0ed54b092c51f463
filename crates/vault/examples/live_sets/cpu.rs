//! Processor time, and how fast the memory is meanwhile.

use rustix::time::{ClockId, clock_gettime};

use crate::keys::mix;

/// Nanoseconds that this thread has run on a processor.
fn cpu_ns() -> u64 {
    let spent = clock_gettime(ClockId::ThreadCPUTime);
    spent.tv_sec as u64 * 1_000_000_000 + spent.tv_nsec as u64
}

/// What `act` gives, and the CPU time that it took, in nanoseconds.
pub fn timed<T>(act: impl FnOnce() -> T) -> (T, u64) {
    let start = cpu_ns();
    let found = act();
    (found, cpu_ns() - start)
}

/// Nanoseconds of one read of 30 MB of memory, of many that do not wait for each other: it tells how much else is in
/// the processor's caches, and at work on the same memory.
pub fn memory_read_ns() -> f64 {
    const WORDS: usize = 30_000_000 / 8;
    const READS: u64 = 1 << 20;
    let words = vec![1u64; WORDS];
    let places: Vec<u32> = (0..READS).map(|number| (mix(number) % WORDS as u64) as u32).collect();
    let read = || std::hint::black_box(places.iter().fold(0, |all, &at| all ^ words[at as usize]));
    let mut rounds: Vec<f64> = (0..9).map(|_| timed(read).1 as f64 / READS as f64).collect();
    rounds.sort_by(f64::total_cmp);
    rounds[rounds.len() / 2]
}
