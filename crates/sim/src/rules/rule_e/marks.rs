//! Marks on trial: lives of an ext2 whose owners are known, below the watcher of the product.
//!
//! The guest writes real ext2: one folder has the flag `s`, files are created in it and outside, marked later, moved in,
//! rewritten, deleted, and use the same blocks one after the other. Whatever is dirty is written within [`DELAY_MS`], in any order. The
//! guest crashes and is mended, and the server stops and starts.
//!
//! The judge knows of each block on the disk whether its content, or what is left below it, is of a marked file
//! (`docs/decisions/0025-marks.md`):
//! - such a block is never plain, and nothing but its destruction ends that;
//! - when everything was deleted and unmounted, all of it has been destroyed;
//! - what an unmarked file owns is plain in the end, mostly.

mod guest;
pub(crate) mod image;

use crate::machine::rng::Rng;
use guest::{Guest, Put};
use image::{BLOCK_BYTES, BLOCKS, DATA, Disk, SUPER, place};
use quietus_core::base::units::Millis;
use quietus_core::watch::{Attached, Class, Content, Moment, Observation, Observer, Scope, Verdict, Watcher};
use quietus_detect::Watch;
use quietus_detect::formats::ext2::probe;
use quietus_detect::formats::format::Block;
use quietus_detect::rules::options::{Options, Sensitive};

/// Longest time, in milliseconds, until the guest writes what is dirty.
const DELAY_MS: u64 = 2000;
/// Longest step of time, in milliseconds.
const STEP_MS: u64 = 400;
const STEPS: usize = 400;

fn options() -> Options {
    Options { reorder_window_ms: 10, settle_ms: 5000, sensitive: Sensitive::Marked, ..Options::default() }
}

/// Content of marked files in a block.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
struct Secret {
    /// The present content is of a marked file.
    present: bool,
    /// Content of a marked file below the present content was not destroyed.
    below: bool,
}

struct Life {
    rng: Rng,
    disk: Disk,
    secrets: [Secret; BLOCKS as usize],
    watch: Watch,
    now: u64,
    /// One overwrite does not destroy what is below.
    has_layers: bool,
    /// Blocks of unmarked files: those that are plain in the end, and all.
    plain: (u64, u64),
}

/// Plays the life of `seed`. Returns the number of blocks of unmarked files that were plain in the end, and of all.
///
/// # Errors
/// The first promise that was broken.
pub fn lived(seed: u64) -> Result<(u64, u64), String> {
    let mut rng = Rng::new(seed);
    let has_layers = rng.chance(50);
    let watch = Watch::new(u64::from(BLOCKS) * BLOCK_BYTES as u64, vec![probe], options());
    let secrets = [Secret::default(); BLOCKS as usize];
    let mut life = Life { rng, disk: Disk::new(), secrets, watch, now: 1, has_layers, plain: (0, 0) };
    // The entries of the marked folder are its content.
    life.secrets[image::FOLDER_BLOCK as usize].present = true;
    life.look();
    let mut guest = Guest::mount(&life.disk);
    life.put(guest.mounted())?;
    for step in 0..STEPS {
        life.step(&mut guest).map_err(|broken| format!("seed {seed}, step {step}: {broken}"))?;
    }
    life.end(guest).map_err(|broken| format!("seed {seed}, at the end: {broken}"))?;
    Ok(life.plain)
}

impl Life {
    fn observe(&mut self, observation: Observation<'_>) {
        let at = Moment { now: Millis(self.now), clients: 1, attached: Attached::Direct };
        self.watch.observe(at, observation);
    }

    fn read_all(&mut self) {
        while let Some(extent) = self.watch.wants() {
            let content = self.disk.at(extent).to_vec();
            self.observe(Observation::Given { extent, content: Some(&content) });
        }
    }

    /// The watcher finds the file system.
    fn look(&mut self) {
        for _ in 0..4 {
            self.observe(Observation::Tick);
            self.read_all();
            self.now += 500;
        }
    }

    /// A write of a whole block.
    fn put(&mut self, Put { block, content, is_secret }: Put) -> Result<(), String> {
        if block != SUPER && self.rng.chance(2) {
            self.arrives(block, &content);
            self.observe(Observation::Refused { extent: place(block), was_shown: true });
            self.read_all();
            self.judge()?;
            // Content that cannot be written may be given up.
            if DATA.contains(&block) && block != image::FOLDER_BLOCK && self.rng.chance(50) {
                return Ok(());
            }
        }
        let secret = self.secrets[block as usize];
        let is_destroyed = self.arrives(block, &content);
        self.disk.put(block, &content);
        if DATA.contains(&block) {
            let below = !is_destroyed && (secret.below || secret.present);
            self.secrets[block as usize] = Secret { present: is_secret, below };
        }
        if self.rng.chance(80) {
            self.read_all();
            return self.judge();
        }
        Ok(())
    }

    /// The watcher sees a write. Returns whether what lies in `block` is destroyed before.
    fn arrives(&mut self, block: Block, content: &[u8]) -> bool {
        let extent = place(block);
        let is_destroyed =
            if self.has_layers { !self.watch.take_suspicious(extent).is_empty() } else { true };
        let content = Content::Bytes(content);
        self.observe(Observation::Arrived { extent, content });
        for old_extent in self.watch.needs(extent) {
            let old = self.disk.at(old_extent).to_vec();
            self.observe(Observation::Overwriting { extent, content, old_extent, old: &old });
        }
        is_destroyed
    }

