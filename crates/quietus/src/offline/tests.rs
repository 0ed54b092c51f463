use super::*;
use crate::base::zeros::filled;
use crate::disk::{CreateOptions, StoreKind};
use crate::front::control::{Call, Compacted};
use crate::host::directory::DirectoryErrorKind;
use crate::open_disk::copy::{CopyError, copy};
use quietus_core::base::zeros::is_zeros;
use quietus_core::store::overlay::Mode;
use std::fs::File;
use std::os::unix::fs::{FileExt, MetadataExt};

const BASE: u64 = 6 << 20;
const SIZE: u64 = 8 << 20;

/// An overlay above a base with data at some places, and what a guest sees.
struct Bench {
    dir: tempfile::TempDir,
    seen: Vec<u8>,
    next: u64,
}

fn silent(_: u64, _: u64) -> bool {
    true
}

fn close(disk: Offline) {
    disk.run(|_| Ok(())).expect("it stops");
}

impl Bench {
    fn new(policy: &str, mode: Mode) -> Self {
        let dir = tempfile::tempdir().expect("a directory");
        let mut bench = Self { dir, seen: vec![0; SIZE as usize], next: 4711 };
        let base = bench.make_base("golden", 1);
        bench.seen[..base.len()].copy_from_slice(&base);
        bench.create("disk", policy, mode);
        bench
    }

    fn file(&self, name: &str) -> PathBuf {
        self.dir.path().join(name)
    }

    /// An image with data in every third stretch of 300 KB or so, and a half block
    /// at its end.
    fn make_base(&mut self, name: &str, phase: usize) -> Vec<u8> {
        let mut bytes = vec![0; BASE as usize - 2048];
        for (n, part) in bytes.chunks_mut(300_000).enumerate() {
            if (n + phase).is_multiple_of(3) {
                part.fill(n as u8 * 8 + phase as u8);
            }
        }
        bytes[BASE as usize - 2148..].fill(0xee);
        let file = File::create(self.file(name)).expect("a file");
        file.set_len(bytes.len() as u64).expect("room");
        for run in filled(&bytes) {
            file.write_all_at(&bytes[run.clone()], run.start as u64).expect("room");
        }
        bytes
    }

    fn create(&self, name: &str, policy: &str, mode: Mode) {
        let options = CreateOptions {
            store: StoreKind::Overlay,
            base: Some(self.file("golden")),
            mode: Some(mode),
            size: Some(SIZE),
            policy: policy.into(),
            idle_after_ms: 20,
            deadline_ms: 1000,
            ..CreateOptions::default()
        };
        DiskDir::create(&self.file(name), &options).expect("a disk");
    }

    fn open(&self) -> Offline {
        Offline::start(DiskDir::open(&self.file("disk")).expect("it opens")).expect("it starts")
    }

    fn random(&mut self, below: u64) -> u64 {
        self.next = self.next.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (self.next >> 33) % below
    }

    /// A guest at work: writes and purges of all sizes.
    fn work(&mut self, times: usize) {
        let disk = self.open();
        for _ in 0..times {
            let start = self.random(SIZE / 512) * 512;
            let len = ((self.random(200) + 1) * 512).min(SIZE - start);
            let (range, kind) = (start as usize..(start + len) as usize, self.random(3));
            if kind == 0 {
                disk.purge(Extent::new(start, len)).expect("a purge");
                self.seen[range].fill(0);
            } else {
                let byte = self.random(255) as u8 + 1;
                disk.write(start, &vec![byte; len as usize]).expect("a write");
                self.seen[range].fill(byte);
            }
        }
        disk.flush().expect("a flush");
        close(disk);
    }

    fn check(&self, when: &str) {
        let disk = self.open();
        for piece in disk.whole().pieces(PIECE_BYTES) {
            let wanted = &self.seen[piece.start.0 as usize..piece.end() as usize];
            assert!(
                disk.read(piece).expect("a read") == wanted,
                "{when}: other content near {}",
                piece.start.0
            );
        }
        close(disk);
    }

