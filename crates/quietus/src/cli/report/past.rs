//! Reports about states of the past.

use super::{Report, bytes};
use crate::front::control::{Diff, Restored};
use std::fmt::Write;

impl Report {
    /// Lists ranges that differ; after the last, the `total` number of ranges and their bytes.
    pub(crate) fn differing(&self, diff: &Diff, total: (usize, u64)) {
        self.say(diff, |out| {
            for range in &diff.ranges {
                writeln!(out, "{:>16} {:>16}", range.start.0, range.len)?;
            }
            if diff.next.is_some() {
                return Ok(());
            }
            let to = diff.to.map_or("the current state".into(), |to| format!("epoch {to}"));
            let (ranges, sum) = (total.0, bytes(total.1));
            match ranges {
                0 => write!(out, "epoch {} and {to} do not differ", diff.from),
                _ => write!(out, "epoch {} and {to} differ in {ranges} ranges: {sum}", diff.from),
            }
        });
    }

    /// Reports a restore.
    pub(crate) fn restored(&self, done: &Restored) {
        self.say(done, |out| {
            let (written, zeroed) = (bytes(done.written_bytes), bytes(done.zeroed_bytes));
            let (epoch, before) = (done.epoch, done.before);
            writeln!(out, "the current state is that of epoch {epoch}: wrote {written}, zeroed {zeroed}")?;
            write!(out, "the state before is kept as epoch {before}")
        });
    }
}
