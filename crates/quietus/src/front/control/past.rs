//! The answers to calls about states of the past.

use super::refused::Refused;
use crate::disk::Step;
use crate::engine::export::{Export, carry_out};
use crate::epochs::{At, differences};
use crate::open_disk::OpenDisk;
use quietus_core::base::units::{Addr, Epoch, Extent};
use quietus_core::request::{AsOf, Op, Request};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use std::fs::File;
use std::os::unix::fs::FileExt;

/// Most ranges in one answer.
const RANGES_MAX: usize = 100_000;
/// Most bytes of one read.
const READ_BYTES_MAX: u64 = 64 << 20;

/// The answer to [`Call::Read`](super::Call::Read).
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize, JsonSchema)]
pub struct RangesRead {
    /// The number of the epoch; `None` for the current state.
    pub epoch: Option<u64>,
    /// Size of the disk in bytes.
    pub size_bytes: u64,
    /// Bytes that the file has got.
    pub bytes: u64,
}

/// The answer to [`Call::Diff`](super::Call::Diff).
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize, JsonSchema)]
pub struct Diff {
    /// The number of the epoch.
    pub from: u64,
    /// The number of the other epoch; `None` for the current state.
    pub to: Option<u64>,
    /// The first byte of each range that differs, and its length.
    pub ranges: Vec<Extent<Addr>>,
    /// Bytes in these ranges.
    pub differing_bytes: u64,
    /// Where to go on: more ranges may follow; `None` after the last ones.
    pub next: Option<u64>,
}

impl Diff {
    /// Adds a range behind the others.
    fn add(&mut self, run: Extent<Addr>) {
        self.differing_bytes += run.len;
        match self.ranges.last_mut() {
            Some(last) if last.end() == run.start.0 => last.len += run.len,
            _ => self.ranges.push(run),
        }
    }
}

impl OpenDisk {
    /// Reads `ranges` of the epoch that people call `at`, or of the current state, into `file`.
    pub(super) fn read_into(
        &self,
        at: Option<&str>,
        ranges: &[(u64, u64)],
        file: Option<&File>,
    ) -> Result<RangesRead, Refused> {
        // A read refuses epochs that are forgotten.
        let find = |at| if ranges.is_empty() { self.epoch_at(at) } else { self.epoch_meant(at) };
        let epoch = at.map(find).transpose()?;
        let mut bytes = 0;
        for range in ranges {
            let extent = self.within(*range)?;
            let file = file.ok_or("no file came with the call `read`; send a descriptor of a file")?;
            if bytes + extent.len > READ_BYTES_MAX {
                return Err(format!("a read has {READ_BYTES_MAX} bytes at most").into());
            }
            let op = epoch.map_or(Op::Copy, Op::ReadPast);
            let content = carry_out(&*self.engine, Request { op, extent, fua: false })?;
            let written = file.write_all_at(&content, bytes);
            written.map_err(|error| format!("cannot write to the file that came with the call: {error}"))?;
            bytes += extent.len;
        }
        Ok(RangesRead { epoch: epoch.map(|it| it.0), size_bytes: self.engine.size(), bytes })
    }

    /// The number of the epoch that people call `at`.
    pub(super) fn epoch_at(&self, at: &str) -> Result<Epoch, Refused> {
        Ok(at.parse::<At>()?.find(&self.engine, &self.names)?)
    }

    /// The number of the epoch that people call `at`, which may be forgotten.
    pub(super) fn epoch_meant(&self, at: &str) -> Result<Epoch, Refused> {
        Ok(at.parse::<At>()?.meant(&self.engine, &self.names)?)
    }

    pub(super) fn diff(
        &self,
        from: &str,
        to: Option<&str>,
        (start, ranges): (u64, &[(u64, u64)]),
        step: Step<'_>,
    ) -> Result<Diff, Refused> {
        // A comparison refuses epochs that are forgotten.
        let (from, to) = (self.epoch_meant(from)?, to.map(|at| self.epoch_meant(at)).transpose()?);
        let states = [AsOf::End(from), to.map_or(AsOf::Now, AsOf::End)];
        let size = self.engine.size();
        let extents = match ranges {
            [] => vec![Extent::new(0, size)],
            ranges => self.in_order(ranges)?,
        };
        let end = extents.last().map_or(0, |last| last.end());
        let rest = extents.iter().filter_map(|it| it.overlap(Extent::between(start.min(end), end)));
        let (from, to) = (from.0, to.map(|to| to.0));
        let mut diff = Diff { from, to, ranges: Vec::new(), differing_bytes: 0, next: None };
        for part in rest.flat_map(|it| differences(&self.engine, it, states)) {
            let part = part?;
            part.differing.iter().for_each(|run| diff.add(*run));
            if diff.ranges.len() >= RANGES_MAX {
                diff.next = Some(part.end).filter(|next| *next < end);
                break;
            }
            if !step(part.end, size) {
                return Err(Refused::Interrupted);
            }
        }
        Ok(diff)
    }

    /// Ranges that lie within the disk, each behind the one before.
    fn in_order(&self, ranges: &[(u64, u64)]) -> Result<Vec<Extent<Addr>>, Refused> {
        let extents: Vec<_> = ranges.iter().map(|range| self.within(*range)).collect::<Result<_, _>>()?;
        match extents.windows(2).find(|pair| pair[0].end() > pair[1].start.0) {
            Some(pair) => {
                Err(format!("range at {} lies before the end of the one before it", pair[1].start.0).into())
            }
            None => Ok(extents),
        }
    }
}