    fn len(&self, name: &str) -> u64 {
        std::fs::metadata(self.file("disk").join(name)).expect("a file").len()
    }

    fn names(&self) -> Vec<String> {
        let entries = std::fs::read_dir(self.dir.path()).expect("a directory").flatten();
        let mut names: Vec<_> = entries.map(|it| it.file_name().to_string_lossy().into_owned()).collect();
        names.sort();
        names
    }
}

/// A step that says stop at its `n`th call.
fn until(n: usize) -> impl FnMut(u64, u64) -> bool {
    let mut steps = 0;
    move |_, _| {
        steps += 1;
        steps < n
    }
}

fn is_interruption(error: &OfflineError) -> bool {
    let of_disk = DiskErrorKind::Directory(DirectoryErrorKind::Interrupted);
    match error {
        OfflineError::Interrupted => true,
        OfflineError::Disk(error) => error.kind == of_disk,
        _ => false,
    }
}

/// The current state of a disk without keys.
fn now(disk: &Path) -> ExportOf<'_> {
    ExportOf { disk, at: None, zeros: false, source: None }
}

#[test]
fn an_export_has_what_the_guest_sees_and_no_more() {
    for mode in [Mode::Packed, Mode::Lazy, Mode::Punch] {
        let mut bench = Bench::new("clear", mode);
        bench.work(200);
        let image = bench.file("out.raw");
        let done = export(now(&bench.file("disk")), &image, ImageFormat::Raw, &mut silent).expect("an image");
        assert!(std::fs::read(&image).expect("the image") == bench.seen);
        assert_eq!((done.copied.size_bytes, bench.len("journal") > 0), (SIZE, true));
        assert!(done.copied.live_bytes < SIZE && done.host_bytes < SIZE, "{done:?}");
        let again =
            export(now(&bench.file("disk")), &image, ImageFormat::Raw, &mut silent).expect_err("it exists");
        assert!(again.to_string().contains("already exists"), "{again}");
        bench.check("after the export");
    }
}

#[test]
fn an_export_as_qcow2_has_the_same() {
    let mut bench = Bench::new("none", Mode::Lazy);
    bench.work(100);
    let (image, back) = (bench.file("out.qcow2"), bench.file("back"));
    match export(now(&bench.file("disk")), &image, ImageFormat::Qcow2, &mut silent) {
        Err(error) if error.to_string().contains("install") => return println!("skipped: {error}"),
        done => drop(done.expect("an image")),
    }
    assert_eq!(image.metadata().expect("the image").mode() & 0o777, 0o600, "others may read it");
    crate::disk::convert((&image, "qcow2"), (&back, "raw"), &mut silent).expect("it is qcow2");
    assert!(std::fs::read(&back).expect("the image") == bench.seen);
}

#[test]
fn an_export_that_is_stopped_leaves_nothing() {
    let mut bench = Bench::new("clear", Mode::Lazy);
    bench.work(100);
    for n in 1..4 {
        let stopped = export(now(&bench.file("disk")), &bench.file("out"), ImageFormat::Raw, &mut until(n));
        let stopped = stopped.expect_err("it is stopped").to_string();
        assert!(stopped.contains("interrupted"), "{stopped}");
        assert_eq!(bench.names(), ["disk", "golden"]);
    }
}

#[test]
fn an_image_is_written_to_an_empty_file_and_to_nothing_else() {
    let bench = Bench::new("clear", Mode::Lazy);
    let disk = bench.open();
    let golden = File::open(bench.file("golden")).expect("it opens");
    let unwritable = bench.file("unwritable");
    File::create(&unwritable).expect("a file");
    let unwritable = File::open(unwritable).expect("it opens");
    for (file, why) in [
        (None, "no file came"),
        (Some(&golden), "an empty regular file"),
        (File::open(bench.dir.path()).ok().as_ref(), "an empty regular file"),
        (Some(&unwritable), "cannot write the image"),
    ] {
        let refused = disk.0.reply(&Call::Export, file, &mut |_, _| true).expect_err(why);
        assert!(refused.to_string().contains(why), "{refused}");
    }
    close(disk);
}

