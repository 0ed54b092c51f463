//! What `--json` prints: an object a line, with the name and version of its format. Documented by the schemas in `docs/schemas/`.

mod audit;

pub use audit::{AuditEntry, AuditEvent, HoldEvent, audit_entries};

use crate::base::path_text::{PathText, path_text};
use crate::base::signed::Signed;
use crate::disk::{DiskToml, StoreKind};
use crate::files::{
    BroughtBack, FileDifference, FileHistory, FilesCompared, FilesForgotten, FilesWeighed, Found, FoundFile,
};
use crate::front::control::{
    BlocksForgotten, BlocksWeighed, Closed, Compacted, Diff, Forgotten, Held, Owed, PurgeWeighed, Purged,
    Released, Restored, Shredded, StatusAnswer, Versions, Waiting, WearAnswer, Weighed,
};
use crate::host::guarantees::{DiskGuarantees, Guarantees, Level, RootMedia};
use crate::offline::{Committed, Exported, Rebased, Repaired};
use crate::proof::sensitivity::Sensitivity;
use crate::proof::{Checks, Proof};
use schemars::generate::SchemaSettings;
use schemars::{JsonSchema, Schema};
use serde::Serialize;
use std::path::PathBuf;

/// A report.
pub trait Output: Serialize + JsonSchema {
    /// Its name, which stands in the format between `quietus-` and the version.
    const NAME: &'static str;
}

/// Version of all formats.
const VERSION: u32 = 1;

/// The format of reports with this name.
#[must_use]
pub fn format(name: &str) -> String {
    format!("quietus-{name}-{VERSION}")
}

/// A report as it is printed.
#[derive(Serialize)]
struct Line<'a, T> {
    format: String,
    #[serde(flatten)]
    report: &'a T,
}

/// The line of a report.
///
/// # Panics
/// If a report is not plain data.
#[must_use]
pub fn line<T: Output>(report: &T) -> String {
    let line = Line { format: format(T::NAME), report };
    serde_json::to_string(&line).expect("a report is plain data")
}

/// The schema of a report or signed statement as its type has it.
fn schema<T: JsonSchema>() -> Schema {
    SchemaSettings::draft2020_12().for_serialize().into_generator().into_root_schema_for::<T>()
}

macro_rules! outputs {
    ($($name:literal: $report:ty,)*) => {
        $(impl Output for $report {
            const NAME: &'static str = $name;
        })*

        /// The name and the schema of each of these reports.
        fn registered() -> Vec<(&'static str, Schema)> {
            vec![$(($name, schema::<$report>()),)*]
        }
    };
}

pub mod vault;

/// The name and the schema of every report and signed statement, by name, without the format that the program adds.
#[must_use]
pub fn schemas() -> Vec<(&'static str, Schema)> {
    let mut all = [registered(), vec![("proof", schema::<Signed<Proof>>())], vault::all()].concat();
    all.sort_by_key(|(name, _)| *name);
    all
}

outputs! {
    "audit-entry": AuditEntry,
    "blocks-forgotten": BlocksForgotten,
    "blocks-weighed": BlocksWeighed,
    "brought-back": BroughtBack,
    "committed": Committed,
    "compacted": Compacted,
    "created": Created,
    "diff": Diff,
    "doctor": Doctor,
    "epoch": Closed,
    "error": ErrorReport,
    "exported": Exported,
    "file-history": FileHistory,
    "files-compared": FilesCompared,
    "files-forgotten": FilesForgotten,
    "files-found": Found,
    "file-difference": FileDifference,
    "file-found": FoundFile,
    "files-weighed": FilesWeighed,
    "forgotten": Forgotten,
    "held": Held,
    "key-added": KeyAdded,
    "key-removed": KeyRemoved,
    "key-rotated": KeyRotated,
    "key-slots": KeySlots,
    "list": Listing,
    "mounted": Mounted,
    "owed": Owed,
    "plan": Plan,
    "purged": Purged,
    "rebased": Rebased,
    "released": Released,
    "repaired": Repaired,
    "restored": Restored,
    "sensitive": SensitiveReport,
    "serving": Serving,
    "shredded": Shredded,
    "status": StatusAnswer,
    "verify": Checks,
    "versions": Versions,
    "wear": WearAnswer,
    "weighed": Weighed,
}

/// A disk whose states are mounted.
#[derive(Debug, Serialize, JsonSchema)]
pub struct Mounted {
    /// Path of the mount point.
    pub mounted: PathText,
    /// The disk, and its partition, as they were named.
    pub disk: String,
}

/// Why a command failed.
#[derive(Debug, Serialize, JsonSchema)]
pub struct ErrorReport {
    /// The reason, and the remedy.
    pub error: String,
}

/// A new disk.
#[derive(Debug, Serialize, JsonSchema)]
pub struct Created {
    /// Path of its directory.
    #[serde(serialize_with = "path_text")]
    pub created: PathBuf,
    /// Its properties.
    pub disk: DiskToml,
    /// The size that was asked for, if that was rounded up.
    pub rounded_up_from_bytes: Option<u64>,
    /// Guarantee of its medium.
    pub guarantees: DiskGuarantees,
}

