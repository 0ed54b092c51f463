mod versions;

use super::create::PLAN;
use super::*;
use quietus_core::media::MediumId;
use rustix::fs::FlockOperation;
use std::os::unix::fs::FileExt;

fn options() -> CreateOptions {
    CreateOptions {
        size: Some(1 << 20),
        policy: "purge-2".into(),
        idle_after_ms: 250,
        deadline_ms: 600_000,
        ..CreateOptions::default()
    }
}

fn made(options: &CreateOptions) -> (tempfile::TempDir, PathBuf) {
    let dir = tempfile::tempdir().expect("a directory");
    let path = dir.path().join("disk");
    DiskDir::create(&path, options).expect("a disk");
    (dir, path)
}

fn kind(path: &Path) -> DiskErrorKind {
    DiskDir::open(path).expect_err("it is refused").kind
}

fn is_locked(path: &Path) -> bool {
    matches!(kind(path), DiskErrorKind::Directory(DirectoryErrorKind::Locked(_)))
}

/// How to make a disk in place on `image`.
fn adopting(image: &Path) -> CreateOptions {
    CreateOptions { medium: Some(image.into()), adopt: true, size: None, ..options() }
}

fn toml_of(path: &Path) -> String {
    std::fs::read_to_string(path.join("disk.toml")).expect("a text")
}

/// Why a `disk.toml` is refused in which `from` reads `to`, with a checksum that fits.
fn changed(text: &str, from: &str, to: &str) -> DiskErrorKind {
    assert!(text.contains(from), "{text}");
    let changed = text.replacen(from, to, 1);
    let was = DiskToml::from_text(text).expect("it is whole").checksum;
    let right = toml::from_str::<DiskToml>(&changed).map(|toml| toml.sum()).unwrap_or_default();
    DiskToml::from_text(&changed.replace(&was, &right)).expect_err("it is refused")
}

fn assert_invalid(text: &str, changes: &[(&str, &str)]) {
    for (from, to) in changes {
        let kind = changed(text, from, to);
        assert!(matches!(kind, DiskErrorKind::Invalid(_)), "{to}: {kind:?}");
    }
}

#[test]
fn two_directories_cannot_use_one_medium_at_once() {
    let dir = tempfile::tempdir().expect("a directory");
    let image = dir.path().join("image");
    std::fs::write(&image, [1; 8192]).expect("an image");
    let adopt = adopting(&image);
    for name in ["a", "b"] {
        DiskDir::create(&dir.path().join(name), &adopt).expect("a disk");
    }
    let _first = DiskDir::open(&dir.path().join("a")).expect("the first");
    assert!(is_locked(&dir.path().join("b")));
}

#[test]
fn an_image_is_adopted_with_its_content_and_its_size() {
    let dir = tempfile::tempdir().expect("a directory");
    let (image, path) = (dir.path().join("image"), dir.path().join("disk"));
    std::fs::write(&image, vec![7; 10_000]).expect("an image");
    let toml = DiskDir::create(&path, &adopting(&image)).expect("a disk");
    assert_eq!(toml.size_bytes, 9728);
    assert_eq!(std::fs::read(&image).expect("the image"), vec![7; 10_000]);
}

#[test]
fn creation_that_fails_leaves_nothing_behind() {
    let dir = tempfile::tempdir().expect("a directory");
    let path = dir.path().join("disk");
    for bad in [
        CreateOptions { size: Some(0), ..options() },
        CreateOptions { size: Some(1000), ..options() },
        CreateOptions { size: Some(u64::MAX / 512 * 512), ..options() },
        CreateOptions { size: None, ..options() },
        CreateOptions { policy: "nonsense".into(), ..options() },
        CreateOptions { medium: Some(dir.path().join("none")), adopt: true, ..options() },
    ] {
        DiskDir::create(&path, &bad).expect_err("it is refused");
        assert_eq!(std::fs::read_dir(dir.path()).expect("a directory").count(), 0);
    }
    DiskDir::create(&path, &options()).expect("a disk");
    let taken = DiskDir::create(&path, &options()).expect_err("it exists");
    assert_eq!(taken.kind, DirectoryErrorKind::Exists.into());
}