#[test]
fn a_guest_that_changes_too_much_is_not_waited_for() {
    let dir = tempfile::tempdir().expect("a directory");
    let options = CreateOptions { size: Some(64 << 20), policy: "clear".into(), ..CreateOptions::default() };
    DiskDir::create(&dir.path().join("disk"), &options).expect("a disk");
    let disk = Offline::start(DiskDir::open(&dir.path().join("disk")).expect("it opens")).expect("it starts");
    disk.write(0, &[7; 4096]).expect("a write");
    let exported = |busy_rounds: usize| {
        let image = File::create_new(dir.path().join(busy_rounds.to_string())).expect("a file");
        let mut rounds = 0;
        let copied = copy(&disk.0.engine, &image, &mut |_, _| {
            rounds += 1;
            disk.write(0, &[7; 4096]).expect("a write");
            if rounds <= busy_rounds {
                disk.purge(Extent::new(1 << 20, 17 << 20)).expect("a purge");
            }
            true
        });
        copied.map(|copied| (copied.live_bytes, rounds))
    };
    let given_up = exported(usize::MAX);
    assert!(matches!(given_up, Err(CopyError::Restless)), "{given_up:?}");
    assert_eq!(exported(9).expect("an image"), (4096, 10));
    close(disk);
}

#[test]
fn a_disk_above_another_base_shows_what_it_showed() {
    for mode in [Mode::Packed, Mode::Lazy, Mode::Punch] {
        let mut bench = Bench::new("clear", mode);
        bench.work(60);
        bench.make_base("new", 2);
        let done = rebase(&bench.file("disk"), &bench.file("new"), false, &mut silent).expect("it works");
        assert!(done.copied_bytes > 0 && done.purged_bytes > 0, "{done:?}");
        std::fs::remove_file(bench.file("golden")).expect("it is there");
        bench.check("after the rebase");
        bench.work(60);
        bench.check("after more work");
    }
}

#[test]
fn a_rebase_that_is_stopped_anywhere_changes_nothing_and_is_begun_again() {
    let mut bench = Bench::new("clear", Mode::Lazy);
    bench.work(60);
    bench.make_base("new", 2);
    let mut n = 1;
    while let Err(stopped) = rebase(&bench.file("disk"), &bench.file("new"), false, &mut until(n)) {
        assert!(is_interruption(&stopped), "{stopped:?}");
        bench.check("after a rebase that was stopped");
        n += 1 + n / 4;
    }
    assert!(n > 5, "{n}");
    std::fs::remove_file(bench.file("golden")).expect("it is there");
    bench.check("after the rebase");
}

#[test]
fn a_base_that_moved_is_known_again_and_nothing_is_copied() {
    let mut bench = Bench::new("clear", Mode::Lazy);
    bench.work(20);
    let before = bench.len("data");
    std::fs::rename(bench.file("golden"), bench.file("silver")).expect("a name");
    let missing = DiskDir::open(&bench.file("disk")).expect_err("there is no base");
    assert_eq!(missing.kind, DiskErrorKind::BaseMissing);
    let done = rebase(&bench.file("disk"), &bench.file("silver"), false, &mut silent).expect("it works");
    assert_eq!((done.copied_bytes, done.purged_bytes, bench.len("data")), (0, 0, before));
    bench.check("above the base that moved");
}

