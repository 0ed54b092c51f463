//! The records of a frame: a tag and a length, and then as many bytes.
//!
//! An unknown record is an error that names its tag, and not damage: a newer program wrote the record, and
//! its content must not be ignored.

use crate::base::fields::Fields;
use crate::base::units::{Addr, Address, BLOCK_BYTES, Epoch, EpochRange, Extent, Part, Scope, Set, SetId};
use crate::media::MediumId;
use crate::media::place::Place;
use crate::owed::KeysPosition;
use crate::owed::journal::{Change, Crc, Slot, forget_receipt};
use crate::owed::ledger::{COUNTERS, Cause, Counters, Due};
use crate::owed::receipts::{Done, LogHead, Receipt};

/// Bytes of a record's tag and length.
const HEAD_BYTES: usize = 4;
/// Most bytes of the record of a change.
pub(super) const CHANGE_BYTES_MAX: u64 = 32;
/// The counters that every record of them has. The last one is there once it is not zero.
const COUNTERS_MIN: usize = COUNTERS - 1;
/// Most bytes of the record of the counters.
pub(super) const COUNTERS_BYTES: u64 = (HEAD_BYTES + 8 * COUNTERS) as u64;
/// Bytes of the record of the audit log's end.
pub(super) const LOG_BYTES: u64 = HEAD_BYTES as u64 + 8 + 32;

const COUNTERS_TAG: u16 = 1;
const OBLIGE: u16 = 2;
const CLEAR: u16 = 3;
const STAGE: u16 = 4;
const RELEASE: u16 = 5;
const CLEAN: u16 = 6;
const OWE: u16 = 7;
const CLEAR_PLACE: u16 = 8;
const COMPLETE: u16 = 9;
const RECEIPT: u16 = 10;
const RECORDED: u16 = 11;
const LOG: u16 = 12;
const OVERWRITTEN: u16 = 13;
const FORGET: u16 = 14;
const FORGOTTEN: u16 = 15;
const FORGET_RECEIPT: u16 = 16;
const KEYS: u16 = 17;
const FORGET_SHOWN: u16 = 18;
const FORGOTTEN_SHOWN: u16 = 19;
const SHOWN_RECEIPT: u16 = 20;
const PART: u16 = 21;
const FORGET_SET: u16 = 22;
const FORGOTTEN_SET: u16 = 23;
const SET_RECEIPT: u16 = 24;

/// Bytes of the number of an epoch or a block.
const NUMBER_BYTES: usize = 5;

/// The medium of a place.
const IN_DATA: u8 = 0;
const IN_BASE: u8 = 1;

/// The content of one record.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Record {
    /// The counters as of the frame.
    Counters(Counters),
    /// The end of the audit log as of the frame.
    Log(LogHead),
    /// A change of the state.
    Change(Change),
}

/// A record of a whole frame that this program cannot use.
#[derive(Clone, Copy, PartialEq, Eq, Debug, thiserror::Error)]
pub enum RecordError {
    /// A record with an unknown tag.
    #[error("a record with the unknown tag {tag}, of {len} bytes")]
    Tag {
        /// The tag.
        tag: u16,
        /// Bytes of the record behind its head.
        len: usize,
    },
    /// A record whose length does not fit its kind.
    #[error("a record `{name}` with an unexpected length of {len} bytes")]
    Length {
        /// The kind of the record.
        name: &'static str,
        /// Bytes of the record behind its head.
        len: usize,
    },
    /// A record with a field of an unknown value.
    #[error("a record `{name}` with the unknown value {value} in the field `{field}`")]
    Field {
        /// The kind of the record.
        name: &'static str,
        /// The field.
        field: &'static str,
        /// The value of the field.
        value: u64,
    },
    /// The first records of a frame, and no others, are of the counters and of the audit log.
    #[error("a frame that does not begin with one record `counters` and one record `log`")]
    Head,
    /// The parts of a set come directly before it, in order, and their epochs are those of the set.
    #[error("a record `forget-set` without its parts in order before it, or a record `part` without its set")]
    Parts,
    /// A record that exceeds its frame.
    #[error("a record that continues behind the end of its frame")]
    Cut,
}

