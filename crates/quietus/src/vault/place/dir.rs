//! The directory of a vault: `vault.toml`, `catalog`, `pool`, `secret`, the signing key, the audit log. Format:
//! `docs/formats/vault.md`.

use crate::base::rfc3339::now_ms;
use crate::host::directory::{
    Access, Directory, Draft, Plan, lock_storage, make_key, parent_of, sync_dir, write_new,
};
use crate::host::guarantees::{DiskGuarantees, Holds, Part, inspect_disk};
use crate::host::media::{FileMedium, Shadow};
use crate::host::paths;
use crate::vault::place::settings::{Codec, SECRET_FILE, TOML_FILE, VERSION, VaultToml};
use crate::vault::{Error, Step};
use quietus_core::base::units::{Extent, Pos};
use quietus_core::erase::policy::{Policy, Scratch, Seed};
use quietus_core::media::medium::Medium;
use quietus_vault::Vault;
use quietus_vault::catalog::SLOTS_MAX;
use quietus_vault::chunk::{CHUNK_BYTES_MAX, KEY_BYTES, VaultKey};
use quietus_vault::container::SLOT_BYTES;
use quietus_vault::vault::Setup;
use std::fs::File;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use uuid::Uuid;
use zeroize::Zeroizing;

pub(in super::super) const CATALOG_FILE: &str = "catalog";
const POOL_FILE: &str = "pool";
const PLAN: Plan = Plan {
    ending: "new",
    files: &[TOML_FILE, CATALOG_FILE, POOL_FILE, SECRET_FILE, "key", "key.pub", "lock", "audit.jsonl"],
    maker: "another `quietus vault init`",
};
/// The largest pool, unless it is asked for otherwise: a file that grows takes no space before it has to.
const POOL_BYTES: u64 = 1 << 40;
/// Containers have a multiple of this.
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
    /// A block device, whose content is destroyed, or a file to make; `None` for `pool` in the directory.
    pub medium: Option<PathBuf>,
    /// Largest size of the pool; `None` for the device's, or 1 TiB.
    pub size: Option<u64>,
    /// Bytes of a container; `None` for 4.5 MiB.
    pub container: Option<u64>,
    /// How content is destroyed.
    pub policy: String,
    /// How chunks are compressed.
    pub compress: Codec,
}

