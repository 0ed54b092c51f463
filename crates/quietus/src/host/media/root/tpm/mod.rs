//! A root in a TPM 2.0: an NV index for each slot.
//!
//! Both indices hold the label of the disk, so that each says whose it is, and behind it their slot. The commands are few and of fixed
//! layout; no library of C code stands between. They go through the kernel's resource manager (`/dev/tpmrm0`), which other programs
//! use at the same time.

mod command;
mod device;
mod maker;
#[cfg(test)]
mod tests;

pub use maker::{TpmAbout, TpmMaker};

use super::slots::{SlotMedium, Slots};
use super::{LABEL_BYTES, Label, SLOT_BYTES, SlotContent, TpmPlace, TpmWay};
use command::{Malformed, Public, codes};
use device::{Carrier, Response};
use quietus_core::media::medium::{MediumError, MediumErrorKind};
use std::fs::File;
use std::io::{self, Read};
use std::path::Path;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread::sleep;
use std::time::Duration;
use zeroize::Zeroizing;

/// Bytes of an index: the label, and a slot.
const INDEX_BYTES: u16 = (LABEL_BYTES + SLOT_BYTES) as u16;
/// Where the disk's uuid lies in its label.
const UUID: std::ops::Range<usize> = 12..28;
/// How often a TPM that says that it is busy is asked again, and the pause before each further try.
const TRIES: usize = 4;
const PAUSE: Duration = Duration::from_millis(50);
/// Longest file that is read for an authorisation value; one byte more would be too long.
const AUTH_FILE_BYTES_MAX: u64 = 128;

/// A root in a TPM as a medium.
pub type TpmMedium = SlotMedium<Indices>;

/// Two indices of a TPM.
#[derive(Debug)]
pub struct Indices {
    tpm: Tpm,
    first: u32,
    read_only: bool,
    /// Indices that were defined for a disk that is not made yet.
    drafts: AtomicUsize,
}

/// A TPM, with the owner's authorisation value.
struct Tpm {
    carrier: Box<dyn Carrier>,
    auth: Zeroizing<Vec<u8>>,
}

impl std::fmt::Debug for Tpm {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Tpm").field("carrier", &self.carrier).finish_non_exhaustive()
    }
}

/// Why a TPM did not do what it was asked.
#[derive(Debug, thiserror::Error)]
enum TpmError {
    #[error("{0}")]
    Way(#[from] io::Error),
    #[error("the TPM sent a malformed response")]
    Malformed,
    #[error("{}", words(*.0))]
    Code(u32),
}

impl From<Malformed> for TpmError {
    fn from(_: Malformed) -> Self {
        Self::Malformed
    }
}

/// A code in words, with the remedy where there is one.
fn words(code: u32) -> String {
    let what = match command::plain(code) {
        codes::HANDLE => {
            "the NV index does not exist; if the TPM was cleared or the board exchanged, the disk's content is lost"
        }
        codes::AUTH_FAIL | codes::BAD_AUTH => {
            "wrong authorisation value for the owner of the TPM; name the file that has it behind the root, as in \
             tpm:0x01800150,auth=/FILE"
        }
        codes::NV_DEFINED => "the NV index exists already; choose another one",
        codes::NV_SPACE => "the TPM has no space for another NV index; remove one that is not used",
        codes::NV_UNINITIALIZED => "the NV index was never written",
        codes::INITIALIZE => "the TPM was not started; start it with TPM2_Startup",
        codes::LOCKOUT => "the TPM is locked after wrong authorisation values; try again later",
        codes::NV_RATE => "the TPM limits its writes to spare its memory; try again later",
        code if is_busy(code) => "the TPM is busy; try again later",
        _ => "the TPM refused the command",
    };
    format!("{what} (TPM response 0x{code:03x})")
}

/// Whether the TPM has certainly not done what it was asked, and can do it later: all are warnings (Part 2, section 6.6.3).
fn is_busy(code: u32) -> bool {
    matches!(
        code,
        codes::RETRY
            | codes::OBJECT_MEMORY
            | codes::SESSION_MEMORY
            | codes::MEMORY
            | codes::YIELDED
            | codes::CANCELED
            | codes::TESTING
            | codes::NV_RATE
            | codes::NV_UNAVAILABLE
            | codes::LOCKOUT
    )
}

impl TpmError {
    fn is(&self, code: u32) -> bool {
        matches!(self, Self::Code(found) if command::plain(*found) == code)
    }

