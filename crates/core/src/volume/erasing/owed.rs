//! The erase task that destroys what is owed by place.

use crate::base::units::{Addr, BLOCK_BYTES, Extent};
use crate::erase::{Destroy, Method, Priority, RUNS_MAX, Zeros};
use crate::media::MediumId;
use crate::media::place::Place;
use crate::owed::OwedContent;
use crate::owed::ledger::Cause;
use crate::store::Residue;
use crate::volume::disk::Disk;
use crate::volume::disk::site::Site;
use crate::volume::erasing::Erasing;
use crate::volume::erasing::task::{EraseTask, Kind, Placed};

/// Most places to look at in search of one that is ready.
const LOOKS_MAX: usize = 64;

/// These deaths by address, neighbours of one cause as one: what is destroyed at once needs no receipt for each block.
fn joined(mut died: Vec<(Extent<Addr>, Cause)>) -> Vec<(Extent<Addr>, Cause)> {
    let bytes = died.iter().map(|(run, _)| run.len).sum::<u64>();
    died.sort_by_key(|(run, _)| run.start);
    let mut joined: Vec<(Extent<Addr>, Cause)> = Vec::new();
    for (run, cause) in died {
        match joined.last_mut() {
            Some((last, its)) if last.end() == run.start.0 && *its == cause => last.len += run.len,
            _ => joined.push((run, cause)),
        }
    }
    assert!(
        joined.iter().map(|(run, _)| run.len).sum::<u64>() == bytes,
        "each death has its bytes in a receipt"
    );
    joined
}

impl Erasing {
    /// The erase task that destroys what is owed by place, if some is ready. `is_busy`: a request writes to these addresses.
    pub(in crate::volume) fn destroy_owed(
        &self,
        disk: &Disk,
        is_busy: impl Fn(Extent<Addr>) -> bool,
    ) -> Option<EraseTask> {
        if disk.leaves_older() {
            return Self::destroy_older(disk, is_busy);
        }
        let mapped = disk.store.mapped()?;
        let owed = || disk.state.owed.iter();
        let is_ready = |place: Place| !disk.commits.undurable.has(place);
        if !owed().take(LOOKS_MAX).any(|(place, _)| is_ready(place)) {
            return None;
        }
        let run_bytes = disk.limits().run_bytes_max.next_multiple_of(BLOCK_BYTES);
        let ready = owed().take(RUNS_MAX).filter(|(place, _)| is_ready(*place));
        let residue = ready.flat_map(|(place, content)| {
            let pieces = place.extent.pieces(run_bytes).map(move |extent| Place { extent, ..place });
            let residue = pieces.flat_map(|piece| mapped.residue(piece));
            residue.map(move |it| (content, it))
        });
        let residue = residue.filter(|(_, it)| !disk.remaining.has_any(&it.at));
        let mut residue = residue.take(RUNS_MAX).peekable();
        // A version that is kept has a receipt of its own, and so has what is plain.
        let what = |(content, it): &(&OwedContent, Residue)| match (it.is_kept, content.is_plain) {
            (true, _) => Placed::Kept,
            (false, true) => Placed::Plain,
            (false, false) => Placed::Content,
        };
        let first = residue.peek().map_or(Placed::Content, what);
        let alike = residue.filter(|it| what(it) == first);
        let (mut places, mut addresses, mut sites) = (Vec::new(), Vec::new(), Vec::new());
        for (content, it) in disk.limits().batch(alike, |(_, it)| it.part.extent.len) {
            places.push(it.part);
            addresses.push((content.address(it.part.extent), content.cause));
            sites.extend(it.at);
        }
        assert!(places.len() <= RUNS_MAX, "a task has a limit of places");
        // Several parts may be destroyed at one place.
        sites.dedup();
        let zeros = match first {
            Placed::Plain if disk.punches() => {
                let at: Vec<_> = sites.iter().map(|place: &Place| place.extent).collect();
                Zeros::Holes(Site::data(disk.limits().holes(&at)))
            }
            Placed::Plain => Zeros::Always,
            _ => Zeros::AfterPasses,
        };
        let (runs, causes) = joined(disk.once_each(&places, &addresses)).into_iter().unzip();
        let method = Destroy {
            at_once: disk.limits().at_once(sites.iter().map(|place| place.extent)),
            medium: Site::medium_of(&sites),
            residue: sites.into_iter().map(Site::Place).collect(),
            zeros,
            forget: Vec::new(),
            checkpoint: true,
            record: true,
        };
        let kind = Kind::DestroyOwed { places, causes, what: first };
        Some(disk.erase_task(kind, runs, Method::Destroy(method), Priority::Due))
            .filter(|task| !task.runs.is_empty())
    }

    /// The erase task that destroys older versions that are owed, if some can be now. `is_busy`: a request writes to these addresses.
    fn destroy_older(disk: &Disk, is_busy: impl Fn(Extent<Addr>) -> bool) -> Option<EraseTask> {
        let pieces = disk.state.owed.iter().take(RUNS_MAX).flat_map(|(place, content)| {
            let pieces = place.extent.pieces(disk.limits().run_bytes_max.next_multiple_of(BLOCK_BYTES));
            pieces.map(move |extent| (Place { extent, ..place }, content))
        });
        let ready = pieces.filter(|(place, content)| {
            let is_free = !disk.commits.undurable.has(*place) && !disk.remaining.has_any(&[*place]);
            is_free && !is_busy(content.address(place.extent))
        });
        let ready = disk.limits().batch(ready, |(place, _)| place.extent.len);
        let with_address =
            ready.map(|(place, content)| (place, (content.address(place.extent), content.cause)));
        let (places, addresses): (Vec<_>, Vec<_>) = with_address.unzip();
        let residue = places.iter().copied().map(Site::Place).collect();
        Self::complete_owed(disk, (places, addresses), residue, Placed::Older)
    }

    /// The erase task that destroys `residue`, and completes what is owed at these places, each with the address that named it. No map knows of
    /// the places.
    pub(in crate::volume) fn complete_owed(
        disk: &Disk,
        (places, addresses): (Vec<Place>, Vec<(Extent<Addr>, Cause)>),
        residue: Vec<Site>,
        what: Placed,
    ) -> Option<EraseTask> {
        let (runs, causes): (Vec<_>, Vec<_>) = disk.once_each(&places, &addresses).into_iter().unzip();
        let method = Method::Destroy(Destroy {
            residue,
            at_once: 1,
            zeros: Zeros::AfterPasses,
            medium: Site::all_of(MediumId::Data),
            forget: Vec::new(),
            checkpoint: false,
            record: true,
        });
        let kind = Kind::DestroyOwed { places, causes, what };
        let is_any = !runs.is_empty();
        is_any.then(|| disk.erase_task(kind, runs, method, Priority::Due))
    }
}
