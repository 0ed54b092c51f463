use crate::formats::ntfs::*;
use crate::formats::testing::{Dice, history_cancels, probed};

pub(super) const CLUSTER: usize = 4096;
pub(super) const CLUSTERS: u64 = 64;
pub(super) const RECORD: usize = 1024;
pub(super) const DISK_BYTES: u64 = CLUSTERS * CLUSTER as u64;
const MFT_LCN: u64 = 4;
const MIRROR_LCN: u64 = 60;
const LOG_LCN: u64 = 20;
const BITMAP_LCN: u64 = 30;
/// An attribute's clusters: place, and how many; a hole without a place.
type Lcns = [(Option<i64>, i64)];

fn one(range: Range<Block>) -> Vec<Range<Block>> {
    Vec::from([range])
}

pub(super) fn put(bytes: &mut [u8], at: usize, value: &[u8]) {
    bytes[at..at + value.len()].copy_from_slice(value);
}

/// A boot sector as mkntfs makes it.
pub(super) fn boot() -> Vec<u8> {
    let mut bytes = vec![0; 512];
    put(&mut bytes, 0, b"\xEB\x52\x90NTFS    ");
    put(&mut bytes, 0x0B, &512_u16.to_le_bytes());
    bytes[0x0D] = 8;
    put(&mut bytes, 0x28, &(CLUSTERS * 8).to_le_bytes());
    put(&mut bytes, 0x30, &MFT_LCN.to_le_bytes());
    put(&mut bytes, 0x38, &MIRROR_LCN.to_le_bytes());
    bytes[0x40] = 0xF6;
    bytes[0x44] = 1;
    put(&mut bytes, 0x48, &7_u64.to_le_bytes());
    put(&mut bytes, 510, &[0x55, 0xAA]);
    bytes
}

/// Mapping pairs, each number in eight bytes at most.
pub(super) fn pairs(lcns: &Lcns) -> Vec<u8> {
    let (mut bytes, mut before) = (Vec::new(), 0);
    for (lcn, len) in lcns {
        bytes.push(if lcn.is_some() { 0x44 } else { 0x04 });
        bytes.extend((*len as i32).to_le_bytes());
        if let Some(lcn) = lcn {
            bytes.extend(((lcn - before) as i32).to_le_bytes());
            before = *lcn;
        }
    }
    bytes.push(0);
    bytes
}

pub(super) fn resident(kind: u32, value: &[u8]) -> Vec<u8> {
    let mut bytes = vec![0; 0x18];
    bytes.extend(value);
    bytes.resize(bytes.len().next_multiple_of(8), 0);
    let len = bytes.len() as u32;
    put(&mut bytes, 0, &kind.to_le_bytes());
    put(&mut bytes, 4, &len.to_le_bytes());
    put(&mut bytes, 0x10, &(value.len() as u32).to_le_bytes());
    put(&mut bytes, 0x14, &0x18_u16.to_le_bytes());
    bytes
}

/// An attribute in clusters, from `vcn` on.
pub(super) fn elsewhere(kind: u32, name: &str, vcn: u64, lcns: &Lcns) -> Vec<u8> {
    let mut bytes = vec![0; 0x40];
    let name: Vec<u8> = name.encode_utf16().flat_map(u16::to_le_bytes).collect();
    bytes.extend(&name);
    bytes.resize(bytes.len().next_multiple_of(8), 0);
    let pairs_at = bytes.len() as u16;
    bytes.extend(pairs(lcns));
    bytes.resize(bytes.len().next_multiple_of(8), 0);
    let clusters: i64 = lcns.iter().map(|it| it.1).sum();
    let (len, size) = (bytes.len() as u32, (clusters as u64 + vcn) * CLUSTER as u64);
    put(&mut bytes, 0, &kind.to_le_bytes());
    put(&mut bytes, 4, &len.to_le_bytes());
    bytes[8] = 1;
    bytes[9] = (name.len() / 2) as u8;
    put(&mut bytes, 0x0A, &0x40_u16.to_le_bytes());
    put(&mut bytes, 0x10, &vcn.to_le_bytes());
    put(&mut bytes, 0x18, &(vcn + clusters as u64).wrapping_sub(1).to_le_bytes());
    put(&mut bytes, 0x20, &pairs_at.to_le_bytes());
    (0..3).for_each(|n| put(&mut bytes, 0x28 + n * 8, &size.to_le_bytes()));
    bytes
}

