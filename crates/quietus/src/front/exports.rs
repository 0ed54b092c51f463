//! The disks that the server offers.

use crate::engine::export::Export;
use std::sync::{Arc, PoisonError, RwLock};

/// A list of disks under their names, the first also as the default. It may be
/// exchanged at any time; connections keep the disk that they began with.
#[derive(Clone, Default)]
pub struct Exports(Arc<RwLock<Disks>>);

/// Disks, shared by their readers.
pub type Disks = Arc<[Arc<dyn Export>]>;

impl Exports {
    /// Offers `exports`.
    #[must_use]
    pub fn new(exports: Vec<Arc<dyn Export>>) -> Self {
        Self(Arc::new(RwLock::new(exports.into())))
    }

    /// Offers `exports` from now on, and no others.
    pub fn set(&self, exports: Vec<Arc<dyn Export>>) {
        *self.0.write().unwrap_or_else(PoisonError::into_inner) = exports.into();
    }

    /// The disks on offer.
    #[must_use]
    pub fn all(&self) -> Disks {
        self.0.read().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// The disk called `name`, the first if `name` is empty; or the disk `DISK` at an epoch, called `DISK@EPOCH`.
    ///
    /// # Errors
    /// The export does not exist: why, in words.
    pub fn find(&self, name: &str) -> Result<Arc<dyn Export>, String> {
        let all = self.all();
        let named = |name: &str| all.iter().find(|export| name.is_empty() || export.info().name == name);
        let past = || {
            let (disk, at) = name.rsplit_once('@')?;
            named(disk)?.past(at)
        };
        match named(name) {
            Some(export) => Ok(Arc::clone(export)),
            None => past().unwrap_or_else(|| Err("no such export".into())),
        }
    }
}
