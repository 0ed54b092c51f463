//! What a TPM says of itself, and what that promises.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use std::fmt;

/// Numbers of properties (Part 2, table 28).
const MANUFACTURER: u32 = 0x105;
const VENDOR_STRINGS: [u32; 4] = [0x106, 0x107, 0x108, 0x109];
const FIRMWARE: [u32; 2] = [0x10b, 0x10c];

/// Makers by the names that the TCG has given them (Vendor ID Registry): those whose TPMs run in a processor's firmware, those of
/// hypervisors and of software, and those of chips.
const FIRMWARE_MAKERS: [&str; 6] = ["AMD", "INTC", "QCOM", "HISI", "SMSN", "FSL"];
const VIRTUAL_MAKERS: [&str; 6] = ["IBM", "MSFT", "VMW", "GOOG", "AMZN", "XCG"];
const CHIP_MAKERS: [&str; 13] =
    ["IFX", "NTC", "STM", "NTZ", "ATML", "WEC", "SNS", "BRCM", "SMSC", "NSM", "TXN", "NSG", "LEN"];

/// The kind of a TPM, by its maker.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum TpmMaker {
    /// A chip of its own, which stores its NV indices itself.
    Chip,
    /// Firmware of the processor: the indices lie encrypted in the flash of the board.
    Firmware,
    /// Software of a hypervisor or of this machine: the indices lie in a file.
    Virtual,
    /// A maker that is not known here.
    Unknown,
}

/// What a TPM says of itself.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize, JsonSchema)]
pub struct TpmAbout {
    /// The maker's short name, such as `IFX`.
    pub manufacturer: String,
    /// The maker's own text about the model.
    pub model: String,
    /// The version of its firmware: four numbers of 16 bits, the first two and the last two of which are of one property.
    pub firmware: String,
    /// The kind of the TPM.
    pub kind: TpmMaker,
}

impl TpmAbout {
    /// What the properties say.
    pub(super) fn of(properties: &[(u32, [u8; 4])]) -> Self {
        let value = |number: u32| properties.iter().find(|(found, _)| *found == number).map(|(_, it)| *it);
        let text = |numbers: &[u32]| {
            let bytes: Vec<u8> = numbers.iter().filter_map(|it| value(*it)).flatten().collect();
            // What a TPM sends may reach a terminal.
            let shown =
                bytes.iter().filter(|it| it.is_ascii_graphic() || **it == b' ').map(|it| char::from(*it));
            shown.collect::<String>().trim().to_string()
        };
        let halves = FIRMWARE.map(|number| value(number).map_or(0, u32::from_be_bytes));
        let parts = halves.map(|it| format!("{}.{}", it >> 16, it & 0xffff));
        let manufacturer = text(&[MANUFACTURER]);
        let kind = TpmMaker::of(&manufacturer);
        Self { model: text(&VENDOR_STRINGS), firmware: parts.join("."), kind, manufacturer }
    }
}

impl TpmMaker {
    fn of(manufacturer: &str) -> Self {
        match manufacturer {
            name if FIRMWARE_MAKERS.contains(&name) => Self::Firmware,
            name if VIRTUAL_MAKERS.contains(&name) => Self::Virtual,
            name if CHIP_MAKERS.contains(&name) => Self::Chip,
            _ => Self::Unknown,
        }
    }
}

impl fmt::Display for TpmMaker {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Chip => "a chip",
            Self::Firmware => "in the processor's firmware",
            Self::Virtual => "virtual",
            Self::Unknown => "of an unknown maker",
        })
    }
}

impl fmt::Display for TpmAbout {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { manufacturer, model, firmware, kind } = self;
        let space = if model.is_empty() { "" } else { " " };
        write!(f, "TPM, {kind} ({manufacturer}{space}{model}, firmware {firmware})")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn about(maker: [u8; 4]) -> TpmAbout {
        let model = [(0x106, *b"SW  "), (0x107, *b" \x1b[2"), (0x108, *b"TPM\0")];
        let numbers = [(0x105, maker), (0x10b, [0x20, 0x19, 0x10, 0x23]), (0x10c, [0, 0x16, 0x36, 0x36])];
        TpmAbout::of(&[&model[..], &numbers].concat())
    }

    #[test]
    fn a_tpm_is_judged_by_its_maker_and_shows_plain_text_only() {
        for (maker, kind) in [
            (*b"IBM\0", TpmMaker::Virtual),
            (*b"MSFT", TpmMaker::Virtual),
            (*b"VMW\0", TpmMaker::Virtual),
            (*b"AMD\0", TpmMaker::Firmware),
            (*b"INTC", TpmMaker::Firmware),
            (*b"QCOM", TpmMaker::Firmware),
            (*b"IFX\0", TpmMaker::Chip),
            (*b"STM ", TpmMaker::Chip),
            (*b"NTC\0", TpmMaker::Chip),
            (*b"\0\0\0\0", TpmMaker::Unknown),
            (*b"NEW ", TpmMaker::Unknown),
        ] {
            assert_eq!(about(maker).kind, kind, "{maker:?}");
        }
        let shown = about(*b"IBM\0").to_string();
        assert_eq!(shown, "TPM, virtual (IBM SW   [2TPM, firmware 8217.4131.22.13878)");
        assert_eq!(TpmAbout::of(&[]).kind, TpmMaker::Unknown);
    }
}