/// Puts an update sequence over `bytes`, the numbers at `usa_ofs`.
pub(super) fn protect(bytes: &mut [u8], usa_ofs: usize, usn: u16) {
    let count = bytes.len() / 512 + 1;
    put(bytes, 4, &(usa_ofs as u16).to_le_bytes());
    put(bytes, 6, &(count as u16).to_le_bytes());
    put(bytes, usa_ofs, &usn.to_le_bytes());
    for n in 1..count {
        let end = [bytes[n * 512 - 2], bytes[n * 512 - 1]];
        put(bytes, usa_ofs + n * 2, &end);
        put(bytes, n * 512 - 2, &usn.to_le_bytes());
    }
}

/// A record of `sequence`, in use, that extends `base`, if that is not 0.
pub(super) fn record(sequence: u16, base: u64, attributes: &[Vec<u8>]) -> Vec<u8> {
    let mut bytes = vec![0; RECORD];
    put(&mut bytes, 0, b"FILE");
    put(&mut bytes, 0x10, &sequence.to_le_bytes());
    put(&mut bytes, 0x14, &0x38_u16.to_le_bytes());
    bytes[0x16] = 1;
    put(&mut bytes, 0x20, &base.to_le_bytes());
    let body = [attributes.concat(), vec![0xFF; 4], vec![0; 4]].concat();
    put(&mut bytes, 0x38, &body);
    put(&mut bytes, 0x18, &(0x38 + body.len() as u32).to_le_bytes());
    protect(&mut bytes, 0x30, 5);
    bytes
}

/// A disk that can be changed part by part.
#[derive(Clone)]
pub(super) struct Disk(pub Vec<u8>);

impl Disk {
    pub(super) fn new() -> Self {
        let mut disk = Self(vec![0; DISK_BYTES as usize]);
        put(&mut disk.0, 0, &boot());
        disk.set(0, &record(1, 0, &[elsewhere(0x80, "", 0, &[(Some(MFT_LCN as i64), 4)])]));
        disk.set(1, &record(1, 0, &[elsewhere(0x80, "", 0, &[(Some(MIRROR_LCN as i64), 1)])]));
        disk.set(2, &record(1, 0, &[elsewhere(0x80, "", 0, &[(Some(LOG_LCN as i64), 2)])]));
        disk.set(3, &volume_record(3, 0));
        disk.set(6, &record(1, 0, &[elsewhere(0x80, "", 0, &[(Some(BITMAP_LCN as i64), 1)])]));
        put(&mut disk.0, LOG_LCN as usize * CLUSTER, &vec![0xFF; 2 * CLUSTER]);
        let used = [0..1, MFT_LCN..MFT_LCN + 4, LOG_LCN..LOG_LCN + 2, BITMAP_LCN..BITMAP_LCN + 1];
        for lcn in used.into_iter().flatten().chain([MIRROR_LCN]) {
            disk.0[BITMAP_LCN as usize * CLUSTER + lcn as usize / 8] |= 1 << (lcn % 8);
        }
        let head = disk.0[MFT_LCN as usize * CLUSTER..][..4 * RECORD].to_vec();
        put(&mut disk.0, MIRROR_LCN as usize * CLUSTER, &head);
        disk
    }

    pub(super) fn at(number: u64) -> usize {
        MFT_LCN as usize * CLUSTER + number as usize * RECORD
    }

    pub(super) fn set(&mut self, number: u64, record: &[u8]) {
        put(&mut self.0, Self::at(number), record);
    }

    pub(super) fn block(&self, block: Block) -> &[u8] {
        &self.0[block as usize * CLUSTER..][..CLUSTER]
    }

    pub(super) fn found(&self) -> Box<dyn Format> {
        probed(probe, DISK_BYTES, &self.0).found()
    }

    pub(super) fn refused(&self) -> String {
        probed(probe, DISK_BYTES, &self.0).refusal()
    }
}

pub(super) fn volume_record(major: u8, flags: u16) -> Vec<u8> {
    let mut value = vec![0; 12];
    value[8] = major;
    put(&mut value, 10, &flags.to_le_bytes());
    record(3, 0, &[resident(0x70, &value)])
}

