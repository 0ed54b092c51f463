use std::collections::BTreeMap;

use super::*;
use crate::catalog::Layout;
use crate::chunk::{Compression, KEY_BYTES, Packer};
use crate::client::{Thinning, Writer, read_file, read_folder};
use crate::container::{Class, ENTRY_BYTES};
use crate::sanitize::Progress;
use crate::testing::{Memory, Noise, text};
use crate::tree::{Kind, Metadata, Node, Recipe, Snapshot};
use crate::{Fingerprint, VaultId};

pub(crate) fn layout(slots: u32) -> Layout {
    Layout { vault: VaultId([5; 16]), slots, slot_bytes: 96 << 10, half_bytes: 32 << 10 }
}

pub(crate) fn key() -> VaultKey {
    VaultKey::new(&[1; KEY_BYTES])
}

pub(crate) fn setup() -> Setup {
    let policy = "random,zero".parse().unwrap();
    Setup { key: key(), policy, recent_entries_max: 40, entropy: [9; 32] }
}

/// The media of a vault.
pub(crate) struct Media {
    pub(crate) catalog: Memory,
    pub(crate) pool: Memory,
    layout: Layout,
}

impl Media {
    pub(crate) fn new(slots: u32) -> Media {
        let layout = layout(slots);
        Media { catalog: Memory::new(layout.bytes(), 1), pool: Memory::new(layout.pool_bytes(), 2), layout }
    }

    pub(crate) fn create(&self) -> Vault<'_> {
        Vault::create(&self.catalog, &self.pool, self.layout, setup()).unwrap()
    }

    pub(crate) fn slot_bytes(&self) -> usize {
        self.layout.slot_bytes as usize
    }

    pub(crate) fn open(&self) -> Vault<'_> {
        Vault::open(&self.catalog, &self.pool, self.layout, setup()).unwrap()
    }

    /// Damages a byte of each container of that class; how many there are.
    pub(crate) fn damage(&self, class: Class, at: usize) -> usize {
        self.pool.bytes(|bytes| {
            let slots = bytes.chunks_mut(self.slot_bytes());
            let found = slots.filter(|slot| slot.starts_with(b"QuietusContainer") && slot[20] == class as u8);
            found.map(|slot| slot[at] ^= 1).count()
        })
    }

    /// Whether any byte of the media betrays `needle`.
    pub(crate) fn have(&self, needle: &[u8]) -> bool {
        let has = |bytes: &mut [u8]| bytes.windows(needle.len()).any(|window| window == needle);
        self.catalog.bytes(has) || self.pool.bytes(has)
    }
}

pub(crate) type Files = BTreeMap<String, Vec<u8>>;

/// Files of noise, which is stored as it is, and of text, of which the compressed bytes are stored.
pub(crate) fn files(names: &[&str], seed: u64) -> Files {
    let mut noise = Noise(seed);
    let content = |(at, name): (usize, &&str)| {
        let length = 8 * (1 + noise.next() as usize % 3_000);
        let content =
            if at % 2 == 0 { noise.bytes(length) } else { [name.as_bytes(), &text(length)].concat() };
        (name.to_string(), content)
    };
    names.iter().enumerate().map(content).collect()
}

pub(crate) fn write(
    vault: &mut Vault<'_>,
    writer: &mut Writer,
    files: &Files,
) -> Result<Snapshot, VaultError> {
    let mut nodes = Vec::new();
    for (name, content) in files {
        let recipe = writer.file(vault, content)?;
        let (name, metadata) = (name.clone().into_bytes(), Metadata::default());
        nodes.push(Node { name, metadata, kind: Kind::File(recipe) });
    }
    let folder = writer.folder(vault, &nodes)?;
    Ok(Snapshot { name: b"some snapshot".to_vec(), created_ms: 5, folder, ..Snapshot::default() })
}

pub(crate) fn writer(vault: &mut Vault<'_>) -> Writer {
    Writer::begin(vault, &key(), Compression::Lz4).unwrap()
}

