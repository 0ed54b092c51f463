//! What sets of live chunks cost: memory, CPU to build, CPU to mark.
//!
//!     cargo run --release -p quietus-vault --example live_sets -- 10000000

use quietus_vault::live::{Builder, Cover, LiveSet, Ordinals, Perfect};
use quietus_vault::{Fingerprint, Ordinal, Reference};

/// References that are marked at once, as a sanitization gathers them.
const GATHERED: usize = 1 << 14;

fn mix(value: u64) -> u64 {
    let value = (value ^ (value >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
    let value = (value ^ (value >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
    value ^ (value >> 31)
}

/// Nanoseconds that this thread has run on a processor.
fn cpu_ns() -> u64 {
    let text = std::fs::read_to_string("/proc/thread-self/schedstat").expect("Linux with schedstat");
    text.split(' ').next().and_then(|field| field.parse().ok()).expect("a number of nanoseconds")
}

/// What `act` gives, and the CPU time that it took, in nanoseconds.
fn timed<T>(act: impl FnOnce() -> T) -> (T, u64) {
    let start = cpu_ns();
    let found = act();
    (found, cpu_ns() - start)
}

/// Prefixes of random fingerprints, ascending: their distances are exponential.
fn prefixes(count: u64) -> Vec<u64> {
    // A little less than all of the range, so that the sum stays within it.
    let mean = 2f64.powi(64) * 0.99 / count as f64;
    let mut at = 0u64;
    let distance = |number| -(((mix(number) >> 11) as f64 + 0.5) / 2f64.powi(53)).ln() * mean + 1.0;
    (0..count)
        .map(|number| {
            at = at.saturating_add(distance(number) as u64);
            at
        })
        .collect()
}

fn fingerprint(prefix: u64, number: u64) -> Fingerprint {
    let mut bytes = [0; 32];
    for (at, word) in [prefix, mix(number ^ 1 << 62), mix(number ^ 1 << 61), number].into_iter().enumerate() {
        bytes[8 * at..8 * at + 8].copy_from_slice(&word.to_be_bytes());
    }
    Fingerprint(bytes)
}

fn reference(prefixes: &[u64], number: u64) -> Reference {
    Reference { fingerprint: fingerprint(prefixes[number as usize], number), ordinal: Ordinal(number) }
}

fn build(prefixes: &[u64]) -> Perfect {
    let mut builder = Builder::new(Cover::all(prefixes.len() as u64), mix(prefixes.len() as u64));
    for (number, &prefix) in prefixes.iter().enumerate() {
        builder.push(&fingerprint(prefix, number as u64)).expect("sorted hashes");
    }
    builder.finish().expect("sorted hashes")
}

/// CPU time to mark one chunk, of batches whose chunks lie anywhere, in nanoseconds.
fn marking(set: &mut dyn LiveSet, prefixes: &[u64]) -> f64 {
    let count = prefixes.len() as u64;
    let batches = (count as usize / GATHERED / 2).clamp(1, 4096) as u64;
    let all: Vec<Reference> =
        (0..batches * GATHERED as u64).map(|at| reference(prefixes, mix(at ^ 1 << 60) % count)).collect();
    let ((), spent) = timed(|| all.chunks(GATHERED).for_each(|batch| set.mark(batch)));
    spent as f64 / all.len() as f64
}

fn main() {
    let count: u64 = std::env::args()
        .nth(1)
        .map_or(Ok(10_000_000), |text| text.parse())
        .expect("a number of fingerprints");
    let prefixes = prefixes(count);
    let (mut perfect, built) = timed(|| build(&prefixes));
    let bits = perfect.bits_per_fingerprint();
    println!("{count} fingerprints, in CPU time");
    println!(
        "perfect: {bits:.3} bits, {:.0} ns to build, {:.1} ns to mark",
        built as f64 / count as f64,
        marking(&mut perfect, &prefixes)
    );
    let mut ordinals = Ordinals::new(Ordinal(count));
    let bits = ordinals.bytes() as f64 * 8.0 / count as f64;
    println!("ordinals: {bits:.3} bits, 0 ns to build, {:.1} ns to mark", marking(&mut ordinals, &prefixes));
}
