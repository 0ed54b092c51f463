//! One wrong byte in each file of a disk, of each store: what must come of it. Content is never wrong in silence, and nothing
//! live is destroyed. A start goes on, or names the file and a remedy; `repair` mends what the rest of the disk says for certain.

use crate::program::{flip, overwrite, private};
use crate::versions::judge::{
    BLOCK, Bench, ask, bring_home, content, filled, stop, try_ask, wait_until_forgotten, write,
};
use quietus::disk::epochs::HoldOf;
use quietus::disk::keys::Source;
use quietus::disk::{CreateOptions, DiskDir, StoreKind};
use quietus::epochs;
use quietus::offline::repair;
use quietus::open_disk::OpenDisk;
use quietus_core::base::units::{BLOCK_BYTES, Epoch, EpochRange, Extent, Scope};
use quietus_core::base::zeros::is_zeros;
use quietus_core::request::{Op, Refusal};
use quietus_core::store::overlay::Mode;
use quietus_seal::Seal;
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

/// Blocks that are looked at.
const BLOCKS: u64 = 64;
/// Blocks of a disk that keeps versions that epoch 1 alone has forgotten: epoch 2 has others there, or zeros.
const FORGOTTEN: [std::ops::Range<u64>; 2] = [3..5, 34..36];
/// Places that are tried in each file.
const TRIES: usize = 3;

/// A disk that was stopped cleanly, and what it shows.
struct Subject {
    _dir: tempfile::TempDir,
    path: PathBuf,
    source: Source,
    shows: Vec<Vec<u8>>,
    /// The hold, of a disk that keeps versions.
    hold: Option<HoldOf>,
}

fn opened(path: &Path, source: &Source, look_only: bool) -> Result<OpenDisk, String> {
    OpenDisk::open_unlocked(path, look_only, Some(source), &mut |_, _| true)
        .map_err(|error| error.to_string())
}

impl Subject {
    fn new(dir: tempfile::TempDir, path: PathBuf, source: Source) -> Self {
        let mut subject = Self { _dir: dir, path, source, shows: Vec::new(), hold: None };
        let disk = opened(&subject.path, &subject.source, true).expect("it was stopped cleanly");
        subject.shows =
            (0..BLOCKS).map(|block| try_ask(&disk, Op::Read, block, 1).expect("it is read")).collect();
        subject.hold = disk.names.holds().remove("case");
        disk.close(false, |_| true);
        subject
    }

    /// An overlay after a crash: as its files are while it is open, once all is flushed.
    fn crashed_overlay() -> Self {
        let Self { _dir: dir, path, source, .. } = Self::plain(StoreKind::Overlay);
        let crashed = dir.path().join("crashed");
        let disk = opened(&path, &source, false).expect("it was stopped cleanly");
        write(&disk, 40..44, 3);
        ask(&disk, Op::Flush, 0, 0);
        copy(&path, &crashed);
        disk.close(false, |_| true);
        assert!(!crashed.join("stamp").exists(), "the map may have changed");
        Self::new(dir, crashed, source)
    }

    fn plain(store: StoreKind) -> Self {
        let dir = tempfile::tempdir().expect("a directory");
        let (path, base) = (dir.path().join("disk"), dir.path().join("base"));
        std::fs::write(&base, vec![7; 1 << 20]).expect("a base");
        let is_overlay = store == StoreKind::Overlay;
        let options = CreateOptions {
            size: Some(1 << 20),
            store,
            policy: "clear".into(),
            base: is_overlay.then_some(base),
            mode: is_overlay.then_some(Mode::Lazy),
            idle_after_ms: 60_000,
            deadline_ms: 600_000,
            ..CreateOptions::default()
        };
        DiskDir::create(&path, &options).expect("a disk");
        let disk = opened(&path, &Source::default(), false).expect("a new disk");
        write(&disk, 0..32, 1);
        ask(&disk, Op::Trim, 8, 4);
        write(&disk, 20..24, 2);
        ask(&disk, Op::Flush, 0, 0);
        ask(&disk, Op::Trim, 28, 4);
        // What waits to be destroyed stays in the journal.
        stop(disk, false);
        Self::new(dir, path, Source::default())
    }

