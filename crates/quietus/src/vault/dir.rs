//! The directory of a vault: `vault.toml`, `catalog`, `pool`, `secret`, the signing key, the audit log. Format:
//! `docs/formats/vault.md`.

use super::{Error, Step, now_ms};
use crate::directory::{
    Access, Directory, DirectoryError, DirectoryErrorKind, Draft, Plan, lock_storage, make_key, sync_dir,
    write_new,
};
use crate::host::{DiskGuarantees, Part, inspect_disk};
use crate::media::{FileMedium, Shadow};
use quietus_core::medium::Medium;
use quietus_core::policy::{Policy, Scratch, Seed};
use quietus_core::units::{Extent, Pos};
use quietus_vault::catalog::{Layout, SLOTS_MAX};
use quietus_vault::chunk::{CHUNK_BYTES_MAX, Compression, KEY_BYTES, VaultKey};
use quietus_vault::container::SLOT_BYTES;
use quietus_vault::vault::Setup;
use quietus_vault::{Vault, VaultId};
use serde::{Deserialize, Serialize};
use std::fs::File;
use std::io;
use std::path::{Path, PathBuf};
use uuid::Uuid;
use zeroize::Zeroizing;

const TOML_FILE: &str = "vault.toml";
const CATALOG_FILE: &str = "catalog";
const POOL_FILE: &str = "pool";
const SECRET_FILE: &str = "secret";
const PLAN: Plan = Plan {
    ending: "new",
    files: &[TOML_FILE, CATALOG_FILE, POOL_FILE, SECRET_FILE, "key", "key.pub", "lock", "audit.jsonl"],
    maker: "another `quietus vault init`",
};
const VERSION: u32 = 2;
/// The largest pool, unless it is asked for otherwise: a file that grows takes no space before it has to.
const POOL_BYTES: u64 = 1 << 40;
/// Least bytes of a half of the catalog's log.
const HALF_BYTES_MIN: u64 = 4 << 20;
/// Bytes of a half of the log for each slot: the list of the index's slots has to fit.
const HALF_BYTES_A_SLOT: u64 = 16;
const HALF_BYTES_MAX: u64 = 1 << 30;
const PAGE_BYTES: u64 = 4096;
/// Least bytes of a container: the longest chunk, its entry and the head.
pub(crate) const CONTAINER_BYTES_MIN: u64 = CHUNK_BYTES_MAX as u64 + 2 * PAGE_BYTES;
/// Bytes behind the last container that are overwritten at once.
const REST_BYTES: u64 = 1 << 20;
/// Slots with which a vault can be sanitized, and hold something.
const SLOTS_MIN: u64 = 8;
/// Entries of the index in memory: some 20 MB.
const RECENT_ENTRIES_MAX: usize = 1 << 18;

/// The options of `vault init`.
#[derive(Clone, Debug)]
pub struct CreateVault {
    /// A block device, whose content is destroyed, or a file to make; none for `pool` in the directory.
    pub medium: Option<PathBuf>,
    /// Largest size of the pool; none for the device's, or 1 TiB.
    pub size: Option<u64>,
    /// Bytes of a container; none for 4.5 MiB.
    pub container: Option<u64>,
    /// How content is destroyed.
    pub policy: String,
    /// How chunks are compressed.
    pub compress: Codec,
}

/// How chunks are compressed.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize, clap::ValueEnum)]
#[serde(rename_all = "lowercase")]
pub enum Codec {
    /// LZ4: fast.
    Lz4,
    /// Zstandard, level 3: smaller.
    Zstd,
    /// As they are.
    None,
}

impl From<Codec> for Compression {
    fn from(codec: Codec) -> Self {
        match codec {
            Codec::Lz4 => Self::Lz4,
            Codec::Zstd => Self::Zstd,
            Codec::None => Self::None,
        }
    }
}

/// The file `vault.toml`.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct VaultToml {
    /// Version of the directory.
    pub version: u32,
    /// Identity of the vault.
    pub uuid: Uuid,
    /// When the vault was made, in milliseconds since 1970.
    pub created_ms: u64,
    /// Path of the pool, from the directory on.
    pub medium: PathBuf,
    /// How content is destroyed.
    pub policy: String,
    /// How chunks are compressed from now on.
    pub compress: Codec,
}

/// The catalog of a vault that is open.
#[derive(Debug)]
enum Catalog {
    Written(FileMedium),
    /// To open a vault is to write to its catalog, also where that can only be read.
    Read(Shadow),
}

