//! Block devices, as sysfs shows them
//! (Documentation/ABI/stable/sysfs-block in the kernel's source).

use super::{DeviceFacts, DeviceKind, Transport, name_of, real};
use std::io;
use std::path::{Path, PathBuf};

/// The number of a block device.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct DeviceNumber {
    /// Number of the driver.
    pub major: u32,
    /// Number of the device.
    pub minor: u32,
}

impl From<u64> for DeviceNumber {
    fn from(number: u64) -> Self {
        Self { major: rustix::fs::major(number), minor: rustix::fs::minor(number) }
    }
}

/// Findings about one device.
pub(super) struct Found {
    pub(super) facts: DeviceFacts,
    /// The sysfs folders of the devices below it.
    pub(super) below: Vec<PathBuf>,
    /// The file below it.
    pub(super) backing_file: Option<PathBuf>,
    pub(super) unknown: Vec<String>,
}

/// The sysfs folder of a device; a partition's is its disk's.
pub(super) fn folder(sys: &Path, number: DeviceNumber) -> io::Result<PathBuf> {
    let link = sys.join(format!("dev/block/{}:{}", number.major, number.minor));
    Ok(whole(link.canonicalize()?))
}

fn whole(folder: PathBuf) -> PathBuf {
    let is_partition = folder.join("partition").exists();
    folder.parent().filter(|_| is_partition).map_or_else(|| folder.clone(), Path::to_path_buf)
}

/// The findings about the device with that sysfs folder.
pub(super) fn look(folder: &Path) -> Found {
    let name = name_of(folder);
    let (below, unknown) = match slaves(folder) {
        Ok(below) => (below, Vec::new()),
        Err(error) => (Vec::new(), vec![format!("cannot determine what {name} is made of: {error}")]),
    };
    let kind = kind(folder, &name, &below);
    let transport = transport(folder, &name);
    let facts = DeviceFacts {
        rotational: number(folder, "queue/rotational").map(|value| value != 0),
        discard: number(folder, "queue/discard_max_bytes").map(|bytes| bytes > 0),
        zoned: text(folder, "queue/zoned").is_some_and(|zoned| zoned != "none"),
        model: model(folder),
        kind,
        transport,
        name,
    };
    Found { facts, below, backing_file: text(folder, "loop/backing_file").map(PathBuf::from), unknown }
}

fn text(folder: &Path, attribute: &str) -> Option<String> {
    let text = std::fs::read_to_string(folder.join(attribute)).ok()?;
    Some(text.trim().to_owned()).filter(|text| !text.is_empty())
}

fn number(folder: &Path, attribute: &str) -> Option<u64> {
    text(folder, attribute)?.parse().ok()
}

fn model(folder: &Path) -> Option<String> {
    let parts = [text(folder, "device/vendor"), text(folder, "device/model")];
    let words: Vec<String> = parts.into_iter().flatten().collect();
    (!words.is_empty()).then(|| words.join(" "))
}

fn slaves(folder: &Path) -> io::Result<Vec<PathBuf>> {
    let entries = match std::fs::read_dir(folder.join("slaves")) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Vec::new()),
        entries => entries?,
    };
    let mut folders =
        entries.map(|entry| entry?.path().canonicalize().map(whole)).collect::<io::Result<Vec<PathBuf>>>()?;
    folders.sort();
    folders.dedup();
    Ok(folders)
}

fn kind(folder: &Path, name: &str, below: &[PathBuf]) -> DeviceKind {
    if folder.join("dm").exists() {
        return mapping(folder, below);
    }
    if let Some(level) = text(folder, "md/level") {
        return DeviceKind::Raid(level);
    }
    by_name(name)
}

/// The kernel's names of block devices (Documentation/admin-guide/devices.txt).
fn by_name(name: &str) -> DeviceKind {
    let is = |prefixes: &[&str]| prefixes.iter().any(|prefix| name.starts_with(prefix));
    if is(&["loop"]) {
        DeviceKind::Loop
    } else if is(&["zram"]) {
        DeviceKind::CompressedMemory
    } else if is(&["ram", "pmem"]) {
        DeviceKind::Memory
    } else if is(&["nbd", "rbd", "drbd", "rnbd", "etherd"]) {
        DeviceKind::Network
    } else if is(&["bcache"]) {
        DeviceKind::Cache
    } else if is(&["sd", "hd", "vd", "xvd", "nvme", "mmcblk", "dasd", "ubd"]) {
        DeviceKind::Disk
    } else {
        DeviceKind::Unknown
    }
}