    fn versions(bench: Bench) -> Self {
        let (disk, _) = filled(&bench);
        for blocks in FORGOTTEN {
            let blocks = Extent::between(blocks.start * BLOCK_BYTES, blocks.end * BLOCK_BYTES);
            let first = EpochRange { from: Epoch(1), to: Epoch(1) };
            epochs::forget(&disk.engine, Scope::shown(first, blocks)).expect("only epoch 1 shows these");
        }
        wait_until_forgotten(&disk);
        let hold = HoldOf { from: 1, to: 1, who: "legal".into(), why: "case".into(), since_ms: 7 };
        disk.names.hold(disk.dir.directory(), "case", hold).expect("a hold");
        disk.names.name(disk.dir.directory(), "before", Epoch(2)).expect("a name");
        bring_home(&disk);
        write(&disk, 40..48, 2);
        ask(&disk, Op::Trim, 50, 4);
        stop(disk, false);
        let (dir, path, source) = bench.into_parts();
        Self::new(dir, path, source)
    }

    /// Checks what the disk at `path` shows: what it has to, or an error where `may_fail`. How many blocks failed.
    fn check(&self, disk: &OpenDisk, may_fail: bool, what: &str) -> usize {
        let mut failed = 0;
        let holds = disk.names.holds();
        assert_eq!((holds.get("case"), holds.len()), (self.hold.as_ref(), self.hold.iter().len()), "{what}");
        assert_eq!(disk.names.epoch("before"), self.hold.as_ref().map(|_| Epoch(2)), "{what}");
        for (block, wanted) in (0..).zip(&self.shows) {
            match try_ask(disk, Op::Read, block, 1) {
                Ok(found) => assert!(found == *wanted, "{what}: block {block} is wrong in silence"),
                Err(refusal) => {
                    assert!(may_fail, "{what}: block {block}: {refusal}");
                    failed += 1;
                }
            }
        }
        failed
    }
}

/// Copies a disk's directory.
fn copy(from: &Path, to: &Path) {
    let _ = std::fs::remove_dir_all(to);
    let done =
        std::process::Command::new("cp").args(["-R", "-p", "--sparse=always"]).args([from, to]).status();
    assert!(done.expect("cp runs").success());
}

/// Places in a file: some of its first bytes, and some in sectors that hold something, over the whole file.
fn places(path: &Path) -> Vec<u64> {
    let bytes = std::fs::read(path).expect("a file");
    let sectors = bytes.chunks(512).enumerate().filter(|(_, sector)| !is_zeros(sector));
    let filled: Vec<u64> = sectors.map(|(n, _)| 512 * n as u64).collect();
    let step = filled.len().div_ceil(TRIES).max(1);
    let spread = filled.iter().step_by(step).enumerate().map(|(n, at)| at + [17, 40, 2, 300, 36, 9][n % 6]);
    let all = [9].into_iter().chain(spread).filter(|at| *at < bytes.len() as u64);
    all.collect()
}

/// What may come of one wrong byte in a file.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Must {
    /// Nothing: all is served.
    BeHarmless,
    /// All is served, or the start is refused with a remedy, and `repair` mends that.
    BeMended,
    /// All is served, or the start is refused with a remedy.
    BeNamed,
    /// What the byte belongs to is refused when it is read, and by nothing else; content may be wrong only where no seal tells.
    FailAlone,
}

/// The table: by file, what must come of damage.
fn musts(store: &str, seal: Seal) -> BTreeMap<&'static str, Must> {
    let mut musts = BTreeMap::from([
        ("disk.toml", Must::BeNamed),
        ("journal", Must::BeMended),
        ("view", Must::BeHarmless),
        ("audit.jsonl", Must::BeHarmless),
        ("key", Must::BeHarmless),
        ("key.pub", Must::BeHarmless),
        ("lock", Must::BeHarmless),
    ]);
    if store == "overlay" {
        musts.extend([("map", Must::BeMended), ("stamp", Must::BeHarmless), ("sizes", Must::BeHarmless)]);
    }
    if store == "versions" {
        musts.extend([("map", Must::BeMended), ("root", Must::BeMended), ("stubs", Must::FailAlone)]);
        musts.insert("epochs.json", Must::BeNamed);
        if seal.has_keys() {
            musts.insert("keys", Must::BeNamed);
        }
        if seal.dies_with_stub() {
            musts.insert("data", Must::FailAlone);
        }
    }
    musts
}

/// Flips a byte in each of the files, at some places, and sees what comes of it. Without names, all files.
fn flips(subject: &Subject, (store, seal): (&str, Seal), files: &[&str]) {
    let copied = subject.path.with_file_name("copy");
    for (file, must) in
        musts(store, seal).into_iter().filter(|(file, _)| files.is_empty() || files.contains(file))
    {
        let original = subject.path.join(file);
        if !original.exists() {
            continue;
        }
        for at in places(&original) {
            copy(&subject.path, &copied);
            flip(&copied.join(file), at);
            one(subject, &copied, &format!("{store}, {seal}: {file}: byte {at}"), must);
        }
    }
}

