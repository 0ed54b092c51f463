//! A judge with all keys: after an epoch is forgotten, it cannot open what only that epoch showed, and all that is kept
//! stays as it was.

use crate::program::private;
use quietus::disk::keys::{Keys, Source};
use quietus::disk::{Access, CreateOptions, DiskDir, StoreKind, VersionsOptions};
use quietus::engine::export::carry_out;
use quietus::epochs;
use quietus::front::control::Call;
use quietus::open_disk::OpenDisk;
use quietus_core::base::cell::Cell;
use quietus_core::base::units::{Block, Epoch, EpochRange, Extent, Session, Slot};
use quietus_core::base::zeros::is_zeros;
use quietus_core::media::sealing::{Context, Sealer, Sealing};
use quietus_core::request::{Op, Refusal, Request};
use quietus_core::store::versions::halves;
use quietus_seal::Seal;
use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

pub(crate) const BLOCK: u64 = 4096;
const LOG_AT: usize = 4096;
/// Where the cells of the pages of homes begin in the root, two for each page.
const CELLS_AT: usize = 8192;
const PAIR: usize = 64;
pub(crate) const SECTORS_OF_PAGE: usize = 8;
/// Versions that a half of the log has room for.
const HALF_VERSIONS: usize = 240 << 10;
const SECTOR: usize = 512;
const SECTOR_HEAD: usize = 32;
const RECORD: usize = 16;

/// The content of `block` in write number `round`.
pub(crate) fn content(block: u64, round: u64) -> Vec<u8> {
    (0..BLOCK / 8).flat_map(|word| (block << 40 | round << 32 | word << 8 | 0x5a).to_le_bytes()).collect()
}

/// Whether any sector of `bytes` is what `content` has there.
fn has_sector_of(bytes: &[u8], content: &[u8]) -> bool {
    bytes.chunks_exact(SECTOR).zip(content.chunks_exact(SECTOR)).any(|(one, other)| one == other)
}

/// Contents that can be opened: block, and round.
pub(crate) type Opened = BTreeSet<(u64, u64)>;

/// Contents that [`filled`] wrote, and that epochs after the first one show.
const KEPT: [(u64, u64); 3] = [(20, 1), (10, 2), (3, 3)];

/// Makes a disk that keeps versions.
pub(crate) fn made(dir: &Path, size: u64, versions: VersionsOptions) -> PathBuf {
    let (size, store, policy) = (Some(size), StoreKind::Versions, "clear".into());
    let options = CreateOptions { size, store, policy, versions, ..CreateOptions::default() };
    let path = dir.join("disk");
    DiskDir::create(&path, &options).expect("a disk");
    path
}

pub(crate) struct Bench {
    _dir: tempfile::TempDir,
    path: PathBuf,
    source: Source,
    seal: Seal,
}

impl Bench {
    pub(crate) fn new(seal: Seal) -> Self {
        Self::with_size(seal, 1 << 20)
    }

    pub(crate) fn with_size(seal: Seal, size: u64) -> Self {
        let dir = tempfile::tempdir().expect("a directory");
        let key = dir.path().join("key");
        private(&key, &[7; 32]);
        Self::made(dir, (seal, Source::KeyFile(key)), size)
    }

    /// A disk whose keys another credential opens.
    pub(crate) fn opened_by(source: Source, seal: Seal) -> Self {
        Self::made(tempfile::tempdir().expect("a directory"), (seal, source), 1 << 20)
    }

    fn made(dir: tempfile::TempDir, (seal, source): (Seal, Source), size: u64) -> Self {
        let versions = VersionsOptions {
            seal: Some(seal),
            epoch: Some("manual".parse().expect("an end of epochs")),
            source: seal.has_keys().then(|| source.clone()),
            ..VersionsOptions::default()
        };
        let path = made(dir.path(), size, versions);
        Self { _dir: dir, path, source, seal }
    }