pub(super) fn put(bytes: &mut Vec<u8>, record: &Record) {
    let at = bytes.len();
    bytes.extend([0; HEAD_BYTES]);
    let tag = match record {
        Record::Counters(counters) => {
            let all = counters.to_array();
            // A disk without plain deaths can go back to a program that does not know them.
            let len = if all[COUNTERS_MIN] > 0 { COUNTERS } else { COUNTERS_MIN };
            bytes.extend(all[..len].iter().flat_map(|number| number.to_le_bytes()));
            COUNTERS_TAG
        }
        Record::Log(log) => {
            bytes.extend(log.lines.to_le_bytes());
            bytes.extend(log.hash);
            LOG
        }
        Record::Change(change) => {
            let tag = put_change(bytes, *change);
            let record_bytes = (bytes.len() - at) as u64;
            assert!(record_bytes <= CHANGE_BYTES_MAX, "the room for entries counts on shorter records");
            tag
        }
    };
    assert!(bytes.len() - at <= usize::from(u16::MAX), "a record says its length in two bytes");
    let len = (bytes.len() - at - HEAD_BYTES) as u16;
    bytes[at..at + 2].copy_from_slice(&tag.to_le_bytes());
    bytes[at + 2..at + HEAD_BYTES].copy_from_slice(&len.to_le_bytes());
}

/// Appends the body of a change's record; returns its tag.
fn put_change(bytes: &mut Vec<u8>, change: Change) -> u16 {
    match change {
        Change::Oblige(extent, due, cause) => {
            put_extent(bytes, extent);
            bytes.extend([due_number(due), cause_number(cause)]);
            OBLIGE
        }
        Change::Overwritten(extent, session) => {
            put_extent(bytes, extent);
            bytes.extend(session.to_le_bytes());
            OVERWRITTEN
        }
        Change::Clear(extent) => {
            put_extent(bytes, extent);
            CLEAR
        }
        Change::Stage(slot, extent, crc) => {
            put_extent(bytes, extent);
            bytes.extend(slot.0.to_le_bytes());
            bytes.extend(crc.0.to_le_bytes());
            STAGE
        }
        Change::Release => RELEASE,
        Change::Clean => CLEAN,
        Change::Owe(place, address, cause) => {
            put_place(bytes, place);
            bytes.extend(address.0.to_le_bytes());
            bytes.push(cause_number(cause));
            OWE
        }
        Change::ClearPlace(place) => {
            put_place(bytes, place);
            CLEAR_PLACE
        }
        Change::Complete(extent, done, passes) => {
            put_extent(bytes, extent);
            put_done(bytes, done, passes);
            COMPLETE
        }
        Change::Receipt(Receipt { forgot: Some(scope), extent, passes, .. }) => {
            assert!(extent.len.is_multiple_of(BLOCK_BYTES), "what a forget destroys is whole blocks");
            let blocks = extent.len / BLOCK_BYTES;
            put_forgotten(bytes, scope, (blocks, passes), [FORGET_RECEIPT, SHOWN_RECEIPT, SET_RECEIPT])
        }
        Change::Part(part) => put_scope(bytes, Scope::Shown(part), [PART; 3]),
        Change::Forget(scope) => put_scope(bytes, scope, [FORGET, FORGET_SHOWN, FORGET_SET]),
        Change::Keys(KeysPosition { purge, log }) => {
            bytes.extend(purge.to_le_bytes());
            bytes.extend(log.to_le_bytes());
            KEYS
        }
        Change::Forgotten(scope, blocks, passes) => {
            put_forgotten(bytes, scope, (blocks, passes), [FORGOTTEN, FORGOTTEN_SHOWN, FORGOTTEN_SET])
        }
        Change::Receipt(it) => {
            put_extent(bytes, it.extent);
            put_done(bytes, it.act, it.passes);
            bytes.push(cause_number(it.cause));
            RECEIPT
        }
        Change::Recorded(count) => {
            bytes.extend(count.to_le_bytes());
            RECORDED
        }
    }
}

