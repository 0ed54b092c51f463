//! The lives of a vault: each begins with a start and ends with a cut of the power, or with the death of its process.

mod catalog;
mod changing;
mod damaged;

use std::collections::BTreeSet;

use quietus_vault::catalog::{Layout, LogHead, Owed};
use quietus_vault::chunk::{KEY_BYTES, VaultKey};
use quietus_vault::client::{read_file, read_folder};
use quietus_vault::sanitize::Progress;
use quietus_vault::tree::Kind;
use quietus_vault::vault::Setup;
use quietus_vault::{PutId, SnapshotId, Vault, VaultError, VaultId};

use super::Figures;
use super::client::Client;
use super::forensic::{examine, examine_catalog};
use super::items::{Item, Shot};
use super::model::{Model, Pending};
use crate::machine::medium::{Fault, FaultKind, Power, SimMedium};
use crate::machine::rng::Rng;
use crate::verdict::{Judged, Violation, bad_reply, broken, overdue, unrecorded};
use changing::Removal;

/// Puts at once.
const CLIENTS_MAX: usize = 3;
/// Calls after which a sanitization that is left alone is given up.
const PATIENCE: u64 = 20_000;

/// Media and choices of a history.
struct Bench {
    catalog: SimMedium,
    pool: SimMedium,
    power: Power,
    layout: Layout,
    setup: Setup,
}

impl Bench {
    fn new(seed: u64, rng: &mut Rng) -> Bench {
        let slots = rng.range(14, 40) as u32;
        let slot_bytes = rng.pick(&[12 << 10, 16 << 10, 32 << 10]);
        let layout = Layout { vault: VaultId([3; 16]), slots, slot_bytes, half_bytes: 16 << 10 };
        let (policy, passes) = rng.pick(&[("clear", 1), ("random,zero", 2), ("random,ff", 3)]);
        let setup = Setup {
            key: VaultKey::new(&[7; KEY_BYTES]),
            policy: policy.parse().expect("a policy"),
            recent_entries_max: rng.range(4, 80) as usize,
            entropy: [9; 32],
        };
        let power = Power::default();
        let catalog = SimMedium::new(layout.bytes(), 1, false, power.clone());
        let pool = SimMedium::new(layout.pool_bytes(), passes, false, power.clone());
        catalog.reseed(seed);
        pool.reseed(!seed);
        Bench { catalog, pool, power, layout, setup }
    }

    fn open(&self) -> Result<Vault<'_>, VaultError> {
        Vault::open(&self.catalog, &self.pool, self.layout, self.setup.clone())
    }

    fn cut(&self) {
        self.catalog.cut_power();
        self.pool.cut_power();
        self.power.restore();
    }

    /// Plans trouble for a life: the power fails, or a medium does.
    fn plan_trouble(&self, rng: &mut Rng) {
        match rng.below(100) {
            0..60 => self.power.light_fuse(rng.pick(&[30, 200, 800]) + rng.below(200) as u32),
            60..85 => {
                let kind = rng.pick(&[FaultKind::Read, FaultKind::Write, FaultKind::Sync]);
                rng.pick(&[&self.pool, &self.catalog]).plan(Fault { kind, after: rng.below(300) as u32 });
            }
            _ => {}
        }
    }

    /// The media work again; what a failed sync has lost stays lost.
    fn heal(&self) {
        self.pool.heal();
        self.catalog.heal();
    }
}

/// Why a life ends.
enum Stop {
    Power,
    /// A medium has failed.
    Fault,
    Broken(Violation),
}

impl From<Violation> for Stop {
    fn from(violation: Violation) -> Stop {
        Stop::Broken(violation)
    }
}

/// A vault that is open.
struct Life<'m, 'w> {
    bench: &'m Bench,
    vault: Vault<'m>,
    model: &'w mut Model,
    figures: &'w mut Figures,
    clients: Vec<Client>,
    removals: Vec<Removal>,
    /// When the sanitization under way began.
    began: u64,
    /// Whether that sanitization refuses puts.
    is_read_only: bool,
}