/// A vault's directory that is open.
#[derive(Debug)]
pub struct VaultDir {
    directory: Directory,
    home: Home,
    policy: Policy,
    catalog: Catalog,
    pool: FileMedium,
    _lock: Option<File>,
}

/// Makes the directory `path` with an empty vault. Nothing is left behind if that fails, but for a device that was already
/// overwritten in part.
///
/// # Errors
/// [`Error`].
pub fn create(path: &Path, options: &CreateVault, step: Step<'_>) -> Result<VaultToml, Error> {
    let policy = parse_policy(&options.policy)?;
    let mut draft = Draft::begin(path, PLAN)?;
    let medium = options.medium.clone().unwrap_or(POOL_FILE.into());
    let medium = if medium.is_absolute() || options.medium.is_none() {
        medium
    } else {
        std::path::absolute(&medium).map_err(|error| Error::io("find the medium", &medium, error))?
    };
    let toml = VaultToml {
        version: VERSION,
        uuid: Uuid::new_v4(),
        created_ms: now_ms(),
        medium,
        policy: options.policy.clone(),
        compress: options.compress,
    };
    build(&mut draft, &toml, policy, options, step)?;
    draft.keep(path)?;
    Ok(toml)
}

fn parse_policy(text: &str) -> Result<Policy, Error> {
    let policy: Policy = text.parse().map_err(|error| Error::Invalid(format!("--policy: {error}")))?;
    if policy.passes().is_empty() {
        let what = "--policy none destroys nothing, and a vault has to; use clear, purge-2, 4, 6, dod-3, gutmann-35, or a list";
        return Err(Error::Invalid(what.into()));
    }
    Ok(policy)
}

/// Makes all of a vault in an empty directory.
fn build(
    draft: &mut Draft,
    toml: &VaultToml,
    policy: Policy,
    options: &CreateVault,
    step: Step<'_>,
) -> Result<(), Error> {
    let device = std::fs::metadata(draft.dir().join(&toml.medium)).ok();
    let (layout, size, _lock) = match &device {
        Some(about) if about.is_file() => {
            let what = "--medium names a file that already exists; name one to make, or remove it";
            return Err(Error::Invalid(format!("{}: {what}", toml.medium.display())));
        }
        Some(_) => {
            let lock = lock_storage(&toml.medium, Access::ReadWrite)?;
            let there = open_medium(&toml.medium)?.size();
            let size = options.size.unwrap_or(there);
            if size > there {
                let what = format!("--size is {size} bytes, and the device has {there}; leave it out");
                return Err(Error::Invalid(what));
            }
            (layout(toml, options, size)?, size, lock)
        }
        None => {
            let size = options.size.unwrap_or(POOL_BYTES);
            (layout(toml, options, size)?, size, None)
        }
    };
    let failed = |what| move |error| Error::io(what, draft_path(toml), error);
    if device.is_none() {
        draft.make_file(&toml.medium, layout.pool_bytes()).map_err(failed("make the pool"))?;
    }
    draft.make_file(Path::new(CATALOG_FILE), layout.bytes()).map_err(failed("make the catalog"))?;
    let mut secret = Zeroizing::new([0; KEY_BYTES]);
    getrandom::fill(&mut *secret).map_err(|error| failed("draw a key")(error.into()))?;
    let dir = draft.dir();
    write_new(dir, SECRET_FILE, &*secret).map_err(failed("make the file secret"))?;
    make_key(dir).map_err(failed("make the key"))?;
    let catalog = open_medium(&dir.join(CATALOG_FILE))?;
    let pool = open_medium(&dir.join(&toml.medium))?;
    catalog.reserve(Extent::new(0, layout.bytes()))?;
    let setup = setup(VaultKey::new(&secret), policy.clone())?;
    let mut vault = Vault::create(&catalog, &pool, layout, setup)?;
    if device.is_some() {
        vault.condemn_free()?;
        destroy_condemned(&mut vault, step)?;
        destroy_rest(&pool, Extent::between(layout.pool_bytes(), size), &policy, step)?;
    }
    write_new(dir, TOML_FILE, toml.to_text().as_bytes()).map_err(failed("write vault.toml"))?;
    sync_dir(dir).map_err(failed("sync the directory"))
}

fn draft_path(toml: &VaultToml) -> &Path {
    &toml.medium
}