#[test]
fn without_the_old_base_the_new_one_is_taken_only_as_it_is() {
    let mut bench = Bench::new("clear", Mode::Lazy);
    bench.work(20);
    let new = bench.make_base("new", 2);
    std::fs::remove_file(bench.file("golden")).expect("it is there");
    let refused =
        rebase(&bench.file("disk"), &bench.file("new"), false, &mut silent).expect_err("it is gone");
    assert!(matches!(refused, OfflineError::OldBase(_)), "{refused}");
    assert!(refused.to_string().contains("--as-it-is"), "{refused}");
    rebase(&bench.file("disk"), &bench.file("new"), true, &mut silent).expect("it works");
    let disk = bench.open();
    let held: Vec<_> = disk.held().collect();
    let whole = disk.read(disk.whole()).expect("a read");
    let own = |at: usize| held.iter().any(|run| run.overlaps(Extent::new(at as u64, 1)));
    for at in (0..new.len()).step_by(512) {
        let wanted = if own(at) { bench.seen[at] } else { new[at] };
        assert!(whole[at] == wanted || whole[at] == 0, "at {at}");
    }
}

#[test]
fn a_base_that_is_larger_than_the_disk_is_refused() {
    let bench = Bench::new("clear", Mode::Lazy);
    let large = File::create(bench.file("large")).expect("a file");
    large.set_len(SIZE + 1).expect("room");
    let refused =
        rebase(&bench.file("disk"), &bench.file("large"), false, &mut silent).expect_err("too large");
    assert!(refused.to_string().contains("and the disk"), "{refused}");
    bench.check("as before");
}

#[test]
fn what_was_committed_is_the_bases_and_the_overlay_is_empty() {
    for (policy, mode) in [("none", Mode::Packed), ("clear", Mode::Lazy), ("purge-2", Mode::Punch)] {
        let mut bench = Bench::new(policy, mode);
        bench.work(100);
        bench.create("other", "clear", Mode::Lazy);
        let done = commit(&bench.file("disk"), &mut silent).expect("it works");
        assert!(done.written_bytes > 0 && done.purged_bytes > 0, "{done:?}");
        let base = std::fs::read(bench.file("golden")).expect("the base");
        assert!(base == bench.seen[..base.len()], "{mode:?}");
        assert!(is_zeros(&bench.seen[base.len()..]));
        let map = std::fs::read(bench.file("disk").join("map")).expect("the map");
        assert!(is_zeros(&map[4096..]), "{mode:?}");
        let data = std::fs::metadata(bench.file("disk").join("data")).expect("the data");
        assert_eq!(data.blocks(), 0, "{mode:?}");
        bench.check("after the commit");
        let other = DiskDir::open(&bench.file("other")).expect_err("its base is another one");
        assert!(matches!(other.kind, DiskErrorKind::BaseChanged(_)), "{other}");
        bench.work(60);
        bench.check("after more work");
    }
}

#[test]
fn a_commit_that_is_stopped_anywhere_is_gone_on_with() {
    let mut bench = Bench::new("clear", Mode::Lazy);
    bench.work(60);
    let mut n = 1;
    while let Err(stopped) = commit(&bench.file("disk"), &mut until(n)) {
        assert!(is_interruption(&stopped), "{stopped:?}");
        let closed = DiskDir::open(&bench.file("disk"));
        assert!(closed.is_ok() || closed.is_err_and(|it| it.kind == DiskErrorKind::Committing));
        n += 1 + n / 4;
    }
    assert!(n > 5, "{n}");
    bench.check("after the commit");
    assert_eq!(bench.len("data"), 0);
}

#[test]
fn a_base_in_use_is_not_committed_to() {
    let mut bench = Bench::new("clear", Mode::Lazy);
    bench.work(20);
    bench.create("other", "clear", Mode::Lazy);
    let other = DiskDir::open(&bench.file("other")).expect("it opens");
    let refused = commit(&bench.file("disk"), &mut silent).expect_err("it is in use");
    assert!(refused.to_string().contains("in use by another overlay"), "{refused}");
    drop(other);
    let reader = File::open(bench.file("golden")).expect("it opens");
    rustix::fs::flock(&reader, rustix::fs::FlockOperation::LockShared).expect("a lock");
    let refused = commit(&bench.file("disk"), &mut silent).expect_err("it is in use");
    assert!(refused.to_string().contains("in use by another overlay"), "{refused}");
    drop(reader);
    bench.check("as before");
}

