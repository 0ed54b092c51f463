//! How `--root` is written.

use serde::{Deserialize, Serialize};
use std::fmt;
use std::path::{Path, PathBuf};
use std::str::FromStr;

/// The TPM that is meant if the root names no device, by way of the kernel's resource manager.
const TPM_DEVICE: &str = "/dev/tpmrm0";
/// NV indices that the TCG leaves to a machine's owner (Registry of Reserved TPM 2.0 Handles and Localities, section 2.2).
const INDEX_FIRST: u32 = 0x0180_0000;
const INDEX_LAST: u32 = 0x01bf_ffff;

/// Where the root of a disk lies.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub enum RootKind {
    /// In a file, or on a block device.
    Path(PathBuf),
    /// In two NV indices of a TPM.
    Tpm(TpmPlace),
    /// On NOR flash: a character device of the kernel's MTD layer.
    Mtd(PathBuf),
    /// On the flash chip on which the content lies.
    Chip,
    /// In memory. The disk begins anew, empty, whenever it is opened.
    Memory,
}

/// A place in a TPM.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct TpmPlace {
    /// The way to the TPM.
    pub way: TpmWay,
    /// NV index of the first slot; the second slot has the next one.
    pub index: u32,
    /// The file with the authorisation value of the TPM's owner; `None` if that is empty.
    pub auth: Option<PathBuf>,
}

/// The way to a TPM.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum TpmWay {
    /// A character device.
    Device(PathBuf),
    /// The socket of a TPM in software.
    Socket(PathBuf),
}

impl RootKind {
    /// The place that a path names, as `disk.toml` and `--root` have it. A file whose name begins as that of another medium
    /// does is written with `./`.
    ///
    /// # Errors
    /// What is wrong with the name of a TPM or MTD device, and what is right.
    pub fn of(path: &Path) -> Result<Self, String> {
        path.to_str().map_or_else(|| Ok(Self::Path(path.into())), str::parse)
    }

    /// The path of a file or block device; `None` for other media.
    #[must_use]
    pub fn path(&self) -> Option<&Path> {
        match self {
            Self::Path(path) => Some(path),
            Self::Tpm(_) | Self::Mtd(_) | Self::Chip | Self::Memory => None,
        }
    }

    /// Whether the root is lost when the disk is closed, and the disk with it: a server formats the disk before it opens it.
    #[must_use]
    pub fn begins_anew(&self) -> bool {
        matches!(self, Self::Memory)
    }
}

impl FromStr for RootKind {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        match text.split_once(':') {
            Some(("tpm", place)) => place.parse().map(Self::Tpm),
            Some(("mtd", device)) if device.starts_with('/') => Ok(Self::Mtd(device.into())),
            Some(("mtd", device)) => {
                Err(format!("invalid root \"mtd:{device}\"; name the device, as in mtd:/dev/mtd3"))
            }
            _ if text == "memory" => Ok(Self::Memory),
            _ if text == "nand" => Ok(Self::Chip),
            _ => Ok(Self::Path(text.into())),
        }
    }
}

impl FromStr for TpmPlace {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let (place, auth) =
            text.split_once(",auth=").map_or((text, None), |(place, file)| (place, Some(file)));
        let (way, index) = place.rsplit_once(':').unwrap_or((TPM_DEVICE, place));
        let refused = |what: &str| {
            format!(
                "invalid root \"tpm:{text}\": {what}; write tpm:INDEX, tpm:/dev/tpmrm1:INDEX or tpm:socket:/PATH:INDEX, and \
                 ,auth=/FILE behind it if the owner of the TPM has an authorisation value"
            )
        };
        let absolute = |path: &str, what| {
            path.starts_with('/').then(|| PathBuf::from(path)).ok_or_else(|| refused(what))
        };
        let way = match way.strip_prefix("socket:") {
            Some(path) => TpmWay::Socket(absolute(path, "the path of the socket is not absolute")?),
            None => TpmWay::Device(absolute(way, "the path of the device is not absolute")?),
        };
        let auth = auth.map(|path| absolute(path, "the path behind auth= is not absolute")).transpose()?;
        let number = index.strip_prefix("0x").and_then(|hex| u32::from_str_radix(hex, 16).ok());
        let index = number.filter(|it| (INDEX_FIRST..INDEX_LAST).contains(it)).ok_or_else(|| {
            let (first, last) = (INDEX_FIRST, INDEX_LAST - 1);
            refused(&format!("the index {index:?} is not from 0x{first:08x} to 0x{last:08x}"))
        })?;
        Ok(Self { way, index, auth })
    }
}

