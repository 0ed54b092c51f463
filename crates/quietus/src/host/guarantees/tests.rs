use super::*;

mod made_up;
mod this_host;
mod whole;

fn file(file_system: &str) -> FileFacts {
    FileFacts { path: "/srv/disk/data".into(), file_system: file_system.into(), ..FileFacts::default() }
}

fn disk(transport: Transport, rotational: bool) -> DeviceFacts {
    let (kind, rotational) = (DeviceKind::Disk, Some(rotational));
    DeviceFacts { name: "sda".into(), kind, transport, rotational, ..DeviceFacts::default() }
}

fn magnetic() -> DeviceFacts {
    disk(Transport::Ata, true)
}

fn made_of(kind: DeviceKind) -> DeviceFacts {
    DeviceFacts { name: "dm-0".into(), kind, ..DeviceFacts::default() }
}

fn facts(layers: Vec<Layer>) -> Facts {
    Facts { path: "/srv/disk/data".into(), layers, ..Facts::default() }
}

fn on_magnetic(file: FileFacts) -> Facts {
    facts(vec![Layer::File(file), Layer::Device(magnetic())])
}

fn of_devices(devices: Vec<DeviceFacts>) -> Facts {
    facts(devices.into_iter().map(Layer::Device).collect())
}

fn codes(facts: Facts) -> (Level, Vec<Code>) {
    let found = judge(facts);
    (found.level, found.findings.iter().map(|finding| finding.code).collect())
}

#[test]
fn only_overwriting_file_systems_on_magnetic_disks_are_clear() {
    for name in ["ext2", "ext3", "ext4", "vfat", "exfat", "ntfs3", "jfs"] {
        assert_eq!(codes(on_magnetic(file(name))), (Level::Clear, vec![Code::MagneticDisk]), "{name}");
    }
}

#[test]
fn file_systems_that_write_elsewhere_defeat_overwriting_and_unknown_ones_assure_nothing() {
    for (name, level, code) in [
        ("btrfs", Level::NotReached, Code::CopyOnWriteFileSystem),
        ("zfs", Level::NotReached, Code::CopyOnWriteFileSystem),
        ("bcachefs", Level::NotReached, Code::CopyOnWriteFileSystem),
        ("f2fs", Level::NotReached, Code::LogStructuredFileSystem),
        ("nilfs2", Level::NotReached, Code::LogStructuredFileSystem),
        ("ubifs", Level::NotReached, Code::LogStructuredFileSystem),
        ("overlay", Level::NotAssured, Code::OverlayFileSystem),
        ("nfs4", Level::NotAssured, Code::RemoteFileSystem),
        ("fuse.sshfs", Level::NotAssured, Code::RemoteFileSystem),
        ("9p", Level::NotAssured, Code::RemoteFileSystem),
        ("virtiofs", Level::NotAssured, Code::RemoteFileSystem),
        ("cifs", Level::NotAssured, Code::RemoteFileSystem),
        ("fuseblk", Level::NotAssured, Code::UnknownFileSystem),
        ("newfs", Level::NotAssured, Code::UnknownFileSystem),
        ("", Level::NotAssured, Code::UnknownFileSystem),
    ] {
        let (found, codes) = codes(on_magnetic(file(name)));
        assert_eq!((found, codes[0]), (level, code), "{name:?}");
    }
}

#[test]
fn a_file_in_memory_is_clear_until_memory_is_swapped() {
    let in_memory = facts(vec![Layer::File(file("tmpfs"))]);
    assert_eq!(codes(in_memory.clone()), (Level::Clear, vec![Code::MemoryFileSystem]));
    let swapped = Facts { swap: true, ..in_memory };
    assert_eq!(codes(swapped), (Level::NotAssured, vec![Code::MemorySwapped]));
}

#[test]
fn btrfs_without_copy_on_write_is_in_doubt_and_with_shared_extents_defeated() {
    let marked = |shared_extents| FileFacts { no_copy_on_write: Some(true), shared_extents, ..file("btrfs") };
    let (level, found) = codes(on_magnetic(marked(Some(false))));
    assert_eq!((level, found[0]), (Level::NotAssured, Code::CopyOnWriteDisabled));
    for shared in [Some(true), None] {
        assert_eq!(codes(on_magnetic(marked(shared))).0, Level::NotReached);
    }
}

#[test]
fn xfs_is_judged_by_what_it_shares() {
    let with = |shared_extents, reflink| on_magnetic(FileFacts { shared_extents, reflink, ..file("xfs") });
    assert_eq!(codes(with(Some(false), Some(false))).0, Level::Clear);
    let (level, found) = codes(with(Some(false), Some(true)));
    assert_eq!(level, Level::Clear);
    assert!(found.contains(&Code::ReflinksPossible));
    assert_eq!(codes(with(Some(true), Some(true))).1[0], Code::SharedExtents);
    assert_eq!(codes(with(None, None)).1[0], Code::SharingUnknown);
}

#[test]
fn journaled_data_is_seen_by_mount_option_and_by_attribute() {
    let mounted = FileFacts { options: vec!["data=journal".into()], ..file("ext4") };
    let marked = FileFacts { data_journal: Some(true), ..file("ext4") };
    for file in [mounted, marked] {
        let (level, codes) = codes(on_magnetic(file));
        assert_eq!((level, codes[0]), (Level::NotReached, Code::DataJournal));
    }
    let ordered = FileFacts { options: vec!["data=ordered".into()], ..file("ext4") };
    assert_eq!(codes(on_magnetic(ordered)).0, Level::Clear);
}