    fn is_busy(&self) -> bool {
        matches!(self, Self::Code(code) if is_busy(*code))
    }

    fn at(&self, act: &str, index: u32) -> MediumError {
        let kind = if self.is_busy() { MediumErrorKind::Busy } else { MediumErrorKind::Io };
        MediumError { kind, message: format!("{act} NV index 0x{index:08x} of the TPM: {self}") }
    }
}

impl Tpm {
    /// The parameters of the response to a command. A TPM that is busy is asked again a few times.
    fn run(&self, command: &[u8]) -> Result<Response, TpmError> {
        let mut tries = 0;
        loop {
            let done = self.run_once(command);
            tries += 1;
            match &done {
                Err(error) if error.is_busy() && tries < TRIES => sleep(PAUSE),
                _ => return done,
            }
        }
    }

    fn run_once(&self, command: &[u8]) -> Result<Response, TpmError> {
        let response = self.carrier.transmit(command)?;
        match command::response(&response)? {
            (codes::SUCCESS, parameters) => Ok(Zeroizing::new(parameters.to_vec())),
            (code, _) => Err(TpmError::Code(code)),
        }
    }

    /// The public area of an index; `None` if there is no such index.
    fn public(&self, index: u32) -> Result<Option<Public>, TpmError> {
        match self.run(&command::read_public(index)) {
            Ok(area) => Ok(Some(command::public(&area)?).filter(|it| it.index == index)),
            Err(error) if error.is(codes::HANDLE) => Ok(None),
            Err(error) => Err(error),
        }
    }

    /// The content of an index; zeros before it was written.
    fn read(&self, index: u32) -> Result<Zeroizing<[u8; INDEX_BYTES as usize]>, TpmError> {
        match self.run(&command::read(&self.auth, index, INDEX_BYTES)) {
            Ok(parameters) => {
                let content = command::content(&parameters)?;
                Ok(Zeroizing::new(content.try_into().map_err(|_| TpmError::Malformed)?))
            }
            Err(error) if error.is(codes::NV_UNINITIALIZED) => Ok(Zeroizing::new([0; INDEX_BYTES as usize])),
            Err(error) => Err(error),
        }
    }

    fn about(&self) -> Result<TpmAbout, TpmError> {
        let first = command::FIXED_PROPERTIES;
        let properties = self.run(&command::properties(first, 16))?;
        Ok(TpmAbout::of(&command::property_list(&properties)?))
    }
}

impl TpmAbout {
    /// Asks a TPM what it is.
    ///
    /// # Errors
    /// There is no TPM, it may not be used, or it does not answer.
    pub fn ask(way: &TpmWay) -> io::Result<Self> {
        let tpm = Tpm { carrier: device::open_to_ask(way)?, auth: Zeroizing::default() };
        tpm.about().map_err(io::Error::other)
    }
}

impl TpmMedium {
    /// Defines the two indices for a new disk. Until [`TpmMedium::keep`] is called they are a draft, and are removed with the medium.
    ///
    /// # Errors
    /// One of the indices exists, or the TPM refuses.
    pub fn create(place: &TpmPlace) -> io::Result<Self> {
        let medium = Self::of(place, false)?;
        let (tpm, first) = (&medium.slots().tpm, place.index);
        for index in [first, first + 1] {
            if tpm.public(index).map_err(|error| io::Error::other(error.at("looking for", index)))?.is_some()
            {
                return Err(io::Error::other(format!(
                    "NV index 0x{index:08x} of the TPM exists already; choose another index, or remove it with \
                     `tpm2_nvundefine 0x{index:08x}` if nothing needs it"
                )));
            }
        }
        for index in [first, first + 1] {
            let defined = tpm.run(&command::define(&tpm.auth, index, INDEX_BYTES));
            defined.map_err(|error| io::Error::other(error.at("defining", index)))?;
            medium.slots().drafts.fetch_add(1, Ordering::AcqRel);
            // What a TPM would read before the first write, and around a write of a part, is not said.
            let zeros = [0; INDEX_BYTES as usize];
            medium.slots().write(index, 0, &zeros).map_err(io::Error::other)?;
        }
        Ok(medium)
    }