/// Destroys all that is condemned.
fn destroy_condemned(vault: &mut Vault<'_>, step: Step<'_>) -> Result<(), Error> {
    let all = vault.status().condemned as u64;
    while !vault.destroy_some()? {
        let done = all - vault.status().condemned as u64;
        let bytes = u64::from(vault.layout().slot_bytes);
        if !step(done * bytes, all * bytes) {
            return Err(Error::Interrupted);
        }
    }
    Ok(())
}

/// Destroys what lies on a device behind the last container: less than one, unless the device is larger than any vault.
fn destroy_rest(pool: &FileMedium, rest: Extent<Pos>, policy: &Policy, step: Step<'_>) -> Result<(), Error> {
    let mut scratch = Scratch::default();
    let mut seed = Seed { entropy: entropy()?, nonce: 0 };
    for pattern in policy.passes() {
        for piece in rest.pieces(REST_BYTES) {
            seed.nonce += 1;
            pool.overwrite(piece.start, scratch.pass(pattern, seed, piece.len as usize))?;
            if !step(piece.end() - rest.start.0, rest.len) {
                return Err(Error::Interrupted);
            }
        }
        pool.sync()?;
    }
    Ok(())
}

/// The sizes of a vault whose pool has at most `size` bytes.
fn layout(toml: &VaultToml, options: &CreateVault, size: u64) -> Result<Layout, Error> {
    let container = options.container.unwrap_or(SLOT_BYTES as u64);
    if !(CONTAINER_BYTES_MIN..=SLOT_BYTES as u64).contains(&container)
        || !container.is_multiple_of(PAGE_BYTES)
    {
        return Err(Error::Invalid(format!(
            "--container is {container} bytes; use a multiple of 4K, 72K to 4.5M"
        )));
    }
    let slots = (size / container).min(u64::from(SLOTS_MAX));
    if slots < SLOTS_MIN {
        let least = SLOTS_MIN * container;
        return Err(Error::Invalid(format!("--size is {size} bytes, and a vault has {least} at least")));
    }
    let half_bytes = (HALF_BYTES_MIN + slots * HALF_BYTES_A_SLOT).next_multiple_of(PAGE_BYTES);
    Ok(Layout {
        vault: VaultId(*toml.uuid.as_bytes()),
        slots: slots as u32,
        slot_bytes: container as u32,
        half_bytes: half_bytes.min(HALF_BYTES_MAX),
    })
}

fn open_medium(path: &Path) -> Result<FileMedium, Error> {
    FileMedium::open(path, false).map_err(|error| Error::io("open it", path, error))
}

fn setup(key: VaultKey, policy: Policy) -> Result<Setup, Error> {
    Ok(Setup { key, policy, recent_entries_max: RECENT_ENTRIES_MAX, entropy: entropy()? })
}

fn entropy() -> Result<[u8; 32], Error> {
    let mut entropy = [0; 32];
    getrandom::fill(&mut entropy)
        .map_err(|error| Error::Invalid(format!("cannot draw random bytes: {error}")))?;
    Ok(entropy)
}

impl VaultToml {
    /// The text of the file.
    pub fn to_text(&self) -> String {
        toml::to_string(self).expect("vault.toml is plain data")
    }

    fn read(path: &Path) -> Result<Self, Error> {
        let path = path.join(TOML_FILE);
        let text = std::fs::read_to_string(&path).map_err(|error| match error.kind() {
            io::ErrorKind::NotFound => Error::Directory(DirectoryErrorKind::Missing("the file").at(&path)),
            _ => Error::io("read it", &path, error),
        })?;
        let toml: Self = toml::from_str(&text)
            .map_err(|error| Error::Invalid(format!("{}: {}", path.display(), error.message())))?;
        match toml.version {
            VERSION => Ok(toml),
            other => Err(Error::Invalid(format!(
                "{}: version {other} is unknown to this program, which reads version {VERSION}; use a newer program",
                path.display()
            ))),
        }
    }
}

impl VaultDir {
    /// Opens the directory at `path`, for this process alone; or to be read, where the host lets nobody, or not this user, write.
    ///
    /// # Errors
    /// [`Error`]: another process has the vault, or a file is missing or damaged.
    pub fn open(path: &Path) -> Result<Self, Error> {
        // A directory of something else gets no lock file.
        VaultToml::read(path)?;
        match Self::open_for(path, Access::ReadWrite) {
            Err(error) if error.is_of_rights() => Self::open_for(path, Access::ReadOnly),
            opened => opened,
        }
    }

