//! Asks the host what lies below a file or block device.

use super::device::{self, DeviceNumber, Found};
use super::{Facts, FileFacts, Layer, at, extents, file_system, real};
use rustix::fs::{FileType, Stat};
use std::collections::HashSet;
use std::io;
use std::path::{Path, PathBuf};

/// Most layers that are followed; deeper ones are not known.
const LAYERS_MAX: usize = 64;

/// Folders in which the host shows itself; others in tests.
#[derive(Clone, Debug)]
pub struct Roots {
    /// Devices, as `/sys`.
    pub sys: PathBuf,
    /// Mounts and the machine, as `/proc`.
    pub proc: PathBuf,
}

impl Default for Roots {
    fn default() -> Self {
        Self { sys: "/sys".into(), proc: "/proc".into() }
    }
}

/// A layer that is still to be examined.
enum Next {
    File(PathBuf),
    Device(PathBuf),
}

/// Finds out what lies below the file or block device at `path`.
///
/// # Errors
/// Errors of the system, if `path` cannot be examined.
pub fn gather(roots: &Roots, path: &Path) -> io::Result<Facts> {
    let stat = rustix::fs::stat(path)?;
    let mut walk = Walk::new(roots, path);
    match FileType::from_raw_mode(stat.st_mode) {
        FileType::BlockDevice => walk.enter(stat.st_rdev.into()),
        _ => walk.next.push(Next::File(real(path))),
    }
    walk.run();
    Ok(walk.facts)
}

/// Finds out what lies below the block device of that number.
#[cfg(test)]
pub(super) fn gather_device(roots: &Roots, number: DeviceNumber) -> Facts {
    let mut walk = Walk::new(roots, Path::new(&format!("{}:{}", number.major, number.minor)));
    walk.enter(number);
    walk.run();
    walk.facts
}

struct Walk<'a> {
    roots: &'a Roots,
    facts: Facts,
    next: Vec<Next>,
    seen: HashSet<PathBuf>,
}

impl<'a> Walk<'a> {
    fn new(roots: &'a Roots, path: &Path) -> Self {
        let facts = Facts {
            path: path.into(),
            virtual_machine: is_virtual_machine(roots),
            swap: has_swap(roots),
            ..Facts::default()
        };
        Self { roots, facts, next: Vec::new(), seen: HashSet::new() }
    }

    fn run(&mut self) {
        while let Some(next) = self.next.pop() {
            if self.facts.layers.len() >= LAYERS_MAX {
                return self.unknown(format!("more than {LAYERS_MAX} layers of devices and files"));
            }
            match next {
                Next::File(path) => self.file(&path),
                Next::Device(path) => self.device(&path),
            }
        }
    }

    fn unknown(&mut self, what: String) {
        self.facts.unknown.push(what);
    }

    fn enter(&mut self, number: DeviceNumber) {
        match device::folder(&self.roots.sys, number) {
            Ok(folder) => self.next.push(Next::Device(folder)),
            Err(error) => {
                self.unknown(format!("cannot inspect device {}:{}: {error}", number.major, number.minor))
            }
        }
    }

    fn device(&mut self, folder: &Path) {
        if !self.seen.insert(folder.into()) {
            return;
        }
        let Found { facts, below, backing_file, unknown } = device::look(folder);
        self.facts.layers.push(Layer::Device(facts));
        self.facts.unknown.extend(unknown);
        // The last pushed is the next seen.
        self.next.extend(below.into_iter().rev().map(Next::Device));
        if let Some(path) = backing_file {
            self.backing(path);
        }
    }

    /// A loop device lies on a file, or on a block device.
    fn backing(&mut self, path: PathBuf) {
        match rustix::fs::stat(&path) {
            Ok(stat) if FileType::from_raw_mode(stat.st_mode) == FileType::BlockDevice => {
                self.enter(stat.st_rdev.into());
            }
            Ok(_) => self.next.push(Next::File(path)),
            Err(error) => self.unknown(at("the file below a loop device", &path, io::Error::from(error))),
        }
    }

    fn file(&mut self, path: &Path) {
        if !self.seen.insert(path.into()) {
            return;
        }
        match rustix::fs::stat(path) {
            Ok(stat) => self.file_at(path, &stat),
            Err(error) => self.unknown(at("the state", path, io::Error::from(error))),
        }
    }

    fn file_at(&mut self, path: &Path, stat: &Stat) {
        let mut file = FileFacts { path: path.into(), ..FileFacts::default() };
        if let Err(error) = file_system::describe(&self.roots.proc, path, &mut file) {
            self.unknown(at("the file system", path, error));
        }
        if let Err(error) = extents::describe(path, &mut file) {
            self.unknown(at("the layout", path, error));
        }
        let below = device_below(stat, &file);
        self.facts.layers.push(Layer::File(file));
        if let Some(number) = below {
            self.enter(number);
        }
    }
}

/// The device of a file system. Some, as btrfs, give their files the number of no device; the
/// source of the mount tells then.
fn device_below(stat: &Stat, file: &FileFacts) -> Option<DeviceNumber> {
    let number = DeviceNumber::from(stat.st_dev);
    if number.major != 0 {
        return Some(number);
    }
    let source = file.source.as_deref().filter(|source| source.starts_with("/dev/"))?;
    rustix::fs::stat(source).ok().map(|stat| stat.st_rdev.into())
}

/// Hypervisors set a flag in what they show of the processor.
fn is_virtual_machine(roots: &Roots) -> bool {
    let processor = std::fs::read_to_string(roots.proc.join("cpuinfo")).unwrap_or_default();
    let flags = processor.lines().find(|line| line.starts_with("flags")).unwrap_or_default();
    flags.split_whitespace().any(|flag| flag == "hypervisor")
}

/// Whether memory can be swapped out. Swap in compressed memory is memory.
#[must_use]
pub fn has_swap(roots: &Roots) -> bool {
    let swaps = std::fs::read_to_string(roots.proc.join("swaps")).unwrap_or_default();
    swaps.lines().skip(1).any(|line| !line.starts_with("/dev/zram"))
}
