//! The findings in plain words.

use super::{Finding, Severity};
use serde::{Deserialize, Serialize};

macro_rules! codes {
    ($($(#[$doc:meta])* $code:ident: $severity:ident, $why:literal, $instead:literal;)*) => {
        /// What a [`Finding`] is; its name in JSON is stable.
        #[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Serialize, Deserialize)]
        #[serde(rename_all = "kebab-case")]
        pub enum Code {
            $($(#[$doc])* $code,)*
        }

        impl Code {
            /// All of them.
            pub const ALL: &[Self] = &[$(Self::$code,)*];

            /// How much it takes away.
            #[must_use]
            pub fn severity(self) -> Severity {
                match self { $(Self::$code => Severity::$severity,)* }
            }

            fn why(self) -> &'static str {
                match self { $(Self::$code => $why,)* }
            }

            fn instead(self) -> &'static str {
                match self { $(Self::$code => $instead,)* }
            }

            /// The finding: `what` is so at `at`.
            pub(super) fn found(self, at: &str, what: String) -> Finding {
                Finding {
                    code: self,
                    severity: self.severity(),
                    at: at.into(),
                    what,
                    why: self.why().into(),
                    instead: self.instead().into(),
                }
            }
        }
    };
}

codes! {
    /// The file system writes changed blocks elsewhere.
    CopyOnWriteFileSystem: Defeat,
        "What is overwritten stays where it was, and in every snapshot, until the space happens to be used again.",
        "Put the medium on a block device, or on ext4 or xfs on a magnetic disk.";
    /// A copy-on-write file system was told to overwrite this file in place.
    CopyOnWriteDisabled: Doubt,
        "Overwriting works in place only while no snapshot holds the file, and balancing or defragmenting leaves copies.",
        "Take no snapshots of this file system, or put the medium on a block device.";
    /// The file system appends everything to a log.
    LogStructuredFileSystem: Defeat,
        "What is overwritten stays in the log until its segment is cleaned and used again.",
        "Put the medium on a block device, or on ext4 or xfs on a magnetic disk.";
    /// The file shares blocks with another file.
    SharedExtents: Defeat,
        "Overwriting goes to new blocks; the old ones stay with the other file or snapshot.",
        "Copy the medium with `cp --reflink=never`, remove the copies that share, and shred those first.";
    /// The file could come to share blocks with another.
    ReflinksPossible: Note,
        "It shares none now; a copy made with `cp` may, and keeps what is overwritten here.",
        "Copy the medium with `cp --reflink=never` only.";
    /// It could not be found out whether the file shares blocks.
    SharingUnknown: Doubt,
        "A file or snapshot that shares blocks keeps what is overwritten here.",
        "Let the server read the medium, or put it on a block device.";
    /// The file system writes data to its journal as well.
    DataJournal: Defeat,
        "The file system's journal holds copies of what was written, until it comes round.",
        "Mount with data=ordered, and take the attribute away with `chattr -j`.";
    /// Changed files are copied from a lower file system.
    OverlayFileSystem: Doubt,
        "A file that came from a lower layer stays there as it was, and what lies below the upper one is hidden.",
        "Put the medium on a file system that is mounted directly.";
    /// The file is in memory.
    MemoryFileSystem: Note,
        "Its content is gone when the machine stops.",
        "";
    /// The memory that holds the file may be written to a disk.
    MemorySwapped: Doubt,
        "What was swapped out stays in the swap space until that is used again.",
        "Turn swap off, or encrypt it with a key that is new at each start.";
    /// The file is on another machine, or behind another program.
    RemoteFileSystem: Doubt,
        "How the other side stores it cannot be seen from here.",
        "Run the server where the storage is.";
    /// Not a file system that is known here.
    UnknownFileSystem: Doubt,
        "It is not known whether it overwrites in place.",
        "Put the medium on a block device, or on ext4 or xfs.";
    /// No device was found below the file system.
    DeviceUnknown: Doubt,
        "What stores the bytes in the end cannot be seen.",
        "Put the medium on a block device of this machine.";
    /// A volume of a thin pool.
    ThinPool: Doubt,
        "A block that a snapshot shares is written elsewhere, and a block that was given back keeps its content.",
        "Use a volume that is fully allocated, without snapshots.";
    /// A volume with snapshots.
    Snapshot: Defeat,
        "What is overwritten is first copied to the snapshot's space.",
        "Remove the snapshots, and overwrite their space.";
    /// A cache lies before the device.
    Cache: Doubt,
        "The cache, often flash, keeps old content that overwriting does not reach.",
        "Detach the cache.";
    /// Equal blocks are stored once, or compressed.
    Deduplicating: Defeat,
        "Changed blocks are written elsewhere; the old ones stay until their space is used again.",
        "Use a device that stores blocks where they are written.";
    /// The device is encrypted.
    Encrypted: Note,
        "What should stay below is not readable without the device's key, which still reads it all.",
        "";
    /// Several devices as one.
    Raid: Note,
        "Every present member is overwritten; one that was taken out keeps what it held.",
        "";
    /// A mapping of a kind that is not known.
    UnknownMapping: Doubt,
        "It is not known whether it overwrites in place.",
        "Use a plain device, partition or linear volume.";
    /// Compressed memory as a device.
    CompressedMemory: Doubt,
        "Changed blocks get new memory; the old stays until it is used again, or the machine stops.",
        "";
    /// Memory as a device.
    MemoryDevice: Note,
        "Its content is in memory.",
        "";
    /// A device on another machine.
    RemoteDevice: Doubt,
        "How the other side stores it cannot be seen from here.",
        "Run the server where the storage is.";
    /// A device whose zones are written in order.
    Zoned: Doubt,
        "What is overwritten out of order is first kept elsewhere.",
        "Use a disk without shingled zones.";
    /// A device that a hypervisor makes up.
    VirtualDisk: Doubt,
        "Its host may keep it on flash, in a copy-on-write file, with snapshots, or twice; its flags are only what the host says.",
        "Ask whoever runs the host, or run the server there.";
    /// Flash memory behind a translation layer.
    Flash: Defeat,
        "Its controller writes changed blocks elsewhere; the old ones stay in the chips, out of the reach of reads, until they are erased.",
        "For all of the device at once, use its own command: `nvme sanitize`, `hdparm --security-erase`.";
    /// A removable device whose rotational flag is not to be trusted.
    RotationUnsure: Doubt,
        "Flash sticks and adapters often claim to rotate.",
        "Attach a magnetic disk directly.";
    /// A magnetic disk.
    MagneticDisk: Note,
        "It overwrites in place, but for sectors that its firmware has replaced.",
        "";
    /// A disk of which not enough is known.
    UnknownDevice: Doubt,
        "It is not known whether it overwrites in place.",
        "Use a magnetic disk on this machine's own bus.";
    /// Something could not be found out.
    NotFoundOut: Doubt,
        "What is not known cannot be promised.",
        "Give the server the right to look.";
}
