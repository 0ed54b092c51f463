//! A disk's medium and journal together.

use super::*;

fn both(medium: Guarantees, journal: Guarantees) -> DiskGuarantees {
    DiskGuarantees::of([
        (Part::Medium, Holds::Content, medium),
        (Part::Journal, Holds::ContentInFlight, journal),
    ])
}

fn at(path: &str, file_system: &str, device: &str) -> Guarantees {
    on(path, file_system, DeviceFacts { name: device.into(), ..magnetic() })
}

fn on(path: &str, file_system: &str, device: DeviceFacts) -> Guarantees {
    let file = FileFacts { path: path.into(), ..file(file_system) };
    judge(Facts { path: path.into(), ..facts(vec![Layer::File(file), Layer::Device(device)]) })
}

#[test]
fn a_disk_is_no_better_than_its_journal() {
    let clear = || at("/srv/disk/data", "ext4", "sda");
    let defeated = || at("/srv/disk/journal", "btrfs", "sdb");
    for (disk, level, weaker) in [
        (both(clear(), defeated()), Level::NotReached, Some(Part::Journal)),
        (both(defeated(), clear()), Level::NotReached, Some(Part::Medium)),
        (both(clear(), clear()), Level::Clear, None),
    ] {
        assert_eq!((disk.level, disk.weaker), (level, weaker));
    }
    assert_eq!(DiskGuarantees::of([]).level, Level::NotAssured);
}

#[test]
fn a_part_that_holds_no_content_does_not_weaken_a_root_that_overwrites() {
    let on_ssd = |path: &str| on(path, "ext4", disk(Transport::Nvme, false));
    let parts = |root: Guarantees| {
        DiskGuarantees::of([
            (Part::Medium, Holds::Sealed, on_ssd("/srv/disk/data")),
            (Part::Journal, Holds::Addresses, on_ssd("/srv/disk/journal")),
            (Part::Stubs, Holds::Sealed, on_ssd("/srv/disk/stubs")),
            (Part::Root, Holds::Keys, root),
        ])
    };
    let split = parts(at("/mnt/hdd/root", "ext4", "sdb"));
    assert_eq!((split.level, split.weaker, split.limit(), split.advice()), (Level::Clear, None, None, None));
    assert_eq!(split.doubts(), Vec::<String>::new());
    assert_eq!(split.parts[&Part::Medium].found.level, Level::NotReached, "it has a grade all the same");
    let together = parts(on_ssd("/srv/disk/root"));
    assert_eq!((together.level, together.limit()), (Level::NotReached, Some("SSD")));
    assert!(together.advice().is_some_and(|it| it.contains("--root PATH on a medium that overwrites")));
    let in_place = both(on_ssd("/srv/disk/data"), on_ssd("/srv/disk/journal"));
    assert!(in_place.advice().is_some_and(|it| it.contains("create --store sealed --root PATH")));
}

#[test]
fn a_person_reads_which_part_is_the_weaker_one_and_whose_each_finding_is() {
    let disk = both(at("/dev/a/data", "ext4", "sda"), at("/srv/disk/journal", "btrfs", "sdb"));
    let text = disk.to_string();
    let lines: Vec<&str> = text.lines().collect();
    assert!(lines[0].ends_with("; the weaker part is the journal"), "{text}");
    assert_eq!(lines[1], "- medium (content): overwriting reaches the bytes, as far as this host can tell");
    assert!(lines[2].starts_with("- journal (content in flight): overwriting does NOT reach"), "{text}");
    let third = "- journal: file on btrfs, a copy-on-write file system (journal). Overwritten content stays";
    assert!(lines[3].starts_with(third), "{text}");
    assert!(lines[4].starts_with("- medium: magnetic disk (sda). "), "{text}");
    assert!(lines[5].starts_with("- journal: magnetic disk (sdb). "), "{text}");
    assert_eq!(lines.len(), 6, "{text}");
}

#[test]
fn what_holds_for_both_parts_is_said_once() {
    let disk = both(at("/srv/disk/data", "btrfs", "sda"), at("/srv/disk/journal", "btrfs", "sda"));
    let text = disk.to_string();
    assert_eq!(text.lines().next(), Some("overwriting does NOT reach every copy of the bytes"));
    assert!(text.contains("\n- medium, journal: file on btrfs"), "{text}");
    assert!(text.contains("\n- medium, journal: magnetic disk (sda). "), "{text}");
    assert_eq!(text.lines().count(), 5, "{text}");
}

#[test]
fn what_cannot_be_looked_at_is_not_assured() {
    let disk = inspect_disk([
        (Part::Medium, Holds::Content, "/nonexistent/data".into()),
        (Part::Journal, Holds::ContentInFlight, "/nonexistent/journal".into()),
    ]);
    assert_eq!(disk.level, Level::NotAssured);
    assert!(disk.to_string().contains("cannot inspect it: "), "{disk}");
}

#[test]
fn what_is_reported_can_be_read_back() {
    let mut all = at("/srv/disk/data", "xfs", "sda");
    all.findings = Code::ALL.iter().map(|code| code.found("sda", "it is so".into())).collect();
    all.facts.layers.push(Layer::Device(made_of(DeviceKind::Raid("raid1".into()))));
    all.facts.virtual_machine = true;
    let disk = both(all, judge(Facts::default()));
    let text = serde_json::to_string(&disk).unwrap();
    assert_eq!(serde_json::from_str::<DiskGuarantees>(&text).unwrap(), disk);
}

#[test]
fn a_path_that_is_no_text_is_reported() {
    use std::os::unix::ffi::OsStringExt;
    let path = PathBuf::from(std::ffi::OsString::from_vec(b"/srv/\xff/data".to_vec()));
    let json = serde_json::to_value(judge(Facts { path, ..facts(Vec::new()) })).unwrap();
    assert_eq!(json["facts"]["path"], "/srv/\u{fffd}/data");
}