    /// The directory that has everything, the disk's, and the credential.
    pub(crate) fn into_parts(self) -> (tempfile::TempDir, PathBuf, Source) {
        (self._dir, self.path, self.source)
    }

    pub(crate) fn source(&self) -> &Source {
        &self.source
    }

    pub(crate) fn path(&self) -> &Path {
        &self.path
    }

    pub(crate) fn open(&self) -> OpenDisk {
        let mut dir = DiskDir::open(&self.path).expect("it opens");
        dir.unlock(&self.source).expect("the keys open");
        OpenDisk::start(dir).expect("it starts")
    }

    /// The disk for those who only look.
    pub(crate) fn look(&self) -> Result<OpenDisk, String> {
        let opened = OpenDisk::open_unlocked(&self.path, true, Some(&self.source), &mut |_, _| true);
        opened.map_err(|error| error.to_string())
    }

    /// Why a start that writes is refused.
    pub(crate) fn refusal(&self) -> String {
        let mut dir = match DiskDir::open(&self.path) {
            Ok(dir) => dir,
            Err(error) => return error.to_string(),
        };
        match dir.unlock(&self.source) {
            Ok(()) => OpenDisk::start(dir).map(drop).expect_err("a file is wrong").to_string(),
            Err(error) => error.to_string(),
        }
    }

    pub(crate) fn file(&self, name: &str) -> Vec<u8> {
        std::fs::read(self.path.join(name)).expect("a file")
    }

    pub(crate) fn put(&self, name: &str, bytes: &[u8]) {
        std::fs::write(self.path.join(name), bytes).expect("a file");
    }

    /// Data, stubs and root, as they are now.
    pub(crate) fn media(&self) -> [Vec<u8>; 3] {
        ["data", "stubs", "root"].map(|name| self.file(name))
    }

    /// Seals and opens, with all keys.
    fn sealer(&self) -> impl Sealer {
        let dir = DiskDir::open_with(&self.path, Access::ReadOnly, &mut |_, _| true).expect("it opens");
        let keys = Keys::unlock(&dir.key_file().expect("it has keys"), &self.source).expect("the keys open");
        keys.into_sealer(self.seal).expect("keys")
    }

    /// The contents (block and round) that open, with every sealing in `stubs` under the cells of `root`, in the slots of
    /// `data`.
    pub(crate) fn opened(&self, [data, stubs, root]: [&[u8]; 3]) -> Opened {
        let (sealer, mut opened) = (self.sealer(), BTreeSet::new());
        for (block, slot, sealing) in sealings(stubs, root, self.seal.stub_bytes()) {
            let Some(there) =
                data.get(slot as usize * BLOCK as usize..).and_then(|it| it.get(..BLOCK as usize))
            else {
                continue;
            };
            for born in 1..=4 {
                let (mut bytes, context) =
                    (there.to_vec(), Context { block: Block(block), born: Epoch(born), slot: Slot(slot) });
                if sealer.open(&context, &sealing, &mut bytes).is_ok() {
                    let round = (1..=3).find(|round| has_sector_of(&bytes, &content(block, *round)));
                    let is_checked = self.seal.stub_bytes() > 0;
                    assert!(round.is_some() || !is_checked, "what opens is what was written");
                    opened.extend(round.map(|round| (block, round)));
                }
            }
        }
        opened
    }
}

fn number(bytes: &[u8]) -> u64 {
    bytes.iter().fold(0, |number, byte| number << 8 | u64::from(*byte))
}

fn sealing(session: &[u8], sealed: &[u8], stub: &[u8]) -> Sealing {
    Sealing {
        session: Session(u16::from_le_bytes([session[0], session[1]])),
        number: u32::from_le_bytes([sealed[0], sealed[1], sealed[2], sealed[3]]),
        stub: stub.into(),
    }
}

/// Bytes of a half of the log.
pub(crate) const fn half(stub_bytes: usize) -> usize {
    let per_sector = (SECTOR - SECTOR_HEAD) / (RECORD + stub_bytes);
    HALF_VERSIONS.div_ceil(per_sector) * SECTOR
}

