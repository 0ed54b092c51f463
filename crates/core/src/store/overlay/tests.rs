//! Cases that the simulator cannot say as plainly: the map, the slots, and what is
//! refused.

use super::*;
use crate::media::medium::{Capabilities, MediumError};
use crate::owed::Owed;
use crate::store::Kind;
use std::cell::RefCell;
use std::collections::BTreeSet;

const BLOCKS: u64 = 3000;
const SIZE: u64 = BLOCKS * BLOCK_BYTES - 1024;
const DISK: [u8; 16] = [4; 16];

/// A medium without a cache that grows.
#[derive(Default)]
struct Memory(RefCell<Vec<u8>>, RefCell<Vec<Extent<Pos>>>);

impl Memory {
    fn of(bytes: u64) -> Self {
        Self(RefCell::new(vec![0; bytes as usize]), RefCell::default())
    }

    fn put(&self, (places, bytes): &(Places, Vec<u8>)) {
        let mut data = bytes.clone().into();
        let put = |place: Place, part: &[u8]| self.write(place.extent.start, part, false);
        places.write::<MediumError>(&mut data, None, put).unwrap();
    }
}

impl Medium for Memory {
    fn size(&self) -> u64 {
        self.0.borrow().len() as u64
    }
    fn read(&self, pos: Pos, into: &mut [u8]) -> Result<(), MediumError> {
        into.copy_from_slice(&self.0.borrow()[pos.0 as usize..][..into.len()]);
        Ok(())
    }
    fn write(&self, pos: Pos, from: &[u8], _: bool) -> Result<(), MediumError> {
        let mut bytes = self.0.borrow_mut();
        let end = (pos.0 as usize + from.len()).max(bytes.len());
        bytes.resize(end, 0);
        bytes[pos.0 as usize..][..from.len()].copy_from_slice(from);
        Ok(())
    }
    fn sync(&self) -> Result<(), MediumError> {
        Ok(())
    }
    fn punch(&self, extent: Extent<Pos>) -> Result<(), MediumError> {
        self.1.borrow_mut().push(extent);
        self.zero(extent)
    }
    fn zero(&self, extent: Extent<Pos>) -> Result<(), MediumError> {
        self.write(extent.start, &vec![0; extent.len as usize], false)
    }
    fn capabilities(&self) -> Capabilities {
        Capabilities { punch: true, erases: false }
    }
}

fn blocks(first: u64, count: u64) -> Extent<Addr> {
    Extent::between(first * BLOCK_BYTES, ((first + count) * BLOCK_BYTES).min(SIZE))
}

/// An overlay and its map, above a base that holds data in its first ten blocks.
struct Bench {
    data: Memory,
    map: Memory,
    overlay: Overlay,
}

impl Bench {
    fn new() -> Self {
        let map = Memory::of(map_bytes(SIZE));
        format_map(&map, DISK, SIZE).unwrap();
        Self::open(Memory::default(), map).unwrap()
    }

    /// A bench whose `extent` was written durably.
    fn with(extent: Extent<Addr>) -> Self {
        let mut bench = Self::new();
        bench.write(extent);
        bench.checkpoint();
        bench
    }

    fn open(data: Memory, map: Memory) -> Result<Self, MapError> {
        let mut base_data = BlockSet::default();
        base_data.insert(blocks(0, 10));
        let setup = Setup { mode: Mode::Lazy, base_data: Arc::new(base_data) };
        let base = Memory::of(10 * BLOCK_BYTES - 512);
        let opening = Opening {
            kind: &Kind::Overlay(setup.clone()),
            disk: DISK,
            size: SIZE,
            kept: None,
            policy: &"zero".parse().expect("a policy"),
            read_only: false,
            memory_bytes: 64 << 20,
            keys: None,
            staged: &[],
            entropy: &mut [0; 32],
            owed: &mut Owed::default(),
        };
        let (overlay, _) = Overlay::open(&setup, opening, (&data, &map, &base))?;
        Ok(Self { data, map, overlay })
    }