pub(crate) fn put(vault: &mut Vault<'_>, files: &Files) -> Result<SnapshotId, VaultError> {
    let mut writer = writer(vault);
    let snapshot = write(vault, &mut writer, files)?;
    writer.commit(vault, &snapshot)
}

pub(crate) fn restored(vault: &mut Vault<'_>, snapshot: SnapshotId) -> Result<Files, VaultError> {
    let snapshot = vault.snapshot(snapshot)?;
    let mut files = Files::new();
    for node in read_folder(vault, &snapshot.folder)? {
        let content = content(vault, recipe(&node))?;
        files.insert(String::from_utf8(node.name).unwrap(), content);
    }
    Ok(files)
}

/// The recipe of a file.
pub(crate) fn recipe(node: &Node) -> &Recipe {
    let Kind::File(recipe) = &node.kind else { panic!("{node:?}") };
    recipe
}

/// The content of a file, with the zeros of its holes.
pub(crate) fn content(vault: &mut Vault<'_>, recipe: &Recipe) -> Result<Vec<u8>, VaultError> {
    let mut content = Vec::new();
    read_file::<VaultError>(vault, recipe, &mut |bytes, piece| {
        let end = content.len() + bytes as usize;
        content.extend(piece.unwrap_or_default());
        content.resize(end, 0);
        Ok(())
    })?;
    Ok(content)
}

pub(crate) fn sanitize(vault: &mut Vault<'_>) -> Result<(), VaultError> {
    vault.begin_sanitization()?;
    for _ in 0..10_000 {
        if vault.step_sanitization()? == Progress::Done {
            return Ok(());
        }
    }
    panic!("the sanitization does not end");
}

#[test]
fn equal_content_is_stored_once() {
    let media = Media::new(40);
    let mut vault = media.create();
    let all = files(&["a", "b", "c", "d"], 2);
    put(&mut vault, &all).unwrap();
    let before = vault.next_ordinal;
    put(&mut vault, &all).unwrap();
    assert_eq!(vault.next_ordinal, before, "the same snapshot again has no new chunk at all");
}

#[test]
fn what_was_forgotten_is_nowhere_and_the_rest_is_there() {
    let media = Media::new(60);
    let mut vault = media.create();
    let kept = files(&["a", "b", "c"], 3);
    let mut secret = files(&["secret plan", "text of a secret"], 4);
    secret.extend(kept.clone());
    let first = put(&mut vault, &kept).unwrap();
    let second = put(&mut vault, &secret).unwrap();
    let needles = [secret["secret plan"][40..72].to_vec(), b"secret plan".to_vec()];
    assert!(needles.iter().all(|needle| media.have(needle)), "stored as they are");
    let stored = Packer::new(key(), Compression::Lz4).pack(Class::Data, &secret["text of a secret"][..2048]);
    assert!(stored.stored().len() < 1024);
    let forget = vault.forget(&[second]).unwrap()[0];
    assert_eq!(vault.status().owed, 1);
    sanitize(&mut vault).unwrap();
    assert!(needles.iter().all(|needle| !media.have(needle)));
    assert!(!media.have(b"text of a secret"));
    let receipts: Vec<_> = vault.receipts().collect();
    assert_eq!((receipts.len(), receipts[0].forget, receipts[0].passes), (1, forget, 2));
    assert_eq!((vault.status().owed, vault.status().condemned), (0, 0));
    for _ in 0..2 {
        assert_eq!(restored(&mut vault, first).unwrap(), kept);
        assert_eq!(restored(&mut vault, second), Err(VaultError::NoSnapshot(second)));
        vault.verify(&mut |_, _| true).unwrap();
        drop(vault);
        vault = media.open();
    }
}

