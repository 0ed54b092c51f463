//! Facts gathered from a made-up host: sysfs and proc in a folder.

use super::super::DeviceNumber;
use super::super::gather::gather_device;
use super::*;
use rustix::fs::{AtFlags, CWD, StatxFlags, statx};
use std::fs;
use std::os::unix::fs::symlink;

struct Host(tempfile::TempDir);

impl Host {
    fn new() -> Self {
        let host = Self(tempfile::tempdir().expect("a directory"));
        for folder in ["sys/dev/block", "proc"] {
            fs::create_dir_all(host.0.path().join(folder)).expect("a folder");
        }
        host
    }

    /// Makes a device at `path` in sysfs, with these attributes.
    fn device(&self, number: &str, path: &str, attributes: &[(&str, &str)]) -> &Self {
        let folder = self.0.path().join("sys").join(path);
        fs::create_dir_all(&folder).expect("a folder");
        for (name, value) in attributes {
            let file = folder.join(name);
            fs::create_dir_all(file.parent().expect("a parent")).expect("a folder");
            fs::write(file, format!("{value}\n")).expect("an attribute");
        }
        symlink(&folder, self.0.path().join("sys/dev/block").join(number)).expect("a link");
        self
    }

    /// Makes `below` a slave of `above`.
    fn on(&self, above: &str, below: &str) -> &Self {
        let sys = self.0.path().join("sys");
        let slaves = sys.join(above).join("slaves");
        fs::create_dir_all(&slaves).expect("a folder");
        symlink(sys.join(below), slaves.join(name_of(Path::new(below)))).expect("a link");
        self
    }

    fn proc(&self, name: &str, text: &str) -> &Self {
        fs::write(self.0.path().join("proc").join(name), text).expect("a file");
        self
    }

    fn roots(&self) -> Roots {
        Roots { sys: self.0.path().join("sys"), proc: self.0.path().join("proc") }
    }

    fn facts(&self, major: u32, minor: u32) -> Facts {
        gather_device(&self.roots(), DeviceNumber { major, minor })
    }

    fn devices(&self, major: u32, minor: u32) -> Vec<DeviceFacts> {
        let layers = self.facts(major, minor).layers.into_iter();
        layers
            .map(|layer| match layer {
                Layer::Device(device) => device,
                Layer::File(file) => panic!("{file:?}"),
            })
            .collect()
    }
}

const SDA: &str = "devices/pci0000:00/0000:00:17.0/ata1/host0/target0:0:0/0:0:0:0/block/sda";
const ROTATES: (&str, &str) = ("queue/rotational", "1");
const LVM_ID: &str = "LVM-aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaabbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbb";

#[test]
fn a_partition_is_judged_by_its_disk() {
    let host = Host::new();
    host.device(
        "8:0",
        SDA,
        &[ROTATES, ("device/vendor", "ATA"), ("device/model", "WDC WD40"), ("queue/zoned", "none")],
    );
    host.device("8:1", &format!("{SDA}/sda1"), &[("partition", "1")]);
    host.proc("cpuinfo", "flags\t\t: fpu vme\n");
    let expected = DeviceFacts { model: Some("ATA WDC WD40".into()), ..magnetic() };
    assert_eq!(host.devices(8, 1), [expected]);
    assert_eq!(judge(host.facts(8, 1)).level, Level::Clear);
}

#[test]
fn a_mount_where_a_root_would_be_overwritten_is_found_once() {
    let host = Host::new();
    let point = host.0.path();
    let number = DeviceNumber::from(rustix::fs::stat(point).expect("its state").st_dev);
    if number.major == 0 {
        return println!("skipped: no device lies below {}", point.display());
    }
    host.device(&format!("{}:{}", number.major, number.minor), SDA, &[ROTATES]);
    fs::create_dir(point.join("proc/self")).expect("a folder");
    let id = statx(CWD, point, AtFlags::empty(), StatxFlags::MNT_ID).expect("its mount").stx_mnt_id;
    let mount = |name: &str, options: &str| {
        format!("{id} 1 8:1 / {} {options} - {name} /dev/sda1 rw\n", point.display())
    };
    let found = |mounts: String| {
        host.proc("self/mountinfo", &mounts);
        overwriting_mounts(&host.roots())
    };
    assert_eq!(found(mount("ext4", "rw").repeat(2)), [point]);
    for (name, options) in [("ext4", "ro"), ("btrfs", "rw"), ("nfs4", "rw"), ("tmpfs", "rw"), ("new", "rw")] {
        assert!(found(mount(name, options)).is_empty(), "{name}, {options}");
    }
    host.proc("cpuinfo", "flags\t\t: fpu hypervisor\n");
    assert!(found(mount("ext4", "rw")).is_empty(), "the disk of a virtual machine");
}

