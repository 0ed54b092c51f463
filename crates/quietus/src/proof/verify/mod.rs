//! Checks of all files of an open disk.

mod sealed;
mod versions;

use crate::disk::Step;
use crate::evidence::audit_log::Checked;
use crate::open_disk::OpenDisk;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// The state of every file of a disk.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize, JsonSchema)]
pub struct Checks {
    /// Whether nothing is wrong.
    pub ok: bool,
    /// The files, and the parts of the disk.
    pub checks: Vec<CheckLine>,
}

/// The state of a file or a part of a disk.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize, JsonSchema)]
pub struct CheckLine {
    /// The file or the part.
    pub what: String,
    /// Whether nothing is wrong with it.
    pub ok: bool,
    /// The state, or the fault.
    pub detail: String,
}

impl CheckLine {
    /// What was found: a statement of what is right, or the fault.
    fn new(what: &str, found: Result<impl Into<String>, impl Into<String>>) -> Self {
        let ok = found.is_ok();
        Self { what: what.into(), ok, detail: found.map_or_else(Into::into, Into::into) }
    }
}

impl OpenDisk {
    /// Checks every file. The journal, the map of an overlay and the base were checked when the disk was opened, and
    /// `disk.toml` before. With `read_data`, all content of a disk that keeps versions, or is sealed, is opened.
    pub(crate) fn verify(&self, read_data: bool, step: Step<'_>) -> Checks {
        let media = self.engine.check_media().map_err(|error| error.to_string());
        let latched = self.engine.status().latched;
        let mut checks = vec![CheckLine::new("disk.toml", Ok::<_, String>("whole"))];
        let rows = self.dir.media().iter();
        checks.extend(
            rows.filter_map(|row| Some(CheckLine::new(row.name, Ok::<_, String>(row.checked?(&self.dir))))),
        );
        checks.extend([
            CheckLine::new("key", self.dir.key().map(|_| "whole").map_err(|error| error.to_string())),
            CheckLine::new("audit.jsonl", self.verify_record()),
            CheckLine::new("medium", latched.map_or_else(|| media.map(|()| "no failure"), Err)),
        ]);
        checks.extend(versions::verify(self, read_data, &mut *step));
        checks.extend(sealed::verify(self, read_data, step));
        Checks { ok: checks.iter().all(|check| check.ok), checks }
    }

    /// The state of the audit log, in words, or its fault.
    fn verify_record(&self) -> Result<String, String> {
        self.engine.recorder().flush()?;
        let Checked { first, head, files } = self.engine.check_record().map_err(|error| error.to_string())?;
        let from = if first > 0 { format!(" from line {first} on") } else { String::new() };
        Ok(format!("{} lines, chained{from}, in {files} files; ends where the journal says", head.lines))
    }
}
