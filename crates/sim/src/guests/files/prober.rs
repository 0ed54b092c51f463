//! How the server finds the file systems of these guests.

use crate::guests::files::systems::system::LABEL;
use crate::guests::files::systems::{ext2, fat};
use crate::rules::rule_e::toy::{Layout, Super, Toy};
use quietus_core::base::units::{BLOCK_BYTES, Extent};
use quietus_detect::formats::format::{Block, Probe, Prober};

pub(super) const PROBER: Prober = |disk_bytes, contents| {
    let place = Extent::new(0, BLOCK_BYTES);
    let Some(bytes) = contents.get(place) else { return Probe::Needs(vec![place]) };
    let Some(Super { is_clean: was_clean, .. }) = Super::from_bytes(bytes) else { return Probe::IsNot };
    let (blocks, block_bytes) = ((disk_bytes / BLOCK_BYTES) as Block, BLOCK_BYTES as u32);
    let toy = Toy { was_clean, block_bytes, ..Toy::new(blocks) };
    Probe::Is(Box::new(match bytes[LABEL] {
        ext2::LABEL => toy,
        label if fat::LABELS.contains(&label) => {
            Toy { layout: Layout::Fat { is_final: label == fat::LABELS[0] }, ..toy }
        }
        journal => Toy { journal: journal.into(), ..toy },
    }))
};