    fn reopen(self) -> Result<Self, MapError> {
        Self::open(self.data, self.map)
    }

    /// Reads the map for `extent`.
    fn load(&mut self, extent: Extent<Addr>) {
        while let Some(place) = self.overlay.missing(extent) {
            let mut page = vec![0; place.extent.len as usize];
            self.map.read(place.extent.start, &mut page).unwrap();
            self.overlay.loaded(place, &page).expect("a page of the map is never damaged");
        }
    }

    fn write(&mut self, extent: Extent<Addr>) -> Places {
        self.load(extent);
        while let Some(place) = self.overlay.lacks_space(extent, false) {
            self.overlay.reserved(place);
        }
        let WritePlan::To(places) = self.overlay.begin_write(extent, Epoch(0)) else { panic!("no place") };
        places.iter().for_each(|it| {
            self.data.write(it.extent.start, &vec![7; it.extent.len as usize], false).unwrap()
        });
        self.overlay.end_write(extent, Written::There(Vec::new()));
        places
    }

    /// The slot that a write of a block without one gets.
    fn slot_for(&mut self, block: u64) -> u64 {
        self.write(blocks(block, 1)).first().extent.start.0 / BLOCK_BYTES
    }

    fn checkpoint(&mut self) {
        Batch::all_writes(&mut self.overlay).iter().for_each(|write| self.map.put(write));
        self.overlay.end_checkpoint();
    }

    fn unmap_and_checkpoint(&mut self, extent: Extent<Addr>) {
        self.load(extent);
        self.overlay.unmap(extent);
        self.checkpoint();
    }

    fn on(&mut self, extent: Extent<Addr>) -> Vec<(MediumId, u64, u64)> {
        self.load(extent);
        self.overlay.locate(extent).iter().map(|it| (it.on, it.extent.start.0, it.extent.len)).collect()
    }

    /// Does jobs until there are none; says which kinds there were.
    fn compact(&mut self) -> Vec<&'static str> {
        let mut done = Vec::new();
        while self.overlay.backlog(true) != Backlog::Nothing {
            let Some(job) = self.overlay.background(true) else { break };
            let mut read = Vec::new();
            done.push(match &job {
                Job::Destroy(_) => "destroy",
                Job::Renew(..) | Job::Put(..) | Job::Rekey(_) | Job::Turn(_) => {
                    unreachable!("an overlay has no keys")
                }
                Job::Punch(_) => "punch",
                Job::Shrink(_) => "shrink",
                Job::Read(places) => {
                    read = read_of(&self.map, places);
                    "search"
                }
                Job::Move { contents, to } => {
                    for (content, to) in contents.iter().zip(to) {
                        self.load(*content);
                        self.overlay.rebind(*content, *to);
                    }
                    self.checkpoint();
                    "move"
                }
            });
            self.overlay.background_done(JobEnd::Done(&read));
        }
        done.dedup();
        done
    }
}

/// What a job reads at these places.
fn read_of(map: &Memory, places: &[Place]) -> Vec<u8> {
    let [Place { on: MediumId::Map, extent }] = places else { panic!("{places:?}") };
    let mut read = vec![0; extent.len as usize];
    map.read(extent.start, &mut read).unwrap();
    read
}

#[test]
fn a_block_is_in_the_base_or_in_a_slot_or_nowhere() {
    let mut bench = Bench::new();
    assert_eq!(bench.on(blocks(9, 2)), [(MediumId::Base, 36864, 3584), (MediumId::Nowhere, 0, 512 + 4096)]);
    bench.write(blocks(9, 2));
    assert_eq!(bench.on(blocks(8, 3)), [(MediumId::Base, 32768, 4096), (MediumId::Data, 0, 8192)]);
    assert_eq!(bench.overlay.first(Content::Visible, blocks(5, 100)), Some(blocks(5, 4)));
    assert_eq!(bench.overlay.first(Content::Own, blocks(5, 100)), Some(blocks(9, 2)));
}