/// Lets the history of `seed` happen.
pub fn run(seed: u64) -> Result<Figures, Violation> {
    let mut rng = Rng::new(seed);
    let bench = Bench::new(seed, &mut rng);
    let (mut model, mut figures) = (Model::default(), Figures::default());
    let created = Vault::create(&bench.catalog, &bench.pool, bench.layout, bench.setup.clone());
    created.map_err(refused)?;
    let mut older = vec![0; catalog::table(&bench).len as usize];
    for _ in 0..rng.range(1, 6) {
        if rng.chance(50) {
            older = bench.catalog.peek(catalog::table(&bench), <[u8]>::to_vec);
        }
        let mut life = start(&bench, &mut model, &mut figures, &mut rng)?;
        bench.plan_trouble(&mut rng);
        let calls = rng.range(50, 900);
        let ended = (0..calls).try_for_each(|_| life.act(&mut rng));
        life.die();
        match ended {
            Err(Stop::Broken(violation)) => return Err(violation),
            Err(Stop::Power) => {
                figures.cuts += 1;
                bench.cut();
            }
            Err(Stop::Fault) => {
                figures.faults += 1;
                bench.heal();
                if rng.chance(50) {
                    bench.cut();
                }
            }
            Ok(()) => {
                bench.power.restore();
                bench.heal();
            }
        }
    }
    let mut life = start(&bench, &mut model, &mut figures, &mut rng)?;
    life.finish(&mut rng)?;
    drop(life);
    if catalog::play(&bench, &mut model, &mut figures, (&mut rng, &older))? {
        damaged::play(&bench, &mut model, &mut figures, &mut rng)?;
    }
    Ok(figures)
}

/// Opens the vault; the power may fail meanwhile.
fn start<'m, 'w>(
    bench: &'m Bench,
    model: &'w mut Model,
    figures: &'w mut Figures,
    rng: &mut Rng,
) -> Result<Life<'m, 'w>, Violation> {
    let vault = loop {
        if rng.chance(20) {
            bench.power.light_fuse(rng.range(1, 8) as u32);
        }
        match bench.open() {
            Ok(vault) => break vault,
            Err(_) if bench.power.is_off() => {
                figures.cuts += 1;
                bench.cut();
            }
            Err(error) => return Err(refused(error)),
        }
    };
    bench.power.restore();
    let (clients, removals, began) = (Vec::new(), Vec::new(), model.now);
    let mut life = Life { bench, vault, model, figures, clients, removals, began, is_read_only: false };
    life.reconcile()?;
    life.examine_receipts()?;
    Ok(life)
}

fn refused(error: VaultError) -> Violation {
    bad_reply(error.to_string())
}