    fn open_for(path: &Path, access: Access) -> Result<Self, Error> {
        let directory = Directory::open(path, access)?;
        let home = Home::open(path)?;
        let policy = parse_policy(&home.toml.policy)?;
        let pool_path = home.pool_path();
        let lock = lock_storage(&pool_path, access)?;
        let read_only = access == Access::ReadOnly;
        let open = |path: &Path| {
            FileMedium::open(path, read_only).map_err(|error| Error::io("open it", path, error))
        };
        let (catalog, pool) = (open(&directory.file(CATALOG_FILE))?, open(&pool_path)?);
        let catalog = if read_only { Catalog::Read(Shadow::new(catalog)) } else { Catalog::Written(catalog) };
        Ok(Self { directory, home, policy, catalog, pool, _lock: lock })
    }

    /// Whether the vault can only be read: what it writes to its catalog is gone when it is closed.
    pub fn is_read_only(&self) -> bool {
        matches!(self.catalog, Catalog::Read(_))
    }

    /// Refuses what has to write.
    ///
    /// # Errors
    /// [`Error::Invalid`] if the vault can only be read.
    pub fn guard_write(&self) -> Result<(), Error> {
        if !self.is_read_only() {
            return Ok(());
        }
        let what = "the vault can only be read here; mount its file system to be written, or use a user who may write there";
        Err(Error::Invalid(format!("{}: {what}", self.home.path.display())))
    }

    /// Opens the vault.
    ///
    /// # Errors
    /// [`Error`].
    pub fn vault(&self) -> Result<Vault<'_>, Error> {
        let catalog: &dyn Medium = match &self.catalog {
            Catalog::Written(medium) => medium,
            Catalog::Read(shadow) => shadow,
        };
        let vault = Vault::open(catalog, &self.pool, setup(self.home.key.clone(), self.policy.clone())?)?;
        let own = VaultId(*self.home.toml.uuid.as_bytes());
        if vault.layout().vault != own || self.pool.size() < vault.layout().pool_bytes() {
            let path = self.directory.file(CATALOG_FILE);
            let what = "the catalog is another vault's, or the pool is too short; restore both from one copy";
            return Err(Error::Invalid(format!("{}: {what}", path.display())));
        }
        Ok(vault)
    }

    /// The directory.
    pub fn directory(&self) -> &Directory {
        &self.directory
    }

    /// What others read of it, too.
    pub fn home(&self) -> &Home {
        &self.home
    }

    /// The medium of containers.
    pub fn pool(&self) -> &FileMedium {
        &self.pool
    }
}

/// What every process that uses a vault reads of its directory, whichever has the vault open.
#[derive(Clone, Debug)]
pub struct Home {
    path: PathBuf,
    toml: VaultToml,
    key: VaultKey,
}

impl Home {
    /// Reads what is in the directory at `path`.
    ///
    /// # Errors
    /// [`Error`]: a file is missing or damaged.
    pub fn open(path: &Path) -> Result<Self, Error> {
        Ok(Self { path: path.into(), toml: VaultToml::read(path)?, key: read_secret(path)? })
    }

    /// The directory.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// The content of `vault.toml`.
    pub fn toml(&self) -> &VaultToml {
        &self.toml
    }

    /// The key that cuts and names chunks.
    pub fn key(&self) -> &VaultKey {
        &self.key
    }

    /// Path of the pool.
    pub fn pool_path(&self) -> PathBuf {
        self.path.join(&self.toml.medium)
    }

    /// The host's guarantee for the pool, where all content lies.
    pub fn guarantees(&self) -> DiskGuarantees {
        inspect_disk([(Part::Medium, self.pool_path())])
    }
}

fn read_secret(path: &Path) -> Result<VaultKey, DirectoryError> {
    let path = path.join(SECRET_FILE);
    let bytes = std::fs::read(&path)
        .map_err(|error| DirectoryErrorKind::Missing("the file").of(&path, error))
        .map(Zeroizing::new)?;
    let secret: &[u8; KEY_BYTES] = bytes
        .as_slice()
        .try_into()
        .map_err(|_| DirectoryErrorKind::Damaged("the length is not 32 bytes").at(&path))?;
    Ok(VaultKey::new(secret))
}
