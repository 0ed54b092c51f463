//! Roots that are neither files nor block devices: what destroying a key there promises, and which of them this host has.

use super::judge::level;
use super::{Code, Facts, Finding, Guarantees, Level, Roots};
use crate::base::locked;
use crate::host::media::flash::FlashPlace;
use crate::host::media::root::{MtdAbout, RootKind, TpmAbout, TpmMaker, TpmWay};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use std::fmt;
use std::io;
use std::path::Path;

/// The media of this host, beside files and block devices, on which the root of a sealed disk can lie.
#[derive(Clone, PartialEq, Eq, Debug, Default, Serialize, Deserialize, JsonSchema)]
pub struct RootMedia {
    /// The TPM; `None` if there is none.
    pub tpm: Option<TpmFound>,
    /// MTD devices with room for a root: NOR flash and RAM.
    pub mtd: Vec<MtdAbout>,
}

/// A TPM of this host.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize, JsonSchema)]
pub struct TpmFound {
    /// The device.
    pub device: String,
    /// What the TPM says of itself; `None` if it did not answer.
    pub about: Option<TpmAbout>,
    /// How far destroying a key there reaches.
    pub level: Level,
    /// What the level rests on.
    pub finding: Finding,
}

/// Finds the media of this host on which a root can lie, beside files and block devices. The TPM is asked what it is.
#[must_use]
pub fn root_media(roots: &Roots) -> RootMedia {
    let way = TpmWay::default();
    let is_there = matches!(&way, TpmWay::Device(device) if device.exists());
    RootMedia { tpm: is_there.then(|| found(&way, TpmAbout::ask(&way))), mtd: MtdAbout::all(&roots.sys) }
}

fn found(way: &TpmWay, about: io::Result<TpmAbout>) -> TpmFound {
    let finding = of_tpm(way, &about);
    TpmFound { device: name(way), about: about.ok(), level: level(std::slice::from_ref(&finding)), finding }
}

/// The place that a finding on a root in memory names. No file or device has this name, as those are absolute paths.
pub(super) const MEMORY: &str = "memory";

/// The finding on a root in the memory of a server, which is locked or not; `None` where that is not known, outside of the server.
fn in_memory(is_locked: Option<bool>) -> Finding {
    let found = |code: Code, how| code.found(MEMORY, format!("root in the memory of the server{how}"));
    match is_locked {
        None => found(Code::MemoryRoot, ""),
        Some(true) => found(Code::MemoryRoot, ", which is locked"),
        Some(false) => found(Code::MemorySwapped, ", which the host does not let it lock"),
    }
}

/// The guarantees of what lies on the raw flash chip that `path` names, if it names one. A file that stands for a chip is as good as a file.
pub(super) fn inspect_chip(path: &Path) -> Option<Guarantees> {
    let place = FlashPlace::of(path)?.ok()?;
    if !place.is_device() {
        return super::inspect(&place.path).ok();
    }
    let what = "raw NAND flash, whose blocks this disk erases itself".into();
    let findings = vec![Code::NandFlash.found(&place.path.display().to_string(), what)];
    let facts = Facts { path: path.into(), ..Facts::default() };
    Some(Guarantees { level: level(&findings), findings, facts })
}

/// The guarantees of the root that `path` names, if that is neither a file nor a block device.
pub(crate) fn inspect_root(path: &Path) -> Option<Guarantees> {
    let root = RootKind::of(path).ok().filter(|root| root.path().is_none())?;
    let finding = match &root {
        RootKind::Path(_) | RootKind::Chip => return None,
        RootKind::Tpm(place) => of_tpm(&place.way, &ask(&place.way)),
        RootKind::Mtd(device) => Code::NorFlash
            .found(&device.display().to_string(), "NOR flash, without a translation layer".into()),
        RootKind::Memory => in_memory(locked::is_locked()),
    };
    let findings = vec![finding];
    Some(Guarantees {
        level: level(&findings),
        findings,
        facts: Facts { path: path.into(), ..Facts::default() },
    })
}

/// A socket leads to a TPM in software, which speaks with one program at a time: it is not asked.
fn ask(way: &TpmWay) -> io::Result<TpmAbout> {
    match way {
        TpmWay::Device(_) => TpmAbout::ask(way),
        TpmWay::Socket(_) => Ok(TpmAbout {
            manufacturer: "software".into(),
            model: String::new(),
            firmware: "unknown".into(),
            kind: TpmMaker::Virtual,
        }),
    }
}

