//! The pairs of guest and store: the histories that a run plays.

use crate::guests::files;
use crate::guests::files::FileSystem::{ExFat, Ext2, Ext4, Ext4Reserving, Ext4Unjournaled, Fat};
use crate::guests::files::{FileSystem, Files};
use crate::guests::world::verdict;
use crate::machine::history;
use crate::machine::history::History;
use crate::machine::rng::Rng;
use crate::rules::rule_e::search::{Part, taken};
use crate::run::shrink::shrink;
use crate::server::Figures;
use quietus_core::store::overlay::Mode;
use std::fmt;

/// Place of the disk's content.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Store {
    /// The place where the guest put it.
    InPlace,
    /// Slots above a base.
    Overlay,
    /// Either, as the seed decides.
    Any,
    /// Sealed slots, with epochs that are kept.
    Versions,
    /// In place or an overlay, on media of which some places will not be erased.
    Stubborn,
    /// Slots that are written once and erased in units, on such media.
    Spent,
    /// In place or an overlay, on a medium that leaves what is written over elsewhere until it erases that.
    Erasing,
    /// Sealed, on such a medium.
    SealedErasing,
    /// Versions, on such a medium.
    VersionsErasing,
    /// In place, under keys that content dies with, on media that may be busy, or will not erase some places.
    Sealed,
}

/// Sender of the requests.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Guest {
    /// Bare requests of any kind, without a file system, and media that fail.
    Bare,
    /// File systems, in a partition each if there are several. Their clients come and go, and ask for
    /// what is refused.
    Files(&'static [FileSystem]),
    /// A file system above a cache, which merges writes and sends them in any order.
    Cached(FileSystem),
}

/// A guest above a store.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Pair {
    /// The guest.
    pub guest: Guest,
    /// The store.
    pub store: Store,
    /// Histories of `make check`; `make test` plays a tenth.
    pub histories: u64,
}

/// All pairs.
pub const PAIRS: [Pair; 43] = [
    Pair { guest: Guest::Bare, store: Store::Any, histories: 10_000 },
    files(&[Ext2], Store::InPlace, 3_000),
    files(&[Ext2], Store::Overlay, 3_000),
    files(&[Ext2, Ext2], Store::InPlace, 1_000),
    files(&[Ext2, Ext2], Store::Overlay, 1_000),
    files(&[Fat], Store::InPlace, 2_000),
    files(&[Fat], Store::Overlay, 2_000),
    files(&[Ext4], Store::InPlace, 2_000),
    files(&[Ext4], Store::Overlay, 2_000),
    files(&[Ext4, Fat, Ext2], Store::InPlace, 1_000),
    files(&[Ext4, Fat, Ext2], Store::Overlay, 1_000),
    Pair { guest: Guest::Bare, store: Store::Versions, histories: 10_000 },
    Pair { guest: Guest::Cached(Ext2), store: Store::InPlace, histories: 3_000 },
    Pair { guest: Guest::Cached(Ext2), store: Store::Overlay, histories: 1_000 },
    Pair { guest: Guest::Cached(Fat), store: Store::InPlace, histories: 1_000 },
    files(&[ExFat], Store::InPlace, 1_000),
    files(&[ExFat], Store::Overlay, 1_000),
    files(&[Ext4Unjournaled], Store::InPlace, 3_000),
    files(&[Ext4Unjournaled], Store::Overlay, 2_000),
    files(&[Ext4Reserving], Store::InPlace, 3_000),
    files(&[Ext4Reserving], Store::Overlay, 2_000),
    Pair { guest: Guest::Bare, store: Store::Stubborn, histories: 4_000 },
    Pair { guest: Guest::Bare, store: Store::Spent, histories: 5_000 },
    Pair { guest: Guest::Bare, store: Store::Sealed, histories: 1_500 },
    files(&[Ext2], Store::Sealed, 300),
    files(&[Ext2, Ext2], Store::Sealed, 200),
    files(&[Fat], Store::Sealed, 200),
    files(&[Ext4], Store::Sealed, 200),
    files(&[Ext4, Fat, Ext2], Store::Sealed, 100),
    Pair { guest: Guest::Cached(Ext2), store: Store::Sealed, histories: 200 },
    Pair { guest: Guest::Cached(Fat), store: Store::Sealed, histories: 100 },
    files(&[ExFat], Store::Sealed, 100),
    files(&[Ext4Unjournaled], Store::Sealed, 200),
    files(&[Ext4Reserving], Store::Sealed, 200),
    Pair { guest: Guest::Bare, store: Store::Erasing, histories: 5_000 },
    files(&[Ext2], Store::Erasing, 1_000),
    files(&[Fat], Store::Erasing, 500),
    files(&[Ext4], Store::Erasing, 500),
    files(&[Ext4, Fat, Ext2], Store::Erasing, 300),
    Pair { guest: Guest::Cached(Ext2), store: Store::Erasing, histories: 500 },
    Pair { guest: Guest::Bare, store: Store::SealedErasing, histories: 500 },
    files(&[Ext4], Store::SealedErasing, 100),
    Pair { guest: Guest::Bare, store: Store::VersionsErasing, histories: 2_000 },
];

