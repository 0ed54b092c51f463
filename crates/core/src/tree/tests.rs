//! Trees against a `BTreeMap`, on a medium that loses what no head reaches.

use super::*;
use rand_chacha::ChaCha8Rng;
use rand_chacha::rand_core::{RngCore, SeedableRng};
use std::collections::BTreeMap;

const DISK: [u8; 16] = [7; 16];
/// Wide keys make inner pages with few children, and so a tree of many levels.
const KEY: usize = 200;
type Small = Tree<KEY, 4>;
type Model = BTreeMap<[u8; KEY], [u8; 4]>;

fn wide(key: u32) -> [u8; KEY] {
    let mut wide = [0; KEY];
    wide[KEY - 4..].copy_from_slice(&key.to_be_bytes());
    wide
}

/// An index with one tree, its medium, and the dullest model of both: what is in memory, and what is durable.
struct Index {
    pages: Pages,
    tree: Small,
    medium: BTreeMap<u64, Vec<u8>>,
    head: Head,
    model: Model,
    durable: Model,
    /// Most pages in memory.
    memory_max: usize,
}

impl Index {
    fn new(memory_max: usize) -> Self {
        let head = Head { generation: 0, roots: vec![Root::default()], note: Vec::new() };
        Self {
            pages: Pages::new(DISK, 0),
            tree: Tree::new(0, Root::default()),
            medium: BTreeMap::new(),
            head,
            model: Model::new(),
            durable: Model::new(),
            memory_max,
        }
    }

    /// Calls `ask` until no page is absent.
    fn ask<T>(&mut self, mut ask: impl FnMut(&mut Small, &mut Pages) -> Result<T, Absent>) -> T {
        loop {
            match ask(&mut self.tree, &mut self.pages) {
                Ok(answer) => return answer,
                Err(Absent(page)) => {
                    assert!(!self.pages.is_whole(), "a page is absent");
                    self.load(page);
                }
            }
        }
    }

    fn load(&mut self, page: PageNo) {
        let bytes = &self.medium[&page.position()];
        self.pages.loaded(page, bytes).expect("the page is whole");
    }

    fn insert(&mut self, key: u32, value: u8) {
        let (key, value) = (wide(key), [value; 4]);
        let old = self.ask(|tree, pages| tree.insert(pages, &key, &value));
        assert_eq!(old, self.model.insert(key, value));
    }

    fn remove(&mut self, key: u32) {
        let key = wide(key);
        let old = self.ask(|tree, pages| tree.remove(pages, &key));
        assert_eq!(old, self.model.remove(&key));
    }

    /// Removes the last few of a range of keys at once.
    fn remove_last(&mut self, key: u32) {
        let (from, to) = (wide(key), wide(key + 25));
        let last = self.ask(|tree, pages| tree.last_in_leaf(pages, (&from, &to), 10));
        let known = self.model.range(from..=to).rev().map(|(key, value)| (*key, *value));
        assert_eq!(last, known.clone().take(last.len()).collect::<Vec<_>>());
        assert!(last.len() <= 10 && last.is_empty() == (known.count() == 0));
        if let Some((first, _)) = last.last() {
            self.ask(|tree, pages| tree.remove_run(pages, first, last.len()));
            last.iter().for_each(|(key, _)| _ = self.model.remove(key));
        }
    }

    fn look(&mut self, key: u32) {
        let key = wide(key);
        let before = self.ask(|tree, pages| tree.at_or_before(pages, &key));
        assert_eq!(before, self.model.range(..=key).next_back().map(|(key, value)| (*key, *value)));
        let after = self.ask(|tree, pages| tree.at_or_after(pages, &key));
        assert_eq!(after, self.model.range(key..).next().map(|(key, value)| (*key, *value)));
        assert_eq!(self.ask(|tree, pages| tree.get(pages, &key)), self.model.get(&key).copied());
    }

    /// Looks up keys near each other at once.
    fn look_on(&mut self, key: u32) {
        let keys = [0, 1, 2, 9, 3, 40].map(|more| wide(key + more));
        let found = self.ask(|tree, pages| {
            let mut searches = tree.searches(pages);
            keys.iter().map(|key| searches.at_or_before(key)).collect::<Result<Vec<_>, _>>()
        });
        let known = |key| self.model.range(..=key).next_back().map(|(key, value)| (*key, *value));
        assert_eq!(found, keys.map(known));
    }

    fn write(&mut self, max: usize) {
        self.medium.extend(self.pages.take_writes(max));
        self.pages.evict(self.memory_max);
    }

    fn write_due(&mut self, max: usize) {
        self.medium.extend(self.pages.take_due(max));
        self.pages.evict(self.memory_max);
    }

    fn make_durable(&mut self) {
        self.make_durable_while(|_, _| {});
    }