    /// Keeps the indices of a new disk, which is made now.
    pub fn keep(&self) {
        self.slots().drafts.store(0, Ordering::Release);
    }

    /// Opens the root of a disk.
    ///
    /// # Errors
    /// The TPM does not have these indices, they are of another kind or of two disks, or another process uses them.
    pub fn open(place: &TpmPlace, read_only: bool) -> io::Result<Self> {
        let medium = Self::of(place, read_only)?;
        medium.slots().check_indices().map_err(io::Error::other)?;
        Ok(medium)
    }

    /// Removes the indices of the disk with this uuid, and so all of its content.
    ///
    /// # Errors
    /// The indices are another disk's, or the TPM refuses.
    pub fn remove(place: &TpmPlace, disk: [u8; 16]) -> io::Result<()> {
        let medium = Self::open(place, false)?;
        let label = medium.slots().label().map_err(io::Error::other)?;
        if label[UUID] != disk {
            let what = format!(
                "the NV indices from 0x{:08x} on are another disk's; nothing was removed",
                place.index
            );
            return Err(io::Error::other(what));
        }
        medium.slots().undefine(2).map_err(io::Error::other)
    }

    fn of(place: &TpmPlace, read_only: bool) -> io::Result<Self> {
        let auth = place.auth.as_deref().map(read_auth).transpose()?.unwrap_or_default();
        let carrier = device::open(&place.way, place.index, read_only)?;
        Ok(Self::with(Tpm { carrier, auth }, place.index, read_only))
    }

    fn with(tpm: Tpm, first: u32, read_only: bool) -> Self {
        let indices = Indices { tpm, first, read_only, drafts: AtomicUsize::new(0) };
        Self::new(indices, format!("the root in NV indices 0x{first:08x} and 0x{:08x} of the TPM", first + 1))
    }
}

/// The authorisation value in a file.
fn read_auth(path: &Path) -> io::Result<Zeroizing<Vec<u8>>> {
    let failed =
        |what: String| io::Error::other(format!("authorisation value in {}: {what}", path.display()));
    let mut bytes = Zeroizing::new(Vec::with_capacity(AUTH_FILE_BYTES_MAX as usize));
    let file = File::open(path).map_err(|error| failed(error.to_string()))?;
    file.take(AUTH_FILE_BYTES_MAX).read_to_end(&mut bytes).map_err(|error| failed(error.to_string()))?;
    let value = command::auth_value(&bytes);
    let most = command::AUTH_BYTES_MAX;
    let value =
        value.ok_or_else(|| failed(format!("the value has more than {most} bytes, the limit of a TPM")))?;
    Ok(Zeroizing::new(value.to_vec()))
}

impl Indices {
    fn both(&self) -> [u32; 2] {
        [self.first, self.first + 1]
    }

    fn read(&self, index: u32) -> Result<Zeroizing<[u8; INDEX_BYTES as usize]>, MediumError> {
        self.tpm.read(index).map_err(|error| error.at("reading", index))
    }