const fn files(parts: &'static [FileSystem], store: Store, histories: u64) -> Pair {
    Pair { guest: Guest::Files(parts), store, histories }
}

impl fmt::Display for Pair {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let guest = match self.guest {
            Guest::Bare => "bare requests".into(),
            Guest::Cached(part) => format!("{part} above a cache"),
            Guest::Files(parts) => parts.iter().map(ToString::to_string).collect::<Vec<_>>().join(" + "),
        };
        let store = match self.store {
            Store::InPlace => "in place",
            Store::Overlay => "overlay",
            Store::Any => "in place or overlay",
            Store::Versions => "versions",
            Store::Stubborn => "in place or overlay, places that remain",
            Store::Spent => "slots that are written once, places that remain",
            Store::Sealed => "sealed",
            Store::Erasing => "in place or overlay, on a medium that erases",
            Store::SealedErasing => "sealed, on a medium that erases",
            Store::VersionsErasing => "versions, on a medium that erases",
        };
        write!(f, "{guest}, {store}")
    }
}

impl Pair {
    /// Plays the history of `seed`; cut down if it fails.
    pub fn played(&self, seed: u64) -> (Part, Figures) {
        match self.guest {
            Guest::Bare => bare(&self.to_string(), self.history(seed)),
            Guest::Files(parts) => self.lived(seed, parts, None, false),
            Guest::Cached(part) => self.lived(seed, &[part], Some(true), false),
        }
    }

    /// Plays the history of `seed`, without shrinking it: the seed is enough where a known defect is looked for.
    pub fn judged(&self, seed: u64) -> (Part, Figures) {
        if self.guest != Guest::Bare {
            return self.played(seed);
        }
        let failure = verdict(&self.history(seed)).err().map(|broken| (String::new(), broken.to_string()));
        (Part::of(format!("{self}, seed {seed}"), 0, failure), Figures::default())
    }

    /// Plays the history of `seed` with a cache of which the server knows nothing.
    pub fn untold(&self, seed: u64) -> Part {
        let Guest::Cached(part) = self.guest else { return self.played(seed).0 };
        self.lived(seed, &[part], Some(false), false).0
    }

    /// Plays the history of `seed` with a watcher that is kept out at times, and begins anew.
    pub fn renewed(&self, seed: u64) -> Part {
        let Guest::Files(parts) = self.guest else { return self.played(seed).0 };
        self.lived(seed, parts, None, true).0
    }

    fn lived(&self, seed: u64, parts: &[FileSystem], cache: Option<bool>, renews: bool) -> (Part, Figures) {
        let setup = files::Setup { cache, renews, ..files::Setup::from_seed(seed, self.disk(seed), parts) };
        let mut figures = Figures::default();
        let name = format!("{self}, {setup:?}");
        let part = taken(&name, seed, || Files::new(&setup), |it| figures = it.server.figures);
        (part, figures)
    }

    /// The history of bare requests of `seed`.
    pub fn history(&self, seed: u64) -> History {
        match self.store {
            Store::Versions => History::of_versions(seed),
            Store::Stubborn | Store::Spent => History::of_stubborn(seed, self.store == Store::Spent),
            Store::Sealed => History::of_sealed(seed),
            Store::Erasing => History::of_erasing(seed),
            Store::SealedErasing => History::of_sealed_erasing(seed),
            Store::VersionsErasing => History::of_versions_erasing(seed),
            Store::InPlace | Store::Overlay | Store::Any => History::from_seed(seed),
        }
    }

    /// The disk of `seed` below a file system.
    fn disk(&self, seed: u64) -> history::Setup {
        let disk = history::Setup::roll(&mut Rng::new(seed));
        let mut rng = Rng::new(!seed);
        let mode = rng.pick(&[Mode::Packed, Mode::Lazy, Mode::Punch]);
        let erases = matches!(self.store, Store::Erasing | Store::SealedErasing);
        history::Setup {
            policy: if rng.chance(20) { "random,ff" } else { disk.policy },
            origin: history::Origin::Adopted,
            tells_holes: true,
            store: match self.store {
                Store::Overlay => history::Store::Overlay(mode),
                Store::Erasing if rng.chance(30) => history::Store::Overlay(mode),
                Store::Sealed | Store::SealedErasing => history::Store::Sealed,
                _ => history::Store::InPlace,
            },
            erases,
            punch: disk.punch || erases,
            ..disk
        }
    }
}

fn bare(name: &str, history: History) -> (Part, Figures) {
    let (seed, steps) = (history.seed, history.steps.len());
    let (failure, figures) = match verdict(&history) {
        Ok(figures) => (None, figures),
        Err(violation) => {
            let short = shrink(&history, violation.oracle);
            let broken = verdict(&short).err().unwrap_or(violation);
            (Some((format!("{short}\n"), broken.to_string())), Figures::default())
        }
    };
    (Part::of(format!("{name}, seed {seed}"), steps, failure), figures)
}