fn one(subject: &Subject, path: &Path, what: &str, must: Must) {
    let source = &subject.source;
    // A reader sees nothing that is wrong, unless `status` says what is damaged, and that later commits are not shown.
    if let Ok(disk) = opened(path, source, true) {
        if disk.engine.status().store.trouble().is_none() {
            subject.check(&disk, must != Must::BeHarmless, what);
        }
        stop(disk, false);
    }
    let mut started = opened(path, source, false);
    if let Err(error) = &started {
        let has_remedy =
            ["repair", "restore", "remove", "use ", "Restore", "ut back"].iter().any(|it| error.contains(it));
        assert!(has_remedy, "{what}: the error names no remedy: {error}");
        assert!(must != Must::BeHarmless, "{what}: {error}");
        let repaired = repair(path, false, &mut |_, _| true);
        if must == Must::BeMended {
            let repaired = repaired.expect("it is repaired");
            assert!(!repaired.is_empty() && repaired.left.is_none(), "{what}: {error}: {repaired:?}");
            started = opened(path, source, false);
            assert!(started.is_ok(), "{what}: after the repair: {:?}", started.err());
        }
    }
    let Ok(disk) = started else { return };
    let failed = subject.check(&disk, must == Must::FailAlone, what);
    assert!(failed <= 6, "{what}: {failed} blocks cannot be read");
    stop(disk, true);
    // All that is live outlives what was destroyed.
    if let Ok(disk) = opened(path, source, false) {
        subject.check(&disk, must == Must::FailAlone, what);
        disk.close(false, |_| true);
    }
}

#[test]
fn a_wrong_byte_in_any_file_of_a_disk_in_place_is_named_or_harmless() {
    flips(&Subject::plain(StoreKind::InPlace), ("in-place", Seal::None), &[]);
}

#[test]
fn a_wrong_byte_in_any_file_of_an_overlay_is_named_or_harmless() {
    flips(&Subject::plain(StoreKind::Overlay), ("overlay", Seal::None), &[]);
}

#[test]
fn a_wrong_byte_in_any_file_of_an_overlay_that_crashed_is_named_or_harmless() {
    flips(&Subject::crashed_overlay(), ("overlay", Seal::None), &[]);
}

/// Where the entry of a block lies in the map of an overlay.
fn entry_at(block: u64) -> u64 {
    4096 + block / 127 * 512 + block % 127 * 4
}

#[test]
fn no_believable_entry_of_a_map_is_believed_after_a_crash_and_all_are_mended() {
    let subject = Subject::crashed_overlay();
    let copied = subject.path.with_file_name("copy");
    let map = std::fs::read(subject.path.join("map")).expect("a map");
    let entry = |block: u64| map[entry_at(block) as usize];
    let slots = std::fs::metadata(subject.path.join("data")).expect("a file").len() / BLOCK;
    // In a slot, purged, and as the base has it.
    for block in [0, 9, 60] {
        // The base shows, nothing does, and the first and the last slot.
        for value in [0, 1, 2, slots as u8 + 1].into_iter().filter(|value| *value != entry(block)) {
            copy(&subject.path, &copied);
            overwrite(&copied.join("map"), entry_at(block), &[value]);
            let what = format!("block {block}: {} becomes {value}", entry(block));
            let refused = opened(&copied, &subject.source, false).err().unwrap_or_else(|| panic!("{what}"));
            assert!(refused.contains("map: the sector at byte 4096"), "{what}: {refused}");
            one(&subject, &copied, &what, Must::BeMended);
        }
    }
}

#[test]
fn a_sector_of_the_map_that_lies_elsewhere_is_refused_after_a_crash_and_nothing_is_destroyed() {
    let subject = Subject::crashed_overlay();
    let copied = subject.path.with_file_name("copy");
    let before = |name: &str| std::fs::read(subject.path.join(name)).expect("a file");
    copy(&subject.path, &copied);
    overwrite(&copied.join("map"), 4608, &before("map")[4096..4608]);
    let refused = opened(&copied, &subject.source, false).err().expect("it is refused");
    let named = "map: the sector at byte 4608, with the entries of blocks 127 to 253";
    assert!(refused.contains(named), "{refused}");
    let repaired = repair(&copied, false, &mut |_, _| true).expect("a report");
    assert!(repaired.is_empty() && repaired.left.is_some(), "{repaired:?}");
    assert!(std::fs::read(copied.join("data")).expect("a file") == before("data"));
    overwrite(&copied.join("map"), 0, &before("map"));
    let disk = opened(&copied, &subject.source, false).expect("the map is as it was");
    assert_eq!(subject.check(&disk, false, "restored"), 0);
    disk.close(true, |_| true);
}