#[test]
fn metadata_that_names_what_is_not_there_is_refused() {
    let media = Media::new(40);
    let (mut vault, other) = (media.create(), Media::new(40));
    let mut elsewhere = other.create();
    let all = files(&["a", "b"], 6);
    let mut there = writer(&mut elsewhere);
    let snapshot = write(&mut elsewhere, &mut there, &all).unwrap();
    let mut here = writer(&mut vault);
    assert!(matches!(here.commit(&mut vault, &snapshot), Err(VaultError::Dangling(_))));
    let snapshot = write(&mut vault, &mut here, &all).unwrap();
    // A root in the place of a folder, and content in the place of a root.
    let mut packer = Packer::new(key(), Compression::None);
    let data = packer.pack(Class::Data, &snapshot.to_bytes());
    assert_eq!(vault.commit(here.put(), &data), Err(VaultError::NoRoot));
    let nodes = read_folder(&mut vault, &snapshot.folder).unwrap();
    let confused = Snapshot { folder: recipe(&nodes[0]).clone(), ..snapshot.clone() };
    assert!(matches!(here.commit(&mut vault, &confused), Err(VaultError::Dangling(_))));
    here.commit(&mut vault, &snapshot).unwrap();
}

#[test]
fn folders_that_double_at_each_level_are_walked_in_no_time() {
    let media = Media::new(40);
    let mut vault = media.create();
    let mut writer = writer(&mut vault);
    let mut folder = Default::default();
    for _ in 0..60 {
        let node = |name: &str| {
            let name = name.as_bytes().to_vec();
            Node { name, metadata: Metadata::default(), kind: Kind::Folder(Clone::clone(&folder)) }
        };
        let nodes = [node("a"), node("b")];
        folder = writer.folder(&mut vault, &nodes).unwrap();
    }
    let snapshot = Snapshot { name: b"deep".to_vec(), created_ms: 1, folder, ..Snapshot::default() };
    let first = writer.commit(&mut vault, &snapshot).unwrap();
    let put = vault.begin_put().unwrap();
    let root = snapshot.folder.top().0[0].reference().unwrap();
    assert_eq!(vault.offer(put, &[root.fingerprint]).unwrap(), [Some(root)]);
    sanitize(&mut vault).unwrap();
    vault.forget(&[first]).unwrap();
    vault.drop_put(put).unwrap();
    sanitize(&mut vault).unwrap();
    assert_eq!(vault.status().chunks, 0);
}

#[test]
fn an_audit_that_misses_a_chunk_stops_before_anything_is_destroyed() {
    let media = Media::new(60);
    let mut vault = media.create();
    let (one, two) = (files(&["a", "b"], 8), files(&["c", "d"], 9));
    let first = put(&mut vault, &one).unwrap();
    let second = put(&mut vault, &two).unwrap();
    vault.forget(&[first]).unwrap();
    drop(vault);
    // An entry of a directory that is not the forgotten snapshot's.
    let mut vault = media.open();
    let snapshot = vault.snapshot(second).unwrap();
    let nodes = read_folder(&mut vault, &snapshot.folder).unwrap();
    let chunk = recipe(&nodes[0]).top().0[0].reference().unwrap();
    drop(vault);
    media.pool.bytes(|bytes| {
        let at = bytes.windows(32).position(|window| window == chunk.fingerprint.0).unwrap();
        // As if the chunk had been destroyed: nothing says that anything is damaged.
        bytes[at..at + ENTRY_BYTES].fill(0);
    });
    let before = media.pool.bytes(|bytes| bytes.to_vec());
    let mut vault = media.open();
    let stopped = sanitize(&mut vault);
    let is_right = matches!(stopped, Err(VaultError::Audit { .. } | VaultError::Unreadable { .. }));
    assert!(is_right, "{stopped:?}");
    assert!(vault.receipts().next().is_none() && vault.status().owed == 1);
    let after = media.pool.bytes(|bytes| bytes.to_vec());
    let lost = before.iter().zip(&after).filter(|(old, new)| **old != 0 && old != new).count();
    assert_eq!(lost, 0, "bytes of the pool that were overwritten");
}

