//! Facts about the host, without an opinion.

use crate::base::path_text::path_text;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize, Serializer};
use std::path::PathBuf;

/// Everything that is known of what lies below a file or block device.
#[derive(Clone, PartialEq, Eq, Debug, Default, Serialize, Deserialize, JsonSchema)]
pub struct Facts {
    /// Path that was asked about.
    #[serde(serialize_with = "path_text")]
    pub path: PathBuf,
    /// Layers from the top down; where a device lies on several, one after the other.
    pub layers: Vec<Layer>,
    /// The machine is a virtual one: its disks are what its host says they are.
    pub virtual_machine: bool,
    /// Memory may be swapped to a disk.
    pub swap: bool,
    /// Facts that could not be found out, and why.
    pub unknown: Vec<String>,
}

/// A layer of storage.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize, JsonSchema)]
#[serde(tag = "layer", rename_all = "kebab-case")]
pub enum Layer {
    /// A file in a file system.
    File(FileFacts),
    /// A block device.
    Device(DeviceFacts),
}

/// A file and its file system. `None`: could not be found out.
#[derive(Clone, PartialEq, Eq, Debug, Default, Serialize, Deserialize, JsonSchema)]
pub struct FileFacts {
    /// Path of the file.
    #[serde(serialize_with = "path_text")]
    pub path: PathBuf,
    /// The file system's name, as the kernel says it.
    pub file_system: String,
    /// Where it is mounted.
    #[serde(serialize_with = "as_some_text")]
    pub mount_point: Option<PathBuf>,
    /// Source of the mount.
    pub source: Option<String>,
    /// Mount options, of the mount and of the file system.
    pub options: Vec<String>,
    /// Some extent of the file is shared with another file or snapshot.
    pub shared_extents: Option<bool>,
    /// The file is marked to be overwritten in place (`chattr +C`).
    pub no_copy_on_write: Option<bool>,
    /// The file is marked to have its data journaled (`chattr +j`).
    pub data_journal: Option<bool>,
    /// The file system can share extents.
    pub reflink: Option<bool>,
}

/// A block device. `None`: could not be found out.
#[derive(Clone, PartialEq, Eq, Debug, Default, Serialize, Deserialize, JsonSchema)]
pub struct DeviceFacts {
    /// Name of the device, as the kernel says it.
    pub name: String,
    /// Kind of the device.
    pub kind: DeviceKind,
    /// Way to the device; of use only for a [`DeviceKind::Disk`].
    pub transport: Transport,
    /// The kernel's rotational flag.
    pub rotational: Option<bool>,
    /// The device takes word that blocks are unused.
    pub discard: Option<bool>,
    /// The zones of the device must or should be written in order.
    pub zoned: bool,
    /// Maker and model.
    pub model: Option<String>,
}

/// Kinds of block device.
#[derive(Clone, PartialEq, Eq, Debug, Default, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum DeviceKind {
    /// A kind that is not known here.
    #[default]
    Unknown,
    /// A device of its own, not made of others.
    Disk,
    /// A linear or striped mapping.
    Linear,
    /// A volume that takes its blocks from a thin pool.
    ThinVolume,
    /// A thin pool.
    ThinPool,
    /// A volume that is a snapshot or has one.
    Snapshot,
    /// An encrypted mapping.
    Crypt,
    /// Several paths to one device.
    Multipath,
    /// A device with a cache before it.
    Cache,
    /// A deduplicating or compressing device.
    Deduplicating,
    /// A mapping whose kind is not known.
    Mapping,
    /// Several devices as one, of this level.
    Raid(String),
    /// A file as a device.
    Loop,
    /// Compressed memory.
    CompressedMemory,
    /// Memory.
    Memory,
    /// A device on another machine.
    Network,
}

/// Way to a disk.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum Transport {
    /// A way that is not known here.
    #[default]
    Unknown,
    /// ATA or SATA.
    Ata,
    /// SCSI or SAS, or a controller that looks like it.
    Scsi,
    /// NVM Express on this machine's bus.
    Nvme,
    /// An MMC or SD card.
    Mmc,
    /// USB.
    Usb,
    /// A network.
    Network,
    /// A hypervisor.
    Virtual,
}

fn as_some_text<S: Serializer>(path: &Option<PathBuf>, serializer: S) -> Result<S::Ok, S::Error> {
    path.as_ref().map(|path| path.to_string_lossy()).serialize(serializer)
}
