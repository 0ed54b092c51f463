//! The answer to a call that forgets a set of parts as one: the versions of blocks that lie anywhere, each part with its epochs.

use super::chains::{AGAIN_AFTER, BlocksWeighed, Meant, TRIES_MAX, with_last_block};
use super::refused::Refused;
use super::reports::PartsForgotten;
use crate::disk::Step;
use crate::engine::Entry;
use crate::epochs;
use crate::open_disk::OpenDisk;
use quietus_core::base::parts::{PARTS_MAX, Parts};
use quietus_core::base::units::{BLOCK_BYTES, Epoch, EpochRange, Part, Scope, Set, SetId};
use quietus_core::request::Refusal;
use ring::digest::{SHA256, digest};
use std::sync::Arc;

/// A part as a call has it: first byte and length of its blocks, first and last epoch.
pub type PartOfCall = (u64, u64, u64, u64);

/// The number of the set of these parts: the first bytes of a SHA-256 of all their numbers, 8 bytes each, little-endian.
fn id_of(parts: &[PartOfCall]) -> SetId {
    let numbers = parts.iter().flat_map(|(start, len, from, to)| [*start, *len, *from, *to]);
    let bytes: Vec<u8> = numbers.flat_map(u64::to_le_bytes).collect();
    SetId(*digest(&SHA256, &bytes).as_ref().first_chunk().expect("a SHA-256 has 32 bytes"))
}

impl OpenDisk {
    pub(super) fn forget_parts(
        &self,
        parts: &[PartOfCall],
        wait: bool,
        step: Step<'_>,
    ) -> Result<PartsForgotten, Refused> {
        let named = Arc::new(self.parts(parts)?);
        let set = named.set().ok_or("name at least one part")?;
        for _ in 0..TRIES_MAX {
            if self.intend_set(&named, set, step)? {
                if wait {
                    self.wait_until_forgotten(Scope::Set(set), step)?;
                }
                return Ok(PartsForgotten { set: set.id, parts: parts.len(), done: wait });
            }
            std::thread::sleep(AGAIN_AFTER);
        }
        Err("epochs close too fast, or other forgets fill the journal: try again later".into())
    }

    /// What a forget of these parts would destroy.
    pub(super) fn weigh_parts(&self, parts: &[PartOfCall], step: Step<'_>) -> Result<BlocksWeighed, Refused> {
        let named = self.parts(parts)?;
        let set = named.set().ok_or("name at least one part")?;
        self.wait_until_all_forgotten(step)?;
        let mut meant = Meant { only: true, ..self.meant(None)? };
        let (from, to) = (Some(set.epochs.from.0), set.epochs.to.0);
        let mut weighed = BlocksWeighed { from, to, ..BlocksWeighed::default() };
        for part in named.all() {
            meant.range = part.epochs;
            let count = |block, born, died| self.count_version(&mut weighed, &meant, block, (born, died));
            self.each_version(part.blocks, step, count)?;
        }
        weighed.dies_bytes = weighed.dies_blocks * BLOCK_BYTES;
        Ok(weighed)
    }

    /// Notes durably that a set is to be forgotten, unless a hold refuses a part. False if another epoch has closed meanwhile, or other
    /// sets have filled the journal: it can be tried again.
    fn intend_set(&self, parts: &Arc<Parts>, set: Set, step: Step<'_>) -> Result<bool, Refused> {
        let deciding = self.names.decide();
        let mut epochs: Vec<EpochRange> = parts.all().iter().map(|part| part.epochs).collect();
        epochs.sort_unstable_by_key(|it| (it.from, it.to));
        epochs.dedup();
        epochs.into_iter().try_for_each(|epochs| self.names.check_held(epochs))?;
        self.wait_for_turn(step)?;
        let outcome = epochs::forget_set(&self.engine, Arc::clone(parts));
        drop(deciding);
        match outcome {
            Err(Refusal::Invalid(_)) => return Ok(false),
            Err(Refusal::NoSpace(why)) => {
                let under_way = self.engine.status().owed.forgets.first().copied().ok_or(why)?;
                self.wait_until_forgotten(under_way, step)?;
                return Ok(false);
            }
            outcome => outcome?,
        }
        self.engine.recorder().note(Entry::Forgets { scope: Scope::Set(set), by_rule: false });
        Ok(true)
    }

    /// The parts, if they are whole blocks of the disk and closed epochs, in order.
    fn parts(&self, parts: &[PartOfCall]) -> Result<Parts, Refused> {
        if parts.is_empty() || parts.len() > PARTS_MAX {
            let refused = format!("{} parts; name 1 to {PARTS_MAX} at once", parts.len());
            return Err(refused.into());
        }
        let open =
            self.engine.open_epoch().ok_or("the disk does not keep versions: it has no epochs to forget")?;
        let mut all: Vec<Part> = Vec::new();
        for (n, (start, len, from, to)) in parts.iter().copied().enumerate() {
            let blocks = with_last_block(self.whole_block(start, len)?);
            if from > to || to >= open.0 {
                return Err(format!(
                    "part {n} ({start}+{len}) is of epochs {from} to {to}; name closed ones, of which epoch {} is the last, and the \
                     first one not after the last",
                    open.0.saturating_sub(1)
                )
                .into());
            }
            all.push(Part { epochs: EpochRange { from: Epoch(from), to: Epoch(to) }, blocks });
        }
        let named = Parts::new(id_of(parts), all);
        if !named.are_sorted() {
            return Err("the parts are not in order; sort them by their first byte, then by their first and last epoch, and name each once".into());
        }
        Ok(named)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use quietus_core::base::units::Extent;

    #[test]
    fn the_number_of_a_set_is_of_all_numbers_in_order() {
        let one = [(4096, 8192, 1, 2), (16_384, 4096, 3, 3)];
        // printf of the eight numbers, 8 bytes each, little-endian, in `sha256sum`.
        assert_eq!(id_of(&one).to_string(), "0cb6f5f589703d38");
        let other = [(4096, 8192, 1, 2), (16_384, 4096, 3, 4)];
        assert_ne!(id_of(&one), id_of(&other));
    }

    #[test]
    fn a_scope_in_json_is_what_it_was_and_a_set_has_its_number() {
        let epochs = EpochRange { from: Epoch(2), to: Epoch(3) };
        let blocks = Extent::new(4096, 8192);
        let cases = [
            (Scope::from(epochs), r#"{"from":2,"to":3}"#),
            (Scope::chain(epochs, blocks), r#"{"from":2,"to":3,"blocks":{"start":4096,"len":8192}}"#),
            (
                Scope::shown(epochs, blocks),
                r#"{"from":2,"to":3,"blocks":{"start":4096,"len":8192},"only":true}"#,
            ),
            (
                Scope::Set(Set { id: SetId([0, 0x1f, 2, 3, 4, 5, 6, 0xff]), epochs }),
                r#"{"from":2,"to":3,"set":"001f0203040506ff"}"#,
            ),
        ];
        for (scope, json) in cases {
            assert_eq!(serde_json::to_string(&scope).unwrap(), json);
            assert_eq!(serde_json::from_str::<Scope>(json).unwrap(), scope);
        }
        for wrong in [
            r#"{"from":2,"to":3,"only":true}"#,
            r#"{"from":2,"to":3,"set":"1f"}"#,
            r#"{"from":2,"to":3,"set":"+01f0203040506ff"}"#,
            r#"{"from":2,"to":3,"blocks":{"start":0,"len":4096},"set":"001f0203040506ff"}"#,
        ] {
            assert!(serde_json::from_str::<Scope>(wrong).is_err(), "{wrong}");
        }
    }
}
