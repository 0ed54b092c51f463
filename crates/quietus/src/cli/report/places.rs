//! Reports about places: the disks and vaults below a directory, and what a host can promise.

use super::{Report, bytes};
use crate::cli::output::{Doctor, Home, Listing};
use crate::host::guarantees::{Finding, Severity};
use std::fmt::{self, Write};

impl Report {
    /// Lists disks and vaults.
    pub(crate) fn listing(&self, it: &Listing) {
        self.say(it, |out| {
            if it.found.is_empty() {
                writeln!(
                    out,
                    "no disk or vault was found; `quietus create` and `quietus vault init` make one"
                )?;
            }
            it.found.iter().try_for_each(|it| home(out, it))?;
            it.unread.iter().try_for_each(|it| writeln!(out, "NOT READ {}: {}", it.path.display(), it.why))
        });
    }

    /// Reports what a host can promise.
    pub(crate) fn doctor(&self, it: &Doctor) {
        self.say(it, |out| diagnosis(out, it));
    }
}

fn diagnosis(out: &mut String, it: &Doctor) -> fmt::Result {
    let best: Vec<_> = it.best.iter().map(|it| it.name()).collect();
    writeln!(out, "at best      {} (store {})", it.most, best.join(", "))?;
    it.advice.iter().try_for_each(|advice| writeln!(out, "advice       {advice}"))?;
    it.roots
        .iter()
        .try_for_each(|point| writeln!(out, "a root       {} overwrites in place", point.display()))?;
    let media = it.root_media.as_ref().map(ToString::to_string).unwrap_or_default();
    media.lines().try_for_each(|medium| writeln!(out, "a root       {medium}"))?;
    for promise in &it.promises {
        writeln!(out, "{:<12} {}: {}", promise.store.name(), promise.level, promise.how)?;
    }
    findings(out, "here", &it.here.findings)?;
    it.root.iter().try_for_each(|root| findings(out, "root", &root.findings))
}

fn home(out: &mut String, it: &Home) -> fmt::Result {
    let size = it.size_bytes.map_or("-".into(), bytes);
    let state = match (&it.fault, it.served) {
        // A parser shows the place in further lines.
        (Some(fault), _) => format!("UNREADABLE: {}", fault.lines().next().unwrap_or_default()),
        (None, true) => "served".into(),
        (None, false) => String::new(),
    };
    let line = format!("{:<10} {size:>12}  {}  {state}", it.kind.name(), it.path.display());
    writeln!(out, "{}", line.trim_end())
}

fn findings(out: &mut String, title: &str, findings: &[Finding]) -> fmt::Result {
    findings.iter().try_for_each(|finding| {
        let mark = if finding.severity == Severity::Note { "ok" } else { "! " };
        writeln!(out, "{title:<12} {mark} {finding}")
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cli::commands::doctor::diagnose;
    use crate::host::guarantees::{DeviceFacts, DeviceKind, Facts, Layer, RootMedia, Transport, judge};

    fn drive(name: &str, rotational: bool) -> crate::host::guarantees::Guarantees {
        let device = DeviceFacts {
            name: name.into(),
            kind: DeviceKind::Disk,
            transport: Transport::Ata,
            rotational: Some(rotational),
            ..DeviceFacts::default()
        };
        judge(Facts { layers: vec![Layer::Device(device)], ..Facts::default() })
    }

    #[test]
    fn the_doctor_names_the_places_for_a_root_below_its_advice() {
        let mut found = diagnose(drive("sda", false), None, false);
        found.roots = vec!["/mnt/hdd".into()];
        found.root_media = Some(RootMedia::default());
        let mut told = String::new();
        diagnosis(&mut told, &found).expect("text");
        let lines: Vec<_> = told.lines().collect();
        assert!(lines[1].starts_with("advice "), "{told}");
        assert_eq!(lines[2], "a root       /mnt/hdd overwrites in place");
        assert_eq!(lines[3], "a root       no TPM, and no MTD device");
    }

    #[test]
    fn the_doctor_begins_with_the_answer() {
        let mut told = String::new();
        diagnosis(&mut told, &diagnose(drive("sda", false), Some(drive("sdb", true)), true)).expect("text");
        let expected = "\
at best      overwriting reaches the bytes, as far as this host can tell (store versions, sealed)
in-place     overwriting does NOT reach every copy of the bytes: deletion overwrites content in place, if the journal, in the disk's directory, lies on an equally good medium
overlay      overwriting does NOT reach every copy of the bytes: deletion overwrites content in the overlay's file; the base image is never changed
versions     overwriting reaches the bytes, as far as this host can tell: deletion destroys a key in the root, at --root; unless --seal is none or aes-xts, the rest may lie anywhere
sealed       overwriting reaches the bytes, as far as this host can tell: deletion destroys the key in the root, at --root; the rest may lie anywhere
here         !  solid-state drive (sda). The controller writes changed blocks elsewhere, and the old ones stay in the chips, out of reach, until they are erased; to erase the whole device, use its own command: `nvme sanitize` or `hdparm --security-erase`.
root         ok magnetic disk (sdb). Overwriting works in place, except for sectors that the firmware has replaced.
";
        assert_eq!(told, expected);
    }
}
