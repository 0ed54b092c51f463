//! What rule E keeps over a clean stop, as bytes (`docs/formats/view.md`).

use super::RuleE;
use super::deaths::Deaths;
use super::history::Lately;
use super::names::Names;
use crate::format::Block;
use quietus_core::units::Millis;
use roaring::RoaringBitmap;
use std::collections::BTreeMap;
use std::io;

/// Sets that lie one behind the other.
const SETS: usize = 9;

impl RuleE {
    /// What it knows, for [`RuleE::resume`]. Nothing while a search goes on:
    /// then a cold attach knows more.
    #[must_use]
    pub fn view(&self) -> Option<Vec<u8>> {
        if self.is_broken() || !self.survey.is_done() || !self.names.is_settled() {
            return None;
        }
        let [named, guessed, uncertain] = self.names.sets();
        let [condemned, below] = self.deaths.sets();
        let lately = self.lately.all();
        let sets: [&RoaringBitmap; SETS] = [
            &self.live,
            &self.suspicious,
            &self.doubted.all(),
            &lately,
            &named,
            &guessed,
            &uncertain,
            &condemned,
            &below,
        ];
        let mut bytes = vec![u8::from(self.in_use), u8::from(self.survey.rereads_maps())];
        for set in sets {
            bytes.extend((set.serialized_size() as u64).to_le_bytes());
            set.serialize_into(&mut bytes).expect("writing to memory does not fail");
        }
        self.names.put_counts(&mut bytes);
        Some(bytes)
    }

    /// Goes on where [`RuleE::view`] left off; nothing was written meanwhile.
    /// Says whether that could be done; else it searches, as it would have.
    pub fn resume(&mut self, view: &[u8]) -> bool {
        self.resumed(view).is_some()
    }

    fn resumed(&mut self, view: &[u8]) -> Option<()> {
        let blocks = self.format.blocks();
        let ([in_use, rereads], mut rest) = view.split_first_chunk::<2>()?;
        let mut sets = Vec::new();
        for _ in 0..SETS {
            sets.push(take_set(&mut rest, blocks).ok()?);
        }
        let sets: [RoaringBitmap; SETS] = sets.try_into().ok()?;
        let [live, suspicious, doubted, lately, named, guessed, uncertain, condemned, below] = sets;
        let names = Names::restore([named, guessed, uncertain], &mut rest, blocks)?;
        if !rest.is_empty() {
            return None;
        }
        self.survey.skip_inodes();
        if *rereads == 0 {
            self.survey.skip_maps();
        }
        self.in_use = *in_use != 0;
        (self.live, self.suspicious, self.names) = (live, suspicious, names);
        (self.doubted, self.lately) = (kept(&doubted), kept(&lately));
        self.deaths = Deaths::restore(condemned, &below, self.clock.now);
        Some(())
    }
}

fn kept(blocks: &RoaringBitmap) -> Lately {
    let mut lately = Lately::new(0);
    lately.extend(blocks);
    lately
}

/// The next set in `bytes`, if it is one of blocks below `blocks`.
fn take_set(bytes: &mut &[u8], blocks: Block) -> io::Result<RoaringBitmap> {
    let (len, rest) = bytes.split_first_chunk::<8>().ok_or(io::ErrorKind::UnexpectedEof)?;
    let len = usize::try_from(u64::from_le_bytes(*len)).unwrap_or(usize::MAX);
    let (set, rest) = rest.split_at_checked(len).ok_or(io::ErrorKind::UnexpectedEof)?;
    *bytes = rest;
    let set = RoaringBitmap::deserialize_from(set)?;
    let fits = set.max().is_none_or(|last| last < blocks);
    if fits { Ok(set) } else { Err(io::ErrorKind::InvalidData.into()) }
}

impl Names {
    /// Whether it has followed every pointer, and is about to follow none; nor
    /// is a block of pointers claimed twice, as only a broken file system has.
    pub(super) fn is_settled(&self) -> bool {
        self.tasks.is_empty() && self.pointers_again.is_empty()
    }

    fn sets(&self) -> [RoaringBitmap; 3] {
        [self.named.clone(), self.guessed.clone(), self.uncertain.all()]
    }

    fn put_counts(&self, bytes: &mut Vec<u8>) {
        put_pairs(self.again.iter().map(|(block, more)| (*block, *more)), bytes);
        put_pairs(self.pointers.iter().map(|(block, level)| (*block, u32::from(*level))), bytes);
    }

    fn restore(sets: [RoaringBitmap; 3], bytes: &mut &[u8], blocks: Block) -> Option<Self> {
        let [named, guessed, uncertain] = sets;
        let again = take_pairs(bytes, blocks)?;
        let levels = take_pairs(bytes, blocks)?.into_iter();
        let pointers = levels.map(|(block, level)| Some((block, u8::try_from(level).ok()?)));
        let pointers = pointers.collect::<Option<_>>()?;
        Some(Self { named, again, guessed, pointers, uncertain: kept(&uncertain), ..Self::default() })
    }
}

impl Deaths {
    /// Those on their way to a verdict, and those of which only what lies below
    /// may be dead.
    fn sets(&self) -> [RoaringBitmap; 2] {
        let condemned = &self.young | &self.cut | &self.named | &self.ready;
        [condemned, &self.scour | self.unlinked.all()]
    }

    fn restore(condemned: RoaringBitmap, below: &RoaringBitmap, now: Millis) -> Self {
        let since = (!condemned.is_empty()).then_some(now);
        Self { young: condemned, since, unlinked: kept(below), ..Self::default() }
    }
}

/// Pairs of a block and a number, with how many there are before.
fn put_pairs(pairs: impl ExactSizeIterator<Item = (Block, u32)>, bytes: &mut Vec<u8>) {
    bytes.extend((pairs.len() as u64).to_le_bytes());
    for (block, number) in pairs {
        bytes.extend(block.to_le_bytes());
        bytes.extend(number.to_le_bytes());
    }
}

/// The pairs that [`put_pairs`] wrote, if they are of blocks below `blocks`.
fn take_pairs(bytes: &mut &[u8], blocks: Block) -> Option<BTreeMap<Block, u32>> {
    let (count, rest) = bytes.split_first_chunk::<8>()?;
    let len = usize::try_from(u64::from_le_bytes(*count)).ok()?.checked_mul(8)?;
    let (pairs, rest) = rest.split_at_checked(len)?;
    *bytes = rest;
    let number = |at: &[u8]| u32::from_le_bytes([at[0], at[1], at[2], at[3]]);
    let map: BTreeMap<_, _> = pairs.chunks_exact(8).map(|it| (number(it), number(&it[4..]))).collect();
    map.keys().next_back().is_none_or(|last| *last < blocks).then_some(map)
}
