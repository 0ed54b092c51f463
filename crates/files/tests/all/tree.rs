//! Questions to a volume, in short.

use crate::image::Image;
use quietus_core::base::units::{Addr, Extent};
use quietus_files::{Entry, Error, FileId, Kind, Run, Volume, path};

/// The names in the folder at `path`, in order.
pub fn names(volume: &mut dyn Volume, image: &mut Image, path: &str) -> Vec<String> {
    let (entries, result) = listed(volume, image, path);
    result.unwrap();
    entries
}

/// The names in the folder at `path`, and how the list ended.
pub fn listed(volume: &mut dyn Volume, image: &mut Image, path: &str) -> (Vec<String>, Result<(), Error>) {
    let folder = at(volume, image, path);
    let mut names = Vec::new();
    let result = volume.list(image, folder, &mut |it| {
        names.push(String::from_utf8(it.name).unwrap());
        true
    });
    (names, result)
}

pub fn at(volume: &mut dyn Volume, image: &mut Image, path: &str) -> FileId {
    path::walk(volume, image, path.as_bytes()).unwrap()
}

/// The content of a file, read at once; parts of it, in two orders, must be the same.
pub fn whole(volume: &mut dyn Volume, image: &mut Image, path: &str) -> Vec<u8> {
    let file = at(volume, image, path);
    let bytes = volume.attributes(image, file).unwrap().bytes as usize;
    let whole = volume.read(image, file, 0, bytes + 1).unwrap();
    assert_eq!(whole.len(), bytes);
    let parts: Vec<u64> = (0..bytes as u64).step_by(777).collect();
    for from in parts.iter().chain(parts.iter().rev()) {
        let part = volume.read(image, file, *from, 777).unwrap();
        assert_eq!(part, whole[*from as usize..(*from as usize + 777).min(bytes)], "from {from}");
    }
    assert_eq!(volume.read(image, file, bytes as u64, 1).unwrap(), b"");
    assert_eq!(volume.read(image, file, u64::MAX, 1).unwrap(), b"");
    whole
}

pub fn runs(volume: &mut dyn Volume, image: &mut Image, file: FileId) -> Result<Vec<Run>, Error> {
    let mut runs = Vec::new();
    volume.runs(image, file, &mut |run| {
        runs.push(run);
        runs.len() < 10_000
    })?;
    Ok(runs)
}

/// Asks who has what: of all rolls, and of some files.
fn ask_owners(volume: &mut dyn Volume, image: &mut Image, files: &[FileId]) {
    let end = image.bytes.len() as u64;
    let is_there = |at: Extent<Addr>| assert!(at.len > 0 && at.end() <= end, "{at:?} lies within the volume");
    let Some(owners) = volume.owners() else { return };
    for roll in owners.rolls(image).unwrap_or_default() {
        let _ = owners.roll(image, roll, &mut |_, extent| is_there(extent));
    }
    for file in files {
        let _ = owners.owned(image, *file, &mut |extent| is_there(extent));
    }
}

/// Asks everything of every file, as far as it can be reached through four folders. Returns how many files there were.
pub fn ask_everything(volume: &mut dyn Volume, image: &mut Image) -> usize {
    let mut folders = vec![(0, volume.root())];
    let (mut asked, mut files) = (0, Vec::new());
    while let Some((depth, folder)) = folders.pop() {
        let mut entries: Vec<Entry> = Vec::new();
        let _ = volume.list(image, folder, &mut |it| {
            entries.push(it);
            entries.len() < 300
        });
        for entry in entries {
            asked += 1;
            files.push(entry.file);
            assert!(!matches!(&*entry.name, b"" | b"." | b".."), "{entry:?}");
            assert!(!entry.name.contains(&b'/') && !entry.name.contains(&0), "{entry:?}");
            let _ = volume.find(image, folder, &entry.name);
            let _ = runs(volume, image, entry.file);
            let _ = volume.read(image, entry.file, 1000, 20_000);
            let _ = (volume.link(image, entry.file), volume.extended(image, entry.file));
            let is_folder = volume.attributes(image, entry.file).is_ok_and(|it| it.kind == Kind::Folder);
            if is_folder && depth < 4 && asked < 1000 {
                folders.push((depth + 1, entry.file));
            }
        }
    }
    files.truncate(20);
    ask_owners(volume, image, &files);
    asked
}
