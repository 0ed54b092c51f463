//! The recorder of a subject that is no disk: snapshots of a vault, which expire.

use super::*;
use crate::evidence::audit_log::{CURRENT, Line};
use crate::host::directory::make_key;
use serde::Deserialize;
use std::path::PathBuf;

/// Why a snapshot's chunk died.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
struct Expired {
    snapshot: u32,
}

/// How a chunk was destroyed.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
enum Gone {
    KeyDestroyed,
    Zeroed,
}

type VaultRecorder = Recorder<Expired, Gone>;
type VaultEntry = Entry<Expired, Gone>;

struct Vault {
    dir: tempfile::TempDir,
    /// The last message.
    told: Mutex<Option<Progress>>,
}

impl Vault {
    fn new() -> Self {
        let dir = tempfile::tempdir().expect("a directory");
        make_key(dir.path()).expect("a key");
        Self { dir, told: Mutex::default() }
    }

    fn log(&self) -> PathBuf {
        self.dir.path().join(CURRENT)
    }

    fn told(&self) -> Option<Progress> {
        self.told.lock().expect("no test panicked").clone()
    }

    /// Runs `act` while the recorder writes, above the end that the vault was told last.
    fn run<T>(&self, access: Access, act: impl FnOnce(&VaultRecorder, Found) -> T) -> T {
        let known = match self.told() {
            Some(Progress::Recorded(_, head)) => head,
            _ => Head::default(),
        };
        let directory = Directory::open(self.dir.path(), access).expect("no other process has it open");
        let limits = Limits::of_bytes(1 << 30);
        let (recorder, found) =
            VaultRecorder::open(&directory, access, limits, known).expect("it can be read");
        std::thread::scope(|scope| {
            scope.spawn(|| recorder.write(|it| *self.told.lock().expect("no test panicked") = Some(it)));
            let _closes = Closes(&recorder);
            act(&recorder, found)
        })
    }

    fn entries(&self) -> Vec<VaultEntry> {
        let text = std::fs::read_to_string(self.log()).expect("a text");
        let line = |line| serde_json::from_str::<Line<VaultEntry>>(line).expect("a line of a vault").event;
        text.lines().map(line).collect()
    }
}

#[test]
fn a_subject_that_is_no_disk_keeps_its_record_in_its_own_kinds() {
    let vault = Vault::new();
    let end = vault.run(Access::ReadWrite, |recorder, found| {
        assert_eq!((found.receipts, found.is_stopped), (0, false));
        recorder.note(Entry::Opened);
        recorder.died(Expired { snapshot: 3 }, 0, 4096);
        recorder.died(Expired { snapshot: 4 }, 8192, 4096);
        recorder.receipt(0, Gone::KeyDestroyed, 0, 4096);
        recorder.receipt(1, Gone::Zeroed, 8192, 4096);
        recorder.note(Entry::Stopped);
        let end = recorder.flush().expect("it can be written");
        assert_eq!(recorder.read(Head::default(), &mut |_| {}).expect("a chain").head, end);
        end
    });
    assert_eq!(vault.told(), Some(Progress::Recorded(2, end.clone())));
    let (mut died, mut gone) = (Vec::new(), Vec::new());
    for entry in vault.entries() {
        match entry {
            Entry::Died(batch) => died.extend(batch.all().map(|it| (it.kind.snapshot, it.start, it.len))),
            Entry::Receipt { batch, through } => {
                assert_eq!(through, 2);
                gone.extend(batch.all().map(|it| (*it.kind, it.start, it.len)));
            }
            _ => {}
        }
    }
    assert_eq!(died, [(3, 0, 4096), (4, 8192, 4096)]);
    assert_eq!(gone, [(Gone::KeyDestroyed, 0, 4096), (Gone::Zeroed, 8192, 4096)]);
    vault.run(Access::ReadOnly, |recorder, _| {
        recorder.died(Expired { snapshot: 5 }, 0, 1);
        assert_eq!(recorder.flush().expect("nothing is to be written"), end);
        assert_eq!(recorder.read(end.clone(), &mut |_| {}).expect("a chain").head, end);
    });
    // A crash may have kept the vault from knowing what its log has.
    *vault.told.lock().expect("no test panicked") = None;
    vault.run(Access::ReadWrite, |_, found| assert_eq!((found.receipts, found.is_stopped), (2, true)));
}
