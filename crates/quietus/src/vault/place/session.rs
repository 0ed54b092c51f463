//! A vault that is open here, with its audit log.

use crate::base::rfc3339::now_ms;
use crate::evidence::audit_log::{AuditLog, CheckError, Checked, Files, Head, HostDirectory, Limits};
use crate::vault::place::record::{Entry, Seen};
use crate::vault::{Error, VaultDir};
use quietus_vault::catalog::{LogHead, Owed};
use quietus_vault::{ForgetId, SnapshotId, Vault};

/// Bytes that the audit log takes at most.
const LOG_BYTES_MAX: u64 = 1 << 30;

/// Longest reason of a hold: a line of the audit log has to take it.
const WHY_BYTES_MAX: usize = 4096;
/// Most snapshots that a line of the audit log names.
const LINE_SNAPSHOTS_MAX: usize = 10_000;

/// A vault that is open here.
pub struct Session<'d> {
    /// Its directory.
    pub dir: &'d VaultDir,
    /// The vault.
    pub vault: Vault<'d>,
    /// `None` where the vault can only be read.
    log: Option<AuditLog<HostDirectory>>,
}

impl<'d> Session<'d> {
    /// Opens the vault and its audit log.
    pub fn open(dir: &'d VaultDir) -> Result<Self, Error> {
        let vault = dir.vault()?;
        match vault.mended() {
            None => {}
            Some(0) => tracing::warn!(
                "a part of the file catalog was damaged, and was repaired; check the medium of that file"
            ),
            Some(slots) => tracing::warn!(
                slots,
                "both copies of a part of the file catalog were damaged; what the slots hold was read from the pool; \
                 check the medium the catalog lies on"
            ),
        }
        if dir.is_read_only() {
            return Ok(Self { dir, vault, log: None });
        }
        let LogHead { lines, hash } = vault.log_head();
        let known = Head::new(lines, hash);
        let mut receipts = 0;
        let mut see = |line: &[u8]| {
            let seen = serde_json::from_slice::<Seen>(line);
            receipts += u64::from(seen.is_ok_and(|it| it.n >= known.lines && it.event == "receipt"));
        };
        let path = HostDirectory(dir.directory().path().into());
        let limits = Limits::of_bytes(LOG_BYTES_MAX);
        let log = AuditLog::open(path, limits, &known, now_ms, &mut see).map_err(Error::Record)?;
        let is_known = *log.head() == known;
        let mut session = Self { dir, vault, log: Some(log) };
        if !is_known {
            // A crash came between the lines and the note of them.
            session.tell_vault(receipts)?;
        }
        session.record_receipts()?;
        Ok(session)
    }

    /// Puts receipts on record that are not there yet.
    pub fn record_receipts(&mut self) -> Result<(), Error> {
        let receipts: Vec<Entry> = self.vault.receipts().map(|it| Entry::Receipt(it.into())).collect();
        if receipts.is_empty() {
            return Ok(());
        }
        self.append(&receipts, receipts.len() as u64)
    }

    /// Forgets snapshots, because `who` asks for it.
    pub fn forget(&mut self, snapshots: &[SnapshotId], who: &str) -> Result<Vec<u64>, Error> {
        let forgets = self.vault.forget(snapshots)?;
        self.note_forgets(&forgets, who)?;
        Ok(forgets.into_iter().map(|forget| forget.0).collect())
    }

    /// Holds snapshots, for the reason `why`.
    pub fn hold(
        &mut self,
        name: &str,
        snapshots: &[SnapshotId],
        (why, who): (&str, &str),
    ) -> Result<(), Error> {
        if why.len() > WHY_BYTES_MAX {
            let what = format!("--why has {} bytes; use at most {WHY_BYTES_MAX}", why.len());
            return Err(Error::Invalid(what));
        }
        self.vault.hold(name, snapshots)?;
        let mut snapshots: Vec<u64> = snapshots.iter().map(|it| it.0).collect();
        snapshots.sort_unstable();
        snapshots.dedup();
        let entry =
            |snapshots| Entry::Held { name: name.into(), snapshots, who: who.into(), why: why.into() };
        self.note(&in_lines(&snapshots).map(entry).collect::<Vec<_>>())
    }

    /// Releases the holds of that name; the snapshots that they kept.
    pub fn release(&mut self, name: &str, who: &str) -> Result<Vec<u64>, Error> {
        let snapshots: Vec<u64> = self.vault.release(name)?.into_iter().map(|it| it.0).collect();
        let entry = |snapshots| Entry::Released { name: name.into(), snapshots, who: who.into() };
        self.note(&in_lines(&snapshots).map(entry).collect::<Vec<_>>())?;
        Ok(snapshots)
    }

    /// The end of the audit log.
    pub fn log_head(&self) -> Head {
        let LogHead { lines, hash } = self.vault.log_head();
        self.log.as_ref().map_or_else(|| Head::new(lines, hash), |log| log.head().clone())
    }

    /// Checks all lines of the audit log that are kept.
    pub fn check_log(&self) -> Result<Checked, CheckError> {
        let files = Files::open(&HostDirectory(self.dir.directory().path().into()))?;
        files.read(&self.log_head(), &mut |_| {})
    }

    /// Puts on record what was forgotten.
    pub(in super::super) fn note_forgets(&mut self, forgets: &[ForgetId], who: &str) -> Result<(), Error> {
        let owed = self.vault.owed().filter(|(forget, _)| forgets.contains(forget));
        let line = |(ForgetId(forget), of): (ForgetId, Owed)| Entry::Forgets {
            forget,
            of: of.into(),
            who: who.into(),
        };
        let entries: Vec<Entry> = owed.map(line).collect();
        self.note(&entries)
    }

    /// Puts something on record.
    pub(in super::super) fn note(&mut self, entries: &[Entry]) -> Result<(), Error> {
        self.append(entries, 0)
    }

    /// Adds lines to the audit log, of which `receipts` are receipts, and tells the vault of its end.
    fn append(&mut self, entries: &[Entry], receipts: u64) -> Result<(), Error> {
        match &mut self.log {
            Some(log) => log.append(entries).map_err(Error::Record)?,
            None => self.dir.guard_write()?,
        }
        self.tell_vault(receipts)
    }

    fn tell_vault(&mut self, receipts: u64) -> Result<(), Error> {
        let head = self.log_head();
        let head = LogHead { lines: head.lines, hash: head.hash_bytes() };
        Ok(self.vault.recorded(receipts, head)?)
    }
}

/// The snapshots, as lines of the audit log name them.
fn in_lines(snapshots: &[u64]) -> impl Iterator<Item = Vec<u64>> {
    snapshots.chunks(LINE_SNAPSHOTS_MAX).map(<[u64]>::to_vec)
}
