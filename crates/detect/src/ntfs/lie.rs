//! Why a record cannot be believed.

/// A field that cannot be true.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Lie(pub &'static str);

pub(super) fn ensure(holds: bool, field: &'static str) -> Result<(), Lie> {
    if holds { Ok(()) } else { Err(Lie(field)) }
}