#[test]
fn each_kind_of_device_has_its_judgement() {
    for (kind, level, code) in [
        (DeviceKind::ThinVolume, Level::NotAssured, Code::ThinPool),
        (DeviceKind::ThinPool, Level::NotAssured, Code::ThinPool),
        (DeviceKind::Snapshot, Level::NotReached, Code::Snapshot),
        (DeviceKind::Deduplicating, Level::NotReached, Code::Deduplicating),
        (DeviceKind::Cache, Level::NotAssured, Code::Cache),
        (DeviceKind::Mapping, Level::NotAssured, Code::UnknownMapping),
        (DeviceKind::Network, Level::NotAssured, Code::RemoteDevice),
        (DeviceKind::CompressedMemory, Level::NotAssured, Code::CompressedMemory),
        (DeviceKind::Unknown, Level::NotAssured, Code::UnknownDevice),
        (DeviceKind::Crypt, Level::Clear, Code::Encrypted),
        (DeviceKind::Raid("raid1".into()), Level::Clear, Code::Raid),
        (DeviceKind::Memory, Level::Clear, Code::MemoryDevice),
    ] {
        let (found, codes) = codes(of_devices(vec![made_of(kind), magnetic()]));
        assert_eq!((found, codes[0]), (level, code));
    }
    for kind in [DeviceKind::Linear, DeviceKind::Multipath, DeviceKind::Loop] {
        let found = codes(of_devices(vec![made_of(kind), magnetic()]));
        assert_eq!(found, (Level::Clear, vec![Code::MagneticDisk]));
    }
}

#[test]
fn a_disk_is_judged_by_its_bus_and_its_flag() {
    for (transport, rotational, code) in [
        (Transport::Ata, true, Code::MagneticDisk),
        (Transport::Scsi, true, Code::MagneticDisk),
        (Transport::Ata, false, Code::Flash),
        (Transport::Usb, false, Code::Flash),
        (Transport::Usb, true, Code::RotationUnsure),
        (Transport::Nvme, false, Code::Flash),
        (Transport::Nvme, true, Code::Flash),
        (Transport::Mmc, true, Code::Flash),
        (Transport::Virtual, true, Code::VirtualDisk),
        (Transport::Virtual, false, Code::VirtualDisk),
        (Transport::Network, true, Code::RemoteDevice),
        (Transport::Unknown, true, Code::UnknownDevice),
    ] {
        let (_, codes) = codes(of_devices(vec![disk(transport, rotational)]));
        assert_eq!(codes, [code], "{transport:?} {rotational}");
    }
    let silent = DeviceFacts { rotational: None, ..magnetic() };
    assert_eq!(codes(of_devices(vec![silent])).1, [Code::UnknownDevice]);
}

#[test]
fn a_magnetic_disk_of_a_virtual_machine_is_only_said_to_be_one() {
    let guest = Facts { virtual_machine: true, ..of_devices(vec![magnetic()]) };
    assert_eq!(codes(guest), (Level::NotAssured, vec![Code::VirtualDisk]));
}

#[test]
fn a_zoned_disk_is_in_doubt() {
    let zoned = DeviceFacts { zoned: true, ..magnetic() };
    assert_eq!(codes(of_devices(vec![zoned])), (Level::NotAssured, vec![Code::Zoned, Code::MagneticDisk]));
}

#[test]
fn one_weak_member_of_an_array_weakens_it_all() {
    let array = made_of(DeviceKind::Raid("raid1".into()));
    let (level, codes) = codes(of_devices(vec![array, magnetic(), disk(Transport::Nvme, false)]));
    assert_eq!((level, codes[0]), (Level::NotReached, Code::Flash));
}

#[test]
fn what_is_not_known_is_never_clear() {
    assert_eq!(codes(Facts::default()).0, Level::NotAssured);
    assert_eq!(codes(facts(vec![Layer::File(file("ext4"))])).1, [Code::DeviceUnknown]);
    for kind in [DeviceKind::Linear, DeviceKind::Crypt, DeviceKind::Loop, DeviceKind::Multipath] {
        assert_eq!(codes(of_devices(vec![made_of(kind)])).0, Level::NotAssured);
    }
    let partly = Facts { unknown: vec!["what sda is made of".into()], ..on_magnetic(file("ext4")) };
    assert_eq!(codes(partly), (Level::NotAssured, vec![Code::NotFoundOut, Code::MagneticDisk]));
}

#[test]
fn every_finding_that_takes_something_away_says_what_to_do_unless_nothing_can_be_done() {
    for code in Code::ALL {
        let finding = code.found("sda", "disk".into());
        assert!(finding.why.starts_with(char::is_uppercase) && !finding.why.ends_with('.'), "{code:?}");
        let nothing_to_do = finding.severity == Severity::Note || *code == Code::CompressedMemory;
        assert!(nothing_to_do || finding.instead.starts_with(char::is_lowercase), "{code:?}");
    }
}

#[test]
fn names_in_json_are_stable() {
    let guarantees = judge(Facts { virtual_machine: true, ..on_magnetic(file("btrfs")) });
    let json = serde_json::to_value(&guarantees).expect("plain data");
    assert_eq!(json["level"], "not-reached");
    assert_eq!(json["findings"][0]["code"], "copy-on-write-file-system");
    assert_eq!(json["findings"][0]["severity"], "defeat");
    assert_eq!(json["findings"][1]["code"], "virtual-disk");
    assert_eq!(json["facts"]["layers"][0]["layer"], "file");
    assert_eq!(json["facts"]["layers"][0]["file_system"], "btrfs");
    assert_eq!(json["facts"]["layers"][1]["transport"], "ata");
    for key in ["at", "what", "why", "instead"] {
        assert!(json["findings"][0][key].is_string(), "{key}");
    }
}