    /// Writes to an index, and reads what it then holds.
    fn write(&self, index: u32, offset: usize, content: &[u8]) -> Result<(), MediumError> {
        if self.read_only {
            return Err(io_error(format!(
                "writing NV index 0x{index:08x} of the TPM: the disk is open read-only"
            )));
        }
        let written = self.tpm.run(&command::write(&self.tpm.auth, index, offset as u16, content));
        written.map_err(|error| error.at("writing", index))?;
        let found = self.read(index).map_err(|error| io_error(error.message))?;
        if found[offset..offset + content.len()] == *content {
            return Ok(());
        }
        Err(io_error(format!(
            "writing NV index 0x{index:08x} of the TPM: the index holds other bytes than were written"
        )))
    }

    /// The public areas of both indices as they have to be.
    fn check_publics(&self) -> Result<(), MediumError> {
        for index in self.both() {
            let public = self.tpm.public(index).map_err(|error| error.at("looking for", index))?;
            let public = public.ok_or_else(|| TpmError::Code(codes::HANDLE).at("looking for", index))?;
            if !public.is_ours(INDEX_BYTES) {
                let Public { attributes, bytes, .. } = public;
                return Err(io_error(format!(
                    "NV index 0x{index:08x} of the TPM has {bytes} bytes and the attributes 0x{attributes:08x}, but \
                     that of a root has {INDEX_BYTES} and 0x{:08x}; name the index that this disk was made with",
                    command::ATTRIBUTES
                )));
            }
            if !public.is_written() {
                return Err(io_error(format!(
                    "NV index 0x{index:08x} of the TPM was never written: `create` did not finish; remove the \
                     index with `tpm2_nvundefine 0x{index:08x}`, and create the disk again"
                )));
            }
        }
        Ok(())
    }

    fn check_indices(&self) -> Result<(), MediumError> {
        self.check_publics()?;
        let [first, second] = self.both();
        if self.read(first)?[..LABEL_BYTES] == self.read(second)?[..LABEL_BYTES] {
            return Ok(());
        }
        Err(io_error(format!(
            "NV indices 0x{first:08x} and 0x{second:08x} of the TPM belong to two disks; name the index that this disk \
             was made with"
        )))
    }

    /// Removes the first `count` indices. One that does not exist is removed.
    fn undefine(&self, count: usize) -> Result<(), MediumError> {
        for index in self.both().into_iter().take(count) {
            match self.tpm.run(&command::undefine(&self.tpm.auth, index)) {
                Err(error) if !error.is(codes::HANDLE) => return Err(error.at("removing", index)),
                _ => {}
            }
        }
        Ok(())
    }
}

fn io_error(message: String) -> MediumError {
    MediumError { kind: MediumErrorKind::Io, message }
}

impl Slots for Indices {
    fn label(&self) -> Result<Label, MediumError> {
        Ok(*self.read(self.first)?.first_chunk().expect("an index begins with the label"))
    }

    fn slot(&self, slot: usize) -> Result<SlotContent, MediumError> {
        let content = self.read(self.both()[slot])?;
        Ok(Zeroizing::new(*content.last_chunk().expect("an index ends with the slot")))
    }

    fn set_label(&self, label: &Label) -> Result<(), MediumError> {
        for index in self.both() {
            self.write(index, 0, label)?;
        }
        Ok(())
    }

    fn set_slot(&self, slot: usize, content: &SlotContent) -> Result<(), MediumError> {
        self.write(self.both()[slot], LABEL_BYTES, &content[..])
    }

    fn destroy(&self, slot: usize, pattern: &SlotContent) -> Result<(), MediumError> {
        self.set_slot(slot, pattern)
    }

    /// Every flush of a guest looks, and a TPM takes too long to answer: indices that were removed are found by the next write.
    fn check(&self) -> Result<(), MediumError> {
        Ok(())
    }
}

impl Drop for Indices {
    fn drop(&mut self) {
        if let Err(error) = self.undefine(self.drafts.load(Ordering::Acquire)) {
            tracing::warn!(%error, "cannot remove the NV indices of a disk that was not made");
        }
    }
}
