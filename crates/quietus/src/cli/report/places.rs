//! Reports about places: the disks and vaults of a directory, and what a host can promise.

use super::{Report, bytes};
use crate::disk::StoreKind;
use crate::host::{Finding, Severity};
use crate::output::{Doctor, Homes};
use std::fmt::Write;

impl Report {
    /// Lists disks and vaults.
    pub(crate) fn homes(&self, it: &Homes) {
        self.say(it, |out| {
            if it.homes.is_empty() {
                return writeln!(out, "no disks or vaults; make one with `quietus create` or `quietus vault init`");
            }
            for home in &it.homes {
                let size = home.size_bytes.map_or("-".into(), bytes);
                let state = match (&home.fault, home.served) {
                    (Some(fault), _) => format!("DAMAGED: {fault}"),
                    (None, true) => "served".into(),
                    (None, false) => String::new(),
                };
                let line = format!("{:<10} {size:>12}  {}  {state}", home.kind.name(), home.path.display());
                writeln!(out, "{}", line.trim_end())?;
            }
            Ok(())
        });
    }

    /// Reports what a host can promise.
    pub(crate) fn doctor(&self, it: &Doctor) {
        self.say(it, |out| {
            writeln!(out, "here         {}", it.level)?;
            it.promises.iter().try_for_each(|promise| {
                let store = match promise.store {
                    StoreKind::InPlace => "in-place",
                    StoreKind::Overlay => "overlay",
                    StoreKind::Versions => "versions",
                };
                writeln!(out, "{store:<12} {}: {}", promise.level, promise.how)
            })?;
            findings(out, "finding", &it.findings)?;
            it.root.as_deref().map_or(Ok(()), |root| findings(out, "root", root))
        });
    }
}

fn findings(out: &mut String, title: &str, findings: &[Finding]) -> std::fmt::Result {
    findings.iter().try_for_each(|finding| {
        let mark = if finding.severity == Severity::Note { "ok" } else { "!" };
        writeln!(out, "{title:<12} {mark} {finding}")
    })
}