/// Appends a scope; returns its tag, of those of epochs or a chain, of what some epochs show, and of a set.
fn put_scope(bytes: &mut Vec<u8>, scope: Scope, [whole, shown, set_tag]: [u16; 3]) -> u16 {
    let (EpochRange { from, to }, blocks) = (scope.epochs(), scope.blocks());
    assert!(from <= to, "the first epoch to forget is not after the last");
    let is_whole = |it: Extent<Addr>| it.start.0.is_multiple_of(BLOCK_BYTES) && !it.is_empty();
    assert!(blocks.is_none_or(is_whole), "whole blocks are forgotten, at least one");
    let bounds = blocks.map_or((0, 0), |it| (it.start.0 / BLOCK_BYTES, it.end().div_ceil(BLOCK_BYTES)));
    if let Scope::Set(set) = scope {
        bytes.extend(set.id.0);
    }
    [from.0, to.0].into_iter().for_each(|number| put_number(bytes, number));
    let tag = match scope {
        Scope::Set(_) => return set_tag,
        Scope::Epochs(_) | Scope::Chain { .. } => whole,
        Scope::Shown(_) => shown,
    };
    [bounds.0, bounds.1].into_iter().for_each(|number| put_number(bytes, number));
    tag
}

fn put_forgotten(bytes: &mut Vec<u8>, scope: Scope, (blocks, passes): (u64, u16), tags: [u16; 3]) -> u16 {
    let tag = put_scope(bytes, scope, tags);
    put_number(bytes, blocks);
    bytes.extend(passes.to_le_bytes());
    tag
}

/// Appends the number of an epoch or a block: the index of versions has no greater ones.
fn put_number(bytes: &mut Vec<u8>, number: u64) {
    assert!(number < 1 << (8 * NUMBER_BYTES), "{number} has more than {NUMBER_BYTES} bytes");
    bytes.extend(&number.to_le_bytes()[..NUMBER_BYTES]);
}

fn put_done(bytes: &mut Vec<u8>, done: Done, passes: u16) {
    assert!(Done::from_number(done as u8) == Some(done), "a start knows how {done:?} is written");
    bytes.push(done as u8);
    bytes.extend(passes.to_le_bytes());
}

fn put_place(bytes: &mut Vec<u8>, place: Place) {
    assert!(matches!(place.on, MediumId::Data | MediumId::Base), "{place:?} holds content of the disk");
    put_extent(bytes, place.extent);
    bytes.push(if place.on == MediumId::Base { IN_BASE } else { IN_DATA });
}

fn put_extent<A: Address>(bytes: &mut Vec<u8>, extent: Extent<A>) {
    let end = extent.start.get().checked_add(extent.len);
    assert!(end.is_some(), "{extent:?} ends where a start can read it");
    bytes.extend(extent.start.get().to_le_bytes());
    bytes.extend(extent.len.to_le_bytes());
}

/// The tag of the first record, and its body.
fn tagged<'a>(records: &mut Fields<'a>) -> Option<(u16, &'a [u8])> {
    let (tag, len) = (records.u16()?, records.u16()?);
    Some((tag, records.bytes(len.into())?))
}

/// The name of a record.
fn name_of(tag: u16) -> Option<&'static str> {
    Some(match tag {
        COUNTERS_TAG => "counters",
        OBLIGE => "oblige",
        CLEAR => "clear",
        STAGE => "stage",
        RELEASE => "release",
        CLEAN => "clean",
        OWE => "owe",
        CLEAR_PLACE => "clear-place",
        COMPLETE => "complete",
        RECEIPT => "receipt",
        RECORDED => "recorded",
        LOG => "log",
        OVERWRITTEN => "overwritten",
        FORGET => "forget",
        FORGOTTEN => "forgotten",
        FORGET_RECEIPT => "forget-receipt",
        KEYS => "keys",
        FORGET_SHOWN => "forget-shown",
        FORGOTTEN_SHOWN => "forgotten-shown",
        SHOWN_RECEIPT => "shown-receipt",
        PART => "part",
        FORGET_SET => "forget-set",
        FORGOTTEN_SET => "forgotten-set",
        SET_RECEIPT => "set-receipt",
        _ => return None,
    })
}