/// What a command would do: with `--dry-run`.
#[derive(Debug, Serialize, JsonSchema)]
#[serde(tag = "act", rename_all = "kebab-case")]
pub enum Plan {
    /// Make a disk or a vault.
    Make {
        /// Path of the directory.
        #[serde(serialize_with = "path_text")]
        makes: PathBuf,
        /// Block devices whose content is destroyed.
        destroys: Vec<String>,
    },
    /// Write an overlay to its base.
    Commit(Committed),
    /// End content.
    Purge(PurgeWeighed),
    /// Make the state of an epoch the current one.
    Restore {
        /// The epoch.
        epoch: u64,
        /// Bytes that differ.
        differing_bytes: u64,
    },
}

/// The key slots that are used.
#[derive(Debug, Serialize, JsonSchema)]
pub struct KeySlots {
    /// The slots, by number.
    pub slots: Vec<KeySlot>,
    /// How many there can be.
    pub slots_max: usize,
}

/// A key slot.
#[derive(Debug, Serialize, JsonSchema)]
pub struct KeySlot {
    /// Its number.
    pub slot: u8,
    /// Kind of credential that opens the slot; `damaged` if the slot cannot be opened.
    pub kind: String,
}

/// A new key slot.
#[derive(Debug, Serialize, JsonSchema)]
pub struct KeyAdded {
    /// Its number.
    pub added: u8,
}

/// A key slot that is gone.
#[derive(Debug, Serialize, JsonSchema)]
pub struct KeyRemoved {
    /// Its number.
    pub removed: u8,
    /// How many times it was overwritten.
    pub passes: usize,
    /// How far overwriting reached.
    pub level: Level,
}

/// A new master key.
#[derive(Debug, Serialize, JsonSchema)]
pub struct KeyRotated {
    /// Its number.
    pub generation: u32,
}

/// A server that accepts clients.
#[derive(Debug, Serialize, JsonSchema)]
pub struct Serving {
    /// The disks.
    pub serving: Vec<String>,
    /// The URI of the first one.
    pub uri: String,
}

/// Which content of a disk is sensitive.
#[derive(Debug, Serialize, JsonSchema)]
pub struct SensitiveReport {
    /// Name of the disk.
    pub name: String,
    /// The marks that are followed, on a disk that is served.
    pub sensitive: Option<Sensitivity>,
    /// Content that was deleted and is not destroyed yet.
    pub waiting: Vec<Waiting>,
}

/// Disks and vaults.
#[derive(Debug, Serialize, JsonSchema)]
pub struct Listing {
    /// The disks and vaults, by path.
    pub found: Vec<Home>,
    /// Directories in which there may be more.
    pub unread: Vec<Unread>,
}

/// A disk or a vault.
#[derive(Debug, Serialize, JsonSchema)]
pub struct Home {
    /// Path of its directory.
    #[serde(serialize_with = "path_text")]
    pub path: PathBuf,
    /// Its kind.
    pub kind: HomeKind,
    /// Size of a disk.
    pub size_bytes: Option<u64>,
    /// Whether a server runs the disk.
    pub served: bool,
    /// Why only its kind is known.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub fault: Option<String>,
}

/// A directory that was not read as a whole.
#[derive(Debug, Serialize, JsonSchema)]
pub struct Unread {
    /// Its path.
    #[serde(serialize_with = "path_text")]
    pub path: PathBuf,
    /// Why.
    pub why: String,
}

/// The kind of a disk, by its store, or a vault.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum HomeKind {
    /// A disk whose store is not known.
    Disk,
    /// A disk in place.
    InPlace,
    /// An overlay.
    Overlay,
    /// A disk that keeps versions.
    Versions,
    /// A sealed disk.
    Sealed,
    /// A vault.
    Vault,
}

impl HomeKind {
    /// The verdict for a disk with this store.
    #[must_use]
    pub fn of_disk(store: StoreKind) -> Self {
        match store {
            StoreKind::InPlace => Self::InPlace,
            StoreKind::Overlay => Self::Overlay,
            StoreKind::Versions => Self::Versions,
            StoreKind::Sealed => Self::Sealed,
        }
    }

    /// The name, as in JSON.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Disk => "disk",
            Self::InPlace => StoreKind::InPlace.name(),
            Self::Overlay => StoreKind::Overlay.name(),
            Self::Versions => StoreKind::Versions.name(),
            Self::Sealed => StoreKind::Sealed.name(),
            Self::Vault => "vault",
        }
    }
}

/// What a host can promise for content at a path.
#[derive(Debug, Serialize, JsonSchema)]
pub struct Doctor {
    /// How far deletion reaches with the best store.
    pub most: Level,
    /// The stores that promise that.
    pub best: Vec<StoreKind>,
    /// What each store promises there.
    pub promises: Vec<Promise>,
    /// How to get more.
    pub advice: Option<String>,
    /// Mount points of this host where the root of a disk would be overwritten; empty if a store needs no other place.
    pub roots: Vec<PathBuf>,
    /// The TPM and the MTD devices of this host, on which the root of a sealed disk can lie; `None` if a store needs no other place.
    pub root_media: Option<RootMedia>,
    /// What was found at the path.
    pub here: Guarantees,
    /// What was found at the path of the root, if one was given.
    pub root: Option<Guarantees>,
}

/// What a store promises.
#[derive(Debug, Serialize, JsonSchema)]
pub struct Promise {
    /// The store.
    pub store: StoreKind,
    /// How far deletion reaches.
    pub level: Level,
    /// How content dies.
    pub how: String,
}
