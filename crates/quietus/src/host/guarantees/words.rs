//! The findings in plain words.

use super::{Finding, Severity};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

macro_rules! codes {
    ($($(#[$doc:meta])* $code:ident: $severity:ident, $why:literal, $instead:literal;)*) => {
        /// The kinds of [`Finding`]; their names in JSON are stable.
        #[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Serialize, Deserialize, JsonSchema)]
        #[serde(rename_all = "kebab-case")]
        pub enum Code {
            $($(#[$doc])* $code,)*
        }

        impl Code {
            /// All codes.
            pub const ALL: &[Self] = &[$(Self::$code,)*];

            /// Effect of the finding on the guarantee.
            #[must_use]
            pub fn severity(self) -> Severity {
                match self { $(Self::$code => Severity::$severity,)* }
            }

            /// Why the finding matters, and the remedy.
            fn words(self) -> [&'static str; 2] {
                match self { $(Self::$code => [$why, $instead],)* }
            }

            /// The finding `what` about `at`.
            pub(super) fn found(self, at: &str, what: String) -> Finding {
                let [why, instead] = self.words().map(Into::into);
                Finding { code: self, severity: self.severity(), at: at.into(), what, why, instead }
            }
        }
    };
}

codes! {
    /// The file system writes changed blocks elsewhere.
    CopyOnWriteFileSystem: Defeat,
        "Overwritten content stays where it was, and in every snapshot, until its space is reused",
        "put the medium on a block device, or on ext4 or XFS on a magnetic disk";
    /// A copy-on-write file system was told to overwrite this file in place.
    CopyOnWriteDisabled: Doubt,
        "Overwriting works in place only while no snapshot holds the file, and balancing or defragmenting leaves copies",
        "take no snapshots of this file system, or put the medium on a block device";
    /// The file system appends everything to a log.
    LogStructuredFileSystem: Defeat,
        "Overwritten content stays in the log until its segment is cleaned and reused",
        "put the medium on a block device, or on ext4 or XFS on a magnetic disk";
    /// The file shares blocks with another file.
    SharedExtents: Defeat,
        "Overwriting goes to new blocks, and the old ones stay with the other file or snapshot",
        "copy the medium with `cp --reflink=never`, remove all but one of the files that share blocks, and shred that one";
    /// The file could come to share blocks with another.
    ReflinksPossible: Note,
        "Nothing is shared now, but a copy made with `cp` may share blocks, and keeps what is overwritten here",
        "copy the medium with `cp --reflink=never` only";
    /// Whether the file shares blocks is not known.
    SharingUnknown: Doubt,
        "A file or snapshot that shares blocks keeps what is overwritten here",
        "let Quietus read the medium, or put the medium on a block device";
    /// The file system writes data to its journal as well.
    DataJournal: Defeat,
        "The file system's journal keeps copies of written data until it wraps around",
        "mount with data=ordered, and clear the attribute with `chattr -j`";
    /// Changed files are copied from a lower file system.
    OverlayFileSystem: Doubt,
        "A file from a lower layer stays there unchanged, and the storage below the upper layer cannot be seen",
        "put the medium on a file system that is mounted directly";
    /// The file is in memory.
    MemoryFileSystem: Note,
        "The content is gone when the machine stops",
        "";
    /// The memory that holds the file may be written to a disk.
    MemorySwapped: Doubt,
        "Swapped content stays in the swap space until that is reused",
        "turn swap off, or encrypt it with a key that is new at each start";
    /// The file is on another machine, or behind another program.
    RemoteFileSystem: Doubt,
        "How the other side stores the content cannot be seen from here",
        "run Quietus where the storage is";
    /// A file system that is not known here.
    UnknownFileSystem: Doubt,
        "The file system may not overwrite in place",
        "put the medium on a block device, or on ext4 or XFS";
    /// No device was found below the file system.
    DeviceUnknown: Doubt,
        "The storage that holds the bytes in the end cannot be seen",
        "put the medium on a block device of this machine";
    /// A volume of a thin pool.
    ThinPool: Doubt,
        "A block that a snapshot shares is written elsewhere, and a block that was given back keeps its content",
        "use a fully allocated volume without snapshots";
    /// A volume with snapshots.
    Snapshot: Defeat,
        "Content is copied to the snapshot's space before it is overwritten",
        "remove the snapshots, and overwrite their space";
    /// A cache lies before the device.
    Cache: Doubt,
        "The cache, often flash, keeps old content that overwriting does not reach",
        "detach the cache";
    /// Equal blocks are stored once, or compressed.
    Deduplicating: Defeat,
        "Changed blocks are written elsewhere, and the old ones stay until their space is reused",
        "use a device that overwrites in place";
    /// The device is encrypted.
    Encrypted: Note,
        "Content that stays below cannot be read without the device's key, but that key still reads all of it",
        "";
    /// Several devices as one.
    Raid: Note,
        "Every present member is overwritten; a member that was taken out keeps its content",
        "";
    /// A mapping of a kind that is not known.
    UnknownMapping: Doubt,
        "The mapping may not overwrite in place",
        "use a plain device, a partition or a linear volume";
    /// Compressed memory as a device.
    CompressedMemory: Doubt,
        "Changed blocks get new memory, and the old content stays until that memory is reused or the machine stops",
        "";
    /// Memory as a device.
    MemoryDevice: Note,
        "Overwriting replaces the content in memory",
        "";
    /// A device on another machine.
    RemoteDevice: Doubt,
        "How the other side stores the content cannot be seen from here",
        "run Quietus where the storage is";
    /// A device whose zones are written in order.
    Zoned: Doubt,
        "Content that is overwritten out of order is first kept elsewhere",
        "use a disk without shingled zones";
    /// A device that a hypervisor makes up.
    VirtualDisk: Doubt,
        "Overwriting may not reach every physical copy",
        "ask the host's operator, or run Quietus on the host";
    /// Flash memory behind a translation layer.
    Flash: Defeat,
        "The controller writes changed blocks elsewhere, and the old ones stay in the chips, out of reach, until they are erased",
        "to erase the whole device, use its own command: `nvme sanitize` or `hdparm --security-erase`";
    /// A removable device whose rotational flag is not to be trusted.
    RotationUnsure: Doubt,
        "Flash sticks and USB adapters often claim to rotate",
        "attach a magnetic disk directly";
    /// A magnetic disk.
    MagneticDisk: Note,
        "Overwriting works in place, except for sectors that the firmware has replaced",
        "";
    /// A TPM that is a chip of its own.
    TpmChip: Note,
        "An overwritten key is gone, as far as its maker promises: what the chip stores below its interface cannot be seen",
        "";
    /// A TPM in the firmware of a processor.
    TpmFirmware: Doubt,
        "Its keys lie encrypted in the flash of the board, where old copies of them may stay",
        "use a TPM that is a chip of its own, or a medium that overwrites in place";
    /// A TPM in software.
    TpmVirtual: Doubt,
        "Its keys lie in a file of the host, which may keep old copies of them",
        "put the root on a medium that overwrites in place, or run Quietus on the host";
    /// A TPM of a maker that is not known here.
    TpmUnknown: Doubt,
        "Whether the TPM is a chip of its own, and what its maker promises, cannot be seen",
        "ask the maker, or put the root on a medium that overwrites in place";
    /// NOR flash.
    NorFlash: Note,
        "Keys are programmed to zeros or erased where they lie, and read back",
        "";
    /// Raw NAND flash.
    NandFlash: Note,
        "Dead content and all older copies of it are gone once their blocks are erased, and read back",
        "";
    /// The root lies in memory.
    MemoryRoot: Note,
        "All content is lost when the server stops",
        "";
    /// A disk of which not enough is known.
    UnknownDevice: Doubt,
        "The device may not overwrite in place",
        "use a magnetic disk on this machine's own bus";
    /// Something could not be found out.
    NotFoundOut: Doubt,
        "Nothing can be guaranteed without an inspection",
        "run Quietus with permission to inspect it";
}

impl Finding {
    /// What limits deletion, as a noun that follows "this".
    pub(super) fn limit(&self) -> &'static str {
        match self.code {
            Code::CopyOnWriteFileSystem | Code::CopyOnWriteDisabled => "copy-on-write file system",
            Code::LogStructuredFileSystem => "log-structured file system",
            Code::DataJournal => "file system's journal",
            Code::SharedExtents
            | Code::ReflinksPossible
            | Code::SharingUnknown
            | Code::OverlayFileSystem
            | Code::UnknownFileSystem => "file system",
            Code::MemoryFileSystem
            | Code::MemorySwapped
            | Code::MemoryDevice
            | Code::CompressedMemory
            | Code::MemoryRoot => "memory",
            Code::RemoteFileSystem | Code::RemoteDevice => "remote storage",
            Code::ThinPool => "thin pool",
            Code::Snapshot => "volume with snapshots",
            Code::Cache => "device with a cache",
            Code::Deduplicating => "deduplicating device",
            Code::Zoned => "zoned device",
            Code::VirtualDisk => "virtual disk",
            Code::Flash if self.what.contains("card") => "memory card",
            Code::Flash => "SSD",
            Code::RotationUnsure => "USB disk",
            Code::TpmChip | Code::TpmFirmware | Code::TpmUnknown => "TPM",
            Code::TpmVirtual => "virtual TPM",
            Code::DeviceUnknown
            | Code::Encrypted
            | Code::Raid
            | Code::UnknownMapping
            | Code::MagneticDisk
            | Code::NorFlash
            | Code::NandFlash
            | Code::UnknownDevice
            | Code::NotFoundOut => "storage",
        }
    }
}
