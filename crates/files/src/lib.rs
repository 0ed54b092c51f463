//! Reads files out of one state of a disk: folders, attributes and content of a guest's file systems, without mounting them.
//!
//! A state is a [`Source`]: the current content of a disk, or that of an epoch. [`open`] finds the file system in it, or in one of its
//! partitions, and gives a [`Volume`]. A file system that was not unmounted is read as its own driver would after a replay of its
//! journal; nothing is written, so that the replay is a map in memory. Nothing here does input or output, or knows the time.
//!
//! 1. All input is hostile. No content causes a panic, an endless loop, or more memory than a folder's or a request's share:
//!    loops of folders and of chains, sizes of 2^63 and extents behind the end of the disk are errors that name the field.
//! 2. What cannot be read or understood is an error of the file it belongs to. Other files are read.
//!
//! | question | where |
//! | --- | --- |
//! | what a state is, and what can be asked of a file system | here |
//! | folders, attributes and content of ext2, ext3, ext4 | [`ext`] |
//! | the same of FAT12, FAT16, FAT32 and exFAT | [`fat`], [`exfat`] |
//! | the same of NTFS | [`ntfs`] |
//! | what FAT and exFAT share: the chains of a table, slots of folders, times | `clusters` |
//! | names in UTF-16, and when two are one | `names` |
//! | which partition has a file system, and which reader understands it | [`finding`] |
//! | the file that a path leads to | [`path`] |
#![forbid(unsafe_code)]

mod clusters;
pub mod exfat;
pub mod ext;
pub mod fat;
pub mod finding;
mod names;
pub mod ntfs;
pub mod path;

pub use finding::{Found, open};

use quietus_core::base::units::{Addr, BLOCK_BYTES, Extent};

/// One state of a disk, or of one of its partitions.
pub trait Source {
    /// Its size in bytes.
    fn bytes(&self) -> u64;

    /// The bytes of `at`, which lies within the source.
    ///
    /// # Errors
    /// If they cannot be had: forgotten, damaged, or the medium fails.
    fn read(&mut self, at: Extent<Addr>) -> Result<Vec<u8>, Unread>;
}

/// Why a part of a [`Source`] cannot be had, for a person.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
#[error("{0}")]
pub struct Unread(pub String);

/// Why a question about a file system has no answer.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
pub enum Error {
    /// The source could not be read.
    #[error(transparent)]
    Unread(#[from] Unread),
    /// The structures of the file system contradict themselves. The text names the field, and its value.
    #[error("damaged: {0}")]
    Damaged(String),
    /// The file uses something that is not read: encryption, compression, a feature.
    #[error("{0}")]
    Unsupported(String),
    /// The file is of another kind than the question needs: content of a folder, entries of a file.
    #[error("not a {0}")]
    NotA(&'static str),
    /// There is no file system that is understood. The text says what there is.
    #[error("{0}")]
    Unknown(String),
    /// There are several file systems that are understood, and no choice. The text lists them.
    #[error("{0}")]
    Several(String),
    /// The file system has no such file. The text says which.
    #[error("no {0}")]
    Missing(String),
}

/// A file: its number, and what sets it apart from earlier files of that number (ext: `i_generation`; NTFS: the sequence number; FAT and
/// exFAT: always 0, as such files have a path only, and the number is the place of the entry).
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct FileId {
    /// The number of the inode or record, or the place of the entry.
    pub number: u64,
    /// Sets apart files that had the same number.
    pub generation: u64,
}

/// What a file is.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Kind {
    /// A regular file.
    Regular,
    /// A folder.
    Folder,
    /// A symbolic link.
    Link,
    /// A pipe with a name.
    Pipe,
    /// A socket.
    Socket,
    /// A character device: major, minor.
    Character(u32, u32),
    /// A block device: major, minor.
    Block(u32, u32),
}

/// A time: seconds since 1970, and nanoseconds.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug, Default)]
pub struct Time {
    /// Seconds since 1970, UTC.
    pub seconds: i64,
    /// Below 1,000,000,000.
    pub nanoseconds: u32,
}

impl Time {
    /// Nanoseconds since 1970; the nearest number if that is out of range.
    #[must_use]
    pub fn ns(self) -> i64 {
        self.seconds.saturating_mul(1_000_000_000).saturating_add(i64::from(self.nanoseconds))
    }
}

/// What a file system says of a file, apart from its content. What the format has not is `None`.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Attributes {
    /// What it is.
    pub kind: Kind,
    /// Size of its content in bytes.
    pub bytes: u64,
    /// Bytes of the disk that its content takes.
    pub allocated_bytes: u64,
    /// The permission bits, `0o7777` at most.
    pub mode: Option<u32>,
    /// Owner and group.
    pub owner: Option<(u32, u32)>,
    /// How many names it has.
    pub links: Option<u32>,
    /// When its content changed last.
    pub modified: Option<Time>,
    /// When it was last read, as far as the guest noted that.
    pub accessed: Option<Time>,
    /// When its attributes changed last.
    pub changed: Option<Time>,
    /// When it was made.
    pub born: Option<Time>,
}

/// An extended attribute: its full name, and its value.
pub type ExtendedAttribute = (Vec<u8>, Vec<u8>);

/// An entry of a folder.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Entry {
    /// The name, as the file system has it; in UTF-8 where that has UTF-16. Never empty, `.`, or `..`, and without `/` and NUL.
    pub name: Vec<u8>,
    /// The file.
    pub file: FileId,
}

/// Where the content of a file lies, in the order of the file.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Run {
    /// First byte of the file.
    pub at: u64,
    /// Bytes in it.
    pub bytes: u64,
    /// Where it lies in the source; `None`: within the metadata of the file itself.
    pub place: Option<Addr>,
}

