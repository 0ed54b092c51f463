//! Files that are put into an image, and looked for in it.

use super::read_back::{Image, file_at, whole};
use super::*;
use std::collections::BTreeMap;
use std::os::unix::fs::{FileExt, PermissionsExt, symlink};
use std::path::Path;

/// Files up to this size are compared as a whole.
const WHOLE_BYTES_MAX: u64 = 8 << 20;

/// Bytes that do not repeat, the same for the same seed.
pub(super) fn noise(seed: u64, len: usize) -> Vec<u8> {
    let mut state = seed.wrapping_mul(0x9E37_79B9_7F4A_7C15) | 1;
    let next = |_| {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        (state >> 32) as u8
    };
    (0..len).map(next).collect()
}

/// A regular file: its size, and its data between holes.
pub(super) struct File {
    pub bytes: u64,
    pub data: Vec<(u64, Vec<u8>)>,
}

/// Files by their paths, without a leading `/`.
#[derive(Default)]
pub(super) struct Tree {
    pub files: BTreeMap<String, File>,
    pub links: BTreeMap<String, String>,
    pub folders: Vec<String>,
}

impl Tree {
    /// Files of every size and form that decides how an inode holds them.
    pub fn varied() -> Self {
        let mut tree = Self::default();
        for size in [0, 1, 59, 60, 61, 100, 150, 1024, 4096, 5000, 70_000, 3_000_000] {
            tree.add(&format!("size-{size}"), &[(0, size)], size as u64);
        }
        // Behind the last data of a file that was inline for a while, mke2fs leaves out a hole.
        let islands: Vec<(u64, usize)> = (0..400).map(|n| (n * 65_536, 700)).collect();
        tree.add("islands", &islands, 399 * 65_536 + 700);
        tree.add("triple", &[(0, 10), (300_000, 5000), (70 << 20, 9000)], (70 << 20) + 9000);
        tree.add("far", &[(4096, 4096), (5 << 30, 123)], (5 << 30) + 123);
        tree.add("all-hole", &[], 1 << 20);
        for n in 0..400 {
            tree.add(&format!("many/entry-{n}-{}", "x".repeat(n % 60)), &[(0, n % 7)], (n % 7) as u64);
        }
        tree.add(&format!("deep/er/{}", "n".repeat(255)), &[(0, 20)], 20);
        for length in [1, 58, 59, 60, 61, 150, 1000] {
            tree.links.insert(format!("link-{length}"), "t".repeat(length));
        }
        tree.folders = ["many", "deep", "deep/er", "empty"].map(String::from).to_vec();
        tree
    }

    pub fn add(&mut self, path: &str, data: &[(u64, usize)], bytes: u64) {
        let filled = |(n, (at, len)): (usize, &(u64, usize))| (*at, noise(*at + n as u64 + 1, *len));
        let data = data.iter().enumerate().map(filled).collect();
        self.files.insert(path.into(), File { bytes, data });
    }

    /// Writes the files to a folder of this machine.
    pub fn put(&self, root: &Path) {
        std::fs::create_dir_all(root).unwrap();
        for folder in &self.folders {
            std::fs::create_dir_all(root.join(folder)).unwrap();
        }
        for (path, file) in &self.files {
            let made = std::fs::File::create(root.join(path)).unwrap();
            made.set_len(file.bytes).unwrap();
            file.data.iter().for_each(|(at, data)| made.write_all_at(data, *at).unwrap());
            made.set_permissions(std::fs::Permissions::from_mode(0o640)).unwrap();
        }
        for (path, target) in &self.links {
            symlink(target, root.join(path)).unwrap();
        }
    }

    /// Checks that `image` has all these files, and no others but `lost+found`.
    pub fn check(&self, image: &mut Image, volume: &mut dyn Volume) {
        let mut expected: Vec<String> =
            ["lost+found".into()].into_iter().chain(self.folders.clone()).collect();
        expected.extend(self.files.keys().chain(self.links.keys()).cloned());
        expected.sort();
        assert_eq!(read_back::paths(image, volume), expected);
        for (path, target) in &self.links {
            let link = file_at(image, volume, path);
            assert_eq!(volume.link(image, link).unwrap(), target.as_bytes(), "{path}");
        }
        for (path, file) in &self.files {
            file.check(path, image, volume);
        }
    }
}

impl File {
    /// The content from byte `at` on.
    fn part(&self, at: u64, len: usize) -> Vec<u8> {
        let end = (at + len as u64).min(self.bytes);
        let mut part = vec![0; end.saturating_sub(at) as usize];
        for (from, data) in &self.data {
            for (n, byte) in data.iter().enumerate() {
                let byte_at = from + n as u64;
                if (at..end).contains(&byte_at) {
                    part[(byte_at - at) as usize] = *byte;
                }
            }
        }
        part
    }

    fn check(&self, path: &str, image: &mut Image, volume: &mut dyn Volume) {
        let file = file_at(image, volume, path);
        let attributes = volume.attributes(image, file).unwrap();
        assert_eq!((attributes.kind, attributes.bytes), (Kind::Regular, self.bytes), "{path}");
        assert_eq!((attributes.mode, attributes.links), (Some(0o640), Some(1)), "{path}");
        if self.bytes <= WHOLE_BYTES_MAX {
            assert_eq!(whole(image, volume, file), self.part(0, self.bytes as usize), "{path}");
        }
        for at in self.data.iter().map(|(at, _)| at.saturating_sub(1500)).chain([self.bytes - self.bytes / 9])
        {
            assert_eq!(volume.read(image, file, at, 9000).unwrap(), self.part(at, 9000), "{path} at {at}");
        }
        assert_eq!(volume.read(image, file, self.bytes, 10).unwrap(), [0; 0], "{path}");
        self.check_runs(path, image, volume, file);
    }

    /// All data lies in runs, and runs have what is read.
    fn check_runs(&self, path: &str, image: &mut Image, volume: &mut dyn Volume, file: FileId) {
        let runs = read_back::runs(image, volume, file);
        assert!(runs.windows(2).all(|pair| pair[0].at + pair[0].bytes <= pair[1].at), "{path}: {runs:?}");
        assert!(runs.last().is_none_or(|run| run.at + run.bytes <= self.bytes), "{path}: {runs:?}");
        for (at, data) in self.data.iter().filter(|(_, data)| !data.is_empty()) {
            let last = at + data.len() as u64 - 1;
            let covers = |byte| runs.iter().any(|run| (run.at..run.at + run.bytes).contains(&byte));
            assert!(covers(*at) && covers(last), "{path} at {at}: {runs:?}");
        }
        for run in runs {
            let read = volume.read(image, file, run.at, run.bytes as usize).unwrap();
            let placed = run.place.map(|place| image.part(place.0, run.bytes));
            assert!(placed.is_none_or(|placed| placed == read), "{path}: {run:?}");
        }
    }
}