    /// Makes a head durable, during which `meanwhile` changes what is no part of that head.
    fn make_durable_while(&mut self, meanwhile: impl Fn(&mut Self, u32)) {
        let before = self.medium.clone();
        let generation = self.pages.begin_head();
        let head = Head { generation, roots: vec![self.tree.root()], note: vec![9] };
        let durable = self.model.clone();
        // What changes meanwhile changes no page that the head reaches, written or not.
        self.write_due(3);
        meanwhile(self, generation as u32);
        assert_ne!(head.position(), self.head.position(), "the durable head is kept");
        if generation.is_multiple_of(5) {
            // The medium took none of these writes.
            self.medium = before;
            return self.pages.abort_head();
        }
        while self.pages.due() > 0 {
            self.write_due(5);
        }
        self.pages.end_head();
        (self.head, self.durable) = (head, durable);
    }

    /// Forgets everything that is in memory.
    fn crash(&mut self) {
        let bytes = self.head.to_bytes(DISK);
        let head = newest([&bytes, &[0; HEAD_BYTES]], DISK).expect("a head is whole");
        assert_eq!(head, self.head);
        self.tree = Tree::new(0, head.roots[0]);
        self.model = self.durable.clone();
        let mut used = RoaringBitmap::new();
        self.pages = Pages::new(DISK, head.generation);
        self.ask(|tree, pages| {
            used.clear();
            tree.reach(pages, &mut used)
        });
        self.pages.found(&used);
    }

    fn check(&mut self) {
        assert_eq!(self.tree.len(), self.model.len() as u64);
        assert_eq!(self.tree.check(&self.pages), Ok(()));
        let (mut from, mut seen) = (wide(0), Model::new());
        while let Some((key, value)) = self.ask(|tree, pages| tree.at_or_after(pages, &from)) {
            seen.insert(key, value);
            let last = u32::from_be_bytes(key[KEY - 4..].try_into().expect("four bytes"));
            from = wide(last + 1);
        }
        assert_eq!(seen, self.model);
    }
}

#[test]
fn a_tree_agrees_with_a_map_through_evictions_and_crashes() {
    for seed in 0..40 {
        let mut rng = ChaCha8Rng::seed_from_u64(seed);
        let mut index = Index::new(3 + seed as usize % 30);
        let keys = [40, 400, 4000][seed as usize % 3];
        for _ in 0..4000 {
            let key = rng.next_u32() % keys;
            match rng.next_u32() % 100 {
                0..45 => index.insert(key, rng.next_u32() as u8),
                45..72 => index.remove(key),
                72..75 => index.remove_last(key),
                75..82 => index.look(key),
                82..85 => index.look_on(key),
                85..90 => (0..30).for_each(|n| index.remove(key + n)),
                90..94 => (0..30).for_each(|n| index.insert(key + n, n as u8)),
                94..97 => index.write(1 + key as usize % 4),
                97..99 => index.make_durable_while(|index, n| {
                    index.insert(n * 7 % 400, n as u8);
                    index.remove(n * 7 % 400 + 1);
                }),
                _ => index.crash(),
            }
        }
        index.check();
        index.crash();
        index.check();
    }
}

#[test]
fn a_page_that_the_durable_head_reaches_keeps_its_bytes() {
    let mut index = Index::new(usize::MAX);
    (0..500).for_each(|key| index.insert(key, 1));
    index.make_durable();
    let before = index.medium.clone();
    (0..500).for_each(|key| index.insert(key, 2));
    (0..250).for_each(|key| index.remove(2 * key));
    index.write(usize::MAX);
    for (at, bytes) in &before {
        assert_eq!(&index.medium[at], bytes, "page at {at}");
    }
    index.crash();
    index.check();
}

#[test]
fn freed_pages_are_used_again() {
    let mut index = Index::new(usize::MAX);
    (0..2000).for_each(|key| index.insert(key, 1));
    index.make_durable();
    let bytes = index.pages.bytes();
    for _ in 0..20 {
        (0..2000).for_each(|key| index.insert(key, 3));
        index.make_durable();
    }
    assert!(index.pages.bytes() <= 2 * bytes + 4096);
    (0..2000).for_each(|key| index.remove(key));
    index.make_durable();
    assert_eq!((index.pages.bytes(), index.tree.root()), (2 * 4096, Root::default()));
}

#[test]
fn ascending_keys_fill_their_pages() {
    let mut index = Index::new(usize::MAX);
    (0..1900).for_each(|key| index.insert(key, 1));
    let leaves = 1900_usize.div_ceil(Small::LEAF.capacity());
    assert!(index.pages.in_memory() <= leaves + leaves / 10 + 2, "{} pages", index.pages.in_memory());
}