/// A restart page of `$LogFile`.
pub(super) fn restart_page(current_lsn: u64, client_in_use_list: u16, flags: u16) -> Vec<u8> {
    let mut page = vec![0; 4096];
    put(&mut page, 0, b"RSTR");
    put(&mut page, 0x10, &4096_u32.to_le_bytes());
    put(&mut page, 0x14, &4096_u32.to_le_bytes());
    put(&mut page, 0x18, &0x30_u16.to_le_bytes());
    put(&mut page, 0x1C, &1_u16.to_le_bytes());
    put(&mut page, 0x30, &current_lsn.to_le_bytes());
    put(&mut page, 0x3C, &client_in_use_list.to_le_bytes());
    put(&mut page, 0x3E, &flags.to_le_bytes());
    protect(&mut page, 0x1E, 9);
    page
}

#[test]
fn a_volume_is_found_for_what_it_is() {
    let format = Disk::new().found();
    assert_eq!((format.name(), format.block_bytes(), format.blocks()), ("ntfs", 4096, 64));
    assert!(format.was_clean() && !format.tells_of_mounts() && format.always_two_witnesses());
    let kinds = [0, 4, 5, 6, 7, 8, 20, 21, 22, 30, 31, 60].map(|block| format.kind(block));
    let (g, i, m, d) = (Kind::Geometry, Kind::Inodes, Kind::Map, Kind::Data);
    assert_eq!(kinds, [g, g, g, g, g, d, g, g, d, m, d, d]);
    assert_eq!(format.survey(Kind::Inodes), one(4..8));
    assert_ne!(i, g);
    assert_eq!(format.hidden(), ["content beyond the initialized size of a file"]);
}

#[test]
fn a_mirror_stands_in_for_a_torn_record() {
    let mut disk = Disk::new();
    let torn = Disk::at(0) + 510;
    disk.0[torn] ^= 1;
    assert_eq!(disk.found().survey(Kind::Inodes), one(4..8));
    disk.0[MIRROR_LCN as usize * CLUSTER + 510] ^= 1;
    assert!(disk.refused().contains(
        "record 0 of $MFT is invalid: a part of it was not written (its update sequence does not match)"
    ));
    let mut no_mirror = Disk::new();
    no_mirror.0[Disk::at(6) + 1022] ^= 1;
    assert!(no_mirror.refused().contains("record 6"));
}

/// `$MFT` in three parts: four clusters, then what records 14 and 15 tell of.
fn fragmented() -> Disk {
    let mut disk = Disk::new();
    let entry = |vcn: u64, number: u64| {
        let mut bytes = vec![0; 0x20];
        put(&mut bytes, 0, &0x80_u32.to_le_bytes());
        bytes[4] = 0x20;
        put(&mut bytes, 8, &vcn.to_le_bytes());
        put(&mut bytes, 0x10, &(number | 1 << 48).to_le_bytes());
        bytes
    };
    let list = [entry(0, 0), entry(4, 14), entry(6, 15)].concat();
    let mut data = elsewhere(0x80, "", 0, &[(Some(MFT_LCN as i64), 4)]);
    put(&mut data, 0x38, &(7 * CLUSTER as u64).to_le_bytes());
    disk.set(0, &record(1, 0, &[resident(0x20, &list), data]));
    disk.set(14, &record(1, 1 << 48, &[elsewhere(0x80, "", 4, &[(Some(40), 2)])]));
    disk.set(15, &record(1, 1 << 48, &[elsewhere(0x80, "", 6, &[(Some(50), 1)])]));
    disk
}

#[test]
fn what_extends_the_record_of_mft_is_followed() {
    let format = fragmented().found();
    assert_eq!(format.survey(Kind::Inodes), [4..8, 40..42, 50..51]);
    assert_eq!(format.kind(41), Kind::Inodes);
}

#[test]
fn a_list_of_attributes_that_lies_is_refused() {
    let second = |base, vcn, lcn| record(1, base, &[elsewhere(0x80, "", vcn, &[(lcn, 2)])]);
    for (number, bytes, why) in [
        (14, second(5 << 48 | 3, 4, Some(40)), "it does not extend $MFT"),
        (14, second(1 << 48, 5, Some(40)), "lowest_vcn"),
        (14, second(1 << 48, 4, None), "holes"),
        (15, vec![0; RECORD], "record 15"),
    ] {
        let mut disk = fragmented();
        disk.set(number, &bytes);
        assert!(disk.refused().contains(why), "{why}: {}", disk.refused());
    }
}