#[test]
fn every_flipped_bit_of_what_a_disk_is_gets_noticed() {
    let (dir, stores) = of_every_store();
    for (name, options) in stores {
        let path = dir.path().join(name);
        DiskDir::create(&path, &options).expect("a disk");
        let whole = DiskToml::read(&path).expect("it is whole");
        let text = toml_of(&path).into_bytes();
        for at in 0..text.len() * 8 {
            let mut flipped = text.clone();
            flipped[at / 8] ^= 1 << (at % 8);
            let read = std::str::from_utf8(&flipped).ok().and_then(|text| DiskToml::from_text(text).ok());
            if let Some(read) = read {
                // Only a person's part of it may read otherwise.
                let behaviour = whole.behaviour.clone();
                assert_eq!(DiskToml { behaviour, ..read }, whole, "{name}: bit {at}");
            }
        }
    }
}

#[test]
fn a_missing_file_is_named() {
    for (file, what) in [("disk.toml", "disk.toml"), ("data", "the medium")] {
        let (_dir, path) = made(&options());
        std::fs::remove_file(path.join(file)).expect("it was there");
        assert_eq!(kind(&path), DirectoryErrorKind::Missing(what).into());
    }
    let (_dir, path) = made(&options());
    std::fs::remove_file(path.join("journal")).expect("it was there");
    let disk = DiskDir::open(&path).expect("the directory is whole");
    let missing = disk.open_medium(MediumId::Journal).expect_err("it is missing");
    assert_eq!(missing.kind, DirectoryErrorKind::Missing("the journal").into());
}

#[test]
fn sizes_are_understood_or_refused() {
    assert_eq!(parse_size("512"), Ok(512));
    assert_eq!(parse_size("20G"), Ok(20 << 30));
    assert_eq!(parse_size("1.5TiB"), Ok(3 << 39));
    for bad in ["", "G", "-1", "1.5", "16777216T", "1e3", "0x10", "1.K.M"] {
        assert!(parse_size(bad).is_err(), "{bad:?}");
    }
}

fn names(dir: &Path) -> Vec<String> {
    let entries = std::fs::read_dir(dir).expect("a directory").flatten();
    entries.map(|entry| entry.file_name().to_string_lossy().into_owned()).collect()
}

#[test]
fn the_holder_of_a_medium_is_named() {
    let dir = tempfile::tempdir().expect("a directory");
    let image = dir.path().join("image");
    std::fs::write(&image, [1; 8192]).expect("an image");
    let reader = File::open(&image).expect("an image");
    rustix::fs::flock(&reader, FlockOperation::LockShared).expect("a lock");
    let error = DiskDir::create(&dir.path().join("disk"), &adopting(&image)).expect_err("it is in use");
    let holder = format!("process {}", std::process::id());
    assert_eq!(error.kind, DirectoryErrorKind::Locked(holder).into());
    assert_eq!(names(dir.path()), ["image"]);
}

#[test]
fn everything_that_a_creation_makes_is_cleared_after_a_crash() {
    let (dir, stores) = of_every_store();
    for (name, options) in stores {
        let path = dir.path().join(name);
        DiskDir::create(&path, &options).expect("a disk");
        let media = options.store.media().iter().map(|row| row.file.to_string());
        let unknown: Vec<_> =
            names(&path).into_iter().chain(media).filter(|it| !PLAN.files.contains(&it.as_str())).collect();
        assert_eq!(unknown, [""; 0], "{name}");
    }
}