/// Every sealing in the bytes of a stub medium, as `docs/formats/stubs.md` has them, whether a checksum fits or not, also
/// under the cell of the other half: its block, its slot, and itself.
fn sealings(bytes: &[u8], root: &[u8], stub_bytes: usize) -> Vec<(u64, u64, Sealing)> {
    let entry = RECORD + stub_bytes;
    let per_sector = (SECTOR - SECTOR_HEAD) / entry;
    let (log, homes) = bytes[LOG_AT..].split_at(2 * half(stub_bytes));
    // Where a seal has no stubs, the record alone says where the content lies.
    let is_left = |it: &[u8]| !is_zeros(&it[if stub_bytes > 0 { RECORD } else { 0 }..]);
    let entries = |sector: &[u8]| -> Vec<Vec<u8>> {
        sector[SECTOR_HEAD..].chunks_exact(entry).take(per_sector).map(<[u8]>::to_vec).collect()
    };
    let mut found = Vec::new();
    for sector in log.chunks_exact(SECTOR) {
        for it in entries(sector).into_iter().filter(|it| is_left(it)) {
            let (record, stub) = it.split_at(RECORD);
            for cell in halves(root) {
                let (session, sealed, mut stub) = (&sector[15..17], &record[11..15], stub.to_vec());
                let Sealing { session: of, number: n, .. } = sealing(session, sealed, &stub);
                cell.mask(of, n, &mut stub);
                found.push((number(&record[1..6]), number(&record[6..11]), sealing(session, sealed, &stub)));
            }
        }
    }
    let mut homes = homes.to_vec();
    homes.resize(homes.len().next_multiple_of(SECTOR), 0);
    for (n, sector) in homes.chunks_exact(SECTOR).enumerate() {
        let cells = cells_of(root, n / SECTORS_OF_PAGE);
        for (m, it) in entries(sector).into_iter().enumerate().filter(|(_, it)| is_left(it)) {
            let (record, stub) = it.split_at(RECORD);
            let slot = (n * per_sector + m) as u64;
            let hidden = sealing(&record[5..7], &record[7..11], stub);
            let shown = cells.iter().map(|cell| hidden.clone().masked(cell)).chain([hidden.clone()]);
            found.extend(shown.map(|it| (number(&record[..5]), slot, it)));
        }
    }
    found
}

/// Both cells of a page of homes, as they are in the root.
pub(crate) fn cells_of(root: &[u8], page: usize) -> Vec<Cell> {
    let pair = root.get(CELLS_AT + page * PAIR..).and_then(|it| it.get(..PAIR)).unwrap_or_default();
    pair.chunks(PAIR / 2).filter_map(Cell::from_bytes).collect()
}

/// What the disk answers to a request for blocks, or why it refuses.
pub(crate) fn try_ask(disk: &OpenDisk, op: Op, block: u64, blocks: u64) -> Result<Vec<u8>, Refusal> {
    let extent = Extent::new(block * BLOCK, blocks * BLOCK);
    carry_out(&*disk.engine, Request { op, extent, fua: false }).map(|buf| buf.into_vec())
}

pub(crate) fn ask(disk: &OpenDisk, op: Op, block: u64, blocks: u64) -> Vec<u8> {
    try_ask(disk, op, block, blocks).expect("an answer")
}

pub(crate) fn write(disk: &OpenDisk, blocks: std::ops::Range<u64>, round: u64) {
    blocks.for_each(|block| _ = ask(disk, Op::Write(content(block, round).into()), block, 1));
}

/// Stops a disk; with `drain`, all that is queued is destroyed first.
pub(crate) fn stop(disk: OpenDisk, drain: bool) {
    disk.close(drain, |_| true);
}

pub(crate) fn wait_until_forgotten(disk: &OpenDisk) {
    while !disk.engine.status().owed.forgets.is_empty() {
        std::thread::sleep(std::time::Duration::from_millis(5));
    }
}