    /// Checks that no content of a marked file is plain.
    fn judge(&self) -> Result<(), String> {
        for block in DATA {
            let secret = self.secrets[block as usize];
            if secret != Secret::default() && self.class(block) == Class::Plain {
                return Err(format!("block {block} is plain: {secret:?}"));
            }
        }
        Ok(())
    }

    fn class(&self, block: Block) -> Class {
        self.watch.classes(place(block)).first().map_or(Class::Sensitive, |it| it.1)
    }

    fn step(&mut self, guest: &mut Guest) -> Result<(), String> {
        self.now += self.rng.below(STEP_MS);
        guest.late(self.now, DELAY_MS).into_iter().try_for_each(|it| self.write_back(guest, it))?;
        match self.rng.below(100) {
            0..50 => guest.act(&mut self.rng, self.now),
            50..85 => {
                if let Some(block) = guest.any_dirty(&mut self.rng) {
                    self.write_back(guest, block)?;
                }
            }
            85..95 => self.verdicts(guest, false)?,
            95..97 => self.restart(),
            97 => self.crash(guest)?,
            _ => {
                self.flush(guest)?;
                self.put(guest.unmounted())?;
                if self.rng.chance(50) {
                    self.look();
                }
                self.put(guest.mounted())?;
            }
        }
        if self.rng.chance(50) {
            self.read_all();
        }
        Ok(())
    }

    fn write_back(&mut self, guest: &mut Guest, block: Block) -> Result<(), String> {
        let Some(put) = guest.write_back(block) else { return Ok(()) };
        self.put(put)?;
        self.read_all();
        // A mark that is on the disk covers what its file has there.
        for covered in guest.newly_covered(block) {
            self.secrets[covered as usize].present = true;
        }
        self.judge()
    }

    fn flush(&mut self, guest: &mut Guest) -> Result<(), String> {
        while let Some(block) = guest.any_dirty(&mut self.rng) {
            self.write_back(guest, block)?;
        }
        Ok(())
    }

    /// Verdicts are proven and carried out.
    fn verdicts(&mut self, guest: &Guest, all: bool) -> Result<(), String> {
        self.read_all();
        self.observe(Observation::Cut);
        self.observe(Observation::Proven);
        let layers = self.has_layers;
        while let Some((extent, verdict)) = self.watch.verdict(Scope { layers, all, is_busy: &|_| false }) {
            let blocks =
                (extent.start.0 / BLOCK_BYTES as u64) as Block..(extent.end() / BLOCK_BYTES as u64) as Block;
            for block in blocks {
                if self.class(block) == Class::Plain {
                    return Err(format!("block {block} is plain, and {verdict:?}"));
                }
                let secret = &mut self.secrets[block as usize];
                secret.below = false;
                if verdict == Verdict::Dead {
                    secret.present = false;
                    if guest.has_on_disk(block) {
                        return Err(format!("block {block} is live, and dead"));
                    }
                    self.disk.put(block, &[0xDD; BLOCK_BYTES]);
                }
            }
        }
        self.judge()
    }

    /// The server stops in order, or is killed, and starts again.
    fn restart(&mut self) {
        let view = self.watch.view().filter(|_| self.rng.chance(70));
        self.watch = Watch::new(u64::from(BLOCKS) * BLOCK_BYTES as u64, vec![probe], options());
        view.into_iter().for_each(|view| self.watch.restore(view));
        self.look();
    }

    /// The guest loses its memory; a check mends the file system; it is mounted again.
    fn crash(&mut self, guest: &mut Guest) -> Result<(), String> {
        *guest = Guest::mended(guest, &self.disk);
        if self.rng.chance(70) {
            self.flush(guest)?;
            self.put(guest.checked())?;
        }
        self.put(guest.mounted())?;
        self.judge()
    }

    /// Time passes, with writes that mean nothing to the rules.
    fn rest(&mut self) -> Result<(), String> {
        (0..60).try_for_each(|_| {
            self.now += 300;
            self.put(Guest::touched())
        })
    }

    /// Everything is deleted, and unmounted. Then nothing of a marked file is left but the folder's own block.
    fn end(&mut self, mut guest: Guest) -> Result<(), String> {
        self.flush(&mut guest)?;
        self.rest()?;
        let owned = guest.plain_blocks();
        self.flush(&mut guest)?;
        self.verdicts(&guest, false)?;
        self.rest()?;
        self.read_all();
        let is_certain = |block: &&Block| self.secrets[**block as usize] == Secret::default();
        let rest: Vec<Block> = owned.iter().filter(is_certain).copied().collect();
        let settled = rest.iter().filter(|block| self.class(**block) == Class::Plain);
        self.plain = (settled.count() as u64, rest.len() as u64);
        guest.delete_all(self.now);
        self.flush(&mut guest)?;
        self.put(guest.unmounted())?;
        self.look();
        for _ in 0..3 {
            self.verdicts(&guest, true)?;
            self.look();
        }
        let left = |block: &Block| {
            *block != image::FOLDER_BLOCK && self.secrets[*block as usize] != Secret::default()
        };
        let wrong = |it| Err(format!("block {it} was not destroyed: {:?}", self.secrets[it as usize]));
        { DATA }.find(left).map_or(Ok(()), wrong)
    }
}
