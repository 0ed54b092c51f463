//! Bytes with nothing below their present content, where a conservative overwrite would destroy nothing.
//!
//! Invariants:
//! 1. After `Bare` bytes were destroyed, only the content was put there that is about to be written there
//!    once more.
//! 2. `Single` bytes were written once since they had no data, or were `Bare`.
//! 3. Nothing is known of other bytes: anything may lie below them. A crash, a stop, and a table that is
//!    full forget what was known.

use crate::base::extents::{ExtentMap, Value};
use crate::base::units::{Addr, Extent};
use crate::owed::ledger::{Cause, Due};
use crate::volume::Command;
use crate::volume::disk::Disk;
use crate::volume::erasing::Erasing;

/// Most runs of the disk that are remembered.
const PARTS_MAX: usize = 1 << 16;

/// Knowledge of some bytes.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Layer {
    /// The content there is about to be written there once more.
    Bare,
    /// Nothing lies below the present content.
    Single,
}

impl Value for Layer {
    fn merged(&self, next: &Self) -> Option<Self> {
        (self == next).then_some(*self)
    }
}

/// See the module's documentation.
#[derive(Debug, Default)]
pub(in crate::volume) struct Layers(ExtentMap<Addr, Layer>);

impl Layers {
    /// The first part of `extent` that is `Single` all through, or nowhere; and which of the two.
    fn first(&self, extent: Extent<Addr>) -> (Extent<Addr>, bool) {
        let mut singles = self.0.within(extent).filter(|(_, it)| **it == Layer::Single);
        match singles.next() {
            Some((single, _)) if single.start == extent.start => (single, true),
            single => {
                let end = single.map_or(extent.end(), |(single, _)| single.start.0);
                (Extent::between(extent.start.0, end), false)
            }
        }
    }

    /// Forgets what is known of `run`.
    pub(in crate::volume) fn forget(&mut self, run: Extent<Addr>) {
        self.0.remove(run);
        if self.0.len() > PARTS_MAX {
            // A long run can be cut into any number of short ones.
            self.0 = ExtentMap::default();
        }
    }

    /// Notes that everything below `run` was destroyed. The content there was put back and is `suspicious`,
    /// or is about to be written once more.
    pub(in crate::volume) fn rewritten(&mut self, run: Extent<Addr>, suspicious: bool) {
        self.forget(run);
        if !suspicious && self.0.len() >= PARTS_MAX {
            // What is bare has to be known: a write waits for that.
            self.0 = ExtentMap::default();
        }
        self.note(run, if suspicious { Layer::Single } else { Layer::Bare });
    }

    fn note(&mut self, extent: Extent<Addr>, layer: Layer) {
        if self.0.len() < PARTS_MAX {
            self.0.insert(extent, layer);
        }
        assert!(self.0.len() <= PARTS_MAX, "a table that is full takes no more");
    }
}

impl Disk {
    /// The parts of `extent` without data.
    pub(in crate::volume) fn parts_without_data(&self, extent: Extent<Addr>) -> Vec<Extent<Addr>> {
        extent.without(self.data_runs(extent))
    }
}

impl Erasing {
    /// Notes that `extent` is about to be written, before the store allocates it.
    pub(in crate::volume) fn cover(&mut self, disk: &Disk, extent: Extent<Addr>) {
        if !disk.has_layers() {
            return self.layers.forget(extent);
        }
        let mut lone = disk.parts_without_data(extent);
        let bare = self.layers.0.within(extent).filter(|(_, it)| **it == Layer::Bare);
        lone.extend(bare.map(|(part, _)| part));
        self.layers.forget(extent);
        lone.into_iter().for_each(|part| self.layers.note(part, Layer::Single));
    }

    /// The parts of `extent` with live content that a write is not to replace under the key that it has.
    pub(in crate::volume) fn kept_from_overwriting(
        &self,
        disk: &Disk,
        extent: Extent<Addr>,
    ) -> Vec<Extent<Addr>> {
        if !disk.config.overwrites_kill || !disk.dies_by_key() {
            return Vec::new();
        }
        let bare = self.layers.0.within(extent).filter(|(_, it)| **it == Layer::Bare).map(|(part, _)| part);
        let alive = disk.data_runs(extent).flat_map(|run| disk.state.ledger.dead().gaps(run));
        let bare: Vec<_> = bare.collect();
        alive.flat_map(|run| run.without(bare.iter().filter_map(|it| it.overlap(run)))).collect()
    }

    /// Gives the first part of `extent` its obligation: its content, or what lies below, may be dead.
    /// Returns the rest of `extent`.
    pub(in crate::volume) fn oblige_below(
        &mut self,
        disk: &mut Disk,
        extent: Extent<Addr>,
        out: &mut Vec<Command>,
    ) -> Option<Extent<Addr>> {
        let (part, is_single) = self.layers.first(extent);
        let rest = if is_single {
            disk.suspect_first(part, out)
        } else {
            self.oblige_first(disk, part, Due::ConservativeOverwrite, Cause::Generation, out)
        };
        let done = rest.map_or(part.end(), |rest| rest.start.0);
        assert!(extent.start.0 < done && done <= extent.end(), "each step gives some of it an obligation");
        (done < extent.end()).then(|| Extent::between(done, extent.end()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_run_that_is_cut_into_too_many_is_forgotten() {
        let (mut layers, cuts) = (Layers::default(), PARTS_MAX as u64 + 1);
        layers.note(Extent::new(0, 2 * cuts), Layer::Single);
        for n in 0..cuts {
            layers.forget(Extent::new(2 * n + 1, 1));
            assert!(layers.0.len() <= PARTS_MAX, "after {n}");
        }
    }
}