#[test]
fn the_transport_is_told_by_the_way_through_sysfs() {
    for (path, transport) in [
        (SDA, Transport::Ata),
        ("devices/pci0000:00/0000:00:1f.0/host4/target4:0:0/4:0:0:0/block/sdb", Transport::Scsi),
        (
            "devices/pci0000:00/0000:00:14.0/usb2/2-1/2-1:1.0/host6/target6:0:0/6:0:0:0/block/sdc",
            Transport::Usb,
        ),
        ("devices/platform/host7/session1/target7:0:0/7:0:0:0/block/sdd", Transport::Network),
        (
            "devices/pci0000:00/0000:05:00.0/host8/rport-8:0-1/target8:0:0/8:0:0:0/block/sde",
            Transport::Network,
        ),
        ("devices/pci0000:00/0000:00:02.0/virtio1/block/vda", Transport::Virtual),
        ("devices/vbd-51712/block/xvda", Transport::Virtual),
        (
            "devices/LNXSYSTM:00/LNXSYBUS:00/VMBUS:00/f8b3/host0/target0:0:0/0:0:0:0/block/sdf",
            Transport::Virtual,
        ),
        ("devices/platform/soc/3f300000.mmcnr/mmc_host/mmc1/mmc1:aaaa/block/mmcblk1", Transport::Mmc),
        ("devices/somewhere/block/sdg", Transport::Unknown),
    ] {
        let host = Host::new();
        host.device("8:0", path, &[]);
        let [device] = &host.devices(8, 0)[..] else { panic!("{path}") };
        assert_eq!((device.transport, &device.kind), (transport, &DeviceKind::Disk), "{path}");
    }
}

#[test]
fn a_disk_of_an_emulator_is_virtual_whatever_its_bus() {
    let host = Host::new();
    host.device("8:0", SDA, &[ROTATES, ("device/vendor", "ATA"), ("device/model", "QEMU HARDDISK")]);
    assert_eq!(host.devices(8, 0)[0].transport, Transport::Virtual);
}

#[test]
fn nvme_over_a_network_is_not_nvme_on_the_bus() {
    for (says, transport) in [("pcie", Transport::Nvme), ("tcp", Transport::Network)] {
        let host = Host::new();
        let drive = "devices/virtual/nvme-subsystem/nvme-subsys0/nvme0n1";
        host.device("259:0", drive, &[("device/nvme0/transport", says), ("queue/rotational", "0")]);
        assert_eq!(host.devices(259, 0)[0].transport, transport, "{says}");
    }
}

#[test]
fn logical_volumes_are_told_apart_by_the_layers_below_them() {
    for (suffix, above) in [
        ("-tpool", DeviceKind::ThinVolume),
        ("-real", DeviceKind::Snapshot),
        ("-cow", DeviceKind::Snapshot),
        ("-cdata", DeviceKind::Cache),
        ("-vpool", DeviceKind::Deduplicating),
        ("-unheard-of", DeviceKind::Mapping),
        ("", DeviceKind::Linear),
    ] {
        let host = Host::new();
        host.device("8:0", SDA, &[ROTATES]);
        host.device("253:1", "devices/virtual/block/dm-1", &[("dm/uuid", &format!("{LVM_ID}{suffix}"))]);
        host.device("253:0", "devices/virtual/block/dm-0", &[("dm/uuid", LVM_ID)]);
        host.on("devices/virtual/block/dm-0", "devices/virtual/block/dm-1")
            .on("devices/virtual/block/dm-1", SDA);
        let devices = host.devices(253, 0);
        assert_eq!(devices.len(), 3, "{suffix}");
        assert_eq!(devices[0].kind, above, "{suffix}");
        assert_eq!(devices[2].name, "sda");
    }
}