#[test]
fn a_search_near_the_last_one_takes_no_way_down_from_the_root() {
    let mut index = Index::new(usize::MAX);
    (0..1900).for_each(|key| index.insert(2 * key, 1));
    crate::base::steps::taken();
    let mut searches = index.tree.searches(&index.pages);
    for key in 0..3800 {
        let found = searches.at_or_before(&wide(key)).expect("all is in memory");
        assert_eq!(found.map(|(key, _)| key), Some(wide(key - key % 2)));
    }
    let leaves = 1900_u64.div_ceil(Small::LEAF.capacity() as u64);
    assert!(
        crate::base::steps::taken() <= 3 * leaves,
        "behind the last entry of a leaf, the next one is looked at"
    );
}

#[test]
fn an_index_is_whole_while_all_its_pages_are_in_memory() {
    let mut index = Index::new(3);
    (0..2000).for_each(|key| index.insert(key, 1));
    assert!(index.pages.is_whole());
    index.make_durable();
    index.pages.evict(index.memory_max);
    assert!(!index.pages.is_whole(), "all but three pages are evicted, where that can be");
    index.memory_max = usize::MAX;
    (0..2000).for_each(|key| index.look(key));
    assert!(index.pages.is_whole());
    (0..2000).for_each(|key| index.remove(key));
    assert!(index.pages.is_whole(), "the released pages are not reached");
}

#[test]
fn a_page_that_is_read_a_second_time_and_was_released_meanwhile_is_not_taken() {
    let mut index = Index::new(usize::MAX);
    (0..200).for_each(|key| index.insert(key, 1));
    index.make_durable();
    let in_memory = index.pages.in_memory();
    let before: Vec<PageNo> = index.medium.keys().map(|at| PageNo((at / PAGE_BYTES as u64) as u32)).collect();
    (0..200).for_each(|key| index.insert(key, 2));
    before.iter().for_each(|page| index.load(*page));
    assert_eq!((index.pages.in_memory(), index.pages.is_whole()), (in_memory, true));
}

#[test]
fn a_damaged_page_says_which_field_is_wrong() {
    let mut index = Index::new(usize::MAX);
    index.insert(1, 1);
    index.make_durable();
    let page = index.head.roots[0].page.expect("a root");
    let bytes = index.medium[&page.position()].clone();
    let mut fresh = Pages::new(DISK, 1);
    let reason = |pages: &mut Pages, page, bytes: &[u8]| {
        pages.loaded(page, bytes).expect_err("the page is damaged").reason
    };
    for at in 0..bytes.len() {
        let mut flipped = bytes.clone();
        flipped[at] ^= 1;
        assert_eq!(reason(&mut fresh, page, &flipped), "its checksum does not match its content");
    }
    assert_eq!(reason(&mut fresh, PageNo(9), &bytes), "it has the number of another page");
    assert_eq!(reason(&mut fresh, page, &bytes[1..]), "its length");
    let mut foreign = Pages::new([8; 16], 1);
    assert_eq!(reason(&mut foreign, page, &bytes), "it belongs to another disk");
    let node = Node::from_bytes(&bytes, page, DISK[..12].try_into().expect("twelve"), 1).expect("whole");
    let mut young = node;
    young.set_generation(5);
    let bytes = young.to_bytes(page, DISK[..12].try_into().expect("twelve"));
    assert_eq!(reason(&mut fresh, page, &bytes), "it is younger than the head of the index");
}

#[test]
fn the_newer_whole_head_counts() {
    let head = |generation| Head { generation, roots: vec![Root::default(); 2], note: vec![1, 2, 3] };
    let (old, new) = (head(4).to_bytes(DISK), head(5).to_bytes(DISK));
    assert_eq!(newest([&old, &new], DISK), Ok(head(5)));
    assert_eq!(newest([&new, &old], DISK), Ok(head(5)));
    for at in 0..new.len() {
        let mut flipped = new.clone();
        flipped[at] ^= 4;
        assert_eq!(newest([&old, &flipped], DISK), Ok(head(5)), "byte {at}: the other copy counts");
        assert!(head_fault(&flipped, DISK).is_some() && !is_head_lost(&flipped, DISK));
        let other = (at + HEAD_BYTES / 2) % HEAD_BYTES;
        flipped[other] ^= 4;
        assert_eq!(newest([&old, &flipped], DISK), Ok(head(4)), "byte {at}, and the same of the other copy");
        assert!(is_head_lost(&flipped, DISK));
    }
    let torn = [&new[..HEAD_BYTES / 2], &old[HEAD_BYTES / 2..]].concat();
    assert_eq!(
        newest([&torn, &[0; HEAD_BYTES]], DISK),
        Ok(head(5)),
        "a crash cut the write of both copies in two"
    );
    assert_eq!(newest([&[], &[0; 512]], DISK), Err(HeadError::None));
    assert_eq!(newest([&old, &new], [1; 16]), Err(HeadError::Foreign));
}
