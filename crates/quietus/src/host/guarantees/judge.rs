//! From facts to guarantees.

use super::words::Code;
use super::{
    DeviceFacts, DeviceKind, Facts, FileFacts, Finding, Guarantees, Layer, Level, Severity, Transport,
    name_of,
};

/// The guarantees of an overwrite, as far as `facts` tell. Asks nothing of the host.
#[must_use]
pub fn judge(facts: Facts) -> Guarantees {
    let mut findings: Vec<Finding> = facts.layers.iter().flat_map(|layer| of_layer(layer, &facts)).collect();
    findings.extend(missing_device(&facts));
    let unknown = facts.unknown.iter();
    findings.extend(unknown.map(|what| Code::NotFoundOut.found(&name_of(&facts.path), what.clone())));
    findings.sort_by_key(|finding| std::cmp::Reverse(finding.severity));
    Guarantees { level: level(&findings), findings, facts }
}

/// The level of these findings. No finding at all is no evidence.
pub(super) fn level(findings: &[Finding]) -> Level {
    match findings.iter().map(|finding| finding.severity).max() {
        Some(Severity::Note) => Level::Clear,
        Some(Severity::Doubt) | None => Level::NotAssured,
        Some(Severity::Defeat) => Level::NotReached,
    }
}

fn of_layer(layer: &Layer, facts: &Facts) -> Vec<Finding> {
    match layer {
        Layer::File(file) => of_file(file, facts),
        Layer::Device(device) => {
            let zoned = device.zoned.then(|| Code::Zoned.found(&device.name, "zoned device".into()));
            by_kind(device, facts.virtual_machine).into_iter().chain(zoned).collect()
        }
    }
}

/// The kind of memory in which a file or device lies, all of which is gone when the machine stops; `None` for storage that lasts, and for
/// what cannot be examined.
pub(crate) fn volatile(facts: &Facts) -> Option<String> {
    facts.layers.iter().find_map(|layer| match layer {
        Layer::File(file) => {
            let is_memory = matches!(nature(&file.file_system), Nature::Memory | Nature::LockedMemory);
            is_memory.then(|| file.file_system.clone())
        }
        Layer::Device(device) => match device.kind {
            // Persistent memory has the name of a kind of memory, too.
            DeviceKind::Memory if !device.name.starts_with("pmem") => Some(device.name.clone()),
            DeviceKind::CompressedMemory => Some(device.name.clone()),
            _ => None,
        },
    })
}

/// How a file system treats a block that is written again.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Nature {
    InPlace,
    CopyOnWrite,
    Log,
    Overlay,
    Memory,
    /// Memory that is never swapped.
    LockedMemory,
    Remote,
    Unknown,
}

fn nature(file_system: &str) -> Nature {
    match file_system {
        "ext2" | "ext3" | "ext4" | "xfs" | "vfat" | "msdos" | "exfat" | "ntfs3" | "jfs" | "reiserfs"
        | "hfs" | "hfsplus" | "minix" | "gfs2" | "ocfs2" => Nature::InPlace,
        "btrfs" | "zfs" | "bcachefs" | "apfs" => Nature::CopyOnWrite,
        "nilfs2" | "f2fs" | "jffs2" | "ubifs" | "logfs" | "udf" => Nature::Log,
        "overlay" | "aufs" | "unionfs" => Nature::Overlay,
        "tmpfs" | "devtmpfs" => Nature::Memory,
        "ramfs" | "hugetlbfs" => Nature::LockedMemory,
        "nfs" | "nfs4" | "9p" | "virtiofs" | "cifs" | "smb3" | "smb2" | "ceph" | "afs" | "lustre"
        | "vboxsf" | "beegfs" | "gpfs" | "orangefs" | "ncpfs" => Nature::Remote,
        name if name == "fuse" || name.starts_with("fuse.") => Nature::Remote,
        _ => Nature::Unknown,
    }
}

/// Whether a file system lies on a device here, and overwrites in place.
pub(super) fn overwrites_here(file_system: &str) -> bool {
    nature(file_system) == Nature::InPlace
}

fn of_file(file: &FileFacts, facts: &Facts) -> Vec<Finding> {
    let at = name_of(&file.path);
    let name = &file.file_system;
    let of = |code: Code, what: &str| Some(code.found(&at, format!("file on {name}, {what}")));
    let by_nature = match nature(name) {
        Nature::InPlace => None,
        Nature::CopyOnWrite if name == "btrfs" && overwrites(file) => {
            of(Code::CopyOnWriteDisabled, "with copy-on-write turned off")
        }
        Nature::CopyOnWrite => of(Code::CopyOnWriteFileSystem, "a copy-on-write file system"),
        Nature::Log => of(Code::LogStructuredFileSystem, "a log-structured file system"),
        Nature::Overlay => of(Code::OverlayFileSystem, "a layer above other file systems"),
        Nature::Memory if facts.swap => of(Code::MemorySwapped, "in memory that can be swapped out"),
        Nature::Memory | Nature::LockedMemory => of(Code::MemoryFileSystem, "in memory"),
        Nature::Remote => of(Code::RemoteFileSystem, "on another machine or behind another program"),
        Nature::Unknown => {
            Some(Code::UnknownFileSystem.found(&at, format!("file on {name:?}, an unknown file system")))
        }
    };
    let is_journaled =
        file.options.iter().any(|option| option == "data=journal") || file.data_journal == Some(true);
    let journal =
        is_journaled.then(|| Code::DataJournal.found(&at, "file whose data goes through the journal".into()));
    by_nature.into_iter().chain(sharing(file, &at)).chain(journal).collect()
}