#[test]
fn other_mappings_are_told_by_their_uuid() {
    for (uuid, kind) in [
        ("CRYPT-LUKS2-0123-root", DeviceKind::Crypt),
        ("mpath-3600508b4", DeviceKind::Multipath),
        ("part1-mpath-3600508b4", DeviceKind::Linear),
        ("VDO-0123", DeviceKind::Deduplicating),
        ("stratis-1-private-0123", DeviceKind::ThinVolume),
        ("DOCKER-1", DeviceKind::Mapping),
        ("", DeviceKind::Mapping),
    ] {
        let host = Host::new();
        host.device("253:0", "devices/virtual/block/dm-0", &[("dm/uuid", uuid)]);
        assert_eq!(host.devices(253, 0)[0].kind, kind, "{uuid}");
    }
}

#[test]
fn an_array_is_followed_to_each_of_its_disks_once() {
    let host = Host::new();
    let nvme = "devices/pci0000:00/0000:01:00.0/nvme/nvme0/nvme0n1";
    host.device("8:0", SDA, &[ROTATES]).device("8:1", &format!("{SDA}/sda1"), &[("partition", "1")]);
    host.device("8:2", &format!("{SDA}/sda2"), &[("partition", "2")]);
    host.device("259:0", nvme, &[("queue/rotational", "0")]);
    host.device("9:0", "devices/virtual/block/md0", &[("md/level", "raid1"), ROTATES]);
    for below in [&format!("{SDA}/sda1"), &format!("{SDA}/sda2"), nvme] {
        host.on("devices/virtual/block/md0", below);
    }
    let devices = host.devices(9, 0);
    let names: Vec<&str> = devices.iter().map(|device| device.name.as_str()).collect();
    assert_eq!(names, ["md0", "sda", "nvme0n1"]);
    assert_eq!(devices[0].kind, DeviceKind::Raid("raid1".into()));
    assert_eq!(judge(host.facts(9, 0)).level, Level::NotReached);
}

#[test]
fn a_loop_device_is_followed_to_the_file_below_it() {
    let host = Host::new();
    let image = host.0.path().join("image");
    fs::write(&image, [1; 4096]).expect("an image");
    let backing = image.to_str().expect("a plain path");
    host.device("7:0", "devices/virtual/block/loop0", &[("loop/backing_file", backing)]);
    let facts = host.facts(7, 0);
    assert!(matches!(&facts.layers[0], Layer::Device(device) if device.kind == DeviceKind::Loop));
    assert!(matches!(&facts.layers[1], Layer::File(file) if file.path == image));
    fs::remove_file(&image).expect("it was there");
    let facts = host.facts(7, 0);
    assert!(facts.unknown[0].contains("the file below a loop device"), "{facts:?}");
    assert_eq!(judge(facts).level, Level::NotAssured);
}

#[test]
fn a_chain_that_bites_its_tail_or_goes_on_for_ever_ends() {
    let host = Host::new();
    host.device("253:0", "devices/virtual/block/dm-0", &[("dm/uuid", "CRYPT-x")]);
    host.on("devices/virtual/block/dm-0", "devices/virtual/block/dm-0");
    assert_eq!(host.devices(253, 0).len(), 1);
    let folder = |n| format!("devices/virtual/block/dm-{n}");
    let host = Host::new();
    for n in 0..100 {
        host.device(&format!("253:{n}"), &folder(n), &[("dm/uuid", "CRYPT-x")]);
    }
    for n in 1..100 {
        host.on(&folder(n - 1), &folder(n));
    }
    let facts = host.facts(253, 0);
    assert_eq!((facts.layers.len(), facts.unknown.len()), (64, 1));
}

#[test]
fn a_device_that_sysfs_does_not_show_is_unknown() {
    let facts = Host::new().facts(8, 0);
    assert!(facts.unknown[0].starts_with("cannot inspect device 8:0: "), "{facts:?}");
    assert_eq!(judge(facts).level, Level::NotAssured);
}

#[test]
fn a_virtual_machine_and_swap_are_seen() {
    let host = Host::new();
    host.device("8:0", SDA, &[ROTATES]);
    assert_eq!((host.facts(8, 0).virtual_machine, host.facts(8, 0).swap), (false, false));
    let swaps = "Filename\tType\tSize\n/dev/zram0 partition 1\n";
    host.proc("cpuinfo", "processor\t: 0\nflags\t\t: fpu hypervisor\n").proc("swaps", swaps);
    assert_eq!((host.facts(8, 0).virtual_machine, host.facts(8, 0).swap), (true, false));
    host.proc("swaps", &format!("{swaps}/dev/sda2 partition 1\n"));
    assert!(host.facts(8, 0).swap);
}
