//! Everything that rule J is put through.

use super::guest::Mode;
use super::log::Flavour;
use super::play::Step;
use super::play::{Play, Setup};
use super::rules::Rules;
use super::text::{RULE, Reading, Text};
use crate::rule_e::search::{Limits, happen_and_finish, search};
use crate::rule_e::trial::{Part, walked_through};

const MODES: [Mode; 3] = [Mode::Journal, Mode::Ordered, Mode::Writeback];

/// The guest of `seed`.
#[must_use]
pub fn setup_of(seed: u64) -> Setup {
    let mode = MODES[seed as usize % 3];
    let mut setup = Setup::large(mode);
    let n = seed / 3;
    setup.data = 2 + (n % 6) as u32;
    setup.journal = 16 + (n / 2 % 3) as u32 * 4;
    setup.flavour = if n.is_multiple_of(2) { Flavour::Plain } else { Flavour::Summed };
    setup.is_async = n % 4 == 1;
    setup.skips = u32::from(n % 5 < 4);
    setup.crashes = n % 7 < 4;
    setup.restarts = n % 3 < 2;
    setup
}

fn letter(reading: Reading) -> impl Fn(&Setup, Vec<Vec<u8>>) -> Box<dyn Rules> {
    move |setup, disk| Box::new(Text::attach(setup.toy(), setup.area(), reading, disk))
}

/// The walk of `seed` above the rule by the letter, as `reading` has it.
#[must_use]
pub fn read(reading: Reading, seed: u64) -> Part {
    let setup = setup_of(seed);
    walked_through("a guest that journals", seed, || Play::new(&setup, letter(reading)))
}

/// Lets `steps` happen to a guest in `mode`, above the rule by the letter as
/// `reading` has it.
///
/// # Errors
/// The first broken promise.
pub fn reread(reading: Reading, mode: Mode, steps: &[Step]) -> Result<(), String> {
    happen_and_finish(&mut Play::new(&Setup::large(mode), letter(reading)), steps).map(drop)
}

/// How many parts [`searched`] has.
#[must_use]
pub fn parts() -> usize {
    setups().len()
}

/// Searches part `n` above the rule by the letter, up to `transitions_max`.
#[must_use]
pub fn searched(n: usize, transitions_max: u64) -> Part {
    let limits = Limits { steps_max: usize::MAX, transitions_max };
    let (name, setup) = &setups()[n];
    Part::of(name, search(|| Play::new(setup, letter(RULE)), limits))
}

/// Small file systems, of which all is searched.
pub(super) fn setups() -> Vec<(String, Setup)> {
    let mut setups = Vec::new();
    for mode in MODES {
        let small = Setup::small(mode);
        setups.push((format!("{mode:?}"), small.clone()));
        setups.push((format!("{mode:?}, crashes"), Setup { crashes: true, unmounts: true, ..small.clone() }));
        setups.push((format!("{mode:?}, restarts"), Setup { restarts: true, ..small }));
    }
    setups
}