/// Checks what can be opened after a forget: nothing of `doomed`, and `kept`.
pub(crate) fn assert_opened(after: &Opened, doomed: &Opened, kept: &[(u64, u64)], what: &str) {
    let left: Vec<_> = after.intersection(doomed).collect();
    assert!(left.is_empty(), "{what}: {left:?} can be opened");
    assert!(kept.iter().all(|it| after.contains(it)), "{what}: something kept cannot be opened");
}

/// Three rounds of writes with an epoch after each of the first two; the disk, and what only the first epoch shows.
pub(crate) fn filled(bench: &Bench) -> (OpenDisk, Opened) {
    let disk = bench.open();
    write(&disk, 0..64, 1);
    assert_eq!(epochs::close(&disk.engine, 7), Ok(Epoch(1)));
    write(&disk, 0..16, 2);
    ask(&disk, Op::Trim, 32, 8);
    assert_eq!(epochs::close(&disk.engine, 7), Ok(Epoch(2)));
    write(&disk, 0..8, 3);
    ask(&disk, Op::Flush, 0, 0);
    let only = (0..16).chain(32..40).map(|block| (block, 1)).collect();
    (disk, only)
}

/// What every block shows in epoch 2, and now.
fn check_kept(disk: &OpenDisk) {
    for block in 0..64 {
        let is_free = (32..40).contains(&block);
        let past = if block < 16 { 2 } else { 1 };
        let now = if block < 8 { 3 } else { past };
        let wanted = |round| if is_free { vec![0; BLOCK as usize] } else { content(block, round) };
        assert!(ask(disk, Op::ReadPast(Epoch(2)), block, 1) == wanted(past), "block {block} in epoch 2");
        assert!(ask(disk, Op::Read, block, 1) == wanted(now), "block {block} now");
    }
}

pub(crate) fn forget(disk: &OpenDisk, epoch: Epoch) {
    epochs::forget(&disk.engine, EpochRange { from: epoch, to: epoch }).expect("it is forgotten");
    wait_until_forgotten(disk);
}

/// Has every stub go from the log to its home: the forget of another epoch, of other blocks, writes the index.
pub(crate) fn bring_home(disk: &OpenDisk) {
    write(disk, 200..208, 1);
    assert_eq!(epochs::close(&disk.engine, 7), Ok(Epoch(3)));
    write(disk, 200..208, 2);
    forget(disk, Epoch(3));
}

/// What only epoch 1 showed cannot be opened after it is forgotten.
fn judge(seal: Seal, are_at_home: bool) {
    let bench = Bench::new(seal);
    let (disk, only) = filled(&bench);
    if are_at_home {
        bring_home(&disk);
    }
    let [data, stubs, root] = &bench.media();
    forget(&disk, Epoch(1));
    check_kept(&disk);
    stop(disk, true);
    assert!(bench.opened([data, stubs, root]).is_superset(&only), "{seal:?}: the judge is blind");
    let [_, stubs_now, root_now] = &bench.media();
    assert_opened(&bench.opened([data, stubs_now, root_now]), &only, &KEPT, &format!("{seal:?}"));
    let past = bench.opened([data, stubs, root_now]);
    assert_opened(&past, &only, &[], &format!("{seal:?} with a past copy of the stubs"));
    check_kept(&bench.open());
}

pub(crate) const WITH_STUBS: [Seal; 4] = [Seal::RandomKey, Seal::Aon, Seal::Aon2005, Seal::RAon];

#[test]
fn not_even_all_keys_open_what_only_a_forgotten_epoch_showed() {
    WITH_STUBS.into_iter().for_each(|seal| judge(seal, false));
}

#[test]
fn nor_does_anybody_where_the_stubs_had_left_the_log_for_their_homes() {
    WITH_STUBS.into_iter().for_each(|seal| judge(seal, true));
}

