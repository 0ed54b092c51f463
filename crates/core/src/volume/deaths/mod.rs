//! How bytes die: from the request, or the verdict, to the obligation in the ledger.
//!
//! [`dying`] gives the bytes that a request frees their obligations. [`classes`] says which deaths are plain, [`layers`]
//! below which content nothing lies, and [`leaving`] how dead content makes room for new content without a wait. The
//! ledger is on the [disk](super::disk); a request that waits for room in it is one of the
//! [requests](super::requests).

pub(super) mod classes;
pub(super) mod dying;
pub(super) mod layers;
pub(super) mod leaving;
