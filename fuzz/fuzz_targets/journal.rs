//! A journal of any bytes is read, or refused; what is read makes sense.
#![no_main]
use libfuzzer_sys::fuzz_target;
use quietus_core::owed::journal::{HALVES_AT, Head, RawFrame, Shape, scan};
use quietus_core::media::medium::{Capabilities, Medium, MediumError, MediumErrorKind};
use quietus_core::base::units::{Extent, Pos};

const SIZE: u64 = 1 << 30;

struct Bytes(Vec<u8>);

impl Medium for Bytes {
    fn size(&self) -> u64 {
        self.0.len() as u64
    }
    fn read(&self, pos: Pos, into: &mut [u8]) -> Result<(), MediumError> {
        let beyond = || MediumError { kind: MediumErrorKind::Io, message: "beyond the end".into() };
        let end = (pos.0 as usize).checked_add(into.len()).ok_or_else(beyond)?;
        into.copy_from_slice(self.0.get(pos.0 as usize..end).ok_or_else(beyond)?);
        Ok(())
    }
    fn write(&self, _: Pos, _: &[u8], _: bool) -> Result<(), MediumError> {
        unreachable!("a scan only reads")
    }
    fn sync(&self) -> Result<(), MediumError> {
        unreachable!("a scan only reads")
    }
    fn punch(&self, _: Extent<Pos>) -> Result<(), MediumError> {
        unreachable!("a scan only reads")
    }
    fn zero(&self, _: Extent<Pos>) -> Result<(), MediumError> {
        unreachable!("a scan only reads")
    }
    fn capabilities(&self) -> Capabilities {
        Capabilities::default()
    }
}

fuzz_target!(|data: &[u8]| {
    let _ = Head::from_bytes(data);
    if let Some((raw, len)) = RawFrame::from_bytes(data)
        && let Ok(frame) = raw.read()
    {
        assert_eq!(RawFrame::from_bytes(&frame.to_bytes()), Some((raw, len)));
    }
    let shape = Shape { half_bytes: 8192, slots: 1 };
    let mut bytes = Head { shape, disk: [0; 16] }.to_bytes();
    assert_eq!(bytes.len() as u64, HALVES_AT);
    bytes.extend(data);
    bytes.resize(shape.bytes() as usize, 0);
    if let Ok(found) = scan(&Bytes(bytes), [0; 16], SIZE, 0) {
        assert!(found.state.ledger.iter().all(|(extent, _)| extent.end() <= SIZE));
        assert!(found.state.slots.staged.keys().all(|slot| slot.0 < shape.slots));
    }
});