/// Whose a block is.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub enum Owner {
    /// Content of this file, or space for it.
    File(FileId),
    /// Metadata of the file system, also that of a file: pointers to its blocks, extended attributes.
    System,
}

/// Content that does not lie where it belongs: a copy in a log, which a replay brings home.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct Moved {
    /// Where it belongs.
    pub home: Addr,
    /// Where it lies.
    pub to: Addr,
    /// Bytes of it.
    pub bytes: u64,
}

/// A part of what a file system says of who has which blocks: the same in two states if both numbers are.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct Roll {
    /// Which part it is.
    pub number: u64,
    /// Where it is read from, where that is one place.
    pub at: Addr,
}

/// Who has which blocks: what a file system says of all of its files at once. It says so in *rolls*, each of which can be read again
/// alone when a part of the disk has changed that it was read from.
pub trait Owners {
    /// The rolls of this state.
    ///
    /// # Errors
    /// If what says so cannot be read, or contradicts itself.
    fn rolls(&mut self, source: &mut dyn Source) -> Result<Vec<Roll>, Error>;

    /// Calls `found` for each extent that a roll says has an owner. An extent may come more than once, with one owner or several.
    ///
    /// # Errors
    /// If a part of the roll cannot be read, or contradicts itself: then it is not known who has what.
    fn roll(
        &mut self,
        source: &mut dyn Source,
        roll: Roll,
        found: &mut dyn FnMut(Owner, Extent<Addr>),
    ) -> Result<(), Error>;

    /// Calls `found` for each extent with content of `file`, or with space for it; never if there is no such file.
    ///
    /// # Errors
    /// If a pointer cannot be read, or is impossible.
    fn owned(
        &mut self,
        source: &mut dyn Source,
        file: FileId,
        found: &mut dyn FnMut(Extent<Addr>),
    ) -> Result<(), Error>;

    /// Where the log lies through which content may pass on its way to its place, whole blocks of this many bytes; nowhere if there is no
    /// log, or on another disk.
    ///
    /// # Errors
    /// If its place cannot be read, or is impossible.
    fn log(&mut self, _: &mut dyn Source) -> Result<(Vec<Extent<Addr>>, u64), Error> {
        Ok((Vec::new(), BLOCK_BYTES))
    }

    /// What does not lie where it belongs, in the order of where it belongs. It is read where it lies.
    fn moved(&self) -> Vec<Moved> {
        Vec::new()
    }
}

/// A file system in one state of a disk.
pub trait Volume: std::fmt::Debug {
    /// Its name, as in `status`: `ext4`, `FAT32`, `NTFS`.
    fn name(&self) -> &'static str;

    /// The root folder.
    fn root(&self) -> FileId;

    /// The file that has this number now.
    ///
    /// # Errors
    /// If what sets it apart from earlier files of that number cannot be read.
    fn file(&mut self, _: &mut dyn Source, number: u64) -> Result<FileId, Error> {
        Ok(FileId { number, generation: 0 })
    }

    /// What it says of a file.
    ///
    /// # Errors
    /// If it cannot be read, or contradicts itself.
    fn attributes(&mut self, source: &mut dyn Source, file: FileId) -> Result<Attributes, Error>;

    /// The entry of a folder with this name, compared as the file system does: FAT, exFAT and NTFS do not distinguish case.
    ///
    /// # Errors
    /// If the folder cannot be read, or is not a folder.
    fn find(&mut self, source: &mut dyn Source, folder: FileId, name: &[u8]) -> Result<Option<Entry>, Error>;

    /// Calls `found` for each entry of a folder, without `.` and `..`, in the order in which they lie, until it returns `false`.
    ///
    /// # Errors
    /// If the folder cannot be read, or is not a folder. Entries before the damage were given by then.
    fn list(
        &mut self,
        source: &mut dyn Source,
        folder: FileId,
        found: &mut dyn FnMut(Entry) -> bool,
    ) -> Result<(), Error>;

    /// Calls `found` for each run of a regular file that has data, without holes, in the order of the file and within its size, until it
    /// returns `false`. Space that is allocated and not written yet is a hole.
    ///
    /// # Errors
    /// If a pointer cannot be read or is impossible, or the content is encrypted or compressed.
    fn runs(
        &mut self,
        source: &mut dyn Source,
        file: FileId,
        found: &mut dyn FnMut(Run) -> bool,
    ) -> Result<(), Error>;

    /// The content of a regular file from byte `at` on: `bytes` of them, fewer at its end. Holes are zeros.
    ///
    /// # Errors
    /// As for [`Volume::runs`].
    fn read(
        &mut self,
        source: &mut dyn Source,
        file: FileId,
        at: u64,
        bytes: usize,
    ) -> Result<Vec<u8>, Error>;

    /// Where a symbolic link leads.
    ///
    /// # Errors
    /// If the link cannot be read, or is not a link.
    fn link(&mut self, source: &mut dyn Source, file: FileId) -> Result<Vec<u8>, Error>;

    /// The extended attributes of a file, with their full names (`user.note`, `security.capability`, `system.posix_acl_access` as the
    /// kernel gives it to a program).
    ///
    /// # Errors
    /// If they cannot be read, or contradict themselves.
    fn extended(&mut self, source: &mut dyn Source, file: FileId) -> Result<Vec<ExtendedAttribute>, Error>;

    /// Who has which blocks; `None` for a file system of which that is not known to this program.
    fn owners(&mut self) -> Option<&mut dyn Owners> {
        None
    }
}
