//! The parts of a disk: its media, its store, and the way it is created and opened. Nothing else in
//! the simulator knows how `core` wants them.

use super::keys::Keys;
use crate::machine::history::{Origin, Setup, Store};
use crate::machine::media::SimMedia;
use crate::machine::medium::{Host, Power, SimMedium};
use crate::machine::rng::Rng;
use crate::spent;
use quietus_core::base::blocks::BlockSet;
use quietus_core::base::cell::Cells;
use quietus_core::base::units::{Addr, BLOCK_BYTES, Extent, Millis, Pos, Slot};
use quietus_core::erase::policy::Policy;
use quietus_core::media::MediumId;
use quietus_core::media::medium::Medium;
use quietus_core::owed::journal::Shape;
use quietus_core::store::{Kind, overlay, sealed, versions};
use quietus_core::volume::{Checkpoint, Config, Opening, Volume};
use quietus_seal::Seal;
use std::error::Error;
use std::sync::Arc;

pub(super) const DISK: [u8; 16] = *b"a simulated disk";
/// Most space of an overlay, in multiples of the disk's size.
const GROWTH_MAX: u64 = 6;
/// Space beyond that for places of refused writes, bytes: those are destroyed before they are used
/// again, which has to wait while the host is full.
const REFUSED_BYTES_MAX: u64 = 2 << 20;
/// Slots of a disk that keeps versions, or whose slots are written once: more than any history writes blocks.
const SLOTS: u64 = 2048;
/// Space of an index of versions.
const INDEX_BYTES: u64 = 4 << 20;

/// Where things lie on the medium of stubs.
pub(super) fn layout(seal: Seal, half_bytes: u64) -> versions::Layout {
    versions::Layout { stub_bytes: seal.stub_bytes(), half_bytes }
}

/// Everything that is needed to open the disk of `setup`.
pub(super) fn opening(
    setup: &Setup,
    policy: &Policy,
    checkpoint: Option<&Checkpoint>,
    (now, media, keys): (Millis, &SimMedia, &mut Keys),
    rng: &mut Rng,
) -> Opening {
    let config = Config {
        run_bytes_max: setup.run_bytes_max,
        batch_bytes_max: setup.batch_bytes_max,
        idle_after_ms: setup.idle_after_ms,
        deadline_ms: setup.deadline_ms,
        detect_zeroes: setup.detect_zeroes,
        // Half of the disks have the least: their writes wait for the index.
        store_bytes_max: if setup.slots >= 4 { 0 } else { 64 << 20 },
        ..Config::new(policy.clone())
    };
    let mut entropy = [0; 32];
    entropy[..8].copy_from_slice(&rng.roll().to_le_bytes());
    let size = setup.disk_bytes;
    let store = match setup.store {
        Store::InPlace => Kind::InPlace,
        Store::Sealed => Kind::Sealed,
        Store::Spent => Kind::Other(Arc::new(spent::Units(SLOTS * BLOCK_BYTES / spent::UNIT_BYTES))),
        Store::Overlay(mode) => Kind::Overlay(overlay::Setup { mode, base_data: Arc::new(base_data(setup)) }),
        Store::Versions { seal, log_bytes } => {
            let session = keys.begin_session(seal);
            let sessions = versions::Sessions { count: u32::from(session.0) + 1, last: [0; 16] };
            Kind::Versions(versions::Setup { layout: layout(seal, log_bytes), sessions })
        }
    };
    let (session, checkpoint) = (media.journal.session(), checkpoint.cloned());
    Opening { config, disk: DISK, size, session, entropy, now, checkpoint, store }
}

fn shape(setup: &Setup) -> Shape {
    Shape { half_bytes: setup.half_bytes, slots: setup.slots }
}

