//! Everything that rule E is put through.

use crate::differential::Watchers;
use crate::rng::Rng;
use crate::rule_e::fat;
use crate::rule_e::fuzz::{self, Fuzz, Theme, options, themes};
use crate::rule_e::play::{Layout, Play, Setup, Step};
pub use crate::rule_e::search::Part;
use crate::rule_e::search::{Space, cut_down, happen_and_finish, listing, search, walk};
use quietus_detect::format::Block;
use quietus_detect::options::{Grade, Options};

/// Steps of one walk.
const WALK_STEPS_MAX: usize = 160;

/// How many parts [`searched`] has.
pub fn parts() -> usize {
    all_themes().len() + all_setups().len()
}

fn all_themes() -> Vec<Theme> {
    [themes(), fat::fuzz::themes()].concat()
}

/// Searches part `n`, up to `transitions_max`.
pub fn searched(n: usize, transitions_max: u64) -> Part {
    let (themes, setups) = (all_themes(), all_setups());
    if let Some(theme) = themes.get(n) {
        return search(theme.name, || Fuzz::new(theme), transitions_max);
    }
    let (name, setup) = &setups[n - themes.len()];
    search(name, || Play::new(setup), transitions_max)
}

/// Small file systems, of which all is searched.
fn all_setups() -> Vec<(&'static str, Setup)> {
    [setups(), fat_setups()].concat()
}

fn setups() -> Vec<(&'static str, Setup)> {
    let small = Setup::small(options(Grade::Generation, false));
    vec![
        ("a guest, two blocks", Setup { slots: vec![0], ..small.clone() }),
        ("a guest, pointers", Setup { data: 3, ..small.clone() }),
        ("a guest that crashes", Setup { crashes: true, unmounts: true, slots: vec![0], ..small.clone() }),
        ("a server that is killed", Setup { restarts: true, slots: vec![0], ..small.clone() }),
        ("writes that overtake", Setup { reorders: true, slots: vec![0], passes_ms: vec![5, 2000], ..small }),
    ]
}

/// The same, of FATs.
fn fat_setups() -> Vec<(&'static str, Setup)> {
    let layout = Layout::Fat { is_final: true };
    let small = Setup { unmounts: true, layout, ..Setup::small(options(Grade::Generation, false)) };
    let crashes = Setup { crashes: true, restarts: true, ..small.clone() };
    vec![
        ("fat: a guest, two blocks", small.clone()),
        ("fat: a guest that crashes", crashes.clone()),
        ("fat: writes that overtake", Setup { reorders: true, passes_ms: vec![5, 2000], ..small }),
        ("fat: a guest whose table needs rest", Setup { layout: Layout::Fat { is_final: false }, ..crashes }),
    ]
}

/// The walk of `seed`: what it is called, its steps, and why it failed. Half of them write
/// whatever may be written, half are a guest's life; half are of FATs.
pub fn walked(seed: u64) -> Part {
    let n = seed / 2;
    if seed % 4 < 2 { walked_fuzz(n, seed % 2 == 1) } else { lived(n, seed % 2 == 1, Watchers::Both) }
}

/// The walk of `seed` through a guest's life, which only the judge watches.
pub fn judged(seed: u64) -> Part {
    lived(seed / 2, seed % 2 == 1, Watchers::Product)
}

fn walked_fuzz(seed: u64, is_fat: bool) -> Part {
    let grade = [Grade::Generation, Grade::Generation, Grade::Content, Grade::Block][seed as usize / 2 % 4];
    let (options, was_clean) = (options(grade, seed % 16 == 2), seed.is_multiple_of(3));
    let theme = if is_fat {
        fat::fuzz::everything(options, was_clean, seed % 5 < 3, seed % 7 < 5)
    } else {
        fuzz::everything(options, was_clean, seed % 5 < 3)
    };
    walked_through(theme.name, seed, || Fuzz::new(&theme))
}