#[test]
fn what_is_purged_leaves_the_file_once_it_is_packed() {
    for mode in [Mode::Packed, Mode::Lazy] {
        let mut bench = Bench::new("clear", mode);
        let disk = bench.open();
        disk.write(0, &vec![7; SIZE as usize]).expect("a write");
        disk.flush().expect("a flush");
        assert_eq!(bench.len("data"), SIZE);
        for at in (0..SIZE).step_by(8192) {
            disk.purge(Extent::new(at, 4096)).expect("a purge");
            bench.seen[at as usize..at as usize + 4096].fill(0);
            bench.seen[at as usize + 4096..at as usize + 8192].fill(7);
        }
        let answer: Compacted = disk.0.answer(&Call::Compact, None, &mut |_, _| true).expect("an answer");
        assert_eq!((answer.done, bench.len("data")), (true, SIZE / 2), "{answer:?}");
        close(disk);
        bench.check("packed");
    }
}

/// Checks that a start is refused, and what it says.
fn assert_refused(bench: &Bench, says: &[&str]) {
    let dir = DiskDir::open(&bench.file("disk")).expect("the directory is whole");
    let said = Offline::start(dir).err().expect("it is refused").to_string();
    assert!(says.iter().all(|it| said.contains(it)), "{says:?}: {said}");
}

#[test]
fn an_overlay_that_was_cut_off_or_whose_map_lies_is_refused_and_nothing_is_lost() {
    let mut bench = Bench::new("clear", Mode::Lazy);
    bench.work(60);
    let (data, map) = (bench.file("disk").join("data"), bench.file("disk").join("map"));
    let whole = std::fs::read(&data).expect("the data");
    std::fs::write(&data, &whole[..whole.len() / 2]).expect("a cut");
    assert_refused(&bench, &["disk/data: cut off since the last clean stop"]);
    std::fs::write(&data, &whole).expect("a copy");
    let entries = std::fs::read(&map).expect("the map");
    let mut lies = entries.clone();
    lies[4096..4100].copy_from_slice(&u32::MAX.to_le_bytes());
    std::fs::write(&map, &lies).expect("a write");
    let entries_named = "the entries of blocks 0 to 1015, at bytes 4096 to 8191, have changed";
    assert_refused(&bench, &[entries_named, "restore `map`"]);
    std::fs::write(&map, &entries[..4096]).expect("a cut");
    assert_refused(&bench, &["cut off"]);
    lies.copy_from_slice(&entries);
    lies[20] ^= 1;
    std::fs::write(&map, &lies).expect("a write");
    assert_refused(&bench, &["damaged"]);
    std::fs::write(&map, &entries).expect("a copy");
    bench.check("once it is restored");
}

/// A bench whose map has just been meddled with, after a clean stop.
fn meddled(meddle: impl Fn(&mut [u8], &[usize])) -> (Bench, Vec<u8>) {
    let mut bench = Bench::new("clear", Mode::Lazy);
    bench.work(60);
    let map = bench.file("disk").join("map");
    let whole = std::fs::read(&map).expect("the map");
    let mut bytes = whole.clone();
    let entry = |at: usize| u32::from_le_bytes(whole[at..at + 4].try_into().expect("four bytes"));
    let entries = (4096..whole.len()).step_by(4).filter(|at| at % 512 != 508);
    let in_slots: Vec<usize> = entries.filter(|at| entry(*at) >= 2).collect();
    meddle(&mut bytes, &in_slots);
    std::fs::write(&map, &bytes).expect("a write");
    (bench, whole)
}

