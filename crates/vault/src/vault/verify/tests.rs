use super::*;
use crate::client::read_folder;
use crate::sanitize::Progress;
use crate::tree::Recipe;
use crate::units::Class;
use crate::vault::tests::{Files, Media, files, put, recipe, restored, sanitize, writer};

/// Changes the byte behind each place in the pool where `needle` is.
fn damage(media: &Media, needle: &[u8]) {
    media.pool.bytes(|bytes| {
        let places: Vec<usize> =
            (0..bytes.len() - needle.len()).filter(|&at| bytes[at..].starts_with(needle)).collect();
        assert!(!places.is_empty(), "nothing to damage");
        places.into_iter().for_each(|at| bytes[at + needle.len()] ^= 1);
    });
}

fn faults(vault: &mut Vault<'_>) -> u64 {
    vault.verify(&mut |_, _| true).unwrap().faults_count
}

fn some() -> Files {
    files(&["alpha", "beta", "a gamma of folders", "delta"], 3)
}

/// Bytes of the pool, each a little before one that is damaged: in content, in a folder, in all heads.
fn needles() -> [Vec<u8>; 3] {
    [some()["alpha"][..40].to_vec(), b"gamma of folders".to_vec(), b"QuietusContaine".to_vec()]
}

#[test]
fn what_was_found_damaged_is_stored_again_by_the_next_put_and_heals_older_snapshots() {
    for needle in needles() {
        let media = Media::new(60);
        let mut vault = media.create();
        let first = put(&mut vault, &some()).unwrap();
        // The index knows of every chunk, also of those that only a damaged folder names.
        sanitize(&mut vault).unwrap();
        damage(&media, &needle);
        // The next life has read no directory yet.
        drop(vault);
        let mut vault = media.open();
        assert!(faults(&mut vault) > 0, "{needle:?}");
        assert_ne!(restored(&mut vault, first).ok(), Some(some()));
        // The mark outlasts the process that set it.
        drop(vault);
        let mut vault = media.open();
        let second = put(&mut vault, &some()).unwrap();
        drop(vault);
        let mut vault = media.open();
        for snapshot in [first, second] {
            assert_eq!(restored(&mut vault, snapshot).unwrap(), some(), "{needle:?}");
        }
    }
}

#[test]
fn a_sanitization_destroys_the_damaged_copy_of_what_was_healed() {
    let media = Media::new(60);
    let mut vault = media.create();
    let first = put(&mut vault, &some()).unwrap();
    let needle = &some()["alpha"][..40];
    damage(&media, needle);
    assert_eq!(faults(&mut vault), 2, "a chunk, and a snapshot that lacks it");
    put(&mut vault, &some()).unwrap();
    assert_eq!(faults(&mut vault), 0);
    let count = |media: &Media| {
        media.pool.bytes(|bytes| bytes.windows(needle.len()).filter(|it| *it == needle).count())
    };
    assert_eq!(count(&media), 2);
    sanitize(&mut vault).unwrap();
    assert_eq!(count(&media), 1);
    assert_eq!(restored(&mut vault, first).unwrap(), some());
    assert_eq!(faults(&mut vault), 0);
    assert!(!vault.catalog.table().containers(ContainerSequence(0)).any(|(it, _)| vault.is_damaged(it)));
}

#[test]
fn a_file_is_kept_only_while_all_of_its_content_is_whole() {
    let media = Media::new(60);
    let mut vault = media.create();
    let first = put(&mut vault, &some()).unwrap();
    let folder = vault.snapshot(first).unwrap().folder;
    let nodes = read_folder(&mut vault, &folder).unwrap();
    let recipes: Vec<&Recipe> = nodes.iter().map(recipe).collect();
    damage(&media, &some()["alpha"][..40]);
    assert!(faults(&mut vault) > 0);
    let mut second = writer(&mut vault);
    let kept = second.keep(&mut vault, &recipes).unwrap();
    let expected: Vec<bool> = nodes.iter().map(|node| node.name != b"alpha").collect();
    assert_eq!(kept, expected);
    // The folder is wanted, since a chunk below it is; a put that stores it all the same gets the folder that is there.
    let above = folder.top().0[0].reference().unwrap();
    assert_eq!(vault.offer(second.put(), &[above.fingerprint]).unwrap(), [None]);
    let content = vault.get(&above).unwrap();
    assert_eq!(second.chunk(&mut vault, Class::Metadata, &content).unwrap(), above);
    second.file(&mut vault, &some()["alpha"]).unwrap();
    assert_eq!(vault.offer(second.put(), &[above.fingerprint]).unwrap(), [Some(above)]);
    let mut third = writer(&mut vault);
    assert_eq!(third.keep(&mut vault, &recipes).unwrap(), vec![true; nodes.len()]);
}

#[test]
fn a_put_heals_at_any_step_of_a_sanitization() {
    for steps in 0.. {
        let media = Media::new(80);
        let mut vault = media.create();
        let first = put(&mut vault, &some()).unwrap();
        let other = put(&mut vault, &files(&["x", "y"], 9)).unwrap();
        damage(&media, &some()["a gamma of folders"][..40]);
        faults(&mut vault);
        vault.forget(&[other]).unwrap();
        vault.begin_sanitization().unwrap();
        // A live chunk that is damaged cannot be copied: the run stops there, or goes on with the healed copy.
        let mut is_over = false;
        for _ in 0..steps {
            is_over |= matches!(vault.step_sanitization(), Ok(Progress::Done) | Err(_));
        }
        put(&mut vault, &some()).unwrap();
        while vault.is_sanitizing() {
            if vault.step_sanitization().is_err() {
                break;
            }
        }
        sanitize(&mut vault).unwrap();
        assert_eq!(restored(&mut vault, first).unwrap(), some(), "{steps} steps");
        assert_eq!((faults(&mut vault), vault.status().owed), (0, 0), "{steps} steps");
        if is_over {
            break;
        }
    }
}

#[test]
fn only_what_was_found_damaged_is_read() {
    let media = Media::new(60);
    let mut vault = media.create();
    put(&mut vault, &some()).unwrap();
    faults(&mut vault);
    let before = vault.pool.moved();
    let chunks: Vec<_> = vault.index.recent.entries().map(|entry| entry.fingerprint).collect();
    let put = vault.begin_put().unwrap();
    let data = chunks.into_iter().filter(|it| {
        let location = vault.index.recent.find(it).unwrap();
        vault.catalog.table().class(location.container) == Some(Class::Data)
    });
    let data: Vec<_> = data.collect();
    assert!(vault.offer(put, &data).unwrap().iter().all(Option::is_some));
    assert_eq!(vault.pool.moved(), before);
}