/// The kind of a mapping of device-mapper, by the prefix that its maker gave its uuid.
fn mapping(folder: &Path, below: &[PathBuf]) -> DeviceKind {
    let uuid = text(folder, "dm/uuid").unwrap_or_default();
    match uuid.split('-').next().unwrap_or_default() {
        "CRYPT" => DeviceKind::Crypt,
        "mpath" => DeviceKind::Multipath,
        "VDO" => DeviceKind::Deduplicating,
        "stratis" => DeviceKind::ThinVolume,
        "LVM" => logical_volume(&uuid, below),
        part if part.starts_with("part") => DeviceKind::Linear,
        _ => DeviceKind::Mapping,
    }
}

/// LVM names its layers by a suffix; the volume above such a layer is of its
/// kind (lib/activate/dev_manager.c and `_uuid_suffix_list` in LVM2).
fn logical_volume(uuid: &str, below: &[PathBuf]) -> DeviceKind {
    let above = below.iter().filter_map(|folder| text(folder, "dm/uuid"));
    let kinds = above.filter_map(|uuid| layer(&uuid).map(over_layer));
    layer(uuid).or_else(|| kinds.max_by_key(weight)).unwrap_or(DeviceKind::Linear)
}

fn weight(kind: &DeviceKind) -> u8 {
    match kind {
        DeviceKind::Snapshot => 3,
        DeviceKind::Deduplicating => 2,
        DeviceKind::Linear => 0,
        _ => 1,
    }
}

fn over_layer(layer: DeviceKind) -> DeviceKind {
    match layer {
        DeviceKind::ThinPool => DeviceKind::ThinVolume,
        kind => kind,
    }
}

fn layer(uuid: &str) -> Option<DeviceKind> {
    let (_, suffix) = uuid.strip_prefix("LVM-")?.split_once('-')?;
    Some(match suffix {
        "tpool" | "pool" => DeviceKind::ThinPool,
        "vpool" | "vdata" => DeviceKind::Deduplicating,
        "cow" | "real" => DeviceKind::Snapshot,
        "cdata" | "cmeta" | "cpool" | "cvol" | "corig" | "wcorig" => DeviceKind::Cache,
        "tdata" | "tmeta" => DeviceKind::Linear,
        _ => DeviceKind::Mapping,
    })
}

fn transport(folder: &Path, name: &str) -> Transport {
    if name.starts_with("nvme") {
        return nvme(folder);
    }
    if is_emulated(folder) {
        return Transport::Virtual;
    }
    by_bus(&folder.to_string_lossy())
}

/// The transport, by the path of the device in sysfs.
fn by_bus(path: &str) -> Transport {
    let on = |part: &str| path.split('/').any(|folder| folder.starts_with(part));
    if on("virtio") || on("vbd-") || on("xen") || path.to_ascii_lowercase().contains("vmbus") {
        Transport::Virtual
    } else if on("session") || on("rport-") {
        Transport::Network
    } else if on("usb") {
        Transport::Usb
    } else if on("mmc") {
        Transport::Mmc
    } else if on("ata") {
        Transport::Ata
    } else if on("host") {
        Transport::Scsi
    } else {
        Transport::Unknown
    }
}

fn is_emulated(folder: &Path) -> bool {
    let model = model(folder).unwrap_or_default().to_ascii_uppercase();
    ["QEMU", "VBOX", "VMWARE", "MSFT", "XEN", "GOOGLE", "VIRTUAL"].iter().any(|maker| model.contains(maker))
}

/// A controller says how it is reached; with several paths to one drive, the
/// subsystem's controllers do.
fn nvme(folder: &Path) -> Transport {
    let controller = real(&folder.join("device"));
    let own = text(&controller, "transport");
    let of_paths = std::fs::read_dir(&controller).into_iter().flatten().flatten();
    let mut transports = own.into_iter().chain(of_paths.filter_map(|entry| text(&entry.path(), "transport")));
    match transports.next() {
        Some(first) if first == "pcie" && transports.all(|other| other == "pcie") => Transport::Nvme,
        Some(_) => Transport::Network,
        None if is_emulated(folder) => Transport::Virtual,
        None => Transport::Nvme,
    }
}
