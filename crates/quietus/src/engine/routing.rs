//! Which thread does an input or output: the one that brought the request, a worker, or one that makes passes.

use quietus_core::media::MediumId;
use quietus_core::volume::{Io, IoOp};

/// Longest read of content that a write is about to replace, bytes, that the thread of the write
/// does itself.
const LOOK_BYTES_MAX: u64 = 256 << 10;

/// Whether the thread that brought a request should do `io` itself.
pub(super) fn may_be_done_here(io: &Io, own_read: bool) -> bool {
    match (&io.op, io.at.first().on) {
        (IoOp::Read, MediumId::Journal) => false,
        (IoOp::Read, _) => own_read || io.at.bytes() <= LOOK_BYTES_MAX,
        (IoOp::Write { durable, .. }, MediumId::Data | MediumId::Journal) => !durable,
        _ => false,
    }
}

/// Whether `io` is the bulk of destroying, which gives way to all else.
pub(super) fn is_pass(io: &Io) -> bool {
    io.at.first().on == MediumId::Data && matches!(io.op, IoOp::Fill { .. } | IoOp::Punch)
}
