//! The keys of a disk that seals its content. The key file itself is durable at once, and never lost.

use super::disk::DISK;
use quietus_core::sealing::{self, Sealer};
use quietus_seal::keys::{Credential, KeyFile, Stretch};
use quietus_seal::{DiskId, DiskSealer, Generator, Random, SEED_BYTES, Seal, Session};
use std::sync::Mutex;

const PHRASE: Credential<'_> = Credential::Passphrase(b"a simulated phrase");
const QUICK: Stretch = Stretch { memory_kib: 8, passes: 1, lanes: 1 };

/// Random bytes that follow from a seed.
pub(super) struct Draws(Mutex<Generator>);

impl Random for &Draws {
    fn fill(&mut self, out: &mut [u8]) {
        self.0.lock().expect("a generator does not panic").fill(out);
    }
}

/// Keys; see the module's documentation.
pub(super) struct Keys {
    draw: Generator,
    file: Option<KeyFile>,
    sealer: Option<DiskSealer<Draws>>,
}

impl std::fmt::Debug for Keys {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Keys").field("sealer", &self.sealer).finish_non_exhaustive()
    }
}

impl Keys {
    /// No keys yet; those of later sessions follow from `seed`.
    pub(super) fn new(seed: u64) -> Self {
        let mut bytes = [0; SEED_BYTES];
        bytes[..8].copy_from_slice(&seed.to_le_bytes());
        Self { draw: Generator::new(&bytes), file: None, sealer: None }
    }

    /// Begins another session of a disk that seals by `seal`; returns its number.
    pub(super) fn begin_session(&mut self, seal: Seal) -> sealing::Session {
        let draw = &mut self.draw;
        let file = self.file.get_or_insert_with(|| {
            let made = KeyFile::create(DiskId(DISK), &PHRASE, QUICK, draw);
            made.expect("the phrase can open something").0
        });
        let unlocked = file.unlock(&PHRASE).expect("the phrase is right");
        let mut session = [0; 16];
        self.draw.fill(&mut session);
        let (index, _) =
            file.add_session(Session(session), unlocked.newest().0).expect("there is room for a session");
        let draws = Draws(Mutex::new(Generator::seeded_by(&mut self.draw)));
        let sealer = DiskSealer::new(seal, file, unlocked, Some(index), draws);
        self.sealer = Some(sealer.expect("the session was added just now"));
        sealing::Session(index.0)
    }

    /// The sealer of the present session.
    pub(super) fn sealer(&self) -> Option<&dyn Sealer> {
        self.sealer.as_ref().map(|it| it as &dyn Sealer)
    }
}
