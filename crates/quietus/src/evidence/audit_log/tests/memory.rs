//! A directory in memory, on a host that can be full and can crash.

use crate::evidence::audit_log::{Directory, LogFile};
use std::cell::{Cell, RefCell};
use std::collections::BTreeMap;
use std::io;
use std::rc::Rc;

type Bytes = Rc<RefCell<Vec<u8>>>;

/// See the module's documentation. Clones are the same directory.
#[derive(Clone, Default)]
pub(super) struct Memory {
    files: Rc<RefCell<BTreeMap<String, Bytes>>>,
    /// Bytes that the host still has room for; `None` for any number.
    pub(super) room: Rc<Cell<Option<u64>>>,
    /// Changes until the host dies, after which all fail; `None` while it lives.
    pub(super) fuse: Rc<Cell<Option<u64>>>,
    /// Cutting a file off fails.
    pub(super) keeps_torn: Rc<Cell<bool>>,
    /// Syncs fail.
    pub(super) refuses_sync: Rc<Cell<bool>>,
}

pub(super) struct MemoryFile {
    bytes: Bytes,
    host: Memory,
}

fn error(kind: io::ErrorKind) -> io::Error {
    io::Error::from(kind)
}

impl Memory {
    fn change(&self) -> io::Result<()> {
        match self.fuse.get() {
            Some(0) => Err(error(io::ErrorKind::BrokenPipe)),
            Some(left) => {
                self.fuse.set(Some(left - 1));
                Ok(())
            }
            None => Ok(()),
        }
    }

    pub(super) fn get(&self, name: &str) -> Vec<u8> {
        self.files.borrow()[name].borrow().clone()
    }

    pub(super) fn put(&self, name: &str, bytes: Vec<u8>) {
        self.files.borrow_mut().insert(name.into(), Rc::new(RefCell::new(bytes)));
    }

    pub(super) fn text(&self, name: &str) -> String {
        String::from_utf8(self.get(name)).expect("a log is text")
    }

    /// The same content, on a host of its own that is well.
    pub(super) fn copy(&self) -> Self {
        let copy = Self::default();
        self.files.borrow().iter().for_each(|(name, bytes)| copy.put(name, bytes.borrow().clone()));
        copy
    }

    pub(super) fn all_bytes(&self) -> usize {
        self.files.borrow().values().map(|bytes| bytes.borrow().len()).sum()
    }
}

impl Directory for Memory {
    type File = MemoryFile;

    fn names(&self) -> io::Result<Vec<String>> {
        Ok(self.files.borrow().keys().cloned().collect())
    }

    fn read(&self, name: &str) -> io::Result<MemoryFile> {
        let files = self.files.borrow();
        let bytes = files.get(name).ok_or_else(|| error(io::ErrorKind::NotFound))?;
        Ok(MemoryFile { bytes: Rc::clone(bytes), host: self.clone() })
    }

    fn write(&self, name: &str) -> io::Result<MemoryFile> {
        if !self.files.borrow().contains_key(name) {
            self.change()?;
            self.put(name, Vec::new());
        }
        self.read(name)
    }

    fn is_at(&self, file: &MemoryFile, name: &str) -> io::Result<bool> {
        Ok(self.files.borrow().get(name).is_some_and(|there| Rc::ptr_eq(there, &file.bytes)))
    }

    fn rename(&self, from: &str, to: &str) -> io::Result<()> {
        self.change()?;
        let mut files = self.files.borrow_mut();
        assert!(!files.contains_key(to), "{to} would be overwritten");
        let bytes = files.remove(from).ok_or_else(|| error(io::ErrorKind::NotFound))?;
        files.insert(to.into(), bytes);
        Ok(())
    }

    fn remove(&self, name: &str) -> io::Result<()> {
        self.change()?;
        self.files.borrow_mut().remove(name).map(drop).ok_or_else(|| error(io::ErrorKind::NotFound))
    }

    fn sync(&self) -> io::Result<()> {
        Ok(())
    }
}

impl LogFile for MemoryFile {
    fn bytes(&self) -> io::Result<u64> {
        Ok(self.bytes.borrow().len() as u64)
    }

    fn read_at(&self, at: u64, into: &mut [u8]) -> io::Result<usize> {
        let bytes = self.bytes.borrow();
        let from = &bytes[bytes.len().min(at as usize)..];
        let len = from.len().min(into.len());
        into[..len].copy_from_slice(&from[..len]);
        Ok(len)
    }

    /// Byte by byte, each of which is a change.
    fn append(&mut self, bytes: &[u8]) -> io::Result<()> {
        for byte in bytes {
            self.host.change()?;
            match self.host.room.get() {
                Some(0) => return Err(error(io::ErrorKind::StorageFull)),
                Some(room) => self.host.room.set(Some(room - 1)),
                None => {}
            }
            self.bytes.borrow_mut().push(*byte);
        }
        Ok(())
    }

    fn cut(&mut self, bytes: u64) -> io::Result<()> {
        if self.host.keeps_torn.get() {
            return Err(error(io::ErrorKind::PermissionDenied));
        }
        self.host.change()?;
        let before = self.bytes.borrow().len() as u64;
        self.bytes.borrow_mut().truncate(bytes as usize);
        self.host.room.set(self.host.room.get().map(|room| room + before - bytes));
        Ok(())
    }

    fn sync(&mut self) -> io::Result<()> {
        if self.host.refuses_sync.get() { Err(error(io::ErrorKind::Other)) } else { Ok(()) }
    }
}
