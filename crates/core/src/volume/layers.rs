//! Where nothing lies below the present content: there a conservative overwrite
//! would destroy nothing.
//!
//! Invariants:
//! 1. Since `Bare` bytes were destroyed, all that was put there is what is about
//!    to be written there once more.
//! 2. Since `Single` bytes held nothing, or were `Bare`, they were written once.
//! 3. It is known of nothing else, and may be forgotten: by a crash, a stop, and
//!    where it is too much to remember. Then anything may lie there.

use super::{Command, Volume};
use crate::extents::{ExtentMap, Value};
use crate::ledger::{Cause, Due};
use crate::units::{Addr, Extent};

/// Most parts of the disk that this is remembered of.
const PARTS_MAX: usize = 1 << 16;

/// What is known of some bytes.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Layer {
    /// What lies there is about to be written there once more.
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
pub(super) struct Layers(ExtentMap<Addr, Layer>);

impl Layers {
    /// The first part of `extent` that has something below its content, or may
    /// have, or else has not; and which it is.
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

    /// What is known of `run` holds no more.
    pub(super) fn forget(&mut self, run: Extent<Addr>) {
        self.0.remove(run);
    }

    /// All below `run` was destroyed, and its content put back, which is `suspicious`; or else is about
    /// to be replaced.
    pub(super) fn rewritten(&mut self, run: Extent<Addr>, suspicious: bool) {
        self.forget(run);
        self.note(run, if suspicious { Layer::Single } else { Layer::Bare });
    }

    fn note(&mut self, extent: Extent<Addr>, layer: Layer) {
        if self.0.len() < PARTS_MAX {
            self.0.insert(extent, layer);
        }
    }
}

impl Volume {
    /// `extent` is about to be written; what holds nothing is not held yet.
    pub(super) fn cover(&mut self, extent: Extent<Addr>) {
        if !self.has_layers() {
            return self.erasing.layers.0.remove(extent);
        }
        let mut lone = self.void_parts(extent);
        let bare = self.erasing.layers.0.within(extent).filter(|(_, it)| **it == Layer::Bare);
        lone.extend(bare.map(|(part, _)| part));
        self.erasing.layers.0.remove(extent);
        lone.into_iter().for_each(|part| self.erasing.layers.note(part, Layer::Single));
    }

    /// The parts of `extent` that hold nothing.
    pub(super) fn void_parts(&self, extent: Extent<Addr>) -> Vec<Extent<Addr>> {
        let (mut from, mut parts) = (extent.start.0, Vec::new());
        for run in self.held_runs(extent) {
            parts.push(Extent::between(from, run.start.0));
            from = run.end();
        }
        parts.push(Extent::between(from, extent.end()));
        parts.retain(|part| !part.is_empty());
        parts
    }

    /// What lies below the first part of `extent` may be dead, and its content
    /// too. Returns what lies behind that part.
    pub(super) fn oblige_below(
        &mut self,
        extent: Extent<Addr>,
        out: &mut Vec<Command>,
    ) -> Option<Extent<Addr>> {
        let (part, is_single) = self.erasing.layers.first(extent);
        let rest = if is_single {
            self.suspect_first(part, out)
        } else {
            self.oblige_first(part, Due::Scour, Cause::Generation, out)
        };
        let done = rest.map_or(part.end(), |rest| rest.start.0);
        (done < extent.end()).then(|| Extent::between(done, extent.end()))
    }
}
