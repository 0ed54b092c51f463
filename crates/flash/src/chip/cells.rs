//! What the cells of a page hold, and what a read makes of them.

use super::rng::Rng;
use crate::nand::{NandError, Reading};

/// How a page reads, whatever its cells hold.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Look {
    /// What the cells hold.
    True,
    /// Blank, though the cells hold remains.
    Blank,
    /// More wrong bits than can be corrected.
    Garbage,
    /// Well so many times more; from then on well, uncorrectable or blank, by chance at each read.
    Weak(u32),
}

/// The cells of one page.
#[derive(Clone, Debug)]
pub(super) struct Cells {
    /// What the cells hold; `None` if they are erased.
    bytes: Option<Box<[u8]>>,
    look: Look,
}

impl Cells {
    pub(super) fn blank() -> Self {
        Self { bytes: None, look: Look::True }
    }

    pub(super) fn whole(bytes: &[u8]) -> Self {
        Self { bytes: Some(bytes.into()), look: Look::True }
    }

    /// A page that reads well at first, and by chance later.
    pub(super) fn weak(bytes: &[u8], rng: &mut Rng) -> Self {
        Self { bytes: Some(bytes.into()), look: Look::Weak(rng.below(4) as u32) }
    }

    /// Any remains of a program that did not end well.
    pub(super) fn torn(bytes: &[u8], rng: &mut Rng) -> Self {
        let whole = Some(bytes.into());
        match rng.below(6) {
            0 => Self::blank(),
            1 => Self::whole(bytes),
            2 => Self::weak(bytes, rng),
            3 => Self { bytes: whole, look: Look::Blank },
            4 => Self { bytes: whole, look: Look::Garbage },
            _ => {
                let mut part = vec![0xff; bytes.len()];
                let len = rng.below(bytes.len() as u64) as usize;
                part[..len].copy_from_slice(&bytes[..len]);
                Self { bytes: Some(part.into()), look: Look::Garbage }
            }
        }
    }

    /// Turns the page into any remains of an erase that did not end well.
    pub(super) fn erase_badly(&mut self, rng: &mut Rng) {
        match (&self.bytes, rng.below(5)) {
            (Some(_), 0) => self.look = Look::Blank,
            (Some(_), 1) => self.look = Look::Garbage,
            (Some(_), 2) => self.look = Look::Weak(rng.below(4) as u32),
            (Some(_), 3) => {}
            (None, _) | (Some(_), _) => *self = Self::blank(),
        }
    }

    pub(super) fn blacken(&mut self, bytes: usize) {
        *self = Self { bytes: Some(vec![0; bytes].into()), look: Look::Garbage };
    }

    /// Turns the page into one that cannot be corrected.
    pub(super) fn spoil(&mut self) {
        self.look = Look::Garbage;
    }

    /// Lets the page read as what its cells hold.
    pub(super) fn heal(&mut self) {
        self.look = Look::True;
    }

    /// Lets a page that is not blank read well or badly, by chance.
    pub(super) fn weaken(&mut self) {
        self.look = Look::Weak(0);
    }

    pub(super) fn read(&mut self, into: &mut [u8], rng: &mut Rng) -> Result<Reading, NandError> {
        into.fill(0xff);
        let Some(bytes) = &self.bytes else {
            return Ok(Reading::Blank);
        };
        let chance = match &mut self.look {
            Look::True => 0,
            Look::Blank => 2,
            Look::Garbage => 1,
            Look::Weak(0) => rng.below(3),
            Look::Weak(good) => {
                *good -= 1;
                0
            }
        };
        match chance {
            0 => into.copy_from_slice(bytes),
            1 => return Err(NandError::Uncorrectable),
            _ => return Ok(Reading::Blank),
        }
        Ok(Reading::Good)
    }

    pub(super) fn is_blank(&self) -> bool {
        self.bytes.is_none()
    }

    /// What the cells hold.
    pub(super) fn raw(&self, into: &mut [u8]) {
        match &self.bytes {
            Some(bytes) => into.copy_from_slice(bytes),
            None => into.fill(0xff),
        }
    }
}
