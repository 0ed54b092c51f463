//! Identity of a client.

use super::{Finding, kernel, text};
use crate::host::guarantees::Roots;
use std::path::Path;

/// A client, as its process was when it connected: the process may have handed its socket to the
/// kernel, and ended.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Peer {
    process: Option<u32>,
    program: Option<String>,
}

impl Peer {
    /// The client with the process of that number on this host; `None` for a client elsewhere.
    #[must_use]
    pub fn new(roots: &Roots, process: Option<u32>) -> Self {
        let program = process.and_then(|process| program(roots, process));
        Self { process, program }
    }

    /// Whether another look may find something else: a device of the kernel is mounted and
    /// opened at any time.
    pub(super) fn may_change(&self) -> bool {
        self.program.as_deref() == Some("nbd-client")
    }

    /// Whether a cache may be between the guest of this client and the disk.
    pub(super) fn look(&self, roots: &Roots) -> Finding {
        let Some(process) = self.process else {
            return Finding::cached("a client whose process is not known: over TCP, or on another host");
        };
        let Some(program) = &self.program else {
            return Finding::cached(format!("process {process} cannot be examined"));
        };
        let who = format!("{program} (process {process})");
        match program.as_str() {
            "nbd-client" => kernel::look(roots, process),
            "qemu-storage-daemon" if exports_vhost_user(roots, process) => {
                Finding::direct(format!("{who} exports by vhost-user only"))
            }
            name if name.starts_with("qemu-system-") || name == "qemu-kvm" => {
                Finding::direct(format!("QEMU's own client: {who}"))
            }
            _ => Finding::cached(format!("{who} is not known to be without a cache")),
        }
    }
}

/// The name of the program that `process` runs. (`comm` is cut off after 15 characters; the
/// path is readable for the same user and for root.)
fn program(roots: &Roots, process: u32) -> Option<String> {
    let dir = roots.proc.join(process.to_string());
    let path = std::fs::read_link(dir.join("exe")).ok();
    let name = path.as_deref().and_then(Path::file_name).map(|it| it.to_string_lossy().into_owned());
    let name = name.or_else(|| Some(text(&dir.join("comm"))?.trim_end().to_string()))?;
    // The program may have been replaced since.
    Some(name.strip_suffix(" (deleted)").unwrap_or(&name).to_string())
}

/// Whether the command line of a storage daemon names vhost-user exports, and no others. A daemon
/// that was told of its exports in another way is not known.
fn exports_vhost_user(roots: &Roots, process: u32) -> bool {
    let line = text(&roots.proc.join(process.to_string()).join("cmdline")).unwrap_or_default();
    let mut words = line.split('\0').peekable();
    let mut exports = Vec::new();
    while let Some(word) = words.next() {
        match word.strip_prefix("--export") {
            Some("") => exports.extend(words.peek().copied()),
            Some(rest) => exports.extend(rest.strip_prefix('=')),
            None => {}
        }
    }
    let by_vhost_user =
        |it: &&str| it.split(',').any(|word| matches!(word, "type=vhost-user-blk" | "vhost-user-blk"));
    !exports.is_empty() && exports.iter().all(by_vhost_user)
}