/// The media of a disk that is not made yet.
pub(super) fn media(setup: &Setup, passes: usize) -> SimMedia {
    let (power, host) = (Power::default(), Host::default());
    let fixed = |bytes| SimMedium::new(bytes, passes, false, power.clone());
    let growing = |bytes, punch| SimMedium::growing(bytes, passes, punch, power.clone()).on_host(&host);
    let journal = fixed(shape(setup).bytes());
    let (data, others) = match setup.store {
        Store::InPlace => {
            let data = SimMedium::new(setup.disk_bytes, passes, setup.punch, power.clone()).on_host(&host);
            let data = if setup.erases { data.erasing() } else { data };
            return SimMedia { data, journal, others: Vec::new(), power, host };
        }
        Store::Overlay(_) => {
            let data_max = setup.disk_bytes.next_multiple_of(BLOCK_BYTES) * GROWTH_MAX + REFUSED_BYTES_MAX;
            let map = fixed(overlay::map_bytes(setup.disk_bytes)).on_host(&host);
            let data = growing(data_max, true);
            let data = if setup.erases { data.erasing() } else { data };
            (data, vec![(MediumId::Map, map), (MediumId::Base, fixed(setup.disk_bytes))])
        }
        Store::Spent => {
            let map = fixed(BLOCK_BYTES).on_host(&host);
            (growing(SLOTS * BLOCK_BYTES, false), vec![(MediumId::Map, map)])
        }
        Store::Sealed => {
            // An attacker has copies of all that was ever on these, and of the root what lacks passes.
            let map = fixed(sealed::map_bytes(setup.disk_bytes)).recorded().on_host(&host);
            let root = fixed(sealed::ROOT_BYTES).with_layers(passes);
            let root = if setup.erases { root.erasing() } else { root };
            let data = SimMedium::new(setup.disk_bytes, passes, setup.punch, power.clone()).recorded();
            let data = if setup.erases { data.erasing() } else { data };
            let (data, journal) = (data.on_host(&host), journal.recorded().on_host(&host));
            let others = vec![(MediumId::Map, map), (MediumId::Root, root)];
            return SimMedia { data, journal, others, power, host };
        }
        Store::Versions { seal, log_bytes } => {
            let map = fixed(INDEX_BYTES).on_host(&host);
            let end = layout(seal, log_bytes).home(Slot(SLOTS)).end() + versions::ROOM_BYTES;
            let stubs = fixed(end.next_multiple_of(BLOCK_BYTES)).of_stubs(seal.stub_bytes());
            // The attacker has copies of all stubs that ever were.
            let stubs = stubs.with_layers(usize::MAX).on_host(&host);
            // After several passes over a cell, a fresh cell is written, which does not count as a pass.
            let more = usize::from(passes > 1);
            let passes = if setup.erases { passes } else { passes + more };
            let root = fixed(versions::ROOM_BYTES).with_layers(passes).on_host(&host);
            let root = if setup.erases { root.erasing() } else { root };
            let others = vec![(MediumId::Map, map), (MediumId::Stubs, stubs), (MediumId::Root, root)];
            let data = growing(SLOTS * BLOCK_BYTES, setup.punch);
            (if setup.erases { data.erasing() } else { data }, others)
        }
    };
    SimMedia { data, journal: journal.on_host(&host), others, power, host }
}

/// The part of the disk whose content is on a medium at first.
pub fn original(setup: &Setup) -> Extent<Addr> {
    let bytes = match setup.store {
        Store::InPlace | Store::Sealed => setup.disk_bytes,
        Store::Overlay(_) => setup.base_bytes,
        Store::Versions { .. } | Store::Spent => 0,
    };
    Extent::new(0, if setup.origin == Origin::Empty { 0 } else { bytes })
}

fn base_data(setup: &Setup) -> BlockSet {
    let mut blocks = BlockSet::default();
    blocks.insert(original(setup));
    blocks
}

/// Puts `content` on the medium that is there at first, and makes the journal.
pub(super) fn create(setup: &Setup, content: &[u8], media: &SimMedia) -> Result<Checkpoint, Box<dyn Error>> {
    match setup.store {
        Store::InPlace => media.data.write(Pos(0), content, true)?,
        Store::Overlay(_) => {
            media.on(MediumId::Base).write(Pos(0), content, true)?;
            overlay::format_map(media.on(MediumId::Map), DISK, setup.disk_bytes)?;
        }
        Store::Spent => spent::format_map(media.on(MediumId::Map))?,
        // The content is written once the disk is open.
        Store::Sealed => {
            let (map, root) = (media.on(MediumId::Map), media.on(MediumId::Root));
            sealed::format(map, root, DISK, setup.disk_bytes, Cells::new([6; 32]))?;
        }
        Store::Versions { seal, log_bytes } => {
            let stubs = media.on(MediumId::Stubs);
            stubs.reserve(Extent::between(0, layout(seal, log_bytes).half(1).end()))?;
            stubs.write(Pos(0), &versions::format_stubs(DISK), false)?;
            stubs.sync()?;
            media.on(MediumId::Map).write(Pos(0), &versions::format_index(DISK), true)?;
            let root = versions::format_root(DISK, Cells::new([6; 32]));
            media.on(MediumId::Root).write(Pos(0), &root, true)?;
        }
    }
    let in_place = Some(Extent::new(0, setup.disk_bytes)).filter(|_| setup.is_in_place());
    let held = in_place.filter(|_| setup.origin == Origin::Adopted);
    let dead = in_place.filter(|_| setup.origin == Origin::Foreign);
    Ok(Volume::format(&media.journal, shape(setup), DISK, held, dead)?)
}