fn overwrites(file: &FileFacts) -> bool {
    file.no_copy_on_write == Some(true) && file.shared_extents == Some(false)
}

fn sharing(file: &FileFacts, at: &str) -> Option<Finding> {
    // These overwrite in place, and yet may share blocks.
    let may_share = matches!(&*file.file_system, "xfs" | "ocfs2");
    match (file.shared_extents, file.reflink) {
        (Some(true), _) => Some(
            Code::SharedExtents.found(at, "file that shares blocks with another file or a snapshot".into()),
        ),
        (Some(false), Some(true)) => {
            let what = format!("file on {}, which can share blocks between files", file.file_system);
            Some(Code::ReflinksPossible.found(at, what))
        }
        (None, reflink) if reflink == Some(true) || may_share => {
            let what = "file that may share blocks: that cannot be determined";
            Some(Code::SharingUnknown.found(at, what.into()))
        }
        _ => None,
    }
}

/// A local file system needs a device; without one there is nothing to trust.
fn missing_device(facts: &Facts) -> Option<Finding> {
    let last = match facts.layers.last() {
        Some(Layer::Device(device)) => return needs_more(device),
        Some(Layer::File(file)) => file,
        None => {
            return Some(Code::DeviceUnknown.found(&name_of(&facts.path), "unknown storage".into()));
        }
    };
    let on_device = matches!(
        nature(&last.file_system),
        Nature::InPlace | Nature::CopyOnWrite | Nature::Log | Nature::Unknown
    );
    let what = || format!("file on {}, whose device was not found", last.file_system);
    on_device.then(|| Code::DeviceUnknown.found(&name_of(&last.path), what()))
}

/// A device that is made of others is nothing without them.
fn needs_more(device: &DeviceFacts) -> Option<Finding> {
    let composed = matches!(
        device.kind,
        DeviceKind::Linear
            | DeviceKind::Crypt
            | DeviceKind::Multipath
            | DeviceKind::Raid(_)
            | DeviceKind::Loop
    );
    composed.then(|| Code::DeviceUnknown.found(&device.name, "device whose parts were not found".into()))
}

fn by_kind(device: &DeviceFacts, virtual_machine: bool) -> Option<Finding> {
    let of = |code: Code, what: &str| Some(code.found(&device.name, what.into()));
    match &device.kind {
        DeviceKind::Disk => Some(of_disk(device, virtual_machine)),
        DeviceKind::Linear | DeviceKind::Multipath | DeviceKind::Loop => None,
        DeviceKind::ThinVolume | DeviceKind::ThinPool => of(Code::ThinPool, "volume of a thin pool"),
        DeviceKind::Snapshot => of(Code::Snapshot, "snapshot, or volume with snapshots"),
        DeviceKind::Crypt => of(Code::Encrypted, "encrypted device"),
        DeviceKind::Cache => of(Code::Cache, "device behind a cache"),
        DeviceKind::Deduplicating => of(Code::Deduplicating, "device that deduplicates or compresses"),
        DeviceKind::Mapping => of(Code::UnknownMapping, "device mapping of an unknown kind"),
        DeviceKind::Raid(level) => of(Code::Raid, &format!("array of several devices, {level}")),
        DeviceKind::CompressedMemory => of(Code::CompressedMemory, "compressed memory"),
        DeviceKind::Memory => of(Code::MemoryDevice, "memory device"),
        DeviceKind::Network => of(Code::RemoteDevice, "device on another machine"),
        DeviceKind::Unknown => of(Code::UnknownDevice, "device of an unknown kind"),
    }
}

fn of_disk(device: &DeviceFacts, virtual_machine: bool) -> Finding {
    let flag = match device.rotational {
        Some(true) => "reports that it rotates",
        Some(false) => "reports that it does not rotate",
        None => "does not report whether it rotates",
    };
    let of = |code: Code, what: String| code.found(&device.name, what);
    match device.transport {
        Transport::Virtual => of(Code::VirtualDisk, "virtual disk".into()),
        Transport::Network => of(Code::RemoteDevice, "disk reached through a network".into()),
        Transport::Nvme => of(Code::Flash, "NVMe drive".into()),
        Transport::Mmc => of(Code::Flash, "MMC or SD card".into()),
        _ if virtual_machine => of(Code::VirtualDisk, "disk of a virtual machine".into()),
        _ if device.rotational == Some(false) => of(Code::Flash, "solid-state drive".into()),
        Transport::Usb => of(Code::RotationUnsure, format!("USB disk, which {flag}")),
        Transport::Ata | Transport::Scsi if device.rotational == Some(true) => {
            of(Code::MagneticDisk, "magnetic disk".into())
        }
        _ => of(Code::UnknownDevice, format!("disk that {flag}")),
    }
}