impl fmt::Display for RootKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Path(path) => path.display().fmt(f),
            Self::Tpm(place) => write!(f, "tpm:{place}"),
            Self::Mtd(device) => write!(f, "mtd:{}", device.display()),
            Self::Chip => f.write_str("nand"),
            Self::Memory => f.write_str("memory"),
        }
    }
}

impl fmt::Display for TpmPlace {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.way {
            TpmWay::Device(path) if path == Path::new(TPM_DEVICE) => {}
            TpmWay::Device(path) => write!(f, "{}:", path.display())?,
            TpmWay::Socket(path) => write!(f, "socket:{}:", path.display())?,
        }
        write!(f, "0x{:08x}", self.index)?;
        self.auth.iter().try_for_each(|file| write!(f, ",auth={}", file.display()))
    }
}

impl Default for TpmWay {
    /// The first TPM of this machine.
    fn default() -> Self {
        Self::Device(TPM_DEVICE.into())
    }
}

impl TryFrom<String> for RootKind {
    type Error = String;

    fn try_from(text: String) -> Result<Self, String> {
        text.parse()
    }
}

impl From<RootKind> for String {
    fn from(root: RootKind) -> Self {
        root.to_string()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn tpm(way: TpmWay, index: u32, auth: Option<&str>) -> RootKind {
        RootKind::Tpm(TpmPlace { way, index, auth: auth.map(Into::into) })
    }

    #[test]
    fn a_root_is_written_as_it_is_read() {
        let socket = || TpmWay::Socket("/run/a:b.sock".into());
        for (text, root) in [
            ("tpm:0x01800150", tpm(TpmWay::default(), 0x0180_0150, None)),
            ("tpm:/dev/tpmrm1:0x01bffffe", tpm(TpmWay::Device("/dev/tpmrm1".into()), 0x01bf_fffe, None)),
            ("tpm:socket:/run/a:b.sock:0x01800000", tpm(socket(), 0x0180_0000, None)),
            ("tpm:0x01800150,auth=/root/tpm", tpm(TpmWay::default(), 0x0180_0150, Some("/root/tpm"))),
            ("mtd:/dev/mtd3", RootKind::Mtd("/dev/mtd3".into())),
            ("memory", RootKind::Memory),
            ("nand", RootKind::Chip),
            ("./nand", RootKind::Path("./nand".into())),
            ("./memory", RootKind::Path("./memory".into())),
            ("/mnt/hdd/tpm:root", RootKind::Path("/mnt/hdd/tpm:root".into())),
            ("root", RootKind::Path("root".into())),
        ] {
            assert_eq!(text.parse(), Ok(root.clone()), "{text}");
            assert_eq!(RootKind::of(Path::new(text)), Ok(root.clone()), "{text}");
            assert_eq!(root.to_string(), text);
        }
    }

    #[test]
    fn a_root_that_cannot_be_is_refused_with_what_is_right() {
        for text in [
            "tpm:",
            "tpm:0x",
            "tpm:25166160",
            "tpm:0x01bfffff",
            "tpm:0x017fffff",
            "tpm:0x101800150",
            "tpm:tpmrm0:0x01800150",
            "tpm:socket:a:0x01800150",
            "tpm:0x01800150,auth=",
        ] {
            let error = text.parse::<RootKind>().expect_err(text);
            assert!(error.contains(&format!("{text:?}")) && error.contains("tpm:INDEX"), "{error}");
        }
        for text in ["mtd:", "mtd:3", "mtd:mtd3"] {
            let error = text.parse::<RootKind>().expect_err(text);
            assert!(error.contains("mtd:/dev/mtd3"), "{error}");
        }
    }
}
