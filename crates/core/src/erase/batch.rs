//! How much work shares the syncs of one task, and in which pieces.

use crate::base::extents::ExtentMap;
use crate::base::units::{Address, Extent};

/// Most sites in one task.
pub const RUNS_MAX: usize = 4096;
/// Bytes of short runs that one write of a pass covers: each write is an event, and short ones may come by
/// the thousand.
const FILL_BYTES: u64 = 64 << 10;
/// Longest hole that is made at once: a host file system keeps others out of the file meanwhile.
const HOLE_BYTES_MAX: u64 = 2 << 20;

/// Limits of one task.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Limits {
    /// Longest single write; bounds the wait of a request behind it.
    pub run_bytes_max: u64,
    /// Most bytes that share syncs. A task takes another site while it has fewer: so it can exceed
    /// the limit by one run, and never is empty.
    pub batch_bytes_max: u64,
    /// Each site is overwritten, or becomes a hole, on its own.
    pub one_by_one: bool,
}

impl Limits {
    /// The first items of `all` that fit into one task, where `bytes` is the length of an item.
    pub fn batch<T>(
        self,
        all: impl Iterator<Item = T>,
        bytes: impl Fn(&T) -> u64,
    ) -> impl Iterator<Item = T> {
        let mut left = self.batch_bytes_max;
        all.take(RUNS_MAX).take_while(move |it| {
            let fits = left > 0;
            left = left.saturating_sub(bytes(it));
            fits
        })
    }

    /// How many of `runs` one write of a pass covers.
    pub fn at_once<A: Address>(self, runs: impl Iterator<Item = Extent<A>>) -> usize {
        if self.one_by_one {
            return 1;
        }
        let longest = runs.map(|run| run.len).max().unwrap_or(FILL_BYTES);
        let at_once = FILL_BYTES.min(self.run_bytes_max) / longest.max(1);
        usize::try_from(at_once).unwrap_or(usize::MAX).max(1)
    }

    /// The first part of `extents` that fits into one task, cut into runs.
    #[must_use]
    pub fn runs<A: Address>(self, extents: impl Iterator<Item = Extent<A>>) -> Vec<Extent<A>> {
        let all = extents.flat_map(|extent| windows(extent, self.run_bytes_max));
        let runs: Vec<_> = self.batch(all, |run| run.len).collect();
        assert!(
            runs.iter().all(|run| run.len <= self.run_bytes_max),
            "a request waits behind one run at most"
        );
        assert!(runs.len() <= RUNS_MAX, "a task has a limit of sites");
        runs
    }

    /// The bytes of `runs` as holes to be made one after the other: neighbours as one, and none too long.
    #[must_use]
    pub fn holes<A: Address>(self, runs: &[Extent<A>]) -> Vec<Extent<A>> {
        if self.one_by_one { runs.to_vec() } else { holes(runs) }
    }
}

/// `extent`, cut wherever a multiple of `bytes` lies in it: a medium may be
/// able to overwrite a whole window faster than any other place as long.
pub fn windows<A: Address>(extent: Extent<A>, bytes: u64) -> impl Iterator<Item = Extent<A>> {
    let start = extent.start.get();
    let head = extent.len.min(start.next_multiple_of(bytes) - start);
    let first = Extent::new(start, head);
    let rest = Extent::<A>::between(first.end(), extent.end());
    Some(first).filter(|first| !first.is_empty()).into_iter().chain(rest.pieces(bytes))
}

/// See [`Limits::holes`].
#[must_use]
pub fn holes<A: Address>(runs: &[Extent<A>]) -> Vec<Extent<A>> {
    let mut area = ExtentMap::default();
    runs.iter().for_each(|run| area.insert(*run, ()));
    let holes: Vec<_> = area.iter().flat_map(|(span, ())| windows(span, HOLE_BYTES_MAX)).collect();
    assert!(
        holes.iter().map(|hole| hole.len).sum::<u64>() == area.bytes(),
        "holes are made of the runs alone"
    );
    assert!(holes.iter().all(|hole| hole.len <= HOLE_BYTES_MAX), "a host is kept busy for a short time");
    holes
}
