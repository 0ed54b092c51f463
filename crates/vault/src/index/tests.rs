use std::collections::BTreeMap;
use std::convert::Infallible;

use super::*;
use crate::testing::{Noise, fingerprint};

/// A part and its pages, as a medium has them.
struct OnMedium {
    part: Part,
    pages: Vec<[u8; PAGE_BYTES]>,
}

impl OnMedium {
    fn new(entries: impl Iterator<Item = IndexEntry>, expected: u64) -> OnMedium {
        let mut builder = PartBuilder::new(expected);
        let mut pages: Vec<_> = entries.filter_map(|entry| builder.push(entry)).collect();
        let (part, last) = builder.finish();
        pages.extend(last);
        assert_eq!(part.pages(), pages.len());
        OnMedium { part, pages }
    }

    fn entries(&self) -> impl Iterator<Item = Result<IndexEntry, Infallible>> + '_ {
        let page = |bytes| Page::from_bytes(bytes).unwrap().entries().to_vec();
        self.pages.iter().flat_map(page).map(Ok)
    }

    fn find(&self, fingerprint: &Fingerprint) -> Option<Location> {
        let page = self.part.page(fingerprint)?;
        Page::from_bytes(&self.pages[page]).unwrap().find(fingerprint)
    }
}

fn entry(noise: &mut Noise) -> IndexEntry {
    let number = |noise: &mut Noise| noise.next() >> 24;
    IndexEntry {
        fingerprint: fingerprint(noise),
        location: Location { ordinal: Ordinal(number(noise)), container: ContainerSequence(number(noise)) },
    }
}

#[test]
fn merges_agree_with_the_dullest_map() {
    let mut noise = Noise(1);
    let mut model = BTreeMap::new();
    let mut medium = OnMedium::new(std::iter::empty(), 0);
    for round in 0..8 {
        let mut recent = Recent::new(2_000);
        let moved: Vec<Fingerprint> = model.keys().step_by(5).copied().collect();
        let moved =
            moved.into_iter().map(|fingerprint| IndexEntry { fingerprint, ..entry(&mut Noise(round)) });
        for entry in moved.collect::<Vec<_>>().into_iter().chain((0..1_000).map(|_| entry(&mut noise))) {
            recent.insert(entry);
            model.insert(entry.fingerprint, entry.location);
            assert_eq!(recent.find(&entry.fingerprint), Some(entry.location));
        }
        assert_eq!(recent.is_full(), recent.len() >= 2_000);
        let merged = merge(recent.entries(), medium.entries());
        medium = OnMedium::new(merged.map(|Ok(entry)| entry), model.len() as u64);
        assert_eq!(medium.part.entries(), model.len() as u64);
        assert!(medium.entries().map(|Ok(entry)| (entry.fingerprint, entry.location)).eq(model.clone()));
        assert!(model.iter().all(|(fingerprint, location)| medium.find(fingerprint) == Some(*location)));
    }
}

#[test]
fn an_error_of_the_part_comes_through_a_merge() {
    let mut noise = Noise(2);
    let mut recent = Recent::new(10);
    recent.insert(entry(&mut noise));
    let broken = std::iter::once(Err("unreadable"));
    let merged: Vec<_> = merge(recent.entries(), broken).collect();
    assert_eq!(merged.iter().filter(|entry| entry.is_err()).count(), 1);
    assert_eq!(merged.len(), 2);
}

#[test]
fn chunks_that_are_new_cost_a_read_in_one_case_of_a_hundred() {
    let mut noise = Noise(3);
    let entries: BTreeMap<_, _> =
        (0..50_000).map(|_| entry(&mut noise)).map(|it| (it.fingerprint, it.location)).collect();
    let count = entries.len() as u64;
    let sorted = entries.into_iter().map(|(fingerprint, location)| IndexEntry { fingerprint, location });
    let medium = OnMedium::new(sorted, count);
    let strangers = 100_000;
    let reads = (0..strangers).filter(|_| medium.part.page(&fingerprint(&mut noise)).is_some()).count();
    assert!(reads * 100 <= strangers * 3 / 2, "{reads} of {strangers} absent fingerprints cost a read");
    assert!(medium.part.bytes() as u64 * 8 <= count * 13, "{} bytes for {count}", medium.part.bytes());
}

#[test]
fn a_flipped_bit_anywhere_in_a_page_is_found() {
    let mut noise = Noise(4);
    let mut recent = Recent::new(100);
    (0..60).for_each(|_| recent.insert(entry(&mut noise)));
    let sound = OnMedium::new(recent.entries(), 60).pages[0];
    for bit in 0..PAGE_BYTES * 8 {
        let mut bytes = sound;
        bytes[bit / 8] ^= 1 << (bit % 8);
        assert!(matches!(Page::from_bytes(&bytes), Err(PageError::Checksum { .. })), "bit {bit}");
    }
}

/// The page with a sound checksum after `change`.
fn changed(change: impl FnOnce(&mut [u8; PAGE_BYTES])) -> Result<Page, PageError> {
    let mut noise = Noise(5);
    let mut recent = Recent::new(100);
    (0..3).for_each(|_| recent.insert(entry(&mut noise)));
    let mut bytes = OnMedium::new(recent.entries(), 3).pages[0];
    change(&mut bytes);
    let checksum = crc32c::crc32c(&bytes[4..]);
    bytes[..4].copy_from_slice(&checksum.to_le_bytes());
    Page::from_bytes(&bytes)
}

#[test]
fn a_page_that_says_what_cannot_be_is_refused() {
    assert!(changed(|_| {}).is_ok());
    assert_eq!(changed(|bytes| bytes[4] = 0), Err(PageError::Entries(0)));
    assert_eq!(changed(|bytes| bytes[4] = 98), Err(PageError::Entries(98)));
    assert_eq!(changed(|bytes| bytes.copy_within(8..50, 50)), Err(PageError::Entries(3)));
}

#[test]
#[should_panic(expected = "over 40 bits")]
fn a_number_that_does_not_fit_is_never_cut_off() {
    let mut big = entry(&mut Noise(6));
    big.location.ordinal = Ordinal(1 << 40);
    Page::to_bytes(&[big]);
}
