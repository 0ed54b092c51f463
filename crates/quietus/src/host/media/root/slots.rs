//! A label and two slots as a medium of 12 KiB.
//!
//! Bytes behind the label and behind each slot are zeros, and stay so: what writes other bytes there is refused, but for a pass, whose
//! bytes behind a slot have nothing to overwrite.

use super::{AREA_BYTES, LABEL_BYTES, Label, ROOT_BYTES, SLOT_BYTES, SlotContent};
use crate::host::media::SharedMedium;
use quietus_core::base::units::{Extent, Pos};
use quietus_core::base::zeros::is_zeros;
use quietus_core::media::medium::{Capabilities, Medium, MediumError, MediumErrorKind};
use std::fmt::Debug;
use std::io::IoSliceMut;
use zeroize::Zeroizing;

/// What keeps a label and two slots, durably with each call.
pub trait Slots: Debug + Send + Sync {
    /// The label; zeros before the first.
    fn label(&self) -> Result<Label, MediumError>;

    /// The content of slot 0 or 1; zeros if it has none.
    fn slot(&self, slot: usize) -> Result<SlotContent, MediumError>;

    /// Replaces the label.
    fn set_label(&self, label: &Label) -> Result<(), MediumError>;

    /// Replaces the content of a slot.
    fn set_slot(&self, slot: usize, content: &SlotContent) -> Result<(), MediumError>;

    /// Destroys the content of a slot; `pattern` may take its place.
    fn destroy(&self, slot: usize, pattern: &SlotContent) -> Result<(), MediumError>;

    /// Checks that the medium still is the one that was opened, if that takes no time.
    fn check(&self) -> Result<(), MediumError>;
}

/// Slots as a medium.
#[derive(Debug)]
pub struct SlotMedium<S> {
    slots: S,
    /// The name in messages.
    name: String,
}

/// How bytes come to the medium.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Act {
    Write,
    Pass,
}

/// The part of the medium that some bytes belong to.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Part {
    Label,
    Slot(usize),
}

impl Part {
    /// Bytes that hold something.
    fn bytes(self) -> usize {
        match self {
            Self::Label => LABEL_BYTES,
            Self::Slot(_) => SLOT_BYTES,
        }
    }
}

/// The parts of a range: each with where the range begins within it, and the bytes of the range that belong to it.
fn parts(pos: Pos, len: usize) -> impl Iterator<Item = (Part, usize, std::ops::Range<usize>)> {
    let range = Extent::<Pos>::new(pos.0, len as u64);
    [Part::Label, Part::Slot(0), Part::Slot(1)].into_iter().zip(0..).filter_map(move |(part, number)| {
        let overlap = range.overlap(Extent::new(number * AREA_BYTES, AREA_BYTES))?;
        let from = (overlap.start.0 - pos.0) as usize;
        let within = (overlap.start.0 - number * AREA_BYTES) as usize;
        (!overlap.is_empty()).then_some((part, within, from..from + overlap.len as usize))
    })
}

impl<S: Slots> SlotMedium<S> {
    pub(super) fn new(slots: S, name: String) -> Self {
        Self { slots, name }
    }

    pub(super) fn slots(&self) -> &S {
        &self.slots
    }

    fn failed(&self, act: &str, pos: Pos, len: usize, why: &str) -> MediumError {
        let message = format!("{act} {len} bytes at {} of {}: {why}", pos.0, self.name);
        MediumError { kind: MediumErrorKind::Io, message }
    }

    fn check_within(&self, act: &str, pos: Pos, len: usize) -> Result<(), MediumError> {
        let within = Extent::<Pos>::within(pos.0, len as u64, ROOT_BYTES);
        let what = || format!("the medium has {ROOT_BYTES} bytes");
        within.map(drop).ok_or_else(|| self.failed(act, pos, len, &what()))
    }

