//! Which units of the disk have content.

use super::{Flash, Piece, pieces};
use crate::map::Where;
use crate::nand::Nand;
use quietus_core::base::units::{Extent, Pos};

impl<N: Nand> Flash<N> {
    /// The parts of `extent` whose units have content: written, and not trimmed since; what the chip lost counts too. All other bytes read
    /// as zeros. The parts ascend, and do not touch each other.
    ///
    /// # Panics
    /// If the extent is not all on the disk.
    pub fn present(&self, extent: Extent<Pos>) -> Vec<Extent<Pos>> {
        let mut parts: Vec<Extent<Pos>> = Vec::new();
        for piece in pieces(self.within(extent.start, extent.len as usize)) {
            if !self.has_content(&piece) {
                continue;
            }
            let start = extent.start.0 + piece.at as u64;
            match parts.last_mut() {
                Some(last) if last.end() == start => last.len += piece.len as u64,
                Some(_) | None => parts.push(Extent::new(start, piece.len as u64)),
            }
        }
        parts
    }

    /// The end of the last part of `extent` whose unit has content, as [`Flash::present`] has it; the start of `extent` if there is none.
    ///
    /// # Panics
    /// If the extent is not all on the disk.
    pub fn end_of_data(&self, extent: Extent<Pos>) -> Pos {
        let last = pieces(self.within(extent.start, extent.len as usize))
            .rev()
            .find(|piece| self.has_content(piece));
        last.map_or(extent.start, |piece| Pos(extent.start.0 + (piece.at + piece.len) as u64))
    }

    fn has_content(&self, piece: &Piece) -> bool {
        self.pending.read(piece.unit).is_some() || self.map.find(piece.unit) != Where::Absent
    }
}
