//! The parts of a snapshot, so that each piece of it is recognised wherever it turns up.

use quietus_vault::chunk::Compression;

use crate::machine::content::{Tag, fill};
use crate::machine::rng::{Rng, mix};

/// An item that a vault has to destroy in the end.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub enum Item {
    /// The content of a chunk.
    Content(u32),
    /// The name of a file or of a snapshot.
    Name(u32),
}

impl Item {
    /// Whether the content is stored as it is, so that a laboratory recognises each layer of it. Other content is
    /// compressed.
    pub fn is_raw(self) -> bool {
        matches!(self, Item::Content(number) if number % 3 != 0)
    }

    pub fn compression(self) -> Compression {
        if self.is_raw() { Compression::None } else { Compression::Lz4 }
    }

    pub fn bytes(self) -> Vec<u8> {
        match self {
            Item::Content(number) if self.is_raw() => {
                let mut bytes = vec![0; 64 + 8 * (mix(u64::from(number)) % 200) as usize];
                fill(self.tag(), 0, &mut bytes);
                bytes
            }
            Item::Content(number) => {
                let line = self.needle();
                let times = 2 + mix(u64::from(number)) as usize % 60;
                line.iter()
                    .chain(b" and some more of it\n")
                    .copied()
                    .cycle()
                    .take(line.len() * times)
                    .collect()
            }
            Item::Name(_) => self.needle(),
        }
    }

    /// Bytes that nothing else has, and that compression keeps.
    pub fn needle(self) -> Vec<u8> {
        match self {
            Item::Content(number) => format!("content-{number:06}-{:016x}", mix(u64::from(number) << 20 | 1)),
            Item::Name(number) => format!("name-{number:06}-{:016x}", mix(u64::from(number) << 20 | 2)),
        }
        .into_bytes()
    }

    /// The tag of raw content.
    pub fn tag(self) -> Tag {
        match self {
            Item::Content(number) => Tag(number + 1),
            Item::Name(_) => Tag(0),
        }
    }
}

/// The content of a snapshot.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Shot {
    /// The snapshot's name.
    pub name: u32,
    /// The chunks of each file, by the file's name.
    pub files: Vec<(u32, Vec<u32>)>,
}

impl Shot {
    pub fn items(&self) -> impl Iterator<Item = Item> + '_ {
        let files = self.files.iter().flat_map(|(name, chunks)| {
            chunks.iter().map(|number| Item::Content(*number)).chain([Item::Name(*name)])
        });
        files.chain([Item::Name(self.name)])
    }

    /// The name and the content of each file.
    pub fn content(&self) -> Vec<(Vec<u8>, Vec<u8>)> {
        let content =
            |chunks: &[u32]| chunks.iter().flat_map(|number| Item::Content(*number).bytes()).collect();
        self.files.iter().map(|(name, chunks)| (Item::Name(*name).bytes(), content(chunks))).collect()
    }

    /// A snapshot that shares some files and some chunks with `others`; `next` gives numbers that were never used.
    pub fn some(rng: &mut Rng, others: &[&Shot], next: &mut u32) -> Shot {
        let mut new = || {
            *next += 1;
            *next
        };
        let name = new();
        let mut files = Vec::new();
        for _ in 0..rng.range(1, 8) {
            let other = (!others.is_empty()).then(|| rng.pick(others));
            let old = other.map(|other| other.files[rng.index(other.files.len())].clone());
            let (mut name, mut chunks) = old.unwrap_or_else(|| (new(), Vec::new()));
            if rng.chance(40) {
                name = new();
            }
            if rng.chance(60) {
                (0..rng.range(0, 4)).for_each(|_| chunks.push(new()));
            }
            if chunks.len() > 12 {
                chunks.drain(..6);
            }
            files.push((name, chunks));
        }
        files.sort();
        files.dedup_by_key(|(name, _)| *name);
        Shot { name, files }
    }
}