    fn put(&self, act: Act, pos: Pos, from: &[u8]) -> Result<(), MediumError> {
        let name = if act == Act::Pass { "overwriting" } else { "writing" };
        self.check_within(name, pos, from.len())?;
        // Nothing is written before all is found right.
        for (part, within, range) in parts(pos, from.len()) {
            let content = part.bytes().saturating_sub(within).min(range.len());
            let is_partial = content != 0 && (within != 0 || content < part.bytes());
            if is_partial {
                return Err(self.failed(name, pos, from.len(), "a slot can only be written as a whole"));
            }
            if act == Act::Write && !is_zeros(&from[range][content..]) {
                return Err(self.failed(name, pos, from.len(), "bytes behind a slot must be zeros"));
            }
        }
        parts(pos, from.len())
            .filter(|(_, within, _)| *within == 0)
            .try_for_each(|(part, _, range)| self.put_part(act, part, &from[range]))
    }

    fn put_part(&self, act: Act, part: Part, from: &[u8]) -> Result<(), MediumError> {
        match part {
            Part::Label => {
                let label = from.first_chunk().expect("a label is written as a whole");
                self.slots.set_label(label)
            }
            Part::Slot(slot) => {
                let content = Zeroizing::new(*from.first_chunk().expect("a slot is written as a whole"));
                match act {
                    Act::Write => self.slots.set_slot(slot, &content),
                    Act::Pass => self.slots.destroy(slot, &content),
                }
            }
        }
    }

    fn content(&self, part: Part) -> Result<Zeroizing<Vec<u8>>, MediumError> {
        match part {
            Part::Label => self.slots.label().map(|label| Zeroizing::new(label.to_vec())),
            Part::Slot(slot) => self.slots.slot(slot).map(|content| Zeroizing::new(content.to_vec())),
        }
    }
}

impl<S: Slots> Medium for SlotMedium<S> {
    fn size(&self) -> u64 {
        ROOT_BYTES
    }

    fn read(&self, pos: Pos, into: &mut [u8]) -> Result<(), MediumError> {
        self.check_within("reading", pos, into.len())?;
        into.fill(0);
        for (part, within, range) in parts(pos, into.len()) {
            if within < part.bytes() {
                let content = self.content(part)?;
                let there = &content[within..];
                let len = there.len().min(range.len());
                into[range.start..range.start + len].copy_from_slice(&there[..len]);
            }
        }
        Ok(())
    }

    fn write(&self, pos: Pos, from: &[u8], _durable: bool) -> Result<(), MediumError> {
        self.put(Act::Write, pos, from)
    }

    fn overwrite(&self, pos: Pos, from: &[u8]) -> Result<(), MediumError> {
        self.put(Act::Pass, pos, from)
    }

    /// Every write is durable when it returns.
    fn sync(&self) -> Result<(), MediumError> {
        Ok(())
    }

    fn punch(&self, extent: Extent<Pos>) -> Result<(), MediumError> {
        Err(self.failed("punching", extent.start, extent.len as usize, "the medium has no holes"))
    }

    fn zero(&self, extent: Extent<Pos>) -> Result<(), MediumError> {
        self.check_within("zeroing", extent.start, extent.len as usize)?;
        self.put(Act::Write, extent.start, &vec![0; extent.len as usize])
    }

    fn capabilities(&self) -> Capabilities {
        Capabilities { punch: false, erases: false }
    }
}

