//! Why a record is not trusted.

/// Name of an impossible field.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Lie(pub &'static str);

pub(super) fn ensure(holds: bool, field: &'static str) -> Result<(), Lie> {
    if holds { Ok(()) } else { Err(Lie(field)) }
}