impl<'m> Life<'m, '_> {
    /// The call that the power cut short was done, or not; nothing else has changed.
    fn reconcile(&mut self) -> Judged {
        let found: Vec<SnapshotId> = self.vault.snapshots().map(|(snapshot, _)| snapshot).collect();
        let held: BTreeSet<SnapshotId> = self.vault.holds().map(|(_, snapshot)| snapshot).collect();
        match self.model.pending.take() {
            Some(Pending::Commit(shot)) => match found.iter().find(|it| !self.model.live.contains_key(it)) {
                Some(snapshot) => drop(self.model.live.insert(*snapshot, shot)),
                None => self.model.end(&shot),
            },
            Some(Pending::Forget(snapshot)) if !found.contains(&snapshot) => self.model.forget(snapshot),
            Some(Pending::Replace(snapshot, shot)) => self.reconcile_replaced(snapshot, shot)?,
            Some(Pending::Hold) => self.model.held = held.clone(),
            _ => {}
        }
        if self.model.held != held {
            return Err(broken(format!("holds of {held:?} after a start, not {:?}", self.model.held)));
        }
        if !self.model.live.keys().eq(&found) {
            let wanted: Vec<_> = self.model.live.keys().collect();
            return Err(broken(format!("snapshots {found:?} after a start, not {wanted:?}")));
        }
        found.into_iter().try_for_each(|snapshot| self.restore(snapshot).map_err(Violation::from))
    }

    fn ask<T>(&mut self, call: impl FnOnce(&mut Vault<'m>) -> Result<T, VaultError>) -> Result<T, Stop> {
        let result = call(&mut self.vault);
        self.check(result)
    }

    fn check<T>(&self, result: Result<T, VaultError>) -> Result<T, Stop> {
        result.map_err(|error| self.why().unwrap_or_else(|| Stop::Broken(refused(error))))
    }

    /// The failure of a medium that made a call fail.
    fn why(&self) -> Option<Stop> {
        if self.bench.power.is_off() {
            return Some(Stop::Power);
        }
        let fired = [self.bench.pool.take_fired(), self.bench.catalog.take_fired()];
        fired.iter().any(|fired| !fired.is_empty()).then_some(Stop::Fault)
    }

    /// One call of the vault, or an act of a client that takes few calls.
    fn act(&mut self, rng: &mut Rng) -> Result<(), Stop> {
        self.model.now += 1;
        self.figures.steps += 1;
        match rng.below(100) {
            0..3 => self.begin_put(rng)?,
            3..55 => self.step_client(rng)?,
            55..56 => self.drop_client(rng)?,
            56..58 => self.forget(rng)?,
            58..61 => self.begin(rng)?,
            61..88 => self.sanitize()?,
            88..94 => self.any_snapshot(rng).map_or(Ok(()), |snapshot| self.restore(snapshot))?,
            94..95 => self.verify()?,
            95 => self.ask(|vault| vault.recorded(rng.below(3), LogHead::default()))?,
            97 => self.hold(rng)?,
            98 => self.remove_file(rng)?,
            96 if rng.chance(5) => self.cancel()?,
            _ => {
                self.bench.pool.destage(rng.below(40));
                self.bench.catalog.destage(rng.below(4));
            }
        }
        if self.bench.power.is_off() { Err(Stop::Power) } else { Ok(()) }
    }

    fn begin_put(&mut self, rng: &mut Rng) -> Result<(), Stop> {
        if self.clients.len() >= CLIENTS_MAX {
            return Ok(());
        }
        let put = match self.vault.begin_put() {
            Err(VaultError::ReadOnly) if self.is_read_only => return Ok(()),
            put => self.check(put)?,
        };
        if rng.chance(20) {
            return self.begin_lazy(put, rng);
        }
        let mut last = self.model.last_number;
        let shot = Shot::some(rng, &self.model.known(), &mut last);
        self.model.last_number = last;
        let mut client = Client::new(put, shot, self.bench.setup.key.clone());
        if rng.chance(20) {
            self.model.last_number += 1;
            client.drafts.push(self.model.last_number);
        }
        self.clients.push(client);
        Ok(())
    }

    /// Begins a put that relies on the folder of a snapshot, or ends it.
    fn begin_lazy(&mut self, put: PutId, rng: &mut Rng) -> Result<(), Stop> {
        if let Some(snapshot) = self.any_snapshot(rng) {
            let folder = self.ask(|vault| vault.snapshot(snapshot))?.folder;
            self.model.last_number += 1;
            let shot = Shot { name: self.model.last_number, ..self.model.live[&snapshot].clone() };
            let key = self.bench.setup.key.clone();
            match Client::lazy(&mut self.vault, put, (shot, folder), key) {
                Ok(Some(client)) => {
                    self.clients.push(client);
                    return Ok(());
                }
                Ok(None) => {
                    return Err(broken(format!("the vault does not have all of {snapshot:?}")).into());
                }
                // The put has not begun.
                Err(VaultError::Snapshots(_)) => {}
                Err(VaultError::Full { .. }) => drop(self.model.orphans.insert(put)),
                Err(error) => return self.check(Err(error)),
            }
        }
        self.ask(|vault| vault.drop_put(put))
    }

    fn step_client(&mut self, rng: &mut Rng) -> Result<(), Stop> {
        if self.clients.is_empty() {
            return Ok(());
        }
        let index = rng.index(self.clients.len());
        let stepped = self.clients[index].step(&mut self.vault);
        match stepped {
            // A client that relies on a folder takes its time to commit.
            Ok(true) if self.clients[index].folder.is_some() && rng.chance(90) => Ok(()),
            Ok(true) => self.commit(index),
            Ok(false) => Ok(()),
            Err(VaultError::Full { .. } | VaultError::Snapshots(_)) => self.give_up(index),
            Err(error) => self.check(Err(error)),
        }
    }

    fn commit(&mut self, index: usize) -> Result<(), Stop> {
        let committed = self.clients[index].commit(&mut self.vault);
        if let Err(VaultError::Full { .. } | VaultError::Snapshots(_)) = committed {
            return self.give_up(index);
        }
        let client = self.clients.swap_remove(index);
        self.note_drafts(&client);
        match committed {
            Ok(snapshot) => {
                self.figures.commits += 1;
                self.figures.shared += client.shared;
                self.model.live.insert(snapshot, client.shot);
                Ok(())
            }
            Err(error) => {
                self.model.pending = Some(Pending::Commit(client.shot));
                self.check(Err(error))
            }
        }
    }

    fn give_up(&mut self, index: usize) -> Result<(), Stop> {
        self.figures.full += 1;
        self.end_client(index)
    }

    fn drop_client(&mut self, rng: &mut Rng) -> Result<(), Stop> {
        if self.clients.is_empty() {
            return Ok(());
        }
        self.end_client(rng.index(self.clients.len()))
    }

    fn end_client(&mut self, index: usize) -> Result<(), Stop> {
        let client = self.clients.swap_remove(index);
        self.ends(&client);
        self.ask(|vault| vault.drop_put(client.put))
    }

    fn any_snapshot(&self, rng: &mut Rng) -> Option<SnapshotId> {
        let all: Vec<SnapshotId> = self.model.live.keys().copied().collect();
        (!all.is_empty()).then(|| rng.pick(&all))
    }

    fn begin(&mut self, rng: &mut Rng) -> Result<(), Stop> {
        if self.vault.is_sanitizing() {
            return Ok(());
        }
        self.ask(Vault::begin_sanitization)?;
        self.began = self.model.now;
        self.is_read_only = rng.chance(20) && self.vault.refuse_puts().is_ok();
        Ok(())
    }

    fn sanitize(&mut self) -> Result<(), Stop> {
        if !self.vault.is_sanitizing() {
            return Ok(());
        }
        let copied = self.vault.sanitization_figures().map_or(0, |figures| figures.done.live);
        if self.ask(|vault| vault.step_sanitization())? == Progress::Done {
            self.figures.sanitized += 1;
            self.figures.copied += copied;
            // An item that died in the very call before may have died after CP0 only if that call was the first step.
            let dead = self.model.dead_since(self.began.saturating_sub(1), &self.running());
            self.figures.gone += dead.len() as u64;
            self.examine(&dead)?;
            self.examine_receipts()?;
            examine_catalog(&self.bench.catalog, self.model.last_number)?;
        }
        Ok(())
    }

    fn running(&self) -> Vec<&Shot> {
        let removals = self.removals.iter().map(|removal| &removal.left);
        self.clients.iter().map(|client| &client.shot).chain(removals).collect()
    }

    fn examine(&self, dead: &[Item]) -> Judged {
        examine([&self.bench.pool, &self.bench.catalog], &self.bench.setup.key, dead)
    }

    /// A receipt is of a forget, and of what that left behind nothing is there any more.
    fn examine_receipts(&mut self) -> Judged {
        let receipts: Vec<Owed> = self.vault.receipts().map(|receipt| receipt.owed).collect();
        for owed in receipts {
            let snapshot = match owed {
                Owed::Snapshot(snapshot) => snapshot,
                Owed::Paths(snapshot) => {
                    self.model.pruned.remove(&snapshot);
                    continue;
                }
                Owed::Put(put) => {
                    self.model.orphans.remove(&put);
                    continue;
                }
            };
            let Some((time, shot)) = self.model.forgotten.get(&snapshot) else {
                let what = format!("a receipt for {snapshot:?}, which was not forgotten");
                return Err(unrecorded(what));
            };
            if self.model.receipts.contains(&snapshot) {
                continue;
            }
            let dead = self.model.dead_since(*time, &self.running());
            let dead: Vec<Item> = shot.items().filter(|item| dead.contains(item)).collect();
            self.examine(&dead)?;
            self.model.receipts.insert(snapshot);
        }
        Ok(())
    }

    fn restore(&mut self, snapshot: SnapshotId) -> Result<(), Stop> {
        let found = restored(&mut self.vault, snapshot);
        let found = found.map_err(|error| {
            let what = format!("{snapshot:?} cannot be restored: {error}");
            self.why().unwrap_or_else(|| Stop::Broken(broken(what)))
        })?;
        self.figures.restores += 1;
        Ok(compare(snapshot, &self.model.live[&snapshot], found)?)
    }

    fn verify(&mut self) -> Result<(), Stop> {
        let verified = self.ask(|vault| vault.verify(&mut |_, _| true))?;
        match verified.faults.first() {
            None => Ok(()),
            // A medium that fails to read makes a fault of it.
            Some(fault) => Err(self.why().unwrap_or_else(|| Stop::Broken(refused(fault.clone())))),
        }
    }

    fn cancel(&mut self) -> Result<(), Stop> {
        if !self.vault.is_sanitizing() {
            return Ok(());
        }
        self.ask(|vault| vault.cancel_sanitization())
    }

    /// The end of a process: puts under way are gone.
    fn die(&mut self) {
        self.model.now += 1;
        std::mem::take(&mut self.clients).iter().for_each(|client| self.ends(client));
        std::mem::take(&mut self.removals).iter().for_each(|removal| self.end_without(removal));
        self.model.now += 1;
    }

    /// Left alone, the vault meets all that it owes.
    fn finish(&mut self, rng: &mut Rng) -> Judged {
        self.model.now += 2;
        self.begin(rng)?;
        for _ in 0..PATIENCE {
            if !self.vault.is_sanitizing() {
                break;
            }
            self.sanitize()?;
        }
        let status = self.vault.status();
        let without = self.model.forgotten.keys().find(|it| !self.model.receipts.contains(it));
        let orphan = (self.model.orphans.first(), self.model.pruned.first());
        if self.vault.is_sanitizing() || status.owed > 0 || without.is_some() || orphan != (None, None) {
            let what = format!(
                "left alone, the vault still owes: {status:?}, no receipt for {without:?}, {orphan:?}"
            );
            return Err(overdue(what));
        }
        self.verify().map_err(Violation::from)?;
        let all: Vec<SnapshotId> = self.model.live.keys().copied().collect();
        all.into_iter().try_for_each(|snapshot| self.restore(snapshot).map_err(Violation::from))
    }
}