#[test]
fn other_lies_of_the_system_are_refused() {
    let data = |lcns: &Lcns| record(1, 0, &[elsewhere(0x80, "", 0, lcns)]);
    let sized = |lcns: &Lcns, bytes: u64| {
        let mut data = elsewhere(0x80, "", 0, lcns);
        put(&mut data, 0x38, &bytes.to_le_bytes());
        record(1, 0, &[data])
    };
    for (number, bytes, why) in [
        (0, vec![0; RECORD], "not in use"),
        (0, data(&[(Some(8), 4)]), "where the boot sector says"),
        (0, data(&[(Some(4), 1)]), "where the boot sector says"),
        (0, sized(&[(Some(4), 4)], 5 * CLUSTER as u64), "larger than what it lies in"),
        (6, data(&[(None, 1), (Some(30), 1)]), "record 6 of $MFT is invalid: its $DATA has holes"),
        (6, record(1, 0, &[resident(0x80, b"")]), "no $DATA in clusters"),
        (6, data(&[(Some(5), 1)]), "$MFT and $Bitmap claim the same clusters"),
        (6, sized(&[(Some(30), 1)], 7), "$Bitmap is too short"),
        (3, volume_record(1, 0), "version 1"),
        (3, record(1, 0, &[]), "VOLUME_INFORMATION"),
    ] {
        let mut disk = Disk::new();
        disk.set(number, &bytes);
        if number < 4 {
            put(&mut disk.0, MIRROR_LCN as usize * CLUSTER + number as usize * RECORD, &bytes);
        }
        assert!(disk.refused().contains(why), "{why}: {}", disk.refused());
    }
}

#[test]
fn a_map_with_metadata_free_is_none() {
    let disk = Disk::new();
    let format = disk.found();
    let at = Extent::new(BITMAP_LCN * CLUSTER as u64, CLUSTER as u64);
    let shown = format.map(at, disk.block(30)).unwrap();
    assert_eq!(shown[..2].iter().map(|it| it.blocks.clone()).collect::<Vec<_>>(), [0..1, 1..4]);
    assert_eq!(shown.last().map(|it| (it.blocks.clone(), it.allocated)), Some((61..64, false)));
    for lcn in [0, 4, 5, 20, 21, 30] {
        let mut bytes = disk.block(30).to_vec();
        bytes[lcn / 8] &= !(1 << (lcn % 8));
        assert!(format.map(at, &bytes).is_err(), "cluster {lcn}");
    }
    assert!(format.map(Extent::new(0, 512), &[0; 512]).is_err());
}

/// The reaction of `format` to blocks with these records 0 and 3.
fn changed(record_0: Option<&[u8]>, record_3: Option<&[u8]>) -> (Geometry, bool, Vec<Range<Block>>) {
    let before = Disk::new();
    let (mut after, mut format) = (before.clone(), before.found());
    record_0.into_iter().for_each(|it| after.set(0, it));
    record_3.into_iter().for_each(|it| after.set(3, it));
    let geometry = format.geometry(4, before.block(4), after.block(4));
    let grew = geometry != Geometry::Changed && format.learn(4, after.block(4));
    (geometry, grew, format.survey(Kind::Inodes))
}

#[test]
fn mft_may_grow_and_not_move_and_a_torn_record_changes_nothing() {
    let grown = |lcns: &Lcns| record(1, 0, &[elsewhere(0x80, "", 0, lcns)]);
    let mut more = grown(&[(Some(4), 6)]);
    assert_eq!(changed(Some(&more), None), (Geometry::Same, true, one(4..10)));
    more[510] ^= 1;
    assert_eq!(changed(Some(&more), None), (Geometry::Same, false, one(4..8)));
    let two = grown(&[(Some(4), 4), (Some(40), 3)]);
    assert_eq!(changed(Some(&two), None), (Geometry::Same, true, vec![4..8, 40..43]));
    let both = changed(Some(&two), Some(&volume_record(3, 1)));
    assert_eq!(both, (Geometry::InUse, true, vec![4..8, 40..43]));
    assert_eq!(changed(Some(&grown(&[(Some(8), 6)])), None).0, Geometry::Changed);
    assert_eq!(changed(Some(&grown(&[(Some(4), 4), (Some(29), 3)])), None).0, Geometry::Changed);
}

