use crate::vault::transfer::source::read::PARTS_MAX;
use crate::vault::transfer::source::*;
use crate::vault::{Codec, CreateVault, create, with_vault};
use quietus_vault::chunk::Compression;
use quietus_vault::client::{Chunk, Preparer, read_folder, read_snapshot};
use std::fs::File;
use std::os::unix::fs::FileExt;
use std::time::Instant;
use tempfile::TempDir;

const MIB: usize = 1 << 20;

/// A new vault, and a folder beside it that is to be put.
fn vault() -> (TempDir, PathBuf, PathBuf) {
    let dir = tempfile::tempdir().unwrap();
    let (vault, files) = (dir.path().join("vault"), dir.path().join("files"));
    let (size, container) = (Some(64 << 20), Some(1 << 20));
    let options = CreateVault { medium: None, size, container, policy: "zero".into(), compress: Codec::Lz4 };
    create(&vault, &options, &mut |_, _| true).unwrap();
    fs::create_dir(&files).unwrap();
    (dir, vault, files)
}

/// Bytes that no two seeds share, half of which compress.
fn noise(seed: u64, length: usize) -> Vec<u8> {
    let mut bytes = vec![0; length];
    let mut output = blake3::Hasher::new().update(&seed.to_le_bytes()).finalize_xof();
    bytes.chunks_mut(512).for_each(|piece| {
        let half = piece.len().div_ceil(2);
        output.fill(&mut piece[..half]);
    });
    bytes
}

/// Files of many lengths in some folders: holes, hard links, and content that comes twice.
fn fill(files: &Path) {
    for folder in 0..4 {
        let folder_path = files.join(format!("folder {folder}"));
        fs::create_dir(&folder_path).unwrap();
        for number in 0..30 {
            let seed = folder * 20 + number;
            let path = folder_path.join(number.to_string());
            fs::write(&path, noise(seed, (seed as usize * 7919) % 90_000)).unwrap();
            if number % 10 == 0 {
                fs::hard_link(&path, files.join(format!("link {folder} {number}"))).unwrap();
            }
        }
    }
    fs::write(files.join("large"), noise(1000, 5 * MIB + 17)).unwrap();
    let holes = File::create(files.join("holes")).unwrap();
    holes.write_all_at(&noise(1001, MIB + 5), 3 << 20).unwrap();
    holes.set_len(9 << 20).unwrap();
    std::os::unix::fs::symlink("large", files.join("symbolic")).unwrap();
}

fn with<T>(vault: &Path, act: impl FnOnce(&mut Client) -> T) -> T {
    with_vault(vault, |client| Ok::<T, Error>(act(client)), |_| {}).unwrap()
}

fn label(name: &str) -> Label {
    Label { name: name.into(), host: "here".into(), tags: Vec::new() }
}

fn wanted<'a>(paths: &'a [PathBuf], exclude: &'a Globs) -> Wanted<'a> {
    Wanted { paths, exclude, one_file_system: false, exclude_caches: false, reread: false }
}

fn copied(from: &Path, to: &Path) {
    fs::create_dir(to).unwrap();
    for entry in fs::read_dir(from).unwrap() {
        let entry = entry.unwrap();
        if entry.file_type().unwrap().is_file() {
            fs::copy(entry.path(), to.join(entry.file_name())).unwrap();
        }
    }
}

/// The recipe of the folder in a snapshot. The folders above it are the host's, and other programs change them.
fn folder(client: &mut Client, put: &Put) -> Recipe {
    let mut folder = read_snapshot(client, SnapshotId(put.snapshot)).unwrap().folder;
    loop {
        let Node { name, kind: Kind::Folder(below), .. } = read_folder(client, &folder).unwrap().remove(0)
        else {
            panic!("a file above the folder");
        };
        folder = below;
        if name == b"files" {
            return folder;
        }
    }
}

#[test]
fn any_number_of_readers_makes_the_same_snapshots() {
    let (dir, vault, files) = vault();
    fill(&files);
    let put = |vault: &Path, readers| {
        with(vault, |client| {
            let (paths, exclude) = ([files.clone()], Globs::default());
            let mut put = |reread| {
                let wanted = Wanted { reread, ..wanted(&paths, &exclude) };
                put_with(readers, client, &label("a"), wanted, &mut |_, _| true).unwrap()
            };
            let (first, again) = (put(true), put(true));
            assert_eq!((first.left_out_count, first.files), (0, 120 + 12 + 3));
            let (one, other) = (folder(client, &first), folder(client, &again));
            assert_eq!(one, other);
            (one, first.new_chunks)
        })
    };
    let all: Vec<_> = [1, 2, 7].map(|readers| (readers, dir.path().join(readers.to_string()))).into();
    for (_, path) in &all {
        copied(&vault, path);
    }
    let made: Vec<_> = all.iter().map(|(readers, path)| put(path, *readers)).collect();
    assert!(made.iter().all(|it| *it == made[0]));
}

