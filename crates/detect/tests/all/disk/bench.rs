//! A watcher above bytes, and file systems to put there.

use crate::ext2::image::Image;
use quietus_core::base::units::{Addr, Extent, Millis};
use quietus_core::watch::{Attached, Content, Moment, Observation, Scope, Verdict, WatchStatus, Watcher};
use quietus_detect::formats::format::Prober;
use quietus_detect::rules::options::Options;
use quietus_detect::{Disk, Watch};

const PROBERS: &[Prober] = &[quietus_detect::formats::ext2::probe];

pub struct Bench {
    pub watcher: Box<dyn Watcher>,
    pub bytes: Vec<u8>,
    pub now: Millis,
    /// How many clients are connected.
    pub clients: usize,
}

impl Bench {
    pub fn disk(bytes: Vec<u8>) -> Self {
        Self::of(Box::new(Disk::new(bytes.len() as u64, PROBERS.to_vec(), Options::default())), bytes)
    }

    /// The same without an eye for partitions.
    pub fn watch(bytes: Vec<u8>) -> Self {
        Self::of(Box::new(Watch::new(bytes.len() as u64, PROBERS.to_vec(), Options::default())), bytes)
    }

    pub fn of(watcher: Box<dyn Watcher>, bytes: Vec<u8>) -> Self {
        Self { watcher, bytes, now: Millis(0), clients: 0 }
    }

    pub fn observe(&mut self, observation: Observation<'_>) {
        self.watcher.observe(
            Moment { now: self.now, clients: self.clients, attached: Attached::Direct },
            observation,
        );
    }

    pub fn connected(&mut self, clients: usize) {
        self.clients = clients;
        self.observe(Observation::Clients);
    }

    pub fn read(&mut self) {
        self.observe(Observation::Tick);
        while let Some(extent) = self.watcher.wants() {
            let content = self.bytes[range(extent)].to_vec();
            self.observe(Observation::Given { extent, content: Some(&content) });
            self.observe(Observation::Tick);
        }
    }

    pub fn wait(&mut self, ms: u64) {
        self.now.0 += ms;
        self.read();
    }

    /// Returns what it had to see first, and what may have been dead there.
    pub fn write(&mut self, at: u64, bytes: &[u8]) -> [Vec<Extent<Addr>>; 2] {
        self.change(Extent::new(at, bytes.len() as u64), Content::Bytes(bytes))
    }

    pub fn trim(&mut self, extent: Extent<Addr>) -> [Vec<Extent<Addr>>; 2] {
        self.change(extent, Content::Zeros)
    }

    fn change(&mut self, extent: Extent<Addr>, content: Content<'_>) -> [Vec<Extent<Addr>>; 2] {
        let suspicious = self.watcher.take_suspicious(extent);
        self.observe(Observation::Arrived { extent, content });
        let needs = self.watcher.needs(extent);
        for old_extent in needs.iter().copied() {
            let old = self.bytes[range(old_extent)].to_vec();
            self.observe(Observation::Overwriting { extent, content, old_extent, old: &old });
        }
        match content {
            Content::Bytes(bytes) => self.bytes[range(extent)].copy_from_slice(bytes),
            Content::Zeros => self.bytes[range(extent)].fill(0),
        }
        [needs, suspicious]
    }

    pub fn prove(&mut self) {
        if self.watcher.agenda().unproven_since.is_some() {
            self.observe(Observation::Cut);
            self.observe(Observation::Proven);
        }
    }

    pub fn verdicts(&mut self) -> Vec<(Extent<Addr>, Verdict)> {
        let scope = Scope { layers: true, all: false, is_busy: &|_| false };
        std::iter::from_fn(|| self.watcher.verdict(scope)).collect()
    }

    /// Reads, waits until it is quiet, proves: what is dead then, in order.
    pub fn dead(&mut self) -> Vec<Extent<Addr>> {
        for _ in 0..3 {
            self.wait(1000);
            self.prove();
        }
        let verdicts = self.verdicts().into_iter().filter(|(_, it)| *it == Verdict::Dead);
        let mut dead: Vec<_> = verdicts.map(|(extent, _)| extent).collect();
        dead.sort();
        dead
    }

    pub fn status(&self) -> WatchStatus {
        self.watcher.status()
    }
}

pub fn range(extent: Extent<Addr>) -> std::ops::Range<usize> {
    extent.start.0 as usize..extent.end() as usize
}

/// A file system of so many KiB with a few files, one of which is deleted.
pub fn ext2(name: &str, kib: u32, args: &[&str]) -> Vec<u8> {
    let mut image = Image::new(&format!("disk-{name}"), kib, args);
    let source = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/all/disk/bench.rs");
    image.debugfs(&format!("write {source} a\nwrite {source} b\nwrite {source} c\nrm b\n"));
    image.bytes
}

/// A disk of so many KiB with an MBR and these partitions: the first sector, and
/// what lies there.
pub fn partitioned(kib: usize, partitions: &[(usize, &[u8])]) -> Vec<u8> {
    let mut bytes = vec![0; kib << 10];
    for (first, content) in partitions {
        bytes[first * 512..][..content.len()].copy_from_slice(content);
    }
    let places: Vec<_> = partitions.iter().map(|(first, it)| (*first, it.len() / 512)).collect();
    bytes[..512].copy_from_slice(&mbr(&places));
    bytes
}

/// The first sector, for partitions with these first sectors and sizes.
pub fn mbr(partitions: &[(usize, usize)]) -> [u8; 512] {
    let mut bytes = [0; 512];
    for (n, (first, sectors)) in partitions.iter().enumerate() {
        let entry = &mut bytes[446 + 16 * n..][..16];
        entry[4] = 0x83;
        entry[8..12].copy_from_slice(&(*first as u32).to_le_bytes());
        entry[12..].copy_from_slice(&(*sectors as u32).to_le_bytes());
    }
    bytes[510..].copy_from_slice(&[0x55, 0xAA]);
    bytes
}
