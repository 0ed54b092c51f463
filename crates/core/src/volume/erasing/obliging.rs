//! How dead bytes get their obligation, each part its own.

use crate::base::units::{Addr, Extent};
use crate::mutant::{self, Mutant};
use crate::owed::journal::Change;
use crate::owed::ledger::{Cause, Due, Obligation};
use crate::store::Content;
use crate::volume::Command;
use crate::volume::disk::Disk;
use crate::volume::erasing::Erasing;

impl Erasing {
    /// The parts of `extent`, which is about to get the obligation `due`, each with its own. Where sensitive bytes are
    /// owed in a block, or come, the plain ones that are owed in the rest of that block become sensitive.
    pub(in crate::volume) fn by_block(
        &mut self,
        disk: &mut Disk,
        extent: Extent<Addr>,
        due: Due,
    ) -> Vec<(Extent<Addr>, Due)> {
        let (mut parts, mut from) = (Vec::new(), extent.start.0);
        let due = if due.is_plain() && disk.cuts_sector(extent) {
            due.and(Due::Shred { no_hole: due.keeps_space() })
        } else {
            due
        };
        let edges = disk.store.geometry().edges(extent).filter(|_| due.is_dead()).collect::<Vec<_>>();
        for edge in edges {
            let owed: Vec<(Extent<Addr>, Obligation)> =
                disk.state.ledger.within(edge).map(|(part, it)| (part, *it)).collect();
            let Some(own) = edge.overlap(extent) else { continue };
            if !due.is_plain() {
                for (part, it) in owed.into_iter().filter(|(_, it)| it.due.is_plain()) {
                    for part in self.not_being_freed(part) {
                        disk.change(Change::Oblige(part, it.due.and(due), it.cause));
                    }
                }
            } else if owed.iter().any(|(_, it)| !it.due.is_plain()) {
                parts.push((Extent::between(from, own.start.0), due));
                parts.push((own, Due::Shred { no_hole: due.keeps_space() }));
                from = own.end();
            }
        }
        parts.push((Extent::between(from, extent.end()), due));
        parts.retain(|(part, _)| !part.is_empty());
        let bytes = parts.iter().map(|(part, _)| part.len).sum::<u64>();
        assert!(bytes == extent.len, "each byte that dies gets one obligation");
        parts
    }

    /// Gives the first run of data within `extent` its obligation; returns the rest of `extent`.
    pub(in crate::volume) fn oblige_first(
        &mut self,
        disk: &mut Disk,
        extent: Extent<Addr>,
        due: Due,
        cause: Cause,
        out: &mut Vec<Command>,
    ) -> Option<Extent<Addr>> {
        let first = disk.store.first(
            if due == Due::ConservativeOverwrite { Content::Own } else { Content::Discardable },
            extent,
        );
        let Some(run) = first else {
            disk.state.counters.freed_unwritten_bytes += extent.len;
            return None;
        };
        assert!(
            extent.start <= run.start && run.end() <= extent.end(),
            "a store finds what it was asked for"
        );
        disk.state.counters.freed_unwritten_bytes += run.start.0 - extent.start.0;
        let (run, due) = disk.above_overwritten(run, due);
        // Bytes without a place of their own have nothing below them, and die by whole blocks.
        let has_place = disk.store.first(Content::Own, run).is_some();
        let first = {
            let ledger = &disk.state.ledger;
            // Bytes that were written over can die again. Nothing else takes their obligation away.
            let owed = ledger.within(run).find(|(_, it)| has_place || it.is_dead());
            let overwritten =
                ledger.overwritten_within(run).next().filter(|_| due == Due::ConservativeOverwrite);
            let first = owed.into_iter().chain(overwritten).min_by_key(|(found, _)| found.start);
            first.map(|(found, it)| (found, *it))
        };
        let end = match first {
            Some((found, it)) if found.start == run.start => {
                let forgets = due.is_plain() && mutant::is(Mutant::ForgetSensitive);
                let both = if forgets { due } else { it.due.and(due) };
                if it.due == both {
                    disk.state.counters.freed_again_bytes += found.len;
                } else {
                    for part in self.not_being_freed(found) {
                        self.oblige(disk, part, both, cause, out);
                    }
                }
                found.end()
            }
            found => {
                let end = found.map_or(run.end(), |(found, _)| found.start.0);
                self.oblige(disk, Extent::between(run.start.0, end), due, cause, out);
                end
            }
        };
        assert!(run.start.0 < end && end <= extent.end(), "each step gives some bytes their obligation");
        (end < extent.end()).then(|| Extent::between(end, extent.end()))
    }

    fn oblige(
        &mut self,
        disk: &mut Disk,
        extent: Extent<Addr>,
        due: Due,
        cause: Cause,
        out: &mut Vec<Command>,
    ) {
        assert!(!extent.is_empty(), "what dies has bytes");
        disk.state.counters.died(cause, extent.len);
        disk.commits.undurable.note(extent);
        for (part, due) in self.by_block(disk, extent, due) {
            out.push(Command::Died(cause, part, due.class()));
            disk.change(Change::Oblige(part, due, cause));
        }
        if disk.dies_by_key() {
            let edges = disk.store.geometry().edges(extent);
            let along: Vec<_> = edges.flat_map(|edge| disk.dies_with(edge)).collect();
            for gap in along {
                disk.commits.undurable.note(gap);
                disk.change(Change::Oblige(gap, Due::Shred { no_hole: false }, cause));
            }
        }
    }
}