#[test]
fn without_a_seal_the_content_itself_is_gone() {
    let bench = Bench::new(Seal::None);
    let (disk, only) = filled(&bench);
    let is_there = |data: &[u8], (block, round): &(u64, u64)| {
        let wanted = content(*block, *round);
        data.chunks_exact(BLOCK as usize).any(|slot| has_sector_of(slot, &wanted))
    };
    let (before, passed) = (bench.file("data"), disk.engine.status().counters.passed_bytes);
    assert!(only.iter().all(|it| is_there(&before, it)), "the judge is blind");
    forget(&disk, Epoch(1));
    check_kept(&disk);
    let passed = disk.engine.status().counters.passed_bytes - passed;
    assert!(passed >= only.len() as u64 * BLOCK, "{passed} bytes");
    disk.close(true, |_| true);
    let after = bench.file("data");
    assert!(!only.iter().any(|it| is_there(&after, it)));
    assert!(KEPT.iter().all(|it| is_there(&after, it)));
}

#[test]
fn without_stubs_all_keys_and_all_records_open_nothing_of_a_forgotten_epoch() {
    let bench = Bench::new(Seal::AesXts);
    let (disk, only) = filled(&bench);
    let [data, stubs, root] = &bench.media();
    forget(&disk, Epoch(1));
    check_kept(&disk);
    stop(disk, true);
    assert!(bench.opened([data, stubs, root]).is_superset(&only), "the judge is blind");
    // What the records said before the forget says where everything was.
    let after = bench.opened([&bench.file("data"), stubs, root]);
    assert_opened(&after, &only, &KEPT, "with the past stubs and root");
    check_kept(&bench.open());
}

/// The round of what each block shows now; 0 for zeros.
fn rounds(disk: &OpenDisk) -> Vec<u64> {
    let round = |block| {
        let bytes = ask(disk, Op::Read, block, 1);
        (1..=3).find(|round| bytes == content(block, *round)).unwrap_or(0)
    };
    (0..64).map(round).collect()
}

#[test]
fn a_restore_that_is_interrupted_can_go_on_and_back() {
    let bench = Bench::new(Seal::RandomKey);
    let (disk, _) = filled(&bench);
    let before = rounds(&disk);
    let restore = |at: &str, steps: u64| {
        let mut left = steps;
        disk.reply(&Call::Restore { at: at.into() }, None, &mut |_, _| {
            left = left.saturating_sub(1);
            left > 0
        })
    };
    let error = restore("1", 2).expect_err("it is interrupted");
    let error = error.to_string();
    assert!(error.contains("restore epoch 1 to go on, or epoch 3 to go back"), "{error}");
    let mixed = rounds(&disk);
    assert_eq!(mixed[..16], [1; 16], "what was restored");
    assert_eq!(mixed[16..], before[16..], "the rest is as before");
    restore("3", 100).expect("it goes back");
    assert_eq!(rounds(&disk), before);
    restore("1", 100).expect("it goes on");
    assert_eq!(rounds(&disk), [1; 64]);
    for block in 0..64 {
        let wanted = match before[block as usize] {
            0 => vec![0; BLOCK as usize],
            round => content(block, round),
        };
        assert!(ask(&disk, Op::ReadPast(Epoch(3)), block, 1) == wanted, "block {block} in epoch 3");
    }
}

#[test]
fn stubs_in_the_log_die_with_the_cell_of_their_half_and_not_one_by_one() {
    const BLOCKS: u64 = 3000;
    let bench = Bench::with_size(Seal::RandomKey, 2 * BLOCKS * BLOCK);
    let disk = bench.open();
    write(&disk, 0..BLOCKS, 1);
    assert_eq!(epochs::close(&disk.engine, 1), Ok(Epoch(1)));
    ask(&disk, Op::Trim, 0, BLOCKS);
    assert_eq!(epochs::close(&disk.engine, 1), Ok(Epoch(2)));
    ask(&disk, Op::Flush, 0, 0);
    let passed = || disk.engine.status().counters.passed_bytes;
    let before = passed();
    forget(&disk, Epoch(1));
    assert_eq!(passed() - before, 32, "the cell of a half of the log");
    disk.close(true, |_| true);
}