impl<S: Slots> SharedMedium for SlotMedium<S> {
    /// Each read waits for the medium.
    fn read_cached(&self, _: Pos, _: &mut [IoSliceMut<'_>]) -> Option<Result<(), MediumError>> {
        None
    }

    fn check_whole(&self) -> Result<(), MediumError> {
        self.slots.check()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::Mutex;

    /// Slots in memory, and what was done to them.
    #[derive(Debug)]
    struct Noted {
        label: Mutex<Label>,
        slots: Mutex<[SlotContent; 2]>,
        acts: Mutex<Vec<String>>,
    }

    impl Noted {
        fn note(&self, act: String) {
            self.acts.lock().expect("no panic").push(act);
        }
    }

    impl Slots for Noted {
        fn label(&self) -> Result<Label, MediumError> {
            Ok(*self.label.lock().expect("no panic"))
        }

        fn slot(&self, slot: usize) -> Result<SlotContent, MediumError> {
            Ok(self.slots.lock().expect("no panic")[slot].clone())
        }

        fn set_label(&self, label: &Label) -> Result<(), MediumError> {
            self.note("label".into());
            *self.label.lock().expect("no panic") = *label;
            Ok(())
        }

        fn set_slot(&self, slot: usize, content: &SlotContent) -> Result<(), MediumError> {
            self.note(format!("slot {slot}"));
            self.slots.lock().expect("no panic")[slot] = content.clone();
            Ok(())
        }

        fn destroy(&self, slot: usize, pattern: &SlotContent) -> Result<(), MediumError> {
            self.note(format!("pass {slot}"));
            self.slots.lock().expect("no panic")[slot] = pattern.clone();
            Ok(())
        }

        fn check(&self) -> Result<(), MediumError> {
            Ok(())
        }
    }

    fn medium() -> SlotMedium<Noted> {
        let slots = Mutex::new([0; 2].map(|_: u8| Zeroizing::new([0; SLOT_BYTES])));
        let noted = Noted { label: Mutex::default(), slots, acts: Mutex::default() };
        SlotMedium::new(noted, "the root".into())
    }

    fn acts(medium: &SlotMedium<Noted>) -> Vec<String> {
        std::mem::take(&mut medium.slots().acts.lock().expect("no panic"))
    }

    /// A root of 12 KiB with these bytes in the label and the slots.
    fn image(label: u8, slots: [u8; 2]) -> Vec<u8> {
        let mut bytes = vec![0; ROOT_BYTES as usize];
        bytes[..32].fill(label);
        bytes[4096..4136].fill(slots[0]);
        bytes[8192..8232].fill(slots[1]);
        bytes
    }

    #[test]
    fn a_whole_root_is_read_as_it_was_written_and_every_part_of_it_too() {
        let medium = medium();
        let bytes = image(1, [2, 3]);
        medium.write(Pos(0), &bytes, true).expect("a write");
        assert_eq!(acts(&medium), ["label", "slot 0", "slot 1"]);
        for (pos, len) in
            [(0, 12288), (0, 32), (31, 2), (4100, 4096), (8231, 2), (12287, 1), (5000, 10), (7, 0)]
        {
            let mut found = vec![0xee; len];
            medium.read(Pos(pos), &mut found).expect("a read");
            assert_eq!(found, bytes[pos as usize..pos as usize + len], "{len} bytes at {pos}");
        }
        assert!(medium.read(Pos(12287), &mut [0; 2]).is_err());
    }

    #[test]
    fn a_write_of_a_sector_writes_its_slot_alone_and_zeros_behind_it_nothing() {
        let medium = medium();
        let mut sector = [0; 512];
        sector[..40].fill(7);
        medium.write(Pos(8192), &sector, false).expect("a write");
        medium.write(Pos(8704), &[0; 512], false).expect("zeros behind the slot");
        assert_eq!(acts(&medium), ["slot 1"]);
        medium.zero(Extent::new(4096, 8192)).expect("zeros");
        assert_eq!(acts(&medium), ["slot 0", "slot 1"]);
    }

    #[test]
    fn a_part_of_a_slot_or_bytes_behind_one_are_refused_and_nothing_is_written() {
        let medium = medium();
        let mut behind = [0; 512];
        behind[40] = 1;
        for (pos, bytes) in
            [(4096, &behind[..]), (4096, &[1; 39]), (4097, &[0; 512]), (0, &[1; 33]), (0, &[1; 31])]
        {
            let error = medium.write(Pos(pos), bytes, true).expect_err("it is refused");
            assert_eq!(error.kind, MediumErrorKind::Io, "{error}");
        }
        // The first slot would be right.
        let mut both = vec![0; 8192];
        both[4096 + 100] = 1;
        medium.write(Pos(4096), &both, true).expect_err("bytes behind the second slot");
        assert!(medium.write(Pos(12288), &[0], true).is_err() && acts(&medium).is_empty());
    }

    #[test]
    fn a_pass_over_all_of_a_slot_destroys_its_content_whatever_lies_behind() {
        let medium = medium();
        medium.overwrite(Pos(4096), &[0x5a; 4096]).expect("a pass");
        medium.overwrite(Pos(8192), &[0x5a; 512]).expect("a pass");
        medium.overwrite(Pos(8704), &[0x5a; 512]).expect("a pass behind the slot");
        assert_eq!(acts(&medium), ["pass 0", "pass 1"]);
        assert!(medium.overwrite(Pos(4100), &[0; 100]).is_err());
    }
}
