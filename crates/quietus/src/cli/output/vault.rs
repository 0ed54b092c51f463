//! What `quietus vault --json` prints.

use super::{Output, schema};
use crate::base::path_text::PathText;
use crate::base::signed::Signed;
use crate::host::guarantees::DiskGuarantees;
use crate::vault::{
    Change, Control, Damaged, Difference, Forgotten, Line, OwedForget, Put, RepairedVault, Restored,
    Sanitized, VaultProof, VaultToml,
};
use quietus_vault::tree::{Kind, Node};
use quietus_vault::vault::Contents;
use schemars::{JsonSchema, Schema};
use serde::Serialize;

outputs! {
    "vault-compared": VaultCompared,
    "vault-created": VaultCreated,
    "vault-difference": VaultDifference,
    "vault-entry": VaultEntry,
    "vault-forgotten": Forgotten,
    "vault-found": VaultFound,
    "vault-held": VaultHeld,
    "vault-mounted": VaultMounted,
    "vault-put": VaultPut,
    "vault-released": VaultReleased,
    "vault-repaired": RepairedVault,
    "vault-restored": Restored,
    "vault-sanitization": VaultSanitization,
    "vault-searched": VaultSearched,
    "vault-snapshots": VaultSnapshots,
    "vault-stats": VaultStats,
    "vault-status": VaultStatus,
    "vault-verified": VaultVerified,
}

/// The name and the schema of each report and signed statement about a vault.
pub(super) fn all() -> Vec<(&'static str, Schema)> {
    let signed = vec![
        ("vault-proof", schema::<Signed<VaultProof>>()),
        ("sanitization", schema::<Signed<Sanitized>>()),
    ];
    [registered(), signed].concat()
}

/// A new vault.
#[derive(Debug, Serialize, JsonSchema)]
pub struct VaultCreated {
    /// Path of its directory.
    pub created: PathText,
    /// Its properties.
    pub vault: VaultToml,
    /// Guarantee of its medium.
    pub guarantees: DiskGuarantees,
}

/// A new snapshot.
#[derive(Debug, Serialize, JsonSchema)]
pub struct VaultPut {
    /// The snapshot.
    #[serde(flatten)]
    pub put: Put,
    /// The patterns of `--exclude` and `--exclude-from` that matched nothing.
    pub unmatched_excludes: Vec<String>,
}

/// The snapshots of a vault.
#[derive(Debug, Serialize, JsonSchema)]
pub struct VaultSnapshots {
    /// The snapshots, by number.
    pub snapshots: Vec<Line>,
}

/// The kind of an entry of a snapshot.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum EntryKind {
    /// A regular file.
    File,
    /// A folder.
    Folder,
    /// A symbolic link.
    Link,
    /// A block device.
    BlockDevice,
    /// A character device.
    CharacterDevice,
    /// A pipe.
    Pipe,
    /// A socket.
    Socket,
}

/// An entry of a snapshot in short.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, JsonSchema)]
pub struct EntryState {
    /// Its kind.
    pub kind: EntryKind,
    /// Bytes of a file, holes included; 0 of everything else.
    pub bytes: u64,
    /// When its content was last modified, with nanoseconds.
    #[serde(rename = "modified", serialize_with = "crate::base::rfc3339::serialize_ns")]
    #[schemars(with = "String", extend("format" = "date-time"))]
    pub modified_ns: i64,
}

impl From<&Node> for EntryState {
    fn from(node: &Node) -> Self {
        let (kind, bytes) = match &node.kind {
            Kind::File(recipe) => (EntryKind::File, recipe.bytes()),
            Kind::Folder(_) => (EntryKind::Folder, 0),
            Kind::Link(_) => (EntryKind::Link, 0),
            Kind::BlockDevice(..) => (EntryKind::BlockDevice, 0),
            Kind::CharacterDevice(..) => (EntryKind::CharacterDevice, 0),
            Kind::Pipe => (EntryKind::Pipe, 0),
            Kind::Socket => (EntryKind::Socket, 0),
        };
        Self { kind, bytes, modified_ns: node.metadata.modified_ns }
    }
}

/// An entry of a snapshot.
#[derive(Debug, Serialize, JsonSchema)]
pub struct VaultEntry {
    /// Its path in the snapshot.
    pub path: PathText,
    /// Kind of entry.
    #[serde(flatten)]
    pub state: EntryState,
    /// Target of a symbolic link.
    pub target: Option<PathText>,
    /// Its permissions: the lowest 12 bits of `st_mode`.
    pub mode: u32,
    /// Number of its owner.
    pub user: u32,
    /// Number of its group.
    pub group: u32,
    /// A number that all names of a file have, if it has several.
    pub hard_link: Option<u64>,
    /// How many extended attributes it has.
    pub attributes: usize,
}