#[test]
fn its_flags_say_when_it_is_in_use() {
    let (clean, mut dirty) = (Disk::new(), Disk::new());
    dirty.set(3, &volume_record(3, 1));
    assert!(!dirty.found().was_clean());
    let geometry = |from: &Disk, to: &Disk| from.found().geometry(4, from.block(4), to.block(4));
    assert_eq!(geometry(&clean, &dirty), Geometry::InUse);
    assert_eq!(geometry(&dirty, &clean), Geometry::Clean);
    assert_eq!(geometry(&dirty, &dirty), Geometry::Same);
    let mut other = Disk::new();
    other.0[0x48] ^= 1;
    assert_eq!(clean.found().geometry(0, clean.block(0), other.block(0)), Geometry::Changed);
}

#[test]
fn a_log_that_may_undo_what_is_said_calls_for_rest() {
    let mut disk = Disk::new();
    let page = LOG_LCN as usize * CLUSTER;
    put(&mut disk.0, page, &restart_page(7, 0, 0));
    let format = disk.found();
    assert!(format.map_needs_rest() && !format.was_clean());
    let mut clean = disk.clone();
    put(&mut clean.0, page + CLUSTER, &restart_page(8, 0xFFFF, 2));
    assert_eq!(format.geometry(21, disk.block(21), clean.block(21)), Geometry::Clean);
    let mut format = format;
    format.learn(21, clean.block(21));
    assert!(!format.map_needs_rest() && format.was_clean());
}

/// Records of all sorts, some of which lie.
fn any_record(dice: &mut Dice) -> Vec<u8> {
    let mut attributes = Vec::new();
    for n in 0..dice.below(4) {
        let lcns: Vec<_> = (0..dice.below(4))
            .map(|_| ((dice.below(4) > 0).then(|| dice.below(50) as i64), 1 + dice.below(9) as i64))
            .collect();
        attributes.push(elsewhere(0x80, ["", "a", "b"][n as usize % 3], dice.below(3).into(), &lcns));
    }
    let mut bytes = record(dice.below(2) as u16, 0, &attributes);
    bytes[0x16] = u8::from(dice.below(5) > 0);
    if dice.below(8) == 0 {
        let at = dice.below(RECORD as u32) as usize;
        bytes[at] ^= 1 << dice.below(8);
    }
    bytes
}

#[test]
fn what_a_history_links_is_what_its_end_shows() {
    let format = Disk::new().found();
    let mut dice = Dice(11);
    for _ in 0..300 {
        let mut content = vec![0; CLUSTER];
        let contents = (0..8).map(|_| {
            let record = any_record(&mut dice);
            put(&mut content, dice.below(4) as usize * RECORD, &record);
            content.clone()
        });
        history_cancels(&*format, 7, Kind::Inodes, &contents.collect::<Vec<_>>());
    }
}

#[test]
fn another_sequence_number_is_another_generation_and_another_stream_another_owner() {
    let format = Disk::new().found();
    let block = |sequence, name| {
        let mut bytes = vec![0; CLUSTER];
        put(&mut bytes, 0, &record(sequence, 0, &[elsewhere(0x80, name, 0, &[(Some(33), 2)])]));
        bytes
    };
    let old = block(1, "a");
    assert_eq!(format.diff(7, Kind::Inodes, &old, &old).len(), 0);
    for new in [block(2, "a"), block(1, "b")] {
        let renewed = format.diff(7, Kind::Inodes, &old, &new);
        assert!(matches!(&renewed[..], [Change::Unlinked(_), Change::Linked(_)]), "{renewed:?}");
    }
    let mut gone = old.clone();
    gone[0x16] = 0;
    let lost = format.diff(7, Kind::Inodes, &old, &gone);
    assert!(matches!(&lost[..], [Change::Unlinked(link)] if link.blocks == (33..35)), "{lost:?}");
}

#[test]
fn what_cannot_be_known_is_said() {
    let format = Disk::new().found();
    let mut block = vec![0; CLUSTER];
    put(&mut block, RECORD, &record(1, 0, &[elsewhere(0x80, "", 0, &[(Some(33), 2)])]));
    assert_eq!(format.unknown(7, &block), None);
    block[RECORD + 1022] ^= 1;
    let why =
        "record 13 of $MFT is invalid: a part of it was not written (its update sequence does not match)";
    assert_eq!(format.unknown(7, &block), Some(Reason(why.into())));
    assert_eq!(format.unknown(9, &block), None, "it is not of $MFT");
    assert!(format.pointers(7, Kind::Inodes, &block).is_empty());
}