#[test]
fn what_becomes_of_a_disk_while_its_lock_is_waited_for_counts() {
    let (_dir, path) = made(&options());
    let first = DiskDir::open(&path).expect("the first");
    let second = std::thread::scope(|scope| {
        let second = scope.spawn(|| DiskDir::open(&path));
        std::thread::sleep(std::time::Duration::from_millis(30));
        let mut toml = first.toml().clone();
        toml.behaviour.idle_after_ms = 4711;
        toml.write(&path).expect("it is written");
        drop(first);
        second.join().expect("no panic").expect("the first has ended")
    });
    assert_eq!(second.toml().behaviour.idle_after_ms, 4711);
}

#[test]
fn every_field_is_refused_when_it_makes_no_sense() {
    let (_dir, path) = made(&options());
    let text = toml_of(&path);
    let size = format!("size_bytes = {}", DiskToml::in_place(&options()).expect("a toml").size_bytes);
    let changes = [
        (size.as_str(), "size_bytes = 0"),
        (&size, "size_bytes = 1000"),
        (&size, "size_bytes = -512"),
        (&size, "size_bytes = 9223372036854775808"),
        (&size, "size_bytes = \"20G\""),
        ("store = \"in-place\"", "store = \"elsewhere\""),
        ("uuid = \"", "uuid = \"x"),
        ("path = \"data\"", "path = 1"),
        ("adopted = false", "adopted = 0"),
        ("adopted = false", "adopted = false\nextra = 1"),
        ("policy = \"", "policy = \"x"),
        ("idle_after_ms = ", "idle_after_ms = -"),
        ("deadline_ms = ", "deadline_ms = -"),
        ("detect_zeroes = ", "detect_zeroes = 1"),
    ];
    assert_invalid(&text, &changes);
    for (from, to) in [("crc32c:", "crc32d:"), ("version = 1", "version = \"1\"")] {
        let kind = changed(&text, from, to);
        assert!(matches!(kind, DiskErrorKind::Directory(DirectoryErrorKind::Damaged(_))), "{to}: {kind:?}");
    }
    assert_eq!(changed(&text, "version = 1", "version = 7"), DiskErrorKind::Version(7));
    for known in ["version = 1", "detect_zeroes = "] {
        let unknown = changed(&text, known, &format!("turbo = true\n{known}")).to_string();
        assert!(unknown.contains("turbo"), "{unknown}");
    }
}

/// A base of 1 MiB and 100 bytes, and how to make an overlay above it.
fn golden() -> (tempfile::TempDir, PathBuf, CreateOptions) {
    let dir = tempfile::tempdir().expect("a directory");
    let base = dir.path().join("golden");
    std::fs::write(&base, vec![7; (1 << 20) + 100]).expect("an image");
    let store = StoreKind::Overlay;
    let overlay = CreateOptions { store, base: Some(base.clone()), size: None, ..options() };
    (dir, base, overlay)
}

