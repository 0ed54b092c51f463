//! `quietus-seal-bench CASE`: nanoseconds to seal and to open a block of 4 KiB, on one core.
//!
//! `CASE` is a seal, or what seals are measured against: `xts`, AES-256-XTS of aws-lc, which is
//! what disk encryption costs; `hmac`, HMAC-SHA-256 of a block, which bounds the all-or-nothing seals.
//! Prints two numbers: the medians of many short runs. `lab/bench seal` runs the cases in turns.

mod aws_lc;

use hmac::{Hmac, KeyInit, Mac};
use quietus_seal::{
    Block, Context, DiskId, Epoch, Generation, Generator, MasterKey, Seal, Sealer, Sequence, Session, Slot,
    Stub,
};
use sha2::Sha256;
use std::hint::black_box;
use std::process::ExitCode;
use std::time::{Duration, Instant};

const BLOCK_BYTES: usize = 4096;
/// Blocks that are sealed in turn: more than the first cache holds is what a server touches.
const BLOCKS: usize = 64;
/// How long a case is measured.
const MEASURED: Duration = Duration::from_millis(400);
/// What comes before, uncounted.
const WARM_UP: Duration = Duration::from_millis(100);

fn main() -> ExitCode {
    let case = std::env::args().nth(1).unwrap_or_default();
    let Some((close, open)) = measure(&case) else {
        eprintln!("unknown case {case:?}; expected xts, hmac, or a seal");
        return ExitCode::from(2);
    };
    println!("{close:.1} {open:.1}");
    ExitCode::SUCCESS
}

fn measure(case: &str) -> Option<(f64, f64)> {
    match case {
        "xts" => Some(xts()),
        "hmac" => Some(hmac()),
        seal => seal.parse().ok().map(sealed),
    }
}

/// A block, at a place that shares no low bits with the others.
type Data = Box<[u8; BLOCK_BYTES]>;

fn blocks() -> Vec<Data> {
    (0..BLOCKS).map(|at| Box::new([at as u8; BLOCK_BYTES])).collect()
}

/// The median time of one call of `one`, which gets the numbers of the blocks in turn.
fn nanoseconds(mut one: impl FnMut(usize)) -> f64 {
    let mut run = |length: Duration| {
        let (began, mut runs) = (Instant::now(), Vec::new());
        while began.elapsed() < length {
            let start = Instant::now();
            (0..BLOCKS).for_each(&mut one);
            runs.push(start.elapsed().as_nanos() as f64 / BLOCKS as f64);
        }
        runs.sort_by(f64::total_cmp);
        runs[runs.len() / 2]
    };
    run(WARM_UP);
    run(MEASURED)
}

fn sealed(seal: Seal) -> (f64, f64) {
    let master = MasterKey::new(&[1; 32]);
    let keys = Sealer::new(seal, &master, Generation(0), DiskId([4; 16]), Session([2; 16]));
    let mut random = Generator::new(&[3; 32]);
    let mut blocks = blocks();
    let mut stubs: Vec<Option<Stub>> = vec![None; BLOCKS];
    let close = nanoseconds(|at| {
        stubs[at] = Some(keys.close(&context(at), &mut blocks[at][..], &mut random).expect("4 KiB"));
    });
    // Opening turns the block into data, so that each is sealed anew, uncounted, in between.
    let sealed = blocks;
    let mut copy: Vec<Data> = sealed.clone();
    let open = nanoseconds(|at| {
        copy[at].copy_from_slice(&sealed[at][..]);
        let stub = stubs[at].as_ref().expect("sealed above");
        keys.open(&context(at), &mut copy[at][..], stub).expect("as it was sealed");
    });
    (close, open - copying(&sealed, &mut copy))
}

/// The time to copy a block, which the measurement of opening contains.
fn copying(from: &[Data], to: &mut [Data]) -> f64 {
    nanoseconds(|at| {
        to[at].copy_from_slice(&from[at][..]);
        black_box(&mut to[at]);
    })
}

fn context(at: usize) -> Context {
    Context {
        block: Block(at as u64),
        born: Epoch(1),
        slot: Slot(at as u64),
        sequence: Sequence(at as u32),
    }
}

fn hmac() -> (f64, f64) {
    let keyed = Hmac::<Sha256>::new_from_slice(&[6; 32]).expect("any length");
    let blocks = blocks();
    let time = nanoseconds(|at| {
        let mut state = keyed.clone();
        state.update(&blocks[at][..]);
        black_box(state.finalize());
    });
    (time, time)
}

fn xts() -> (f64, f64) {
    let mut blocks = blocks();
    let mut keys = aws_lc::Xts::new(&std::array::from_fn(|at| at as u8));
    let close = nanoseconds(|at| keys.apply(aws_lc::Way::Encrypt, at as u64, &mut blocks[at]));
    let open = nanoseconds(|at| keys.apply(aws_lc::Way::Decrypt, at as u64, &mut blocks[at]));
    (close, open)
}