/// Gives each changed sector of the map the checksum that it would have been written with.
fn seal(bench: &Bench, whole: &[u8]) {
    let path = bench.file("disk").join("map");
    let uuid = DiskDir::open_without_base(&bench.file("disk")).expect("a directory").toml().uuid;
    let mut map = std::fs::read(&path).expect("the map");
    for (number, (sector, before)) in
        (0_u64..).zip(map[4096..].chunks_mut(512).zip(whole[4096..].chunks(512)))
    {
        if sector != before {
            let covered = [&uuid.as_bytes()[..], &number.to_le_bytes(), &sector[..508]].concat();
            sector[508..].copy_from_slice(&crc32c::crc32c(&covered).to_le_bytes());
        }
    }
    std::fs::write(&path, map).expect("a write");
}

#[test]
fn two_entries_of_a_map_that_were_exchanged_are_noticed_after_a_clean_stop() {
    let (bench, whole) = meddled(|map, at| (0..4).for_each(|n| map.swap(at[0] + n, at[1] + n)));
    // A look at the disk does not forget the change.
    for says in
        ["changed since the last clean stop: the entries of blocks 0 to 1015", "at bytes 4096 to 8191"]
    {
        assert_refused(&bench, &[says]);
    }
    std::fs::write(bench.file("disk").join("map"), whole).expect("a copy");
    bench.check("once it is restored");
    close(bench.open());
    assert!(bench.file("disk").join("stamp").exists());
    let running = bench.open();
    assert!(!bench.file("disk").join("stamp").exists(), "the map may change from now on");
    drop(running);
}

#[test]
fn a_map_whose_sectors_are_whole_is_believed_if_the_stamp_is_removed() {
    let (bench, _) = meddled(|map, at| map[at[0] / 512 * 512..][..512].fill(0));
    assert_refused(&bench, &["changed since the last clean stop"]);
    std::fs::remove_file(bench.file("disk").join("stamp")).expect("it was stopped cleanly");
    close(bench.open());
}

#[test]
fn an_entry_that_names_no_slot_or_anothers_is_named_after_a_crash_too() {
    for (meddle, says) in [
        (
            (|map, at| map[at[1] + 3] = 0x7f) as fn(&mut [u8], &[usize]),
            ["names slot 2130706", "or `data` was cut off"],
        ),
        (
            |map, at| map.copy_within(at[0]..at[0] + 4, at[1]),
            ["names slot", "which an earlier entry names too"],
        ),
    ] {
        let (bench, whole) = meddled(meddle);
        seal(&bench, &whole);
        std::fs::remove_file(bench.file("disk").join("stamp")).expect("it was stopped cleanly");
        assert_refused(&bench, &says);
        assert_refused(&bench, &["disk/map: ", "at byte", "restore `map` and `data`"]);
    }
}

#[test]
fn sizes_are_noted_when_they_change_and_kept_within_bounds() {
    let bench = Bench::new("clear", Mode::Lazy);
    let dir = DiskDir::open(&bench.file("disk")).expect("it opens");
    let size = |n: u64| crate::disk::Size { time_ms: n, host_bytes: n / 2 * 4096, live_bytes: 4096 };
    for n in 0..10 {
        dir.note_size(size(n)).expect("room");
    }
    assert_eq!(dir.sizes(100), [0, 2, 4, 6, 8].map(size));
    assert_eq!(dir.sizes(2), [2, 8].map(size));
    let path = bench.file("disk").join("sizes");
    std::fs::write(&path, "nonsense\n".repeat(120_000) + "{\"time_ms\":1,\"ho").expect("room");
    dir.note_size(size(20)).expect("room");
    dir.note_size(size(22)).expect("room");
    assert_eq!(dir.sizes(100), [20, 22].map(size));
    assert!(std::fs::metadata(&path).expect("a file").len() < 600_000);
}