#[test]
fn what_is_purged_reads_as_zeros_and_the_base_does_not_show_through_again() {
    let mut bench = Bench::new();
    bench.write(blocks(3, 1));
    bench.overlay.unmap(blocks(2, 2));
    bench.overlay.unmap(blocks(50, 2));
    assert_eq!(bench.on(blocks(2, 2)), [(MediumId::Nowhere, 0, 8192)]);
    bench.checkpoint();
    let mut bench = bench.reopen().unwrap();
    assert_eq!(bench.on(blocks(1, 3)), [(MediumId::Base, 4096, 4096), (MediumId::Nowhere, 0, 8192)]);
    assert_eq!(bench.overlay.purged.len(), 2, "where the base holds nothing nothing is noted");
}

#[test]
fn a_part_of_a_block_of_the_base_cannot_die_alone() {
    let mut bench = Bench::new();
    let part = Extent::<Addr>::between(1024, 3 * BLOCK_BYTES + 512);
    assert_eq!(bench.overlay.first(Content::Discardable, part), Some(blocks(1, 2)));
    assert_eq!(bench.overlay.begin_write(part, Epoch(0)), WritePlan::CopyUp(blocks(0, 1)));
    bench.write(blocks(0, 1));
    assert_eq!(bench.overlay.begin_write(part, Epoch(0)), WritePlan::CopyUp(blocks(3, 1)));
    let last = Extent::new(SIZE - 512, 512);
    assert_eq!(bench.overlay.begin_write(last, Epoch(0)), WritePlan::CopyUp(blocks(BLOCKS - 1, 1)));
    bench.write(blocks(BLOCKS - 1, 1));
    assert!(
        matches!(bench.overlay.begin_write(last, Epoch(0)), WritePlan::To(_)),
        "the last block ends with the disk"
    );
}

#[test]
fn nothing_gets_a_slot_that_is_being_cut_off_or_that_the_map_cannot_name() {
    let mut bench = Bench::new();
    bench.write(blocks(100, 3));
    bench.unmap_and_checkpoint(blocks(102, 1));
    let Some(Job::Shrink(_)) = bench.overlay.background(false) else { panic!("it is not cut off") };
    assert_eq!(bench.overlay.begin_write(blocks(200, 1), Epoch(0)), WritePlan::AwaitJob);
    assert!(
        matches!(bench.overlay.begin_write(blocks(100, 2), Epoch(0)), WritePlan::To(_)),
        "it has its slots"
    );
    bench.overlay.background_done(JobEnd::GivenUp);
    bench.overlay.slots.limit(4);
    assert_eq!(bench.overlay.begin_write(blocks(200, 3), Epoch(0)), WritePlan::NoSpace);
    assert!(matches!(bench.overlay.begin_write(blocks(200, 2), Epoch(0)), WritePlan::To(_)), "there are two");
}

#[test]
fn a_slot_is_used_again_only_once_the_durable_map_does_not_name_it() {
    let mut bench = Bench::with(blocks(100, 1));
    bench.overlay.unmap(blocks(100, 1));
    assert_eq!(bench.slot_for(200), 1, "a slot that is pending free was used");
    let writes = Batch::all_writes(&mut bench.overlay);
    assert_eq!(bench.slot_for(201), 2, "the map is not written");
    writes.iter().for_each(|write| bench.map.put(write));
    bench.overlay.end_checkpoint();
    assert_eq!(bench.slot_for(202), 0);
}

#[test]
fn pages_of_the_map_that_say_nothing_any_more_keep_their_space_until_the_next_start() {
    let mut bench = Bench::with(blocks(0, 2900));
    bench.unmap_and_checkpoint(blocks(0, 2800));
    assert_eq!(bench.overlay.lacks_space(blocks(0, 3000), false), None);
    bench.map.1.take();
    let mut bench = bench.reopen().unwrap();
    // The base has data in the first page's blocks: they are purged.
    let second = Place { on: MediumId::Map, extent: Extent::new(8192, 4096) };
    assert_eq!(
        (bench.map.1.take(), bench.overlay.lacks_space(blocks(0, 3000), false)),
        (vec![second.extent], Some(second))
    );
    assert_eq!(bench.on(blocks(2048, 1))[0].0, MediumId::Nowhere);
}

