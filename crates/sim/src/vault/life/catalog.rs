//! A vault whose catalog was damaged: a bit anywhere, all copies of a page, an older copy in their place, or all of it. Nothing that is live is
//! lost by that, whatever is put and sanitized afterwards.

use quietus_core::base::units::{Extent, Pos};
use quietus_core::media::medium::Medium;
use quietus_vault::catalog::Numbers;
use quietus_vault::vault::Repair;
use quietus_vault::{Vault, VaultError};

use super::{Bench, damaged, refused, restored};
use crate::machine::medium::{Power, SimMedium};
use crate::machine::rng::Rng;
use crate::vault::Figures;
use crate::vault::client::Client;
use crate::vault::items::Shot;
use crate::vault::model::Model;
use crate::verdict::{Judged, Violation, broken, overdue};

/// Bytes of the head, and of a page of the table.
const PAGE_BYTES: u64 = 4096;
/// Puts after the damage.
const PUTS: usize = 4;

/// The one page of the table, in both of its places.
pub(super) fn table(bench: &Bench) -> Extent<Pos> {
    Extent::new(PAGE_BYTES + 2 * bench.layout.half_bytes, 2 * PAGE_BYTES)
}

/// Damages the catalog of a closed vault, of which `older` was the table before, and goes on with it. False if it had to be made anew.
pub(super) fn play(
    bench: &Bench,
    model: &mut Model,
    figures: &mut Figures,
    (rng, older): (&mut Rng, &[u8]),
) -> Result<bool, Violation> {
    figures.mended += 1;
    let at = table(bench).start.0;
    match rng.below(8) {
        0..3 => bench.catalog.flip(Pos(rng.below(bench.layout.bytes()))),
        3..5 => {
            (0..2).for_each(|place| bench.catalog.flip(Pos(at + place * PAGE_BYTES + rng.below(PAGE_BYTES))))
        }
        5..7 => bench.catalog.write(Pos(at), older, true).expect("no fault is planned"),
        _ => return anew(bench, model, rng).map(|()| false),
    }
    let mut vault = bench.open().map_err(refused)?;
    damaged::restore_all(&mut vault, model)?;
    go_on(bench, &mut vault, model, rng)?;
    Ok(true)
}

/// Makes a catalog of nothing but the pool.
fn anew(bench: &Bench, model: &mut Model, rng: &mut Rng) -> Judged {
    let new = SimMedium::new(bench.layout.bytes(), 1, false, Power::default());
    let (pool, layout, next) = (&bench.pool, bench.layout, Numbers::default());
    let repair = Repair { old: None, new: &new, pool, layout, next };
    let (mut vault, repaired) =
        Vault::repair(&repair, bench.setup.clone(), &mut |_, _| true).map_err(refused)?;
    let mut shots: Vec<Shot> = std::mem::take(&mut model.live).into_values().collect();
    for snapshot in repaired.found {
        let found = restored(&mut vault, snapshot).map_err(refused)?;
        let known = shots.iter().position(|shot| shot.content() == found);
        let known = known.ok_or_else(|| broken(format!("{snapshot:?} was never put, or was destroyed")))?;
        model.live.insert(snapshot, shots.swap_remove(known));
    }
    if let Some(shot) = shots.first() {
        return Err(broken(format!("a snapshot is not found in the pool: {shot:?}")));
    }
    go_on(bench, &mut vault, model, rng)
}

/// Puts and sanitizes: what was there before is there still.
fn go_on(bench: &Bench, vault: &mut Vault<'_>, model: &mut Model, rng: &mut Rng) -> Judged {
    for _ in 0..PUTS {
        model.last_number += 1;
        let files = vec![(model.last_number, (0..3).map(|n| model.last_number + n).collect())];
        model.last_number += 3;
        let shot = Shot { name: model.last_number, files };
        let put = vault.begin_put().map_err(refused)?;
        let mut client = Client::new(put, shot.clone(), bench.setup.key.clone());
        match client.put_all(vault) {
            Ok(snapshot) => drop(model.live.insert(snapshot, shot)),
            Err(VaultError::Full { .. } | VaultError::Snapshots(_)) => {
                model.end(&shot);
                vault.drop_put(put).map_err(refused)?;
            }
            Err(error) => return Err(refused(error)),
        }
        damaged::restore_all(vault, model)?;
        if rng.chance(40) {
            sanitize(vault)?;
            damaged::restore_all(vault, model)?;
        }
    }
    sanitize(vault)?;
    damaged::restore_all(vault, model)?;
    let verified = vault.verify(&mut |_, _| true).map_err(refused)?;
    verified.faults.into_iter().next().map_or(Ok(()), |fault| Err(refused(fault)))
}

fn sanitize(vault: &mut Vault<'_>) -> Judged {
    damaged::sanitize(vault, None)?;
    match vault.status().owed {
        0 => Ok(()),
        owed => Err(overdue(format!("{owed} forgets are owed, although nothing is damaged any more"))),
    }
}