/// Takes the first of `records`.
pub(super) fn take(records: &mut Fields<'_>) -> Result<Record, RecordError> {
    let (tag, body) = tagged(records).ok_or(RecordError::Cut)?;
    let name = name_of(tag).ok_or(RecordError::Tag { tag, len: body.len() })?;
    let mut fields = Body { name, len: body.len(), rest: Fields(body) };
    let record = match tag {
        COUNTERS_TAG => Record::Counters(fields.counters()?),
        OBLIGE => Record::Change(Change::Oblige(fields.extent()?, fields.due()?, fields.cause()?)),
        CLEAR => Record::Change(Change::Clear(fields.extent()?)),
        STAGE => {
            let extent = fields.extent()?;
            Record::Change(Change::Stage(Slot(fields.u32()?), extent, Crc(fields.u32()?)))
        }
        RELEASE => Record::Change(Change::Release),
        OWE => {
            let (place, address) = (fields.place()?, Addr(fields.u64()?));
            Record::Change(Change::Owe(place, address, fields.cause()?))
        }
        CLEAR_PLACE => Record::Change(Change::ClearPlace(fields.place()?)),
        COMPLETE => {
            let (extent, done) = (fields.extent()?, fields.done()?);
            Record::Change(Change::Complete(extent, done, fields.u16()?))
        }
        RECEIPT => {
            let (extent, act, passes) = (fields.extent()?, fields.done()?, fields.u16()?);
            let cause = fields.cause()?;
            Record::Change(Change::Receipt(Receipt { act, cause, passes, extent, forgot: None }))
        }
        PART => Record::Change(Change::Part(fields.part()?)),
        FORGET | FORGET_SHOWN | FORGET_SET => Record::Change(Change::Forget(fields.scope(tag)?)),
        FORGOTTEN | FORGOTTEN_SHOWN | FORGOTTEN_SET => {
            let scope = fields.scope(tag)?;
            Record::Change(Change::Forgotten(scope, fields.number()?, fields.u16()?))
        }
        FORGET_RECEIPT | SHOWN_RECEIPT | SET_RECEIPT => {
            let scope = fields.scope(tag)?;
            let (blocks, passes) = (fields.number()?, fields.u16()?);
            Record::Change(Change::Receipt(forget_receipt(scope, blocks, passes)))
        }
        KEYS => Record::Change(Change::Keys(KeysPosition { purge: fields.u32()?, log: fields.u32()? })),
        RECORDED => Record::Change(Change::Recorded(fields.u64()?)),
        OVERWRITTEN => Record::Change(Change::Overwritten(fields.extent()?, fields.u64()?)),
        LOG => Record::Log(LogHead { lines: fields.u64()?, hash: fields.array()? }),
        _ => Record::Change(Change::Clean),
    };
    if fields.rest.is_empty() { Ok(record) } else { Err(fields.length()) }
}

/// Takes fields off the body of a record.
struct Body<'a> {
    name: &'static str,
    len: usize,
    rest: Fields<'a>,
}