#[test]
fn a_checkpoint_that_had_no_space_is_written_again_and_frees_nothing() {
    let mut bench = Bench::with(blocks(100, 1));
    bench.overlay.unmap(blocks(100, 1));
    let first = Batch::all_writes(&mut bench.overlay);
    bench.overlay.abort_checkpoint();
    assert!(!bench.overlay.is_durable(blocks(100, 1)));
    assert_eq!(bench.slot_for(200), 1, "a slot that is pending free was used");
    let again = Batch::all_writes(&mut bench.overlay);
    assert_eq!(
        again.iter().map(|(places, _)| places.clone()).collect::<Vec<_>>(),
        first.iter().map(|(places, _)| places.clone()).collect::<Vec<_>>()
    );
    again.iter().for_each(|write| bench.map.put(write));
    bench.overlay.end_checkpoint();
    assert_eq!(bench.slot_for(201), 0);
}

#[test]
fn a_block_leaves_the_base_too_until_a_checkpoint_says_that_the_base_does_not_show() {
    let mut bench = Bench::new();
    let left = |bench: &mut Bench| {
        bench.write(blocks(1, 1));
        bench.overlay.leave(blocks(1, 1), Epoch(0)).iter().map(|it| it.on).collect::<Vec<_>>()
    };
    assert_eq!(left(&mut bench), [MediumId::Data, MediumId::Base]);
    let writes = Batch::all_writes(&mut bench.overlay);
    assert_eq!(left(&mut bench), [MediumId::Data, MediumId::Base]);
    bench.overlay.abort_checkpoint();
    assert_eq!(left(&mut bench), [MediumId::Data, MediumId::Base]);
    assert!(!writes.is_empty());
    bench.checkpoint();
    // Another block of the base in the same page of the map is not durable.
    bench.write(blocks(2, 1));
    assert_eq!(left(&mut bench), [MediumId::Data]);
}

#[test]
fn a_death_needs_space_for_the_map_only_where_the_base_shows() {
    let mut bench = Bench::new();
    let page =
        |n: u64, count: u64| Place { on: MediumId::Map, extent: Extent::new(4096 * (n + 1), 4096 * count) };
    assert_eq!(bench.overlay.lacks_space(blocks(0, 3000), true), Some(page(0, 1)));
    assert_eq!(bench.overlay.lacks_space(blocks(10, 2990), true), None);
    assert_eq!(bench.overlay.lacks_space(blocks(10, 2990), false), Some(page(0, 3)));
    bench.overlay.reserved(page(1, 1));
    assert_eq!(bench.overlay.lacks_space(blocks(10, 2990), false), Some(page(0, 1)));
    assert_eq!(bench.overlay.lacks_space(blocks(1024, 1025), false), Some(page(2, 1)));
}

#[test]
fn the_last_blocks_move_into_the_holes_and_the_medium_is_cut_off() {
    let mut bench = Bench::with(blocks(100, 2500));
    bench.unmap_and_checkpoint(blocks(101, 2000));
    assert_eq!(bench.compact(), ["move", "destroy", "shrink"]);
    assert_eq!(bench.overlay.slots.end(), 500);
    let mut bench = bench.reopen().unwrap();
    let mut slots: Vec<_> =
        [100].into_iter().chain(2101..2600).map(|block| bench.on(blocks(block, 1))[0].1).collect();
    slots.sort_unstable();
    assert!(slots.iter().enumerate().all(|(n, at)| *at == n as u64 * BLOCK_BYTES), "it is not dense");
}

