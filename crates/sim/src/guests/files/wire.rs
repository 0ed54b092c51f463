//! The requests of a guest to its disk.

use crate::guests::files::Vain;
use crate::machine::content::Tag;
use crate::rules::rule_e::guest::Stay;
use quietus_core::base::units::{Addr, Extent};
use quietus_core::request::{Op, Request, RequestId};
use quietus_detect::formats::format::Block;

#[derive(Clone, Debug)]
pub(super) struct Sent {
    pub(super) id: RequestId,
    pub(super) what: What,
    pub(super) since: u64,
}

#[derive(Clone, PartialEq, Eq, Debug)]
pub enum What {
    Write {
        block: Block,
        bytes: Vec<u8>,
        tag: Option<Tag>,
        fua: bool,
    },
    Trim(Block),
    InVain(Block, Vain),
    /// In the owner's stay.
    Read(Block, Option<Stay>),
    /// By a guest that mounts or mends: no oracle judges what it reads.
    Look(Block),
    /// Of the journal, which waits for it, or of the guest.
    Flush {
        is_barrier: bool,
    },
}

impl What {
    pub(super) fn block(&self) -> Option<Block> {
        match *self {
            Self::Write { block, .. }
            | Self::Trim(block)
            | Self::InVain(block, _)
            | Self::Look(block)
            | Self::Read(block, _) => Some(block),
            Self::Flush { .. } => None,
        }
    }
}

impl Sent {
    /// The request, where `place` says where a block lies.
    pub(super) fn request(&self, place: impl FnOnce(Block) -> Extent<Addr>) -> Request {
        let there = self.what.block().map_or(Extent::new(0, 0), place);
        let beyond = Extent::new(there.start.0, 1 << 40);
        let (op, extent, fua) = match &self.what {
            What::Write { bytes, fua, .. } => (Op::Write(bytes.clone().into()), there, *fua),
            What::Trim(_) => (Op::Trim, there, false),
            What::InVain(_, Vain::FastZeros) => (Op::Zero { no_hole: true, fast: true }, there, false),
            What::InVain(_, Vain::TrimBeyond) => (Op::Trim, beyond, false),
            What::InVain(_, Vain::WriteShort) => (Op::Write(vec![0; 512].into()), there, false),
            What::Look(_) | What::Read(..) => (Op::Read, there, false),
            What::Flush { .. } => (Op::Flush, there, false),
        };
        Request { op, extent, fua }
    }
}