impl From<Stop> for Violation {
    fn from(stop: Stop) -> Violation {
        match stop {
            Stop::Broken(violation) => violation,
            Stop::Power | Stop::Fault => broken("a medium failed, and no failure was planned".into()),
        }
    }
}

/// Objects if the files of a snapshot are not those that were put.
fn compare(snapshot: SnapshotId, shot: &Shot, found: Vec<NamedContent>) -> Judged {
    match shot.content() == found {
        true => Ok(()),
        false => Err(broken(format!("{snapshot:?} is not restored as it was put"))),
    }
}

/// A file: its name and its content.
type NamedContent = (Vec<u8>, Vec<u8>);

/// The files of a snapshot, by name.
fn restored(vault: &mut Vault<'_>, snapshot: SnapshotId) -> Result<Vec<NamedContent>, VaultError> {
    let folder = vault.snapshot(snapshot)?.folder;
    let mut files = Vec::new();
    for node in read_folder(vault, &folder)? {
        let mut content = Vec::new();
        if let Kind::File(recipe) = &node.kind {
            read_file::<VaultError>(vault, recipe, &mut |_, bytes| {
                content.extend(bytes.unwrap_or_default());
                Ok(())
            })?;
        }
        files.push((node.name, content));
    }
    Ok(files)
}