#[test]
fn a_chunk_that_no_slot_holds_is_refused_and_leaves_no_slot_behind() {
    let layout = Layout { slot_bytes: 16 << 10, ..layout(20) };
    let (catalog, pool) = (Memory::new(layout.bytes(), 1), Memory::new(layout.pool_bytes(), 2));
    let mut vault = Vault::create(&catalog, &pool, layout, setup()).unwrap();
    let mut writer = writer(&mut vault);
    let large = writer.chunk(&mut vault, Class::Data, &Noise(1).bytes(20_000));
    assert_eq!(large, Err(VaultError::TooLarge { stored: 20_000, slot: 16 << 10 }));
    let folder = writer.folder(&mut vault, &[]).unwrap();
    let empty = Snapshot { name: b"nothing".to_vec(), created_ms: 1, folder, ..Snapshot::default() };
    let snapshot = writer.commit(&mut vault, &empty).unwrap();
    vault.forget(&[snapshot]).unwrap();
    sanitize(&mut vault).unwrap();
    assert_eq!(vault.status().free, 20);
}

#[test]
fn a_failed_write_latches() {
    let media = Media::new(40);
    let mut vault = media.create();
    let all = files(&["a", "b", "c"], 10);
    let first = put(&mut vault, &all).unwrap();
    let mut writer = writer(&mut vault);
    let snapshot = write(&mut vault, &mut writer, &files(&["d", "e"], 11)).unwrap();
    media.pool.light_fuse(1);
    let failed = writer.commit(&mut vault, &snapshot);
    assert!(matches!(failed, Err(VaultError::Pool(_))), "{failed:?}");
    media.pool.cut();
    assert_eq!(writer.commit(&mut vault, &snapshot), Err(VaultError::Broken));
    assert_eq!(restored(&mut vault, first).unwrap(), all, "reads go on");
}

#[test]
fn a_damaged_index_is_made_anew_of_the_directories() {
    let media = Media::new(60);
    let mut vault = media.create();
    let all = files(&["a", "b", "c", "d"], 12);
    let kept = put(&mut vault, &all).unwrap();
    let gone = put(&mut vault, &files(&["e", "f"], 13)).unwrap();
    vault.forget(&[gone]).unwrap();
    sanitize(&mut vault).unwrap();
    drop(vault);
    assert!(media.damage(Class::Index, 4096 + 100) > 0);
    let mut vault = media.open();
    assert!(!vault.catalog.table().condemned().is_empty());
    assert_eq!(restored(&mut vault, kept).unwrap(), all);
    assert_eq!(vault.verify(&mut |_, _| true).unwrap().faults, []);
    vault.forget(&[kept]).unwrap();
    sanitize(&mut vault).unwrap();
    assert_eq!((vault.status().chunks, vault.status().free), (0, 60));
}

#[test]
fn a_container_without_its_head_costs_its_chunks() {
    let media = Media::new(60);
    let mut vault = media.create();
    put(&mut vault, &files(&["a", "b", "c", "d"], 14)).unwrap();
    drop(vault);
    assert!(media.damage(Class::Data, 40) > 0);
    let mut vault = media.open();
    let verified = vault.verify(&mut |_, _| true).unwrap();
    assert!(verified.faults.iter().any(|fault| matches!(fault, VaultError::Head { .. })), "{verified:?}");
    assert!(verified.faults.iter().any(|fault| matches!(fault, VaultError::Missing(_))), "{verified:?}");
}

#[test]
fn paths_are_taken_out_of_all_snapshots_or_of_none() {
    let media = Media::new(80);
    let mut vault = media.create();
    let all = files(&["a", "b", "secret plan", "text of a secret"], 16);
    let first = put(&mut vault, &all).unwrap();
    let second = put(&mut vault, &files(&["a"], 16)).unwrap();
    let old = vault.snapshot(first).unwrap();
    let mut writer = writer(&mut vault);
    let is_gone = |path: &[u8]| path.ends_with(b"plan") || path.ends_with(b"secret");
    let mut thinning = Thinning::new(&is_gone);
    assert_eq!(thinning.matching(&mut vault, &old.folder, b"").unwrap().files, 2);
    let folder = thinning.without(&mut writer, &mut vault, &old.folder, b"").unwrap().unwrap();
    let new = Snapshot { folder, ..old };
    let roots: Vec<Reference> = vault.snapshots().map(|(_, root)| root).collect();
    vault.hold("law", &[first]).unwrap();
    let refused =
        writer.replace(&mut vault, &[(second, roots[1], new.clone()), (first, roots[0], new.clone())]);
    assert!(matches!(refused, Err(VaultError::Held { .. })), "{refused:?}");
    assert!(matches!(vault.forget(&[second, first]), Err(VaultError::Held { .. })));
    assert_eq!(vault.release("law").unwrap(), [first]);
    let refused = writer.replace(&mut vault, &[(first, roots[1], new.clone())]);
    assert_eq!(refused, Err(VaultError::Changed(first)));
    let twice = [(first, roots[0], new.clone()), (first, roots[0], new.clone())];
    assert_eq!(writer.replace(&mut vault, &twice), Err(VaultError::Changed(first)));
    let forgets = writer.replace(&mut vault, &[(first, roots[0], new)]).unwrap();
    assert_eq!(vault.owed().collect::<Vec<_>>(), [(forgets[0], Owed::Paths(first))]);
    let kept: Files = all.into_iter().filter(|(name, _)| name.len() == 1).collect();
    assert_eq!(restored(&mut vault, first).unwrap(), kept);
}