fn lived(seed: u64, is_fat: bool, watchers: Watchers) -> Part {
    let grade = match (seed % 8 == 5, is_fat) {
        (true, true) => Grade::Block,
        (true, false) => Grade::Content,
        (false, _) => Grade::Generation,
    };
    let setup = Setup {
        data: 2 + (seed / 2 % if is_fat { 3 } else { 6 }) as u32,
        reorders: !seed.is_multiple_of(3),
        crashes: seed % 5 < 3,
        restarts: seed % 7 < 4,
        layout: if is_fat { Layout::Fat { is_final: seed % 7 < 5 } } else { Layout::Ext2 },
        watchers,
        ..Setup::large(grade, false)
    };
    let name = if is_fat { "a guest with a FAT" } else { "a guest with a file system" };
    walked_through(name, seed, || Play::new(&setup))
}

/// A guest above a cache. `is_told`: the rules know of it.
fn setup_cached(data: Block, is_told: bool, watchers: Watchers) -> Setup {
    let large = Setup::large(Grade::Generation, false);
    Setup {
        data,
        options: Options { reorder_window_ms: 500, settle_ms: 2000, ..large.options },
        passes_ms: vec![100, 700, 1500, 700, 700],
        reorders: false,
        is_cached: true,
        is_told,
        watchers,
        ..large
    }
}

/// The walk of `seed` through a guest's life above a cache; a quarter of them are of FATs.
pub fn cached(seed: u64, is_told: bool, watchers: Watchers) -> Part {
    let setup = setup_cached(1 + (seed / 2 % 5) as u32, is_told, watchers);
    let (name, layout) = match seed % 4 {
        3 => ("a guest with a FAT above a cache", Layout::Fat { is_final: true }),
        _ => ("a guest above a cache", Layout::Ext2),
    };
    let setup = Setup { layout, crashes: seed % 3 == 1, restarts: seed % 3 == 1, ..setup };
    walked_through(name, seed, || Play::new(&setup))
}

/// The walk of `seed` through what `start` makes; cut down if it fails.
pub(crate) fn walked_through<P: Space>(name: &str, seed: u64, start: impl Fn() -> P) -> Part {
    taken(name, seed, start, |_| {})
}

/// The same; `look` at what it has come to.
pub(crate) fn taken<P: Space>(name: &str, seed: u64, start: impl Fn() -> P, look: impl FnOnce(&P)) -> Part {
    let mut rng = Rng::new(seed);
    let steps_max = rng.range(10, WALK_STEPS_MAX as u64) as usize;
    let mut space = start();
    let (depth, failure) = match walk(&mut space, &mut rng, steps_max) {
        Ok(steps) => (steps, None),
        Err((steps, broken)) => (steps.len(), Some(shortest(steps, broken, start))),
    };
    look(&space);
    Part { name: format!("{name}, seed {seed}"), states: 0, transitions: depth as u64, depth, failure }
}

/// Cuts a history down that broke a promise.
fn shortest<P: Space>(steps: Vec<P::Step>, broken: String, start: impl Fn() -> P) -> (String, String) {
    let fails =
        |it: &[P::Step]| happen_and_finish(&mut start(), it).is_err_and(|it| kind(&it) == kind(&broken));
    let steps = cut_down(steps, fails);
    let broken = happen_and_finish(&mut start(), &steps).err().unwrap_or(broken);
    (listing(&steps), broken)
}

/// Kind of the broken promise: `safety`, `forensic`, or the difference between the versions.
fn kind(broken: &str) -> &str {
    broken.split(':').next().unwrap_or(broken)
}

/// Lets `steps` happen to a guest with everything.
pub fn retold(steps: &[Step], watchers: Watchers) -> Result<(), String> {
    let setup = Setup { watchers, ..Setup::large(Grade::Generation, false) };
    happen_and_finish(&mut Play::new(&setup), steps)
}

/// The same above a cache, of which the rules are told or not; only the judge watches.
pub fn retold_cached(steps: &[Step], is_told: bool) -> Result<(), String> {
    happen_and_finish(&mut Play::new(&setup_cached(3, is_told, Watchers::Product)), steps)
}