/// A put of the folder whose walk and readers are ahead, and `act`, which stands for the thread that stores.
fn ahead(readers: usize, act: impl FnOnce(&Path, &mut Task<'_, '_>, &Ahead), fill: impl FnOnce(&Path)) {
    let (_dir, vault, files) = vault();
    fill(&files);
    let (mut top, exclude) = (Branch::default(), Globs::default());
    top.add(&files).unwrap();
    let wanted = wanted(&[], &exclude);
    with(&vault, |client| {
        let mut step = |_, _| true;
        let mut task = Task::begin(client, 0, &mut step).unwrap();
        thread::scope(|scope| {
            let (ahead, _) = task.go_ahead(scope, readers, &top, &wanted, None).unwrap();
            act(&files, &mut task, &ahead);
        });
    });
}

fn wait_until(is_so: impl Fn() -> bool) {
    let begun = Instant::now();
    while !is_so() {
        assert!(begun.elapsed() < Duration::from_secs(60), "it never is so");
        thread::yield_now();
    }
}

/// The next entry that is no folder.
fn next_entry(ahead: &Ahead) -> Option<Entry> {
    let of = |found| if let Found::Entry(entry) = found { Some(*entry) } else { None };
    ahead.found.iter().find_map(of)
}

#[test]
fn a_file_is_read_no_further_than_its_parts_may_wait() {
    let stored_late = |files: &Path, _: &mut Task<'_, '_>, ahead: &Ahead| {
        let Some(Entry { content: Content::Coming(parts), .. }) = next_entry(ahead) else {
            panic!("no file")
        };
        wait_until(|| parts.is_full());
        // Besides the parts that wait, the reader has one in hand.
        let bytes_max = (PARTS_MAX as u64 + 2) << 20;
        File::options().write(true).open(files.join("large")).unwrap().set_len(bytes_max).unwrap();
        let bytes = parts.iter().map(|part| match part {
            Part::Chunks(chunks) => chunks.iter().map(Chunk::raw_bytes).sum(),
            Part::Hole(_) | Part::End(_) => 0,
        });
        assert!(bytes.sum::<u64>() <= bytes_max, "what was cut off had been read");
    };
    ahead(3, stored_late, |files| fs::write(files.join("large"), noise(1, 40 * MIB)).unwrap());
}

#[test]
fn files_are_read_no_further_ahead_than_they_may_wait() {
    let count = 10 * FOUND_MAX;
    let stored_late = |files: &Path, _: &mut Task<'_, '_>, ahead: &Ahead| {
        wait_until(|| ahead.found.is_full());
        fs::remove_dir_all(files).unwrap();
        let mut read = 0;
        while let Some(entry) = next_entry(ahead) {
            let Content::Coming(parts) = entry.content else { panic!("no file") };
            read += usize::from(parts.iter().any(|part| matches!(part, Part::End(Ok(_)))));
        }
        assert!(read <= FOUND_MAX + 1, "{read} files were read");
    };
    let files = |files: &Path| (0..count).for_each(|it| fs::write(files.join(it.to_string()), "x").unwrap());
    ahead(3, stored_late, files);
}

#[test]
fn a_file_that_fails_in_the_middle_is_left_out_and_owed() {
    let (_dir, vault, _) = vault();
    with(&vault, |client| {
        let (name, about) = (b"half".to_vec(), fs::metadata(&vault).unwrap());
        let metadata = attributes::read(&vault, &about).unwrap();
        let (sender, parts) = bounded(PARTS_MAX);
        let key = client.home().key().clone();
        let mut preparer = Preparer::new(&key, Compression::None);
        let chunks = preparer.cut(&mut noise(5, MIB), true, true);
        sender.send(Part::Chunks(chunks)).unwrap();
        sender.send(Part::End(Err(std::io::Error::other("a bad sector")))).unwrap();
        let (tell, found) = bounded(2);
        let content = Content::Coming(parts);
        let entry = Entry { name, path: "half".into(), about, metadata, content };
        tell.send(Found::Entry(Box::new(entry))).unwrap();
        tell.send(Found::End).unwrap();
        let mut step = |_, _| true;
        let mut task = Task::begin(client, 0, &mut step).unwrap();
        let folder = task.folder(&Ahead { found, late: bounded(1).0 });
        let put = task.end(&label("a"), folder).unwrap();
        assert_eq!((put.left_out, put.left_out_count), (vec!["half: a bad sector".to_owned()], 1));
        assert!(put.files == 0 && put.new_chunks > 1);
        assert_eq!(client.fill().unwrap().owed.len(), 1);
    });
}

#[test]
fn an_interrupted_put_ends_with_all_its_threads_and_owes_what_it_stored() {
    let (_dir, vault, files) = vault();
    fill(&files);
    for last in [1, 40, 170, 400] {
        with(&vault, |client| {
            let (owed, mut steps) = (client.fill().unwrap().owed.len(), 0);
            let mut step = |_, _| {
                steps += 1;
                steps < last
            };
            let (paths, exclude) = ([files.clone()], Globs::default());
            let put = put_with(3, client, &label("a"), wanted(&paths, &exclude), &mut step);
            assert!(matches!(put, Err(Error::Interrupted)), "{put:?}");
            assert!(client.roots().unwrap().is_empty());
            assert_eq!(client.fill().unwrap().owed.len(), owed + usize::from(last > 1));
        });
    }
}
