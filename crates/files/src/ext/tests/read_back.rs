//! An image as a source, and everything that can be asked of it.

use super::*;
use crate::Unread;
use quietus_core::base::units::{Addr, Extent};
use std::collections::BTreeMap;
use std::os::unix::fs::FileExt;
use std::path::Path;

/// A file of this machine with an image in it.
pub(super) struct Image(std::fs::File);

impl Image {
    pub fn new(path: &Path) -> Self {
        Self(std::fs::File::open(path).unwrap())
    }

    pub fn part(&self, at: u64, len: u64) -> Vec<u8> {
        let mut part = vec![0; len as usize];
        self.0.read_exact_at(&mut part, at).unwrap();
        part
    }
}

impl Source for Image {
    fn bytes(&self) -> u64 {
        self.0.metadata().unwrap().len()
    }

    fn read(&mut self, at: Extent<Addr>) -> Result<Vec<u8>, Unread> {
        Ok(self.part(at.start.0, at.len))
    }
}

/// The entries of a folder.
pub(super) fn list(source: &mut dyn Source, volume: &mut dyn Volume, folder: FileId) -> Vec<Entry> {
    let mut found = Vec::new();
    let listed = volume.list(source, folder, &mut |entry| {
        found.push(entry);
        true
    });
    listed.unwrap();
    found
}

/// All paths in order, without a leading `/`, and their files.
fn files(source: &mut dyn Source, volume: &mut dyn Volume) -> BTreeMap<String, FileId> {
    let (mut found, mut folders) = (BTreeMap::new(), vec![(String::new(), volume.root())]);
    while let Some((path, folder)) = folders.pop() {
        for entry in list(source, volume, folder) {
            let path = format!("{path}{}", String::from_utf8_lossy(&entry.name));
            if volume.attributes(source, entry.file).unwrap().kind == Kind::Folder {
                folders.push((format!("{path}/"), entry.file));
            }
            assert_eq!(found.insert(path, entry.file), None);
        }
    }
    found
}

pub(super) fn paths(source: &mut dyn Source, volume: &mut dyn Volume) -> Vec<String> {
    files(source, volume).into_keys().collect()
}

/// The file at a path, found name by name.
pub(super) fn file_at(source: &mut dyn Source, volume: &mut dyn Volume, path: &str) -> FileId {
    let root = volume.root();
    path.split('/')
        .fold(root, |folder, name| volume.find(source, folder, name.as_bytes()).unwrap().unwrap().file)
}

pub(super) fn runs(source: &mut dyn Source, volume: &mut dyn Volume, file: FileId) -> Vec<Run> {
    let mut runs = Vec::new();
    let told = volume.runs(source, file, &mut |run| {
        runs.push(run);
        true
    });
    told.unwrap();
    runs
}

/// The content of a file, read in uneven parts.
pub(super) fn whole(source: &mut dyn Source, volume: &mut dyn Volume, file: FileId) -> Vec<u8> {
    let mut content = Vec::new();
    loop {
        let part = volume.read(source, file, content.len() as u64, 777_777).unwrap();
        if part.is_empty() {
            return content;
        }
        content.extend(part);
    }
}

/// Everything that a volume says, by path. Large files are known by their runs.
pub(super) type Snapshot = BTreeMap<String, String>;

/// Compares path by path, so that a difference is short.
pub(super) fn assert_same(found: &Snapshot, expected: &Snapshot) {
    assert!(found.keys().eq(expected.keys()), "{:?} {:?}", found.keys(), expected.keys());
    found.iter().for_each(|(path, told)| assert_eq!(Some(told), expected.get(path), "{path}"));
}

pub(super) fn snapshot(path: &Path) -> Snapshot {
    let mut image = Image::new(path);
    let mut volume = open(&mut image).unwrap();
    let all = files(&mut image, &mut *volume);
    let told = |(path, file)| (path, describe(&mut image, &mut *volume, file));
    all.into_iter().map(told).collect()
}

fn describe(image: &mut Image, volume: &mut dyn Volume, file: FileId) -> String {
    let attributes = volume.attributes(image, file).unwrap();
    let mut extended = volume.extended(image, file).unwrap();
    extended.sort();
    let content = match attributes.kind {
        Kind::Regular if attributes.bytes > 16 << 20 => format!("{:?}", runs(image, volume, file)),
        Kind::Regular => format!("{:x?}", crc32c::crc32c(&whole(image, volume, file))),
        Kind::Link => format!("{:?}", volume.link(image, file).unwrap()),
        _ => String::new(),
    };
    format!("{file:?} {attributes:?} {extended:?} {content}")
}
