//! A vault whose medium has changed a bit of a container: what is dead elsewhere is destroyed, and what a repair could bring
//! back stays.

use quietus_core::base::units::{Extent, Pos};
use quietus_core::base::zeros::is_zeros;
use quietus_vault::container::{Class, HEAD_BYTES};
use quietus_vault::sanitize::Progress;
use quietus_vault::{SnapshotId, Vault, VaultError};

use super::{Bench, PATIENCE, compare, refused, restored};
use crate::machine::rng::Rng;
use crate::vault::Figures;
use crate::vault::client::Client;
use crate::vault::forensic::{examine, is_in};
use crate::vault::model::Model;
use crate::verdict::{Judged, Violation, broken, overdue, unrecorded};

/// The first bytes of a container.
const MAGIC: &[u8] = b"QuietusContainer";
const CLASS_AT: usize = 20;
/// Bytes of an entry of its directory.
const ENTRY_BYTES: u64 = 64;

/// The place of a changed bit.
pub(super) struct Damage {
    slot: Extent<Pos>,
    at: Pos,
    class: u8,
}

/// Changes a bit of any container of a closed vault, and then forgets, sanitizes, repairs or puts again.
pub(super) fn play(bench: &Bench, model: &mut Model, figures: &mut Figures, rng: &mut Rng) -> Judged {
    let Some(damage) = Damage::some(bench, rng) else { return Ok(()) };
    bench.pool.flip(damage.at);
    figures.damaged += 1;
    let mut vault = bench.open().map_err(refused)?;
    if rng.chance(30) {
        vault.verify(&mut |_, _| true).map_err(refused)?;
    }
    let forgotten = forget_some(&mut vault, model, rng)?;
    let left = sanitize(&mut vault, Some(&damage))?;
    figures.left += u64::from(left > 0);
    judge(bench, &vault, model, (&damage, left))?;
    if left > 0 && vault.owed().count() < forgotten {
        let what = format!("{forgotten} forgets, of which some are not owed, although a container was left");
        return Err(unrecorded(what));
    }
    if bench.pool.peek(damage.slot, |bytes| is_zeros(&bytes[..HEAD_BYTES])) {
        // No chunk in the container was live.
        restore_all(&mut vault, model)?;
    }
    drop(vault);
    let is_repaired = left > 0 && rng.chance(50);
    if is_repaired {
        bench.pool.flip(damage.at);
    }
    let mut vault = bench.open().map_err(refused)?;
    if !is_repaired && !put_again(bench, &mut vault, model)? {
        return Ok(());
    }
    restore_all(&mut vault, model)?;
    let left = sanitize(&mut vault, Some(&damage))?;
    judge(bench, &vault, model, (&damage, left))?;
    restore_all(&mut vault, model)?;
    match (left, vault.status().owed) {
        (0, 0) => Ok(()),
        (left, owed) => {
            let what =
                format!("{owed} forgets are owed and {left} containers left, although all is whole again");
            Err(overdue(what))
        }
    }
}

impl Damage {
    fn some(bench: &Bench, rng: &mut Rng) -> Option<Damage> {
        let bytes = u64::from(bench.layout.slot_bytes);
        let slots = (0..u64::from(bench.layout.slots)).map(|slot| Extent::new(slot * bytes, bytes));
        let class = |slot: &Extent<Pos>| {
            bench.pool.peek(*slot, |bytes| bytes.starts_with(MAGIC).then(|| bytes[CLASS_AT]))
        };
        let slots: Vec<(Extent<Pos>, u8)> = slots
            .filter_map(|slot| Some((slot, class(&slot)?)))
            .filter(|(_, class)| *class == Class::Data as u8 || *class == Class::Metadata as u8)
            .collect();
        if slots.is_empty() {
            return None;
        }
        let (slot, class) = rng.pick(&slots);
        let head = HEAD_BYTES as u64;
        let (from, to) = rng.pick(&[(0, 48), (head, head + 4 * ENTRY_BYTES), (head, bytes)]);
        let at = Pos(slot.start.0 + rng.range(from, to - 1));
        Some(Damage { slot, at, class })
    }
}

/// Forgets some snapshots: how many.
fn forget_some(vault: &mut Vault<'_>, model: &mut Model, rng: &mut Rng) -> Result<usize, Violation> {
    let all: Vec<SnapshotId> =
        model.live.keys().copied().filter(|snapshot| !model.held.contains(snapshot)).collect();
    let mut forgotten = 0;
    for snapshot in all {
        if rng.chance(40) {
            forgotten += 1;
            vault.forget(&[snapshot]).map_err(refused)?;
            model.now += 1;
            model.forget(snapshot);
        }
    }
    model.now += 1;
    Ok(forgotten)
}

/// How many containers a sanitization leaves; all of them if it stops because a folder cannot be read.
pub(super) fn sanitize(vault: &mut Vault<'_>, damage: Option<&Damage>) -> Result<usize, Violation> {
    vault.begin_sanitization().map_err(refused)?;
    let (mut left, may_stop) = (0, damage.is_some_and(|it| it.class == Class::Metadata as u8));
    for _ in 0..PATIENCE {
        match vault.step_sanitization() {
            Ok(Progress::Done) => return Ok(left),
            Ok(_) => left = vault.sanitization_left().map_or(left, |left| left.len()),
            Err(VaultError::Unreadable { .. }) if may_stop => return Ok(usize::MAX),
            Err(error) => return Err(refused(error)),
        }
    }
    Err(overdue("a sanitization of a damaged vault does not end".into()))
}

/// Checks that dead content lies at most in the container that was left, and that nothing is owed if no container was left.
fn judge(bench: &Bench, vault: &Vault<'_>, model: &Model, (damage, left): (&Damage, usize)) -> Judged {
    let key = &bench.setup.key;
    let owed = vault.owed().count();
    if left == 0 && owed > 0 {
        return Err(overdue(format!("{owed} forgets are owed although no container was left")));
    }
    if left == usize::MAX {
        return Ok(());
    }
    let mut dead = model.dead_since(model.now, &[]);
    if left > 0 {
        bench.pool.peek(damage.slot, |bytes| dead.retain(|item| !is_in(bytes, key, *item)));
    }
    examine([&bench.pool, &bench.catalog], key, &dead)
}

/// Puts every snapshot again; whether there was room for that.
fn put_again(bench: &Bench, vault: &mut Vault<'_>, model: &mut Model) -> Result<bool, Violation> {
    vault.verify(&mut |_, _| true).map_err(refused)?;
    for shot in model.live.values().cloned().collect::<Vec<_>>() {
        let put = vault.begin_put().map_err(refused)?;
        let mut client = Client::new(put, shot.clone(), bench.setup.key.clone());
        match client.put_all(vault) {
            Ok(snapshot) => drop(model.live.insert(snapshot, shot)),
            Err(VaultError::Full { .. } | VaultError::Snapshots(_)) => return Ok(false),
            Err(error) => return Err(refused(error)),
        }
    }
    Ok(true)
}

pub(super) fn restore_all(vault: &mut Vault<'_>, model: &Model) -> Judged {
    for (snapshot, shot) in &model.live {
        let found = restored(vault, *snapshot);
        let found = found.map_err(|error| broken(format!("{snapshot:?} is not whole again: {error}")))?;
        compare(*snapshot, shot, found)?;
    }
    Ok(())
}