/// How to make a disk of each store, and where.
fn of_every_store() -> (tempfile::TempDir, [(&'static str, CreateOptions); 3]) {
    let (dir, _base, overlay) = golden();
    (dir, [("in-place", options()), ("overlay", overlay), ("versions", versions::options())])
}

#[test]
fn an_overlay_is_as_large_as_its_base_or_larger() {
    let (dir, base, overlay) = golden();
    let path = dir.path().join("disk");
    let toml = DiskDir::create(&path, &overlay).expect("a disk");
    assert_eq!(toml.size_bytes, (1 << 20) + 512);
    assert_eq!(std::fs::metadata(path.join("data")).expect("a file").len(), 0);
    let disk = DiskDir::open(&path).expect("it opens");
    assert!(disk.base().is_some() && disk.open_medium(MediumId::Map).expect("it opens").is_some());
    drop(disk);
    let large = CreateOptions { size: Some(1 << 30), ..overlay.clone() };
    assert_eq!(DiskDir::create(&dir.path().join("large"), &large).expect("a disk").size_bytes, 1 << 30);
    for bad in [
        CreateOptions { size: Some(1 << 20), ..overlay.clone() },
        CreateOptions { size: Some(17 << 40), ..overlay.clone() },
        CreateOptions { base: None, ..overlay.clone() },
        CreateOptions { base: Some(dir.path().join("none")), ..overlay.clone() },
        CreateOptions { base: Some(dir.path().into()), ..overlay.clone() },
        CreateOptions { adopt: true, medium: Some(base.clone()), ..overlay.clone() },
        CreateOptions { medium: Some(dir.path().join("medium")), ..overlay.clone() },
        CreateOptions { base: Some(base), ..options() },
        CreateOptions { mode: Some(quietus_core::store::overlay::Mode::Lazy), ..options() },
        CreateOptions { policy: "none".into(), ..options() },
    ] {
        DiskDir::create(&dir.path().join("bad"), &bad).expect_err("it is refused");
        assert!(!dir.path().join("bad").exists() && !dir.path().join(".bad.new").exists());
    }
}

#[test]
fn an_overlay_and_a_disk_in_place_never_have_one_image() {
    let (dir, base, overlay) = golden();
    for (name, options) in [("a", &overlay), ("b", &overlay), ("in-place", &adopting(&base))] {
        DiskDir::create(&dir.path().join(name), options).expect("a disk");
    }
    let overlays = ["a", "b"].map(|name| DiskDir::open(&dir.path().join(name)).expect("they share it"));
    assert!(is_locked(&dir.path().join("in-place")));
    drop(overlays);
    let _in_place = DiskDir::open(&dir.path().join("in-place")).expect("no other process has it open");
    assert!(is_locked(&dir.path().join("a")));
}

fn touch(base: &Path) {
    let file = File::options().write(true).open(base).expect("the base");
    file.set_modified(std::time::SystemTime::UNIX_EPOCH).expect("it is ours");
}

#[test]
fn a_base_with_another_time_is_read_once_and_known_again() {
    let (dir, base, overlay) = golden();
    let path = dir.path().join("disk");
    let before = DiskDir::create(&path, &overlay).expect("a disk");
    std::fs::write(path.join("disk.toml"), format!("# mine\n{}", toml_of(&path))).expect("a write");
    touch(&base);
    let mut steps = 0;
    for read in [true, false] {
        steps = 0;
        let disk = DiskDir::open_with(&path, Access::ReadWrite, &mut |_, _| {
            steps += 1;
            true
        });
        disk.expect("the content is the same");
        assert_eq!(steps > 0, read);
    }
    assert!(toml_of(&path).starts_with("# mine\nversion"), "{}", toml_of(&path));
    let after = DiskToml::read(&path).expect("it is whole");
    assert_eq!(after.overlay.as_ref().map(|it| it.base_mtime_ns), Some(0));
    assert_eq!(after.behaviour, before.behaviour);
    assert_eq!(steps, 0);
}

#[test]
fn a_base_that_changed_or_vanished_is_named_with_what_to_do() {
    let (dir, base, overlay) = golden();
    let path = dir.path().join("disk");
    DiskDir::create(&path, &overlay).expect("a disk");
    let file = File::options().write(true).open(&base).expect("the base");
    file.write_all_at(&[8], 5000).expect("a write");
    touch(&base);
    let error = DiskDir::open(&path).expect_err("it changed");
    assert_eq!(error.kind, DiskErrorKind::BaseChanged("other content".into()));
    assert!(
        error.to_string().contains("restore it") && error.to_string().contains("quietus rebase"),
        "{error}"
    );
    file.set_len(4096).expect("a cut");
    assert!(matches!(kind(&path), DiskErrorKind::BaseChanged(how) if how.contains("4096 bytes, before")));
    std::fs::remove_file(&base).expect("it is there");
    assert_eq!(kind(&path), DiskErrorKind::BaseMissing);
    std::fs::create_dir(&base).expect("a directory");
    assert!(matches!(kind(&path), DiskErrorKind::Invalid(_)));
}

#[test]
fn a_check_that_is_stopped_is_no_verdict() {
    let (dir, base, overlay) = golden();
    let path = dir.path().join("disk");
    let stopped = DiskDir::create_with(&path, &overlay, &mut |_, _| false).expect_err("it was stopped");
    assert_eq!(stopped.kind, DirectoryErrorKind::Interrupted.into());
    assert_eq!(names(dir.path()), ["golden"]);
    DiskDir::create(&path, &overlay).expect("a disk");
    touch(&base);
    let stopped =
        DiskDir::open_with(&path, Access::ReadWrite, &mut |_, _| false).expect_err("it was stopped");
    assert_eq!(stopped.kind, DirectoryErrorKind::Interrupted.into());
    DiskDir::open(&path).expect("nothing was wrong");
}

#[test]
fn every_field_of_an_overlay_is_refused_when_it_makes_no_sense() {
    let (dir, _base, overlay) = golden();
    let path = dir.path().join("disk");
    DiskDir::create(&path, &overlay).expect("a disk");
    let changes = [
        ("store = \"overlay\"", "store = \"in-place\""),
        ("base_bytes = ", "base_bytes = -"),
        ("base_bytes = ", "base_bytes = 9"),
        ("base_mtime_ns = ", "base_mtime_ns = x"),
        ("base_hash = \"blake3:", "base_hash = \"blake2:"),
        ("base_hash = \"blake3:", "base_hash = \"blake3:0"),
        ("path = \"data\"", "path = \"../data\""),
        ("adopted = false", "adopted = true"),
        ("mode = \"lazy\"", "mode = \"eager\""),
        ("mode = \"lazy\"\n", ""),
        ("base = ", "bass = "),
    ];
    assert_invalid(&toml_of(&path), &changes);
}

#[test]
fn a_commit_that_did_not_end_keeps_the_disk_closed() {
    let (dir, _base, overlay) = golden();
    let path = dir.path().join("disk");
    let mut toml = DiskDir::create(&path, &overlay).expect("a disk");
    toml.overlay.as_mut().expect("an overlay").committing = Some(Committing::Writing);
    toml.summed().write(&path).expect("a write");
    assert!(kind(&path) == DiskErrorKind::Committing);
}

#[test]
fn a_base_of_another_format_is_converted_into_the_directory() {
    let (dir, base, overlay) = golden();
    let (path, qcow2) = (dir.path().join("disk"), dir.path().join("golden.qcow2"));
    let mut convert = std::process::Command::new("qemu-img");
    match convert.args(["convert", "-f", "raw", "-O", "qcow2"]).args([&base, &qcow2]).status() {
        Ok(made) => assert!(made.success()),
        Err(error) => return println!("skipped: qemu-img: {error}"),
    }
    let overlay = CreateOptions { base: Some(qcow2.clone()), ..overlay };
    let mut last = 0;
    let toml = DiskDir::create_with(&path, &overlay, &mut |done, _| {
        last = done;
        true
    });
    let toml = toml.expect("a disk");
    assert_eq!((toml.overlay.expect("an overlay").base, last), (PathBuf::from("base.raw"), (1 << 20) + 512));
    let raw = std::fs::read(path.join("base.raw")).expect("it was converted");
    assert_eq!(raw[..(1 << 20) + 100], std::fs::read(&base).expect("the image"));
    // The disk may move, and needs the original no more.
    std::fs::rename(&path, dir.path().join("moved")).expect("a name");
    std::fs::remove_file(qcow2).expect("it is there");
    DiskDir::open(&dir.path().join("moved")).expect("it opens");
    std::fs::write(&base, b"QFI\xfb\0\0\0\x03 and nothing more").expect("a file");
    let broken = CreateOptions { base: Some(base), ..overlay };
    let error = DiskDir::create(&path, &broken).expect_err("it is damaged");
    assert_eq!(error.kind, DirectoryErrorKind::Io("convert the image").into());
    assert!(!path.exists());
}