/// Checks that a start is refused by name when the file has other bytes, or is missing, and that nothing is lost by that. Of a
/// message with a bar, one side has to be there.
fn assert_refused(bench: &Bench, name: &str, cases: &[(Vec<u8>, &str)]) {
    let whole = bench.file(name);
    for (bytes, what) in cases {
        bench.put(name, bytes);
        let refusal = bench.refusal();
        assert!(what.split('|').any(|it| refusal.contains(it)), "{what}: {refusal}");
    }
    std::fs::remove_file(bench.path.join(name)).expect("it is there");
    let refusal = bench.refusal();
    assert!(refusal.contains(&format!("{name}: the ")) && refusal.contains("is missing; "), "{refusal}");
    bench.put(name, &whole);
    check_kept(&bench.open());
}

fn flipped(bytes: &[u8], at: usize) -> Vec<u8> {
    let mut bytes = bytes.to_vec();
    bytes[at] ^= 1;
    bytes
}

#[test]
fn a_root_that_is_missing_damaged_or_of_another_disk_or_time_is_refused_by_name_and_nothing_is_lost() {
    let (bench, other) = (Bench::new(Seal::RandomKey), Bench::new(Seal::RandomKey));
    let early = bench.file("root");
    let (disk, _) = filled(&bench);
    forget(&disk, Epoch(1));
    write(&disk, 48..50, 1);
    assert_eq!(epochs::close(&disk.engine, 2), Ok(Epoch(3)));
    forget(&disk, Epoch(3));
    // The log is committed, and then the index is, which frees slots. What is written after that is in the log alone.
    (0..2).for_each(|_| _ = ask(&disk, Op::Flush, 0, 0));
    write(&disk, 48..50, 1);
    ask(&disk, Op::Flush, 0, 0);
    // As after a kill: the log still has to be replayed.
    let files = || ["data", "stubs", "map", "journal", "root"].map(|name| (name, bench.file(name)));
    // All of one instant: jobs may still be under way.
    let kept = std::iter::repeat_with(|| (files(), files())).take(100).find(|(one, next)| one == next);
    let (kept, _) = kept.expect("a disk with nothing to do changes no file");
    stop(disk, true);
    kept.iter().for_each(|(name, bytes)| bench.put(name, bytes));
    let _ = std::fs::remove_file(bench.path.join("view"));
    let root = bench.file("root");
    let cell = (CELLS_AT..root.len()).find(|at| root[*at] != 0).expect("a page of homes has a cell");
    let cases = [
        (other.file("root"), "the root is that of another disk"),
        (flipped(&root, 9), "the root has no valid head"),
        (vec![0; 8192], "the root has no valid head"),
        (root[..4096].to_vec(), "root: 4096 bytes long, and at least 8192 bytes are in use"),
        // Which of its cells a start misses first depends on whether the log has anything to replay.
        (early, "older than the rest|are not of one time"),
        (flipped(&root, cell), "the root has no whole cell at byte"),
    ];
    assert_refused(&bench, "root", &cases);
}

#[test]
fn stubs_that_are_missing_damaged_or_of_another_disk_or_time_are_refused_by_name_and_nothing_is_lost() {
    let (bench, other) = (Bench::new(Seal::RandomKey), Bench::new(Seal::RandomKey));
    let early = bench.file("stubs");
    let (disk, _) = filled(&bench);
    let middle = bench.file("stubs");
    write(&disk, 48..50, 1);
    stop(disk, true);
    let stubs = bench.file("stubs");
    let cases = [
        (other.file("stubs"), "the stub medium is that of another disk"),
        (flipped(&stubs, 9), "the stub medium has no valid head"),
        (vec![0; stubs.len()], "the stub medium has no valid head"),
        (early, "the log of stubs ends at sector"),
        (middle, "the log of stubs ends at sector"),
    ];
    assert_refused(&bench, "stubs", &cases);
}