#[test]
fn a_put_that_ends_without_a_snapshot_is_owed_once() {
    let media = Media::new(60);
    let mut vault = media.create();
    let all = files(&["a", "b"], 17);
    let mut dropped = writer(&mut vault);
    write(&mut vault, &mut dropped, &all).unwrap();
    vault.drop_put(dropped.put()).unwrap();
    let mut cut = writer(&mut vault);
    write(&mut vault, &mut cut, &all).unwrap();
    let idle = writer(&mut vault);
    drop(vault);
    let mut vault = media.open();
    let owed: Vec<Owed> = vault.owed().map(|(_, owed)| owed).collect();
    assert_eq!(owed, [Owed::Put(dropped.put()), Owed::Put(cut.put())], "not {:?}", idle.put());
    drop(vault);
    vault = media.open();
    assert_eq!(vault.owed().count(), 2, "a second start owes nothing more");
    sanitize(&mut vault).unwrap();
    assert_eq!((vault.owed().count(), vault.receipts().count()), (0, 2));
    assert!(!media.have(&all["a"][..32]));
}

#[test]
fn holds_that_the_catalog_may_have_no_room_for_are_refused() {
    let media = Media::new(8);
    let mut vault = media.create();
    let name = "n".repeat(HOLD_NAME_BYTES_MAX);
    while vault.catalog.has_room(9 * hold_bytes(&name)) {
        let root = Reference { fingerprint: Fingerprint([7; 32]), ordinal: Ordinal(7) };
        let snapshot = vault.catalog.state().next.snapshot;
        vault.catalog.commit(&[Change::Commit(snapshot, root)]).unwrap();
    }
    let all: Vec<SnapshotId> = vault.snapshots().map(|(snapshot, _)| snapshot).collect();
    assert_eq!(vault.hold(&name, &all), Err(VaultError::Snapshots(all.len())));
    assert_eq!(vault.holds().count(), 0);
    vault.hold(&name, &[all[0]; 1000]).unwrap();
    assert_eq!(vault.holds().collect::<Vec<_>>(), [(name.as_str(), all[0])]);
}

#[test]
fn a_read_only_sanitization_says_so_and_ends() {
    let media = Media::new(60);
    let mut vault = media.create();
    assert_eq!(vault.refuse_puts(), Err(VaultError::NotRunning));
    vault.begin_sanitization().unwrap();
    let running = vault.begin_put().unwrap();
    assert_eq!(vault.refuse_puts(), Err(VaultError::Putting(1)));
    vault.drop_put(running).unwrap();
    vault.refuse_puts().unwrap();
    assert_eq!(vault.begin_put(), Err(VaultError::ReadOnly));
    while vault.step_sanitization().unwrap() != Progress::Done {}
    put(&mut vault, &files(&["a"], 18)).unwrap();
}