fn of_tpm(way: &TpmWay, about: &io::Result<TpmAbout>) -> Finding {
    let at = name(way);
    let about = match about {
        Ok(about) => about,
        Err(error) => return Code::NotFoundOut.found(&at, format!("cannot ask the TPM what it is: {error}")),
    };
    let code = match about.kind {
        TpmMaker::Chip => Code::TpmChip,
        TpmMaker::Firmware => Code::TpmFirmware,
        TpmMaker::Virtual => Code::TpmVirtual,
        TpmMaker::Unknown => Code::TpmUnknown,
    };
    code.found(&at, about.to_string())
}

fn name(way: &TpmWay) -> String {
    let (TpmWay::Device(path) | TpmWay::Socket(path)) = way;
    path.display().to_string()
}

impl fmt::Display for RootMedia {
    /// A line for each medium, or for that there is none.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if let Some(TpmFound { finding, .. }) = &self.tpm {
            writeln!(f, "--root tpm:0x01800150: {finding}")?;
        }
        self.mtd.iter().try_for_each(|it| writeln!(f, "--root mtd:{}: {it}", it.device))?;
        if self.tpm.is_none() && self.mtd.is_empty() {
            writeln!(f, "no TPM, and no MTD device")
        } else {
            Ok(())
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::host::media::root::MtdKind;

    fn about(kind: TpmMaker) -> io::Result<TpmAbout> {
        let (manufacturer, model, firmware) = ("IFX".into(), "SLB9672".into(), "16.13.0.0".into());
        Ok(TpmAbout { manufacturer, model, firmware, kind })
    }

    #[test]
    fn a_tpm_promises_what_its_maker_does_and_less_in_firmware_or_software() {
        for (about, level, word) in [
            (about(TpmMaker::Chip), Level::Clear, "as far as its maker promises"),
            (about(TpmMaker::Firmware), Level::NotAssured, "flash of the board"),
            (about(TpmMaker::Virtual), Level::NotAssured, "host"),
            (about(TpmMaker::Unknown), Level::NotAssured, "maker"),
            (Err(io::Error::other("no permission")), Level::NotAssured, "no permission"),
        ] {
            let found = found(&TpmWay::default(), about);
            assert_eq!(found.level, level, "{found:?}");
            assert!(found.finding.to_string().contains(word), "{}", found.finding);
        }
    }

    #[test]
    fn a_root_that_is_no_file_is_judged_by_its_kind_and_a_file_is_not_judged_here() {
        for (root, found) in [
            ("tpm:socket:/run/tpm:0x01800150", Some((Code::TpmVirtual, Level::NotAssured))),
            ("tpm:/dev/no-tpm:0x01800150", Some((Code::NotFoundOut, Level::NotAssured))),
            ("mtd:/dev/mtd3", Some((Code::NorFlash, Level::Clear))),
            ("/mnt/hdd/root", None),
            ("tpm:0x0", None),
        ] {
            let judged = inspect_root(Path::new(root)).map(|it| (it.findings[0].code, it.level));
            assert_eq!(judged, found, "{root}");
        }
    }

    #[test]
    fn a_root_in_memory_is_cleared_unless_that_memory_may_be_swapped_out() {
        for (is_locked, code, level_of, words) in [
            (None, Code::MemoryRoot, Level::Clear, "root in the memory of the server"),
            (Some(true), Code::MemoryRoot, Level::Clear, "the server, which is locked"),
            (Some(false), Code::MemorySwapped, Level::NotAssured, "which the host does not let it lock"),
        ] {
            let finding = in_memory(is_locked);
            assert!(finding.to_string().contains(words), "{finding}");
            assert_eq!((finding.code, level(&[finding])), (code, level_of), "{is_locked:?}");
        }
        assert!(inspect_root(Path::new("memory")).is_some());
    }

    #[test]
    fn the_media_of_a_host_are_told_as_they_are_written_behind_root() {
        let tpm = Some(found(&TpmWay::default(), about(TpmMaker::Chip)));
        let (name, bytes, block_bytes) = ("boot".into(), 1 << 20, 65536);
        let mtd = vec![MtdAbout {
            device: "/dev/mtd3".into(),
            kind: MtdKind::Nor,
            name,
            bytes,
            block_bytes,
            clears_bits: true,
        }];
        let told = RootMedia { tpm, mtd }.to_string();
        let lines: Vec<_> = told.lines().collect();
        assert!(lines[0].starts_with("--root tpm:0x01800150: TPM, a chip (IFX SLB9672"), "{told}");
        assert_eq!(
            lines[1],
            "--root mtd:/dev/mtd3: NOR flash /dev/mtd3 (boot), 1048576 bytes in blocks of 65536"
        );
        assert_eq!(RootMedia::default().to_string(), "no TPM, and no MTD device\n");
    }
}
