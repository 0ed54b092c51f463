//! What sets of live chunks cost: memory, CPU to build, to mark and to look up. The sets of the vault, and those that
//! the paper compares in its section 4.
//!
//!     cargo run --release -p quietus-vault --example live_sets -- COUNT [SET...]
//!
//! SET is `perfect`, `ordinals` (both without SET), `phvec` or `compressed` (with `:λ:c`; else `:7:1.43`), `index`,
//! `bloom`, `partitioned` (with `:TURNS`) or `containers`. A line of JSON for each; `lab/bench live` makes tables of them.

mod bloom;
mod containers;
mod cpu;
mod index;
mod keys;
mod phvec;
mod sequence;
mod set;

use bloom::Bloom;
use containers::{BitVector, backups};
use cpu::{memory_read_ns, timed};
use index::{FullIndex, Partitioned};
use keys::{CHUNKS_A_CONTAINER, Keys, mix};
use phvec::{Attempts, Parameters, Phvec};
use quietus_vault::Ordinal;
use quietus_vault::live::{Builder, Cover, Ordinals, Perfect};
use sequence::Numbers;
use set::Set;

/// References that are marked at once, as a sanitization gathers them.
const GATHERED: usize = 1 << 14;
/// Times that marking is measured: other programs disturb each of them in another way.
const ROUNDS: usize = 16;
/// Chunks that are looked up.
const LOOKED_UP: usize = 1 << 20;
/// Chunks of no vault that are looked up in a Bloom filter.
const STRANGERS: u64 = 1 << 24;
/// Bits a fingerprint that the containers of one turn are to fit in: what `perfect` takes.
const PARTITIONED_BITS: f64 = 2.4;
/// What a table of fingerprints takes.
const TABLE_BITS: f64 = 193.0;