impl CreateVault {
    /// The block devices whose content the making of a vault at `path` would destroy. Nothing is made.
    ///
    /// # Errors
    /// [`Error`]: a path is not what it has to be.
    pub fn devices(&self, path: &Path) -> Result<Vec<PathBuf>, Error> {
        paths::check_new(path)?;
        let Some(medium) = &self.medium else { return Ok(Vec::new()) };
        let found = paths::check_new_medium("vault init --medium", medium, parent_of(path))?;
        Ok(Some(medium.clone()).filter(|_| found == paths::Kind::BlockDevice).into_iter().collect())
    }
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
pub fn create(path: &Path, options: &CreateVault, step: Step<'_>) -> Result<VaultToml, Error> {
    let policy = parse_policy(&options.policy)?;
    options.devices(path)?;
    let mut draft = Draft::begin(path, PLAN)?;
    let medium = options.medium.clone().unwrap_or(POOL_FILE.into());
    let medium = if medium.is_absolute() || options.medium.is_none() {
        medium
    } else {
        std::path::absolute(&medium).map_err(|error| Error::io("find the medium", &medium, error))?
    };
    if medium.to_str().is_none() {
        let what =
            "--medium names a path that is not UTF-8 text, which vault.toml cannot hold; name another path";
        return Err(Error::Invalid(format!("{}: {what}", medium.display())));
    }
    let toml = VaultToml {
        version: VERSION,
        uuid: Uuid::new_v4(),
        created_ms: now_ms(),
        medium,
        policy: options.policy.clone(),
        compress: options.compress,
        container_bytes: options.container.unwrap_or(SLOT_BYTES as u64) as u32,
        slots: 0,
    };
    let toml = build(&mut draft, toml, policy, options, step)?;
    draft.keep(path)?;
    Ok(toml)
}

pub(in super::super) fn parse_policy(text: &str) -> Result<Policy, Error> {
    let policy: Policy = text.parse().map_err(|error| Error::Usage(format!("--policy: {error}")))?;
    if policy.passes().is_empty() {
        let what = "--policy none destroys nothing, and cannot be a vault's; use clear, purge-2, 4, 6, dod-3, gutmann-35, or a list";
        return Err(Error::Usage(what.into()));
    }
    Ok(policy)
}

/// Makes all of a vault in an empty directory.
fn build(
    draft: &mut Draft,
    mut toml: VaultToml,
    policy: Policy,
    options: &CreateVault,
    step: Step<'_>,
) -> Result<VaultToml, Error> {
    let device = std::fs::metadata(draft.dir().join(&toml.medium)).ok();
    let (slots, size, _lock) = match &device {
        Some(_) => {
            let lock = lock_storage(&toml.medium, Access::ReadWrite)?;
            let there = open_medium(&toml.medium, false)?.size();
            let size = options.size.unwrap_or(there);
            if size > there {
                let what = format!("--size is {size} bytes, and the device has {there}; leave it out");
                return Err(Error::Invalid(what));
            }
            (slots(options, size)?, size, lock)
        }
        None => {
            let size = options.size.unwrap_or(POOL_BYTES);
            (slots(options, size)?, size, None)
        }
    };
    toml.slots = slots;
    let (layout, medium) = (toml.layout(), toml.medium.clone());
    let failed = |what| {
        let medium = &medium;
        move |error| Error::io(what, medium, error)
    };
    if device.is_none() {
        draft.make_file(&medium, layout.pool_bytes()).map_err(failed("make the pool"))?;
    }
    draft.make_file(Path::new(CATALOG_FILE), layout.bytes()).map_err(failed("make the catalog"))?;
    let mut secret = Zeroizing::new([0; KEY_BYTES]);
    getrandom::fill(&mut *secret).map_err(|error| failed("draw a key")(error.into()))?;
    let dir = draft.dir();
    write_new(dir, SECRET_FILE, &*secret).map_err(failed("make the file secret"))?;
    make_key(dir).map_err(failed("make the key"))?;
    let catalog = open_medium(&dir.join(CATALOG_FILE), false)?;
    let pool = open_medium(&dir.join(&medium), false)?;
    catalog.reserve(Extent::new(0, layout.bytes()))?;
    let key = VaultKey::new(&secret);
    let text = toml.to_text(&key);
    let setup = setup(key, policy.clone())?;
    let mut vault = Vault::create(&catalog, &pool, layout, setup)?;
    if device.is_some() {
        vault.condemn_free()?;
        destroy_condemned(&mut vault, step)?;
        destroy_rest(&pool, Extent::between(layout.pool_bytes(), size), &policy, step)?;
    }
    write_new(dir, TOML_FILE, text.as_bytes()).map_err(failed("write vault.toml"))?;
    sync_dir(dir).map_err(failed("sync the directory"))?;
    Ok(toml)
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

/// The containers of a vault whose pool has at most `size` bytes.
fn slots(options: &CreateVault, size: u64) -> Result<u32, Error> {
    let container = options.container.unwrap_or(SLOT_BYTES as u64);
    if !(CONTAINER_BYTES_MIN..=SLOT_BYTES as u64).contains(&container)
        || !container.is_multiple_of(PAGE_BYTES)
    {
        return Err(Error::Usage(format!(
            "--container is {container} bytes; use a multiple of 4K, 72K to 4.5M"
        )));
    }
    let slots = (size / container).min(u64::from(SLOTS_MAX));
    if slots < SLOTS_MIN {
        let least = SLOTS_MIN * container;
        return Err(Error::Usage(format!("--size is {size} bytes, and a vault has {least} at least")));
    }
    Ok(slots as u32)
}

fn open_catalog(path: &Path, read_only: bool) -> Result<FileMedium, Error> {
    match path.try_exists() {
        Ok(false) => {
            let what =
                "the file is missing; run `quietus vault repair`, which rebuilds the file from the pool";
            Err(Error::Invalid(format!("{}: {what}", path.display())))
        }
        _ => open_medium(path, read_only),
    }
}

pub(in super::super) fn open_medium(path: &Path, read_only: bool) -> Result<FileMedium, Error> {
    FileMedium::open(path, read_only).map_err(|error| Error::io("open it", path, error))
}

pub(in super::super) fn setup(key: VaultKey, policy: Policy) -> Result<Setup, Error> {
    Ok(Setup { key, policy, recent_entries_max: RECENT_ENTRIES_MAX, entropy: entropy()? })
}

fn entropy() -> Result<[u8; 32], Error> {
    let mut entropy = [0; 32];
    getrandom::fill(&mut entropy)
        .map_err(|error| Error::Invalid(format!("cannot draw random bytes: {error}")))?;
    Ok(entropy)
}

impl VaultDir {
    /// Opens the directory at `path`, for this process alone; or to be read, where this user may not write, or the medium is read-only.
    ///
    /// # Errors
    /// [`Error`]: another process has the vault, or a file is missing or damaged.
    pub fn open(path: &Path) -> Result<Self, Error> {
        match Self::open_for(path, Access::ReadWrite) {
            Err(error) if error.is_of_rights() => Self::open_for(path, Access::ReadOnly),
            opened => opened,
        }
    }

    /// Opens the directory at `path` to be read only, or also to be written.
    ///
    /// # Errors
    /// See [`VaultDir::open`].
    pub fn open_for(path: &Path, access: Access) -> Result<Self, Error> {
        // A directory of something else gets no lock file.
        VaultToml::read(path)?;
        let directory = Directory::open(path, access)?;
        let home = Home::open(path)?;
        let policy = parse_policy(&home.toml.policy)?;
        let pool_path = home.pool_path();
        let lock = lock_storage(&pool_path, access)?;
        let read_only = access == Access::ReadOnly;
        let catalog = open_catalog(&directory.file(CATALOG_FILE), read_only)?;
        let pool = open_medium(&pool_path, read_only)?;
        let catalog = match read_only {
            true => Catalog::Read(Shadow::new(Arc::new(catalog))),
            false => Catalog::Written(catalog),
        };
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
        let what = "the vault is read-only here; mount its file system read-write, or run the command as a user with permission to write";
        Err(Error::Invalid(format!("{}: {what}", self.home.path.display())))
    }

    /// Opens the vault.
    pub fn vault(&self) -> Result<Vault<'_>, Error> {
        let catalog: &dyn Medium = match &self.catalog {
            Catalog::Written(medium) => medium,
            Catalog::Read(shadow) => shadow,
        };
        let layout = self.home.toml.layout();
        if self.pool.size() < layout.pool_bytes() {
            let (path, has, needs) = (self.home.pool_path(), self.pool.size(), layout.pool_bytes());
            let what =
                format!("the pool has {has} bytes, and {needs} by vault.toml; put the whole file back");
            return Err(Error::Invalid(format!("{}: {what}", path.display())));
        }
        let setup = setup(self.home.key.clone(), self.policy.clone())?;
        Ok(Vault::open(catalog, &self.pool, layout, setup)?)
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

/// The parts of a vault's directory that every process reads which uses the vault.
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
        let (toml, key) = VaultToml::read_with_key(path)?;
        Ok(Self { path: path.into(), toml, key })
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
        inspect_disk([(Part::Medium, Holds::Content, self.pool_path())])
    }
}
