use super::*;
use crate::container::Class;
use crate::sanitize::Progress;
use crate::vault::tests::{Files, Media, files, put, restored, sanitize, writer};
use crate::{SnapshotId, VaultError};

/// Where a container is damaged.
#[derive(Clone, Copy, Debug)]
enum Part {
    Head,
    Entry,
}

impl Part {
    const ALL: [Part; 2] = [Part::Head, Part::Entry];

    /// Offset of a byte of the part from the slot's start.
    fn at(self) -> usize {
        match self {
            Part::Head => 40,
            Part::Entry => crate::container::HEAD_BYTES + 5,
        }
    }
}

/// A vault with a snapshot to keep and one to forget, in containers of their own and in the sorted index.
struct Bench {
    media: Media,
    kept: (SnapshotId, Files),
    gone: (SnapshotId, Files),
}

impl Bench {
    fn new() -> Bench {
        let media = Media::new(60);
        let mut vault = media.create();
        let (kept, gone) = (files(&["kept"], 3), files(&["secret plan"], 4));
        let kept = (put(&mut vault, &kept).unwrap(), kept);
        let gone = (put(&mut vault, &gone).unwrap(), gone);
        sanitize(&mut vault).unwrap();
        drop(vault);
        Bench { media, kept, gone }
    }

    /// Damages the container that has content which begins with these bytes, 40 at most.
    fn damage(&self, content: &[u8], at: usize) {
        let (slot_bytes, needle) = (self.media.slot_bytes(), &content[..content.len().min(40)]);
        self.media.pool.bytes(|bytes| {
            let found = bytes.windows(needle.len()).position(|it| it == needle).expect("it is there");
            bytes[found / slot_bytes * slot_bytes + at] ^= 1;
        });
    }

    /// The vault, in which the one snapshot is forgotten and not yet destroyed.
    fn forgotten(&self) -> Vault<'_> {
        let mut vault = self.media.open();
        vault.forget(&[self.gone.0]).unwrap();
        vault
    }

    fn has_secret(&self) -> bool {
        self.media.have(b"secret plan") || self.media.have(&self.gone.1["secret plan"][40..72])
    }
}

/// Sanitizes, and returns the containers that are left.
fn left(vault: &mut Vault<'_>) -> Result<usize, VaultError> {
    vault.begin_sanitization()?;
    let mut left = 0;
    while vault.step_sanitization()? != Progress::Done {
        left = vault.sanitization_left().unwrap().len();
    }
    Ok(left)
}

#[test]
fn a_damaged_container_is_destroyed_once_nothing_in_it_is_live() {
    for part in Part::ALL {
        let bench = Bench::new();
        bench.damage(&bench.gone.1["secret plan"], part.at());
        let mut vault = bench.forgotten();
        assert_eq!(left(&mut vault), Ok(0), "{part:?}");
        assert!(!bench.has_secret(), "{part:?}");
        assert_eq!((vault.status().owed, vault.receipts().count()), (0, 1), "{part:?}");
        assert_eq!(restored(&mut vault, bench.kept.0).unwrap(), bench.kept.1, "{part:?}");
    }
}

#[test]
fn a_snapshot_that_cannot_be_read_is_named_and_keeps_everything_until_it_is_forgotten() {
    let bench = Bench::new();
    // All metadata that is not to be forgotten: a name of the kept snapshot's folder.
    bench.damage(b"kept", Part::Head.at());
    let mut vault = bench.forgotten();
    let stopped = left(&mut vault);
    let is_named =
        |it: &VaultError| matches!(it, VaultError::Unreadable { snapshot, .. } if *snapshot == bench.kept.0);
    assert!(stopped.as_ref().is_err_and(is_named), "{stopped:?}");
    assert!(bench.has_secret() && vault.status().owed == 1);
    vault.forget(&[bench.kept.0]).unwrap();
    assert_eq!(left(&mut vault), Ok(0));
    assert!(!bench.has_secret() && vault.status().owed == 0);
}

#[test]
fn a_put_that_refers_to_a_dead_chunk_of_a_damaged_container_keeps_that() {
    for part in Part::ALL {
        let bench = Bench::new();
        bench.damage(&bench.gone.1["secret plan"], part.at());
        let mut vault = bench.media.open();
        let old = vault.snapshot(bench.gone.0).unwrap();
        vault.forget(&[bench.gone.0]).unwrap();
        vault.begin_sanitization().unwrap();
        while !matches!(vault.step_sanitization().unwrap(), Progress::Copy(_)) {}
        // The folder is whole and refers to the damaged chunk: a put that stores the folder as it was refers to that chunk, too.
        let mut put = writer(&mut vault);
        let folder = old.folder.top().0[0].reference().unwrap();
        let content = vault.get(&folder).unwrap();
        assert_eq!(put.chunk(&mut vault, Class::Metadata, &content).unwrap(), folder);
        while vault.step_sanitization().unwrap() != Progress::Done {}
        assert!(bench.media.have(&bench.gone.1["secret plan"][40..72]), "{part:?}");
        assert_eq!(vault.status().owed, 1);
    }
}

#[test]
fn a_container_that_the_index_does_not_know_either_stays_until_its_files_were_put_again() {
    let bench = Bench::new();
    bench.damage(&bench.kept.1["kept"], Part::Head.at());
    bench.media.damage(Class::Index, 4096 + 100);
    let mut vault = bench.forgotten();
    assert_eq!(left(&mut vault), Ok(1));
    assert!(!bench.has_secret() && vault.status().owed == 1);
    let again = put(&mut vault, &bench.kept.1).unwrap();
    assert_eq!(left(&mut vault), Ok(0));
    assert_eq!(vault.status().owed, 0);
    // The older snapshot uses the chunks that were put again.
    vault.forget(&[again]).unwrap();
    for _ in 0..2 {
        assert_eq!(left(&mut vault), Ok(0));
        assert_eq!(restored(&mut vault, bench.kept.0).unwrap(), bench.kept.1);
    }
    vault.forget(&[bench.kept.0]).unwrap();
    assert_eq!(left(&mut vault), Ok(0));
    assert_eq!((vault.status().chunks, vault.status().owed), (0, 0));
}