#[test]
fn moves_that_are_given_up_keep_no_write_from_a_slot() {
    let mut bench = Bench::with(blocks(100, 2500));
    bench.unmap_and_checkpoint(blocks(101, 2000));
    let mut given_up = 0;
    while given_up < 300 {
        match bench.overlay.background(true) {
            Some(Job::Move { to, .. }) => {
                given_up += to.len();
                bench.overlay.background_done(JobEnd::GivenUp);
            }
            Some(Job::Read(places)) => {
                let read = read_of(&bench.map, &places);
                bench.overlay.background_done(JobEnd::Done(&read));
            }
            // Places that were given up are destroyed before more is moved; the guest does not wait for that.
            Some(Job::Destroy(_)) => break,
            job => panic!("{job:?}"),
        }
    }
    assert!(given_up >= 256, "{given_up}");
    let clean = bench.overlay.slots.clean();
    assert_eq!(
        bench.write(blocks(200, clean + 100)).iter().map(|it| it.extent.len).sum::<u64>(),
        (clean + 100) * BLOCK_BYTES
    );
}

#[test]
fn a_mass_delete_of_everything_moves_nothing() {
    let mut bench = Bench::new();
    bench.write(blocks(100, 2500));
    bench.unmap_and_checkpoint(blocks(0, BLOCKS));
    assert_eq!(bench.compact(), ["shrink"]);
    assert_eq!(bench.overlay.slots.end(), 0);
}

#[test]
fn slots_without_an_owner_after_a_crash_are_destroyed_before_they_are_used() {
    let mut bench = Bench::with(blocks(100, 1));
    bench.write(blocks(101, 3));
    let mut bench = bench.reopen().unwrap();
    assert_eq!(bench.slot_for(102), 4);
    assert_eq!(
        bench.overlay.background(false),
        Some(Job::Destroy(vec![Place {
            on: MediumId::Data,
            extent: Extent::new(BLOCK_BYTES, 3 * BLOCK_BYTES)
        }]))
    );
}

#[test]
fn unneeded_pages_are_not_kept() {
    let mut bench = Bench::with(blocks(0, BLOCKS));
    assert_eq!(bench.overlay.map.resident(), 3);
    bench.overlay.map.throw_out(&BTreeSet::from([1]));
    bench.overlay.map.throw_out(&BTreeSet::from([1]));
    assert_eq!(bench.overlay.map.resident(), 1);
    assert!(bench.overlay.missing(blocks(0, BLOCKS)).is_some(), "it was thrown out");
    bench.load(blocks(0, 2048));
    assert_eq!(bench.overlay.missing(blocks(0, 2048)), None);
    assert_eq!(bench.on(blocks(0, 2)), [(MediumId::Data, 0, 8192)]);
}

/// Why an overlay with four blocks in slots is refused after `change` of its map.
fn refused(change: impl Fn(&Memory)) -> Option<MapError> {
    let bench = Bench::with(blocks(100, 4));
    change(&bench.map);
    bench.reopen().err()
}

#[test]
fn a_map_that_lies_is_refused() {
    let with = |block: u64, entry: u32| refused(|map| map::put(map, DISK, block, entry).unwrap());
    assert_eq!(with(5, 9), Some(MapError::Beyond { block: 5, slot: 7, slots: 4 }));
    assert_eq!(with(5, 3), Some(MapError::Twice { block: 101, slot: 1 }));
    assert!(matches!(with(BLOCKS, 1), Some(MapError::Damaged(_))));
    assert!(matches!(refused(|map| map.write(Pos(0), &[1], false).unwrap()), Some(MapError::Damaged(_))));
    let foreign = Memory::of(map_bytes(SIZE));
    format_map(&foreign, [5; 16], SIZE).unwrap();
    assert_eq!(Bench::open(Memory::default(), foreign).err(), Some(MapError::Foreign));
    assert_eq!(format_map(&Memory::default(), DISK, 1 << 44), Err(MapError::TooLarge));
}

#[test]
fn a_map_of_another_version_is_refused_by_name() {
    let older = |map: &Memory| {
        let mut head = map.0.borrow()[..36].to_vec();
        head[8] = 1;
        head.extend(crc32c::crc32c(&head).to_le_bytes());
        map.write(Pos(0), &head, false).unwrap();
    };
    assert_eq!(refused(older), Some(MapError::Version(1)));
}

