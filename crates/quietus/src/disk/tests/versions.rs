//! Disks that keep versions: what is made, and what is refused.

use super::*;
use crate::host::directory::lock_storage;
use quietus_seal::Seal;

/// A disk with stubs, but without keys to ask for.
pub(super) fn options() -> CreateOptions {
    let versions = VersionsOptions { seal: Some(Seal::None), ..VersionsOptions::default() };
    let store = StoreKind::Versions;
    CreateOptions {
        size: Some(1 << 20),
        store,
        policy: "purge-2".into(),
        versions,
        ..CreateOptions::default()
    }
}

fn with(change: impl FnOnce(&mut CreateOptions)) -> CreateOptions {
    let mut options = options();
    change(&mut options);
    options
}

#[test]
fn the_files_of_a_disk_that_keeps_versions_have_their_sizes_and_open() {
    let (_dir, path) = made(&options());
    let len = |name: &str| std::fs::metadata(path.join(name)).map(|file| file.len()).ok();
    let log = 4096 + 2 * (4 << 20);
    assert_eq!([len("data"), len("map"), len("stubs"), len("keys")], [Some(0), Some(8192), Some(log), None]);
    let disk = DiskDir::open(&path).expect("it opens");
    assert_eq!(len("root"), Some(8192));
    for id in [MediumId::Data, MediumId::Journal, MediumId::Map, MediumId::Stubs, MediumId::Root] {
        assert!(disk.open_medium(id).expect("it opens").is_some(), "{id:?}");
    }
    let toml = disk.toml();
    assert_eq!(toml.behaviour.epoch, Some(EpochEnd::default()));
    assert!(toml.behaviour.retention.as_ref().is_some_and(|rules| !rules.has_rules()));
}

#[test]
fn a_size_in_sectors_is_taken_as_it_is_and_any_other_is_refused() {
    for (size, is_right) in
        [(512, true), (5 * 512, true), (1000, false), (0, false), ((1 << 52) + 4096, false)]
    {
        let dir = tempfile::tempdir().expect("a directory");
        let created = DiskDir::create(&dir.path().join("disk"), &with(|it| it.size = Some(size)));
        assert_eq!(created.is_ok(), is_right, "{size}");
        assert!(is_right || created.expect_err("refused").to_string().contains(&size.to_string()));
    }
}

#[test]
fn options_that_do_not_go_with_the_store_are_refused_and_leave_nothing() {
    let dir = tempfile::tempdir().expect("a directory");
    let path = dir.path().join("disk");
    let stubs = dir.path().join("elsewhere");
    let missing = crate::disk::keys::Source::KeyFile(dir.path().join("none"));
    for (bad, what) in [
        (with(|it| it.size = None), "--size is missing"),
        (with(|it| it.adopt = true), "--adopt cannot be used with --store versions"),
        (with(|it| it.medium = Some("/dev/quietus".into())), "there is no device quietus"),
        (with(|it| it.base = Some("x".into())), "--base needs --store overlay"),
        (with(|it| it.policy = "none".into()), "--policy none destroys nothing"),
        (with(|it| it.store = StoreKind::InPlace), "need --store versions"),
        (with(|it| it.versions.source = Some(missing.clone())), "--seal none has no keys"),
        (
            with(|it| {
                (it.versions.seal, it.versions.source) = (None, Some(missing.clone()));
                it.versions.stub_medium = Some(stubs.clone());
            }),
            "does not exist",
        ),
    ] {
        let error = DiskDir::create(&path, &bad).expect_err(what).to_string();
        assert!(error.contains(what), "{error}");
        assert_eq!(std::fs::read_dir(dir.path()).expect("a directory").count(), 0, "{what}");
    }
}

#[test]
fn what_has_to_be_overwritten_is_the_root_or_without_stubs_the_data() {
    let toml = |seal| {
        let versions = VersionsToml { seal, stubs: "stubs".into(), root: "root".into(), half_bytes: 8192 };
        DiskToml { versions: Some(versions), ..DiskToml::read(&made(&options()).1).expect("a disk") }
    };
    use crate::host::guarantees::Part::{Medium, Root};
    for (seal, wanted) in [(Seal::RandomKey, Root), (Seal::None, Medium)] {
        let toml = toml(seal);
        let parts: Vec<_> = toml.parts(Path::new("")).collect();
        assert_eq!(parts.len(), 5, "each part has a grade");
        let deciding: Vec<_> = parts.iter().filter(|(_, holds, _)| holds.decides()).collect();
        assert!(matches!(deciding[..], [(part, ..)] if *part == wanted), "{seal}: {deciding:?}");
    }
}

#[test]
fn what_can_lie_elsewhere_lies_in_a_file_that_is_made_for_it_and_is_locked() {
    for (own, id, option) in [
        ("root", MediumId::Root, "--root"),
        ("stubs", MediumId::Stubs, "--stub-medium"),
        ("data", MediumId::Data, "--medium"),
    ] {
        let dir = tempfile::tempdir().expect("a directory");
        let [path, other, file] = ["disk", "other", "elsewhere"].map(|name| dir.path().join(name));
        let elsewhere = with(|it| match id {
            MediumId::Root => it.versions.root = Some(file.clone()),
            MediumId::Stubs => it.versions.stub_medium = Some(file.clone()),
            _ => it.medium = Some(file.clone()),
        });
        DiskDir::create(&path, &elsewhere).expect("a disk");
        assert!(file.exists() && !path.join(own).exists(), "{option}");
        let disk = DiskDir::open(&path).expect("it opens");
        assert_eq!(disk.medium_of(id).as_ref(), Some(&file), "{option}");
        assert!(lock_storage(&file, Access::ReadWrite).is_err(), "{option}: another disk cannot use it");
        drop(disk);
        let error = DiskDir::create(&other, &elsewhere).expect_err("it is there").to_string();
        assert!(error.contains(&format!("{option} names a file that already exists")), "{error}");
        assert!(file.exists() && !other.exists(), "{option}");
    }
}

#[test]
fn a_field_that_versions_cannot_have_is_refused() {
    let (_dir, path) = made(&options());
    let text = toml_of(&path);
    let changes = [
        ("store = \"versions\"", "store = \"in-place\""),
        ("seal = \"none\"", "seal = \"rot13\""),
        ("half_bytes = 4194304", "half_bytes = 4194305"),
        ("half_bytes = 4194304", "half_bytes = 4096"),
        ("half_bytes = 4194304", "half_bytes = 2147483648"),
        ("path = \"data\"", "path = \"../data\""),
        ("adopted = false", "adopted = true"),
        ("epoch = \"1h\"", "epoch = \"0s\""),
        ("epoch = \"1h\"\n", ""),
        ("retention = \"\"", "retention = \"monthly 1y\""),
        ("retention = \"\"\n", ""),
    ];
    assert_invalid(&text, &changes);
    let edited = text.replace("epoch = \"1h\"", "epoch = \"flush\"");
    let edited = DiskToml::from_text(&edited.replace("retention = \"\"", "retention = \"last 3\""));
    assert_eq!(edited.expect("behaviour may be edited").behaviour.epoch, Some(EpochEnd::Flush));
}