impl Body<'_> {
    fn length(&self) -> RecordError {
        RecordError::Length { name: self.name, len: self.len }
    }

    fn field(&self, field: &'static str, value: u64) -> RecordError {
        RecordError::Field { name: self.name, field, value }
    }

    fn array<const N: usize>(&mut self) -> Result<[u8; N], RecordError> {
        self.rest.array().ok_or(self.length())
    }

    fn u16(&mut self) -> Result<u16, RecordError> {
        self.rest.u16().ok_or(self.length())
    }

    fn u32(&mut self) -> Result<u32, RecordError> {
        self.rest.u32().ok_or(self.length())
    }

    fn u64(&mut self) -> Result<u64, RecordError> {
        self.rest.u64().ok_or(self.length())
    }

    fn place(&mut self) -> Result<Place, RecordError> {
        let extent = self.extent()?;
        let [number] = self.array()?;
        match number {
            IN_DATA => Ok(Place { on: MediumId::Data, extent }),
            IN_BASE => Ok(Place { on: MediumId::Base, extent }),
            _ => Err(self.field("medium", u64::from(number))),
        }
    }

    fn extent<A: Address>(&mut self) -> Result<Extent<A>, RecordError> {
        let (start, len) = (self.u64()?, self.u64()?);
        Extent::within(start, len, u64::MAX).ok_or_else(|| self.field("length", len))
    }

    fn scope(&mut self, tag: u16) -> Result<Scope, RecordError> {
        match tag {
            FORGET_SET | FORGOTTEN_SET | SET_RECEIPT => {
                let id = SetId(self.array()?);
                Ok(Scope::Set(Set { id, epochs: self.epochs()? }))
            }
            FORGET_SHOWN | FORGOTTEN_SHOWN | SHOWN_RECEIPT => Ok(Scope::Shown(self.part()?)),
            _ => {
                let (epochs, blocks) = (self.epochs()?, self.blocks()?);
                Ok(if blocks.is_empty() { epochs.into() } else { Scope::chain(epochs, blocks) })
            }
        }
    }

    fn part(&mut self) -> Result<Part, RecordError> {
        let (epochs, blocks) = (self.epochs()?, self.blocks()?);
        let end = blocks.end() / BLOCK_BYTES;
        if blocks.is_empty() { Err(self.field("end", end)) } else { Ok(Part { epochs, blocks }) }
    }

    fn epochs(&mut self) -> Result<EpochRange, RecordError> {
        let (from, to) = (Epoch(self.number()?), Epoch(self.number()?));
        if from > to { Err(self.field("to", to.0)) } else { Ok(EpochRange { from, to }) }
    }

    fn blocks(&mut self) -> Result<Extent<Addr>, RecordError> {
        let (first, end) = (self.number()?, self.number()?);
        if end < first {
            return Err(self.field("end", end));
        }
        Ok(Extent::between(first * BLOCK_BYTES, end * BLOCK_BYTES))
    }

    fn number(&mut self) -> Result<u64, RecordError> {
        let bytes = self.array::<NUMBER_BYTES>()?;
        Ok(bytes.iter().rev().fold(0, |number, byte| number << 8 | u64::from(*byte)))
    }

    fn due(&mut self) -> Result<Due, RecordError> {
        let [number] = self.array()?;
        due_from(number).ok_or_else(|| self.field("due", u64::from(number)))
    }

    fn done(&mut self) -> Result<Done, RecordError> {
        let [number] = self.array()?;
        Done::from_number(number).ok_or_else(|| self.field("done", u64::from(number)))
    }

    fn cause(&mut self) -> Result<Cause, RecordError> {
        let [number] = self.array()?;
        Cause::from_number(number).ok_or_else(|| self.field("cause", u64::from(number)))
    }

    fn counters(&mut self) -> Result<Counters, RecordError> {
        let mut counters = [0; COUNTERS];
        for number in &mut counters[..COUNTERS_MIN] {
            *number = self.u64()?;
        }
        if !self.rest.is_empty() {
            counters[COUNTERS_MIN] = self.u64()?;
        }
        Ok(Counters::from_array(counters))
    }
}

fn cause_number(cause: Cause) -> u8 {
    let number = cause as u8;
    assert!(
        Cause::from_number(number) == Some(cause),
        "no obligation, and no receipt of one, is of a forget"
    );
    number
}

/// The journal does not say of which class content was: after a crash what is not known is sensitive.
fn due_number(due: Due) -> u8 {
    match due {
        Due::Shred { no_hole: false } | Due::Free { no_hole: false } => 1,
        Due::Shred { no_hole: true } | Due::Free { no_hole: true } => 2,
        Due::ConservativeOverwrite => 3,
        Due::Suspicious => 4,
    }
}

fn due_from(number: u8) -> Option<Due> {
    match number {
        1 => Some(Due::Shred { no_hole: false }),
        2 => Some(Due::Shred { no_hole: true }),
        3 => Some(Due::ConservativeOverwrite),
        4 => Some(Due::Suspicious),
        _ => None,
    }
}