#[test]
fn a_believable_entry_that_was_not_written_is_refused_with_its_sector() {
    // Block 100 is in slot 0, and slot 4 is free.
    for entry in [BASE, PURGED, FIRST_SLOT + 1, FIRST_SLOT + 4] {
        let changed = |map: &Memory| map.write(Pos(entry_at(100)), &entry.to_le_bytes(), false).unwrap();
        assert_eq!(refused(changed), Some(MapError::Sector { at: 4096 }), "{entry}");
    }
    // Sectors that were exchanged, or are of another disk.
    let copied = |map: &Memory| {
        let first = map.0.borrow()[4096..][..512].to_vec();
        map.write(Pos(4096 + 512), &first, false).unwrap();
    };
    assert_eq!(refused(copied), Some(MapError::Sector { at: 4608 }));
    let foreign = |map: &Memory| map::put(map, [5; 16], 200, PURGED).unwrap();
    assert_eq!(refused(foreign), Some(MapError::Sector { at: 4608 }));
}

#[test]
fn a_page_that_is_damaged_while_the_disk_is_served_is_not_believed() {
    let mut bench = Bench::with(blocks(100, 4)).reopen().unwrap();
    map::put(&bench.map, [5; 16], 101, PURGED).expect_err("it is another disk's");
    bench.map.write(Pos(entry_at(101)), &[7], false).unwrap();
    let place = bench.overlay.missing(blocks(100, 1)).expect("nothing was read");
    let mut page = vec![0; place.extent.len as usize];
    bench.map.read(place.extent.start, &mut page).unwrap();
    let damage = bench.overlay.loaded(place, &page).expect_err("it is damaged");
    assert!(damage.contains("byte 4096"), "{damage}");
    // The search for blocks to move passes over it.
    bench.overlay.searched(place.extent, &page);
    assert!(bench.overlay.search.owners.is_empty());
    assert_eq!(bench.overlay.search.next, Some(PAGE_BLOCKS));
}

#[test]
fn one_wrong_byte_of_the_map_is_mended_and_nothing_else_changes() {
    let mut bench = Bench::new();
    bench.write(blocks(100, 4));
    bench.unmap_and_checkpoint(blocks(2, 1));
    let whole = bench.map.0.borrow().clone();
    // In the head, in an entry, in a checksum, and in a sector without entries.
    for at in [9, entry_at(100), 4096 + 510, entry_at(400) + 3] {
        bench.map.0.borrow_mut()[at as usize] ^= 0x24;
        assert_eq!(mend(&bench.map, DISK, SIZE).unwrap().len(), 1, "byte {at}");
        assert!(*bench.map.0.borrow() == whole, "byte {at}");
    }
    assert_eq!(mend(&bench.map, DISK, SIZE).unwrap(), Vec::<String>::new());
    // Two wrong bytes of one sector are left as they are.
    [0, 5].iter().for_each(|n| bench.map.0.borrow_mut()[entry_at(100) as usize + n] ^= 1);
    assert_eq!(mend(&bench.map, DISK, SIZE).unwrap(), Vec::<String>::new());
    assert_eq!(bench.reopen().err(), Some(MapError::Sector { at: 4096 }));
}

#[test]
fn refused_writes_get_no_new_slots_for_ever() {
    let mut bench = Bench::new();
    let refused = (0..10_000).take_while(|_| {
        bench.load(blocks(0, 16));
        let is_planned = matches!(bench.overlay.begin_write(blocks(0, 16), Epoch(0)), WritePlan::To(_));
        if is_planned {
            bench.overlay.end_write(blocks(0, 16), Written::NotThere);
        }
        is_planned
    });
    assert_eq!(refused.count(), 16, "each leaves sixteen slots");
    assert_eq!(bench.overlay.begin_write(blocks(0, 16), Epoch(0)), WritePlan::NoSpace);
    assert_eq!(bench.overlay.backlog(false), Backlog::AtOnce);
    assert!(bench.overlay.background(false).is_some(), "the slots are to be destroyed");
    bench.overlay.background_done(JobEnd::Done(&[]));
    assert!(matches!(bench.overlay.begin_write(blocks(0, 16), Epoch(0)), WritePlan::To(_)));
}