#[test]
fn what_a_slot_holds_is_told_from_what_it_is_to_hold() {
    let media = Media::new(60);
    let mut vault = media.create();
    let kept = put(&mut vault, &files(&["a", "b"], 19)).unwrap();
    let gone = put(&mut vault, &files(&["c"], 20)).unwrap();
    let found = |vault: &mut Vault<'_>| {
        let live = vault.reached_by_all(&mut |_, _| true).unwrap();
        let bytes = media.pool.bytes(|bytes| bytes.to_vec());
        let slots = bytes.chunks(media.slot_bytes()).zip(vault.slots());
        slots.map(|(bytes, slot)| vault.examine(slot, bytes, &live)).collect::<Vec<_>>()
    };
    let is_dead = |found: &Found| matches!(found, Found::Residue(_));
    assert!(!found(&mut vault).iter().any(is_dead));
    let weight = vault.weigh(&[gone], &mut |_, _| true).unwrap();
    vault.forget(&[gone]).unwrap();
    let dead = vault.contents(&mut |_, _| true).unwrap().dead;
    assert_eq!(weight, dead, "chunks of only one snapshot are dead without it");
    assert!(dead.chunks > 2 && found(&mut vault).iter().any(is_dead));
    sanitize(&mut vault).unwrap();
    let clean = found(&mut vault);
    assert!(
        !clean.iter().any(is_dead) && clean.iter().any(|found| matches!(found, Found::Live(_))),
        "{clean:?}"
    );
    assert_eq!(vault.contents(&mut |_, _| true).unwrap().dead, Amount::default());
    // A byte outside of all chunks is found, wherever it lies.
    let slot_bytes = media.slot_bytes();
    for slot in 0..60 {
        media.pool.bytes(|bytes| bytes[(slot + 1) * slot_bytes - 1] ^= 1);
        assert!(is_dead(&found(&mut vault)[slot]), "slot {slot}");
        media.pool.bytes(|bytes| bytes[(slot + 1) * slot_bytes - 1] ^= 1);
    }
    let interrupted = vault.verify(&mut |_, _| false);
    assert_eq!(interrupted, Err(VaultError::Interrupted));
    vault.forget(&[kept]).unwrap();
}

#[test]
fn a_snapshot_that_is_exchanged_between_the_consistency_points_keeps_what_it_has_now() {
    let media = Media::new(80);
    let mut vault = media.create();
    // The folder that the exchanged snapshot gets is a forgotten one's, so that nothing about it is new.
    let all = files(&["a", "b", "c"], 21);
    let kept: Files = all.clone().into_iter().filter(|(name, _)| name != "c").collect();
    let first = put(&mut vault, &kept).unwrap();
    let second = put(&mut vault, &all).unwrap();
    vault.forget(&[first]).unwrap();
    vault.begin_sanitization().unwrap();
    assert_eq!(vault.step_sanitization(), Ok(Progress::Merge), "the first consistency point is taken");
    let old = vault.snapshot(second).unwrap();
    let root = vault.root(second).unwrap();
    let mut writer = writer(&mut vault);
    let is_gone = |path: &[u8]| path == b"c";
    let mut thinning = Thinning::new(&is_gone);
    let folder = thinning.without(&mut writer, &mut vault, &old.folder, b"").unwrap().unwrap();
    writer.replace(&mut vault, &[(second, root, Snapshot { folder, ..old })]).unwrap();
    while vault.step_sanitization().unwrap() != Progress::Done {}
    assert_eq!(restored(&mut vault, second).unwrap(), kept);
    assert_eq!(vault.verify(&mut |_, _| true).unwrap().faults, []);
}

#[test]
fn a_restore_of_what_is_forgotten_meanwhile_goes_on_until_that_is_destroyed_and_then_fails() {
    let media = Media::new(60);
    let mut vault = media.create();
    let all = files(&["a", "b", "c", "d"], 22);
    let first = put(&mut vault, &all).unwrap();
    let folder = vault.snapshot(first).unwrap().folder;
    let nodes = read_folder(&mut vault, &folder).unwrap();
    vault.forget(&[first]).unwrap();
    assert_eq!(content(&mut vault, recipe(&nodes[0])).unwrap(), all["a"]);
    sanitize(&mut vault).unwrap();
    let lost = content(&mut vault, recipe(&nodes[1]));
    assert!(matches!(lost, Err(VaultError::Absent(_))), "{lost:?}");
}