#[test]
fn a_wrong_byte_in_any_file_of_a_disk_that_keeps_versions_is_named_or_harmless() {
    flips(&Subject::versions(Bench::new(Seal::RandomKey)), ("versions", Seal::RandomKey), &[]);
}

#[test]
fn a_wrong_byte_in_any_file_of_versions_without_seals_is_named_or_harmless() {
    flips(&Subject::versions(Bench::new(Seal::None)), ("versions", Seal::None), &[]);
}

#[test]
fn a_wrong_byte_under_each_other_seal_is_named_or_harmless() {
    for seal in Seal::ALL.into_iter().filter(|seal| ![Seal::None, Seal::RandomKey].contains(seal)) {
        flips(
            &Subject::versions(Bench::new(seal)),
            ("versions", seal),
            &["data", "map", "root", "stubs", "keys"],
        );
    }
}

#[test]
fn a_wrong_byte_in_the_keys_below_a_passphrase_or_a_command_is_named_or_harmless() {
    let dir = tempfile::tempdir().expect("a directory");
    let secret = dir.path().join("secret");
    private(&secret, b"correct horse battery staple");
    let command = "seq 100 150".into();
    for source in [Source::PassphraseFile(secret), Source::Command(command)] {
        let subject = Subject::versions(Bench::opened_by(source, Seal::RandomKey));
        flips(&subject, ("versions", Seal::RandomKey), &["keys"]);
    }
}

#[test]
fn small_files_that_were_cut_off_are_named_or_harmless() {
    let seal = Seal::RandomKey;
    let subject = Subject::versions(Bench::new(seal));
    let copied = subject.path.with_file_name("copy");
    let small = ["disk.toml", "view", "key", "key.pub", "lock", "epochs.json", "keys"];
    for (file, must) in musts("versions", seal).into_iter().filter(|(file, _)| small.contains(file)) {
        let len = std::fs::metadata(subject.path.join(file)).expect(file).len();
        for len in [0, len / 2, len.saturating_sub(1)] {
            copy(&subject.path, &copied);
            let cut = std::fs::File::options().write(true).open(copied.join(file)).expect("a file");
            cut.set_len(len).expect("a cut");
            one(&subject, &copied, &format!("{file}: cut off at {len}"), must);
        }
    }
}

#[test]
fn any_page_of_the_index_may_be_damaged_the_rest_is_read_meanwhile_and_it_is_rebuilt() {
    for seal in [Seal::RandomKey, Seal::None] {
        let subject = Subject::versions(Bench::new(seal));
        let copied = subject.path.with_file_name("copy");
        let map = std::fs::read(subject.path.join("map")).expect("an index");
        let mut rebuilt = 0;
        for page in 2..map.len() / 4096 {
            if is_zeros(&map[4096 * page..][..4096]) {
                continue;
            }
            copy(&subject.path, &copied);
            // The whole page is gone: no checksum says what it was.
            overwrite(&copied.join("map"), 4096 * page as u64, &[0x5a; 4096]);
            let what = format!("{seal}: page {page}");
            let disk = opened(&copied, &subject.source, true).expect("what is left is read");
            subject.check(&disk, true, &what);
            stop(disk, false);
            let plan = repair(&copied, true, &mut |_, _| true).expect("a plan");
            let done = repair(&copied, false, &mut |_, _| true).expect("it is repaired");
            assert!(plan.dry_run && plan.rebuilt == done.rebuilt && done.left.is_none(), "{what}: {done:?}");
            rebuilt += usize::from(!done.rebuilt.is_empty());
            let disk = opened(&copied, &subject.source, false).expect("it starts");
            subject.check(&disk, false, &what);
            for block in (0..16).chain(32..40) {
                let past = try_ask(&disk, Op::ReadPast(Epoch(1)), block, 1);
                if FORGOTTEN.iter().any(|it| it.contains(&block)) {
                    assert!(
                        matches!(past, Err(Refusal::ForgottenBlocks(..))),
                        "{what}: block {block}: {past:?}"
                    );
                } else {
                    assert!(past == Ok(content(block, 1)), "{what}: block {block} of epoch 1");
                }
            }
            disk.close(true, |_| true);
        }
        assert!(rebuilt >= 6, "{seal}: {rebuilt} pages are in use");
    }
}
