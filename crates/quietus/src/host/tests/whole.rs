//! A disk's medium and journal together.

use super::*;

fn both(medium: Guarantees, journal: Guarantees) -> DiskGuarantees {
    DiskGuarantees::of([(Part::Medium, medium), (Part::Journal, journal)])
}

fn at(path: &str, file_system: &str, device: &str) -> Guarantees {
    let file = FileFacts { path: path.into(), ..file(file_system) };
    let device = DeviceFacts { name: device.into(), ..magnetic() };
    judge(Facts { path: path.into(), ..facts(vec![Layer::File(file), Layer::Device(device)]) })
}

#[test]
fn a_disk_is_no_better_than_its_journal() {
    let clear = || at("/srv/disk/data", "ext4", "sda");
    let defeated = || at("/srv/disk/journal", "btrfs", "sdb");
    let disk = both(clear(), defeated());
    assert_eq!((disk.level, disk.weaker), (Level::NotReached, Some(Part::Journal)));
    let disk = both(defeated(), clear());
    assert_eq!((disk.level, disk.weaker), (Level::NotReached, Some(Part::Medium)));
    let disk = both(clear(), clear());
    assert_eq!((disk.level, disk.weaker), (Level::Clear, None));
}

#[test]
fn a_person_reads_which_part_is_the_weaker_one_and_whose_each_finding_is() {
    let disk = both(at("/dev/a/data", "ext4", "sda"), at("/srv/disk/journal", "btrfs", "sdb"));
    let text = disk.to_string();
    let lines: Vec<&str> = text.lines().collect();
    assert!(lines[0].ends_with("; the weaker part is the journal"), "{text}");
    assert!(
        lines[1].starts_with("- journal: file on btrfs, a copy-on-write file system (journal). "),
        "{text}"
    );
    assert!(lines[2].starts_with("- medium: magnetic disk (sda). "), "{text}");
    assert!(lines[3].starts_with("- journal: magnetic disk (sdb). "), "{text}");
    assert_eq!(lines.len(), 4, "{text}");
}

#[test]
fn what_holds_for_both_parts_is_said_once() {
    let disk = both(at("/srv/disk/data", "btrfs", "sda"), at("/srv/disk/journal", "btrfs", "sda"));
    let text = disk.to_string();
    assert_eq!(text.lines().next(), Some("overwriting does NOT reach every copy of the bytes"));
    assert!(text.contains("\n- medium, journal: file on btrfs"), "{text}");
    assert!(text.contains("\n- medium, journal: magnetic disk (sda). "), "{text}");
    assert_eq!(text.lines().count(), 3, "{text}");
}

#[test]
fn what_cannot_be_looked_at_is_not_assured() {
    let disk = inspect_disk([
        (Part::Medium, "/nonexistent/data".into()),
        (Part::Journal, "/nonexistent/journal".into()),
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