/// A vault that is mounted.
#[derive(Debug, Serialize, JsonSchema)]
pub struct VaultMounted {
    /// Path of the mount point.
    pub mounted: PathText,
}

/// An entry that matches, and the snapshots that have it in this state.
#[derive(Debug, Serialize, JsonSchema)]
pub struct VaultFound {
    /// Its path in the snapshots.
    pub path: PathText,
    /// Kind of entry.
    #[serde(flatten)]
    pub state: EntryState,
    /// The snapshots.
    pub snapshots: Vec<u64>,
}

/// The end of a search.
#[derive(Debug, Serialize, JsonSchema)]
pub struct VaultSearched {
    /// How many entries were found.
    pub found: u64,
    /// How many snapshots were searched.
    pub searched: usize,
    /// Folders and snapshots that could not be read: the path, a colon and the reason.
    pub unread: Vec<String>,
}

/// An entry that is not the same in two snapshots.
#[derive(Debug, Serialize, JsonSchema)]
pub struct VaultDifference {
    /// How it differs.
    pub change: Change,
    /// Its path in the snapshots.
    pub path: PathText,
    /// What has changed: `kind`, `content`, `target`, `mode`, `owner`, `time`, `attributes`.
    pub what: Vec<&'static str>,
    /// The entry in the first snapshot.
    pub before: Option<EntryState>,
    /// The entry in the second snapshot.
    pub after: Option<EntryState>,
}

impl From<&Difference<'_>> for VaultDifference {
    fn from(it: &Difference<'_>) -> Self {
        let [before, after] = [it.before, it.after].map(|node| node.map(EntryState::from));
        Self { change: it.change, path: it.path.into(), what: it.what.clone(), before, after }
    }
}

/// The end of a comparison.
#[derive(Debug, Serialize, JsonSchema)]
pub struct VaultCompared {
    /// Number of the first snapshot.
    pub before: u64,
    /// Number of the second snapshot.
    pub after: u64,
    /// Entries that only the second snapshot has.
    pub added: u64,
    /// Entries that only the first snapshot has.
    pub removed: u64,
    /// Entries that both have, and that differ.
    pub changed: u64,
    /// Folders that could not be read: the path, a colon and the reason.
    pub unread: Vec<String>,
}

/// Snapshots that are held from now on.
#[derive(Debug, Serialize, JsonSchema)]
pub struct VaultHeld {
    /// Name of the hold.
    pub held: String,
    /// The snapshots.
    pub snapshots: Vec<u64>,
}

/// A hold that was released.
#[derive(Debug, Serialize, JsonSchema)]
pub struct VaultReleased {
    /// Name of the hold.
    pub released: String,
    /// The snapshots that it kept.
    pub snapshots: Vec<u64>,
}

/// A sanitization under way that was steered.
#[derive(Debug, Serialize, JsonSchema)]
pub struct VaultSanitization {
    /// Its state now.
    pub sanitization: Control,
}

/// The state of a vault.
#[derive(Debug, Serialize, JsonSchema)]
pub struct VaultStatus {
    /// Path of its directory.
    pub vault: PathText,
    /// Its properties.
    #[serde(flatten)]
    pub toml: VaultToml,
    /// How many snapshots it has.
    pub snapshots: usize,
    /// Content that was forgotten and is not destroyed yet.
    pub owed: Vec<OwedForget>,
    /// Bytes of containers that are to be destroyed.
    pub condemned_bytes: u64,
    /// Bytes of containers that are in use.
    pub used_bytes: u64,
    /// Size of the pool.
    pub size_bytes: u64,
    /// Chunks that the index has; some perhaps twice, or destroyed since.
    pub chunks: u64,
    /// Guarantee of its medium.
    pub guarantees: DiskGuarantees,
}

/// What deduplication and compression save.
#[derive(Debug, Serialize, JsonSchema)]
pub struct VaultStats {
    /// Bytes of all files in all snapshots.
    pub all_bytes: u64,
    /// The content of the vault.
    #[serde(flatten)]
    pub contents: Contents,
}

/// Whether everything in a vault is intact.
#[derive(Debug, Serialize, JsonSchema)]
pub struct VaultVerified {
    /// Whether nothing is wrong.
    pub ok: bool,
    /// Containers of chunks.
    pub containers: u64,
    /// Chunks that are whole.
    pub chunks: u64,
    /// Entries of the index.
    pub entries: u64,
    /// Chunks that snapshots reach.
    pub reached: u64,
    /// The first hundred faults.
    pub faults: Vec<String>,
    /// How many faults there are.
    pub faults_count: u64,
    /// Fault of the audit log, if any.
    pub audit_log: Option<String>,
    /// The files that are hit.
    #[serde(flatten)]
    pub damaged: Damaged,
}