/// What is told of a set: names and numbers.
#[derive(Default)]
struct Line(Vec<(&'static str, f64)>);

impl Line {
    fn add(&mut self, name: &'static str, value: f64) {
        self.0.push((name, value));
    }

    fn set(&mut self, name: &'static str, value: f64) {
        self.0.retain(|(of, _)| *of != name);
        self.add(name, value);
    }

    fn print(&self, set: &str, count: u64) {
        let fields = self.0.iter().map(|(name, value)| format!(", \"{name}\": {value}"));
        println!("{{\"set\": \"{set}\", \"count\": {count}{}}}", fields.collect::<String>());
    }
}

fn perfect(keys: &Keys) -> Perfect {
    let mut builder = Builder::new(Cover::all(keys.count()), mix(keys.count()));
    keys.all().for_each(|fingerprint| builder.push(&fingerprint).expect("sorted hashes"));
    builder.finish().expect("sorted hashes")
}

fn measure(keys: &Keys, name: &str) -> Line {
    let mut words = name.split(':');
    let set = words.next().unwrap_or_default();
    let mut parameter = |default| words.next().map_or(default, |word| word.parse().expect("a number"));
    match set {
        "perfect" => built(keys, perfect),
        "ordinals" => built(keys, |keys| Ordinals::new(Ordinal(keys.count()))),
        "index" => built(keys, FullIndex::new),
        "bloom" => bloom(keys),
        "phvec" | "compressed" => {
            let numbers = if set == "phvec" { Numbers::Fixed } else { Numbers::Compressed };
            phvec(keys, Parameters { bucket: parameter(7.0), places: parameter(1.43), numbers })
        }
        "partitioned" => {
            let turns = parameter((TABLE_BITS / PARTITIONED_BITS).ceil());
            let mut line = built(keys, |keys| Partitioned::new(keys, turns as u64));
            line.add("turns", turns);
            line
        }
        "containers" => containers(keys),
        _ => panic!("unknown set {set:?}; the head of this program lists them"),
    }
}

/// Builds a set, and measures it.
fn built<S: Set>(keys: &Keys, build: impl FnOnce(&Keys) -> S) -> Line {
    let (set, spent) = timed(|| build(keys));
    let mut line = Line::default();
    line.add("build_ns", spent as f64 / keys.count() as f64);
    used(keys, set, line)
}

fn phvec(keys: &Keys, parameters: Parameters) -> Line {
    let ((set, attempts), spent) = timed(|| Phvec::new(keys, parameters));
    let Attempts { parts, failed, given_up } = attempts;
    let mut line = Line::default();
    line.add("parts", parts as f64);
    line.add("failed_attempts", failed as f64);
    line.add("given_up", given_up as f64);
    match set {
        Some(set) => {
            line.add("build_ns", spent as f64 / keys.count() as f64);
            used(keys, set, line)
        }
        None => line,
    }
}

/// Marks half of the chunks, batch by batch, and looks some up.
fn used(keys: &Keys, mut set: impl Set, mut line: Line) -> Line {
    line.add("bits", set.bytes() as f64 * 8.0 / keys.count() as f64);
    let batches = (keys.count() as usize / 2 / GATHERED).clamp(ROUNDS, 128 * ROUNDS);
    let live = keys.live(batches * GATHERED);
    let mut rounds: Vec<f64> = live
        .chunks(live.len() / ROUNDS)
        .map(|round| {
            let ((), spent) = timed(|| round.chunks(GATHERED).for_each(|batch| set.mark(batch)));
            spent as f64 / round.len() as f64
        })
        .collect();
    rounds.sort_by(f64::total_cmp);
    line.add("mark_ns", rounds[ROUNDS / 2]);
    line.add("mark_least_ns", rounds[0]);
    line.add("bits_with_buffers", set.bytes() as f64 * 8.0 / keys.count() as f64);
    let dead = keys.dead(LOOKED_UP);
    let mut found = Vec::with_capacity(LOOKED_UP);
    let containers = dead.chunks(CHUNKS_A_CONTAINER as usize);
    let ((), spent) = timed(|| containers.for_each(|chunks| set.look_up(chunks, &mut found)));
    line.add("look_up_ns", spent as f64 / LOOKED_UP as f64);
    let taken_for_live = found.iter().filter(|&&is_live| is_live).count();
    line.add("dead_taken_for_live", taken_for_live as f64 / LOOKED_UP as f64);
    let marked = live.iter().step_by(live.len() / LOOKED_UP.min(live.len()));
    assert!(marked.into_iter().all(|chunk| set.is_live(chunk)), "what was marked is live");
    line
}

/// The share of dead chunks that are taken for live is told of a filter with as many live chunks as it is made for.
fn bloom(keys: &Keys) -> Line {
    let mut line = built(keys, Bloom::new);
    let mut set = Bloom::new(keys);
    (0..keys.count()).for_each(|number| set.mark(&[keys.reference(number)]));
    let taken_for_live = (0..STRANGERS).filter(|&number| set.is_live(&keys::stranger(number))).count();
    line.set("dead_taken_for_live", taken_for_live as f64 / STRANGERS as f64);
    line
}

/// A bit for each place of each container, marked by all backups in the order of their files.
fn containers(keys: &Keys) -> Line {
    let mut set = BitVector::new(keys);
    let (mut spent, mut marked, mut batch) = (0, 0, Vec::new());
    let mut arrived = backups(keys.count()).peekable();
    while arrived.peek().is_some() {
        batch.clear();
        batch.extend(arrived.by_ref().take(GATHERED).map(|arrived| keys.reference(keys.at(arrived))));
        spent += timed(|| set.mark(&batch)).1;
        marked += batch.len();
    }
    let mut line = Line::default();
    line.add("build_ns", 0.0);
    line.add("bits", set.bytes() as f64 * 8.0 / keys.count() as f64);
    line.add("mark_ns", spent as f64 / marked as f64);
    let containers = keys.count().div_ceil(CHUNKS_A_CONTAINER);
    line.add("directories_read", set.directories_read as f64 / containers as f64);
    line.add("references", marked as f64 / keys.count() as f64);
    line
}

fn main() {
    let mut words = std::env::args().skip(1);
    let count = words.next().map_or(Ok(10_000_000), |word| word.parse()).expect("a number of fingerprints");
    let mut sets: Vec<String> = words.collect();
    if sets.is_empty() {
        sets = vec!["perfect".into(), "ordinals".into()];
    }
    let keys = Keys::new(count);
    for set in sets {
        let mut line = measure(&keys, &set);
        line.add("memory_read_ns", memory_read_ns());
        line.print(&set, count);
    }
}
