//! Fresh keys for sealing, which many threads draw at once.

use crate::base::locked::Locked;
use quietus_core::base::units::Session;
use quietus_core::media::sealing::{Context, Sealer, Sealing, Unauthentic};
use quietus_seal::keys::Unlocked;
use quietus_seal::{Generator, Random};
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};

/// As many threads can draw without waiting for each other.
const GENERATORS: usize = 16;

/// The sealer of a served disk's blocks.
pub type DiskSealer = quietus_seal::DiskSealer<Generators, Locked<Unlocked>>;

/// The seal `none`: content as it is, for comparison.
#[derive(Clone, Copy, Debug)]
pub struct Unsealed;

impl Sealer for Unsealed {
    fn close(&self, _: &Context, _: &mut [u8]) -> Result<Sealing, String> {
        Ok(Sealing { session: Session(0), number: 0, stub: [].into() })
    }

    fn open(&self, _: &Context, _: &Sealing, _: &mut [u8]) -> Result<(), Unauthentic> {
        Ok(())
    }

    fn needs_sealing(&self) -> bool {
        false
    }
}

/// Generators that take turns. Make new ones for each session.
pub struct Generators {
    all: [Mutex<Generator>; GENERATORS],
    next: AtomicUsize,
}

impl Generators {
    /// Generators with seeds from `random`.
    pub fn new(random: &mut impl Random) -> Self {
        let generator = |_| Mutex::new(Generator::seeded_by(random));
        Self { all: std::array::from_fn(generator), next: AtomicUsize::new(0) }
    }
}

impl Random for &Generators {
    fn fill(&mut self, out: &mut [u8]) {
        let turn = self.next.fetch_add(1, Ordering::Relaxed) % GENERATORS;
        self.all[turn].lock().expect("no generator panics").fill(out);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::HashSet;

    #[test]
    fn no_two_threads_and_no_two_turns_get_the_same_key() {
        let generators = Generators::new(&mut Generator::new(&[7; 32]));
        let draw = || {
            let key = |_| {
                let mut key = [0; 32];
                (&mut &generators).fill(&mut key);
                key
            };
            (0..500).map(key).collect::<Vec<_>>()
        };
        let all: HashSet<_> = std::thread::scope(|scope| {
            let threads: Vec<_> = (0..4).map(|_| scope.spawn(draw)).collect();
            threads.into_iter().flat_map(|it| it.join().unwrap()).collect()
        });
        assert_eq!(all.len(), 2000);
    }
}
